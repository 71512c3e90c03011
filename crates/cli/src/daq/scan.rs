//! `barewire daq scan`: runs of one configuration as keys take several values, in every combination.
//!
//! Each run that has ended is written to the files at once, so that a scan that was stopped or has
//! failed keeps what it has; `--resume` takes the runs of a .json file as measured.

mod files;
mod jobs;
mod points;

use std::path::PathBuf;
use std::process::ExitCode;

use barewire_daq::signals;
use barewire_tables::{Entry, Over, Page, ResultColumn, ResultTable};
use barewire_units::Rate;
use clap::Args;

use super::error::DaqError;
use super::start::listen;
use files::Single;
pub use files::{Outputs, io};
pub use jobs::Jobs;
pub use points::{Point, points};

pub const AFTER: &str = "\
Examples:
  barewire daq scan a.toml --over 'fragment_size=1 KiB..1 MiB times 4' -o a.json -o a.html
  barewire daq scan a.toml --over 'parts.sources=1..4' --over 'flow.credits=16, 64'   8 combinations
  barewire daq scan a.toml --over 'fragment_size=1 KiB, 8 KiB' -o a.json --resume     continues after Ctrl-C

Exit status: 0 if everything was measured; 4 if the scan was stopped early; otherwise that of the run that
failed. The files of -o have what was measured until then.";

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct ScanArgs {
    /// The configuration; its limit of events or time applies to each run
    config: PathBuf,
    /// A key and its values, such as `fragment_size=1 KiB..1 MiB times 4` or `run.transport=ring,
    /// tcp`. May be repeated; every combination is then measured
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    over: Vec<Over>,
    /// Runs for each combination
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Do N runs at a time, each on its own processors; without N, as many as the processors
    /// allow. They still share memory bandwidth
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    parallel: Option<usize>,
    /// Processors for each run of --parallel [default: one for each process]
    #[arg(long, value_name = "N", requires = "parallel", value_parser = clap::value_parser!(u16).range(1..))]
    processors: Option<u16>,
    /// Reuse the runs of this configuration that a .json file of -o already has
    #[arg(long)]
    resume: bool,
    /// Line rate, such as `10 Gbit/s`, for the column that gives the share of it [default:
    /// `monitor.line`]
    #[arg(long)]
    line: Option<Rate>,
    /// Also write the table (.csv or .json) or its plots (.html or .svg). May be repeated
    #[arg(short, long, value_name = "FILE")]
    out: Vec<PathBuf>,
}

/// The column of bandwidth.
pub const BUILT: &str = "built";

/// Measures it.
pub fn run(args: &ScanArgs) -> Result<ExitCode, DaqError> {
    let points = points(&args.config, &args.over)?;
    let outputs = Outputs::check(&args.out, points.len())?;
    let processors = args.processors.map(usize::from);
    let jobs = Jobs::plan(&points, args.parallel, processors)?;
    let known = match args.resume {
        true => outputs.measured()?,
        false => Vec::new(),
    };
    let line = args
        .line
        .or(points.iter().find_map(|it| it.config.monitor.line));
    let mut scan = Scan {
        name: args.config.display().to_string(),
        over: &args.over,
        points: &points,
        runs: args.runs.into(),
        line,
        jobs: &jobs,
        singles: known,
    };
    scan.say_known(args.resume);
    eprintln!("{}", jobs.in_words());
    listen()?;
    let ended = scan.measure(|scan| outputs.write(&scan.page(), scan.singles()));
    // Also where nothing was left to be measured, or another file is named than before; but nothing takes
    // the place of an older file.
    if scan.done() > 0 {
        outputs.write(&scan.page(), scan.singles())?;
    }
    print!("{}", scan.table().to_text());
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(DaqError::Ended { code, why }) => Err(DaqError::Ended {
            code,
            why: scan.left(&why, &args.out),
        }),
        Err(other) => Err(other),
    }
}

/// Runs each point `runs` times, one after the other.
pub fn measure(over: &[Over], points: &[Point], runs: u16) -> Result<ResultTable, DaqError> {
    let mut scan = Scan {
        name: String::new(),
        over,
        points,
        runs: runs.max(1).into(),
        line: None,
        jobs: &Jobs::one_at_a_time(),
        singles: Vec::new(),
    };
    scan.measure(|_| Ok(()))?;
    Ok(scan.table())
}

/// What is to be measured, and what was.
struct Scan<'a> {
    name: String,
    over: &'a [Over],
    points: &'a [Point],
    runs: usize,
    line: Option<Rate>,
    jobs: &'a Jobs,
    /// Runs that have ended well, of this scan and others that stood in its file.
    singles: Vec<Single>,
}

impl Scan<'_> {
    fn singles(&self) -> &[Single] {
        &self.singles
    }

    fn identity(&self, point: &Point) -> String {
        point.identity(self.jobs.processors_each())
    }

    /// The runs of a point that count.
    fn of_point(&self, point: &Point) -> Vec<&Single> {
        let identity = self.identity(point);
        let own = self
            .singles
            .iter()
            .filter(|it| it.configuration == identity);
        own.take(self.runs).collect()
    }

    fn done(&self) -> usize {
        self.points.iter().map(|it| self.of_point(it).len()).sum()
    }

    fn wanted(&self) -> usize {
        self.points.len() * self.runs
    }

    fn say_known(&self, is_resumed: bool) {
        if is_resumed {
            let (done, wanted) = (self.done(), self.wanted());
            eprintln!("{done} of {wanted} runs were measured before");
        }
    }

    /// Does what is missing; after each run `keep` writes it down.
    fn measure(
        &mut self,
        mut keep: impl FnMut(&Self) -> Result<(), DaqError>,
    ) -> Result<(), DaqError> {
        let mut wanted = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            let done = self.of_point(point).len();
            wanted.extend((done..self.runs).map(|run| (at, run)));
        }
        let (points, jobs, runs) = (self.points, self.jobs, self.runs);
        let before = signals::asked();
        let over = self.over;
        let say = |at: usize, run: usize, what: &str| {
            let place = points[at].place(over);
            eprintln!("{place}: run {} of {runs}{what}", run + 1);
        };
        let processors = jobs.processors_each();
        jobs.run(points, wanted, before, say, |at, figures| {
            let configuration = points[at].identity(processors);
            self.singles.push(Single::new(configuration, figures));
            keep(self)
        })
    }

    /// Of points that were measured.
    fn table(&self) -> ResultTable {
        let measured = self.points.iter().filter_map(|point| {
            let all = self.of_point(point);
            (!all.is_empty()).then(|| (point, row(&all, self.line)))
        });
        table(self.over, measured, self.line.is_some())
    }

    fn page(&self) -> Page {
        let (done, wanted) = (self.done(), self.wanted());
        let mut notes = vec![format!(
            "Means of {} runs for each combination; what follows ± is half of the 95 % interval.",
            self.runs
        )];
        notes.push(self.jobs.in_words());
        notes.extend((done < wanted).then(|| format!("Not whole: {done} of {wanted} runs.")));
        Page {
            heading: format!("barewire daq scan {}", self.name),
            notes,
            tables: vec![self.table()],
        }
    }

    /// What is left after an end before the time, and how to go on.
    fn left(&self, why: &str, files: &[PathBuf]) -> String {
        let (done, wanted) = (self.done(), self.wanted());
        let is_json = |it: &&PathBuf| it.extension().is_some_and(|it| it == "json");
        match files.iter().find(is_json) {
            Some(file) => format!(
                "{why}; {done} of {wanted} runs are in {}, and --resume goes on from there",
                file.display()
            ),
            None => format!("{why}; {done} of {wanted} runs were measured"),
        }
    }
}

/// Mean, and half the width of the 95 % interval of Student's t.
fn entry(values: impl Iterator<Item = f64>) -> Entry {
    let (value, half_width) = mean(&values.collect::<Vec<_>>());
    Entry::Number { value, half_width }
}

fn mean(values: &[f64]) -> (f64, Option<f64>) {
    /// Of 95 %, for 1 to 10 degrees of freedom; beyond, that of the normal distribution.
    const STUDENT: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let Some(freedom) = values.len().checked_sub(1).filter(|it| *it > 0) else {
        return (mean, None);
    };
    let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
    let t = STUDENT.get(freedom - 1).copied().unwrap_or(1.96);
    (mean, Some(t * (squares / freedom as f64 / count).sqrt()))
}

/// A row, but for what was varied.
fn row(all: &[&Single], line: Option<Rate>) -> Vec<Entry> {
    let each = |of: &dyn Fn(&Single) -> f64| entry(all.iter().map(|it| of(it)));
    let per_s = |it: &Single, what: f64| what / (it.run_ns.max(1.0) / 1e9);
    let mut row = vec![
        each(&|it| per_s(it, it.bytes) / 1e6),
        each(&|it| per_s(it, it.events)),
        each(&|it| it.processor_ns / it.run_ns.max(1.0)),
        each(&|it| it.building_median_ns / 1e3),
        each(&|it| it.building_most_ns / 1e3),
    ];
    if let Some(line) = line {
        let bps = line.as_bps() as f64;
        row.push(each(&|it| per_s(it, it.bytes) * 800.0 / bps));
    }
    row
}

fn table<'a>(
    over: &[Over],
    rows: impl Iterator<Item = (&'a Point, Vec<Entry>)>,
    has_line: bool,
) -> ResultTable {
    let columns = [
        (BUILT, "MB/s"),
        ("events", "1/s"),
        ("processor time", "processors"),
        ("building time, median", "us"),
        ("building time, 99.9 %", "us"),
        ("share of the line", "%"),
    ];
    let columns = columns.iter().take(5 + usize::from(has_line));
    let columns = columns.map(|(name, unit)| ResultColumn {
        name: (*name).to_owned(),
        unit: (*unit).to_owned(),
    });
    let (firsts, values): (Vec<_>, Vec<_>) = over.iter().map(Over::column).unzip();
    let whole = |(point, row): (&Point, Vec<Entry>)| {
        let axes = point.at.iter().zip(&values);
        axes.map(|(&at, values)| values[at].clone())
            .chain(row)
            .collect()
    };
    ResultTable {
        name: "scan".to_owned(),
        keys: over.len(),
        columns: firsts.into_iter().chain(columns).collect(),
        rows: rows.map(whole).collect(),
    }
}

#[cfg(test)]
mod tests;
