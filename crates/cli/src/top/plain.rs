//! Snapshots as text or JSON, for what is no terminal.

use barewire_report::columns::{PrintError, in_columns, print};
use serde_json::{Map, Value, json};

use super::tables::{KINDS, Kind, Row, Tables};
use super::view::View;

/// Prints all tables, or one of them.
///
/// # Errors
/// Standard output takes no more.
pub fn print_tables(
    tables: &Tables,
    view: &View,
    only: Option<Kind>,
    is_json: bool,
) -> Result<(), PrintError> {
    let kinds = KINDS.into_iter();
    let kinds = kinds.filter(|kind| only.is_none_or(|only| only == *kind));
    let chosen = kinds.map(|kind| (kind, view.chosen(tables, kind)));
    match is_json {
        true => print(&(object(tables, chosen).to_string() + "\n")),
        false => print(
            &chosen
                .map(|(kind, rows)| text(kind, &rows))
                .collect::<String>(),
        ),
    }
}

fn object<'a>(tables: &Tables, chosen: impl Iterator<Item = (Kind, Vec<&'a Row>)>) -> Value {
    let row = |kind: Kind, row: &Row| -> Value {
        let columns = kind.columns().iter().zip(&row.cells);
        let fields = columns.map(|(column, cell)| (column.key.to_owned(), cell.value.clone()));
        Value::Object(fields.collect())
    };
    let mut all = Map::new();
    all.insert("interval_seconds".to_owned(), json!(tables.seconds));
    for (kind, rows) in chosen {
        let rows: Vec<Value> = rows.iter().map(|it| row(kind, it)).collect();
        all.insert(kind.name().to_owned(), json!(rows));
    }
    Value::Object(all)
}

fn text(kind: Kind, rows: &[&Row]) -> String {
    let columns = kind.columns();
    let heading = columns.iter().map(|column| column.heading.to_owned());
    let mut lines: Vec<Vec<String>> = vec![heading.collect()];
    let cells = |row: &&Row| row.cells.iter().map(|cell| cell.text.clone()).collect();
    lines.extend(rows.iter().map(cells));
    let is_text = |at: &usize| columns[*at].is_text;
    let text_columns: Vec<usize> = (0..columns.len()).filter(is_text).collect();
    format!(
        "{} ({})\n{}\n",
        kind.name(),
        rows.len(),
        in_columns(&lines, &text_columns, "  ")
    )
}
