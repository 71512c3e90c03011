//! What the experiments have in common: what is refused, and times of runs.

use crate::error::SystemError;
use crate::figures::seconds;
use crate::penn::world::Run;
use crate::refuse::{AtMost, names, up_to, within};
use barewire_models::penn::Path;
use barewire_units::{ByteSize, Duration};
use std::ops::RangeInclusive;

/// Longest block: the programs' memory is laid out for it.
pub(super) const BLOCK_MAX: ByteSize = ByteSize::from_mib(16);
/// Most bytes that a run moves, so that it ends while somebody waits.
pub(super) const VOLUME_MAX: ByteSize = ByteSize::from_mib(256);
/// Writes of a run.
pub(super) const WRITES: RangeInclusive<u64> = 1..=1_000_000;
/// A list of inputs that are no quantities.
pub(super) const CHOICES: AtMost = AtMost(POINTS_MAX);
/// Most points of an experiment.
pub(super) const POINTS_MAX: usize = 10_000;

names! {
    /// A driver, as inputs name it.
    pub(super) enum Policy {
        TwoBuffers = "two-buffers",
        Block = "block",
        Trust = "trust",
        FaultOnWrite = "fault-on-write",
    }
}

impl Policy {
    pub(super) const fn path(self) -> Path {
        match self {
            Self::TwoBuffers => Path::Copied,
            Self::Block => Path::Block,
            Self::Trust => Path::Trust,
            Self::FaultOnWrite => Path::FaultOnWrite,
        }
    }
}

/// Refuses writes of blocks that are more than a run can hold.
pub(super) fn check_volume(longest: ByteSize, writes: u64) -> Result<(), SystemError> {
    let volume = ByteSize::from_bytes(longest.as_bytes().saturating_mul(writes));
    within("the volume of a run", volume, up_to(VOLUME_MAX))
}

pub(super) fn us(time: Duration) -> f64 {
    seconds(time) * 1e6
}

/// Microseconds of `time` for each of `count`.
pub(super) fn us_each(time: Duration, count: u64) -> f64 {
    us(time) / count as f64
}

/// Mbit/s that the program saw, who wrote so many bytes.
pub(super) fn program_mbps(run: &Run, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / seconds(run.elapsed) / 1e6
}
