//! The Internet checksum: over fragments, fused with a copy, updated in place.
//!
//! The sum is that of all 16-bit big-endian words of the data in ones'-complement
//! arithmetic, an odd last byte being the high half of a word; the checksum is its
//! complement. Three properties carry everything here (RFC 1071, section 2):
//!
//! - The sum is associative and commutative modulo 65 535, so fragments are summed
//!   apart and combined later. A fragment that begins at an odd offset has its
//!   bytes in the other halves of the words: its sum is swapped before it is added.
//! - The sum does not depend on the order of bytes in a word, as long as the
//!   result is swapped back. Little-endian machines load words as they are.
//! - Words of any multiple of 16 bits can be added instead, since
//!   2¹⁶ ≡ 2³² ≡ 2⁶⁴ ≡ 1 modulo 65 535.
//!
//! Per 64-bit word the portable inner loop does two independent sums: of the whole words,
//! modulo 2⁶⁴, and of their high halves, exact. The sum of the low halves is then
//! what remains of the first without the second, exact again. That is three
//! instructions without carries between them, which vectors do as well as scalars.
//!
//! [`copy_and_sum`] sums what it copies while it passes through the registers. That is
//! the single copy of Afterburner: user data is summed on its way into the block
//! of the card that is sent, and sent again, from there.
//!
//! Source: rfc1071; rfc1624 for the update in place; jet93 for the fused copy.

mod portable;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "vector instructions")]
mod simd;
#[cfg(test)]
mod tests;

#[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
use portable as fastest;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
use simd as fastest;

/// Most bytes that one run of an inner loop may take. With 2³⁰ no sum of 32-bit halves in a 64-bit
/// word overflows, even after its vector lanes were added up. The AVX-512 loop adds bytes in lanes
/// of 32 bits: with 2¹⁷, and two vectors more, a lane is at most 2050 · 2 · 255 · 257 < 2²⁹.
const RUN_BYTES_MAX: usize = 1 << 17;

/// The ones'-complement sum of a fragment, and whether its length is odd.
///
/// ```
/// use barewire_wire::checksum::{Sum, sum};
///
/// let whole = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(sum(&whole).value(), 0xddf2);
/// let mut parts = Sum::default();
/// parts.update(&whole[..3]);
/// parts.update(&whole[3..]);
/// assert_eq!(parts.checksum(), 0x220d);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    value: u16,
    odd: bool,
}

impl Sum {
    /// The sum: zero only where all bytes are zero.
    #[must_use]
    pub const fn value(self) -> u16 {
        self.value
    }

    /// The checksum to send: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.value
    }

    /// Whether this sum of data that include their checksum says that they are whole.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.value == 0xffff
    }

    /// The sum of this fragment and the `next` one, which follows it directly.
    #[must_use]
    pub const fn combine(self, next: Self) -> Self {
        let next_value = if self.odd {
            next.value.swap_bytes()
        } else {
            next.value
        };
        Self {
            value: add(self.value, next_value),
            odd: self.odd != next.odd,
        }
    }

    /// Goes on with the bytes that follow.
    pub fn update(&mut self, bytes: &[u8]) {
        *self = self.combine(sum(bytes));
    }

    /// Goes on with the bytes that follow, while copying them; see [`copy_and_sum`].
    pub fn update_with_copy(&mut self, to: &mut [u8], from: &[u8]) {
        *self = self.combine(copy_and_sum(to, from));
    }

    /// The sum of `len_bytes` bytes whose little-endian 16-bit words add up to `total`.
    fn of_little_endian(total: u64, len_bytes: usize) -> Self {
        Self {
            value: fold(total).swap_bytes(),
            odd: len_bytes % 2 == 1,
        }
    }
}

/// The sum of `bytes`.
#[must_use]
pub fn sum(bytes: &[u8]) -> Sum {
    sum_in_runs(bytes, RUN_BYTES_MAX)
}

/// Copies `from` to the beginning of `to` and gives the sum of what was copied:
/// as many bytes as the shorter of the two holds.
pub fn copy_and_sum(to: &mut [u8], from: &[u8]) -> Sum {
    copy_and_sum_in_runs(to, from, RUN_BYTES_MAX)
}

#[inline(always)]
fn sum_in_runs(mut bytes: &[u8], run_bytes_max: usize) -> Sum {
    let mut before = Sum::default();
    while bytes.len() > run_bytes_max {
        let (run, rest) = bytes.split_at(run_bytes_max);
        before = before.combine(Sum::of_little_endian(fastest::sum(run), run.len()));
        bytes = rest;
    }
    before.combine(Sum::of_little_endian(fastest::sum(bytes), bytes.len()))
}

#[inline(always)]
fn copy_and_sum_in_runs(to: &mut [u8], from: &[u8], run_bytes_max: usize) -> Sum {
    let len = to.len().min(from.len());
    let (mut to, mut from) = (&mut to[..len], &from[..len]);
    let mut before = Sum::default();
    while from.len() > run_bytes_max {
        let (to_run, to_rest) = to.split_at_mut(run_bytes_max);
        let (run, rest) = from.split_at(run_bytes_max);
        let total = fastest::copy_and_sum(to_run, run);
        before = before.combine(Sum::of_little_endian(total, run.len()));
        (to, from) = (to_rest, rest);
    }
    let total = fastest::copy_and_sum(to, from);
    before.combine(Sum::of_little_endian(total, from.len()))
}

/// The checksum of `bytes`: what their checksum field, being zero, must become.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    sum(bytes).checksum()
}

/// The checksum after the 16-bit word `old` of the data became `new`: equation 3
/// of RFC 1624, which is right also where the older equation 4 gave 0xffff for zero.
#[must_use]
pub const fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// The ones'-complement sum of two words.
const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // After a carry the low bits are at most 0xfffe.
    sum + carry as u16
}

/// A 64-bit word modulo 65 535, and zero only for zero.
const fn fold(total: u64) -> u16 {
    let total = (total >> 32) + (total & 0xffff_ffff);
    let total = (total >> 32) + (total & 0xffff_ffff);
    let total = (total >> 16) + (total & 0xffff);
    let total = (total >> 16) + (total & 0xffff);
    total as u16
}
