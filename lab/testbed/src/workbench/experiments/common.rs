//! What the experiments have in common: what is refused, units, hashes.

use barewire_units::{ByteSize, Duration};

use crate::error::SystemError;
use crate::refuse::{list, within};
use crate::workbench::bench::{Bench, Fate, Place};
use crate::workbench::parameters::Parameters;

/// Events of a whole experiment, beyond which it would take too long.
pub(super) const EVENTS_MAX: f64 = 5e7;
/// Points of a list of inputs.
pub(super) const POINTS_MAX: usize = 64;

pub(super) fn contradiction<T>(text: String) -> Result<T, SystemError> {
    Err(SystemError::Contradiction(text))
}

/// Refuses a list of inputs with nothing in it, or too much.
pub(super) fn check_list<T>(key: &str, values: &[T]) -> Result<(), SystemError> {
    list(key, values, POINTS_MAX)
}

pub(super) fn check_size(key: &str, size: ByteSize, most: ByteSize) -> Result<(), SystemError> {
    within(key, size, ByteSize::from_bytes(1)..=most)
}

pub(super) fn check_count(key: &str, count: u64, least: u64, most: u64) -> Result<(), SystemError> {
    within(key, count, least..=most)
}

pub(super) fn check_time(key: &str, time: Duration, most: Duration) -> Result<(), SystemError> {
    within(key, time, Duration::ZERO..=most)
}

/// Refuses what would take too long; `key` is what to make smaller.
pub(super) fn check_events(key: &str, events: f64) -> Result<(), SystemError> {
    if events <= EVENTS_MAX {
        return Ok(());
    }
    contradiction(format!(
        "{key} would take {events:.1e} events, more than {EVENTS_MAX:.0e}: choose less"
    ))
}

/// Events that a message of `bytes` takes on its way, at most.
pub(super) fn events(parameters: &Parameters, bytes: u64) -> f64 {
    let (framing, bus) = (parameters.framing(), parameters.host.bus);
    let piece = parameters.piece_bytes(bytes).max(1);
    let pieces = bytes.div_ceil(piece);
    let descriptor = parameters.card.descriptor.as_bytes();
    let frames = pieces * framing.frames(piece);
    let whole = bytes + pieces * descriptor;
    let out = whole.div_ceil(parameters.fill_bytes().max(1)) + pieces;
    let into = whole.div_ceil(bus.burst.as_bytes().max(1)) + frames;
    (frames * 7 + out + into + pieces * 8) as f64 + 16.0
}

pub(super) fn us(time: Duration) -> f64 {
    time.as_ps() as f64 / 1e6
}

/// `bytes` in `time` as Mbit/s; `None` in no time.
pub(super) fn mbps(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| bytes as f64 * 8.0 / us(time))
}

/// Part of the whole in percent.
pub(super) fn per_cent(part: Duration, whole: Duration) -> Option<f64> {
    (!whole.is_zero()).then(|| 100.0 * part.as_ps() as f64 / whole.as_ps() as f64)
}

/// The value that 99 of 100 do not exceed.
pub(super) fn p99(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * 99).div_ceil(100);
    values.get(rank.checked_sub(1)?).copied()
}

pub(in crate::workbench) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Messages lost, by place.
pub(super) fn lost(bench: &Bench) -> [u64; 4] {
    Place::ALL.map(|place| bench.count(Fate::Lost(place)))
}

/// The hash over the events of several runs, in their order.
pub(super) fn join_hashes(hashes: impl Iterator<Item = u64>) -> u64 {
    hashes.fold(0, |sum: u64, hash| sum.rotate_left(7) ^ hash)
}
