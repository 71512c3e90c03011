//! Jetstream: AAL PDUs of any length, one B-ISDN header each, on a token ring.
//!
//! A frame is a run of 16-bit words on the link ([`link`]); each station passes it
//! through an elastic buffer ([`fifo`]). Bits are counted from the start of the frame.
//!
//! ```text
//! | bits   | field    | meaning                                                        |
//! |--------|----------|----------------------------------------------------------------|
//! | 0      | CRC      | the sending host asks for the AAL5 CRC-32 at the end of the PDU |
//! | 1      | MONITOR  | the master has seen this frame pass                            |
//! | 2..4   | ADDRTYPE | 0 RID, 1 VC, 2 control frame, 3 reserved                       |
//! | 4..8   | CONTROL  | control frame: 1 RING_UP, 2 token; otherwise zero              |
//! | 8..12  | zero     |                                                                |
//! | 12..16 | DST_RID  | receiver in RID mode                                           |
//! | 16..20 | zero     |                                                                |
//! | 20..24 | SRC_RID  | sender, who takes the frame off the ring                       |
//!
//! data frame (RID, VC): 3 + 5 = 8 bytes, so that the PDU begins on a 32-bit word
//! | 24..64 | B-ISDN header, UNI; user bit (AUU) 1: one «cell» per PDU           |
//! | 64..   | AAL PDU: a multiple of 4 bytes, at most 65 568 (AAL5 of 65 535)    |
//! A cell of 53 bytes behind the header is a legal frame of 56, with the AUU it has.
//!
//! control frame: 8 bytes, four words, as many as the elastic buffer waits for
//! | 24..32 | RING_UP: HOP_COUNT, nodes passed so far; token: zero               |
//! | 32..64 | complement of bits 0..32: no CRC covers them                       |
//! ```
//!
//! Big-endian. Source: jet93. The figure with the layout of the header is missing
//! there (open): the positions above, the control frames and their codes are ours.
//!
//! The ring identifier is part of the VC identifier, so that a VC is unique on its
//! ring, and the table of active VCs has 2¹⁵ entries. Which bits is open; ours:
//!
//! ```text
//! | VPI | VCI 15 | VCI 14..11 | VCI 10..0           |
//! | 0   | 0      | RID        | number on that node |
//! ```

use crate::aal5;
use crate::atm::{self, Vc};

mod describe;
pub mod fifo;
mod frame;
mod header;
pub mod link;
#[cfg(test)]
mod tests;

pub use describe::describe;
pub use frame::{Frame, FrameRepr, Kind};
pub use header::{AddrType, Header, HeaderRepr};

const FORMAT: &str = "jetstream";
const FIELD_ADDR_TYPE: &str = "ADDRTYPE";
const FIELD_CONTROL: &str = "CONTROL";

/// Bytes of the Jetstream header.
pub const HEADER_BYTES: usize = 3;
/// Bytes in front of the PDU: Jetstream header and B-ISDN header.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + atm::HEADER_BYTES;
/// Bytes of a RING_UP or token frame: four words of the link.
pub const CONTROL_BYTES: usize = 8;
/// Bytes of a frame that carries one ATM cell.
pub const CELL_FRAME_BYTES: usize = HEADER_BYTES + atm::CELL_BYTES;
/// Longest PDU: AAL5 with 65 535 bytes of payload.
pub const PDU_BYTES_MAX: usize = aal5::PDU_BYTES_MAX;
/// Longest frame.
pub const FRAME_BYTES_MAX: usize = OVERHEAD_BYTES + PDU_BYTES_MAX;
/// PDUs are whole words of the internal path, 32 bits (open: ours).
pub const PDU_WORD_BYTES: usize = 4;
/// Largest ring identifier: 16 nodes.
pub const RID_MAX: u8 = 15;
/// Ring identifier of the master (open: ours).
pub const RID_MASTER: u8 = 0;
/// Hosts on a ring, without the master.
pub const HOSTS_MAX: u8 = RID_MAX;
/// Entries of the table of active VCs.
pub const VC_SPACE: usize = 1 << 15;
/// VCs that belong to one node.
pub const VCS_PER_NODE: u16 = 1 << 11;
/// Bit rate of the ring: 16 bits at 60 MHz.
pub const RATE_BPS: u64 = 960_000_000;

const _: () = {
    assert!(OVERHEAD_BYTES % PDU_WORD_BYTES == 0);
    assert!(CELL_FRAME_BYTES % PDU_WORD_BYTES == 0);
    assert!(FRAME_BYTES_MAX == 65_576);
    assert!(PDU_BYTES_MAX % PDU_WORD_BYTES == 0);
    assert!(VCS_PER_NODE as usize * (RID_MAX as usize + 1) == VC_SPACE);
};

/// Entry of a VC in the table of active VCs; `None` outside the 15-bit space.
#[must_use]
pub const fn vc_index(vc: Vc) -> Option<usize> {
    if vc.vpi == 0 && (vc.vci as usize) < VC_SPACE {
        Some(vc.vci as usize)
    } else {
        None
    }
}

/// The `number`-th VC of node `rid`; `None` if either is out of range.
#[must_use]
pub const fn node_vc(rid: u8, number: u16) -> Option<Vc> {
    if rid > RID_MAX || number >= VCS_PER_NODE {
        return None;
    }
    let vci = rid as u16 * VCS_PER_NODE + number;
    Some(Vc { vpi: 0, vci })
}

/// The node that a VC belongs to; `None` outside the 15-bit space.
#[must_use]
pub const fn vc_rid(vc: Vc) -> Option<u8> {
    match vc_index(vc) {
        Some(index) => Some((index / VCS_PER_NODE as usize) as u8),
        None => None,
    }
}
