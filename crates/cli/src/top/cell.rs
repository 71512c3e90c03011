//! What a row has in a column, as it is shown and as JSON has it.

use barewire_report::number::prefixed;
use serde_json::{Value, json};

/// What a row has in a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// As it is shown.
    pub text: String,
    /// As JSON has it, and as it is sorted.
    pub value: Value,
}

/// Text out of another process: nothing in it may steer a terminal.
pub fn shown(text: &str) -> Cell {
    let harmless = |one: char| if one.is_control() { '?' } else { one };
    let text: String = text.chars().map(harmless).collect();
    Cell {
        value: json!(text),
        text: if text.is_empty() {
            "-".to_owned()
        } else {
            text
        },
    }
}

/// A whole number.
pub fn number(value: impl Into<u64>) -> Cell {
    let value: u64 = value.into();
    Cell {
        text: value.to_string(),
        value: json!(value),
    }
}

/// A dash for what is not known.
pub fn optional(value: Option<Cell>) -> Cell {
    value.unwrap_or_else(|| Cell {
        text: "-".to_owned(),
        value: Value::Null,
    })
}

/// So many a second.
pub fn rate(value: Option<f64>) -> Cell {
    optional(value.map(|value| Cell {
        text: prefixed(value),
        value: json!(value),
    }))
}
