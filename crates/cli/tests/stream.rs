//! `barewire stream` over loopback: both carriers, every direction, strangers at the port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The end that listens; stopped with the test.
struct Listener {
    child: Child,
    /// Address or name.
    at: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stream(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.arg("stream").args(arguments).stdin(Stdio::null());
    command
}

/// Started, and listening.
fn listener(arguments: &[&str]) -> Listener {
    let mut command = stream(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("barewire starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let at = line
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    assert!(line.starts_with("listening"), "{line}");
    Listener { child, at }
}

fn tcp() -> Listener {
    listener(&["--listen", "127.0.0.1:0"])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(arguments: &[&str]) -> Output {
    let output = stream(arguments).output().expect("barewire starts");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    output
}

fn refused(arguments: &[&str]) -> String {
    let output = stream(arguments).output().expect("barewire starts");
    assert!(!output.status.success(), "{arguments:?}");
    text(&output.stderr)
}

/// The directions of a short test, each with bytes, a time near the one asked, and their rate.
fn measured(arguments: &[&str]) -> (Value, Vec<Value>) {
    let short = ["--time", "300 ms", "--json"];
    let output = done(&[arguments, &short].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let directions = report["directions"].as_array().expect("a list").clone();
    for it in &directions {
        let [bytes, seconds, rate] =
            ["bytes", "seconds", "rate_mbit_s"].map(|key| it[key].as_f64().expect(key));
        assert!(bytes > 0.0 && seconds > 0.05 && seconds < 10.0, "{it}");
        assert!((bytes * 8e-6 / seconds / rate - 1.0).abs() < 1e-6, "{it}");
    }
    (report, directions)
}

fn names(directions: &[Value]) -> Vec<&str> {
    let name = |it: &'_ Value| -> String { it["direction"].as_str().unwrap_or("?").to_owned() };
    let names: Vec<String> = directions.iter().map(name).collect();
    let known = ["send", "receive"];
    names
        .iter()
        .filter_map(|it| known.iter().find(|known| *known == it).copied())
        .collect()
}

#[test]
fn bytes_go_each_way_over_the_kernel_s_tcp() {
    let listener = tcp();
    for (direction, expected) in [
        ("send", &["send"][..]),
        ("receive", &["receive"]),
        ("both", &["send", "receive"]),
    ] {
        let (report, directions) = measured(&[&listener.at, "--direction", direction]);
        assert_eq!(names(&directions), expected);
        assert_eq!(report["over"], "tcp");
        assert_eq!(report["nagle"], true);
        assert_eq!(report["message_bytes"], 65_536);
    }
}

/// The buffers are those that the kernel says it has set at the end that they count at, and a
/// small message is a small message.
#[test]
fn buffers_messages_and_nagle_are_as_asked() {
    let listener = tcp();
    let options = ["--buffer", "32 KiB", "--message", "100 B", "--no-nagle"];
    let (report, directions) = measured(&[&[listener.at.as_str()][..], &options].concat());
    assert_eq!(report["nagle"], false);
    assert_eq!(report["message_bytes"], 100);
    assert_eq!(report["buffer_bytes"], 32_768);
    // Linux takes twice what is asked, half of it for its own books.
    assert_eq!(directions[0]["send_buffer_bytes"], 65_536);
    assert_eq!(directions[0]["receive_buffer_bytes"], 65_536);
    assert_eq!(directions[0]["bytes"].as_u64().map(|it| it % 100), Some(0));
    let shown = done(&[&listener.at, "--time", "50 ms", "--no-nagle"]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("Nagle off") && shown.contains("\nsend "),
        "{shown}"
    );
}

#[test]
fn bytes_go_each_way_over_barewire() {
    let name = format!("stream-test-{}", std::process::id());
    let listener = listener(&["--listen", &name, "--over", "barewire"]);
    assert_eq!(listener.at, name);
    let over = ["--over", "barewire", "--direction", "both"];
    for buffer in [&[][..], &["--buffer", "64 KiB"]] {
        let (report, directions) = measured(&[&[name.as_str()][..], &over, buffer].concat());
        assert_eq!(names(&directions), ["send", "receive"]);
        assert_eq!(report["over"], "barewire");
    }
    let error = refused(&[&name, "--over", "barewire", "--buffer", "528288 B"]);
    assert!(error.contains("a power of two"), "{error}");
}

/// Whatever strangers write to the port, the listener goes on.
#[test]
fn a_stranger_at_the_port_is_turned_away() {
    let listener = tcp();
    let mut stranger = TcpStream::connect(&listener.at).expect("connected");
    let deadline = Some(Duration::from_secs(30));
    stranger.set_read_timeout(deadline).expect("a limit");
    stranger
        .write_all(b"GET / HTTP/1.1\r\nHost: somebody.example\r\n\r\n")
        .expect("written");
    // Closed, or reset with what it has not read, and nothing said.
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    let (_, directions) = measured(&[&listener.at]);
    assert_eq!(names(&directions), ["send"]);
}

#[test]
fn impossible_values_are_refused_with_the_reason() {
    // Of a listener that is gone: nobody is at this port.
    let gone = {
        let listener = tcp();
        listener.at.clone()
    };
    let error = refused(&[&gone, "--time", "50 ms"]);
    assert!(
        error.contains("is `barewire stream --listen` running"),
        "{error}"
    );
    assert!(refused(&[&gone, "--time", "0 s"]).contains("--time"));
    assert!(refused(&[&gone, "--message", "1 GiB"]).contains("--message"));
    assert!(refused(&[&gone, "--buffer", "2 GiB"]).contains("--buffer"));
    assert!(refused(&[]).contains("HOST"));
    let absent = format!("stream-absent-{}", std::process::id());
    assert!(refused(&[&absent, "--over", "barewire"]).contains(&absent));
}
