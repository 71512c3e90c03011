//! What the unit is built for, and what it does with a VC.

use barewire_formats::atm::{Interface, Vc};
use barewire_formats::jetstream::{PDU_BYTES_MAX, RID_MASTER};
use barewire_units::Duration;

/// What the unit is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Of the ATM port.
    pub interface: Interface,
    /// SRC_RID of the frames that it puts on the ring.
    pub rid: u8,
    /// Longest PDU from ATM to ring.
    pub pdu_bytes_max: usize,
    /// All PDUs that are under way from ATM to ring.
    pub buffer_bytes_max: usize,
    /// A PDU may rest this long between two cells.
    pub idle_max: Duration,
}

impl Config {
    /// Port of the switch, RID 0, with the longest PDUs and room for 16 of them (open: ours).
    #[must_use]
    pub fn new(interface: Interface) -> Self {
        Self {
            interface,
            rid: RID_MASTER,
            pdu_bytes_max: PDU_BYTES_MAX,
            buffer_bytes_max: 16 * PDU_BYTES_MAX,
            idle_max: Duration::from_ms(100),
        }
    }
}

/// What is done with the PDUs of a VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// Nothing: cells are frames.
    Cells,
    /// AAL5: PDUs are frames.
    Aal5,
    /// AAL3/4: CPCS-PDUs are frames.
    Aal34 {
        /// MID of the cells to ATM, 0..=1023. From ATM any MIDs may be interleaved.
        mid: u16,
    },
}

/// One connection through the unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) ring_vc: Vc,
    pub(super) adaptation: Adaptation,
    /// SN of the next cell to ATM.
    pub(super) sequence: u8,
}
