//! The inner loops of the checksum in vector instructions, chosen when called.
//!
//! | processor | loop |
//! |---|---|
//! | AVX-512 F and BW | written out, 256 bytes a turn, the last turn under masks |
//! | AVX2 | the portable one, compiled for AVX2 |
//! | any | the portable one |
//!
//! The AVX-512 loop is inline assembly because its intrinsics are stable only since
//! Rust 1.89 and this crate promises 1.85; once it may ask for that, intrinsics can take over.
//! Against the AVX2 loop it saves half of the stores and of the additions, without which the
//! fused copy falls behind `memcpy`, itself in AVX-512, where both buffers lie in the first cache.
//!
//! This is the only file of the crate that holds `unsafe`. Every address used is
//! that of a slice plus an offset below its length; see the comments.

extern crate std;

use core::arch::asm;
use std::is_x86_feature_detected;

use super::portable;

/// Below this the choice costs more than it gives.
const VECTOR_BYTES_MIN: usize = 64;

/// As [`portable::sum`].
pub(super) fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() < VECTOR_BYTES_MIN {
        portable::sum(bytes)
    } else if has_avx512() {
        // SAFETY: the instructions are there; they read `bytes.len()` bytes.
        unsafe { sum_avx512(bytes.as_ptr(), bytes.len()) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the instructions are there, which is all that it asks for.
        unsafe { sum_avx2(bytes) }
    } else {
        portable::sum(bytes)
    }
}

/// As [`portable::copy_and_sum`].
pub(super) fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u64 {
    let len = to.len().min(from.len());
    if len < VECTOR_BYTES_MIN {
        portable::copy_and_sum(to, from)
    } else if has_avx512() {
        // SAFETY: the instructions are there. Both slices hold `len` bytes, and a mutable
        // slice overlaps no other.
        unsafe { copy_and_sum_avx512(to.as_mut_ptr(), from.as_ptr(), len) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the instructions are there, which is all that it asks for.
        unsafe { copy_and_sum_avx2(to, from) }
    } else {
        portable::copy_and_sum(to, from)
    }
}

/// AVX-512 BW, and F with it: no processor has the first without the second.
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512bw")
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn sum_avx2(bytes: &[u8]) -> u64 {
    portable::sum(bytes)
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn copy_and_sum_avx2(to: &mut [u8], from: &[u8]) -> u64 {
    portable::copy_and_sum(to, from)
}

/// The loop over `len` bytes from the address `from`: turns of four vectors, then a last one
/// under the masks `k1` to `k4`, whose other lanes are neither touched nor counted. The rest is
/// not looped over: the mispredicted end of a loop costs as much as copying a kilobyte. What is
/// given as `store` and `store_masked` runs between load and sum.
///
/// zmm0..3 data; zmm4, zmm5 sums of words; zmm6, zmm7 sums of their high halves.
macro_rules! sum_loop {
    ($from:expr, $len:expr, [$($store:literal)*], [$($store_masked:literal)*], $($operand:tt)*) => {{
        let len: usize = $len;
        let total: u64;
        asm!(
            "vpxor xmm4, xmm4, xmm4",
            "vpxor xmm5, xmm5, xmm5",
            "vpxor xmm6, xmm6, xmm6",
            "vpxor xmm7, xmm7, xmm7",
            "test {turns}, {turns}",
            "jz 3f",
            ".p2align 5",
            "2:",
            "vmovdqu64 zmm0, [{from}]",
            "vmovdqu64 zmm1, [{from} + 64]",
            "vmovdqu64 zmm2, [{from} + 128]",
            "vmovdqu64 zmm3, [{from} + 192]",
            $($store,)*
            "vpaddq zmm4, zmm4, zmm0",
            "vpaddq zmm5, zmm5, zmm1",
            "vpaddq zmm4, zmm4, zmm2",
            "vpaddq zmm5, zmm5, zmm3",
            "vpsrlq zmm0, zmm0, 32",
            "vpsrlq zmm1, zmm1, 32",
            "vpsrlq zmm2, zmm2, 32",
            "vpsrlq zmm3, zmm3, 32",
            "vpaddq zmm6, zmm6, zmm0",
            "vpaddq zmm7, zmm7, zmm1",
            "vpaddq zmm6, zmm6, zmm2",
            "vpaddq zmm7, zmm7, zmm3",
            "add {from}, 256",
            "dec {turns}",
            "jnz 2b",
            "3:",
            "test {rest:e}, {rest:e}",
            "jz 4f",
            // Lane n of 256 is on where n < rest.
            "vpbroadcastb zmm0, {rest:e}",
            "vpcmpub k1, zmm0, [{lanes}], 6",
            "vpcmpub k2, zmm0, [{lanes} + 64], 6",
            "vpcmpub k3, zmm0, [{lanes} + 128], 6",
            "vpcmpub k4, zmm0, [{lanes} + 192], 6",
            "vmovdqu8 zmm0 {{k1}} {{z}}, [{from}]",
            "vmovdqu8 zmm1 {{k2}} {{z}}, [{from} + 64]",
            "vmovdqu8 zmm2 {{k3}} {{z}}, [{from} + 128]",
            "vmovdqu8 zmm3 {{k4}} {{z}}, [{from} + 192]",
            $($store_masked,)*
            "vpaddq zmm4, zmm4, zmm0",
            "vpaddq zmm5, zmm5, zmm1",
            "vpaddq zmm4, zmm4, zmm2",
            "vpaddq zmm5, zmm5, zmm3",
            "vpsrlq zmm0, zmm0, 32",
            "vpsrlq zmm1, zmm1, 32",
            "vpsrlq zmm2, zmm2, 32",
            "vpsrlq zmm3, zmm3, 32",
            "vpaddq zmm6, zmm6, zmm0",
            "vpaddq zmm7, zmm7, zmm1",
            "vpaddq zmm6, zmm6, zmm2",
            "vpaddq zmm7, zmm7, zmm3",
            "4:",
            // Low halves: words minus high halves; then both together.
            "vpaddq zmm4, zmm4, zmm5",
            "vpaddq zmm6, zmm6, zmm7",
            "vpsllq zmm5, zmm6, 32",
            "vpsubq zmm4, zmm4, zmm5",
            "vpaddq zmm4, zmm4, zmm6",
            // The lanes, half by half.
            "vextracti64x4 ymm5, zmm4, 1",
            "vpaddq ymm4, ymm4, ymm5",
            "vextracti128 xmm5, ymm4, 1",
            "vpaddq xmm4, xmm4, xmm5",
            "vpsrldq xmm5, xmm4, 8",
            "vpaddq xmm4, xmm4, xmm5",
            "vmovq {total}, xmm4",
            "vzeroupper",
            from = inout(reg) $from => _,
            turns = inout(reg) len / 256 => _,
            rest = in(reg) len % 256,
            lanes = in(reg) LANES.0.as_ptr(),
            total = lateout(reg) total,
            $($operand)*
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            // Not used, but `vzeroupper` spoils them where the caller is compiled for AVX.
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            out("k1") _, out("k2") _, out("k3") _, out("k4") _,
            options(nostack),
        );
        total
    }};
}

/// The numbers of the lanes of four vectors of bytes, aligned as they are.
#[repr(align(64))]
struct Lanes([u8; 256]);

static LANES: Lanes = {
    let mut lanes = [0; 256];
    let mut lane = 0;
    while lane < 256 {
        lanes[lane] = lane as u8;
        lane += 1;
    }
    Lanes(lanes)
};

/// # Safety
/// The processor has AVX-512 F and BW; `len` bytes at `from` are readable; `len` is at most
/// [`super::RUN_BYTES_MAX`].
unsafe fn sum_avx512(from: *const u8, len: usize) -> u64 {
    // SAFETY: turns of 256 bytes, vectors of 64 and a masked rest make `len` bytes exactly,
    // and a masked load does not touch, nor fault on, the bytes that are masked off.
    unsafe { sum_loop!(from, len, [], [],) }
}

/// # Safety
/// As [`sum_avx512`]; `len` bytes at `to` are writable and overlap neither `from` nor any
/// other reference.
unsafe fn copy_and_sum_avx512(to: *mut u8, from: *const u8, len: usize) -> u64 {
    // SAFETY: as in `sum_avx512`; the stores go to the same offsets, the last ones under the
    // same masks.
    unsafe {
        sum_loop!(
            from,
            len,
            ["vmovdqu64 [{to}], zmm0"
             "vmovdqu64 [{to} + 64], zmm1"
             "vmovdqu64 [{to} + 128], zmm2"
             "vmovdqu64 [{to} + 192], zmm3"
             "add {to}, 256"],
            ["vmovdqu8 [{to}] {{k1}}, zmm0"
             "vmovdqu8 [{to} + 64] {{k2}}, zmm1"
             "vmovdqu8 [{to} + 128] {{k3}}, zmm2"
             "vmovdqu8 [{to} + 192] {{k4}}, zmm3"],
            to = inout(reg) to => _,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    type Loops = (fn(&[u8]) -> u64, fn(&mut [u8], &[u8]) -> u64);

    /// Every loop that this processor has, whether or not it would be chosen.
    fn loops() -> Vec<Loops> {
        let mut loops: Vec<Loops> = vec![(sum, copy_and_sum)];
        if is_x86_feature_detected!("avx2") {
            // SAFETY: just detected.
            loops.push((
                |bytes| unsafe { sum_avx2(bytes) },
                |to, from| {
                    // SAFETY: just detected.
                    unsafe { copy_and_sum_avx2(to, from) }
                },
            ));
        }
        if has_avx512() {
            loops.push((
                // SAFETY: just detected; the length is the slice's.
                |bytes| unsafe { sum_avx512(bytes.as_ptr(), bytes.len()) },
                |to, from| {
                    assert_eq!(to.len(), from.len());
                    // SAFETY: just detected; both slices hold that many bytes.
                    unsafe { copy_and_sum_avx512(to.as_mut_ptr(), from.as_ptr(), from.len()) }
                },
            ));
        }
        loops
    }

    #[test]
    fn every_loop_gives_what_the_portable_one_gives() {
        let source: Vec<u8> = (0..1200_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x81)
            .collect();
        for len in 0..1100 {
            let from = &source[len % 64..][..len];
            let expected = portable::sum(from) % 0xffff;
            for (sum, copy_and_sum) in loops() {
                let mut target = vec![0; len + 1];
                assert_eq!(sum(from) % 0xffff, expected, "{len}");
                assert_eq!(
                    copy_and_sum(&mut target[1..], from) % 0xffff,
                    expected,
                    "{len}"
                );
                assert_eq!(&target[1..], from);
            }
            let mut target = vec![0; len];
            assert_eq!(portable::copy_and_sum(&mut target, from) % 0xffff, expected);
            assert_eq!(target, from);
        }
    }
}
