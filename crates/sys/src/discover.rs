//! Finding the counter pages of all processes on this machine, and the rings that they name.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use barewire_shm::Region;

use crate::error::{Errno, Result, SysError};
use crate::memory::{Access, Memfd};

/// The memfd name that marks a counter page.
pub const COUNTER_PAGE_NAME: &str = "barewire-counters";

/// The memfd name of the memory that a node receives in.
pub const ARENA_NAME: &str = "barewire-arena";

/// Whether this is how /proc shows a memfd of that name.
fn is_memfd_of_name(target: &Path, name: &str) -> bool {
    let shown = target.to_str().and_then(|t| t.strip_prefix("/memfd:"));
    shown.and_then(|t| t.strip_suffix(" (deleted)")) == Some(name)
}

/// A process with a counter page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The process.
    pub pid: i32,
    /// The number of the descriptor in that process.
    pub fd_number: i32,
    /// The name of the program, as `ps` shows it (at most 15 bytes).
    pub comm: String,
    /// Its effective user id.
    pub uid: u32,
}

/// All counter pages that this user may see: those of its own processes; for
/// root, of all. A page that a process has under several descriptors is told
/// once. By pid, ascending. Empty where /proc is not readable.
pub fn find_counter_pages() -> Vec<Found> {
    let mut pids: Vec<i32> = numbers_in(Path::new("/proc"));
    pids.sort_unstable();
    pids.into_iter().flat_map(pages_of).collect()
}

fn pages_of(pid: i32) -> Vec<Found> {
    let mut fds: Vec<i32> = numbers_in(&PathBuf::from(format!("/proc/{pid}/fd")));
    fds.sort_unstable();
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for fd_number in fds {
        let path = fd_path(pid, fd_number);
        if !is_counter_page(&path) {
            continue;
        }
        let Ok(file) = fs::metadata(&path) else {
            continue;
        };
        if seen.contains(&(file.dev(), file.ino())) {
            continue;
        }
        seen.push((file.dev(), file.ino()));
        found.extend(describe(pid, fd_number));
    }
    found
}

/// The entries of a directory whose names are numbers; none if unreadable.
fn numbers_in(dir: &Path) -> Vec<i32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn fd_path(pid: i32, fd_number: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/fd/{fd_number}"))
}

fn is_counter_page(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| is_memfd_of_name(&target, COUNTER_PAGE_NAME))
}

fn describe(pid: i32, fd_number: i32) -> Option<Found> {
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let comm = String::from_utf8_lossy(&comm)
        .trim_end_matches('\n')
        .to_owned();
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let uid = effective_uid(&String::from_utf8_lossy(&status))?;
    Some(Found {
        pid,
        fd_number,
        comm,
        uid,
    })
}

/// From the line `Uid: real effective saved filesystem`.
fn effective_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Maps the counter page that a process has under a descriptor, for reading.
///
/// # Errors
/// `NoSuchProcess` if the process, or the descriptor in it, is gone;
/// `PermissionDenied` if it belongs to another user; `BadDescriptor` if it is
/// no counter page, or its size could change.
pub fn open_counter_page(pid: i32, fd_number: i32) -> Result<Region> {
    const WHAT: &str = "open a counter page (/proc/PID/fd)";
    open_memory(WHAT, pid, fd_number, COUNTER_PAGE_NAME)
}

/// Maps the memory that a process receives in and has under a descriptor, for reading: as
/// its counter page names them.
///
/// # Errors
/// As [`open_counter_page`].
pub fn open_arena(pid: i32, fd_number: i32) -> Result<Region> {
    const WHAT: &str = "open the memory of rings (/proc/PID/fd)";
    open_memory(WHAT, pid, fd_number, ARENA_NAME)
}

fn open_memory(what: &'static str, pid: i32, fd_number: i32, name: &str) -> Result<Region> {
    let path = fd_path(pid, fd_number);
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH | libc::ENXIO) | None => {
            SysError::NoSuchProcess { what, pid }
        }
        Some(errno) => SysError::new(what, Errno(errno)),
    };
    // Looked at before opening: opening a device or a pipe could do things.
    let target = fs::read_link(&path).map_err(failed)?;
    if !is_memfd_of_name(&target, name) {
        return Err(crate::BadDescriptor::NotMemfd.into());
    }
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(&path).map_err(failed)?;
    Memfd::from_peer_of_any_len(OwnedFd::from(file))?.map(Access::Read)
}
