//! When to acknowledge what came in, and with which window and blocks.
//!
//! It also knows which stretches came out of order. The latest three go into each acknowledgement, so that one
//! that is lost costs nothing (RFC 2018, section 4).

mod room;

use crate::stamps::rebased;
use alloc::vec::Vec;
use barewire_units::{Duration, Instant};

pub(crate) use room::Room;

/// How long an acknowledgement may wait for bytes that go the same way.
const DELAY: Duration = Duration::from_ms(10);

/// How often an answer is sent to segments without bytes that are not expected (RFC 5961).
const CHALLENGES_EVERY: Duration = Duration::from_ms(100);

/// How many stretches out of order are kept.
const STRETCHES_MAX: usize = 31;

/// The receiving side, apart from the bytes.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The other end's first sequence number; offset 0 is the one behind it.
    first: u32,
    shift: u8,
    mss: u64,
    has_sack: bool,
    /// How many bytes the program has read.
    pub(crate) read_bytes: u64,
    /// Whether the end of the stream has come, behind all bytes.
    pub(crate) has_ended: bool,
    /// What the last acknowledgement that was sent said: until where all has come, and up to where
    /// the other end may send.
    told_until: u64,
    told_edge: u64,
    due: Option<Instant>,
    challenged: Option<Instant>,
    /// What came out of order, from front to back, apart from each other.
    stretches: Vec<(u64, u64)>,
    /// Those that grew last, the latest first.
    latest: [Option<(u64, u64)>; 3],
    duplicate: Option<(u64, u64)>,
}

impl Receiver {
    /// `shift`: by how much windows are shifted. `capacity`: the room for bytes. The SYN could not
    /// tell all of it, but the first acknowledgement of bytes will.
    pub(crate) fn new(first: u32, shift: u8, mss: u64, has_sack: bool, capacity: u64) -> Self {
        Self {
            first,
            shift,
            mss,
            has_sack,
            read_bytes: 0,
            has_ended: false,
            told_until: 0,
            told_edge: capacity,
            due: None,
            challenged: None,
            stretches: Vec::new(),
            latest: [None; 3],
            duplicate: None,
        }
    }

    /// The offset of everything that has come in order, with `unread` bytes not read yet.
    pub(crate) fn until(&self, unread: usize) -> u64 {
        self.read_bytes + unread as u64 + u64::from(self.has_ended)
    }

    /// The sequence number of an offset.
    pub(crate) fn sequence(&self, offset: u64) -> u32 {
        self.first.wrapping_add(1).wrapping_add(offset as u32)
    }

    /// Whether a segment that begins at `offset` begins no later than what was acknowledged last.
    pub(crate) fn is_next(&self, offset: u64) -> bool {
        offset <= self.told_until
    }

    /// How far behind `offset` a sequence number lies; negative where it lies before.
    pub(crate) fn distance(&self, sequence: u32, offset: u64) -> i64 {
        i64::from(sequence.wrapping_sub(self.sequence(offset)) as i32)
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        self.due = self.due.map(|at| rebased(at, by));
        self.challenged = self.challenged.map(|at| rebased(at, by));
    }

    /// Bytes came in order.
    pub(crate) fn on_bytes(&mut self, until: u64, now: Instant) {
        if until >= self.told_until + 2 * self.mss {
            self.acknowledge(now);
        } else {
            let at = now.saturating_add(DELAY);
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    /// An acknowledgement is to be sent now.
    pub(crate) fn acknowledge(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// A segment came that nobody expects: tells the other end where this one stands, but not more
    /// often than is good.
    pub(crate) fn challenge(&mut self, now: Instant) {
        let is_too_soon = self
            .challenged
            .is_some_and(|last| now < last.saturating_add(CHALLENGES_EVERY));
        if !is_too_soon {
            self.challenged = Some(now);
            self.acknowledge(now);
        }
    }

    /// Bytes came, but not all before them. Says whether there is room to keep them.
    pub(crate) fn note_stretch(&mut self, from: u64, until: u64) -> bool {
        let (mut from, mut until) = (from, until);
        let touches = |block: &(u64, u64)| block.0 <= until && block.1 >= from;
        let first = self.stretches.partition_point(|block| block.1 < from);
        let behind = self.stretches[first..]
            .iter()
            .take_while(|block| touches(block));
        let last = first + behind.count();
        if first == last && self.stretches.len() >= STRETCHES_MAX {
            return false;
        }
        for block in &self.stretches[first..last] {
            from = from.min(block.0);
            until = until.max(block.1);
        }
        self.stretches.splice(first..last, [(from, until)]);
        let mut latest = [Some((from, until)), None, None];
        let others = self.latest.into_iter().flatten();
        let apart = others.filter(|block| block.1 < from || block.0 > until);
        for (slot, block) in latest[1..].iter_mut().zip(apart) {
            *slot = Some(block);
        }
        self.latest = latest;
        true
    }

    /// Until where all has come, now that all before `until` has.
    pub(crate) fn joined(&self, until: u64) -> u64 {
        let mut until = until;
        for block in &self.stretches {
            if block.0 <= until {
                until = until.max(block.1);
            }
        }
        until
    }

    /// All before `received` has come.
    pub(crate) fn forget_stretches(&mut self, received: u64) {
        let is_over = |block: &(u64, u64)| block.1 <= received;
        self.stretches.retain(|block| !is_over(block));
        for block in &mut self.latest {
            *block = block.filter(|block| !is_over(block));
        }
    }

    /// Whether something is missing before what came last.
    pub(crate) fn has_gap(&self) -> bool {
        !self.stretches.is_empty()
    }

    /// The segment from `from` to `until` came, though it had come before (RFC 2883).
    pub(crate) fn note_duplicate(&mut self, from: u64, until: u64) {
        self.duplicate = Some((from, until));
    }

    /// Whether an acknowledgement is due, or the window has grown so much that the other end
    /// should know.
    pub(crate) fn is_due(&self, unread: usize, capacity: u64, now: Instant) -> bool {
        self.due.is_some_and(|due| now >= due) || self.has_window_grown(unread, capacity)
    }

    /// Whether the next acknowledgement has blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        self.has_sack && (self.duplicate.is_some() || self.latest[0].is_some())
    }

    /// When the delayed acknowledgement goes out.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.due
    }

    fn has_window_grown(&self, unread: usize, capacity: u64) -> bool {
        if self.has_ended {
            return false;
        }
        let until = self.until(unread);
        let left = self.told_edge.saturating_sub(until);
        let now = self.edge(unread, capacity).saturating_sub(until);
        now >= left + (2 * self.mss).min(capacity / 2) && now >= 2 * left
    }

    /// Up to where the other end may send: never less than it was told.
    fn edge(&self, unread: usize, capacity: u64) -> u64 {
        let until = self.until(unread);
        let window = capacity.saturating_sub(unread as u64) >> self.shift;
        until + (window.min(u64::from(u16::MAX)) << self.shift)
    }

    /// The acknowledgement, window and blocks of a segment that is sent now.
    pub(crate) fn tell(
        &mut self,
        unread: usize,
        capacity: u64,
    ) -> (u32, u16, [Option<(u32, u32)>; 3]) {
        let until = self.until(unread);
        let edge = self.edge(unread, capacity);
        self.due = None;
        self.told_until = until;
        self.told_edge = self.told_edge.max(edge);
        let window = (edge - until) >> self.shift;
        (
            self.sequence(until),
            u16::try_from(window).unwrap_or(u16::MAX),
            self.blocks(),
        )
    }

    fn blocks(&mut self) -> [Option<(u32, u32)>; 3] {
        let mut told = [None; 3];
        let duplicate = self.duplicate.take();
        if !self.has_sack {
            return told;
        }
        let all = duplicate
            .into_iter()
            .chain(self.latest.into_iter().flatten());
        for (slot, (from, end)) in told.iter_mut().zip(all) {
            *slot = Some((self.sequence(from), self.sequence(end)));
        }
        told
    }
}
