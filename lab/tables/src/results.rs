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

use barewire_testbed::LinkCapture;
use serde::{Deserialize, Serialize};

use crate::axes::Axes;
use crate::grid::wrap;
use crate::over::{Amount, Over};
use crate::plan::{Changed, Plan};
use crate::result_table::{Entry, ResultColumn, ResultTable};
use crate::runs::{Found, hash_of};
use crate::saved::{self, FORMAT};

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
        saved::read(text)
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
