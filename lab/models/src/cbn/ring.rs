//! The ring: frames at equal distances that go round, with one slot for each channel.
//!
//! A station is known by its position: the way from the ring's origin, as a time. Frame `f`
//! passes it at `position + f x spacing`, and again every rotation. What happens then is the
//! station's ([`super::Station::handle_frame`]).
//!
//! OPEN in the source: the way between two stations, and where the frames are at the start.

use barewire_classic::slotted::{self, SlotState, SlottedFrame, Verdict};
use barewire_formats::cbn::SLOTS;
use barewire_units::{Duration, Instant};

use super::Cell;

/// A slot of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// Whoever waits may fill it.
    #[default]
    Empty,
    /// A cell is under way.
    Full {
        /// What was sent.
        cell: Cell,
        /// What receivers have said of it.
        verdict: Verdict,
    },
}

impl Slot {
    /// A slot with a cell that nobody has received yet.
    #[must_use]
    pub const fn full(cell: Cell) -> Self {
        let verdict = Verdict::Nobody;
        Self::Full { cell, verdict }
    }
}

/// The slots of a frame; the index is the channel. Nothing damages them, and no monitor marks
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots(pub [Slot; SLOTS]);

impl slotted::Cell for Cell {
    fn first_word(&self) -> u32 {
        self.msdl.to_word()
    }
}

impl SlottedFrame for Slots {
    type Cell = Cell;

    fn admit(&mut self) -> bool {
        true
    }

    fn seal(&mut self) {}

    fn state(&self, slot: usize) -> SlotState {
        match self.0[slot] {
            Slot::Empty => SlotState::Empty,
            Slot::Full { .. } => SlotState::Fresh,
        }
    }

    fn fill(&mut self, slot: usize, cell: Cell) {
        self.0[slot] = Slot::full(cell);
    }

    fn empty(&mut self, slot: usize) {
        self.0[slot] = Slot::Empty;
    }

    fn cell(&self, slot: usize) -> Option<&Cell> {
        match &self.0[slot] {
            Slot::Empty => None,
            Slot::Full { cell, .. } => Some(cell),
        }
    }

    fn verdict(&self, slot: usize) -> Verdict {
        match self.0[slot] {
            Slot::Empty => Verdict::Nobody,
            Slot::Full { verdict, .. } => verdict,
        }
    }

    fn set_verdict(&mut self, slot: usize, said: Verdict) {
        if let Slot::Full { verdict, .. } = &mut self.0[slot] {
            *verdict = said;
        }
    }
}

/// A ring.
#[derive(Clone, Debug)]
pub struct Ring {
    rotation: Duration,
    frames: Vec<Slots>,
}

impl Ring {
    /// A ring of empty frames; `None` without a frame.
    #[must_use]
    pub fn new(rotation: Duration, frames: usize) -> Option<Self> {
        let frames = vec![Slots::default(); frames];
        (!frames.is_empty()).then_some(Self { rotation, frames })
    }

    /// Time for one way round.
    #[must_use]
    pub const fn rotation(&self) -> Duration {
        self.rotation
    }

    /// Frames on the ring.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// When `frame` first passes a station at `position`.
    #[must_use]
    pub fn first_passage(&self, position: Duration, frame: usize) -> Instant {
        let spacing_ps = self.rotation.as_ps() / self.frames.len() as u64;
        Instant::ORIGIN + position + Duration::from_ps(spacing_ps * frame as u64)
    }

    /// The slots of `frame`, modulo their number.
    #[must_use]
    pub fn slots(&self, frame: usize) -> &Slots {
        &self.frames[frame % self.frames.len()]
    }

    /// The slots of `frame`, modulo their number.
    pub fn slots_mut(&mut self, frame: usize) -> &mut Slots {
        let frames = self.frames.len();
        &mut self.frames[frame % frames]
    }
}
