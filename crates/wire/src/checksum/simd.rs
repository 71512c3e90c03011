//! The inner loops of the checksum in vector instructions, chosen when called.
//!
//! | processor | loop |
//! |---|---|
//! | AVX-512 F and BW | written out, 256 bytes a turn, stores on whole cache lines |
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

/// Bytes of a vector of the loop that is written out, and of a turn of it.
const VECTOR_BYTES: usize = 64;
const TURN_BYTES: usize = 4 * VECTOR_BYTES;
/// Below this there is no whole turn, and the choice costs more than it gives.
const VECTOR_BYTES_MIN: usize = TURN_BYTES;

/// As [`portable::sum`].
pub(super) fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() < VECTOR_BYTES_MIN {
        portable::sum(bytes)
    } else if has_avx512() {
        let even_bytes = bytes.len() & !1;
        // SAFETY: the instructions are there; there is a turn, in as many bytes as are read.
        let sum = unsafe { sum_avx512(bytes.as_ptr(), even_bytes) };
        sum + portable::sum(&bytes[even_bytes..])
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
        let even_bytes = len & !1;
        // SAFETY: the instructions are there. Both slices hold that many bytes, a turn at
        // least, and a mutable slice overlaps no other.
        let sum = unsafe { copy_and_sum_avx512(to.as_mut_ptr(), from.as_ptr(), even_bytes) };
        sum + portable::copy_and_sum(&mut to[even_bytes..len], &from[even_bytes..len])
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

/// The loop over `len` bytes from the address `from`:
///
/// 1. one vector, of which only the first `head` bytes are gone past;
/// 2. turns of four vectors, then single vectors;
/// 3. one vector that ends where the bytes end, the first `back` bytes of which were done before.
///
/// The vectors of 1 and 3 are stored whole, so some bytes are stored twice, as they are; they
/// are left out of the sum once by the mask `k1`. (Masked stores take many times as long.) As
/// `head` and `len` are even, no vector splits a word. What is given as `store` runs between load and sum.
///
/// zmm0..3 data; zmm4, zmm5 sums of words; zmm6, zmm7 sums of their high halves.
macro_rules! sum_loop {
    ($from:expr, $len:expr, $head:expr, [$($skip_head:literal)*], [$($store:literal)*], [$($store_one:literal)*], [$($skip_back:literal)* ; $($store_last:literal)*], $($operand:tt)*) => {{
        let head: usize = $head;
        let len: usize = $len - head;
        let total: u64;
        asm!(
            "vpxor xmm4, xmm4, xmm4",
            "vpxor xmm5, xmm5, xmm5",
            "vpxor xmm6, xmm6, xmm6",
            "vpxor xmm7, xmm7, xmm7",
            "test {head:e}, {head:e}",
            "jz 6f",
            "vmovdqu64 zmm0, [{from}]",
            $($store_last,)*
            // Lane n of 64 counts where head > n.
            "vpbroadcastb zmm8, {head:e}",
            "vpcmpub k1, zmm8, [{lanes}], 6",
            "vmovdqu8 zmm4 {{k1}} {{z}}, zmm0",
            "vpsrlq zmm6, zmm4, 32",
            "add {from}, {head}",
            $($skip_head,)*
            "6:",
            "test {turns}, {turns}",
            "jz 7f",
            ".p2align 6",
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
            "7:",
            "test {vectors:e}, {vectors:e}",
            "jz 4f",
            ".p2align 5",
            "3:",
            "vmovdqu64 zmm0, [{from}]",
            $($store_one,)*
            "vpaddq zmm4, zmm4, zmm0",
            "vpsrlq zmm0, zmm0, 32",
            "vpaddq zmm6, zmm6, zmm0",
            "add {from}, 64",
            "dec {vectors:e}",
            "jnz 3b",
            "4:",
            "test {back:e}, {back:e}",
            "jz 5f",
            "sub {from}, {back}",
            $($skip_back,)*
            "vmovdqu64 zmm0, [{from}]",
            $($store_last,)*
            // Lane n of 64 counts where back <= n.
            "vpbroadcastb zmm8, {back:e}",
            "vpcmpub k1, zmm8, [{lanes}], 2",
            "vmovdqu8 zmm0 {{k1}} {{z}}, zmm0",
            "vpaddq zmm4, zmm4, zmm0",
            "vpsrlq zmm0, zmm0, 32",
            "vpaddq zmm6, zmm6, zmm0",
            "5:",
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
            turns = inout(reg) len / TURN_BYTES => _,
            head = in(reg) head,
            vectors = inout(reg) len % TURN_BYTES / VECTOR_BYTES => _,
            back = in(reg) len.wrapping_neg() % VECTOR_BYTES,
            lanes = in(reg) LANES.0.as_ptr(),
            total = lateout(reg) total,
            $($operand)*
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            // Of these only zmm8 is used, but `vzeroupper` spoils them all where the caller is
            // compiled for AVX.
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            out("k1") _,
            options(nostack),
        );
        total
    }};
}

/// The numbers of the lanes of a vector of bytes, aligned as it is.
#[repr(align(64))]
struct Lanes([u8; VECTOR_BYTES]);

static LANES: Lanes = {
    let mut lanes = [0; VECTOR_BYTES];
    let mut lane = 0;
    while lane < VECTOR_BYTES {
        lanes[lane] = lane as u8;
        lane += 1;
    }
    Lanes(lanes)
};

/// # Safety
/// The processor has AVX-512 F and BW; `len` bytes at `from` are readable; `len` is even, at
/// least [`TURN_BYTES`] and at most [`super::RUN_BYTES_MAX`].
unsafe fn sum_avx512(from: *const u8, len: usize) -> u64 {
    // SAFETY: the turns lie within `len` bytes, and the last one, which ends with them, begins
    // within them because there is a whole turn.
    unsafe { sum_loop!(from, len, 0, [], [], [], [;],) }
}

/// # Safety
/// As [`sum_avx512`]; `len` bytes at `to` are writable and overlap neither `from` nor any
/// other reference.
unsafe fn copy_and_sum_avx512(to: *mut u8, from: *const u8, len: usize) -> u64 {
    // Stores that straddle two cache lines take twice as long; loads hardly do.
    let head = match to.addr() % 2 {
        0 => to.addr().wrapping_neg() % VECTOR_BYTES,
        _ => 0,
    };
    // SAFETY: as in `sum_avx512`; the stores go to the same offsets as the loads.
    unsafe {
        sum_loop!(
            from,
            len,
            head,
            ["add {to}, {head}"],
            ["vmovdqu64 [{to}], zmm0"
             "vmovdqu64 [{to} + 64], zmm1"
             "vmovdqu64 [{to} + 128], zmm2"
             "vmovdqu64 [{to} + 192], zmm3"
             "add {to}, 256"],
            ["vmovdqu64 [{to}], zmm0"
             "add {to}, 64"],
            ["sub {to}, {back}";
             "vmovdqu64 [{to}], zmm0"],
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
