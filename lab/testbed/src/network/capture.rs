//! What goes over links, as Wireshark reads it.
//!
//! A packet of TCP that goes in one frame is an Ethernet frame with an IPv4 packet, to the last
//! bit; addresses of hosts are `02:00:00:00:` and the host's number, 10.0.0.1 being host 0.
//! Everything else is as the workbench records it: cells as ATM cells, other frames with the type
//! that IEEE keeps for local experiments. Bytes of TCP packets that are cut stand in the cells, but
//! not in such frames.

use barewire_models::workbench::{Frame, Framing};
use barewire_units::Instant;
use barewire_wire::capture::LinkType;

use crate::experiment::LinkCapture;
use crate::workbench::capture;

/// Source: RFC 894.
const IPV4: [u8; 2] = 0x0800_u16.to_be_bytes();
/// Two addresses and a type.
const ETHERNET_BYTES: usize = 14;
/// The pseudo-header of a record, and the header of a cell less its HEC.
const CELL_BODY_AT: usize = 20;

/// An empty capture of a link that carries frames of this kind.
pub(super) fn of_link(name: &str, framing: &Framing, packets: usize) -> LinkCapture {
    LinkCapture::new(name, capture::link_type(framing), packets)
}

/// The bytes of `frame`; `packet` are those of its message, if that is one of TCP.
pub(super) fn bytes(
    framing: &Framing,
    frame: &Frame,
    packet: Option<&[u8]>,
    at: Instant,
) -> Vec<u8> {
    let mut bytes = capture::bytes(framing, frame, at);
    let Some(packet) = packet else {
        return bytes;
    };
    let from = (frame.piece.offset + frame.offset) as usize;
    let part = packet.get(from..from + frame.bytes as usize);
    let part = part.unwrap_or_default();
    if capture::link_type(framing) == LinkType::ERF {
        if let Some(body) = bytes.get_mut(CELL_BODY_AT..CELL_BODY_AT + part.len()) {
            body.copy_from_slice(part);
        }
    } else if part.len() == packet.len() {
        bytes[ETHERNET_BYTES - 2..ETHERNET_BYTES].copy_from_slice(&IPV4);
        bytes.truncate(ETHERNET_BYTES);
        bytes.extend(packet);
        let least = ETHERNET_BYTES + framing.least_bytes as usize;
        bytes.resize(bytes.len().max(least), 0);
    }
    bytes
}
