//! The results as a table on the terminal, as JSON, and as a page.

use std::fmt::Write;
use std::path::Path;

use barewire_report::markup::escape;
use barewire_report::number::{prefixed, ratio, time};
use serde::{Deserialize, Serialize};

use super::figure::{Figure, Side, Target, Unit};
use crate::environment::Environment;
use crate::error::{Error, Result, What};
use crate::measure::stats::{median, spread};

/// Everything that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where and with what.
    pub environment: Environment,
    /// The library that was preloaded.
    pub library: String,
    /// The machine's load average at the begin and at the end.
    pub load_average: (f64, f64),
    /// Rounds of each figure.
    pub rounds: u32,
    /// Programs that kept processors busy on purpose.
    #[serde(default)]
    pub busy_programs: u32,
    /// What came out.
    pub figures: Vec<Figure>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
    /// What went wrong: a fault.
    pub failed: Vec<String>,
}

const STYLE: &str = include_str!("../report/page.css");

const TITLE: &str = "Unmodified programs, without barewire and with it";

const READING: &str = "\
Median of the rounds. Each round takes a sample without the library and one with it, one after
the other; gain: the median of what the rounds say, and the range. cpu: processors that both
programs used together, without and with it.";

impl Report {
    /// As JSON.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| Error::Transport(format!("writing JSON: {error}")))
    }

    /// What [`Report::to_json`] wrote into a file.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Report> {
        let text = std::fs::read(path).what(&format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| {
            let path = path.display();
            Error::Usage(format!(
                "{path} does not hold what `bench programs --json` writes: {error}"
            ))
        })
    }

    /// Processors that other programs used: the median of all samples.
    fn others(&self) -> f64 {
        let all: Vec<f64> = self
            .figures
            .iter()
            .flat_map(|it| it.others.iter().copied())
            .collect();
        median(&all).unwrap_or(0.0)
    }

    fn load(&self) -> String {
        let (before, after) = self.load_average;
        let busy = match self.busy_programs {
            0 => String::new(),
            count => format!("{count} busy programs ran beside on purpose; "),
        };
        format!(
            "{busy}{} of {} processors used by other programs meanwhile; load average {before:.2} before, \
             {after:.2} after",
            ratio(self.others()),
            self.environment.cores
        )
    }

    /// For the terminal; with the project's own targets, if they are asked for.
    pub fn table(&self, targets: bool) -> String {
        let mut out = String::new();
        let widths = Widths::of(&self.figures, targets);
        let _ = writeln!(out, "{}", widths.line(&HEADINGS.map(str::to_owned)));
        for figure in &self.figures {
            let _ = writeln!(out, "{}", widths.line(&cells(figure)));
            for remark in remarks(figure) {
                let _ = writeln!(out, "    {remark}");
            }
        }
        let _ = writeln!(out, "\n{READING}\n{}.", self.load());
        for (what, list) in [("Not measured", &self.skipped), ("FAILED", &self.failed)] {
            for line in list {
                let _ = writeln!(out, "{what}: {line}");
            }
        }
        out
    }

    /// As a page that loads nothing; `targets` as in [`Report::table`].
    pub fn page(&self, targets: bool) -> String {
        let environment = &self.environment;
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>barewire bench programs, {date}</title><style>{STYLE}</style></head><body>\
             <h1>{TITLE}</h1>\
             <p class=\"soft\">{processor}, {cores} processors, {kernel}; {date}; barewire {version}</p>",
            date = escape(&environment.date),
            processor = escape(&environment.processor),
            cores = environment.cores,
            kernel = escape(&environment.kernel),
            version = escape(&environment.barewire_version),
        );
        self.body(&mut out, targets);
        out.push_str("</body></html>\n");
        out
    }

    /// As a part of another page, without targets.
    pub fn section(&self, out: &mut String) {
        let _ = write!(out, "<h2>{TITLE}</h2>");
        self.body(out, false);
    }

    fn body(&self, out: &mut String, targets: bool) {
        let columns = columns(targets);
        let _ = write!(
            out,
            "<p>{}</p><p>{}.</p><div class=\"wide\"><table><thead><tr>",
            escape(READING),
            escape(&self.load())
        );
        for heading in &HEADINGS[..columns] {
            let _ = write!(out, "<th>{heading}</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for figure in &self.figures {
            let [name, rest @ ..] = cells(figure);
            let _ = write!(out, "<tr><th>{}", escape(&name));
            for remark in remarks(figure) {
                let _ = write!(out, "<div class=\"soft small\">{}</div>", escape(&remark));
            }
            out.push_str("</th>");
            for cell in &rest[..columns - 1] {
                let _ = write!(out, "<td>{}</td>", escape(cell));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        for (what, list) in [("Not measured", &self.skipped), ("Failed", &self.failed)] {
            for line in list {
                let _ = write!(out, "<p><b>{what}</b>: {}</p>", escape(line));
            }
        }
    }
}

const HEADINGS: [&str; 7] = [
    "figure", "without", "with", "gain", "(range)", "cpu", "target",
];

/// How many of the columns are shown: the last one holds the targets.
fn columns(targets: bool) -> usize {
    HEADINGS.len() - usize::from(!targets)
}

/// A figure in a line, told as soon as it is there.
pub fn line(figure: &Figure) -> String {
    let [name, without, with, gain, ..] = cells(figure);
    let gain = if gain.is_empty() {
        gain
    } else {
        format!(", {gain}")
    };
    format!("figure: {name}: without barewire {without}, with it {with}{gain}")
}

fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => time(value),
        Unit::BytesPerSecond => format!("{}B/s", gap(&prefixed(value))),
        Unit::PerSecond => format!("{}/s", prefixed(value)),
        Unit::Bytes => format!("{:.1} KiB", value / 1024.0),
    }
}

fn gap(number: &str) -> String {
    match number.contains(' ') {
        true => number.to_owned(),
        false => format!("{number} "),
    }
}

fn of_side(unit: Unit, side: &Side) -> String {
    side.median()
        .map_or_else(|| "-".into(), |it| value(unit, it))
}

fn cells(figure: &Figure) -> [String; 7] {
    let (gain, range) = figure
        .gain()
        .map_or_else(Default::default, |(middle, low, high)| {
            (
                format!("{} x", ratio(middle)),
                format!("({}..{})", ratio(low), ratio(high)),
            )
        });
    let (gain, range) = match figure.target {
        // Neither is a matter of times.
        Some(Target::IdleProcessors(_)) => (String::new(), String::new()),
        None if figure.unit == Unit::Bytes => (String::new(), String::new()),
        _ => (gain, range),
    };
    let processors = |side: &Side| median(&side.processors).map(|it| format!("{it:.2}"));
    let cpu = match (processors(&figure.plain), processors(&figure.preloaded)) {
        (Some(plain), Some(with)) => format!("{plain} {with}"),
        _ => String::new(),
    };
    [
        figure.name.clone(),
        of_side(figure.unit, &figure.plain),
        of_side(figure.unit, &figure.preloaded),
        gain,
        range,
        cpu,
        verdict(figure),
    ]
}

fn verdict(figure: &Figure) -> String {
    let Some(target) = figure.target else {
        return String::new();
    };
    let wanted = match target {
        Target::Gain(least) => format!(">= {least} x"),
        Target::OfBare(most) => format!("<= {most} x bare"),
        Target::IdleProcessors(most) => format!("<= {most} cpu"),
    };
    match (figure.verdict(), target) {
        (None, _) => format!("{wanted}: ?"),
        (Some((_, true)), Target::Gain(_)) => format!("{wanted}: hit"),
        (Some((_, false)), Target::Gain(_)) => format!("{wanted}: MISS"),
        (Some((is, true)), _) => format!("{wanted}: {}, hit", ratio(is)),
        (Some((is, false)), _) => format!("{wanted}: {}, MISS", ratio(is)),
    }
}

/// What a line of a table has no room for.
fn remarks(figure: &Figure) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(bare) = figure.bare.median() {
        let mut text = format!("{}: {}", figure.bare_is, value(figure.unit, bare));
        if let Some((low, high)) = spread(&figure.bare.values) {
            let (low, high) = (value(figure.unit, low), value(figure.unit, high));
            let _ = write!(text, " ({low} to {high})");
        }
        if let Some(exchange) = figure.exchange.median() {
            let _ = write!(
                text,
                "; copied in and out: {}",
                value(figure.unit, exchange)
            );
        }
        if let Some(times) = figure.of_bare() {
            let _ = write!(text, "; with the library {} x the former", ratio(times));
        }
        all.push(text);
    }
    if figure.is_upgraded == Some(false) && figure.scenario != "alone" {
        all.push(
            "NOT ACCELERATED: the preloaded programs' connections went through the kernel".into(),
        );
    }
    all.extend(figure.notes.iter().cloned());
    all
}

/// Widths of the columns, and how many are shown.
struct Widths([usize; 7], usize);

impl Widths {
    fn of(figures: &[Figure], targets: bool) -> Widths {
        let mut widths = HEADINGS.map(|it| it.chars().count());
        for figure in figures {
            for (width, cell) in widths.iter_mut().zip(cells(figure)) {
                *width = (*width).max(cell.chars().count());
            }
        }
        Widths(widths, columns(targets))
    }

    fn line(&self, cells: &[String; 7]) -> String {
        let mut out = String::new();
        for (at, (cell, &width)) in cells.iter().zip(&self.0).take(self.1).enumerate() {
            // Names and verdicts begin, numbers end, where their columns do.
            let _ = match at {
                0 | 4 | 6 => write!(out, "{cell:<width$}  "),
                _ => write!(out, "{cell:>width$}  "),
            };
        }
        out.trim_end().to_owned()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::placement::Placement;
    use crate::programs::figure::{Mode, tests::sample};
    use barewire_report::markup::check_well_formed;

    /// A small report for tests.
    pub fn report() -> Report {
        let mut fast = Figure::new("ping-pong", "64 B <polling>", Unit::Nanoseconds);
        fast.target = Some(Target::OfBare(3.0));
        fast.bare_is = "one line".into();
        fast.bare.values.push(100.0);
        fast.exchange.values.push(120.0);
        let mut slow =
            Figure::new("redis", "redis", Unit::PerSecond).with_target(Target::Gain(4.0));
        slow.is_upgraded = Some(false);
        for figure in [&mut fast, &mut slow] {
            figure.enter(Mode::Plain, &sample(10_000.0));
            figure.enter(Mode::Preloaded, &sample(290.0));
        }
        Report {
            environment: Environment::look(Placement::Free),
            library: "/lib.so".into(),
            load_average: (0.5, 1.0),
            rounds: 1,
            busy_programs: 2,
            figures: vec![fast, slow],
            skipped: vec!["nginx: not installed".into()],
            failed: vec!["iperf3: it <died>".into()],
        }
    }

    #[test]
    fn targets_are_shown_on_request() {
        let report = report();
        for shown in [report.table(false), report.page(false)] {
            for words in ["target", "MISS", ", hit", "&lt;= 3 x", "<= 3 x"] {
                assert!(!shown.contains(words), "{words:?} in\n{shown}");
            }
            assert!(shown.contains("34.5 x"), "{shown}");
        }
        assert!(report.page(true).contains("&gt;= 4 x: MISS"));
        let line = line(&report.figures[0]);
        let expected = "figure: 64 B <polling>: without barewire 10.0 us, with it 290 ns, 34.5 x";
        assert_eq!(line, expected);
    }

    #[test]
    fn the_table_says_hit_and_miss() {
        let table = report().table(true);
        for words in [
            "<= 3 x bare: 2.90, hit",
            ">= 4 x: MISS",
            "NOT ACCELERATED",
            "10.0 us",
            "290 ns",
            "34.5 x",
            "copied in and out: 120 ns",
            "Not measured: nginx",
            "FAILED: iperf3",
            "load average 0.50 before",
            "2 busy programs ran beside",
        ] {
            assert!(table.contains(words), "{words:?} is missing:\n{table}");
        }
    }

    #[test]
    fn json_comes_back_and_the_page_is_well_formed() {
        let report = report();
        let back: Report = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(back, report);
        let page = report.page(true);
        check_well_formed(&page, &["meta"]);
        assert!(page.contains("64 B &lt;polling&gt;"));
    }
}
