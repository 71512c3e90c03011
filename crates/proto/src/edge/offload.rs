//! Work on packets that somebody left open: checksums to complete, large TCP packets to cut. And the header in which
//! the kernel says so before each frame.
//!
//! # The kernel's header
//!
//! Source: `struct virtio_net_hdr` of `linux/virtio_net.h`, 10 bytes, in the byte order of the machine.
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 1 | flags; bit 0: the checksum is open, bit 1: it was verified |
//! | 1 | 1 | kind of segments; 0: not large, 1: TCP over IPv4, 4: TCP over IPv6; bit 7: with congestion bits |
//! | 2 | 2 | bytes of the frame's headers: a hint |
//! | 4 | 2 | bytes of payload in each segment |
//! | 6 | 2 | where the checksummed bytes begin, from the first byte of the frame |
//! | 8 | 2 | where in those the checksum lies |
//!
//! Both ways of the network may lie: what this reads fits the packet, or is an error.

use core::net::IpAddr;

use barewire_wire::checksum::{checksum, sum};

use super::message::{Checksum, PACKET_BYTES_MAX, PacketHeader, Protocol, Takes};
use super::packet::{Body, Packet, Segment, tcp_flags};

/// Bytes of the kernel's header before a frame.
pub const FRAME_HEADER_BYTES: usize = 10;
/// Bytes of the Ethernet header.
pub const ETHERNET_BYTES: usize = 14;

const OPEN: u8 = 1;
const VERIFIED: u8 = 2;
const TCP_4: u8 = 1;
const TCP_6: u8 = 4;
const CONGESTION: u8 = 0x80;

/// What was left open does not fit the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what it leaves open does not fit it")]
pub struct DoesNotFit;

/// Reads the kernel's header before a frame with this packet.
///
/// # Errors
/// It does not fit the packet, or is for segments of another protocol.
pub fn from_kernel(
    header: &[u8; FRAME_HEADER_BYTES],
    packet: &Packet,
) -> Result<PacketHeader, DoesNotFit> {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let segment_bytes = match (header[1] & !CONGESTION, packet.source) {
        (0, _) => 0,
        (TCP_4, IpAddr::V4(_)) | (TCP_6, IpAddr::V6(_)) => word(4),
        _ => return Err(DoesNotFit),
    };
    let checksum = match header[0] {
        flags if flags & OPEN != 0 => {
            let start = word(6)
                .checked_sub(ETHERNET_BYTES as u16)
                .ok_or(DoesNotFit)?;
            Checksum::Open {
                start,
                offset: word(8),
            }
        }
        flags if flags & VERIFIED != 0 => Checksum::Verified,
        _ => Checksum::Present,
    };
    let header = PacketHeader {
        checksum,
        segment_bytes,
    };
    check(&header, packet).map(|()| header)
}

/// Writes the kernel's header before a frame with this packet, for a device that takes what is open.
#[must_use]
pub fn to_kernel(header: &PacketHeader, packet: &Packet) -> [u8; FRAME_HEADER_BYTES] {
    let mut bytes = [0; FRAME_HEADER_BYTES];
    let mut put = |at: usize, word: u16| bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
    let ethernet = ETHERNET_BYTES as u16;
    if let (Body::Tcp { segment, .. }, 1..) = (packet.body, header.segment_bytes) {
        put(
            2,
            ethernet + (packet.header_bytes + segment.header_bytes) as u16,
        );
        put(4, header.segment_bytes);
    }
    if let Checksum::Open { start, offset } = header.checksum {
        put(6, ethernet + start);
        put(8, offset);
        bytes[0] = OPEN;
    }
    if header.segment_bytes != 0 {
        bytes[1] = if packet.source.is_ipv4() {
            TCP_4
        } else {
            TCP_6
        };
    }
    bytes
}

/// Whether a packet can have left open what its header says.
///
/// # Errors
/// It cannot.
pub fn check(header: &PacketHeader, packet: &Packet) -> Result<(), DoesNotFit> {
    let place = checksum_place(packet);
    if let Checksum::Open { start, offset } = header.checksum {
        let (protocol_start, protocol_offset) = place.ok_or(DoesNotFit)?;
        if usize::from(start) != protocol_start || usize::from(offset) != protocol_offset {
            return Err(DoesNotFit);
        }
    }
    if header.segment_bytes == 0 {
        return Ok(());
    }
    match packet.body {
        Body::Tcp { segment, .. } if segment.flags & (tcp_flags::SYN | tcp_flags::RST) == 0 => {
            Ok(())
        }
        _ => Err(DoesNotFit),
    }
}

/// Where the checksum of TCP or UDP begins to count, and where in that it lies.
fn checksum_place(packet: &Packet) -> Option<(usize, usize)> {
    match packet.ports()?.0 {
        Protocol::Tcp => Some((packet.header_bytes, 16)),
        Protocol::Udp => Some((packet.header_bytes, 6)),
    }
}

/// How many segments a large packet makes; 1 if it is not large.
#[must_use]
pub fn segments(header: &PacketHeader, packet: &Packet) -> usize {
    match (packet.body, usize::from(header.segment_bytes)) {
        (Body::Tcp { segment, .. }, size @ 1..) => segment.payload_bytes.div_ceil(size).max(1),
        _ => 1,
    }
}

/// What has to be done with a packet before a receiver can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It can have it as it is.
    Nothing,
    /// Its checksum has to be computed.
    Checksum,
    /// It has to be cut into segments ([`write_segment`]).
    Cutting,
}

/// What has to be done with a packet before a receiver that takes this much can have it.
#[must_use]
pub fn need(header: &PacketHeader, packet: &Packet, takes: Takes) -> Need {
    let is_open = matches!(header.checksum, Checksum::Open { .. });
    match segments(header, packet) > 1 {
        true if takes.large_tcp && takes.open_checksum => Need::Nothing,
        true => Need::Cutting,
        false if is_open && !takes.open_checksum => Need::Checksum,
        false => Need::Nothing,
    }
}

/// Makes a packet such that a receiver that takes this much can have it as it is. `None`: it has to be cut
/// ([`write_segment`]). Says whether a checksum was completed.
pub fn finish(
    header: &mut PacketHeader,
    packet: &Packet,
    bytes: &mut [u8],
    takes: Takes,
) -> Option<bool> {
    let need = need(header, packet, takes);
    match need {
        Need::Cutting => return None,
        Need::Checksum => {
            complete(packet, bytes);
            header.checksum = Checksum::Present;
        }
        Need::Nothing => {}
    }
    forget_size_of_one(header, packet);
    Some(need == Need::Checksum)
}

/// A packet that is one segment needs no size of segments.
pub fn forget_size_of_one(header: &mut PacketHeader, packet: &Packet) {
    if segments(header, packet) == 1 {
        header.segment_bytes = 0;
    }
}

/// Computes the checksum of TCP or UDP in a packet, whatever is in its place.
pub fn complete(packet: &Packet, bytes: &mut [u8]) {
    let Some(((start, offset), (protocol, ..))) = checksum_place(packet).zip(packet.ports()) else {
        return;
    };
    let at = start + offset;
    bytes[at..at + 2].fill(0);
    let whole = packet
        .pseudo_sum(protocol.number())
        .combine(sum(&bytes[start..packet.total_bytes]));
    let value = match (protocol, whole.checksum()) {
        // Zero says that there is none (RFC 768).
        (Protocol::Udp, 0) => 0xffff,
        (_, value) => value,
    };
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Whether the checksum of TCP or UDP in a packet is right. UDP over IPv4 may have none.
#[must_use]
pub fn is_right(packet: &Packet, bytes: &[u8]) -> bool {
    let Some(((start, offset), (protocol, ..))) = checksum_place(packet).zip(packet.ports()) else {
        return true;
    };
    let has_none = protocol == Protocol::Udp
        && packet.source.is_ipv4()
        && bytes[start + offset..start + offset + 2] == [0; 2];
    has_none
        || packet
            .pseudo_sum(protocol.number())
            .combine(sum(&bytes[start..packet.total_bytes]))
            .is_valid()
}

/// Writes one segment of a large packet, the first being number 0, with its checksums; returns its bytes. `into` has
/// room for headers and the payload of a segment.
///
/// RFC 9293 for numbers and flags, RFC 3168 (6.1.2) for CWR, RFC 6864 for the identification.
pub fn write_segment(
    header: &PacketHeader,
    packet: &Packet,
    bytes: &[u8],
    number: usize,
    into: &mut [u8],
) -> usize {
    let Body::Tcp { segment, .. } = packet.body else {
        return 0;
    };
    let headers = packet.header_bytes + segment.header_bytes;
    let size = usize::from(header.segment_bytes);
    let from = number * size;
    let payload = size.min(segment.payload_bytes.saturating_sub(from));
    let is_last = from + payload == segment.payload_bytes;
    let len = headers + payload;
    let into = &mut into[..len];
    into[..headers].copy_from_slice(&bytes[..headers]);
    into[headers..].copy_from_slice(&bytes[headers + from..headers + from + payload]);
    write_lengths(packet, into, number as u16);
    write_tcp(packet, &segment, into, (from, is_last));
    let cut = Packet {
        total_bytes: len,
        ..*packet
    };
    complete(&cut, into);
    len
}

fn write_lengths(packet: &Packet, into: &mut [u8], number: u16) {
    let len = into.len();
    match packet.source {
        IpAddr::V4(_) => {
            let identification = u16::from_be_bytes([into[4], into[5]]).wrapping_add(number);
            into[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            into[4..6].copy_from_slice(&identification.to_be_bytes());
            into[10..12].fill(0);
            let check = checksum(&into[..packet.header_bytes]);
            into[10..12].copy_from_slice(&check.to_be_bytes());
        }
        IpAddr::V6(_) => {
            into[4..6].copy_from_slice(&((len - packet.header_bytes) as u16).to_be_bytes())
        }
    }
}

fn write_tcp(packet: &Packet, segment: &Segment, into: &mut [u8], (from, is_last): (usize, bool)) {
    let tcp = &mut into[packet.header_bytes..];
    tcp[4..8].copy_from_slice(&segment.sequence.wrapping_add(from as u32).to_be_bytes());
    if !is_last {
        tcp[13] &= !(tcp_flags::FIN | tcp_flags::PSH);
    }
    if from != 0 {
        tcp[13] &= !tcp_flags::CWR;
    }
}

const _: () = assert!(PACKET_BYTES_MAX <= u16::MAX as usize);

#[cfg(test)]
mod tests;
