//! What is told keeps the rules of both formats, over HTTP too.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::rules::broken;
use super::*;
use crate::accounts::{BuilderReport, SourceReport};
use crate::monitor::Seen;

/// Every number is another one.
fn picture() -> Picture {
    let numbers: Vec<u64> = (1..=40).map(|it| it * 1_000_000_007).collect();
    let mut spreads = Spreads::default();
    for us in [3, 40, 40, 700_000, 60_000_000] {
        spreads.building_ns.note(us * 1_000);
        spreads.event_bytes.note(us);
    }
    let source = Seen {
        live: true,
        report: SourceReport::from_numbers(&numbers),
        ..Seen::default()
    };
    let builder = Seen {
        report: BuilderReport::from_numbers(&numbers),
        ..Seen::default()
    };
    Picture {
        run: 7,
        state: RunState::Paused,
        events: crate::accounts::events_from(&numbers),
        sources: vec![source; 2],
        builders: vec![builder; 2],
        spreads: vec![spreads, Spreads::default()],
        age_ns: 5,
        processor_ns: 6,
    }
}

const FORMATS: [Format; 3] = [
    Format::Prometheus,
    Format::OpenMetrics,
    Format::OpenMetricsDraft,
];

#[test]
fn all_rules_are_kept() {
    let empty = Picture {
        sources: Vec::new(),
        builders: Vec::new(),
        spreads: Vec::new(),
        ..picture()
    };
    for picture in [picture(), empty] {
        for format in FORMATS {
            let text = exposition(&picture).text(format);
            assert_eq!(broken(&text, format), [""; 0], "{text}");
        }
    }
    let text = exposition(&picture()).text(Format::OpenMetrics);
    for line in [
        "# TYPE barewire_daq_events counter",
        "# UNIT barewire_daq_source_bytes bytes",
        "barewire_daq_state{state=\"Paused\"} 1",
        "barewire_daq_state{state=\"Running\"} 0",
        "barewire_daq_run_number 7",
        "barewire_daq_event_bytes_bucket{builder=\"0\",le=\"64.0\"} 3",
        "barewire_daq_up{source=\"1\"} 1",
        "barewire_daq_up{builder=\"1\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    }
    assert_eq!(Families::default().text(Format::OpenMetrics), "# EOF\n");
}

#[test]
fn promtool_finds_nothing() {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        let line = "SKIPPED: promtool: it is not installed\n";
        eprint!("{line}");
        if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path);
            file.and_then(|mut it| it.write_all(line.as_bytes()))
                .expect("the log of skips");
        }
        return;
    };
    let text = exposition(&picture()).text(Format::Prometheus);
    let mut input = child.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let length = format!("Content-Length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    (head.to_owned(), body.to_owned())
}

#[test]
fn an_http_client_gets_the_format_that_it_accepts() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let exporter = Exporter::start(listener).expect("a thread");
    let accept = |accept: &str| format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{accept}\r\n");
    let open = accept("Accept: application/openmetrics-text; version=1.0.0\r\n");
    // Before there is a picture.
    let (_, body) = ask(exporter.address, &open);
    assert_eq!(body, "# EOF\n");
    exporter.set(exposition(&picture()));
    for (request, format) in [
        (open, Format::OpenMetrics),
        (accept("Accept: */*\r\n"), Format::Prometheus),
        (accept(""), Format::Prometheus),
    ] {
        let (head, body) = ask(exporter.address, &request);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains(&format!("Content-Type: {}\r\n", format.content_type())),
            "{head}"
        );
        assert_eq!(broken(&body, format), [""; 0], "{body}");
    }
    let (head, _) = ask(exporter.address, "GET /other HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

#[test]
fn buckets_count_up_to_all() {
    let mut spread = Spread::default();
    for us in [3, 40, 40, 700_000, 60_000_000] {
        spread.note(us * 1_000);
    }
    let mut samples = Vec::new();
    histogram(&mut samples, 1, &TIME_BOUNDS_NS, 1e9, &spread);
    let buckets: Vec<_> = samples.iter().filter(|it| it.0 == "_bucket").collect();
    assert!(buckets.iter().map(|it| it.2).is_sorted(), "{samples:?}");
    assert_eq!((buckets[1].2, buckets[2].2), (0.0, 1.0), "{samples:?}");
    assert_eq!((buckets[21].2, buckets[22].2), (4.0, 5.0), "{samples:?}");
    assert_eq!(buckets[1].1, "builder=\"1\",le=\"0.000002\"");
    assert_eq!(buckets[22].1, "builder=\"1\",le=\"+Inf\"");
    let one = |ending: &str| samples.iter().find(|it| it.0 == ending).expect("there").2;
    assert_eq!(one("_count"), 5.0);
    assert!((one("_sum") - 60.700_083).abs() < 0.6, "{samples:?}");
    assert_eq!(SIZE_BOUNDS_BYTES[12], 1 << 30);
}
