//! `barewire ls` and `barewire stat` on a running benchmark, on this test's own nodes, and
//! on processes that have none.

#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use barewire::{Connection, Node};
use serde_json::Value;

fn barewire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = barewire(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A benchmark that has connections open for long enough.
struct Running(Child);

impl Running {
    fn start() -> Running {
        let child = Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args([
                "bench",
                "rtt",
                "--transport",
                "barewire",
                "--variant",
                "message",
            ])
            .args([
                "--size",
                "8",
                "--waiting",
                "blocking",
                "--no-pin",
                "--quiet",
            ])
            .args([
                "--duration-ms",
                "3000",
                "--samples",
                "20",
                "--max-seconds",
                "600",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the benchmark starts");
        Running(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Waits until a JSON report of `ls` has a connection of this process.
    fn listed(&self) -> Value {
        wait::until(Duration::from_secs(10), || {
            let nodes = json(&["ls", "--json"]);
            let own = nodes
                .as_array()
                .unwrap()
                .iter()
                .find(|node| node["pid"] == u64::from(self.0.id()) && node["connections"] == 1);
            own.cloned().ok_or_else(|| format!("{nodes:#}"))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_is_seen_at_work() {
    let running = Running::start();
    let listed = running.listed();
    assert_eq!(listed["comm"], "barewire");
    assert_eq!(listed["links"], 1);
    assert!(listed["age_seconds"].as_f64().unwrap() < 60.0);
    assert_eq!(listed["node"].as_str().unwrap().len(), 32);
    let table = text(&barewire(&["ls"]).stdout);
    assert!(
        table.starts_with("  pid") || table.contains("connections"),
        "{table}"
    );
    assert!(
        table.contains(&running.pid()) && table.contains("bench-server"),
        "{table}"
    );

    // Its limit is measured in turn with it; sooner or later messages pass.
    let started = Instant::now();
    loop {
        let pid = running.pid();
        let watched = barewire(&["stat", &pid, "--json", "--watch", "0.2", "--count", "2"]);
        assert!(watched.status.success(), "{}", text(&watched.stderr));
        let lines = text(&watched.stdout);
        assert_eq!(lines.lines().count(), 2, "{lines}");
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        let node = &last["nodes"][0];
        assert!(node["interval_seconds"].as_f64().unwrap() > 0.1);
        let connection = &node["connections"][0];
        let rate = connection["messages_out_per_second"].as_f64().unwrap();
        if rate > 0.0 {
            let bytes = connection["bytes_out_per_second"].as_f64().unwrap();
            assert!((bytes / rate - 8.0).abs() < 0.01, "{connection}");
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{last:#}");
    }
    let table = text(&barewire(&["stat", &running.pid(), "--watch", "0.1", "--count", "1"]).stdout);
    assert!(
        table.contains("per second") && table.contains("messages out"),
        "{table}"
    );
}

/// Two nodes of this process, each with an end of the same connection.
fn pair(name: &str) -> ((Node, Connection), (Node, Connection)) {
    let name = format!("look-{}-{name}", std::process::id());
    let server = Node::new().unwrap();
    let listener = server.listen(&name).unwrap();
    let client = std::thread::spawn(move || {
        let node = Node::new().unwrap();
        let connection = node.connect(&name).unwrap();
        (node, connection)
    });
    let request = server.next_request(Some(Duration::from_secs(10))).unwrap();
    let connection = request.accept().unwrap();
    drop(listener);
    ((server, connection), client.join().unwrap())
}

#[test]
fn every_message_is_counted() {
    let ((_server, mut server), (_client, mut client)) = pair("counted");
    for _ in 0..7 {
        client.send(&[1; 100]).unwrap();
        assert_eq!(server.recv(&mut [0; 100]).unwrap(), 100);
    }
    let own = std::process::id().to_string();
    let process = json(&["stat", &own, "--json"]);
    assert_eq!(process["pid"], u64::from(std::process::id()));
    let mut ends: Vec<&Value> = Vec::new();
    for node in process["nodes"].as_array().unwrap() {
        for connection in node["connections"].as_array().unwrap() {
            if connection["name"].as_str().unwrap().ends_with("-counted") {
                ends.push(connection);
            }
        }
    }
    assert_eq!(ends.len(), 2, "{process:#}");
    ends.sort_by_key(|end| end["messages_out"].as_u64());
    let of = |end: &Value, field: &str| end[field].as_u64().unwrap();
    assert_eq!(
        (of(ends[0], "messages_in"), of(ends[0], "bytes_in")),
        (7, 700)
    );
    assert_eq!(
        (of(ends[1], "messages_out"), of(ends[1], "bytes_out")),
        (7, 700)
    );
    for end in &ends {
        assert_eq!(of(end, "peer_pid"), u64::from(std::process::id()));
        assert_eq!(of(end, "ring_bytes_in"), 4096);
        assert_eq!(of(end, "ring_bytes_out"), 4096);
        assert!(end["full"].is_u64() && end["bells"].is_u64());
    }
    let table = text(&barewire(&["stat", &own]).stdout);
    for word in ["node ", "events", "messages in", "-counted", "4 KiB", "700"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let short = text(&barewire(&["stat", &own, "--top", "0"]).stdout);
    assert!(short.contains("more connections"), "{short}");
    drop(client);
}

/// Again and again, with rates from the second time on.
#[test]
fn a_list_is_watched() {
    let ((server, mut to_client), (_client, mut to_server)) = pair("watched");
    let worked = std::sync::atomic::AtomicBool::new(false);
    let watch = ["ls", "--json", "--watch", "0.2", "--count", "3"];
    let output = std::thread::scope(|scope| {
        // Events, as long as it is looked at.
        scope.spawn(|| {
            while !worked.load(std::sync::atomic::Ordering::SeqCst) {
                to_server.send(b"x").unwrap();
                server.next_event(Duration::from_millis(100)).unwrap();
                while to_client.try_recv(&mut [0; 8]).unwrap().is_some() {}
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let output = barewire(&watch);
        worked.store(true, std::sync::atomic::Ordering::SeqCst);
        output
    });
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lists: Vec<Value> = (text(&output.stdout).lines())
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(lists.len(), 3);
    let busiest = |list: &Value| -> Option<f64> {
        let nodes = list.as_array().unwrap().iter();
        let own = nodes.filter(|node| node["pid"] == u64::from(std::process::id()));
        own.filter_map(|node| node["events_per_second"].as_f64())
            .reduce(f64::max)
    };
    assert_eq!(busiest(&lists[0]), None, "there is no rate at first");
    for list in &lists[1..] {
        let rate = busiest(list).expect("a rate");
        assert!((1.0..5000.0).contains(&rate), "{rate} events per second");
    }
    let table = text(&barewire(&["ls", "--watch", "0.05", "--count", "2"]).stdout);
    assert_eq!(table.matches("connections").count(), 2, "{table}");
    assert_eq!(table.matches("events/s").count(), 1, "{table}");
    assert!(!table.contains('\x1b'), "no terminal: {table:?}");
    let refused = barewire(&["ls", "--count", "2"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn processes_that_cannot_be_inspected_are_explained() {
    let refused = |output: &Output, words: &str| {
        assert!(!output.status.success());
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(said.contains(words), "{said}");
    };
    refused(&barewire(&["stat", "2147483647"]), "no process 2147483647");
    let mut idle = Command::new("sleep").arg("60").spawn().unwrap();
    let idle_pid = idle.id().to_string();
    refused(&barewire(&["stat", &idle_pid]), "has no barewire node");
    idle.kill().unwrap();
    idle.wait().unwrap();
    refused(&barewire(&["stat", "1", "--watch", "0"]), "0.01");
    refused(&barewire(&["stat", "x"]), "invalid value");

    let (one, _other) = pair("private");
    let own = std::process::id().to_string();
    // Only root can become somebody else to try this.
    if one.0.credentials().uid == 0 {
        let other = Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(["stat", &own])
            .uid(65_534)
            .gid(65_534)
            .stdin(Stdio::null())
            .output();
        // Not where the directories of the build are closed to others.
        if let Ok(output) = other {
            refused(&output, "belongs to another user");
        }
    }
}

#[test]
fn a_watch_ends_with_the_process() {
    let running = Running::start();
    running.listed();
    let mut watch = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args(["stat", &running.pid(), "--watch", "0.05"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let is_rate = |line: Result<String, _>| line.unwrap().contains("per second");
    assert!(lines.by_ref().any(is_rate), "no rates are shown");
    drop(running);
    // Whatever else it says: it must not stop at a full pipe.
    lines.for_each(drop);
    let output = watch.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("has ended"));
}
