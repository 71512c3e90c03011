//! `barewire metrics --delays` serves histograms of how long what is sent waits. In a process of its own, since other tests
//! count its nodes.

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

#[test]
fn delays_are_served_if_they_are_asked_for() {
    let name = format!("metrics-delay-{}", std::process::id());
    let ((_server, mut receiving), (_client, mut sending)) = pair(&name);
    let program = Program::start();
    let server = Server::start_with(&["--delays"]);
    let named = format!("name=\"{name}\"");
    let counted = |metrics: &str, metric: &str, who: &str| {
        let is_it = |line: &&str| line.starts_with(metric) && line.contains(who);
        let lines = metrics.lines().filter(is_it);
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>()
    };
    let until = Instant::now() + PATIENCE;
    let metrics = loop {
        sending.send(b"something").expect("sent");
        receiving.recv(&mut [0; 16]).expect("received");
        let answer = server.get();
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        if counted(body, "barewire_connection_delay_seconds_count", &named) > 0.5 {
            break body.to_owned();
        }
        assert!(Instant::now() < until, "{body}");
    };
    assert_eq!(
        rules::broken(&metrics, Format::OpenMetrics),
        [""; 0],
        "{metrics}"
    );
    let endless = "barewire_connection_delay_seconds_bucket";
    assert!(
        counted(
            &metrics,
            endless,
            &format!("{named},peer_pid=\"{}\",le=\"+Inf\"", std::process::id())
        ) > 0.5
    );
    // Nothing is sent through the sockets, and they are told as well.
    let own = format!("pid=\"{}\"", program.pid());
    let sockets = "barewire_socket_delay_seconds_count";
    let told = metrics.lines().filter(|line| line.starts_with(sockets));
    assert_eq!(
        told.filter(|line| line.contains(&own)).count(),
        2,
        "{metrics}"
    );
    let once = barewire(&["metrics"]).output().expect("it starts");
    assert!(!String::from_utf8_lossy(&once.stdout).contains("delay_seconds"));
    let refused = barewire(&["metrics", "--delays"])
        .output()
        .expect("it starts");
    assert_eq!(refused.status.code(), Some(2));
}
