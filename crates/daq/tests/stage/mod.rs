//! A folder with a configuration, and a run of it in processes of its own: this test program,
//! started again with a role.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use barewire_carrier::tls::{GenerateOptions, generate};
use barewire_daq::config::Config;
use barewire_daq::launch::{self, Outcome, Role, Watcher, exit_code};
use barewire_daq::part::{self, Options, Verdict};
use barewire_daq::signals;
use barewire_sys::lan::Lan;

#[path = "wait.rs"]
mod wait;

pub use wait::eventually;

const CONFIG: &str = "BAREWIRE_DAQ_STAGE_CONFIG";
const ROLE: &str = "BAREWIRE_DAQ_STAGE_ROLE";
/// The test that is a part of another one's run.
pub const ENTRY: &str = "child_process_entry";

/// What this process is of a run: configuration, role, number; `None` if it is no part.
pub fn role() -> Option<(PathBuf, String, u16)> {
    let (config, role) = (std::env::var(CONFIG).ok()?, std::env::var(ROLE).ok()?);
    let (role, number) = role.split_once(' ').expect("role and number");
    let number = number.parse().expect("a number");
    Some((config.into(), role.to_owned(), number))
}

/// Is a part that the crate knows, and ends.
pub fn play(config: &Path, role: &str, number: u16) -> ! {
    let config = Config::load(config).expect("a good configuration");
    let done = |done: Result<(), part::PartError>| match done {
        Ok(()) => 0,
        Err(problem) => {
            eprintln!("{role} {number}: {problem}");
            problem.exit_status()
        }
    };
    let code = match role {
        "manager" => {
            signals::listen().expect("signals");
            let options = Options {
                hold: false,
                quiet: true,
            };
            let ended = match part::run_manager(&config, options) {
                Ok(ended) => ended,
                Err(problem) => std::process::exit(i32::from(done(Err(problem)))),
            };
            print!("{}", ended.ledger);
            match &ended.verdict {
                Verdict::Failed(reason) => println!("failed: {reason}"),
                Verdict::Lost(what) => println!("lost: {what}"),
                Verdict::Balanced | Verdict::Unbalanced(_) => {}
            }
            exit_code(&ended.verdict)
        }
        "source" => done(part::run_source(&config, number)),
        _ => done(part::run_builder(&config, number)),
    };
    std::process::exit(i32::from(code))
}

/// Nobody is stopped here, and one that is killed is seen at once: a part that a machine with
/// other work does not let run is not to be taken for lost.
const PATIENT: &str = "liveness = \"20 s\"\n";

/// Of records: more than a file begins with.
const MANY_BYTES: u64 = 16 << 10;

/// A folder with a configuration.
pub struct Place {
    pub folder: PathBuf,
    pub config: PathBuf,
    /// Further environment of its processes.
    pub variables: Vec<(&'static str, PathBuf)>,
}

static NUMBER: AtomicU16 = AtomicU16::new(0);

impl Place {
    /// `FOLDER` in the settings is the new folder; they begin in the section of the run. Silence is
    /// death after 20 s if they do not say another time.
    pub fn new(transport: &str, settings: &str) -> Self {
        // Free ports, by asking for them: all held until the last is known.
        let listeners: Vec<_> = (0..3)
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let address = |it: &std::net::TcpListener| it.local_addr().expect("bound").to_string();
        Self::at(transport, settings, |at| address(&listeners[at]))
    }

    /// With its manager, builders and sources on two hosts in turn, which are namespaces of this machine.
    pub fn on_hosts(lan: &Lan, settings: &str) -> Self {
        let enter = |host: usize| {
            let (pid, network) = (std::process::id(), lan.hosts[host].net.as_fd().as_raw_fd());
            format!("\"nsenter --net=/proc/{pid}/fd/{network}\"")
        };
        let both = format!("[{}, {}]", enter(0), enter(1));
        let builders = match settings.contains("builders = 2") {
            true => both.clone(),
            false => enter(1),
        };
        let (manager, own) = (enter(0), "FOLDER/keys");
        let settings = format!(
            "{settings}\n[hosts]\nkeys = \"{own}\"\n\
             [start]\nmanager = {manager}\nbuilders = {builders}\nsources = {both}\n"
        );
        let place = Self::at("hosts", &settings, |at| {
            let host = match at {
                0 => 0,
                _ if builders == both => at - 1,
                _ => 1,
            };
            format!("{}:{}", lan.hosts[host].address, 7100 + at)
        });
        let secret = GenerateOptions {
            is_secret: true,
            name: "stage".to_owned(),
            replace: false,
        };
        generate(&place.folder.join("keys"), &secret).expect("a secret");
        place
    }

    fn at(transport: &str, settings: &str, address: impl Fn(usize) -> String) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("daq-stage-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let settings = settings.replace("FOLDER", &folder.display().to_string());
        let settings = if settings.contains("liveness") {
            settings
        } else if settings.contains("[parts]\n") {
            settings.replace("[parts]\n", &format!("[parts]\n{PATIENT}"))
        } else {
            format!("{settings}\n[parts]\n{PATIENT}")
        };
        let builders = match settings.contains("builders = 2") {
            true => format!("[\"{}\", \"{}\"]", address(1), address(2)),
            false => format!("[\"{}\"]", address(1)),
        };
        let text = format!(
            "[run]\nname = \"{name}\"\ntransport = \"{transport}\"\n{settings}\n\
             [tcp]\nmanager = \"{}\"\nbuilders = {builders}\n",
            address(0)
        );
        let config = folder.join("daq.toml");
        std::fs::write(&config, text).expect("written");
        Self {
            folder,
            config,
            variables: Vec::new(),
        }
    }

    pub fn config(&self) -> Config {
        match Config::load(&self.config) {
            Ok(config) => config,
            Err(faults) => panic!("{faults:?}"),
        }
    }

    /// Runs it; `started` is told of every process that starts.
    pub fn run(&self, started: impl FnMut(Role, u32)) -> Outcome {
        self.run_watched(&mut Started(started))
    }

    /// Runs it with somebody who may ask for its end.
    pub fn run_watched(&self, watcher: &mut dyn Watcher) -> Outcome {
        // The machine is small, and the parts of one run are many.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
        let config = self.config();
        let program = std::env::current_exe().expect("this program");
        let command = |role: Role| {
            let (command, file) = config.start.command(role.part(), &program, &self.config);
            let role = format!("{} {}", role.command(), role.number());
            self.playing(command, file, &role)
        };
        launch::run_here(&config, command, watcher).expect("processes start")
    }

    /// What starts this program with a role and a number.
    pub fn command(&self, role: &str) -> Command {
        let program = std::env::current_exe().expect("this program");
        self.playing(Command::new(program), &self.config, role)
    }

    fn playing(&self, mut command: Command, config: &Path, role: &str) -> Command {
        command.args([ENTRY, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(CONFIG, config);
        command.env(ROLE, role);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // What the tests in it say is no result of ours; a manager gets another one.
        command.stdout(Stdio::null());
        command
    }
}

/// The files of a folder with this ending, in order.
pub fn files_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).expect("the folder");
    let mut files: Vec<_> = all
        .map(|it| it.expect("an entry").path())
        .filter(|it| it.extension().is_some_and(|it| it == ending))
        .collect();
    files.sort();
    files
}

/// Waits until the event log says so.
pub fn await_log(place: &Place, text: &str) {
    let log = || std::fs::read_to_string(place.folder.join("log")).unwrap_or_default();
    eventually(|| format!("{text}: {}", log()), || log().contains(text));
}

/// Waits until more events are recorded in a folder than are now.
pub fn await_events(folder: &Path) {
    let bytes = || -> u64 {
        let files = files_in(folder, "evb").into_iter();
        files.filter_map(|it| Some(it.metadata().ok()?.len())).sum()
    };
    let before = bytes();
    let is_more = || bytes() > before + MANY_BYTES;
    eventually(|| format!("{before} B recorded, and no more"), is_more);
}

pub struct Started<F>(pub F);

impl<F: FnMut(Role, u32)> Watcher for Started<F> {
    fn said(&mut self, role: Role, what: &str, pid: u32) {
        if what == "started" {
            (self.0)(role, pid);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
