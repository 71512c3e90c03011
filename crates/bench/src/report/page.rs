//! The results as one self-contained page: plots, tables, how to read them, and where
//! they were measured. No script, nothing loaded from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write;

use barewire_report::markup::escape;
use barewire_report::number::{bytes, prefixed, time};
use barewire_report::svg::{Plot, Series};

use crate::programs::report::Report as Programs;
use crate::report::Report;
use crate::report::summary::{row_class, write_summary};
use crate::report::table::{cells, columns, sections};
use crate::results::Row;
use crate::results::half_peak::HalfPeak;

const STYLE: &str = include_str!("page.css");

const EXPLANATION: &str = "\
<p><b>The limit.</b> The least time, or the highest rate, that this machine can do, as far as \
this run has seen: the best of all that was measured for the same question in the same band. As a \
rule that is a program on the bare machine, with loads and stores of the same bytes and no \
protocol, no credits, no checks: for round trips a cache line to and fro, a message copied into \
shared memory and out again, or a ring of fixed slots; for bytes one way the best of several rings, \
whatever the size of a message; for transactions such a ring each way; for wake-ups the kernel's \
own eventfd or futex. A ratio is the figure divided by the limit: for times 1.5 means half as long \
again (smaller is better), for rates 0.5 means half of it (larger is better).</p>\
<p><b>Bands.</b> On shared virtual machines the two processors move between physical cores, \
and how far apart they happen to be decides more than anything else. Before and after each \
sample, one cache line goes to and fro between the two processes for a few milliseconds. \
Where these two probes disagree the sample is dropped, and so is one during which other \
programs ran on the processors of two spinning ends; the others are kept apart by band: \
A below 135&nbsp;ns, B below 270, C below 600, D above. A figure is compared only with the \
limit measured in its own band; compare two figures only if their bands are the same.</p>\
<p><b>Figures.</b> The median is that of the samples; min and max are the smallest and largest \
sample. For times, p99 and p99.9 are over all single round trips; for rates they are what 99&nbsp;% \
and 99.9&nbsp;% of the milliseconds reached. Processor use is given for client and server.</p>\
<p><b>Rivals.</b> Rows of ucx and libfabric come from those projects' own programs, which \
report no tail. A put of UCX is finished when its last byte is seen: nothing is copied out.</p>";

/// The whole page; what unmodified programs did comes first, if that is known.
pub fn page(report: &Report, programs: Option<&Programs>) -> String {
    let environment = &report.environment;
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let _ = write!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>barewire bench, {}</title><style>{STYLE}</style></head><body>",
        escape(&environment.date)
    );
    let _ = write!(
        out,
        "<h1>barewire bench</h1><p class=\"soft\">{}, {} processors, {}; {}; barewire {}</p>",
        escape(&environment.processor),
        environment.cores,
        escape(&environment.kernel),
        escape(&environment.date),
        escape(&environment.barewire_version)
    );
    if environment.build == "debug" {
        out.push_str("<p class=\"warn\">A debug build: these figures mean little.</p>");
    }
    if let Some(programs) = programs {
        programs.section(&mut out);
        out.push_str("<h2>The network itself</h2>");
    }
    write_summary(&mut out, &report.results);
    plots(&mut out, &report.results);
    half_peaks(&mut out, &report.half_peaks);
    out.push_str("<h2>How to read this</h2>");
    out.push_str(EXPLANATION);
    out.push_str("<h2>All figures</h2>");
    for (title, rows) in sections(&report.results) {
        table(&mut out, &title, &rows);
    }
    about(&mut out, report);
    out.push_str("</body></html>\n");
    out
}

fn class_of_line(who: &str) -> &'static str {
    match who {
        "limit" => "limit",
        "barewire message" => "c0",
        "tcp" => "c1",
        "unix" => "c2",
        "pipe" => "c3",
        "barewire batch" | "barewire event-queue" => "c4",
        "barewire stream" | "barewire tripwire" => "c5",
        "barewire stream-8k" => "c6",
        "ucx tag-lat" => "c8",
        _ if who.starts_with("ucx") => "c9",
        _ => "c7",
    }
}

/// The lines of a plot: the best limit at each x, then each transport and variant.
fn lines<'a>(
    rows: impl Iterator<Item = &'a Row>,
    x: impl Fn(&Row) -> f64,
    y: impl Fn(&Row) -> f64,
) -> (Vec<Series>, String) {
    let mut limit: BTreeMap<u64, f64> = BTreeMap::new();
    let mut others: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut bands: Vec<String> = Vec::new();
    for row in rows {
        let point = (x(row), y(row));
        if !bands.contains(&row.band) {
            bands.push(row.band.clone());
        }
        if row.transport == "limit" {
            let best = limit.entry(point.0 as u64).or_insert(point.1);
            *best = if row.is_rate() {
                best.max(point.1)
            } else {
                best.min(point.1)
            };
            continue;
        }
        match others.iter_mut().find(|(who, _)| *who == row.who()) {
            Some((_, points)) => points.push(point),
            None => others.push((row.who(), vec![point])),
        }
    }
    let mut series = vec![(
        "limit".to_owned(),
        limit.into_iter().map(|(x, y)| (x as f64, y)).collect(),
    )];
    series.extend(others);
    let series = series
        .into_iter()
        .filter(|(_, points): &(String, Vec<_>)| !points.is_empty())
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series {
                class: class_of_line(&name).to_owned(),
                name,
                points,
            }
        })
        .collect();
    bands.sort();
    let note = match bands.as_slice() {
        [one] => format!("All points were measured in band {one}."),
        several => format!(
            "Points of several bands ({}): compare with care, or by the ratios in the tables.",
            several.join(", ")
        ),
    };
    (series, note)
}

fn size_text(value: f64) -> String {
    bytes(value as u64)
}

fn count_text(value: f64) -> String {
    prefixed(value).replace(".00", "").replace(".0", "")
}

fn rate_text(value: f64) -> String {
    format!("{}B/s", spaced(value))
}

fn per_second_text(value: f64) -> String {
    format!("{}/s", spaced(value).trim_end())
}

fn spaced(value: f64) -> String {
    let text = count_text(value);
    if text.contains(' ') { text } else { text + " " }
}

fn time_text(value: f64) -> String {
    time(value).replace(".00 ", " ").replace(".0 ", " ")
}

/// What a plot shows of which rows.
struct Panel {
    title: &'static str,
    test: &'static str,
    waiting: &'static str,
    x: (&'static str, fn(&Row) -> f64),
    y: (&'static str, fn(&Row) -> f64),
    y_text: fn(f64) -> String,
}

const BY_SIZE: (&str, fn(&Row) -> f64) = ("bytes in a message", |row| row.size_bytes as f64);
const BY_CONNECTIONS: (&str, fn(&Row) -> f64) = ("connections", |row| row.connections as f64);
const TIMES: (&str, fn(&Row) -> f64) = ("time there and back", |row| row.median);
const RATES: (&str, fn(&Row) -> f64) = ("transactions per second", |row| row.median);

const PANELS: [Panel; 6] = [
    Panel {
        title: "Round trip, both ends polling",
        test: "rtt",
        waiting: "polling",
        x: BY_SIZE,
        y: TIMES,
        y_text: time_text,
    },
    Panel {
        title: "Round trip, both ends sleeping",
        test: "rtt",
        waiting: "blocking",
        x: BY_SIZE,
        y: TIMES,
        y_text: time_text,
    },
    Panel {
        title: "One way: bytes",
        test: "stream",
        waiting: "polling",
        x: BY_SIZE,
        y: ("bytes per second", |row| row.median),
        y_text: rate_text,
    },
    Panel {
        title: "One way: messages",
        test: "stream",
        waiting: "polling",
        x: BY_SIZE,
        y: ("messages per second", |row| {
            row.messages_per_second.unwrap_or(0.0)
        }),
        y_text: per_second_text,
    },
    Panel {
        title: "Transactions with one server",
        test: "transactions",
        waiting: "polling",
        x: BY_CONNECTIONS,
        y: RATES,
        y_text: per_second_text,
    },
    Panel {
        title: "Transactions with one server, both ends sleeping",
        test: "transactions",
        waiting: "blocking",
        x: BY_CONNECTIONS,
        y: RATES,
        y_text: per_second_text,
    },
];

impl Panel {
    /// The plot, and what there is to say of its bands.
    fn plot(&self, rows: &[Row]) -> (Plot, String) {
        let is_shown = |row: &&Row| row.test == self.test && row.waiting == self.waiting;
        let (series, note) = lines(rows.iter().filter(is_shown), self.x.1, self.y.1);
        let is_by_size = self.x.0 == BY_SIZE.0;
        let plot = Plot {
            title: self.title.to_owned(),
            x_label: self.x.0.to_owned(),
            y_label: self.y.0.to_owned(),
            x_text: if is_by_size { size_text } else { count_text },
            y_text: self.y_text,
            x_binary: is_by_size,
            series,
        };
        (plot, note)
    }
}

fn plots(out: &mut String, rows: &[Row]) {
    let mut any = false;
    for (plot, note) in PANELS.iter().map(|panel| panel.plot(rows)) {
        let Some(svg) = plot.svg() else { continue };
        if !any {
            out.push_str("<h2>Plots</h2><div class=\"plots\">");
            any = true;
        }
        let _ = write!(
            out,
            "<figure><figcaption>{}</figcaption>{svg}{}<p class=\"soft small\">{}</p></figure>",
            escape(&plot.title),
            plot.legend(),
            escape(&note)
        );
    }
    if any {
        out.push_str("</div>");
    }
}

fn table(out: &mut String, title: &str, rows: &[&Row]) {
    let rate = rows.first().is_some_and(|row| row.is_rate());
    let _ = write!(
        out,
        "<h3>{}</h3><div class=\"wide\"><table><tr>",
        escape(title)
    );
    for column in columns(rate) {
        let _ = write!(out, "<th>{column}</th>");
    }
    out.push_str("</tr>");
    let mut last = String::new();
    for row in rows {
        let cells = cells(row);
        let first = if cells[0] == last { "" } else { "first " };
        let _ = write!(out, "<tr class=\"{first}{}\">", row_class(&row.transport));
        for (index, cell) in cells.iter().enumerate() {
            let cell = if index == 0 && first.is_empty() {
                ""
            } else {
                cell
            };
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
        last.clone_from(&cells[0]);
    }
    out.push_str("</table></div>");
}

/// From which size on each way reaches half of its best rate.
fn half_peaks(out: &mut String, half_peaks: &[HalfPeak]) {
    if half_peaks.is_empty() {
        return;
    }
    out.push_str(
        "<h3>Half of the best rate</h3><p class=\"soft small\">The message size from which on \
         each transport streams at half of its own best rate or more: the smaller, the less a \
         message costs beside its bytes.</p><div class=\"wide\"><table class=\"narrow\">\
         <tr><th>transport</th><th>from</th><th>best rate</th><th>band</th></tr>",
    );
    for half in half_peaks {
        let _ = write!(
            out,
            "<tr class=\"first {}\"><td>{}</td><td>{}</td><td>{}B/s</td><td>{}</td></tr>",
            row_class(&half.transport),
            escape(&half.who()),
            escape(&half.size()),
            prefixed(half.peak),
            half.band
        );
    }
    out.push_str("</table></div>");
}

fn about(out: &mut String, report: &Report) {
    let environment = &report.environment;
    out.push_str("<h2>Environment</h2><dl>");
    let machine = if environment.virtual_machine {
        "virtual"
    } else {
        "physical (as far as it says)"
    };
    let samples = format!(
        "{} kept, {} dropped because the machine changed under them or ran other programs",
        environment.samples_kept, environment.samples_dropped
    );
    let built = format!("{}, {} build", environment.rust_version, environment.build);
    let took = format!("{:.0} s", environment.seconds);
    let cores = environment.cores.to_string();
    let rivals = match environment.rivals.is_empty() {
        true => "not measured".to_owned(),
        false => environment.rivals.join(", "),
    };
    for (name, value) in [
        ("processor", environment.processor.as_str()),
        ("processors in use", &cores),
        ("machine", machine),
        ("kernel", &environment.kernel),
        ("placement", &environment.placement),
        ("barewire", &environment.barewire_version),
        ("compiler", &built),
        ("rivals", &rivals),
        ("date", &environment.date),
        ("took", &took),
        ("samples", &samples),
        ("command", &environment.command),
    ] {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    out.push_str("</dl>");
    if !report.behind.is_empty() {
        out.push_str("<h3>Behind</h3><ul>");
        for behind in &report.behind {
            let _ = write!(out, "<li>{}</li>", escape(&behind.in_words()));
        }
        out.push_str("</ul>");
    }
    if !environment.not_measured.is_empty() {
        out.push_str("<h3>Not measured</h3><ul>");
        for what in &environment.not_measured {
            let _ = write!(out, "<li>{}</li>", escape(what));
        }
        out.push_str("</ul>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use barewire_report::markup::check_well_formed;

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let text = page(&report(), None);
        check_well_formed(&text, &["meta", "br"]);
        for outside in [
            "http://", "https://", "src=", "href=", "url(", "<script", "@import",
        ] {
            assert!(!text.contains(outside), "{outside} in the page");
        }
        assert!(text.contains("a &lt;b&gt; &amp; c"));
        assert!(text.contains("prefers-color-scheme: dark"));
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let mut report = report();
        report.results.clear();
        let text = page(&report, None);
        check_well_formed(&text, &["meta", "br"]);
        assert!(!text.contains("<h2>Plots"));
    }

    #[test]
    fn unmodified_programs_come_first() {
        let programs = crate::programs::report::tests::report();
        let text = page(&report(), Some(&programs));
        check_well_formed(&text, &["meta", "br"]);
        let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}"));
        assert!(place("64 B &lt;polling&gt;") < place("<h2>Summary"));
        assert!(place("<b>Failed</b>: iperf3") < place("<h2>The network itself"));
        assert_eq!(text.matches("<style>").count(), 1);
    }

    #[test]
    fn the_limit_is_one_line_with_the_best_of_each_size() {
        let report = report();
        let rows = report.results.iter().filter(|row| row.test == "stream");
        let (series, note) = lines(rows, |row| row.size_bytes as f64, |row| row.median);
        assert_eq!(series[0].name, "limit");
        assert_eq!(series[0].class, "limit");
        assert_eq!(series.len(), 2);
        assert!(note.contains("band A"));
    }
}
