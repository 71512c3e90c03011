//! `barewire bench programs` as a user runs it: tiny runs of the micro-benchmarks, plain and
//! preloaded. What comes out must be sane; how fast it was is not looked at.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use common::barewire;
use serde_json::Value;

/// Runs spin on all processors: one at a time.
fn programs(arguments: &[&str]) -> Output {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    barewire(&["bench", "programs"])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs one scenario; gives its figures, whose common fields are checked.
fn figures(scenario: &str, more: &[&str]) -> Vec<Value> {
    let json = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("programs-{}-{scenario}.json", std::process::id()));
    let tiny = ["--quick", "--quiet", "--rounds", "2"];
    let duration_ms = match scenario {
        // On a busy machine two ends take longer than that to find each other.
        "ping-pong" | "blocking" => "300",
        _ => "20",
    };
    let tiny = [&tiny[..], &["--duration-ms", duration_ms]].concat();
    let which = ["--only", scenario, "--json", json.to_str().unwrap()];
    let output = programs(&[&tiny, &which[..], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let value: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    assert_eq!(value["failed"], Value::Array(Vec::new()));
    let figures = value["figures"].as_array().unwrap().clone();
    assert!(!figures.is_empty());
    for figure in &figures {
        assert_eq!(figure["scenario"], scenario);
        for side in ["plain", "preloaded"] {
            let values = figure[side]["values"].as_array().unwrap();
            // The stream is to tell a few percent, and has more rounds.
            let is_long = scenario == "alone" && figure["unit"] == "bytes/s";
            let rounds = if is_long { 16 } else { 2 };
            assert_eq!(values.len(), rounds, "{figure}");
            assert!(
                values.iter().all(|it| it.as_f64().unwrap() > 0.0),
                "{figure}"
            );
        }
    }
    figures
}

fn is_below(figure: &Value, side: &str, most: f64) -> bool {
    let values = figure[side]["values"].as_array().unwrap();
    values.iter().all(|it| it.as_f64().unwrap() < most)
}

/// No machine is so slow that a round trip takes a second.
const SECOND_NS: f64 = 1e9;

#[test]
fn round_trips_are_accelerated() {
    for scenario in ["ping-pong", "blocking"] {
        let figures = figures(scenario, &[]);
        for figure in &figures {
            assert_eq!(figure["is_upgraded"], true, "{figure}");
            for side in ["plain", "preloaded"] {
                assert!(is_below(figure, side, SECOND_NS), "{figure}");
            }
        }
        if scenario == "ping-pong" {
            let bare = figures[0]["bare"]["values"].as_array().unwrap();
            assert!(bare.len() == 2 && bare[0].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn streams_of_every_size_are_accelerated() {
    let figures = figures("stream", &[]);
    assert!(figures.len() >= 4);
    for figure in &figures {
        assert_eq!(figure["is_upgraded"], true, "{figure}");
        // Nothing moves a tenth of a petabyte per second.
        assert!(is_below(figure, "preloaded", 1e14), "{figure}");
    }
}

#[test]
fn a_server_alone_meets_nobody() {
    for figure in figures("alone", &[]) {
        assert_eq!(figure["is_upgraded"], false, "{figure}");
    }
}

#[test]
fn short_lives_are_measured_beside_busy_programs() {
    let names = |figures: &[Value]| -> Vec<String> {
        let name = |figure: &Value| figure["name"].as_str().unwrap().to_owned();
        figures.iter().map(name).collect()
    };
    let short = names(&figures("short", &["--busy-programs", "1"]));
    assert_eq!(short.len(), 4);
    assert!(short[3].ends_with("by a forked child"), "{short:?}");
    let children = names(&figures("children", &[]));
    assert_eq!(children, ["fork + end", "start of a program"]);
}

#[test]
fn connections_come_and_rest() {
    assert_eq!(figures("connect", &[])[0]["unit"], "1/s");
    let figures = figures("idle", &["--connections", "30"]);
    assert_eq!(figures[0]["is_upgraded"], true, "{}", figures[0]);
    assert_eq!(figures.len(), 2);
}

#[test]
fn the_table_and_the_page_are_written() {
    let html = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("programs-{}.html", std::process::id()));
    let output = programs(&[
        "--rounds",
        "1",
        "--duration-ms",
        "20",
        "--only",
        "connect",
        "--html",
        html.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("connect + accept + close"), "{table}");
    assert!(!table.contains(">= 0.9 x"), "no targets: {table}");
    let page = std::fs::read_to_string(&html).unwrap();
    std::fs::remove_file(&html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
}

#[test]
fn the_page_of_the_other_benchmark_begins_with_them() {
    let file = |end: &str| {
        let name = format!("programs-{}-first.{end}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        path.to_str().unwrap().to_owned()
    };
    let (json, html) = (file("json"), file("html"));
    let tiny = ["--rounds", "1", "--duration-ms", "20", "--quiet"];
    let only = ["--only", "connect", "--json", &json];
    assert!(programs(&[&tiny[..], &only].concat()).status.success());
    let all = |first: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.args(["bench", "wake", "--quick", "--samples", "1"]);
        command.args(["--duration-ms", "1", "--transport", "unix", "--quiet"]);
        command.args(["--html", &html, "--programs", first]);
        command.output().unwrap()
    };
    let output = all(&json);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(&html).unwrap();
    let place = |words: &str| {
        page.find(words)
            .unwrap_or_else(|| panic!("{words}: {page}"))
    };
    assert!(place("connect + accept + close") < place("The network itself"));
    assert!(place("The network itself") < place("How to read this"));
    // Its own page is no such file.
    let why = text(&all(&html).stderr);
    assert!(why.contains("bench programs --json"), "{why}");
    for path in [json, html] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn mistakes_are_explained() {
    let run = |library: &str, arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(["bench", "programs"])
            .args(arguments)
            .env("BAREWIRE_SOCKETS_LIB", library)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let why = run("/nowhere/lib.so", &["--quick"]);
    assert!(why.contains("/nowhere/lib.so"), "{why}");
    let why = run("", &["--only", "no-such-thing"]);
    assert!(why.contains("ping-pong"), "{why}");
    let output = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("bench-program")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
}
