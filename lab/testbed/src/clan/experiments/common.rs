//! What the experiments have in common: what is refused, how runs are put together.

use crate::clan::parameters::Parameters;
use crate::error::SystemError;
use crate::experiment::{LinkCapture, Outcome, Setting, Table};
use crate::refuse::{self, within};
use barewire_units::{ByteSize, Duration};
use std::ops::RangeInclusive;

/// Values of a list.
pub(super) const LIST_MAX: usize = 1000;
/// Requests a second that can be offered: few enough to wait for some hundred of them, and
/// more than anything here can do.
pub(super) const OFFERED_MIN: f64 = 100.0;
pub(super) const OFFERED_MAX: f64 = 1e7;

pub(super) fn parameters(setting: &Setting<'_>) -> Result<Parameters, SystemError> {
    Parameters::parse(setting.parameters)
}

/// Refuses sizes in a list that are not in a range of bytes.
pub(super) fn sizes(
    key: &str,
    list: &[ByteSize],
    bytes: RangeInclusive<usize>,
) -> Result<(), SystemError> {
    refuse::list(key, list, LIST_MAX)?;
    let (low, high) = bytes.into_inner();
    let allowed = [low, high].map(ByteSize::from);
    let all = list.iter();
    all.copied()
        .try_for_each(|size| within(key, size, allowed[0]..=allowed[1]))
}

pub(super) fn counts(
    key: &str,
    list: &[usize],
    allowed: RangeInclusive<usize>,
) -> Result<(), SystemError> {
    refuse::list(key, list, LIST_MAX)?;
    let all = list.iter();
    all.copied()
        .try_for_each(|count| within(key, count, allowed.clone()))
}

pub(super) fn measured(time: Duration, least: Duration, most: Duration) -> Result<(), SystemError> {
    within("time", time, least..=most)
}

pub(super) fn bytes(size: ByteSize) -> usize {
    size.as_usize().unwrap_or(usize::MAX)
}

/// An outcome, put together as runs come in.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
}

impl Answer {
    pub(super) fn add_hash(&mut self, hash: u64) {
        self.outcome.trace_hash = self.outcome.trace_hash.rotate_left(7) ^ hash;
    }

    pub(super) fn add_run(&mut self, hash: u64, captures: Vec<LinkCapture>) {
        self.add_hash(hash);
        // An idle host's line, or no line recorded, is not worth an interface.
        let used = |link: &LinkCapture| !link.packets.is_empty();
        self.outcome.links.extend(captures.into_iter().filter(used));
    }

    pub(super) fn with(mut self, tables: impl IntoIterator<Item = Table>) -> Outcome {
        self.outcome.tables.extend(tables);
        self.outcome
    }
}
