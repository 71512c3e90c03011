//! Experiments: models and protocol cores put together, run by the event kernel, and
//! measured where the published systems were measured.
//!
//! Each published system is a [`System`]: it has one set of parameters, a file with the
//! source of every value, and runs every experiment of its paper. What it finds is a
//! list of [`Finding`]s, which `barewire-tables` holds against the published values.
#![forbid(unsafe_code)]

pub mod cbn;
pub mod clan;
mod error;
#[cfg(test)]
mod expected;
mod experiment;
pub mod jetstream;
pub mod kek;
pub mod penn;
mod refuse;
mod replicate;
mod system;
mod systems;
pub mod workbench;

pub use error::SystemError;
pub use experiment::{
    Cell, Column, Experiment, LinkCapture, LinkPacket, Outcome, Progress, Setting, Table,
};
pub use replicate::replicate;
pub use system::{Finding, System};
pub use systems::systems;
