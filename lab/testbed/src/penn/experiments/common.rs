//! What the experiments have in common: what is refused, how runs are put together.

use crate::error::SystemError;
use crate::experiment::Setting;
use crate::penn::world::{Run, seconds};
use crate::refuse::{each_within, within};
use crate::replicate::replicate;
use barewire_models::penn::Path;
use barewire_units::{ByteSize, Duration};
use serde::Deserialize;

/// Longest block: the programs' memory is laid out for it.
pub(super) const BLOCK_MAX: ByteSize = ByteSize::from_mib(16);
/// Most bytes that a run moves, so that it ends while somebody waits.
pub(super) const VOLUME_MAX: ByteSize = ByteSize::from_mib(256);
/// Most writes of a run.
pub(super) const WRITES_MAX: u64 = 1_000_000;
/// Most points of an experiment.
pub(super) const POINTS_MAX: usize = 10_000;

/// A driver, as inputs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    TwoBuffers,
    Block,
    Trust,
    FaultOnWrite,
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

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TwoBuffers => "two-buffers",
            Self::Block => "block",
            Self::Trust => "trust",
            Self::FaultOnWrite => "fault-on-write",
        }
    }
}

/// Blocks that a program can write, and how often.
pub(super) fn check_writes(key: &str, blocks: &[ByteSize], writes: u64) -> Result<(), SystemError> {
    each_within(
        key,
        blocks.iter().copied(),
        ByteSize::from_bytes(1)..=BLOCK_MAX,
    )?;
    within("the number of writes", writes, 1..=WRITES_MAX)?;
    let longest = blocks.iter().copied().max().unwrap_or(BLOCK_MAX);
    let volume = ByteSize::from_bytes(longest.as_bytes().saturating_mul(writes));
    within(
        "the volume of a run",
        volume,
        ByteSize::from_bytes(1)..=VOLUME_MAX,
    )
}

/// Runs all points on all processors and says how far it is.
pub(super) fn measure<T: Send>(
    setting: &Setting<'_>,
    points: usize,
    run: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    setting.progress.announce(points as u64);
    replicate(points, |index| {
        let found = run(index);
        setting.progress.step();
        found
    })
}

/// One hash of many, which depends on their order.
pub(super) fn combine(hashes: impl IntoIterator<Item = u64>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |all: u64, hash: u64| (all.rotate_left(23) ^ hash).wrapping_mul(ODD);
    hashes.into_iter().fold(0, step)
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
