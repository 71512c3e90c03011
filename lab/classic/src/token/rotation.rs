//! TRT and Late_Ct: how long the token has been away.
//!
//! Source: iso9314-2, as our facts give it.

use barewire_units::{Duration, Instant};

/// TRT, as the instant at which it is over, and Late_Ct.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    ttrt: Duration,
    expires: Instant,
    late_count: u64,
}

impl Rotation {
    /// TRT starts at `now`, and is not late.
    pub(super) fn start(now: Instant, ttrt: Duration) -> Self {
        Self {
            ttrt,
            expires: now.saturating_add(ttrt),
            late_count: 0,
        }
    }

    /// Whether the token was early when it came last, which was at `seen`.
    pub(super) fn was_early(&self, seen: Instant) -> bool {
        self.late_count == 0 && self.expires == seen.saturating_add(self.ttrt)
    }

    /// Counts what is over by `now`. A token at the very instant is still early, with no THT.
    fn advance(&mut self, now: Instant) {
        let overdue = now.saturating_duration_since(self.expires);
        if overdue.is_zero() {
            return;
        }
        // Whole periods that ended strictly before `now`.
        let times = (overdue.as_ps() - 1) / self.ttrt.as_ps() + 1;
        let restarted = self.ttrt.checked_mul(times).unwrap_or(Duration::MAX);
        self.expires = self.expires.saturating_add(restarted);
        self.late_count = self.late_count.saturating_add(times);
    }

    /// The token arrives: THT, and how often TRT was over. More than once never happens
    /// on a ring whose budget holds.
    pub(super) fn token(&mut self, now: Instant) -> (Duration, u64) {
        self.advance(now);
        let late_count = core::mem::take(&mut self.late_count);
        if late_count > 0 {
            return (Duration::ZERO, late_count);
        }
        let left = self.expires.saturating_duration_since(now);
        self.expires = now.saturating_add(self.ttrt);
        (left, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTRT: Duration = Duration::from_us(100);

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_us(us)
    }

    #[test]
    fn early_tokens_give_what_is_left_and_late_ones_nothing() {
        let mut rotation = Rotation::start(at(0), TTRT);
        assert_eq!(rotation.token(at(30)), (Duration::from_us(70), 0));
        // Expires at 130; at the very instant it is early with nothing left.
        assert_eq!(rotation.token(at(130)), (Duration::ZERO, 0));
        // Expires at 230: late by 50, which the next rotation has to make up.
        assert_eq!(rotation.token(at(280)), (Duration::ZERO, 1));
        assert_eq!(rotation.token(at(300)), (Duration::from_us(30), 0));
        // Expires at 400 and 500, not yet at 600.
        assert_eq!(rotation.token(at(600)), (Duration::ZERO, 2));
        assert_eq!(rotation.token(at(601)), (Duration::ZERO, 1));
        assert_eq!(rotation.token(at(701)), (Duration::ZERO, 1));
        assert_eq!(rotation.token(at(702)), (Duration::from_us(98), 0));
    }

    #[test]
    fn the_end_of_time_is_only_late() {
        let mut rotation = Rotation::start(at(0), Duration::from_ps(1));
        assert!(rotation.token(Instant::MAX).1 > 1);
        assert_eq!(rotation.token(Instant::MAX), (Duration::ZERO, 0));
    }
}
