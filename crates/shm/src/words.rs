//! Implements doorbell pages on windows into shared memory.

use core::sync::atomic::{Ordering, compiler_fence, fence};

use barewire_fabric::memory::SharedWords;

use crate::region::Window;

impl SharedWords for Window {
    #[inline]
    fn load(&self, index: usize) -> u64 {
        // Acquire pairs with the release half of `or` in a ringer.
        self.word(index * 8).load(Ordering::Acquire)
    }
    #[inline]
    fn store(&self, index: usize, value: u64) {
        // Release pairs with the Acquire of `load` in a ringer.
        self.word_mut(index * 8).store(value, Ordering::Release);
    }
    #[inline]
    fn or(&self, index: usize, bits: u64) -> u64 {
        // AcqRel pairs with `take` of the owner, both ways.
        self.word_mut(index * 8).fetch_or(bits, Ordering::AcqRel)
    }
    #[inline]
    fn take(&self, index: usize) -> u64 {
        // AcqRel pairs with `or` of the ringers, both ways.
        self.word_mut(index * 8).swap(0, Ordering::AcqRel)
    }
    #[inline]
    fn settle(&self) {
        // SeqCst pairs with `fence` in announce_sleep. A locked instruction is a full
        // barrier on x86-64, so there only the compiler needs to be told.
        if cfg!(target_arch = "x86_64") {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
    #[inline]
    fn fence(&self) {
        // SeqCst pairs with `settle` in ring.
        fence(Ordering::SeqCst);
    }
}
