//! The top of the page: a few questions, and each transport's answer as a bar.

use std::fmt::Write;

use barewire_report::markup::escape;
use barewire_report::number::{prefixed, ratio, time};

use crate::report::table::figure;
use crate::results::Row;

/// What is asked first, of each transport's best way.
struct Question {
    title: &'static str,
    test: &'static str,
    size_bytes: u64,
    connections: u64,
}

const fn ask(title: &'static str, test: &'static str, size: u64, connections: u64) -> Question {
    Question {
        title,
        test,
        size_bytes: size,
        connections,
    }
}

const QUESTIONS: [Question; 9] = [
    ask("Round trip of 8 bytes", "rtt", 8, 1),
    ask("Round trip of 4 KiB", "rtt", 4096, 1),
    ask("Round trip of 64 KiB", "rtt", 65_536, 1),
    ask("Messages of 64 bytes, one way", "stream", 64, 1),
    ask("Bytes, one way, 64 KiB at a time", "stream", 65_536, 1),
    ask("Transactions, 1 connection", "transactions", 64, 1),
    ask("Transactions, 100 connections", "transactions", 64, 100),
    ask(
        "Transactions, 10 000 connections",
        "transactions",
        64,
        10_000,
    ),
    ask("Both asleep: wake-up and back", "wake", 8, 1),
];

impl Question {
    /// The best row of a transport.
    fn best<'a>(&self, rows: &'a [Row], transport: &str) -> Option<&'a Row> {
        let fits = |row: &&Row| {
            row.transport == transport
                && (row.test == self.test && row.size_bytes == self.size_bytes)
                && row.connections == self.connections
                && (row.test == "wake" || row.waiting == "polling")
        };
        rows.iter().filter(fits).reduce(|a, b| {
            if (b.median < a.median) == a.is_rate() {
                a
            } else {
                b
            }
        })
    }

    fn value(&self, row: &Row) -> String {
        if self.test == "stream" && self.size_bytes < 4096 {
            return format!("{}/s", prefixed(row.messages_per_second.unwrap_or(0.0)));
        }
        figure(row, row.median)
    }
}

/// The transports that have rows, in the order of the rows.
fn transports(rows: &[Row]) -> Vec<&str> {
    let mut transports: Vec<&str> = Vec::new();
    for row in rows {
        if !transports.contains(&row.transport.as_str()) {
            transports.push(&row.transport);
        }
    }
    transports
}

/// How many times better the one is than the other.
fn advantage(own: &Row, other: &Row) -> f64 {
    if own.is_rate() {
        own.median / other.median
    } else {
        other.median / own.median
    }
}

/// A factor in words that need no table.
fn factor(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Writes the headline and a panel of bars for each question.
pub fn write_summary(out: &mut String, rows: &[Row]) {
    let transports = transports(rows);
    let asked: Vec<&Question> = QUESTIONS
        .iter()
        .filter(|question| transports.iter().any(|t| question.best(rows, t).is_some()))
        .collect();
    if asked.is_empty() {
        return;
    }
    headline(out, rows);
    out.push_str(
        "<h2>Summary</h2><p class=\"soft small\">Each transport's best way, median of all \
         samples, beside the <b>limit</b>: the best that two processes on this machine reached with \
         bare loads and stores and no protocol. Bars are to scale within a panel.</p>\
         <div class=\"panels\">",
    );
    for question in asked {
        panel(out, question, rows, &transports);
    }
    out.push_str("</div>");
}

fn headline(out: &mut String, rows: &[Row]) {
    let question = &QUESTIONS[0];
    let Some(own) = question.best(rows, "barewire") else {
        return;
    };
    let mut parts = Vec::new();
    for (transport, name) in [
        ("unix", "a Unix socket"),
        ("tcp", "TCP"),
        ("pipe", "a pipe"),
    ] {
        if let Some(other) = question.best(rows, transport) {
            let times = factor(advantage(own, other));
            parts.push(format!("<b>{times} times</b> as fast as {name}"));
        }
    }
    if let Some(ratio_to_limit) = own.ratio_to_limit {
        let ratio = ratio(ratio_to_limit);
        parts.push(format!("at <b>{ratio} times</b> the limit of this machine"));
    }
    let _ = write!(
        out,
        "<p class=\"headline\">8 bytes there and back between two processes over barewire: \
         <b>{}</b>{}{}.</p>",
        time(own.median),
        if parts.is_empty() { "" } else { ", " },
        parts.join(", ")
    );
    slower(out, rows);
}

/// Says where another transport is the faster one.
fn slower(out: &mut String, rows: &[Row]) {
    let mut cases = Vec::new();
    for question in &QUESTIONS {
        let Some(own) = question.best(rows, "barewire") else {
            continue;
        };
        for other in transports(rows) {
            let best = question.best(rows, other).filter(|_| other != "limit");
            let Some(best) = best.filter(|it| it.band == own.band && advantage(own, it) < 1.0)
            else {
                continue;
            };
            let (title, other) = (question.title, escape(other));
            let (own, best) = (question.value(own), question.value(best));
            cases.push(format!("{title}: {other} {best}, barewire {own}"));
        }
    }
    if !cases.is_empty() {
        let cases = cases.join("; ");
        let _ = write!(out, "<p>Where another transport was faster: {cases}.</p>");
    }
}

fn panel(out: &mut String, question: &Question, rows: &[Row], transports: &[&str]) {
    let answers: Vec<&Row> = transports
        .iter()
        .filter_map(|transport| question.best(rows, transport))
        .collect();
    let longest = answers.iter().map(|row| row.median).fold(0.0, f64::max);
    let own = question.best(rows, "barewire");
    let rate = answers.iter().any(|row| row.is_rate());
    let _ = write!(
        out,
        "<section><h3>{} <span class=\"soft\">{}</span></h3><table class=\"bars\">",
        question.title,
        if rate {
            "longer is better"
        } else {
            "shorter is better"
        }
    );
    for row in answers {
        let share = (row.median / longest * 100.0).clamp(0.4, 100.0);
        let _ = write!(
            out,
            "<tr class=\"{}\"><th>{}</th><td class=\"bar\"><div style=\"width:{share:.1}%\"></div>\
             </td><td>{}</td><td class=\"soft\">{}</td></tr>",
            row_class(&row.transport),
            escape(&row.transport),
            question.value(row),
            remark(row, own)
        );
    }
    out.push_str("</table></section>");
}

/// How an answer stands to barewire's, and barewire's to the limit.
fn remark(row: &Row, own: Option<&Row>) -> String {
    let disturbed = if row.disturbed { ", disturbed" } else { "" };
    match (row.transport.as_str(), own) {
        ("limit", _) => disturbed.trim_start_matches(", ").to_owned(),
        ("barewire", _) | (_, None) => {
            let ratio = row.ratio_to_limit.map(ratio);
            ratio.map_or_else(String::new, |ratio| format!("{ratio} x limit{disturbed}"))
        }
        (_, Some(own)) if own.band != row.band => format!("(band {}){disturbed}", row.band),
        (_, Some(own)) => {
            let times = advantage(own, row);
            if times >= 1.0 {
                format!("{} x slower{disturbed}", factor(times))
            } else {
                format!("{} x faster{disturbed}", factor(1.0 / times))
            }
        }
    }
}

/// The colour of a transport's rows.
pub fn row_class(transport: &str) -> &'static str {
    match transport {
        "limit" => "limit",
        "barewire" => "own",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use barewire_report::markup::check_well_formed;

    fn rtt(transport: &str, median: f64) -> Row {
        let any = report().results.into_iter().find(|row| row.test == "rtt");
        Row {
            transport: transport.into(),
            variant: String::new(),
            size_bytes: 8,
            median,
            ratio_to_limit: Some(median / 100.0),
            ..any.unwrap()
        }
    }

    #[test]
    fn barewire_is_set_beside_the_others_and_the_limit() {
        let rows = [
            rtt("limit", 100.0),
            rtt("barewire", 150.0),
            rtt("tcp", 6000.0),
            rtt("pipe", 75.0),
        ];
        let mut out = String::new();
        write_summary(&mut out, &rows);
        check_well_formed(&out, &[]);
        for words in [
            "<b>150 ns</b>",
            "<b>40 times</b> as fast as TCP",
            "<b>1.50 times</b> the limit",
            "40 x slower",
            "2.0 x faster",
            "shorter is better",
            "width:100.0%",
            "width:2.5%",
        ] {
            assert!(out.contains(words), "{words} is missing in {out}");
        }
    }

    #[test]
    fn without_barewire_there_is_no_headline_and_without_rows_nothing() {
        let mut out = String::new();
        write_summary(&mut out, &[rtt("limit", 100.0), rtt("tcp", 6000.0)]);
        assert!(
            !out.contains("headline") && out.contains("60.0 x limit"),
            "{out}"
        );
        let mut nothing = String::new();
        write_summary(&mut nothing, &[]);
        assert_eq!(nothing, "");
    }
}
