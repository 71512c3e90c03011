//! Histograms and the numbers drawn from them.

use hdrhistogram::Histogram;

/// The longest time that a histogram of picoseconds holds: 100 s.
const LONGEST_PS: u64 = 100_000_000_000_000;

/// The client's histogram of the sample being taken, in cycles; reused, so that taking a
/// sample allocates nothing.
#[derive(Debug)]
pub struct Scratch(Histogram<u64>);

impl Default for Scratch {
    fn default() -> Self {
        Scratch(new_histogram(LONGEST_PS, 3))
    }
}

impl Scratch {
    /// Empties it for a new sample.
    pub fn start(&mut self) -> &mut Histogram<u64> {
        self.0.reset();
        &mut self.0
    }

    /// The median of the sample in cycles, finer than the steps of the counter: the
    /// values within one step around the middle are taken as spread evenly over it.
    pub fn median_cycles(&self, granularity: u64) -> f64 {
        let histogram = &self.0;
        let middle = histogram.value_at_quantile(0.5);
        let half = (granularity / 2).max(histogram.equivalent_range(middle) / 2);
        let (low, high) = (middle.saturating_sub(half), middle.saturating_add(half));
        let (mut below, mut within) = (0, 0);
        for value in histogram.iter_recorded() {
            match value.value_iterated_to() {
                v if v < low => below += value.count_since_last_iteration(),
                v if v <= high => within += value.count_since_last_iteration(),
                _ => break,
            }
        }
        let needed = histogram.len() as f64 / 2.0 - below as f64;
        let width = (high - low) as f64;
        let into = (needed / (within as f64).max(1.0)).clamp(0.0, 1.0);
        low as f64 + width * into
    }

    /// What the last sample recorded.
    pub fn recorded(&self) -> &Histogram<u64> {
        &self.0
    }
}

fn new_histogram(longest: u64, figures: u8) -> Histogram<u64> {
    // A few significant figures between 1 and a large bound are always accepted; should
    // that change, an automatically growing one does as well.
    Histogram::new_with_bounds(1, longest, figures)
        .or_else(|_| Histogram::new(figures))
        .expect("a histogram of few significant figures")
}

/// The times of operations in one band: picoseconds each.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Times(new_histogram(LONGEST_PS, 2))
    }
}

impl Times {
    /// Adds what a sample recorded in cycles.
    pub fn add_cycles(&mut self, cycles: &Histogram<u64>, to_picoseconds: impl Fn(u64) -> u64) {
        for value in cycles.iter_recorded() {
            let picoseconds = to_picoseconds(value.value_iterated_to()).max(1);
            self.0
                .saturating_record_n(picoseconds, value.count_since_last_iteration());
        }
    }

    /// Adds single times in picoseconds.
    pub fn add_picoseconds(&mut self, picoseconds: &[u64]) {
        for &value in picoseconds {
            self.0.saturating_record(value.max(1));
        }
    }

    /// Adds what another one holds.
    pub fn absorb(&mut self, other: &Times) {
        // Both have the same bounds, so this cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// How many.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that so many percent stayed at or below, in nanoseconds.
    pub fn percentile_ns(&self, percent: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_percentile(percent) as f64 / 1000.0)
    }
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    })
}

/// Six figures of a number: no measurement here has more.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = 5 - value.abs().log10().floor() as i32;
    if places >= 0 {
        let scale = 10_f64.powi(places);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-places);
        (value / scale).round() * scale
    }
}

/// The mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest and the largest; `None` of nothing.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    Some(
        values
            .iter()
            .fold((first, first), |(low, high), &v| (low.min(v), high.max(v))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 7.0]), Some(7.0));
    }

    #[test]
    fn six_figures() {
        assert_eq!(rounded(123_456_789.0), 123_457_000.0);
        assert_eq!(rounded(0.012_345_678), 0.012_345_7);
        assert_eq!(rounded(97.0), 97.0);
        assert_eq!(rounded(0.0), 0.0);
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn means_and_spreads() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, 3.0]), Some(2.0));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[2.0, -1.0, 5.0]), Some((-1.0, 5.0)));
    }

    #[test]
    fn cycles_become_nanoseconds_with_their_percentiles() {
        let mut scratch = Scratch::default();
        let histogram = scratch.start();
        for cycles in 1..=1000_u64 {
            histogram.saturating_record(cycles);
        }
        let mut times = Times::default();
        times.add_cycles(scratch.recorded(), |cycles| cycles * 500);
        assert_eq!(times.count(), 1000);
        let median = times.percentile_ns(50.0).unwrap();
        assert!((median - 250.0).abs() < 3.0, "{median}");
        let tail = times.percentile_ns(99.9).unwrap();
        assert!((tail - 499.5).abs() < 5.0, "{tail}");
        scratch.start();
        assert_eq!(scratch.recorded().len(), 0);
    }

    #[test]
    fn a_coarse_counter_still_gives_a_fine_median() {
        // True times of 250 cycles, read on a counter that steps by 26: nine steps with
        // probability 10/26, ten steps otherwise.
        let mut scratch = Scratch::default();
        let histogram = scratch.start();
        for turn in 0..26_000_u64 {
            let steps = (turn * 250 + 250) / 26 - turn * 250 / 26;
            histogram.saturating_record(steps * 26);
        }
        let median = scratch.median_cycles(26);
        assert!((median - 250.0).abs() < 13.0, "{median}");
        let mut other = Times::default();
        other.add_picoseconds(&[5]);
        let mut times = Times::default();
        times.absorb(&other);
        assert_eq!(times.count(), 1);
    }

    #[test]
    fn absurd_times_are_held_at_the_bound() {
        let mut times = Times::default();
        times.add_picoseconds(&[0, u64::MAX]);
        assert_eq!(times.count(), 2);
        assert!(times.percentile_ns(100.0).unwrap() > 1e9);
    }
}
