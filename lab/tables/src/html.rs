//! The report as one self-contained page: for each system its tables with plots of paper
//! against model, its parameters with their sources, seed and versions. No script,
//! nothing loaded from elsewhere. It is a page of its own beside `page`: what it draws is a
//! published value beside the model's with what is allowed between them, not a curve.

use std::fmt::Write;

use crate::join::{Line, Verdict};
use crate::parameters;
use crate::plot::{errors, escape, legend, paper_against_model};
use crate::report::{Report, Run};
use crate::text::{COLUMNS, cells};

const STYLE: &str = include_str!("page.css");

const EXPLANATION: &str = "\
<p>Each value was measured in a simulation of the whole system, as its authors measured the \
real one. <b>Calibrated</b> values are those on which a parameter was fitted; they show that \
the fit was possible, and no more. Everything else is a <b>prediction</b> from the same \
parameters: no parameter was fitted on it, though the model was made by people who had read the \
table (docs/decisions/0004-reproduction.md says how blind each was). <b>Misprints</b> are published values that cannot be right; their error is shown \
and not judged. The error is model&nbsp;/&nbsp;paper&nbsp;&minus;&nbsp;1; the shaded band is \
what is allowed.</p>";

impl Report {
    /// One page with tables, plots and parameters, that loads nothing from elsewhere.
    #[must_use]
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The whole page.
fn page(report: &Report) -> String {
    let names: Vec<&str> = report.runs.iter().map(|run| run.system.as_str()).collect();
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let _ = write!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>barewire lab reproduce, {0}</title><style>{STYLE}</style></head><body>\
         <h1>barewire lab reproduce</h1>\
         <p class=\"soft\">Published tables beside what the models give: {0}</p>",
        escape(&names.join(", "))
    );
    out.push_str(EXPLANATION);
    summary(&mut out, report);
    for run in &report.runs {
        system(&mut out, run);
    }
    about(&mut out, report);
    out.push_str("</body></html>\n");
    out
}

/// How many values of each system came out how.
fn summary(out: &mut String, report: &Report) {
    out.push_str(
        "<div class=\"wide\"><table class=\"narrow\"><tr><th>system</th>\
         <th class=\"number\">values</th><th class=\"number\">within</th>\
         <th class=\"number\">outside</th><th class=\"number\">missing</th>\
         <th class=\"number\">misprints</th><th>the prediction off the most</th></tr>",
    );
    for run in &report.runs {
        let tally = run.tally();
        let failed = tally.outside + tally.missing > 0;
        let _ = write!(
            out,
            "<tr class=\"{}\"><td>{}</td>",
            if failed { "bad" } else { "" },
            escape(&run.title)
        );
        for count in [
            tally.values,
            tally.within,
            tally.outside,
            tally.missing,
            tally.misprints,
        ] {
            let _ = write!(out, "<td class=\"number\">{count}</td>");
        }
        let worst = tally.worst_in_words().unwrap_or_else(|| "-".to_owned());
        let _ = write!(out, "<td>{}</td></tr>", escape(&worst));
    }
    out.push_str("</table></div>");
}

fn system(out: &mut String, run: &Run) {
    let _ = write!(
        out,
        "<h2>{} <span class=\"soft\">{}</span></h2>",
        escape(&run.title),
        escape(&run.system)
    );
    changes(out, run);
    for (name, lines) in run.tables() {
        let _ = write!(out, "<h3>{}</h3>", escape(name));
        plots(out, name, &lines);
        table(out, &lines);
    }
    parameters_of(out, run);
}

fn changes(out: &mut String, run: &Run) {
    if run.changes.is_empty() {
        return;
    }
    let changes: Vec<String> = run.changes.iter().map(ToString::to_string).collect();
    let _ = write!(
        out,
        "<p class=\"warn\">Not the system's own parameters; changed: {}</p>",
        escape(&changes.join("; "))
    );
}

fn plots(out: &mut String, name: &str, lines: &[&Line]) {
    let plots = [
        ("Paper against model", paper_against_model(name, lines)),
        ("Error of each row", errors(name, lines)),
    ];
    if plots.iter().all(|(_, plot)| plot.is_none()) {
        return;
    }
    out.push_str("<div class=\"plots\">");
    for (caption, plot) in plots {
        let Some(svg) = plot else { continue };
        let _ = write!(
            out,
            "<figure><figcaption>{caption}</figcaption>{svg}</figure>"
        );
    }
    let _ = write!(out, "</div>{}", legend(lines));
}

fn table(out: &mut String, lines: &[&Line]) {
    let class_of = |number: bool| if number { " class=\"number\"" } else { "" };
    out.push_str("<div class=\"wide\"><table><tr>");
    for (column, number) in COLUMNS {
        let _ = write!(out, "<th{}>{column}</th>", class_of(number));
    }
    out.push_str("<th>source and remarks</th></tr>");
    for line in lines {
        let class = match line.verdict {
            Verdict::Within => line.kind.map_or("", crate::Kind::word),
            Verdict::Misprint => "misprint",
            Verdict::Outside | Verdict::Missing => "bad",
        };
        let _ = write!(out, "<tr class=\"{class}\">");
        for (cell, (_, number)) in cells(line).iter().zip(COLUMNS) {
            let _ = write!(out, "<td{}>{}</td>", class_of(number), escape(cell));
        }
        let problem = line.problem().unwrap_or_default();
        let remarks: Vec<&str> = [&line.source, &line.note, &problem]
            .into_iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        let _ = write!(
            out,
            "<td class=\"remark\">{}</td></tr>",
            escape(&remarks.join("; "))
        );
    }
    out.push_str("</table></div>");
}

fn parameters_of(out: &mut String, run: &Run) {
    out.push_str("<h3>Parameters</h3>");
    // The system has just read this text; were it no TOML, there would be no run.
    let listed = parameters::list(&run.parameters).unwrap_or_default();
    if !listed.is_empty() {
        out.push_str(
            "<div class=\"wide\"><table><tr><th>parameter</th><th>value</th>\
             <th>source</th></tr>",
        );
        for parameter in &listed {
            let changed = run.changes.iter().any(|change| change.key == parameter.key);
            let source = if changed {
                format!("changed for this run; was from: {}", parameter.source)
            } else {
                parameter.source.clone()
            };
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td class=\"remark\">{}</td></tr>",
                escape(&parameter.key),
                escape(parameter.value.trim_matches('"')),
                escape(&source)
            );
        }
        out.push_str("</table></div>");
    }
    let _ = write!(
        out,
        "<details><summary>The file that this run was made with</summary><pre>{}</pre></details>",
        escape(&run.parameters)
    );
}

fn about(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "<h2>Made with</h2><dl><dt>seed</dt><dd>{}</dd>",
        report.seed
    );
    for (name, value) in &report.about {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    out.push_str("</dl>");
}

#[cfg(test)]
mod tests {
    use barewire_report::markup::check_well_formed;

    use super::*;
    use crate::sample::{self, PARAMETERS};

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let text = sample::report().to_html();
        check_well_formed(&text, &["meta"]);
        for outside in [
            "http://", "https://", "src=", "href=", "url(", "<script", "@import",
        ] {
            assert!(!text.contains(outside), "{outside} in the page");
        }
        assert!(text.contains("prefers-color-scheme: dark"));
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn every_row_is_in_the_page_with_what_is_wrong() {
        let report = sample::report();
        let text = report.to_html();
        for run in &report.runs {
            for line in &run.lines {
                let cells = cells(line).map(|cell| escape(&cell));
                let row = format!(
                    "<td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td>\
                     <td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td>",
                    cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]
                );
                assert!(text.contains(&row), "{row} is missing");
                for remark in [line.problem().unwrap_or_default(), line.note.clone()] {
                    assert!(text.contains(&escape(&remark)), "{remark} is missing");
                }
            }
        }
        assert_eq!(
            text.matches("<tr class=\"bad\">").count(),
            1 + report.failures()
        );
        assert_eq!(text.matches("<tr class=\"calibrated\">").count(), 1);
        assert_eq!(text.matches("<tr class=\"misprint\">").count(), 2);
        assert_eq!(text.matches("<figcaption>Paper against model").count(), 4);
    }

    #[test]
    fn parameters_seed_and_versions_are_in_the_page() {
        let text = sample::report().to_html();
        assert!(text.contains("<dt>seed</dt><dd>7</dd><dt>barewire</dt><dd>0.0.0 &lt;test&gt;"));
        assert!(text.contains(&escape(PARAMETERS)));
        assert!(text.contains(
            "<td>block.cell</td><td>10 us</td><td class=\"remark\">fitted on table-1, 10 cells</td>"
        ));
        assert!(text.contains("was from: sample section 1"));
        assert!(text.contains("changed: block.setup=150 us"));
        assert_eq!(text.matches("class=\"warn\"").count(), 1);
    }

    #[test]
    fn a_report_without_runs_is_a_page_too() {
        let mut report = sample::report();
        report.runs.clear();
        check_well_formed(&report.to_html(), &["meta"]);
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        assert_eq!(sample::report().to_html(), sample::report().to_html());
    }
}
