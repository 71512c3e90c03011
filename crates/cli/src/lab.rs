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

mod args;
pub mod calibrate;
mod error;
mod plot;
mod progress;
mod reproduce;
mod run;
mod shelf;
pub mod store;
mod versions;

use barewire_tables::plan::Shelf;
use clap::Subcommand;

use args::PlanArgs;
use error::Result;

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
