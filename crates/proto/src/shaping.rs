//! Traffic shaping at the output queue: queueing disciplines, classes, filters,
//! the `tc` commands that describe them, and admission control.
//!
//! | part | what it does | file |
//! |---|---|---|
//! | [`Fifo`] | first in, first out, limited in packets or bytes | `fifo.rs` |
//! | [`Tbf`] | token bucket: rate, burst, optional peak rate | `tbf.rs` |
//! | [CBQ](cbq) | classes that share a link, limited by their idle time | `cbq.rs` |
//! | [HTB](htb) | classes that share a link, limited by two buckets each | `htb.rs` |
//! | [u32](mod@u32) | filters: masked words of the packet, hash tables, links | `u32.rs` |
//! | [`tc`] | the text form of all of these | `tc.rs` |
//! | [`Tree`] | classify, queue and shape for one device | `tree.rs` |
//! | [`admission`] | reservations against a capacity | `admission.rs` |
//!
//! # Driving a discipline
//!
//! | call | when | state after |
//! |---|---|---|
//! | `enqueue(now, packet)` | a packet is to be sent | queued, or given back with the reason |
//! | `dequeue(now)` | the link is free | the packet to send, or `None`: nothing may go |
//! | `next_deadline()` | `dequeue` gave `None` | when to call it again; `None`: nothing will go |
//! | `wake()` | traffic or a finished transmission | a token bucket looks at its tokens again |
//!
//! A kernel of the time looks at a throttled queue when its timer fires, or when
//! something else happens on the device. Here the caller decides: without `wake`
//! a token bucket sleeps until its [`Timer`] fires, so that the limit which the
//! timer sets to the rate can be seen alone. The classful disciplines look at
//! their own limits on each `dequeue`; for them every call is a wake.
//!
//! ```
//! use barewire_proto::shaping::{ETHERTYPE_IPV4, Packet, Qdisc, Timer, Tree};
//! use barewire_units::{Duration, Instant};
//!
//! let commands = "tc qdisc add dev eth0 root tbf rate 8Mbit burst 1500 limit 30Kb";
//! let mut tree = Tree::parse(commands, Timer::EXACT)?;
//! let now = Instant::ORIGIN;
//! for id in 0..2 {
//!     let packet = Packet { id, len_bytes: 1500, protocol: ETHERTYPE_IPV4, bytes: vec![] };
//!     tree.enqueue(now, packet)?;
//! }
//! assert_eq!(tree.dequeue(now).map(|packet| packet.id), Some(0));
//! assert_eq!(tree.dequeue(now), None);
//! assert_eq!(tree.next_deadline(), Some(now + Duration::from_us(1_500)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Time may stand still or jump; a `now` before the last one counts as the last
//! one. All arithmetic is in whole bits and picoseconds, so nothing drifts.
//!
//! Source: linux-tc (the tc manual pages; Floyd and Van Jacobson, "Link-sharing
//! and resource management models for packet networks", 1995), kek00.

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use barewire_units::Instant;

pub mod admission;
mod bucket;
pub mod cbq;
mod classful;
mod fifo;
pub mod htb;
mod round_robin;
pub mod tbf;
pub mod tc;
mod tree;
pub mod u32;

pub use fifo::{Fifo, Limit};
pub use tbf::Tbf;
pub use tree::{BuildError, Part, Problem, Tree};

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
    fn add(&mut self, len_bytes: u32) {
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
    fn note_enqueue<T>(&mut self, len_bytes: u32, outcome: &Result<(), T>) {
        self.offered.add(len_bytes);
        match outcome {
            Ok(()) => self.queued.add(len_bytes),
            Err(_) => self.dropped.add(len_bytes),
        }
    }

    fn note_sent(&mut self, len_bytes: u32) {
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

/// A queueing discipline; see the [module](self) for how to drive one.
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

/// When a sleeping queue can be woken: at any instant, or only at the ticks of a
/// timer that runs at a whole number of hertz from the origin of time. Tick n is at
/// n/HZ, rounded down to a picosecond, so ticks do not drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    hz: Option<NonZeroU32>,
}

impl Timer {
    /// Wakes at the very picosecond.
    pub const EXACT: Self = Self { hz: None };
    /// The timer of Linux 2.2 on i386: 100 Hz.
    pub const LINUX_I386: Self = Self {
        hz: NonZeroU32::new(100),
    };

    /// Ticks `hz` times a second.
    #[must_use]
    pub const fn hz(hz: NonZeroU32) -> Self {
        Self { hz: Some(hz) }
    }

    /// The first tick at or after `instant`, or `None` if time ends before.
    #[must_use]
    pub fn round_up(self, instant: Instant) -> Option<Instant> {
        const PS_PER_S: u128 = 1_000_000_000_000;
        let Some(hz) = self.hz else {
            return Some(instant);
        };
        let hz = u128::from(hz.get());
        let ps = u128::from(instant.since_origin().as_ps());
        let tick = (ps * hz).div_ceil(PS_PER_S);
        let at = tick * PS_PER_S / hz;
        u64::try_from(at).ok().map(Instant::from_ps)
    }
}

/// The name of a discipline (`10:`, minor 0) or of a class (`10:1`), in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The discipline.
    pub major: u16,
    /// The class in it; 0 is the discipline itself.
    pub minor: u16,
}

impl Handle {
    /// The handle `major:minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// The discipline that the class belongs to.
    #[must_use]
    pub const fn qdisc(self) -> Self {
        Self::new(self.major, 0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            0 => write!(f, "{:x}:", self.major),
            minor => write!(f, "{:x}:{minor:x}", self.major),
        }
    }
}

#[cfg(test)]
mod tests;
