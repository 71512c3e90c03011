//! How many bytes may be in flight: CUBIC (RFC 9438) with slow start, and proportional rate
//! reduction (RFC 6937) while losses are repaired.
//!
//! All windows are in bytes. Times are seconds as floats only within the cubic function; nothing
//! else depends on how floats are rounded.

use crate::stamps::rebased;
use barewire_units::{Duration, Instant};

/// The window is cut to this part of itself at a loss.
const BETA: f64 = 0.7;

/// How steeply the window grows, in segments per cubic second.
const C: f64 = 0.4;

/// The first window, in segments (RFC 6928).
const FIRST_SEGMENTS: u32 = 10;

/// The smallest window outside of a timeout, in segments.
const LEAST_SEGMENTS: f64 = 2.0;

/// How many samples of a round tell whether it has become slower, and by how much at least and at
/// most it has: HyStart++ (RFC 9406).
const ROUND_SAMPLES: u32 = 8;
const SLOWER_MIN: Duration = Duration::from_ms(4);
const SLOWER_MAX: Duration = Duration::from_ms(16);

/// The congestion window.
#[derive(Debug)]
pub(crate) struct Congestion {
    mss: f64,
    window: f64,
    threshold: f64,
    /// The window before the last reduction, in segments.
    before: f64,
    /// When the present growth began; `None`: not yet since the last reduction.
    grows_since: Option<Instant>,
    /// The window then, in segments.
    grows_from: f64,
    /// The window that Reno would have, in segments.
    reno: f64,
    repair: Option<Repair>,
    round: Round,
}

/// The account of proportional rate reduction.
#[derive(Debug)]
struct Repair {
    /// What was in flight when the repair began.
    in_flight: f64,
    delivered: f64,
    sent: f64,
}

/// The round-trip times of this round and the one before, to leave slow start in time.
#[derive(Debug, Default)]
struct Round {
    least: Option<Duration>,
    least_before: Option<Duration>,
    samples: u32,
}

impl Congestion {
    pub(crate) fn new(mss: u32) -> Self {
        let mss = f64::from(mss);
        Self {
            mss,
            window: mss * f64::from(FIRST_SEGMENTS),
            threshold: f64::INFINITY,
            before: 0.0,
            grows_since: None,
            grows_from: 0.0,
            reno: 0.0,
            repair: None,
            round: Round::default(),
        }
    }

    /// How many bytes may be in flight.
    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Whether the window still doubles each round trip.
    pub(crate) fn is_in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// A new round trip begins.
    pub(crate) fn begin_round(&mut self) {
        self.round.least_before = self.round.least;
        self.round.least = None;
        self.round.samples = 0;
    }

    /// Leaves slow start where the round-trip time has grown: a queue builds up.
    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        if !self.is_in_slow_start() {
            return;
        }
        let round = &mut self.round;
        round.least = Some(round.least.map_or(rtt, |least| least.min(rtt)));
        round.samples += 1;
        if let (Some(least), Some(before)) = (round.least, round.least_before) {
            let slower = (before / 8).max(SLOWER_MIN).min(SLOWER_MAX);
            if round.samples >= ROUND_SAMPLES && least >= before.saturating_add(slower) {
                self.threshold = self.window;
            }
        }
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        self.grows_since = self.grows_since.map(|at| rebased(at, by));
    }

    /// `bytes` were acknowledged outside of a repair, while the window was in use.
    pub(crate) fn on_ack(&mut self, bytes: u64, rtt: Option<Duration>, now: Instant) {
        let mut bytes = bytes as f64;
        if self.is_in_slow_start() {
            let grown = bytes.min(self.threshold - self.window);
            self.window += grown;
            bytes -= grown;
            if bytes <= 0.0 {
                return;
            }
        }
        let segments = self.window / self.mss;
        let since = *self.grows_since.get_or_insert_with(|| {
            self.grows_from = segments;
            self.reno = segments;
            self.before = self.before.max(segments);
            now
        });
        let rtt = rtt.unwrap_or(Duration::ZERO);
        let elapsed = seconds(now.saturating_duration_since(since).saturating_add(rtt));
        let until_before = cube_root((self.before - self.grows_from) / C);
        let distance = elapsed - until_before;
        let target = self.before + C * distance * distance * distance;
        let target = target.clamp(segments, segments * 1.5);
        let acked_segments = bytes / self.mss;
        let slope = if self.reno < self.before {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        } else {
            1.0
        };
        self.reno += slope * acked_segments / segments;
        let grown = (target - segments) / segments * acked_segments;
        self.window = (segments + grown).max(self.reno) * self.mss;
    }

    /// A loss was found: cuts the window, and begins a repair with `in_flight` bytes under way.
    pub(crate) fn begin_repair(&mut self, in_flight: u64) {
        self.reduce();
        self.repair = Some(Repair {
            in_flight: (in_flight as f64).max(self.mss),
            delivered: 0.0,
            sent: 0.0,
        });
    }

    /// Cuts the window without a repair: what was lost was sent again already.
    pub(crate) fn reduce(&mut self) {
        let segments = self.window / self.mss;
        // Give way to newer flows.
        self.before = if segments < self.before {
            segments * (1.0 + BETA) / 2.0
        } else {
            segments
        };
        self.threshold = (segments * BETA).max(LEAST_SEGMENTS) * self.mss;
        self.grows_since = None;
        self.window = self.threshold;
    }

    /// Says how many bytes were delivered while a repair runs, and what is in flight now.
    pub(crate) fn on_repair_ack(&mut self, delivered: u64, in_flight: u64) {
        let Some(repair) = &mut self.repair else {
            return;
        };
        let (delivered, in_flight) = (delivered as f64, in_flight as f64);
        repair.delivered += delivered;
        let more = if in_flight > self.threshold {
            repair.delivered * self.threshold / repair.in_flight - repair.sent
        } else {
            let limit = (repair.delivered - repair.sent).max(delivered) + self.mss;
            limit.min(self.threshold - in_flight)
        };
        // The first repair always goes out.
        let least = if repair.sent == 0.0 { self.mss } else { 0.0 };
        self.window = in_flight + more.max(least);
    }

    /// `bytes` were sent.
    pub(crate) fn on_send(&mut self, bytes: u64) {
        if let Some(repair) = &mut self.repair {
            repair.sent += bytes as f64;
        }
    }

    /// All that was in flight at the loss was acknowledged.
    pub(crate) fn end_repair(&mut self) {
        if self.repair.take().is_some() {
            self.window = self.threshold;
        }
    }

    /// Nothing was acknowledged for the whole timeout. `is_first`: it has not expired before for
    /// the same bytes.
    pub(crate) fn on_timeout(&mut self, is_first: bool) {
        if is_first {
            self.reduce();
        }
        self.repair = None;
        self.grows_since = None;
        self.window = self.mss;
    }

    /// Nothing was sent for longer than the timeout: begins anew with the first window.
    pub(crate) fn on_idle(&mut self) {
        let first = self.mss * f64::from(FIRST_SEGMENTS);
        self.threshold = self.threshold.max(self.window * 0.75);
        self.window = self.window.min(first);
        self.grows_since = None;
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_us() as f64 / 1e6
}

/// The cube root by Newton's rule, since `core` has none.
fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let mut root = value.max(1.0);
    for _ in 0..128 {
        let next = (2.0 * root + value / (root * root)) / 3.0;
        let has_converged = (next - root) * (next - root) < 1e-18 * root * root;
        root = next;
        if has_converged {
            break;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_right() {
        for (value, root) in [
            (0.0, 0.0),
            (1.0, 1.0),
            (27.0, 3.0),
            (1e12, 1e4),
            (0.001, 0.1),
        ] {
            assert!((cube_root(value) - root).abs() < 1e-6, "{value}");
        }
        assert!(cube_root(-8.0) == 0.0);
    }

    #[test]
    fn slow_start_doubles_and_a_loss_cuts_to_seven_tenths() {
        let mut congestion = Congestion::new(1000);
        assert_eq!(congestion.window(), 10_000);
        congestion.on_ack(10_000, None, Instant::ORIGIN);
        assert_eq!(congestion.window(), 20_000);
        congestion.begin_repair(20_000);
        congestion.end_repair();
        assert_eq!(congestion.window(), 14_000);
        assert!(!congestion.is_in_slow_start());
    }

    #[test]
    fn the_window_comes_back_to_where_it_was_cut() {
        let mut congestion = Congestion::new(1000);
        congestion.on_ack(990_000, None, Instant::ORIGIN);
        congestion.begin_repair(1_000_000);
        congestion.end_repair();
        let rtt = Duration::from_ms(100);
        let mut now = Instant::ORIGIN;
        // K is the cube root of 1000 * 0.3 / 0.4 = 9.08 s.
        for _ in 0..90 {
            now += rtt;
            congestion.on_ack(congestion.window(), Some(rtt), now);
        }
        let window = congestion.window();
        assert!((950_000..1_050_000).contains(&window), "{window}");
    }

    #[test]
    fn the_window_grows_alike_from_a_later_origin() {
        let rtt = Duration::from_ms(100);
        let by = Duration::from_s(1000);
        let mut both = [0, 1].map(|_| {
            let mut congestion = Congestion::new(1000);
            congestion.on_ack(90_000, None, Instant::ORIGIN);
            congestion.begin_repair(100_000);
            congestion.end_repair();
            congestion.on_ack(1000, Some(rtt), Instant::ORIGIN + by);
            congestion
        });
        both[1].rebase(by);
        for step in 1..100 {
            let now = Instant::ORIGIN + rtt * step;
            let window = both[0].window();
            both[0].on_ack(window, Some(rtt), now + by);
            both[1].on_ack(window, Some(rtt), now);
            assert_eq!(both[0].window(), both[1].window(), "step {step}");
        }
    }

    #[test]
    fn a_repair_sends_less_than_is_delivered_and_ends_at_the_threshold() {
        let mut congestion = Congestion::new(1000);
        congestion.on_ack(90_000, None, Instant::ORIGIN);
        congestion.begin_repair(100_000);
        let mut in_flight = 99_000;
        let mut sent = 0;
        for _ in 0..90 {
            in_flight -= 1000;
            congestion.on_repair_ack(1000, in_flight);
            while in_flight + 1000 <= congestion.window() {
                congestion.on_send(1000);
                in_flight += 1000;
                sent += 1;
            }
        }
        assert!((60..=72).contains(&sent), "{sent}");
        congestion.end_repair();
        assert_eq!(congestion.window(), 70_000);
    }
}
