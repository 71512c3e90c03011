//! What a plan can ask of Jetstream and Afterburner, and what the experiments share.
//!
//! | experiment | asks |
//! |---|---|
//! | [`ring`] | a ring of one's own: rotation, access and throughput against load |
//! | [`stream`] | netperf over two Afterburners back to back, messages of one's own |
//! | [`synchronous`] | the synchronous class beside asynchronous load (open in the paper) |
//! | [`switch`] | rings joined by the switch (open) |
//! | [`afterburner`] | Afterburner stacks on the real ring (open) |
//! | [`atm`] | the ring against an ATM switch with the same hosts (open) |
//! | [`interworking`] | a ring and an ATM switch, joined by an interworking unit (open) |
//!
//! Cards have the latency that the paper measured, not the one that it reckons with, and each a
//! clock of its own. What is recorded of a link is what was on it: real frames and cells with
//! payloads of zeros.

pub mod afterburner;
pub mod atm;
pub(crate) mod common;
pub mod emulated;
pub mod interworking;
pub mod ring;
pub mod stream;
pub mod switch;
pub mod synchronous;
#[cfg(test)]
mod tests;

use crate::experiment::Experiment;

/// Every experiment.
pub const ALL: [Experiment; 7] = [
    ring::EXPERIMENT,
    stream::EXPERIMENT,
    synchronous::EXPERIMENT,
    switch::EXPERIMENT,
    afterburner::EXPERIMENT,
    atm::EXPERIMENT,
    interworking::EXPERIMENT,
];
