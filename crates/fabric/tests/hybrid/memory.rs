//! A hybrid stream's memory in this process, bounds asserted at every access.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use barewire_fabric::hybrid::{CONTROL_BYTES, SharedMemory, UP, memory_bytes};

/// Zeroed memory with two rings.
pub struct Memory {
    words: Vec<AtomicU64>,
    rings: Vec<AtomicU8>,
}

impl Memory {
    /// With rings of `ring_bytes`; both sides are up.
    pub fn new(ring_bytes: u32) -> Memory {
        let rings = memory_bytes(ring_bytes) - CONTROL_BYTES;
        let memory = Memory {
            words: (0..CONTROL_BYTES / 8).map(|_| AtomicU64::new(0)).collect(),
            rings: (0..rings).map(|_| AtomicU8::new(0)).collect(),
        };
        memory.store(UP, 1);
        memory.store(UP + 1, 1);
        memory
    }

    fn ring(&self, offset: usize, len: usize) -> &[AtomicU8] {
        &self.rings[offset - CONTROL_BYTES..][..len]
    }
}

// Orderings: as the contract of SharedMemory states them.
impl SharedMemory for Memory {
    fn load(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Acquire)
    }

    fn store(&self, index: usize, value: u64) {
        self.words[index].store(value, Ordering::Release);
    }

    fn swap_if(&self, index: usize, old: u64, new: u64) -> bool {
        self.words[index]
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn light_fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn heavy_fence(&self) -> bool {
        fence(Ordering::SeqCst);
        true
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        for (to, from) in self.ring(offset, bytes.len()).iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        for (from, to) in self.ring(offset, bytes.len()).iter().zip(bytes) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

/// The byte at `position` of a stream; those of the two directions differ.
#[allow(dead_code, reason = "the fuzz target has no stream to check")]
pub fn byte_at(direction: u32, position: u64) -> u8 {
    let mixed = (position ^ u64::from(direction) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}
