//! What was measured of this machine.

use barewire_bench::measure::stats::{median, spread};

/// Samples that make a figure.
pub const SAMPLES: usize = 7;

/// A figure with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub samples: usize,
}

impl Figure {
    pub fn of(samples: &[f64]) -> Option<Self> {
        let (low, high) = spread(samples)?;
        let median = median(samples)?;
        Some(Self {
            median,
            low,
            high,
            samples: samples.len(),
        })
    }
}

/// All that was measured; what could not be is missing. Nanoseconds and bit/s.
#[derive(Debug, Default)]
pub struct Figures {
    pub processors: usize,
    pub system_call: Option<Figure>,
    /// There and back: a cache line, two programs asleep on two processors and on one, 8 bytes
    /// over TCP by two programs that spin.
    pub line: Option<Figure>,
    pub asleep: Option<Figure>,
    pub asleep_together: Option<Figure>,
    pub tcp: Option<Figure>,
    pub copy_setup: Option<Figure>,
    pub cached_bps: Option<Figure>,
    pub beyond_bps: Option<Figure>,
    pub cache_bytes: Option<u64>,
    pub checksum_kib: Option<Figure>,
    /// There and back, by size: copied in, a flag, copied out.
    pub exchanges: Vec<(usize, Option<Figure>)>,
    /// What failed, and why.
    pub failed: Vec<String>,
}
