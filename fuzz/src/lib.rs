//! What the fuzz targets share: a place to show a format to, which checks the walk itself.
#![forbid(unsafe_code)]

use core::ops::Range;

use barewire_wire::Error;
use barewire_wire::tree::{Sink, Value};

/// Counts faults, and checks that groups nest and that fields lie inside one.
#[derive(Default)]
struct Walk {
    open_groups: usize,
    faults: usize,
}

impl Sink for Walk {
    fn open(&mut self, _: &str, bits: Range<usize>) {
        assert!(bits.start <= bits.end);
        self.open_groups += 1;
    }

    fn close(&mut self) {
        self.open_groups = self.open_groups.checked_sub(1).expect("an open group");
    }

    fn field(&mut self, _: &str, bits: Range<usize>, _: Value<'_>) {
        assert!(self.open_groups > 0 && bits.start <= bits.end);
    }

    fn wrong(&mut self, _: Error) {
        assert!(self.open_groups > 0);
        self.faults += 1;
    }
}

/// Walks over a format with its `describe`; gives the number of faults that it told of.
pub fn faults(describe: impl FnOnce(&mut dyn Sink)) -> usize {
    let mut walk = Walk::default();
    describe(&mut walk);
    assert_eq!(walk.open_groups, 0, "groups left open");
    walk.faults
}
