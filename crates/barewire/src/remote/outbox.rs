//! Bytes that are about to be sent to another host.

use barewire_carrier::{Broken, Carrier};
use barewire_fabric::memory::Incoming;
use barewire_shm::Window;

/// Most bytes that wait in it: a frame of 64 KiB with its header and more, so that it goes in one piece.
pub(crate) const OUTBOX_BYTES: usize = 128 << 10;

/// Bytes that are about to be sent, in order. Its memory is taken as it is used.
pub(crate) struct Outbox {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Outbox {
    pub fn new() -> Outbox {
        Outbox {
            bytes: vec![0; OUTBOX_BYTES].into(),
            begin: 0,
            end: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// How many bytes wait.
    pub fn len_bytes(&self) -> usize {
        self.end - self.begin
    }

    /// How many bytes may be added.
    pub fn room_bytes(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Room for so many bytes, which there is.
    fn add(&mut self, len_bytes: usize) -> &mut [u8] {
        let begin = self.end;
        self.end += len_bytes;
        &mut self.bytes[begin..self.end]
    }

    /// Adds bytes for which there is room.
    pub fn push(&mut self, bytes: &[u8]) {
        self.add(bytes.len()).copy_from_slice(bytes);
    }

    /// Adds `len_bytes` from `offset` of a window, for which there is room.
    pub fn push_window(&mut self, window: &Window, offset: usize, len_bytes: usize) {
        window.read(offset, self.add(len_bytes));
    }

    /// Hands all of it to the carrier, with each of `inserts` at its place: a number of bytes from here on, in order. What the
    /// carrier does not take of them is kept here: there is room.
    pub fn flush_with(
        &mut self,
        inserts: &[(usize, &[u8])],
        carrier: &mut dyn Carrier,
    ) -> Result<(), Broken> {
        let mut parts = Vec::with_capacity(2 * inserts.len() + 1);
        let mut own = &self.bytes[self.begin..self.end];
        let mut done_bytes = 0;
        for (place, insert) in inserts {
            let (before, behind) = own.split_at(place - done_bytes);
            parts.extend([before, *insert]);
            (own, done_bytes) = (behind, *place);
        }
        parts.push(own);
        let mut taken_bytes = carrier.write_parts(&parts)?;
        let mut left = Vec::new();
        for part in parts {
            let of_part = taken_bytes.min(part.len());
            taken_bytes -= of_part;
            left.extend_from_slice(&part[of_part..]);
        }
        (self.begin, self.end) = (0, 0);
        // Nothing, as a rule.
        self.push(&left);
        self.flush(carrier)
    }

    /// Hands as much as possible to the carrier.
    pub fn flush(&mut self, carrier: &mut dyn Carrier) -> Result<(), Broken> {
        while !self.is_empty() {
            let taken = carrier.write(&self.bytes[self.begin..self.end])?;
            self.begin += taken;
            if taken == 0 {
                break;
            }
        }
        if self.is_empty() {
            (self.begin, self.end) = (0, 0);
        } else if self.begin >= OUTBOX_BYTES / 2 {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        carrier.flush()?;
        Ok(())
    }
}
