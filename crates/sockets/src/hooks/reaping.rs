//! The `wait` functions. They report that a child has ended. Then it holds no sockets any more, even if it was
//! killed.

use core::ffi::c_int;

use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};

use crate::process::sandbox;
use crate::system::real;
use crate::table::process_refs;

/// A child has ended. The program's `errno` stays; in a sandbox the library makes no call for it.
fn ended(child: pid_t) {
    if !sandbox::is_sandboxed() {
        let saved = real::errno();
        process_refs::reaped(child.unsigned_abs());
        real::set_errno(saved);
    }
}

/// Runs a call that stores how a child ended: in the program's status, or in one here if it wants none.
fn telling(status: *mut c_int, call: impl FnOnce(*mut c_int) -> pid_t) -> pid_t {
    let mut own: c_int = 0;
    let status = if status.is_null() {
        &raw mut own
    } else {
        status
    };
    let child = call(status);
    if child > 0 {
        // SAFETY: the kernel has just written there.
        let told = unsafe { status.read_unaligned() };
        if libc::WIFEXITED(told) || libc::WIFSIGNALED(told) {
            ended(child);
        }
    }
    child
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the program's call, here and below.
    telling(status, |status| unsafe { real::wait(status) })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: as above.
    telling(status, |status| unsafe {
        real::waitpid(child, status, options)
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    // SAFETY: as above.
    telling(status, |status| unsafe {
        real::wait3(status, options, usage)
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn wait4(
    child: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    // SAFETY: as above.
    telling(status, |status| unsafe {
        real::wait4(child, status, options, usage)
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn waitid(
    kind: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    // SAFETY: zeros are valid, and tell of no child; the program's call.
    unsafe {
        let mut own: siginfo_t = core::mem::zeroed();
        let info = if info.is_null() { &raw mut own } else { info };
        let result = real::waitid(kind, id, info, options);
        let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
        // Without a child the kernel has written zeros there.
        if result == 0 && (*info).si_signo == libc::SIGCHLD && ends.contains(&(*info).si_code) {
            ended((*info).si_pid());
        }
        result
    }
}
