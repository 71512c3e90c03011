//! Runs of the event builder in which parts are killed at random moments: ledger, recordings, JSON and
//! exit status say the same.
//!
//! `BAREWIRE_DAQ_RUNS=100 cargo test -p barewire-cli --test daq_kills` is the long form;
//! `BAREWIRE_DAQ_SEED` repeats the runs of a seed that a failure has named.

#[path = "common/wait.rs"]
mod wait;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use barewire_sys::process::{Signal, send_signal};
use serde_json::Value;

/// Runs without a word of the environment.
const RUNS: u64 = 6;
/// Longest run, its parts' patience included.
const RUN_MAX: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(number: u64) -> Self {
        let name = format!("barewire-daq-kills-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(default, |it| it.parse().expect(name))
}

/// A port of this host that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("it is bound").port()
}

fn settings(random: &mut Random, number: u64) -> String {
    let (first, second, third) = (free_port(), free_port(), free_port());
    let builders = 1 + random.below(2);
    let ports = match builders {
        1 => format!("[\"127.0.0.1:{second}\"]"),
        _ => format!("[\"127.0.0.1:{second}\", \"127.0.0.1:{third}\"]"),
    };
    format!(
        "[run]\nname = \"kills-{}-{number}\"\ntransport = \"{}\"\nevents = {}\n\
         [parts]\nsources = {}\nbuilders = {builders}\nliveness = \"20 s\"\n\
         [tcp]\nmanager = \"127.0.0.1:{first}\"\nbuilders = {ports}\n\
         [trigger]\nmode = \"clock\"\nperiod = \"300 us\"\n\
         [fragments]\nsizes = \"log-normal\"\nsize = \"{}\"\n\
         [assignment]\nwindow = {}\npolicy = \"{}\"\n\
         [builder]\ntimeout = \"{}\"\n[sink]\nkind = \"file\"\n",
        std::process::id(),
        random.of(&["ring", "tcp"]),
        1500 + random.below(2500),
        1 + random.below(3),
        random.of(&["200 B", "4 KiB", "40 KiB"]),
        random.of(&[16, 256, 4096]),
        random.of(&["round-robin", "least-loaded", "pulled", "hash"]),
        random.of(&["50 ms", "1 s", "20 s"]),
    )
}

/// The parts of a run: children of its process that are still there.
fn parts_of(run: &Child) -> Vec<i32> {
    let list = format!("/proc/{0}/task/{0}/children", run.id());
    let list = std::fs::read_to_string(list).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect()
}

/// Whether a process is a source or a builder. The manager is neither, nor is a process that has yet to start its program.
fn may_be_killed(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&it| it == 0)
        .any(|it| it == b"source" || it == b"builder")
}

/// Kills some parts while the run goes on; how many.
fn kill_some(random: &mut Random, run: &mut Child, kills: u64) -> u64 {
    let mut killed = 0;
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(random.below(400)));
        if run.try_wait().expect("a child").is_some() {
            break;
        }
        let parts = parts_of(run);
        let parts: Vec<_> = parts.into_iter().filter(|&it| may_be_killed(it)).collect();
        if !parts.is_empty() {
            killed += u64::from(send_signal(random.of(&parts), Signal::Kill).is_ok());
        }
    }
    wait::ended(run, RUN_MAX);
    killed
}

fn barewire(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.current_dir(folder).arg("daq").args(arguments);
    command
}

fn run_with_kills(folder: &Path, random: &mut Random) -> (Output, u64) {
    let kills = random.below(5);
    let files = |name: &str| std::fs::File::create(folder.join(name)).expect("a file");
    let mut command = barewire(folder, &["run", "daq.toml", "--quiet", "--json"]);
    command
        .stdout(files("out"))
        .stderr(files("err"))
        .stdin(Stdio::null());
    let mut run = command.spawn().expect("it starts");
    let killed = kill_some(random, &mut run, kills);
    let output = Output {
        status: run.wait().expect("a child"),
        stdout: std::fs::read(folder.join("out")).expect("written"),
        stderr: std::fs::read(folder.join("err")).expect("written"),
    };
    (output, killed)
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// What the recordings hold: sums, and all event numbers.
fn recorded(folder: &Path) -> (u64, u64, Vec<u64>) {
    let files = std::fs::read_dir(folder).expect("a folder");
    let files = files.map(|it| {
        it.expect("an entry")
            .file_name()
            .into_string()
            .expect("a name")
    });
    let files: Vec<_> = files.filter(|it| it.ends_with(".evb")).collect();
    let mut arguments = vec!["check", "--json", "--events", "--config", "daq.toml"];
    arguments.extend(files.iter().map(String::as_str));
    let check = barewire(folder, &arguments).output().expect("it starts");
    let document: Value = serde_json::from_slice(&check.stdout).expect("JSON");
    assert_eq!(check.status.code(), Some(0), "{document}");
    let totals = &document["totals"];
    let events = document["files"].as_array().expect("files").iter();
    let events = events.flat_map(|it| it["events"].as_array().expect("events"));
    let events = events.map(number).collect();
    (
        number(&totals["built"]),
        number(&totals["incomplete"]),
        events,
    )
}

fn check(folder: &Path, output: &Output, killed: u64) {
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{}: {error}\n{said}", output.status));
    let verdict = report["verdict"].as_str().expect("a word");
    let code = match verdict {
        "good" => 0,
        "failed" => 4,
        "lost" => 5,
        _ => panic!("{report}\n{said}"),
    };
    assert_eq!(output.status.code(), Some(code), "{report}\n{said}");
    assert_eq!(report["good"], code == 0, "{report}");
    let deaths = said.matches("died of signal 9").count() as u64;
    assert!(deaths <= killed, "{said}");

    let events = &report["ledger"]["events"];
    let lost = number(&events["abandoned"]) + number(&events["aborted"]);
    assert!(lost == 0 || code != 0, "{report}");
    let (built, incomplete, mut recorded) = recorded(folder);
    let recovered = &report["recovered"];
    assert_eq!(recovered["unread"], serde_json::json!([]), "{report}");
    let (in_built, in_incomplete) = (&recovered["built"], &recovered["incomplete"]);
    assert_eq!(
        built,
        number(&events["built"]) + number(in_built),
        "{report}\n{said}"
    );
    assert_eq!(
        incomplete,
        number(&events["incomplete"]) + number(in_incomplete),
        "{report}\n{said}"
    );
    assert!(number(in_built) + number(in_incomplete) <= lost, "{report}");
    let count = recorded.len();
    recorded.sort_unstable();
    recorded.dedup();
    assert_eq!(recorded.len(), count, "an event stands twice");
    assert!(
        recorded
            .last()
            .is_none_or(|&it| it < number(&events["triggered"]))
    );
}

#[test]
fn ledger_recordings_json_and_status_agree_whoever_is_killed() {
    let seed = from_environment("BAREWIRE_DAQ_SEED", 20_261_124);
    let mut all_killed = 0;
    for number in 0..from_environment("BAREWIRE_DAQ_RUNS", RUNS) {
        println!("BAREWIRE_DAQ_SEED={seed}, run {number}");
        let mut random = Random(seed.wrapping_add(number << 32));
        let folder = Folder::new(number);
        let settings = settings(&mut random, number);
        std::fs::write(folder.0.join("daq.toml"), &settings).expect("written");
        let (output, killed) = run_with_kills(&folder.0, &mut random);
        println!("{settings}\n{killed} killed");
        check(&folder.0, &output, killed);
        all_killed += killed;
    }
    assert!(all_killed > 0, "nobody was killed: nothing is shown");
}
