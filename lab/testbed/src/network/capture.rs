//! What goes over links, as Wireshark reads it.
//!
//! A packet of TCP that goes in one frame is an Ethernet frame with an IPv4 packet, to the last
//! bit; addresses of hosts are `02:00:00:00:` and the host's number, 10.0.0.1 being host 0. The
//! other cards of a host with several have numbers behind those of the hosts; what a frame is for
//! is the host at the end of the way, also where another passes it on.
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

/// A host has passed a packet on: its time to live is one less, and its header's checksum says so.
/// Layout: RFC 791, RFC 1624.
///
/// ```text
/// | bytes | field                                    |
/// |  8    | time to live                             |
/// |  9    | protocol                                 |
/// | 10..12| checksum of the header, big-endian       |
/// ```
pub(super) fn one_hop(packet: &mut [u8]) {
    let Some([time_to_live, protocol, high, low]) = packet.get_mut(8..12) else {
        return;
    };
    let before = u16::from_be_bytes([*time_to_live, *protocol]);
    *time_to_live = time_to_live.saturating_sub(1);
    let after = u16::from_be_bytes([*time_to_live, *protocol]);
    let sum = !u16::from_be_bytes([*high, *low]);
    let sum = [!before, after].iter().fold(u32::from(sum), |sum, &word| {
        let sum = sum + u32::from(word);
        (sum & 0xffff) + (sum >> 16)
    });
    [*high, *low] = (!(sum as u16)).to_be_bytes();
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
