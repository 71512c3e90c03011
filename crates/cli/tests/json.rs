//! The JSON that commands print is what `docs/reference/json.md` says: no field that is not described, and each field
//! that is described.

#[path = "common/mod.rs"]
mod common;
#[path = "common/pair.rs"]
mod pair;
#[path = "common/program.rs"]
mod program;
#[path = "common/wait.rs"]
mod wait;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use barewire::Node;
use common::barewire;
use pair::pair;
use program::Program;
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/reference/json.md");
const COUNTERS: &str = include_str!("../../../docs/reference/counters.md");

/// What a command prints: one value, or one on each line.
fn printed(arguments: &[&str]) -> Vec<Value> {
    let output = barewire(arguments).output().expect("barewire starts");
    let said = String::from_utf8_lossy(&output.stderr);
    // `doctor` may find that nothing can be upgraded here.
    assert!(
        output.status.success() || arguments[0] == "doctor",
        "{arguments:?}: {said}"
    );
    let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    let values: Vec<Value> = values.collect::<Result<_, _>>().expect("JSON");
    assert!(!values.is_empty(), "{arguments:?}");
    values
}

/// The part of a page below a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page
        .split_once(heading)
        .unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap_or(rest)
}

/// Words in backticks, and their parts: `nodes[].memory` says something of `nodes` and of `memory`.
fn names(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let parts = quoted.flat_map(|it| it.split(['.', '[', ']', ' ']));
    parts.filter(|part| !part.is_empty()).collect()
}

/// Those of the first column of the tables.
fn described(section: &str) -> BTreeSet<&str> {
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|line| line.split('|').nth(1));
    cells
        .flat_map(names)
        .filter(|name| *name != "...")
        .collect()
}

/// The names of all fields, at any depth; not below those whose keys are data.
fn fields(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| fields(value, all)),
        Value::Object(object) => {
            for (name, value) in object {
                all.insert(name.clone());
                fields(value, all);
            }
        }
        _ => {}
    }
}

/// Compares both ways. What depends on the host or on an option may be missing.
fn compare(heading: &str, values: &[Value], more: &str, may_lack: &[&str]) {
    let text = section(PAGE, heading);
    let known: BTreeSet<&str> = names(text).union(&names(more)).copied().collect();
    let mut found = BTreeSet::new();
    values.iter().for_each(|value| fields(value, &mut found));
    for field in &found {
        assert!(
            known.contains(&**field),
            "json.md does not describe `{field}` of {heading}"
        );
    }
    for field in described(text) {
        let is_there = found.contains(field) || may_lack.contains(&field);
        assert!(
            is_there,
            "`{field}` is described and not printed: {heading}"
        );
    }
}

#[test]
fn what_is_printed_of_nodes_is_described() {
    let ((server, _server_end), (client, client_end)) =
        pair(&format!("json-{}", std::process::id()));
    // Split, so that a message waits in the ring.
    let (mut sender, _receiver) = client_end.split();
    sender.send(&[1; 100]).expect("sent");
    let pid = std::process::id().to_string();
    let hosts = section(COUNTERS, "## Of a link to another host");
    let listed = printed(&["ls", "--json", "--watch", "0.05", "--count", "2"]);
    compare("## `barewire ls --json`", &listed, hosts, &[]);
    let watched = printed(&["stat", &pid, "--json", "--watch", "0.05", "--count", "1"]);
    let rates: Vec<String> = names(COUNTERS)
        .iter()
        .map(|name| format!("`{name}_per_second`"))
        .collect();
    let more = COUNTERS.to_owned() + &rates.concat();
    compare("## `barewire stat PID --json`", &watched, &more, &[]);
    let dumped = printed(&["dump", &pid, "--json"]);
    // Both ends are here, so one queue is dumped whole; all that is unreadable belongs to other kinds of rings.
    compare(
        "## `barewire dump PID --json`",
        &dumped,
        "",
        &["unreadable"],
    );
    let set = served(&[&server, &client], || printed(&["set", &pid, "--json"]));
    assert_eq!(set[0]["pid"], u64::from(std::process::id()));
    assert!(set[0]["nodes"].is_object(), "{set:?}");
    let top = printed(&["top", "--json", "--count", "2", "--interval", "0.05"]);
    compare("## `barewire top --json`", &top, "", &[]);
}

/// Does something while nodes are polled, so that they answer.
fn served<T: Send>(nodes: &[&Node], work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let work = scope.spawn(work);
        let mut events = Vec::new();
        while !work.is_finished() {
            for node in nodes {
                node.wait(&mut events, 8, Some(Duration::from_millis(5)))
                    .expect("it waits");
            }
        }
        work.join().expect("no panic")
    })
}

#[test]
fn what_is_printed_of_sockets_is_described() {
    let program = Program::start();
    let pid = program.pid().to_string();
    for arguments in [&["ls", &pid, "--json"][..], &["ls", "--sockets", "--json"]] {
        let printed = printed(arguments);
        let settings = "`spin_ns`, `calls_before`, `bytes_before`";
        compare("## `barewire ls --sockets --json`", &printed, settings, &[]);
    }
}

#[test]
fn what_is_reported_of_connections_is_described() {
    let name = format!("barewire-json-why-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let why = format!("--why={}", file.display());
    let code = format!(
        "{}\npair = socket.socketpair()\npair[0].close()\n",
        program::EXCHANGE
    );
    let mut command = barewire(&["run", &why, "--json", "--set", "unix=1"]);
    command.args(["--profile", "latency", "python3", "-c", &code]);
    let output = command.output().expect("barewire starts");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let lines = std::fs::read_to_string(&file).expect("the reports");
    std::fs::remove_file(&file).expect("removed");
    let reports: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object on each line"))
        .collect();
    compare("## `barewire run --why --json`", &reports, "", &[]);
    // Both ends of the connection, and of the pair.
    assert_eq!(reports.len(), 4, "{lines}");
    let upgraded: Vec<&Value> = reports
        .iter()
        .filter(|report| report["state"] == "accelerated")
        .collect();
    assert_eq!(upgraded.len(), 2, "{lines}");
    assert_eq!(upgraded[0]["local"], upgraded[1]["remote"]);
    assert_eq!(upgraded[0]["ring_bytes"][0], upgraded[1]["ring_bytes"][1]);
    assert!(upgraded.iter().all(|report| report["why"] == ""), "{lines}");
    let local: Vec<&Value> = reports
        .iter()
        .filter(|report| report["inode"].is_u64())
        .collect();
    assert_eq!(local.len(), 2, "{lines}");
    let why = "over before it was worth more";
    assert!(local.iter().all(|report| report["why"] == why), "{lines}");
}

#[test]
fn what_is_printed_of_the_host_is_described() {
    let doctor = printed(&["doctor", "--json"]);
    let text = section(PAGE, "## `barewire doctor --json`");
    let mut found = BTreeSet::new();
    doctor.iter().for_each(|value| fields(value, &mut found));
    assert!(found.contains("grade"), "{found:?}");
    for field in found {
        assert!(
            names(text).contains(&*field),
            "json.md does not describe `{field}` of doctor"
        );
    }
    // A cell of ATM whose checksum is wrong.
    let cell = "0".repeat(106);
    let output = barewire(&["wire", "decode", "--as", "atm", &cell, "--json"]).output();
    let decoded = serde_json::from_slice(&output.expect("barewire starts").stdout);
    let decoded = [decoded.expect("JSON")];
    compare(
        "## `barewire wire decode --json`",
        &decoded,
        "",
        &["format", "field", "reason", "meaning"],
    );
    let explained = printed(&["explain", "--json"]);
    compare("## `barewire explain --json`", &explained, "", &[]);
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_printed_of_keys_is_described() {
    let name = format!("barewire-json-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let path = |name: &str| folder.0.join(name).to_str().expect("text").to_owned();
    let (own, other) = (path("own"), path("other"));
    for folder in [&own, &other] {
        let made = barewire(&["node", "keygen", "--dir", folder]).output();
        assert!(made.expect("barewire starts").status.success());
    }
    let certificate = path("other/certificate.pem");
    let trusted = barewire(&[
        "node",
        "trust",
        &certificate,
        "--as",
        "other",
        "--dir",
        &own,
    ])
    .output();
    assert!(trusted.expect("barewire starts").status.success());
    let keys = printed(&["node", "keys", "--json", "--dir", &own]);
    compare("## `barewire node keys --json`", &keys, "", &[]);
    assert_eq!(keys[0]["proof"], "certificate");
    assert_eq!(keys[0]["trusted"][0]["name"], "other");
    assert_eq!(
        keys[0]["sha256"].as_str().expect("text").len(),
        keys[0]["trusted"][0]["sha256"]
            .as_str()
            .expect("text")
            .len()
    );
}

/// The help pages of all commands.
fn help() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let files = std::fs::read_dir(folder).expect("the help").flatten();
    let page = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().expect("text");
        let text = std::fs::read_to_string(file.path()).expect("a page");
        (name.trim_end_matches(".txt").replace('-', " "), text)
    };
    files.map(page).collect()
}

#[test]
fn every_command_with_json_is_in_the_reference_and_the_others_are_named() {
    let without = section(PAGE, "## Commands without JSON");
    for (command, help) in help() {
        let is_group = help.contains("\nCommands:\n");
        let has_json = help.contains("--json");
        let name = command.trim_start_matches("barewire ").to_owned();
        let is_described = PAGE.contains(&format!("`barewire {name}"));
        if has_json {
            assert!(is_described, "json.md lacks `barewire {name}`");
        } else if !is_group && !name.starts_with("wire encode") {
            assert!(
                without.contains(&format!("`{name}`")),
                "json.md: `{name}` has no --json"
            );
        }
    }
}
