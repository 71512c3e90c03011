//! Bands of the machine's own speed, and which samples to believe.
//!
//! On a shared virtual machine the two virtual processors move between physical cores,
//! and where they happen to sit decides how long a cache line takes to cross. Every
//! sample is therefore bracketed by two short probes of exactly that; a sample whose
//! probes disagree was taken while the machine changed under it and is dropped.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Probes further apart than this, relative to the smaller, disagree.
pub const MOST_DISAGREEMENT: f64 = 0.25;

/// A class of the time that a cache line takes there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Band {
    /// Below 135 ns: close neighbours.
    A,
    /// 135 to 270 ns.
    B,
    /// 270 to 600 ns.
    C,
    /// 600 ns and more.
    D,
}

impl Band {
    /// All of them, fastest first.
    pub const ALL: [Band; 4] = [Band::A, Band::B, Band::C, Band::D];

    /// The band of a probe of so many nanoseconds.
    pub fn of(probe_ns: f64) -> Band {
        if probe_ns < 135.0 {
            Band::A
        } else if probe_ns < 270.0 {
            Band::B
        } else if probe_ns < 600.0 {
            Band::C
        } else {
            Band::D
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What two probes say about the sample between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// They agree: the band, and the mean of the two.
    Keep(Band, f64),
    /// They do not.
    Drop,
}

/// Judges a sample by the probes before and after it.
pub fn judge(before_ns: f64, after_ns: f64) -> Verdict {
    let (low, high) = if before_ns <= after_ns {
        (before_ns, after_ns)
    } else {
        (after_ns, before_ns)
    };
    let band = Band::of(before_ns);
    let apart = high > low * (1.0 + MOST_DISAGREEMENT);
    if band != Band::of(after_ns) || apart || !low.is_finite() || low <= 0.0 {
        return Verdict::Drop;
    }
    Verdict::Keep(band, (before_ns + after_ns) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_meet_at_their_borders() {
        assert_eq!(Band::of(89.0), Band::A);
        assert_eq!(Band::of(134.9), Band::A);
        assert_eq!(Band::of(135.0), Band::B);
        assert_eq!(Band::of(270.0), Band::C);
        assert_eq!(Band::of(600.0), Band::D);
    }

    #[test]
    fn agreeing_probes_keep_the_sample() {
        assert_eq!(judge(100.0, 110.0), Verdict::Keep(Band::A, 105.0));
        assert_eq!(judge(250.0, 210.0), Verdict::Keep(Band::B, 230.0));
    }

    #[test]
    fn probes_of_two_bands_drop_it() {
        assert_eq!(judge(130.0, 140.0), Verdict::Drop);
        assert_eq!(judge(601.0, 599.0), Verdict::Drop);
    }

    #[test]
    fn probes_far_apart_in_one_band_drop_it() {
        assert_eq!(judge(90.0, 113.0), Verdict::Drop);
        assert_eq!(judge(400.0, 310.0), Verdict::Drop);
        assert!(matches!(judge(400.0, 321.0), Verdict::Keep(Band::C, _)));
        assert_eq!(judge(f64::NAN, 100.0), Verdict::Drop);
        assert_eq!(judge(0.0, 0.0), Verdict::Drop);
    }
}
