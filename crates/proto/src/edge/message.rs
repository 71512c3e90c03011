//! What a client and the bridge say to each other. All numbers are little-endian; addresses and packets are as they
//! are on a network.
//!
//! A client connects to the bridge's name once for each connection, socket or listener. Its first message asks for a
//! lease. The bridge answers with a grant or a refusal; after a refusal it closes the connection. After a grant, each
//! message in both directions is one IP packet behind a header of 8 bytes. The lease ends with the connection.
//!
//! A parser here is total: it takes any bytes, and what it accepts is written again as the same bytes.
//!
//! Source: ours. What the packet's header says is of `virtio_net_hdr` (Virtual I/O Device 1.2, 5.1.6.2), without what
//! the packet itself tells: the kind of segments and the bytes of headers.
//!
//! # A client asks for a lease
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic 0xB1 0xED |
//! | 2 | 1 | version: 1 |
//! | 3 | 1 | kind: 1 |
//! | 4 | 1 | protocol: 6 for TCP, 17 for UDP |
//! | 5 | 1 | version of IP: 4 or 6 |
//! | 6 | 1 | what the client takes; bit 0: open checksums, bit 1: large TCP packets; other bits zero |
//! | 7 | 1 | zero |
//! | 8 | 2 | local port; 0: any that is free |
//! | 10 | 2 | remote port; 0: all, to listen |
//! | 12 | 16 | remote address, of version 4 in the first four bytes and then zeros; unspecified: all, to listen |
//!
//! Address and port of the other end are both given or both left open.
//!
//! # The bridge grants it
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 4 | as above, kind: 2 |
//! | 4 | 1 | protocol |
//! | 5 | 1 | version of IP |
//! | 6 | 1 | what the bridge takes, bits as above |
//! | 7 | 1 | zero |
//! | 8 | 2 | local port |
//! | 10 | 2 | MTU: longest IP packet of the network, in bytes |
//! | 12 | 16 | local address |
//! | 28 | 4 | longest IP packet in a message, in bytes: at least the MTU, at most 65535 |
//!
//! # The bridge refuses it
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 4 | as above, kind: 3 |
//! | 4 | 1 | reason: [`Refusal`] |
//! | 5 | 3 | zero |
//! | 8 | 4 | the number that the reason is about, otherwise zero |
//!
//! # A packet, both ways
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 1 | kind: 4 |
//! | 1 | 1 | bit 0: the checksum is open, bit 1: it has been verified; at most one of them; other bits zero |
//! | 2 | 2 | bytes of TCP payload in each segment of a large packet; 0: the packet is not large |
//! | 4 | 2 | open checksum: where the checksummed bytes begin, from the first byte of the packet; otherwise zero |
//! | 6 | 2 | open checksum: where in those the checksum lies; otherwise zero |
//! | 8 | | the IP packet |
//!
//! A packet with an **open checksum** holds the sum of the pseudo-header in the place of the checksum. Whoever puts
//! it on a line completes it. A **large packet** is one TCP segment as long as several: headers as of its first
//! segment, and lengths of the whole. Whoever puts it on a line cuts it. Each side sends the other only what that
//! has said it takes; both are optional, packets without them are always right.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a client's first message.
pub const ASK_BYTES: usize = 28;
/// Bytes of a grant.
pub const GRANT_BYTES: usize = 32;
/// Bytes of a refusal.
pub const REFUSAL_BYTES: usize = 12;
/// Bytes before the IP packet in a message that carries one.
pub const PACKET_HEADER_BYTES: usize = 8;
/// The longest IP packet, in bytes.
pub const PACKET_BYTES_MAX: usize = 65_535;
/// The longest message between client and bridge, in bytes.
pub const MESSAGE_BYTES_MAX: usize = PACKET_HEADER_BYTES + PACKET_BYTES_MAX;
/// The name under which a bridge listens, unless it is told another.
pub const NAME_DEFAULT: &str = "bridge";

const MAGIC: [u8; 2] = [0xb1, 0xed];
const VERSION: u8 = 1;
const KIND_ASK: u8 = 1;
const KIND_GRANTED: u8 = 2;
const KIND_REFUSED: u8 = 3;
const KIND_PACKET: u8 = 4;
const OPEN_CHECKSUM: u8 = 1;
const LARGE_TCP: u8 = 2;
const VERIFIED: u8 = 2;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It has not as many bytes as such a message has.
    #[error("{what}: {found} bytes where {needed} are needed")]
    Length {
        /// What was read.
        what: &'static str,
        /// Bytes there.
        found: usize,
        /// Bytes needed: exactly, or at least where a packet follows.
        needed: usize,
    },
    /// It does not begin as these messages do.
    #[error(
        "it begins with {0:02x?} where b1 ed is expected: the other end is no part of the edge"
    )]
    Magic([u8; 2]),
    /// It is of another version.
    #[error(
        "version {0} where {VERSION} is expected: client and bridge must be of one release of Barewire"
    )]
    Version(u8),
    /// It is of a kind that does not belong here.
    #[error("{what}: kind {found} does not belong here")]
    Kind {
        /// What was read.
        what: &'static str,
        /// Its kind.
        found: u8,
    },
    /// A field holds what it cannot.
    #[error("{field}: {value} is not possible")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

/// A protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Its number in the header of an IP packet.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// The protocol of a number, if it is one of the two.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// What one side takes of work that the other leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Packets with open checksums.
    pub open_checksum: bool,
    /// Large TCP packets.
    pub large_tcp: bool,
}

impl Takes {
    /// All there is.
    pub const ALL: Self = Self {
        open_checksum: true,
        large_tcp: true,
    };
    /// Neither.
    pub const NOTHING: Self = Self {
        open_checksum: false,
        large_tcp: false,
    };

    const fn bits(self) -> u8 {
        self.open_checksum as u8 * OPEN_CHECKSUM | self.large_tcp as u8 * LARGE_TCP
    }

    fn from_bits(bits: u8) -> Result<Self, MessageError> {
        if bits & !(OPEN_CHECKSUM | LARGE_TCP) != 0 {
            return Err(value("what is taken", bits));
        }
        Ok(Self {
            open_checksum: bits & OPEN_CHECKSUM != 0,
            large_tcp: bits & LARGE_TCP != 0,
        })
    }
}

/// A client's first message: it asks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// What the client takes.
    pub takes: Takes,
    /// The port it wants; 0 for any that is free.
    pub local_port: u16,
    /// The other end; an unspecified address with port 0 to listen, which also says for which version of IP.
    pub remote: SocketAddr,
}

impl Ask {
    /// Asks for one connection, from any local port, taking whatever the bridge leaves open.
    #[must_use]
    pub const fn connect(protocol: Protocol, remote: SocketAddr) -> Self {
        Self {
            protocol,
            takes: Takes::ALL,
            local_port: 0,
            remote,
        }
    }

    /// Asks for all that comes to a port; 0 for any that is free.
    #[must_use]
    pub const fn listen(protocol: Protocol, local_port: u16, version_6: bool) -> Self {
        let address = match version_6 {
            true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        Self {
            protocol,
            takes: Takes::ALL,
            local_port,
            remote: SocketAddr::new(address, 0),
        }
    }

    /// Whether it asks for all that comes to the port.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.remote.port() == 0
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ASK_BYTES] {
        let mut bytes = [0; ASK_BYTES];
        put(&mut bytes, 0, &head(KIND_ASK));
        let remote = self.remote;
        put(
            &mut bytes,
            4,
            &[
                self.protocol.number(),
                version(remote.ip()),
                self.takes.bits(),
            ],
        );
        put(&mut bytes, 8, &self.local_port.to_le_bytes());
        put(&mut bytes, 10, &remote.port().to_le_bytes());
        put(&mut bytes, 12, &address_bytes(remote.ip()));
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is not one, or of another version, or asks for what cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        const WHAT: &str = "request for a lease";
        let bytes = exact::<ASK_BYTES>(WHAT, bytes)?;
        if kind(bytes)? != KIND_ASK {
            return Err(wrong_kind(WHAT, bytes[3]));
        }
        let protocol = protocol(bytes[4])?;
        let takes = Takes::from_bits(bytes[6])?;
        zero("byte 7 of a request", &bytes[7..8])?;
        let address = address(bytes[5], &bytes[12..28])?;
        let remote = SocketAddr::new(address, u16_at(bytes, 10));
        if address.is_unspecified() != (remote.port() == 0) {
            return Err(value("remote port beside its address", remote.port()));
        }
        Ok(Self {
            protocol,
            takes,
            local_port: u16_at(bytes, 8),
            remote,
        })
    }
}

/// What the bridge grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// TCP or UDP, as asked.
    pub protocol: Protocol,
    /// What the bridge takes.
    pub takes: Takes,
    /// The address and port that the client's packets must come from.
    pub local: SocketAddr,
    /// The longest IP packet of the network, in bytes.
    pub mtu_bytes: u16,
    /// The longest IP packet in a message, in bytes.
    pub packet_bytes_max: u32,
}

/// Why the bridge refuses a lease. The discriminant is the reason's number in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Number 1: the port, or this connection of it, is leased.
    #[error(
        "port {0} of the bridge is taken: another client has it; ask for another port, or for any (0)"
    )]
    PortTaken(u16),
    /// Number 2: a connection with the same two ends ended a short time ago.
    #[error(
        "port {0} of the bridge is in TIME-WAIT: a connection between the same two ends has just ended; \
         try again in a minute, or ask for another port, or for any (0)"
    )]
    TimeWait(u16),
    /// Number 3: ports below 1024 are for root.
    #[error("port {0} of the bridge is for root only: ask for 1024 or above, or run as root")]
    PortReserved(u16),
    /// Number 4: all ports for connections without a wish are taken.
    #[error(
        "the bridge has no free port: all {0} are leased or in TIME-WAIT; close connections, or wait a minute"
    )]
    NoPorts(u32),
    /// Number 5: the user has as many leases as one may have.
    #[error(
        "too many leases: one user may have {0} at this bridge; close some, or start the bridge with a larger \
         `--user-leases`"
    )]
    TooManyOfUser(u32),
    /// Number 6: the bridge has as many leases as it can.
    #[error(
        "the bridge is full: it has {0} leases; close some, or start it with a larger `--leases`"
    )]
    TooMany(u32),
    /// Number 7: the bridge has no way to such an address.
    #[error(
        "the bridge has no way there: it has no address of this version of IP, or neither the address is in its \
         network nor has it a gateway (`--address`, `--gateway`)"
    )]
    NoRoute,
    /// Number 8: the request was wrong.
    #[error(
        "the bridge did not understand the request: client and bridge must be of one release of Barewire"
    )]
    BadRequest,
}

impl Refusal {
    const fn number(self) -> (u8, u32) {
        match self {
            Self::PortTaken(port) => (1, port as u32),
            Self::TimeWait(port) => (2, port as u32),
            Self::PortReserved(port) => (3, port as u32),
            Self::NoPorts(ports) => (4, ports),
            Self::TooManyOfUser(leases) => (5, leases),
            Self::TooMany(leases) => (6, leases),
            Self::NoRoute => (7, 0),
            Self::BadRequest => (8, 0),
        }
    }

    fn from_number(reason: u8, about: u32) -> Result<Self, MessageError> {
        let port = || u16::try_from(about).map_err(|_| value("port of a refusal", about));
        Ok(match (reason, about) {
            (1, _) => Self::PortTaken(port()?),
            (2, _) => Self::TimeWait(port()?),
            (3, _) => Self::PortReserved(port()?),
            (4, _) => Self::NoPorts(about),
            (5, _) => Self::TooManyOfUser(about),
            (6, _) => Self::TooMany(about),
            (7, 0) => Self::NoRoute,
            (8, 0) => Self::BadRequest,
            (7 | 8, _) => return Err(value("number beside a reason", about)),
            _ => return Err(value("reason of a refusal", reason)),
        })
    }
}

/// The bridge's answer to [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lease is the client's.
    Granted(Granted),
    /// It is not.
    Refused(Refusal),
}

/// An answer as bytes.
#[derive(Clone, Copy, Debug)]
pub struct AnswerBytes {
    bytes: [u8; GRANT_BYTES],
    len: usize,
}

impl AsRef<[u8]> for AnswerBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Answer {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> AnswerBytes {
        let mut bytes = [0; GRANT_BYTES];
        match self {
            Self::Granted(granted) => {
                let local = granted.local;
                put(&mut bytes, 0, &head(KIND_GRANTED));
                let takes = granted.takes.bits();
                put(
                    &mut bytes,
                    4,
                    &[granted.protocol.number(), version(local.ip()), takes],
                );
                put(&mut bytes, 8, &local.port().to_le_bytes());
                put(&mut bytes, 10, &granted.mtu_bytes.to_le_bytes());
                put(&mut bytes, 12, &address_bytes(local.ip()));
                put(&mut bytes, 28, &granted.packet_bytes_max.to_le_bytes());
                let len = GRANT_BYTES;
                AnswerBytes { bytes, len }
            }
            Self::Refused(refusal) => {
                let (reason, about) = refusal.number();
                put(&mut bytes, 0, &head(KIND_REFUSED));
                put(&mut bytes, 4, &[reason]);
                put(&mut bytes, 8, &about.to_le_bytes());
                let len = REFUSAL_BYTES;
                AnswerBytes { bytes, len }
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is not one, or of another version, or says what cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        const WHAT: &str = "answer of the bridge";
        match kind(bytes)? {
            KIND_GRANTED => parse_grant(exact(WHAT, bytes)?).map(Self::Granted),
            KIND_REFUSED => {
                let bytes = exact::<REFUSAL_BYTES>(WHAT, bytes)?;
                zero("bytes 5 to 7 of a refusal", &bytes[5..8])?;
                let about = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
                Refusal::from_number(bytes[4], about).map(Self::Refused)
            }
            other => Err(wrong_kind(WHAT, other)),
        }
    }
}

fn parse_grant(bytes: &[u8; GRANT_BYTES]) -> Result<Granted, MessageError> {
    let protocol = protocol(bytes[4])?;
    let takes = Takes::from_bits(bytes[6])?;
    zero("byte 7 of a grant", &bytes[7..8])?;
    let address = address(bytes[5], &bytes[12..28])?;
    let local = SocketAddr::new(address, u16_at(bytes, 8));
    if local.port() == 0 || address.is_unspecified() {
        return Err(value("local port", local.port()));
    }
    let mtu_bytes = u16_at(bytes, 10);
    let packet_bytes_max = u32::from_le_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]);
    if packet_bytes_max < u32::from(mtu_bytes) || packet_bytes_max > PACKET_BYTES_MAX as u32 {
        return Err(value("longest packet", packet_bytes_max));
    }
    // RFC 791 and RFC 8200: what every network of that version of IP carries.
    if mtu_bytes < if address.is_ipv4() { 68 } else { 1280 } {
        return Err(value("MTU", mtu_bytes));
    }
    Ok(Granted {
        protocol,
        takes,
        local,
        mtu_bytes,
        packet_bytes_max,
    })
}

/// What is known of the checksum of a packet's TCP or UDP part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// It is there, and nobody has verified it yet.
    #[default]
    Present,
    /// It was verified, by a card or because the packet never was on a line.
    Verified,
    /// It is open: who puts the packet on a line completes it, and there is no need to verify it.
    Open {
        /// Where the checksummed bytes begin, from the first byte of the packet.
        start: u16,
        /// Where in those the checksum lies.
        offset: u16,
    },
}

/// What precedes an IP packet in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// What is known of its checksum.
    pub checksum: Checksum,
    /// Bytes of TCP payload in each segment of a large packet; 0 for one that is not large.
    pub segment_bytes: u16,
}

impl PacketHeader {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; PACKET_HEADER_BYTES] {
        let (flags, start, offset) = match self.checksum {
            Checksum::Present => (0, 0, 0),
            Checksum::Verified => (VERIFIED, 0, 0),
            Checksum::Open { start, offset } => (OPEN_CHECKSUM, start, offset),
        };
        let mut bytes = [KIND_PACKET, flags, 0, 0, 0, 0, 0, 0];
        put(&mut bytes, 2, &self.segment_bytes.to_le_bytes());
        put(&mut bytes, 4, &start.to_le_bytes());
        put(&mut bytes, 6, &offset.to_le_bytes());
        bytes
    }

    /// Takes a message with a packet apart. The packet itself is not looked at, but an open checksum lies in it.
    ///
    /// # Errors
    /// It is not one, or its header says what cannot be.
    pub fn parse(message: &[u8]) -> Result<(Self, &[u8]), MessageError> {
        const WHAT: &str = "message with a packet";
        let Some((header, packet)) = message.split_first_chunk::<PACKET_HEADER_BYTES>() else {
            return Err(MessageError::Length {
                what: WHAT,
                found: message.len(),
                needed: PACKET_HEADER_BYTES,
            });
        };
        if header[0] != KIND_PACKET {
            return Err(wrong_kind(WHAT, header[0]));
        }
        if packet.len() > PACKET_BYTES_MAX {
            return Err(value("length of a packet", packet.len() as u64));
        }
        let (start, offset) = (u16_at(header, 4), u16_at(header, 6));
        let checksum = match header[1] {
            OPEN_CHECKSUM if usize::from(start) + usize::from(offset) + 2 <= packet.len() => {
                Checksum::Open { start, offset }
            }
            OPEN_CHECKSUM => return Err(value("place of an open checksum", start)),
            0 | VERIFIED if start != 0 || offset != 0 => {
                return Err(value("place of a checksum that is not open", start));
            }
            0 => Checksum::Present,
            VERIFIED => Checksum::Verified,
            flags => return Err(value("flags of a packet", flags)),
        };
        let segment_bytes = u16_at(header, 2);
        let header = Self {
            checksum,
            segment_bytes,
        };
        Ok((header, packet))
    }
}

fn head(kind: u8) -> [u8; 4] {
    [MAGIC[0], MAGIC[1], VERSION, kind]
}

/// The kind of a message that begins as those about leases do.
fn kind(bytes: &[u8]) -> Result<u8, MessageError> {
    match *bytes {
        [a, b, version, kind, ..] if [a, b] == MAGIC => match version {
            VERSION => Ok(kind),
            other => Err(MessageError::Version(other)),
        },
        [a, b, _, _, ..] => Err(MessageError::Magic([a, b])),
        _ => Err(MessageError::Length {
            what: "message",
            found: bytes.len(),
            needed: 4,
        }),
    }
}

fn exact<'a, const N: usize>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [u8; N], MessageError> {
    bytes.try_into().map_err(|_| MessageError::Length {
        what,
        found: bytes.len(),
        needed: N,
    })
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn value(field: &'static str, value: impl Into<u64>) -> MessageError {
    let value = value.into();
    MessageError::Value { field, value }
}

fn wrong_kind(what: &'static str, found: u8) -> MessageError {
    MessageError::Kind { what, found }
}

fn zero(field: &'static str, bytes: &[u8]) -> Result<(), MessageError> {
    bytes.iter().try_for_each(|&byte| match byte {
        0 => Ok(()),
        other => Err(value(field, other)),
    })
}

fn protocol(number: u8) -> Result<Protocol, MessageError> {
    Protocol::from_number(number).ok_or(value("protocol", number))
}

const fn version(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            put(&mut bytes, 0, &address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// `bytes` are 16.
fn address(version: u8, bytes: &[u8]) -> Result<IpAddr, MessageError> {
    match (version, bytes.first_chunk::<4>(), bytes.first_chunk::<16>()) {
        (4, Some(first), _) => {
            zero("bytes behind an address of version 4", &bytes[4..])?;
            Ok(IpAddr::V4(Ipv4Addr::from(*first)))
        }
        (6, _, Some(all)) => Ok(IpAddr::V6(Ipv6Addr::from(*all))),
        _ => Err(value("version of IP", version)),
    }
}

#[cfg(test)]
mod tests;
