//! The results as tables on the terminal.

use std::fmt::Write;

use barewire_report::number::{bytes, prefixed, ratio, time};

use crate::report::Report;
use crate::results::Row;

/// A figure of a row.
pub fn figure(row: &Row, value: f64) -> String {
    match row.unit.as_str() {
        "ns" => time(value),
        "bytes/s" => format!("{}B/s", padded(&prefixed(value))),
        _ => format!("{}/s", prefixed(value)),
    }
}

fn padded(number: &str) -> String {
    if number.contains(' ') {
        number.to_owned()
    } else {
        format!("{number} ")
    }
}

/// What a test is called in headings.
pub fn title(test: &str, waiting: &str) -> String {
    match (test, waiting) {
        ("rtt", "blocking") => "Round trip, both ends sleeping".into(),
        ("rtt", _) => "Round trip, both ends polling".into(),
        ("stream", "blocking") => "One way, both ends sleeping".into(),
        ("stream", _) => "One way".into(),
        ("transactions", "blocking") => {
            "Transactions of 64 B with one server, both ends sleeping".into()
        }
        ("transactions", _) => "Transactions of 64 B with one server, both ends polling".into(),
        ("wake", _) => "Wake-up: round trip of 8 B, both ends sleeping".into(),
        (other, _) => other.into(),
    }
}

/// The rows of each test and way of waiting together, in their order.
pub fn sections(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    let mut sections: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let title = title(&row.test, &row.waiting);
        match sections.iter_mut().find(|(known, _)| *known == title) {
            Some((_, rows)) => rows.push(row),
            None => sections.push((title, vec![row])),
        }
    }
    sections
}

/// The columns of a test's table.
pub fn columns(rate: bool) -> [&'static str; 12] {
    [
        "",
        "transport",
        "median",
        "p99",
        "p99.9",
        "min",
        "max",
        "limit",
        if rate { "of limit" } else { "x limit" },
        "band",
        "cpu c/s %",
        "samples",
    ]
}

/// The cells of a row, as in [`columns`].
pub fn cells(row: &Row) -> [String; 12] {
    let optional = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| figure(row, v));
    let percent = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.0}"));
    let what = if row.test == "transactions" {
        format!("{} x {}", row.connections, row.outstanding)
    } else {
        bytes(row.size_bytes)
    };
    let dropped = match row.samples_dropped {
        0 => String::new(),
        n => format!(" (-{n})"),
    };
    [
        what,
        row.who(),
        figure(row, row.median),
        optional(row.p99),
        optional(row.p999),
        figure(row, row.min),
        figure(row, row.max),
        optional(row.limit),
        row.ratio_to_limit.map_or_else(|| "-".into(), ratio),
        match row.band_ns {
            0.0 => "-".to_owned(),
            ns => format!("{} {ns:.0} ns", row.band),
        },
        format!(
            "{}/{}",
            percent(row.cpu_client_percent),
            percent(row.cpu_server_percent)
        ),
        format!(
            "{}{dropped}{}",
            row.samples,
            if row.disturbed { " disturbed" } else { "" }
        ),
    ]
}

/// All tables, with what must be known to read them.
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    for (title, rows) in sections(&report.results) {
        let rate = rows.first().is_some_and(|row| row.is_rate());
        let _ = writeln!(text, "{title}");
        let mut lines = vec![columns(rate).map(str::to_owned)];
        lines.extend(rows.iter().map(|row| cells(row)));
        let mut last = String::new();
        let mut widths = [0; 12];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (index, line) in lines.iter().enumerate() {
            if index > 1 && line[0] != last {
                text.push('\n');
            }
            let shown = line[0] != last || index == 0;
            last.clone_from(&line[0]);
            let mut out = String::new();
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                let cell = if column == 0 && !shown { "" } else { cell };
                let _ = match column {
                    1 => write!(out, "  {cell:<width$}"),
                    _ => write!(out, "  {cell:>width$}"),
                };
            }
            let _ = writeln!(text, "{}", out.trim_end());
        }
        if title == self::title("stream", "") {
            half_peaks(&mut text, report);
        }
        text.push('\n');
    }
    beside_tcp(&mut text, report);
    conditions(&mut text, report);
    text
}

/// Where and how it was measured, and what was not.
fn conditions(text: &mut String, report: &Report) {
    let environment = &report.environment;
    let _ = writeln!(
        text,
        "{}, {} processors, {}; {}",
        environment.processor, environment.cores, environment.kernel, environment.placement
    );
    if !environment.path.is_empty() {
        let _ = writeln!(text, "Between client and server: {}", environment.path);
    }
    let _ = writeln!(
        text,
        "{} samples kept, {} dropped because the machine changed under them or ran \
         other programs; {:.0} s",
        environment.samples_kept, environment.samples_dropped, environment.seconds
    );
    let _ = writeln!(
        text,
        "Bands (one cache line there and back): A < 135 ns, B < 270, C < 600, D above. \
         Compare only within a band."
    );
    if report.results.iter().any(|row| row.disturbed) {
        let _ = writeln!(
            text,
            "Disturbed: other programs ran on these processors during all samples."
        );
    }
    if !environment.rivals.is_empty() {
        let _ = writeln!(text, "Rivals: {}", environment.rivals.join(", "));
    }
    for behind in &report.behind {
        let _ = writeln!(text, "Behind: {}", behind.in_words());
    }
    for what in &environment.not_measured {
        let _ = writeln!(text, "Not measured: {what}");
    }
}

/// Links between hosts beside kernel TCP over the same path.
fn beside_tcp(text: &mut String, report: &Report) {
    let compared = |row: &Row| row.ratio_to_tcp.is_some();
    if !report.results.iter().any(compared) {
        return;
    }
    let _ = writeln!(
        text,
        "Links between hosts beside kernel TCP over the same path:"
    );
    for row in report.results.iter().filter(|row| compared(row)) {
        let what = match row.test.as_str() {
            "transactions" => format!("{} x {}", row.connections, row.outstanding),
            _ => bytes(row.size_bytes),
        };
        let of = if row.is_rate() { "of" } else { "x" };
        let _ = writeln!(
            text,
            "  {:<12} {:<8} {what:>8}  {:<14} {:>10}  {:>5} {of} tcp",
            row.test,
            row.waiting,
            row.who(),
            figure(row, row.median),
            row.ratio_to_tcp.map_or_else(|| "-".into(), ratio),
        );
    }
    text.push('\n');
}

/// From which size on each way reaches half of its best rate.
fn half_peaks(text: &mut String, report: &Report) {
    if report.half_peaks.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n  Half of its best rate from this size on:");
    for half in &report.half_peaks {
        let peak = prefixed(half.peak);
        let _ = writeln!(
            text,
            "    {:<20} {:>9}  of {peak}B/s, band {}",
            half.who(),
            half.size(),
            half.band
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn the_table_names_every_transport_and_what_is_missing() {
        let text = table(&report());
        for word in ["tcp", "pipe", "unix", "eventfd", "x limit", "of limit"] {
            assert!(text.contains(word), "{word} is missing:\n{text}");
        }
        assert!(text.contains("Not measured: a <b> & c"));
    }
}
