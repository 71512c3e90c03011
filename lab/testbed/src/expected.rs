//! The published values, held against what a system finds.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::system::Finding;

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

/// Prints each row beside what was found, and fails if one is out of its tolerance, or a misprint
/// that the model meets; if a row was not found, or something of which nothing is published.
pub(crate) fn hold(findings: &[Finding], text: &str) {
    let mut found = BTreeMap::new();
    for finding in findings {
        let key = (finding.table, &finding.row[..], finding.quantity);
        let before = found.insert(key, finding);
        assert!(before.is_none(), "{key:?} was found twice");
    }
    let mut wrong = Vec::new();
    let rows = rows(text);
    for row in &rows {
        assert!(!row.source.is_empty(), "{}", row.row);
        let key = (&row.table[..], &row.row[..], &row.quantity[..]);
        let finding = found.remove(&key);
        let finding = finding.unwrap_or_else(|| panic!("{key:?} was not found"));
        assert_eq!(finding.unit, row.unit, "{key:?}");
        let error_pct = (finding.value / row.published - 1.0) * 100.0;
        let near = error_pct.abs() <= row.tolerance_pct;
        let line = format!(
            "{:10} {:35} {:24} {:11.4} {:11.4} {:7} {error_pct:+6.2} % {:10} {}",
            row.table,
            row.row,
            row.quantity,
            row.published,
            finding.value,
            row.unit,
            row.kind,
            row.note
        );
        println!("{line}");
        // A misprint that the model meets would be none.
        if near == (row.kind == "misprint") {
            wrong.push(line);
        }
    }
    assert!(found.is_empty(), "nothing is published of {found:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
