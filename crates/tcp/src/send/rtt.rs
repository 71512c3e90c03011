//! The round-trip time and the retransmission timeout (RFC 6298), with 200 ms as the least
//! timeout, as Linux has it.

use crate::stamps::rebased;
use barewire_units::{Duration, Instant};

/// The shortest timeout. Other ends delay their acknowledgements by up to 40 ms, some by 100 ms.
pub(crate) const RTO_MIN: Duration = Duration::from_ms(200);

/// The longest timeout.
pub(crate) const RTO_MAX: Duration = Duration::from_s(60);

/// The timeout before the first sample.
pub(crate) const RTO_FIRST: Duration = Duration::from_s(1);

/// How long the least round-trip time is remembered.
const LEAST_KEPT: Duration = Duration::from_s(300);

/// What is known of the round-trip time.
#[derive(Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    least: Option<(Duration, Instant)>,
    /// How often the timeout was doubled since the last sample.
    doublings: u32,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            least: None,
            doublings: 0,
        }
    }

    /// Takes a sample of a segment that was sent only once.
    pub(crate) fn sample(&mut self, rtt: Duration, now: Instant) {
        self.sample_coarse(rtt);
        let is_old = |since: Instant| now.saturating_duration_since(since) > LEAST_KEPT;
        if self
            .least
            .is_none_or(|(least, since)| rtt <= least || is_old(since))
        {
            self.least = Some((rtt, now));
        }
    }

    /// Takes a sample that is not exact: it does not count as the least.
    pub(crate) fn sample_coarse(&mut self, rtt: Duration) {
        self.doublings = 0;
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let difference = if rtt > smoothed {
                    rtt - smoothed
                } else {
                    smoothed - rtt
                };
                self.variation = self.variation / 4 * 3 + difference / 4;
                self.smoothed = Some(smoothed / 8 * 7 + rtt / 8);
            }
        }
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        self.least = self.least.map(|(least, at)| (least, rebased(at, by)));
    }

    /// The smoothed round-trip time, once there was a sample.
    pub(crate) const fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The least round-trip time of late.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least.map(|(least, _)| least)
    }

    /// How long to wait for an acknowledgement.
    pub(crate) fn timeout(&self) -> Duration {
        let base = match self.smoothed {
            None => RTO_FIRST,
            Some(smoothed) => smoothed
                .saturating_add(
                    self.variation.saturating_add(
                        self.variation
                            .saturating_add(self.variation.saturating_add(self.variation)),
                    ),
                )
                .max(RTO_MIN),
        };
        let factor = 1_u64 << self.doublings.min(16);
        base.checked_mul(factor).unwrap_or(RTO_MAX).min(RTO_MAX)
    }

    /// Doubles the timeout, since it has expired.
    pub(crate) fn double(&mut self) {
        self.doublings = self.doublings.saturating_add(1);
    }

    /// Ends the doubling: the other end has acknowledged something new.
    pub(crate) fn end_doubling(&mut self) {
        self.doublings = 0;
    }
}
