//! What was published: one file for each system, `expected/SYSTEM.toml`.
//!
//! ```text
//! [[row]]
//! table = "table-1"            # as the experiment names it
//! row = "10 cells"
//! quantity = "transmit rate"
//! unit = "Mbit/s"
//! published = 7.31
//! tolerance_pct = 3.0          # how far the model may be off
//! kind = "predicted"           # or "calibrated", or "misprint"
//! source = "cbn91 Table 1"
//! note = ""                    # may be left out; a misprint says here why it is one
//! ```

use serde::{Deserialize, Serialize};

/// The systems: short name, full name, file.
const FILES: &[(&str, &str, &str)] = &[
    (
        "cbn",
        "Cambridge Backbone Network",
        include_str!("../expected/cbn.toml"),
    ),
    (
        "clan",
        "Collapsed LAN",
        include_str!("../expected/clan.toml"),
    ),
    (
        "jetstream",
        "Jetstream and Afterburner",
        include_str!("../expected/jetstream.toml"),
    ),
    (
        "kek",
        "KEK event builder",
        include_str!("../expected/kek.toml"),
    ),
    (
        "penn",
        "Penn ATM host interface",
        include_str!("../expected/penn.toml"),
    ),
    (
        "rdma",
        "The ring over an RDMA card",
        include_str!("../expected/rdma.toml"),
    ),
    (
        "workbench",
        "Workbench: an own card on an own host",
        include_str!("../expected/workbench.toml"),
    ),
];

/// How the model came to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A parameter was fitted on this row, so it says nothing about the model.
    Calibrated,
    /// Nothing was fitted on it.
    Predicted,
    /// The published value cannot be right; it is reported, and not judged.
    Misprint,
}

impl Kind {
    /// The word for it in files and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Misprint => "misprint",
        }
    }
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The table or group of the source: `table-1`, `scalars`.
    pub table: String,
    /// The row: `10 cells`.
    pub row: String,
    /// What was measured: `transmit rate`.
    pub quantity: String,
    /// Its unit: `Mbit/s`.
    pub unit: String,
    /// The value in the source.
    pub published: f64,
    /// How far the model may be off, in percent of the published value.
    pub tolerance_pct: f64,
    /// Whether a parameter was fitted on it.
    pub kind: Kind,
    /// Where it was published: `cbn91 Table 1`.
    pub source: String,
    /// What there is to say about it; why a misprint is one.
    #[serde(default)]
    pub note: String,
}

impl Row {
    /// Whether both are the same value of the same table.
    fn same_place(&self, other: &Row) -> bool {
        self.table == other.table && self.row == other.row && self.quantity == other.quantity
    }

    fn fault(&self) -> Option<&'static str> {
        if !self.published.is_finite() || self.published == 0.0 {
            return Some("an error in percent needs a published value other than zero");
        }
        if !self.tolerance_pct.is_finite() || self.tolerance_pct < 0.0 {
            return Some("the tolerance must be zero or more");
        }
        if self.kind == Kind::Misprint && self.note.is_empty() {
            return Some("a misprint needs a note that says why it is one");
        }
        None
    }
}

/// What was published of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The system's full name.
    pub title: String,
    /// The values, in the order of the source.
    pub rows: Vec<Row>,
}

/// A file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

/// Why there are no published values.
#[derive(Debug, thiserror::Error)]
pub enum ExpectedError {
    /// No file for this system.
    #[error("no published values for `{0}`: no such file in lab/tables/expected")]
    NoFile(String),
    /// A file that is not of the form above; the text names line and key.
    #[error("published values: {0}")]
    Form(#[from] toml::de::Error),
    /// A row that makes no sense.
    #[error("published values: {table}, {row}, {quantity}: {fault}")]
    Row {
        /// The table of the row.
        table: String,
        /// The row.
        row: String,
        /// The quantity.
        quantity: String,
        /// What is wrong with it.
        fault: &'static str,
    },
}

impl Expected {
    /// The published values of a system.
    ///
    /// # Errors
    ///
    /// No file for the system, or one that cannot be used.
    pub fn of(system: &str) -> Result<Expected, ExpectedError> {
        let (_, title, text) = FILES
            .iter()
            .find(|(name, ..)| *name == system)
            .ok_or_else(|| ExpectedError::NoFile(system.to_owned()))?;
        Expected::parse(title, text)
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// A text of another form, or a row that makes no sense or is there twice.
    pub fn parse(title: &str, text: &str) -> Result<Expected, ExpectedError> {
        let File { row: rows } = toml::from_str(text)?;
        for (index, row) in rows.iter().enumerate() {
            let twice = rows[..index].iter().any(|it| it.same_place(row));
            let fault = row.fault().or(twice.then_some("is there twice"));
            if let Some(fault) = fault {
                return Err(ExpectedError::Row {
                    table: row.table.clone(),
                    row: row.row.clone(),
                    quantity: row.quantity.clone(),
                    fault,
                });
            }
        }
        Ok(Expected {
            title: title.to_owned(),
            rows,
        })
    }

    /// The tables, in the order of the file, each with the number of its values.
    #[must_use]
    pub fn tables(&self) -> Vec<(&str, usize)> {
        let mut tables: Vec<(&str, usize)> = Vec::new();
        for row in &self.rows {
            match tables.iter_mut().find(|(name, _)| *name == row.table) {
                Some((_, count)) => *count += 1,
                None => tables.push((&row.table, 1)),
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "[[row]]\ntable = \"t\"\nrow = \"r\"\nquantity = \"q\"\nunit = \"us\"\n\
                       published = 2\ntolerance_pct = 3\nkind = \"predicted\"\nsource = \"s\"\n";

    fn refusal(text: &str) -> String {
        Expected::parse("T", text).unwrap_err().to_string()
    }

    #[test]
    fn every_system_has_a_file_or_plans_and_every_file_a_system() {
        let mut systems = Vec::new();
        for system in barewire_testbed::systems() {
            let name = system.name();
            systems.push(name);
            match Expected::of(name) {
                Ok(expected) => assert!(!expected.rows.is_empty(), "{name}"),
                Err(ExpectedError::NoFile(_)) => {
                    assert!(!system.experiments().is_empty(), "{name}")
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/expected");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut named: Vec<String> = FILES
            .iter()
            .map(|(name, ..)| format!("{name}.toml"))
            .collect();
        named.sort();
        assert_eq!(files, named);
        for (name, ..) in FILES {
            assert!(systems.contains(name), "{name}.toml has no system");
        }
    }

    #[test]
    fn a_row_that_makes_no_sense_is_named() {
        assert!(Expected::parse("T", ROW).is_ok());
        assert_eq!(
            refusal(&format!("{ROW}{ROW}")),
            "published values: t, r, q: is there twice"
        );
        for (from, to, fault) in [
            ("= 2", "= 0", "other than zero"),
            ("= 2", "= inf", "other than zero"),
            ("= 3", "= -1", "zero or more"),
            ("predicted", "misprint", "why it is one"),
            ("predicted", "fitted", "unknown variant `fitted`"),
            ("unit", "units", "unknown field `units`"),
            ("source = \"s\"", "", "missing field `source`"),
        ] {
            let text = refusal(&ROW.replacen(from, to, 1));
            assert!(text.contains(fault), "{text}");
        }
    }

    #[test]
    fn tables_are_counted_in_the_order_of_the_file() {
        let second = ROW.replace("\"t\"", "\"a\"");
        let third = ROW.replace("\"r\"", "\"r2\"");
        let expected = Expected::parse("T", &format!("{ROW}{second}{third}")).unwrap();
        assert_eq!(expected.tables(), [("t", 2), ("a", 1)]);
    }

    #[test]
    fn an_unknown_system_is_named() {
        let error = Expected::of("nosuch").unwrap_err().to_string();
        assert!(error.contains("`nosuch`"), "{error}");
    }
}
