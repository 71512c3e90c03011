//! Mapped stretches of shared memory, and windows into them.
//!
//! A [`Region`] is one whole mapping; a [`Window`] is a checked part of one. Both are
//! cheap to clone and keep the mapping alive. All access is bounds-checked and either
//! atomic or an opaque copy, because a peer may change the bytes at any time: no
//! reference to shared bytes is ever handed out.

use core::any::Any;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use barewire_cpu::{HAS_COPY_PAST_CACHES, cycles};
use barewire_fabric::memory::{Incoming, Outgoing};

use crate::copy::{copy_in, copy_in_past_caches, copy_out};

/// One mapping of shared memory. Clones share it; the last one unmaps it.
#[derive(Clone)]
pub struct Region {
    base: NonNull<u8>,
    len_bytes: usize,
    writable: bool,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a Region is an address range that stays mapped while `owner` lives; every
// access through it is atomic or an opaque copy, from whichever thread.
unsafe impl Send for Region {}
// SAFETY: as for Send; no method hands out a reference to the bytes.
unsafe impl Sync for Region {}

impl Region {
    /// Describes a mapping. `owner` unmaps it when the last clone is dropped.
    ///
    /// # Safety
    /// `base` must be aligned to 64 bytes; `len_bytes` bytes from it must stay mapped
    /// readable (and writable if `writable`) until `owner` is dropped, and must never be
    /// reached through an ordinary reference.
    #[must_use]
    pub unsafe fn new(
        base: NonNull<u8>,
        len_bytes: usize,
        writable: bool,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Region {
        debug_assert_eq!(base.as_ptr() as usize % 64, 0);
        Region {
            base,
            len_bytes,
            writable,
            owner,
        }
    }

    /// Private memory of this process that behaves like a mapping (for tests and for
    /// nodes that talk to themselves). Zeroed, 64-byte aligned, length rounded up to 64.
    #[must_use]
    pub fn private(len_bytes: usize) -> Region {
        #[repr(C, align(64))]
        struct Line([AtomicU64; 8]);
        let lines = len_bytes.div_ceil(64).max(1);
        let memory: Arc<Box<[Line]>> = Arc::new(
            (0..lines)
                .map(|_| Line([const { AtomicU64::new(0) }; 8]))
                .collect(),
        );
        debug_assert!(!memory[0].0.is_empty());
        let base = NonNull::from(&memory[0]).cast();
        // SAFETY: the boxed slice is 64-aligned, lives as long as `memory`, consists of
        // atomics only, and nothing else refers to it.
        unsafe { Region::new(base, lines * 64, true, memory) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Whether the mapping may be stored to.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// The part of this mapping at `offset`, `len_bytes` long; `None` if it does not lie
    /// inside, is empty, or does not begin on an 8-byte boundary.
    #[must_use]
    pub fn window(&self, offset: usize, len_bytes: usize) -> Option<Window> {
        let end = offset.checked_add(len_bytes)?;
        if end > self.len_bytes || len_bytes == 0 || offset % 8 != 0 {
            return None;
        }
        // SAFETY: offset <= len_bytes was just checked, so the result is in the mapping.
        let base = unsafe { self.base.add(offset) };
        Some(Window {
            base,
            len_bytes,
            writable: self.writable,
            _owner: Arc::clone(&self.owner),
        })
    }

    /// The whole mapping as a window.
    #[must_use]
    pub fn whole(&self) -> Window {
        Window {
            base: self.base,
            len_bytes: self.len_bytes,
            writable: self.writable,
            _owner: Arc::clone(&self.owner),
        }
    }

    /// The address of the mapping, for the crate that made it (`sys`).
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region")
            .field("len_bytes", &self.len_bytes)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

/// A part of a [`Region`]. Offsets are relative to it and checked on every access;
/// one outside is a bug of the caller and panics. Values that a peer chose must be
/// checked before they are used as offsets.
#[derive(Clone)]
pub struct Window {
    base: NonNull<u8>,
    len_bytes: usize,
    writable: bool,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: as for Region.
unsafe impl Send for Window {}
// SAFETY: as for Region.
unsafe impl Sync for Window {}

#[cold]
#[inline(never)]
fn out_of_window(offset: usize, len: usize, window: usize) -> ! {
    panic!("access of {len} bytes at offset {offset} outside a window of {window} bytes");
}

#[cold]
#[inline(never)]
fn read_only() -> ! {
    panic!("store into memory that was mapped read-only");
}

impl Window {
    /// Where it begins, for callers that hand the address to other languages. It is good as long as this or a clone lives.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Whether this window may be stored to.
    #[must_use]
    #[inline]
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// A part of this window; `None` if it does not lie inside or is misaligned.
    #[must_use]
    pub fn sub(&self, offset: usize, len_bytes: usize) -> Option<Window> {
        let end = offset.checked_add(len_bytes)?;
        if end > self.len_bytes || len_bytes == 0 || offset % 8 != 0 {
            return None;
        }
        // SAFETY: offset lies inside this window, which lies inside the mapping.
        let base = unsafe { self.base.add(offset) };
        Some(Window {
            base,
            len_bytes,
            ..self.clone()
        })
    }

    /// The 8-byte word at `offset`, which must be a multiple of 8, as an atomic.
    ///
    /// # Panics
    /// If the word does not lie inside the window or is misaligned.
    #[inline]
    #[must_use]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        if offset % 8 != 0 || offset >= self.len_bytes || self.len_bytes - offset < 8 {
            out_of_window(offset, 8, self.len_bytes);
        }
        // SAFETY: in bounds and 8-aligned (windows begin on multiples of 8 in a mapping
        // aligned to 64); the mapping outlives self; shared words are only ever accessed
        // as atomics or by opaque copies. A store through the atomic of a read-only
        // mapping faults, so every storing method of this type checks `writable` first.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The word at `offset`, for read-modify-write.
    ///
    /// # Panics
    /// As [`Window::word`], and if the window is read-only.
    #[inline]
    #[must_use]
    pub(crate) fn word_mut(&self, offset: usize) -> &AtomicU64 {
        if !self.writable {
            read_only();
        }
        self.word(offset)
    }

    /// Loads the word at `offset`, in one total order with the other atomic accesses
    /// below.
    ///
    /// # Panics
    /// If the word does not lie inside the window or is misaligned.
    #[inline]
    #[must_use]
    pub fn atomic_load(&self, offset: usize) -> u64 {
        // SeqCst pairs with every other access of this group, on either side.
        self.word(offset).load(Ordering::SeqCst)
    }

    /// Stores the word at `offset`.
    ///
    /// # Panics
    /// As [`Window::atomic_load`], and if the window is read-only.
    #[inline]
    pub fn atomic_store(&self, offset: usize, value: u64) {
        // SeqCst pairs with every other access of this group, on either side.
        self.word_mut(offset).store(value, Ordering::SeqCst);
    }

    /// Adds to the word at `offset`, wrapping; returns what it was.
    ///
    /// # Panics
    /// As [`Window::atomic_store`].
    #[inline]
    pub fn atomic_add(&self, offset: usize, value: u64) -> u64 {
        // SeqCst pairs with every other access of this group, on either side.
        self.word_mut(offset).fetch_add(value, Ordering::SeqCst)
    }

    /// Replaces the word at `offset` by `new` if it is `current`.
    ///
    /// # Errors
    /// What was found instead.
    ///
    /// # Panics
    /// As [`Window::atomic_store`].
    #[inline]
    pub fn atomic_compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let word = self.word_mut(offset);
        // SeqCst pairs with every other access of this group, on either side.
        word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) {
        if offset > self.len_bytes || self.len_bytes - offset < len {
            out_of_window(offset, len, self.len_bytes);
        }
    }

    /// Copies bytes out of shared memory. They may change meanwhile; each is read once.
    ///
    /// # Panics
    /// If the range does not lie inside the window.
    #[inline]
    pub fn read_bytes(&self, offset: usize, into: &mut [u8]) {
        self.check(offset, into.len());
        // SAFETY: the range was checked; `into` is ours alone.
        unsafe { copy_out(self.base.as_ptr().add(offset), into) };
    }

    /// Copies bytes into shared memory.
    ///
    /// # Panics
    /// If the range does not lie inside the window or the window is read-only.
    #[inline]
    pub fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if !self.writable {
            read_only();
        }
        // SAFETY: the range was checked and is writable; `bytes` is not in shared memory
        // that we could alias mutably (no references to shared bytes exist).
        unsafe { copy_in(self.base.as_ptr().add(offset), bytes) };
    }

    /// As [`Window::write_bytes`], past the caches: where fetching each line from the reader's cache takes longer than
    /// writing it to memory.
    ///
    /// # Panics
    /// As [`Window::write_bytes`].
    #[inline]
    pub fn write_bytes_past_caches(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if !self.writable {
            read_only();
        }
        // SAFETY: as in `write_bytes`.
        unsafe { copy_in_past_caches(self.base.as_ptr().add(offset), bytes) };
    }

    /// Asks the processor to fetch the line at `offset`; no effect if it lies outside.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        if offset < self.len_bytes {
            barewire_cpu::prefetch(self.base.as_ptr().wrapping_add(offset));
        }
    }

    /// Asks the processor to fetch the lines of a range for storing; what lies outside is left out.
    #[inline]
    pub fn prefetch_for_writing(&self, offset: usize, len_bytes: usize) {
        let end = offset.saturating_add(len_bytes).min(self.len_bytes);
        let first = self.base.as_ptr().wrapping_add(offset);
        barewire_cpu::prefetch_for_writing(first, end.saturating_sub(offset));
    }
}

impl core::fmt::Debug for Window {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Window")
            .field("len_bytes", &self.len_bytes)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

impl Outgoing for Window {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }
    #[inline]
    fn write(&self, offset: usize, bytes: &[u8]) {
        self.write_bytes(offset, bytes);
    }
    #[inline]
    fn write_u64(&self, offset: usize, value: u64) {
        // Relaxed: ordered by the next publish_u64, which is the contract of `Outgoing`.
        self.word_mut(offset).store(value, Ordering::Relaxed);
    }
    #[inline]
    fn publish_u64(&self, offset: usize, value: u64) {
        // Release pairs with the Acquire load of `observe_u64` on the peer's mapping of
        // the same memory: all stores before it are visible to whoever reads the value.
        self.word_mut(offset).store(value, Ordering::Release);
    }
    fn write_measured(&self, offset: usize, bytes: &[u8]) -> u64 {
        let begin = cycles();
        self.write_bytes(offset, bytes);
        match HAS_COPY_PAST_CACHES {
            true => cycles().wrapping_sub(begin),
            false => 0,
        }
    }
    #[inline]
    fn write_past_caches(&self, offset: usize, bytes: &[u8]) {
        self.write_bytes_past_caches(offset, bytes);
    }
    #[inline]
    fn prefetch_for_writing(&self, offset: usize, len_bytes: usize) {
        Window::prefetch_for_writing(self, offset, len_bytes);
    }
}

impl Incoming for Window {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }
    #[inline]
    fn read(&self, offset: usize, into: &mut [u8]) {
        self.read_bytes(offset, into);
    }
    #[inline]
    fn read_u64(&self, offset: usize) -> u64 {
        // Relaxed: the caller has ordered it (an earlier observe_u64, or a fence).
        self.word(offset).load(Ordering::Relaxed)
    }
    #[inline]
    fn observe_u64(&self, offset: usize) -> u64 {
        // Acquire pairs with the Release store of `publish_u64` on the peer's side.
        self.word(offset).load(Ordering::Acquire)
    }
    #[inline]
    fn prefetch(&self, offset: usize) {
        Window::prefetch(self, offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_inside_their_region() {
        let region = Region::private(4096);
        assert!(region.window(0, 4096).is_some());
        assert!(region.window(8, 4096).is_none());
        assert!(region.window(4, 8).is_none());
        assert!(region.window(usize::MAX - 7, 16).is_none());
        assert!(region.window(0, 0).is_none());
        let window = region.window(64, 128).unwrap();
        assert!(window.sub(64, 64).is_some());
        assert!(window.sub(72, 64).is_none());
    }

    #[test]
    fn bytes_of_any_length_and_offset_survive() {
        let region = Region::private(8192);
        let window = region.whole();
        for offset in [0_usize, 1, 3, 7, 8, 63, 64, 100] {
            for len in [0_usize, 1, 2, 7, 8, 9, 15, 16, 56, 63, 64, 65, 200, 4096] {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8).collect();
                window.write_bytes(offset, &bytes);
                let mut back = vec![0; len];
                window.read_bytes(offset, &mut back);
                assert_eq!(bytes, back, "offset {offset} len {len}");
                let bytes: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
                window.write_bytes_past_caches(offset, &bytes);
                window.read_bytes(offset, &mut back);
                assert_eq!(bytes, back, "past the caches, offset {offset} len {len}");
            }
        }
    }

    #[test]
    fn a_copy_touches_nothing_around_it() {
        let region = Region::private(512);
        let window = region.whole();
        for offset in 64..80 {
            for len in 0..130 {
                window.write_bytes(0, &[0xaa; 512]);
                window.write_bytes(offset, &vec![0x55; len]);
                let mut all = [0; 512];
                window.read_bytes(0, &mut all);
                for (i, byte) in all.iter().enumerate() {
                    let inside = i >= offset && i < offset + len;
                    assert_eq!(*byte, if inside { 0x55 } else { 0xaa });
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "outside a window")]
    fn reading_past_the_end_panics() {
        let region = Region::private(64);
        region.whole().read_bytes(60, &mut [0; 8]);
    }

    #[test]
    #[should_panic(expected = "outside a window")]
    fn a_misaligned_word_panics() {
        let region = Region::private(64);
        let _ = region.whole().word(4);
    }
}
