//! Cells: described, parsed, corrected, and found in a stream that begins anywhere.
#![no_main]

use barewire_formats::atm::delineation::{Delineator, Limits, Payloads};
use barewire_formats::atm::{Cell, HeaderRepr, Interface, describe, describe_nni, hec, oam};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    faults(|sink| describe(data, 0, sink));
    faults(|sink| describe_nni(data, 0, sink));
    if let Ok(mut cell) = Cell::new_checked(data.to_vec()) {
        let mut header = cell.header_bytes();
        let outcome = hec::Receiver::new().receive(&mut header);
        cell.set_header_bytes(header);
        for interface in [Interface::Uni, Interface::Nni] {
            let parsed = HeaderRepr::parse(&cell, interface);
            assert_eq!(parsed.is_ok(), outcome != hec::Outcome::Discarded);
            let before = cell.header_bytes();
            if let Ok(repr) = parsed {
                repr.emit(&mut cell, interface);
                assert_eq!(cell.header_bytes(), before);
            }
        }
        let mut payload = oam::Payload::new_unchecked(*cell.payload());
        payload.fill_crc();
        if let Ok(repr) = oam::OamRepr::parse(&payload) {
            let mut again = oam::Payload::new_unchecked([0; 48]);
            repr.emit(&mut again);
            assert_eq!(again, payload);
        }
    }
    let mut by_bytes = Delineator::new(Limits { alpha: 2, delta: 1 }, Payloads::Scrambled);
    let mut by_bits = by_bytes.clone();
    let mut rest = data;
    while by_bytes.next_cell(&mut rest).is_some() {}
    for i in 0..data.len() * 8 {
        by_bits.push_bit(data[i / 8] & 0x80 >> (i % 8) != 0);
    }
});
