//! Result tables: rows and columns, as text, as comma-separated values, and in JSON.

use barewire_testbed::Column;
use serde::{Deserialize, Serialize};

use crate::cells::{figures, quoted, with_half_width};
use crate::grid::{Head, grid};

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
            heading.push(quoted(&column.heading()));
            if has_width(at) {
                let name = format!("half width of {}", column.heading());
                heading.push(quoted(&name));
            }
        }
        let mut out = heading.join(",") + "\n";
        for row in &self.rows {
            let mut cells = Vec::new();
            for (at, entry) in row.iter().enumerate() {
                let (value, half_width) = match entry {
                    Entry::Number { value, half_width } => (value.to_string(), *half_width),
                    Entry::Text(text) => (quoted(text), None),
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
