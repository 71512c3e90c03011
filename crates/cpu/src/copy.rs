//! Copies that leave the caches alone: whole lines are stored by non-temporal stores. These fetch no line before they
//! write it, which an ordinary store does. What they stored is in memory afterwards, and in no cache.

use crate::prefetch::LINE_BYTES;

/// Whether [`copy_past_caches`] is more than an ordinary copy here.
pub const HAS_COPY_PAST_CACHES: bool = cfg!(target_arch = "x86_64");

/// Copies `len_bytes`; whole lines of `to` past the caches, what is left at both ends by ordinary stores. A store that
/// comes after this in the program becomes visible after all of them.
///
/// # Safety
/// `from` is valid for reads of `len_bytes`, `to` for writes of as many, and they do not overlap.
#[inline]
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len_bytes: usize) {
    let before = to.align_offset(LINE_BYTES).min(len_bytes);
    let lines = (len_bytes - before) / LINE_BYTES;
    let middle_bytes = lines * LINE_BYTES;
    let behind = before + middle_bytes;
    // SAFETY: the three stretches make up both ranges; the second begins at a line of `to`.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, before);
        stream_lines(from.add(before), to.add(before), lines);
        core::ptr::copy_nonoverlapping(from.add(behind), to.add(behind), len_bytes - behind);
    }
}

/// # Safety
/// As for [`copy_past_caches`], of so many lines; `to` is aligned to a line.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn stream_lines(from: *const u8, to: *mut u8, lines: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORDS: usize = LINE_BYTES / size_of::<__m128i>();
    let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
    for line in 0..lines {
        for word in line * WORDS..(line + 1) * WORDS {
            // SAFETY: inside the ranges; `to` is aligned. Every x86-64 processor has SSE2.
            unsafe { _mm_stream_si128(to.add(word), _mm_loadu_si128(from.add(word))) };
        }
    }
    // Non-temporal stores are not ordered with those that follow: whoever sees a flag that is stored later must see them.
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that it is safe, the oldest does not"
    )]
    // SAFETY: every x86-64 processor has SFENCE.
    unsafe {
        _mm_sfence();
    }
}

/// # Safety
/// As for [`copy_past_caches`], of so many lines.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn stream_lines(from: *const u8, to: *mut u8, lines: usize) {
    // SAFETY: as promised.
    unsafe { core::ptr::copy_nonoverlapping(from, to, lines * LINE_BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_and_none_around_them() {
        let from: [u8; 600] = core::array::from_fn(|at| at as u8 | 1);
        for to_begin in [0, 1, 8, 63, 64, 65] {
            for len_bytes in [0, 1, 63, 64, 65, 127, 128, 200, 500] {
                for from_begin in [0, 3] {
                    let mut to = [0_u8; 700];
                    // SAFETY: both ranges lie inside the arrays.
                    unsafe {
                        let source = from.as_ptr().add(from_begin);
                        copy_past_caches(source, to.as_mut_ptr().add(to_begin), len_bytes);
                    }
                    let (before, rest) = to.split_at(to_begin);
                    let (copied, behind) = rest.split_at(len_bytes);
                    assert_eq!(copied, &from[from_begin..from_begin + len_bytes]);
                    assert!(before.iter().chain(behind).all(|&byte| byte == 0));
                }
            }
        }
    }
}
