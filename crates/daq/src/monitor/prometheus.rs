//! Figures for Prometheus, in its text format or as OpenMetrics, over the least of HTTP.
//!
//! Sources: the text format 0.0.4 of Prometheus and OpenMetrics 1.0; who asks says in `Accept` which it
//! takes. The rules of both are checked by `prometheus/rules.rs`.

mod accept;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire_proto::evb::RunState;

use super::picture::Picture;
use crate::accounts::{drops, fates};
use crate::spread::{Spread, Spreads};

pub use accept::Format;

/// How long one who asks may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Answers whoever asks with the last picture.
#[derive(Debug)]
pub struct Exporter {
    families: Arc<Mutex<Families>>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Exporter {
    /// Answers who connects, in a thread that ends with the process.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn start(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let families = Arc::new(Mutex::new(Families::default()));
        let shared = Arc::clone(&families);
        std::thread::Builder::new()
            .name("prometheus".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // Who does not listen gets nothing.
                    let _ = answer(stream, &shared);
                }
            })?;
        Ok(Self { families, address })
    }

    /// What is told from now on.
    pub fn set(&self, families: Families) {
        *self.families.lock().unwrap_or_else(PoisonError::into_inner) = families;
    }
}

fn answer(mut stream: TcpStream, families: &Mutex<Families>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; 4096];
    let mut filled = 0;
    while filled < request.len() && !request[..filled].windows(4).any(|it| it == b"\r\n\r\n") {
        match stream.read(&mut request[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    let request = String::from_utf8_lossy(&request[..filled]);
    let known = ["GET /metrics ", "GET /metrics?", "GET / "];
    let is_known = known.iter().any(|it| request.starts_with(it));
    let format = Format::of_request(&request);
    let (status, kind, body) = match is_known {
        true => {
            let families = families.lock().unwrap_or_else(PoisonError::into_inner);
            ("200 OK", format.content_type(), families.text(format))
        }
        false => (
            "404 Not Found",
            "text/plain; charset=utf-8",
            "ask for /metrics\n".to_owned(),
        ),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What kind a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A sample: what follows the name of its family, labels, value.
type Sample = (&'static str, String, f64);

/// Samples of one name.
#[derive(Clone, Debug)]
struct Family {
    /// Without `barewire_daq_`; of a counter without `_total`.
    name: &'static str,
    kind: Kind,
    /// Base unit at the end of the name; empty: none.
    unit: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// All that is told.
#[derive(Clone, Debug, Default)]
pub struct Families(Vec<Family>);

impl Families {
    /// In this format.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        self.0.iter().for_each(|it| it.write(&mut text, format));
        if format != Format::Prometheus {
            text += "# EOF\n";
        }
        text
    }

    fn add(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &'static str,
        samples: Vec<(String, f64)>,
    ) {
        let ending = match kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        let samples = samples.into_iter();
        self.0.push(Family {
            name,
            kind,
            unit: unit_of(name),
            help,
            samples: samples.map(|it| (ending, it.0, it.1)).collect(),
        });
    }
}

fn unit_of(name: &str) -> &'static str {
    let units = ["seconds", "bytes"];
    let is_end = |unit: &&&str| name.ends_with(**unit);
    units.iter().find(is_end).copied().unwrap_or("")
}

impl Family {
    fn write(&self, text: &mut String, format: Format) {
        let Self {
            name, unit, help, ..
        } = self;
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Prometheus's own format knows no families of counters, only their samples.
        let ending = match (format, self.kind) {
            (Format::Prometheus, Kind::Counter) => "_total",
            _ => "",
        };
        let _ = writeln!(text, "# HELP barewire_daq_{name}{ending} {help}");
        let _ = writeln!(text, "# TYPE barewire_daq_{name}{ending} {kind}");
        if format != Format::Prometheus && !unit.is_empty() {
            let _ = writeln!(text, "# UNIT barewire_daq_{name} {unit}");
        }
        for (ending, labels, value) in &self.samples {
            let labels = match format {
                Format::Prometheus => labels.clone(),
                _ => with_point(labels),
            };
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{{{labels}}}"),
            };
            let _ = writeln!(text, "barewire_daq_{name}{ending}{labels} {value}");
        }
    }
}

/// Bounds of buckets have a point in OpenMetrics: `le="64.0"`.
fn with_point(labels: &str) -> String {
    let Some((before, bound)) = labels.rsplit_once("le=\"") else {
        return labels.to_owned();
    };
    let number = bound.trim_end_matches('"');
    match number.bytes().all(|it| it.is_ascii_digit()) {
        true => format!("{before}le=\"{number}.0\""),
        false => labels.to_owned(),
    }
}

/// The picture as families.
#[must_use]
pub fn exposition(picture: &Picture) -> Families {
    let mut families = Families::default();
    of_run(&mut families, picture);
    of_parts(&mut families, picture);
    of_sources(&mut families, picture);
    of_builders(&mut families, picture);
    histograms(&mut families, picture);
    families
}

fn of_run(families: &mut Families, picture: &Picture) {
    let events = &picture.events;
    let fates_of_events = [
        ("built", events.built),
        ("incomplete", events.incomplete),
        ("abandoned", events.abandoned),
        ("aborted", events.aborted),
        ("refused", events.refused),
    ];
    families.add(
        "events",
        Kind::Counter,
        "Events by what became of them.",
        labelled("fate", &fates_of_events),
    );
    let present = [("waiting", events.waiting), ("in_flight", events.in_flight)];
    families.add(
        "pending_events",
        Kind::Gauge,
        "Events that wait for a builder, and that are assigned and not closed.",
        labelled("stage", &present),
    );
    let states = [
        RunState::Idle,
        RunState::Configured,
        RunState::Running,
        RunState::Paused,
        RunState::Draining,
        RunState::Failed,
    ];
    let state = |it: RunState| {
        let is_it = f64::from(u8::from(it == picture.state));
        (format!("state=\"{it:?}\""), is_it)
    };
    families.add(
        "state",
        Kind::Gauge,
        "State of the run: 1 for that in which it is.",
        states.map(state).into(),
    );
    families.add(
        "run_number",
        Kind::Gauge,
        "Number of the run.",
        vec![(String::new(), f64::from(picture.run))],
    );
}

fn labelled(label: &str, counts: &[(&str, u64)]) -> Vec<(String, f64)> {
    let each = counts.iter();
    each.map(|(name, count)| (format!("{label}=\"{name}\""), *count as f64))
        .collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn of_parts(families: &mut Families, picture: &Picture) {
    let sources = picture.sources.iter().enumerate();
    let sources = sources.map(|(id, it)| {
        let label = format!("source=\"{id}\"");
        (label, it.live, it.report.processor_ns)
    });
    let builders = picture.builders.iter().enumerate();
    let builders = builders.map(|(id, it)| {
        let label = format!("builder=\"{id}\"");
        (label, it.live, it.report.processor_ns)
    });
    let parts: Vec<_> = sources.chain(builders).collect();
    let up = parts.iter();
    let up = up.map(|it| (it.0.clone(), f64::from(u8::from(it.1))));
    families.add(
        "up",
        Kind::Gauge,
        "Whether a part takes part.",
        up.collect(),
    );
    let processor = parts.into_iter().map(|it| (it.0, seconds(it.2)));
    families.add(
        "processor_seconds",
        Kind::Counter,
        "Processor time of parts.",
        processor.collect(),
    );
}

fn of_sources(families: &mut Families, picture: &Picture) {
    let (mut sources, mut bytes, mut dropped, mut queued, mut held_up, mut refused) = (
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
    );
    for (id, seen) in picture.sources.iter().enumerate() {
        let (account, part) = (&seen.report.account, format!("source=\"{id}\""));
        sources.push((format!("{part},fate=\"offered\""), account.offered as f64));
        sources.push((format!("{part},fate=\"sent\""), account.sent as f64));
        bytes.push((part.clone(), account.sent_bytes as f64));
        queued.push((part.clone(), seen.report.queued_bytes as f64));
        held_up.push((part.clone(), seconds(seen.report.held_up_ns)));
        for (reason, count) in drops(&account.dropped) {
            dropped.push((format!("{part},reason=\"{reason}\""), count as f64));
        }
        let intake = &seen.report.intake;
        for (reason, count) in [
            ("full", intake.overflowed),
            ("order", intake.unordered),
            ("no_such_event", intake.unwanted),
        ] {
            refused.push((format!("{part},reason=\"{reason}\""), count as f64));
        }
    }
    families.add(
        "source_fragments",
        Kind::Counter,
        "Fragments of sources.",
        sources,
    );
    families.add("source_bytes", Kind::Counter, "Bytes sent.", bytes);
    families.add(
        "source_dropped",
        Kind::Counter,
        "Fragments dropped by sources.",
        dropped,
    );
    families.add(
        "detector_dropped",
        Kind::Counter,
        "Fragments that detectors gave and sources did not take.",
        refused,
    );
    families.add(
        "source_queued_bytes",
        Kind::Gauge,
        "Bytes that wait in sources.",
        queued,
    );
    families.add(
        "source_held_up_seconds",
        Kind::Counter,
        "Time in which sources had fragments and waited for room, credits or their turn.",
        held_up,
    );
}

fn of_builders(families: &mut Families, picture: &Picture) {
    let (mut fragments, mut missing, mut open, mut faults, mut age, mut untaken) = (
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
    );
    for (id, seen) in picture.builders.iter().enumerate() {
        let (report, part) = (&seen.report, format!("builder=\"{id}\""));
        let account = &report.account;
        // What is open now may be built: no counter.
        for (fate, count) in fates(account).into_iter().filter(|it| it.0 != "open") {
            fragments.push((format!("{part},fate=\"{fate}\""), count as f64));
        }
        for (source, count) in account.missing_by_source.iter().enumerate() {
            missing.push((format!("{part},source=\"{source}\""), *count as f64));
        }
        for (kind, count) in [
            ("gaps", account.gaps),
            ("out_of_sequence", account.out_of_sequence),
            ("cut", report.cut),
            ("wrong_content", report.mismatched),
            ("wrong_size", report.wrong_size),
        ] {
            faults.push((format!("{part},kind=\"{kind}\""), count as f64));
        }
        open.push((part.clone(), account.events_open as f64));
        age.push((part.clone(), seconds(report.oldest_age_ns)));
        untaken.push((part, report.untaken as f64));
    }
    families.add(
        "builder_fragments",
        Kind::Counter,
        "Fragments that came, by what became of them.",
        fragments,
    );
    families.add(
        "builder_missing",
        Kind::Counter,
        "Fragments missing, by source.",
        missing,
    );
    families.add(
        "builder_faults",
        Kind::Counter,
        "What else is wrong with fragments that came, or did not.",
        faults,
    );
    families.add(
        "builder_untaken_events",
        Kind::Counter,
        "Events that neither file nor consumer took.",
        untaken,
    );
    families.add(
        "builder_open_events",
        Kind::Gauge,
        "Events that are open.",
        open,
    );
    families.add(
        "builder_oldest_event_age_seconds",
        Kind::Gauge,
        "For how long the oldest open event is open.",
        age,
    );
}

/// Bounds of the buckets of times, in ns: 1, 2, 5 and so on, from 1 us to 10 s.
const TIME_BOUNDS_NS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut at, mut decade) = (0, 1_000);
    while at < bounds.len() {
        bounds[at] = decade * [1, 2, 5][at % 3];
        if at % 3 == 2 {
            decade *= 10;
        }
        at += 1;
    }
    bounds
};

/// Bounds of the buckets of sizes, in bytes: 64 B to 1 GiB by the factor 4.
const SIZE_BOUNDS_BYTES: [u64; 13] = {
    let mut bounds = [64; 13];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 4;
        at += 1;
    }
    bounds
};

fn histograms(families: &mut Families, picture: &Picture) {
    type Of = fn(&Spreads) -> &Spread;
    let all: [(&str, &str, &[u64], f64, Of); 3] = [
        (
            "building_seconds",
            "From the first word of an event to its last.",
            &TIME_BOUNDS_NS,
            1e9,
            |it| &it.building_ns,
        ),
        (
            "event_bytes",
            "Sizes of built events.",
            &SIZE_BOUNDS_BYTES,
            1.0,
            |it| &it.event_bytes,
        ),
        (
            "fragment_bytes",
            "Sizes of fragments that builders have taken.",
            &SIZE_BOUNDS_BYTES,
            1.0,
            |it| &it.fragment_bytes,
        ),
    ];
    for (name, help, bounds, per_unit, of) in all {
        let mut samples = Vec::new();
        for (builder, spreads) in picture.spreads.iter().enumerate() {
            histogram(&mut samples, builder, bounds, per_unit, of(spreads));
        }
        families.0.push(Family {
            name,
            kind: Kind::Histogram,
            unit: unit_of(name),
            help,
            samples,
        });
    }
}

fn histogram(
    samples: &mut Vec<Sample>,
    builder: usize,
    bounds: &[u64],
    per_unit: f64,
    spread: &Spread,
) {
    let part = format!("builder=\"{builder}\"");
    let mut bucket = |bound: &str, count: u64| {
        let labels = format!("{part},le=\"{bound}\"");
        samples.push(("_bucket", labels, count as f64));
    };
    for &bound in bounds {
        bucket(
            &(bound as f64 / per_unit).to_string(),
            spread.count_to(bound),
        );
    }
    bucket("+Inf", spread.count());
    samples.push(("_sum", part.clone(), spread.sum() / per_unit));
    samples.push(("_count", part, spread.count() as f64));
}
