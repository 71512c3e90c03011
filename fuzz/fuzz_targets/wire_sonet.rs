//! SONET: frames described and taken apart, good ones with anything done to them in between.
#![no_main]

use barewire_formats::atm::delineation::Limits;
use barewire_formats::sonet::{
    Deframer, Framer, PathOverhead, PathOverheadRepr, PointerChange, STS3C_FRAME_BYTES, describe,
};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    faults(|sink| describe(data, 0, sink));
    if let Ok(overhead) = PathOverhead::new_checked(data) {
        if let Ok(repr) = PathOverheadRepr::parse(&overhead) {
            assert_eq!(repr.to_bytes(), data[..repr.buffer_len()]);
        }
    }
    let mut framer = Framer::<STS3C_FRAME_BYTES>::new();
    let mut deframer = Deframer::<STS3C_FRAME_BYTES>::new(Limits::default());
    let mut frame = [0; STS3C_FRAME_BYTES];
    for piece in data.chunks(6) {
        let [op, low, high, rest @ ..] = piece else {
            break;
        };
        let number = u16::from_le_bytes([*low, *high]);
        framer.change_pointer(match op % 4 {
            0 => PointerChange::Increment,
            1 => PointerChange::Decrement,
            _ => PointerChange::Jump(number),
        });
        framer.emit(&mut frame, || (op & 4 != 0).then_some([*op; 53]));
        for (i, byte) in rest.iter().enumerate() {
            frame[(usize::from(number) + i * 270) % STS3C_FRAME_BYTES] ^= byte;
        }
        let sent = if op & 8 == 0 {
            &frame[..]
        } else {
            &frame[usize::from(*low)..]
        };
        deframer.push(sent, |_| ());
        framer.report(deframer.take_report());
        let _ = (deframer.alarms(), deframer.stats());
    }
    deframer.push(data, |_| ());
});
