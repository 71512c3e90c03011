//! Any bytes as backbone frame, as cells of both rings, and as MSDL cell.
#![no_main]

use barewire_formats::cbn::cfr::{CfrCell, CfrRepr};
use barewire_formats::cbn::{Cell, Frame, FrameRepr, Msdl};
use barewire_formats::cbn::{describe, describe_cell, describe_cfr, describe_msdl};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for describe in [describe, describe_cell, describe_cfr, describe_msdl] {
        faults(|sink| describe(data, 0, sink));
    }
    let mut bytes = data.to_vec();
    if let Ok(mut frame) = Frame::new_checked(&mut bytes[..]) {
        if let Ok(repr) = FrameRepr::parse(&frame) {
            let length = FrameRepr::buffer_len();
            repr.emit(&mut frame);
            assert_eq!(frame.into_inner()[..length], data[..length]);
        }
    }
    if let Ok(cell) = Cell::new_checked(data) {
        let _ = Msdl::parse(&cell);
        let (cfr, sar) = CfrRepr::from_cbn(&cell);
        let mut back = Cell::new_unchecked([0; 36]);
        cfr.to_cbn(sar, &mut back);
        assert_eq!(back.into_inner()[..], data[..36]);
    }
    if let Ok(cell) = CfrCell::new_checked(data) {
        let _ = CfrRepr::parse(&cell);
    }
});
