//! MSDL: blocks cut into cells of one virtual circuit, and put together again.
//!
//! Every cell of a block has the block's RID, so up to 64 blocks of a circuit may be under
//! way at once. The first cell has `start` and in `sequence` the number of cells; the
//! sequence counts down, 1 is the last cell. `part` in the last cell says that its last
//! byte counts the valid bytes in front of it; an empty block is one such cell with none.
//! Fields: [`barewire_formats::cbn::Msdl`]. The body of a cell has the size that the network
//! gives it ([`BodySize`]): 32 bytes on the Cambridge Backbone.
//!
//! Reassembly keeps one state for each VCI and RID:
//! ```text
//! state    cause       next      what else
//! Idle     First       Filling   a block begins
//! Idle     Only        Idle      a block of one cell, handed out
//! Idle     Broken      Spoilt    failure: no start, table full, or a bad first cell
//! Idle     BrokenLast  Idle      the same in the last cell of a block
//! Filling  Next        Filling
//! Filling  Last        Idle      the block is handed out
//! Filling  First       Filling   failure of the block before: start inside a block
//! Filling  Only        Idle      the same, and a block of one cell is handed out
//! Filling  Broken      Spoilt    failure of the block
//! Filling  BrokenLast  Idle      failure of the block in its last cell
//! Filling  Expired     Idle      failure: time-out
//! Spoilt   First       Filling   a block begins
//! Spoilt   Only        Idle      a block of one cell, handed out
//! Spoilt   Broken      Spoilt    the cell is dropped: its block has failed already
//! Spoilt   BrokenLast  Idle      the same
//! Spoilt   Expired     Idle
//! ```
//! So a block whose cells come in order fails once, however many of them follow.
//!
//! What MSDL sees: loss, repetition and exchange of cells inside a block. What it cannot
//! see, having neither block numbers nor a check code of its own:
//! * a block of which every cell is lost; a whole block that comes twice;
//! * the head of one block with the tail of a later one of the same RID and VCI, where just
//!   the cells between are lost. [`Sender`] takes the RIDs in turn, and the time-out bounds
//!   how old a head can be;
//! * bits changed in body or word that still make sense: these are the CRC-12's of the frame.
//!
//! Source: cbn91, section on MSDL. Time-out, table size and block limit are ours.

mod fragment;
mod interrupt;
mod reassemble;
#[cfg(test)]
mod tests;

pub use fragment::{FragmentError, Fragments, Sender};
pub use interrupt::InterruptOn;
pub use reassemble::{
    BlockError, Cause, Closed, Config, Event, Interleave, Reassembler, State, Stats,
};

/// Most cells of a block: the sequence has eight bits.
pub const BLOCK_CELLS_MAX: usize = 255;

/// Bytes of a cell body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodySize(usize);

impl BodySize {
    /// The Cambridge Backbone: 32 bytes.
    pub const BACKBONE: Self = Self(barewire_formats::cbn::BODY_BYTES);

    /// A body of `bytes`, if its last byte can count the others: 2 to 256.
    #[must_use]
    pub const fn new(bytes: usize) -> Option<Self> {
        match bytes {
            2..=256 => Some(Self(bytes)),
            _ => None,
        }
    }

    /// Bytes of a body.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }

    /// Bytes of the longest block: 8160 on the backbone.
    #[must_use]
    pub const fn block_bytes_max(self) -> usize {
        BLOCK_CELLS_MAX * self.0
    }

    /// Cells that a block takes, if it is not longer than [`BodySize::block_bytes_max`].
    #[must_use]
    pub const fn cells(self, block_bytes: usize) -> Option<u8> {
        match block_bytes.div_ceil(self.0) {
            0 => Some(1),
            cells @ 1..=BLOCK_CELLS_MAX => Some(cells as u8),
            _ => None,
        }
    }
}

impl Default for BodySize {
    fn default() -> Self {
        Self::BACKBONE
    }
}
