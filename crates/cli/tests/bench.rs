//! `barewire bench` as a user runs it: tiny runs of every test, the reports they write,
//! mistakes in the arguments, and the death of the server process.

#[path = "common/wait.rs"]
mod wait;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Runs spin on two processors; more than one at a time would only wait for each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("bench")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts")
}

/// A file of this test run alone, in a directory that cargo keeps for us.
fn file(name: &str) -> PathBuf {
    let name = format!("{}-{name}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TINY: [&str; 6] = ["--duration-ms", "2", "--samples", "2", "--probe-ms", "1"];

/// Runs, checks the form of the JSON, and gives it.
fn run(name: &str, arguments: &[&str]) -> Value {
    let _alone = alone();
    let json = file(&format!("{name}.json"));
    let json_path = json.to_str().unwrap();
    let arguments = [arguments, &TINY, &["--quiet", "--json", json_path]].concat();
    let output = bench(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    for field in ["processor", "kernel", "placement", "rust_version", "date"] {
        assert!(value["environment"][field].is_string(), "{field}");
    }
    for row in value["results"].as_array().unwrap() {
        assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["min"].as_f64() <= row["max"].as_f64(), "{row}");
        assert!(row["samples"].as_u64().unwrap() > 0, "{row}");
        // There is no cache line between two hosts.
        let has_probe = !arguments.contains(&"--peer");
        assert_eq!(row["band_ns"].as_f64().unwrap() > 0.0, has_probe, "{row}");
        for field in ["p99", "p999", "ratio_to_limit"] {
            assert!(row[field].is_number() || row[field].is_null(), "{row}");
        }
    }
    value
}

/// Every transport has a row, or the run says why not (a noisy machine may drop all
/// samples of a case; that is no failure).
fn expect(value: &Value, test: &str, transports: &[&str]) {
    let rows = value["results"].as_array().unwrap();
    let missing = value["environment"]["not_measured"].to_string();
    for transport in transports {
        let found = rows
            .iter()
            .any(|row| row["test"] == test && row["transport"] == *transport);
        let excused = missing.contains(&format!("{test} {transport}"));
        assert!(found || excused, "{test} over {transport}: {value:#}");
    }
}

#[test]
fn round_trips_over_the_kernel() {
    let arguments = ["rtt", "--transport", "tcp,unix,pipe", "--size", "8,4096"];
    let value = run("rtt", &arguments);
    expect(&value, "rtt", &["limit", "tcp", "unix", "pipe"]);
}

#[test]
fn streams_over_the_kernel() {
    let arguments = [
        "stream",
        "--transport",
        "tcp,unix,pipe",
        "--size",
        "64,65536",
    ];
    let value = run("stream", &arguments);
    expect(&value, "stream", &["limit", "tcp", "unix", "pipe"]);
}

#[test]
fn transactions_over_the_kernel() {
    let arguments = [
        "transactions",
        "--transport",
        "tcp,unix,pipe",
        "--connections",
        "1,50",
        "--waiting",
        "both",
    ];
    let value = run("transactions", &arguments);
    expect(&value, "transactions", &["limit", "tcp", "unix", "pipe"]);
}

#[test]
fn wake_ups_over_the_kernel() {
    let value = run("wake", &["wake", "--transport", "tcp,unix,pipe"]);
    expect(&value, "wake", &["limit", "tcp", "unix", "pipe"]);
}

#[test]
fn all_reports_are_written() {
    let _alone = alone();
    let (csv, html) = (file("r.csv"), file("r.html"));
    let arguments = [
        "rtt",
        "--transport",
        "pipe",
        "--size",
        "64",
        "--no-pin",
        "--csv",
    ];
    let files = [csv.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let output = bench(&[&arguments[..], &files, &TINY].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not pinned"));
    let table = text(&output.stdout);
    assert!(
        table.contains("Round trip") && table.contains("Bands"),
        "{table}"
    );
    assert!(
        std::fs::read_to_string(&csv)
            .unwrap()
            .starts_with("test,transport,")
    );
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    std::fs::remove_file(csv).unwrap();
    std::fs::remove_file(html).unwrap();
}

#[test]
fn mistakes_are_explained() {
    for (arguments, words) in [
        (&["rtt", "--size", "3"][..], "from 8 to"),
        (&["rtt", "--transport", "pigeon"], "possible values"),
        (&["swim"], "possible values"),
        (&["rtt", "--cpus", "0,0"], "different processors"),
        (&["rtt", "--cpus", "0"], "two processors"),
        (&["rtt", "--cpus", "0,99999"], "99999"),
        (&["transactions", "--connections", "0"], "from 1 to"),
        (&["rtt", "--duration-ms", "0"], "1..=10000"),
        (
            &["rtt", "--json", "/nowhere/at/all.json"],
            "/nowhere/at/all.json",
        ),
        (
            &[
                "transactions",
                "--transport",
                "limit",
                "--waiting",
                "blocking",
            ],
            "nothing to measure",
        ),
    ] {
        let output = bench(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn the_help_explains_limits_and_bands() {
    let said = text(&bench(&["--help"]).stdout);
    for word in ["limit", "band", "Examples", "--quick", "docs/bench.md"] {
        assert!(said.contains(word), "{word}");
    }
}

#[test]
fn the_server_is_not_started_by_hand() {
    let output = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("bench-server")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("not by hand"));
}

/// The child of a process, found by the fourth field of /proc/PID/stat.
fn child_of(parent: u32) -> Option<i32> {
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        if after_name.split(' ').nth(1) == Some(&parent.to_string()) {
            return Some(pid);
        }
    }
    None
}

#[test]
fn the_death_of_the_server_is_reported() {
    let _alone = alone();
    for waiting in ["polling", "blocking"] {
        let parent = Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(["bench", "rtt", "--transport", "limit", "--size", "8"])
            .args([
                "--duration-ms",
                "5000",
                "--samples",
                "20",
                "--waiting",
                waiting,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let child = wait::until(Duration::from_secs(10), || {
            child_of(parent.id()).ok_or("no server")
        });
        // Well into the first sample.
        std::thread::sleep(Duration::from_millis(400));
        let kill = barewire_sys::process::Signal::Kill;
        barewire_sys::process::send_signal(child, kill).unwrap();
        let output = parent.wait_with_output().unwrap();
        assert!(!output.status.success());
        let said = text(&output.stderr);
        assert!(said.contains("died"), "{waiting}: {said}");
        assert!(
            started.elapsed() < Duration::from_secs(15),
            "{waiting}: too late"
        );
    }
}

#[test]
fn barewire_in_all_its_ways() {
    let with = |name, test, size: &str| {
        let arguments = [test, "--transport", "barewire", "--size", size];
        let value = run(name, &arguments);
        expect(&value, test, &["limit", "barewire"]);
        value
    };
    // On a busy machine all samples of a case may have to be dropped; then it is named.
    let has = |value: &Value, test: &str, variant: &str| {
        let rows = value["results"].as_array().unwrap().iter();
        let mut own = rows.filter(|row| row["transport"] == "barewire");
        let dropped = value["environment"]["not_measured"].to_string();
        let named = dropped.contains(&format!("{test} barewire {variant} "));
        assert!(
            own.any(|row| row["variant"] == variant) || named,
            "{variant} is missing: {dropped}"
        );
    };
    let value = with("own-rtt", "rtt", "8,64,4096,65536");
    for variant in ["event-queue", "message", "tripwire"] {
        has(&value, "rtt", variant);
    }
    let value = with("own-stream", "stream", "8,512,100000");
    for variant in ["batch", "message", "stream", "stream-8k"] {
        has(&value, "stream", variant);
    }
    let halves = value["half_peaks"].as_array().unwrap();
    assert!(halves.iter().all(|half| half["size_bytes"].is_number()));
    let value = run("own-wake", &["wake", "--transport", "barewire"]);
    expect(&value, "wake", &["limit", "barewire"]);
}

#[test]
fn transactions_over_barewire() {
    for (name, outstanding) in [("own-few", "1"), ("own-most", "64")] {
        let arguments = [
            "transactions",
            "--transport",
            "barewire",
            "--connections",
            "1,300",
            "--outstanding",
            outstanding,
            "--waiting",
            "both",
        ];
        let value = run(name, &arguments);
        expect(&value, "transactions", &["limit", "barewire"]);
    }
}

/// Rows of links between hosts say how they compare with TCP.
fn expect_beside_tcp(value: &Value, test: &str) {
    expect(value, test, &["hosts", "tcp"]);
    let rows = value["results"].as_array().unwrap();
    let has_tcp = |like: &Value| {
        let same = |key: &str, it: &Value| it[key] == like[key];
        rows.iter().any(|it| {
            let keys = ["test", "size_bytes", "waiting", "connections"];
            it["transport"] == "tcp" && keys.iter().all(|key| same(key, it))
        })
    };
    for row in rows {
        let is_compared = row["transport"] == "hosts" && has_tcp(row);
        assert_eq!(row["ratio_to_tcp"].is_number(), is_compared, "{row}");
    }
}

#[test]
fn links_between_hosts_over_the_loopback_interface() {
    let arguments = [
        "--transport",
        "hosts",
        "--size",
        "8,4096",
        "--waiting",
        "both",
    ];
    let value = run("hosts-rtt", &[&["rtt"][..], &arguments].concat());
    expect_beside_tcp(&value, "rtt");
    expect(&value, "rtt", &["limit"]);
    let value = run("hosts-stream", &[&["stream"][..], &arguments].concat());
    expect_beside_tcp(&value, "stream");
    let arguments = [
        "transactions",
        "--transport",
        "hosts",
        "--connections",
        "1,200",
    ];
    let value = run("hosts-many", &arguments);
    expect_beside_tcp(&value, "transactions");
}

#[test]
fn links_between_two_network_namespaces() {
    const TEST: &str = "links_between_two_network_namespaces";
    if let Err(error) = barewire_sys::lan::Lan::pair() {
        return skip(TEST, &format!("network namespaces need root: {error}"));
    }
    let value = run("namespaces", &["rtt", "--namespaces", "--size", "8,4096"]);
    expect_beside_tcp(&value, "rtt");
    assert!(value["environment"]["path"].to_string().contains("veth"));
    let transports = value["results"].as_array().unwrap().iter();
    assert!(transports.clone().all(|row| row["transport"] != "limit"));
    // Without root it says what it needs.
    let mut other = Command::new(env!("CARGO_BIN_EXE_barewire"));
    other
        .args(["bench", "rtt", "--namespaces"])
        .stdin(Stdio::null());
    match other.uid(65_534).gid(65_534).output() {
        Ok(output) => {
            let said = text(&output.stderr);
            assert!(
                !output.status.success() && said.contains("needs root"),
                "{said}"
            );
        }
        Err(error) => skip(
            TEST,
            &format!("other users cannot start the command here: {error}"),
        ),
    }
}

/// The network namespaces that processes are in.
fn namespaces() -> HashSet<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let of = |process: std::fs::DirEntry| std::fs::read_link(process.path().join("ns/net")).ok();
    processes.filter_map(of).collect()
}

#[test]
fn namespaces_go_with_a_run_that_is_killed() {
    const TEST: &str = "namespaces_go_with_a_run_that_is_killed";
    if let Err(error) = barewire_sys::lan::Lan::pair() {
        return skip(TEST, &format!("network namespaces need root: {error}"));
    }
    let _alone = alone();
    let mut run = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args([
            "bench",
            "rtt",
            "--namespaces",
            "--size",
            "8",
            "--duration-ms",
            "5000",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let in_which = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net"));
    let own = in_which(std::process::id()).unwrap();
    let server = wait::until(Duration::from_secs(20), || {
        let server = child_of(run.id()).ok_or("no server")?;
        match [in_which(run.id()), in_which(server as u32)] {
            [Ok(client), Ok(server)] if client != own && server != own => Ok([client, server]),
            _ => Err("not in namespaces of their own"),
        }
    });
    run.kill().unwrap();
    run.wait().unwrap();
    wait::until(Duration::from_secs(20), || {
        let left = namespaces();
        let is_left = server.iter().any(|made| left.contains(made));
        if is_left {
            Err("a process is left in one of them")
        } else {
            Ok(())
        }
    });
}

#[test]
fn a_server_on_another_host_serves_and_survives_its_clients() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args(["bench", "serve", "--listen", "127.0.0.1:0", "--quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let address = said.trim().rsplit(' ').next().unwrap().to_owned();
    // A stranger, and one who asks for what would use up the host.
    let mut stranger = TcpStream::connect(&address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    let arguments = ["rtt", "--peer", &address, "--size", "8,4096"];
    let value = run("peer", &arguments);
    expect_beside_tcp(&value, "rtt");
    let _alone = alone();
    for (arguments, words) in [
        (
            ["rtt", "--peer", &address, "--transport", "pipe"],
            "between hosts there are",
        ),
        (
            ["rtt", "--peer", &address, "--size", "99999999"],
            "from 8 to",
        ),
        (
            ["rtt", "--peer", "127.0.0.1:1", "--size", "8"],
            "connecting to 127.0.0.1:1",
        ),
    ] {
        let output = bench(&arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Says that a test could not do what it is for.
fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// A line for each size in the table and in the file; a size that cannot be is refused.
#[test]
fn copies_are_measured_by_size() {
    let _alone = alone();
    let json = file("copy.json");
    let path = json.to_str().unwrap();
    let output = bench(&[
        "copy",
        "--size",
        "64,65536",
        "--samples",
        "2",
        "--json",
        path,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 3);
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    let results = value["results"].as_array().unwrap();
    let sizes: Vec<_> = results
        .iter()
        .map(|row| row["size_bytes"].as_u64())
        .collect();
    assert_eq!(sizes, [Some(64), Some(65_536)]);
    for row in results {
        let of = |key: &str| row[key].as_f64().unwrap();
        assert!(of("copy_ns") > 0.0, "{row}");
        assert!(of("rate_mbit_s_least") <= of("rate_mbit_s"), "{row}");
        assert!(of("rate_mbit_s") <= of("rate_mbit_s_most"), "{row}");
    }
    for size in ["0", "2000000000"] {
        let output = bench(&["copy", "--size", size]);
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains("--size"),
            "{}",
            text(&output.stderr)
        );
    }
}
