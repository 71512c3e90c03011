//! Shaping by the kernel, in a network namespace of the test's own: what is set works, and nothing
//! stays, in whatever way its owner ends. The processes are this test program, started again.

#[path = "stage/wait.rs"]
mod wait;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};

use barewire_daq::config::Config;
use barewire_daq::launch::{self, exit_code};
use barewire_daq::part::{self, Options};
use barewire_daq::shape::{Class, ClassId, Interface, ShapeError, sweep};
use barewire_sys::netlink::{Request, RouteSocket};
use barewire_sys::netns::NetNamespace;
use barewire_units::Rate;

const CONFIG: &str = "BAREWIRE_SHAPE_TEST_CONFIG";
const ROLE: &str = "BAREWIRE_SHAPE_TEST_ROLE";
const ENTRY: &str = "child_process_entry";

/// Not a test: what a process of a run is.
#[test]
fn child_process_entry() {
    let (Ok(config), Ok(role)) = (std::env::var(CONFIG), std::env::var(ROLE)) else {
        return;
    };
    let config = Config::load(Path::new(&config)).expect("a good configuration");
    let (role, number) = role.split_once(' ').expect("role and number");
    let number = number.parse().expect("a number");
    let ended = match role {
        "manager" => {
            let quiet = Options {
                hold: false,
                quiet: true,
            };
            part::run_manager(&config, quiet).map(|ended| {
                println!(
                    "{}\n{}{:?}",
                    ended.picture.age_ns, ended.ledger, ended.verdict
                );
                exit_code(&ended.verdict)
            })
        }
        "source" => part::run_source(&config, number).map(|()| 0),
        _ => part::run_builder(&config, number).map(|()| 0),
    };
    let code = ended.unwrap_or_else(|error| {
        eprintln!("{role} {number}: {error}");
        2
    });
    std::process::exit(i32::from(code));
}

fn skip(reason: &str) {
    let name = std::thread::current().name().unwrap_or("shape").to_owned();
    let line = format!("SKIPPED: shape::{name}: {reason}");
    let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") else {
        return eprintln!("{line}");
    };
    let log = std::fs::File::options().append(true).create(true).open(log);
    writeln!(log.expect("the log of skipped tests"), "{line}").expect("written");
}

/// Moves this test's thread, and what it starts, into a network with nothing but a loopback
/// interface that is up; `None` where that, or HTB, cannot be had.
fn own_network() -> Option<Interface> {
    let up = || {
        NetNamespace::create()?.enter()?;
        let mut fixed = [0; 16];
        // Interface 1; flag and mask: up.
        fixed[4..8].copy_from_slice(&1_u32.to_ne_bytes());
        fixed[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        fixed[12..16].copy_from_slice(&1_u32.to_ne_bytes());
        RouteSocket::open()?.change(Request::new(16, 0, &fixed))
    };
    if let Err(error) = up() {
        skip(&format!("no network namespace: {error}"));
        return None;
    }
    let mut loopback = Interface::named("lo").expect("a loopback interface");
    match loopback.set_root(ClassId::ours(1).queue, None) {
        Err(error @ ShapeError::NoHtb) => {
            skip(&error.to_string());
            return None;
        }
        done => done.expect("a queue"),
    }
    // Nobody has claimed it.
    sweep().expect("removed");
    Some(loopback)
}

/// On a machine with other work nobody is to be taken for lost, and nothing for late.
const SHAPED: &str = "[run]\ntransport = \"tcp\"\nname = \"shape-test\"\nevents = 1000\nduration = \"10 s\"\n\
    [parts]\nliveness = \"20 s\"\nsources = 2\nbuilders = 2\n[builder]\ntimeout = \"20 s\"\n\
    [fragments]\nsize = \"16 KiB\"\n\
    [flow]\ncontrol = \"kernel\"\nrate = \"100 Mbit/s\"\nburst = \"64 KiB\"\n";

/// A configuration in a file, removed at the end.
struct Place(std::path::PathBuf);

impl Place {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-{name}-{}", std::process::id()));
        std::fs::write(&path, text).expect("written");
        Self(path)
    }

    fn part(&self, role: &str, number: u16) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([ENTRY, "--exact", "--nocapture", "--quiet"]);
        command.env(CONFIG, &self.0);
        command.env(ROLE, format!("{role} {number}"));
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn classes(interface: &mut Interface) -> Vec<ClassId> {
    let classes = interface.classes().expect("classes");
    let mut ids: Vec<_> = classes.iter().map(|it| it.0).collect();
    ids.sort();
    ids
}

#[test]
fn a_run_is_shaped_and_nothing_stays() {
    let Some(mut loopback) = own_network() else {
        return;
    };
    let place = Place::new("shaped", SHAPED);
    let config = Config::load(&place.0).expect("good");
    let run = |role: launch::Role| place.part(role.command(), role.number());
    let outcome = launch::run(&config, run, |_, _, _| {}).expect("started");
    assert_eq!(
        (outcome.code, outcome.deaths),
        (0, Vec::new()),
        "{}",
        outcome.ledger
    );
    let age = outcome.ledger.lines().find_map(|it| it.parse::<u64>().ok());
    let age_s = age.expect("the age of the run") as f64 / 1e9;
    // Four pairs at the rate, and no faster; what is not a fragment comes on top.
    let sent = 2.0 * 1000.0 * 16_384.0;
    let most = 4.0 * (100e6 / 8.0 * age_s + 65_536.0 + 65_550.0);
    assert!(sent <= most, "{sent} B in {age_s} s, at most {most}");
    assert_eq!(classes(&mut loopback), []);
}

/// A source and a builder that never end, without a manager's process: this thread is that.
fn killed_source(place: &Place, loopback: &mut Interface) -> [Child; 3] {
    let parts = ["manager", "builder", "source"];
    let started = parts.map(|role| place.part(role, 0).spawn().expect("started"));
    wait::eventually(
        || "the source has no class".into(),
        || !classes(loopback).is_empty(),
    );
    started
}

#[test]
fn a_killed_source_leaves_nothing() {
    let Some(mut loopback) = own_network() else {
        return;
    };
    let text = SHAPED
        .replace("events = 1000", "events = 0")
        .replace("sources = 2\nbuilders = 2", "sources = 1\nbuilders = 1");
    let place = Place::new("killed", &text);
    let [mut manager, mut builder, mut source] = killed_source(&place, &mut loopback);
    assert_eq!(classes(&mut loopback), [ClassId::ours(1)]);
    // It is in use, and not removed.
    sweep().expect("looked");
    assert_eq!(classes(&mut loopback), [ClassId::ours(1)]);
    source.kill().expect("killed");
    source.wait().expect("ended");
    let removed = || classes(&mut loopback).is_empty();
    wait::eventually(|| "the guard has not removed it".into(), removed);
    for part in [&mut manager, &mut builder] {
        part.kill().expect("killed");
        part.wait().expect("ended");
    }
}

#[test]
fn queues_of_others_are_kept() {
    let Some(mut loopback) = own_network() else {
        return;
    };
    loopback.set_root(0x10, None).expect("a queue");
    let class = Class {
        rate: Rate::from_mbps(1),
        burst_bytes: 1600,
    };
    let id = ClassId {
        queue: 0x10,
        minor: 1,
    };
    loopback.set_class(id, class).expect("a class");
    loopback.set_buffer(id, 4000).expect("a buffer");
    sweep().expect("looked");
    assert_eq!(classes(&mut loopback), [id]);
    let error = loopback
        .set_root(ClassId::ours(1).queue, None)
        .expect_err("taken");
    assert!(
        error
            .to_string()
            .starts_with("lo already has a queue `htb` with handle 10:"),
        "{error}"
    );
}
