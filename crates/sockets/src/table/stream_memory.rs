//! The shared memory of hybrid streams: a place for each socket, and what is mapped there.

use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};

use barewire_calls::barrier;
use barewire_calls::memory::{map as map_over, unmap};
use barewire_cpu::{HAS_COPY_PAST_CACHES, cycles};
use barewire_fabric::hybrid::{CONTROL_BYTES, SharedMemory, memory_bytes};

use crate::process::memory::{map, note_given_back, part_private, private_bytes};
use crate::process::words::{Guarded, Lone};
use crate::table::limits::SOCKETS_MAX;

/// Bytes of a ring.
pub const RING_BYTES: u32 = 64 << 10;
/// Bytes of a hybrid stream.
pub const STREAM_MEMORY_BYTES: usize = memory_bytes(RING_BYTES);

/// Where the place of socket state 0 begins; 0 if there are none.
static PLACES: AtomicUsize = AtomicUsize::new(0);
/// What is in each place, in this process; a child has a copy, as it has of the mappings.
static MAPPED: AtomicPtr<Lone<AtomicU8>> = AtomicPtr::new(core::ptr::null_mut());

/// The places from this number on are given back, and get no hybrid stream. Under the gate.
static PLACES_LEFT: Guarded<AtomicU32> = Guarded::new(AtomicU32::new(SOCKETS_MAX));

/// Gives the places back behind the last that ever had a hybrid stream: nobody looks there. Sockets that have
/// their socket states there stay with the kernel. No hybrid stream is mapped meanwhile.
pub fn give_places_back() {
    let had_one = |number: &u32| mapping(*number) != Mapping(0);
    let left = (0..PLACES_LEFT.get())
        .rev()
        .find(had_one)
        .map_or(0, |last| last + 1);
    let (from, to) = (left as usize, PLACES_LEFT.get() as usize);
    PLACES_LEFT.set(left);
    if from == to || places() == 0 {
        return;
    }
    let bytes = (to - from) * STREAM_MEMORY_BYTES;
    // SAFETY: of our own reservation, and of no use as said.
    unsafe { unmap(memory(left).base.cast(), bytes) };
    note_given_back(bytes);
}

/// All memory is given back: there are no places any more.
pub fn forget_places() {
    // Relaxed: nobody else is there.
    PLACES.store(0, Ordering::Relaxed);
}

/// Bytes that [`set_up`] takes, without the places.
pub const PRIVATE_BYTES: usize = private_bytes(SOCKETS_MAX as usize);

/// Reserves the places of all hybrid streams: addresses, no memory. A zero page can be read there.
pub fn set_up() -> bool {
    let Some(mapped) = part_private(SOCKETS_MAX as usize) else {
        return false;
    };
    // Release pairs with the Acquire in `mapped`.
    MAPPED.store(mapped.cast(), Ordering::Release);
    let Some(places) = map(
        SOCKETS_MAX as usize * STREAM_MEMORY_BYTES,
        libc::PROT_READ,
        libc::MAP_PRIVATE,
    ) else {
        return false;
    };
    // Release pairs with the Acquire in `places`.
    PLACES.store(places as usize, Ordering::Release);
    true
}

/// What is in a place: in the last bit whether a hybrid stream is, above it how many there were before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mapping(u8);

impl Mapping {
    /// Whether a hybrid stream is there.
    pub const fn is_there(self) -> bool {
        self.0 & 1 != 0
    }
}

/// What is in the place of socket state `number`.
pub fn mapping(number: u32) -> Mapping {
    Mapping(mapped(number).get())
}

/// Maps a hybrid stream's memory into the place of socket state `number`. It is sealed against
/// shrinking, so all of it stays there.
pub fn map_memory(number: u32, fd: i32) -> bool {
    if number >= PLACES_LEFT.get() {
        return false;
    }
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let is_there = map_at(number, flags, fd);
    if is_there {
        let next = (mapping(number).0 | 1).wrapping_add(2);
        mapped(number).set(next);
    }
    is_there
}

/// It changes under the gate.
fn mapped(number: u32) -> &'static Lone<AtomicU8> {
    // Acquire pairs with the Release in `set_up`.
    let table = MAPPED.load(Ordering::Acquire);
    // SAFETY: set_up made the table before there were places, with a byte for each socket state;
    // it is never unmapped, and zeros are valid.
    unsafe { &*table.add(number as usize) }
}

/// Puts zeros in the place of a hybrid stream, if this one is still mapped there in this process: its
/// memory is given back, and late readers and writers do no harm.
pub fn unmap_memory(number: u32, mapping_then: Mapping) {
    if !mapping_then.is_there() || mapping(number) != mapping_then {
        return;
    }
    mapped(number).set(mapping_then.0 & !1);
    let new = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map_at(number, new, -1);
}

/// Maps something else in a place.
fn map_at(number: u32, flags: i32, fd: i32) -> bool {
    let (at, rights) = (memory(number).base, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the place is ours, and whoever still looks there bears any words.
    unsafe { map_over(at.cast(), STREAM_MEMORY_BYTES, rights, flags, fd, 0) }.is_ok()
}

/// Where the places begin.
#[inline]
pub fn places() -> usize {
    // Acquire pairs with the Release in `set_up`.
    PLACES.load(Ordering::Acquire)
}

/// The place of socket state `number`.
pub fn memory(number: u32) -> StreamMemory {
    StreamMemory {
        base: (places() + number as usize * STREAM_MEMORY_BYTES) as *mut u8,
    }
}

/// A hybrid stream's memory, mapped in the place of a socket state.
#[derive(Clone, Copy)]
pub struct StreamMemory {
    base: *mut u8,
}

impl StreamMemory {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < CONTROL_BYTES / 8);
        // SAFETY: the place has STREAM_MEMORY_BYTES that stay mapped, aligned to a page, and
        // its control words are reached as atomics only.
        unsafe { &*self.base.add(index * 8).cast::<AtomicU64>() }
    }

    #[inline]
    fn bytes(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= STREAM_MEMORY_BYTES && len <= STREAM_MEMORY_BYTES - offset);
        // SAFETY: within the place.
        unsafe { self.base.add(offset) }
    }
}

// The orderings are those that the contract of `SharedMemory` states. `fabric::hybrid`, which uses the words, names
// which access to a word pairs with which.
impl SharedMemory for StreamMemory {
    #[inline]
    fn load(&self, index: usize) -> u64 {
        // Acquire pairs with the Release in `store` and `swap_if` of the other end.
        self.word(index).load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, index: usize, value: u64) {
        // Release pairs with the Acquire in `load` and `swap_if` of the other end.
        self.word(index).store(value, Ordering::Release);
    }

    #[inline]
    fn swap_if(&self, index: usize, old: u64, new: u64) -> bool {
        // AcqRel pairs with `load`, `store` and `swap_if` of the other end.
        self.word(index)
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    fn fence(&self) {
        // Pairs with `fence` of the other end.
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn light_fence(&self) {
        // Pairs with `heavy_fence` of the other end, in which the kernel makes a whole fence of it.
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_fence(&self) -> bool {
        barrier::fence()
    }

    #[inline]
    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let to = self.bytes(offset, bytes.len());
        // SAFETY: within the place, which does not overlap the program's memory; the empty
        // block keeps the compiler from assuming what another process may have changed.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            core::arch::asm!("/* {0} */", in(reg) to, options(nostack, preserves_flags));
        }
    }

    #[inline]
    fn store_bytes(&self, first: usize, bytes: &[u8]) {
        // Pairs with the Acquire in `load_bytes` of the other end. One copy, since the other end may poll the cache line.
        fence(Ordering::Release);
        self.copy_in(first * 8, bytes);
    }

    #[inline]
    fn load_bytes(&self, first: usize, bytes: &mut [u8]) {
        self.copy_out(first * 8, bytes);
        // Pairs with the Release in `store_bytes` of the other end.
        fence(Ordering::Acquire);
    }

    #[inline]
    fn prefetch_for_writing(&self, offset: usize, len_bytes: usize) {
        barewire_cpu::prefetch_for_writing(self.bytes(offset, len_bytes), len_bytes);
    }

    #[inline]
    fn copy_in_past_caches(&self, offset: usize, bytes: &[u8]) {
        let to = self.bytes(offset, bytes.len());
        // SAFETY: as above.
        unsafe {
            barewire_cpu::copy_past_caches(bytes.as_ptr(), to, bytes.len());
            core::arch::asm!("/* {0} */", in(reg) to, options(nostack, preserves_flags));
        }
    }

    fn copy_in_measured(&self, offset: usize, bytes: &[u8]) -> u64 {
        let begin = cycles();
        self.copy_in(offset, bytes);
        match HAS_COPY_PAST_CACHES {
            true => cycles().wrapping_sub(begin),
            false => 0,
        }
    }

    #[inline]
    fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.bytes(offset, bytes.len());
        // SAFETY: as above.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
            core::arch::asm!("/* {0} */", in(reg) bytes.as_mut_ptr(), options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_into_words_and_leave_the_others_alone() {
        let mut words = vec![u64::MAX; STREAM_MEMORY_BYTES / 8];
        let memory = StreamMemory {
            base: words.as_mut_ptr().cast(),
        };
        let bytes: Vec<u8> = (1..=48).collect();
        for len in 0..=bytes.len() {
            memory.store_bytes(130, &bytes[..len]);
            let mut back = vec![0; len];
            memory.load_bytes(130, &mut back);
            assert_eq!(back, bytes[..len]);
        }
        assert_eq!(memory.load(130), 0x0807_0605_0403_0201);
        assert_eq!((memory.load(129), memory.load(136)), (u64::MAX, u64::MAX));
    }
}
