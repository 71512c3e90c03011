//! What the kinds of rings have in common: what they want, what they carry, their tables.

use barewire_models::workbench::Frame;
use barewire_units::Instant;

use crate::error::SystemError;
use crate::experiment::Table;
use crate::workbench::path::StepId;

/// What a ring wants, or has done.
#[derive(Clone, Copy, Debug)]
pub(in crate::network) enum Out {
    /// It wants to be told when it is `at`. Within an instant, the lower `order` goes first.
    At { at: Instant, code: u64, order: u16 },
    /// The frame that a station was offered has left: the station takes another.
    Left { station: usize, step: StepId },
    /// A frame has come to a station, now.
    Came {
        station: usize,
        frame: Frame,
        step: StepId,
    },
    /// A frame was lost on the ring.
    Lost { frame: Frame },
}

/// A frame on its way on a ring, with the step that began when it was offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub frame: Frame,
    pub step: StepId,
}

/// The tables of rings.
pub(in crate::network) struct RingTables {
    pub slotted: Table,
    pub token: Table,
    pub cells: Table,
    pub messages: Table,
}

impl RingTables {
    pub(in crate::network) fn new() -> Self {
        Self {
            slotted: Table::named("slotted rings"),
            token: Table::named("token rings"),
            cells: Table::named("loads of cells"),
            messages: Table::named("loads of messages"),
        }
    }
}

pub(super) fn refused(error: impl std::fmt::Display) -> SystemError {
    SystemError::Contradiction(error.to_string())
}
