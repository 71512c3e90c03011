//! Bytes that have arrived from another host and were not looked at yet.

use barewire_carrier::{Arrival, Broken, Carrier};

/// Most bytes in it: more than the longest record that has to be there as a whole.
const INBOX_BYTES: usize = 256 << 10;

/// Bytes that have arrived, in order.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
    /// The last read found as much as there was room for: perhaps there is more.
    was_filled: bool,
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox {
            bytes: vec![0; INBOX_BYTES],
            begin: 0,
            end: 0,
            was_filled: false,
        }
    }

    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// That many bytes have been used up.
    pub fn consume(&mut self, count: usize) {
        self.begin += count;
        debug_assert!(self.begin <= self.end);
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Takes more from the carrier.
    pub fn fill(&mut self, carrier: &mut dyn Carrier) -> Result<Arrival, Broken> {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let arrival = carrier.read(&mut self.bytes[self.end..])?;
        if let Arrival::Bytes(count) = arrival {
            self.end += count;
        }
        self.was_filled = self.end == self.bytes.len();
        Ok(arrival)
    }

    /// Whether the last read found as much as there was room for.
    pub fn was_filled(&self) -> bool {
        self.was_filled
    }
}
