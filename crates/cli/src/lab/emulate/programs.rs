//! Programs beside TAP devices: those of `--run`, or a shell.
//!
//! Each program of `--run` leads a group of processes, which ends with the emulation. If this
//! process is killed, the kernel kills the programs that it started; what they have started
//! themselves ends when it has done its work.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use barewire_sys::process::{SpawnOpts, child_has_ended, kill_group, spawn_with};

use super::arguments::RunWish;
use super::taps::Tap;
use crate::lab::error::{LabError, Result};

/// The shell of whoever has none.
const SHELL: &str = "/bin/sh";

struct Program {
    name: String,
    command: String,
    child: Child,
    status: Option<ExitStatus>,
    /// It leads a group of its own.
    leads: bool,
}

/// The programs.
pub struct Programs(Vec<Program>);

/// How the last program is.
pub enum Last {
    /// There is none.
    None,
    /// It runs.
    Runs,
    /// It has ended well.
    Done,
    /// It has ended, and this is what is wrong with how.
    Failed(String),
}

impl Programs {
    /// Starts them, in their order.
    pub fn start(taps: &[Tap], wishes: &[RunWish], shell: Option<&str>) -> Result<Self> {
        let mut programs = Self(Vec::new());
        for wish in wishes {
            let mut command = Command::new(SHELL);
            command.arg("-c").arg(&wish.command);
            command.stdin(Stdio::null()).process_group(0);
            programs.add(taps, &wish.name, wish.command.clone(), command, true)?;
        }
        if let Some(name) = shell {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| SHELL.to_owned());
            let command = Command::new(&shell);
            programs.add(taps, name, shell, command, false)?;
        }
        Ok(programs)
    }

    fn add(
        &mut self,
        taps: &[Tap],
        name: &str,
        said: String,
        mut command: Command,
        leads: bool,
    ) -> Result<()> {
        // The arguments were checked against the devices.
        let Some(tap) = taps.iter().find(|tap| tap.is_named(name)) else {
            return Ok(());
        };
        let opts = SpawnOpts {
            pdeathsig: true,
            ..SpawnOpts::default()
        };
        // By this thread, with whose end the program ends.
        let started = tap.namespace().visit(|| spawn_with(&mut command, opts));
        let child = started
            .and_then(|it| it)
            .map_err(|source| LabError::Start {
                command: said.clone(),
                source,
            })?;
        self.0.push(Program {
            name: tap.name().to_owned(),
            command: said,
            child,
            status: None,
            leads,
        });
        Ok(())
    }

    /// Looks who has ended, and how the last one is.
    pub fn look(&mut self) -> Last {
        for program in &mut self.0 {
            let pid = program.child.id() as i32;
            if program.status.is_some() || !child_has_ended(pid).unwrap_or(true) {
                continue;
            }
            if program.leads {
                // Whoever it has started ends with it. As long as it is not reaped, the group is its own.
                let _ = kill_group(pid);
            }
            program.status = program.child.wait().ok();
        }
        match self.0.last() {
            None => Last::None,
            Some(Program { status: None, .. }) => Last::Runs,
            Some(Program {
                status: Some(status),
                leads,
                ..
            }) if status.success() || !leads => Last::Done,
            Some(program) => Last::Failed(program.said()),
        }
    }

    /// Ends those that still run, and says how all have ended.
    pub fn end(&mut self) -> String {
        self.look();
        let mut said = String::new();
        for program in self.0.iter().filter(|program| program.leads) {
            // Text takes everything.
            let _ = writeln!(said, "{}", program.said());
        }
        self.kill();
        said
    }

    fn kill(&mut self) {
        for program in self.0.iter_mut().filter(|it| it.status.is_none()) {
            // Not reaped yet, so the number is its own. Whoever is gone needs no end.
            match program.leads {
                true => drop(kill_group(program.child.id() as i32)),
                false => drop(program.child.kill()),
            }
            program.status = program.child.wait().ok();
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Program {
    fn said(&self) -> String {
        let (name, command) = (&self.name, &self.command);
        match &self.status {
            None => format!("{name}: `{command}` was ended with the emulation"),
            Some(status) => format!("{name}: `{command}` ended, {status}"),
        }
    }
}
