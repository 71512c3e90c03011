//! The duplex lines of a hybrid stream: HEAD, and the short bytes beside it, in the layout that costs the processor least.
//!
//! Words of direction 0. Word 128 is HEAD, 129 SEEN; if HEAD says dated, 130 is SINCE and 131 KERNEL.
//!
//! | lines | direction 1 | short bytes, not dated | dated |
//! |---|---|---|---|
//! | [`Lines::Shared`] | 4 words behind | 130, 131, 136..140, 144, 145 | 136..140, 144..148 |
//! | [`Lines::Own`] | 16 words behind | 130..136 | 132..136 |
//!
//! HEAD, from the lowest bit: 56 bits of the number of bytes that were ever put into the ring, 7 bits of how many of the
//! last of them are short bytes, 1 bit for dated. Source: own design (`docs/decisions/0031`).

use core::ops::Range;

/// The first word of the duplex lines.
pub const DUPLEX: usize = 128;
pub const HEAD: usize = DUPLEX;
pub const SEEN: usize = DUPLEX + 1;
pub const SINCE: usize = DUPLEX + 2;
pub const KERNEL: usize = DUPLEX + 3;

/// Who writes the cache lines of HEAD and of short bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Lines {
    /// Three lines, of which each direction has one half. Whoever reads the other side's bytes gets the line that its
    /// answer goes to. Best where a processor that reads a line takes it away from the one that wrote it.
    Shared = 0,
    /// One line for each direction, which only its sender writes. Best where the writer keeps a line that others read, and
    /// has it back fast.
    Own = 1,
}

impl Lines {
    /// The layout of this number, as ends tell it each other.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Shared),
            1 => Some(Self::Own),
            _ => None,
        }
    }

    /// Words from HEAD of one direction to HEAD of the other.
    pub(super) const fn words_apart(self) -> u16 {
        match self {
            Self::Shared => 4,
            Self::Own => 16,
        }
    }

    /// Has `visit` the places of so many short bytes: the first word, and which of the bytes.
    ///
    /// Each layout has code of its own: with a table in memory a round trip took up to 0.15 times as long again.
    #[inline(always)]
    pub(super) fn for_each_place(
        self,
        is_dated: bool,
        len_bytes: usize,
        visit: impl FnMut(usize, Range<usize>),
    ) {
        match (self, is_dated) {
            (Self::Shared, false) => in_places([(130, 16), (136, 32), (144, 16)], len_bytes, visit),
            (Self::Shared, true) => in_places([(136, 32), (144, 32)], len_bytes, visit),
            (Self::Own, false) => in_places([(130, 48)], len_bytes, visit),
            (Self::Own, true) => in_places([(132, 32)], len_bytes, visit),
        }
    }

    /// Most bytes that fit there.
    #[inline]
    pub(super) const fn short_bytes(self, is_dated: bool) -> usize {
        match (self, is_dated) {
            (Self::Shared, _) => SHORT_BYTES_MAX,
            (Self::Own, false) => 48,
            (Self::Own, true) => 32,
        }
    }
}

/// As [`Lines::for_each_place`], in these places: the first word in each cache line, and how many bytes fit there.
#[inline(always)]
fn in_places<const COUNT: usize>(
    places: [(usize, usize); COUNT],
    len_bytes: usize,
    mut visit: impl FnMut(usize, Range<usize>),
) {
    let mut begin = 0;
    for (word, most_bytes) in places {
        let end = len_bytes.min(begin + most_bytes);
        visit(word, begin..end);
        if end == len_bytes {
            return;
        }
        begin = end;
    }
}

/// Most bytes that go through the duplex lines, too, in any layout.
pub const SHORT_BYTES_MAX: usize = 64;
/// Where their number stands in HEAD.
const SHORT_SHIFT: u32 = 56;
const POSITION_MASK: u64 = (1 << SHORT_SHIFT) - 1;
/// In HEAD: SINCE and KERNEL are what their names say.
pub const DATED: u64 = 1 << 63;

/// HEAD.
pub const fn head_word(position: u64, short_bytes: u64, is_dated: bool) -> u64 {
    let dated = if is_dated { DATED } else { 0 };
    position_in(position) | short_bytes << SHORT_SHIFT | dated
}

/// Bytes ever put into the ring, by the word HEAD.
pub const fn position_in(head: u64) -> u64 {
    head & POSITION_MASK
}

/// How many bytes there are from one position to another: positions in HEAD have no more than 56 bits.
pub const fn distance(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & POSITION_MASK
}

/// How many of the last of them are short bytes.
pub const fn short_bytes_in(head: u64) -> u64 {
    (head & !DATED) >> SHORT_SHIFT
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// All words that a direction may use.
    fn words_of(lines: Lines, is_dated: bool) -> Vec<usize> {
        let mut used = vec![HEAD, SEEN];
        if is_dated {
            used.extend([SINCE, KERNEL]);
        }
        lines.for_each_place(is_dated, SHORT_BYTES_MAX, |first, bytes| {
            used.extend(first..first + bytes.len() / 8);
        });
        used
    }

    #[test]
    fn no_word_serves_two_purposes() {
        for (lines, is_dated) in ALL {
            let mut used = words_of(lines, is_dated);
            let behind = usize::from(lines.words_apart());
            let other: Vec<usize> = used.iter().map(|word| word + behind).collect();
            used.extend(other);
            let count = used.len();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), count, "{lines:?}, dated: {is_dated}");
        }
    }

    #[test]
    fn each_place_lies_in_one_line() {
        for (lines, is_dated) in ALL {
            let mut short_bytes = 0;
            lines.for_each_place(is_dated, SHORT_BYTES_MAX, |first, bytes| {
                assert_eq!(first / 8, (first + bytes.len() / 8 - 1) / 8);
                assert_eq!(bytes.start, short_bytes);
                short_bytes = bytes.end;
            });
            assert_eq!(short_bytes, lines.short_bytes(is_dated));
        }
    }

    #[test]
    fn own_lines_are_shared_with_nobody() {
        let line = |word: &usize| word / 8;
        let used = words_of(Lines::Own, false);
        let behind = usize::from(Lines::Own.words_apart());
        let other: Vec<usize> = used.iter().map(|word| line(&(word + behind))).collect();
        assert!(used.iter().all(|word| !other.contains(&line(word))));
    }

    const ALL: [(Lines, bool); 4] = [
        (Lines::Shared, false),
        (Lines::Shared, true),
        (Lines::Own, false),
        (Lines::Own, true),
    ];

    #[test]
    fn few_bytes_have_few_places() {
        let places = |len_bytes| {
            let mut found = Vec::new();
            Lines::Shared
                .for_each_place(false, len_bytes, |first, bytes| found.push((first, bytes)));
            found
        };
        assert_eq!(places(16), [(130, 0..16)]);
        assert_eq!(places(17), [(130, 0..16), (136, 16..17)]);
        assert_eq!(places(64), [(130, 0..16), (136, 16..48), (144, 48..64)]);
    }
}
