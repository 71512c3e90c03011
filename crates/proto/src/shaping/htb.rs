//! Hierarchical token buckets: each class has a rate that it is given, and a
//! ceiling up to which it may borrow.
//!
//! ```text
//! | tokens (rate, burst) | tokens (ceil, cburst) | mode      |
//! | any                  | below 0               | CantSend  |
//! | below 0              | 0 or more             | MayBorrow |
//! | 0 or more            | 0 or more             | CanSend   |
//! ```
//!
//! | question | rule |
//! |---|---|
//! | who may send? | a leaf in mode CanSend; or one that MayBorrow, all above it MayBorrow too, up to the first ancestor that CanSend: the lender |
//! | who goes first? | who needs the lowest lender (level 0 is the leaf itself); then the lowest priority number, 0 to 7 |
//! | among equals? | deficit round robin, with a ring and a quantum for each level and priority |
//! | who pays? | the ceiling of the class and of all above it; the rate of the lender and of all above it |
//!
//! A class sends while it is not in debt, so in any interval t a leaf sends at most
//! cburst + ceil·t and one packet. Within its own rate it sends whatever those above
//! it have left: the rates below a class should not add up to more than its own. Traffic that no filter claims goes to the
//! `default` class, or without one past all classes, unshaped.
//!
//! Source: linux-tc (tc-htb manual page; M. Devera, "HTB manual, user guide").

use alloc::vec::Vec;

use barewire_units::{ByteSize, Instant, Rate};

use super::bucket::Bucket;
use super::round_robin::RoundRobin;
use super::sharing::{DEPTH_MAX, Node, Sharing, path};

/// Number of priorities, 0 first.
pub const PRIORITIES: u8 = 8;
/// `quantum` = rate in bytes per second / this, where none is given. Source: tc-htb.
pub const R2Q_DEFAULT: u32 = 10;
/// Smallest and largest quantum that comes from `r2q`, in bytes. Source: tc-htb.
pub const QUANTUM_RANGE_BYTES: (u32, u32) = (1_000, 200_000);
/// Ticks a second of the timer for which a burst is computed where none is given.
pub const BURST_HZ: u64 = 100;
/// Added to what flows in a tick, for a burst where none is given: a packet.
pub const BURST_MTU_BYTES: u64 = 1_600;

/// Parameters of the discipline: `tc qdisc add ... htb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QdiscConfig {
    /// Minor number of the class for what no filter claims; 0 for none.
    pub default_minor: u16,
    /// Divides a rate in bytes per second into a quantum.
    pub r2q: u32,
}

/// Parameters of a class: `tc class add ... htb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// What the class is given.
    pub rate: Rate,
    /// What it may reach by borrowing.
    pub ceil: Rate,
    /// Depth of the bucket of the rate.
    pub burst: ByteSize,
    /// Depth of the bucket of the ceiling.
    pub cburst: ByteSize,
    /// 0 (first) to 7 (last).
    pub priority: u8,
    /// Bytes of a turn; `None` is computed from the rate.
    pub quantum_bytes: Option<u32>,
}

impl ClassConfig {
    /// The burst for `rate` where none is given: what flows in a tick of the
    /// timer, and a packet.
    #[must_use]
    pub fn burst_for(rate: Rate) -> ByteSize {
        ByteSize::from_bytes(rate.as_bps() / (8 * BURST_HZ) + BURST_MTU_BYTES)
    }

    fn quantum(&self, r2q: u32) -> u32 {
        let (least, most) = QUANTUM_RANGE_BYTES;
        self.quantum_bytes.unwrap_or_else(|| {
            let bytes = self.rate.as_bps() / 8 / u64::from(r2q.max(1));
            u32::try_from(bytes).unwrap_or(u32::MAX).clamp(least, most)
        })
    }
}

/// What a class may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// At its ceiling.
    CantSend,
    /// Over its rate, below its ceiling.
    MayBorrow,
    /// Within its rate.
    CanSend,
}

/// A class, with its buckets.
#[derive(Clone, Debug)]
pub(super) struct Class {
    rate: Bucket,
    ceil: Bucket,
    priority: u8,
    quantum_bytes: i64,
}

impl Class {
    fn mode(&self, now: Instant) -> Mode {
        match (self.ceil.covers(0, now), self.rate.covers(0, now)) {
            (false, _) => Mode::CantSend,
            (true, false) => Mode::MayBorrow,
            (true, true) => Mode::CanSend,
        }
    }
}

/// The rules of HTB.
#[derive(Clone, Debug)]
pub(super) struct TokenSharing {
    r2q: u32,
    /// Whose rate the class picked last uses.
    lender: usize,
    /// Level and priority that it was picked at.
    ring: usize,
    rings: Vec<RoundRobin>,
}

impl TokenSharing {
    /// The rules of a discipline, and the class that is the discipline itself.
    pub(super) fn new(config: QdiscConfig) -> (Self, Class) {
        let sharing = Self {
            r2q: config.r2q,
            lender: 0,
            ring: 0,
            rings: Vec::new(),
        };
        // The discipline itself has no limit; its buckets are never asked.
        let unlimited = Bucket::new(Rate::from_bps(u64::MAX), ByteSize::MAX);
        let root = Class {
            rate: unlimited.clone(),
            ceil: unlimited,
            priority: 0,
            quantum_bytes: 1,
        };
        (sharing, root)
    }
}

/// The classes from `index` up, without the discipline.
fn classes(nodes: &[Node<Class>], index: usize) -> impl Iterator<Item = usize> {
    path(nodes, index).take_while(|&at| at != 0)
}

/// Who lends to the class: itself, or the first ancestor within its rate.
fn lender(nodes: &[Node<Class>], index: usize, now: Instant) -> Option<usize> {
    for at in classes(nodes, index) {
        match nodes[at].class.mode(now) {
            Mode::CanSend => return Some(at),
            Mode::MayBorrow => {}
            Mode::CantSend => return None,
        }
    }
    None
}

/// Leaves are at level 0, inner classes above them by how near the top they are.
fn level(node: &Node<Class>) -> usize {
    match node.inner {
        true => DEPTH_MAX + 1 - node.depth,
        false => 0,
    }
}

impl Sharing for TokenSharing {
    type Config = ClassConfig;
    type Class = Class;

    fn class(&self, config: ClassConfig) -> Class {
        Class {
            rate: Bucket::new(config.rate, config.burst),
            ceil: Bucket::new(config.ceil, config.cburst),
            priority: config.priority.min(PRIORITIES - 1),
            quantum_bytes: i64::from(config.quantum(self.r2q)),
        }
    }

    fn pick(&mut self, nodes: &mut [Node<Class>], queued: &[usize], now: Instant) -> Option<usize> {
        if queued.first() == Some(&0) {
            self.lender = 0;
            return Some(0);
        }
        let ring_of = |index: usize| {
            let lender = lender(nodes, index, now)?;
            let priority = usize::from(nodes[index].class.priority);
            Some(level(&nodes[lender]) * usize::from(PRIORITIES) + priority)
        };
        let wanted: Vec<(usize, usize)> = queued
            .iter()
            .filter_map(|&index| Some((ring_of(index)?, index)))
            .collect();
        let ring = wanted.iter().map(|&(ring, _)| ring).min()?;
        let ready: Vec<usize> = wanted
            .iter()
            .filter(|&&(other, _)| other == ring)
            .map(|&(_, index)| index)
            .collect();
        let index = self.rings[ring].pick(&ready, |index| nodes[index].class.quantum_bytes)?;
        self.ring = ring;
        self.lender = lender(nodes, index, now)?;
        Some(index)
    }

    fn charge(&mut self, nodes: &mut [Node<Class>], sent: usize, len_bytes: u32, now: Instant) {
        if sent == 0 {
            return;
        }
        self.rings[self.ring].charge(sent, len_bytes);
        let len_bytes = u64::from(len_bytes);
        let mut lender_reached = false;
        let mut payer = Some(sent);
        while let Some(at) = payer {
            lender_reached |= at == self.lender;
            let Node { class, parent, .. } = &mut nodes[at];
            class.ceil.refill(now);
            class.ceil.take(len_bytes);
            class.rate.refill(now);
            if lender_reached {
                class.rate.take(len_bytes);
            }
            payer = parent.filter(|&above| above != 0);
        }
    }

    fn ready_at(&self, nodes: &[Node<Class>], index: usize) -> Option<Instant> {
        let mut below = Instant::ORIGIN;
        let mut soonest = None::<Instant>;
        for at in classes(nodes, index) {
            let class = &nodes[at].class;
            let Some(ceil) = class.ceil.ready_at(0) else {
                break;
            };
            below = below.max(ceil);
            if let Some(rate) = class.rate.ready_at(0) {
                let here = below.max(rate);
                soonest = Some(soonest.map_or(here, |other| other.min(here)));
            }
        }
        match index {
            0 => Some(Instant::ORIGIN),
            _ => soonest,
        }
    }

    fn rearrange(&mut self, _nodes: &mut [Node<Class>]) {
        let rings = (DEPTH_MAX + 1) * usize::from(PRIORITIES);
        self.rings.resize_with(rings, RoundRobin::default);
    }
}

#[cfg(test)]
mod tests;
