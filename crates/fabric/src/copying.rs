//! Chooses how the writer copies a long payload into the reader's memory, by the time that its ordinary copies take.
//!
//! An ordinary store fetches its cache line first. The line is in the reader's cache, since the reader read it in the
//! lap before. Where the two processors share a cache, an ordinary copy is the fastest way. Where they do not, a copy
//! past the caches wins: it writes to memory, from where the reader's processor fetches ahead by itself.
//!
//! Round trips in ns of messages that both sides copy in and out, through a ring of 64 KiB (128 KiB for the last row),
//! between two processes on an AMD EPYC (family 25, model 17). A bare line there and back took 50 ns on one core, 100 ns
//! near and 330 ns far:
//!
//! | bytes | far | far, past the caches | near | near, past the caches | one core | one core, past the caches |
//! |---|---|---|---|---|---|---|
//! | 1024 | 1800 | 1184 | 451 | 922 | | |
//! | 4096 | 4973 | 1965 | 1230 | 1568 | | |
//! | 16384 | 17700 | 4448 | 4932 | 4347 | 1551 | 5310 |
//! | 65536 | 69602 | 14701 | 19186 | 15616 | 5890 | 18744 |
//!
//! The time of an ordinary copy tells where the reader is. A copy of 4 KiB takes 20 to 100 cycles a line far, 50 on
//! average; 5 to 20 near; 2 on one core. The time of shorter copies says nothing: the processor's store buffer hides it.

use crate::frame::LINE_BYTES;

/// From this length on a copy takes a time that says something, and may go past the caches.
pub const LONG_BYTES: usize = 4096;
/// From this length on a message may go in pieces.
pub const PIECES_FROM_BYTES: usize = 16 * 1024;
/// If a line takes longer on the average, there is no shared cache.
const FAR_CYCLES: u32 = 26;
/// Whatever takes longer was held up by something else, and counts as this much.
const LONGEST_CYCLES: u32 = 60;
/// Each measurement moves the average by one part in so many towards itself.
const AVERAGED: u32 = 8;
/// One of so many ordinary copies is measured.
const MEASURED_ORDINARY: u8 = 8;
/// One of so many copies that would go past the caches is ordinary, and measured.
const MEASURED_PAST_CACHES: u8 = 32;
/// One of so many long messages that could go through a duplex line goes through the ring, and is measured there: in
/// the line the writer has the memory already, and the time of a copy says nothing.
const MEASURED_BESIDE_LINE: u8 = 64;

/// How many lines behind the next frame those are that are fetched while short frames are published. With 2 a message
/// of 8 B took 77 ns where the reader's cache is far, with 4 42 ns, with 8 60 ns, without fetching 110 ns (AMD EPYC).
const FETCHED_AHEAD_LINES: u64 = 4;
/// Most lines that are fetched for one frame. Without a limit frames of 4 KiB take a tenth longer where reader and
/// writer share a core, and are a twentieth faster where their caches are far.
const FETCHED_LINES_MAX: u64 = 16;

/// How to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By ordinary stores.
    Ordinary,
    /// So, too, and [`Copying::note`] wants to know how long it took.
    Measured,
    /// Past the caches.
    PastCaches,
}

/// What a writer has learnt. In the beginning it takes the reader to be near.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Copying {
    /// What a line takes, in parts of a cycle, [`AVERAGED`] to one.
    line_parts: u16,
    /// Long copies until one is measured.
    until_measured: u8,
    /// Long messages that could go through a duplex line, until one does not.
    until_beside_line: u8,
}

impl Copying {
    /// In the beginning.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            line_parts: 0,
            until_measured: 0,
            until_beside_line: 0,
        }
    }

    /// Whether a message of so many bytes is to go through the duplex line, if it can: not a long one where it goes past
    /// the caches.
    #[inline]
    #[must_use]
    pub const fn suits_line(&mut self, len_bytes: usize) -> bool {
        len_bytes < LONG_BYTES || self.suits_line_long()
    }

    const fn suits_line_long(&mut self) -> bool {
        if self.is_far() {
            return false;
        }
        if self.until_beside_line == 0 {
            self.until_beside_line = MEASURED_BESIDE_LINE - 1;
            self.until_measured = 0;
            return false;
        }
        self.until_beside_line -= 1;
        true
    }

    /// How the next copy, of so many bytes, is to be made.
    #[inline]
    #[must_use]
    pub const fn choose(&mut self, len_bytes: usize) -> Way {
        if len_bytes < LONG_BYTES {
            return Way::Ordinary;
        }
        self.choose_long()
    }

    const fn choose_long(&mut self) -> Way {
        let is_far = self.is_far();
        if self.until_measured == 0 {
            self.until_measured = if is_far {
                MEASURED_PAST_CACHES
            } else {
                MEASURED_ORDINARY
            } - 1;
            return Way::Measured;
        }
        self.until_measured -= 1;
        if is_far {
            Way::PastCaches
        } else {
            Way::Ordinary
        }
    }

    /// A measured copy took so many ticks of the processor's counter (2.6 GHz above); 0: nobody knows, or it would make no
    /// difference.
    pub fn note(&mut self, len_bytes: usize, took_cycles: u64) {
        if took_cycles == 0 {
            return;
        }
        let line_cycles = took_cycles / (len_bytes / LINE_BYTES) as u64;
        let line_cycles = line_cycles.min(u64::from(LONGEST_CYCLES)) as u32;
        let parts = u32::from(self.line_parts);
        self.line_parts = (parts - parts / AVERAGED + line_cycles) as u16;
    }

    const fn is_far(&self) -> bool {
        self.line_parts as u32 >= FAR_CYCLES * AVERAGED
    }

    /// Which lines are to be fetched once a frame of so many lines is published, since the next one is perhaps alike: how
    /// far ahead of it, and how many.
    #[inline]
    #[must_use]
    pub fn lines_to_fetch(&self, lines: u64) -> (u64, u64) {
        let ahead = if lines > 2 { 2 } else { FETCHED_AHEAD_LINES };
        match self.is_fetching_wise(lines as usize * LINE_BYTES) {
            true => (ahead, lines.min(FETCHED_LINES_MAX)),
            false => (ahead, 0),
        }
    }

    /// In pieces of how many bytes a message of so many is best copied, for a reader that copies each piece while the next
    /// one is written; `None`: as a whole. Messages of 64 KiB there and back, through rings of 4 MiB, took 0.86 of the time
    /// in pieces of 8 KiB where both share a cache, and 0.6 to 0.9 where they do not. Those of 4 KiB do not gain.
    #[inline]
    #[must_use]
    pub const fn pieces(&self, len_bytes: usize) -> Option<usize> {
        match len_bytes {
            ..PIECES_FROM_BYTES => None,
            ..=32_768 if !self.is_far() => Some(4096),
            _ => Some(8192),
        }
    }

    /// Whether the next lines should be fetched before a copy of so many bytes: not if it goes past the caches, or is
    /// measured.
    #[inline]
    #[must_use]
    pub const fn is_fetching_wise(&self, len_bytes: usize) -> bool {
        len_bytes < LONG_BYTES || (!self.is_far() && self.until_measured > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN_BYTES: usize = 2 * LONG_BYTES;
    const LINES: u64 = (LEN_BYTES / LINE_BYTES) as u64;
    const FAR: u64 = 50;
    const NEAR: u64 = 20;

    fn after(cycles_per_line: &[u64]) -> Copying {
        let mut copying = Copying::new();
        for &cycles in cycles_per_line {
            copying.note(LEN_BYTES, cycles * LINES);
        }
        copying
    }

    /// How the next copies are made: ordinary, measured, past the caches.
    fn next(mut copying: Copying, len_bytes: usize, copies: u32) -> [u32; 3] {
        let mut counts = [0; 3];
        for _ in 0..copies {
            counts[copying.choose(len_bytes) as usize] += 1;
        }
        counts
    }

    #[test]
    fn only_long_copies_to_a_far_reader_go_past_the_caches() {
        let far = after(&[FAR; 20]);
        assert_eq!(next(far, LONG_BYTES, 320), [0, 10, 310]);
        assert_eq!(next(far, LONG_BYTES - 1, 320), [320, 0, 0]);
        let near = after(&[NEAR; 10]);
        assert_eq!(next(near, LONG_BYTES, 320), [280, 40, 0]);
        assert_eq!(next(Copying::new(), LONG_BYTES, 320), [280, 40, 0]);
    }

    #[test]
    fn a_line_takes_long_messages_from_near_and_some_are_measured_beside_it() {
        let in_line = |copying: &mut Copying, len_bytes| {
            (0..640).filter(|_| copying.suits_line(len_bytes)).count()
        };
        let mut near = after(&[NEAR; 10]);
        assert_eq!(in_line(&mut near, LONG_BYTES - 1), 640);
        assert_eq!(in_line(&mut near, LONG_BYTES), 630);
        // The one that does not suit is measured.
        while near.suits_line(LONG_BYTES) {
            let _ = near.choose(LONG_BYTES);
        }
        assert_eq!(near.choose(LONG_BYTES), Way::Measured);
        let mut far = after(&[FAR; 20]);
        assert_eq!(in_line(&mut far, LONG_BYTES - 1), 640);
        assert_eq!(in_line(&mut far, LONG_BYTES), 0);
    }

    #[test]
    fn one_measurement_changes_nothing() {
        let mut cycles = [NEAR; 100];
        cycles[99] = u64::MAX / LINES;
        assert_eq!(next(after(&cycles), LONG_BYTES, 8)[2], 0);
        let mut cycles = [FAR; 100];
        cycles[99] = NEAR;
        assert_eq!(next(after(&cycles), LONG_BYTES, 8)[2], 7);
        cycles[99] = 0;
        assert_eq!(after(&cycles), after(&cycles[..99]));
    }

    #[test]
    fn an_opinion_changes_after_a_few_measurements() {
        let mut cycles = [FAR; 120];
        cycles[100..].fill(NEAR);
        assert_eq!(next(after(&cycles), LONG_BYTES, 8)[2], 0);
        let mut cycles = [NEAR; 120];
        cycles[100..].fill(FAR);
        assert_eq!(next(after(&cycles), LONG_BYTES, 8)[2], 7);
    }

    #[test]
    fn pieces_suit_the_distance() {
        let lengths = [PIECES_FROM_BYTES - 1, PIECES_FROM_BYTES, 65536];
        let far = after(&[FAR; 20]);
        assert_eq!(
            lengths.map(|len| far.pieces(len)),
            [None, Some(8192), Some(8192)]
        );
        let near = after(&[NEAR; 20]);
        assert_eq!(
            lengths.map(|len| near.pieces(len)),
            [None, Some(4096), Some(8192)]
        );
    }

    #[test]
    fn lines_are_fetched_where_that_helps() {
        let mut far = after(&[FAR; 20]);
        let _ = far.choose(LONG_BYTES);
        assert!(!far.is_fetching_wise(LONG_BYTES) && far.is_fetching_wise(LONG_BYTES - 1));
        let mut near = Copying::new();
        assert!(!near.is_fetching_wise(LONG_BYTES), "the next is measured");
        let _ = near.choose(LONG_BYTES);
        assert!(near.is_fetching_wise(LONG_BYTES));
    }
}
