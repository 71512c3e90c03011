//! Time, and pauses that let other threads run.

use barewire_calls::{call, clock};

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
    let given = [
        libc::CLOCK_MONOTONIC as usize,
        0,
        (&raw const time) as usize,
    ];
    // SAFETY: `time` is valid, and nothing is asked back.
    let _ = unsafe { call(libc::SYS_clock_nanosleep, given) };
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    clock::now_ns(libc::CLOCK_MONOTONIC)
}

/// As [`now_ns`] at the last tick of the kernel's, some milliseconds ago at most: sooner told.
pub fn tick_ns() -> u64 {
    clock::now_ns(libc::CLOCK_MONOTONIC_COARSE)
}
