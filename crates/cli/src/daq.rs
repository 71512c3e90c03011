//! `barewire daq`: an event builder, run whole or part by part, measured, and its files verified.
//!
//! | exit status | means |
//! |---|---|
//! | 0 | the run ended as it should, and the ledger balances |
//! | 1 | `check`, `convert`: the file is damaged; `order`: the run refuses |
//! | 2 | the configuration is faulty, a part cannot work, or a file cannot be read |
//! | 3 | the ledger does not balance |
//! | 4 | the run, or a `scan`, ended before its time; why is said |
//! | 5 | the ledger balances, but something was lost that no setting allows to be; what is said |

mod error;
mod files;
pub mod kek;
mod predict;
mod report;
mod scan;
mod start;
mod view;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use barewire_daq::config::{Config, template};
use barewire_daq::launch::{self, Outcome, Role, Watcher};
use barewire_daq::part::{self, Options, PartError, Verdict};
use barewire_daq::signals;
use barewire_daq::wire::Control;
use barewire_proto::evb::Command as RunCommand;
use clap::{Args, Subcommand, ValueEnum};

pub use error::DaqError;
use start::{HowTo, listen, load, own_program, own_source};
use view::Live;

/// What to do with an event builder.
#[derive(Clone, Debug, Subcommand)]
pub enum DaqCommand {
    /// Write a configuration that has every key with its default, unit and meaning
    Init(InitArgs),
    /// Run all parts: start the processes, on other hosts too, and watch them
    Run(RunArgs),
    /// Run one source
    Source(PartArgs),
    /// Run one builder
    Builder(PartArgs),
    /// Run the event manager
    Manager(ManagerArgs),
    /// Send an order to a live run: status, start, pause, drain, ...
    Order(OrderArgs),
    /// Verify recordings, and report what is damaged
    Check(files::CheckArgs),
    /// Convert a recording to HDF5, even if it is damaged or its builder was killed
    Convert(files::ConvertArgs),
    /// Measure throughput while keys of the configuration take several values
    #[command(after_help = scan::AFTER)]
    Scan(scan::ScanArgs),
    /// Predict the throughput of a configuration in the laboratory, and compare it with a
    /// measurement
    Predict(Box<predict::PredictArgs>),
}

/// Where to write a configuration.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// The file to write [default: standard output]
    file: Option<PathBuf>,
}

/// A run.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire daq init run.toml          a configuration, with every key explained
  barewire daq run run.toml           with a live view on a terminal; Ctrl-C drains it
  barewire daq run run.toml --plain   lines instead of the view
  barewire daq run run.toml --quiet --json > ledger.json
  barewire daq run run.toml --hold &  then `barewire daq order run.toml start`
docs/event-builder.md explains the exit statuses.")]
pub struct RunArgs {
    /// The configuration
    config: PathBuf,
    /// Print nothing while it runs
    #[arg(long)]
    quiet: bool,
    /// Print lines instead of the live view, even on a terminal
    #[arg(long)]
    plain: bool,
    /// Neither start nor end the run; `barewire daq order` does
    #[arg(long)]
    hold: bool,
    /// Print figures as JSON instead of the ledger
    #[arg(long)]
    json: bool,
}

/// A part.
#[derive(Clone, Debug, Args)]
pub struct PartArgs {
    /// The configuration, byte for byte the same as the manager's
    config: PathBuf,
    /// The number of the part, from 0
    #[arg(long, default_value_t = 0)]
    part: u16,
}

/// The manager.
#[derive(Clone, Debug, Args)]
pub struct ManagerArgs {
    /// The configuration
    config: PathBuf,
    /// Ignored: there is one manager
    #[arg(long, default_value_t = 0)]
    part: u16,
    /// Say nothing while it runs
    #[arg(long)]
    quiet: bool,
    /// Neither start nor end the run
    #[arg(long)]
    hold: bool,
    /// Print figures as JSON instead of the ledger
    #[arg(long)]
    json: bool,
}

/// A command to a run.
#[derive(Clone, Debug, Args)]
pub struct OrderArgs {
    /// The configuration of the run
    config: PathBuf,
    /// The order
    command: Order,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    /// Show the state of the run
    Status,
    /// Reset everything for another run; after a run with --hold has ended
    Configure,
    /// Accept triggers
    Start,
    /// Accept no triggers for now
    Pause,
    /// Accept triggers again
    Resume,
    /// Accept no more triggers, finish the events in flight, stop
    Drain,
    /// Stop, and count the events in flight as aborted
    Abort,
    /// End the processes; after a run with --hold has ended
    Quit,
}

/// Does it.
pub fn run(command: &DaqCommand) -> Result<ExitCode, DaqError> {
    match run_command(command) {
        Err(DaqError::Ended { code, why }) => {
            eprintln!("barewire: {why}");
            Ok(ExitCode::from(code))
        }
        Err(DaqError::Part(problem)) => {
            eprintln!("barewire: {problem}");
            Ok(ExitCode::from(problem.exit_status()))
        }
        done => done,
    }
}

fn run_command(command: &DaqCommand) -> Result<ExitCode, DaqError> {
    match command {
        DaqCommand::Init(args) => init(args),
        DaqCommand::Run(args) => run_all(args),
        DaqCommand::Source(args) => {
            part::run_source(&load(&args.config)?, args.part)?;
            Ok(ExitCode::SUCCESS)
        }
        DaqCommand::Builder(args) => {
            part::run_builder(&load(&args.config)?, args.part)?;
            Ok(ExitCode::SUCCESS)
        }
        DaqCommand::Manager(args) => manager(args),
        DaqCommand::Order(args) => order(args),
        DaqCommand::Check(args) => files::check(args),
        DaqCommand::Convert(args) => files::convert(args),
        DaqCommand::Scan(args) => scan::run(args),
        DaqCommand::Predict(args) => predict::run(args),
    }
}

fn init(args: &InitArgs) -> Result<ExitCode, DaqError> {
    let text = template();
    let Some(file) = &args.file else {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    };
    let new = std::fs::File::create_new(file);
    let written = new.and_then(|mut it| it.write_all(text.as_bytes()));
    written.map_err(|error| DaqError::Io {
        what: file.display().to_string(),
        error,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Passes signals on, and says who starts and dies.
struct Plainly {
    quiet: bool,
    passed_on: u32,
}

impl Watcher for Plainly {
    fn said(&mut self, role: Role, what: &str, pid: u32) {
        if !self.quiet {
            eprintln!("{} {what}: process {pid}", role.name());
        }
    }

    fn turn(&mut self) -> u32 {
        let asked = signals::asked();
        asked - core::mem::replace(&mut self.passed_on, asked)
    }
}

fn run_all(args: &RunArgs) -> Result<ExitCode, DaqError> {
    let config = load(&args.config)?;
    let program = own_program()?;
    let starting = |error| DaqError::Io {
        what: "start a part".to_owned(),
        error,
    };
    listen()?;
    let viewed = !args.quiet && !args.plain && view::is_possible();
    let how = HowTo {
        program: &program,
        config: &args.config,
        start: &config.start,
        own_source: own_source(&config),
        quiet: args.quiet || viewed,
        hold: args.hold,
        json: args.json,
    };
    let outcome = match viewed {
        true => run_in_view(&config, how),
        false => {
            let mut plainly = Plainly {
                quiet: args.quiet,
                passed_on: signals::asked(),
            };
            launch::run_here(&config, |role| how.command(role), &mut plainly)
        }
    };
    let outcome = outcome.map_err(starting)?;
    match args.json {
        true => print!("{}", report::with_status(&outcome)),
        false => print!("{}", outcome.ledger),
    }
    for death in &outcome.deaths {
        match args.json {
            true => eprintln!("{death}"),
            false => println!("  {death}"),
        }
    }
    Ok(ExitCode::from(outcome.code))
}

/// The run in the view; what the log said last stays on the terminal.
fn run_in_view(config: &Config, how: HowTo<'_>) -> std::io::Result<Outcome> {
    let mut live = Live::start(config)?;
    let errors = live.errors()?;
    // Moved: as long as it is there, more errors may come.
    let command = move |role| {
        let mut command = how.command(role);
        command.stderr(errors());
        command
    };
    let outcome = launch::run_here(config, command, &mut live);
    live.end().iter().for_each(|line| eprintln!("{line}"));
    outcome
}

fn manager(args: &ManagerArgs) -> Result<ExitCode, DaqError> {
    let config = load(&args.config)?;
    listen()?;
    let options = Options {
        hold: args.hold,
        quiet: args.quiet,
    };
    let ended = part::run_manager(&config, options)?;
    if args.json {
        println!("{}", report::report(&ended));
        return Ok(ExitCode::from(launch::exit_code(&ended.verdict)));
    }
    print!("{}", ended.ledger);
    match &ended.verdict {
        Verdict::Failed(reason) => println!("  the run ended before its time: {reason}"),
        Verdict::Lost(what) => println!("  LOST: {what}"),
        Verdict::Balanced | Verdict::Unbalanced(_) => {}
    }
    Ok(ExitCode::from(launch::exit_code(&ended.verdict)))
}

fn order(args: &OrderArgs) -> Result<ExitCode, DaqError> {
    let config = load(&args.config)?;
    let command = |command| Control::Order { command };
    let message = match args.command {
        Order::Status => Control::Status {},
        Order::Configure => command(RunCommand::Configure),
        Order::Start => command(RunCommand::Start),
        Order::Pause => command(RunCommand::Pause),
        Order::Resume => command(RunCommand::Resume),
        Order::Drain => command(RunCommand::Drain),
        Order::Abort => command(RunCommand::Abort),
        Order::Quit => Control::Quit {},
    };
    match part::order(&config, &message) {
        Err(refused @ PartError::Refused(_)) => {
            eprintln!("barewire: {refused}");
            Ok(ExitCode::FAILURE)
        }
        answer => {
            println!("{}", answer?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
