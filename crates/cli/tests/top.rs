//! `barewire top` before a terminal, which is given back whatever happens, and as text and JSON on what is none.

#[path = "common/pair.rs"]
mod pair;
#[path = "common/seat.rs"]
mod seat;
#[path = "common/wait.rs"]
mod wait;

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pair::pair;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::LocalModes;
use seat::{ENTER, LEAVE, PATIENCE, Seat};
use serde_json::Value;

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.arg("top").args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn printed(arguments: &[&str]) -> Output {
    let output = top(arguments).output().expect("barewire starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

#[test]
fn the_view_shows_connections_obeys_keys_and_gives_the_terminal_back() {
    let name = format!("top-view-{}", std::process::id());
    let _pair = pair(&name);
    let mut seat = Seat::start(top(&["--interval", "0.1"]));
    let before = seat.modes();
    seat.wait_for(ENTER);
    seat.wait_for("events/s");
    assert!(!seat.modes().contains(LocalModes::ICANON));
    // What is on the screen already is not drawn again, except after Ctrl-L.
    seat.press("\t\u{c}");
    seat.wait_for(&name);
    seat.press("/no-such-name\u{c}");
    seat.wait_for("has");
    seat.press("\u{1b}");
    seat.wait_for("quit");
    seat.press("\u{c}");
    seat.wait_for(&name);
    seat.press("?\u{c}");
    seat.wait_for("scroll,");
    seat.press("x");
    seat.press("4");
    seat.press("q");
    seat.wait_for(LEAVE);
    assert_eq!(wait::ended(&mut seat.child, PATIENCE).code(), Some(0));
    assert_eq!(seat.modes(), before);
}

#[test]
fn signals_and_control_c_give_the_terminal_back() {
    for end in ["\u{3}", "TERM", "INT"] {
        let mut seat = Seat::start(top(&[]));
        let before = seat.modes();
        seat.wait_for(ENTER);
        seat.wait_for("quit");
        match end {
            "TERM" => kill_process(Pid::from_child(&seat.child), Signal::TERM).expect("it lives"),
            "INT" => kill_process(Pid::from_child(&seat.child), Signal::INT).expect("it lives"),
            key => seat.press(key),
        }
        seat.wait_for(LEAVE);
        assert_eq!(
            wait::ended(&mut seat.child, PATIENCE).code(),
            Some(0),
            "{end}"
        );
        assert_eq!(seat.modes(), before, "{end}");
    }
}

#[test]
fn what_is_no_terminal_gets_text() {
    let name = format!("top-text-{}", std::process::id());
    let _pair = pair(&name);
    let said = text(&printed(&["--count", "2", "--interval", "0.05"]).stdout);
    assert_eq!(said.matches("\nconnections (").count(), 2, "{said}");
    assert!(said.contains(&name) && !said.contains('\u{1b}'), "{said}");
    let one = text(
        &printed(&[
            "--once",
            "--interval",
            "0.05",
            "--table",
            "connections",
            "--filter",
            &name,
        ])
        .stdout,
    );
    assert!(
        one.starts_with("connections (2)\n") && !one.contains("sockets ("),
        "{one}"
    );
    let mut command = top(&["--interval", "0.05", "--filter", &name]);
    command.env("TERM", "dumb");
    let mut dumb = Seat::start(command);
    let said = dumb.wait_for("sockets (");
    assert!(said.contains(&name) && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn json_has_rates() {
    let name = format!("top-json-{}", std::process::id());
    let ((_server, mut receiving), (_client, mut sending)) = pair(&name);
    let is_enough = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_enough);
    let messages = std::thread::spawn(move || {
        // Relaxed: nothing comes with it.
        while !ends.load(Ordering::Relaxed) {
            sending.send(b"something").expect("sent");
            receiving.recv(&mut [0; 16]).expect("received");
        }
    });
    let said = text(
        &printed(&[
            "--json",
            "--count",
            "2",
            "--interval",
            "0.2",
            "--filter",
            &name,
        ])
        .stdout,
    );
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert!(
            line["interval_seconds"].as_f64().expect("a number") >= 0.2,
            "{line}"
        );
        let connections = line["connections"].as_array().expect("a list");
        let rates = connections
            .iter()
            .map(|it| it["messages_out_per_second"].as_f64().expect("a rate"));
        assert!(rates.sum::<f64>() > 1.0, "{line}");
    }
    is_enough.store(true, Ordering::Relaxed);
    messages.join().expect("no panic");
}

#[test]
fn a_column_that_is_none_is_refused() {
    let output = top(&["--sort", "beauty"])
        .output()
        .expect("barewire starts");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("no column `beauty`; there are: pid, command"),
        "{said}"
    );
}
