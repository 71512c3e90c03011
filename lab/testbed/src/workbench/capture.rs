//! What goes over the links, as Wireshark reads it.
//!
//! Cells with 48 bytes are ATM cells, on a circuit with the number of the sender; every
//! other frame is an Ethernet frame with the type that IEEE keeps for local experiments. The
//! model carries no bytes of messages: they are zero, but for the first 16 of each Ethernet
//! frame, which say what it is a part of:
//!
//! ```text
//! | bytes  | field                                    |
//! |  0..4  | message                                  |
//! |  4..12 | where in the message its bytes begin     |
//! | 12..16 | how many there are                       |
//! ```

use barewire_formats::atm::{HeaderRepr, Interface, PayloadType, Vc};
use barewire_models::workbench::{Frame, Framing};
use barewire_units::Instant;
use barewire_wire::capture::LinkType;
use barewire_wire::capture::erf::{Kind, RecordRepr};

/// For local experiments. Source: ieee-802.
const ETHERTYPE: u16 = 0x88b5;
const CELL_BODY_BYTES: u64 = 48;

/// Whether its frames are ATM cells.
const fn is_atm(framing: &Framing) -> bool {
    framing.payload_bytes == CELL_BODY_BYTES && framing.least_bytes == CELL_BODY_BYTES
}

pub(crate) const fn link_type(framing: &Framing) -> LinkType {
    if is_atm(framing) {
        LinkType::ERF
    } else {
        LinkType::ETHERNET
    }
}

/// The bytes of `frame`, with the pseudo-header of its link type.
pub(crate) fn bytes(framing: &Framing, frame: &Frame, at: Instant) -> Vec<u8> {
    if is_atm(framing) {
        cell(frame, at)
    } else {
        ethernet(framing, frame)
    }
}

fn cell(frame: &Frame, at: Instant) -> Vec<u8> {
    let payload_type = if frame.last {
        PayloadType::USER_END
    } else {
        PayloadType::USER
    };
    let header = HeaderRepr {
        gfc: 0,
        vc: Vc {
            vpi: 0,
            // The first 32 are reserved.
            vci: frame.piece.from.saturating_add(32),
        },
        payload_type,
        loss_priority: false,
    };
    let record = RecordRepr {
        time_ns: at.since_origin().as_ns(),
        kind: Kind::Cell,
        interface: 0,
        payload_bytes: 4 + CELL_BODY_BYTES as u16,
        wire_bytes: 4 + CELL_BODY_BYTES as u16,
    };
    let mut bytes = record.to_bytes().to_vec();
    bytes.extend(header.to_word(Interface::Uni).to_be_bytes());
    bytes.resize(bytes.len() + CELL_BODY_BYTES as usize, 0);
    bytes
}

fn ethernet(framing: &Framing, frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    for host in [frame.piece.to, frame.piece.from] {
        // Locally administered.
        bytes.extend([2, 0, 0, 0]);
        bytes.extend(host.to_be_bytes());
    }
    bytes.extend(ETHERTYPE.to_be_bytes());
    let body_at = bytes.len();
    bytes.extend(frame.piece.message.to_be_bytes());
    bytes.extend((frame.piece.offset + frame.offset).to_be_bytes());
    bytes.extend(u32::try_from(frame.bytes).unwrap_or(u32::MAX).to_be_bytes());
    let body_bytes = frame.body_bytes.max(framing.least_bytes) as usize;
    bytes.resize(body_at + body_bytes, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use barewire_models::workbench::Piece;
    use barewire_units::Rate;

    use super::*;

    fn framing(payload_bytes: u64, least_bytes: u64) -> Framing {
        Framing {
            rate: Rate::from_mbps(100),
            payload_bytes,
            least_bytes,
            overhead_bytes: 5,
            trailer_bytes: 0,
        }
    }

    const FRAME: Frame = Frame {
        piece: Piece {
            message: 7,
            from: 1,
            to: 0x203,
            offset: 1500,
            bytes: 100,
            last: true,
        },
        offset: 48,
        bytes: 20,
        body_bytes: 20,
        last: true,
    };

    #[test]
    fn a_frame_is_an_ethernet_frame() {
        let ethernet = framing(1500, 46);
        assert_eq!(link_type(&ethernet), LinkType::ETHERNET);
        let bytes = bytes(&ethernet, &FRAME, Instant::ORIGIN);
        assert_eq!(bytes.len(), 14 + 46);
        assert_eq!(
            bytes[..14],
            [2, 0, 0, 0, 2, 3, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]
        );
        assert_eq!(bytes[14..18], 7_u32.to_be_bytes());
        assert_eq!(bytes[18..26], 1548_u64.to_be_bytes());
        assert_eq!(bytes[26..30], 20_u32.to_be_bytes());
    }

    #[test]
    fn a_cell_is_an_atm_cell_without_its_hec() {
        let atm = framing(48, 48);
        assert_eq!(link_type(&atm), LinkType::ERF);
        let bytes = bytes(&atm, &FRAME, Instant::ORIGIN);
        assert_eq!(bytes.len(), 16 + 52);
        // VCI 33, user data, end of the PDU.
        assert_eq!(bytes[16..20], [0, 0, 0x02, 0x12]);
    }
}
