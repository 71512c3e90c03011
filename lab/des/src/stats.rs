//! What a run tells: tallies, averages over time, histograms, and means with
//! confidence intervals from batches.
//!
//! | collector | of | gives |
//! |---|---|---|
//! | [`Tally`] | values | count, mean, deviation, least, greatest |
//! | [`TimeAverage`] | a value that stands until it changes | its mean over time, exact |
//! | [`Histogram`] | whole numbers | percentiles, to three digits |
//! | [`BatchMeans`] | values in the order of the run | mean and confidence interval, warm-up left out |

use core::fmt;

use barewire_units::{Duration, Instant};

/// Values, summed up as they come (Welford's method: no cancellation).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    count: u64,
    mean: f64,
    squares: f64,
    least: f64,
    greatest: f64,
}

impl Tally {
    /// Takes one value in.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        if self.count == 1 {
            (self.least, self.greatest) = (value, value);
        }
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// How many values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// Their standard deviation, from a sample; 0 of fewer than two.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            count => (self.squares / (count - 1) as f64).sqrt(),
        }
    }

    /// The least and the greatest, if there is any.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.count > 0).then_some((self.least, self.greatest))
    }
}

/// The mean of a whole number over time: a queue's length, a link's use.
/// Summed in integers, so it is exact however long the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAverage {
    begun: Instant,
    since: Instant,
    value: u64,
    area: u128,
}

impl TimeAverage {
    /// Begins at `now` with `value`.
    #[must_use]
    pub const fn new(now: Instant, value: u64) -> Self {
        Self {
            begun: now,
            since: now,
            value,
            area: 0,
        }
    }

    /// The value is `value` from `now` on. A time before the last change counts as that.
    pub fn set(&mut self, now: Instant, value: u64) {
        self.area += self.area_until(now);
        self.since = self.since.max(now);
        self.value = value;
    }

    /// Forgets what was before `now`: the end of the warm-up.
    pub fn restart(&mut self, now: Instant) {
        *self = Self::new(now.max(self.since), self.value);
    }

    /// The value now.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.value
    }

    /// The mean from the beginning to `now`; the value itself over no time.
    #[must_use]
    pub fn mean(&self, now: Instant) -> f64 {
        let time = elapsed(self.begun, now.max(self.since)).as_ps();
        match time {
            0 => self.value as f64,
            time => (self.area + self.area_until(now)) as f64 / time as f64,
        }
    }

    fn area_until(&self, now: Instant) -> u128 {
        u128::from(elapsed(self.since, now).as_ps()) * u128::from(self.value)
    }
}

fn elapsed(from: Instant, to: Instant) -> Duration {
    to.since_origin()
        .checked_sub(from.since_origin())
        .unwrap_or(Duration::ZERO)
}

/// How whole numbers (picoseconds, bytes) are distributed, to three digits.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new(3).expect("three digits are allowed");
        Self { counts }
    }
}

impl Histogram {
    /// Takes one value in.
    pub fn add(&mut self, value: u64) {
        // Cannot fail: it grows by itself.
        let recorded = self.counts.record(value);
        debug_assert!(recorded.is_ok());
    }

    /// Takes in what `other` has: of another replication, say.
    pub fn merge(&mut self, other: &Self) {
        // Cannot fail: both grow by themselves.
        let merged = self.counts.add(&other.counts);
        debug_assert!(merged.is_ok());
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The value that `per_mille` of 1000 values do not exceed; 0 of none.
    #[must_use]
    pub fn per_mille(&self, per_mille: u16) -> u64 {
        self.counts
            .value_at_quantile(f64::from(per_mille.min(1000)) / 1000.0)
    }
}

/// A mean, and how far the true one may lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean that was found.
    pub mean: f64,
    /// Half the width of the interval that holds the true mean in 95 of 100 runs.
    pub half_width: f64,
}

impl Interval {
    /// The 95 % interval of the mean of values that do not depend on each other:
    /// batches, replications. Of fewer than two there is none.
    #[must_use]
    pub fn of(tally: &Tally) -> Option<Self> {
        let freedom = tally
            .count()
            .checked_sub(1)
            .filter(|&freedom| freedom > 0)?;
        let error = tally.deviation() / (tally.count() as f64).sqrt();
        Some(Self {
            mean: tally.mean(),
            half_width: student_95(freedom) * error,
        })
    }

    /// Whether the interval holds `value`.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} ± {:.6}", self.mean, self.half_width)
    }
}

/// The factor of Student's distribution for 95 % on both sides. Between the entries
/// of the table the next lower freedom is taken, which errs to the wider interval.
fn student_95(freedom: u64) -> f64 {
    const TABLE: [(u64, f64); 16] = [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (7, 2.365),
        (8, 2.306),
        (9, 2.262),
        (10, 2.228),
        (15, 2.131),
        (20, 2.086),
        (30, 2.042),
        (60, 2.000),
        (120, 1.980),
        (1000, 1.962),
    ];
    let known = TABLE.iter().rev().find(|&&(least, _)| least <= freedom);
    known.map_or(f64::INFINITY, |&(_, factor)| factor)
}

/// The mean of values that depend on their neighbours, as waits in one queue do:
/// the first `warm_up` are left out, then every `batch` values make one mean, and
/// those means hardly depend on each other any more.
#[derive(Clone, Copy, Debug)]
pub struct BatchMeans {
    warm_up: u64,
    batch: u64,
    current: Tally,
    means: Tally,
}

impl BatchMeans {
    /// Leaves out `warm_up` values and makes batches of `batch` (at least one).
    #[must_use]
    pub fn new(warm_up: u64, batch: u64) -> Self {
        Self {
            warm_up,
            batch: batch.max(1),
            current: Tally::default(),
            means: Tally::default(),
        }
    }

    /// Takes one value in.
    pub fn add(&mut self, value: f64) {
        if self.warm_up > 0 {
            self.warm_up -= 1;
            return;
        }
        self.current.add(value);
        if self.current.count() == self.batch {
            self.means.add(self.current.mean());
            self.current = Tally::default();
        }
    }

    /// Full batches so far.
    #[must_use]
    pub const fn batches(&self) -> u64 {
        self.means.count()
    }

    /// The mean with its interval, once there are two full batches.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        Interval::of(&self.means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist;
    use barewire_units::Rng;

    #[test]
    fn a_tally_of_known_values() {
        let mut tally = Tally::default();
        assert_eq!((tally.mean(), tally.range()), (0.0, None));
        for value in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            tally.add(value);
        }
        assert_eq!((tally.count(), tally.mean()), (8, 5.0));
        assert!((tally.deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(tally.range(), Some((2.0, 9.0)));
    }

    #[test]
    fn a_time_average_weighs_by_time() {
        let at = |ps| Instant::ORIGIN + Duration::from_ps(ps);
        let mut queue = TimeAverage::new(at(10), 4);
        assert_eq!(queue.mean(at(10)), 4.0);
        queue.set(at(20), 0);
        queue.set(at(50), 10);
        queue.set(at(45), 2);
        assert_eq!(queue.mean(at(60)), (40.0 + 20.0) / 50.0);
        queue.restart(at(60));
        assert_eq!(queue.mean(at(70)), 2.0);
    }

    #[test]
    fn percentiles() {
        let (mut low, mut high) = (Histogram::default(), Histogram::default());
        (1..=500).for_each(|value| low.add(value));
        (501..=1000).for_each(|value| high.add(value));
        low.merge(&high);
        assert_eq!(
            (low.count(), low.per_mille(500), low.per_mille(990)),
            (1000, 500, 990)
        );
        assert_eq!(Histogram::default().per_mille(500), 0);
        // Picoseconds of a second, and the end of time.
        for value in [1_000_000_000_000, u64::MAX] {
            let mut wide = Histogram::default();
            wide.add(3);
            wide.add(value);
            let found = wide.per_mille(1000);
            assert!(found.abs_diff(value) <= value / 1_000, "{found}");
            assert_eq!(wide.per_mille(500), 3);
        }
    }

    /// 95 of 100 intervals hold the true mean, also of values that depend on each other.
    #[test]
    fn intervals_hold_the_mean_as_often_as_they_say() {
        let root = Rng::from_seed(95);
        let held = (0..400).filter(|&run| {
            let mut rng = root.fork_nth("run", run);
            let mut means = BatchMeans::new(500, 400);
            let mut value = 0.0;
            for _ in 0..8_500 {
                value = 0.8 * value + dist::normal(&mut rng);
                means.add(value + 3.0);
            }
            means.interval().is_some_and(|interval| interval.holds(3.0))
        });
        let held = held.count();
        assert!((365..=395).contains(&held), "{held} of 400");
    }

    #[test]
    fn warm_up_is_left_out() {
        let mut means = BatchMeans::new(100, 10);
        (0..100).for_each(|_| means.add(1e9));
        assert!(means.interval().is_none());
        (0..30).for_each(|_| means.add(2.0));
        let interval = means.interval().expect("three batches");
        assert_eq!(
            (interval.mean, interval.half_width, means.batches()),
            (2.0, 0.0, 3)
        );
    }
}
