//! This process and its children: identity, limits, processors, signals.

mod capabilities;
mod child;
mod remote_memory;

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use barewire_calls::clock::now_ns;
use barewire_calls::process::{self, without_signals};
use rustix::io::Errno as Raw;
use rustix::process::{Pid, WaitId, WaitIdOptions};
use rustix::thread::CpuSet;

use crate::error::{Errno, Result, SysError, on};

pub use barewire_calls::option::Credentials;
pub use capabilities::{Capability, keep_capabilities};
pub use child::{ForkedChild, SpawnOpts, fork_child, spawn_with};
pub use remote_memory::{let_process_trace, may_read_process, read_process};

/// A signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End it at once.
    Kill,
    /// Ask it to end.
    Term,
    /// Halt it.
    Stop,
    /// Let it go on.
    Cont,
}

impl Signal {
    fn raw(self) -> rustix::process::Signal {
        use rustix::process::Signal as S;
        match self {
            Signal::Kill => S::KILL,
            Signal::Term => S::TERM,
            Signal::Stop => S::STOP,
            Signal::Cont => S::CONT,
        }
    }
}

/// Who this process is; the effective user and group, as peers see them.
pub fn own_credentials() -> Credentials {
    Credentials {
        pid: getpid(),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

/// The id of this process. A system call.
pub fn getpid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Starts a thread that takes none of the program's signals.
///
/// # Errors
/// The limit on threads or on memory is reached.
pub fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    // A new thread has the mask of the one that starts it.
    let started = without_signals(|| builder.stack_size(THREAD_STACK_BYTES).spawn(run));
    started.map(drop).map_err(|error| SysError::Os {
        what: "start a thread",
        errno: Errno(error.raw_os_error().unwrap_or(0)),
    })
}

/// Enough for threads that do little.
const THREAD_STACK_BYTES: usize = 128 << 10;

/// Fills `buf` with random bytes fit for secrets.
///
/// # Errors
/// `Unsupported` before Linux 3.17, or in a sandbox without getrandom.
pub fn random_bytes(buf: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buf.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut buf[filled..], flags) {
            Ok(count) => filled += count,
            Err(Raw::INTR) => {}
            Err(errno) => {
                let (what, needs) = ("get random bytes (getrandom)", "Linux 3.17 or newer");
                return Err(SysError::Unsupported {
                    what,
                    needs,
                    errno: errno.into(),
                });
            }
        }
    }
    Ok(())
}

/// Ties the calling thread, and what it starts from now on, to one processor.
///
/// # Errors
/// `InvalidArgument` if there is no such processor or it is not allowed here.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    const WHAT: &str = "pin a thread to a processor (sched_setaffinity)";
    let wrong = SysError::InvalidArgument {
        what: WHAT,
        reason: "no such processor here, or not allowed (see `taskset -p` and cpuset cgroups)",
    };
    let Some(set) = one_cpu(cpu) else {
        return Err(wrong);
    };
    rustix::thread::sched_setaffinity(None, &set).map_err(|errno| match errno {
        Raw::INVAL => wrong,
        _ => SysError::new(WHAT, errno),
    })
}

/// Ties the calling thread, and what it starts from now on, to these processors.
///
/// # Errors
/// `InvalidArgument` if none of them is there and allowed.
pub fn pin_to_cpus(cpus: &[usize]) -> Result<()> {
    const WHAT: &str = "pin a thread to processors (sched_setaffinity)";
    let mut set = CpuSet::new();
    let known = cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU);
    known.for_each(|&cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(None, &set).map_err(|errno| match errno {
        Raw::INVAL => SysError::InvalidArgument {
            what: WHAT,
            reason: "none of them is here and allowed (see `taskset -p` and cpuset cgroups)",
        },
        _ => SysError::new(WHAT, errno),
    })
}

fn one_cpu(cpu: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    (cpu < CpuSet::MAX_CPU).then(|| set.set(cpu))?;
    Some(set)
}

/// The numbers of the processors the calling thread may run on, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
        // More processors than the set holds.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// How many processors are online, whether the calling thread may run on them or not.
pub fn online_cpus() -> usize {
    // SAFETY: no pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}

/// Processor time that all threads of this process have used, in user and
/// system mode together.
pub fn cpu_time_self() -> Duration {
    Duration::from_nanos(now_ns(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// Sends a signal to one process.
///
/// # Errors
/// `NoSuchProcess`, `PermissionDenied`.
pub fn send_signal(pid: i32, signal: Signal) -> Result<()> {
    const WHAT: &str = "send a signal";
    let target = positive(pid).ok_or(SysError::NoSuchProcess { what: WHAT, pid })?;
    rustix::process::kill_process(target, signal.raw()).map_err(|errno| match errno {
        Raw::SRCH => SysError::NoSuchProcess { what: WHAT, pid },
        _ => SysError::new(WHAT, errno),
    })
}

/// Ends all processes of a group at once: those that `pid` leads.
///
/// # Errors
/// `NoSuchProcess`, `PermissionDenied`.
pub fn kill_group(pid: i32) -> Result<()> {
    const WHAT: &str = "end a group of processes";
    let leader = positive(pid).ok_or(SysError::NoSuchProcess { what: WHAT, pid })?;
    let killed = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    killed.map_err(|errno| match errno {
        Raw::SRCH => SysError::NoSuchProcess { what: WHAT, pid },
        _ => SysError::new(WHAT, errno),
    })
}

/// Whether a child of this process has ended. It is not reaped: its number stays its own, and that of its group.
///
/// # Errors
/// `NoSuchProcess` if it is none, or has been reaped.
pub fn child_has_ended(pid: i32) -> Result<bool> {
    const WHAT: &str = "look whether a child has ended";
    let target = positive(pid).ok_or(SysError::NoSuchProcess { what: WHAT, pid })?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match rustix::process::waitid(WaitId::Pid(target), options) {
        Ok(ended) => Ok(ended.is_some()),
        Err(Raw::CHILD) => Err(SysError::NoSuchProcess { what: WHAT, pid }),
        Err(errno) => Err(SysError::new(WHAT, errno)),
    }
}

/// Has waits of the calling thread end when their time is up, and not up to 50 us later, as the kernel
/// otherwise does to wake several threads at once.
///
/// # Errors
/// Only in a sandbox without prctl.
pub fn wake_on_time() -> Result<()> {
    let least = std::num::NonZeroU64::new(1);
    rustix::thread::set_current_timer_slack(least).map_err(on("set the slack of timers (prctl)"))
}

/// Lets this process have as many descriptors as it may (soft limit up to the
/// hard one); gives the limit in force afterwards, `u64::MAX` for none.
pub fn raise_nofile_limit() -> u64 {
    let Ok(mut limit) = process::limit(libc::RLIMIT_NOFILE) else {
        return u64::MAX;
    };
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    process::set_limit(libc::RLIMIT_NOFILE, limit).map_or(before, |()| limit.rlim_max)
}

/// The path of the program this process runs.
///
/// # Errors
/// /proc is not mounted or not readable here.
pub fn exe_path() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| {
        let errno = crate::Errno(error.raw_os_error().unwrap_or(libc::ENOENT));
        SysError::new("find the running program (/proc/self/exe)", errno)
    })
}

/// Has the kernel kill this process when the thread that started it ends.
/// Changing the user afterwards undoes it. If the parent is gone already,
/// nothing happens: compare the parent's pid after the call.
///
/// # Errors
/// Only in a sandbox without prctl.
pub fn set_parent_death_signal_kill() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(on("set the parent death signal (prctl)"))
}

/// Becomes another user and group for good, in all threads, without any
/// supplementary groups; for tests.
///
/// # Errors
/// `PermissionDenied` without root. After an error the process may be part of
/// the way: end it.
pub fn drop_privileges(uid: u32, gid: u32) -> Result<()> {
    change_user(uid, gid).map_err(|error| {
        let errno = crate::Errno(error.raw_os_error().unwrap_or(libc::EPERM));
        SysError::new("become another user", errno)
    })
}

/// Makes no allocation: runs between fork and exec too.
fn change_user(uid: u32, gid: u32) -> std::io::Result<()> {
    let check = |result: i32| match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: a group list of length zero is not read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::setresuid(uid, uid, uid) })
}

/// A descriptor of a process, which becomes readable when that ends; closed
/// on exec.
///
/// # Errors
/// `NoSuchProcess`; `Unsupported` before Linux 5.3.
pub fn pidfd_open(pid: i32) -> Result<OwnedFd> {
    const WHAT: &str = "watch a process (pidfd_open)";
    let target = positive(pid).ok_or(SysError::NoSuchProcess { what: WHAT, pid })?;
    let flags = rustix::process::PidfdFlags::empty();
    rustix::process::pidfd_open(target, flags).map_err(|errno| match errno {
        Raw::SRCH => SysError::NoSuchProcess { what: WHAT, pid },
        Raw::NOSYS => {
            let needs = "Linux 5.3 or newer";
            SysError::Unsupported {
                what: WHAT,
                needs,
                errno: errno.into(),
            }
        }
        _ => SysError::new(WHAT, errno),
    })
}

/// Negative ids mean groups of processes to the kernel, and 0 this one's.
fn positive(pid: i32) -> Option<Pid> {
    (pid > 0).then(|| Pid::from_raw(pid)).flatten()
}

/// Leaves the terminal and the group of processes that this process was started in: what ends
/// those, such as Ctrl-C, does not end it.
///
/// # Errors
/// `PermissionDenied` for a process that leads its group.
pub fn start_session() -> Result<()> {
    rustix::process::setsid()
        .map(drop)
        .map_err(on("start a session (setsid)"))
}

/// How many descriptors this process may have open (`RLIMIT_NOFILE`); `u64::MAX` for any number.
pub fn descriptors_max() -> u64 {
    process::limit(libc::RLIMIT_NOFILE).map_or(u64::MAX, |limit| limit.rlim_cur)
}

/// How many mappings a process may have (`vm.max_map_count`); Linux's default where it cannot be read.
pub fn mappings_max() -> u64 {
    const DEFAULT: u64 = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT)
}

/// Whether this process may open so many descriptors more. Where that can not be told, for
/// want of /proc, it is assumed.
pub fn has_room_for_descriptors(more: usize) -> bool {
    match open_fd_count() {
        Ok(open) => (open + more) as u64 <= descriptors_max(),
        Err(SysError::TooManyDescriptors { .. }) => false,
        Err(_) => true,
    }
}

/// How many descriptors this process has open; for tests and diagnostics.
///
/// # Errors
/// /proc is not mounted or not readable here.
pub fn open_fd_count() -> Result<usize> {
    const WHAT: &str = "count open descriptors (/proc/self/fd)";
    let flags =
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let dir =
        rustix::fs::open("/proc/self/fd", flags, rustix::fs::Mode::empty()).map_err(on(WHAT))?;
    let mut space = [const { MaybeUninit::uninit() }; 4096];
    let mut entries = rustix::fs::RawDir::new(dir, &mut space);
    let mut count = 0usize;
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(on(WHAT))?;
        count += usize::from(!entry.file_name().to_bytes().starts_with(b"."));
    }
    // Without the one that reads the directory.
    Ok(count.saturating_sub(1))
}
