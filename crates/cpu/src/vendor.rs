//! Who designed the processor, where that decides what is fast.

/// Whether this is a processor of AMD, or of Hygon, which has the same caches. Asks the processor, which in a virtual
/// machine takes microseconds: ask once.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn is_amd() -> bool {
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that it is safe, the oldest does not"
    )]
    // SAFETY: every x86-64 processor has the instruction.
    let leaf = unsafe { core::arch::x86_64::__cpuid(0) };
    let name = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
    matches!(name.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

/// Not on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub const fn is_amd() -> bool {
    false
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn the_vendor_is_that_which_the_kernel_names() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let is_amd = text.contains("AuthenticAMD") || text.contains("HygonGenuine");
        assert_eq!(super::is_amd(), is_amd);
    }
}
