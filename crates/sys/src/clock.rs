//! Clocks that cost nanoseconds to read.

use barewire_calls::clock::now_ns;
use barewire_cpu::HAS_CYCLES;

/// Nanoseconds on the monotonic clock, the same for all processes of the
/// machine; read without a system call where the kernel maps the clock (vDSO).
#[inline]
pub fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// [`barewire_cpu::cycles`], or [`monotonic_ns`] on processors without a counter.
#[inline]
pub fn cycles() -> u64 {
    if HAS_CYCLES {
        barewire_cpu::cycles()
    } else {
        monotonic_ns()
    }
}

/// As [`cycles`], read when all loads before it are done: the end of a measurement of a load.
#[inline]
pub fn cycles_after_loads() -> u64 {
    if HAS_CYCLES {
        barewire_cpu::cycles_after_loads()
    } else {
        monotonic_ns()
    }
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
