//! What can go wrong with barewire as a transport, as errors of the benchmark.

use barewire::Event;

use crate::error::Error;

/// An error of the network.
#[cold]
pub fn failed(error: barewire::Error) -> Error {
    Error::Transport(format!("barewire: {error}"))
}

/// A message of the wrong length.
#[cold]
pub fn cut_short(got: usize, wanted: usize) -> Error {
    Error::Transport(format!(
        "barewire: a message of {got} bytes, not of {wanted}"
    ))
}

/// The error that an unexpected event stands for: as a rule the connection has closed.
pub fn closed_or_odd(event: Event) -> Error {
    match event {
        Event::Closed { reason, .. } => failed(reason),
        other => Error::Transport(format!("barewire: unexpected event {other:?}")),
    }
}
