//! `barewire bench`: what this machine can do, what the kernel's transports make of it,
//! and what barewire makes of it, measured side by side.
//!
//! The parts: `args` says what is asked for, `plan` turns it into cases and channels,
//! `child` starts the server process and takes single samples between two `probe`s,
//! `runner` interleaves them, `results` sorts them by `bands` and sets every figure
//! beside its limit, the `report_*` modules and `html` write it down. The measuring
//! `loops` are written once, over the traits in `transport`. `programs` is a benchmark of its
//! own: unmodified programs, with the library that is preloaded and without. `copy` is one of
//! memory alone.

pub mod args;
pub mod bands;
pub mod child;
pub mod clock;
pub mod control;
pub mod copy;
pub mod environment;
pub mod error;
pub mod glance;
pub mod half_peak;
pub mod html;
pub mod loops;
pub mod patience;
pub mod plan;
pub mod probe;
pub mod programs;
pub mod report_csv;
pub mod report_json;
pub mod report_table;
pub mod results;
pub mod rivals;
pub mod runner;
pub mod stats;
pub mod svg;
pub mod transport;
pub mod wakers;

use std::path::Path;
use std::time::{Duration, Instant};

use args::{BenchArgs, Options, TestChoice};
use child::{Placement, Session};
use environment::Environment;
use error::{Result, What};
use plan::Plan;
use report_json::Report;

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
    /// Unmodified programs, without the preloaded library and with it
    #[command(long_about = programs::LONG, after_help = programs::AFTER)]
    Programs(programs::ProgramsArgs),
    /// Copies of memory, by size: what no transport that copies can beat
    #[command(after_help = copy::AFTER)]
    Copy(copy::CopyArgs),
}

/// Runs what was asked for.
pub fn run(command: BenchCommand) -> Result<()> {
    match (command.other, command.test) {
        (Some(OtherBench::Programs(args)), _) => programs::run(&args),
        (Some(OtherBench::Copy(args)), _) => copy::run(&args),
        (None, Some(test)) => run_tests(&BenchArgs {
            test,
            options: command.options,
        }),
        (None, None) => Err(error::Error::Usage("which test? see --help".into())),
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
    let mut environment = Environment::look(placement);
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
    let mut session = Session::start(placement, plan.probe_ns)?;
    let samples = plan.cases() as u64 * u64::from(plan.samples);
    let bar = runner::progress(samples, options.quiet);
    let mut books = runner::run(&plan, &mut session, limits, &bar, &mut not_measured)?;
    let rivals = if options.rivals {
        bar.set_message("rivals");
        rivals::measure(
            args,
            &plan,
            placement,
            &mut session,
            &mut books,
            &mut not_measured,
        )?
    } else {
        Vec::new()
    };
    drop(session);
    bar.finish_and_clear();
    for (_, book) in &books {
        environment.samples_dropped += book.dropped();
        environment.samples_kept += book.kept();
    }
    let half_peaks = half_peak::half_peaks(&results::rows(&books, Vec::new(), true));
    let rows = results::rows(&books, rivals, options.all_bands);
    environment.seconds = limits.started.elapsed().as_secs_f64();
    environment.not_measured = not_measured;
    let report = Report {
        environment,
        results: rows,
        half_peaks,
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
        write(path, &report_csv::csv(&report.results))?;
    }
    if let Some(path) = &options.html {
        write(path, &html::page(report, programs))?;
    }
    if !options.quiet {
        use std::io::Write;
        let text = report_table::table(report);
        // A reader that closed the pipe has seen enough.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).what(&format!("writing {}", path.display()))
}

/// Finds out now, not after minutes of measuring, that a report can not be written.
fn check_writable<'a>(paths: impl Iterator<Item = &'a std::path::PathBuf>) -> Result<()> {
    for path in paths {
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .what(&format!("writing {}", path.display()))?;
    }
    Ok(())
}
