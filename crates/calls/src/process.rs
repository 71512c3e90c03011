//! Processes and threads: ids, limits, signals, and whose program this is.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

use crate::{Result, call, descriptor};

/// The id of this process.
pub fn id() -> u32 {
    // SAFETY: no arguments. It cannot fail.
    unsafe { call(libc::SYS_getpid, []) }.unwrap_or(0) as u32
}

/// The id of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments. It cannot fail.
    unsafe { call(libc::SYS_gettid, []) }.unwrap_or(0) as u32
}

/// Whether a process has a thread of this id, also if it is ending. The first thread of a process has its id.
pub fn has_thread(process: u32, thread: u32) -> bool {
    // SAFETY: no pointers. Signal 0 is not sent; only whether it could be is told.
    let result = unsafe { call(libc::SYS_tgkill, [process as usize, thread as usize, 0]) };
    result != Err(libc::ESRCH)
}

/// A limit of this process (`RLIMIT_NOFILE` ...); `u64::MAX`: none.
pub fn limit(resource: c_uint) -> Result<libc::rlimit64> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let at = (&raw mut limit) as usize;
    // SAFETY: no new limit; the kernel writes two numbers.
    unsafe { call(libc::SYS_prlimit64, [0, resource as usize, 0, at]) }.map(|_| limit)
}

/// Sets one.
pub fn set_limit(resource: c_uint, limit: libc::rlimit64) -> Result<()> {
    let at = (&raw const limit) as usize;
    // SAFETY: the kernel reads two numbers.
    unsafe { call(libc::SYS_prlimit64, [0, resource as usize, at, 0]) }.map(drop)
}

/// Runs `work` while this thread takes no signal that the program can handle. A thread that begins there takes
/// none for good.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    /// 32 and 33 are the C library's own, by which it cancels threads and changes the user of all.
    const ALL: u64 = !(0b11 << 31);
    let mut before = 0_u64;
    mask(&ALL, &raw mut before);
    let result = work();
    mask(&before, null_mut());
    result
}

/// Writes bytes to a pipe, a terminal or a file; returns how many. It raises no signal if nobody reads them, or if the file may
/// not grow so long.
pub fn write_without_signals(fd: c_int, bytes: &[u8]) -> Result<usize> {
    without_signals(|| {
        let written = descriptor::write(fd, bytes);
        match written {
            Err(libc::EPIPE) => take_signal(libc::SIGPIPE),
            Err(libc::EFBIG) => take_signal(libc::SIGXFSZ),
            _ => {}
        }
        written
    })
}

/// Takes a signal that this thread was sent and holds back, so that it never comes. Does not wait for one.
fn take_signal(signal: c_int) {
    let set = 1_u64 << (signal - 1);
    let no_time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let (set, time) = ((&raw const set) as usize, (&raw const no_time) as usize);
    // SAFETY: a set of its size and a time to read; nothing is asked back.
    let _ = unsafe { call(libc::SYS_rt_sigtimedwait, [set, 0, time, size_of::<u64>()]) };
}

/// Sets which signals this thread holds back.
fn mask(held: &u64, before: *mut u64) {
    let (how, bytes) = (libc::SIG_SETMASK as usize, size_of::<u64>());
    let held = (&raw const *held) as usize;
    // SAFETY: both sets have their size, or there is none to write.
    let _ = unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [how, held, before as usize, bytes],
        )
    };
}

/// Whether this process has more rights than who began it: by a set-user-id or set-group-id bit, by file
/// capabilities, or because a security module says so.
pub fn is_secure() -> bool {
    // SAFETY: no pointers. The kernel has told the C library at the start; there is no call to ask again.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
