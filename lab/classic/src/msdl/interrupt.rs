//! When a cell interrupts the processor: the condition that a station keeps per VCI.
//!
//! Source: cbn91, station interface.

use barewire_formats::cbn::Msdl;

/// The cells of a circuit that raise an interrupt; the others wait for one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterruptOn {
    /// The last cell of a block only.
    EndOfBlock,
    /// The first cell of a block only.
    StartOfBlock,
    /// The first and the last.
    StartAndEnd,
    /// Every cell.
    EveryCell,
}

impl InterruptOn {
    /// True if a cell with these fields interrupts.
    #[must_use]
    pub const fn matches(self, msdl: Msdl) -> bool {
        let end = msdl.sequence == 1;
        match self {
            Self::EndOfBlock => end,
            Self::StartOfBlock => msdl.start,
            Self::StartAndEnd => msdl.start || end,
            Self::EveryCell => true,
        }
    }
}
