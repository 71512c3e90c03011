//! Frames as they are on a link, for captures: true headers over a payload of zeros, as the
//! models carry none.
//!
//! ```text
//! Ethernet  6 destination 02:00:00:00:hh:hh | 6 source | 2 type 0800
//! IPv4      20 bytes, from 10.c.h.h to 10.c.h.h; c is the class of host: 0 sources, 1 builders
//! TCP       20 bytes and the 12 of timestamps (their value is 0); window not scaled, 65535 at most
//! UDP       8 bytes, no checksum; then the event builder's header, see below
//! ```
//!
//! The header of the event builder, big-endian: run 4, event 8, source 2, sequence 4, offset 4,
//! bytes of the fragment 4, of the piece 2; zeros up to its length in the parameters.
//! Source: RFC 791, RFC 9293, RFC 7323, RFC 768; the last header is ours.

use barewire_wire::checksum::{checksum, sum};

/// The number of the run, in every fragment.
pub(super) const RUN: u32 = 1;

/// Who sends to whom: class and number of the host, and port.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub from: (u8, u16),
    pub to: (u8, u16),
    pub from_port: u16,
    pub to_port: u16,
}

impl Ends {
    /// The other way.
    pub const fn back(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            from_port: self.to_port,
            to_port: self.from_port,
        }
    }
}

const IP_BYTES: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const FLAG_PUSH: u8 = 0x08;
const FLAG_ACK: u8 = 0x10;

fn address((class, host): (u8, u16)) -> [u8; 4] {
    let [high, low] = host.to_be_bytes();
    [10, class, high, low]
}

/// Ethernet in front of `packet`, which is one of IPv4.
pub fn packet(ends: &Ends, packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(14 + packet.len());
    for address in [ends.to, ends.from].map(address) {
        bytes.extend([2, 0]);
        bytes.extend(address);
    }
    bytes.extend([8, 0]);
    bytes.extend(packet);
    bytes
}

/// Ethernet and IPv4 in front of `transport`.
fn frame(ends: &Ends, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let (from, to) = (address(ends.from), address(ends.to));
    let mut bytes = Vec::with_capacity(14 + IP_BYTES + transport.len());
    bytes.extend(packet(ends, &[]));
    let total = u16::try_from(IP_BYTES + transport.len()).unwrap_or(u16::MAX);
    let [high, low] = total.to_be_bytes();
    let mut header = [
        0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    header[12..16].copy_from_slice(&from);
    header[16..20].copy_from_slice(&to);
    let check = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&check);
    bytes.extend(header);
    bytes.extend(transport);
    bytes
}

/// A TCP segment with `len` zeros; with an acknowledgement and window.
pub fn tcp(ends: &Ends, seq: u64, ack: u64, window: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + len as usize);
    bytes.extend(ends.from_port.to_be_bytes());
    bytes.extend(ends.to_port.to_be_bytes());
    // Sequence numbers of 32 bits: they wrap.
    bytes.extend((seq as u32).to_be_bytes());
    bytes.extend((ack as u32).to_be_bytes());
    let push = if len > 0 { FLAG_PUSH } else { 0 };
    let window = u16::try_from(window).unwrap_or(u16::MAX);
    bytes.extend([0x80, FLAG_ACK | push]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.resize(32 + len as usize, 0);
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let mut pseudo = Vec::with_capacity(12);
    pseudo.extend(address(ends.from));
    pseudo.extend(address(ends.to));
    pseudo.extend([0, PROTOCOL_TCP]);
    pseudo.extend(length.to_be_bytes());
    let check = sum(&pseudo).combine(sum(&bytes)).checksum().to_be_bytes();
    bytes[16..18].copy_from_slice(&check);
    frame(ends, PROTOCOL_TCP, &bytes)
}

/// What the event builder says of a piece of a fragment.
#[derive(Clone, Copy, Debug)]
pub struct PieceHeader {
    pub event: u64,
    pub source: u16,
    pub sequence: u64,
    pub offset: u64,
    pub fragment_bytes: u64,
    pub bytes: u64,
}

/// A datagram with a piece of a fragment, of zeros.
pub fn datagram(ends: &Ends, header_bytes: u64, piece: &PieceHeader) -> Vec<u8> {
    let header_end = 8 + header_bytes as usize;
    let length = header_end + piece.bytes as usize;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(ends.from_port.to_be_bytes());
    bytes.extend(ends.to_port.to_be_bytes());
    bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(RUN.to_be_bytes());
    bytes.extend(piece.event.to_be_bytes());
    bytes.extend(piece.source.to_be_bytes());
    bytes.extend((piece.sequence as u32).to_be_bytes());
    bytes.extend((piece.offset as u32).to_be_bytes());
    bytes.extend((piece.fragment_bytes as u32).to_be_bytes());
    bytes.extend((piece.bytes as u16).to_be_bytes());
    bytes.resize(length, 0);
    frame(ends, PROTOCOL_UDP, &bytes)
}
