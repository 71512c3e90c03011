//! The bytes that wait to be sent or acknowledged, as a ring of fixed size.

use alloc::vec;
use alloc::vec::Vec;

/// Bytes by their offset in the stream: those from `start` on, as many as the ring holds.
pub(crate) struct Ring {
    bytes: Vec<u8>,
    /// The offset in the stream of the first byte.
    start: u64,
    len: usize,
}

impl core::fmt::Debug for Ring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ring")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity],
            start: 0,
            len: 0,
        }
    }

    /// The offset in the stream behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Takes as many bytes as there is room for, and gives their number.
    pub(crate) fn push(&mut self, from: &[u8]) -> usize {
        let count = from.len().min(self.room());
        let at = self.place(self.end());
        let first = count.min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&from[..first]);
        self.bytes[..count - first].copy_from_slice(&from[first..count]);
        self.len += count;
        count
    }

    /// Forgets what lies before the offset `until` in the stream.
    pub(crate) fn release(&mut self, until: u64) {
        let count = until.saturating_sub(self.start).min(self.len as u64);
        self.start += count;
        self.len -= usize::try_from(count).unwrap_or(self.len);
    }

    /// The bytes from the offset `from` on, at most `count`.
    pub(crate) fn get(&self, from: u64, count: usize) -> (&[u8], &[u8]) {
        if from < self.start || from >= self.end() {
            return (&[], &[]);
        }
        let behind = usize::try_from(self.end() - from).unwrap_or(0);
        let count = count.min(behind);
        let at = self.place(from);
        let first = count.min(self.bytes.len() - at);
        (&self.bytes[at..at + first], &self.bytes[..count - first])
    }

    fn place(&self, offset: u64) -> usize {
        usize::try_from(offset % self.bytes.len() as u64).unwrap_or(0)
    }
}
