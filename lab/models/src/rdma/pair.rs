//! One side of a reliable connection: packets with numbers, a window, acknowledgements, and
//! what is repeated after a loss.
//!
//! | recovery | a packet that comes too early | what the sender repeats |
//! |---|---|---|
//! | go back | is dropped | everything from the missing one on |
//! | selective | is kept | the missing ones |
//!
//! A last packet is always acknowledged; a gap is told once. What was not acknowledged in time
//! is repeated, all of it.

use std::collections::{BTreeMap, VecDeque};

use barewire_units::Instant;
use serde::Deserialize;

crate::choices!(Recovery);

/// What becomes of packets after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Recovery {
    /// All are sent again from the lost one on.
    #[serde(rename = "go-back")]
    GoBack,
    /// The lost ones are sent again.
    #[serde(rename = "selective")]
    Selective,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its number.
    pub number: u64,
    /// Its payload.
    pub len_bytes: u64,
    /// It ends a write.
    pub last: bool,
}

/// What goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// All below this number has come.
    Ack(u64),
    /// The same, and so many from the second number on are missing.
    Missing(u64, u64, u64),
}

/// What has come of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Writes that are complete now.
    pub writes: u64,
    /// What goes back.
    pub reply: Option<Reply>,
}

/// One side: what it sends, and what it receives.
#[derive(Clone, Debug)]
pub struct Pair {
    recovery: Recovery,
    window_bytes: u64,
    /// Packets from `base` on: length, and whether it ends a write.
    packets: VecDeque<(u64, bool)>,
    base: u64,
    next: u64,
    /// One beyond the highest number that was ever sent.
    sent: u64,
    outstanding_bytes: u64,
    repeats: VecDeque<u64>,
    repeated: u64,
    /// When the peer last acknowledged something new, or there was nothing before this.
    progress: Instant,
    expected: u64,
    early: BTreeMap<u64, bool>,
    /// Gaps below this number have been told.
    told: u64,
}

impl Pair {
    /// A fresh side, with a window of at least one packet.
    #[must_use]
    pub fn new(recovery: Recovery, window_bytes: u64) -> Self {
        Self {
            recovery,
            window_bytes,
            packets: VecDeque::new(),
            base: 0,
            next: 0,
            sent: 0,
            outstanding_bytes: 0,
            repeats: VecDeque::new(),
            repeated: 0,
            progress: Instant::ORIGIN,
            expected: 0,
            early: BTreeMap::new(),
            told: 0,
        }
    }

    /// A packet that is there to be sent.
    pub fn push(&mut self, len_bytes: u64, last: bool) {
        self.packets.push_back((len_bytes, last));
    }

    /// Packets that were sent again.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    fn at(&self, number: u64) -> Option<(u64, bool)> {
        let index = number.checked_sub(self.base)?;
        self.packets.get(index as usize).copied()
    }

    /// Whether a packet can go now.
    #[must_use]
    pub fn has_packet(&self) -> bool {
        !self.repeats.is_empty()
            || self.at(self.next).is_some_and(|(len_bytes, _)| {
                self.outstanding_bytes == 0
                    || self.outstanding_bytes + len_bytes <= self.window_bytes
            })
    }

    /// The packet that goes now.
    pub fn take(&mut self, now: Instant) -> Option<Outgoing> {
        while let Some(number) = self.repeats.pop_front() {
            if let Some((len_bytes, last)) = self.at(number) {
                self.repeated += 1;
                return Some(Outgoing {
                    number,
                    len_bytes,
                    last,
                });
            }
        }
        if !self.has_packet() {
            return None;
        }
        let (len_bytes, last) = self.at(self.next)?;
        if self.base == self.next {
            self.progress = now;
        }
        self.outstanding_bytes += len_bytes;
        let number = self.next;
        self.next += 1;
        self.repeated += u64::from(number < self.sent);
        self.sent = self.sent.max(self.next);
        Some(Outgoing {
            number,
            len_bytes,
            last,
        })
    }

    /// When the oldest packet under way was last heard of; `None` if there is none.
    #[must_use]
    pub fn waits_since(&self) -> Option<Instant> {
        (self.base < self.sent).then_some(self.progress)
    }

    /// The peer's answer is here.
    pub fn handle_reply(&mut self, now: Instant, reply: Reply) {
        let (Reply::Ack(expected) | Reply::Missing(expected, ..)) = reply;
        if expected > self.base && expected <= self.sent {
            self.progress = now;
        }
        while self.base < expected.min(self.sent) {
            let Some((len_bytes, _)) = self.packets.pop_front() else {
                break;
            };
            // After going back, what had come nevertheless is not under way.
            if self.base < self.next {
                self.outstanding_bytes -= len_bytes;
            }
            self.base += 1;
        }
        self.next = self.next.max(self.base);
        if let Reply::Missing(_, first, count) = reply {
            match self.recovery {
                Recovery::GoBack => self.go_back(),
                Recovery::Selective => self.repeats.extend(first..first + count),
            }
        }
    }

    fn go_back(&mut self) {
        self.next = self.base;
        self.outstanding_bytes = 0;
    }

    /// Nothing was heard for too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.progress = now;
        match self.recovery {
            Recovery::GoBack => self.go_back(),
            Recovery::Selective => self.repeats = (self.base..self.next).collect(),
        }
    }

    /// A packet of the peer is here.
    pub fn handle_packet(&mut self, number: u64, last: bool) -> Accepted {
        let ack = |expected| Some(Reply::Ack(expected));
        if number < self.expected {
            return Accepted {
                writes: 0,
                reply: ack(self.expected),
            };
        }
        if number > self.expected {
            return Accepted {
                writes: 0,
                reply: self.gap(number, last),
            };
        }
        self.expected += 1;
        let mut writes = u64::from(last);
        while let Some(last) = self.early.remove(&self.expected) {
            self.expected += 1;
            writes += u64::from(last);
        }
        self.told = self.told.max(self.expected);
        Accepted {
            writes,
            reply: ack(self.expected).filter(|_| writes > 0),
        }
    }

    /// Packets before this one are missing.
    fn gap(&mut self, number: u64, last: bool) -> Option<Reply> {
        let first = self.told.max(self.expected);
        let tell = match self.recovery {
            // Once, until the missing one has come.
            Recovery::GoBack => self.told == self.expected,
            Recovery::Selective => {
                self.early.insert(number, last);
                number > first
            }
        };
        match self.recovery {
            Recovery::GoBack => self.told = self.expected + 1,
            Recovery::Selective => self.told = self.told.max(number + 1),
        }
        tell.then_some(Reply::Missing(
            self.expected,
            first,
            number.saturating_sub(first),
        ))
    }
}
