//! The clock of a run: that of its manager. Other parts follow it with an offset that they
//! learn when they are welcomed; on one host it is less than the time that takes.

use barewire_sys::clock::monotonic_ns;
use barewire_units::Instant;

/// A clock that follows the manager's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// What is taken off the host's clock; may be more than that.
    offset_ns: u64,
}

impl Clock {
    /// The manager's own clock begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            offset_ns: monotonic_ns(),
        }
    }

    /// A clock that shows `now_ps` at this moment.
    #[must_use]
    pub fn set(now_ps: u64) -> Self {
        Self {
            offset_ns: monotonic_ns().wrapping_sub(now_ps / 1_000),
        }
    }

    /// What it shows, in ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        monotonic_ns().wrapping_sub(self.offset_ns)
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_ps(self.now_ns().saturating_mul(1_000))
    }
}

/// How long from `now` to `at`, as the system counts.
#[must_use]
pub fn until(now: Instant, at: Instant) -> std::time::Duration {
    let left = at.saturating_duration_since(now).as_ps();
    // Rounded up: nothing is due before its time.
    std::time::Duration::from_nanos(left.div_ceil(1_000))
}

/// A time of the configuration, as the system counts.
#[must_use]
pub fn system_time(time: barewire_units::Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_ns())
}
