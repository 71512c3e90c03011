//! How tests ask an experiment, and read its tables.

use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Progress, Setting, Table};

/// The built-in inputs of `experiment` with other values of some keys.
pub(crate) fn changed(experiment: &Experiment, changes: &[(&str, &str)]) -> String {
    let mut table: toml::Table = experiment.inputs.parse().expect("inputs");
    for (key, value) in changes {
        let value: toml::Table = format!("value = {value}").parse().expect(value);
        let before = table.insert((*key).to_owned(), value["value"].clone());
        assert!(before.is_some(), "{} has no {key}", experiment.name);
    }
    table.to_string()
}

/// `text` with the first of each of these in place of another.
pub(crate) fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in changes {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        text = changed;
    }
    text
}

/// What `experiment` answers: whatever passes its check runs, and says how far it is.
pub(crate) fn ask(
    experiment: &Experiment,
    parameters: &str,
    inputs: &str,
    (seed, packets_per_link): (u64, usize),
) -> Result<Outcome, SystemError> {
    let setting = Setting {
        parameters,
        inputs,
        seed,
        packets_per_link,
        progress: &Progress::default(),
    };
    let checked = (experiment.check)(&setting);
    let outcome = (experiment.run)(&setting);
    assert_eq!(checked.is_ok(), outcome.is_ok(), "{}", experiment.name);
    if outcome.is_ok() {
        let (done, announced) = setting.progress.look();
        assert!(done == announced && done > 0, "{}", experiment.name);
    }
    outcome
}

/// A table by its name.
pub(crate) fn named<'a>(outcome: &'a Outcome, name: &str) -> &'a Table {
    let found = outcome.tables.iter().find(|table| table.name == name);
    found.expect(name)
}

fn cells<'a>(table: &'a Table, column: &str) -> impl Iterator<Item = &'a Cell> {
    let at = table.columns.iter().position(|found| found.name == column);
    let at = at.unwrap_or_else(|| panic!("no column {column}"));
    table.rows.iter().map(move |row| &row[at])
}

/// A number of a table.
pub(crate) fn number(table: &Table, row: usize, column: &str) -> f64 {
    match cells(table, column).nth(row) {
        Some(Cell::Number(number)) => *number,
        other => panic!("{column}: {other:?}"),
    }
}

/// The numbers of a column; those that are missing are left out.
pub(crate) fn column(table: &Table, name: &str) -> Vec<f64> {
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    };
    cells(table, name).filter_map(number).collect()
}
