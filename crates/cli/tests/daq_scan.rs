//! `barewire daq scan` as it is used: combinations, what is kept when it is stopped, how it goes on.

#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Everything here happens at once or, on a busy machine, within this.
const PATIENCE: Duration = Duration::from_secs(60);

struct Folder(PathBuf);

impl Folder {
    /// With a configuration whose runs take some tenths of a second each.
    fn new(name: &str, settings: &str) -> Self {
        let name = format!("scan-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(format!("barewire-cli-{name}"));
        std::fs::create_dir_all(&path).expect("a folder");
        let text = format!("[run]\nname = \"{name}\"\n{settings}");
        std::fs::write(path.join("a.toml"), text).expect("written");
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.current_dir(&self.0).args(["daq", "scan", "a.toml"]);
        command.args(arguments);
        command
    }

    fn scan(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }

    fn runs_in(&self, file: &str) -> usize {
        let text = std::fs::read_to_string(self.0.join(file)).expect("a file");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON, and whole");
        assert_eq!(json[1]["name"], "runs");
        json[1]["rows"].as_array().map_or(0, Vec::len)
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

fn code_of(child: &mut Child) -> Option<i32> {
    wait::ended(child, PATIENCE).code()
}

const SHORT: &str = "events = 0\nduration = \"300 ms\"\n";

#[test]
fn a_scan_that_was_stopped_keeps_its_runs_and_goes_on() {
    let folder = Folder::new("stopped", SHORT);
    let scan = [
        "--over",
        "fragment_size=1 KiB, 4 KiB",
        "--over",
        "flow.control=none, credits",
        "--runs",
        "2",
        "-o",
        "a.json",
        "-o",
        "a.csv",
        "-o",
        "a.svg",
    ];
    let mut command = folder.command(&scan);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("piped"));
    let mut lines = Vec::new();
    for line in said.lines().map_while(Result::ok) {
        // The third of eight runs begins.
        if line.contains("flow.control = credits: run 1 of 2") && lines.len() < 5 {
            kill_process(Pid::from_child(&child), Signal::INT).expect("it lives");
        }
        lines.push(line);
    }
    assert_eq!(code_of(&mut child), Some(4), "{lines:?}");
    let last = lines.last().expect("it says why");
    assert!(
        last.contains("2 of 8 runs are in a.json, and --resume goes on"),
        "{last}"
    );
    assert_eq!(folder.runs_in("a.json"), 2);
    let csv = std::fs::read_to_string(folder.0.join("a.csv")).expect("a table");
    assert_eq!(
        csv.lines().count(),
        2,
        "the one combination that was measured: {csv}"
    );

    let resumed = folder.scan(&[&scan[..], &["--resume"]].concat());
    let said = text(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    assert!(said.contains("2 of 8 runs were measured before"), "{said}");
    assert_eq!(said.matches(": run ").count(), 6, "{said}");
    assert_eq!(folder.runs_in("a.json"), 8);
    let csv = std::fs::read_to_string(folder.0.join("a.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(folder.0.join("a.svg").is_file());

    // Nothing is left to do; another configuration is another measurement, and takes nothing away.
    let again = folder.scan(&[&scan[..], &["--resume"]].concat());
    assert_eq!(text(&again.stderr).matches(": run ").count(), 0);
    let file = folder.0.join("a.toml");
    let settings = std::fs::read_to_string(&file).expect("there") + "seed = 7\n";
    std::fs::write(&file, settings).expect("written");
    let one = ["--over", "fragment_size=1 KiB", "--runs", "1"];
    let other = folder.scan(&[&one[..], &["-o", "a.json", "--resume"]].concat());
    let said = text(&other.stderr);
    assert!(said.contains("0 of 1 runs were measured before"), "{said}");
    assert_eq!(folder.runs_in("a.json"), 9);
}

#[test]
fn a_run_that_fails_ends_the_scan_with_its_status_and_what_was_measured_stays() {
    // The programs of the second value end at once.
    let settings = format!(
        "{SHORT}goes_on = false\n[source]\nkind = \"own\"\nprogram = \"/bin/false\"\n[parts]\npatience = \"1 s\"\n"
    );
    let folder = Folder::new("fails", &settings);
    let kinds = ["--over", "source.kind=generator, own", "--runs", "1"];
    let scan = folder.scan(&[&kinds[..], &["-o", "a.json"]].concat());
    let said = text(&scan.stderr);
    assert_eq!(scan.status.code(), Some(2), "{said}");
    assert!(said.contains("1 of 2 runs are in a.json"), "{said}");
    assert_eq!(folder.runs_in("a.json"), 1);
    assert_eq!(
        text(&scan.stdout)
            .lines()
            .filter(|it| it.contains("generator"))
            .count(),
        1
    );
}

#[test]
fn nothing_is_measured_if_the_output_cannot_be_written() {
    let folder = Folder::new("outputs", SHORT);
    for (file, why) in [
        ("none/a.csv", "No such file or directory"),
        ("a.svg", "one row is no plot"),
        ("a.toml", "expected a name that ends with"),
    ] {
        let scan = folder.scan(&["--over", "fragment_size=1 KiB", "-o", file]);
        let said = text(&scan.stderr);
        assert_eq!(scan.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!said.contains(": run "), "{said}");
    }
    let resume = folder.scan(&["--over", "fragment_size=1 KiB", "--resume"]);
    assert!(text(&resume.stderr).contains("--resume needs -o FILE.json"));
    assert!(!folder.scan(&[]).status.success());
}

/// The processors that the children of a process may use, by the name of their configuration.
fn children(of: u32) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let read =
            |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let status = read("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name));
            line.map_or("", str::trim).to_owned()
        };
        if field("PPid:") == of.to_string() {
            let line = read("cmdline");
            let config = line.split('\0').find(|it| it.ends_with(".toml"));
            found.extend(config.map(|it| (it.to_owned(), field("Cpus_allowed_list:"))));
        }
    }
    found
}

#[test]
fn runs_at_a_time_have_processors_of_their_own() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip("runs at a time", "there is one processor");
        return;
    }
    let folder = Folder::new("parallel", "events = 0\nduration = \"1 s\"\n");
    let arguments = [
        "--over",
        "fragment_size=1 KiB, 2 KiB",
        "--runs",
        "1",
        "--parallel",
        "2",
        "--processors",
        "1",
        "-o",
        "a.json",
    ];
    let mut command = folder.command(&arguments);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // Both runs are there at the same time: four processes each.
    let found = wait::until(PATIENCE, || {
        let mut found = children(child.id());
        found.sort();
        let runs = |it: &[(String, String)]| {
            let mut names: Vec<_> = it.iter().map(|it| it.0.clone()).collect();
            names.dedup();
            names.len()
        };
        match found.len() == 8 && runs(&found) == 2 {
            true => Ok(found),
            false => Err(format!("{found:?}")),
        }
    });
    let mut places: Vec<_> = found.clone();
    places.dedup();
    assert_eq!(places.len(), 2, "each run is on one processor: {found:?}");
    assert_ne!(places[0].1, places[1].1, "and not on that of the other");
    assert!(
        places.iter().all(|it| it.1.parse::<usize>().is_ok()),
        "{places:?}"
    );
    assert_eq!(code_of(&mut child), Some(0));
    assert_eq!(folder.runs_in("a.json"), 2);
    // A thousand processors are nowhere.
    let refused = folder.scan(&[
        "--over",
        "fragment_size=1 KiB",
        "--parallel",
        "2",
        "--processors",
        "1000",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("needs 1000 processors"),
        "{}",
        text(&refused.stderr)
    );
}

/// Measuring the host ties a thread to a processor; the runs that come after it are to have all.
#[test]
fn a_prediction_measures_on_all_processors() {
    // On a busy machine an event of such fragments may take longer than the default.
    let settings = "events = 0\nduration = \"1 s\"\n[builder]\ntimeout = \"60 s\"\n";
    let folder = Folder::new("predict", settings);
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command
        .current_dir(&folder.0)
        .args(["daq", "predict", "a.toml"]);
    command.args(["--over", "fragment_size=1 MiB", "--measure", "1"]);
    let said = std::fs::File::create(folder.0.join("said")).expect("a file");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .expect("it starts");
    let (_, found) = wait::until(4 * PATIENCE, || {
        let is_part = |it: &(String, String)| it.0.contains("barewire-daq-scan");
        let part = children(child.id()).into_iter().find(is_part);
        part.ok_or("no run begins")
    });
    let own = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let own = own
        .lines()
        .find_map(|it| it.strip_prefix("Cpus_allowed_list:"));
    assert_eq!(Some(found.as_str()), own.map(str::trim));
    let ended = child.wait().expect("a child");
    let said = std::fs::read_to_string(folder.0.join("said")).expect("a file");
    assert!(ended.success(), "{ended}: {said}");
}

fn skip(name: &str, reason: &str) {
    use std::io::Write as _;
    let line = format!("SKIPPED: {name}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        file.and_then(|mut it| it.write_all(line.as_bytes()))
            .expect("the log of skips");
    }
}
