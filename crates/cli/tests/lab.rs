//! `barewire lab` as people use it: what it prints, what it writes, how it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use barewire_tables::Expected;
use barewire_testbed::{System, systems};
use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("lab")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Those of which something was published.
fn published() -> impl Iterator<Item = &'static dyn System> {
    let all = systems().iter().copied();
    all.filter(|system| Expected::of(system.name()).is_ok())
}

#[test]
fn every_system_is_listed_with_its_tables() {
    let output = lab(&["list"]);
    assert!(output.status.success());
    let listed = text(&output.stdout);
    for system in systems() {
        assert!(
            listed.contains(&format!("\n{} ", system.name())),
            "{listed}"
        );
    }
    for system in published() {
        let expected = Expected::of(system.name()).unwrap();
        let line = listed
            .lines()
            .find(|line| line.starts_with(system.name()))
            .unwrap_or_else(|| panic!("{} is missing: {listed}", system.name()));
        assert!(line.contains(&expected.title), "{line}");
        for (table, count) in expected.tables() {
            assert!(line.contains(&format!("{count} of {table}")), "{line}");
        }
    }
}

#[test]
fn the_parameters_are_shown_as_they_stand() {
    for system in systems() {
        let output = lab(&["show", system.name()]);
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), system.parameters());
    }
}

#[test]
fn help_says_what_the_verdicts_and_the_exit_status_mean() {
    let help = text(&lab(&["reproduce", "--help"]).stdout);
    for word in ["`misprint`", "exit status is 1", ".run.json", "Examples:"] {
        assert!(help.contains(word), "{word} is missing: {help}");
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    let known: Vec<&str> = published().map(|system| system.name()).collect();
    let expected = format!("no system `nosuch`; expected one of: {}", known.join(", "));
    let error = refusal(&["reproduce", "nosuch"]);
    assert!(error.contains(&expected), "{error}");
    for command in ["show", "run"] {
        let error = refusal(&[command, "nosuch"]);
        assert!(
            error.contains("no plan `nosuch`: `barewire lab list`"),
            "{error}"
        );
    }
    let error = refusal(&["run", "cbn"]);
    assert!(error.contains("no plan `cbn`: that is a system"), "{error}");
}

#[test]
fn a_change_needs_one_system_and_a_key_that_it_has() {
    let error = refusal(&["reproduce", "--set", "nosuch.key=1"]);
    assert!(
        error.contains("--set changes the parameters of one system"),
        "{error}"
    );
    let error = refusal(&["reproduce", "cbn", "--set", "nosuch.key=1"]);
    assert!(error.contains("cbn: no key `nosuch`"), "{error}");
    let error = refusal(&["reproduce", "cbn", "--set", "nosuch"]);
    assert!(error.contains("key=value"), "{error}");
}

#[test]
fn a_report_that_cannot_be_written_is_named() {
    let folder = Folder::new("lab-unwritable");
    let path = folder.path("no/such/folder.html");
    let error = refusal(&["reproduce", "penn", "--html", &path]);
    assert!(error.contains(&path), "{error}");
}

#[test]
fn a_reproduction_has_every_row_in_every_form() {
    let folder = Folder::new("lab-reproduce");
    let (json, csv, html) = (
        folder.path("r.json"),
        folder.path("c.csv"),
        folder.path("r.html"),
    );
    let output = lab(&[
        "reproduce",
        "all",
        "--seed",
        "7",
        "--json",
        &json,
        "--csv",
        &csv,
        "--html",
        &html,
    ]);
    let values: Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    let values = values.as_array().unwrap();
    let terminal = text(&output.stdout);
    let page = folder.read("r.html");
    for system in published() {
        for row in Expected::of(system.name()).unwrap().rows {
            let of_row = |value: &&Value| {
                value["system"] == system.name()
                    && value["table"] == row.table.as_str()
                    && value["row"] == row.row.as_str()
                    && value["quantity"] == row.quantity.as_str()
                    && value["published"] == row.published
            };
            assert_eq!(values.iter().filter(of_row).count(), 1, "{row:?}");
            assert!(terminal.contains(&row.row), "{row:?}");
            assert!(page.contains(&format!("<td>{}</td>", row.row)), "{row:?}");
        }
    }
    for value in values {
        assert_eq!(value.as_object().unwrap().len(), 10, "{value}");
    }
    let heading = "system,table,row,quantity,unit,published,model,error_pct,kind,verdict";
    assert_eq!(folder.read("c.csv").lines().next(), Some(heading));
    assert_eq!(folder.read("c.csv").lines().count(), 1 + values.len());

    // The status says what the verdicts say.
    let failed = values
        .iter()
        .filter(|value| value["verdict"] == "outside" || value["verdict"] == "missing")
        .count();
    assert_eq!(output.status.code(), Some(i32::from(failed > 0)));
    let complaint = format!("{failed} of {} values", values.len());
    assert_eq!(failed > 0, text(&output.stderr).contains(&complaint));

    // What it takes to run it again is beside the values.
    for name in ["r.run.json", "c.run.json"] {
        let origin: Value = serde_json::from_str(&folder.read(name)).unwrap();
        assert_eq!(origin["seed"], 7);
        assert_eq!(origin["about"]["barewire"], env!("CARGO_PKG_VERSION"));
        for (of, system) in origin["systems"]
            .as_array()
            .unwrap()
            .iter()
            .zip(published())
        {
            assert_eq!(of["system"], system.name());
            assert_eq!(of["parameters"], system.parameters());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_values() {
    let run = || text(&lab(&["reproduce", "penn", "--seed", "3"]).stdout);
    let first = run();
    assert!(first.contains("penn: "), "{first}");
    assert_eq!(first, run());
}

#[test]
fn every_published_value_is_reproduced() {
    let output = lab(&["reproduce", "all"]);
    let report = text(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{report}",
        text(&output.stderr)
    );
    for system in published() {
        let sentence = report.lines().find(|line| {
            line.starts_with(&format!("{}: ", system.name()))
                && line.contains("outside 0, missing 0")
        });
        assert!(sentence.is_some(), "{} is missing: {report}", system.name());
    }
}

#[test]
fn a_sweep_has_a_column_for_each_value() {
    let folder = Folder::new("sweep");
    let csv = folder.path("s.csv");
    let over = "ring.line_rate=512 Mbit/s,1000 Mbit/s";
    let output = lab(&[
        "sweep",
        "cbn",
        "--over",
        over,
        "--only",
        "table-1, 250 cells",
        "--csv",
        &csv,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("ring.line_rate of cbn"), "{shown}");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    let rates: Vec<f64> = folder
        .read("s.csv")
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(rates.len() == 2 && rates[1] > rates[0], "{rates:?}");
    let message = refusal(&["sweep", "cbn", "--over", "ring.line_rate=512 Mbit/s,fast"]);
    assert!(message.contains("ring.line_rate=fast"), "{message}");
    for (option, value) in [("--with", "x.toml"), ("--replications", "2"), ("-o", "x")] {
        let message = refusal(&["sweep", "cbn", "--over", over, option, value]);
        assert!(
            message.contains("is for plans, and `cbn` is a system"),
            "{message}"
        );
    }
}
