//! Hints that memory will be used soon. They have no effect that a program can see, whatever the address.

/// Bytes of a cache line, as far as these functions go.
pub(crate) const LINE_BYTES: usize = 64;

/// Asks the processor to fetch the line of `at` for reading.
#[inline]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that it is safe, the oldest does not"
    )]
    // SAFETY: a prefetch has no effect that a program can see, and faults at no address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Asks the processor to fetch the lines of `len_bytes` from `first` on for writing.
#[inline]
pub fn prefetch_for_writing(first: *const u8, len_bytes: usize) {
    // Counted by hand: `step_by` divides, and most often there is one line.
    let mut at = 0;
    while at < len_bytes {
        prefetch_line_for_writing(first.wrapping_add(at));
        at += LINE_BYTES;
    }
}

/// The intrinsic of x86-64 would become a prefetch for reading on the oldest processors that we compile for. Processors
/// without the instruction take it for one that does nothing.
#[inline]
fn prefetch_line_for_writing(at: *const u8) {
    // SAFETY: a prefetch has no effect that a program can see, and faults at no address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_may_be_named() {
        for at in [0, 1, usize::MAX, 1 << 47] {
            prefetch(at as *const u8);
            prefetch_for_writing(at as *const u8, 200);
        }
    }
}
