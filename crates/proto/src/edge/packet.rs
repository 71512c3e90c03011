//! IP packets, read. The parser is total, and reads no further than the packet says that it is long.
//!
//! Sources: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 9293 (TCP), RFC 768 (UDP), RFC 792 and RFC 4443 (ICMP).
//!
//! What has no ports that can be trusted is told apart: fragments (also the first one, since its length may lie), and
//! packets of version 6 with extension headers. Both are only counted: see [`Body`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use barewire_wire::checksum::{Sum, checksum, sum};

use super::message::Protocol;

/// Bytes of a header of version 4 without options.
pub const V4_HEADER_BYTES: usize = 20;
/// Bytes of a header of version 6.
pub const V6_HEADER_BYTES: usize = 40;
/// ICMP for IPv4.
pub const ICMP_4: u8 = 1;
/// ICMP for IPv6.
pub const ICMP_6: u8 = 58;

const MORE_FRAGMENTS_OR_OFFSET: u16 = 0x3fff;
/// Extension headers: hop-by-hop, routing, fragment, destination, mobility, host identity, shim.
const EXTENSIONS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

/// The flags of a TCP segment, as bits.
pub mod tcp_flags {
    /// No more data follow.
    pub const FIN: u8 = 1;
    /// A connection is opened.
    pub const SYN: u8 = 2;
    /// There is no such connection.
    pub const RST: u8 = 4;
    /// The receiver should have the data soon.
    pub const PSH: u8 = 8;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 16;
    /// The sender sends less because of congestion (RFC 3168).
    pub const CWR: u8 = 128;
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketFault {
    /// It ends before its headers do, or before it says that it ends.
    #[error("it ends too early")]
    Short,
    /// It is neither of version 4 nor of version 6.
    #[error("it is no IP packet")]
    Version,
    /// A length in it cannot be.
    #[error("a length in it is not possible")]
    Length,
    /// The checksum of its IP header is wrong.
    #[error("the checksum of its IP header is wrong")]
    HeaderChecksum,
}

/// A TCP segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of its first byte, or of its SYN.
    pub sequence: u32,
    /// The next byte that its sender expects.
    pub acknowledgment: u32,
    /// Bits: [`tcp_flags`].
    pub flags: u8,
    /// Bytes of the TCP header, with options.
    pub header_bytes: usize,
    /// Bytes behind it.
    pub payload_bytes: usize,
}

impl Segment {
    /// Whether a flag is set.
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number behind its last byte; SYN and FIN count as a byte each.
    #[must_use]
    pub const fn sequence_end(&self) -> u32 {
        let flags = self.has(tcp_flags::SYN) as u32 + self.has(tcp_flags::FIN) as u32;
        self.sequence
            .wrapping_add(self.payload_bytes as u32)
            .wrapping_add(flags)
    }
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// TCP.
    Tcp {
        /// Port of the sender.
        source_port: u16,
        /// Port of the receiver.
        target_port: u16,
        /// The rest of the header.
        segment: Segment,
    },
    /// UDP.
    Udp {
        /// Port of the sender.
        source_port: u16,
        /// Port of the receiver.
        target_port: u16,
    },
    /// ICMP of the packet's version, with its type and code.
    Icmp {
        /// What it is about.
        kind: u8,
        /// Which of several cases.
        code: u8,
    },
    /// A part of a packet, the first one included.
    Fragment,
    /// Something else, with its number; of version 6 also any extension header.
    Other(u8),
}

/// An IP packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub target: IpAddr,
    /// Bytes of the IP header, with options.
    pub header_bytes: usize,
    /// Bytes of the packet. Behind them there may be padding.
    pub total_bytes: usize,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// What it carries.
    pub body: Body,
}

impl Packet {
    /// Reads the headers of a packet.
    ///
    /// # Errors
    /// It is not whole, or not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketFault> {
        Self::parse_head(bytes, bytes.len())
    }

    /// As [`parse`](Self::parse), of a packet of `len_bytes` whose beginning is in `head`: all headers have to be there.
    ///
    /// # Errors
    /// It is not whole, or not one, or its headers go on behind `head`.
    pub fn parse_head(head: &[u8], len_bytes: usize) -> Result<Self, PacketFault> {
        match head.first().map(|first| first >> 4) {
            Some(4) => parse_v4(head, len_bytes),
            Some(6) => parse_v6(head, len_bytes),
            Some(_) => Err(PacketFault::Version),
            None => Err(PacketFault::Short),
        }
    }

    /// Protocol and ports (source, target), where it has some.
    #[must_use]
    pub const fn ports(&self) -> Option<(Protocol, u16, u16)> {
        match self.body {
            Body::Tcp {
                source_port,
                target_port,
                ..
            } => Some((Protocol::Tcp, source_port, target_port)),
            Body::Udp {
                source_port,
                target_port,
            } => Some((Protocol::Udp, source_port, target_port)),
            Body::Icmp { .. } | Body::Fragment | Body::Other(_) => None,
        }
    }

    /// The sum of the pseudo-header for a protocol above IP, with the length of what is behind the IP header.
    #[must_use]
    pub fn pseudo_sum(&self, protocol: u8) -> Sum {
        pseudo_sum(
            self.source,
            self.target,
            protocol,
            self.total_bytes - self.header_bytes,
        )
    }
}

/// The sum of a pseudo-header: RFC 9293, 3.1; RFC 8200, 8.1. `len_bytes` are those of the upper header and its data.
#[must_use]
pub fn pseudo_sum(source: IpAddr, target: IpAddr, protocol: u8, len_bytes: usize) -> Sum {
    let mut total = Sum::default();
    for address in [source, target] {
        match address {
            IpAddr::V4(address) => total.update(&address.octets()),
            IpAddr::V6(address) => total.update(&address.octets()),
        }
    }
    total.update(&(len_bytes as u32).to_be_bytes());
    total.update(&[0, protocol]);
    total
}

/// What the embedded packet of an ICMP error says: who sent it, to whom. It holds at least eight bytes behind its IP
/// header, which are enough for ports.
#[must_use]
pub fn embedded_flow(bytes: &[u8]) -> Option<(Protocol, IpAddr, u16, IpAddr, u16)> {
    let (source, target, number, behind) = match bytes.first()? >> 4 {
        4 => {
            let header = bytes.first_chunk::<V4_HEADER_BYTES>()?;
            let is_later = u16_at(header, 6) & 0x1fff != 0;
            let behind = bytes
                .get(usize::from(header[0] & 15) * 4..)
                .filter(|_| !is_later)?;
            let address = |at: usize| {
                IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            (address(12), address(16), header[9], behind)
        }
        6 => {
            let (header, behind) = bytes.split_first_chunk::<V6_HEADER_BYTES>()?;
            (
                v6_address(header, 8),
                v6_address(header, 24),
                header[6],
                behind,
            )
        }
        _ => return None,
    };
    let protocol = Protocol::from_number(number)?;
    let ports = behind.first_chunk::<8>()?;
    Some((protocol, source, u16_at(ports, 0), target, u16_at(ports, 2)))
}

fn parse_v4(head: &[u8], len_bytes: usize) -> Result<Packet, PacketFault> {
    let fixed = head
        .first_chunk::<V4_HEADER_BYTES>()
        .ok_or(PacketFault::Short)?;
    let header_bytes = usize::from(fixed[0] & 15) * 4;
    let total_bytes = usize::from(u16_at(fixed, 2));
    if header_bytes < V4_HEADER_BYTES || total_bytes < header_bytes {
        return Err(PacketFault::Length);
    }
    if total_bytes > len_bytes {
        return Err(PacketFault::Short);
    }
    let there = &head[..total_bytes.min(head.len())];
    let cut = there.split_at_checked(header_bytes);
    let (header, behind) = cut.ok_or(PacketFault::Short)?;
    if !sum(header).is_valid() {
        return Err(PacketFault::HeaderChecksum);
    }
    let address =
        |at: usize| IpAddr::from([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let is_fragment = u16_at(fixed, 6) & MORE_FRAGMENTS_OR_OFFSET != 0;
    let body = if is_fragment {
        Body::Fragment
    } else {
        body(fixed[9], ICMP_4, behind, total_bytes - header_bytes)?
    };
    Ok(Packet {
        source: address(12),
        target: address(16),
        header_bytes,
        total_bytes,
        hops: fixed[8],
        body,
    })
}

fn parse_v6(head: &[u8], len_bytes: usize) -> Result<Packet, PacketFault> {
    let header = head
        .first_chunk::<V6_HEADER_BYTES>()
        .ok_or(PacketFault::Short)?;
    let behind_bytes = usize::from(u16_at(header, 4));
    let total_bytes = V6_HEADER_BYTES + behind_bytes;
    if total_bytes > len_bytes {
        return Err(PacketFault::Short);
    }
    let behind = &head[V6_HEADER_BYTES..total_bytes.min(head.len())];
    let body = match header[6] {
        44 => Body::Fragment,
        number if EXTENSIONS.contains(&number) => Body::Other(number),
        number => body(number, ICMP_6, behind, behind_bytes)?,
    };
    Ok(Packet {
        source: v6_address(header, 8),
        target: v6_address(header, 24),
        header_bytes: V6_HEADER_BYTES,
        total_bytes,
        hops: header[7],
        body,
    })
}

/// Reads what is behind an IP header and has `len_bytes`; `behind` is at least the beginning of that.
fn body(number: u8, icmp: u8, behind: &[u8], len_bytes: usize) -> Result<Body, PacketFault> {
    match Protocol::from_number(number) {
        Some(Protocol::Tcp) => {
            let header = behind.first_chunk::<20>().ok_or(PacketFault::Short)?;
            let header_bytes = usize::from(header[12] >> 4) * 4;
            let payload_bytes = len_bytes.checked_sub(header_bytes);
            if header_bytes < 20 {
                return Err(PacketFault::Length);
            }
            Ok(Body::Tcp {
                source_port: u16_at(header, 0),
                target_port: u16_at(header, 2),
                segment: Segment {
                    sequence: u32_at(header, 4),
                    acknowledgment: u32_at(header, 8),
                    flags: header[13],
                    header_bytes,
                    payload_bytes: payload_bytes.ok_or(PacketFault::Length)?,
                },
            })
        }
        Some(Protocol::Udp) => {
            let header = behind.first_chunk::<8>().ok_or(PacketFault::Short)?;
            if usize::from(u16_at(header, 4)) != len_bytes {
                return Err(PacketFault::Length);
            }
            Ok(Body::Udp {
                source_port: u16_at(header, 0),
                target_port: u16_at(header, 2),
            })
        }
        None if number == icmp => {
            let header = behind.first_chunk::<8>().ok_or(PacketFault::Short)?;
            Ok(Body::Icmp {
                kind: header[0],
                code: header[1],
            })
        }
        None => Ok(Body::Other(number)),
    }
}

/// A number of two bytes, as networks have them.
#[must_use]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A number of four bytes, as networks have them.
#[must_use]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn v6_address(header: &[u8; V6_HEADER_BYTES], at: usize) -> IpAddr {
    let bytes = header.get(at..).and_then(|rest| rest.first_chunk::<16>());
    IpAddr::from(bytes.copied().unwrap_or_default())
}

/// Writes an IP header, without options, before `behind_bytes` bytes of a protocol; returns its length.
pub fn write_header(
    into: &mut [u8],
    source: IpAddr,
    target: IpAddr,
    protocol: u8,
    hops: u8,
    behind_bytes: usize,
) -> usize {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            write_v4(into, source, target, [protocol, hops], behind_bytes);
            V4_HEADER_BYTES
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            write_v6(into, source, target, [protocol, hops], behind_bytes);
            V6_HEADER_BYTES
        }
        _ => 0,
    }
}

fn write_v4(
    into: &mut [u8],
    source: Ipv4Addr,
    target: Ipv4Addr,
    [protocol, hops]: [u8; 2],
    behind_bytes: usize,
) {
    let header = &mut into[..V4_HEADER_BYTES];
    header.fill(0);
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((V4_HEADER_BYTES + behind_bytes) as u16).to_be_bytes());
    // It may not be fragmented. So its identification may be zero (RFC 6864).
    header[6] = 0x40;
    header[8] = hops;
    header[9] = protocol;
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&target.octets());
    let check = checksum(header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
}

fn write_v6(
    into: &mut [u8],
    source: Ipv6Addr,
    target: Ipv6Addr,
    [protocol, hops]: [u8; 2],
    behind_bytes: usize,
) {
    let header = &mut into[..V6_HEADER_BYTES];
    header.fill(0);
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(behind_bytes as u16).to_be_bytes());
    header[6] = protocol;
    header[7] = hops;
    header[8..24].copy_from_slice(&source.octets());
    header[24..40].copy_from_slice(&target.octets());
}
