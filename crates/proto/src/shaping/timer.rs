//! The timer that wakes a sleeping queue.

use core::num::NonZeroU32;

use barewire_units::Instant;

/// When a sleeping queue can be woken: at any instant, or only at the ticks of a
/// timer that runs at a whole number of hertz from the origin of time. Tick n is at
/// n/HZ, rounded down to a picosecond, so ticks do not drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    hz: Option<NonZeroU32>,
}

impl Timer {
    /// Wakes at the very picosecond.
    pub const EXACT: Self = Self { hz: None };
    /// The timer of Linux 2.2 on i386: 100 Hz.
    pub const LINUX_I386: Self = Self {
        hz: NonZeroU32::new(100),
    };

    /// Ticks `hz` times a second.
    #[must_use]
    pub const fn hz(hz: NonZeroU32) -> Self {
        Self { hz: Some(hz) }
    }

    /// The first tick at or after `instant`, or `None` if time ends before.
    #[must_use]
    pub fn round_up(self, instant: Instant) -> Option<Instant> {
        const PS_PER_S: u128 = 1_000_000_000_000;
        let Some(hz) = self.hz else {
            return Some(instant);
        };
        let hz = u128::from(hz.get());
        let ps = u128::from(instant.since_origin().as_ps());
        let tick = (ps * hz).div_ceil(PS_PER_S);
        let at = tick * PS_PER_S / hz;
        u64::try_from(at).ok().map(Instant::from_ps)
    }
}
