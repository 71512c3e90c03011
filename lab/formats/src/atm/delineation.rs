//! Cell delineation: finds where cells begin in a stream, by nothing but their HECs,
//! and hands over the cells behind it.
//!
//! | state | header | what happens | next state |
//! |---|---|---|---|
//! | Hunt | every place: HEC good | a cell may begin here | Presync |
//! | Presync | cell by cell: good, the δth | the cells are found | Sync |
//! | Presync | bad | it was chance | Hunt |
//! | Sync | bad, the αth in a row | the cells are lost | Hunt |
//!
//! A header that is corrected counts as bad here. Cells are handed over in Sync only, from
//! the one on whose header Sync was reached; those whose header is beyond repair are
//! thrown away. The descrambler, where there is one, runs in Presync too, so that it is right by then.
//!
//! On a line whose bytes are known (SONET) a header may begin at every byte, else at every bit.
//!
//! Source: itu-i432 §4.3.3 (HEC cell delineation); α and δ as in its examples for SDH.

use barewire_units::transitions;

use super::hec::{self, Outcome};
use super::scrambler::Descrambler;
use super::{CELL_BYTES, Cell, HEADER_BYTES};

/// Bad headers in a row after which cells are lost.
pub const ALPHA: u8 = 7;
/// Good headers in a row, after the first, after which cells are found.
pub const DELTA: u8 = 6;

const HEADER_BITS: u8 = HEADER_BYTES as u8 * 8;

/// How sure the receiver is of where cells begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Looks for a good HEC at every place.
    #[default]
    Hunt,
    /// Found one, and waits for more where they should be.
    Presync,
    /// Knows.
    Sync,
}

/// What it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A good HEC where nothing was expected.
    Good,
    /// A bad one where a good one was expected.
    Bad,
    /// The δth good one in a row.
    DeltaGood,
    /// The αth bad one in a row.
    AlphaBad,
}

transitions! {
    State on Event {
        Hunt + Good => Presync,
        Presync + Bad => Hunt,
        Presync + DeltaGood => Sync,
        Sync + AlphaBad => Hunt,
    }
}

/// When cells count as lost and as found; at least 1 each, 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bad headers in a row after which cells are lost.
    pub alpha: u8,
    /// Good headers in a row, after the first, after which cells are found.
    pub delta: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            alpha: ALPHA,
            delta: DELTA,
        }
    }
}

/// What payloads are on this line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    /// As they are.
    Plain,
    /// Through [`Scrambler`](super::scrambler::Scrambler).
    Scrambled,
}

/// What was counted in Sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Cells handed over.
    pub cells: u64,
    /// Of these, cells with a corrected header.
    pub corrected: u64,
    /// Cells thrown away because of their header.
    pub discarded: u64,
    /// How often cells were found.
    pub found: u64,
    /// How often they were lost again.
    pub lost: u64,
}

/// The receiver: bytes or bits in, cells out.
#[derive(Clone, Debug)]
pub struct Delineator {
    limits: Limits,
    state: State,
    /// Headers in a row that speak against the state: good in Presync, bad in Sync.
    run: u8,
    /// Hunt: the last 40 bits, and how many of them there have been.
    window: u64,
    window_bits: u8,
    /// Presync, Sync: the cell that is arriving.
    cell: [u8; CELL_BYTES],
    filled_bytes: usize,
    /// Its header is good, in Sync.
    deliver: bool,
    /// Bits of a byte that is not yet complete.
    partial: u8,
    partial_bits: u8,
    hec: hec::Receiver,
    descrambler: Option<Descrambler>,
    stats: Stats,
}

impl Delineator {
    /// A receiver in Hunt.
    #[must_use]
    pub fn new(limits: Limits, payloads: Payloads) -> Self {
        Self {
            limits,
            state: State::Hunt,
            run: 0,
            window: 0,
            window_bits: 0,
            cell: [0; CELL_BYTES],
            filled_bytes: 0,
            deliver: false,
            partial: 0,
            partial_bits: 0,
            hec: hec::Receiver::new(),
            descrambler: (payloads == Payloads::Scrambled).then(Descrambler::new),
            stats: Stats::default(),
        }
    }

    /// How sure it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// What it counted.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The next cell that ends in `bytes`, from the front of which it takes what it has
    /// used. `None` when they are all used up.
    pub fn next_cell(&mut self, bytes: &mut &[u8]) -> Option<&[u8; CELL_BYTES]> {
        while !bytes.is_empty() {
            if self.state == State::Hunt {
                self.hunt_in(bytes);
            } else if self.take_from(bytes) && self.end_cell() {
                return Some(&self.cell);
            }
        }
        None
    }

    /// Takes the next bit of a line without bytes; the cell that it ends, if any.
    pub fn push_bit(&mut self, bit: bool) -> Option<&[u8; CELL_BYTES]> {
        if self.state == State::Hunt {
            self.hunt(bit.into(), 1);
            return None;
        }
        self.partial = self.partial << 1 | u8::from(bit);
        self.partial_bits += 1;
        if self.partial_bits < 8 {
            return None;
        }
        self.partial_bits = 0;
        let byte = [self.partial];
        self.next_cell(&mut &byte[..])
    }

    /// Goes back to Hunt: the line below knows that it lost its place.
    pub fn restart(&mut self) {
        if self.state == State::Sync {
            self.stats.lost += 1;
        }
        self.state = State::Hunt;
        self.window_bits = 0;
        self.partial_bits = 0;
    }

    /// Hunts through `bytes` up to the first place where a cell may begin.
    fn hunt_in(&mut self, bytes: &mut &[u8]) {
        while let ([byte, rest @ ..], State::Hunt) = (*bytes, self.state) {
            *bytes = rest;
            self.hunt((*byte).into(), 8);
        }
    }

    /// Looks whether a header ends with these bits.
    fn hunt(&mut self, bits: u64, count: u8) {
        self.window = self.window << count | bits;
        self.window_bits = HEADER_BITS.min(self.window_bits + count);
        let [_, _, _, header @ ..] = self.window.to_be_bytes();
        if self.window_bits < HEADER_BITS || hec::syndrome(&header) != 0 {
            return;
        }
        self.cell[..HEADER_BYTES].copy_from_slice(&header);
        self.filled_bytes = HEADER_BYTES;
        self.deliver = false;
        self.turn(Event::Good);
    }

    /// Takes what the part of the cell that is arriving still lacks; whether the cell is
    /// complete.
    fn take_from(&mut self, bytes: &mut &[u8]) -> bool {
        let in_header = self.filled_bytes < HEADER_BYTES;
        let part_end = if in_header { HEADER_BYTES } else { CELL_BYTES };
        let take = bytes.len().min(part_end - self.filled_bytes);
        let (taken, rest) = bytes.split_at(take);
        *bytes = rest;
        self.cell[self.filled_bytes..][..take].copy_from_slice(taken);
        self.filled_bytes += take;
        if in_header && self.filled_bytes == HEADER_BYTES {
            self.judge_header();
        }
        self.filled_bytes == CELL_BYTES
    }

    fn judge_header(&mut self) {
        let mut header = Cell::new_unchecked(&self.cell).header_bytes();
        let (as_received, state) = (header, self.state);
        let good = hec::syndrome(&header) == 0;
        if state == State::Sync {
            let outcome = self.hec.receive(&mut header);
            self.count(outcome);
            self.cell[..HEADER_BYTES].copy_from_slice(&header);
        }
        self.run = match (state, good) {
            (State::Sync, true) => 0,
            _ => self.run.saturating_add(1),
        };
        match (state, good) {
            (State::Presync, true) if self.run >= self.limits.delta => self.turn(Event::DeltaGood),
            (State::Presync, false) => self.turn(Event::Bad),
            (State::Sync, false) if self.run >= self.limits.alpha => self.turn(Event::AlphaBad),
            _ => {}
        }
        if self.state == State::Hunt {
            // The cells may begin within what was taken for a header.
            let [b0, b1, b2, b3, b4] = as_received;
            self.window = u64::from_be_bytes([0, 0, 0, b0, b1, b2, b3, b4]);
            self.window_bits = HEADER_BITS;
        }
    }

    fn count(&mut self, outcome: Outcome) {
        self.deliver = outcome != Outcome::Discarded;
        match outcome {
            Outcome::Accepted => {}
            Outcome::Corrected(_) => self.stats.corrected += 1,
            Outcome::Discarded => self.stats.discarded += 1,
        }
    }

    /// A cell is complete: whether to hand it over.
    fn end_cell(&mut self) -> bool {
        self.filled_bytes = 0;
        if let Some(descrambler) = &mut self.descrambler {
            descrambler.descramble(Cell::new_unchecked(&mut self.cell).payload_mut());
        }
        self.stats.cells += u64::from(self.deliver);
        self.deliver
    }

    fn turn(&mut self, event: Event) {
        let Some(state) = self.state.on(event) else {
            return;
        };
        self.state = state;
        self.run = 0;
        match event {
            Event::DeltaGood => {
                self.hec = hec::Receiver::new();
                self.deliver = true;
                self.stats.found += 1;
            }
            Event::AlphaBad => self.stats.lost += 1,
            Event::Good | Event::Bad => {}
        }
    }
}

#[cfg(test)]
mod tests;
