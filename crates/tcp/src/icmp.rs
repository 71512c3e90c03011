//! What hosts on the way say about a packet of a connection: ICMP errors, read with every length
//! checked.
//!
//! Sources: RFC 792 (ICMP), RFC 1191 (the MTU in it), RFC 4443 (ICMPv6). All numbers are big-endian.
//!
//! | byte | IPv4 | IPv6 |
//! |---|---|---|
//! | 0 | type: 3 unreachable, 11 time exceeded, 12 parameter problem | type: 1 unreachable, 2 too big, 3 time exceeded, 4 parameter problem |
//! | 1 | code; of type 3: 2 protocol, 3 port, 4 too big | code; of type 1: 4 port; of type 4: 1 protocol |
//! | 2, 3 | checksum | checksum, with the pseudo-header |
//! | 4 to 7 | 6, 7: MTU of the next link, where it is too big; 0: not known | 4 to 7: MTU of the next link, where it is too big |
//! | 8 | the packet that it is about: IP header, at least 8 bytes behind it | the same |

use crate::packet::{Checked, parse_ip, pseudo_header};
use barewire_wire::checksum;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const TCP: u8 = 6;

/// Sizes of packets that links have (RFC 1191, section 7), for hosts that do not say theirs.
const PLATEAUS: [usize; 9] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 576, 296];

/// What a host on the way says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The other end has no such protocol or port.
    Refused,
    /// The packet did not get there, which may change.
    Unreachable,
    /// The packet was longer than a link takes: so many bytes.
    TooBig(usize),
}

/// An ICMP error about a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// Who had sent the segment.
    pub(crate) from: SocketAddr,
    /// To whom.
    pub(crate) to: SocketAddr,
    /// The first sequence number of the segment.
    pub(crate) seq: u32,
    pub(crate) said: Said,
}

/// Reads a packet with an ICMP error about a TCP segment; `None` where it is broken or something
/// else.
pub(crate) fn parse_icmp(packet: &[u8], checked: Checked) -> Option<IcmpError> {
    let ip = parse_ip(packet)?;
    let bytes = packet.get(ip.payload.clone())?;
    let &[kind, code, _, _, a, b, c, d] = bytes.first_chunk::<8>()?;
    let quoted = bytes.get(8..)?;
    if checked == Checked::No {
        let mut sum = match ip.protocol {
            ICMP_V6 => pseudo_header(ip.from, ip.to, ICMP_V6, bytes.len()),
            _ => checksum::Sum::default(),
        };
        sum.update(bytes);
        if !sum.is_valid() {
            return None;
        }
    }
    let said = match (ip.protocol, ip.from, kind, code) {
        (ICMP, IpAddr::V4(_), 3, 2 | 3) => Said::Refused,
        (ICMP, IpAddr::V4(_), 3, 4) => {
            let mtu = usize::from(u16::from_be_bytes([c, d]));
            Said::TooBig(if mtu == 0 { plateau(quoted)? } else { mtu })
        }
        (ICMP, IpAddr::V4(_), 3 | 11 | 12, _) => Said::Unreachable,
        (ICMP_V6, IpAddr::V6(_), 1, 4) | (ICMP_V6, IpAddr::V6(_), 4, 1) => Said::Refused,
        (ICMP_V6, IpAddr::V6(_), 2, _) => {
            let mtu = u32::from_be_bytes([a, b, c, d]);
            Said::TooBig(usize::try_from(mtu).unwrap_or(usize::MAX))
        }
        (ICMP_V6, IpAddr::V6(_), 1 | 3 | 4, _) => Said::Unreachable,
        _ => return None,
    };
    let (from, to, segment) = parse_quoted(quoted)?;
    let &[f, g, t, u, seq @ ..] = segment.first_chunk::<8>()?;
    Some(IcmpError {
        from: SocketAddr::new(from, u16::from_be_bytes([f, g])),
        to: SocketAddr::new(to, u16::from_be_bytes([t, u])),
        seq: u32::from_be_bytes(seq),
        said,
    })
}

/// Addresses and what is behind the IP header of a packet with TCP, which may be cut off.
fn parse_quoted(quoted: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    match quoted.first()? >> 4 {
        4 => {
            let header = quoted.first_chunk::<20>()?;
            let is_later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
            let header_bytes = usize::from(header[0] & 15) * 4;
            if header[9] != TCP || is_later || header_bytes < 20 {
                return None;
            }
            let address = |at: usize| {
                let bytes = header.get(at..)?.first_chunk::<4>()?;
                Some(IpAddr::V4(Ipv4Addr::from(*bytes)))
            };
            Some((address(12)?, address(16)?, quoted.get(header_bytes..)?))
        }
        6 => {
            let (header, behind) = quoted.split_first_chunk::<40>()?;
            if header[6] != TCP {
                return None;
            }
            let address = |at: usize| {
                let bytes = header.get(at..)?.first_chunk::<16>()?;
                Some(IpAddr::V6(Ipv6Addr::from(*bytes)))
            };
            Some((address(8)?, address(24)?, behind))
        }
        _ => None,
    }
}

/// What the link may take on which the quoted packet of version 4 was too long.
fn plateau(quoted: &[u8]) -> Option<usize> {
    let &[_, _, a, b] = quoted.first_chunk::<4>()?;
    let total = usize::from(u16::from_be_bytes([a, b]));
    PLATEAUS.into_iter().find(|&size| size < total)
}
