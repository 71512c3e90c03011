//! Studies: questions that a paper left open, and what the model answers.

use barewire_testbed::{Finding, Study, System};

use crate::sweep::in_columns;
use crate::text::figures;
use crate::{Change, ReproduceError, parameters};

/// Puts `study` to `system`, its parameters changed by `changes`.
///
/// # Errors
///
/// Changes or parameters that cannot be used.
pub fn put(
    system: &dyn System,
    study: &Study,
    changes: &[Change],
    seed: u64,
) -> Result<Vec<Finding>, ReproduceError> {
    let mut parameters = system.parameters().to_owned();
    for change in changes {
        parameters = parameters::set(&parameters, &change.key, &change.value)?;
    }
    Ok((study.run)(&parameters, seed)?)
}

/// The findings of a study as tables: a row for each point, a column for each quantity.
#[must_use]
pub fn study_text(findings: &[Finding]) -> String {
    let mut tables: Vec<&str> = Vec::new();
    for finding in findings {
        if !tables.contains(&finding.table) {
            tables.push(finding.table);
        }
    }
    let text = |table: &&str| {
        let of_table: Vec<&Finding> = findings.iter().filter(|f| f.table == *table).collect();
        one_table(table, &of_table)
    };
    tables.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn one_table(table: &str, findings: &[&Finding]) -> String {
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for finding in findings {
        let column = (finding.quantity, finding.unit);
        if !rows.contains(&finding.row.as_str()) {
            rows.push(finding.row.as_str());
        }
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut head = vec![table.to_owned(), String::new()];
    head.extend(
        columns
            .iter()
            .map(|(quantity, unit)| format!("{quantity}, {unit}")),
    );
    let mut grid = vec![head];
    for row in rows {
        let mut line = vec![row.to_owned(), String::new()];
        for column in &columns {
            let found = findings
                .iter()
                .find(|f| f.row == row && (f.quantity, f.unit) == *column);
            line.push(found.map_or("-".to_owned(), |f| figures(f.value)));
        }
        grid.push(line);
    }
    in_columns(&grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_point_and_a_column_for_each_quantity() {
        let finding = |table, row: &str, quantity, value| Finding {
            table,
            row: row.into(),
            quantity,
            unit: "us",
            value,
        };
        let text = study_text(&[
            finding("a", "x", "wait", 1.5),
            finding("a", "x", "time", 2.0),
            finding("b", "x", "wait", 7.0),
            finding("a", "long", "time", 3.25),
        ]);
        assert_eq!(
            text,
            "\
a       wait, us  time, us
x            1.5         2
long           -      3.25

b    wait, us
x           7
"
        );
    }
}
