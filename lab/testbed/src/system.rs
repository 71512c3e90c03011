//! A published system, and what it finds.
//!
//! | file of a system | what stands there |
//! |---|---|
//! | `NAME.rs` | its [`System`], and `reproduce`: the experiments of its paper |
//! | `NAME/parameters.rs` | the tables of its parameter file; those of a model are declared in the model |
//! | `NAME/world.rs` | its models, driven by the event kernel |
//! | `NAME/experiments.rs` and below | what a plan can ask: one [`Experiment`] each |
//! | `../parameters/NAME.toml`, `../plans/NAME-*.toml` | the parameters with their sources, the inputs of each experiment |
//!
//! A new one is added to the table in `systems.rs`.

use crate::emulation::{Emulated, Wanted};
use crate::error::SystemError;
use crate::experiment::{Experiment, Setting};
use crate::sketch::Sketch;

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

    /// The network of an experiment, to carry packets from outside. Where an input is a list, its first
    /// value counts.
    ///
    /// # Errors
    ///
    /// Parameters or inputs that cannot be used; a system that carries no packets.
    fn emulate(
        &self,
        _experiment: &str,
        _setting: &Setting<'_>,
        _wanted: &Wanted,
    ) -> Result<Box<dyn Emulated>, SystemError> {
        Err(SystemError::NoPackets(self.name()))
    }

    /// The tables that a plan of this system describes its network with: their keys are the
    /// parameters. Empty where the system has parameters of its own.
    fn sections(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whole plans that it has built in, beside those of its experiments, each with its text.
    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The network of these parameters as a picture shows it, if it can be drawn.
    fn sketch(&self, parameters: &str) -> Option<Result<Sketch, SystemError>> {
        let _ = parameters;
        None
    }

    /// Pieces of plans that it offers by name, each with its text: `[parameters]` and
    /// `[inputs]` to begin a plan with, such as those of a machine.
    fn fragments(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}
