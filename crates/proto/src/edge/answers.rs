//! Frames that the bridge makes by itself: ARP, neighbour discovery, ICMP, segments without data.
//!
//! Sources: RFC 826 (ARP), RFC 4861 (4.3, 4.4, 4.6: neighbour discovery), RFC 792 and RFC 4443 (ICMP), RFC 9293 (TCP).
//!
//! A frame here begins with the kernel's header, all zeros: nothing is left open in it.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use barewire_units::{Duration, Instant};
use barewire_wire::checksum::{checksum, sum};

use super::flow::{Flow, rebased};
use super::message::Protocol;
use super::neighbours::{BROADCAST, Ethernet};
use super::offload::{ETHERNET_BYTES, FRAME_HEADER_BYTES, complete};
use super::packet::{ICMP_4, ICMP_6, Packet, pseudo_sum, write_header};
use super::waiting::TcpAnswer;

/// Where the IP packet of a frame begins.
pub const PACKET_AT: usize = FRAME_HEADER_BYTES + ETHERNET_BYTES;

/// EtherType of IPv4.
pub const ETHER_V4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHER_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const ETHER_V6: u16 = 0x86dd;

/// Bytes of an ARP message for IPv4 over Ethernet.
pub const ARP_BYTES: usize = 28;
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

/// A question for a neighbour, or an answer.
pub const SOLICITATION: u8 = 135;
/// An answer about a neighbour.
pub const ADVERTISEMENT: u8 = 136;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// Hops of neighbour discovery, which no gateway passes on.
pub const HOPS_ON_LINK: u8 = 255;
const HOPS: u8 = 64;

const ANSWERS_PER_SECOND: u64 = 1000;

/// Bytes of a packet that an ICMP error of version 4 quotes behind its IP header at least; more is allowed (RFC 1812).
const QUOTED_MAX: usize = 128;

/// How many answers strangers may still get: a thousand at once, and a thousand in each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerBudget {
    left: u64,
    since: Instant,
}

impl Default for AnswerBudget {
    fn default() -> Self {
        Self {
            left: ANSWERS_PER_SECOND,
            since: Instant::ORIGIN,
        }
    }
}

impl AnswerBudget {
    /// Takes one, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let step_ps = Duration::from_s(1).as_ps() / ANSWERS_PER_SECOND;
        let steps = now.saturating_duration_since(self.since).as_ps() / step_ps;
        if steps > 0 {
            self.left = self.left.saturating_add(steps).min(ANSWERS_PER_SECOND);
            self.since = now;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// Time counts from `by` later on.
    pub fn rebase(&mut self, by: Duration) {
        self.since = rebased(self.since, by);
    }
}

/// Begins a frame: the kernel's header, which is empty, and the Ethernet header.
pub fn write_ethernet(frame: &mut [u8], to: Ethernet, from: Ethernet, kind: u16) {
    frame[..FRAME_HEADER_BYTES].fill(0);
    let ethernet = &mut frame[FRAME_HEADER_BYTES..PACKET_AT];
    ethernet[..6].copy_from_slice(&to);
    ethernet[6..12].copy_from_slice(&from);
    ethernet[12..].copy_from_slice(&kind.to_be_bytes());
}

/// What an ARP message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it is an answer.
    pub is_reply: bool,
    /// Its sender, both addresses.
    pub sender: (Ethernet, Ipv4Addr),
    /// Whom it is about or for.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads one; `None` if it is none for IPv4 over Ethernet.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let arp = bytes.first_chunk::<ARP_BYTES>()?;
        let v4 = |at: usize| Ipv4Addr::new(arp[at], arp[at + 1], arp[at + 2], arp[at + 3]);
        if arp[..6] != ARP_HEAD || arp[6] != 0 || !matches!(arp[7], ARP_REQUEST | ARP_REPLY) {
            return None;
        }
        let [.., a, b, c, d, e, f] = *arp.first_chunk::<14>()?;
        Some(Self {
            is_reply: arp[7] == ARP_REPLY,
            sender: ([a, b, c, d, e, f], v4(14)),
            target: v4(24),
        })
    }

    /// As a frame to somebody.
    #[must_use]
    pub fn frame(&self, to: Ethernet) -> Vec<u8> {
        let mut frame = vec![0; PACKET_AT + ARP_BYTES];
        write_ethernet(&mut frame, to, self.sender.0, ETHER_ARP);
        let arp = &mut frame[PACKET_AT..];
        arp[..6].copy_from_slice(&ARP_HEAD);
        arp[7] = if self.is_reply {
            ARP_REPLY
        } else {
            ARP_REQUEST
        };
        arp[8..14].copy_from_slice(&self.sender.0);
        arp[14..18].copy_from_slice(&self.sender.1.octets());
        let target = if self.is_reply { to } else { [0; 6] };
        arp[18..24].copy_from_slice(&target);
        arp[24..28].copy_from_slice(&self.target.octets());
        frame
    }
}

/// What a message of neighbour discovery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Whom it is about.
    pub about: Ipv6Addr,
    /// The Ethernet address in it, of the sender of a question or of whom an answer is about.
    pub address: Option<Ethernet>,
    /// Of an answer: whether it is one to a question.
    pub is_solicited: bool,
}

impl Discovery {
    /// Reads the ICMP part of a question or an answer whose packet has been checked. `None`: it is broken.
    #[must_use]
    pub fn parse(icmp: &[u8]) -> Option<Self> {
        let (fixed, mut options) = icmp.split_first_chunk::<24>()?;
        let about = fixed.last_chunk::<16>()?;
        let wanted = if fixed[0] == SOLICITATION {
            OPTION_SOURCE
        } else {
            OPTION_TARGET
        };
        let mut address = None;
        while let [kind, units, ..] = *options {
            let (option, rest) = options.split_at_checked(usize::from(units) * 8)?;
            if kind == wanted {
                address = option.get(2..8).and_then(|it| it.try_into().ok());
            }
            // An option of no length would never end.
            if units == 0 {
                return None;
            }
            options = rest;
        }
        let is_solicited = fixed[0] == ADVERTISEMENT && fixed[4] & SOLICITED != 0;
        Some(Self {
            about: Ipv6Addr::from(*about),
            address,
            is_solicited,
        })
    }
}

/// The group in which a host hears questions about its address, and its Ethernet address.
#[must_use]
pub fn solicited_group(about: Ipv6Addr) -> (Ipv6Addr, Ethernet) {
    let [.., a, b, c] = about.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    (group, [0x33, 0x33, 0xff, a, b, c])
}

/// The group of all hosts of a link, and its Ethernet address.
const ALL_HOSTS: (Ipv6Addr, Ethernet) = (
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    [0x33, 0x33, 0, 0, 0, 1],
);

/// Who sends a frame: its Ethernet and IP addresses.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Ethernet.
    pub ethernet: Ethernet,
    /// IP.
    pub address: IpAddr,
}

/// Asks for the Ethernet address of a neighbour, from it or from all.
#[must_use]
pub fn question(from: Sender, about: IpAddr, to: Option<Ethernet>) -> Vec<u8> {
    match (from.address, about) {
        (IpAddr::V4(address), IpAddr::V4(about)) => {
            let arp = Arp {
                is_reply: false,
                sender: (from.ethernet, address),
                target: about,
            };
            arp.frame(to.unwrap_or(BROADCAST))
        }
        (IpAddr::V6(address), IpAddr::V6(about)) => {
            let (group, ethernet) = solicited_group(about);
            let target = to.map_or(group, |_| about);
            let body = (SOLICITATION, 0, about, OPTION_SOURCE);
            discovery(
                from.ethernet,
                to.unwrap_or(ethernet),
                (address, target),
                body,
            )
        }
        _ => Vec::new(),
    }
}

/// Answers a question about the bridge's address of version 6. `asker` is unspecified for a host that has no address
/// yet: then all hosts get the answer.
#[must_use]
pub fn advertisement(from: Ethernet, about: Ipv6Addr, asker: Ipv6Addr, to: Ethernet) -> Vec<u8> {
    match asker.is_unspecified() {
        true => announcement_v6(from, about),
        false => discovery(
            from,
            to,
            (about, asker),
            (ADVERTISEMENT, SOLICITED | OVERRIDE, about, OPTION_TARGET),
        ),
    }
}

/// Says to all which Ethernet address the bridge has.
#[must_use]
pub fn announcement(from: Sender) -> Vec<u8> {
    match from.address {
        IpAddr::V4(address) => {
            let arp = Arp {
                is_reply: false,
                sender: (from.ethernet, address),
                target: address,
            };
            arp.frame(BROADCAST)
        }
        IpAddr::V6(address) => announcement_v6(from.ethernet, address),
    }
}

fn announcement_v6(from: Ethernet, about: Ipv6Addr) -> Vec<u8> {
    discovery(
        from,
        ALL_HOSTS.1,
        (about, ALL_HOSTS.0),
        (ADVERTISEMENT, OVERRIDE, about, OPTION_TARGET),
    )
}

/// A message of neighbour discovery: type, flags, address, and the kind of option for the sender's Ethernet address.
fn discovery(
    from: Ethernet,
    to: Ethernet,
    (source, target): (Ipv6Addr, Ipv6Addr),
    body: (u8, u8, Ipv6Addr, u8),
) -> Vec<u8> {
    const ICMP_BYTES: usize = 32;
    let (kind, flags, about, option) = body;
    let mut icmp = [0; ICMP_BYTES];
    icmp[0] = kind;
    icmp[4] = flags;
    icmp[8..24].copy_from_slice(&about.octets());
    icmp[24..26].copy_from_slice(&[option, 1]);
    icmp[26..32].copy_from_slice(&from);
    icmp_frame(
        from,
        to,
        (source.into(), target.into()),
        HOPS_ON_LINK,
        &mut icmp,
    )
}

/// A frame with an ICMP message, whose checksum is computed here.
fn icmp_frame(
    from: Ethernet,
    to: Ethernet,
    (source, target): (IpAddr, IpAddr),
    hops: u8,
    icmp: &mut [u8],
) -> Vec<u8> {
    icmp[2..4].fill(0);
    let (protocol, kind, check) = match source {
        IpAddr::V4(_) => (ICMP_4, ETHER_V4, checksum(icmp)),
        IpAddr::V6(_) => (
            ICMP_6,
            ETHER_V6,
            pseudo_sum(source, target, ICMP_6, icmp.len())
                .combine(sum(icmp))
                .checksum(),
        ),
    };
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    let mut frame = vec![0; PACKET_AT + 40];
    write_ethernet(&mut frame, to, from, kind);
    let header = write_header(
        &mut frame[PACKET_AT..],
        source,
        target,
        protocol,
        hops,
        icmp.len(),
    );
    frame.truncate(PACKET_AT + header);
    frame.extend_from_slice(icmp);
    frame
}

/// Whether the checksum of an ICMP packet is right. Of version 6, it covers addresses.
#[must_use]
pub fn icmp_is_right(packet: &Packet, bytes: &[u8]) -> bool {
    let icmp = sum(&bytes[packet.header_bytes..packet.total_bytes]);
    match packet.source {
        IpAddr::V4(_) => icmp.is_valid(),
        IpAddr::V6(_) => packet.pseudo_sum(ICMP_6).combine(icmp).is_valid(),
    }
}

/// Answers an echo request (a ping): the same message back.
#[must_use]
pub fn echo_reply(from: Ethernet, to: Ethernet, packet: &Packet, bytes: &[u8]) -> Vec<u8> {
    let mut icmp = bytes[packet.header_bytes..packet.total_bytes].to_vec();
    icmp[0] = if packet.source.is_ipv4() { 0 } else { 129 };
    icmp_frame(from, to, (packet.target, packet.source), HOPS, &mut icmp)
}

/// Says that nobody has the port that a packet was for.
#[must_use]
pub fn port_unreachable(from: Ethernet, to: Ethernet, packet: &Packet, bytes: &[u8]) -> Vec<u8> {
    let (kind, code) = if packet.source.is_ipv4() {
        (3, 3)
    } else {
        (1, 4)
    };
    let mut icmp = quoting(kind, code, packet, bytes);
    icmp_frame(from, to, (packet.target, packet.source), HOPS, &mut icmp)
}

/// Says to who has sent a packet, in its own name, that the host that it was for, or the next on the way, does not answer:
/// the bridge's own `ethernet`. It goes to no line.
#[must_use]
pub fn host_unreachable(ethernet: Ethernet, packet: &Packet, bytes: &[u8]) -> Vec<u8> {
    let (kind, code) = if packet.source.is_ipv4() {
        (3, 1)
    } else {
        (1, 3)
    };
    let mut icmp = quoting(kind, code, packet, bytes);
    let ends = (packet.source, packet.source);
    icmp_frame(ethernet, ethernet, ends, HOPS, &mut icmp)
}

/// An ICMP error without its checksum.
fn quoting(kind: u8, code: u8, packet: &Packet, bytes: &[u8]) -> Vec<u8> {
    let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
    icmp.extend_from_slice(&bytes[..packet.total_bytes.min(packet.header_bytes + QUOTED_MAX)]);
    icmp
}

/// A segment without data of a connection, from the bridge's end; the Ethernet addresses are `[to, from]`.
#[must_use]
pub fn tcp_segment([to, from]: [Ethernet; 2], flow: &Flow, answer: TcpAnswer) -> Vec<u8> {
    const TCP_BYTES: usize = 20;
    let (source, target) = (flow.local.ip(), flow.remote.ip());
    let mut frame = vec![0; PACKET_AT + 40 + TCP_BYTES];
    let kind = if source.is_ipv4() { ETHER_V4 } else { ETHER_V6 };
    write_ethernet(&mut frame, to, from, kind);
    let number = Protocol::Tcp.number();
    let header = write_header(
        &mut frame[PACKET_AT..],
        source,
        target,
        number,
        HOPS,
        TCP_BYTES,
    );
    frame.truncate(PACKET_AT + header + TCP_BYTES);
    let packet = &mut frame[PACKET_AT..];
    let tcp = &mut packet[header..];
    let ports = |of: SocketAddr| of.port().to_be_bytes();
    tcp[..2].copy_from_slice(&ports(flow.local));
    tcp[2..4].copy_from_slice(&ports(flow.remote));
    tcp[4..8].copy_from_slice(&answer.sequence.to_be_bytes());
    tcp[8..12].copy_from_slice(&answer.acknowledgment.to_be_bytes());
    tcp[12] = 5 << 4;
    tcp[13] = answer.flags;
    if let Ok(parsed) = Packet::parse(packet) {
        complete(&parsed, packet);
    }
    frame
}
