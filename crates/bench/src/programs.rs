//! `barewire bench programs`: what unmodified programs do without the library that is
//! preloaded, and with it, in one run.
//!
//! The parts: `launcher` starts programs and ends them; `peer` (with `many`, `short` and `memory`)
//! is what the two small programs of the micro-benchmarks do, `pair` asks them to; `micro`,
//! `real` and `postgres` are the scenarios; `bare` measures the machine's limits, `load`
//! who used its processors; a `figure` holds all rounds, and `report` writes them down.

mod bare;
mod figure;
mod launcher;
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
mod short;
mod sockets;

use std::path::{Path, PathBuf};
use std::time::Instant;

use barewire_sys::process::raise_nofile_limit;
use clap::{Args, ValueEnum};

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{self, check_writable};
use crate::placement::Placement;
use figure::Figure;
use launcher::Launcher;
use load::BusyPrograms;
use micro::How;
use report::Report;

/// Of `barewire bench programs --help`, its beginning.
pub const LONG: &str = "\
Measure unmodified programs without barewire and with it, in one run.

Each program runs without and with libbarewire_sockets.so preloaded; samples of the two
alternate. The first tests use two small programs of this executable, which use the
sockets of the standard library: round trips beside the limit of this machine, streams,
connections opened and closed, short ones, forks, 10 000 idle connections, and a server
whose client is not accelerated. Then follow Redis, nginx with wrk, PostgreSQL with
pgbench, and iperf3, if they are installed.

The library is the file that BAREWIRE_SOCKETS_LIB names, or else the one beside this
executable or in ../lib. The command fails if a program fails or a byte is wrong, but not
if a figure is slow.";

/// And its end.
pub const AFTER: &str = "\
Examples:
  barewire bench programs --quick                      a first overview
  barewire bench programs --only ping-pong,redis       two of them
  barewire bench programs --quick --busy-programs 1    while another program keeps a processor busy
  barewire bench programs --json r.json --html r.html  in full, some minutes";

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Round trips of 64 B, both programs polling, beside the limit of this machine
    PingPong,
    /// Round trips of 64 B, with reads that block
    Blocking,
    /// One stream, 64 B to 1 MiB in each write
    Stream,
    /// Connections opened and closed
    Connect,
    /// Connections that carry one request and one answer, also answered by forked children
    Short,
    /// Forks, and starts of a program
    Children,
    /// Idle connections: memory and processor time
    Idle,
    /// A server with the library, whose client has none
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

/// Measure unmodified programs without barewire and with it
#[derive(Clone, Debug, Args)]
pub struct ProgramsArgs {
    /// Run only these tests, in this order
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
    /// Have so many other programs keep processors busy meanwhile [default without N: one for each processor]
    #[arg(long, alias = "crowded", value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    busy_programs: Option<u32>,
    /// Number of idle connections
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: u32,
    /// Show the target of each figure (docs/bench.md), and whether it is met
    #[arg(long)]
    targets: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print no table and no progress
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
        busy_programs: 0,
        figures: Vec::new(),
        skipped: Vec::new(),
        failed: Vec::new(),
    };
    let busy = BusyPrograms::start(args.busy_programs, report.environment.cores)?;
    report.busy_programs = busy.count();
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
        let launcher = Launcher::new(library)?;
        let how = how(args, &report, scenario, placement);
        match run_scenario(scenario, &launcher, how) {
            Ok(Outcome::Figures(figures)) => {
                if !args.quiet {
                    let lines = figures.iter().map(report::line);
                    lines.for_each(|line| eprintln!("{line}"));
                }
                report.figures.extend(figures);
            }
            Ok(Outcome::Skipped(why)) => report.skipped.push(format!("{name}: {why}")),
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

/// A client without the library must never be accelerated.
fn fault(figure: &Figure) -> Option<String> {
    let wrong = figure.scenario == name(Scenario::Alone) && figure.is_upgraded == Some(true);
    wrong.then(|| format!("{}: a connection was accelerated", figure.name))
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

enum Outcome {
    Figures(Vec<Figure>),
    Skipped(String),
}

fn run_scenario(scenario: Scenario, launcher: &Launcher, how: How) -> Result<Outcome> {
    let figures = match scenario {
        Scenario::PingPong => micro::polling(launcher, how),
        Scenario::Blocking => micro::blocking(launcher, how),
        Scenario::Stream => micro::stream(launcher, how),
        Scenario::Connect => micro::connect(launcher, how),
        Scenario::Short => micro::short(launcher, how),
        Scenario::Children => micro::children(launcher, how),
        Scenario::Alone => micro::alone(launcher, how),
        Scenario::Idle => {
            // A few for the program itself, and for what is open while two ends meet.
            let most = raise_nofile_limit().saturating_sub(64);
            if u64::from(how.connections) > most {
                return Ok(Outcome::Skipped(format!(
                    "{} connections; a process may have {most} here (ulimit -Hn)",
                    how.connections
                )));
            }
            micro::idle(launcher, how)
        }
        Scenario::Redis => {
            match real::need(
                ["redis-server", "redis-benchmark"],
                "redis-server redis-tools",
            ) {
                Ok(programs) => real::redis(launcher, how, &programs),
                Err(why) => return Ok(Outcome::Skipped(why)),
            }
        }
        Scenario::Nginx => match real::need(["nginx", "wrk"], "nginx wrk") {
            Ok(programs) => real::nginx(launcher, how, &programs),
            Err(why) => return Ok(Outcome::Skipped(why)),
        },
        Scenario::Postgres => match postgres::programs() {
            Ok(folder) => postgres::postgres(launcher, how, &folder),
            Err(why) => return Ok(Outcome::Skipped(why)),
        },
        Scenario::Iperf3 => match real::need(["iperf3"], "iperf3") {
            Ok(programs) => real::iperf(launcher, how, &programs),
            Err(why) => return Ok(Outcome::Skipped(why)),
        },
    };
    figures.map(Outcome::Figures)
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
