//! Every example, run without arguments: it demonstrates itself and ends well.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where cargo puts the examples of this very build: beside the folder of the test binary.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: `cargo test` builds examples, `cargo test --test examples` too only \
         after `cargo build --examples`",
        path.display()
    );
    path
}

/// Runs an example and returns what it said. It is killed after half a minute.
fn run(name: &str) -> String {
    let mut child = Command::new(example(name))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if started.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        status.is_some(),
        "{name} hangs; it said: {said}{complained}"
    );
    assert!(output.status.success(), "{name}: {said}{complained}");
    assert_eq!(complained, "", "{name} complains");
    said
}

#[track_caller]
fn says(name: &str, wanted: &[&str]) {
    let said = run(name);
    for wanted in wanted {
        assert!(said.contains(wanted), "{name}: no {wanted:?} in {said}");
    }
}

#[test]
fn echo() {
    says(
        "echo",
        &[
            "it says \"hello\"",
            "  8 bytes there and back",
            " 1024 bytes",
        ],
    );
}

#[test]
fn stream_file() {
    says(
        "stream_file",
        &[
            "sent 16000000 bytes",
            "good: true",
            "the copy is the original",
        ],
    );
}

#[test]
fn many_clients() {
    says(
        "many_clients",
        &["1000 connections of 4 processes, 20000 requests"],
    );
}

#[test]
fn remote_counter() {
    says(
        "remote_counter",
        &[
            "tripwire: 4 done",
            "added 200000",
            "the tripwire counted 200000",
        ],
    );
}

/// `async` is a keyword.
#[test]
fn in_async_code() {
    says(
        "async",
        &["answered 3000 requests of 3 clients, copied 3000000 bytes"],
    );
}

#[test]
fn shared_table() {
    let said = run("shared_table");
    assert_eq!(said.matches("good: true").count(), 4, "{said}");
    assert!(
        said.contains("4 readers saw 1000 changes of 100 rows"),
        "{said}"
    );
}

#[test]
fn tokio() {
    says("tokio", &["answered 1000 requests"]);
}

#[test]
fn own_loop() {
    says(
        "own_loop",
        &[
            "poll: answered 1000 requests",
            "epoll: answered 1000 requests",
        ],
    );
}

#[test]
fn two_hosts() {
    says(
        "two_hosts",
        &[
            "over tls, encrypted",
            "8 bytes there and back",
            "65536 bytes there and back",
        ],
    );
}

/// An example that nobody runs rots.
#[test]
fn none_is_left_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let known = [
        "async",
        "echo",
        "many_clients",
        "own_loop",
        "remote_counter",
        "shared_table",
        "stream_file",
        "tokio",
        "two_hosts",
    ];
    assert_eq!(found, known.map(|name| format!("{name}.rs")));
}
