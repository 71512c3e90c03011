//! Memory that is shared with the kernel, and the rings in it: `linux/if_xdp.h`, and `net/xdp/xsk_queue.h` of the kernel.
//!
//! A ring is an area of memory, which `mmap` gives. `getsockopt` says where its parts are (`struct xdp_ring_offset`):
//!
//! | part | bytes | meaning |
//! |---|---|---|
//! | `producer` | 4 | how many entries were ever put in, modulo 2^32; only the producer writes it |
//! | `consumer` | 4 | how many were taken out; only the consumer writes it |
//! | `flags` | 4 | bit 0: the kernel sleeps, and has to be woken by a system call (`XDP_RING_NEED_WAKEUP`) |
//! | `desc` | 8 or 16 each | the entries; number `n` is at `n` modulo their count, a power of two |
//!
//! An entry of the fill and of the completion ring is the address of a frame, in bytes from the start of the memory of
//! frames (`__u64`). One of the two others is a `struct xdp_desc`:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..8 | `addr` | the first byte of the frame, from the start of the memory of frames |
//! | 8..12 | `len` | bytes |
//! | 12..16 | `options` | zero |
//!
//! Of each ring the kernel is one end and this process the other, so there is one producer and one consumer.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use barewire_calls::Errno as Number;

use crate::frames::area::Area;

/// `XDP_RING_NEED_WAKEUP`.
const NEEDS_WAKEUP: u32 = 1;

/// Where the parts of a ring are in its area, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) entries: usize,
    pub(super) flags: usize,
}

/// `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) at: u64,
    pub(super) len_bytes: u32,
    pub(super) options: u32,
}

/// What can be an entry.
///
/// # Safety
/// All bytes of it are data, and every value of them is right.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: it is a number.
unsafe impl Entry for u64 {}
// SAFETY: it is numbers without a gap.
unsafe impl Entry for Descriptor {}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// One end of a ring, of which the kernel has the other.
#[derive(Debug)]
pub(super) struct Ring<E> {
    area: Area,
    offsets: Offsets,
    count: u32,
    /// This end's index. The kernel knows of it after [`publish`](Self::publish) or [`release`](Self::release).
    own: u32,
    /// The kernel's index, as it was when last looked at.
    far: u32,
    entry: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// The ring in the part of a socket that is at `at_bytes`; `count` is a power of two.
    pub(super) fn map(
        fd: i32,
        at_bytes: i64,
        offsets: Offsets,
        count: u32,
    ) -> Result<Self, Number> {
        let len_bytes = offsets.entries + count as usize * size_of::<E>();
        let area = Area::of_socket(fd, at_bytes, len_bytes)?;
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        let is_right = words.into_iter().all(|at| at % 4 == 0 && area.has(at, 4))
            && offsets.entries % align_of::<E>() == 0
            && count.is_power_of_two();
        if !is_right {
            return Err(libc::EPROTO);
        }
        Ok(Self {
            area,
            offsets,
            count,
            own: 0,
            far: 0,
            entry: PhantomData,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word is in the area and aligned; both ends use it by atomics only, and the
        // area lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.area.base().as_ptr().add(at).cast()) }
    }

    fn entry(&self, number: u32) -> *mut E {
        let at = (number & (self.count - 1)) as usize;
        // SAFETY: the area has room for `count` entries from there on.
        unsafe {
            let entries = self.area.base().as_ptr().add(self.offsets.entries);
            entries.cast::<E>().add(at)
        }
    }

    /// As the producer: puts an entry in. `false`: it is full.
    #[must_use]
    pub(super) fn put(&mut self, entry: E) -> bool {
        if self.own.wrapping_sub(self.far) >= self.count {
            // Acquire: pairs with the kernel's release of the consumer index. What the kernel has read of the entry is
            // read before it is written over here.
            self.far = self.word(self.offsets.consumer).load(Ordering::Acquire);
            if self.own.wrapping_sub(self.far) >= self.count {
                return false;
            }
        }
        // SAFETY: the pointer is to an entry of the ring; by the indices it is the producer's now.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
        true
    }

    /// As the producer: shows the kernel what was put in.
    pub(super) fn publish(&self) {
        // Release: pairs with the kernel's acquire of the producer index. The kernel sees the entries, and the frames
        // that they name, as they were written before.
        let word = self.word(self.offsets.producer);
        word.store(self.own, Ordering::Release);
    }

    /// As the producer: how many entries the kernel has not taken yet.
    pub(super) fn waiting(&self) -> u32 {
        // Relaxed: a number to decide by, and no entry is touched for it.
        let consumer = self.word(self.offsets.consumer).load(Ordering::Relaxed);
        self.own.wrapping_sub(consumer)
    }

    /// As the consumer: takes an entry out.
    pub(super) fn take(&mut self) -> Option<E> {
        if self.own == self.far {
            // Acquire: pairs with the kernel's release of the producer index. The entries, and the frames that they
            // name, are there as the kernel has written them.
            self.far = self.word(self.offsets.producer).load(Ordering::Acquire);
            if self.own == self.far {
                return None;
            }
        }
        // SAFETY: the pointer is to an entry of the ring; by the indices it is the consumer's now, and every value is right.
        let entry = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// As the consumer: lets the kernel write over what was taken out.
    pub(super) fn release(&self) {
        // Release: pairs with the kernel's acquire of the consumer index. The entries were read before they are
        // written over.
        let word = self.word(self.offsets.consumer);
        word.store(self.own, Ordering::Release);
    }

    /// Whether the kernel has to be woken to go on.
    pub(super) fn needs_wakeup(&self) -> bool {
        // Relaxed: a hint. It is looked at again before each sleep, and `poll` wakes the kernel, too.
        self.word(self.offsets.flags).load(Ordering::Relaxed) & NEEDS_WAKEUP != 0
    }
}
