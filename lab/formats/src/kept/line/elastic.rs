//! The elastic buffer: blocks come by the clock of the line and go by the station's own.
//!
//! The two crystals differ by some parts in a million, so the buffer slowly fills or
//! empties. It is kept half full at the expense of gap symbols: one that comes while the
//! buffer is more than half full is dropped, if another one was in front of it; one that is
//! to go while the buffer is less than half full goes twice. So a gap never vanishes, and a
//! frame is never touched.
//!
//! Between two gaps nothing can be corrected. In `run` blocks clocks that differ by p parts
//! in a million come apart by run p / 10⁶ blocks, and their edges may fall either way by one
//! more; half a buffer must hold that: [`Elastic::ppm_max`]. The gap in turn must have one
//! symbol more than the blocks to be corrected.
//!
//! Source: cbn91 (local crystal, retiming with an elastic buffer); size and rule are ours.

use core::fmt;

use barewire_units::Instant;

use super::GAP;

/// A block came to a full buffer and is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// A block was to go from an empty buffer, which now waits to be half full again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Underflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the elastic buffer is full: the line's clock is too fast for it")
    }
}

impl fmt::Display for Underflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the elastic buffer is empty: the line's clock is too slow for it")
    }
}

impl core::error::Error for Overflow {}
impl core::error::Error for Underflow {}

/// An elastic buffer of `N` blocks, at least two.
#[derive(Clone, Debug)]
pub struct Elastic<const N: usize> {
    blocks: [u8; N],
    first: usize,
    len: usize,
    /// It has been half full, and gives blocks.
    running: bool,
    /// The last block that came was a gap symbol.
    gap_before: bool,
    gaps_added: u64,
    gaps_removed: u64,
}

impl<const N: usize> Default for Elastic<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Elastic<N> {
    const HALF: usize = {
        assert!(N >= 2);
        N / 2
    };

    /// An empty buffer, which gives gap symbols until it is half full.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            blocks: [GAP; N],
            first: 0,
            len: 0,
            running: false,
            gap_before: false,
            gaps_added: 0,
            gaps_removed: 0,
        }
    }

    /// The largest difference of the clocks, in parts per million, that the buffer bears if a
    /// gap symbol that may be added or removed comes every `run_blocks` blocks.
    #[must_use]
    pub const fn ppm_max(run_blocks: u64) -> u64 {
        // `HALF` is the smaller half: the room above it is as large, or one larger.
        let blocks = Self::HALF as u64 - 1;
        match (blocks * 1_000_000).checked_div(run_blocks) {
            Some(ppm) => ppm,
            None => u64::MAX,
        }
    }

    /// Blocks in the buffer.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gap symbols that went without having come.
    #[must_use]
    pub const fn gaps_added(&self) -> u64 {
        self.gaps_added
    }

    /// Gap symbols that came and did not go.
    #[must_use]
    pub const fn gaps_removed(&self) -> u64 {
        self.gaps_removed
    }

    /// A block comes, by the clock of the line.
    ///
    /// # Errors
    ///
    /// The buffer is full; the block is lost.
    pub fn write(&mut self, block: u8) -> Result<(), Overflow> {
        let another_gap = block == GAP && self.gap_before;
        self.gap_before = block == GAP;
        if another_gap && self.len > Self::HALF {
            self.gaps_removed += 1;
            return Ok(());
        }
        if self.len == N {
            return Err(Overflow);
        }
        self.blocks[(self.first + self.len) % N] = block;
        self.len += 1;
        self.running |= self.len >= Self::HALF;
        Ok(())
    }

    /// A block goes, by the clock of the station.
    ///
    /// # Errors
    ///
    /// The buffer is empty.
    pub fn read(&mut self) -> Result<u8, Underflow> {
        if !self.running {
            return Ok(GAP);
        }
        if self.len == 0 {
            self.running = false;
            return Err(Underflow);
        }
        let block = self.blocks[self.first];
        if block == GAP && self.len < Self::HALF {
            self.gaps_added += 1;
            return Ok(GAP);
        }
        self.first = (self.first + 1) % N;
        self.len -= 1;
        Ok(block)
    }
}

/// A crystal: the ticks of a nominal frequency, off by some parts per million.
///
/// ```
/// use barewire_formats::line::Clock;
///
/// // Blocks of five bits at 512 MHz.
/// let nominal = Clock::new(102_400_000, 0).expect("a clock");
/// let fast = Clock::new(102_400_000, 100).expect("a clock");
/// assert_eq!(nominal.tick(1_024).map(|tick| tick.to_string()), Some("10us".into()));
/// assert!(fast.tick(1_024) < nominal.tick(1_024));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks in a million seconds.
    ticks_per_million_s: u128,
}

impl Clock {
    /// A clock of `ticks_per_s`, off by `offset_ppm`; `None` if it would stand still.
    #[must_use]
    pub const fn new(ticks_per_s: u64, offset_ppm: i32) -> Option<Self> {
        let parts = 1_000_000 + offset_ppm as i64;
        if ticks_per_s == 0 || parts <= 0 {
            return None;
        }
        Some(Self {
            ticks_per_million_s: ticks_per_s as u128 * parts as u128,
        })
    }

    /// When tick `number` comes, rounded down to the picosecond; the error does not add up.
    /// `None` beyond the end of time.
    #[must_use]
    pub fn tick(&self, number: u64) -> Option<Instant> {
        // A million seconds in picoseconds.
        let ps = u128::from(number) * 1_000_000_000_000_000_000 / self.ticks_per_million_s;
        u64::try_from(ps).ok().map(Instant::from_ps)
    }
}
