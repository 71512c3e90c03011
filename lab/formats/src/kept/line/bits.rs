//! A run of bits inside bytes, first bit in the most significant place, read in order.
//!
//! Source: own design.

use core::ops::Range;

/// Bits that are still to be read.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    range: Range<usize>,
}

impl<'a> Bits<'a> {
    /// All bits of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            range: 0..bytes.len() * 8,
        }
    }

    /// The bits of `bytes` in `range`, as far as they exist.
    #[must_use]
    pub fn in_range(bytes: &'a [u8], range: Range<usize>) -> Self {
        let end = range.end.min(bytes.len() * 8);
        Self {
            bytes,
            range: range.start.min(end)..end,
        }
    }

    /// Bits that are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// True if none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The next bits, at most 32, in the low places, and how many they are.
    #[inline]
    pub(super) fn take_up_to_32(&mut self) -> (u64, u32) {
        let (byte, skip) = (self.range.start / 8, self.range.start % 8);
        let count = self.range.len().min(32);
        let there = self.bytes.get(byte..).unwrap_or_default();
        let word = match there.first_chunk() {
            Some(word) => u64::from_be_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..there.len()].copy_from_slice(there);
                u64::from_be_bytes(word)
            }
        };
        self.range.start += count;
        let word = (word << skip) >> 32 >> (32 - count);
        (word, count as u32)
    }
}
