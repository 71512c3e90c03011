//! The path: the SPE in the envelope of one frame after another, and the cells in it.
//!
//! What frames carry for the SPE is one endless sequence of bytes; the pointer says
//! where in it an SPE begins. A position in the SPE therefore runs on from frame to frame, and
//! only a pointer that jumps sets it anew. Sender and receiver step through it alike.

use super::path_overhead::{B3, G1, J1};
use super::pointer::{self, Action, Justification, POINTER_VALUES};
use super::{Frame, LABEL_ATM, PATH_OVERHEAD_BYTES, PathOverhead, PathOverheadRepr};
use super::{ROWS, Rate, bip8};
use crate::atm::delineation::{self, Delineator, Limits, Payloads};
use crate::atm::{CELL_BYTES, IDLE_CELL};

/// What a run of bytes of the SPE is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The path overhead of this row, one byte.
    Overhead(usize),
    /// Fixed stuff.
    Stuff,
    /// Cells.
    Payload,
}

/// A position in the SPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    rate: Rate,
    bytes: usize,
}

impl Position {
    /// The position behind H3, if the pointer has this value.
    pub(super) const fn behind_h3(rate: Rate, pointer: u16) -> Self {
        let units = (POINTER_VALUES - pointer) % POINTER_VALUES;
        let bytes = units as usize * rate.sts1s();
        Self { rate, bytes }
    }

    /// The position where a frame begins whose pointer has this value.
    pub(super) const fn at_frame(rate: Rate, pointer: u16) -> Self {
        let rows_before = super::POINTER_ROW * rate.spe_columns();
        let behind_h3 = Self::behind_h3(rate, pointer).bytes;
        Self {
            rate,
            bytes: (behind_h3 + rate.spe_bytes() - rows_before) % rate.spe_bytes(),
        }
    }

    /// Steps over the bytes that are of one kind with the next one, `limit` at most; what they
    /// are and how many.
    pub(super) fn step(&mut self, limit: usize) -> (Part, usize) {
        let columns = self.rate.spe_columns();
        let (row, column) = (self.bytes / columns, self.bytes % columns);
        let stuff_end = 1 + self.rate.stuff_columns();
        let (part, end) = match column {
            0 => (Part::Overhead(row), 1),
            _ if column < stuff_end => (Part::Stuff, stuff_end),
            _ => (Part::Payload, columns),
        };
        let run = limit.min(end - column);
        self.bytes = (self.bytes + run) % self.rate.spe_bytes();
        (part, run)
    }
}

/// What was counted of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Bits in which B3 was wrong.
    pub b3_errors: u64,
    /// B3 errors that the other end reported in G1.
    pub far_b3_errors: u64,
    /// Positive justifications.
    pub increments: u64,
    /// Negative justifications.
    pub decrements: u64,
    /// Pointers that came to hold without justification, the first one included.
    pub jumps: u64,
    /// Idle cells, which are taken out.
    pub idle_cells: u64,
    /// What cell delineation counted, idle cells included.
    pub cells: delineation::Stats,
}

/// A path overhead that says nothing of note.
const NO_NEWS: PathOverhead<[u8; PATH_OVERHEAD_BYTES]> =
    PathOverhead::new_unchecked(PathOverheadRepr::ATM.to_bytes());

/// The receiving end of the path.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pointer: pointer::Receiver,
    position: Option<Position>,
    /// BIP-8 since the last J1, if there was one.
    bip: Option<u8>,
    /// That of the whole SPE before, which B3 must equal.
    bip_before: Option<u8>,
    /// What came last in each row; that of [`NO_NEWS`] before something came.
    overhead: PathOverhead<[u8; PATH_OVERHEAD_BYTES]>,
    cells: Delineator,
    stats: PathStats,
}

impl Receiver {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            pointer: pointer::Receiver::new(),
            position: None,
            bip: None,
            bip_before: None,
            overhead: NO_NEWS,
            cells: Delineator::new(limits, Payloads::Scrambled),
            stats: PathStats::default(),
        }
    }

    pub(super) const fn stats(&self) -> PathStats {
        let mut stats = self.stats;
        stats.cells = self.cells.stats();
        stats
    }

    pub(super) const fn pointer_state(&self) -> pointer::State {
        self.pointer.state()
    }

    pub(super) fn cells_found(&self) -> bool {
        self.cells.state() == delineation::State::Sync
    }

    /// Whether the last G1 reported a defect.
    pub(super) fn far_defect(&self) -> bool {
        self.overhead.far_defect()
    }

    /// Whether the last C2 was there and did not say ATM.
    pub(super) fn label_mismatch(&self) -> bool {
        self.overhead.c2() != LABEL_ATM
    }

    /// Forgets where the SPE is: frames were lost.
    pub(super) fn restart(&mut self) {
        self.pointer = pointer::Receiver::new();
        self.lose();
    }

    fn lose(&mut self) {
        self.position = None;
        self.bip = None;
        self.bip_before = None;
        self.overhead = NO_NEWS;
        self.cells.restart();
    }

    /// Takes the next frame, in clear.
    pub(super) fn receive(
        &mut self,
        frame: &Frame<&[u8]>,
        deliver: &mut impl FnMut(&[u8; CELL_BYTES]),
    ) {
        let mut justification = Justification::None;
        for row in 0..ROWS {
            if row == super::POINTER_ROW {
                justification = self.follow(frame);
            }
            let envelope = frame.rate().envelope(row, justification);
            self.receive_part(&frame.bytes()[envelope], deliver);
        }
    }

    fn follow(&mut self, frame: &Frame<&[u8]>) -> Justification {
        match self.pointer.receive(frame.pointer_word()) {
            Action::GoOn(justification) => {
                match justification {
                    Justification::None => {}
                    Justification::Positive => self.stats.increments += 1,
                    Justification::Negative => self.stats.decrements += 1,
                }
                return justification;
            }
            Action::Jump(value) => {
                self.stats.jumps += 1;
                self.position = Some(Position::behind_h3(frame.rate(), value));
            }
            Action::Nothing => self.lose(),
        }
        Justification::None
    }

    /// Takes a row of the envelope.
    fn receive_part(&mut self, bytes: &[u8], deliver: &mut impl FnMut(&[u8; CELL_BYTES])) {
        let Some(mut position) = self.position else {
            return;
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, run) = position.step(rest.len());
            let (bytes, after) = rest.split_at(run);
            match part {
                Part::Overhead(row) => self.receive_overhead(row, bip8(bytes)),
                Part::Stuff => {}
                Part::Payload => self.receive_payload(bytes, deliver),
            }
            self.bip = self.bip.map(|bip| bip ^ bip8(bytes));
            rest = after;
        }
        self.position = Some(position);
    }

    fn receive_payload(&mut self, bytes: &[u8], deliver: &mut impl FnMut(&[u8; CELL_BYTES])) {
        let mut rest = bytes;
        while let Some(cell) = self.cells.next_cell(&mut rest) {
            // The header alone makes a cell idle.
            if cell[..4] == IDLE_CELL[..4] {
                self.stats.idle_cells += 1;
            } else {
                deliver(cell);
            }
        }
    }

    fn receive_overhead(&mut self, row: usize, byte: u8) {
        self.overhead.set_byte(row, byte);
        match row {
            J1 => self.bip_before = self.bip.replace(0),
            B3 => {
                let wrong = self.bip_before.map_or(0, |bip| (bip ^ byte).count_ones());
                self.stats.b3_errors += u64::from(wrong);
            }
            G1 => self.stats.far_b3_errors += u64::from(self.overhead.far_b3_errors()),
            _ => {}
        }
    }
}
