//! The line: what follows from its rate and from the size of a cell.
//!
//! ```text
//! frame   (16 flag bits + 4 slots x words x 32 + 8 flag bits + CRC 12) x 5/4 line bits
//! word    the four channels share the fibre word by word: 4 x 32 x 5/4 = 160 line bits
//! ```
//! With cells of 9 words at 512 MHz: 1485 line bits or 2.9 us, and 312.5 ns.
//! Source: cbn91, sections on the ring and on the station interface.

use barewire_classic::msdl::BodySize;
use barewire_formats::cbn::SLOTS;
use barewire_units::{Duration, Rate};

/// Bits of a frame that are not in its slots: header and flags in front, flags and CRC behind.
const FRAME_OVERHEAD_BITS: u64 = 16 + 8 + 12;
/// Bits of a word.
const WORD_BITS: u64 = 32;
/// Bits of a word of a channel on the line, with the other channels' and in 4B5B.
const WORD_LINE_BITS: u64 = WORD_BITS * SLOTS as u64 * 5 / 4;

/// A line of one rate with cells of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    rate: Rate,
    body: BodySize,
}

impl Line {
    /// A line that carries `rate` line bits, in cells with bodies of `body`.
    #[must_use]
    pub const fn new(rate: Rate, body: BodySize) -> Self {
        Self { rate, body }
    }

    /// Size of the bodies.
    #[must_use]
    pub const fn body(self) -> BodySize {
        self.body
    }

    /// Words of a cell, the first word included.
    #[must_use]
    pub const fn cell_words(self) -> u64 {
        1 + (self.body.bytes() as u64).div_ceil(4)
    }

    /// From one word of a channel to the next: the cycle of a station's memory.
    #[must_use]
    pub fn word_time(self) -> Duration {
        self.time_of(WORD_LINE_BITS)
    }

    /// Time that a frame takes to pass.
    #[must_use]
    pub fn frame_time(self) -> Duration {
        self.time_of(self.frame_line_bits())
    }

    /// Frames that fit on a ring of this `rotation`.
    #[must_use]
    pub fn frames(self, rotation: Duration) -> usize {
        let line_bits = u128::from(rotation.as_ps()) * u128::from(self.rate.as_bps());
        let frame_bits = u128::from(self.frame_line_bits()) * 1_000_000_000_000;
        usize::try_from(line_bits / frame_bits).unwrap_or(usize::MAX)
    }

    const fn frame_line_bits(self) -> u64 {
        let bits = FRAME_OVERHEAD_BITS + SLOTS as u64 * self.cell_words() * WORD_BITS;
        bits * 5 / 4
    }

    fn time_of(self, line_bits: u64) -> Duration {
        let ps = u128::from(line_bits) * 1_000_000_000_000 / u128::from(self.rate.as_bps());
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}
