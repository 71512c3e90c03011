//! `barewire bench programs`: what unmodified programs do without the library that is
//! preloaded, and with it, in one run.
//!
//! The parts: `stage` starts programs and ends them; `peer` (with `many` and `memory`) is
//! what the two small programs of the micro-benchmarks do, `pair` asks them to; `micro`,
//! `real` and `postgres` are the scenarios; `bare` measures the machine's limits, `load`
//! who used its processors; a `figure` holds all rounds, and `report` writes them down.

mod bare;
mod figure;
mod load;
mod many;
mod memory;
mod messages;
mod micro;
pub mod pair;
pub mod peer;
mod postgres;
mod real;
pub mod report;
mod sockets;
mod stage;

use std::path::{Path, PathBuf};
use std::time::Instant;

use barewire_sys::process::raise_nofile_limit;
use clap::{Args, ValueEnum};

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{self, check_writable};
use crate::placement::Placement;
use figure::Figure;
use micro::How;
use report::Report;
use stage::Stage;

/// Of `barewire bench programs --help`, its beginning.
pub const LONG: &str = "\
What unmodified programs do without barewire and with it, in one run.

Each program runs plain, and with libbarewire_sockets.so preloaded into it; samples of the
two alternate, round after round. First two small programs of this executable's own, which
use the sockets of the standard library: round trips beside the bare machine's, streams,
connections made and closed, 10 000 connections at rest, and a server that meets nobody on
board. Then those of these that are installed: Redis, nginx with wrk, PostgreSQL with
pgbench, iperf3.

The library is found in the environment (BAREWIRE_SOCKETS_LIB), beside this executable, or
in ../lib. A slow figure is no error; a wrong byte or a failing program is.";

/// And its end.
pub const AFTER: &str = "\
Examples:
  barewire bench programs --quick                      a first look
  barewire bench programs --only ping-pong,redis       two of them
  barewire bench programs --json r.json --html r.html  in full, some minutes";

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// 64 B to and fro, both programs polling, beside the bare machine
    PingPong,
    /// 64 B to and fro, reads that wait
    Blocking,
    /// One stream, 64 B to 1 MiB at once
    Stream,
    /// Connections made and closed
    Connect,
    /// Connections at rest: memory and processor time
    Idle,
    /// A server on board whose client is not
    Alone,
    /// redis-benchmark
    Redis,
    /// nginx and wrk
    Nginx,
    /// PostgreSQL and pgbench
    Postgres,
    /// iperf3
    Iperf3,
}

/// What unmodified programs do without barewire and with it
#[derive(Clone, Debug, Args)]
pub struct ProgramsArgs {
    /// Only these, in this order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    only: Vec<Scenario>,
    /// Fewer and shorter samples
    #[arg(long)]
    quick: bool,
    /// Samples of each kind [default: 7; 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Length of a sample [default: 500, of other people's programs 2000; 150 and 1000 with --quick]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    duration_ms: Option<u64>,
    /// Connections at rest
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: u32,
    /// Show what each figure was to be (docs/bench.md), and whether it is
    #[arg(long)]
    targets: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// No table and no progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the scenarios with the library at this path, and writes the reports.
///
/// # Errors
/// A scenario that went wrong, after all the others.
pub fn run(args: &ProgramsArgs, library: &Path) -> Result<()> {
    check_writable([&args.json, &args.html].into_iter().flatten())?;
    let placement = Placement::choose(&[], false)?;
    let started = Instant::now();
    let mut report = Report {
        environment: Environment::look(placement),
        library: library.display().to_string(),
        load_average: (load::average(), 0.0),
        rounds: args.rounds.unwrap_or(if args.quick { 3 } else { 7 }),
        figures: Vec::new(),
        skipped: Vec::new(),
        failed: Vec::new(),
    };
    let scenarios = match args.only.as_slice() {
        [] => Scenario::value_variants(),
        only => only,
    };
    for &scenario in scenarios {
        let name = name(scenario);
        if !args.quiet {
            eprintln!("barewire: {name} ...");
        }
        // A folder for each: the library's counts of one are not those of another.
        let stage = Stage::new(library)?;
        let how = how(args, &report, scenario, placement);
        match play(scenario, &stage, how) {
            Ok(Played::Figures(figures)) => {
                if !args.quiet {
                    let lines = figures.iter().map(report::line);
                    lines.for_each(|line| eprintln!("{line}"));
                }
                report.figures.extend(figures);
            }
            Ok(Played::Skipped(why)) => report.skipped.push(format!("{name}: {why}")),
            Err(error) => report.failed.push(format!("{name}: {error}")),
        }
    }
    report
        .failed
        .extend(report.figures.iter().filter_map(fault));
    report.load_average.1 = load::average();
    report.environment.seconds = started.elapsed().as_secs_f64();
    write(args, &report)?;
    match report.failed.as_slice() {
        [] => Ok(()),
        failed => Err(Error::Transport(format!("failed: {}", failed.join("; ")))),
    }
}

/// A client without the library must never find itself on board.
fn fault(figure: &Figure) -> Option<String> {
    let wrong = figure.scenario == name(Scenario::Alone) && figure.on_board == Some(true);
    wrong.then(|| format!("{}: a connection was on board", figure.name))
}

fn name(scenario: Scenario) -> String {
    let value = scenario.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn how(args: &ProgramsArgs, report: &Report, scenario: Scenario, placement: Placement) -> How {
    use Scenario as S;
    let theirs = matches!(scenario, S::Redis | S::Nginx | S::Postgres | S::Iperf3);
    let ms = match (args.quick, theirs) {
        (true, true) => 1000,
        (true, false) => 150,
        (false, true) => 2000,
        (false, false) => 500,
    };
    How {
        rounds: report.rounds,
        ms: args.duration_ms.unwrap_or(ms),
        quick: args.quick,
        placement,
        connections: args.connections,
    }
}

enum Played {
    Figures(Vec<Figure>),
    Skipped(String),
}

fn play(scenario: Scenario, stage: &Stage, how: How) -> Result<Played> {
    let figures = match scenario {
        Scenario::PingPong => micro::polling(stage, how),
        Scenario::Blocking => micro::blocking(stage, how),
        Scenario::Stream => micro::stream(stage, how),
        Scenario::Connect => micro::connect(stage, how),
        Scenario::Alone => micro::alone(stage, how),
        Scenario::Idle => {
            // A few for the program itself, and for what is open while two ends meet.
            let most = raise_nofile_limit().saturating_sub(64);
            if u64::from(how.connections) > most {
                return Ok(Played::Skipped(format!(
                    "{} connections; a process may have {most} here (ulimit -Hn)",
                    how.connections
                )));
            }
            micro::idle(stage, how)
        }
        Scenario::Redis => {
            match real::need(
                ["redis-server", "redis-benchmark"],
                "redis-server redis-tools",
            ) {
                Ok(programs) => real::redis(stage, how, &programs),
                Err(why) => return Ok(Played::Skipped(why)),
            }
        }
        Scenario::Nginx => match real::need(["nginx", "wrk"], "nginx wrk") {
            Ok(programs) => real::nginx(stage, how, &programs),
            Err(why) => return Ok(Played::Skipped(why)),
        },
        Scenario::Postgres => match postgres::programs() {
            Ok(folder) => postgres::postgres(stage, how, &folder),
            Err(why) => return Ok(Played::Skipped(why)),
        },
        Scenario::Iperf3 => match real::need(["iperf3"], "iperf3") {
            Ok(programs) => real::iperf(stage, how, &programs),
            Err(why) => return Ok(Played::Skipped(why)),
        },
    };
    figures.map(Played::Figures)
}

fn write(args: &ProgramsArgs, report: &Report) -> Result<()> {
    if let Some(path) = &args.json {
        output::write(path, &report.to_json()?)?;
    }
    if let Some(path) = &args.html {
        output::write(path, &report.page(args.targets))?;
    }
    if !args.quiet {
        use std::io::Write;
        // A reader that closed the pipe has seen enough.
        let _ = std::io::stdout()
            .lock()
            .write_all(report.table(args.targets).as_bytes());
    }
    Ok(())
}
