//! Functions that close or duplicate descriptors, fork, or end the process.

use core::ffi::{c_char, c_int, c_uint};

use barewire_calls::descriptor;

use crate::epoll::sets;
use crate::handoff::closing::{close_all, closing};
use crate::handoff::duplicate::duplicating;
use crate::handoff::fork::fork_untold;
use crate::handoff::give_back::used_past_us;
use crate::handoff::program_end::at_exit;
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::{descriptors, process_refs, uring_rings};
use crate::upgrade::steps;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    closing(fd);
    // SAFETY: the program's call.
    unsafe { real::close(fd) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        close_all(first, last);
    }
    // SAFETY: the program's call.
    unsafe { real::close_range(first, last, flags) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    close_all(first.max(0).unsigned_abs(), c_uint::MAX);
    // SAFETY: the program's call.
    unsafe { real::closefrom(first) };
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the program's call.
    duplicating(fd, || steps::with_room(|| unsafe { real::dup(fd) }))
}

/// Whether the library has anything to do when a descriptor is closed.
fn is_ours(fd: c_int) -> bool {
    descriptors::find(fd).is_some()
        || descriptors::own(fd).is_some()
        || sets::is_set(fd)
        || uring_rings::is_watched(fd)
}

/// Whether a descriptor is open.
fn is_open(fd: c_int) -> bool {
    descriptor::is_open(fd)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if old != new && is_ours(new) && is_open(old) {
        closing(new);
    }
    // SAFETY: the program's call.
    duplicating(old, || unsafe { real::dup2(old, new) })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if old != new && flags & !libc::O_CLOEXEC == 0 && is_ours(new) && is_open(old) {
        closing(new);
    }
    // SAFETY: the program's call.
    duplicating(old, || unsafe { real::dup3(old, new, flags) })
}

/// Streams of the C library read and write past our functions.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    used_past_us(fd);
    // SAFETY: the program's call.
    unsafe { real::fdopen(fd, mode) }
}

/// The C library closes the descriptor of a stream without calling `close`. What the stream holds is sent
/// before.
///
/// # Safety
/// The stream is the program's.
unsafe fn stream_closing(file: *mut libc::FILE) {
    // SAFETY: as promised.
    unsafe {
        let fd = libc::fileno(file);
        if descriptors::find(fd).is_some() {
            libc::fflush(file);
            closing(fd);
        }
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fclose(file: *mut libc::FILE) -> c_int {
    // SAFETY: the program's call.
    unsafe {
        stream_closing(file);
        real::fclose(file)
    }
}

macro_rules! reopening {
    ($($name:ident)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            mode: *const c_char,
            file: *mut libc::FILE,
        ) -> *mut libc::FILE {
            // SAFETY: the program's call.
            unsafe {
                stream_closing(file);
                real::$name(path, mode, file)
            }
        }
    )* };
}

reopening! { freopen freopen64 }

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fork() -> libc::pid_t {
    // SAFETY: the program's call. What is done before and after it leaves `errno` alone.
    let child = unsafe { real::fork() };
    if child != 0 && process_refs::has_reserved() {
        quietly(|| process_refs::child_made(child));
    }
    child
}

/// # Safety
/// As for the C library's.
#[allow(non_snake_case, reason = "named after the function")]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Fork() -> libc::pid_t {
    // SAFETY: the program's call.
    fork_untold(|| unsafe { real::_Fork() })
}

/// Ends without the C library's exit handlers.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    at_exit();
    // SAFETY: ends all threads.
    unsafe { real::syscall(libc::SYS_exit_group, status as usize, 0, 0, 0, 0, 0) };
    std::process::abort();
}
