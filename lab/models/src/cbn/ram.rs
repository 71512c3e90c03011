//! The buffer memory of a station: single-ported, one word a cycle, first come first served.
//!
//! While a cell passes on the ring its words come, or are wanted, one every cycle: the ring
//! side holds the memory for the whole cell, and what the processor wants meanwhile waits.
//! A cycle that the processor has begun is finished first; the ring's word waits in a latch.
//! Source: cbn91, section on the station interface.

use barewire_units::{Duration, Instant};

/// A buffer memory.
#[derive(Clone, Debug)]
pub struct Ram {
    cycle: Duration,
    free_at: Instant,
}

impl Ram {
    /// A memory that does one word every `cycle`.
    #[must_use]
    pub const fn new(cycle: Duration) -> Self {
        Self {
            cycle,
            free_at: Instant::ORIGIN,
        }
    }

    /// Reads or writes `words`, now or as soon as the memory is free; says when that is done.
    pub fn access(&mut self, now: Instant, words: u64) -> Instant {
        let begin = self.free_at.max(now);
        self.free_at = begin.saturating_add(self.cycle * words);
        self.free_at
    }
}
