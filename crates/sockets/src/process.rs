//! This process and its threads: ids, time, giving way.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::real;

/// The process that the tables of this library belong to. A child made by vfork shares
/// them, and has another id.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD_ID: Cell<u32> = const { Cell::new(0) };
}

/// In the constructor, and in a child after fork.
pub fn note_own_ids() {
    // SAFETY: no arguments, cannot fail.
    let id = unsafe { libc::getpid() };
    // Relaxed, here and below: compared for equality only.
    OWNER.store(id.unsigned_abs(), Ordering::Relaxed);
    THREAD_ID.with(|cell| cell.set(0));
}

/// The id of this process.
pub fn id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }.unsigned_abs()
}

/// Whether the caller is a child made by vfork, which borrows our memory.
pub fn is_borrower() -> bool {
    // SAFETY: no arguments, cannot fail.
    let id = unsafe { libc::getpid() };
    OWNER.load(Ordering::Relaxed) != id.unsigned_abs()
}

/// The calling thread's id, never 0.
pub fn thread_id() -> u32 {
    THREAD_ID.with(|cell| {
        if cell.get() == 0 {
            // SAFETY: no arguments, cannot fail.
            let id = unsafe { libc::gettid() }.unsigned_abs().max(1);
            // A child made by vfork has its parent's variables, and is soon gone.
            if is_borrower() {
                return id;
            }
            cell.set(id);
        }
        cell.get()
    })
}

/// Whether there is a thread of this id. One of another process counts.
pub fn thread_lives(id: u32) -> bool {
    // SAFETY: signal 0 is not sent; only whether it could be is told.
    let result = unsafe { real::syscall(libc::SYS_tkill, id as usize, 0, 0, 0, 0, 0) };
    result == 0 || real::errno() != libc::ESRCH
}

/// Whether there is a process of this id.
pub fn lives(id: u32) -> bool {
    // SAFETY: as above; of the process's first thread, which is there as long as any other.
    let result = unsafe { real::syscall(libc::SYS_tgkill, id as usize, id as usize, 0, 0, 0, 0) };
    result == 0 || real::errno() != libc::ESRCH
}

/// Lets another thread run, if one waits for this processor.
pub fn give_way() {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::sched_yield() };
}

/// Sleeps, or less if a signal comes.
pub fn sleep_us(us: u32) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(us) * 1000,
    };
    // SAFETY: `time` is valid, and nothing is asked back.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// How many processors there are. Not, how many this process may use: its other ends may run
/// elsewhere.
pub fn processors() -> u32 {
    // SAFETY: no pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1)
}

/// One more than the number of the processor that this thread runs on; 0 if that is not known.
pub fn processor() -> u64 {
    // SAFETY: no arguments.
    let number = unsafe { libc::sched_getcpu() };
    u64::try_from(number + 1).unwrap_or(0)
}

/// As `fork`, without a signal at its end, and past the C library: no handlers of the
/// program's run, and no lock of the C library is taken.
pub fn copy() -> isize {
    // SAFETY: no flags: a copy of this process, with a copy of this thread's stack.
    unsafe { real::syscall(libc::SYS_clone, 0, 0, 0, 0, 0, 0) as isize }
}

/// Waits until a [`copy`] ends; says whether it did so by itself, with 0.
pub fn ended_well(child: isize) -> bool {
    let mut status: c_int = -1;
    loop {
        // SAFETY: the status is ours.
        let result = unsafe { libc::waitpid(child as libc::pid_t, &raw mut status, libc::__WALL) };
        if result >= 0 {
            return status == 0;
        }
        if real::errno() != libc::EINTR {
            return false;
        }
    }
}

/// Ends a [`copy`], past the exit handlers, which are the program's.
pub fn end(status: c_int) -> ! {
    loop {
        // SAFETY: ends this process.
        unsafe { real::syscall(libc::SYS_exit_group, status as usize, 0, 0, 0, 0, 0) };
    }
}
