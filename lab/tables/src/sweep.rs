//! A sweep: what a system gives as parameters of it take several values.

use std::fmt::Write;

use barewire_testbed::{Finding, System, replicate};

use crate::axes::Axes;
use crate::cells::{figures, quoted};
use crate::parameters;
use crate::report::{Change, ReproduceError};

/// Why a sweep could not be run.
#[derive(Debug, thiserror::Error)]
#[error("{point}: {source}")]
pub struct SweepError {
    /// The keys and values at fault.
    pub point: String,
    /// Why.
    pub source: Box<ReproduceError>,
}

/// What came out of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    system: String,
    over: Axes,
    lines: Vec<SweptLine>,
}

/// One quantity at every point.
#[derive(Clone, Debug)]
struct SweptLine {
    finding: Finding,
    /// In the order of the points; `None` where the experiment gave none.
    values: Vec<Option<f64>>,
}

/// Runs `system` once for every point of `over`, on all processors, with its own
/// parameters changed by `changes`. The result does not depend on the processors.
///
/// # Errors
///
/// The first point with which the system cannot be run.
pub fn sweep(
    system: &dyn System,
    over: Axes,
    changes: &[Change],
    seed: u64,
) -> Result<Sweep, SweepError> {
    let runs = replicate(over.len(), |index| {
        run(system, over.point(index), changes, seed).map_err(|source| SweepError {
            point: in_words(over.point(index)),
            source: Box::new(source),
        })
    });
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Sweep {
        system: system.name().to_owned(),
        lines: lines(&runs),
        over,
    })
}

fn in_words<'a>(point: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let words = point.map(|(key, value)| format!("{key}={value}"));
    words.collect::<Vec<_>>().join(", ")
}

fn run<'a>(
    system: &dyn System,
    point: impl Iterator<Item = (&'a str, &'a str)>,
    changes: &[Change],
    seed: u64,
) -> Result<Vec<Finding>, ReproduceError> {
    let mut parameters = system.parameters().to_owned();
    for change in changes {
        parameters = parameters::set(&parameters, &change.key, &change.value)?;
    }
    for (key, value) in point {
        parameters = parameters::set(&parameters, key, value)?;
    }
    Ok(system.run(&parameters, seed)?)
}

/// One line for each quantity that any run found, in the order of their appearance.
fn lines(runs: &[Vec<Finding>]) -> Vec<SweptLine> {
    let mut lines: Vec<SweptLine> = Vec::new();
    for (index, findings) in runs.iter().enumerate() {
        for finding in findings {
            let known = lines
                .iter()
                .position(|line| is_same(&line.finding, finding));
            let at = known.unwrap_or_else(|| {
                lines.push(SweptLine {
                    finding: finding.clone(),
                    values: vec![None; runs.len()],
                });
                lines.len() - 1
            });
            lines[at].values[index] = Some(finding.value);
        }
    }
    lines
}

fn is_same(a: &Finding, b: &Finding) -> bool {
    (a.table, &a.row, a.quantity, a.unit) == (b.table, &b.row, b.quantity, b.unit)
}

impl Sweep {
    /// Keeps only the quantities whose `table, row, quantity` contains `text`.
    pub fn keep(&mut self, text: &str) {
        self.lines.retain(|line| line.name().contains(text));
    }

    /// As a table: a row for each quantity, a column for each point.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut head = vec![
            format!("{} of {}", self.over.keys_shown(), self.system),
            "unit".to_owned(),
        ];
        head.extend((0..self.over.len()).map(|at| self.over.point_shown(at)));
        let mut grid = vec![head];
        for line in &self.lines {
            let mut row = vec![line.name(), line.finding.unit.to_owned()];
            row.extend(
                line.values
                    .iter()
                    .map(|value| value.map_or("-".to_owned(), figures)),
            );
            grid.push(row);
        }
        in_columns(&grid)
    }

    /// As comma-separated values: a line for each quantity at each point. Several keys, and
    /// their values, stand in one field with commas between.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut out = String::from("system,key,value,table,row,quantity,unit,model\n");
        for line in &self.lines {
            for (at, model) in line.values.iter().enumerate() {
                let finding = &line.finding;
                let fields = [
                    self.system.as_str(),
                    &self.over.keys_shown(),
                    &self.over.point_shown(at),
                    finding.table,
                    &finding.row,
                    finding.quantity,
                    finding.unit,
                ];
                let fields = fields.map(quoted).join(",");
                let model = model.map(|model| model.to_string()).unwrap_or_default();
                let _ = writeln!(out, "{fields},{model}");
            }
        }
        out
    }
}

impl SweptLine {
    fn name(&self) -> String {
        let Finding {
            table,
            row,
            quantity,
            ..
        } = &self.finding;
        format!("{table}, {row}, {quantity}")
    }
}

/// Rows in columns: the first two to the left, numbers to the right.
fn in_columns(grid: &[Vec<String>]) -> String {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = grid.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in grid {
        let mut text = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 | 1 => write!(text, "{cell:<width$}  "),
                _ => write!(text, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn swept(over: &str, changes: &[&str]) -> Result<Sweep, SweepError> {
        let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
        let axis: crate::Axis = over.parse().unwrap();
        sweep(&Sample, Axes::cross(&[axis]).unwrap(), &changes, 7)
    }

    #[test]
    fn a_column_for_each_value_whatever_is_found_there() {
        let mut sweep = swept("block.setup=100 us,200 us", &["block.cells=[1, 10]"]).unwrap();
        assert_eq!(
            sweep.to_text(),
            "\
block.setup of sample    unit    100 us  200 us
table-1, 1 cell, time    us         110     210
table-1, 10 cells, time  us         200     300
scalars, -, rate         Mbit/s    25.6    25.6
"
        );
        sweep.keep("1 cell,");
        assert_eq!(
            sweep.to_csv(),
            "\
system,key,value,table,row,quantity,unit,model
sample,block.setup,100 us,table-1,1 cell,time,us,110
sample,block.setup,200 us,table-1,1 cell,time,us,210
"
        );
    }

    #[test]
    fn pairs_are_set_together_and_axes_multiplied() {
        let axes: Vec<crate::Axis> = [
            "(block.setup, block.cells)=(100 us, [1]), (200 us, [10])",
            "block.cell=10 us, 20 us",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        let mut sweep = sweep(&Sample, Axes::cross(&axes).unwrap(), &[], 7).unwrap();
        sweep.keep("table-1");
        let found: Vec<_> = sweep.lines.iter().map(|line| &line.values[..]).collect();
        assert_eq!(
            found,
            [
                [Some(110.0), Some(120.0), None, None],
                [None, None, Some(300.0), Some(400.0)]
            ]
        );
        assert!(sweep.to_csv().contains(
            "\"block.setup, block.cells, block.cell\",\"200 us, [10], 20 us\",table-1,10 cells"
        ));
    }

    #[test]
    fn the_value_at_fault_is_named() {
        let error = swept("block.setup=100 us,soon", &[]).unwrap_err();
        assert!(
            error.to_string().starts_with("block.setup=soon: "),
            "{error}"
        );
        let error = swept("block.nosuch=1", &[]).unwrap_err();
        assert!(error.to_string().contains("nosuch"), "{error}");
    }

    #[test]
    fn quantities_that_only_some_runs_have_keep_their_place() {
        let finding = |row: &str, value| Finding {
            table: "t",
            row: row.into(),
            quantity: "q",
            unit: "u",
            value,
        };
        let runs = [
            vec![finding("a", 1.0)],
            vec![finding("b", 2.0), finding("a", 3.0)],
        ];
        let lines = lines(&runs);
        let found: Vec<_> = lines
            .iter()
            .map(|line| (line.finding.row.as_str(), &line.values))
            .collect();
        assert_eq!(
            found,
            [
                ("a", &vec![Some(1.0), Some(3.0)]),
                ("b", &vec![None, Some(2.0)])
            ]
        );
    }
}
