//! Numbers that look random and follow from other numbers.

/// The finishing step of SplitMix64.
pub(crate) const fn scatter(number: u64) -> u64 {
    let a = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ b >> 31
}
