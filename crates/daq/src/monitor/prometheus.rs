//! Figures for Prometheus: its text format, over the least of HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Picture;
use crate::accounts::{drops, fates};
use crate::spread::{Spread, Spreads};

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
    /// Answers who connects, in a thread that ends with the process.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn start(listener: TcpListener) -> io::Result<Self> {
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
    let (mut builders, mut missing) = (Vec::new(), Vec::new());
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
        "processor_seconds_total",
        "counter",
        "Processor time of parts.",
        &processor,
    );
    histograms(&mut text, picture);
    text
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

fn histograms(text: &mut String, picture: &Picture) {
    type Of = fn(&Spreads) -> &Spread;
    let families: [(&str, &str, &[u64], f64, Of); 3] = [
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
    for (name, help, bounds, per_unit, of) in families {
        let _ = write!(
            text,
            "# HELP barewire_daq_{name} {help}\n# TYPE barewire_daq_{name} histogram\n"
        );
        for (builder, spreads) in picture.spreads.iter().enumerate() {
            histogram(text, name, builder, bounds, per_unit, of(spreads));
        }
    }
}

fn histogram(
    text: &mut String,
    name: &str,
    builder: usize,
    bounds: &[u64],
    per_unit: f64,
    spread: &Spread,
) {
    let mut bucket = |bound: &str, count| {
        let _ = writeln!(
            text,
            "barewire_daq_{name}_bucket{{builder=\"{builder}\",le=\"{bound}\"}} {count}"
        );
    };
    for &bound in bounds {
        bucket(
            &(bound as f64 / per_unit).to_string(),
            spread.count_to(bound),
        );
    }
    bucket("+Inf", spread.count());
    let _ = write!(
        text,
        "barewire_daq_{name}_sum{{builder=\"{builder}\"}} {}\n\
         barewire_daq_{name}_count{{builder=\"{builder}\"}} {}\n",
        spread.sum() / per_unit,
        spread.count()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_up_to_all() {
        let mut spread = Spread::default();
        for us in [3, 40, 40, 700_000, 60_000_000] {
            spread.note(us * 1_000);
        }
        let mut text = String::new();
        histogram(&mut text, "t", 1, &TIME_BOUNDS_NS, 1e9, &spread);
        let value = |key: &str| {
            let line = text.lines().find(|it| it.starts_with(key));
            let value = line.and_then(|it| it.rsplit_once(' ')).expect(key).1;
            value.parse::<f64>().expect("a number")
        };
        let buckets: Vec<f64> = TIME_BOUNDS_NS
            .iter()
            .map(|it| {
                let bound = *it as f64 / 1e9;
                value(&format!(
                    "barewire_daq_t_bucket{{builder=\"1\",le=\"{bound}\"}}"
                ))
            })
            .collect();
        assert!(buckets.is_sorted(), "{text}");
        assert_eq!((buckets[1], buckets[2]), (0.0, 1.0), "{text}");
        assert_eq!(buckets[21], 4.0, "{text}");
        assert_eq!(
            value("barewire_daq_t_bucket{builder=\"1\",le=\"+Inf\"}"),
            5.0
        );
        assert_eq!(value("barewire_daq_t_count"), 5.0);
        assert!(
            (value("barewire_daq_t_sum") - 60.700_083).abs() < 0.6,
            "{text}"
        );
        assert!(text.contains("le=\"0.000002\"} 0"), "{text}");
        assert_eq!(SIZE_BOUNDS_BYTES[12], 1 << 30);
    }
}
