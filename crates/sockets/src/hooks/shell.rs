//! `system` and `popen`: a shell in a child.
//!
//! The C library begins the shell by itself, so nothing of this library runs in the child first. Where
//! the kernel's limit of addresses is larger than the program's (see [`limits`]), a command in front of the
//! program's makes the shell lower it.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::Write;
use core::ptr;

use barewire_calls::memory::{map_new, unmap};
use libc::{FILE, RLIM_INFINITY, rlim_t, rlimit};

use crate::handoff::program_end::before_another_program;
use crate::hooks::limits;
use crate::system::cancel::quietly;
use crate::system::real;
use crate::system::text::Line;

/// A command with others in front of it, in memory of its own.
///
/// It has no `drop`: a thread that is cancelled in `system` unwinds through its frame, and leaves
/// these pages behind.
struct Command {
    start: *mut c_char,
    len: usize,
}

impl Command {
    /// `None` if there is no memory.
    fn joined(front: &[u8], command: &CStr) -> Option<Command> {
        let command = command.to_bytes_with_nul();
        let len = front.len() + command.len();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let pages = map_new(len, access, libc::MAP_PRIVATE).ok()?;
        let start = pages.cast::<u8>();
        // SAFETY: the pages hold both, one behind the other, and nobody else knows of them.
        unsafe {
            ptr::copy_nonoverlapping(front.as_ptr(), start, front.len());
            ptr::copy_nonoverlapping(command.as_ptr(), start.add(front.len()), command.len());
        }
        let start = start.cast();
        Some(Command { start, len })
    }

    fn give_back(self) {
        // SAFETY: mapped above, and nobody reads it any more.
        unsafe { unmap(self.start.cast(), self.len) };
    }
}

/// What a shell is told so that it has the limit of addresses `wanted`. `ulimit` counts in KiB: the
/// kernel counts in pages, so nothing is lost by rounding.
fn lower_to(wanted: rlimit) -> Option<Line> {
    let mut line = Line::new();
    let mut lower = |kind: char, limit: rlim_t| {
        if limit == RLIM_INFINITY {
            return Ok(());
        }
        write!(line, "ulimit -{kind} -v {}; ", limit / 1024)
    };
    lower('S', wanted.rlim_cur).ok()?;
    lower('H', wanted.rlim_max).ok()?;
    Some(line)
}

/// Runs `call` with the command that a shell is to be given in place of `command`.
///
/// # Safety
/// The command is null, or a string of the program's.
unsafe fn with_limits<T>(command: *const c_char, call: impl FnOnce(*const c_char) -> T) -> T {
    before_another_program(ptr::null());
    if command.is_null() {
        return call(command);
    }
    let joined = limits::wanted_of_children()
        .and_then(lower_to)
        .and_then(|front| {
            // SAFETY: as promised.
            let command = unsafe { CStr::from_ptr(command) };
            quietly(|| Command::joined(front.as_bytes(), command))
        });
    let Some(joined) = joined else {
        return call(command);
    };
    let result = call(joined.start);
    joined.give_back();
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    // SAFETY: the program's call.
    unsafe { with_limits(command, |command| real::system(command)) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's call.
    unsafe { with_limits(command, |command| real::popen(command, mode)) }
}
