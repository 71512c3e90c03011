//! The receiving end of a TCP connection: reassembly, delayed acknowledgements, window.
//!
//! | event | acknowledged |
//! |---|---|
//! | every second segment in order | at once |
//! | a segment out of order, before or behind | at once |
//! | one segment in order, then nothing | at a tick after the delay |
//! | the program has read, and the window could grow by half the buffer | at once |
//!
//! Source: RFC 1122, RFC 5681; the tick is that of the Linux 2.2 kernel.

use std::collections::BTreeMap;

use barewire_units::{Duration, Instant};

/// What a receiver is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Bytes of the socket's buffer.
    pub buffer_bytes: u64,
    /// Longest delay of an acknowledgement, to be rounded up to a tick.
    pub ack_delay: Duration,
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    next: u64,
    read: u64,
    /// Ends of what came out of order, by beginning.
    beyond: BTreeMap<u64, u64>,
    /// Segments that are not acknowledged.
    owed: u32,
    ack_due: Option<Instant>,
    edge: u64,
}

impl Receiver {
    /// A connection just set up.
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            next: 0,
            read: 0,
            beyond: BTreeMap::new(),
            owed: 0,
            ack_due: None,
            edge: config.buffer_bytes,
        }
    }

    /// Takes a segment; whether to acknowledge at once.
    pub fn handle_segment(&mut self, now: Instant, seq: u64, len: u64) -> bool {
        let end = seq + len;
        if end > self.read + self.config.buffer_bytes || end <= self.next {
            return true;
        }
        if seq > self.next {
            let known = self.beyond.entry(seq).or_insert(end);
            *known = end.max(*known);
            return true;
        }
        self.next = end;
        let filled = !self.beyond.is_empty();
        self.join_beyond();
        self.owed += 1;
        self.ack_due
            .get_or_insert(now.saturating_add(self.config.ack_delay));
        filled || self.owed >= 2
    }

    /// Takes what came before its time and now follows.
    fn join_beyond(&mut self) {
        while let Some(first) = self.beyond.first_entry() {
            if *first.key() > self.next {
                return;
            }
            self.next = self.next.max(first.remove());
        }
    }

    /// A tick of the kernel's timer; whether to acknowledge now.
    #[must_use]
    pub fn handle_tick(&self, now: Instant) -> bool {
        self.ack_due.is_some_and(|due| due <= now)
    }

    /// From when on a tick acknowledges, while something is owed.
    #[must_use]
    pub const fn ack_due(&self) -> Option<Instant> {
        self.ack_due
    }

    /// Bytes that the program could read.
    #[must_use]
    pub const fn readable(&self) -> u64 {
        self.next - self.read
    }

    /// Bytes that the program has read.
    #[must_use]
    pub const fn read_bytes(&self) -> u64 {
        self.read
    }

    /// The program takes up to `bytes`; whether to tell of the window now.
    pub fn take(&mut self, bytes: u64) -> bool {
        self.read += bytes.min(self.readable());
        self.read + self.config.buffer_bytes - self.edge >= self.config.buffer_bytes / 2
    }

    /// The acknowledgement to send: the next byte wanted and the window's edge.
    pub fn acknowledge(&mut self) -> (u64, u64) {
        self.owed = 0;
        self.ack_due = None;
        self.edge = self.edge.max(self.read + self.config.buffer_bytes);
        (self.next, self.edge)
    }
}
