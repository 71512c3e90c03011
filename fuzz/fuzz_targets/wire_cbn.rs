//! Any bytes as backbone frame, as cells of both rings, and as MSDL cell.
#![no_main]

use std::ops::Range;

use barewire_wire::Error;
use barewire_wire::cbn::cfr::{CfrCell, CfrRepr};
use barewire_wire::cbn::{Cell, Frame, FrameRepr, Msdl};
use barewire_wire::cbn::{describe, describe_cell, describe_msdl};
use barewire_wire::tree::{Sink, Value};
use libfuzzer_sys::fuzz_target;

struct Groups(usize);

impl Sink for Groups {
    fn open(&mut self, _: &str, _: Range<usize>) {
        self.0 += 1;
    }
    fn close(&mut self) {
        self.0 -= 1;
    }
    fn field(&mut self, _: &str, _: Range<usize>, _: Value<'_>) {}
    fn wrong(&mut self, _: Error) {}
}

fuzz_target!(|data: &[u8]| {
    for describe in [describe, describe_cell, describe_msdl] {
        let mut groups = Groups(0);
        describe(data, 0, &mut groups);
        assert_eq!(groups.0, 0);
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
