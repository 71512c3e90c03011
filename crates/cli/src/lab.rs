//! `barewire lab`: the systems of the laboratory, their parameters, and their published
//! tables beside what the models give.

mod calibrate;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire_tables::{
    Change, Expected, ExpectedError, Over, Report, ReproduceError, Run, SweepError, put, reproduce,
    study_text, sweep,
};
use barewire_testbed::{System, systems};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::nodes::{LookError, in_columns, print};

/// What to do in the laboratory.
#[derive(Clone, Debug, Subcommand)]
pub enum LabCommand {
    /// List the systems, and the tables that each reproduces
    List,
    /// Show the parameters of a system, each with its source
    Show(ShowArgs),
    /// Run systems and set what they give beside what was published
    #[command(long_about = LONG, after_help = AFTER)]
    Reproduce(Box<ReproduceArgs>),
    /// Run a system as one of its parameters takes several values
    #[command(after_help = AFTER_SWEEP)]
    Sweep(SweepArgs),
    /// Put a question that the paper left open to the model
    Study(StudyArgs),
    /// Measure this machine as a host for the workbench
    Calibrate(calibrate::CalibrateArgs),
}

/// Show the parameters of a system, each with its source
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The system; `barewire lab list` names them
    pub system: String,
}

const LONG: &str = "\
Run systems and set what they give beside what was published.

Each published value stands beside the model's, with the error and a verdict: `within` or
`outside` its tolerance, `misprint` for a published value that cannot be right, `missing`
where either side has no value. The exit status is 1 if anything is outside or missing.
The same parameters and seed give the same values on every machine.

The JSON and CSV files hold one object or line for each value. Beside each, with the
ending `.run.json`, goes a file with what the values came from: the seed, the versions
and the parameters, whole. The page of --html has all of it in itself.";

const AFTER: &str = "\
Examples:
  barewire lab reproduce                                  every system
  barewire lab reproduce cbn --html cbn.html              one, as a page to look at
  barewire lab reproduce cbn --set KEY=VALUE --seed 7     with a parameter of your own";

/// Put a question that the paper left open to the model
#[derive(Clone, Debug, Args)]
pub struct StudyArgs {
    /// The system; without it, all studies are listed
    pub system: Option<String>,
    /// The study; without it, those of the system are listed
    #[arg(requires = "system")]
    pub study: Option<String>,
    /// Replace a parameter
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Change>,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

const AFTER_SWEEP: &str = "\
Example, the Cambridge Backbone at other line rates:
  barewire lab sweep cbn --over 'ring.line_rate=512 Mbit/s,1000 Mbit/s,1500 Mbit/s' --only table-1";

/// Run a system as one of its parameters takes several values
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// The system; `barewire lab list` names them
    pub system: String,
    /// The parameter and its values, with their units; keys are as for `--set`
    #[arg(long, value_name = "KEY=VALUE,VALUE,...")]
    pub over: Over,
    /// Replace another parameter
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Change>,
    /// Only the quantities whose table, row or name contains this
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the values as a table of comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Run systems and set what they give beside what was published
#[derive(Clone, Debug, Args)]
pub struct ReproduceArgs {
    /// The systems, or `all`
    #[arg(default_value = "all")]
    pub systems: Vec<String>,
    /// Replace a parameter; keys are as in `barewire lab show`, with the tables around
    /// them: `ring.frames`. Needs one system
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Change>,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the values as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Write the values as a table of comma-separated values
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub csv: Option<PathBuf>,
    /// Write one self-contained page with tables, plots and parameters
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub html: Option<PathBuf>,
}

/// Why a command of the laboratory did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No such system.
    #[error("no system `{name}`; expected one of: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No such study.
    #[error("{system} has no study `{name}`; expected one of: {known}")]
    UnknownStudy {
        /// The system.
        system: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Parameters belong to one system.
    #[error("--set changes the parameters of one system: name it")]
    SetOfMany,
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
    /// A report that cannot be written.
    #[error("writing {}: {source}", path.display())]
    File {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A machine that cannot be measured.
    #[error(transparent)]
    Calibrate(#[from] calibrate::CalibrateError),
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
    match command {
        LabCommand::List => list(),
        LabCommand::Show(args) => Ok(print(system(&args.system)?.parameters())?),
        LabCommand::Reproduce(args) => reproduce_all(args),
        LabCommand::Sweep(args) => sweep_over(args),
        LabCommand::Study(args) => study(args),
        LabCommand::Calibrate(args) => Ok(calibrate::calibrate(args)?),
    }
}

fn system(name: &str) -> Result<&'static dyn System> {
    let found = systems().iter().find(|system| system.name() == name);
    found.copied().ok_or_else(|| LabError::Unknown {
        name: name.to_owned(),
        known: systems()
            .iter()
            .map(|system| system.name())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

fn list() -> Result<()> {
    let mut lines = vec![
        ["system", "what it is", "values"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for system in systems() {
        let expected = Expected::of(system.name())?;
        let tables: Vec<String> = expected
            .tables()
            .iter()
            .map(|(table, count)| format!("{count} of {table}"))
            .collect();
        let name = system.name().to_owned();
        lines.push(vec![name, expected.title.clone(), tables.join(", ")]);
    }
    Ok(print(&in_columns(&lines, &[0, 1, 2], ""))?)
}

fn reproduce_all(args: &ReproduceArgs) -> Result<()> {
    let wanted: Vec<&'static dyn System> = if args.systems.iter().any(|name| name == "all") {
        systems().to_vec()
    } else {
        let named = args.systems.iter().map(|name| system(name));
        named.collect::<Result<_>>()?
    };
    if !args.set.is_empty() && wanted.len() != 1 {
        return Err(LabError::SetOfMany);
    }
    let report = Report {
        seed: args.seed,
        about: about(),
        runs: run_each(&wanted, args)?,
    };
    write_files(args, &report)?;
    print(&report.to_text())?;
    match report.failures() {
        0 => Ok(()),
        failures => {
            let values = report.runs.iter().map(|run| run.lines.len()).sum();
            Err(LabError::Disagrees(failures, values))
        }
    }
}

fn study(args: &StudyArgs) -> Result<()> {
    let (Some(name), Some(study)) = (&args.system, &args.study) else {
        return list_studies(args.system.as_deref());
    };
    let system = system(name)?;
    let mut known = system.studies().iter();
    let Some(study) = known.find(|known| known.name == study) else {
        let known: Vec<&str> = system.studies().iter().map(|study| study.name).collect();
        return Err(LabError::UnknownStudy {
            system: system.name(),
            name: study.clone(),
            known: known.join(", "),
        });
    };
    let findings = put(system, study, &args.set, args.seed).map_err(|source| LabError::Run {
        system: system.name(),
        source,
    })?;
    let text = format!("{}\n\n{}", study.question, study_text(&findings));
    Ok(print(&text)?)
}

fn list_studies(only: Option<&str>) -> Result<()> {
    let of = only.map(system).transpose()?;
    let mut lines = vec![["system", "study", "question"].map(str::to_owned).to_vec()];
    let wanted = |name: &str| of.is_none_or(|of| of.name() == name);
    for system in systems().iter().filter(|system| wanted(system.name())) {
        for study in system.studies() {
            let cells = [system.name(), study.name, study.question];
            lines.push(cells.map(str::to_owned).to_vec());
        }
    }
    Ok(print(&in_columns(&lines, &[0, 1, 2], ""))?)
}

fn sweep_over(args: &SweepArgs) -> Result<()> {
    let system = system(&args.system)?;
    let mut swept = sweep(system, args.over.clone(), &args.set, args.seed)?;
    if let Some(text) = &args.only {
        swept.keep(text);
    }
    if let Some(path) = &args.csv {
        write(path, Ok(swept.to_csv()))?;
    }
    Ok(print(&swept.to_text())?)
}

fn run_each(wanted: &[&'static dyn System], args: &ReproduceArgs) -> Result<Vec<Run>> {
    // Drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(wanted.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} systems  {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut runs = Vec::new();
    for system in wanted {
        bar.set_message(system.name());
        let expected = Expected::of(system.name())?;
        let run = reproduce(*system, expected, &args.set, args.seed);
        runs.push(run.map_err(|source| LabError::Run {
            system: system.name(),
            source,
        })?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(runs)
}

fn about() -> Vec<(&'static str, String)> {
    vec![
        ("barewire", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "compiler",
            format!(
                "{}, {} build",
                env!("BAREWIRE_RUSTC"),
                env!("BAREWIRE_PROFILE")
            ),
        ),
        ("command", std::env::args().collect::<Vec<_>>().join(" ")),
    ]
}

fn write_files(args: &ReproduceArgs, report: &Report) -> Result<()> {
    let values = [
        (&args.json, report.to_json()),
        (&args.csv, Ok(report.to_csv())),
    ];
    for (path, text) in values {
        let Some(path) = path else { continue };
        write(path, text)?;
        write(&path.with_extension("run.json"), report.origin_to_json())?;
    }
    match &args.html {
        Some(path) => write(path, Ok(report.to_html())),
        None => Ok(()),
    }
}

fn write(path: &Path, text: serde_json::Result<String>) -> Result<()> {
    text.map_err(io::Error::from)
        .and_then(|text| std::fs::write(path, text))
        .map_err(|source| LabError::File {
            path: path.to_owned(),
            source,
        })
}
