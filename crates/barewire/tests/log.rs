//! The log of a process's nodes: what it tells, at which level, and that there is none unless it is asked for.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use barewire::{Error, Node};

/// Which role this process plays, and the name that is listened to.
const ROLE: &str = "BAREWIRE_TEST_ROLE";
const NAME: &str = "BAREWIRE_TEST_ARG_name";
const PATIENCE: Duration = Duration::from_secs(20);

/// What a child of a test does.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let name = std::env::var(NAME).expect("a name");
    match role.as_str() {
        "listener" => listen(&name),
        "client" => connect(&name),
        other => panic!("no role {other}"),
    }
    std::process::exit(0);
}

/// Accepts once, and goes when the other end has died.
fn listen(name: &str) {
    let node = Node::new().expect("a node");
    let _listener = node.listen(name).expect("the name is free");
    println!("@@listens");
    let request = node.next_request(Some(PATIENCE)).expect("it comes");
    let mut connection = request.accept().expect("it stays");
    let error = connection.recv(&mut [0; 8]).expect_err("nothing was sent");
    assert!(matches!(error, Error::PeerDied { .. }), "{error}");
}

/// Connects, and waits to be killed.
fn connect(name: &str) {
    let node = Node::new().expect("a node");
    let _connection = node.connect(name).expect("somebody listens");
    println!("@@connected");
    let _ = std::io::stdin().read(&mut [0]);
}

fn child(role: &str, name: &str, log: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "child_entry", "--nocapture"]);
    command
        .env_remove("BAREWIRE_LOG")
        .env(ROLE, role)
        .env(NAME, name);
    if let Some(log) = log {
        command.env("BAREWIRE_LOG", log);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Waits until a child says something.
fn hear(child: &mut Child, what: &str) {
    let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    let said = lines.map_while(Result::ok).any(|line| line.contains(what));
    assert!(said, "it never says {what}");
}

/// A listener with this log, whose peer is killed; what it says, and the process of the peer.
fn listener_of_a_dead_peer(of: &str, log: Option<&str>) -> (Output, u32) {
    let name = format!("log-{}-{of}", std::process::id());
    let mut listener = child("listener", &name, log);
    hear(&mut listener, "@@listens");
    let mut client = child("client", &name, None);
    hear(&mut client, "@@connected");
    client.kill().expect("it lives");
    client.wait().expect("it ends");
    let output = listener.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    (output, client.id())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a log, without their times.
fn lines(log: &str) -> Vec<String> {
    let without_time = |line: &str| {
        let (time, rest) = line.split_once(' ').expect("a time");
        let (seconds, millis) = time.split_once('.').expect("milliseconds");
        assert!(
            seconds.parse::<u64>().is_ok() && millis.len() == 3,
            "{line}"
        );
        rest.to_owned()
    };
    log.lines().map(without_time).collect()
}

#[test]
fn a_file_tells_what_has_happened() {
    let path: PathBuf = std::env::temp_dir().join(format!("barewire-log-{}", std::process::id()));
    let wanted = format!("info:{}", path.display());
    let (output, peer) = listener_of_a_dead_peer("file", Some(&wanted));
    assert!(
        !text(&output.stderr).contains("barewire["),
        "{}",
        text(&output.stderr)
    );
    let log = std::fs::read_to_string(&path).expect("the log");
    std::fs::remove_file(&path).expect("removed");
    let told = lines(&log);
    let position = |level: &str, what: &str| {
        let is_it = |line: &String| line.starts_with(level) && line.contains(what);
        told.iter()
            .position(is_it)
            .unwrap_or_else(|| panic!("no {what}: {told:#?}"))
    };
    let listens = position("info", "listens as `log-");
    let up = position("info", &format!("the link to process {peer} of user"));
    let died = position("warn", &format!("process {peer} of user"));
    let ended = position("info", "has ended: the peer, process");
    assert!(listens < up && up < died && died < ended, "{told:#?}");
}

#[test]
fn a_level_leaves_out_what_matters_less() {
    let (output, peer) = listener_of_a_dead_peer("warn", Some("warn"));
    let said = text(&output.stderr);
    let log: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("barewire["))
        .collect();
    assert_eq!(log.len(), 1, "{said}");
    assert!(
        log[0].contains(&format!("process {peer} of user")) && log[0].ends_with("has died"),
        "{said}"
    );
}

#[test]
fn there_is_no_log_unless_it_is_asked_for_and_a_wrong_one_is_refused() {
    for wanted in [None, Some("off"), Some("")] {
        let (output, _) = listener_of_a_dead_peer("none", wanted);
        assert!(
            !text(&output.stderr).contains("barewire["),
            "{}",
            text(&output.stderr)
        );
    }
    for wrong in ["loud", "info:/nonexistent/file"] {
        let (output, _) = listener_of_a_dead_peer("wrong", Some(wrong));
        let said = text(&output.stderr);
        assert_eq!(said.matches("barewire: BAREWIRE_LOG=").count(), 1, "{said}");
    }
}
