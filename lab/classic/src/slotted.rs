//! The slotted ring of the Cambridge Backbone: a station's medium access and the monitor.
//!
//! A constant number of frames circulates. Each has four slots, one for each of the four
//! time-division channels, and a slot is empty or carries one cell. A frame passes every
//! node once a rotation; [`Station::handle_frame`] and [`Monitor::handle_frame`] are that
//! passage. Time is counted in frames; only a silent ring is found by the clock.
//!
//! | rule | here |
//! |---|---|
//! | order | a station first empties its own slots, then receives, then transmits |
//! | F/E | a station fills only an empty slot of a sound frame |
//! | source release | the sender empties its slot one rotation later. It knows the slot by its place: the frames are counted, modulo their number |
//! | fairness | a slot that a station has just emptied passes it empty, so the next station downstream that waits has it |
//! | channels | a station receives on one; it sends on the one that the receiver listens to, in at most `channels_at_once` slots of a frame |
//! | M | cleared by the sender, set by the monitor. A full slot that arrives at the monitor with M set has passed its sender, who is gone: the monitor empties it |
//! | duplex | a half-duplex station that receives in a frame does not transmit in it |
//! | R, Q | written by receivers, read by the sender: [`Verdict`] |
//! | T | zero: a cell. One: void, see below |
//! | CRC | checked on arrival, always written fresh |
//!
//! **A damaged frame.** The fresh CRC would make damage look sound to everyone downstream,
//! so the node that finds it, and only that node, counts it, and declares all four slots
//! void: full, T set, M cleared. Nobody reads a void slot and nobody fills it. Its sender,
//! if it has one, releases it by its place and learns [`Loss::Damaged`]; a slot that was
//! empty, or whose sender is gone, is emptied by the monitor. So a place is never filled
//! while its sender still waits for it, whatever the damage: what a sender releases is its
//! own. The cell may have been received before the damage; who sends again may duplicate.
//!
//! **Theorem.** A full slot is emptied less than two rotations after it was filled or
//! declared void, if the monitor is there, and after exactly one if its sender lives:
//! the monitor meets it within one rotation and sets M, and again one rotation later.
//! A station that dies changes nothing else: its node is bypassed, its slots go round.
//!
//! **Waiting.** On a channel that `n` stations want, a slot goes from one waiting station to
//! the next, one rotation each, and once round the ring for the way. A cell is therefore in
//! a slot within `n + 1` rotations after it became the first of its queue; within
//! `(n + 1) * (1 + 3 / channels_at_once)`, the quotient rounded down, where the station's own
//! queues compete for its slots of a frame, because the queue served longest ago goes first.
//! The same rule bounds use: `n` senders fill `n / (n + 1)` of a channel, one sender a half.
//! A half-duplex station waits while it receives. `n` stations that send to it all the time
//! leave it one frame in `n + 1`: the one whose slot has just been emptied by the sender before
//! it. (Void slots and orphans come on top, two rotations each.)
//!
//! **Order and duplicates.** Frames do not overtake and a queue is sent in order, so cells
//! of one circuit arrive in the order of [`Station::send`]. A slot whose sender died passes
//! a receiver twice: the receiver remembers what it copied from each place one rotation ago
//! and does not copy the same word again from a slot that says it was accepted.
//!
//! The ring looks only at the VCI, the first 16 bits of a cell. A Cambridge Fast Ring cell
//! has its destination there and passes like any other.
//!
//! The station knows a frame as [`SlottedFrame`]: the bytes of a [`barewire_formats::cbn::Frame`], or
//! the whole cells of a model, whose bodies may have other sizes.
//!
//! A slot, as its flags tell ([`SlotState`]):
//!
//! | state | F M T | `Fill` | `PassMonitor` | `Release` | `Damage` |
//! |---|---|---|---|---|---|
//! | `Empty` | 0 0 0 | `Fresh` | | | `Void` |
//! | `Fresh` | 1 0 0 | | `Passed` | `Empty` | `Void` |
//! | `Passed` | 1 1 0 | | `Empty` | `Empty` | `Void` |
//! | `Void` | 1 0 1 | | `VoidPassed` | `Empty` | `Void` |
//! | `VoidPassed` | 1 1 1 | | `Empty` | `Empty` | `Void` |
//!
//! Source: cbn91 for the frame, source release and the duties of a station. OPEN there, and
//! chosen here: what T, R and Q mean, that receiving comes first, the fairness rule, the void slot, the recognition by
//! place, all time-outs.

mod monitor;
mod slot;
mod station;
#[cfg(test)]
mod tests;

pub use monitor::{Monitor, MonitorStats};
pub use slot::{Cell, SlotEvent, SlotState, SlottedFrame, Verdict};
pub use station::{
    Config, ConfigError, Duplex, Loss, Outcome, Passage, Report, SendError, Station, StationStats,
    Ticket,
};

use barewire_units::Duration;

/// Frames on the measured ring.
pub const FRAMES: usize = 7;
/// Rotation time of the measured ring.
pub const ROTATION: Duration = Duration::from_ns(22_700);
/// Cells in each FIFO of the V1S station.
pub const FIFO_CELLS: usize = 256;
/// T of a slot that holds a cell. OPEN in the source.
pub const TYPE_CELL: bool = false;
/// T of a slot that holds nothing readable and may not be filled. OPEN in the source.
pub const TYPE_VOID: bool = true;

/// One of the four time-division channels: the slot of that number in each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(u8);

impl Channel {
    /// All four, in the order of the line.
    pub const ALL: [Self; barewire_formats::cbn::SLOTS] = [Self(0), Self(1), Self(2), Self(3)];

    /// The channel with this number, or `None` above 3.
    #[must_use]
    pub const fn new(number: usize) -> Option<Self> {
        if number < Self::ALL.len() {
            Some(Self::ALL[number])
        } else {
            None
        }
    }

    /// Its number, which is that of its slot.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
