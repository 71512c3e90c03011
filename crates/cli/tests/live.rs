//! `barewire dump` and `barewire set` on this test's own nodes, which are live.

#[path = "common/wait.rs"]
mod wait;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire::{Connection, HostsConfig, Node, NodeConfig, Security, Spin};
use serde_json::Value;

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);

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

fn own_pid() -> String {
    std::process::id().to_string()
}

/// The number of a node, as `barewire ls` shows it.
fn number(node: &Node) -> String {
    let shown = format!("{node:?}");
    let digits = shown.chars().filter(char::is_ascii_hexdigit);
    let digits: String = digits.collect();
    // The name of the type and of the field come first.
    digits[digits.len() - 32..].to_owned()
}

/// Two nodes of this process, each with an end of the same connection.
fn pair(name: &str) -> ((Node, Connection), (Node, Connection)) {
    let name = format!("live-{}-{name}", std::process::id());
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

/// The queue of a node's only connection.
fn queue_of(node: &Node, arguments: &[&str]) -> Value {
    let all = json(&[&["dump", &own_pid(), "--json"], arguments].concat());
    let nodes = all["nodes"].as_array().unwrap();
    let own = nodes.iter().find(|found| found["node"] == *number(node));
    own.expect("the node")["queues"][0].clone()
}

#[test]
fn unread_messages_are_dumped_and_stay_unread() {
    let ((server, mut server_end), (_client, client_end)) = pair("dumped");
    // Split, so that short messages go through the ring, too.
    let (mut client_sender, _client_receiver) = client_end.split();
    let empty = queue_of(&server, &[]);
    assert_eq!(
        (&empty["frames"], &empty["used_lines"]),
        (&0.into(), &0.into())
    );
    // Some are read, so that what waits begins somewhere, and credit need not have been told.
    for _ in 0..5 {
        client_sender.send(&[1; 100]).unwrap();
        server_end.recv(&mut [0; 100]).unwrap();
    }
    client_sender.send(&[2; 40]).unwrap();
    client_sender.send(&[3; 300]).unwrap();
    client_sender.send_batch(&[[4; 8]; 3]).unwrap();
    let queue = queue_of(&server, &[]);
    assert_eq!(queue["peer_pid"], u64::from(std::process::id()));
    assert_eq!(queue["ring_bytes"], 4096);
    assert_eq!(queue["capacity_lines"], 64);
    assert_eq!(
        (&queue["tail_line"], &queue["head_line"]),
        (&10.into(), &17.into()),
        "{queue:#}"
    );
    assert_eq!(
        (&queue["frames"], &queue["payload_bytes"]),
        (&3.into(), &388.into())
    );
    assert_eq!(queue["fault"], Value::Null);
    assert_eq!(queue["moving"], false);
    assert_eq!(queue["peer"]["finished"], false);
    let field = |of: &str| -> Vec<Value> {
        let headers = queue["headers"].as_array().unwrap();
        headers.iter().map(|header| header[of].clone()).collect()
    };
    assert_eq!(field("kind"), ["whole", "whole", "packed"]);
    assert_eq!(field("len_bytes"), [40, 300, 48]);
    assert_eq!(field("position_line"), [10, 11, 16]);
    assert_eq!(
        field("offset_bytes"),
        [10 * 64 + 8, 11 * 64 + 8, 16 * 64 + 8]
    );

    let shown = text(&barewire(&["dump", &own_pid(), "--frames", "2"]).stdout);
    for words in [
        "-dumped\"",
        "tail 10, head 17",
        "3 frames, 388 bytes",
        "and 1 more frames",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // The end is seen too, and nothing was taken.
    drop(client_sender);
    assert_eq!(queue_of(&server, &[])["peer"]["finished"], true);
    for expected in [40, 300, 8, 8, 8] {
        assert_eq!(server_end.recv(&mut [0; 300]).unwrap(), expected);
    }
    let none = queue_of(&server, &[]);
    assert_eq!(
        (&none["frames"], &none["tail_line"]),
        (&0.into(), &17.into())
    );
    let hidden = text(&barewire(&["dump", &own_pid(), "--top", "0"]).stdout);
    assert!(hidden.contains("more queues"), "{hidden}");
}

#[test]
fn a_message_in_pieces_and_a_full_ring_are_dumped() {
    let ((server, mut server_end), (_client, mut client_end)) = pair("pieces");
    let started = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            client_end
                .sender()
                .send_timeout(&[7; 20_000], LONG)
                .unwrap()
        });
        loop {
            assert!(started.elapsed() < LONG, "the sender waits for room");
            // Until the sender waits for room.
            let queue = queue_of(&server, &["--connection", "0"]);
            assert_eq!(queue["fault"], Value::Null, "{queue:#}");
            if queue["peer"]["starved"] == true && queue["moving"] == false {
                assert_eq!(queue["headers"][0]["kind"], "more");
                assert!(queue["used_lines"].as_u64().unwrap() > 32, "{queue:#}");
                break;
            }
        }
        let mut message = Vec::new();
        server_end.recv_into(&mut message).unwrap();
        assert_eq!(message, [7; 20_000]);
        sending.join().unwrap();
    });
    assert_eq!(queue_of(&server, &[])["frames"], 0);
}

#[test]
fn a_queue_in_use_is_dumped_again_and_again() {
    let ((server, mut server_end), (_client, mut client_end)) = pair("busy");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            let mut number = 0_usize;
            // Relaxed: only ends the loop.
            while !done.load(Ordering::Relaxed) {
                number += 1;
                if client_end.try_send(&vec![1; number % 900]).unwrap() {
                    server_end.recv(&mut [0; 900]).unwrap();
                }
            }
        });
        for _ in 0..20 {
            let queue = queue_of(&server, &[]);
            let sound = queue["fault"] == Value::Null || queue["moving"] == true;
            assert!(sound, "{queue:#}");
        }
    });
}

/// Ends the loop of another thread, also when this one panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        // Relaxed: only ends the loop.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has a node that sleeps, and does so until the end.
fn asleep<T>(node: &Node, meanwhile: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            // Relaxed: only ends the loop.
            while !done.load(Ordering::Relaxed) {
                node.next_event(Duration::from_millis(50)).unwrap();
            }
        });
        meanwhile()
    })
}

fn value(node: &Node, key: &str) -> String {
    let settings = node.settings();
    let found = settings.iter().find(|setting| setting.key == key);
    found.expect("a setting").value.clone()
}

#[test]
fn settings_are_shown_and_changed() {
    let node = Node::with_config(NodeConfig {
        spin: Spin::Never,
        ..NodeConfig::default()
    });
    let node = node.unwrap();
    let id = number(&node);
    asleep(&node, || {
        let shown = json(&["set", &own_pid(), "--node", &id, "--json"]);
        assert_eq!(shown["nodes"][&id]["spin"], "never");
        let changes = [
            "set",
            &own_pid(),
            "spin=15us",
            "user_budget.links=3",
            "--node",
            &id,
        ];
        let output = barewire(&changes);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(
            said.contains("15000ns") && said.contains("user_budget.links"),
            "{said}"
        );
        assert!(!said.contains("backlog_max"), "{said}");
        let all = text(&barewire(&["set", &own_pid(), "--node", &id]).stdout);
        assert!(all.contains("backlog_max"), "{all}");
    });
    assert_eq!(value(&node, "spin"), "15000ns");
    assert_eq!(value(&node, "user_budget.links"), "3");
}

#[test]
fn settings_that_cannot_be_changed_are_explained() {
    let node = Node::new().unwrap();
    let (pid, id) = (own_pid(), number(&node));
    let refused = |arguments: &[&str], words: &str| {
        let output = barewire(&[&["set", &pid, "--node", &id], arguments].concat());
        assert!(!output.status.success());
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(said.contains(words), "{words}: {said}");
    };
    asleep(&node, || {
        refused(&["spin=soon"], "is not a time");
        refused(&["huge_pages=try"], "these can be set: spin, ring_bytes");
        refused(&["bulk_max=3", "ring_bytes=5000"], "power of two");
    });
    assert_eq!(value(&node, "bulk_max"), "64");
    refused(&["spin"], "KEY=VALUE");
    // Nobody polls it now.
    refused(&["spin=never", "--timeout", "0.05"], "has not polled it");
    let other = barewire(&["set", &pid, "--node", "no-such"]);
    assert!(text(&other.stderr).contains("has no node whose number"));
    let none = barewire(&["set", "2147483647", "spin=never"]);
    assert!(text(&none.stderr).contains("no process 2147483647"));
    // It is taken when somebody does.
    node.next_event(Duration::ZERO).unwrap();
    let started = Instant::now();
    asleep(&node, || {
        while value(&node, "spin") != "never" {
            assert!(started.elapsed() < LONG, "the request is taken");
            std::thread::yield_now();
        }
    });
}

#[test]
fn other_users_may_neither_set_nor_dump() {
    let node = Node::new().unwrap();
    if node.credentials().uid != 0 {
        // Only root can become somebody else to try this; `look.rs` says so as well.
        return skip("other_users_may_neither_set_nor_dump", "not root");
    }
    for arguments in [
        &["set", &own_pid(), "spin=never"][..],
        &["dump", &own_pid()],
    ] {
        let other = Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(arguments)
            .uid(65_534)
            .gid(65_534)
            .stdin(Stdio::null())
            .output();
        match other {
            Ok(output) => {
                assert!(!output.status.success());
                let said = text(&output.stderr);
                assert!(said.contains("belongs to another user"), "{said}");
            }
            Err(error) => {
                let reason = format!("other users cannot start the command here: {error}");
                return skip("other_users_may_neither_set_nor_dump", &reason);
            }
        }
    }
}

/// Two nodes of this process that take each other for nodes on different hosts, and a connection.
fn pair_between_hosts(of: &str) -> ((Node, Connection), (Node, Connection)) {
    let config = || NodeConfig {
        hosts: HostsConfig {
            security: Security::Insecure,
            shortcut: false,
            timeout: Duration::from_millis(400),
            ..HostsConfig::default()
        },
        ..NodeConfig::default()
    };
    let server = Node::with_config(config()).unwrap();
    let name = format!("hosts-{of}-{}", std::process::id());
    let listener = server.listen(&name).unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    let opening = std::thread::spawn(move || {
        let client = Node::with_config(config()).unwrap();
        let connection = client.connect(&address).unwrap();
        (client, connection)
    });
    let request = server.next_request(Duration::from_secs(20)).unwrap();
    let accepted = request.accept().unwrap();
    ((server, accepted), opening.join().unwrap())
}

#[test]
fn links_to_other_hosts_are_shown() {
    let ((server, accepted), (client, opened)) = pair_between_hosts("shown");
    let of = |node: &Node, list: &Value| {
        let number = number(node);
        let all = list.as_array().unwrap().clone();
        let own = all.into_iter().find(|found| found["node"] == *number);
        own.expect("the node")
    };
    let patience = Duration::from_secs(20);
    let host = wait::until(patience, || {
        let listed = of(&client, &json(&["ls", "--json"]));
        let host = listed["hosts"][0].clone();
        match host["round_trip_ns"].as_u64() {
            Some(ns) if ns > 0 => Ok(host),
            _ => Err(listed),
        }
    });
    assert_eq!(host["address"], opened.remote().unwrap().address);
    assert_eq!(host["transport"], "tcp");
    assert_eq!(
        (&host["encrypted"], &host["identity"]),
        (&Value::Bool(false), &Value::Null)
    );
    assert_eq!(host["pid"], std::process::id());
    assert!(opened.remote().unwrap().round_trip.is_some());
    let shown = of(&server, &json(&["stat", &own_pid(), "--json"])["nodes"]);
    assert_eq!(shown["hosts_uncounted"], 0);
    let connection = &shown["connections"][0];
    assert_eq!(connection["peer_host"], accepted.remote().unwrap().address);
    let lists = text(&barewire(&["ls"]).stdout);
    let address = opened.remote().unwrap().address;
    let line = |of: &str| {
        of.lines()
            .find(|line| line.contains(&address))
            .map(str::to_owned)
    };
    let found = line(&lists).expect("the link");
    assert!(found.contains("tcp") && found.contains("nobody"), "{found}");
    let stat = text(&barewire(&["stat", &own_pid()]).stdout);
    assert!(
        stat.contains("links to other hosts") && line(&stat).is_some(),
        "{stat}"
    );
    drop((opened, client));
    wait::until(patience, || {
        let _ = server.next_event(Duration::from_millis(1));
        let listed = of(&server, &json(&["ls", "--json"]));
        match listed["hosts"].as_array().unwrap().is_empty() {
            true => Ok(()),
            false => Err(listed),
        }
    });
}

#[test]
fn what_was_sent_to_another_host_and_not_read_there_is_dumped() {
    let ((server, mut accepted), (client, mut opened)) = pair_between_hosts("sent");
    let before = queue_of(&client, &[]);
    assert_eq!(before["peer_host"], opened.remote().unwrap().address);
    assert_eq!(before["outgoing"], Value::Null, "{before:#}");
    opened.send(&[1; 100]).unwrap();
    opened.send(&[2; 300]).unwrap();
    wait::until(Duration::from_secs(30), || {
        let there = queue_of(&server, &[]);
        (there["payload_bytes"] == 400)
            .then_some(())
            .ok_or(there.to_string())
    });
    let sent = queue_of(&client, &[])["outgoing"].clone();
    assert_eq!(sent["ring_bytes"], HostsConfig::default().ring_bytes);
    assert_eq!(sent["waiting"]["frames"], 0, "{sent:#}");
    assert_eq!(sent["under_way"]["frames"], 2, "{sent:#}");
    assert_eq!(sent["under_way"]["payload_bytes"], 400, "{sent:#}");
    let shown = text(&barewire(&["dump", &own_pid()]).stdout);
    let line = "waiting here 0 frames, 0 bytes; under way or not taken there 2 frames, 400 bytes";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains(" from host 127.0.0.1:"), "{shown}");
    for expected in [100, 300] {
        assert_eq!(accepted.recv(&mut [0; 300]).unwrap(), expected);
    }
}

#[test]
fn how_memory_is_placed_is_shown() {
    let node = Node::with_config(NodeConfig {
        huge_pages: barewire::HugePages::Try,
        ..NodeConfig::default()
    });
    let node = node.unwrap();
    let process = json(&["stat", &own_pid(), "--json"]);
    let nodes = process["nodes"].as_array().unwrap();
    let own = nodes
        .iter()
        .find(|found| found["node"] == *number(&node))
        .unwrap();
    assert_eq!(own["memory"]["huge_pages"], "try");
    assert_eq!(own["memory"]["locked"], false);
    assert_eq!(own["memory"]["numa_node"], Value::Null);
    let shown = text(&barewire(&["stat", &own_pid()]).stdout);
    assert!(
        shown.contains("memory on huge pages where there are some"),
        "{shown}"
    );
}

fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
