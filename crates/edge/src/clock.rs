//! The time, as the connections want it, and for as long as the system runs.
//!
//! An instant goes no further than 213 days. So the clock of a connection counts from a later origin long before that, and
//! the connection with it.

use barewire_units::{Duration, Instant};

const DAY: Duration = Duration::from_s(86_400);

/// After so long the origin moves.
const REBASED_AFTER: Duration = Duration::from_s(150 * DAY.as_s());

/// By so much. What is left is more than the 30 days that a connection wants to look back.
const REBASED_BY: Duration = Duration::from_s(100 * DAY.as_s());

/// As far as an instant goes: whoever never looked at a connection for so long finds it there.
const LAST: Duration = Duration::from_s(208 * DAY.as_s());

/// Something whose times can be told from a later origin.
pub(crate) trait Rebase {
    /// Time counts from `by` later on.
    fn rebase(&mut self, by: Duration);
}

impl Rebase for barewire_tcp::Tcp {
    fn rebase(&mut self, by: Duration) {
        self.rebase(by);
    }
}

impl Rebase for barewire_tcp::Udp {
    /// Datagrams do not wait for a time.
    fn rebase(&mut self, _: Duration) {}
}

/// The system's clock, from the moment at which a connection began, or a later origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: std::time::Instant,
    /// How long after that the origin is.
    origin: std::time::Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
            origin: std::time::Duration::ZERO,
        }
    }

    /// How long it runs. That never ends.
    pub(crate) fn elapsed(self) -> std::time::Duration {
        self.start.elapsed()
    }

    /// The time from the origin.
    pub(crate) fn now(self) -> Instant {
        instant(self.elapsed().saturating_sub(self.origin))
    }

    /// The time from the origin, which moves first where that is due, and all times of `whose` with it.
    pub(crate) fn advance(&mut self, whose: &mut impl Rebase) -> Instant {
        let elapsed = self.elapsed();
        let after = std::time::Duration::from(REBASED_AFTER);
        while elapsed.saturating_sub(self.origin) >= after {
            whose.rebase(REBASED_BY);
            self.origin += std::time::Duration::from(REBASED_BY);
        }
        instant(elapsed.saturating_sub(self.origin))
    }
}

fn instant(since_origin: std::time::Duration) -> Instant {
    let since = Duration::try_from(since_origin).unwrap_or(LAST).min(LAST);
    Instant::ORIGIN.saturating_add(since)
}

/// How long it is until `at`, for calls of the system.
pub(crate) fn until(at: Instant, now: Instant) -> std::time::Duration {
    std::time::Duration::from_nanos(at.saturating_duration_since(now).as_ns())
}

#[cfg(test)]
impl Clock {
    /// One that runs for so long already.
    pub(crate) fn begun(ago: std::time::Duration) -> Self {
        let start = std::time::Instant::now().checked_sub(ago);
        Self {
            start: start.expect("the system's clock goes back so far"),
            origin: std::time::Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up by how much it was rebased.
    struct Sum(u64);

    impl Rebase for Sum {
        fn rebase(&mut self, by: Duration) {
            self.0 += by.as_s();
        }
    }

    #[test]
    fn the_origin_moves_and_time_goes_on() {
        let days = |days: u64| std::time::Duration::from_secs(days * 86_400);
        for (ago, moved) in [
            (0, 0),
            (149, 0),
            (150, 100),
            (249, 100),
            (250, 200),
            (5000, 4900),
        ] {
            let (mut clock, mut sum) = (Clock::begun(days(ago)), Sum(0));
            let now = clock.advance(&mut sum);
            assert_eq!(sum.0, moved * DAY.as_s());
            let since = now.since_origin().as_s() - (ago - moved) * DAY.as_s();
            assert!(since < 3600, "{since} s");
            assert!(clock.now() >= now);
            assert!(clock.elapsed() >= days(ago));
        }
        // Nobody has looked for long: it stands still, and does not go around.
        assert_eq!(Clock::begun(days(5000)).now(), Instant::ORIGIN + LAST);
    }
}
