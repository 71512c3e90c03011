//! What TCP does about loss: slow start, congestion avoidance, fast retransmit and fast
//! recovery as BSD had them when the paper was written (Reno), and the retransmission timer.
//!
//! | event | window | threshold |
//! |---|---|---|
//! | new data acknowledged, below the threshold | a segment more | |
//! | the same, from the threshold on | a segment more for each window | |
//! | third duplicate acknowledgement: the first segment goes again | threshold + 3 segments | half of what is on its way, two segments at least |
//! | each further duplicate | a segment more | |
//! | new data acknowledged after that | threshold | |
//! | timeout: all goes again, from the first | one segment | half of what is on its way, two segments at least |
//!
//! The timeout is the smoothed round trip and four times its deviation, doubled with each
//! timeout in a row, within its bounds, and ends at a tick of the host's slow timer. One segment at a time is timed, and none that was
//! sent twice. Selective acknowledgements came later (1996).
//!
//! Source: Jacobson, Congestion Avoidance and Control, 1988 and 1990; rfc2001 wrote it down.

use barewire_units::{Duration, Instant};

/// Duplicate acknowledgements that mean a loss.
const DUPLICATES: u32 = 3;
/// Longest timeout.
const TIMEOUT_MAX: Duration = Duration::from_s(64);
/// Timeouts in a row that still double it.
const DOUBLINGS_MAX: u32 = 6;

crate::parameters! {
    /// Times of a TCP.
    #[derive(Copy, PartialEq, Eq)]
    pub struct TcpTimes {
        /// Segments of the window that it begins with.
        pub initial_segments: u64,
        /// Shortest timeout, and the first.
        pub timeout_min: Duration,
        /// The timer is looked at so often, and strikes at the last look within its time.
        pub tick: Duration,
        /// Longest time until a receiver acknowledges.
        pub delayed_acknowledgement: Duration,
    }
}

/// How a sender reacts to loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// In which times.
    pub times: TcpTimes,
    /// When the host looked first, after the beginning of time.
    pub phase: Duration,
}

/// The congestion window and the timer's length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Congestion {
    recovery: Recovery,
    segment_bytes: u64,
    window_bytes: u64,
    threshold_bytes: u64,
    duplicates: u32,
    recovering: bool,
    /// The byte whose acknowledgement is timed, and since when.
    timed: Option<(u64, Instant)>,
    round_trip: Option<(Duration, Duration)>,
    doublings: u32,
}

impl Congestion {
    pub fn new(recovery: Recovery, segment_bytes: u64) -> Self {
        Self {
            recovery,
            segment_bytes,
            window_bytes: recovery.times.initial_segments.max(1) * segment_bytes,
            threshold_bytes: u64::MAX,
            duplicates: 0,
            recovering: false,
            timed: None,
            round_trip: None,
            doublings: 0,
        }
    }

    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// How long to wait for the next acknowledgement.
    pub fn timeout(&self) -> Duration {
        let measured = self.round_trip.map_or(Duration::ZERO, |(mean, deviation)| {
            mean.saturating_add(deviation.checked_mul(4).unwrap_or(Duration::MAX))
        });
        let once = measured.max(self.recovery.times.timeout_min);
        let doubled = once.checked_mul(1 << self.doublings.min(DOUBLINGS_MAX));
        doubled.unwrap_or(TIMEOUT_MAX).min(TIMEOUT_MAX)
    }

    /// When the timer strikes that is set now: at a tick.
    pub fn due(&self, now: Instant) -> Instant {
        let (tick_ps, phase_ps) = (
            self.recovery.times.tick.as_ps(),
            self.recovery.phase.as_ps(),
        );
        let end = now.saturating_add(self.timeout());
        let since_ps = end.since_origin().as_ps().saturating_sub(phase_ps);
        let off = since_ps.checked_rem(tick_ps).unwrap_or(0);
        let due_ps = end.since_origin().as_ps() - off;
        // Never in the past, however short the timeout is against the tick.
        Instant::from_ps(due_ps).max(now.saturating_add(self.recovery.times.tick))
    }

    /// A segment is sent that ends before `end`, for the first time or `again`.
    pub fn sent(&mut self, now: Instant, end: u64, again: bool) {
        if again {
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Everything before `sequence` has come.
    pub fn acknowledged(&mut self, now: Instant, sequence: u64) {
        if let Some((_, since)) = self.timed.take_if(|(end, _)| *end <= sequence) {
            self.measure(now.saturating_duration_since(since));
        }
        self.doublings = 0;
        self.duplicates = 0;
        if self.recovering {
            self.recovering = false;
            self.window_bytes = self.threshold_bytes;
        } else if self.window_bytes < self.threshold_bytes {
            self.grow(self.segment_bytes);
        } else {
            let segment = self.segment_bytes;
            let more = segment.saturating_mul(segment) / self.window_bytes.max(1);
            self.grow(more.max(1));
        }
    }

    /// A duplicate acknowledgement, with so many bytes on their way; whether the first segment
    /// is to go again.
    pub fn duplicate(&mut self, flight_bytes: u64) -> bool {
        self.duplicates = self.duplicates.saturating_add(1);
        if self.recovering {
            self.grow(self.segment_bytes);
            return false;
        }
        if self.duplicates != DUPLICATES {
            return false;
        }
        self.halve(flight_bytes);
        self.window_bytes = self.threshold_bytes + u64::from(DUPLICATES) * self.segment_bytes;
        self.recovering = true;
        self.timed = None;
        true
    }

    /// The timer has struck, with so many bytes on their way.
    pub fn timed_out(&mut self, flight_bytes: u64) {
        self.halve(flight_bytes);
        self.window_bytes = self.segment_bytes;
        self.recovering = false;
        self.duplicates = 0;
        self.timed = None;
        self.doublings = self.doublings.saturating_add(1);
    }

    fn halve(&mut self, flight_bytes: u64) {
        self.threshold_bytes = (flight_bytes / 2).max(2 * self.segment_bytes);
    }

    fn grow(&mut self, bytes: u64) {
        self.window_bytes = self.window_bytes.saturating_add(bytes);
    }

    fn measure(&mut self, sample: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((mean, deviation)) => {
                let off = sample.saturating_sub(mean).max(mean.saturating_sub(sample));
                let mean = (mean / 8 * 7).saturating_add(sample / 8);
                (mean, (deviation / 4 * 3).saturating_add(off / 4))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn congestion() -> Congestion {
        let recovery = Recovery {
            times: TcpTimes {
                initial_segments: 2,
                timeout_min: Duration::from_s(1),
                tick: Duration::from_ms(500),
                delayed_acknowledgement: Duration::ZERO,
            },
            phase: Duration::from_ms(100),
        };
        Congestion::new(recovery, 1_000)
    }

    fn ms(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ms(ms)
    }

    #[test]
    fn the_window_grows_halves_and_starts_again() {
        let mut it = congestion();
        (1..=8).for_each(|n| it.acknowledged(ms(n), n * 1_000));
        assert_eq!(it.window_bytes(), 10_000);
        assert!(!it.duplicate(10_000) && !it.duplicate(10_000) && it.duplicate(10_000));
        assert_eq!(it.window_bytes(), 8_000);
        assert!(!it.duplicate(10_000));
        assert_eq!(it.window_bytes(), 9_000);
        it.acknowledged(ms(20), 18_000);
        assert_eq!(it.window_bytes(), 5_000);
        // From the threshold on a segment for each window.
        (0..5).for_each(|n| it.acknowledged(ms(21), 19_000 + n));
        assert!((5_900..6_000).contains(&it.window_bytes()));
        it.timed_out(1_000);
        assert_eq!(it.window_bytes(), 1_000);
        it.acknowledged(ms(22), 30_000);
        it.acknowledged(ms(22), 31_000);
        assert_eq!(it.window_bytes(), 2_500);
    }

    #[test]
    fn the_timeout_follows_the_round_trip_and_doubles() {
        let mut it = congestion();
        assert_eq!(it.timeout(), Duration::from_s(1));
        it.sent(ms(0), 1_000, false);
        it.acknowledged(ms(2_000), 1_000);
        assert_eq!(it.timeout(), Duration::from_s(6));
        it.timed_out(1_000);
        assert_eq!(it.timeout(), Duration::from_s(12));
        // At the last tick within twelve seconds: 100 ms and so many half seconds.
        let due = it.due(ms(3_000)).since_origin();
        assert_eq!(due, Duration::from_ms(14_600));
        // What was sent twice is not timed.
        it.sent(ms(2_000), 2_000, false);
        it.sent(ms(3_000), 2_000, true);
        it.acknowledged(ms(9_000), 2_000);
        assert_eq!(it.timeout(), Duration::from_s(6));
    }
}
