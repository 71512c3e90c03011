//! Functions that begin another program, in this process or in a child: `exec` and `posix_spawn`.

use core::ffi::{c_char, c_int, c_void};

use libc::pid_t;

use crate::handoff::program_end::{before_another_program, end_of_image};
use crate::hooks::limits;
use crate::system::real;
use crate::table::{descriptors, slots};

type Strings = *const *const c_char;

/// Another program in this process, unless that fails.
macro_rules! becoming {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the program's call.
            instead_of_us(|| unsafe { real::$name($($arg),*) })
        }
    )* };
}

/// Runs a call that returns only if it fails.
fn instead_of_us(call: impl FnOnce() -> c_int) -> c_int {
    if slots::is_hidden() {
        // Nothing of ours is to be put away.
        return call();
    }
    before_another_program(core::ptr::null());
    end_of_image(true);
    let exact = limits::for_another_program();
    let result = call();
    drop(exact);
    end_of_image(false);
    result
}

/// Whether a path that is given literally names anything. A program that searches many places for another
/// one tries them all, and its sockets need not fall back for places that are empty.
///
/// # Safety
/// The path is the program's.
unsafe fn is_there(path: *const c_char) -> bool {
    let saved = real::errno();
    // SAFETY: as promised.
    let there =
        path.is_null() || slots::is_hidden() || unsafe { libc::access(path, libc::F_OK) } == 0;
    real::set_errno(saved);
    there
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program's call, here and below.
    let call = || unsafe { real::execve(path, arguments, environment) };
    // SAFETY: the program's call.
    if unsafe { is_there(path) } {
        instead_of_us(call)
    } else {
        call()
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the program's call, here and below.
    let call = || unsafe { real::execv(path, arguments) };
    // SAFETY: the program's call.
    if unsafe { is_there(path) } {
        instead_of_us(call)
    } else {
        call()
    }
}

becoming! {
    execvp(file: *const c_char, arguments: Strings) -> c_int;
    execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execveat(folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
    fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int;
}

/// Another program in a child, with actions that may duplicate descriptors for it: this one goes on.
macro_rules! announced_with_actions {
    ($($name:ident)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            child: *mut pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: Strings,
            environment: Strings,
        ) -> c_int {
            before_another_program(actions);
            let mut own: pid_t = 0;
            let child = if child.is_null() { &raw mut own } else { child };
            // SAFETY: the program's call; the number has just been written.
            unsafe {
                let result = real::$name(child, path, actions, attributes, arguments, environment);
                if result == 0 {
                    limits::for_child(*child);
                }
                result
            }
        }
    )* };
}

announced_with_actions! { posix_spawn posix_spawnp }

/// A descriptor is to be duplicated for some other program, also if it closes by itself.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: c_int,
    new: c_int,
) -> c_int {
    if let Some(socket) = descriptors::find(fd) {
        // This thread reads it, when it uses these actions.
        socket.named_by.set(actions as u64);
    }
    // SAFETY: the program's call.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }
}

/// `execl` and its kin take any number of arguments, up to a null pointer. A function of
/// Rust's cannot: these take as many as are likely, of which those behind the null pointer
/// are not looked at.
macro_rules! any_number {
    ($($name:ident: |$path:ident, $arguments:ident, $after:ident| $call:expr;)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($path: *const c_char, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, a5: usize, a6: usize, a7: usize, a8: usize, a9: usize, a10: usize, a11: usize, a12: usize, a13: usize, a14: usize, a15: usize, a16: usize, a17: usize, a18: usize, a19: usize, a20: usize, a21: usize, a22: usize, a23: usize, a24: usize, a25: usize, a26: usize, a27: usize, a28: usize, a29: usize, a30: usize, a31: usize, a32: usize, a33: usize, a34: usize, a35: usize, a36: usize, a37: usize, a38: usize, a39: usize, a40: usize, a41: usize, a42: usize, a43: usize, a44: usize, a45: usize, a46: usize, a47: usize) -> c_int {
            let all = [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47];
            let Some(end) = all.iter().position(|&argument| argument == 0) else {
                real::set_errno(libc::E2BIG);
                return -1;
            };
            let $arguments: Strings = all.as_ptr().cast();
            let $after: usize = all.get(end + 1).copied().unwrap_or(0);
            // SAFETY: the program's call; the arguments end with a null pointer.
            instead_of_us(|| unsafe { $call })
        }
    )* };
}

any_number! {
    execl: |path, arguments, _after| real::execv(path, arguments);
    execlp: |file, arguments, _after| real::execvp(file, arguments);
    execle: |path, arguments, environment| real::execve(path, arguments, environment as Strings);
}
