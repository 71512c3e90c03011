//! Random variates that are the same bits on every machine.
//!
//! `f64` addition, multiplication, division and square root are exact by IEEE 754
//! and therefore the same everywhere; the logarithm of a system's mathematics
//! library is not. So the logarithm here is our own, of those operations alone.

use barewire_units::{Duration, Rng};

const LN_2: f64 = core::f64::consts::LN_2;

/// A number of [0, 1) in steps of 2⁻⁵³.
pub fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// An exponential variate of mean 1: a multiple of a mean time, say.
pub fn exponential(rng: &mut Rng) -> f64 {
    // Of (0, 1], which has a logarithm.
    let u = ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64);
    -ln(u)
}

/// A normal variate of mean 0 and deviation 1 (Marsaglia's polar method; one of the pair).
pub fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// `mean` times an exponential variate, to the nearest picosecond.
pub fn exponential_time(rng: &mut Rng, mean: Duration) -> Duration {
    Duration::from_ps((mean.as_ps() as f64 * exponential(rng) + 0.5) as u64)
}

/// The natural logarithm of a positive, normal number, within two units in the last place.
///
/// x = m · 2^e with m of [√½, √2); ln m = 2 artanh s with s = (m − 1)/(m + 1), |s| < 0.172,
/// as a series of which eleven terms reach beyond the precision of the type.
#[must_use]
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    const TERMS: [f64; 11] = [
        1.0 / 21.0,
        1.0 / 19.0,
        1.0 / 17.0,
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
        1.0,
    ];
    let series = TERMS.iter().fold(0.0, |sum, term| sum * square + term);
    exponent as f64 * LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_agrees_with_the_system_s() {
        let mut rng = Rng::from_seed(3);
        let mut worst: f64 = 0.0;
        for _ in 0..200_000 {
            let x = unit(&mut rng) * 10.0 + 1e-12;
            let (own, theirs) = (ln(x), x.ln());
            worst = worst.max((own - theirs).abs() / theirs.abs().max(1.0));
        }
        assert!(worst < 1e-15, "{worst}");
        assert_eq!(ln(1.0), 0.0);
        assert!((ln(f64::MIN_POSITIVE) - f64::MIN_POSITIVE.ln()).abs() < 1e-12);
    }

    #[test]
    fn variates_have_their_moments_and_their_bits() {
        let mut rng = Rng::from_seed(1);
        let count = 400_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..count {
            let x = exponential(&mut rng);
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(count);
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((squares / f64::from(count) - 2.0).abs() < 0.04);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..count {
            let x = normal(&mut rng);
            sum += x;
            squares += x * x;
        }
        assert!((sum / f64::from(count)).abs() < 0.01);
        assert!((squares / f64::from(count) - 1.0).abs() < 0.01);
        // The bits themselves, so that a change of the arithmetic is seen.
        let mut rng = Rng::from_seed(7);
        let bits = [exponential(&mut rng), normal(&mut rng)].map(f64::to_bits);
        assert_eq!(bits, [BITS_EXPONENTIAL, BITS_NORMAL], "{bits:#x?}");
    }

    const BITS_EXPONENTIAL: u64 = 0x3fd6_c646_5d0c_442e;
    const BITS_NORMAL: u64 = 0xbfe0_0123_db8e_278d;
}
