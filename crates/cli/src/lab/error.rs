//! Why a command of the laboratory did not do what was asked.

use std::io;
use std::path::PathBuf;

use barewire_report::columns::PrintError;
use barewire_tables::plan::PlanError;
use barewire_tables::runs::RunError;
use barewire_tables::{ExpectedError, ReproduceError, SweepError};

use super::calibrate::CalibrateError;

/// Why a command of the laboratory did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine could not be measured.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// No such system.
    #[error("no system `{name}`; expected one of: {known}")]
    UnknownSystem {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Options that do not go with what they were given for.
    #[error("{0}")]
    Usage(String),
    /// Parameters belong to one system.
    #[error("--set changes the parameters of one system: name it")]
    SetOfMany,
    /// A plan that cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A run that gave nothing.
    #[error(transparent)]
    Stopped(#[from] RunError),
    /// A system that does not run as asked.
    #[error("{system}: {source}")]
    Run {
        /// The system.
        system: &'static str,
        /// Why.
        source: ReproduceError,
    },
    /// A sweep that cannot be run.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// A system whose published values cannot be used.
    #[error(transparent)]
    Expected(#[from] ExpectedError),
    /// A result that cannot be read.
    #[error("{}: {problem}", path.display())]
    Result {
        /// Where from.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Something that is not to be overwritten.
    #[error("{}: {problem}", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
        /// What is there, and what to do.
        problem: &'static str,
    },
    /// A file that cannot be written.
    #[error("writing {}: {source}", path.display())]
    File {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Output that cannot be written.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// It ran, and does not agree with what was published.
    #[error("{0} of {1} values are outside their tolerance or missing")]
    Disagrees(usize, usize),
}

/// The result of a command of the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;
