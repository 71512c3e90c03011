//! Timestamps of a connection (RFC 7323): the round-trip time of what was sent more than once, and
//! protection against sequence numbers of a lap ago.
//!
//! The option, as RFC 7323, section 3.2, has it; all numbers are big-endian:
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 1 | kind: 8 |
//! | 1 | 1 | length: 10 |
//! | 2 | 4 | the sender's clock, when it sent the segment |
//! | 6 | 4 | the latest such value that it had got from the other end; 0 in the first packet |
//!
//! The clock of this end ticks each millisecond, from a number that nobody else can guess.

use barewire_units::{Duration, Instant};

/// Bytes of the option in a header, with what fills it up to whole words.
pub(crate) const STAMP_BYTES: u32 = 12;

/// After so long without a segment, what is known of the other end's clock does not count (RFC 7323,
/// section 5.5): it may have gone half around.
const KEPT: Duration = Duration::from_s(24 * 24 * 3600);

/// No packet is under way for longer.
const LONGEST: Duration = Duration::from_s(60);

/// The two clocks of a connection whose ends both have timestamps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamps {
    /// What this end's clock says at the origin.
    first: u32,
    /// The value that goes back to the other end, and when it came.
    recent: u32,
    recent_at: Instant,
}

/// What this end's clock says at the origin, for the seed of a connection.
pub(crate) const fn first_of(seed: u64) -> u32 {
    // The finalizer of SplitMix64: the sequence numbers come from the same seed, and tell nothing.
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as u32
}

/// What the clock says that said `first` at the origin.
pub(crate) fn clock(first: u32, now: Instant) -> u32 {
    first.wrapping_add(now.since_origin().as_ms() as u32)
}

/// An instant, seen from an origin `by` later; what lies before that is then at the origin.
pub(crate) fn rebased(at: Instant, by: Duration) -> Instant {
    Instant::ORIGIN.saturating_add(at.since_origin().saturating_sub(by))
}

impl Stamps {
    /// `recent`: what the other end's clock said in its SYN.
    pub(crate) const fn new(first: u32, recent: u32, now: Instant) -> Self {
        Self {
            first,
            recent,
            recent_at: now,
        }
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        self.first = clock(self.first, Instant::ORIGIN.saturating_add(by));
        self.recent_at = rebased(self.recent_at, by);
    }

    /// The two values of a segment that is sent now.
    pub(crate) fn option(&self, now: Instant) -> (u32, u32) {
        (clock(self.first, now), self.recent)
    }

    /// Whether a segment with this value is from a lap ago: older than one that came in order.
    pub(crate) fn is_old(&self, value: u32, now: Instant) -> bool {
        let is_known = now.saturating_duration_since(self.recent_at) <= KEPT;
        is_known && (value.wrapping_sub(self.recent) as i32) < 0
    }

    /// A segment with this value came that begins no later than what was acknowledged last.
    pub(crate) fn take(&mut self, value: u32, now: Instant) {
        if !self.is_old(value, now) {
            (self.recent, self.recent_at) = (value, now);
        }
    }

    /// How long ago this end's clock said `echo`, to whole milliseconds and at least one; `None`
    /// where it can not have said that.
    pub(crate) fn since(&self, echo: u32, now: Instant) -> Option<Duration> {
        let ms = clock(self.first, now).wrapping_sub(echo);
        let since = Duration::from_ms(u64::from(ms.max(1)));
        (since <= LONGEST).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN.saturating_add(Duration::from_ms(ms))
    }

    #[test]
    fn an_older_value_is_from_a_lap_ago() {
        let near_end = u32::MAX - 1;
        let mut stamps = Stamps::new(0, near_end, at(0));
        assert!(!stamps.is_old(near_end, at(1)));
        assert!(stamps.is_old(near_end - 1, at(1)));
        // It goes around.
        stamps.take(3, at(1));
        assert_eq!(stamps.option(at(7)), (7, 3));
        assert!(stamps.is_old(near_end, at(1)));
        stamps.take(near_end, at(1));
        assert_eq!(stamps.option(at(7)), (7, 3));
        // After 24 days it does not count.
        let later = at(24 * 24 * 3_600_000 + 2);
        assert!(!stamps.is_old(near_end, later));
        stamps.take(near_end, later);
        assert_eq!(stamps.option(later).1, near_end);
    }

    #[test]
    fn an_echo_tells_the_time() {
        let stamps = Stamps::new(u32::MAX, 0, at(0));
        let ms = |ms| Some(Duration::from_ms(ms));
        assert_eq!(stamps.since(stamps.option(at(5)).0, at(25)), ms(20));
        assert_eq!(stamps.since(stamps.option(at(25)).0, at(25)), ms(1));
        // Not said yet, or too long ago.
        assert_eq!(stamps.since(stamps.option(at(26)).0, at(25)), None);
        assert_eq!(stamps.since(stamps.option(at(0)).0, at(60_001)), None);
    }

    #[test]
    fn each_seed_has_its_clock() {
        assert_ne!(first_of(1), first_of(2));
        assert_ne!(first_of(0), 0);
    }
}
