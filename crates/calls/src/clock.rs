//! Nanoseconds of the kernel's clocks.
//!
//! By the C library, which is the exception in this crate: it has looked up the kernel's function that reads a clock
//! without a system call (vDSO), and to look it up a second time takes hundreds of lines. The preload library does not
//! interpose `clock_gettime`, which needs no memory and cannot fail for a clock that there is.

use libc::{
    CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID, clockid_t, timespec,
};

/// Nanoseconds of the monotonic clock, the same for all processes of the machine.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(CLOCK_MONOTONIC)
}

/// As [`monotonic_ns`] at the last tick of the kernel's, some milliseconds ago at most: sooner told.
#[inline]
pub fn tick_ns() -> u64 {
    read(CLOCK_MONOTONIC_COARSE)
}

/// Processor time of all threads of this process. A system call.
pub fn own_processor_ns() -> u64 {
    read(CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn read(clock: clockid_t) -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write, and every kernel has these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Never negative: they count from the start of the machine, or of the process.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
