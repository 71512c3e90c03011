//! `barewire daq scan`: runs of one configuration as a key takes several values.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::{Config, with};
use barewire_daq::launch::{self, Role};
use barewire_daq::part::{Ended, Verdict};
use barewire_tables::{Entry, Over, ResultColumn, ResultTable};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{DaqError, own_program, part_command};

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
    /// Rate of the line, for the fraction of it, as `10 Gbit/s`
    #[arg(long)]
    line: Option<barewire_units::Rate>,
    /// Write the table as CSV too
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Figures {
    events: u64,
    bytes: u64,
    run_ns: u64,
    processor_ns: u64,
    building_median_ns: u64,
    building_p999_ns: u64,
    balanced: bool,
}

/// The figures of a run, as JSON.
pub fn figures(ended: &Ended) -> String {
    let picture = &ended.picture;
    let builders = || picture.builders.iter().map(|it| &it.report);
    let parts = picture.sources.iter().map(|it| it.report.processor_ns);
    let processor_ns = parts.chain(builders().map(|it| it.processor_ns));
    let figures = Figures {
        events: picture.events.built,
        bytes: builders().map(|it| it.account.built_bytes).sum(),
        run_ns: picture.age_ns,
        processor_ns: processor_ns.sum::<u64>() + picture.processor_ns,
        building_median_ns: builders().map(|it| it.building_ns[0]).max().unwrap_or(0),
        building_p999_ns: builders().map(|it| it.building_ns[2]).max().unwrap_or(0),
        balanced: ended.verdict == Verdict::Balanced,
    };
    serde_json::to_string(&figures).unwrap_or_default()
}

/// Measures it.
pub fn run(args: &ScanArgs) -> Result<ExitCode, DaqError> {
    let io = |what: &Path, error| DaqError::Io {
        what: what.display().to_string(),
        error,
    };
    let file = args.config.display().to_string();
    let text = std::fs::read_to_string(&args.config).map_err(|it| io(&args.config, it))?;
    let key = match args.over.key.as_str() {
        "fragment_size" => "fragments.size",
        key => key,
    };
    let configs = args.over.values.iter().map(|value| {
        let text = with(&text, &file, key, value).map_err(|it| DaqError::Config(vec![it]))?;
        // Everything is checked before the first run.
        let config = Config::parse(&text, &format!("{file} with {key} = {value}"));
        Ok((value, text, config.map_err(DaqError::Config)?))
    });
    let configs = configs.collect::<Result<Vec<_>, DaqError>>()?;
    let own = std::env::temp_dir().join(format!("barewire-daq-scan-{}.toml", std::process::id()));
    let mut rows = Vec::new();
    for (value, text, config) in &configs {
        std::fs::write(&own, text).map_err(|it| io(&own, it))?;
        let mut all = Vec::new();
        for number in 0..args.runs.max(1) {
            eprintln!("{key} = {value}, run {}", number + 1);
            let figures = one_run(config, &own);
            all.push(figures.inspect_err(|_| drop(std::fs::remove_file(&own)))?);
        }
        rows.push(row(value, &all, args.line));
    }
    let _ = std::fs::remove_file(&own);
    let table = table(key, rows, args.line.is_some());
    print!("{}", table.to_text());
    if let Some(out) = &args.out {
        std::fs::write(out, csv(&table)).map_err(|it| io(out, it))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one_run(config: &Config, file: &Path) -> Result<Figures, DaqError> {
    let program = own_program()?;
    let command = |role| {
        let mut command = part_command(&program, file, role, true, false);
        if role == Role::Manager {
            command.arg("--json");
        }
        command
    };
    let outcome = launch::run(config, command, |_, _, _| {});
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

fn row(value: &str, all: &[Figures], line: Option<barewire_units::Rate>) -> Vec<Entry> {
    let each = |of: &dyn Fn(&Figures) -> f64| entry(all.iter().map(of));
    let per_s = |it: &Figures, what: u64| what as f64 / (it.run_ns.max(1) as f64 / 1e9);
    let mut row = vec![
        Entry::Text(value.to_owned()),
        each(&|it| per_s(it, it.bytes) / 1e6),
        each(&|it| per_s(it, it.events)),
        each(&|it| it.processor_ns as f64 / it.run_ns.max(1) as f64),
        each(&|it| it.building_median_ns as f64 / 1e3),
        each(&|it| it.building_p999_ns as f64 / 1e3),
    ];
    if let Some(line) = line {
        let bps = line.as_bps() as f64;
        row.push(each(&|it| per_s(it, it.bytes) * 8.0 / bps));
    }
    row
}

fn table(key: &str, rows: Vec<Vec<Entry>>, line: bool) -> ResultTable {
    let mut columns = vec![
        (key, ""),
        ("built", "MB/s"),
        ("events", "1/s"),
        ("processors", ""),
        ("building time, median", "us"),
        ("building time, 99.9 %", "us"),
    ];
    if line {
        columns.push(("of the line", ""));
    }
    let columns = columns.into_iter().map(|(name, unit)| ResultColumn {
        name: name.to_owned(),
        unit: unit.to_owned(),
    });
    ResultTable {
        name: "scan".to_owned(),
        keys: 1,
        columns: columns.collect(),
        rows,
    }
}

fn csv(table: &ResultTable) -> String {
    let mut text = String::new();
    let heads = table.columns.iter().map(|it| match it.unit.is_empty() {
        true => format!("\"{}\",\"half width\"", it.name),
        false => format!("\"{} ({})\",\"half width\"", it.name, it.unit),
    });
    text += &heads.collect::<Vec<_>>().join(",");
    text.push('\n');
    for row in &table.rows {
        let cells = row.iter().map(|it| match it {
            Entry::Number { value, half_width } => {
                let half_width = half_width.map_or_else(String::new, |it| it.to_string());
                format!("{value},{half_width}")
            }
            Entry::Text(text) => format!("\"{text}\","),
            Entry::Missing => ",".to_owned(),
        });
        text += &cells.collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}
