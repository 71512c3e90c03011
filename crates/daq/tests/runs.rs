//! Whole runs in processes of their own, over both transports: with every way of flow control,
//! with parts that are killed, with files. The processes are this test program, started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use barewire_daq::config::Config;
use barewire_daq::generate::Generator;
use barewire_daq::launch::{self, Outcome, Role, exit_code};
use barewire_daq::part::{self, Options, Verdict};
use barewire_daq::record;
use barewire_proto::evb::{BuilderId, Part, SourceId};
use barewire_sys::process::{Signal, send_signal};

const CONFIG: &str = "BAREWIRE_DAQ_TEST_CONFIG";
const ROLE: &str = "BAREWIRE_DAQ_TEST_ROLE";
const ENTRY: &str = "a_part_of_another_test";

/// Not a test: what a process of a run is.
#[test]
fn a_part_of_another_test() {
    let (Ok(config), Ok(role)) = (std::env::var(CONFIG), std::env::var(ROLE)) else {
        return;
    };
    let config = Config::load(Path::new(&config)).expect("a good configuration");
    let (role, number) = role.split_once(' ').expect("role and number");
    let number = number.parse().expect("a number");
    let code = match role {
        "manager" => {
            let ended = part::run_manager(
                &config,
                Options {
                    hold: false,
                    quiet: true,
                },
            );
            let ended = ended.expect("all parts come");
            print!("{}", ended.ledger);
            if let Verdict::Failed(reason) = &ended.verdict {
                println!("failed: {reason}");
            }
            exit_code(&ended.verdict)
        }
        "source" => part::run_source(&config, number).map_or(2, |()| 0),
        _ => part::run_builder(&config, number).map_or(2, |()| 0),
    };
    std::process::exit(i32::from(code));
}

/// A folder with a configuration.
struct Place {
    folder: PathBuf,
    config: PathBuf,
}

static NUMBER: AtomicU16 = AtomicU16::new(0);

impl Place {
    fn new(transport: &str, settings: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("daq-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).expect("a folder");
        // Free ports, by asking for them: all held until the last is known.
        let listeners: Vec<_> = (0..4)
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let ports: Vec<_> = listeners
            .iter()
            .map(|it| it.local_addr().expect("bound").port())
            .collect();
        let settings = settings.replace("FOLDER", &folder.display().to_string());
        let builders = match settings.contains("builders = 2") {
            true => format!("[\"127.0.0.1:{}\", \"127.0.0.1:{}\"]", ports[1], ports[2]),
            false => format!("[\"127.0.0.1:{}\"]", ports[1]),
        };
        let text = format!(
            "[run]\nname = \"{name}\"\ntransport = \"{transport}\"\n{settings}\n\
             [tcp]\nmanager = \"127.0.0.1:{}\"\nbuilders = {builders}\n",
            ports[0]
        );
        let config = folder.join("daq.toml");
        std::fs::write(&config, text).expect("written");
        Self { folder, config }
    }

    fn config(&self) -> Config {
        Config::load(&self.config).expect("a good configuration")
    }

    /// Runs it; `kill` is told of every process that starts, and how long ago the run began.
    fn run(&self, mut started: impl FnMut(Role, u32)) -> Outcome {
        // The machine is small, and the parts of one run are many.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
        let program = std::env::current_exe().expect("this program");
        let command = |role: Role| {
            let mut command = Command::new(&program);
            command.args([ENTRY, "--exact", "--nocapture", "--test-threads=1"]);
            command.env(CONFIG, &self.config);
            command.env(ROLE, format!("{} {}", role.command(), role.number()));
            if role != Role::Manager {
                command.stdout(std::process::Stdio::null());
                command.stderr(std::process::Stdio::null());
            }
            command
        };
        launch::run(&self.config(), command, |role, what, pid| {
            if what == "started" {
                started(role, pid);
            }
        })
        .expect("processes start")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn kill_later(pid: u32, after: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(after);
        let _ = send_signal(i32::try_from(pid).expect("small"), Signal::Kill);
    });
}

fn source(id: u16) -> Role {
    Role::Part(Part::Source(SourceId(id)))
}

fn builder(id: u16) -> Role {
    Role::Part(Part::Builder(BuilderId(id)))
}

const TWO_BY_TWO: &str = "[parts]\nsources = 2\nbuilders = 2\n";
const STEADY: &str = "events = 0\nduration = \"900 ms\"\n";
const CLOCKED: &str =
    "[trigger]\nmode = \"poisson\"\nperiod = \"200 us\"\n[builder]\ntimeout = \"300 ms\"\n";

#[test]
fn every_way_of_flow_control_builds_all_events_over_both_transports() {
    let flows = ["none", "credits", "bucket", "barrel", "schedule"];
    let policies = ["round-robin", "least-loaded", "pulled", "hash", "pulled"];
    for transport in ["ring", "tcp"] {
        for (flow, policy) in flows.iter().zip(policies) {
            let parts = if *flow == "barrel" { TWO_BY_TWO } else { "" };
            let settings = format!(
                "events = 300\n{parts}[flow]\ncontrol = \"{flow}\"\nrate = \"4 Gbit/s\"\nslot = \"300 us\"\n\
                 [assignment]\npolicy = \"{policy}\"\n\
                 [fragments]\nsizes = \"log-normal\"\nsize = \"20 KiB\"\n[source]\npiece = \"32 KiB\"\n"
            );
            let place = Place::new(transport, &settings);
            let outcome = place.run(|_, _| {});
            assert_eq!(outcome.code, 0, "{transport}, {flow}: {outcome:?}");
            assert!(outcome.deaths.is_empty(), "{outcome:?}");
            let all = "triggered 300 = built 300 + incomplete 0";
            assert!(outcome.ledger.contains(all), "{}", outcome.ledger);
            assert!(outcome.ledger.contains("the ledger balances"));
        }
    }
}

#[test]
fn a_way_that_was_full_is_used_again() {
    for (transport, size) in [("ring", "256 B"), ("tcp", "256 B"), ("ring", "200 KiB")] {
        let events = if size == "256 B" { 12_000 } else { 100 };
        let settings = format!(
            "events = {events}\n[flow]\ncontrol = \"none\"\n[assignment]\nwindow = 4096\n\
             [network]\nring = \"256 KiB\"\n[source]\npiece = \"50 KiB\"\n\
             [fragments]\nsize = \"{size}\"\n[builder]\ntimeout = \"20 s\"\n"
        );
        let place = Place::new(transport, &settings);
        let outcome = place.run(|_, _| {});
        assert_eq!(outcome.code, 0, "{transport}, {size}: {outcome:?}");
        let all = format!("triggered {events} = built {events}");
        assert!(outcome.ledger.contains(&all), "{}", outcome.ledger);
    }
}

#[test]
fn a_killed_part_is_named_and_joins_again_and_the_ledger_balances() {
    for transport in ["ring", "tcp"] {
        for (victim, name) in [(source(1), "source 1"), (builder(0), "builder 0")] {
            let log = "[monitor]\nlog = \"FOLDER/log\"\n";
            let place = Place::new(transport, &format!("{STEADY}{TWO_BY_TWO}{CLOCKED}{log}"));
            let (mut lives, mut killed_at) = (0, None);
            let begun = Instant::now();
            let outcome = place.run(|role, pid| {
                if role == victim {
                    lives += 1;
                    if lives <= 2 {
                        killed_at.get_or_insert(begun.elapsed());
                        kill_later(pid, Duration::from_millis(250));
                    }
                }
            });
            assert_eq!(outcome.code, 0, "{transport}, {name}: {outcome:?}");
            assert_eq!(outcome.deaths, vec![format!("{name}: died of signal 9"); 2]);
            assert_eq!(lives, 3);
            let log = std::fs::read_to_string(place.folder.join("log")).expect("a log");
            let count = |text: &str| log.lines().filter(|it| it.contains(text)).count();
            assert_eq!(count(&format!("{name} (process")), 2, "{log}");
            assert_eq!(count(&format!("{name} joins again")), 2, "{log}");
            assert!(outcome.ledger.contains("the ledger balances"));
            assert!(outcome.ledger.contains("built"));
        }
    }
}

#[test]
fn a_killed_manager_ends_the_run_with_the_reason() {
    for transport in ["ring", "tcp"] {
        let place = Place::new(transport, &format!("{STEADY}{CLOCKED}"));
        let outcome = place.run(|role, pid| {
            if role == Role::Manager {
                kill_later(pid, Duration::from_millis(200));
            }
        });
        assert_eq!(outcome.code, 4);
        let deaths = &outcome.deaths;
        assert!(
            deaths.contains(&"manager: died of signal 9".to_owned()),
            "{deaths:?}"
        );
    }
}

#[test]
fn a_run_that_must_not_go_on_ends_with_the_reason() {
    let settings = format!("{STEADY}goes_on = false\n{CLOCKED}");
    let place = Place::new("ring", &settings);
    let outcome = place.run(|role, pid| {
        if role == source(0) {
            kill_later(pid, Duration::from_millis(200));
        }
    });
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert!(
        outcome.ledger.contains("failed: source 0 was lost"),
        "{}",
        outcome.ledger
    );
    assert!(outcome.ledger.contains("the ledger balances"));
}

#[test]
fn what_was_acknowledged_before_a_builder_was_killed_is_in_its_file() {
    let settings = format!(
        "{STEADY}{CLOCKED}[sink]\nkind = \"file\"\ndirectory = \"FOLDER\"\n\
         [fragments]\nsizes = \"exponential\"\nsize = \"3 KiB\"\n"
    );
    let place = Place::new("ring", &settings);
    let mut lives = 0;
    let outcome = place.run(|role, pid| {
        if role == builder(0) {
            lives += 1;
            if lives == 1 {
                kill_later(pid, Duration::from_millis(300));
            }
        }
    });
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let config = place.config();
    let generator = Generator::new(config.sizes, config.seed);
    let (mut built, mut indexed) = (0, 0);
    for number in 0..2 {
        let file = place
            .folder
            .join(format!("run-000001-builder-00-{number:03}.evb"));
        let checked = record::check(&file, Some(&generator)).expect("a file of events");
        assert_eq!(checked.mismatched, 0);
        built += checked.built;
        indexed += usize::from(checked.indexed);
        assert!(checked.built > 100, "{checked:?}");
    }
    assert_eq!(indexed, 1, "the second one ended as it should");
    let triggered = number_after(&outcome.ledger, " = built ");
    assert!(
        built >= triggered,
        "{built} in files, {triggered} acknowledged"
    );
}

fn number_after(text: &str, mark: &str) -> u64 {
    let after = text.split_once(mark).expect("the mark").1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}
