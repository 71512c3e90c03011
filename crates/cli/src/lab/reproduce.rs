//! `barewire lab reproduce`, and `barewire lab sweep` of a system: the published tables.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire_report::columns::print;
use barewire_report::terminal::progress_bar;
use barewire_tables::plan::PlanSource;
use barewire_tables::{Axes, Change, Expected, ExpectedError, Report, Run, reproduce, sweep};
use barewire_testbed::System;
use clap::Args;
use indicatif::ProgressStyle;

use super::error::{LabError, Result};
use super::store;
use super::versions::versions;

pub const LONG: &str = "\
Run systems, and compare their results with the published values.

Each published value stands beside the model's, with the error and a verdict: `within` or
`outside` its tolerance, `misprint` for a published value that cannot be right, `missing`
where either side has no value. The exit status is 1 if anything is outside or missing.
The same parameters and seed give the same values on every machine.

The JSON and CSV files hold one object or line for each value. Beside each, with the
ending `.run.json`, goes a file with what the values came from: the seed, the versions
and the parameters, whole. The page of --html has all of it in itself.";

pub const AFTER: &str = "\
Examples:
  barewire lab reproduce                                  every system
  barewire lab reproduce cbn --html cbn.html              one, as a page to look at
  barewire lab reproduce cbn --set KEY=VALUE --seed 7     with a parameter of your own";

/// Run systems and set what they give beside what was published
#[derive(Clone, Debug, Args)]
pub struct ReproduceArgs {
    /// The systems, or `all`
    #[arg(default_value = "all")]
    pub systems: Vec<String>,
    /// Replace a parameter; keys are as in `barewire lab show`, with the tables around
    /// them: `ring.rotation`. Needs one system
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Change>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the values as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Write the values as comma-separated values
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub csv: Option<PathBuf>,
    /// Write one self-contained page with tables, plots and parameters
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub html: Option<PathBuf>,
}

/// A system of which something was published, and what that was.
type Published = (&'static dyn System, Expected);

/// What was published of a system; `None` if nothing was.
pub fn expected_of(system: &'static dyn System) -> Result<Option<Expected>> {
    match Expected::of(system.name()) {
        Ok(expected) => Ok(Some(expected)),
        Err(ExpectedError::NoFile(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn published(lab: PlanSource) -> Result<Vec<Published>> {
    let mut found = Vec::new();
    for system in lab.systems() {
        if let Some(expected) = expected_of(*system)? {
            found.push((*system, expected));
        }
    }
    Ok(found)
}

/// Runs them all.
pub fn reproduce_all(lab: PlanSource, args: &ReproduceArgs) -> Result<()> {
    let wanted = wanted(published(lab)?, &args.systems)?;
    if !args.set.is_empty() && wanted.len() != 1 {
        return Err(LabError::SetOfMany);
    }
    let report = Report {
        seed: args.seed,
        about: about(),
        runs: run_each(wanted, args)?,
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

/// Those of these names, in the order of the names.
fn wanted(all: Vec<Published>, names: &[String]) -> Result<Vec<Published>> {
    if names.iter().any(|name| name == "all") {
        return Ok(all);
    }
    let named = |name: &String| {
        let found = all.iter().find(|(system, _)| system.name() == name);
        found.cloned().ok_or_else(|| unknown(name, &all))
    };
    names.iter().map(named).collect()
}

fn unknown(name: &str, all: &[Published]) -> LabError {
    let known: Vec<&str> = all.iter().map(|(system, _)| system.name()).collect();
    LabError::UnknownSystem {
        name: name.to_owned(),
        known: known.join(", "),
    }
}

fn run_each(wanted: Vec<Published>, args: &ReproduceArgs) -> Result<Vec<Run>> {
    let bar = progress_bar(wanted.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} systems  {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut runs = Vec::new();
    for (system, expected) in wanted {
        bar.set_message(system.name());
        let run = reproduce(system, expected, &args.set, args.seed);
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
    let mut about = vec![("command", std::env::args().collect::<Vec<_>>().join(" "))];
    let mut versions = versions();
    for name in ["compiler", "barewire"] {
        about.extend(versions.remove(name).map(|version| (name, version)));
    }
    about.reverse();
    about
}

fn write_files(args: &ReproduceArgs, report: &Report) -> Result<()> {
    let values = [
        (&args.json, report.to_json()),
        (&args.csv, Ok(report.to_csv())),
    ];
    for (path, text) in values {
        let Some(path) = path else { continue };
        write_json(path, text)?;
        write_json(&path.with_extension("run.json"), report.origin_to_json())?;
    }
    match &args.html {
        Some(path) => store::write(path, report.to_html()),
        None => Ok(()),
    }
}

fn write_json(path: &Path, text: serde_json::Result<String>) -> Result<()> {
    let text = text.map_err(|error| LabError::File {
        path: path.to_owned(),
        source: io::Error::from(error),
    })?;
    store::write(path, text)
}

/// The published tables of a system, as parameters of it take several values.
pub struct SystemSweep<'a> {
    pub system: &'static dyn System,
    pub over: &'a Axes,
    pub set: &'a [Change],
    pub seed: u64,
    pub only: Option<&'a str>,
    pub csv: Option<&'a Path>,
}

impl SystemSweep<'_> {
    /// Runs it.
    pub fn run(self) -> Result<()> {
        if expected_of(self.system)?.is_none() {
            return Err(LabError::Usage(format!(
                "`{0}` has no published tables to sweep; `barewire lab list` has its plans",
                self.system.name()
            )));
        }
        let mut swept = sweep(self.system, self.over.clone(), self.set, self.seed)?;
        if let Some(text) = self.only {
            swept.keep(text);
        }
        if let Some(path) = self.csv {
            store::write(path, swept.to_csv())?;
        }
        Ok(print(&swept.to_text())?)
    }
}
