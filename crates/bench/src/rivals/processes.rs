//! The processes of one run of a rival: each on its processor, and none left behind.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use barewire_sys::process::{Signal, SpawnOpts, pin_to_cpu, pin_to_cpus, send_signal, spawn_with};

use crate::error::{Error, Result, What};
use crate::rivals::list::{Part, Parts, Place, Rival, Run};

/// No run of a rival takes so long.
const LONGEST: Duration = Duration::from_secs(20);

/// So long may a server take to end after its client has, and a program that was asked to end.
const FAREWELL: Duration = Duration::from_secs(3);

/// Where shared memory has names, and where our own programs are told to put all their files.
const SHARED_MEMORY: &str = "/dev/shm";

/// Processes beside the client. They do not outlive this value.
struct Others(Vec<(Child, bool)>);

impl Others {
    /// Lets those end that do so by themselves, so that they can remove their files.
    fn wait(&mut self) {
        let begin = Instant::now();
        for (child, _) in self.0.iter_mut().filter(|(_, ends_itself)| *ends_itself) {
            wait_until(child, begin + FAREWELL);
        }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // The children that we started, by their own handles.
        for (child, _) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a rival once; nanoseconds per operation.
pub fn run(rival: &Rival, program: &Path, run: &Run) -> Result<f64> {
    let parts = (rival.parts)(rival, run);
    let output = run_parts(rival, program, &parts, run);
    remove_files(Path::new(SHARED_MEMORY), &run.name);
    (rival.parse)(&output?)
        .ok_or_else(|| Error::Transport("its output was not understood".to_owned()))
}

fn run_parts(rival: &Rival, program: &Path, parts: &Parts, run: &Run) -> Result<String> {
    let mut others = Others(Vec::new());
    for part in &parts.others {
        let child = start(rival, program, part, run)?;
        others.0.push((child, part.ends_itself));
    }
    if parts.is_silent {
        std::thread::sleep(Duration::from_millis(300));
    }
    let output = start(rival, program, &parts.client, run).and_then(finish)?;
    others.wait();
    Ok(output)
}

fn start(rival: &Rival, program: &Path, part: &Part, run: &Run) -> Result<Child> {
    let mut command = Command::new(program);
    command
        .args(&part.arguments)
        .envs(rival.environment)
        .env("UCX_LOG_LEVEL", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let pin = run.cpus.and_then(|(client, server)| match part.place {
        Place::Client => Some(client),
        Place::Server => Some(server),
        Place::Spare => None,
    });
    let options = SpawnOpts {
        pdeathsig: true,
        pin,
        ..SpawnOpts::default()
    };
    let mut begin = || spawn_with(&mut command, options);
    let child = match (part.place, run.cpus) {
        (Place::Spare, Some(cpus)) => away(cpus, &run.spare, begin),
        _ => begin(),
    };
    child.what(&format!("starting {}", rival.program.name()))
}

/// Starts a process on the spare processors, or on both of the ends if there are none. A child runs where its parent
/// does, which is tied to the client's processor: so we go there ourselves, for a moment.
fn away<T>(ends: (usize, usize), spare: &[usize], start: impl FnOnce() -> T) -> T {
    let both = [ends.0, ends.1];
    // It would run all the same, in a worse place.
    let _ = pin_to_cpus(if spare.is_empty() { &both } else { spare });
    let started = start();
    let _ = pin_to_cpu(ends.0);
    started
}

/// Waits for a child, but no longer than until then.
fn wait_until(child: &mut Child, then: Instant) {
    while Instant::now() < then && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks a child to end, which lets it remove its files and end those that it started; then kills it.
fn end(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // It may have ended by itself meanwhile; its number is ours until we have waited for it.
        let _ = send_signal(pid, Signal::Term);
    }
    wait_until(child, Instant::now() + FAREWELL);
    let _ = child.kill();
    let _ = child.wait();
}

fn finish(mut child: Child) -> Result<String> {
    let started = Instant::now();
    let status = loop {
        match child.try_wait().what("waiting for the program")? {
            Some(status) => break status,
            None if started.elapsed() > LONGEST => {
                end(&mut child);
                return Err(Error::Stuck("the program", LONGEST.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut output = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        // What is not text is no result either.
        let _ = pipe.read_to_string(&mut output);
    }
    if status.success() {
        Ok(output)
    } else {
        Err(Error::Transport(format!("it failed ({status})")))
    }
}

/// Removes what processes of a run left behind: all that begins with its name.
fn remove_files(folder: &Path, name: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(name) {
            // It may have gone by itself meanwhile.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
                _ => std::fs::remove_file(entry.path()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::list::RIVALS;
    use crate::rivals::tests::Folder;

    /// Runs a script in place of Aeron, which has all three processes.
    fn run_script(folder: &Folder, text: &str) -> Result<f64> {
        let rival = RIVALS.iter().find(|it| it.transport == "aeron").unwrap();
        let program = folder.script("aeron", text);
        let task = Run {
            size: 8,
            turns: 1,
            port: 0,
            name: format!("barewire-rival-test-{}-", std::process::id()),
            cpus: None,
            spare: Vec::new(),
        };
        run(rival, &program, &task)
    }

    #[test]
    fn the_client_has_the_figure_and_a_driver_is_killed() {
        let folder = Folder::new("figure");
        let pid_file = folder.0.join("pid");
        let text = format!(
            "case $1 in\n\
             driver) echo $$ >{0}.new && mv {0}.new {0} && exec sleep 600 ;;\n\
             client) while [ ! -e {0} ]; do :; done; echo ns-per-operation 12.5 ;;\n\
             esac",
            pid_file.display()
        );
        assert!(matches!(run_script(&folder, &text), Ok(12.5)));
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }

    #[test]
    fn wrong_output_and_failure_are_told_apart() {
        let folder = Folder::new("wrong");
        let why = |text| run_script(&folder, text).unwrap_err().to_string();
        assert!(why("echo 5").contains("not understood"));
        assert!(why("exit 3").contains("it failed (exit status: 3)"));
    }

    #[test]
    fn a_program_that_is_stuck_may_tidy_up() {
        let folder = Folder::new("stuck");
        let file = folder.0.join("file");
        let text = "trap 'rm \"$1\"; exit' TERM; echo >\"$1\"; while :; do :; done";
        let program = folder.script("stuck", text);
        let mut child = Command::new(program).arg(&file).spawn().unwrap();
        while !file.exists() {
            std::thread::yield_now();
        }
        end(&mut child);
        assert!(!file.exists());
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let rival = RIVALS.last().unwrap();
        let task = Run {
            size: 8,
            turns: 1,
            port: 0,
            name: "barewire-rival-test-none-".to_owned(),
            cpus: None,
            spare: Vec::new(),
        };
        let why = run(rival, Path::new("/no/such/program"), &task).unwrap_err();
        assert!(why.to_string().contains("starting openmpi"), "{why}");
    }

    #[test]
    fn files_of_a_run_are_removed_and_no_others() {
        let folder = Folder::new("files");
        std::fs::create_dir_all(folder.0.join("run-1-dir/deep")).unwrap();
        for file in ["run-1-dir/deep/file", "run-1-file", "run-12-file"] {
            std::fs::write(folder.0.join(file), "").unwrap();
        }
        remove_files(&folder.0, "run-1-");
        let left = std::fs::read_dir(&folder.0).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["run-12-file"]);
    }
}
