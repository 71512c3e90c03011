//! The card: when what a program posts is there to be sent, and when what has come is in memory.
//!
//! ```text
//! store to the doorbell --> work request --> context --> transfer from memory --> packets
//! packets --> context --> transfer to memory --> notice
//! ```
//!
//! A short write travels in the work request. Two engines, one to send and one to receive, take
//! one thing after the other. If the context of a queue pair is not in the card, it is fetched:
//! the engine loses some time, and the packet waits for a whole read.

use barewire_units::{ByteSize, Duration, Instant, Rate};

use super::Recovery;
use crate::clan::StateCache;

crate::parameters! {
    /// A card.
    #[derive(Copy)]
    pub struct CardConfig {
        /// From the processor's store to the card.
        pub doorbell: Duration,
        /// Most bytes that travel in a work request.
        pub inline: ByteSize,
        /// A read of the host's memory: from the request to its first byte.
        pub read: Duration,
        /// A write to the host's memory: from its last byte to where a program sees it.
        pub write: Duration,
        /// Rate of transfers over PCIe, each way.
        pub pcie: Rate,
        /// A work request, in the sending engine.
        pub message: Duration,
        /// A packet, in the receiving engine.
        pub packet: Duration,
        /// Further delay of a packet in the card, each way.
        pub latency: Duration,
        /// Context of a queue pair.
        pub context: ByteSize,
        /// Memory for contexts.
        pub contexts: ByteSize,
        /// What an engine loses when it fetches a context.
        pub context_miss: Duration,
        /// Most payload of a packet.
        pub mtu: ByteSize,
        /// What a packet has on the line beside its payload.
        pub header: ByteSize,
        /// An acknowledgement on the line.
        pub ack: ByteSize,
        /// Most bytes that a queue pair has under way.
        pub window: ByteSize,
        /// After a loss.
        pub recovery: Recovery,
        /// Without an acknowledgement for so long, packets are sent again.
        pub timeout: Duration,
        /// The link writes the header of a frame apart, behind its other lines.
        pub header_apart: bool,
    }
}

/// A piece of a write that is there to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When.
    pub ready: Instant,
    /// Its payload.
    pub len_bytes: u64,
    /// It ends the write.
    pub last: bool,
}

/// A card.
#[derive(Clone, Debug)]
pub struct Card {
    config: CardConfig,
    contexts: StateCache,
    send_free: Instant,
    receive_free: Instant,
    read_free: Instant,
    write_free: Instant,
}

impl Card {
    /// A card of a host with so many queue pairs.
    #[must_use]
    pub fn new(config: CardConfig, pairs: usize) -> Self {
        let held = config.contexts.as_bytes() / config.context.as_bytes().max(1);
        Self {
            config,
            contexts: StateCache::new(pairs, held as usize),
            send_free: Instant::ORIGIN,
            receive_free: Instant::ORIGIN,
            read_free: Instant::ORIGIN,
            write_free: Instant::ORIGIN,
        }
    }

    /// Contexts that were fetched.
    #[must_use]
    pub const fn misses(&self) -> u64 {
        self.contexts.misses()
    }

    /// What an engine loses for the context of `pair`, and what the packet waits.
    fn context(&mut self, pair: usize) -> (Duration, Duration) {
        match self.contexts.touch(pair) {
            true => (self.config.context_miss, self.config.read),
            false => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// The doorbell of a work request is here. Says when each packet's payload is there to be
    /// sent, not before `after`, which is the last one's of that queue pair.
    pub fn handle_request(
        &mut self,
        now: Instant,
        pair: usize,
        len_bytes: u64,
        after: Instant,
    ) -> Vec<Segment> {
        let config = self.config;
        let (lost, waits) = self.context(pair);
        self.send_free = now.max(self.send_free) + config.message + lost;
        let mut ready = self.send_free + waits;
        let inline = len_bytes <= config.inline.as_bytes();
        if !inline {
            // Reads follow each other; their latencies overlap.
            ready = ready.max(self.read_free);
        }
        let mtu = config.mtu.as_bytes();
        let packets = len_bytes.div_ceil(mtu).max(1);
        let mut segments = Vec::with_capacity(packets as usize);
        for packet in 0..packets {
            let len_bytes = (len_bytes - packet * mtu).min(mtu);
            let mut there = ready;
            if !inline {
                ready += config.pcie.time_to_send(ByteSize::from_bytes(len_bytes));
                there = ready + config.read;
            }
            segments.push(Segment {
                ready: there.max(after) + config.latency,
                len_bytes,
                last: packet + 1 == packets,
            });
        }
        if !inline {
            self.read_free = ready;
        }
        segments
    }

    /// A packet is here. Says when the card has looked at it, and when its payload is in memory.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        pair: usize,
        len_bytes: u64,
    ) -> (Instant, Instant) {
        let (lost, waits) = self.context(pair);
        self.receive_free =
            (now + self.config.latency).max(self.receive_free) + self.config.packet + lost;
        let seen = self.receive_free + waits;
        let transfer = self
            .config
            .pcie
            .time_to_send(ByteSize::from_bytes(len_bytes));
        self.write_free = seen.max(self.write_free) + transfer;
        (seen, self.write_free + self.config.write)
    }
}
