//! Time, and pauses that let other threads run.

use crate::system::real;

/// Lets another thread run, if one waits for this processor.
pub fn yield_now() {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::sched_yield() };
}

/// Sleeps, or less if a signal comes. Past the C library: a thread is not cancelled here, where it may
/// be in the middle of anything.
pub fn sleep_us(us: u32) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(us) * 1000,
    };
    let (clock, at) = (libc::CLOCK_MONOTONIC as usize, (&raw const time) as usize);
    // SAFETY: `time` is valid, and nothing is asked back.
    unsafe { real::syscall(libc::SYS_clock_nanosleep, clock, 0, at, 0, 0, 0) };
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write. The clocks that are asked for there are.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// As [`now_ns`] at the last tick of the kernel's, some milliseconds ago at most: sooner told.
pub fn tick_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC_COARSE)
}
