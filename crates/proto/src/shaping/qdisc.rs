//! What every queueing discipline has: packets in and out, a limit, counters.

use alloc::vec::Vec;
use core::fmt;

use barewire_units::{ByteSize, Instant};

/// EtherType of IPv4, the protocol that `protocol ip` names.
pub const ETHERTYPE_IPV4: u16 = 0x0800;

/// A packet as the shaper sees it. The caller finds his own by `id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for the packet.
    pub id: u64,
    /// Bytes that the shaper counts for it.
    pub len_bytes: u32,
    /// EtherType, which filters ask for first.
    pub protocol: u16,
    /// The packet from its network header on, or as much of it as the filters
    /// look at.
    pub bytes: Vec<u8>,
}

/// How long a queue may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(u32),
    /// So many bytes in all packets together, and no more packets than that.
    Bytes(ByteSize),
}

impl Limit {
    /// The queue that a class gets where no discipline is named, and that of a
    /// `pfifo` without a limit. OPEN in kek00: the transmit queue of a device
    /// of the time.
    pub const DEFAULT: Self = Self::Packets(100);
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.as_bytes()),
        }
    }
}

/// Why a packet was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    /// The queue is as long as it may be.
    #[error("the queue holds {queued} of at most {limit}")]
    QueueFull {
        /// What is queued.
        queued: u64,
        /// What may be queued, in packets or bytes.
        limit: Limit,
    },
    /// The packet is longer than the bucket is deep, so it could never be sent.
    #[error("a packet of {len_bytes} bytes, and a bucket of {depth_bytes}")]
    TooLong {
        /// Length of the packet.
        len_bytes: u32,
        /// Depth of the smaller bucket.
        depth_bytes: u64,
    },
}

/// A packet that was not queued, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet {} dropped: {reason}", packet.id)]
pub struct Dropped {
    /// The packet, given back.
    pub packet: Packet,
    /// Why.
    pub reason: DropReason,
}

/// A number of packets and the bytes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, len_bytes: u32) {
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(u64::from(len_bytes));
    }

    fn remove(&mut self, len_bytes: u32) {
        self.packets -= 1;
        self.bytes = self.bytes.saturating_sub(u64::from(len_bytes));
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets {} bytes", self.packets, self.bytes)
    }
}

/// What went through a discipline: always `offered = sent + dropped + queued`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Given to `enqueue`.
    pub offered: Count,
    /// Returned by `dequeue`.
    pub sent: Count,
    /// Refused by `enqueue`.
    pub dropped: Count,
    /// Still inside.
    pub queued: Count,
    /// Times that `dequeue` had packets and might send none.
    pub overlimits: u64,
}

impl Stats {
    pub(super) fn note_enqueue<T>(&mut self, len_bytes: u32, outcome: &Result<(), T>) {
        self.offered.add(len_bytes);
        match outcome {
            Ok(()) => self.queued.add(len_bytes),
            Err(_) => self.dropped.add(len_bytes),
        }
    }

    pub(super) fn note_sent(&mut self, len_bytes: u32) {
        self.queued.remove(len_bytes);
        self.sent.add(len_bytes);
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "offered {}, sent {}, dropped {}, queued {}, overlimits {}",
            self.offered, self.sent, self.dropped, self.queued, self.overlimits
        )
    }
}

/// A queueing discipline; see the [module](super) for how to drive one.
pub trait Qdisc {
    /// Queues `packet`.
    ///
    /// # Errors
    ///
    /// The packet again, and why it was not queued.
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped>;

    /// The packet that may be sent now.
    fn dequeue(&mut self, now: Instant) -> Option<Packet>;

    /// When to call `dequeue` next: at once if that instant has passed. `None`
    /// where nothing is queued, or what is queued can never go.
    fn next_deadline(&self) -> Option<Instant>;

    /// Something happened on the device: a sleeping bucket looks again.
    fn wake(&mut self);

    /// Counters since the beginning.
    fn stats(&self) -> Stats;
}
