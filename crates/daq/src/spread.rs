//! How times and sizes are spread: histograms that builders keep, that go to the manager in
//! control messages, and that it adds up.
//!
//! A value is known to 1 in 100, and up to [`VALUE_MAX`]: a list of counts fits a message.

use hdrhistogram::Histogram;

/// Larger values count as this: 18 minutes in ns, or 1 TiB.
pub const VALUE_MAX: u64 = 1 << 40;
/// Digits that are kept.
const DIGITS: u8 = 2;
/// Bits of a value that a bucket tells apart, with those digits.
const VALUE_BITS: u32 = 8;
/// Of a value and by how much it is shifted.
const CODE_BITS: u32 = 14;
const COUNT_MAX: u64 = u64::MAX >> CODE_BITS;

/// Values by how often they came.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread(Histogram<u64>);

impl Default for Spread {
    fn default() -> Self {
        // It grows with its values.
        let made = Histogram::new(DIGITS);
        // So few digits are allowed.
        Self(made.unwrap_or_else(|_| unreachable!()))
    }
}

impl Spread {
    /// One more value.
    pub fn note(&mut self, value: u64) {
        self.add_some(value, 1);
    }

    fn add_some(&mut self, value: u64, count: u64) {
        // There is room for every value up to that.
        let _ = self.0.record_n(value.min(VALUE_MAX), count);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value that this share of all does not exceed, at the lower end of its bucket, where
    /// powers of two are exact; 0 if there is none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.lowest_equivalent(self.0.value_at_quantile(share))
    }

    /// Median, 90 %, 99 %, 99.9 %, largest.
    #[must_use]
    pub fn quantiles(&self) -> [u64; 5] {
        [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| self.quantile(share))
    }

    /// How many values do not exceed `bound`, to the histogram's own exactness.
    #[must_use]
    pub fn count_to(&self, bound: u64) -> u64 {
        self.0.count_between(0, bound)
    }

    /// About the sum of all values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        let parts = self.0.iter_recorded();
        parts
            .map(|it| it.value_iterated_to() as f64 * it.count_since_last_iteration() as f64)
            .sum()
    }

    /// Adds what another one holds.
    pub fn add(&mut self, other: &Self) {
        // It grows as it must.
        let _ = self.0.add(&other.0);
    }

    /// As a list of numbers, one for each bucket that holds something: from the lowest bit 8
    /// bits of the value, 6 bits by how many it is shifted, and how often it came.
    #[must_use]
    pub fn to_numbers(&self) -> Vec<u64> {
        let parts = self.0.iter_recorded();
        parts
            .map(|it| {
                let value = it.value_iterated_to();
                let shift = u64::from((64 - value.leading_zeros()).saturating_sub(VALUE_BITS));
                let count = it.count_since_last_iteration().min(COUNT_MAX);
                count << CODE_BITS | shift << VALUE_BITS | value >> shift
            })
            .collect()
    }

    /// From such a list, whoever made it.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Self {
        let mut spread = Self::default();
        for number in numbers {
            let value = number & ((1 << VALUE_BITS) - 1);
            let shift = number >> VALUE_BITS & ((1 << (CODE_BITS - VALUE_BITS)) - 1);
            // A shift that nobody makes becomes the largest value.
            let value = value.checked_mul(1 << shift).unwrap_or(VALUE_MAX);
            spread.add_some(value, number >> CODE_BITS);
        }
        spread
    }
}

/// What builders know of times and sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spreads {
    /// From the first word of an event until it was built, in ns.
    pub building_ns: Spread,
    /// Bytes of events that were built.
    pub event_bytes: Spread,
    /// Bytes of fragments that were accepted.
    pub fragment_bytes: Spread,
}

impl Spreads {
    /// By their numbers in messages.
    #[must_use]
    pub const fn all(&self) -> [&Spread; 3] {
        [&self.building_ns, &self.event_bytes, &self.fragment_bytes]
    }

    /// The one of that number.
    pub fn at(&mut self, number: u8) -> Option<&mut Spread> {
        match number {
            0 => Some(&mut self.building_ns),
            1 => Some(&mut self.event_bytes),
            2 => Some(&mut self.fragment_bytes),
            _ => None,
        }
    }

    /// Adds what another one holds.
    pub fn add(&mut self, other: &Self) {
        self.building_ns.add(&other.building_ns);
        self.event_bytes.add(&other.event_bytes);
        self.fragment_bytes.add(&other.fragment_bytes);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.building_ns.clear();
        self.event_bytes.clear();
        self.fragment_bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_come_back_and_add_up(a in vec(0..=VALUE_MAX, 0..50), b in vec(0..=VALUE_MAX, 0..50)) {
            let spread = |values: &[u64]| {
                let mut spread = Spread::default();
                values.iter().for_each(|it| spread.note(*it));
                spread
            };
            let (first, second) = (spread(&a), spread(&b));
            let came = Spread::from_numbers(&first.to_numbers());
            prop_assert_eq!(came.quantiles(), first.quantiles());
            prop_assert_eq!(came.to_numbers(), first.to_numbers());
            let mut both = came;
            both.add(&second);
            let mut all = [a, b].concat();
            all.sort_unstable();
            prop_assert_eq!(both.count(), all.len() as u64);
            if let Some(largest) = all.last() {
                let exact = *largest as f64;
                prop_assert!((both.quantile(1.0) as f64 - exact).abs() <= exact / 100.0);
                prop_assert_eq!(both.count_to(VALUE_MAX), all.len() as u64);
                let sum: f64 = all.iter().map(|it| *it as f64).sum();
                prop_assert!((both.sum() - sum).abs() <= sum / 100.0);
            }
        }

        #[test]
        fn any_numbers_are_read_without_harm(numbers in vec(any::<u64>(), 0..50)) {
            let spread = Spread::from_numbers(&numbers);
            prop_assert!(spread.quantile(1.0) <= VALUE_MAX + VALUE_MAX / 100);
            prop_assert!(spread.to_numbers().len() <= numbers.len());
        }
    }

    #[test]
    fn the_longest_list_fits_a_message() {
        let mut spread = Spread::default();
        let mut value = 1;
        while value < VALUE_MAX {
            spread.note(value);
            value += (value >> 8).max(1);
        }
        let bytes = spread.to_numbers().len() * 8;
        assert!(bytes > 30_000 && bytes < 40_000, "{bytes}");
    }
}
