//! What the experiments have in common: what is refused, and what became of messages.

use std::ops::RangeInclusive;

use barewire_units::ByteSize;

use crate::error::SystemError;
use crate::experiment::{Cell, Row, Setting};
use crate::refuse::{AtMost, Inputs};
use crate::workbench::bench::{Bench, Fate, Place};
use crate::workbench::parameters::Parameters;

/// Events of a whole experiment, beyond which it would take too long.
pub(super) const EVENTS_MAX: f64 = 5e7;
/// Points of a list of inputs.
pub(super) const LIST: AtMost = AtMost(64);
/// A message.
pub(super) const MESSAGE: RangeInclusive<ByteSize> =
    ByteSize::from_bytes(1)..=ByteSize::from_mib(16);

/// Inputs and parameters; the inputs are within their own bounds.
pub(super) fn read<T: Inputs>(setting: &Setting<'_>) -> Result<(T, Parameters), SystemError> {
    let inputs = setting.checked_inputs()?;
    Ok((inputs, Parameters::parse(setting.parameters)?))
}

pub(super) fn contradiction<T>(text: String) -> Result<T, SystemError> {
    Err(SystemError::Contradiction(text))
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
pub(crate) fn events(parameters: &Parameters, bytes: u64) -> f64 {
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

/// Messages lost, by place.
pub(super) fn lost(bench: &Bench) -> [u64; 4] {
    Place::ALL.map(|place| bench.count(Fate::Lost(place)))
}

/// A row of what became of messages; it begins with what was varied.
pub(super) fn fates(
    varied: (&'static str, &'static str, Cell),
    [sent, received, never_ended]: [u64; 3],
    [switch, fifo, buffers, socket]: [u64; 4],
) -> Row<'static, 8> {
    [
        varied,
        ("sent", "", sent.into()),
        ("received", "", received.into()),
        ("lost in the switch", "", switch.into()),
        ("lost in the receive FIFO", "", fifo.into()),
        ("lost for want of buffers", "", buffers.into()),
        ("lost before the program", "", socket.into()),
        ("never ended", "", never_ended.into()),
    ]
}
