//! A result as one self-contained page, or its plots as files of their own. No script,
//! nothing loaded from elsewhere.

use std::fmt::Write;

use crate::chart::{OVERHANG, charts};
use crate::plot::{WIDTH, escape};
use crate::result_table::ResultTable;
use crate::results::Results;
use crate::results::file_stem;

const PAGE_STYLE: &str = include_str!("page.css");
const CHART_STYLE: &str = include_str!("chart.css");

/// Tables with a heading, of what no plan gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// What they are about.
    pub heading: String,
    /// What has to be said about them, in paragraphs.
    pub notes: Vec<String>,
    /// The tables.
    pub tables: Vec<ResultTable>,
}

impl Page {
    /// One page: the notes, plots and tables.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = begun(&self.heading);
        for note in &self.notes {
            let _ = write!(out, "<p>{}</p>", escape(note));
        }
        for table in &self.tables {
            section(&mut out, table);
        }
        out + "</body></html>\n"
    }

    /// All plots in one drawing, one below the other; `None` if there is nothing to draw.
    #[must_use]
    pub fn to_svg(&self) -> Option<String> {
        let all = self.tables.iter().flat_map(charts);
        let (mut inside, mut height) = (String::new(), 0.0);
        for chart in all {
            let svg = chart.svg();
            let place = format!(
                "<svg x=\"0\" y=\"{height:.0}\" height=\"{:.0}\" ",
                chart.height()
            );
            inside += &svg.replacen("<svg ", &place, 1);
            height += chart.height();
        }
        let open = format!(
            "<svg viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            WIDTH + OVERHANG,
            escape(&self.heading)
        );
        (height > 0.0).then(|| on_its_own(&format!("{open}{inside}</svg>")))
    }
}

fn begun(heading: &str) -> String {
    let heading = escape(heading);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{heading}</title><style>{PAGE_STYLE}{CHART_STYLE}</style></head><body>\
         <h1>{heading}</h1>"
    )
}

impl Results {
    /// One page: plots and tables, what was changed, the whole plan.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = begun(self.heading());
        let _ = write!(out, "<p class=\"soft\">{}</p>", escape(&self.question));
        if self.replications > 1 {
            let _ = write!(
                out,
                "<p class=\"soft\">Means of {} replications. The bars, and what follows ±, are \
                 half of the 95&nbsp;% confidence interval to each side.</p>",
                self.replications
            );
        }
        if let Some(over) = &self.over {
            let _ = write!(
                out,
                "<p class=\"soft\">Swept: {}</p>",
                escape(&over.to_string())
            );
        }
        self.changes(&mut out);
        for table in &self.tables {
            section(&mut out, table);
        }
        self.origin_of(&mut out);
        out.push_str("</body></html>\n");
        out
    }

    /// Each plot as an SVG file, with a name for it.
    #[must_use]
    pub fn to_svgs(&self) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = Vec::new();
        for table in &self.tables {
            for chart in charts(table) {
                let (of, title) = (file_stem(&table.name), file_stem(&chart.title));
                let stem = format!("plot-{of}-{title}");
                let is_free = |name: &String| files.iter().all(|(known, _)| known != name);
                let name = |number: usize| match number {
                    1 => format!("{stem}.svg"),
                    number => format!("{stem}-{number}.svg"),
                };
                let name = (1..).map(name).find(is_free).unwrap_or_default();
                files.push((name, on_its_own(&chart.svg())));
            }
        }
        files
    }

    fn changes(&self, out: &mut String) {
        if self.changes.is_empty() {
            return;
        }
        out.push_str("<div class=\"warn\">Changed, against the defaults:<ul class=\"changes\">");
        for change in &self.changes {
            let _ = write!(out, "<li>{}</li>", escape(&change.to_string()));
        }
        out.push_str("</ul></div>");
    }

    fn origin_of(&self, out: &mut String) {
        out.push_str("<h2>Made with</h2><dl>");
        let mut entries = vec![
            ("plan", self.plan.clone()),
            ("system", self.system.clone()),
            ("experiment", self.experiment.clone()),
            ("seed", self.seed.to_string()),
            ("replications", self.replications.to_string()),
            ("trace", self.trace_hash.clone()),
        ];
        let about = self.about.iter();
        entries.extend(about.map(|(name, value)| (name.as_str(), value.clone())));
        for (name, value) in entries {
            let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
        }
        let _ = write!(
            out,
            "</dl><details><summary>The whole plan: saved in a file, <code>barewire lab run</code> \
             of it gives the same</summary><pre>{}</pre></details>",
            escape(&self.resolved_plan)
        );
    }
}

fn section(out: &mut String, table: &ResultTable) {
    let _ = write!(out, "<h2>{}</h2>", escape(&table.name));
    let charts = charts(table);
    if !charts.is_empty() {
        out.push_str("<div class=\"plots charts\">");
        for chart in &charts {
            let _ = write!(
                out,
                "<figure><figcaption>{}</figcaption>{}</figure>",
                escape(&chart.title),
                chart.svg()
            );
        }
        out.push_str("</div>");
    }
    out.push_str("<div class=\"wide\"><table class=\"narrow\"><tr>");
    let class_of = |column: usize| match table.is_of_names(column) {
        true => "",
        false => " class=\"number\"",
    };
    for (at, column) in table.columns.iter().enumerate() {
        let _ = write!(
            out,
            "<th{}>{}</th>",
            class_of(at),
            escape(&column.heading())
        );
    }
    out.push_str("</tr>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, entry) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class_of(at), escape(&entry.shown()));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}

/// A plot with its style in itself.
fn on_its_own(svg: &str) -> String {
    let style = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui, sans-serif\" \
         width=\"1040\" style=\"background: var(--paper)\"><style>{}{CHART_STYLE}</style>",
        rules_for_plots()
    );
    // The plot's own element goes inside of ours, which has the style.
    let open = svg.find("<svg ").map_or(0, |at| at + "<svg ".len());
    let attributes_end = svg[open..].find('>').map_or(open, |at| open + at);
    let attributes = &svg[open..attributes_end];
    let head = style.replacen("<svg ", &format!("<svg {attributes} "), 1);
    format!("{head}{}\n", &svg[attributes_end + 1..])
}

/// The colours of the page, and its rules for what is inside a plot.
fn rules_for_plots() -> String {
    let of_plots = ["svg text", ".grid", ".axis"];
    let mut rules = PAGE_STYLE
        .split_once("* {")
        .map_or(String::new(), |(colours, _)| colours.to_owned());
    for line in PAGE_STYLE.lines() {
        if of_plots.iter().any(|rule| line.starts_with(rule)) {
            rules += line;
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::runs::{Watch, run};
    use crate::sample;
    use barewire_report::markup::check_well_formed;

    fn results() -> Results {
        let plans = [sample::plan(&[
            "replications=3",
            "title=a <b> & c",
            "block.setup=90 us",
        ])];
        let found = run(&plans, 0, &Watch::new(&plans)).unwrap();
        let about = BTreeMap::from([("barewire".to_owned(), "0.0.0".to_owned())]);
        Results::of_plan(&plans[0], &found[0], about)
    }

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let text = results().to_html();
        check_well_formed(&text, &["meta"]);
        for outside in [
            "http://", "https://", "src=", "href=", "url(", "<script", "@import",
        ] {
            assert!(!text.contains(outside), "{outside} in the page");
        }
        for part in [
            "<h1>a &lt;b&gt; &amp; c</h1>",
            "<figure><figcaption>wait, mean, wait, greatest</figcaption><svg",
            "<li>parameters.block.setup = &quot;90 us&quot; (was &quot;100 us&quot;)</li>",
            "Means of 3 replications",
            "<dt>trace</dt><dd>",
            "<dt>barewire</dt><dd>0.0.0</dd>",
            "replications = 3",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        assert_eq!(text, results().to_html());
    }

    #[test]
    fn a_page_of_any_tables_has_their_plots_and_so_has_a_drawing() {
        let page = Page {
            heading: "a <b>".to_owned(),
            notes: vec!["c & d".to_owned()],
            tables: [results().tables, results().tables].concat(),
        };
        let text = page.to_html();
        check_well_formed(&text, &["meta"]);
        assert!(text.contains("<h1>a &lt;b&gt;</h1><p>c &amp; d</p>"));
        assert_eq!(text.matches("<figure>").count(), 2);
        let drawing = page.to_svg().expect("two plots");
        check_well_formed(&drawing, &[]);
        assert_eq!(drawing.matches("<svg ").count(), 3);
        assert!(drawing.contains("<svg x=\"0\" y=\"0\""));
        let none = Page {
            tables: Vec::new(),
            ..page
        };
        assert_eq!(none.to_svg(), None);
    }

    #[test]
    fn each_plot_is_a_file_that_stands_on_its_own() {
        let files = results().to_svgs();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["plot-wait-against-size-wait-mean-wait-greatest.svg"]
        );
        for (_, text) in &files {
            check_well_formed(text, &[]);
            assert!(text.starts_with("<svg viewBox=\"0 0 530 "), "{text}");
            assert!(text.contains("xmlns=\"http://www.w3.org/2000/svg\""));
            for rule in ["--c0:", "--paper:", "svg text {", ".grid {", ".line {"] {
                assert!(text.contains(rule), "{rule} is missing");
            }
        }
    }
}
