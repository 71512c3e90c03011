//! `barewire daq`, as it is used: a configuration, a run, its file, and what is said of faults.

#[path = "common/wait.rs"]
mod wait;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("barewire-cli-daq-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn barewire(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.current_dir(&self.0).arg("daq").args(arguments);
        command.output().expect("it starts")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_configuration_is_written_run_and_its_file_verified() {
    let folder = Folder::new("run");
    assert!(folder.barewire(&["init", "daq.toml"]).status.success());
    // It does not write over anything.
    assert_eq!(
        folder.barewire(&["init", "daq.toml"]).status.code(),
        Some(2)
    );
    let file = folder.0.join("daq.toml");
    let settings = std::fs::read_to_string(&file).expect("written");
    let settings = settings
        .replace("\"daq\"", &format!("\"daq-cli-{}\"", std::process::id()))
        .replace("events = 100000", "events = 200")
        .replace("kind = \"discard\"", "kind = \"file\"");
    std::fs::write(&file, settings).expect("written");
    let run = folder.barewire(&["run", "daq.toml", "--quiet"]);
    let ledger = text(&run.stdout);
    assert_eq!(run.status.code(), Some(0), "{ledger}{}", text(&run.stderr));
    assert!(ledger.contains("triggered 200 = built 200"), "{ledger}");
    let record = "run-000001-builder-00-000.evb";
    let check = folder.barewire(&["check", record, "--config", "daq.toml"]);
    assert_eq!(check.status.code(), Some(0));
    let said = text(&check.stdout);
    assert!(
        said.contains("200 events built, 0 incomplete, 400 fragments, 409600 bytes; indexed"),
        "{said}"
    );
    assert!(said.contains(", seed 1\n"), "{said}");
    let check = folder.barewire(&["check", record, "--settings"]);
    let shown = text(&check.stdout).replace("\n    ", "\n");
    let settings = std::fs::read_to_string(folder.0.join("daq.toml")).expect("the settings");
    assert!(shown.contains(settings.trim_end()), "{shown}");
    let convert = folder.barewire(&["convert", record]);
    assert_eq!(convert.status.code(), Some(0), "{}", text(&convert.stderr));
    assert!(text(&convert.stdout).ends_with(": 200 events\n"));
    let converted = std::fs::read(folder.0.join(record).with_extension("h5")).expect("a file");
    assert!(converted.starts_with(b"\x89HDF\r\n\x1a\n"));
    // It does not write over anything.
    assert_eq!(folder.barewire(&["convert", record]).status.code(), Some(2));
    hdf5_files_are_checked_as_recordings_are(&folder, record);
    let path = folder.0.join(record);
    let good = std::fs::read(&path).expect("the file");
    damaged_files_are_read_behind_the_damage(&folder, record, &good);
    many_files_are_checked_at_once(&folder, record, &good);
}

fn hdf5_files_are_checked_as_recordings_are(folder: &Folder, record: &str) {
    let converted = "run-000001-builder-00-000.h5";
    let said_of = |file: &str| {
        let check = folder.barewire(&["check", file, "--settings", "--config", "daq.toml"]);
        assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
        // All but the name: counts, sum of the contents, seed, version, time, configuration.
        text(&check.stdout).replacen(file, "", 1)
    };
    assert_eq!(said_of(converted), said_of(record));
    assert!(said_of(converted).contains(": 200 events built"));

    let good = std::fs::read(folder.0.join(converted)).expect("a file");
    let fragment = good.windows(8).position(|it| it == b"source-1");
    let mut group = good[..fragment.expect("a link")].windows(4);
    let group = group.rposition(|it| it == b"OHDR").expect("a group");
    let mut bad = good.clone();
    bad[group + 20] ^= 1;
    std::fs::write(folder.0.join("bad.h5"), &bad).expect("written");
    let check = folder.barewire(&["check", "bad.h5"]);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(said.contains(": 199 events built"), "{said}");
    assert!(said.contains(&format!("\n    byte {group}: ")), "{said}");
    assert!(
        said.contains("1 events of the index were not found"),
        "{said}"
    );
    std::fs::write(folder.0.join("bad.h5"), &good[..good.len() - 1]).expect("written");
    let check = folder.barewire(&["check", "bad.h5"]);
    assert_eq!(check.status.code(), Some(2));
    let said = text(&check.stderr);
    assert!(said.contains("the file is cut"), "{said}");
    std::fs::remove_file(folder.0.join("bad.h5")).expect("a file");
}

/// Bytes before the records, but for the texts that say of which run they are.
const FILE_HEAD_BYTES: usize = 32 + 48;
/// Of a file of 200 events with two fragments of 1 KiB each: its index follows its records.
const INDEX_BYTES: usize = 16 + 200 * 16 + 24;
const RECORD_BYTES: usize = 32 + 2 * (24 + 1024);

fn damaged_files_are_read_behind_the_damage(folder: &Folder, record: &str, good: &[u8]) {
    // In the data of the first fragment of the first record; in the head of the third.
    let first = good.windows(4).position(|it| it == b"EVNT");
    let first = first.expect("a record");
    let mut bytes = good.to_vec();
    bytes[first + 968] ^= 1;
    bytes[first + 2 * RECORD_BYTES + 9] ^= 1;
    std::fs::write(folder.0.join("bad.evb"), &bytes).expect("written");
    let check = folder.barewire(&["check", "bad.evb", "--config", "daq.toml"]);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{said}");
    let sums = "198 events built, 0 incomplete, 1 damaged, 397 fragments, 406528 bytes; indexed";
    assert!(said.contains(sums), "{said}");
    assert!(!said.contains("stopped"), "{said}");
    assert!(
        said.contains("2 damaged stretches with 3176 bytes"),
        "{said}"
    );
    let one = format!("\n    byte {}: 1048 bytes, event ", first + 32);
    assert!(said.contains(&one), "{said}");
    let second = format!(
        "\n    byte {}: {RECORD_BYTES} bytes\n",
        first + 2 * RECORD_BYTES
    );
    assert!(said.contains(&second), "{said}");
    assert!(
        said.contains("  1 events of the index were not found"),
        "{said}"
    );

    let convert = folder.barewire(&["convert", "bad.evb"]);
    let said = text(&convert.stdout);
    assert_eq!(convert.status.code(), Some(1), "{said}");
    assert!(said.contains(": 199 events\n"), "{said}");
    assert!(
        said.contains("2 damaged stretches with 3176 bytes"),
        "{said}"
    );
    let converted = std::fs::read(folder.0.join("bad.h5")).expect("a file");
    assert!(converted.starts_with(b"\x89HDF\r\n\x1a\n"));

    // Cut as by a killed writer: nothing is damaged, and nothing fails.
    let cut = &good[..good.len() - INDEX_BYTES - 100];
    std::fs::write(folder.0.join("cut.evb"), cut).expect("written");
    let check = folder.barewire(&["check", "cut.evb"]);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{said}");
    assert!(
        said.contains("199 events built, 0 incomplete, 398 fragments"),
        "{said}"
    );
    assert!(said.contains("no index: its writer was stopped"), "{said}");
    std::fs::write(folder.0.join(record), good).expect("written");
}

fn many_files_are_checked_at_once(folder: &Folder, record: &str, good: &[u8]) {
    let sum_of = |file: &str| {
        let said = text(&folder.barewire(&["check", file]).stdout);
        let (_, sum) = said.split_once("contents ").expect("a sum");
        u64::from_str_radix(&sum[..16], 16).expect("hexadecimal digits")
    };
    let total = sum_of(record).wrapping_add(sum_of("cut.evb"));
    let two = folder.barewire(&["check", record, "cut.evb"]);
    assert_eq!(two.status.code(), Some(0));
    let line = format!(
        "2 files: 399 events built, 0 incomplete, 798 fragments, 817152 bytes; contents {total:016x}\n"
    );
    assert!(text(&two.stdout).ends_with(&line), "{}", text(&two.stdout));

    // The worst file gives the exit status, and none keeps the others from being read.
    std::fs::write(folder.0.join("foreign.evb"), &good[100..]).expect("written");
    let all = ["check", "foreign.evb", "none.evb", "bad.evb", record];
    let checked = folder.barewire(&all);
    assert_eq!(checked.status.code(), Some(2));
    assert_eq!(text(&checked.stderr).lines().count(), 2);
    let json = folder.barewire(&[&all[..], &["--json"]].concat());
    assert_eq!(json.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let states = ["unreadable", "unreadable", "faulty", "good"];
    for (at, state) in states.iter().enumerate() {
        assert_eq!(document["files"][at]["state"], *state, "{document}");
    }
    let bad = &document["files"][2];
    assert_eq!(bad["damaged"], 1);
    assert_eq!(bad["lost"], 1);
    let settings = std::fs::read_to_string(folder.0.join("daq.toml")).expect("the settings");
    assert_eq!(bad["about"]["config"], settings);
    let first = FILE_HEAD_BYTES + settings.len() + env!("CARGO_PKG_VERSION").len();
    assert_eq!(bad["damage"][0]["at"], first + 32);
    assert_eq!(bad["index"], "right");
    assert_eq!(document["totals"]["built"], 398);
    let sum = sum_of(record).wrapping_add(sum_of("bad.evb"));
    assert_eq!(document["totals"]["contents"], format!("{sum:016x}"));
    assert_eq!(folder.barewire(&["check"]).status.code(), Some(2));
}

#[test]
fn a_scan_gives_a_row_for_each_value() {
    let folder = Folder::new("scan");
    let name = format!("daq-scan-{}", std::process::id());
    let settings = format!("[run]\nname = \"{name}\"\nevents = 100\n");
    std::fs::write(folder.0.join("a.toml"), settings).expect("written");
    let over = [
        "--over",
        "fragment_size=1 KiB, 4 KiB",
        "--runs",
        "2",
        "-o",
        "a.csv",
        "-o",
        "a.html",
        "-o",
        "a.svg",
    ];
    let scan = folder.barewire(&[&["scan", "a.toml"][..], &over].concat());
    assert!(scan.status.success(), "{}", text(&scan.stderr));
    let csv = std::fs::read_to_string(folder.0.join("a.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let page = std::fs::read_to_string(folder.0.join("a.html")).expect("a page");
    // Bandwidth, event rate, processor time, building time.
    assert_eq!(page.matches("<figure>").count(), 4, "{page}");
    let drawing = std::fs::read_to_string(folder.0.join("a.svg")).expect("a drawing");
    assert_eq!(drawing.matches("<svg ").count(), 5, "{drawing}");
    let wrong = folder.barewire(&["scan", "a.toml", "--over", "run.seed=1", "-o", "a.txt"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_prediction_stands_beside_the_measurement() {
    let folder = Folder::new("predict");
    let name = format!("daq-predict-{}", std::process::id());
    let settings =
        format!("[run]\nname = \"{name}\"\nevents = 100\n[builder]\ntimeout = \"20 s\"\n");
    std::fs::write(folder.0.join("a.toml"), settings).expect("written");
    let over = ["--over", "fragment_size=256 KiB, 1 MiB"];
    let scan = ["scan", "a.toml", "--runs", "1", "-o", "a.json"];
    let scan = folder.barewire(&[&scan[..], &over].concat());
    assert!(scan.status.success(), "{}", text(&scan.stderr));
    let predict = ["predict", "a.toml", "--with", "modern-pc", "-o", "a.html"];
    for measured in [&["--measured", "a.json"][..], &["--measure", "1"]] {
        let predict = folder.barewire(&[&predict[..], &over, measured].concat());
        let said = text(&predict.stdout);
        assert!(predict.status.success(), "{}", text(&predict.stderr));
        assert!(
            said.contains("Of 2 shapes, the predicted bandwidth"),
            "{said}"
        );
        assert!(said.contains("Not in the model"), "{said}");
        let page = std::fs::read_to_string(folder.0.join("a.html")).expect("a page");
        assert!(page.contains("built, predicted, built, measured"), "{page}");
    }
    let alone = folder.barewire(&[&predict[..], &over].concat());
    assert!(!text(&alone.stdout).contains("measured,"));
    let wrong = folder.barewire(&["predict", "a.toml", "--over", "run.sed=1"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn figures_are_json_with_percentiles() {
    let folder = Folder::new("json");
    let name = format!("daq-json-{}", std::process::id());
    let settings = format!("[run]\nname = \"{name}\"\nevents = 100\n");
    std::fs::write(folder.0.join("a.toml"), settings).expect("written");
    let run = folder.barewire(&["run", "a.toml", "--quiet", "--json"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let said = text(&run.stdout);
    assert!(
        said.contains("\"event_bytes\":[2048,2048,2048,2048,2048]"),
        "{said}"
    );
    assert!(said.contains("\"fragment_bytes\":[1024,"), "{said}");
    assert!(said.contains("\"building_ns\":["), "{said}");
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(
        (&json["verdict"], &json["run"]),
        (&"good".into(), &1.into())
    );
    assert_eq!(
        (&json["events_triggered"], &json["events_built"]),
        (&100.into(), &100.into())
    );
    assert_eq!(json["ledger"]["events"]["built"], 100);
    let lives = |kind: &str| json["ledger"][kind].as_array().map(Vec::len);
    assert_eq!((lives("sources"), lives("builders")), (Some(2), Some(1)));
    assert_eq!(json["ledger"]["sources"][1]["sums"]["sent"], 100);
    let builder = &json["ledger"]["builders"][0];
    assert_eq!(builder["sums"]["events_built"], 100);
    assert_eq!(builder["missing_by_source"], serde_json::json!([0, 0]));
}

/// Faulty fragments on purpose are no loss, but they are told.
#[test]
fn deliberate_faults_are_reported() {
    let folder = Folder::new("faulty");
    let name = format!("daq-faulty-{}", std::process::id());
    let settings = format!(
        "[run]\nname = \"{name}\"\nevents = 100\n[builder]\ntimeout = \"300 ms\"\n[faults]\ncheck = 0.1\n"
    );
    std::fs::write(folder.0.join("a.toml"), settings).expect("written");
    let run = folder.barewire(&["run", "a.toml", "--quiet", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(run.status.code(), Some(0), "{json}");
    assert_eq!(json["verdict"], "good");
    let told = json["on_purpose"].as_str().expect("what was lost");
    assert!(told.contains("with a wrong check code"), "{told}");
    let sum = |kind: &str, name: &str| -> u64 {
        let lives = json["ledger"][kind].as_array().expect("lives").iter();
        lives.filter_map(|it| it["sums"][name].as_u64()).sum()
    };
    assert!(sum("sources", "faults_check") > 0);
    assert_eq!(sum("sources", "faults_check"), sum("builders", "corrupt"));
}

/// What a run says when it waits for an operator: an order that is refused is told by the status.
/// A run that ends with the test: its parts end with it.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_order_that_is_refused_is_told_by_the_status() {
    let folder = Folder::new("order");
    let settings = format!(
        "[run]\nname = \"daq-order-{}\"\nevents = 0\n[parts]\npatience = \"60 s\"\n",
        std::process::id()
    );
    std::fs::write(folder.0.join("a.toml"), settings).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.current_dir(&folder.0);
    command.args(["daq", "run", "a.toml", "--quiet", "--hold"]);
    let mut run = Run(command.stdout(Stdio::null()).spawn().expect("it starts"));
    let order = |what: &str| folder.barewire(&["order", "a.toml", what]);
    let accepted = |what: &str| {
        let answer = order(what);
        let said = || format!("{what}: {}{}", text(&answer.stdout), text(&answer.stderr));
        (answer.status.code() == Some(0))
            .then_some(())
            .ok_or_else(said)
    };
    wait::until(Duration::from_secs(60), || accepted("start"));
    let refused = order("start");
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stdout));
    assert!(
        text(&refused.stderr).contains("refuses: "),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(accepted("status"), Ok(()));
    assert_eq!(order("quit").status.code(), Some(1), "it runs");
    assert_eq!(accepted("abort"), Ok(()));
    wait::until(Duration::from_secs(60), || accepted("quit"));
    assert_eq!(run.0.wait().expect("a child").code(), Some(4));
}

#[test]
fn a_program_whose_output_nobody_reads_ends_quietly() {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(["daq", "init"]).stdout(writer);
    let output = command.stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(text(&output.stderr), "");
}

/// A port of this host that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("it is bound").port()
}

#[test]
fn addresses_that_can_not_be_used_are_told_at_once_and_names_of_hosts_work() {
    let folder = Folder::new("addresses");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let taken = taken
        .local_addr()
        .map(|it| (taken, it))
        .expect("it is bound");
    let taken_at = taken.1.to_string();
    let free = || format!("127.0.0.1:{}", free_port());
    // So long a name needs no name server to be unknown.
    let unknown = format!("{}:7100", "x".repeat(70));
    let begin = std::time::Instant::now();
    for (key, said, tcp, prometheus) in [
        (
            "tcp.manager",
            "another program listens there",
            [&taken_at, &free()],
            String::new(),
        ),
        (
            "tcp.builders",
            "another program listens there",
            [&free(), &taken_at],
            String::new(),
        ),
        // From a network for documentation: nobody has it.
        (
            "tcp.builders",
            "not an address of this host",
            [&free(), &"192.0.2.1:7100".to_owned()],
            String::new(),
        ),
        (
            "monitor.prometheus",
            "another program listens there",
            [&free(), &free()],
            taken_at.clone(),
        ),
        (
            "tcp.manager",
            ": failed to lookup address",
            [&unknown, &free()],
            String::new(),
        ),
    ] {
        let settings = format!(
            "[run]\ntransport = \"tcp\"\nevents = 10\n[tcp]\nmanager = \"{}\"\nbuilders = \"{}\"\n\
             [monitor]\nprometheus = \"{prometheus}\"\n",
            tcp[0], tcp[1]
        );
        std::fs::write(folder.0.join("a.toml"), settings).expect("written");
        let run = folder.barewire(&["run", "a.toml", "--quiet"]);
        assert_eq!(run.status.code(), Some(2), "{}", text(&run.stderr));
        let all = text(&run.stdout);
        assert!(
            all.contains(&format!("{key} = \"")) && all.contains(said),
            "{key}: {all}"
        );
    }
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );

    let settings = format!(
        "[run]\ntransport = \"tcp\"\nevents = 10\n[tcp]\nmanager = \"localhost:{}\"\n\
         builders = \"localhost:{}\"\n[builder]\ntimeout = \"20 s\"\n",
        free_port(),
        free_port()
    );
    std::fs::write(folder.0.join("b.toml"), settings).expect("written");
    let run = folder.barewire(&["run", "b.toml", "--quiet"]);
    assert_eq!(
        run.status.code(),
        Some(0),
        "{}{}",
        text(&run.stdout),
        text(&run.stderr)
    );
}

/// Sources that find no room at the end of a run have counted a fragment as sent that is not on its way.
#[test]
fn a_run_that_ends_while_fragments_are_late_balances() {
    let folder = Folder::new("late");
    assert!(folder.barewire(&["init", "daq.toml"]).status.success());
    let file = folder.0.join("daq.toml");
    let settings = std::fs::read_to_string(&file).expect("written");
    let settings = settings
        .replace("\"daq\"", &format!("\"daq-late-{}\"", std::process::id()))
        .replace("events = 100000", "events = 2000")
        .replace("size = \"1 KiB\"", "size = \"32 KiB\"")
        .replace("timeout = \"1 s\"", "timeout = \"2 ms\"")
        .replace("control = \"credits\"", "control = \"none\"");
    std::fs::write(&file, settings).expect("written");
    for _ in 0..3 {
        let run = folder.barewire(&["run", "daq.toml", "--quiet", "--json"]);
        let ledger: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        assert_eq!(ledger["verdict"], "lost", "{ledger}");
        assert_eq!(run.status.code(), Some(5), "{ledger}");
        assert_ne!(
            ledger["ledger"]["builders"][0]["sums"]["late"], 0,
            "{ledger}"
        );
    }
}

#[test]
fn errors_name_their_lines() {
    let folder = Folder::new("faults");
    std::fs::write(
        folder.0.join("a.toml"),
        "[run]\nevnts = 3\n\n[flow]\nrate = 5\n",
    )
    .expect("written");
    let run = folder.barewire(&["run", "a.toml"]);
    assert_eq!(run.status.code(), Some(2));
    assert_eq!(
        text(&run.stderr),
        "barewire: 2 errors:\n  \
         a.toml:2: run.evnts = 3: no such key; did you mean `events`?\n  \
         a.toml:5: flow.rate = 5: expected a rate with its unit, such as \"1 Gbit/s\"\n"
    );
    let missing = folder.barewire(&["run", "none.toml"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn sources_of_the_users_are_started_with_configuration_and_number() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("own");
    let program = folder.0.join("source.sh");
    std::fs::write(
        &program,
        "#!/bin/sh\necho \"$@\" >\"args-$2\"\nexec sleep 20\n",
    )
    .expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("allowed");
    let settings = format!(
        "[run]\nname = \"daq-cli-own-{}\"\n[source]\nkind = \"own\"\nprogram = {program:?}\n\
         [parts]\npatience = \"1 s\"\n",
        std::process::id()
    );
    std::fs::write(folder.0.join("daq.toml"), settings).expect("written");
    let run = folder.barewire(&["run", "daq.toml", "--quiet"]);
    assert_eq!(run.status.code(), Some(2), "{}", text(&run.stdout));
    assert!(
        text(&run.stderr).contains("source 0, source 1"),
        "{}",
        text(&run.stderr)
    );
    for number in 0..2 {
        let args = std::fs::read_to_string(folder.0.join(format!("args-{number}")));
        assert_eq!(args.expect("started"), format!("daq.toml {number}\n"));
    }
    let refused = folder.barewire(&["source", "daq.toml"]);
    assert!(text(&refused.stderr).contains("programs of their own"));
}
