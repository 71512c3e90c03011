//! The bytes that have come and were not read yet, as a ring of fixed size. Bytes that came before others that are missing lie
//! in it, too, where they belong.

use alloc::vec;
use alloc::vec::Vec;

/// A place for bytes.
pub(crate) struct Room {
    bytes: Vec<u8>,
    /// Where the first byte that was not read lies.
    begin: usize,
    /// How many lie there without a gap.
    len: usize,
}

impl core::fmt::Debug for Room {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Room")
            .field("begin", &self.begin)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Room {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity],
            begin: 0,
            len: 0,
        }
    }

    /// How many bytes can be read.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Begins at the front again, while nothing is in it: what is used over and over stays in the processor's cache, and the
    /// rest of the memory is never touched.
    pub(crate) fn restart(&mut self) {
        debug_assert_eq!(self.len, 0);
        self.begin = 0;
    }

    /// Stores bytes `at` behind the first that can be read; all of them have room.
    pub(crate) fn put(&mut self, at: usize, from: &[u8]) {
        debug_assert!(at + from.len() <= self.bytes.len());
        let capacity = self.bytes.len();
        let Some(at) = (self.begin + at).checked_rem(capacity) else {
            return;
        };
        let first = from.len().min(capacity - at);
        self.bytes[at..at + first].copy_from_slice(&from[..first]);
        self.bytes[..from.len() - first].copy_from_slice(&from[first..]);
    }

    /// So many more bytes can be read: they were stored.
    pub(crate) fn extend(&mut self, count: usize) {
        self.len += count;
        debug_assert!(self.len <= self.bytes.len());
    }

    /// Reads bytes, as many as there are and fit.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.len);
        let first = count.min(self.bytes.len() - self.begin);
        into[..first].copy_from_slice(&self.bytes[self.begin..self.begin + first]);
        into[first..count].copy_from_slice(&self.bytes[..count - first]);
        self.take(count);
        count
    }

    /// Shows the bytes that can be read without a break in between, and takes as many as `read` says.
    pub(crate) fn read_with<R>(&mut self, read: impl FnOnce(&mut [u8]) -> (usize, R)) -> R {
        let count = self.len.min(self.bytes.len() - self.begin);
        let (taken, result) = read(&mut self.bytes[self.begin..self.begin + count]);
        self.take(taken.min(count));
        result
    }

    fn take(&mut self, count: usize) {
        self.len -= count;
        self.begin = (self.begin + count)
            .checked_rem(self.bytes.len())
            .unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_wherever_they_wrap() {
        let mut room = Room::new(8);
        let mut into = [0; 8];
        for turn in 0..20 {
            let bytes: Vec<u8> = (turn..turn + 7).collect();
            // The second part comes first.
            room.put(3, &bytes[3..]);
            room.put(0, &bytes[..3]);
            room.extend(7);
            assert_eq!(room.read(&mut into[..5]), 5);
            assert_eq!(into[..5], bytes[..5]);
            let shown = room.read_with(|shown| (1, shown[0]));
            assert_eq!(shown, bytes[5]);
            assert_eq!(room.read(&mut into), 1);
            assert_eq!((into[0], room.len()), (bytes[6], 0));
        }
        room.restart();
        room.put(0, &[1; 8]);
        room.extend(8);
        assert_eq!(room.read_with(|shown| (0, shown.len())), 8);
        assert_eq!(room.read(&mut [0; 9]), 8);
    }

    #[test]
    fn without_memory_nothing_is_in_it() {
        let mut room = Room::new(0);
        room.put(0, &[]);
        assert_eq!(room.read(&mut [0; 4]), 0);
        assert_eq!(room.read_with(|shown| (shown.len(), shown.len())), 0);
    }
}
