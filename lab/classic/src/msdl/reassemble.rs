//! Cells to blocks, or to the reason why not. State table in [the parent module](super).
//!
//! Source: cbn91, section on MSDL.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use barewire_formats::cbn::Msdl;
use barewire_units::{Duration, Instant, transitions};
use thiserror::Error;

use super::BodySize;
use barewire_units::Deadlines;

/// How far a block has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Idle,
    /// Its cells are coming.
    Filling,
    /// It has failed; what is left of it is dropped.
    Spoilt,
}

/// What a cell, or time, does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A first cell, with more to come.
    First,
    /// A first cell that is the last one too.
    Only,
    /// The cell that was expected, with more to come.
    Next,
    /// The cell that was expected, the last one.
    Last,
    /// A cell that cannot be used, with more to come.
    Broken,
    /// A cell that cannot be used, the last one of its block.
    BrokenLast,
    /// No cell for too long.
    Expired,
}

transitions! {
    State on Cause {
        Idle + First => Filling,
        Idle + Only => Idle,
        Idle + Broken => Spoilt,
        Idle + BrokenLast => Idle,
        Filling + Next => Filling,
        Filling + Last => Idle,
        Filling + First => Filling,
        Filling + Only => Idle,
        Filling + Broken => Spoilt,
        Filling + BrokenLast => Idle,
        Filling + Expired => Idle,
        Spoilt + First => Filling,
        Spoilt + Only => Idle,
        Spoilt + Broken => Spoilt,
        Spoilt + BrokenLast => Idle,
        Spoilt + Expired => Idle,
    }
}

/// Why a block was not put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The circuit has no association.
    #[error("no association")]
    NoAssociation,
    /// A body that has not the size of a body.
    #[error("a body of {found_bytes} bytes instead of {expected_bytes}")]
    BodySize {
        /// Bytes of a body here.
        expected_bytes: usize,
        /// Bytes of this one.
        found_bytes: usize,
    },
    /// A cell came whose block has not begun: its RID is unknown, or the first cell is lost.
    #[error("cell {sequence} without a start")]
    NoStart {
        /// Its sequence.
        sequence: u8,
    },
    /// A first cell that announces no cells.
    #[error("a block of no cells")]
    NoCells,
    /// Another cell than the one expected.
    #[error("cell {found} instead of {expected}")]
    SequenceGap {
        /// The sequence expected.
        expected: u8,
        /// The sequence found.
        found: u8,
    },
    /// A first cell came while cells were still due.
    #[error("a start where cell {expected} was due")]
    StartInside {
        /// The sequence expected.
        expected: u8,
    },
    /// A cell of another block came, where blocks may not be interleaved.
    #[error("RID {found} where cell {expected} was due")]
    RidChange {
        /// The sequence expected.
        expected: u8,
        /// The other RID.
        found: u8,
    },
    /// `part` in a cell that is not the last one.
    #[error("cell {sequence} is partly filled, and not the last one")]
    PartEarly {
        /// Its sequence.
        sequence: u8,
    },
    /// A count of valid bytes that the body has not.
    #[error("{count} valid bytes, where at most {allowed} may stand")]
    PartCount {
        /// The count.
        count: u8,
        /// The largest one.
        allowed: usize,
    },
    /// The block is longer than the receiver allows.
    #[error("a block of at least {block_bytes} bytes, where at most {allowed_bytes} are taken")]
    TooLong {
        /// Bytes that it has at least.
        block_bytes: usize,
        /// Bytes allowed.
        allowed_bytes: usize,
    },
    /// As many blocks are under way as the receiver has places for.
    #[error("all {places} places are taken")]
    TableFull {
        /// The places.
        places: usize,
    },
    /// No cell came for too long.
    #[error("time-out, cell {expected} was due")]
    TimeOut {
        /// The sequence expected.
        expected: u8,
    },
}

/// What the receiver tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block is complete.
    Block {
        /// Its circuit.
        vci: u16,
        /// Its RID.
        rid: u8,
        /// What was sent.
        bytes: Vec<u8>,
    },
    /// A block has failed.
    Failed {
        /// Its circuit.
        vci: u16,
        /// Its RID.
        rid: u8,
        /// Why.
        error: BlockError,
        /// Bytes of it that had come and are lost.
        bytes_lost: usize,
    },
}

/// Which blocks of one circuit may be under way together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interleave {
    /// One only: another RID breaks it.
    Never,
    /// One for each RID.
    ByRid,
}

/// What a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size of a cell body.
    pub body: BodySize,
    /// Longest block, in bytes.
    pub block_bytes_max: usize,
    /// Blocks under way at once, over all circuits.
    pub blocks_max: usize,
    /// Blocks under way at once in one circuit.
    pub interleave: Interleave,
    /// Longest time between two cells of a block; [`Duration::MAX`] for ever.
    pub time_out: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let body = BodySize::BACKBONE;
        Self {
            body,
            block_bytes_max: body.block_bytes_max(),
            blocks_max: 256,
            interleave: Interleave::ByRid,
            time_out: Duration::from_s(1),
        }
    }
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Cells that came.
    pub cells: u64,
    /// Cells that became part of no block.
    pub cells_dropped: u64,
    /// Blocks handed out.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Blocks that failed.
    pub blocks_failed: u64,
    /// Blocks under way when their association was closed.
    pub blocks_closed: u64,
    /// Bytes of failed and closed blocks that had come.
    pub bytes_lost: u64,
}

/// What was under way in an association that was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Blocks.
    pub blocks: usize,
    /// Bytes of them that had come.
    pub bytes: usize,
}

/// VCI and RID.
type Key = (u16, u8);

/// A block that is not idle.
#[derive(Clone, Debug)]
enum Entry {
    Filling {
        bytes: Vec<u8>,
        /// The sequence expected next, at least 1.
        expected: u8,
        deadline: Instant,
    },
    Spoilt {
        deadline: Instant,
    },
}

impl Entry {
    fn deadline(&self) -> Instant {
        match *self {
            Self::Filling { deadline, .. } | Self::Spoilt { deadline } => deadline,
        }
    }
}

/// The receiving side of all circuits of a station.
///
/// After each input drain [`Reassembler::poll_event`].
#[derive(Clone, Debug)]
pub struct Reassembler {
    config: Config,
    associations: BTreeSet<u16>,
    entries: BTreeMap<Key, Entry>,
    deadlines: Deadlines<Key>,
    /// Entries that are filling.
    filling: usize,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Reassembler {
    /// A receiver without associations.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            associations: BTreeSet::new(),
            entries: BTreeMap::new(),
            deadlines: Deadlines::new(config.time_out),
            filling: 0,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Opens an association; false if there is one already.
    pub fn open(&mut self, vci: u16) -> bool {
        self.associations.insert(vci)
    }

    /// Closes an association, as any node may at any time, with whatever is under way in it.
    /// `None` if there is none.
    pub fn close(&mut self, vci: u16) -> Option<Closed> {
        if !self.associations.remove(&vci) {
            return None;
        }
        let mut closed = Closed::default();
        for key in self.keys(vci) {
            if let Some((bytes, _)) = self.take_filling(key) {
                closed.blocks += 1;
                closed.bytes += bytes.len();
            }
        }
        self.stats.blocks_closed += closed.blocks as u64;
        self.stats.bytes_lost += closed.bytes as u64;
        Some(closed)
    }

    /// How far the block of `vci` and `rid` has come.
    #[must_use]
    pub fn state(&self, vci: u16, rid: u8) -> State {
        match self.entries.get(&(vci, rid)) {
            None => State::Idle,
            Some(Entry::Filling { .. }) => State::Filling,
            Some(Entry::Spoilt { .. }) => State::Spoilt,
        }
    }

    /// What has happened so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// When the next block times out, if none of its cells comes before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Time has passed: blocks whose deadline has come fail.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.deadlines.due(now) {
            if let Some((bytes, expected)) = self.take_filling(key) {
                self.fail(key, BlockError::TimeOut { expected }, bytes.len());
            }
        }
    }

    /// A cell has come.
    pub fn handle_cell(&mut self, now: Instant, msdl: Msdl, body: &[u8]) {
        let key = (msdl.vci, msdl.rid);
        self.stats.cells += 1;
        if !self.associations.contains(&msdl.vci) {
            self.stats.cells_dropped += 1;
            // Once for each block is enough.
            if msdl.start {
                self.fail(key, BlockError::NoAssociation, 0);
            }
            return;
        }
        if self.config.interleave == Interleave::Never {
            self.break_others(now, key);
        }
        let state = self.state(msdl.vci, msdl.rid);
        let mut under_way = self.take_filling(key);
        if msdl.start {
            if let Some((bytes, expected)) = under_way.take() {
                self.fail(key, BlockError::StartInside { expected }, bytes.len());
            }
        }
        let checked = self.check(msdl, body, under_way.as_ref());
        let next = state.on(cause(msdl, checked.is_ok())).unwrap_or(state);
        let bytes = under_way.map_or_else(Vec::new, |(bytes, _)| bytes);
        match checked {
            Ok(valid) => self.append(now, key, bytes, valid, msdl.sequence),
            Err(error) => {
                self.stats.cells_dropped += 1;
                // What is spoilt has failed already.
                if state != State::Spoilt || msdl.start {
                    self.fail(key, error, bytes.len());
                }
                if next == State::Spoilt {
                    self.spoil(now, key);
                }
            }
        }
        debug_assert_eq!(self.state(msdl.vci, msdl.rid), next, "the table");
    }

    /// Adds what is valid of cell `sequence` to its block, and hands that out if it was the
    /// last one.
    fn append(&mut self, now: Instant, key: Key, mut bytes: Vec<u8>, valid: &[u8], sequence: u8) {
        bytes.extend_from_slice(valid);
        if sequence == 1 {
            self.hand_out(key, bytes);
            return;
        }
        self.filling += 1;
        let entry = Entry::Filling {
            bytes,
            // Checked: not 0.
            expected: sequence - 1,
            deadline: self.deadlines.start(now, key),
        };
        self.entries.insert(key, entry);
    }

    /// The valid bytes of a cell, if it is the one that was due: the first of a block, or the
    /// next of the block `under_way`.
    fn check<'a>(
        &self,
        msdl: Msdl,
        body: &'a [u8],
        under_way: Option<&(Vec<u8>, u8)>,
    ) -> Result<&'a [u8], BlockError> {
        let (size, sequence) = (self.config.body.bytes(), msdl.sequence);
        let gathered = match under_way {
            None if !msdl.start => return Err(BlockError::NoStart { sequence }),
            None if sequence == 0 => return Err(BlockError::NoCells),
            None => 0,
            Some((bytes, expected)) if *expected == sequence => bytes.len(),
            Some(&(_, expected)) => {
                return Err(BlockError::SequenceGap {
                    expected,
                    found: sequence,
                });
            }
        };
        let valid = valid_bytes(self.config.body, msdl, body)?;
        // All cells but the last are full, and of this one the size is known.
        let cells_behind = usize::from(sequence) - 1;
        let due = cells_behind.saturating_sub(1) * size;
        let block_bytes = gathered + valid.len() + due;
        if block_bytes > self.config.block_bytes_max {
            return Err(BlockError::TooLong {
                block_bytes,
                allowed_bytes: self.config.block_bytes_max,
            });
        }
        if msdl.start && cells_behind > 0 && self.filling >= self.config.blocks_max {
            return Err(BlockError::TableFull {
                places: self.config.blocks_max,
            });
        }
        Ok(valid)
    }

    /// A cell came where blocks may not be interleaved: those of other RIDs fail.
    fn break_others(&mut self, now: Instant, (vci, rid): Key) {
        for key in self.keys(vci) {
            let other = key.1 != rid && self.state(vci, key.1) == State::Filling;
            if !other {
                continue;
            }
            if let Some((bytes, expected)) = self.take_filling(key) {
                let found = rid;
                self.fail(key, BlockError::RidChange { expected, found }, bytes.len());
                self.spoil(now, key);
            }
        }
    }

    /// What is left of a block will be dropped.
    fn spoil(&mut self, now: Instant, key: Key) {
        let deadline = self.deadlines.start(now, key);
        self.entries.insert(key, Entry::Spoilt { deadline });
    }

    /// Everything under way in a circuit.
    fn keys(&self, vci: u16) -> Vec<Key> {
        let entries = self.entries.range((vci, 0)..=(vci, u8::MAX));
        entries.map(|(&key, _)| key).collect()
    }

    /// Forgets what there is of a block, and gives its bytes and the sequence expected if it
    /// was filling.
    fn take_filling(&mut self, key: Key) -> Option<(Vec<u8>, u8)> {
        let entry = self.entries.remove(&key)?;
        self.deadlines.stop(entry.deadline(), key);
        match entry {
            Entry::Filling {
                bytes, expected, ..
            } => {
                self.filling -= 1;
                Some((bytes, expected))
            }
            Entry::Spoilt { .. } => None,
        }
    }

    fn hand_out(&mut self, (vci, rid): Key, bytes: Vec<u8>) {
        self.stats.blocks += 1;
        self.stats.bytes += bytes.len() as u64;
        self.events.push_back(Event::Block { vci, rid, bytes });
    }

    fn fail(&mut self, (vci, rid): Key, error: BlockError, bytes_lost: usize) {
        self.stats.blocks_failed += 1;
        self.stats.bytes_lost += bytes_lost as u64;
        self.events.push_back(Event::Failed {
            vci,
            rid,
            error,
            bytes_lost,
        });
    }
}

/// What a cell is to its block.
fn cause(msdl: Msdl, usable: bool) -> Cause {
    match (usable, msdl.start, msdl.sequence == 1) {
        (true, true, true) => Cause::Only,
        (true, true, false) => Cause::First,
        (true, false, true) => Cause::Last,
        (true, false, false) => Cause::Next,
        (false, _, true) => Cause::BrokenLast,
        (false, _, false) => Cause::Broken,
    }
}

/// The valid bytes of a body.
fn valid_bytes(size: BodySize, msdl: Msdl, body: &[u8]) -> Result<&[u8], BlockError> {
    let (expected_bytes, found_bytes) = (size.bytes(), body.len());
    if found_bytes != expected_bytes {
        return Err(BlockError::BodySize {
            expected_bytes,
            found_bytes,
        });
    }
    if !msdl.part {
        return Ok(body);
    }
    if msdl.sequence > 1 {
        return Err(BlockError::PartEarly {
            sequence: msdl.sequence,
        });
    }
    let count = body.last().copied().unwrap_or(0);
    let allowed = expected_bytes - 1;
    if usize::from(count) > allowed {
        return Err(BlockError::PartCount { count, allowed });
    }
    Ok(&body[..usize::from(count)])
}
