//! The processor's counter of ticks.

/// Whether this processor has a counter. Without one it stands still at 0.
pub const HAS_CYCLES: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// The processor's counter of ticks of a fixed rate: TSC on x86-64, the virtual counter on Arm. For measuring short
/// stretches; not ordered with the instructions around it.
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that it is safe, the oldest does not"
    )]
    // SAFETY: every x86-64 processor has RDTSC; it touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a register that Linux lets every program read.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// As [`cycles`], read when all loads before it are done: the end of a measurement of a load.
#[inline]
#[must_use]
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
    cycles()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_forward() {
        let begin = cycles();
        let is_later = (0..1_000_000).any(|_| cycles_after_loads() > begin);
        assert_eq!(is_later, HAS_CYCLES);
    }
}
