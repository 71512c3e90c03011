//! What was predicted, beside what was measured.

use std::path::Path;

use barewire_tables::{Entry, Over, ResultColumn, ResultTable};
use barewire_units::ByteSize;

use crate::daq::error::DaqError;
use crate::daq::scan::{self, BUILT, Point};

/// An error of this command.
pub fn wrong<T>(text: String) -> Result<T, DaqError> {
    Err(DaqError::Scan(text))
}

pub fn problem(error: impl ToString) -> DaqError {
    DaqError::Scan(error.to_string())
}

/// Whether the model says that the configuration loses events.
pub fn not_built(predicted: &ResultTable) -> Option<String> {
    let each = predicted.rows.iter();
    let lost: f64 = each
        .filter_map(|row| cell(predicted, row, "events not built").number())
        .sum();
    (lost > 0.0).then(|| {
        format!("In the model {lost} events were not built: they were open for longer than builder.timeout.")
    })
}

/// A table that `scan` has written.
pub fn read(file: &Path) -> Result<ResultTable, DaqError> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| scan::io(file, error))?;
    let tables: Vec<ResultTable> =
        serde_json::from_str(&text).map_err(|error| problem(format!("{name}: {error}")))?;
    let has_sizes = |it: &ResultTable| {
        let first = it.columns.first();
        first.is_some_and(|it| it.name.ends_with("fragment_size") || it.name == "fragments.size")
    };
    let table = tables.into_iter().find(has_sizes);
    table.ok_or_else(|| problem(format!("{name}: no table over fragment_size")))
}

/// The columns that are compared, with the model's name and the scan's.
const COMPARED: [(&str, &str); 5] = [
    (BUILT, "MB/s"),
    ("events", "1/s"),
    ("processor time", "processors"),
    (OF_A_MB, "us/MB"),
    ("building time, median", "us"),
];
/// Not in the tables, but follows from them; what else runs on the machine changes it little.
pub const OF_A_MB: &str = "processor time of a MB";
pub const OFF: &str = "built, prediction against measurement";
pub const OFF_OF_A_MB: &str = "processor time of a MB, prediction against measurement";

/// The laboratory's figure before it was corrected, and how far off that is.
pub const ALONE: &str = "built, the laboratory alone";
const OFF_ALONE: &str = "built, the laboratory alone against measurement";

/// What was measured, and its row for each that was predicted.
pub struct Measured {
    table: ResultTable,
    rows: Vec<Option<usize>>,
}

impl Measured {
    pub fn in_order(table: ResultTable) -> Self {
        let rows = (0..table.rows.len()).map(Some).collect();
        Self { table, rows }
    }

    pub fn by_sizes(table: ResultTable, over: &Over) -> Self {
        let (first, values) = over.column();
        let row = |value| row_at(&table, bytes(value, &first.unit)?);
        let rows = values.iter().map(row).collect();
        Self { table, rows }
    }

    fn row(&self, at: usize) -> Option<&Vec<Entry>> {
        self.table.rows.get((*self.rows.get(at)?)?)
    }
}

/// Prediction beside measurement.
pub fn beside(
    over: &[Over],
    points: &[Point],
    predicted: &ResultTable,
    measured: Option<&Measured>,
) -> ResultTable {
    let (mut columns, values): (Vec<_>, Vec<_>) = over.iter().map(Over::column).unzip();
    for (name, unit) in COMPARED {
        for of in ["predicted", "measured"] {
            columns.push(ResultColumn {
                name: format!("{name}, {of}"),
                unit: unit.to_owned(),
            });
        }
    }
    let is_corrected = predicted.columns.iter().any(|it| it.name == ALONE);
    let alone = [(ALONE, "MB/s"), (OFF_ALONE, "%")];
    let more = [(OFF, "%"), (OFF_OF_A_MB, "%")].into_iter();
    let more = more.chain(alone.into_iter().filter(|_| is_corrected));
    columns.extend(more.map(|(name, unit)| ResultColumn {
        name: name.to_owned(),
        unit: unit.to_owned(),
    }));
    let rows = points.iter().zip(&predicted.rows).enumerate();
    let rows = rows.map(|(at, (point, row))| {
        let other = measured.and_then(|it| Some((&it.table, it.row(at)?)));
        let real = |name| other.and_then(|(table, row)| cell(table, row, name).number());
        let axes = point.at.iter().zip(&values);
        let mut cells: Vec<_> = axes.map(|(&at, values)| values[at].clone()).collect();
        for (name, _) in COMPARED {
            cells.push(cell(predicted, row, name));
            cells.push(other.map_or(Entry::Missing, |(table, row)| cell(table, row, name)));
        }
        for what in [BUILT, OF_A_MB] {
            cells.push(off(cell(predicted, row, what).number(), real(what)));
        }
        if is_corrected {
            let alone = cell(predicted, row, ALONE);
            cells.push(alone.clone());
            cells.push(off(alone.number(), real(BUILT)));
        }
        cells
    });
    let mut table = ResultTable {
        name: "prediction".to_owned(),
        keys: over.len(),
        columns,
        rows: rows.collect(),
    };
    if measured.is_none() {
        only_predicted(&mut table);
    }
    table
}

/// Without a measurement there are no columns for it.
fn only_predicted(table: &mut ResultTable) {
    let is_kept = |name: &str| !name.ends_with("measurement") && !name.ends_with(", measured");
    let kept: Vec<bool> = table.columns.iter().map(|it| is_kept(&it.name)).collect();
    let mut at = kept.iter();
    table.columns.retain(|_| at.next() == Some(&true));
    for row in &mut table.rows {
        let mut at = kept.iter();
        row.retain(|_| at.next() == Some(&true));
    }
}

pub fn number(value: f64) -> Entry {
    Entry::Number {
        value,
        half_width: None,
    }
}

/// By how many percent the model is off.
fn off(model: Option<f64>, real: Option<f64>) -> Entry {
    match (model, real) {
        (Some(model), Some(real)) if real > 0.0 => number(100.0 * (model / real - 1.0)),
        _ => Entry::Missing,
    }
}

pub fn cell(table: &ResultTable, row: &[Entry], name: &str) -> Entry {
    if name == OF_A_MB {
        let of = |name| cell(table, row, name).number();
        let (busy, built) = (of("processor time"), of(BUILT));
        return match (busy, built.filter(|it| *it > 0.0)) {
            (Some(busy), Some(built)) => number(1e6 * busy / built),
            _ => Entry::Missing,
        };
    }
    let at = table.columns.iter().position(|it| it.name == name);
    at.and_then(|at| row.get(at))
        .cloned()
        .unwrap_or(Entry::Missing)
}

/// A size in a column of this unit.
fn bytes(entry: &Entry, unit: &str) -> Option<u64> {
    let text = match entry {
        Entry::Number { value, .. } => format!("{value} {unit}"),
        Entry::Text(text) => text.clone(),
        Entry::Missing => return None,
    };
    text.parse::<ByteSize>().ok().map(ByteSize::as_bytes)
}

fn row_at(table: &ResultTable, wanted: u64) -> Option<usize> {
    let unit = &table.columns.first()?.unit;
    let is_it = |row: &Vec<Entry>| row.first().and_then(|it| bytes(it, unit)) == Some(wanted);
    table.rows.iter().position(is_it)
}

pub fn how_far_off(table: &ResultTable) -> String {
    let sorted = |name| {
        let rows = table.rows.iter();
        let off = rows.filter_map(|row| cell(table, row, name).number());
        let mut off: Vec<f64> = off.map(f64::abs).collect();
        off.sort_by(f64::total_cmp);
        off
    };
    let (built, cost, alone) = (sorted(OFF), sorted(OFF_OF_A_MB), sorted(OFF_ALONE));
    let near = built.iter().filter(|it| **it <= NEAR_PERCENT).count();
    let alone = match in_words_of(&alone) {
        Some(of_alone) => format!(" The laboratory alone is off by {of_alone}."),
        None => String::new(),
    };
    match (in_words_of(&built), in_words_of(&cost)) {
        (Some(of_built), Some(of_cost)) => format!(
            "Of {} shapes, the predicted bandwidth is off by {of_built}, and by less than {NEAR_PERCENT} % of {near}; \
             the processor time of a MB by {of_cost}. Whatever else runs takes bandwidth away, and little else.{alone}",
            built.len()
        ),
        _ => "No shape was both predicted and measured.".to_owned(),
    }
}

/// Of sorted figures.
fn in_words_of(off: &[f64]) -> Option<String> {
    let worst = off.last()?;
    let middle = off[off.len() / 2];
    Some(format!(
        "{middle:.0} % in the middle and {worst:.0} % at worst"
    ))
}

/// What counts as near.
const NEAR_PERCENT: f64 = 20.0;
