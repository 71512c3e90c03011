//! Busy polling that gives up after a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// True where both processes share one processor: then a spinner must let the other run.
static SHARED_PROCESSOR: AtomicBool = AtomicBool::new(false);

/// How long nothing may move before a wait is given up.
const LONGEST: Duration = Duration::from_secs(20);

/// Says that both processes run on one processor, so that spinning must yield.
pub fn set_shared_processor(shared: bool) {
    // Relaxed: set once before any measurement, and nothing else depends on it.
    SHARED_PROCESSOR.store(shared, Ordering::Relaxed);
}

/// Whether both processes run on one processor.
pub fn shared_processor() -> bool {
    // Relaxed: see `set_shared_processor`.
    SHARED_PROCESSOR.load(Ordering::Relaxed)
}

/// Counts the turns of a spinning wait; gives up after a long time without progress.
#[derive(Debug)]
pub struct BoundedSpin {
    what: &'static str,
    turns: u32,
    mask: u32,
    since: Option<Instant>,
}

impl BoundedSpin {
    /// A bound for waits named `what` in the error message.
    pub fn new(what: &'static str) -> BoundedSpin {
        let shared = shared_processor();
        BoundedSpin {
            what,
            turns: 0,
            mask: if shared { 0x3F } else { 0xFFFF },
            since: None,
        }
    }

    /// Something moved: the next wait starts afresh.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.turns = 0;
    }

    /// One more turn without progress.
    #[inline(always)]
    pub fn turn(&mut self) -> Result<()> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns & self.mask == 0 {
            return self.slow();
        }
        if self.turns == 1 {
            self.since = None;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn slow(&mut self) -> Result<()> {
        if self.mask == 0x3F {
            std::thread::yield_now();
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > LONGEST {
            return Err(Error::Stuck(self.what, LONGEST.as_secs()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_starts_the_wait_afresh() {
        let mut spin = BoundedSpin::new("test");
        for _ in 0..200_000 {
            spin.turn().unwrap();
        }
        assert!(spin.since.is_some());
        spin.reset();
        spin.turn().unwrap();
        assert!(spin.since.is_none());
    }
}
