//! What can be wrong with a connection, a cell or a frame.

use barewire_formats::aal34::SegmentType;
use barewire_formats::atm::Vc;
use barewire_wire::Error;
use thiserror::Error as ThisError;

/// Why a VC can not be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum ConnectError {
    /// The RID or the number of the VC on its node is out of range.
    #[error("node {rid} has no VC {number}")]
    NoSuchRingVc {
        /// The node.
        rid: u8,
        /// Of the VC on the node.
        number: u16,
    },
    /// The VPI does not fit into the cells of the ATM port.
    #[error("VPI {} is more than {vpi_max}", .vc.vpi)]
    NoSuchAtmVc {
        /// The one asked for.
        vc: Vc,
        /// 255 at a UNI, 4095 at an NNI.
        vpi_max: u16,
    },
    /// A MID has ten bits.
    #[error("MID {mid} is more than 1023")]
    NoSuchMid {
        /// The one asked for.
        mid: u16,
    },
    /// The VC of the ATM port has a connection.
    #[error("VC {}/{} of the ATM port is connected", .0.vpi, .0.vci)]
    AtmVcInUse(Vc),
    /// The VC of the ring has a connection.
    #[error("VC {}/{} of the ring is connected", .0.vpi, .0.vci)]
    RingVcInUse(Vc),
}

/// What is wrong with a cell from ATM, or with the message that it breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum FromAtmError {
    /// Header or SAR-PDU is wrong in itself: HEC, CRC-10, LI.
    #[error(transparent)]
    Wire(#[from] Error),
    /// There is no such connection.
    #[error("no connection for VC {}/{}", .0.vpi, .0.vci)]
    UnknownVc(Vc),
    /// The PDU is dropped: it is longer than allowed.
    #[error("VC {}/{}: a PDU of more than {bytes_max} bytes", .vc.vpi, .vc.vci)]
    TooLong {
        /// Of the ATM port.
        vc: Vc,
        /// For each PDU.
        bytes_max: usize,
    },
    /// The PDU is dropped: there is no more room for those under way.
    #[error("VC {}/{}: PDUs of {bytes_max} bytes are under way", .vc.vpi, .vc.vci)]
    BuffersFull {
        /// Of the ATM port.
        vc: Vc,
        /// For all PDUs.
        bytes_max: usize,
    },
    /// The message is dropped: a cell is missing, doubled or in the wrong place.
    #[error("VC {}/{} MID {mid}: sequence number {found}, not {expected}", .vc.vpi, .vc.vci)]
    Sequence {
        /// Of the ATM port.
        vc: Vc,
        /// Of the message.
        mid: u16,
        /// The number that is due.
        expected: u8,
        /// The number in the cell.
        found: u8,
    },
    /// A message goes on or ends that has not begun, or was dropped.
    #[error("VC {}/{} MID {mid}: {} without a BOM", .vc.vpi, .vc.vci, .segment.name())]
    NotBegun {
        /// Of the ATM port.
        vc: Vc,
        /// Of the message.
        mid: u16,
        /// COM or EOM.
        segment: SegmentType,
    },
    /// The message before is dropped: it did not end before this one began.
    #[error("VC {}/{} MID {mid}: {} before the EOM", .vc.vpi, .vc.vci, .segment.name())]
    NotEnded {
        /// Of the ATM port.
        vc: Vc,
        /// Of both messages.
        mid: u16,
        /// BOM or SSM.
        segment: SegmentType,
    },
    /// The sender gave the message up.
    #[error("VC {}/{} MID {mid}: aborted", .vc.vpi, .vc.vci)]
    Aborted {
        /// Of the ATM port.
        vc: Vc,
        /// Of the message.
        mid: u16,
    },
    /// The message is dropped: a CPCS-PDU has whole words of 4 bytes.
    #[error("VC {}/{} MID {mid}: a CPCS-PDU of {pdu_bytes} bytes", .vc.vpi, .vc.vci)]
    BrokenWord {
        /// Of the ATM port.
        vc: Vc,
        /// Of the message.
        mid: u16,
        /// What its segments add up to.
        pdu_bytes: usize,
    },
}

/// What is wrong with a frame from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum FromRingError {
    /// The frame is wrong in itself.
    #[error(transparent)]
    Wire(#[from] Error),
    /// A control frame, or one that is addressed to a node.
    #[error("not a frame on a VC")]
    NotOnVc,
    /// There is no such connection.
    #[error("no connection for VC {}/{} of the ring", .0.vpi, .0.vci)]
    UnknownVc(Vc),
    /// The PDU does not make cells: AAL5 and cells have whole pieces of 48 bytes, AAL3/4 whole
    /// words and at least header and trailer, anything else than user data one cell.
    #[error("VC {}/{} of the ring: a PDU of {pdu_bytes} bytes makes no cells", .vc.vpi, .vc.vci)]
    PduLength {
        /// Of the ring.
        vc: Vc,
        /// Length of the PDU.
        pdu_bytes: usize,
    },
}
