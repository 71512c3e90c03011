//! Copies between private memory and memory that another process may change meanwhile.
//!
//! Small copies go word by word through relaxed atomics. Larger ones are a `memcpy`
//! followed by an empty `asm!` block: to the compiler that block may have changed any
//! memory, so it can neither read a shared byte a second time in place of the private
//! copy nor drop the copy.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Up to this many bytes are copied word by word (measured: beyond it memcpy wins).
const SMALL_BYTES: usize = 64;

/// Copies `bytes` to shared memory.
///
/// # Safety
/// `to` must be valid for writes of `bytes.len()` bytes, in shared memory that is only
/// accessed by atomics and opaque copies, and must not overlap `bytes`.
#[inline]
pub(crate) unsafe fn copy_in(to: *mut u8, bytes: &[u8]) {
    if bytes.len() <= SMALL_BYTES && to as usize % 8 == 0 {
        // SAFETY: as promised by our caller.
        unsafe { words_in(to, bytes) };
    } else {
        // SAFETY: as promised by our caller; both ranges are `bytes.len()` long.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            opaque(to);
        }
    }
}

/// As [`copy_in`], past the caches.
///
/// # Safety
/// As for [`copy_in`].
#[inline]
pub(crate) unsafe fn copy_in_past_caches(to: *mut u8, bytes: &[u8]) {
    // SAFETY: as promised by our caller; both ranges are `bytes.len()` long.
    unsafe {
        barewire_cpu::copy_past_caches(bytes.as_ptr(), to, bytes.len());
        opaque(to);
    }
}

/// Copies shared memory to `into`, reading each byte once.
///
/// # Safety
/// `from` must be valid for reads of `into.len()` bytes, in shared memory that is only
/// accessed by atomics and opaque copies.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, into: &mut [u8]) {
    if into.len() <= SMALL_BYTES && from as usize % 8 == 0 {
        // SAFETY: as promised by our caller.
        unsafe { words_out(from, into) };
    } else {
        // SAFETY: as promised by our caller; `into` is exclusively ours.
        unsafe {
            core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
            opaque(into.as_mut_ptr());
        }
    }
}

/// Lets the compiler assume nothing about memory reachable from `pointer`, or at all.
///
/// # Safety
/// None needed: the block is empty.
#[inline]
unsafe fn opaque(pointer: *mut u8) {
    // SAFETY: no instruction is executed; the block only claims to touch memory.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) pointer, options(nostack, preserves_flags));
    }
}

/// Copies up to [`SMALL_BYTES`] in, word by word.
///
/// # Safety
/// As for [`copy_in`], with `to` a multiple of 8.
#[inline]
unsafe fn words_in(to: *mut u8, bytes: &[u8]) {
    let mut chunks = bytes.chunks_exact(8);
    let mut at = to;
    for chunk in &mut chunks {
        let word = u64::from_ne_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
        // SAFETY: `at` is 8-aligned and a whole word is left of the range.
        unsafe {
            // Relaxed: payload; the frame header published afterwards orders it.
            AtomicU64::from_ptr(at.cast()).store(word, Ordering::Relaxed);
            at = at.add(8);
        }
    }
    for byte in chunks.remainder() {
        // SAFETY: one byte of the range per byte of the remainder.
        unsafe {
            // Relaxed: payload, as above.
            AtomicU8::from_ptr(at).store(*byte, Ordering::Relaxed);
            at = at.add(1);
        }
    }
}

/// Copies up to [`SMALL_BYTES`] out, word by word.
///
/// # Safety
/// As for [`copy_out`], with `from` a multiple of 8.
#[inline]
unsafe fn words_out(from: *const u8, into: &mut [u8]) {
    let mut chunks = into.chunks_exact_mut(8);
    let mut at = from.cast_mut();
    for chunk in &mut chunks {
        // SAFETY: `at` is 8-aligned and a whole word is left of the range; only loaded.
        unsafe {
            // Relaxed: payload; the frame header observed before orders it.
            let word = AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes());
            at = at.add(8);
        }
    }
    for byte in chunks.into_remainder() {
        // SAFETY: one byte of the range per byte of the remainder; only loaded.
        unsafe {
            // Relaxed: payload, as above.
            *byte = AtomicU8::from_ptr(at).load(Ordering::Relaxed);
            at = at.add(1);
        }
    }
}
