//! Until when each of many open things may stay open.

use alloc::collections::BTreeSet;

use crate::{Duration, Instant};

/// Deadlines of things with the names `T`. A time-out of [`Duration::MAX`] never comes.
#[derive(Clone, Debug)]
pub struct Deadlines<T> {
    timeout: Duration,
    pending: BTreeSet<(Instant, T)>,
}

impl<T: Copy + Ord> Deadlines<T> {
    /// Nothing is open yet.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            pending: BTreeSet::new(),
        }
    }

    /// How long each thing may stay open.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Starts the clock of `name`; the instant belongs to [`Deadlines::stop`].
    pub fn start(&mut self, now: Instant, name: T) -> Instant {
        let deadline = now.saturating_add(self.timeout);
        if deadline != Instant::MAX {
            self.pending.insert((deadline, name));
        }
        deadline
    }

    /// Stops the clock of `name`, which [`Deadlines::start`] said would end at `deadline`.
    pub fn stop(&mut self, deadline: Instant, name: T) {
        self.pending.remove(&(deadline, name));
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.pending.first().map(|(deadline, _)| *deadline)
    }

    /// One whose time has come. It stays until it is stopped.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<T> {
        let (deadline, name) = self.pending.first()?;
        (*deadline <= now).then_some(*name)
    }
}
