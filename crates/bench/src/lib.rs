//! `barewire bench` as a library: what this machine can do, what the kernel's transports make
//! of it, and what barewire makes of it, measured side by side.
//!
//! The command line parses the arguments ([`BenchCommand`]) and calls [`run`]. The benchmark
//! starts the running executable again for its second process: an executable that calls `run`
//! calls [`serve`] when its first argument is [`SERVER`], and [`serve_program`] when that is
//! [`PROGRAM`].
//!
//! ```layers
//! error: what can go wrong
//! output: files that results are written to
//! measure: the clock, statistics, bands of the machine's own speed, waits that give up
//! case: what is measured: tests, transports, channels, the work of a sample
//! channel: the control socket, shared memory, the ends of a transport, the measuring loops
//! transport: the limit, the kernel's transports, barewire
//! placement: on which processors the two processes run
//! environment: where and with what was measured
//! session: the two processes, and single samples between two probes
//! args: the arguments of `barewire bench`
//! plan: the cases that the arguments ask for
//! results: samples sorted by bands, every figure beside its limit
//! runner: samples of all cases in turn
//! rivals: programs of other projects
//! copy: copies of memory
//! programs: unmodified programs, with the preloaded library and without
//! report: results as JSON, CSV, a table, a page
//! ```
#![forbid(unsafe_code)]

mod args;
pub mod case;
mod channel;
pub mod copy;
pub mod environment;
pub mod error;
pub mod measure;
mod output;
pub mod placement;
mod plan;
mod programs;
mod report;
mod results;
mod rivals;
mod runner;
pub mod session;
mod transport;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use barewire_sys::process::allowed_cpus;

use args::{BenchArgs, Options, TestChoice};
use environment::Environment;
use error::{Error, Result};
use output::{check_writable, write};
use placement::Placement;
use plan::Plan;
use report::Report;
use results::{behind, beside_tcp, half_peak};
use rivals::Rivals;
use session::Session;

pub use programs::pair::PROGRAM;
pub use programs::peer::serve as serve_program;
pub use session::{SERVER, serve};

/// `barewire bench`: a test, or the unmodified programs.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(long_about = args::LONG, after_help = args::AFTER, arg_required_else_help = true)]
pub struct BenchCommand {
    #[command(subcommand)]
    other: Option<OtherBench>,
    /// What to measure
    #[arg(value_enum, required = true)]
    test: Option<TestChoice>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Subcommand)]
enum OtherBench {
    /// Measure unmodified programs, without the preloaded library and with it
    #[command(long_about = programs::LONG, after_help = programs::AFTER)]
    Programs(programs::ProgramsArgs),
    /// Measure memory copies by size: no transport that copies is faster
    #[command(after_help = copy::AFTER)]
    Copy(copy::CopyArgs),
    /// Be the server for `bench --peer` on other hosts, until stopped
    #[command(long_about = args::SERVE)]
    Serve(args::ServeArgs),
}

/// Runs what was asked for. `find_library` finds the library to preload; why there is none
/// otherwise.
///
/// # Errors
/// Arguments that ask for what does not exist, a measurement that failed, a report that could
/// not be written.
pub fn run(
    command: BenchCommand,
    find_library: impl FnOnce() -> std::result::Result<PathBuf, String>,
) -> Result<()> {
    match (command.other, command.test) {
        (Some(OtherBench::Programs(args)), _) => {
            programs::run(&args, &find_library().map_err(Error::Usage)?)
        }
        (Some(OtherBench::Copy(args)), _) => copy::run(&args),
        (Some(OtherBench::Serve(args)), _) => session::serve_peers(&args.listen, args.quiet),
        (None, Some(test)) => run_tests(&BenchArgs {
            test,
            options: command.options,
        }),
        (None, None) => Err(Error::Usage("which test? see --help".into())),
    }
}

/// Runs the benchmark and writes its reports.
fn run_tests(args: &BenchArgs) -> Result<()> {
    let options = &args.options;
    let plan = Plan::new(args)?;
    let programs = match &options.programs {
        Some(path) => Some(programs::report::Report::read(path)?),
        None => None,
    };
    check_writable(
        [&options.json, &options.csv, &options.html]
            .into_iter()
            .flatten(),
    )?;
    let placement = Placement::choose(&options.cpus, options.no_pin)?;
    // Before the session ties this process to one of them.
    let allowed = allowed_cpus();
    let mut environment = Environment::look(placement);
    environment.path = options.place().describe();
    if !options.quiet && !matches!(placement, Placement::Pinned(..)) {
        eprintln!("barewire: {}", environment.placement);
    }
    if !options.quiet && environment.build == "debug" {
        eprintln!("barewire: this is a debug build; its figures mean little");
    }
    let limits = runner::Limits {
        started: Instant::now(),
        longest: Duration::from_secs(options.max_seconds.unwrap_or(if options.quick {
            50
        } else {
            900
        })),
    };
    let mut not_measured = Vec::new();
    let mut session = Session::start_at(&options.place(), placement, plan.probe_ns)?;
    let samples = plan.cases() as u64 * u64::from(plan.samples);
    let bar = runner::progress(samples, options.quiet);
    let mut books = runner::run(&plan, &mut session, limits, &bar, &mut not_measured)?;
    let rivals = if options.rivals {
        bar.set_message("rivals");
        let mut rivals = Rivals::new(args, &plan, placement, &allowed);
        rivals.measure(&mut session, &mut books, &mut environment)?
    } else {
        Vec::new()
    };
    drop(session);
    bar.finish_and_clear();
    for (_, book) in &books {
        environment.samples_dropped += book.dropped();
        environment.samples_kept += book.kept();
    }
    let all_bands = results::rows(&books, rivals.clone(), true);
    let behind = behind::behind(&all_bands);
    let half_peaks = half_peak::half_peaks(&results::rows(&books, Vec::new(), true));
    let mut rows = results::rows(&books, rivals, options.all_bands);
    beside_tcp::compare(&mut rows, &all_bands);
    environment.seconds = limits.started.elapsed().as_secs_f64();
    environment.not_measured.extend(not_measured);
    let report = Report {
        environment,
        results: rows,
        half_peaks,
        behind,
    };
    write_reports(args, &report, programs.as_ref())
}

fn write_reports(
    args: &BenchArgs,
    report: &Report,
    programs: Option<&programs::report::Report>,
) -> Result<()> {
    let options = &args.options;
    if let Some(path) = &options.json {
        write(path, &report.to_json()?)?;
    }
    if let Some(path) = &options.csv {
        write(path, &report::csv::csv(&report.results))?;
    }
    if let Some(path) = &options.html {
        write(path, &report::page::page(report, programs))?;
    }
    if !options.quiet {
        use std::io::Write;
        let text = report::table::table(report);
        // A reader that closed the pipe has seen enough.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }
    Ok(())
}
