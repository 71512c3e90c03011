//! The log of a process's nodes: what it tells, at which level, and that there is none unless it is asked for.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use barewire::{Error, HostsConfig, Node, NodeConfig, Security};
use barewire_carrier::tls::{GenerateOptions, generate, trust};

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
        "port" => be_reached(name.as_ref()),
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

/// Can be reached from other hosts with the keys of a folder, until its input ends.
fn be_reached(folder: &Path) {
    let node = Node::with_config(keys(folder)).expect("a node");
    let port = node.listen_on("127.0.0.1:0").expect("a port");
    println!("@@port {} ", port.address());
    let _ = std::io::stdin().read(&mut [0]);
}

/// A node with the keys of this folder, that goes over the port even on one host.
fn keys(folder: &Path) -> NodeConfig {
    let hosts = HostsConfig {
        security: Security::Keys {
            folder: Some(folder.to_owned()),
        },
        shortcut: false,
        ..HostsConfig::default()
    };
    NodeConfig {
        hosts,
        ..NodeConfig::default()
    }
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

/// Waits until a child says something; the line.
fn hear(child: &mut Child, what: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    let said = lines.map_while(Result::ok).find(|line| line.contains(what));
    said.unwrap_or_else(|| panic!("it never says {what}"))
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

#[test]
fn who_is_turned_away_at_a_port_is_told_with_the_reason() {
    let folders = ["own", "stranger"].map(|of| {
        let folder = std::env::temp_dir().join(format!("barewire-log-{}-{of}", std::process::id()));
        let options = GenerateOptions {
            is_secret: false,
            name: of.to_owned(),
            replace: false,
        };
        generate(&folder, &options).expect("keys");
        folder
    });
    // The stranger trusts this host, which does not trust the stranger.
    let certificate = folders[0].join("certificate.pem");
    trust(&folders[1], &certificate, "own", false).expect("trusted");
    let mut child = child("port", folders[0].to_str().expect("text"), Some("warn"));
    let said = hear(&mut child, "@@port ");
    let port = said.split_whitespace().last().expect("an address");
    let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut next = |what: &str| {
        let line = log.find_map(|line| line.ok().filter(|line| line.contains("barewire[")));
        let line = lines(&line.expect("a line")).remove(0);
        assert!(line.starts_with("warn barewire["), "{line}");
        assert!(line.contains(what), "{what}: {line}");
        line
    };
    let mut browser = TcpStream::connect(port).expect("it listens");
    let own = browser.local_addr().expect("an address");
    let asked = browser.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    asked.expect("sent");
    next(&format!("{own} was turned away at the port: "));
    let gone = TcpStream::connect(port).expect("it listens");
    let own = gone.local_addr().expect("an address");
    drop(gone);
    next(&format!("{own} was turned away at the port: "));
    let silent = TcpStream::connect(port).expect("it listens");
    let own = silent.local_addr().expect("an address");
    next(&format!(
        "{own} was turned away at the port: it took too long"
    ));
    let stranger = Node::with_config(keys(&folders[1])).expect("a node");
    let refused = stranger.connect(&format!("{port}/name"));
    refused.expect_err("it is not trusted");
    let line = next("was turned away at the port: ");
    assert!(line.contains("trust"), "{line}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    for folder in &folders {
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
