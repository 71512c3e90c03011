//! One slot of a frame: what its flags say, what may happen to it, and the verdict of the
//! receivers in R and Q; and what a station asks of a frame, be it bytes or a model's.

use barewire_formats::cbn::{CELL_BYTES, Frame, HEADER, SLOTS};
use barewire_units::transitions;

use super::{TYPE_CELL, TYPE_VOID};

/// What F, M and T of a slot say. Any F = 0 is [`SlotState::Empty`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Whoever waits may fill it.
    Empty,
    /// A cell that has not passed the monitor.
    Fresh,
    /// A cell that has passed the monitor once.
    Passed,
    /// Damaged: not to be read, not to be filled.
    Void,
    /// Damaged, and has passed the monitor since.
    VoidPassed,
}

/// What can happen to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotEvent {
    /// A station puts a cell into it.
    Fill,
    /// It passes the monitor.
    PassMonitor,
    /// Its sender has it back.
    Release,
    /// It stands in a frame whose header or CRC is wrong.
    Damage,
}

transitions! {
    SlotState on SlotEvent {
        Empty + Fill => Fresh,
        Empty + Damage => Void,
        Fresh + PassMonitor => Passed,
        Fresh + Release => Empty,
        Fresh + Damage => Void,
        Passed + PassMonitor => Empty,
        Passed + Release => Empty,
        Passed + Damage => Void,
        Void + PassMonitor => VoidPassed,
        Void + Release => Empty,
        Void + Damage => Void,
        VoidPassed + PassMonitor => Empty,
        VoidPassed + Release => Empty,
        VoidPassed + Damage => Void,
    }
}

impl SlotState {
    /// What the flags of `slot` (below four) say.
    #[must_use]
    pub fn read<T: AsRef<[u8]>>(frame: &Frame<T>, slot: usize) -> Self {
        let void = frame.slot_type(slot) == TYPE_VOID;
        match (frame.full(slot), void, frame.monitor_passed(slot)) {
            (false, _, _) => Self::Empty,
            (true, false, false) => Self::Fresh,
            (true, false, true) => Self::Passed,
            (true, true, false) => Self::Void,
            (true, true, true) => Self::VoidPassed,
        }
    }

    /// True where a receiver may look at the cell.
    #[must_use]
    pub const fn is_cell(self) -> bool {
        matches!(self, Self::Fresh | Self::Passed)
    }

    fn write<T: AsRef<[u8]> + AsMut<[u8]>>(self, frame: &mut Frame<T>, slot: usize) {
        let passed = matches!(self, Self::Passed | Self::VoidPassed);
        let void = matches!(self, Self::Void | Self::VoidPassed);
        frame.set_full(slot, self != Self::Empty);
        frame.set_monitor_passed(slot, passed);
        frame.set_slot_type(slot, if void { TYPE_VOID } else { TYPE_CELL });
    }
}

/// Lets `event` happen to `slot`, and returns the state after it. A slot that leaves `Empty`
/// or comes back to it, or is declared void, loses its cell, R and Q.
pub(super) fn apply<T: AsRef<[u8]> + AsMut<[u8]>>(
    frame: &mut Frame<T>,
    slot: usize,
    event: SlotEvent,
) -> SlotState {
    let before = SlotState::read(frame, slot);
    let after = before.on(event).unwrap_or(before);
    after.write(frame, slot);
    if after == SlotState::Empty || event == SlotEvent::Damage {
        *frame.slot_mut(slot) = [0; CELL_BYTES];
        Verdict::Nobody.write(frame, slot);
    }
    after
}

/// Checks header and CRC of an arriving frame. A damaged one becomes a frame of void slots
/// with a good header; returns whether it was sound.
pub(super) fn admit<T: AsRef<[u8]> + AsMut<[u8]>>(frame: &mut Frame<T>) -> bool {
    let sound = frame.header() == HEADER && frame.crc_ok();
    if !sound {
        frame.set_header(HEADER);
        for slot in 0..SLOTS {
            apply(frame, slot, SlotEvent::Damage);
        }
    }
    sound
}

/// What R and Q say when the slot is back at its sender. OPEN in the source.
///
/// A receiver that copies the cell sets R, one that listens but can not copy sets Q; nobody
/// clears them. So with one receiver the sender learns what became of its cell, and with
/// several whether all of them have it.
///
/// | R | Q | one receiver | a multicast circuit |
/// |---|---|---|---|
/// | 0 | 0 | nobody listens | nobody listens |
/// | 1 | 0 | accepted | accepted by all who listen |
/// | 0 | 1 | refused: busy | refused by all who listen |
/// | 1 | 1 | | marked: accepted by some, refused by others |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody listens to this VCI on this channel.
    Nobody,
    /// Everyone who listens has it.
    Accepted,
    /// Nobody who listens could take it.
    Refused,
    /// Some have it, some could not take it.
    Marked,
}

impl Verdict {
    /// What R and Q of `slot` say.
    #[must_use]
    pub fn read<T: AsRef<[u8]>>(frame: &Frame<T>, slot: usize) -> Self {
        match (frame.response(slot), frame.qualifier(slot)) {
            (false, false) => Self::Nobody,
            (true, false) => Self::Accepted,
            (false, true) => Self::Refused,
            (true, true) => Self::Marked,
        }
    }

    /// The verdict when one more receiver has accepted or refused.
    #[must_use]
    pub const fn and(self, accepted: bool) -> Self {
        match (self, accepted) {
            (Self::Nobody | Self::Accepted, true) => Self::Accepted,
            (Self::Nobody | Self::Refused, false) => Self::Refused,
            _ => Self::Marked,
        }
    }

    fn write<T: AsRef<[u8]> + AsMut<[u8]>>(self, frame: &mut Frame<T>, slot: usize) {
        frame.set_response(slot, matches!(self, Self::Accepted | Self::Marked));
        frame.set_qualifier(slot, matches!(self, Self::Refused | Self::Marked));
    }
}

/// A cell as the ring sees it: its first word, which begins with the VCI.
pub trait Cell: Clone {
    /// The first 32 bits.
    fn first_word(&self) -> u32;
}

impl Cell for [u8; CELL_BYTES] {
    fn first_word(&self) -> u32 {
        u32::from_be_bytes([self[0], self[1], self[2], self[3]])
    }
}

/// A frame as a station meets it: the bits of a [`Frame`], or whatever a model has for them.
/// Slots are below four.
pub trait SlottedFrame {
    /// What a slot carries.
    type Cell: Cell;

    /// Checks a frame that arrives and declares all slots of a damaged one void; returns
    /// whether it was sound.
    fn admit(&mut self) -> bool;

    /// The station is done with the frame.
    fn seal(&mut self);

    /// The state of `slot`.
    fn state(&self, slot: usize) -> SlotState;

    /// Puts a cell into an empty slot.
    fn fill(&mut self, slot: usize, cell: Self::Cell);

    /// Empties a slot.
    fn empty(&mut self, slot: usize);

    /// The cell in `slot`, if a receiver may look at one there: [`SlotState::is_cell`].
    fn cell(&self, slot: usize) -> Option<&Self::Cell>;

    /// What receivers have said of the cell in `slot`.
    fn verdict(&self, slot: usize) -> Verdict;

    /// Says it.
    fn set_verdict(&mut self, slot: usize, verdict: Verdict);
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> SlottedFrame for Frame<T> {
    type Cell = [u8; CELL_BYTES];

    fn admit(&mut self) -> bool {
        admit(self)
    }

    fn seal(&mut self) {
        self.fill_crc();
    }

    fn state(&self, slot: usize) -> SlotState {
        SlotState::read(self, slot)
    }

    fn fill(&mut self, slot: usize, cell: Self::Cell) {
        apply(self, slot, SlotEvent::Fill);
        *self.slot_mut(slot) = cell;
        Verdict::Nobody.write(self, slot);
    }

    fn empty(&mut self, slot: usize) {
        apply(self, slot, SlotEvent::Release);
    }

    fn cell(&self, slot: usize) -> Option<&Self::Cell> {
        let is_cell = SlotState::read(self, slot).is_cell();
        is_cell.then(|| self.slot(slot))
    }

    fn verdict(&self, slot: usize) -> Verdict {
        Verdict::read(self, slot)
    }

    fn set_verdict(&mut self, slot: usize, verdict: Verdict) {
        verdict.write(self, slot);
    }
}
