//! Published rows and findings, joined: errors and verdicts.

use barewire_testbed::Finding;
use serde::Serialize;

use crate::cells::percent;
use crate::expected::{Kind, Row};

/// What became of a published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The model is within the tolerance.
    Within,
    /// It is not.
    Outside,
    /// The published value is a known misprint, and not judged.
    Misprint,
    /// A published value that no experiment gave, or the reverse.
    Missing,
}

impl Verdict {
    /// The word for it in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Outside => "outside",
            Self::Misprint => "misprint",
            Self::Missing => "missing",
        }
    }

    /// Whether a reproduction with this verdict has failed.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Outside | Self::Missing)
    }
}

/// A published value beside the model's. In JSON and CSV it has the fields from `system`
/// to `verdict`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The system: `cbn`.
    pub system: String,
    /// The table or group of the source.
    pub table: String,
    /// The row.
    pub row: String,
    /// What was measured.
    pub quantity: String,
    /// The unit of both values.
    pub unit: String,
    /// The value in the source; `None` if the expected file has no such row.
    pub published: Option<f64>,
    /// The value that the experiment found; `None` if it found none.
    pub model: Option<f64>,
    /// model / published - 1, in percent.
    pub error_pct: Option<f64>,
    /// Whether a parameter was fitted on it.
    pub kind: Option<Kind>,
    /// What became of it.
    pub verdict: Verdict,
    /// How far the model may be off, in percent.
    #[serde(skip)]
    pub tolerance_pct: Option<f64>,
    /// Where it was published.
    #[serde(skip)]
    pub source: String,
    /// What there is to say about it.
    #[serde(skip)]
    pub note: String,
}

impl Line {
    fn of_row(system: &str, row: &Row, model: Option<f64>) -> Line {
        let error_pct = model.map(|model| (model / row.published - 1.0) * 100.0);
        let verdict = match (error_pct, row.kind) {
            (None, _) => Verdict::Missing,
            (Some(_), Kind::Misprint) => Verdict::Misprint,
            (Some(error), _) if error.abs() <= row.tolerance_pct => Verdict::Within,
            // Also what is no number at all.
            (Some(_), _) => Verdict::Outside,
        };
        Line {
            system: system.to_owned(),
            table: row.table.clone(),
            row: row.row.clone(),
            quantity: row.quantity.clone(),
            unit: row.unit.clone(),
            published: Some(row.published),
            model,
            error_pct,
            kind: Some(row.kind),
            verdict,
            tolerance_pct: Some(row.tolerance_pct),
            source: row.source.clone(),
            note: row.note.clone(),
        }
    }

    fn of_finding(system: &str, finding: &Finding) -> Line {
        Line {
            system: system.to_owned(),
            table: finding.table.to_owned(),
            row: finding.row.clone(),
            quantity: finding.quantity.to_owned(),
            unit: finding.unit.to_owned(),
            published: None,
            model: Some(finding.value),
            error_pct: None,
            kind: None,
            verdict: Verdict::Missing,
            tolerance_pct: None,
            source: String::new(),
            note: String::new(),
        }
    }

    /// What is wrong, in words, if the verdict is a failure.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match (self.verdict, self.error_pct, self.tolerance_pct) {
            (Verdict::Outside, Some(error), Some(tolerance)) => {
                Some(format!("{} off, {tolerance} % is allowed", percent(error)))
            }
            (Verdict::Missing, ..) if self.published.is_none() => Some(format!(
                "the experiment gave this in {}, but no published row asks for it",
                self.unit
            )),
            (Verdict::Missing, ..) => Some(format!(
                "published, but no experiment gave this in {}",
                self.unit
            )),
            _ => None,
        }
    }

    /// Table, row and quantity, to name it in a sentence.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}, {}, {}", self.table, self.row, self.quantity)
    }
}

/// Sets the findings beside the rows: a line for each row in their order, then one for
/// each finding that no row asked for. Table, row, quantity and unit must agree, and a
/// row takes one finding only.
#[must_use]
pub fn join(system: &str, rows: &[Row], findings: &[Finding]) -> Vec<Line> {
    let mut taken = vec![false; findings.len()];
    let mut lines: Vec<Line> = rows
        .iter()
        .map(|row| {
            let of_row = |finding: &Finding| {
                finding.table == row.table
                    && finding.row == row.row
                    && finding.quantity == row.quantity
                    && finding.unit == row.unit
            };
            let found = findings.iter().position(of_row);
            if let Some(index) = found {
                taken[index] = true;
            }
            Line::of_row(system, row, found.map(|index| findings[index].value))
        })
        .collect();
    let left = findings.iter().zip(taken).filter(|(_, taken)| !taken);
    lines.extend(left.map(|(finding, _)| Line::of_finding(system, finding)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, published: f64, kind: Kind) -> Row {
        Row {
            table: "t".into(),
            row: name.into(),
            quantity: "time".into(),
            unit: "us".into(),
            published,
            tolerance_pct: 3.0,
            kind,
            source: "s".into(),
            note: "n".into(),
        }
    }

    fn finding(name: &str, value: f64) -> Finding {
        Finding {
            table: "t",
            row: name.into(),
            quantity: "time",
            unit: "us",
            value,
        }
    }

    fn verdict(published: f64, kind: Kind, value: f64) -> Verdict {
        join("s", &[row("r", published, kind)], &[finding("r", value)])[0].verdict
    }

    #[test]
    fn the_tolerance_decides_on_both_sides() {
        for kind in [Kind::Calibrated, Kind::Predicted] {
            assert_eq!(verdict(200.0, kind, 205.9), Verdict::Within);
            assert_eq!(verdict(200.0, kind, 206.1), Verdict::Outside);
            assert_eq!(verdict(200.0, kind, 194.1), Verdict::Within);
            assert_eq!(verdict(200.0, kind, 193.9), Verdict::Outside);
        }
        let mut exact = row("r", 200.0, Kind::Predicted);
        exact.tolerance_pct = 0.0;
        let verdict_of = |value| join("s", &[exact.clone()], &[finding("r", value)])[0].verdict;
        assert_eq!(verdict_of(200.0), Verdict::Within);
        assert_eq!(verdict_of(200.1), Verdict::Outside);
        assert_eq!(verdict(-200.0, Kind::Predicted, -205.0), Verdict::Within);
        assert_eq!(verdict(-200.0, Kind::Predicted, 200.0), Verdict::Outside);
    }

    #[test]
    fn what_is_no_number_is_outside() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(verdict(200.0, Kind::Predicted, value), Verdict::Outside);
        }
    }

    #[test]
    fn a_misprint_is_shown_and_not_judged() {
        assert_eq!(verdict(200.0, Kind::Misprint, 200.0), Verdict::Misprint);
        let lines = join(
            "s",
            &[row("r", 200.0, Kind::Misprint)],
            &[finding("r", 250.0)],
        );
        assert_eq!(lines[0].verdict, Verdict::Misprint);
        assert_eq!(lines[0].error_pct, Some(25.0));
        assert!(lines[0].problem().is_none());
        // Without a finding it is missing like any other.
        let lines = join("s", &[row("r", 200.0, Kind::Misprint)], &[]);
        assert_eq!(lines[0].verdict, Verdict::Missing);
    }

    #[test]
    fn neither_side_is_dropped() {
        let rows = [
            row("a", 1.0, Kind::Predicted),
            row("b", 2.0, Kind::Predicted),
        ];
        let lines = join("s", &rows, &[finding("c", 3.0), finding("b", 2.0)]);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| (line.row.as_str(), line.published, line.model, line.verdict))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", Some(1.0), None, Verdict::Missing),
                ("b", Some(2.0), Some(2.0), Verdict::Within),
                ("c", None, Some(3.0), Verdict::Missing),
            ]
        );
        assert!(lines[0].problem().unwrap().contains("no experiment"));
        assert!(lines[1].problem().is_none());
        assert!(lines[2].problem().unwrap().contains("no published row"));
    }

    #[test]
    fn all_four_names_must_agree() {
        let rows = [row("a", 1.0, Kind::Predicted)];
        let good = finding("a", 1.0);
        for other in [
            Finding {
                table: "u",
                ..good.clone()
            },
            Finding {
                row: "b".into(),
                ..good.clone()
            },
            Finding {
                quantity: "rate",
                ..good.clone()
            },
            Finding {
                unit: "ms",
                ..good.clone()
            },
        ] {
            let lines = join("s", &rows, &[other]);
            assert_eq!(lines.len(), 2);
            assert!(lines.iter().all(|line| line.verdict == Verdict::Missing));
        }
    }

    #[test]
    fn a_second_finding_for_one_row_is_not_hidden() {
        let rows = [row("a", 1.0, Kind::Predicted)];
        let lines = join("s", &rows, &[finding("a", 1.0), finding("a", 9.0)]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].model, Some(1.0));
        assert_eq!(lines[1].model, Some(9.0));
        assert_eq!(lines[1].verdict, Verdict::Missing);
    }
}
