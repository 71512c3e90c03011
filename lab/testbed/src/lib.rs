//! Experiments: models and protocol cores put together, run by the event kernel, and
//! measured where the published systems were measured.
//!
//! Each published system is a [`System`]: it has one set of parameters, a file with the
//! source of every value, and runs every experiment of its paper. What it finds is a
//! list of [`Finding`]s, which `barewire-tables` holds against the published values.
#![forbid(unsafe_code)]

pub mod cbn;
pub mod clan;
#[cfg(test)]
mod expected;
mod experiment;
pub mod jetstream;
pub mod kek;
pub mod penn;
mod replicate;
pub mod workbench;

pub use experiment::{
    Cell, Column, Experiment, LinkCapture, LinkPacket, Outcome, Progress, Setting, Table,
};
pub use replicate::replicate;

/// One value that an experiment found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The table or group of the source, as in the expected file: `table-1`, `scalars`.
    pub table: &'static str,
    /// The row, as in the expected file: `10 cells`, `stage 2, 10 cells`.
    pub row: String,
    /// What was measured: `transmit rate`.
    pub quantity: &'static str,
    /// Its unit: `Mbit/s`.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

/// Why a system cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A parameter is missing, unknown, or no value of its kind. The text names line and key.
    #[error("parameters: {0}")]
    Parameters(#[from] toml::de::Error),
    /// An input is missing, unknown, or no value of its kind. The text names line and key.
    #[error("inputs: {0}")]
    Inputs(#[source] toml::de::Error),
    /// Parameters that contradict each other.
    #[error("parameters: {0}")]
    Contradiction(String),
}

/// A published system.
pub trait System: Sync {
    /// Its short name: `cbn`.
    fn name(&self) -> &'static str;

    /// Its parameters as TOML, each with its source or calibration row beside it.
    fn parameters(&self) -> &'static str;

    /// Runs every experiment of its paper with `parameters` in place of its own.
    /// The same parameters and seed give the same findings on every machine.
    ///
    /// # Errors
    ///
    /// Parameters that cannot be used.
    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError>;

    /// What a plan can ask of its model: measurements with inputs of one's own, and the
    /// questions that its paper left open.
    fn experiments(&self) -> &'static [Experiment] {
        &[]
    }

    /// Pieces of plans that it offers by name, each with its text: `[parameters]` and
    /// `[inputs]` to begin a plan with, such as those of a machine.
    fn fragments(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// Every system there is.
#[must_use]
pub fn systems() -> &'static [&'static dyn System] {
    &[
        &cbn::System,
        &clan::System,
        &jetstream::System,
        &kek::System,
        &penn::System,
        &workbench::System,
    ]
}
