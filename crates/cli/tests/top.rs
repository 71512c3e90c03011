//! `barewire top` before a terminal, which is given back whatever happens, and as text and JSON on what is none.

#[path = "common/mod.rs"]
mod common;
#[path = "common/pair.rs"]
mod pair;
#[path = "common/program.rs"]
mod program;
#[path = "common/seat.rs"]
mod seat;
#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barewire::Node;
use pair::pair;
use program::Program;
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
    seat.press("2h\u{c}");
    seat.wait_for("sends");
    seat.press("h");
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

/// Set in the process of the late receiver: the name under which it listens.
const LATE_RECEIVER: &str = "BAREWIRE_TEST_LATE_RECEIVER";

/// Listens, says so, and takes and answers each message 20 ms after it has answered the one before, until the other
/// end is gone.
fn receive_late(name: &str) {
    let node = Node::new().expect("a node");
    let _listener = node.listen(name).expect("the name is free");
    println!("\n{name} listens");
    let request = node.next_request(Some(PATIENCE)).expect("it comes");
    let mut connection = request.accept().expect("it stays");
    let (_never, nothing) = std::sync::mpsc::channel::<()>();
    while connection.recv(&mut [0; 16]).is_ok() && connection.send(b"taken").is_ok() {
        // Nothing is waited for: it is late.
        let _ = nothing.recv_timeout(Duration::from_millis(20));
    }
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_delay_of_a_late_receiver_is_shown_and_silence_shows_nothing() {
    if let Ok(name) = std::env::var(LATE_RECEIVER) {
        return receive_late(&name);
    }
    let name = format!("top-late-{}", std::process::id());
    let silent = format!("{name}-silent");
    let ((_server, _server_end), (_client, _client_end)) = pair(&silent);
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let this = "the_delay_of_a_late_receiver_is_shown_and_silence_shows_nothing";
    command.args(["--exact", this, "--nocapture"]);
    command.env(LATE_RECEIVER, &name).stdout(Stdio::piped());
    let mut receiver = Ends(command.spawn().expect("it starts"));
    let said = BufReader::new(receiver.0.stdout.take().expect("piped"));
    let listens = format!("{name} listens");
    assert!(
        said.lines()
            .any(|line| line.is_ok_and(|line| line == listens))
    );
    let node = Node::new().expect("a node");
    let mut connection = node.connect(&name).expect("it listens");
    let is_enough = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_enough);
    let messages = std::thread::spawn(move || {
        // Relaxed: nothing comes with it.
        while !ends.load(Ordering::Relaxed) {
            connection.send(b"something").expect("sent");
            connection.recv(&mut [0; 16]).expect("answered");
        }
    });
    let three = ["--count", "3", "--interval", "1", "--filter", &name];
    let own = std::process::id();
    let is_sender = |row: &&Value| row["name"] == name.as_str() && row["pid"] == own;
    // On a busy machine too few samples may fall into its seconds.
    let (sender, half) = wait::until(PATIENCE, || {
        let said = text(&printed(&[&["--json"], &three[..]].concat()).stdout);
        let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
        let rows = last["connections"].as_array().expect("a list");
        assert_eq!(rows.len(), 4, "{last}");
        for row in rows.iter().filter(|row| row["name"] == silent.as_str()) {
            assert_eq!(row["delay_p50_us"], Value::Null, "{row}");
            assert_eq!(row["delay_buckets"], Value::Array(Vec::new()), "{row}");
        }
        let sender = rows.iter().find(is_sender).expect("its row");
        let half = sender["delay_p50_us"].as_u64();
        half.map(|half| (sender.clone(), half))
            .ok_or_else(|| sender.to_string())
    });
    is_enough.store(true, Ordering::Relaxed);
    messages.join().expect("no panic");
    assert!((8_192..=1_048_576).contains(&half), "{sender}");
    assert!(sender["delay_p99_us"].as_u64() >= Some(half), "{sender}");
    let buckets = sender["delay_buckets"].as_array().expect("a list");
    let counts = buckets
        .iter()
        .map(|bucket| bucket["count"].as_u64().expect("a count"));
    assert!(counts.sum::<u64>() > 0, "{sender}");
}

/// Python: each message is read 20 ms after it was sent.
const LATE: &str = "
import select
while True:
    one.sendall(b'x' * 100)
    if select.select([sys.stdin], [], [], 0.02)[0]:
        break
    other.recv(100)
";

#[test]
fn the_delay_of_a_late_unmodified_program_is_shown() {
    let program = Program::start_then(LATE);
    let own = u64::from(program.pid());
    let sends = |row: &&Value| row["ring_bytes_out_per_second"].as_f64() > Some(0.0);
    // On a busy machine too few samples may fall into its seconds.
    let (sender, half) = wait::until(PATIENCE, || {
        let said = printed(&["--json", "--table", "sockets", "--count", "3"]);
        let said = text(&said.stdout);
        let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
        let rows = last["sockets"].as_array().expect("a list").iter();
        let rows: Vec<&Value> = rows.filter(|row| row["pid"] == own).collect();
        let silent = rows.iter().filter(|row| row["state"] == "accelerated");
        let silent: Vec<_> = silent.filter(|row| !sends(row)).collect();
        let sender = rows.iter().find(|row| sends(row)).ok_or("none sends")?;
        assert_eq!(silent.len(), 1, "{rows:?}");
        assert_eq!(silent[0]["delay_p50_us"], Value::Null, "{rows:?}");
        let half = sender["delay_p50_us"].as_u64();
        half.map(|half| ((*sender).clone(), half))
            .ok_or("it has no delay")
    });
    assert!((8_192..=1_048_576).contains(&half), "{sender}");
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
