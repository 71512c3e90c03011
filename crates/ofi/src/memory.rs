//! The memory of a link: slots of one size, each either ours or lent to the provider.
//!
//! While a slot is lent, the provider (or a card) reads or writes it. Nobody here touches it
//! then: every access checks that. No reference to a slot's bytes exists, they are copied in
//! and out.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::raw::fi_context2;

/// Slots begin at multiples of a page.
const ALIGN: usize = 4096;

/// Slots for messages, and behind them a context of libfabric for each.
pub(crate) struct Slots {
    memory: NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
    is_lent: Box<[bool]>,
    is_leaked: bool,
}

// SAFETY: the memory belongs to this object alone; what is lent is used by the provider, whoever
// owns this object.
unsafe impl Send for Slots {}

impl Slots {
    /// So many slots of so many bytes each (a multiple of 8), zeroed. Neither is zero.
    pub(crate) fn new(count: usize, slot_bytes: usize) -> Slots {
        assert!(count > 0 && slot_bytes > 0, "no slots");
        assert_eq!(slot_bytes % align_of::<fi_context2>(), 0);
        let bytes = count.checked_mul(slot_bytes + size_of::<fi_context2>());
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, ALIGN).ok());
        let layout = layout.expect("the caller bounds both");
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout);
        };
        Slots {
            memory,
            layout,
            slot_bytes,
            is_lent: vec![false; count].into(),
            is_leaked: false,
        }
    }

    /// All slots, to be registered: where they begin, and their bytes.
    pub(crate) fn all(&self) -> (*const u8, usize) {
        let bytes = self.is_lent.len() * self.slot_bytes;
        (self.memory.as_ptr(), bytes)
    }

    /// Where the contexts begin.
    fn contexts(&self) -> *mut fi_context2 {
        let (_, bytes) = self.all();
        // SAFETY: the contexts lie behind the slots, in the same memory.
        unsafe { self.memory.as_ptr().add(bytes).cast() }
    }

    /// Bytes of each slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Where `bytes` bytes at `at` in a slot that is ours lie.
    fn place(&self, slot: usize, at: usize, bytes: usize) -> *mut u8 {
        assert!(!self.is_lent[slot], "slot {slot} is lent to the provider");
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.slot_bytes),
            "outside of a slot"
        );
        // SAFETY: the slot exists, as `is_lent` was indexed with it, and the range is in it.
        unsafe { self.memory.as_ptr().add(slot * self.slot_bytes + at) }
    }

    /// Copies bytes into a slot that is ours.
    pub(crate) fn store(&mut self, slot: usize, at: usize, bytes: &[u8]) {
        let place = self.place(slot, at, bytes.len());
        // SAFETY: `place` has so many bytes, which nobody else uses, in memory of our own.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out of a slot that is ours.
    pub(crate) fn load(&self, slot: usize, at: usize, into: &mut [u8]) {
        let place = self.place(slot, at, into.len());
        // SAFETY: `place` has so many bytes, which nobody changes now, in memory of our own.
        unsafe {
            into.as_mut_ptr()
                .copy_from_nonoverlapping(place, into.len())
        };
    }

    /// Where the first `bytes` bytes of a slot that is ours lie, for a call that has copied
    /// them when it returns.
    pub(crate) fn peek(&self, slot: usize, bytes: usize) -> *const u8 {
        self.place(slot, 0, bytes)
    }

    /// Lends a slot: where its first `bytes` bytes lie, and the context of the operation.
    pub(crate) fn lend(&mut self, slot: usize, bytes: usize) -> (*mut u8, *mut c_void) {
        let place = self.place(slot, 0, bytes);
        self.is_lent[slot] = true;
        (place, self.contexts().wrapping_add(slot).cast())
    }

    /// Takes back a slot that the provider did not take, or has finished with.
    pub(crate) fn take_back(&mut self, slot: usize) {
        assert!(self.is_lent[slot], "slot {slot} is not lent");
        self.is_lent[slot] = false;
    }

    /// The slot of an operation, by the address of its context.
    pub(crate) fn slot_of(&self, context: usize) -> Option<usize> {
        let distance = context.checked_sub(self.contexts() as usize)?;
        let slot = distance / size_of::<fi_context2>();
        let is_exact = distance % size_of::<fi_context2>() == 0;
        (is_exact && self.is_lent.get(slot) == Some(&true)).then_some(slot)
    }

    /// Whether a slot is lent.
    pub(crate) fn is_lent(&self, slot: usize) -> bool {
        self.is_lent[slot]
    }

    /// Gives the memory up for ever, since the provider may still use it.
    pub(crate) fn leak(&mut self) {
        self.is_leaked = true;
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: the memory was made with this layout, and is freed once. The owner has
            // closed the endpoint, so that nothing uses it (or has called `leak`).
            unsafe { dealloc(self.memory.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_their_slot() {
        let mut slots = Slots::new(3, 16);
        slots.store(1, 0, &[1; 16]);
        let mut read = [7; 16];
        for (slot, byte) in [(0, 0), (1, 1), (2, 0)] {
            slots.load(slot, 0, &mut read);
            assert_eq!(read, [byte; 16]);
        }
        slots.load(1, 12, &mut read[..4]);
        assert_eq!(read[..5], [1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_context_names_its_slot() {
        let mut slots = Slots::new(3, 16);
        let context = slots.lend(2, 16).1 as usize;
        assert_eq!(slots.slot_of(context), Some(2));
        let bytes = size_of::<fi_context2>();
        for wrong in [context + 8, context + bytes, context - bytes, 0] {
            assert_eq!(slots.slot_of(wrong), None);
        }
        slots.take_back(2);
        assert_eq!(slots.slot_of(context), None);
    }

    #[test]
    #[should_panic(expected = "lent to the provider")]
    fn what_is_lent_is_not_touched() {
        let mut slots = Slots::new(3, 16);
        slots.lend(2, 16);
        slots.store(2, 0, &[1]);
    }

    #[test]
    #[should_panic(expected = "outside of a slot")]
    fn nothing_reaches_the_next_slot() {
        Slots::new(3, 16).store(0, 1, &[0; 16]);
    }

    #[test]
    #[should_panic(expected = "is not lent")]
    fn nothing_is_taken_back_twice() {
        Slots::new(3, 16).take_back(0);
    }
}
