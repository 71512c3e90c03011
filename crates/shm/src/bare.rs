//! Bare programs that show the machine's own limits, with which every figure of the network is
//! compared: one cache line there and back; a copy in and a copy out; a ring of fixed slots
//! with nothing but a sequence word. They have no protocol, check no peer, and never sleep.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::region::{Region, Window};

/// One cache line whose first word is stored by one side and polled by the other.
#[derive(Clone, Debug)]
pub struct Line(Window);

impl Line {
    /// The line at `offset` (a multiple of 64); `None` if it does not lie in the region.
    #[must_use]
    pub fn new(region: &Region, offset: usize) -> Option<Line> {
        (offset % 64 == 0).then(|| region.window(offset, 64).map(Line))?
    }

    /// Stores the word.
    #[inline]
    pub fn store(&self, value: u64) {
        // Release pairs with the Acquire of `load`.
        self.0.word_mut(0).store(value, Ordering::Release);
    }

    /// Loads the word.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u64 {
        // Acquire pairs with the Release of `store`.
        self.0.word(0).load(Ordering::Acquire)
    }

    /// The first half of the word, for a futex. A line used in this way is used in no
    /// other.
    ///
    /// # Panics
    /// If the line is read-only.
    #[inline]
    #[must_use]
    pub fn futex_word(&self) -> &AtomicU32 {
        let word = self.0.word_mut(0);
        // SAFETY: four bytes of an eight-byte atomic in writable shared memory, aligned,
        // which live as long as self; by its contract this line is accessed in no other
        // size, and shared words are only ever accessed as atomics.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }
}

/// Bytes to copy into and out of.
#[derive(Clone, Debug)]
pub struct Buffer(Window);

impl Buffer {
    /// The `len_bytes` at `offset`; `None` if they do not lie in the region.
    #[must_use]
    pub fn new(region: &Region, offset: usize, len_bytes: usize) -> Option<Buffer> {
        region.window(offset, len_bytes).map(Buffer)
    }

    /// Copies into the start of the buffer.
    #[inline]
    pub fn copy_in(&self, bytes: &[u8]) {
        self.0.write_bytes(0, bytes);
    }

    /// The same past the caches.
    #[inline]
    pub fn copy_in_past_caches(&self, bytes: &[u8]) {
        self.0.write_bytes_past_caches(0, bytes);
    }

    /// Copies out of the start of the buffer.
    #[inline]
    pub fn copy_out(&self, into: &mut [u8]) {
        self.0.read_bytes(0, into);
    }
}

/// A ring of fixed slots: an 8-byte sequence word, then the payload, on 64-byte lines.
/// The first line holds the consumer's progress.
#[derive(Clone, Debug)]
pub struct TwoCopyRing {
    window: Window,
    stride: usize,
    slots: u64,
    slot_bytes: usize,
    is_past_caches: bool,
}

impl TwoCopyRing {
    /// A ring of at most `ring_bytes` with slots for `slot_bytes` of payload at `offset`
    /// of the region, plus one line for the consumer's progress. `None` if it does not
    /// fit or holds fewer than two slots.
    #[must_use]
    pub fn new(
        region: &Region,
        offset: usize,
        ring_bytes: usize,
        slot_bytes: usize,
    ) -> Option<TwoCopyRing> {
        let stride = (slot_bytes + 8).div_ceil(64) * 64;
        let slots = ring_bytes / stride;
        if slots < 2 {
            return None;
        }
        let window = region.window(offset, 64 + slots * stride)?;
        Some(TwoCopyRing {
            window,
            stride,
            slots: slots as u64,
            slot_bytes,
            is_past_caches: false,
        })
    }

    /// Has producers copy past the caches.
    #[must_use]
    pub fn past_caches(self) -> TwoCopyRing {
        TwoCopyRing {
            is_past_caches: true,
            ..self
        }
    }

    /// The storing side.
    #[must_use]
    pub fn producer(&self) -> RingProducer {
        RingProducer {
            ring: self.clone(),
            head: 0,
            index: 0,
            seen: 0,
        }
    }

    /// The loading side.
    #[must_use]
    pub fn consumer(&self) -> RingConsumer {
        RingConsumer {
            ring: self.clone(),
            tail: 0,
            index: 0,
            told: 0,
        }
    }

    #[inline]
    fn slot(&self, index: u64) -> usize {
        64 + index as usize * self.stride
    }
}

/// The storing side of a [`TwoCopyRing`].
#[derive(Debug)]
pub struct RingProducer {
    ring: TwoCopyRing,
    head: u64,
    index: u64,
    seen: u64,
}

impl RingProducer {
    /// Copies one payload in; `false` if the ring is full.
    #[inline]
    pub fn try_push(&mut self, bytes: &[u8]) -> bool {
        if self.head - self.seen >= self.ring.slots {
            // Acquire pairs with the Release of the consumer's progress.
            self.seen = self.ring.window.word(0).load(Ordering::Acquire);
            if self.head - self.seen >= self.ring.slots {
                return false;
            }
        }
        let slot = self.ring.slot(self.index);
        let len = bytes.len().min(self.ring.slot_bytes);
        if self.ring.is_past_caches {
            let window = &self.ring.window;
            window.write_bytes_past_caches(slot + 8, &bytes[..len]);
        } else {
            self.ring.window.write_bytes(slot + 8, &bytes[..len]);
        }
        self.head += 1;
        // Release pairs with the Acquire load of the sequence word in `try_pop`.
        let word = self.ring.window.word_mut(slot);
        word.store(self.head, Ordering::Release);
        self.index += 1;
        if self.index == self.ring.slots {
            self.index = 0;
        }
        true
    }
}

/// The loading side of a [`TwoCopyRing`].
#[derive(Debug)]
pub struct RingConsumer {
    ring: TwoCopyRing,
    tail: u64,
    index: u64,
    told: u64,
}

impl RingConsumer {
    /// Copies one payload out; `false` if the ring is empty.
    #[inline]
    pub fn try_pop(&mut self, into: &mut [u8]) -> bool {
        let slot = self.ring.slot(self.index);
        // Acquire pairs with the Release store of the sequence word in `try_push`.
        if self.ring.window.word(slot).load(Ordering::Acquire) != self.tail + 1 {
            return false;
        }
        let len = into.len().min(self.ring.slot_bytes);
        self.ring.window.read_bytes(slot + 8, &mut into[..len]);
        self.tail += 1;
        self.index += 1;
        if self.index == self.ring.slots {
            self.index = 0;
        }
        if self.tail - self.told >= (self.ring.slots / 4).max(1) {
            self.told = self.tail;
            // Release pairs with the Acquire load of the producer's `try_push`.
            let word = self.ring.window.word_mut(0);
            word.store(self.tail, Ordering::Release);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_order_and_stops_when_full() {
        let region = Region::private(4096 + 64);
        let ring = TwoCopyRing::new(&region, 0, 4096, 56).unwrap();
        check(&ring);
        let region = Region::private(4096 + 64);
        let ring = TwoCopyRing::new(&region, 0, 4096, 56).unwrap();
        check(&ring.past_caches());
    }

    fn check(ring: &TwoCopyRing) {
        let (mut tx, mut rx) = (ring.producer(), ring.consumer());
        let mut sent = 0_u64;
        let mut seen = 0_u64;
        for _ in 0..1000 {
            while tx.try_push(&sent.to_ne_bytes()) {
                sent += 1;
            }
            let mut word = [0; 8];
            while rx.try_pop(&mut word) {
                assert_eq!(u64::from_ne_bytes(word), seen);
                seen += 1;
            }
        }
        assert_eq!(sent, seen);
        assert!(sent >= 64_000 / 2);
    }
}
