//! Starting children: programs with another user or processor, and forks.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::AssertUnwindSafe;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};

use rustix::process::{WaitId, WaitIdOptions};

use super::{Signal, change_user, getpid, one_cpu, positive};
use crate::memory::huge_page_bytes;
use crate::wake::register_expedited;

/// What else to do in a child before its program starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpawnOpts {
    /// Become this user and group, without supplementary groups. Needs root.
    pub uid_gid: Option<(u32, u32)>,
    /// Have the kernel kill it when the thread that starts it ends.
    pub pdeathsig: bool,
    /// Tie it to this processor.
    pub pin: Option<usize>,
}

/// Starts a program. `cmd` keeps the options for later starts.
///
/// # Errors
/// As [`Command::spawn`]; also where an option cannot be met (no such
/// processor, not root), and then nothing runs.
pub fn spawn_with(cmd: &mut Command, opts: SpawnOpts) -> io::Result<Child> {
    let cpus = match opts.pin {
        Some(cpu) => Some(one_cpu(cpu).ok_or(io::ErrorKind::InvalidInput)?),
        None => None,
    };
    let parent = getpid();
    let prepare = move || {
        if let Some(cpus) = &cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        if let Some((uid, gid)) = opts.uid_gid {
            change_user(uid, gid)?;
        }
        // Last, because a change of user undoes it.
        if opts.pdeathsig {
            die_with(parent)
        } else {
            Ok(())
        }
    };
    // SAFETY: `prepare` runs between fork and exec, where only calls that are
    // safe in a signal handler may be made: it makes system calls only, and
    // touches no lock and no allocator.
    unsafe { cmd.pre_exec(prepare) }.spawn()
}

fn die_with(parent: i32) -> io::Result<()> {
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill)?;
    // If it has died before, nobody would be told any more.
    match rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) {
        Some(pid) if pid == parent => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// A child made by [`fork_child`]. Dropping it kills the child, if it still
/// runs, and reaps it.
#[derive(Debug)]
pub struct ForkedChild {
    /// Its process id.
    pub pid: i32,
    /// The process that may reap it: a fork of that holds a copy only.
    parent: i32,
    status: Mutex<Option<ExitStatus>>,
}

/// Forks. The child runs `f` and ends with the value of it as its exit code
/// (of which the system keeps the lowest 8 bits), or with 101 if `f` panics;
/// nothing else of the caller's program goes on in it: no destructors beyond
/// those of `f`, no exit handlers. For tests, benchmarks, and a process that only waits.
///
/// The child has only the calling thread. Callers with other threads must not
/// rely on locks in it: one that another thread held stays held (glibc takes
/// care of its allocator). File descriptors and shared mappings are inherited.
///
/// # Errors
/// No memory, or too many processes (`ulimit -u`, cgroup pids.max).
pub fn fork_child(f: impl FnOnce() -> i32) -> io::Result<ForkedChild> {
    // What is found out once per process is found out before: the child would wait for ever for a thread of ours that
    // is just finding it out, and that the child does not have.
    let _ = huge_page_bytes();
    let _ = register_expedited();
    let parent = getpid();
    // SAFETY: the child keeps a consistent copy of this thread's memory, runs
    // `f` and leaves through `_exit`; locks held elsewhere may hang it, which
    // is documented, but no memory is used that is not valid.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = std::panic::catch_unwind(AssertUnwindSafe(f)).unwrap_or(101);
            // SAFETY: ends the process; takes a number only.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(ForkedChild {
            pid,
            parent,
            status: Mutex::new(None),
        }),
    }
}

impl ForkedChild {
    /// Waits for the child to end. May be called more than once.
    ///
    /// # Errors
    /// Called in another process than the one that forked, or someone else
    /// has reaped the child.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        // First without reaping, so that `kill` can come in meanwhile.
        while self.known().is_none() {
            self.check_parent()?;
            let target = positive(self.pid).ok_or(io::ErrorKind::InvalidInput)?;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            match rustix::process::waitid(WaitId::Pid(target), options) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.reap(),
                // Another thread may have reaped it just now.
                Err(errno) => return self.known().ok_or(errno.into()),
            }
        }
        self.known().ok_or(io::ErrorKind::Other.into())
    }

    /// Ends the child at once; a child that has ended already is left be.
    ///
    /// # Errors
    /// Called in another process than the one that forked.
    pub fn kill(&self) -> io::Result<()> {
        self.check_parent()?;
        // Held so that the pid cannot be reaped, and given away, meanwhile.
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_some() {
            return Ok(());
        }
        super::send_signal(self.pid, Signal::Kill).map_err(io::Error::from)
    }

    fn known(&self) -> Option<ExitStatus> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_parent(&self) -> io::Result<()> {
        if getpid() == self.parent {
            return Ok(());
        }
        let text = "a forked child can be waited for and killed by its parent only";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Reaps the child, which has ended.
    fn reap(&self) -> io::Result<ExitStatus> {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = *status {
            return Ok(known);
        }
        let mut raw = 0;
        // SAFETY: the kernel writes the status to `raw`.
        if unsafe { libc::waitpid(self.pid, &raw mut raw, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(*status.insert(ExitStatus::from_raw(raw)))
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        if self.known().is_none() && self.check_parent().is_ok() {
            let _ = self.kill();
            let _ = self.wait();
        }
    }
}
