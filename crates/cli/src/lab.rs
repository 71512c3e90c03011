//! `barewire lab`: plans run and looked at, and the published tables beside what the models
//! give.
//!
//! | command | module |
//! |---|---|
//! | `list`, `show`, `new` | `shelf` |
//! | `run`, `sweep` | `run` |
//! | `plot` | `plot` |
//! | `reproduce`, and `sweep` of a system | `reproduce` |
//! | `calibrate` | `calibrate` |
//!
//! What is written goes through `store`, so that a command that was stopped leaves nothing
//! that looks like a result.

pub mod calibrate;
mod plot;
mod progress;
mod reproduce;
mod run;
mod shelf;
pub mod store;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use barewire_tables::plan::{PlanError, Shelf, Wanted};
use barewire_tables::runs::RunError;
use barewire_tables::{Change, ExpectedError, ReproduceError, SweepError};
use clap::{Args, Subcommand};

use crate::nodes::LookError;

/// What to do in the laboratory.
#[derive(Clone, Debug, Subcommand)]
pub enum LabCommand {
    /// List systems, plans and fragments of plans
    List,
    /// Show a plan whole, the parameters of a system with their sources, or a fragment
    #[command(after_help = shelf::AFTER_SHOW)]
    Show(PlanArgs),
    /// Write a plan of your own to begin with, NAME.toml
    New(shelf::NewArgs),
    /// Run a plan and show its tables
    #[command(after_help = run::AFTER_RUN)]
    Run(Box<run::RunArgs>),
    /// Run a plan as keys of it take several values, or a system's published tables
    #[command(after_help = run::AFTER_SWEEP)]
    Sweep(Box<run::SweepArgs>),
    /// Draw the tables of a result
    Plot(plot::PlotArgs),
    /// Run systems and set what they give beside what was published
    #[command(long_about = reproduce::LONG, after_help = reproduce::AFTER)]
    Reproduce(Box<reproduce::ReproduceArgs>),
    /// Measure this machine as a host for the workbench
    Calibrate(calibrate::CalibrateArgs),
}

/// A plan, with what is to be different in it.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// A built-in plan (`barewire lab list`), a file, or the folder of a result
    pub plan: String,
    /// Change a key: `inputs.KEY`, `seed`, `replications`, or a parameter of the system; `@FILE` as the
    /// value is the text of that file
    #[arg(long, value_name = "KEY=VALUE", value_parser = change_or_file)]
    pub set: Vec<Change>,
    /// Put the inputs and parameters of a file, or of a built-in fragment, over the plan's
    #[arg(long, value_name = "FILE|NAME")]
    pub with: Vec<String>,
    /// The seed of everything random
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run it so many times with different seeds: means with 95 % confidence intervals
    #[arg(long, value_name = "N")]
    pub replications: Option<u64>,
}

/// The longest text of a file that can be a value.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// `KEY=VALUE`, or `KEY=@FILE` with the text of a file for its value.
fn change_or_file(text: &str) -> std::result::Result<Change, String> {
    let mut change: Change = text.parse()?;
    let Some(path) = change.value.strip_prefix('@') else {
        return Ok(change);
    };
    let wrong = |error: io::Error| format!("{path}: {error}");
    let mut value = String::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut value);
    if read.map_err(wrong)? as u64 > FILE_BYTES_MAX {
        return Err(format!("{path}: more than {FILE_BYTES_MAX} bytes"));
    }
    change.value = value;
    Ok(change)
}

impl PlanArgs {
    fn wanted(&self) -> Wanted {
        let numbers = [
            ("--seed", "seed", self.seed),
            ("--replications", "replications", self.replications),
        ];
        let number = |(option, key, number): (&'static str, &str, Option<u64>)| {
            let value = number?.to_string();
            let key = key.to_owned();
            Some((option, Change { key, value }))
        };
        let changes = self.set.iter().map(|change| ("--set", change.clone()));
        Wanted {
            with: self.with.clone(),
            set: changes
                .chain(numbers.into_iter().filter_map(number))
                .collect(),
        }
    }
}

/// Why a command of the laboratory did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine could not be measured.
    #[error(transparent)]
    Calibrate(#[from] calibrate::CalibrateError),
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
    Print(#[from] LookError),
    /// It ran, and does not agree with what was published.
    #[error("{0} of {1} values are outside their tolerance or missing")]
    Disagrees(usize, usize),
}

type Result<T> = std::result::Result<T, LabError>;

/// Does it.
pub fn run(command: &LabCommand) -> Result<()> {
    let lab = Shelf::default();
    match command {
        LabCommand::List => shelf::list(lab),
        LabCommand::Show(args) => shelf::show(lab, args),
        LabCommand::New(args) => shelf::new(lab, args),
        LabCommand::Run(args) => run::run(lab, args),
        LabCommand::Sweep(args) => run::sweep(lab, args),
        LabCommand::Plot(args) => plot::plot(args),
        LabCommand::Reproduce(args) => reproduce::reproduce_all(lab, args),
        LabCommand::Calibrate(args) => Ok(calibrate::calibrate(args)?),
    }
}

/// What a result was made with.
fn versions() -> BTreeMap<String, String> {
    let compiler = format!(
        "{}, {} build",
        env!("BAREWIRE_RUSTC"),
        env!("BAREWIRE_BUILD_PROFILE")
    );
    BTreeMap::from([
        ("barewire".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("compiler".to_owned(), compiler),
    ])
}
