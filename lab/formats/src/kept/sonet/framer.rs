//! The framer: cells in, frames out.

use super::path::{Part, Position};
use super::path_overhead::{B3_ERRORS_MAX, G1, J1};
use super::pointer::{Justification, POINTER_NEXT_FRAME, POINTER_VALUES, PointerWord, moved};
use super::{Frame, J0_NO_TRACE, K2_LINE_RDI, OverheadRepr, POINTER_ROW, PathOverheadRepr, ROWS};
use super::{Rate, Report, STS1S_MAX, bip8, path_status};
use crate::atm::scrambler::Scrambler;
use crate::atm::{CELL_BYTES, Cell, IDLE_CELL};

/// Frames without a change of the pointer that must lie between two with one.
pub const POINTER_REST_FRAMES: u8 = 3;

/// How the pointer of the next frame moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerChange {
    /// n bytes are left out: the SPE is slower than the frame.
    Increment,
    /// H3 carries n bytes more: the SPE is faster than the frame.
    Decrement,
    /// Another SPE begins elsewhere, 0 to 782 times n bytes behind H3.
    Jump(u16),
}

/// Puts cells into frames of `FRAME_BYTES`: [`STS3C_FRAME_BYTES`](super::STS3C_FRAME_BYTES) or
/// [`STS12C_FRAME_BYTES`](super::STS12C_FRAME_BYTES), nothing else compiles.
#[derive(Clone, Debug)]
pub struct Framer<const FRAME_BYTES: usize> {
    pointer: u16,
    change: Option<PointerChange>,
    rested_frames: u8,
    position: Position,
    b1: u8,
    b2: [u8; STS1S_MAX],
    /// Path overhead of the SPE that is being sent, and its BIP-8 so far.
    path: PathOverheadRepr,
    bip: u8,
    /// The cell that is being sent, scrambled.
    cell: [u8; CELL_BYTES],
    sent_bytes: usize,
    scrambler: Scrambler,
    /// What the other end has still to be told.
    report: Report,
}

impl<const FRAME_BYTES: usize> Default for Framer<FRAME_BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const FRAME_BYTES: usize> Framer<FRAME_BYTES> {
    /// The rate that these frames have.
    pub const RATE: Rate = Rate::of_frame_bytes(FRAME_BYTES).expect("bytes of a frame");

    /// A framer whose first SPE begins with its first frame.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pointer: POINTER_NEXT_FRAME,
            change: None,
            rested_frames: POINTER_REST_FRAMES,
            position: Position::at_frame(Self::RATE, POINTER_NEXT_FRAME),
            b1: 0,
            b2: [0; STS1S_MAX],
            path: PathOverheadRepr::ATM,
            bip: 0,
            cell: IDLE_CELL,
            sent_bytes: CELL_BYTES,
            scrambler: Scrambler::new(),
            report: Report::NONE,
        }
    }

    /// Moves the pointer in the next frame; `false`, and nothing happens, if the last move is
    /// less than [`POINTER_REST_FRAMES`] ago or a jump leads beyond 782.
    pub fn change_pointer(&mut self, change: PointerChange) -> bool {
        let valid = !matches!(change, PointerChange::Jump(value) if value >= POINTER_VALUES);
        let accepted = valid && self.rested_frames >= POINTER_REST_FRAMES;
        if accepted {
            self.change = Some(change);
        }
        accepted
    }

    /// Takes what the [`Deframer`](super::Deframer) of the opposite direction saw, to be told to
    /// the other end: errors once, as many as fit a frame, defects until the next report.
    pub fn report(&mut self, report: Report) {
        self.report = Report {
            b2_errors: self.report.b2_errors.saturating_add(report.b2_errors),
            b3_errors: self.report.b3_errors.saturating_add(report.b3_errors),
            ..report
        };
    }

    /// Writes the next frame as it goes on the line. It asks for each cell when the one
    /// before is sent, and sends an idle cell where there is none.
    pub fn emit(
        &mut self,
        frame: &mut [u8; FRAME_BYTES],
        mut next_cell: impl FnMut() -> Option<[u8; CELL_BYTES]>,
    ) {
        let change = self.change.take();
        let justification = match change {
            Some(PointerChange::Increment) => Justification::Positive,
            Some(PointerChange::Decrement) => Justification::Negative,
            Some(PointerChange::Jump(_)) | None => Justification::None,
        };
        frame.fill(0);
        let overhead = self.overhead(change);
        overhead.emit(&mut Frame::new_unchecked(Self::RATE, &mut frame[..]));
        for row in 0..ROWS {
            if row == POINTER_ROW {
                self.move_pointer(change, justification);
            }
            let envelope = Self::RATE.envelope(row, justification);
            self.fill(&mut frame[envelope], &mut next_cell);
        }
        let mut frame = Frame::new_unchecked(Self::RATE, &mut frame[..]);
        self.b2 = frame.line_bip();
        frame.scramble();
        self.b1 = frame.section_bip();
    }

    fn overhead(&mut self, change: Option<PointerChange>) -> OverheadRepr {
        // No more can go wrong in a frame than there are bits in B2.
        let m1_max = 8 * Self::RATE.sts1s() as u32;
        OverheadRepr {
            j0: J0_NO_TRACE,
            b1: self.b1,
            pointer: match change {
                None => PointerWord::holding(self.pointer),
                Some(PointerChange::Increment) => PointerWord::increment(self.pointer),
                Some(PointerChange::Decrement) => PointerWord::decrement(self.pointer),
                Some(PointerChange::Jump(value)) => PointerWord::jump(value),
            },
            b2: self.b2,
            k1: 0,
            k2: if self.report.line_defect {
                K2_LINE_RDI
            } else {
                0
            },
            s1: 0,
            m1: take_up_to(&mut self.report.b2_errors, m1_max),
        }
    }

    fn move_pointer(&mut self, change: Option<PointerChange>, justification: Justification) {
        self.rested_frames = match change {
            None => self.rested_frames.saturating_add(1),
            Some(_) => 0,
        };
        self.pointer = moved(self.pointer, justification);
        if let Some(PointerChange::Jump(value)) = change {
            self.pointer = value;
            self.position = Position::behind_h3(Self::RATE, value);
        }
    }

    /// Fills a row of the envelope.
    fn fill(&mut self, row: &mut [u8], next_cell: &mut impl FnMut() -> Option<[u8; CELL_BYTES]>) {
        let mut rest = row;
        while !rest.is_empty() {
            let (part, run) = self.position.step(rest.len());
            let (bytes, after) = rest.split_at_mut(run);
            match part {
                Part::Overhead(row) => bytes.fill(self.path_overhead(row)),
                Part::Stuff => {}
                Part::Payload => self.fill_payload(bytes, next_cell),
            }
            self.bip ^= bip8(bytes);
            rest = after;
        }
    }

    fn path_overhead(&mut self, row: usize) -> u8 {
        match row {
            J1 => self.path.b3 = core::mem::take(&mut self.bip),
            G1 => {
                let errors = take_up_to(&mut self.report.b3_errors, B3_ERRORS_MAX.into());
                self.path.g1 = path_status(errors, self.report.path_defect);
            }
            _ => {}
        }
        self.path.to_bytes()[row]
    }

    fn fill_payload(
        &mut self,
        bytes: &mut [u8],
        next_cell: &mut impl FnMut() -> Option<[u8; CELL_BYTES]>,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.sent_bytes == CELL_BYTES {
                self.cell = next_cell().unwrap_or(IDLE_CELL);
                let mut cell = Cell::new_unchecked(&mut self.cell);
                self.scrambler.scramble(cell.payload_mut());
                self.sent_bytes = 0;
            }
            let run = rest.len().min(CELL_BYTES - self.sent_bytes);
            let (bytes, after) = rest.split_at_mut(run);
            bytes.copy_from_slice(&self.cell[self.sent_bytes..][..run]);
            self.sent_bytes += run;
            rest = after;
        }
    }
}

/// Takes as much of `count` as there is room for.
fn take_up_to(count: &mut u32, max: u32) -> u8 {
    let taken = max.min(*count);
    *count -= taken;
    taken as u8
}
