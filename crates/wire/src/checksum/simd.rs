//! The inner loops of the checksum in vector instructions, chosen when called.
//!
//! | processor | loop |
//! |---|---|
//! | AVX-512 F, BW and VNNI | written out, 512 bytes a turn, stores on whole cache lines |
//! | AVX2 | the portable one, compiled for AVX2 |
//! | any | the portable one |
//!
//! The AVX-512 loop is inline assembly because its intrinsics are stable only since
//! Rust 1.89 and this crate promises 1.85; once it may ask for that, intrinsics can take over.
//! Against the AVX2 loop it saves half of the stores and two thirds of the additions, without which
//! the fused copy falls behind `memcpy`, itself in AVX-512, where both buffers lie in the first cache.
//!
//! An Intel processor does two such instructions a cycle, and one store. To keep up with `memcpy`, a
//! vector may cost two instructions; the two sums of the parent take three. So the loop adds bits
//! without carries (a carry-save adder): of three bits their sum modulo two stays, and their majority
//! counts twice. Eight vectors become one that counts eight times, and three that stay until the next
//! turn. Only then `vpdpbusd` adds bytes, the low halves of words and the high halves apart. It
//! takes five cycles until the next one can add to the same sum. That is less than a turn takes.
//!
//! This is the only file of the crate that holds `unsafe`. Every address used is
//! that of a slice plus an offset below its length; see the comments.

extern crate std;

use core::arch::asm;
use std::is_x86_feature_detected;

use super::portable;

/// Bytes of a vector of the loop that is written out, and of a turn of it.
const VECTOR_BYTES: usize = 64;
const TURN_BYTES: usize = 8 * VECTOR_BYTES;
/// Below this the choice costs more than it gives.
const VECTOR_BYTES_MIN: usize = 4 * VECTOR_BYTES;

/// As [`portable::sum`].
pub(super) fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() < VECTOR_BYTES_MIN {
        portable::sum(bytes)
    } else if has_avx512() {
        let even_bytes = bytes.len() & !1;
        // SAFETY: the instructions are there; as many bytes as are read are enough, and even.
        let sum = unsafe { sum_avx512(bytes.as_ptr(), even_bytes) };
        sum + bytes.get(even_bytes).map_or(0, |last| u64::from(*last))
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
        // SAFETY: the instructions are there. Both slices hold that many bytes, which are enough
        // and even, and a mutable slice overlaps no other.
        let sum = unsafe { copy_and_sum_avx512(to.as_mut_ptr(), from.as_ptr(), even_bytes) };
        if even_bytes == len {
            return sum;
        }
        to[even_bytes] = from[even_bytes];
        sum + u64::from(from[even_bytes])
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the instructions are there, which is all that it asks for.
        unsafe { copy_and_sum_avx2(to, from) }
    } else {
        portable::copy_and_sum(to, from)
    }
}

/// AVX-512 BW and VNNI, and F with them: no processor has one of these without it.
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni")
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

/// Adds the vectors `$a` and `$b` to `$kept` without carries: of each three bits `$kept` keeps
/// the sum modulo two, and `$a` gets the majority, which counts twice.
macro_rules! add_bits {
    ($kept:literal, $a:literal, $b:literal) => {
        // The second line knows the bit that was kept from a, b and the sum of all three.
        concat!(
            concat!("vpternlogq ", $kept, ", ", $a, ", ", $b, ", 0x96\n"),
            concat!("vpternlogq ", $a, ", ", $b, ", ", $kept, ", 0xd4"),
        )
    };
}

/// The loop over `len` bytes from the address `from`:
///
/// 1. one vector, of which only the first `head` bytes are gone past;
/// 2. turns of eight vectors, then four, then single vectors;
/// 3. one vector that ends where the bytes end, the first `back` bytes of which were done before.
///
/// The vectors of 1 and 3 are stored whole, so some bytes are stored twice, as they are; they
/// are left out of the sum once by the mask `k1`. (Masked stores take many times as long.) As
/// `head` and `len` are even, no vector splits a word. What is given as `store` runs between load and sum.
///
/// zmm0..7 data; zmm8, zmm9, zmm10 bits that count once, twice, four times; zmm11, zmm12 sums
/// of even and of odd bytes in lanes of 32 bits; zmm13, zmm14 the same for single vectors.
macro_rules! sum_loop {
    ($from:expr, $len:expr, $head:expr, [$($skip_head:literal)*], [$($store8:literal)*], [$($store4:literal)*], [$($store_one:literal)*], [$($skip_back:literal)* ; $($store_last:literal)*], $($operand:tt)*) => {{
        let head: usize = $head;
        let len: usize = $len - head;
        let back = len.wrapping_neg() % VECTOR_BYTES;
        let total: u64;
        asm!(
            "vpxor xmm8, xmm8, xmm8",
            "vpxor xmm9, xmm9, xmm9",
            "vpxor xmm10, xmm10, xmm10",
            "vpxor xmm11, xmm11, xmm11",
            "vpxor xmm12, xmm12, xmm12",
            "vpxor xmm13, xmm13, xmm13",
            "vpxor xmm14, xmm14, xmm14",
            "test {head:e}, {head:e}",
            "jz 6f",
            "vmovdqu64 zmm0, [{from}]",
            $($store_last,)*
            "kmovq k1, {head_mask}",
            "vmovdqu8 zmm8 {{k1}} {{z}}, zmm0",
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
            "vmovdqu64 zmm4, [{from} + 256]",
            "vmovdqu64 zmm5, [{from} + 320]",
            "vmovdqu64 zmm6, [{from} + 384]",
            "vmovdqu64 zmm7, [{from} + 448]",
            $($store8,)*
            add_bits!("zmm8", "zmm0", "zmm1"),
            add_bits!("zmm8", "zmm2", "zmm3"),
            add_bits!("zmm9", "zmm0", "zmm2"),
            add_bits!("zmm8", "zmm4", "zmm5"),
            add_bits!("zmm8", "zmm6", "zmm7"),
            add_bits!("zmm9", "zmm4", "zmm6"),
            add_bits!("zmm10", "zmm0", "zmm4"),
            "vpdpbusd zmm11, zmm0, dword ptr [{weights} + 24]{{1to16}}",
            "vpdpbusd zmm12, zmm0, dword ptr [{weights} + 28]{{1to16}}",
            "add {from}, 512",
            "dec {turns}",
            "jnz 2b",
            "7:",
            "test {vectors:e}, 4",
            "jz 8f",
            "vmovdqu64 zmm0, [{from}]",
            "vmovdqu64 zmm1, [{from} + 64]",
            "vmovdqu64 zmm2, [{from} + 128]",
            "vmovdqu64 zmm3, [{from} + 192]",
            $($store4,)*
            add_bits!("zmm8", "zmm0", "zmm1"),
            add_bits!("zmm8", "zmm2", "zmm3"),
            add_bits!("zmm9", "zmm0", "zmm2"),
            "vpdpbusd zmm11, zmm0, dword ptr [{weights} + 16]{{1to16}}",
            "vpdpbusd zmm12, zmm0, dword ptr [{weights} + 20]{{1to16}}",
            "add {from}, 256",
            "8:",
            "and {vectors:e}, 3",
            "jz 4f",
            ".p2align 5",
            "3:",
            "vmovdqu64 zmm0, [{from}]",
            $($store_one,)*
            "vpdpbusd zmm13, zmm0, dword ptr [{weights}]{{1to16}}",
            "vpdpbusd zmm14, zmm0, dword ptr [{weights} + 4]{{1to16}}",
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
            "kmovq k1, {back_mask}",
            "vmovdqu8 zmm0 {{k1}} {{z}}, zmm0",
            "vpdpbusd zmm13, zmm0, dword ptr [{weights}]{{1to16}}",
            "vpdpbusd zmm14, zmm0, dword ptr [{weights} + 4]{{1to16}}",
            "5:",
            "vpdpbusd zmm13, zmm8, dword ptr [{weights}]{{1to16}}",
            "vpdpbusd zmm14, zmm8, dword ptr [{weights} + 4]{{1to16}}",
            "vpdpbusd zmm11, zmm9, dword ptr [{weights} + 8]{{1to16}}",
            "vpdpbusd zmm12, zmm9, dword ptr [{weights} + 12]{{1to16}}",
            "vpdpbusd zmm13, zmm10, dword ptr [{weights} + 16]{{1to16}}",
            "vpdpbusd zmm14, zmm10, dword ptr [{weights} + 20]{{1to16}}",
            // The odd bytes are the high halves. Then the lanes are added up, half by half, as
            // lanes of 64 bits: what eight upper halves add up to is less than 2³².
            "vpaddd zmm12, zmm12, zmm14",
            "vpaddd zmm11, zmm11, zmm13",
            "vpslld zmm12, zmm12, 8",
            "vpaddd zmm4, zmm11, zmm12",
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
            head_mask = in(reg) !(u64::MAX << head),
            vectors = inout(reg) len % TURN_BYTES / VECTOR_BYTES => _,
            back = in(reg) back,
            back_mask = in(reg) u64::MAX << back,
            weights = in(reg) WEIGHTS.as_ptr(),
            total = lateout(reg) total,
            $($operand)*
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            // `vzeroupper` spoils xmm15 too where the caller is compiled for AVX.
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            out("k1") _,
            options(nostack),
        );
        total
    }};
}

/// What the even and the odd ones of four bytes count: once, twice, four and eight times.
static WEIGHTS: [u32; 8] = [
    0x0001_0001,
    0x0100_0100,
    0x0002_0002,
    0x0200_0200,
    0x0004_0004,
    0x0400_0400,
    0x0008_0008,
    0x0800_0800,
];

/// # Safety
/// The processor has AVX-512 F, BW and VNNI; `len` bytes at `from` are readable; `len` is even, at
/// least [`VECTOR_BYTES_MIN`] and at most [`super::RUN_BYTES_MAX`].
unsafe fn sum_avx512(from: *const u8, len: usize) -> u64 {
    // SAFETY: the vectors lie within `len` bytes, and the last one, which ends with them, begins
    // within them because there is room for several.
    unsafe { sum_loop!(from, len, 0, [], [], [], [], [;],) }
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
             "vmovdqu64 [{to} + 256], zmm4"
             "vmovdqu64 [{to} + 320], zmm5"
             "vmovdqu64 [{to} + 384], zmm6"
             "vmovdqu64 [{to} + 448], zmm7"
             "add {to}, 512"],
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

    /// As long as it gets, with the largest sums, and with a pattern.
    #[test]
    fn the_longest_run_overflows_no_lane() {
        let ones = vec![0xff; super::super::RUN_BYTES_MAX];
        let pattern: Vec<u8> = (0..ones.len()).map(|i| (i * 7 + i / 251) as u8).collect();
        for from in [&ones[..], &pattern, &ones[1..], &pattern[1..]] {
            let expected = portable::sum(from) % 0xffff;
            let mut target = vec![0; from.len() + 2];
            assert_eq!(sum(from) % 0xffff, expected);
            for offset in 0..2 {
                let to = &mut target[offset..][..from.len()];
                assert_eq!(copy_and_sum(to, from) % 0xffff, expected);
                assert!(to == from);
            }
        }
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
