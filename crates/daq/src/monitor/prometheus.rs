//! Figures for Prometheus: its text format, over the least of HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Picture;
use crate::accounts::{drops, fates};

/// How long one who asks may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Answers whoever asks with the last text.
#[derive(Debug)]
pub struct Exporter {
    text: Arc<Mutex<String>>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Exporter {
    /// Listens, in a thread that ends with the process.
    ///
    /// # Errors
    ///
    /// The address is taken, or there is no thread.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        std::thread::Builder::new()
            .name("prometheus".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let text = shared
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone();
                    // Who does not listen gets nothing.
                    let _ = answer(stream, &text);
                }
            })?;
        Ok(Self { text, address })
    }

    /// What is told from now on.
    pub fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn answer(mut stream: TcpStream, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; 2048];
    let mut filled = 0;
    while filled < request.len() && !request[..filled].windows(4).any(|it| it == b"\r\n\r\n") {
        match stream.read(&mut request[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    let known = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
    let (status, body) = match known {
        true => ("200 OK", text),
        false => ("404 Not Found", "ask for /metrics\n"),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The picture in Prometheus's text format.
#[must_use]
pub fn exposition(picture: &Picture) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        let _ = writeln!(text, "# HELP barewire_daq_{name} {help}");
        let _ = writeln!(text, "# TYPE barewire_daq_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "barewire_daq_{name}{{{labels}}} {value}");
        }
    };
    let events = &picture.events;
    let fates_of_events = [
        ("built", events.built),
        ("incomplete", events.incomplete),
        ("abandoned", events.abandoned),
        ("aborted", events.aborted),
        ("refused", events.refused),
    ];
    let label = |it: (&str, u64)| (format!("fate=\"{}\"", it.0), it.1 as f64);
    family(
        "events_total",
        "counter",
        "Events by what became of them.",
        &fates_of_events.map(label),
    );
    let present = [("waiting", events.waiting), ("in_flight", events.in_flight)];
    family(
        "events",
        "gauge",
        "Events that wait, and that are assigned and not closed.",
        &present.map(label),
    );
    let state = [(format!("state=\"{:?}\"", picture.state), 1.0)];
    family("state", "gauge", "State of the run.", &state);
    let (mut up, mut sources, mut bytes, mut dropped, mut queued, mut processor) = (
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
    );
    for (id, seen) in picture.sources.iter().enumerate() {
        let (account, part) = (&seen.report.account, format!("source=\"{id}\""));
        up.push((part.clone(), f64::from(u8::from(seen.live))));
        sources.push((format!("{part},fate=\"offered\""), account.offered as f64));
        sources.push((format!("{part},fate=\"sent\""), account.sent as f64));
        bytes.push((part.clone(), account.sent_bytes as f64));
        queued.push((part.clone(), seen.report.queued_bytes as f64));
        processor.push((part.clone(), seen.report.processor_ns as f64 / 1e9));
        for (reason, count) in drops(&account.dropped) {
            dropped.push((format!("{part},reason=\"{reason}\""), count as f64));
        }
    }
    let (mut builders, mut missing, mut times, mut sizes) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (id, seen) in picture.builders.iter().enumerate() {
        let (report, part) = (&seen.report, format!("builder=\"{id}\""));
        up.push((part.clone(), f64::from(u8::from(seen.live))));
        processor.push((part.clone(), report.processor_ns as f64 / 1e9));
        for (fate, count) in fates(&report.account) {
            builders.push((format!("{part},fate=\"{fate}\""), count as f64));
        }
        for (source, count) in report.account.missing_by_source.iter().enumerate() {
            missing.push((format!("{part},source=\"{source}\""), *count as f64));
        }
        let quantiles = ["0.5", "0.99", "0.999", "1"];
        for (at, quantile) in quantiles.into_iter().enumerate() {
            let labels = format!("{part},quantile=\"{quantile}\"");
            times.push((labels.clone(), report.building_ns[at] as f64 / 1e9));
            sizes.push((labels, report.event_bytes[at] as f64));
        }
    }
    family("up", "gauge", "Whether a part takes part.", &up);
    family(
        "source_fragments_total",
        "counter",
        "Fragments of sources.",
        &sources,
    );
    family("source_bytes_total", "counter", "Bytes sent.", &bytes);
    family(
        "source_dropped_total",
        "counter",
        "Fragments dropped by sources.",
        &dropped,
    );
    family(
        "source_queued_bytes",
        "gauge",
        "Bytes that wait in sources.",
        &queued,
    );
    family(
        "builder_fragments_total",
        "counter",
        "Fragments that came.",
        &builders,
    );
    family(
        "builder_missing_total",
        "counter",
        "Fragments missing, by source.",
        &missing,
    );
    family(
        "building_seconds",
        "summary",
        "From the first word of an event to its last.",
        &times,
    );
    family("event_bytes", "summary", "Sizes of built events.", &sizes);
    family(
        "processor_seconds_total",
        "counter",
        "Processor time of parts.",
        &processor,
    );
    text
}
