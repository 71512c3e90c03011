//! Bits that a line damages: so many of 10⁹ in the mean, each for itself.

use barewire_units::Rng;

/// Bits of which the mean number of damaged ones is given.
const BITS: u64 = 1_000_000_000;
/// Parts of the mean distance of two errors that are drawn for at a time. The chance of a part
/// is then within 2 % of exact.
const PARTS: u64 = 32;

/// A line's errors.
#[derive(Clone, Debug)]
pub struct Noise {
    rng: Rng,
    errors_per_gigabit: u64,
}

impl Noise {
    /// A line that damages `errors_per_gigabit` of 10⁹ bits.
    #[must_use]
    pub const fn new(rng: Rng, errors_per_gigabit: u64) -> Self {
        Self {
            rng,
            errors_per_gigabit,
        }
    }

    /// Whether any of the next `bits` is damaged.
    pub fn hits(&mut self, bits: u64) -> bool {
        if self.errors_per_gigabit == 0 {
            return false;
        }
        let part = (BITS / self.errors_per_gigabit / PARTS).max(1);
        let mut left = bits;
        while left > 0 {
            let now = left.min(part);
            left -= now;
            let errors = now.saturating_mul(self.errors_per_gigabit).min(BITS);
            if self.rng.ratio(errors, BITS) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_frames_are_hit_as_the_rate_says() {
        let mut quiet = Noise::new(Rng::from_seed(1), 0);
        assert!((0..1_000).all(|_| !quiet.hits(u64::from(u32::MAX))));
        // 1 of 10⁵ bits: of frames of 10⁵ bits 63.2 %, of cells of 424 bits 0.42 %.
        let mut noise = Noise::new(Rng::from_seed(1), 10_000);
        let long = (0..10_000).filter(|_| noise.hits(100_000)).count();
        assert!((6_200..6_450).contains(&long), "{long}");
        let cells = (0..100_000).filter(|_| noise.hits(424)).count();
        assert!((370..480).contains(&cells), "{cells}");
    }
}
