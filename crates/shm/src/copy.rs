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
    // Counted by hand: `chunks_exact` takes twice as many instructions for a word.
    let (from, len) = (bytes.as_ptr(), bytes.len());
    let mut at = 0;
    while len - at >= 8 {
        // SAFETY: `at` is a multiple of 8, and a whole word is left of both ranges; `to` is 8-aligned.
        unsafe {
            let word = from.add(at).cast::<u64>().read_unaligned();
            // Relaxed: payload; the frame header published afterwards orders it.
            AtomicU64::from_ptr(to.add(at).cast()).store(word, Ordering::Relaxed);
        }
        at += 8;
    }
    while at < len {
        // SAFETY: a byte is left of both ranges.
        unsafe {
            // Relaxed: payload, as above.
            AtomicU8::from_ptr(to.add(at)).store(*from.add(at), Ordering::Relaxed);
        }
        at += 1;
    }
}

/// Copies up to [`SMALL_BYTES`] out, word by word.
///
/// # Safety
/// As for [`copy_out`], with `from` a multiple of 8.
#[inline]
unsafe fn words_out(from: *const u8, into: &mut [u8]) {
    let (to, len, from) = (into.as_mut_ptr(), into.len(), from.cast_mut());
    let mut at = 0;
    while len - at >= 8 {
        // SAFETY: `at` is a multiple of 8, and a whole word is left of both ranges; `from` is 8-aligned and only loaded.
        unsafe {
            // Relaxed: payload; the frame header observed before orders it.
            let word = AtomicU64::from_ptr(from.add(at).cast()).load(Ordering::Relaxed);
            to.add(at).cast::<u64>().write_unaligned(word);
        }
        at += 8;
    }
    while at < len {
        // SAFETY: a byte is left of both ranges; `from` is only loaded.
        unsafe {
            // Relaxed: payload, as above.
            *to.add(at) = AtomicU8::from_ptr(from.add(at)).load(Ordering::Relaxed);
        }
        at += 1;
    }
}
