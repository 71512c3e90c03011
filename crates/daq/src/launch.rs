//! All processes of a run: started, watched, started again when they die. Those on other hosts are started through
//! commands, and what is watched are these commands (`handed.rs`).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use barewire_proto::evb::{BuilderId, Part, SourceId};
use barewire_sys::process::{Signal, SpawnOpts, send_signal, spawn_with};

use crate::clock::system_time;
use crate::config::{Config, SinkKind, SourceKind};
use crate::credential::Credential;
use crate::handed;
use crate::part::{NOT_JOINED, Verdict, name_of};

/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long parts may take to end after the manager has.
const GRACE: Duration = Duration::from_secs(2);
/// A part is not started again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The pause doubles each time that a part has lived for less than so many pauses ...
const LIVES_PAUSES: u32 = 10;
/// ... and after so many such deaths in a row it is not started again.
const QUICK_DEATHS_MAX: u32 = 9;

/// A process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The manager.
    Manager,
    /// Another part.
    Part(Part),
}

impl Role {
    /// For people.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Manager => "manager".to_owned(),
            Self::Part(part) => name_of(part),
        }
    }

    /// Whether it is a builder's.
    #[must_use]
    pub const fn is_builder(self) -> bool {
        matches!(self, Self::Part(Part::Builder(_)))
    }

    /// The part; `None`: the manager.
    #[must_use]
    pub const fn part(self) -> Option<Part> {
        match self {
            Self::Manager => None,
            Self::Part(part) => Some(part),
        }
    }

    /// The number that stands in `--part`.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Manager => 0,
            Self::Part(Part::Source(SourceId(id)) | Part::Builder(BuilderId(id))) => id,
        }
    }

    /// The command of `daq` that runs it.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Manager => "manager",
            Self::Part(Part::Source(_)) => "source",
            Self::Part(Part::Builder(_)) => "builder",
        }
    }
}

/// Exit status of a run that lost what no setting allows it to lose.
pub const LOST: u8 = 5;

/// Exit status of the manager's process, and of the whole.
#[must_use]
pub const fn exit_code(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Balanced => 0,
        Verdict::Unbalanced(_) => 3,
        Verdict::Failed(_) => 4,
        Verdict::Lost(_) => LOST,
    }
}

/// What a run on this host came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// [`exit_code`] of the manager's verdict; 4 if the manager died.
    pub code: u8,
    /// Parts that died, in order, with how; or why none was started.
    pub deaths: Vec<String>,
    /// What the manager wrote to its standard output.
    pub ledger: String,
}

/// Who watches a run.
pub trait Watcher {
    /// A part was started or has died.
    fn said(&mut self, role: Role, what: &str, pid: u32);

    /// Called again and again; how often somebody has asked for the end of the run since it was
    /// called before. The first time the run is drained, the second time aborted; the third time
    /// the manager is killed.
    fn turn(&mut self) -> u32 {
        0
    }
}

struct Said<F>(F);

impl<F: FnMut(Role, &str, u32)> Watcher for Said<F> {
    fn said(&mut self, role: Role, what: &str, pid: u32) {
        (self.0)(role, what, pid);
    }
}

struct Process {
    role: Role,
    child: Option<Child>,
    started: Instant,
    /// How often it was started again.
    starts: u32,
    again_at: Option<Instant>,
    /// Before it was last started again, and deaths in a row so soon after a start that the pause doubled.
    pause: Duration,
    quick_deaths: u32,
}

impl Process {
    fn new(role: Role, child: Child) -> Self {
        Self {
            role,
            child: Some(child),
            started: Instant::now(),
            starts: 0,
            again_at: None,
            pause: PAUSE_MIN,
            quick_deaths: 0,
        }
    }

    /// It has died: after which pause it is to be started again; `None`: it dies so soon each time that it
    /// is of no use.
    fn pause_after(&mut self, lived: Duration) -> Option<Duration> {
        if lived >= self.pause * LIVES_PAUSES {
            (self.pause, self.quick_deaths) = (PAUSE_MIN, 0);
            return Some(self.pause);
        }
        self.quick_deaths += 1;
        self.pause *= 2;
        (self.quick_deaths < QUICK_DEATHS_MAX).then_some(self.pause)
    }
}

/// Starts all processes of a run and watches them until the manager has ended. `command`
/// gives what runs a part ([`Start::command`](crate::config::Start::command)); `said` hears of every start and death.
///
/// # Errors
///
/// A process cannot be started.
pub fn run(
    config: &Config,
    command: impl FnMut(Role) -> Command,
    said: impl FnMut(Role, &str, u32),
) -> io::Result<Outcome> {
    run_watched(config, command, &mut Said(said))
}

/// The same, after a look whether the parts of this host can listen at the addresses of the configuration: who cannot
/// is told before a part starts.
///
/// # Errors
///
/// As [`run`].
pub fn run_here(
    config: &Config,
    command: impl FnMut(Role) -> Command,
    watcher: &mut dyn Watcher,
) -> io::Result<Outcome> {
    let faults = crate::config::unusable(config);
    if faults.is_empty() {
        return run_watched(config, command, watcher);
    }
    Ok(Outcome {
        code: 2,
        deaths: faults,
        ledger: String::new(),
    })
}

/// As [`run`], and `watcher` may ask for its end. Each process is a group of its own: what a
/// terminal tells this one, its parts do not hear.
///
/// # Errors
///
/// As [`run`].
fn run_watched(
    config: &Config,
    command: impl FnMut(Role) -> Command,
    watcher: &mut dyn Watcher,
) -> io::Result<Outcome> {
    let mut starter = Starter {
        config,
        command,
        credential: Credential::of_new_run(),
    };
    let mut processes = Vec::new();
    let mut deaths = Vec::new();
    let started = roles(config).try_for_each(|role| {
        let child = starter.start(role, 0, watcher)?;
        processes.push(Process::new(role, child));
        Ok(())
    });
    if let Err(error) = started {
        end(&mut processes, Duration::ZERO, &mut deaths);
        return Err(error);
    }
    let ledger = read_ledger(processes[0].child.as_mut());
    let mut asked = 0;
    let status = loop {
        let manager = processes[0].child.as_mut();
        if let Some(status) = manager.and_then(|it| it.try_wait().transpose()) {
            break status?;
        }
        for process in &mut processes[1..] {
            watch(process, config.restart, &mut deaths, watcher)?;
            if process.again_at.is_some_and(|at| Instant::now() >= at) {
                (process.again_at, process.started) = (None, Instant::now());
                process.starts += 1;
                process.child = Some(starter.start(process.role, process.starts, watcher)?);
            }
        }
        for _ in 0..watcher.turn() {
            asked += 1;
            ask_to_end(processes[0].child.as_mut(), asked);
        }
        std::thread::sleep(LOOK);
    };
    processes[0].child = None;
    let code = match status.code() {
        Some(code) => u8::try_from(code).unwrap_or(4),
        None => {
            watcher.said(Role::Manager, &how(status), 0);
            deaths.push(format!("manager: {}", how(status)));
            4
        }
    };
    let died = deaths.len();
    end(&mut processes, grace_of_builders(config), &mut deaths);
    // A part that could not finish its file, say, after the manager had ended.
    let code = if code == 0 && deaths.len() > died {
        LOST
    } else {
        code
    };
    Ok(Outcome {
        code,
        deaths,
        ledger: ledger.join().unwrap_or_default(),
    })
}

/// The processes of a run: the manager, builders, and those sources that do not come by themselves.
fn roles(config: &Config) -> impl Iterator<Item = Role> {
    let builders = (0..config.manager.builders).map(|it| Part::Builder(BuilderId(it)));
    let sources = match config.source_kind {
        SourceKind::Own(None) => 0,
        _ => config.manager.sources,
    };
    let sources = (0..sources).map(|it| Part::Source(SourceId(it)));
    let parts = builders.chain(sources).map(Role::Part);
    core::iter::once(Role::Manager).chain(parts)
}

/// Starts the processes of a run.
struct Starter<'a, F> {
    config: &'a Config,
    command: F,
    credential: Credential,
}

impl<F: FnMut(Role) -> Command> Starter<'_, F> {
    fn start(&mut self, role: Role, starts: u32, watcher: &mut dyn Watcher) -> io::Result<Child> {
        let mut command = (self.command)(role);
        let credential = Credential {
            start: starts,
            ..self.credential
        };
        let is_here = self.config.start.is_here(role.part());
        match is_here {
            true => credential.pass_to(&mut command),
            false => drop(command.stdin(Stdio::piped())),
        }
        command.process_group(0);
        if role == Role::Manager {
            command.stdout(Stdio::piped());
        }
        let options = SpawnOpts {
            pdeathsig: true,
            ..SpawnOpts::default()
        };
        let mut child = spawn_with(&mut command, options).map_err(|error| {
            let program = std::path::Path::new(command.get_program()).display();
            io::Error::new(error.kind(), format!("{program}: {error}"))
        })?;
        watcher.said(role, "started", child.id());
        if let Some(input) = child.stdin.as_mut().filter(|_| !is_here) {
            handed::give(input, credential, &self.config.text)?;
        }
        Ok(child)
    }
}

/// Reads what the manager writes, in a thread: a long ledger must not fill the pipe.
fn read_ledger(manager: Option<&mut Child>) -> std::thread::JoinHandle<String> {
    let output = manager.and_then(|it| it.stdout.take());
    std::thread::spawn(move || {
        let mut ledger = String::new();
        if let Some(mut output) = output {
            let _ = io::Read::read_to_string(&mut output, &mut ledger);
        }
        ledger
    })
}

/// How long builders may take to end after the manager.
fn grace_of_builders(config: &Config) -> Duration {
    match config.sink {
        SinkKind::File { .. } => GRACE + system_time(config.sink_patience),
        _ => GRACE,
    }
}

fn ask_to_end(manager: Option<&mut Child>, times: u32) {
    let Some(manager) = manager else {
        return;
    };
    // One that has just ended needs no signal any more.
    match (times, &mut manager.stdin) {
        (1 | 2, Some(input)) => handed::ask_to_end(input),
        (1 | 2, None) => drop(send_signal(manager.id() as i32, Signal::Term)),
        _ => drop(manager.kill()),
    }
}

fn watch(
    process: &mut Process,
    restart: bool,
    deaths: &mut Vec<String>,
    watcher: &mut dyn Watcher,
) -> io::Result<()> {
    let Some(child) = &mut process.child else {
        return Ok(());
    };
    let Some(status) = child.try_wait()? else {
        return Ok(());
    };
    let id = child.id();
    process.child = None;
    if status.success() {
        return Ok(());
    }
    watcher.said(process.role, &how(status), id);
    if had_joined(status) {
        deaths.push(format!("{}: {}", process.role.name(), how(status)));
    }
    if restart {
        let pause = process.pause_after(process.started.elapsed());
        process.again_at = pause.map(|it| Instant::now() + it);
        if pause.is_none() {
            let text = format!(
                "is not started again: it died {QUICK_DEATHS_MAX} times soon after its start; the last"
            );
            watcher.said(process.role, &text, id);
            deaths.push(format!("{} {text}", process.role.name()));
        }
    }
    Ok(())
}

/// Whether a part that has ended may have taken part in the run. One that is started again just as the run ends
/// finds no manager any more: that is not a death.
fn had_joined(status: ExitStatus) -> bool {
    status.code() != Some(i32::from(NOT_JOINED))
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("died of signal {signal}"),
        (None, code) => format!("ended with {}", code.unwrap_or(-1)),
    }
}

/// Waits for those that are still there, builders first: they have files to finish, which takes time on a
/// slow disk. Who takes longer is killed; of a builder that is told, since its file may lack something.
fn end(processes: &mut [Process], grace_of_builders: Duration, deaths: &mut Vec<String>) {
    let begin = Instant::now();
    processes.sort_by_key(|it| !it.role.is_builder());
    for process in processes {
        let Some(child) = &mut process.child else {
            continue;
        };
        let is_builder = process.role.is_builder();
        let grace = if is_builder { grace_of_builders } else { GRACE };
        let deadline = begin + grace;
        while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        if let Ok(Some(status)) = child.try_wait() {
            if !status.success() && had_joined(status) {
                deaths.push(format!("{}: {}", process.role.name(), how(status)));
            }
            continue;
        }
        let _ = child.kill();
        let _ = child.wait();
        if is_builder {
            let name = process.role.name();
            deaths.push(format!(
                "{name}: killed, as it had not ended after {grace:?}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        ending_with(0)
    }

    fn ending_with(status: u8) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exit {status}")]);
        let child = command.spawn().expect("a process");
        Process::new(Role::Part(Part::Builder(BuilderId(0))), child)
    }

    /// What is noted of a part that ends with `status` while the run goes on, and at its end.
    fn deaths_noted(status: u8) -> Vec<String> {
        let mut deaths = Vec::new();
        let mut process = ending_with(status);
        while process.child.is_some() {
            watch(
                &mut process,
                true,
                &mut deaths,
                &mut Said(|_, _: &str, _| {}),
            )
            .expect("watched");
        }
        assert!(process.again_at.is_some(), "it is started again");
        end(&mut [ending_with(status)], GRACE, &mut deaths);
        deaths
    }

    #[test]
    fn a_part_that_came_too_late_to_join_has_not_died() {
        assert_eq!(deaths_noted(2), ["builder 0: ended with 2"; 2]);
        assert!(deaths_noted(NOT_JOINED).is_empty());
    }

    #[test]
    fn a_part_that_dies_at_once_is_started_ever_later_and_then_no_more() {
        let mut process = process();
        let soon = Duration::from_millis(5);
        let pauses: Vec<_> = core::iter::from_fn(|| process.pause_after(soon)).collect();
        assert_eq!(pauses.len(), QUICK_DEATHS_MAX as usize - 1);
        assert!(pauses.windows(2).all(|it| it[1] == it[0] * 2), "{pauses:?}");
        assert!(pauses.iter().sum::<Duration>() > Duration::from_secs(5));
    }

    #[test]
    fn a_part_that_lives_for_a_while_is_started_again_at_once() {
        let mut process = process();
        for _ in 0..100 {
            process.pause_after(Duration::ZERO);
            let pause = process.pause_after(Duration::from_secs(60));
            assert_eq!(pause, Some(PAUSE_MIN));
        }
    }
}
