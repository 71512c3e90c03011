//! What a plan can ask of the Penn interface.
//!
//! | experiment | what it asks |
//! |---|---|
//! | `write` | Table I with sizes, drivers and machine of one's own |
//! | `pipeline` | segmenter and reassembler alone: clocks, cell managers, line, bus |
//! | `zero-copy` | the three policies for streaming from the user's pages |
//! | `small-blocks` | where the time of a small block goes, and what would help |
//! | `oc12` | the same design at four times the rate: what has to grow |
//! | `receive` | many circuits through the reassembler, with cells lost on the way |

mod oc12;
mod pipeline;
mod receive;
mod small_blocks;
mod write;
pub(super) mod zero_copy;

use std::fmt::Display;
use std::ops::RangeInclusive;

use barewire_models::penn::Path;
use barewire_units::{ByteSize, Duration};
use serde::Deserialize;

use super::world::{Run, seconds};
use crate::error::SystemError;
use crate::experiment::{Experiment, Setting};
use crate::replicate::replicate;

/// All of them.
pub(super) const ALL: [Experiment; 6] = [
    write::WRITE,
    pipeline::PIPELINE,
    zero_copy::ZERO_COPY,
    small_blocks::SMALL_BLOCKS,
    oc12::OC12,
    receive::RECEIVE,
];

/// Longest block: the programs' memory is laid out for it.
const BLOCK_MAX: ByteSize = ByteSize::from_mib(16);
/// Most bytes that a run moves, so that it ends while somebody waits.
const VOLUME_MAX: ByteSize = ByteSize::from_mib(256);
/// Most writes of a run.
const WRITES_MAX: u64 = 1_000_000;
/// Most points of an experiment.
const POINTS_MAX: usize = 10_000;

/// A driver, as inputs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    TwoBuffers,
    Block,
    Trust,
    FaultOnWrite,
}

impl Policy {
    const fn path(self) -> Path {
        match self {
            Self::TwoBuffers => Path::Copied,
            Self::Block => Path::Block,
            Self::Trust => Path::Trust,
            Self::FaultOnWrite => Path::FaultOnWrite,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::TwoBuffers => "two-buffers",
            Self::Block => "block",
            Self::Trust => "trust",
            Self::FaultOnWrite => "fault-on-write",
        }
    }
}

fn refusal(text: String) -> SystemError {
    SystemError::Contradiction(text)
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), SystemError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    Err(refusal(format!(
        "{key}: found {value}, expected {low} to {high}"
    )))
}

/// A list with something in it, all of it within `range`.
fn all_within<T: PartialOrd + Display + Copy>(
    key: &str,
    values: &[T],
    range: RangeInclusive<T>,
) -> Result<(), SystemError> {
    not_empty(key, values)?;
    values
        .iter()
        .try_for_each(|&value| within(key, value, range.clone()))
}

fn not_empty<T>(key: &str, values: &[T]) -> Result<(), SystemError> {
    match values.len() {
        0 => Err(refusal(format!(
            "{key}: found an empty list, expected one value or more"
        ))),
        _ => Ok(()),
    }
}

fn few_points(lengths: &[usize]) -> Result<(), SystemError> {
    let points = lengths
        .iter()
        .fold(1_usize, |points, &length| points.saturating_mul(length));
    if points > POINTS_MAX {
        return Err(refusal(format!(
            "the lists of inputs: found {points} points together, expected at most {POINTS_MAX}"
        )));
    }
    Ok(())
}

/// Blocks that a program can write, and how often.
fn check_writes(key: &str, blocks: &[ByteSize], writes: u64) -> Result<(), SystemError> {
    all_within(key, blocks, ByteSize::from_bytes(1)..=BLOCK_MAX)?;
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
fn measure<T: Send>(
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
fn combine(hashes: impl IntoIterator<Item = u64>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |all: u64, hash: u64| (all.rotate_left(23) ^ hash).wrapping_mul(ODD);
    hashes.into_iter().fold(0, step)
}

fn us(time: Duration) -> f64 {
    seconds(time) * 1e6
}

/// Microseconds of `time` for each of `count`.
fn us_each(time: Duration, count: u64) -> f64 {
    us(time) / count as f64
}

/// Mbit/s that the program saw, who wrote so many bytes.
fn program_mbps(run: &Run, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / seconds(run.elapsed) / 1e6
}

#[cfg(test)]
mod tests;
