//! The published values, as the reproduction tests read them.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    row: Vec<Row>,
}

/// A published value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub table: String,
    pub row: String,
    pub quantity: String,
    pub unit: String,
    pub published: f64,
    pub tolerance_pct: f64,
    pub kind: String,
    pub source: String,
    #[serde(default)]
    pub note: String,
}

/// The rows of a file of `lab/tables/expected`.
pub(crate) fn rows(text: &str) -> Vec<Row> {
    let expected: Expected = toml::from_str(text).expect("a good file");
    expected.row
}
