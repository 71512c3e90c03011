//! Why a command of the laboratory did not do what was asked.

use std::io;
use std::path::PathBuf;

use barewire_report::columns::PrintError;
use barewire_sys::SysError;
use barewire_sys::frames::FrameError;
use barewire_tables::plan::PlanError;
use barewire_tables::runs::RunError;
use barewire_tables::{ExpectedError, ReproduceError, SweepError};
use barewire_testbed::SystemError;

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
    /// A plan whose network cannot be emulated as asked.
    #[error("{0}")]
    NotEmulated(SystemError),
    /// No network namespace, or no device in it.
    #[error(
        "{name}: a network namespace and its device: {source}; it needs root (CAP_SYS_ADMIN and \
         CAP_NET_ADMIN), and a container that may make namespaces"
    )]
    Namespace {
        /// The device.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// No TAP device.
    #[error(transparent)]
    Tap(FrameError),
    /// The system refuses something that an emulation needs.
    #[error(transparent)]
    Emulation(SysError),
    /// The terminal refuses something.
    #[error("the terminal: {0}")]
    Terminal(io::Error),
    /// A program that does not start.
    #[error("start `{command}`: {source}")]
    Start {
        /// It.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The program that the emulation was for has failed.
    #[error("{0}")]
    Program(String),
    /// Packets left too late.
    #[error(
        "the run is invalid: the 99th percentile of lateness is {p99}, above the bound of {bound}; \
         this machine was too slow or too busy for it"
    )]
    Late {
        /// The percentile.
        p99: String,
        /// What it may be.
        bound: String,
    },
    /// It ran, and does not agree with what was published.
    #[error("{0} of {1} values are outside their tolerance or missing")]
    Disagrees(usize, usize),
}

/// The result of a command of the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;
