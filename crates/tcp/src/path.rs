//! A model of a path between two ends, one direction of it: rate, delay, a queue that overflows,
//! and packets that are lost, overtake each other or come twice. Chance comes from a seed.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use core::cmp::{Ordering, Reverse};

/// Chances are in parts of this.
pub const CHANCE_ONE: u64 = 1_000_000;

/// How a path treats packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathConfig {
    /// How fast packets leave; `None`: at once.
    pub rate: Option<Rate>,
    /// How long each is under way.
    pub delay: Duration,
    /// How many bytes wait for the line at most; what comes then is lost.
    pub queue_bytes: usize,
    /// How many of [`CHANCE_ONE`] packets are lost.
    pub lost: u64,
    /// How many of [`CHANCE_ONE`] packets come twice.
    pub doubled: u64,
    /// How many of [`CHANCE_ONE`] packets are late by [`Self::late_by`], so that others overtake
    /// them.
    pub late: u64,
    /// By how much at most.
    pub late_by: Duration,
}

impl PathConfig {
    /// A path that loses nothing.
    #[must_use]
    pub const fn new(rate: Option<Rate>, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            queue_bytes: 1 << 20,
            lost: 0,
            doubled: 0,
            late: 0,
            late_by: Duration::ZERO,
        }
    }
}

#[derive(Debug)]
struct UnderWay {
    arrives: Instant,
    order: u64,
    packet: Vec<u8>,
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for UnderWay {}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnderWay {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.arrives, self.order).cmp(&(other.arrives, other.order))
    }
}

/// One direction of a path.
#[derive(Debug)]
pub struct Path {
    config: PathConfig,
    rng: Rng,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    line_free_at: Instant,
    order: u64,
    lost: u64,
    overflowed: u64,
}

impl Path {
    /// A path without packets.
    #[must_use]
    pub fn new(config: PathConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            under_way: BinaryHeap::new(),
            line_free_at: Instant::ORIGIN,
            order: 0,
            lost: 0,
            overflowed: 0,
        }
    }

    /// Takes a packet.
    pub fn send(&mut self, packet: &[u8], now: Instant) {
        let begins = self.line_free_at.max(now);
        if let Some(rate) = self.config.rate {
            let bytes = ByteSize::from_bytes(packet.len() as u64);
            let queue = ByteSize::from_bytes(self.config.queue_bytes as u64);
            let waits = begins.saturating_duration_since(now);
            if waits > rate.time_to_send(queue) {
                self.overflowed += 1;
                return;
            }
            self.line_free_at = begins.saturating_add(rate.time_to_send(bytes));
        } else {
            self.line_free_at = begins;
        }
        if self.rng.ratio(self.config.lost, CHANCE_ONE) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u32::from(self.rng.ratio(self.config.doubled, CHANCE_ONE));
        for _ in 0..copies {
            let mut arrives = self.line_free_at.saturating_add(self.config.delay);
            if self.rng.ratio(self.config.late, CHANCE_ONE) {
                let ps = self.rng.below(self.config.late_by.as_ps().max(1));
                arrives = arrives.saturating_add(Duration::from_ps(ps));
            }
            self.order += 1;
            self.under_way.push(Reverse(UnderWay {
                arrives,
                order: self.order,
                packet: packet.to_vec(),
            }));
        }
    }

    /// The next packet that has arrived by `now`.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse(first)| first.packet)
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(first)| first.arrives)
    }

    /// How many packets were lost by chance.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// How many packets the queue had no room for.
    #[must_use]
    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }
}
