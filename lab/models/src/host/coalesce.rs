//! When the card interrupts: some time after the first frame that was not told of, or
//! when there are enough of them.
//!
//! Source: kek00, Table 2; the rule is that of the Linux AceNIC driver, as its comments describe it.

use barewire_units::{Duration, Instant};

/// The two limits of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// Longest time from the first frame to the interrupt.
    pub delay: Duration,
    /// Frames that bring the interrupt at once.
    pub frames: usize,
}

/// What to do about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Interrupt now.
    Interrupt,
    /// Call [`Coalescer::handle_timer`] then.
    Arm(Instant),
    /// Nothing.
    Wait,
}

/// Frames that the host was not told of.
#[derive(Clone, Debug)]
pub struct Coalescer {
    config: Coalesce,
    pending: usize,
    due: Option<Instant>,
}

impl Coalescer {
    /// Nothing pending.
    #[must_use]
    pub const fn new(config: Coalesce) -> Self {
        Self {
            config,
            pending: 0,
            due: None,
        }
    }

    /// One more frame.
    pub fn note(&mut self, now: Instant) -> Notice {
        self.pending += 1;
        if self.pending >= self.config.frames {
            self.reset();
            return Notice::Interrupt;
        }
        if self.due.is_some() {
            return Notice::Wait;
        }
        let due = now.saturating_add(self.config.delay);
        self.due = Some(due);
        Notice::Arm(due)
    }

    /// The time came for which it was armed; whether to interrupt. A timer that was
    /// overtaken by enough frames does nothing.
    pub fn handle_timer(&mut self, now: Instant) -> bool {
        let fires = self.due == Some(now);
        if fires {
            self.reset();
        }
        fires
    }

    fn reset(&mut self) {
        self.pending = 0;
        self.due = None;
    }
}
