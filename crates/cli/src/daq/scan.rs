//! `barewire daq scan`: runs of one configuration as a key takes several values.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::{Config, with};
use barewire_daq::launch;
use barewire_tables::{Entry, Over, Page, ResultColumn, ResultTable};
use barewire_units::Rate;
use clap::Args;

use super::report::Figures;
use super::{DaqError, HowTo, own_program, own_source};

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct ScanArgs {
    /// The configuration; its limit of events or time is that of each run
    config: PathBuf,
    /// The key and its values, as `fragment_size=1 KiB..1 MiB times 4` or `run.transport=ring, tcp`
    #[arg(long, value_name = "KEY=VALUES")]
    over: Over,
    /// Runs for each value
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Rate of the line, for the share of it, as `10 Gbit/s`; otherwise `monitor.line`
    #[arg(long)]
    line: Option<Rate>,
    /// Write the table too: .csv or .json; or with its plots: .html or .svg. May be repeated
    #[arg(short, long, value_name = "FILE")]
    out: Vec<PathBuf>,
}

/// The column of bandwidth.
pub const BUILT: &str = "built";

/// Measures it.
pub fn run(args: &ScanArgs) -> Result<ExitCode, DaqError> {
    args.out
        .iter()
        .try_for_each(|it| Format::of(it).map(drop))?;
    let points = points(&args.config, &args.over)?;
    let line = args
        .line
        .or(points.iter().find_map(|it| it.config.monitor.line));
    let table = measure(&args.over, &points, args.runs, line)?;
    print!("{}", table.to_text());
    let page = Page {
        heading: format!("barewire daq scan {}", args.config.display()),
        notes: vec![format!(
            "Means of {} runs for each value; what follows ± is half of the 95 % interval.",
            args.runs.max(1)
        )],
        tables: vec![table],
    };
    write(&page, &args.out)?;
    Ok(ExitCode::SUCCESS)
}

/// A configuration with one of the values.
pub struct Point {
    text: String,
    /// Checked.
    pub config: Config,
}

/// The configuration with each of the values. Everything is checked before the first run.
pub fn points(file: &Path, over: &Over) -> Result<Vec<Point>, DaqError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|it| io(file, it))?;
    let key = match over.key.as_str() {
        "fragment_size" => "fragments.size",
        key => key,
    };
    let point = |value: &String| {
        let text = with(&text, &name, key, value).map_err(|it| DaqError::Config(vec![it]))?;
        let config = Config::parse(&text, &format!("{name} with {key} = {value}"));
        let config = config.map_err(DaqError::Config)?;
        Ok(Point { text, config })
    };
    over.values.iter().map(point).collect()
}

/// Runs each point `runs` times.
pub fn measure(
    over: &Over,
    points: &[Point],
    runs: usize,
    line: Option<Rate>,
) -> Result<ResultTable, DaqError> {
    let own = std::env::temp_dir().join(format!("barewire-daq-scan-{}.toml", std::process::id()));
    let mut rows = Vec::new();
    for (value, point) in over.values.iter().zip(points) {
        std::fs::write(&own, &point.text).map_err(|it| io(&own, it))?;
        let mut all = Vec::new();
        for number in 0..runs.max(1) {
            eprintln!("{} = {value}, run {}", over.key, number + 1);
            let figures = one_run(&point.config, &own);
            all.push(figures.inspect_err(|_| drop(std::fs::remove_file(&own)))?);
        }
        rows.push(row(&all, line));
    }
    let _ = std::fs::remove_file(&own);
    Ok(table(over, rows, line.is_some()))
}

fn one_run(config: &Config, file: &Path) -> Result<Figures, DaqError> {
    let program = own_program()?;
    let how = HowTo {
        own_source: own_source(config),
        json: true,
        ..HowTo::quietly(&program, file)
    };
    let outcome = launch::run(config, |role| how.command(role), |_, _, _| {});
    let outcome = outcome.map_err(|error| DaqError::Io {
        what: "start a part".to_owned(),
        error,
    })?;
    let figures = serde_json::from_str::<Figures>(&outcome.ledger);
    match figures {
        Ok(figures) if figures.balanced && outcome.deaths.is_empty() => Ok(figures),
        _ => Err(DaqError::Scan(format!(
            "a run did not end as it should: status {}, {}",
            outcome.code,
            outcome.deaths.join(", ")
        ))),
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

/// A row, but for its first cell.
fn row(all: &[Figures], line: Option<Rate>) -> Vec<Entry> {
    let each = |of: &dyn Fn(&Figures) -> f64| entry(all.iter().map(of));
    let per_s = |it: &Figures, what: u64| what as f64 / (it.run_ns.max(1) as f64 / 1e9);
    let mut row = vec![
        each(&|it| per_s(it, it.bytes) / 1e6),
        each(&|it| per_s(it, it.events)),
        each(&|it| it.processor_ns as f64 / it.run_ns.max(1) as f64),
        each(&|it| it.building_ns[0] as f64 / 1e3),
        each(&|it| it.building_ns[3] as f64 / 1e3),
    ];
    if let Some(line) = line {
        let bps = line.as_bps() as f64;
        row.push(each(&|it| per_s(it, it.bytes) * 800.0 / bps));
    }
    row
}

fn table(over: &Over, rows: Vec<Vec<Entry>>, has_line: bool) -> ResultTable {
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
    let (first, values) = over.column();
    let with_first = |(value, row): (Entry, Vec<Entry>)| [vec![value], row].concat();
    ResultTable {
        name: "scan".to_owned(),
        keys: 1,
        columns: core::iter::once(first).chain(columns).collect(),
        rows: values.into_iter().zip(rows).map(with_first).collect(),
    }
}

/// What a file holds, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Json,
    Html,
    Svg,
}

impl Format {
    /// Of this file.
    pub fn of(path: &Path) -> Result<Self, DaqError> {
        match path.extension().and_then(|it| it.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("html") => Ok(Self::Html),
            Some("svg") => Ok(Self::Svg),
            _ => Err(DaqError::Scan(format!(
                "{}: expected a name that ends with .csv, .json, .html or .svg",
                path.display()
            ))),
        }
    }
}

/// Writes a page of one table into files, by their endings.
pub fn write(page: &Page, files: &[PathBuf]) -> Result<(), DaqError> {
    for file in files {
        let tables = &page.tables;
        let text = match Format::of(file)? {
            Format::Csv => tables.iter().map(|it| it.to_csv(true)).collect(),
            Format::Json => serde_json::to_string_pretty(tables).unwrap_or_default() + "\n",
            Format::Html => page.to_html(),
            Format::Svg => page.to_svg().ok_or_else(|| {
                DaqError::Scan(format!(
                    "{}: one row is no plot; give more values",
                    file.display()
                ))
            })?,
        };
        std::fs::write(file, text).map_err(|error| io(file, error))?;
    }
    Ok(())
}

pub fn io(what: &Path, error: std::io::Error) -> DaqError {
    DaqError::Io {
        what: what.display().to_string(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_plots_and_is_read_again() {
        let figures = |events| Figures {
            events,
            bytes: events * 1_000,
            run_ns: 2_000_000_000,
            processor_ns: 1_000_000_000,
            building_ns: [1, 2, 3, 4, 5],
            event_bytes: [0; 5],
            fragment_bytes: [0; 5],
            balanced: true,
        };
        let over: Over = "fragment_size=1 KiB, 1 MiB".parse().expect("values");
        let line = Some(Rate::from_mbps(8));
        let rows = [1_000, 3_000].map(|it| row(&[figures(it), figures(it + 200)], line));
        let page = Page {
            heading: "a".to_owned(),
            notes: Vec::new(),
            tables: vec![table(&over, rows.to_vec(), true)],
        };
        let csv = page.tables[0].to_csv(false);
        let rows: Vec<&str> = csv.lines().collect();
        assert_eq!(rows[1], "1,0.55,550,0.5,0.001,0.004,55");
        assert!(rows[2].starts_with("1024,1.55,1550,"), "{csv}");
        let svg = page.to_svg().expect("plots");
        for part in ["MB/s", "1/s", "processors", "us", "share of the line, %"] {
            assert!(svg.contains(part), "{part}");
        }
        let json = serde_json::to_string(&page.tables).expect("written");
        let read: Vec<ResultTable> = serde_json::from_str(&json).expect("read");
        assert_eq!(read, page.tables);
        assert!(Format::of(Path::new("a.txt")).is_err());
    }
}
