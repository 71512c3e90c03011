//! Sizes of fragments, drawn with the same bits on every machine.

use barewire_des::dist::{exponential, normal};
use barewire_units::Rng;

use crate::refuse::names;

names! {
    /// How sizes are distributed.
    pub enum Distribution {
        Fixed = "fixed",
        Exponential = "exponential",
        LogNormal = "log-normal",
    }
}

/// Draws sizes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub distribution: Distribution,
    pub mean_bytes: u64,
    pub largest_bytes: u64,
    pub sigma: f64,
}

impl Sizes {
    /// The next size: at least a byte, at most the largest.
    pub fn draw(&self, random: &mut Rng) -> u64 {
        let mean = self.mean_bytes as f64;
        let bytes = match self.distribution {
            Distribution::Fixed => return self.mean_bytes.min(self.largest_bytes),
            Distribution::Exponential => mean * exponential(random),
            Distribution::LogNormal => {
                let sigma = self.sigma;
                mean * exp(sigma * normal(random) - sigma * sigma / 2.0)
            }
        };
        ((bytes + 0.5) as u64).clamp(1, self.largest_bytes)
    }
}

/// e to the power of x: 2^k of the nearest multiple of ln 2, and a series for the rest. Of exact
/// operations alone, as the system's own may differ from machine to machine.
fn exp(x: f64) -> f64 {
    const LN_2: f64 = core::f64::consts::LN_2;
    // Sixteen terms reach beyond the precision of the type for |rest| < 0.35.
    const TERMS: u32 = 16;
    let power = (x / LN_2 + 0.5).floor().clamp(-1_000.0, 1_000.0);
    let rest = x - power * LN_2;
    let series = (1..=TERMS)
        .rev()
        .fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    series * f64::from_bits(((power as i64 + 1_023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_agrees_with_the_system_s() {
        for step in -2_000..2_000 {
            let x = f64::from(step) * 0.01;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn sizes_have_their_mean_and_their_limits() {
        for distribution in [
            Distribution::Fixed,
            Distribution::Exponential,
            Distribution::LogNormal,
        ] {
            let sizes = Sizes {
                distribution,
                mean_bytes: 8_192,
                largest_bytes: 1 << 20,
                sigma: 1.0,
            };
            let mut random = Rng::from_seed(2);
            let drawn: Vec<_> = (0..40_000).map(|_| sizes.draw(&mut random)).collect();
            let mean = drawn.iter().sum::<u64>() as f64 / 40_000.0;
            assert!(
                (mean / 8_192.0 - 1.0).abs() < 0.03,
                "{distribution:?} {mean}"
            );
            assert!(drawn.iter().all(|size| (1..=1 << 20).contains(size)));
        }
    }
}
