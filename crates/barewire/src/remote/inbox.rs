//! Bytes that have arrived from another host and were not looked at yet.

use barewire_carrier::{Arrival, Broken, Carrier};

/// Most bytes in it: more than the longest record that has to be there as a whole.
pub(crate) const INBOX_BYTES: usize = 256 << 10;

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

    /// Takes more from the carrier, of which there is nothing here now: `first_bytes`, then as much as `memory` holds, then
    /// more. What is in `memory` counts as being elsewhere; returns how much that is, too.
    pub fn fill_around(
        &mut self,
        first_bytes: usize,
        memory: &mut [u8],
        carrier: &mut dyn Carrier,
    ) -> Result<(Arrival, usize), Broken> {
        (self.begin, self.end) = (0, 0);
        // So that it has room when it does not stay elsewhere.
        let most_bytes = self.bytes.len() - memory.len();
        let (first, behind) = self.bytes[..most_bytes].split_at_mut(first_bytes);
        let arrival = carrier.read_parts([first, memory, behind])?;
        let Arrival::Bytes(count) = arrival else {
            return Ok((arrival, 0));
        };
        let elsewhere_bytes = count.saturating_sub(first_bytes).min(memory.len());
        self.end = count - elsewhere_bytes;
        self.was_filled = self.end == most_bytes;
        Ok((arrival, elsewhere_bytes))
    }

    /// Takes bytes in that belong behind the first `first_bytes` of what is there. There is room.
    pub fn insert(&mut self, first_bytes: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.begin + first_bytes;
        self.bytes.copy_within(at..self.end, at + bytes.len());
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Whether the last read found as much as there was room for.
    pub fn was_filled(&self) -> bool {
        self.was_filled
    }
}
