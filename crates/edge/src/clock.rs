//! The time, as the connections want it.

use barewire_units::{Duration, Instant};

/// The system's clock, from the moment at which a connection began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        let ns = u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // 213 days are as far as an instant goes.
        Instant::ORIGIN.saturating_add(Duration::from_ns(ns.min(18_000_000_000_000_000)))
    }
}

/// How long it is until `at`, for calls of the system.
pub(crate) fn until(at: Instant, now: Instant) -> std::time::Duration {
    std::time::Duration::from_nanos(at.saturating_duration_since(now).as_ns())
}
