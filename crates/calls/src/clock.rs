//! The kernel's clocks.
//!
//! By the C library, which is the exception in this crate: it has looked up the kernel's function that reads a clock
//! without a system call (vDSO), and to look it up a second time takes hundreds of lines. The preload library does not
//! interpose `clock_gettime`, which needs no memory and cannot fail for a clock that there is.

/// Nanoseconds of a clock (`CLOCK_MONOTONIC` ...).
#[inline]
pub fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
