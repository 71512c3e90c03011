//! For tests of both adaptation layers: what a format shows of itself, kept.

use core::ops::Range;
use std::string::{String, ToString};
use std::vec::Vec;

use barewire_wire::Error;
use barewire_wire::tree::{Sink, Value};

/// Keeps names, positions and errors; checks that fields lie inside their group.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) fields: Vec<(String, Range<usize>)>,
    pub(crate) errors: Vec<Error>,
    groups: Vec<Range<usize>>,
    closed: Vec<Range<usize>>,
}

impl Shown {
    /// Every group ended, and the outermost took these bits.
    #[track_caller]
    pub(crate) fn assert_closed(&self, bits: Range<usize>) {
        assert!(self.groups.is_empty());
        assert_eq!(self.closed.last(), Some(&bits));
    }

    /// The fields as `name first..end`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(name, bits): &(String, Range<usize>)| std::format!("{name} {bits:?}");
        self.fields.iter().map(line).collect()
    }
}

impl Sink for Shown {
    fn open(&mut self, _name: &str, bits: Range<usize>) {
        self.groups.push(bits);
    }

    fn close(&mut self) {
        self.closed.push(self.groups.pop().expect("an open group"));
    }

    fn field(&mut self, name: &str, bits: Range<usize>, _value: Value<'_>) {
        let group = self.groups.last().expect("an open group");
        assert!(group.start <= bits.start && bits.start <= bits.end && bits.end <= group.end);
        self.fields.push((name.to_string(), bits));
    }

    fn wrong(&mut self, error: Error) {
        assert!(!self.groups.is_empty());
        self.errors.push(error);
    }
}
