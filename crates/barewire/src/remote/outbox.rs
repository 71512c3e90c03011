//! Bytes that are about to be sent to another host.

use barewire_carrier::{Broken, Carrier};
use barewire_fabric::memory::Incoming;
use barewire_shm::Window;

/// Most bytes that wait in it.
pub(crate) const OUTBOX_BYTES: usize = 64 << 10;

/// Bytes that are about to be sent, in order.
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    pub fn new() -> Outbox {
        Outbox {
            bytes: Vec::with_capacity(OUTBOX_BYTES),
            sent: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// How many bytes may be added.
    pub fn room_bytes(&self) -> usize {
        OUTBOX_BYTES - self.bytes.len()
    }

    /// Adds bytes for which there is room.
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds `len_bytes` from `offset` of a window, for which there is room.
    pub fn push_window(&mut self, window: &Window, offset: usize, len_bytes: usize) {
        debug_assert!(len_bytes <= self.room_bytes());
        let begin = self.bytes.len();
        self.bytes.resize(begin + len_bytes, 0);
        window.read(offset, &mut self.bytes[begin..]);
    }

    /// Hands as much as possible to the carrier; whether that was anything.
    pub fn flush(&mut self, carrier: &mut dyn Carrier) -> Result<bool, Broken> {
        let mut moved = false;
        while !self.is_empty() {
            let taken = carrier.write(&self.bytes[self.sent..])?;
            self.sent += taken;
            if taken == 0 {
                break;
            }
            moved = true;
        }
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= OUTBOX_BYTES / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        carrier.flush()?;
        Ok(moved)
    }
}
