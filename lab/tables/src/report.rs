//! Running systems, and the report of it: JSON here, the other forms in their modules.

use std::collections::BTreeMap;
use std::str::FromStr;

use barewire_testbed::{System, SystemError};
use serde::Serialize;

use crate::cells::percent;
use crate::expected::{Expected, Kind};
use crate::join::{Line, Verdict, join};
use crate::parameters::{self, ParameterError};

/// A parameter to replace: `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which, with the tables around it: `ring.frames`.
    pub key: String,
    /// What to put there.
    pub value: String,
}

impl FromStr for Change {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Change, Self::Err> {
        let (key, value) = text.split_once('=').ok_or("expected key=value")?;
        Ok(Change {
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
        })
    }
}

/// Why a system could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A change that the parameters do not allow.
    #[error(transparent)]
    Change(#[from] ParameterError),
    /// Parameters that the system does not take.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// A run of a system.
#[derive(Clone, Debug)]
pub struct Run {
    /// The system: `cbn`.
    pub system: String,
    /// Its full name.
    pub title: String,
    /// The parameters that it ran with.
    pub parameters: String,
    /// What was changed in its own parameters to get these.
    pub changes: Vec<Change>,
    /// What came out.
    pub lines: Vec<Line>,
}

/// How many values came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally<'a> {
    /// All values.
    pub values: usize,
    /// Those within their tolerance.
    pub within: usize,
    /// Those outside.
    pub outside: usize,
    /// Those of one side only.
    pub missing: usize,
    /// Known misprints.
    pub misprints: usize,
    /// The prediction that is off the most.
    pub worst: Option<&'a Line>,
}

/// Runs a system with its own parameters, changed by `changes`, and sets what it found
/// beside what was published.
///
/// # Errors
///
/// Changes or parameters that cannot be used.
pub fn reproduce(
    system: &dyn System,
    expected: Expected,
    changes: &[Change],
    seed: u64,
) -> Result<Run, ReproduceError> {
    let mut parameters = system.parameters().to_owned();
    for change in changes {
        parameters = parameters::set(&parameters, &change.key, &change.value)?;
    }
    let findings = system.run(&parameters, seed)?;
    Ok(Run {
        system: system.name().to_owned(),
        title: expected.title,
        parameters,
        changes: changes.to_vec(),
        lines: join(system.name(), &expected.rows, &findings),
    })
}

impl Run {
    /// How many values came out how.
    #[must_use]
    pub fn tally(&self) -> Tally<'_> {
        let mut tally = Tally::default();
        let mut worst_pct = f64::NEG_INFINITY;
        for line in &self.lines {
            tally.values += 1;
            *match line.verdict {
                Verdict::Within => &mut tally.within,
                Verdict::Outside => &mut tally.outside,
                Verdict::Missing => &mut tally.missing,
                Verdict::Misprint => &mut tally.misprints,
            } += 1;
            let error_pct = line
                .error_pct
                .filter(|_| line.kind == Some(Kind::Predicted));
            if let Some(error) = error_pct.map(f64::abs).filter(|error| *error > worst_pct) {
                worst_pct = error;
                tally.worst = Some(line);
            }
        }
        tally
    }

    /// The lines of each table, in the order of the tables' first lines.
    #[must_use]
    pub fn tables(&self) -> Vec<(&str, Vec<&Line>)> {
        let mut tables: Vec<(&str, Vec<&Line>)> = Vec::new();
        for line in &self.lines {
            match tables.iter_mut().find(|(name, _)| *name == line.table) {
                Some((_, lines)) => lines.push(line),
                None => tables.push((&line.table, vec![line])),
            }
        }
        tables
    }
}

impl Tally<'_> {
    /// The prediction that is off the most, in words.
    #[must_use]
    pub fn worst_in_words(&self) -> Option<String> {
        let line = self.worst?;
        Some(format!("{} ({})", percent(line.error_pct?), line.name()))
    }

    /// In a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let worst = self.worst_in_words().map_or(String::new(), |worst| {
            format!("; the prediction off the most: {worst}")
        });
        format!(
            "{} values: within {}, outside {}, missing {}, known misprints {}{worst}",
            self.values, self.within, self.outside, self.missing, self.misprints
        )
    }
}

/// What a reproduction found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed of all runs.
    pub seed: u64,
    /// With which versions, by which command: names and values.
    pub about: Vec<(&'static str, String)>,
    /// The runs.
    pub runs: Vec<Run>,
}

impl Report {
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.runs.iter().flat_map(|run| &run.lines)
    }

    /// How many values are outside their tolerance or missing.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.lines()
            .filter(|line| line.verdict.is_failure())
            .count()
    }

    /// The values as a list of objects.
    ///
    /// # Errors
    ///
    /// What `serde_json` cannot write.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let lines: Vec<&Line> = self.lines().collect();
        serde_json::to_string_pretty(&lines).map(|text| text + "\n")
    }

    /// What the values came from: seed, versions, and the parameters of each system, whole.
    ///
    /// # Errors
    ///
    /// What `serde_json` cannot write.
    pub fn origin_to_json(&self) -> serde_json::Result<String> {
        let origin = Origin {
            seed: self.seed,
            about: self
                .about
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect(),
            systems: self.runs.iter().map(OriginOf::new).collect(),
        };
        serde_json::to_string_pretty(&origin).map(|text| text + "\n")
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// What a report came from, as JSON.
#[derive(Serialize)]
struct Origin<'a> {
    seed: u64,
    about: BTreeMap<&'a str, &'a str>,
    systems: Vec<OriginOf<'a>>,
}

#[derive(Serialize)]
struct OriginOf<'a> {
    system: &'a str,
    set: Vec<String>,
    parameters: &'a str,
}

impl OriginOf<'_> {
    fn new(run: &Run) -> OriginOf<'_> {
        OriginOf {
            system: &run.system,
            set: run.changes.iter().map(Change::to_string).collect(),
            parameters: &run.parameters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, PARAMETERS, Sample};

    #[test]
    fn a_run_is_joined_and_counted() {
        let run = sample::run(&[]);
        assert_eq!(run.parameters, PARAMETERS);
        let tally = run.tally();
        assert_eq!(
            (
                tally.values,
                tally.within,
                tally.outside,
                tally.missing,
                tally.misprints
            ),
            (4, 3, 0, 0, 1)
        );
        assert_eq!(
            tally.sentence(),
            "4 values: within 3, outside 0, missing 0, known misprints 1; the prediction off \
             the most: +1.85 % (table-1, 1 cell, time)"
        );
        let names: Vec<(&str, usize)> = run
            .tables()
            .iter()
            .map(|(name, lines)| (*name, lines.len()))
            .collect();
        assert_eq!(names, [("table-1", 3), ("scalars", 1)]);
    }

    #[test]
    fn a_change_reaches_the_run_and_is_kept() {
        let run = sample::run(&["block.cell = 20 us", "block.cells=[1]"]);
        assert_eq!(run.lines[0].model, Some(120.0));
        assert_eq!(run.lines[1].verdict, Verdict::Missing);
        assert!(run.parameters.contains("cell = \"20 us\"    # fitted"));
        assert_eq!(run.changes[1].to_string(), "block.cells=[1]");
        assert_eq!(sample::report().failures(), 3);
    }

    #[test]
    fn a_wrong_unit_names_line_key_and_units() {
        let change = "block.cell=20 Mbit/s".parse().unwrap();
        let error = reproduce(&Sample, sample::expected(), &[change], 7)
            .unwrap_err()
            .to_string();
        for word in ["line 4", "cell = \"20 Mbit/s\"", "unknown unit", "us"] {
            assert!(error.contains(word), "{word} is missing: {error}");
        }
    }

    #[test]
    fn changes_are_key_and_value() {
        let change: Change = " a.b = x=y ".parse().unwrap();
        assert_eq!((change.key.as_str(), change.value.as_str()), ("a.b", "x=y"));
        assert!("a.b".parse::<Change>().is_err());
    }

    #[test]
    fn json_is_a_list_of_the_promised_fields() {
        let mut report = sample::report();
        report.runs.truncate(1);
        report.runs[0].lines.drain(1..3);
        assert_eq!(
            report.to_json().unwrap(),
            r#"[
  {
    "system": "sample",
    "table": "table-1",
    "row": "1 cell",
    "quantity": "time",
    "unit": "us",
    "published": 108.0,
    "model": 110.0,
    "error_pct": 1.85185185185186,
    "kind": "predicted",
    "verdict": "within"
  },
  {
    "system": "sample",
    "table": "scalars",
    "row": "-",
    "quantity": "rate",
    "unit": "Mbit/s",
    "published": 25.6,
    "model": 25.6,
    "error_pct": 0.0,
    "kind": "predicted",
    "verdict": "within"
  }
]
"#
        );
    }

    #[test]
    fn json_says_null_for_what_is_missing() {
        let value: serde_json::Value =
            serde_json::from_str(&sample::report().to_json().unwrap()).unwrap();
        let lines = value.as_array().unwrap();
        let of = |row: &str| lines.iter().rev().find(|line| line["row"] == row).unwrap();
        assert!(of("11 cells")["model"].is_null() && of("11 cells")["error_pct"].is_null());
        assert!(of("10 cells")["published"].is_null() && of("10 cells")["kind"].is_null());
        assert_eq!(of("10 cells")["verdict"], "missing");
        assert_eq!(of("20 cells")["kind"], "misprint");
    }

    #[test]
    fn the_origin_is_enough_to_run_it_again() {
        let report = sample::report();
        let value: serde_json::Value =
            serde_json::from_str(&report.origin_to_json().unwrap()).unwrap();
        assert_eq!(value["seed"], 7);
        assert_eq!(value["about"]["barewire"], "0.0.0 <test>");
        assert_eq!(value["systems"][0]["parameters"], PARAMETERS);
        assert_eq!(value["systems"][1]["set"][0], "block.setup=150 us");
        let parameters = value["systems"][1]["parameters"].as_str().unwrap();
        assert_eq!(parameters, PARAMETERS.replacen("100 us", "150 us", 1));
        assert!(Sample.run(parameters, 7).is_ok());
    }
}
