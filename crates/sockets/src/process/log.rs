//! The log that `BAREWIRE_LOG=LEVEL[:FILE]` asks for, in the form that nodes log in. There is none unless that is set.
//!
//! Whoever logs may be anywhere in any program: in a signal handler, in a child after fork, under a lock of this
//! library's. So a line is made on the stack and written at once by raw system calls, without lock, memory or thread.
//! Nothing on the data path logs.
//!
//! - **A file** is opened for each line, under the rules of [`append`]. So no descriptor stays open, and children write
//!   on, whatever becomes of the parent.
//! - **Standard error** is kept as a descriptor of the library's own, from 1024 on, which `exec` closes: the program may
//!   close 0 to 2, as daemons do, and get the number 2 for a socket. Before each line the library looks whether the
//!   descriptor still is what standard error was at start, in case the program has closed that one too. A program whose
//!   standard error is a network socket at start (inetd begins such) has no log there: the line would go to its peer.
//!
//! A line that would have to wait for its reader is not written, and neither are more than a number of lines a second. Both
//! are counted, and the next line that is written says so. A pipe or file that takes no more raises no signal.

use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use core::time::Duration;

use barewire_calls::{clock, descriptor, option, process};
use barewire_units::log::{self, Level, RATE_MAX, Wanted};

use crate::process::kept_text::KeptText;
use crate::process::words::{AtStart, Lone};
use crate::process::{ids, sandbox};
use crate::system::append::{append, can_append};
use crate::system::cancel::quietly;
use crate::system::text::Line;
use crate::system::{kernel, own_descriptors};

/// One more than the level that is logged; 0: there is no log.
static LEVELS: AtStart<AtomicU32> = AtStart::new(AtomicU32::new(0));
/// The file, as a path from the root; none: standard error.
static FILE: KeptText = KeptText::none();

/// The library's descriptor of standard error; below 0 while there is none.
static ERROR: Lone<AtomicI32> = Lone::new(AtomicI32::new(-1));
/// Device and inode of standard error at start. Inode 0: nothing is written there.
static ERROR_DEVICE: AtStart<AtomicU64> = AtStart::new(AtomicU64::new(0));
static ERROR_INODE: AtStart<AtomicU64> = AtStart::new(AtomicU64::new(0));

/// The second that [`COUNT`] is of, and lines in it. Threads that log at the turn of a second may write some more.
static SECOND: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static COUNT: Lone<AtomicU32> = Lone::new(AtomicU32::new(0));
/// Lines that were not written since the last one that was.
static LEFT_OUT: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));

/// Longest path of a file.
const PATH_BYTES: usize = 4096;

/// Begins the log that the value of the variable asks for. For the constructor.
pub fn set_up(value: &CStr) {
    let wanted = match Wanted::parse(value.to_bytes()) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return,
        Err(error) => return complain(value, &error),
    };
    note_standard_error();
    if let Some(file) = wanted.file {
        let path = from_root(file);
        let path = path.as_path();
        if path.is_empty() {
            return complain(value, &"the path is too long");
        }
        // A file for each process is made when there is something to say.
        if !file.windows(2).any(|two| two == b"%p") && !can_append(path) {
            return complain(
                value,
                &"cannot append to this file: it must be a regular file, and neither a link nor one with another name",
            );
        }
        if FILE.keep(path).is_none() {
            return complain(value, &"the path is too long");
        }
    } else if is_standard_error(STANDARD_ERROR) {
        keep_standard_error();
    }
    LEVELS.set(1 + wanted.level as u32);
}

/// There is no log in this process after all.
pub fn end() {
    LEVELS.set(0);
    let kept = ERROR.swap(-1);
    if kept >= 0 {
        descriptor::close(kept);
    }
}

/// Says on standard error why there is no log: there is nowhere else to say it.
fn complain(value: &CStr, error: &dyn fmt::Display) {
    note_standard_error();
    let mut line: Line = Line::new();
    let value = value.to_bytes().escape_ascii();
    let _ = write!(line, "barewire: {}={value}: {error}", log::VARIABLE);
    line.end();
    write_to_error(line.as_bytes());
    end();
}

/// The path of a file from the root, since the program may go to another folder.
fn from_root(file: &[u8]) -> Line<PATH_BYTES> {
    let mut path = Line::new();
    if file.first() != Some(&b'/') {
        let mut folder = [0_u8; PATH_BYTES];
        // SAFETY: the buffer has this length.
        let found = unsafe { libc::getcwd(folder.as_mut_ptr().cast(), folder.len()) };
        if !found.is_null() {
            let folder = CStr::from_bytes_until_nul(&folder).unwrap_or(c"");
            path.text(folder.to_bytes());
            path.text(b"/");
        }
    }
    path.text(file);
    path.text(&[0]);
    path
}

/// Notes what standard error is, unless it is a connection over the network.
fn note_standard_error() {
    if ERROR_INODE.get() != 0 {
        return;
    }
    let domain = option::get(STANDARD_ERROR, libc::SOL_SOCKET, libc::SO_DOMAIN);
    let is_ours = domain.is_err() || domain == Ok(libc::AF_UNIX);
    let status = descriptor::status(STANDARD_ERROR);
    if let (true, Ok(status)) = (is_ours, status) {
        ERROR_DEVICE.set(status.st_dev);
        ERROR_INODE.set(status.st_ino);
    }
}

const STANDARD_ERROR: c_int = 2;

/// Whether a descriptor is what standard error was at start.
fn is_standard_error(fd: c_int) -> bool {
    let noted = (ERROR_DEVICE.get(), ERROR_INODE.get());
    noted.1 != 0
        && descriptor::status(fd).is_ok_and(|status| (status.st_dev, status.st_ino) == noted)
}

/// A descriptor of what standard error was at start.
fn error_descriptor() -> Option<c_int> {
    let kept = ERROR.get();
    if kept >= 0 && is_standard_error(kept) {
        return Some(kept);
    }
    if !is_standard_error(STANDARD_ERROR) {
        return None;
    }
    // A child made by vfork has its parent's variables, and descriptors of its own.
    if !ids::is_vfork_child() {
        keep_standard_error();
    }
    Some(STANDARD_ERROR)
}

fn keep_standard_error() {
    ERROR.set(own_descriptors::copy(STANDARD_ERROR).unwrap_or(-1));
}

/// Whether lines of a level are wanted, and may be written.
#[inline]
pub fn is_wanted(level: Level) -> bool {
    LEVELS.get() > level as u32 && !sandbox::is_sandboxed()
}

/// Writes a line, if lines of its level are wanted. What `text` shows is not asked for if not.
#[cold]
pub fn line(level: Level, text: fmt::Arguments<'_>) {
    if !is_wanted(level) {
        return;
    }
    let since_epoch = Duration::from_nanos(clock::now_ns(libc::CLOCK_REALTIME));
    if !has_room(since_epoch.as_secs()) {
        LEFT_OUT.add(1);
        return;
    }
    let left_out = LEFT_OUT.swap(0);
    let mut line = Line::<LINE_BYTES>::new();
    if left_out > 0 {
        let _ = writeln!(line, "({left_out} lines left out)");
    }
    let shown = log::Line {
        since_epoch,
        level,
        pid: ids::id(),
        text,
    };
    let _ = write!(line, "{shown}");
    line.end();
    if !write(&line) {
        LEFT_OUT.add(left_out + 1);
    }
}

/// Longest line; what does not fit is cut.
const LINE_BYTES: usize = 1024;

/// Counts a line of this second. Returns whether it may be written.
fn has_room(second: u64) -> bool {
    if SECOND.swap(second) != second {
        COUNT.set(0);
    }
    COUNT.add(1) < RATE_MAX
}

fn write(line: &Line<LINE_BYTES>) -> bool {
    match FILE.get() {
        Some(file) => append(file, line.as_bytes()),
        None => write_to_error(line.as_bytes()),
    }
}

/// Writes to what standard error was at start, unless that would wait.
fn write_to_error(bytes: &[u8]) -> bool {
    let Some(fd) = error_descriptor() else {
        return false;
    };
    // A pipe that is ready has room for a page, and lines are shorter.
    if quietly(|| kernel::events_now(fd, libc::POLLOUT)) != libc::POLLOUT {
        return false;
    }
    process::write_without_signals(fd, bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_from_the_root_or_none() {
        let folder = std::env::current_dir().unwrap();
        let path = |file: &[u8]| from_root(file).as_path().to_owned();
        assert_eq!(path(b"/tmp/a.%p").to_bytes(), b"/tmp/a.%p");
        let wanted = folder.join("a");
        assert_eq!(path(b"a").to_str().unwrap(), wanted.to_str().unwrap());
        assert!(path(&[b'/'; PATH_BYTES]).is_empty());
    }

    #[test]
    fn a_second_has_room_for_so_many_lines() {
        let fit = |second| (0..RATE_MAX + 5).filter(|_| has_room(second)).count();
        assert_eq!((fit(7), fit(8)), (RATE_MAX as usize, RATE_MAX as usize));
    }
}
