//! What the sockets of an unmodified program and the gateway of `barewire run --edge` say to each other.
//!
//! The gateway is a process beside the program, which has connections through the bridge and hands their bytes on. The
//! program's side is the preload library. It finds the gateway by a variable of the environment ([`Gateway`]), and
//! connects to the gateway's Unix socket once for each request ([`Request`]). A question is answered ([`Answer`]); the
//! other requests are not.
//!
//! Everything here is of fixed size, and nothing takes memory from an allocator. A parser is total, as those of
//! [`message`](super::message).
//!
//! Source: ours. All numbers are little-endian; addresses are as they are on a network.
//!
//! # A request
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic 0xB1 0xEE |
//! | 2 | 1 | version: 1 |
//! | 3 | 1 | kind: 1 connect, 2 ends, 3 error, 4 listen |
//! | 4 | 16 | the token of [`Gateway::token`] |
//! | 20 | 8 | the kernel's cookie of the socket (`SO_COOKIE`); 0 to listen |
//! | 28 | 20 | an end: where to connect; the other end as the kernel has it; the port to listen at; none for an error |
//!
//! With a request to connect comes the program's socket.
//!
//! # An answer
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic 0xB1 0xEE |
//! | 2 | 1 | version: 1 |
//! | 3 | 1 | kind: 5 |
//! | 4 | 4 | error number of the system; 0: none |
//! | 8 | 20 | the end of the connection at the bridge, or none |
//! | 28 | 20 | the other end of the connection, or none |
//!
//! # An end
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version of IP: 4 or 6; 0: there is none, and all that follows is zero |
//! | 1 | 1 | zero |
//! | 2 | 2 | port |
//! | 4 | 16 | address, of version 4 in the first four bytes and then zeros |
//!
//! # The variable
//!
//! Fields with a semicolon between them. `-` stands for one that is missing.
//!
//! | field | what |
//! |---|---|
//! | 1 | the version: 1 |
//! | 2 | the number in the name of the gateway's Unix socket, in hexadecimal |
//! | 3 | the gateway's user |
//! | 4 | the token, in hexadecimal |
//! | 5, 6 | where sockets connect to, over IPv4 and over IPv6 |
//! | 7, 8 | the bridge's addresses of IPv4 and of IPv6 |
//! | 9 | networks as `ADDRESS/PREFIX`, separated by commas |

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The variable of the environment by which a program's sockets find the gateway.
pub const VARIABLE: &str = "BAREWIRE_EDGE";
/// Bytes of a request.
pub const REQUEST_BYTES: usize = 48;
/// Bytes of an answer.
pub const ANSWER_BYTES: usize = 48;
/// Bytes of the token.
pub const TOKEN_BYTES: usize = 16;
/// Bytes of the name of a gateway's Unix socket.
pub const NAME_BYTES: usize = NAME_PREFIX.len() + 16;
/// How many networks there may be at most.
pub const NETWORKS_MAX: usize = 16;

const NAME_PREFIX: &[u8] = b"barewire/edge/";
const MAGIC: [u8; 2] = [0xb1, 0xee];
const VERSION: u8 = 1;
const KIND_CONNECT: u8 = 1;
const KIND_ENDS: u8 = 2;
const KIND_ERROR: u8 = 3;
const KIND_LISTEN: u8 = 4;
const KIND_ANSWER: u8 = 5;
const END_BYTES: usize = 20;

/// A network: an address, and how many of its first bits all addresses there have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address there.
    pub address: IpAddr,
    /// Bits that the addresses have in common.
    pub prefix_bits: u8,
}

impl Network {
    /// One of so many bits, if addresses of that version have so many.
    #[must_use]
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        (prefix_bits <= bits_max).then_some(Self {
            address,
            prefix_bits,
        })
    }

    /// Reads `ADDRESS/PREFIX`, or an address alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse().ok()?, bits.parse().ok()?),
            None => {
                let address: IpAddr = text.parse().ok()?;
                (address, if address.is_ipv4() { 32 } else { 128 })
            }
        };
        Self::new(address, bits)
    }

    /// Whether an address is of it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.prefix_bits)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Where a gateway is, and what is carried through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The number in the name of its Unix socket.
    pub id: u64,
    /// The user that it runs as.
    pub user: u32,
    /// What a request must say, so that it is heard.
    pub token: [u8; TOKEN_BYTES],
    /// Where sockets connect to over IPv4.
    pub v4: SocketAddrV4,
    /// Where sockets connect to over IPv6, if this host has it.
    pub v6: Option<SocketAddrV6>,
    /// The bridge's own addresses, of IPv4 and of IPv6.
    pub bridge: (Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// What is carried; all that leaves this host if there is none.
    pub networks: [Option<Network>; NETWORKS_MAX],
}

impl Gateway {
    /// The name of its Unix socket, which is an abstract one.
    #[must_use]
    pub fn name(&self) -> [u8; NAME_BYTES] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut name = [0; NAME_BYTES];
        name[..NAME_PREFIX.len()].copy_from_slice(NAME_PREFIX);
        for (at, place) in name[NAME_PREFIX.len()..].iter_mut().enumerate() {
            *place = DIGITS[(self.id >> (60 - 4 * at) & 15) as usize];
        }
        name
    }

    /// Whether connections to an address may go through the gateway. It does not look at which addresses
    /// this host has.
    #[must_use]
    pub fn may_carry(&self, target: IpAddr) -> bool {
        let (is_reached, is_ordinary) = match target {
            IpAddr::V4(v4) => (
                self.bridge.0.is_some_and(|own| own != v4),
                !v4.is_multicast() && !v4.is_broadcast(),
            ),
            IpAddr::V6(v6) => (
                self.v6.is_some() && self.bridge.1.is_some_and(|own| own != v6),
                // An address of a link means another host at another interface.
                !v6.is_multicast() && !v6.is_unicast_link_local(),
            ),
        };
        let mut networks = self.networks.iter().flatten().peekable();
        let is_wanted =
            networks.peek().is_none() || networks.any(|network| network.contains(target));
        is_reached && is_ordinary && is_wanted && !target.is_loopback() && !target.is_unspecified()
    }

    /// Whether the kernel's other end of a program's socket is the gateway.
    #[must_use]
    pub fn is_at(&self, end: SocketAddr) -> bool {
        match end {
            // Those that it connects to programs have another port.
            SocketAddr::V4(v4) => v4.ip() == self.v4.ip(),
            SocketAddr::V6(v6) => self
                .v6
                .is_some_and(|own| (own.ip(), own.port()) == (v6.ip(), v6.port())),
        }
    }

    /// Reads the variable's value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(';');
        let mut next = || fields.next();
        if next()? != "1" {
            return None;
        }
        let id = u64::from_str_radix(next()?, 16).ok()?;
        let user = next()?.parse().ok()?;
        let token = u128::from_str_radix(next()?, 16).ok()?.to_be_bytes();
        let v4 = next()?.parse().ok()?;
        let v6 = optional(next()?)?;
        let bridge = (optional(next()?)?, optional(next()?)?);
        let mut networks = [None; NETWORKS_MAX];
        let listed = next()?;
        let mut places = networks.iter_mut();
        for text in listed.split(',').filter(|_| listed != "-") {
            *places.next()? = Some(Network::parse(text)?);
        }
        if next().is_some() {
            return None;
        }
        Some(Self {
            id,
            user,
            token,
            v4,
            v6,
            bridge,
            networks,
        })
    }
}

/// A field that may be missing; outer `None`: it is wrong.
fn optional<T: core::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "-" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = u128::from_be_bytes(self.token);
        write!(f, "1;{:x};{};{token:032x};{}", self.id, self.user, self.v4)?;
        show(f, self.v6)?;
        show(f, self.bridge.0)?;
        show(f, self.bridge.1)?;
        let mut before = ';';
        for network in self.networks.iter().flatten() {
            write!(f, "{before}{network}")?;
            before = ',';
        }
        if before == ';' {
            f.write_str(";-")?;
        }
        Ok(())
    }
}

fn show(f: &mut fmt::Formatter<'_>, field: Option<impl fmt::Display>) -> fmt::Result {
    match field {
        Some(field) => write!(f, ";{field}"),
        None => f.write_str(";-"),
    }
}

/// What a program's socket asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To be connected. The socket comes with it, and is on its way to the gateway.
    Connect {
        /// The socket.
        cookie: u64,
        /// Where to.
        target: SocketAddr,
    },
    /// Which ends the connection really has.
    Ends {
        /// The program's socket.
        cookie: u64,
        /// The other end, as the kernel has it.
        kernel: SocketAddr,
    },
    /// Why the socket was not connected.
    Error {
        /// The socket.
        cookie: u64,
    },
    /// That connections of others to a port go to the program.
    Listen {
        /// The port; the address says which version of IP the listener takes: unspecified.
        at: SocketAddr,
    },
}

impl Request {
    /// As bytes, with the token.
    #[must_use]
    pub fn to_bytes(&self, token: &[u8; TOKEN_BYTES]) -> [u8; REQUEST_BYTES] {
        let (kind, cookie, end) = match *self {
            Self::Connect { cookie, target } => (KIND_CONNECT, cookie, Some(target)),
            Self::Ends { cookie, kernel } => (KIND_ENDS, cookie, Some(kernel)),
            Self::Error { cookie } => (KIND_ERROR, cookie, None),
            Self::Listen { at } => (KIND_LISTEN, 0, Some(at)),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&[MAGIC[0], MAGIC[1], VERSION, kind]);
        bytes[4..20].copy_from_slice(token);
        bytes[20..28].copy_from_slice(&cookie.to_le_bytes());
        bytes[28..].copy_from_slice(&end_bytes(end));
        bytes
    }

    /// Reads one that has the right token.
    #[must_use]
    pub fn parse(bytes: &[u8], token: &[u8; TOKEN_BYTES]) -> Option<Self> {
        let bytes: &[u8; REQUEST_BYTES] = bytes.try_into().ok()?;
        if bytes[..3] != [MAGIC[0], MAGIC[1], VERSION] || bytes[4..20] != token[..] {
            return None;
        }
        let cookie = u64::from_le_bytes(bytes[20..28].try_into().ok()?);
        let end = parse_end(bytes[28..].try_into().ok()?)?;
        match (bytes[3], end) {
            (KIND_CONNECT, Some(target)) => Some(Self::Connect { cookie, target }),
            (KIND_ENDS, Some(kernel)) => Some(Self::Ends { cookie, kernel }),
            (KIND_ERROR, None) => Some(Self::Error { cookie }),
            (KIND_LISTEN, Some(at)) if cookie == 0 && at.ip().is_unspecified() => {
                Some(Self::Listen { at })
            }
            _ => None,
        }
    }
}

/// What the gateway answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Why the socket was not connected, as a number of the system; 0: it was, or nobody knows.
    pub error: i32,
    /// The end at the bridge.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: Option<SocketAddr>,
}

impl Answer {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..4].copy_from_slice(&[MAGIC[0], MAGIC[1], VERSION, KIND_ANSWER]);
        bytes[4..8].copy_from_slice(&self.error.to_le_bytes());
        bytes[8..28].copy_from_slice(&end_bytes(self.local));
        bytes[28..].copy_from_slice(&end_bytes(self.remote));
        bytes
    }

    /// Reads one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ANSWER_BYTES] = bytes.try_into().ok()?;
        if bytes[..4] != [MAGIC[0], MAGIC[1], VERSION, KIND_ANSWER] {
            return None;
        }
        Some(Self {
            error: i32::from_le_bytes(bytes[4..8].try_into().ok()?),
            local: parse_end(bytes[8..28].try_into().ok()?)?,
            remote: parse_end(bytes[28..].try_into().ok()?)?,
        })
    }
}

fn end_bytes(end: Option<SocketAddr>) -> [u8; END_BYTES] {
    let mut bytes = [0; END_BYTES];
    let Some(end) = end else {
        return bytes;
    };
    bytes[2..4].copy_from_slice(&end.port().to_le_bytes());
    match end.ip() {
        IpAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[4..8].copy_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[4..].copy_from_slice(&v6.octets());
        }
    }
    bytes
}

/// An end, or none; outer `None`: it is wrong.
fn parse_end(bytes: &[u8; END_BYTES]) -> Option<Option<SocketAddr>> {
    let is_zero = |part: &[u8]| part.iter().all(|&byte| byte == 0);
    let port = u16::from_le_bytes([bytes[2], bytes[3]]);
    match bytes[0] {
        0 => is_zero(&bytes[1..]).then_some(None),
        4 if bytes[1] == 0 && is_zero(&bytes[8..]) => {
            let octets: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some(Some(SocketAddr::new(octets.into(), port)))
        }
        6 if bytes[1] == 0 => {
            let octets: [u8; 16] = bytes[4..].try_into().ok()?;
            Some(Some(SocketAddr::new(octets.into(), port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn gateway() -> Gateway {
        let mut networks = [None; NETWORKS_MAX];
        networks[0] = Network::parse("10.0.0.0/8");
        networks[1] = Network::parse("fd77::/64");
        Gateway {
            id: 0x12,
            user: 7,
            token: [9; TOKEN_BYTES],
            v4: "127.83.1.2:4000".parse().unwrap(),
            v6: Some("[::1]:4001".parse().unwrap()),
            bridge: (Some([10, 0, 0, 9].into()), "fd77::9".parse().ok()),
            networks,
        }
    }

    #[test]
    fn the_variable_says_all_and_nothing_else_is_one() {
        let whole = gateway();
        let plain = Gateway {
            v6: None,
            bridge: (whole.bridge.0, None),
            networks: [None; NETWORKS_MAX],
            ..whole
        };
        for gateway in [whole, plain] {
            let text = gateway.to_string();
            assert_eq!(Gateway::parse(&text), Some(gateway), "{text}");
            assert_eq!(Gateway::parse(&text[..text.len() - 2]), None, "{text}");
            assert_eq!(Gateway::parse(&(text + ";")), None);
        }
        let text = plain.to_string();
        assert_eq!(Gateway::parse(&text.replacen('1', "2", 1)), None);
        assert_eq!(Gateway::parse(""), None);
        assert_eq!(&whole.name(), b"barewire/edge/0000000000000012");
    }

    #[test]
    fn what_leaves_the_host_is_carried() {
        let carries = |gateway: &Gateway, text: &str| gateway.may_carry(text.parse().unwrap());
        let some = gateway();
        let all = Gateway {
            networks: [None; NETWORKS_MAX],
            ..some
        };
        for (text, by_some, by_all) in [
            ("10.1.2.3", true, true),
            ("11.1.2.3", false, true),
            ("10.0.0.9", false, false),
            ("127.0.0.1", false, false),
            ("0.0.0.0", false, false),
            ("224.0.0.1", false, false),
            ("fd77::1", true, true),
            ("fd78::1", false, true),
            ("fe80::1", false, false),
            ("::1", false, false),
        ] {
            let found = (carries(&some, text), carries(&all, text));
            assert_eq!(found, (by_some, by_all), "{text}");
        }
        let only_4 = Gateway { v6: None, ..all };
        assert!(!carries(&only_4, "fd77::1"));
        assert!(some.is_at("127.83.1.2:9".parse().unwrap()));
        assert!(!some.is_at("[::1]:9".parse().unwrap()));
        assert!(Network::parse("10.0.0.0/33").is_none());
        assert!(Network::parse("::/0").unwrap().contains([0; 16].into()));
    }

    #[test]
    fn requests_and_answers_are_read_as_they_were_written() {
        let token = [3; TOKEN_BYTES];
        let (v4, v6): (SocketAddr, SocketAddr) = (
            "10.0.0.1:80".parse().unwrap(),
            "[fd77::1]:443".parse().unwrap(),
        );
        let at = "0.0.0.0:80".parse().unwrap();
        for request in [
            Request::Connect {
                cookie: 5,
                target: v6,
            },
            Request::Ends {
                cookie: u64::MAX,
                kernel: v4,
            },
            Request::Error { cookie: 1 },
            Request::Listen { at },
        ] {
            let mut bytes = request.to_bytes(&token);
            assert_eq!(Request::parse(&bytes, &token), Some(request));
            assert_eq!(Request::parse(&bytes, &[4; TOKEN_BYTES]), None);
            assert_eq!(Request::parse(&bytes[1..], &token), None);
            bytes[29] = 1;
            assert_eq!(Request::parse(&bytes, &token), None);
        }
        let answer = Answer {
            error: 111,
            local: Some(v4),
            remote: Some(v6),
        };
        for answer in [answer, Answer::default()] {
            let mut bytes = answer.to_bytes();
            assert_eq!(Answer::parse(&bytes), Some(answer));
            bytes[8] = 5;
            assert_eq!(Answer::parse(&bytes), None);
        }
    }
}
