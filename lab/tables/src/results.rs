//! What came out of a plan or a sweep, with all that it came from: as JSON, as a table of
//! comma-separated values, as text.
//!
//! The JSON is one object:
//!
//! | key | what |
//! |---|---|
//! | `format` | 1 |
//! | `plan`, `title`, `question`, `system`, `experiment` | what was asked of whom |
//! | `seed`, `replications` | of the plan |
//! | `over` | of a sweep: `key` and `values`, or of several keys `keys` and `points` (a value for each key); else null |
//! | `trace_hash` | over all events of all runs, in hexadecimal |
//! | `about` | versions of program and compiler |
//! | `changes` | what differs from the defaults: `key`, `value`, `was`, `from` |
//! | `tables` | each with `name`, `columns` (`name`, `unit`) and `rows`; `keys` of the columns, from the left, say what was varied; with replications the rows hold means, and `half_widths` the half widths of their 95 % intervals in the same places |
//! | `links` | what was recorded of each link: `link`, `packets`, `not_recorded` |
//! | `resolved_plan` | the whole plan; saved in a file and run, it gives the same |
//!
//! It has no date and no duration: the same plan gives the same bytes.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;

use barewire_testbed::{Column, LinkCapture};
use serde::{Deserialize, Serialize};

use crate::axes::Axes;
use crate::grid::{Head, grid, wrap};
use crate::over::{Amount, Over};
use crate::plan::{Changed, Plan};
use crate::runs::{Found, hash_of};
use crate::text::{figures, with_half_width};

/// The number of this format.
const FORMAT: u32 = 1;
/// Where the question is broken on the terminal.
const TEXT_WIDTH: usize = 100;
/// Changes that one source may have for the terminal to show each.
const CHANGES_SHOWN_MAX: usize = 8;
/// Letters of a file's name, if one word has no more.
const STEM_LETTERS_MAX: usize = 40;

/// What came out, and what it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    format: u32,
    /// The plan's name.
    pub plan: String,
    /// What the plan wants its results headed with.
    pub title: Option<String>,
    /// What was asked.
    pub question: String,
    /// Of which system.
    pub system: String,
    /// By which experiment.
    pub experiment: String,
    /// The plan's seed.
    pub seed: u64,
    /// Runs that each value is the mean of.
    pub replications: usize,
    /// What was swept, if anything was.
    pub over: Option<Axes>,
    /// Over all events of all runs, in hexadecimal.
    pub trace_hash: String,
    /// With which versions.
    pub about: BTreeMap<String, String>,
    /// What differs from the defaults.
    pub changes: Vec<Changed>,
    /// The tables.
    pub tables: Vec<ResultTable>,
    /// What was recorded of each link.
    pub links: Vec<Recorded>,
    /// The plan, whole.
    pub resolved_plan: String,
}

/// A table over all replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct ResultTable {
    /// What it shows.
    pub name: String,
    /// How many columns, from the left, say what was varied.
    pub keys: usize,
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Its rows, each with an entry for every column.
    pub rows: Vec<Vec<Entry>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultColumn {
    /// `round trip`.
    pub name: String,
    /// `us`; empty for names and counts.
    pub unit: String,
}

/// A place in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A number, the mean if there are replications.
    Number {
        /// In the column's unit.
        value: f64,
        /// Half the width of its 95 % interval; `None` of a single run.
        half_width: Option<f64>,
    },
    /// A name.
    Text(String),
    /// No run has such a value.
    Missing,
}

/// What was recorded of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Which link: the name of the capture's interface.
    pub link: String,
    /// Packets in the capture.
    pub packets: usize,
    /// Packets after those.
    pub not_recorded: u64,
}

impl Entry {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// As tables for people show it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Number {
                value,
                half_width: Some(half_width),
            } if *half_width > 0.0 => with_half_width(*value, *half_width),
            Self::Number { value, .. } => figures(*value),
            Self::Text(text) => text.clone(),
            Self::Missing => "-".to_owned(),
        }
    }
}

impl From<&Column> for ResultColumn {
    fn from(column: &Column) -> Self {
        Self {
            name: column.name.clone(),
            unit: column.unit.clone(),
        }
    }
}

impl ResultColumn {
    /// Name and unit.
    #[must_use]
    pub fn heading(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }
}

impl From<&LinkCapture> for Recorded {
    fn from(capture: &LinkCapture) -> Self {
        Self {
            link: capture.link.clone(),
            packets: capture.packets.len(),
            not_recorded: capture.not_recorded,
        }
    }
}

impl Results {
    /// Of a plan.
    #[must_use]
    pub fn of_plan(plan: &Plan, found: &Found, about: BTreeMap<String, String>) -> Results {
        Results {
            format: FORMAT,
            plan: plan.name.clone(),
            title: plan.title.clone(),
            question: plan.experiment.question.to_owned(),
            system: plan.system.name().to_owned(),
            experiment: plan.experiment.name.to_owned(),
            seed: plan.seed,
            replications: plan.replications,
            over: None,
            trace_hash: in_hex(found.trace_hash),
            about,
            changes: plan.changes.clone(),
            tables: found.tables.clone(),
            links: found.links.iter().map(Recorded::from).collect(),
            resolved_plan: plan.to_toml(),
        }
    }

    /// Of a sweep: what `found` has for each point of `over`, in tables whose first columns are
    /// the values of that point. `plan` is the one without them.
    #[must_use]
    pub fn of_sweep(
        plan: &Plan,
        over: Axes,
        found: &[Found],
        about: BTreeMap<String, String>,
    ) -> Results {
        let none = Found {
            tables: swept(&over, found),
            links: Vec::new(),
            trace_hash: hash_of(&found.iter().map(|of| of.trace_hash).collect::<Vec<_>>()),
        };
        Results {
            over: Some(over),
            ..Results::of_plan(plan, &none, about)
        }
    }

    /// As JSON.
    ///
    /// # Errors
    ///
    /// What `serde_json` cannot write.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// From its JSON.
    ///
    /// # Errors
    ///
    /// What is no such JSON, or of another format.
    pub fn from_json(text: &str) -> Result<Results, String> {
        let results: Results = serde_json::from_str(text)
            .map_err(|error| format!("no result of `barewire lab`: {error}"))?;
        match results.format {
            FORMAT => Ok(results),
            other => Err(format!(
                "a result of format {other}; this program reads {FORMAT}"
            )),
        }
    }

    /// What it is headed with.
    #[must_use]
    pub fn heading(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.plan)
    }

    /// Each table as comma-separated values, with a name for its file.
    #[must_use]
    pub fn to_csvs(&self) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = Vec::new();
        for table in &self.tables {
            let stem = file_stem(&table.name);
            let name = |number: usize| match number {
                1 => format!("{stem}.csv"),
                number => format!("{stem}-{number}.csv"),
            };
            let is_free = |name: &String| files.iter().all(|(known, _)| known != name);
            let free = (1..).map(name).find(is_free).unwrap_or_default();
            files.push((free, table.to_csv(self.replications > 1)));
        }
        files
    }

    /// The tables for the terminal, and a line on what they came from.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.heading());
        if self.question != self.heading() {
            for line in wrap(&self.question, TEXT_WIDTH) {
                let _ = writeln!(out, "{line}");
            }
        }
        out += &changes_in_lines(&self.changes);
        for table in &self.tables {
            let _ = write!(out, "\n{}\n{}", table.name, table.to_text());
        }
        let _ = writeln!(out, "\n{}", self.origin());
        out
    }

    /// Seed, replications and trace hash, in a line.
    #[must_use]
    pub fn origin(&self) -> String {
        let runs = match self.replications {
            1 => String::new(),
            runs => format!(", {runs} replications: mean ± half of the 95 % interval"),
        };
        format!("seed {}{runs}, trace {}", self.seed, self.trace_hash)
    }
}

/// A line for each change; a line for all those of a file that has many, as a host has.
fn changes_in_lines(changes: &[Changed]) -> String {
    let source = |change: &Changed| match change.from.rsplit_once(':') {
        Some((source, line)) if line.parse::<u32>().is_ok() => source.to_owned(),
        _ => change.from.clone(),
    };
    let mut out = String::new();
    for group in changes.chunk_by(|a, b| source(a) == source(b)) {
        if group.len() > CHANGES_SHOWN_MAX {
            let _ = writeln!(
                out,
                "  changed: {} keys ({})",
                group.len(),
                source(&group[0])
            );
            continue;
        }
        for change in group {
            let _ = writeln!(out, "  changed: {change}");
        }
    }
    out
}

fn in_hex(hash: u64) -> String {
    format!("{hash:016x}")
}

/// A name for a file: letters, digits and dashes, and not too many.
pub(crate) fn file_stem(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let mut stem = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !stem.is_empty() && stem.len() + 1 + word.len() > STEM_LETTERS_MAX {
            break;
        }
        if !stem.is_empty() {
            stem.push('-');
        }
        stem += word;
    }
    match stem.is_empty() {
        true => "table".to_owned(),
        false => stem,
    }
}

/// The tables of all points, one below the other, with the point's values in front of each
/// row. A table that only some points gave is there for those.
fn swept(over: &Axes, found: &[Found]) -> Vec<ResultTable> {
    let columns = over.by_key().into_iter().map(|key| key.column());
    let (first, entries): (Vec<_>, Vec<_>) = columns.unzip();
    let mut tables: Vec<ResultTable> = Vec::new();
    for (at, found) in found.iter().enumerate() {
        let point: Vec<Entry> = entries.iter().map(|column| column[at].clone()).collect();
        for table in &found.tables {
            let mut columns = first.clone();
            columns.extend(table.columns.iter().cloned());
            let known = tables
                .iter()
                .position(|known| known.name == table.name && known.columns == columns);
            let at = known.unwrap_or_else(|| {
                tables.push(ResultTable {
                    name: table.name.clone(),
                    keys: table.keys + first.len(),
                    columns,
                    rows: Vec::new(),
                });
                tables.len() - 1
            });
            let in_front = |row: &Vec<Entry>| [point.as_slice(), row].concat();
            tables[at].rows.extend(table.rows.iter().map(in_front));
        }
    }
    tables
}

/// The values of a sweep as numbers in the unit of the first; as names if they have none in
/// common.
fn entries(values: &[String]) -> (String, Vec<Entry>) {
    let unit = values
        .first()
        .and_then(|first| Amount::read(first))
        .map(|it| it.unit);
    let in_unit = |value: &String| {
        let number = Amount::read(value)?.number_in(unit?)?;
        let half_width = None;
        Some(Entry::Number {
            value: number,
            half_width,
        })
    };
    match values.iter().map(in_unit).collect::<Option<Vec<Entry>>>() {
        Some(numbers) => (unit.unwrap_or_default().to_owned(), numbers),
        None => (
            String::new(),
            values.iter().cloned().map(Entry::Text).collect(),
        ),
    }
}

impl Over {
    /// The values as the first column of a table: numbers in the unit of the first, or names if
    /// they have no unit in common.
    #[must_use]
    pub fn column(&self) -> (ResultColumn, Vec<Entry>) {
        let (unit, entries) = entries(&self.values);
        let name = self.key.clone();
        (ResultColumn { name, unit }, entries)
    }
}

impl ResultTable {
    /// Names to the left, numbers to the right, names and units of the columns above.
    #[must_use]
    pub fn to_text(&self) -> String {
        let head = |(at, column): (usize, &ResultColumn)| Head {
            heading: column.heading(),
            is_of_names: self.is_of_names(at),
        };
        let heads: Vec<Head> = self.columns.iter().enumerate().map(head).collect();
        let shown = |row: &Vec<Entry>| row.iter().map(Entry::shown).collect();
        let rows: Vec<Vec<String>> = self.rows.iter().map(shown).collect();
        grid(&heads, &rows)
    }

    /// Whether a column holds names.
    #[must_use]
    pub fn is_of_names(&self, column: usize) -> bool {
        let is_name = |row: &Vec<Entry>| matches!(row[column], Entry::Text(_));
        self.rows.iter().any(is_name)
    }

    /// As comma-separated values; with half widths, in a column beside each number that was found.
    #[must_use]
    pub fn to_csv(&self, with_half_widths: bool) -> String {
        let has_width =
            |column: usize| with_half_widths && column >= self.keys && !self.is_of_names(column);
        let mut heading = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            heading.push(crate::csv::quoted(&column.heading()));
            if has_width(at) {
                let name = format!("half width of {}", column.heading());
                heading.push(crate::csv::quoted(&name));
            }
        }
        let mut out = heading.join(",") + "\n";
        for row in &self.rows {
            let mut cells = Vec::new();
            for (at, entry) in row.iter().enumerate() {
                let (value, half_width) = match entry {
                    Entry::Number { value, half_width } => (value.to_string(), *half_width),
                    Entry::Text(text) => (crate::csv::quoted(text), None),
                    Entry::Missing => (String::new(), None),
                };
                cells.push(value);
                if has_width(at) {
                    cells.push(half_width.map_or_else(String::new, |width| width.to_string()));
                }
            }
            out += &cells.join(",");
            out.push('\n');
        }
        out
    }
}

/// A table as it stands in JSON.
#[derive(Serialize, Deserialize)]
struct Written {
    name: String,
    keys: usize,
    columns: Vec<ResultColumn>,
    rows: Vec<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    half_widths: Vec<Vec<Option<f64>>>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
    Missing(()),
}

impl From<ResultTable> for Written {
    fn from(table: ResultTable) -> Self {
        let width = |entry: &Entry| match entry {
            Entry::Number { half_width, .. } => *half_width,
            _ => None,
        };
        let widths: Vec<Vec<Option<f64>>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(width).collect())
            .collect();
        let has_widths = widths.iter().flatten().any(Option::is_some);
        let value = |entry: Entry| match entry {
            Entry::Number { value, .. } => Value::Number(value),
            Entry::Text(text) => Value::Text(text),
            Entry::Missing => Value::Missing(()),
        };
        Self {
            name: table.name,
            keys: table.keys,
            columns: table.columns,
            rows: table
                .rows
                .into_iter()
                .map(|row| row.into_iter().map(value).collect())
                .collect(),
            half_widths: if has_widths { widths } else { Vec::new() },
        }
    }
}

impl TryFrom<Written> for ResultTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let columns = written.columns.len();
        if written.rows.iter().any(|row| row.len() != columns) || written.keys > columns {
            return Err(format!(
                "`{}` has rows that are not as wide as it",
                written.name
            ));
        }
        let half_width = |row: usize, column: usize| {
            let widths: Option<&Vec<Option<f64>>> = written.half_widths.get(row);
            widths.and_then(|widths| widths.get(column).copied().flatten())
        };
        let entry = |row: usize, (column, value): (usize, Value)| match value {
            Value::Number(value) => Entry::Number {
                value,
                half_width: half_width(row, column),
            },
            Value::Text(text) => Entry::Text(text),
            Value::Missing(()) => Entry::Missing,
        };
        let rows = written.rows.into_iter().enumerate().map(|(at, row)| {
            let entries = row.into_iter().enumerate();
            entries.map(|value| entry(at, value)).collect()
        });
        Ok(Self {
            name: written.name,
            keys: written.keys,
            columns: written.columns,
            rows: rows.collect(),
        })
    }
}
