//! Fields as a tree: how a format shows itself to `barewire wire decode`.
//!
//! Every format has a function `describe(bytes, first_bit, sink)` that walks what
//! is there, even where it is wrong or ends early: fields go to the [`Sink`] with
//! their bit positions, faults as [`Error`]s. `first_bit` is where `bytes` begins
//! in the whole input, so that a format inside a format reports true positions.

use core::ops::Range;

use crate::error::Error;

/// What stands in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A number, to be shown in decimal.
    Uint(u64),
    /// A number whose bits matter, to be shown in hexadecimal; the width is the field's.
    Hex(u64),
    /// A code with a name.
    Code(u64, &'a str),
    /// A single bit.
    Flag(bool),
    /// Bytes without further structure.
    Bytes(&'a [u8]),
}

/// Where a format shows its fields.
pub trait Sink {
    /// A group begins: a format, a header, a slot. Groups nest.
    fn open(&mut self, name: &str, bits: Range<usize>);
    /// The innermost group ends.
    fn close(&mut self);
    /// A field of the innermost group.
    fn field(&mut self, name: &str, bits: Range<usize>, value: Value<'_>);
    /// Something is wrong in the innermost group. Positions are absolute.
    fn wrong(&mut self, error: Error);
}
