//! `barewire metrics`: what it tells is OpenMetrics and true, its server can neither be stalled nor filled, and the
//! dashboard asks only for what there is.

#[path = "common/mod.rs"]
mod common;
#[path = "common/pair.rs"]
mod pair;
#[path = "common/program.rs"]
mod program;
#[path = "../../daq/src/monitor/prometheus/rules.rs"]
mod rules;
#[path = "common/server.rs"]
mod server;
#[path = "common/wait.rs"]
mod wait;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Output;
use std::time::{Duration, Instant};

use common::barewire;
use pair::pair;
use program::Program;
use server::Server;

/// Which rules are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Those of Prometheus's own format.
    Prometheus,
    /// Those of OpenMetrics.
    OpenMetrics,
}

const PATIENCE: Duration = Duration::from_secs(60);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn once(arguments: &[&str]) -> Output {
    let arguments = [&["metrics"], arguments].concat();
    barewire(&arguments).output().expect("barewire starts")
}

/// The value of the one sample whose line has all of these parts.
fn value(metrics: &str, parts: &[&str]) -> f64 {
    let is_it = |line: &&str| parts.iter().all(|part| line.contains(part));
    let lines: Vec<&str> = metrics.lines().filter(is_it).collect();
    assert_eq!(lines.len(), 1, "{parts:?}: {lines:#?}");
    let number = lines[0].rsplit(' ').next().expect("a number");
    number.parse().expect("a number")
}

#[test]
fn what_is_told_is_open_metrics_and_true() {
    let name = format!("metrics\"{}", std::process::id());
    let ((_server, mut server_end), (_client, mut client_end)) = pair(&name);
    for _ in 0..3 {
        client_end.send(&[7; 100]).expect("sent");
        server_end.recv(&mut [0; 100]).expect("received");
    }
    let output = once(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let metrics = text(&output.stdout);
    assert_eq!(
        rules::broken(&metrics, Format::OpenMetrics),
        [""; 0],
        "{metrics}"
    );
    let own = format!("pid=\"{}\"", std::process::id());
    let named = format!("name=\"{}\"", name.replace('"', "\\\""));
    let of = |metric: &str, direction: &str| {
        let direction = format!("direction=\"{direction}\"");
        let both = metrics.lines().filter(|line| line.starts_with(metric));
        let both = both.filter(|line| line.contains(&own) && line.contains(&named));
        let values = both.filter(|line| line.contains(&direction));
        let values = values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>()
    };
    assert!(
        (of("barewire_connection_messages_total", "out") - 3.0).abs() < 0.5,
        "{metrics}"
    );
    assert!(
        (of("barewire_connection_bytes_total", "in") - 300.0).abs() < 0.5,
        "{metrics}"
    );
    let nodes = metrics
        .lines()
        .filter(|line| line.starts_with("barewire_node_info{"));
    assert_eq!(
        nodes.filter(|line| line.contains(&own)).count(),
        2,
        "{metrics}"
    );
    // What is left out is counted.
    let limited = text(&once(&["--limit", "0"]).stdout);
    assert_eq!(
        rules::broken(&limited, Format::OpenMetrics),
        [""; 0],
        "{limited}"
    );
    assert!(
        !limited.contains("\nbarewire_connection_bytes_total"),
        "{limited}"
    );
    let left_out = limited.lines().filter(|line| line.contains(&own));
    let left_out = left_out.filter(|line| line.starts_with("barewire_node_connections_left_out"));
    assert!(left_out.clone().count() == 2 && left_out.clone().all(|it| it.ends_with(" 1")));
}

/// A program with the library whose socket is told.
#[test]
fn sockets_of_unmodified_programs_are_told() {
    let program = Program::start();
    let metrics = text(&once(&[]).stdout);
    assert_eq!(
        rules::broken(&metrics, Format::OpenMetrics),
        [""; 0],
        "{metrics}"
    );
    let own = format!("pid=\"{}\"", program.pid());
    assert!(value(&metrics, &["barewire_process_visible", &own]) > 0.5);
    let state = "state=\"accelerated\"";
    let accelerated = value(&metrics, &["barewire_process_sockets{", &own, state]);
    assert!((accelerated - 2.0).abs() < 0.5, "{metrics}");
    let bytes = metrics.lines().filter(|line| {
        let is_metric = line.starts_with("barewire_socket_ring_bytes_total");
        is_metric && line.contains(&own) && line.contains("direction=\"out\"")
    });
    let bytes = bytes.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(bytes.sum::<f64>() > 100_000.0, "{metrics}");
}

#[test]
fn metrics_are_served() {
    let server = Server::start();
    let answer = server.get();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", body.len())),
        "{head}"
    );
    assert_eq!(rules::broken(body, Format::OpenMetrics), [""; 0], "{body}");
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (
            b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
            "405",
        ),
        (
            b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "403",
        ),
        (b"\x16\x03\x01\x00\r\n\r\n", "400"),
    ] {
        let answer = server.answer(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:?}: {answer}"
        );
    }
    let endless = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; 9000]].concat();
    let answer = server.answer(&endless);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
}

#[test]
fn strangers_neither_stall_nor_fill_it() {
    let server = Server::start();
    // As many as are served at once, and more: some say nothing, some never end, some never listen.
    let mut idle: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    for (nth, stream) in idle.iter_mut().enumerate() {
        let begun = [&b""[..], b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n"][nth % 3];
        stream.write_all(begun).expect("sent");
    }
    let begun = Instant::now();
    let answer = server.get();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    // Those that said nothing were sent away.
    let mut rest = Vec::new();
    let ended = idle[0].read_to_end(&mut rest);
    assert!(ended.is_ok() && rest.is_empty(), "{ended:?}");
    // Who goes away in the middle does no harm.
    let stream = server.connect();
    let _ = stream.shutdown(Shutdown::Both);
    assert!(server.get().ends_with("# EOF\n"));
}

#[test]
fn an_address_that_others_reach_is_refused_unless_meant() {
    let refused = once(&["--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--allow-remote"),
        "{}",
        text(&refused.stderr)
    );
    let taken = Server::start();
    let output = once(&["--listen", &taken.address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&taken.address));
    let nonsense = once(&["--listen", "here"]);
    assert_eq!(nonsense.status.code(), Some(2));
}

/// The names of samples that there can be.
fn sample_names() -> BTreeSet<String> {
    let metrics = Server::start_with(&["--delays"]).get();
    let kinds = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let name = |line: &str| match line.split_once(' ') {
        Some((name, "counter")) => format!("{name}_total"),
        Some((name, "histogram")) => format!("{name}_bucket"),
        Some((name, _)) => name.to_owned(),
        None => panic!("{line}"),
    };
    kinds.map(name).collect()
}

/// The metrics that a query names.
fn named_in(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
    words.filter(|word| word.starts_with("barewire_"))
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let known = sample_names();
    let dashboard = include_str!("../../../docs/monitoring/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a query");
            let names: Vec<&str> = named_in(query).collect();
            assert!(!names.is_empty(), "{query}");
            for name in names {
                assert!(
                    known.contains(name),
                    "{name} in {query}; there are {known:#?}"
                );
                // A counter is a rate, a gauge is none.
                let counts = name.ends_with("_total") || name.ends_with("_bucket");
                assert_eq!(query.contains("rate("), counts, "{query}");
                asked.insert(name.to_owned());
            }
            let count = |one: char| query.matches(one).count();
            assert!(
                count('(') == count(')') && count('{') == count('}'),
                "{query}"
            );
        }
    }
    assert!(asked.len() > 15, "{asked:?}");
    let variable = dashboard["templating"]["list"][1]["query"]
        .as_str()
        .expect("a query");
    assert!(
        named_in(variable).all(|name| known.contains(name)),
        "{variable}"
    );
}

#[test]
fn the_book_has_every_metric() {
    let page = include_str!("../../../docs/operate.md");
    for name in sample_names() {
        assert!(
            page.contains(&format!("`{name}`")),
            "operate.md lacks `{name}`"
        );
    }
}
