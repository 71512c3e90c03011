//! Files of a scan or a prediction: looked at before anything is measured, and written whole or not at
//! all. A .json file holds two tables, `scan` with means and `runs` with what each run gave.

use std::path::{Path, PathBuf};

use barewire_tables::{Entry, Page, ResultColumn, ResultTable};

use super::super::error::DaqError;
use super::super::report::Figures;
use crate::lab::store;

/// The table of single runs.
const RUNS: &str = "runs";
/// Its columns: name and unit.
const COLUMNS: [(&str, &str); 7] = [
    ("configuration", ""),
    ("events built", ""),
    ("bytes built", "B"),
    ("run time", "ns"),
    ("processor time", "ns"),
    ("building time, median", "ns"),
    ("building time, 99.9 %", "ns"),
];

pub fn io(what: &Path, error: std::io::Error) -> DaqError {
    DaqError::Io {
        what: what.display().to_string(),
        error,
    }
}

fn wrong(file: &Path, what: impl core::fmt::Display) -> DaqError {
    DaqError::Scan(format!("{}: {what}", file.display()))
}

/// What one run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Single {
    /// The identity of its point.
    pub configuration: String,
    pub events: f64,
    pub bytes: f64,
    pub run_ns: f64,
    pub processor_ns: f64,
    pub building_median_ns: f64,
    /// 99.9 %.
    pub building_most_ns: f64,
}

impl Single {
    pub fn new(configuration: String, figures: &Figures) -> Self {
        Self {
            configuration,
            events: figures.events_built as f64,
            bytes: figures.bytes as f64,
            run_ns: figures.run_ns as f64,
            processor_ns: figures.processor_ns as f64,
            building_median_ns: figures.building_ns[0] as f64,
            building_most_ns: figures.building_ns[3] as f64,
        }
    }

    fn row(&self) -> Vec<Entry> {
        let numbers = [
            self.events,
            self.bytes,
            self.run_ns,
            self.processor_ns,
            self.building_median_ns,
            self.building_most_ns,
        ];
        let number = |value| Entry::Number {
            value,
            half_width: None,
        };
        let first = Entry::Text(self.configuration.clone());
        core::iter::once(first).chain(numbers.map(number)).collect()
    }

    fn of_row(row: &[Entry]) -> Option<Self> {
        let (Some(Entry::Text(configuration)), Some(rest)) = (row.first(), row.get(1..)) else {
            return None;
        };
        let numbers: Vec<f64> = rest.iter().map(Entry::number).collect::<Option<_>>()?;
        let is_possible = |it: &f64| it.is_finite() && *it >= 0.0;
        match numbers[..] {
            [
                events,
                bytes,
                run_ns,
                processor_ns,
                building_median_ns,
                building_most_ns,
            ] if numbers.iter().all(is_possible) => Some(Self {
                configuration: configuration.clone(),
                events,
                bytes,
                run_ns,
                processor_ns,
                building_median_ns,
                building_most_ns,
            }),
            _ => None,
        }
    }
}

fn table_of_runs(singles: &[Single]) -> ResultTable {
    ResultTable {
        name: RUNS.to_owned(),
        keys: 1,
        columns: COLUMNS
            .map(|(name, unit)| ResultColumn {
                name: name.to_owned(),
                unit: unit.to_owned(),
            })
            .into(),
        rows: singles.iter().map(Single::row).collect(),
    }
}

/// What a file holds, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Json,
    Html,
    Svg,
}

impl Format {
    fn of(path: &Path) -> Result<Self, DaqError> {
        match path.extension().and_then(|it| it.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("html") => Ok(Self::Html),
            Some("svg") => Ok(Self::Svg),
            _ => Err(wrong(
                path,
                "expected a name that ends with .csv, .json, .html or .svg",
            )),
        }
    }
}

/// Files that can be written.
#[derive(Debug)]
pub struct Outputs {
    files: Vec<(PathBuf, Format)>,
}

impl Outputs {
    /// Looks whether a table with so many rows can be written to each file.
    pub fn check(files: &[PathBuf], rows: usize) -> Result<Self, DaqError> {
        let checked = |file: &PathBuf| {
            let format = Format::of(file)?;
            if format == Format::Svg && rows < 2 {
                return Err(wrong(file, "one row is no plot; give more values"));
            }
            if file.is_dir() {
                return Err(wrong(file, "is a folder; name a file"));
            }
            store::try_file(file).map_err(|it| io(file, it))?;
            Ok((file.clone(), format))
        };
        let files = files.iter().map(checked).collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    /// The runs that the .json files already hold.
    pub fn measured(&self) -> Result<Vec<Single>, DaqError> {
        let mut json = self.files.iter().filter(|it| it.1 == Format::Json);
        let Some((file, _)) = json.next() else {
            let text = "--resume needs -o FILE.json: it holds the single runs";
            return Err(DaqError::Scan(text.to_owned()));
        };
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|it| io(file, it))?,
        };
        let faulty = "no file of `barewire daq scan`; without --resume it is replaced";
        let tables: Vec<ResultTable> = serde_json::from_str(&text)
            .map_err(|error| wrong(file, format_args!("{faulty} ({error})")))?;
        let runs = tables.iter().find(|it| it.name == RUNS);
        let rows = runs.ok_or_else(|| wrong(file, faulty))?.rows.iter();
        let singles = rows.map(|row| Single::of_row(row)).collect::<Option<_>>();
        singles.ok_or_else(|| wrong(file, faulty))
    }

    /// Writes a page of one table, and into .json the single runs too.
    pub fn write(&self, page: &Page, singles: &[Single]) -> Result<(), DaqError> {
        for (file, format) in &self.files {
            let tables = &page.tables;
            let text = match format {
                Format::Csv => tables.iter().map(|it| it.to_csv(true)).collect(),
                Format::Json => {
                    let mut all = tables.clone();
                    all.extend((!singles.is_empty()).then(|| table_of_runs(singles)));
                    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
                }
                Format::Html => page.to_html(),
                Format::Svg => match page.to_svg() {
                    Some(svg) => svg,
                    // So far there is one row; more are coming, or the scan was stopped.
                    None => continue,
                },
            };
            let written = store::write(file, text);
            written.map_err(|error| DaqError::Scan(error.to_string()))?;
        }
        Ok(())
    }
}
