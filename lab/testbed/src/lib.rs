//! Experiments: models and protocol cores put together, run by the event kernel, and
//! measured where the published systems were measured.
//!
//! Each published system is a [`System`]: it has one set of parameters, a file with the
//! source of every value, and runs every experiment of its paper. What it finds is a
//! list of [`Finding`]s, which `barewire-tables` holds against the published values.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! error: why a system cannot be run
//! refuse: what is wrong with an input
//! figures: times as numbers
//! experiment: questions, inputs, result tables
//! emulation: networks that carry packets from outside
//! sketch: networks as pictures show them
//! replicate: runs on all processors
//! sweep: the runs of an experiment
//! system: a published system
//! reproduction: what a system finds
//! sizes: sizes of fragments
//! assignment: which builder gets an event
//! cbn: the Cambridge Backbone
//! clan: the Collapsed LAN
//! jetstream: Jetstream and Afterburner
//! kek: the event builder of KEK
//! penn: the Penn ATM host interface
//! rdma: the ring over an RDMA card
//! workbench: a card of one's own design
//! network: networks that plans describe
//! systems: the table of systems
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
mod asked;
mod assignment;
#[cfg(test)]
mod carried;
pub mod cbn;
pub mod clan;
pub mod emulation;
mod error;
#[cfg(test)]
mod expected;
mod experiment;
mod figures;
pub mod jetstream;
pub mod kek;
pub mod network;
pub mod penn;
pub mod rdma;
mod refuse;
mod replicate;
mod reproduction;
mod sizes;
mod sketch;
mod sweep;
mod system;
mod systems;
pub mod workbench;

pub use error::{Fault, SystemError};
pub use experiment::{
    Cell, Column, Experiment, LinkCapture, LinkPacket, Outcome, Progress, Setting, Table,
};
pub use replicate::replicate;
pub use sketch::{Join, Shape, Sketch, Thing};
pub use system::{Finding, System};
pub use systems::systems;
