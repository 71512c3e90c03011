//! `barewire daq` over links between hosts, as far as one host shows it: parts that are started through commands, and what
//! is said if a link cannot be made. Runs between two hosts are in `crates/daq/tests/runs.rs`.

#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use barewire_sys::process::{Signal, send_signal};

/// More than anything takes here.
const LONG: Duration = Duration::from_secs(60);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("barewire-daq-hosts-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.current_dir(&self.0).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    fn barewire(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }

    /// Writes a configuration with the manager at this port.
    fn write(&self, file: &str, port: u16, settings: &str) {
        let text = format!(
            "[run]\nname = \"{}\"\ntransport = \"hosts\"\nevents = 0\n\
             [tcp]\nmanager = \"127.0.0.1:{port}\"\nbuilders = [\"127.0.0.1:{}\"]\n{settings}",
            self.0.file_name().expect("a name").to_string_lossy(),
            free_port(),
        );
        std::fs::write(self.0.join(file), text).expect("written");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port of this host that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("it is bound").port()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A source whose manager it cannot reach, and what the source says. The manager waits for longer than the source.
fn unreached(folder: &Folder, managers: &str, sources: &str) -> String {
    let (port, patience) = (free_port(), "[parts]\npatience = ");
    folder.write(
        "manager.toml",
        port,
        &format!("{patience}\"60 s\"\n{managers}"),
    );
    folder.write(
        "source.toml",
        port,
        &format!("{patience}\"500 ms\"\n{sources}"),
    );
    let manager = folder.command(&["daq", "manager", "manager.toml"]);
    let _manager = Running(
        { manager }
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts"),
    );
    wait::until(LONG, || std::net::TcpStream::connect(("127.0.0.1", port)));
    let source = folder.barewire(&["daq", "source", "source.toml"]);
    assert_eq!(source.status.code(), Some(2));
    text(&source.stderr)
}

#[test]
fn why_a_link_cannot_be_made_is_said() {
    let folder = Folder::new("reasons");
    for own in ["one", "other"] {
        let made = folder.barewire(&["node", "keygen", "--secret", "--dir", own]);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    let keys = |own: &str| format!("[hosts]\nkeys = \"{own}\"\n");
    let said = unreached(&folder, &keys("one"), &keys("other"));
    assert!(said.contains("does not have this host's secret"), "{said}");
    let said = unreached(&folder, &keys("one"), &keys("none"));
    assert!(said.contains("none holds no keys"), "{said}");
    let insecure = "[hosts]\nsecurity = \"insecure\"\n";
    let said = unreached(&folder, insecure, &keys("one"));
    assert!(said.contains(" can not be reached: "), "{said}");
    // With the same key they talk to each other, and the manager finds that the configurations differ.
    let said = unreached(&folder, &keys("one"), &keys("one"));
    assert!(said.contains("refuses: another configuration"), "{said}");

    folder.write(
        "alone.toml",
        free_port(),
        "[parts]\npatience = \"300 ms\"\n[hosts]\nkeys = \"one\"\n",
    );
    let alone = folder.barewire(&["daq", "source", "alone.toml"]);
    let said = text(&alone.stderr);
    assert!(said.contains("-manager within 300ms: "), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
}

/// `nice` stands for `ssh HOST`.
#[test]
fn parts_are_started_through_commands_and_drained_by_a_signal() {
    let folder = Folder::new("commands");
    let settings = "[hosts]\nsecurity = \"insecure\"\n[parts]\nliveness = \"20 s\"\n\
                    [start]\nmanager = \"nice\"\nbuilders = \"nice -n 1\"\nsources = [\"nice -n 1\", \"\"]\n";
    folder.write("run.toml", free_port(), settings);
    let mut run = folder.command(&["daq", "run", "run.toml", "--plain"]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running(run.spawn().expect("it starts"));
    let said = BufReader::new(run.0.stderr.take().expect("a pipe"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|it| it.contains("Running, by Start")));
    let pid = i32::try_from(run.0.id()).expect("small");
    send_signal(pid, Signal::Term).expect("it lives");
    let drained: Vec<_> = said.collect();
    assert!(
        drained.iter().any(|it| it.contains("asked to end: drains")),
        "{drained:?}"
    );
    assert_eq!(wait::ended(&mut run.0, LONG).code(), Some(0));
    let mut ledger = String::new();
    let output = run.0.stdout.as_mut().expect("a pipe");
    output.read_to_string(&mut ledger).expect("a ledger");
    assert!(ledger.contains("the ledger balances"), "{ledger}");
}

#[test]
fn a_part_that_was_handed_its_configuration_ends_with_its_input() {
    let folder = Folder::new("input");
    folder.write(
        "run.toml",
        free_port(),
        "[hosts]\nsecurity = \"insecure\"\n",
    );
    let config = std::fs::read_to_string(folder.0.join("run.toml")).expect("written");
    let mut part = folder.command(&["daq", "builder", "-"]);
    part.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut part = Running(part.spawn().expect("it starts"));
    let mut input = part.0.stdin.take().expect("a pipe");
    write!(input, "barewire-daq 1 1f:0 {}\n{config}", config.len()).expect("it lives");
    drop(input);
    assert_eq!(wait::ended(&mut part.0, LONG).code(), Some(2));
    let mut said = String::new();
    let errors = part.0.stderr.as_mut().expect("a pipe");
    errors.read_to_string(&mut said).expect("text");
    assert!(
        said.contains("whoever started this part has gone"),
        "{said}"
    );

    let by_hand = folder.barewire(&["daq", "builder", "-"]);
    let said = text(&by_hand.stderr);
    assert_eq!(by_hand.status.code(), Some(2));
    assert!(said.contains("give the path of a configuration"), "{said}");
}

#[test]
fn the_laboratory_has_no_model_of_links_between_hosts() {
    let folder = Folder::new("predict");
    folder.write("run.toml", free_port(), "");
    let predict = folder.barewire(&["daq", "predict", "run.toml"]);
    assert_eq!(predict.status.code(), Some(2));
    let said = text(&predict.stderr);
    assert!(said.contains("no model of run.transport"), "{said}");
}
