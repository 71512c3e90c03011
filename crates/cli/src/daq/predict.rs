//! `barewire daq predict`: the same configuration in the laboratory, beside what was measured.
//!
//! The host is the workbench's, measured by `barewire lab calibrate` or given; what the program
//! itself takes is measured here, without any transport. With a calibration what the laboratory says is
//! corrected by what short runs on this machine gave.

mod calibration;
mod compare;
mod laboratory;

use std::path::PathBuf;
use std::process::ExitCode;

use barewire_daq::config::{Config, Transport};
use barewire_daq::costs::Costs;
use barewire_sys::process::allowed_cpus;
use barewire_tables::{Over, Page};
use clap::Args;

use super::error::DaqError;
use super::scan::{self, Outputs, Point};
use calibration::Calibration;
use compare::{Measured, beside, how_far_off, not_built, problem, read, wrong};
use laboratory::{FRAGMENTS, Host, Laboratory, in_words, left_out};

/// What to predict.
#[derive(Clone, Debug, Args)]
pub struct PredictArgs {
    /// The configuration
    config: PathBuf,
    /// A key and its values; may be repeated: then every combination is predicted
    #[arg(
        long,
        value_name = "KEY=VALUES",
        default_value = "fragment_size=256 B..1 MiB times 4"
    )]
    over: Vec<Over>,
    /// The host: a file of `barewire lab calibrate`, or a preset such as modern-pc; otherwise this
    /// machine is measured now, which takes some ten seconds
    #[arg(long, value_name = "FILE|NAME")]
    with: Option<String>,
    /// Calibrate: run short shapes on this machine for about a minute, which should have nothing else to do, keep
    /// in FILE by how much the laboratory is off, and predict with that
    #[arg(long, value_name = "FILE", conflicts_with = "with")]
    calibrate: Option<PathBuf>,
    /// Predict with a file of --calibrate, of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["with", "calibrate", "processors"])]
    calibration: Option<PathBuf>,
    /// Processors that the processes share; otherwise as many as there are for this command
    #[arg(long, value_name = "N")]
    processors: Option<usize>,
    /// Measure it too: so many runs for each size
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "3")]
    measure: Option<u16>,
    /// What was measured: a .json of `barewire daq scan --over fragment_size=...`
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    measured: Option<PathBuf>,
    /// Write the table too: .csv or .json; or with its plots: .html or .svg. May be repeated
    #[arg(short, long, value_name = "FILE")]
    out: Vec<PathBuf>,
}

/// The configurations, if the laboratory has a model of them.
fn points(args: &PredictArgs) -> Result<Vec<Point>, DaqError> {
    let points = scan::points(&args.config, &args.over)?;
    let is_modelled = |it: &Point| it.config.transport != Transport::Hosts;
    match points.iter().all(is_modelled) {
        true => Ok(points),
        false => Err(DaqError::Scan(
            "the laboratory has no model of run.transport = \"hosts\": use \"ring\" or \"tcp\""
                .to_owned(),
        )),
    }
}

/// Predicts it.
pub fn run(args: &PredictArgs) -> Result<ExitCode, DaqError> {
    let of_sizes = matches!(&args.over[..], [it] if is_size(&it.key));
    if args.measured.is_some() && !of_sizes {
        return wrong("--measured goes with --over fragment_size=VALUES alone".to_owned());
    }
    let points = points(args)?;
    let Some(first) = points.first() else {
        return wrong("no values".to_owned());
    };
    let outputs = Outputs::check(&args.out, points.len())?;
    let processors = args.processors.unwrap_or(allowed_cpus().len());
    let calibration = calibration_of(args, processors, &first.config)?;
    let costs = match &calibration {
        Some(found) => found.costs(&first.config)?,
        None => Costs::measure(&first.config).map_err(problem)?,
    };
    let host = match &calibration {
        Some(found) => Host::of_text(&found.host)?,
        None => Host::of(args.with.as_deref())?,
    };
    let laboratory = Laboratory {
        costs,
        with: &host.with,
        processors,
        fragments: FRAGMENTS,
    };
    let mut predicted = laboratory.predicted(&points)?;
    let lost = not_built(&predicted);
    if let Some(calibration) = &calibration {
        calibration.correct(&laboratory, &points, &mut predicted)?;
    }
    let measured = match (&args.measured, args.measure) {
        (Some(file), _) => Some(Measured::by_sizes(read(file)?, &args.over[0])),
        (None, Some(runs)) => Some(Measured::in_order(scan::measure(
            &args.over, &points, runs,
        )?)),
        (None, None) => None,
    };
    let table = beside(&args.over, &points, &predicted, measured.as_ref());
    let mut notes = vec![format!(
        "Host: {}; {processors} processors. The program, measured by itself: {}.",
        host.name,
        in_words(&costs)
    )];
    notes.push(match &calibration {
        Some(found) => found.in_words(),
        None => "Not in the model: caches and the bandwidth of memory that processes share, copies from \
                 another processor's cache, anything else that runs, the system's scheduler beside its \
                 slices, reports, files. Nothing was fitted on a whole run; --calibrate does."
            .to_owned(),
    });
    notes.extend(left_out(&first.config));
    notes.extend(lost);
    notes.extend(measured.is_some().then(|| how_far_off(&table)));
    print!("{}", table.to_text());
    notes.iter().for_each(|note| println!("{note}"));
    let page = Page {
        heading: format!("barewire daq predict {}", args.config.display()),
        notes,
        tables: vec![table],
    };
    outputs.write(&page, &[])?;
    Ok(ExitCode::SUCCESS)
}

fn is_size(key: &str) -> bool {
    matches!(key, "fragment_size" | "fragments.size")
}

/// The calibration that is asked for, measured now or read.
fn calibration_of(
    args: &PredictArgs,
    processors: usize,
    wanted: &Config,
) -> Result<Option<Calibration>, DaqError> {
    let Some(file) = &args.calibrate else {
        let file = args.calibration.as_deref();
        return file.map(Calibration::read).transpose();
    };
    // Found out now, and not after a minute.
    crate::lab::store::try_file(file).map_err(|error| scan::io(file, error))?;
    let found = Calibration::measure(processors, wanted)?;
    found.write(file)?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests;
