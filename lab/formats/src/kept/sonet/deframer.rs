//! The deframer: bytes of the line in, cells out.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Hunting | `Pattern`: A1 A1 A1 A2 A2 A2, at any bit | Found |
//! | Found | `Pattern`: again, one frame later | InFrame |
//! | Found | `NoPattern` | Hunting |
//! | InFrame | `Lost`: no pattern, four frames in a row | Hunting |
//!
//! Frames are used in InFrame only. Whoever is not in InFrame is out of frame; after 3 ms of it
//! there is loss of frame, until 3 ms in frame have passed.
//!
//! Source: itu-g707 (framing, BIP); framing states and times as in ITU-T G.783.

use barewire_units::transitions;

use super::pointer::State as PointerState;
use super::{A1, A2, Frame, K2_LINE_AIS, K2_LINE_RDI, OverheadRepr, Rate, STS1S_MAX};
use super::{PathStats, path};
use crate::atm::CELL_BYTES;
use crate::atm::delineation::Limits;

/// Frames in a row without the pattern after which they are lost.
pub const LOST_AFTER_FRAMES: u8 = 4;
/// Frames in 3 ms: how long before loss of frame is declared, and withdrawn.
pub const LOSS_OF_FRAME_FRAMES: usize = 24;

const PATTERN: [u8; 6] = [A1, A1, A1, A2, A2, A2];
const PATTERN_BITS: u64 = u64::from_be_bytes([0, 0, A1, A1, A1, A2, A2, A2]);
const PATTERN_MASK: u64 = (1 << 48) - 1;

/// How sure the deframer is of where frames begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Looks for the pattern at every bit.
    #[default]
    Hunting,
    /// Saw it once.
    Found,
    /// Saw it where it should be.
    InFrame,
}

/// What it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingEvent {
    /// The pattern.
    Pattern,
    /// Something else in its place.
    NoPattern,
    /// Something else in its place, four times in a row.
    Lost,
}

transitions! {
    Framing on FramingEvent {
        Hunting + Pattern => Found,
        Found + Pattern => InFrame,
        Found + NoPattern => Hunting,
        InFrame + Lost => Hunting,
    }
}

/// What the other end should be told: give it to the [`Framer`](super::Framer) of the other
/// direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// B2 errors, in bits.
    pub b2_errors: u32,
    /// B3 errors, in bits.
    pub b3_errors: u32,
    /// There are no frames, or they say that the line failed upstream.
    pub line_defect: bool,
    /// There is no SPE, or there are no cells in it.
    pub path_defect: bool,
}

impl Report {
    /// All is well.
    pub const NONE: Self = Self {
        b2_errors: 0,
        b3_errors: 0,
        line_defect: false,
        path_defect: false,
    };
}

/// What is wrong at this moment. What the overhead says is taken from the last frame or SPE, not
/// smoothed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// Frames are not found.
    pub out_of_frame: bool,
    /// They have not been for 3 ms, or not yet been again for 3 ms.
    pub loss_of_frame: bool,
    /// K2: the line failed upstream.
    pub line_alarm: bool,
    /// K2: the other end has a defect.
    pub far_line_defect: bool,
    /// There is no pointer that could be followed.
    pub loss_of_pointer: bool,
    /// The pointer is all ones: the path failed upstream.
    pub path_alarm: bool,
    /// G1: the other end has a defect.
    pub far_path_defect: bool,
    /// C2 does not say ATM.
    pub label_mismatch: bool,
    /// Cells are not found.
    pub loss_of_cells: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames used.
    pub frames: u64,
    /// Frames in InFrame whose pattern was wrong.
    pub framing_errors: u64,
    /// How often frames were lost.
    pub frame_losses: u64,
    /// Bits in which B1 was wrong.
    pub b1_errors: u64,
    /// Bits in which B2 was wrong.
    pub b2_errors: u64,
    /// B2 errors that the other end reported in M1.
    pub far_b2_errors: u64,
    /// Frames in which an STS-1 did not say that it belongs to the first.
    pub concatenation_errors: u64,
    /// The path and its cells.
    pub path: PathStats,
}

/// The BIPs of the frame before.
#[derive(Clone, Copy, Debug)]
struct Bips {
    b1: u8,
    b2: [u8; STS1S_MAX],
}

/// Takes cells out of frames of `FRAME_BYTES`:
/// [`STS3C_FRAME_BYTES`](super::STS3C_FRAME_BYTES) or
/// [`STS12C_FRAME_BYTES`](super::STS12C_FRAME_BYTES), nothing else compiles.
#[derive(Clone, Debug)]
pub struct Deframer<const FRAME_BYTES: usize> {
    framing: Framing,
    missed_patterns: u8,
    /// Hunting: the last bytes of the line; else the last one.
    window: u64,
    /// So many of the last bits belong to the next byte of the frame.
    shift: u32,
    frame: [u8; FRAME_BYTES],
    filled_bytes: usize,
    loss_of_frame: bool,
    /// How long framing has said the contrary of `loss_of_frame`.
    contrary_bytes: usize,
    expected: Option<Bips>,
    k2: u8,
    path: path::Receiver,
    stats: Stats,
    /// The errors that [`Deframer::take_report`] has told of.
    reported: (u64, u64),
}

impl<const FRAME_BYTES: usize> Deframer<FRAME_BYTES> {
    /// The rate that these frames have.
    pub const RATE: Rate = Rate::of_frame_bytes(FRAME_BYTES).expect("bytes of a frame");

    /// A deframer that hunts for frames. `limits` are those of cell delineation.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            framing: Framing::Hunting,
            missed_patterns: 0,
            window: 0,
            shift: 0,
            frame: [0; FRAME_BYTES],
            filled_bytes: 0,
            loss_of_frame: false,
            contrary_bytes: 0,
            expected: None,
            k2: 0,
            path: path::Receiver::new(limits),
            stats: Stats::default(),
            reported: (0, 0),
        }
    }

    /// How sure it is of where frames begin.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// What it counted.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.path = self.path.stats();
        stats
    }

    /// What is wrong at this moment.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        Alarms {
            out_of_frame: self.framing != Framing::InFrame,
            loss_of_frame: self.loss_of_frame,
            line_alarm: self.k2 & 0b111 == K2_LINE_AIS,
            far_line_defect: self.k2 & 0b111 == K2_LINE_RDI,
            loss_of_pointer: self.path.pointer_state() == PointerState::Loss,
            path_alarm: self.path.pointer_state() == PointerState::Alarm,
            far_path_defect: self.path.far_defect(),
            label_mismatch: self.path.label_mismatch(),
            loss_of_cells: !self.path.cells_found(),
        }
    }

    /// What the other end should be told: errors since the last report, and defects.
    pub fn take_report(&mut self) -> Report {
        let (stats, alarms) = (self.stats(), self.alarms());
        let counted = (stats.b2_errors, stats.path.b3_errors);
        let since = |now: u64, before: u64| u32::try_from(now - before).unwrap_or(u32::MAX);
        let report = Report {
            b2_errors: since(counted.0, self.reported.0),
            b3_errors: since(counted.1, self.reported.1),
            line_defect: alarms.out_of_frame || alarms.line_alarm,
            path_defect: alarms.loss_of_pointer || alarms.path_alarm || alarms.loss_of_cells,
        };
        self.reported = counted;
        report
    }

    /// Takes the next bytes of the line, and gives each cell that ends in them to `deliver`:
    /// descrambled, header corrected, idle cells taken out.
    pub fn push(&mut self, bytes: &[u8], mut deliver: impl FnMut(&[u8; CELL_BYTES])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let before = rest.len();
            rest = match self.framing {
                Framing::Hunting => self.hunt(rest),
                Framing::Found | Framing::InFrame => self.take(rest),
            };
            self.watch_loss_of_frame(before - rest.len());
            if self.filled_bytes == FRAME_BYTES {
                self.filled_bytes = 0;
                self.end_frame(&mut deliver);
            }
        }
    }

    /// Looks for the pattern; what is left behind it.
    fn hunt<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        for (i, &byte) in bytes.iter().enumerate() {
            self.window = self.window << 8 | u64::from(byte);
            let fits = |&shift: &u32| self.window >> shift & PATTERN_MASK == PATTERN_BITS;
            if let Some(shift) = (0..8).find(fits) {
                self.shift = shift;
                self.begin_found();
                return &bytes[i + 1..];
            }
        }
        &[]
    }

    /// The pattern has just ended: what stood before it in the frame is known.
    fn begin_found(&mut self) {
        self.turn(FramingEvent::Pattern);
        let n = Self::RATE.sts1s();
        self.filled_bytes = Self::RATE.pattern_end();
        self.frame[..n].fill(A1);
        self.frame[n..self.filled_bytes].fill(A2);
    }

    /// Takes bytes up to the end of the pattern or of the frame; what is left.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let pattern_end = Self::RATE.pattern_end();
        let in_pattern = self.filled_bytes < pattern_end;
        let part_end = if in_pattern { pattern_end } else { FRAME_BYTES };
        let run = bytes.len().min(part_end - self.filled_bytes);
        let (taken, rest) = bytes.split_at(run);
        let place = &mut self.frame[self.filled_bytes..][..run];
        let mut last = self.window as u8;
        for (place, &byte) in place.iter_mut().zip(taken) {
            *place = (u16::from_be_bytes([last, byte]) >> self.shift) as u8;
            last = byte;
        }
        self.window = last.into();
        self.filled_bytes += run;
        if in_pattern && self.filled_bytes == pattern_end {
            self.judge_pattern();
        }
        rest
    }

    fn judge_pattern(&mut self) {
        let pattern_end = Self::RATE.pattern_end();
        if self.frame[..pattern_end].ends_with(&PATTERN) {
            self.missed_patterns = 0;
            return self.turn(FramingEvent::Pattern);
        }
        self.stats.framing_errors += u64::from(self.framing == Framing::InFrame);
        self.missed_patterns = self.missed_patterns.saturating_add(1);
        self.turn(FramingEvent::NoPattern);
        if self.missed_patterns >= LOST_AFTER_FRAMES {
            self.turn(FramingEvent::Lost);
        }
    }

    fn turn(&mut self, event: FramingEvent) {
        let Some(framing) = self.framing.on(event) else {
            return;
        };
        self.framing = framing;
        if framing == Framing::Hunting {
            self.filled_bytes = 0;
        }
        if event == FramingEvent::Lost {
            self.stats.frame_losses += 1;
            self.expected = None;
            self.k2 = 0;
            self.path.restart();
        }
    }

    fn watch_loss_of_frame(&mut self, bytes: usize) {
        let in_frame = self.framing == Framing::InFrame;
        if in_frame != self.loss_of_frame {
            self.contrary_bytes = 0;
            return;
        }
        self.contrary_bytes += bytes;
        if self.contrary_bytes >= LOSS_OF_FRAME_FRAMES * FRAME_BYTES {
            self.loss_of_frame = !self.loss_of_frame;
            self.contrary_bytes = 0;
        }
    }

    /// The frame is complete.
    fn end_frame(&mut self, deliver: &mut impl FnMut(&[u8; CELL_BYTES])) {
        if self.framing != Framing::InFrame {
            return;
        }
        let mut frame = Frame::new_unchecked(Self::RATE, &mut self.frame[..]);
        let b1 = frame.section_bip();
        frame.scramble();
        let frame = Frame::new_unchecked(Self::RATE, &self.frame[..]);
        let b2 = frame.line_bip();
        let overhead = OverheadRepr::read(&frame);
        self.stats.frames += 1;
        self.stats.concatenation_errors += u64::from(frame.not_concatenated().is_some());
        if let Some(expected) = self.expected.replace(Bips { b1, b2 }) {
            let b1_wrong = (expected.b1 ^ overhead.b1).count_ones();
            let b2 = expected.b2.iter().zip(overhead.b2);
            let b2_wrong: u32 = b2.map(|(a, b)| (a ^ b).count_ones()).sum();
            self.stats.b1_errors += u64::from(b1_wrong);
            self.stats.b2_errors += u64::from(b2_wrong);
        }
        if usize::from(overhead.m1) <= 8 * Self::RATE.sts1s() {
            self.stats.far_b2_errors += u64::from(overhead.m1);
        }
        self.k2 = overhead.k2;
        self.path.receive(&frame, deliver);
    }
}
