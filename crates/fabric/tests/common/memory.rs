//! Windows over memory of this process: word atomics behind both ends, bounds asserted at
//! every access, and every access counted.
#![allow(dead_code, reason = "each test uses its own part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use barewire_fabric::frame::region_bytes;
use barewire_fabric::memory::{Fences, Incoming, Outgoing};
use barewire_fabric::{RingReceiver, RingSender};

/// A region: what one side stores and the other loads. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    words: Arc<[AtomicU64]>,
    accesses: Arc<AtomicU64>,
}

/// The ends of a ring between two regions.
pub type Ends = (RingSender<Region, Region>, RingReceiver<Region, Region>);

impl Region {
    /// A zeroed region with a ring of `ring_bytes`.
    pub fn new(ring_bytes: usize) -> Region {
        let words = (0..region_bytes(ring_bytes) / 8).map(|_| AtomicU64::new(0));
        Region {
            words: words.collect(),
            accesses: Arc::default(),
        }
    }

    /// Both ends of a fresh ring.
    pub fn ends(ring_bytes: usize) -> Ends {
        let (there, back) = (Region::new(ring_bytes), Region::new(ring_bytes));
        (
            RingSender::new(there.clone(), back.clone(), ring_bytes),
            RingReceiver::new(there, back, ring_bytes),
        )
    }

    /// Words in the region.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Puts any value into any word, as a hostile peer does.
    pub fn spoil(&self, index: usize, value: u64) {
        self.words[index].store(value, Ordering::Relaxed);
    }

    /// Transfers since this was last asked; a copy counts as one.
    pub fn take_accesses(&self) -> u64 {
        self.accesses.swap(0, Ordering::Relaxed)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0, "word at {offset}");
        self.count();
        &self.words[offset / 8]
    }

    fn count(&self) {
        // Not an atomic addition: an approximate count is enough where threads race.
        let before = self.accesses.load(Ordering::Relaxed);
        self.accesses.store(before + 1, Ordering::Relaxed);
    }

    /// The words of a transfer: index, first byte in the word, bytes.
    fn pieces(&self, offset: usize, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let end = offset.checked_add(len).expect("no overflow");
        assert!(end <= self.words.len() * 8, "{len} bytes at {offset}");
        self.count();
        let mut at = offset;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let first = at % 8;
                let bytes = (8 - first).min(end - at);
                let piece = (at / 8, first, bytes);
                at += bytes;
                piece
            })
        })
    }
}

impl Outgoing for Region {
    fn len_bytes(&self) -> usize {
        self.words.len() * 8
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        for (index, first, len) in self.pieces(offset, bytes.len()) {
            // Ordering: Relaxed, as plain stores are; a later publication orders them.
            let mut word = self.words[index].load(Ordering::Relaxed).to_ne_bytes();
            word[first..first + len].copy_from_slice(&bytes[done..done + len]);
            self.words[index].store(u64::from_ne_bytes(word), Ordering::Relaxed);
            done += len;
        }
    }

    fn write_u64(&self, offset: usize, value: u64) {
        // Ordering: Relaxed, as in `write`.
        self.word(offset).store(value, Ordering::Relaxed);
    }

    fn publish_u64(&self, offset: usize, value: u64) {
        // Ordering: Release pairs with the Acquire in `observe_u64` and makes all earlier
        // stores visible.
        self.word(offset).store(value, Ordering::Release);
    }
}

impl Incoming for Region {
    fn len_bytes(&self) -> usize {
        self.words.len() * 8
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let mut done = 0;
        for (index, first, len) in self.pieces(offset, into.len()) {
            // Ordering: Relaxed; an earlier `observe_u64` makes the words visible.
            let word = self.words[index].load(Ordering::Relaxed).to_ne_bytes();
            into[done..done + len].copy_from_slice(&word[first..first + len]);
            done += len;
        }
    }

    fn read_u64(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    fn observe_u64(&self, offset: usize) -> u64 {
        // Ordering: Acquire pairs with the Release in `publish_u64`.
        self.word(offset).load(Ordering::Acquire)
    }
}

/// Full fences on both sides.
pub struct FullFences;

impl Fences for FullFences {
    fn light(&self) {
        // Ordering: SeqCst pairs with the one in `heavy`: one side sees the other's store.
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) {
        // Ordering: SeqCst pairs with the one in `light`.
        fence(Ordering::SeqCst);
    }
}

/// Message number `number` of `len` bytes; no two numbers have the same content, except
/// where they are too short to differ. Every ninth is all zero, every tenth full of words
/// that look like headers for lines near `line`.
pub fn content(number: u64, len: usize, line: u64) -> Vec<u8> {
    use barewire_fabric::frame::{HEADER_BYTES, Kind, pack};
    if number % 9 == 8 {
        return vec![0; len];
    }
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; len];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(number | 1);
        let word = match number % 10 {
            9 => pack(Kind::Whole, HEADER_BYTES, 8, line + index as u64 / 8),
            _ => state ^ (state >> 29),
        };
        chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
    }
    bytes
}
