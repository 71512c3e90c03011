//! What can be asked of the model: the basic measurements with inputs of one's own, and the
//! questions that the source left open.

use std::fmt::Display;
use std::ops::RangeInclusive;

use barewire_units::{ByteSize, Duration};

use super::parameters::Parameters;
use crate::error::SystemError;
use crate::experiment::{Experiment, LinkCapture, Outcome, Setting, Table};

mod basic;
mod endpoints;
mod memory;
#[cfg(test)]
mod tests;

/// All of them.
pub const ALL: [Experiment; 8] = [
    basic::PING,
    basic::QUEUE,
    basic::SERVER,
    basic::CLUSTER,
    endpoints::ENDPOINTS,
    endpoints::CAM,
    memory::BUFFERS,
    memory::VIA,
];

/// Requests a second that can be offered: few enough to wait for some hundred of them, and
/// more than anything here can do.
const OFFERED_MIN: f64 = 100.0;
const OFFERED_MAX: f64 = 1e7;

fn parameters(setting: &Setting<'_>) -> Result<Parameters, SystemError> {
    Parameters::parse(setting.parameters)
}

/// Refuses what does not lie in a range.
fn within<T: PartialOrd + Display>(
    key: &str,
    found: T,
    allowed: RangeInclusive<T>,
) -> Result<(), SystemError> {
    if allowed.contains(&found) {
        return Ok(());
    }
    let (low, high) = allowed.into_inner();
    Err(SystemError::Contradiction(format!(
        "{key}: found {found}, expected {low} to {high}"
    )))
}

/// Refuses a list with nothing in it or much too much.
fn some<T>(key: &str, list: &[T]) -> Result<(), SystemError> {
    within(&format!("{key}: its length"), list.len(), 1..=1000)
}

/// Refuses sizes in a list that are not in a range of bytes.
fn sizes(key: &str, list: &[ByteSize], bytes: RangeInclusive<usize>) -> Result<(), SystemError> {
    some(key, list)?;
    let (low, high) = bytes.into_inner();
    let allowed = [low, high].map(ByteSize::from);
    let all = list.iter();
    all.copied()
        .try_for_each(|size| within(key, size, allowed[0]..=allowed[1]))
}

fn counts(key: &str, list: &[usize], allowed: RangeInclusive<usize>) -> Result<(), SystemError> {
    some(key, list)?;
    let all = list.iter();
    all.copied()
        .try_for_each(|count| within(key, count, allowed.clone()))
}

fn measured(time: Duration, least: Duration, most: Duration) -> Result<(), SystemError> {
    within("time", time, least..=most)
}

fn bytes(size: ByteSize) -> usize {
    size.as_usize().unwrap_or(usize::MAX)
}

/// An outcome, put together as runs come in.
#[derive(Default)]
struct Answer {
    outcome: Outcome,
}

impl Answer {
    fn add_hash(&mut self, hash: u64) {
        self.outcome.trace_hash = self.outcome.trace_hash.rotate_left(7) ^ hash;
    }

    fn add_run(&mut self, hash: u64, captures: Vec<LinkCapture>) {
        self.add_hash(hash);
        // An idle host's line, or no line recorded, is not worth an interface.
        let used = |link: &LinkCapture| !link.packets.is_empty();
        self.outcome.links.extend(captures.into_iter().filter(used));
    }

    fn with(mut self, tables: impl IntoIterator<Item = Table>) -> Outcome {
        self.outcome.tables.extend(tables);
        self.outcome
    }
}
