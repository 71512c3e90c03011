//! The report as tables on the terminal: paper, model, error and verdict in fixed columns. Any
//! other table has the columns of its experiment, and is `result_table`'s.

use std::fmt::Write;

use crate::cells::{figures, percent};
use crate::expected::Kind;
use crate::join::Line;
use crate::report::{Report, Run};

impl Report {
    /// A table for the terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        text(self)
    }
}

/// Every table of every run, what is wrong, and a sentence for each system.
fn text(report: &Report) -> String {
    let mut out = String::new();
    for run in &report.runs {
        let _ = writeln!(out, "{}: {}", run.system, run.title);
        for change in &run.changes {
            let _ = writeln!(out, "  not its own parameter: {change}");
        }
        for (name, lines) in run.tables() {
            let _ = writeln!(out, "\n  {name}");
            table(&mut out, &lines);
        }
        remarks(&mut out, run);
        out.push('\n');
    }
    for run in &report.runs {
        let _ = writeln!(out, "{}: {}", run.system, run.tally().sentence());
    }
    let _ = writeln!(out, "seed {}", report.seed);
    out
}

/// The cells of a line, as the terminal and the page show them.
pub(crate) fn cells(line: &Line) -> [String; 8] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        line.row.clone(),
        line.quantity.clone(),
        line.unit.clone(),
        or_dash(line.published.map(|value| value.to_string())),
        or_dash(line.model.map(figures)),
        or_dash(line.error_pct.map(percent)),
        line.kind.map_or("-", Kind::word).to_owned(),
        line.verdict.word().to_owned(),
    ]
}

/// What the cells are, and whether they are numbers.
pub(crate) const COLUMNS: [(&str, bool); 8] = [
    ("row", false),
    ("quantity", false),
    ("unit", false),
    ("paper", true),
    ("model", true),
    ("error", true),
    ("kind", false),
    ("verdict", false),
];

fn table(out: &mut String, lines: &[&Line]) {
    let mut grid = vec![COLUMNS.map(|(name, _)| name.to_owned())];
    grid.extend(lines.iter().map(|line| cells(line)));
    let mut widths = [0; COLUMNS.len()];
    for row in &grid {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &grid {
        let mut text = String::from("  ");
        for ((cell, width), (_, number)) in row.iter().zip(widths).zip(COLUMNS) {
            let _ = if number {
                write!(text, "  {cell:>width$}")
            } else {
                write!(text, "  {cell:<width$}")
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

/// What failed, and why misprints are such.
fn remarks(out: &mut String, run: &Run) {
    let mut heading = "\n";
    for line in &run.lines {
        let misprint = line.kind == Some(Kind::Misprint);
        let remark = line
            .problem()
            .map(|problem| format!("{}: {problem}", line.verdict.word()))
            .or_else(|| misprint.then(|| format!("misprint: {}", line.note)));
        if let Some(remark) = remark {
            let _ = writeln!(out, "{heading}  {}: {remark}", line.name());
            heading = "";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_whole_text() {
        let mut report = sample::report();
        report.runs.remove(0);
        assert_eq!(
            report.to_text(),
            "\
sample: A <sample> & more
  not its own parameter: block.setup=150 us

  table-1
    row       quantity  unit  paper  model     error  kind        verdict
    11 cells  time      us      200      -         -  calibrated  missing
    20 cells  time      us      240    350  +45.83 %  misprint    misprint
    1 cell    time      us        -    160         -  -           missing
    10 cells  time      us        -    250         -  -           missing

  scalars
    row  quantity  unit    paper  model    error  kind       verdict
    -    rate      Mbit/s   25.6   25.6  +0.00 %  predicted  within

  table-1, 11 cells, time: missing: published, but no experiment gave this in us
  table-1, 20 cells, time: misprint: less, \"by far\", than <twice> row 10
  table-1, 1 cell, time: missing: the experiment gave this in us, but no published row asks for it
  table-1, 10 cells, time: missing: the experiment gave this in us, but no published row asks for it

sample: 5 values: within 1, outside 0, missing 3, known misprints 1; the prediction off the most: +0.00 % (scalars, -, rate)
seed 7
"
        );
    }

    #[test]
    fn what_is_outside_is_named() {
        let run = sample::run(&["block.setup=150 us"]);
        let mut out = String::new();
        remarks(&mut out, &run);
        assert!(
            out.contains("table-1, 1 cell, time: outside: +48.15 % off, 3 % is allowed"),
            "{out}"
        );
    }
}
