//! The results as comma-separated values, the fields of JSON as columns.

use serde_json::Value;

use crate::results::Row;

/// The columns, in order.
const COLUMNS: [&str; 24] = [
    "test",
    "transport",
    "variant",
    "waiting",
    "size_bytes",
    "connections",
    "outstanding",
    "unit",
    "median",
    "p99",
    "p999",
    "min",
    "max",
    "samples",
    "samples_dropped",
    "disturbed",
    "band",
    "band_ns",
    "limit",
    "ratio_to_limit",
    "ratio_to_tcp",
    "messages_per_second",
    "cpu_client_percent",
    "cpu_server_percent",
];

/// A heading and a line for each row.
pub fn csv(rows: &[Row]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for row in rows {
        let value = serde_json::to_value(row).unwrap_or_default();
        let cells: Vec<String> = COLUMNS.iter().map(|column| cell(&value[*column])).collect();
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn every_line_has_every_column() {
        let report = report();
        let text = csv(&report.results);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + report.results.len());
        for line in &lines {
            assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
        }
        let fields = serde_json::to_value(&report.results[0]).unwrap();
        assert_eq!(fields.as_object().unwrap().len(), COLUMNS.len());
    }

    #[test]
    fn commas_and_quotes_are_kept() {
        assert_eq!(cell(&Value::from("a,\"b\"")), "\"a,\"\"b\"\"\"");
        assert_eq!(cell(&Value::Null), "");
    }
}
