//! Clocks that cost nanoseconds to read.

use rustix::time::ClockId;

/// Nanoseconds on the monotonic clock, the same for all processes of the
/// machine; read without a system call where the kernel maps the clock (vDSO).
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // Never negative: it counts from the start of the machine.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The processor's counter of ticks of a fixed rate (TSC on x86-64, the
/// virtual counter on Arm); elsewhere [`monotonic_ns`]. For measuring short
/// stretches; not ordered with the instructions around it.
#[inline]
pub fn cycles() -> u64 {
    ticks()
}

/// As [`cycles`], read when all loads before it are done: the end of a measurement of a load.
#[inline]
pub fn cycles_after_loads() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that it is safe, the oldest does not"
    )]
    // SAFETY: every x86-64 processor has LFENCE; it touches no memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: these wait for earlier loads and for the pipeline; they touch no memory.
    unsafe {
        core::arch::asm!("dmb ishld", "isb", options(nostack, preserves_flags));
    }
    ticks()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has RDTSC; it touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that Linux lets every program read.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn ticks() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn clocks_go_forward_at_the_right_rate() {
        let (wall, ns, ticks) = (Instant::now(), monotonic_ns(), cycles());
        std::thread::sleep(Duration::from_millis(5));
        let passed = monotonic_ns() - ns;
        let by_wall = wall.elapsed().as_nanos() as u64;
        assert!(
            (5_000_000..=by_wall).contains(&passed),
            "{passed} of {by_wall}"
        );
        assert!(cycles() > ticks && cycles_after_loads() > ticks);
    }
}
