//! `barewire lab`: plans run and looked at, and the published tables beside what the models
//! give.
//!
//! | command | module |
//! |---|---|
//! | `list`, `show`, `new` | `plans` |
//! | `run`, `sweep` | `run` |
//! | `draw` | `draw` |
//! | `plot` | `plot` |
//! | `reproduce`, and `sweep` of a system | `reproduce` |
//! | `calibrate` | `calibrate` |
//! | `emulate` | `emulate` |
//!
//! What is written goes through `store`, so that a command that was stopped leaves nothing
//! that looks like a result.

mod args;
pub mod calibrate;
mod draw;
mod emulate;
mod error;
mod plans;
mod plot;
mod progress;
mod reproduce;
mod run;
pub mod store;
mod versions;

use barewire_tables::plan::PlanSource;
use clap::Subcommand;

use args::PlanArgs;
use error::Result;

/// What to do in the laboratory.
#[derive(Clone, Debug, Subcommand)]
pub enum LabCommand {
    /// List systems, plans and fragments of plans
    List,
    /// Show a whole plan, the parameters of a system with their sources, or a fragment
    #[command(after_help = plans::AFTER_SHOW)]
    Show(PlanArgs),
    /// Create a plan of your own, NAME.toml, from an existing one
    New(plans::NewArgs),
    /// Run a plan and show its tables
    #[command(after_help = run::AFTER_RUN)]
    Run(Box<run::RunArgs>),
    /// Run a plan, or the published tables of a system, while keys take several values
    #[command(after_help = run::AFTER_SWEEP)]
    Sweep(Box<run::SweepArgs>),
    /// Draw the network that a plan describes
    #[command(after_help = draw::AFTER_DRAW)]
    Draw(draw::DrawArgs),
    /// Plot the tables of a result
    Plot(plot::PlotArgs),
    /// Run systems, and compare their results with the published values
    #[command(long_about = reproduce::LONG, after_help = reproduce::AFTER)]
    Reproduce(Box<reproduce::ReproduceArgs>),
    /// Measure this machine as a host for the workbench
    Calibrate(calibrate::CalibrateArgs),
    /// Run a plan's network in real time between TAP devices, for ordinary programs (root)
    #[command(after_help = emulate::AFTER)]
    Emulate(Box<emulate::EmulateArgs>),
}

/// Does it.
pub fn run(command: &LabCommand) -> Result<()> {
    let lab = PlanSource::default();
    match command {
        LabCommand::List => plans::list(lab),
        LabCommand::Show(args) => plans::show(lab, args),
        LabCommand::New(args) => plans::new(lab, args),
        LabCommand::Run(args) => run::run(lab, args),
        LabCommand::Sweep(args) => run::sweep(lab, args),
        LabCommand::Draw(args) => draw::draw(lab, args),
        LabCommand::Plot(args) => plot::plot(args),
        LabCommand::Reproduce(args) => reproduce::reproduce_all(lab, args),
        LabCommand::Calibrate(args) => Ok(calibrate::calibrate(args)?),
        LabCommand::Emulate(args) => emulate::emulate(lab, args),
    }
}
