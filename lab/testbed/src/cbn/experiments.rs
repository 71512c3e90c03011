//! What a plan can ask: measurements with inputs of one's own, and the open questions.
//!
//! | experiment | asks |
//! |---|---|
//! | `ping` | the round trip of a block, for any size, stage, condition and ring |
//! | `transmit` | the rate that a sender reaches |
//! | `load` | both, on a ring that false-traffic generators load |
//! | `duplex` | both ways at once, and what the single-ported memory costs |
//! | `tcp` | TCP over cells: window, segment, load, a lost cell |
//! | `future` | the cell engine, a second processor, the 1 GHz line |
//!
//! Every point is a run of its own with the same seed: points differ by what was varied alone.

mod basic;
mod common;
mod duplex;
mod emulated;
mod future;
mod inputs;
mod load;
mod tcp;
#[cfg(test)]
mod tests;

pub(super) use emulated::emulated;

use crate::experiment::Experiment;

/// Every experiment there is.
pub(super) const ALL: [Experiment; 6] = [
    basic::PING,
    basic::TRANSMIT,
    load::LOAD,
    duplex::DUPLEX,
    tcp::TCP,
    future::FUTURE,
];
