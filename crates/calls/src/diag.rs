//! `sock_diag`: what the kernel knows of a socket of this host, asked by its addresses (TCP) or its inode (Unix; Linux
//! 3.3 or later, with `unix_diag`). Layouts: linux/netlink.h, linux/inet_diag.h, linux/unix_diag.h.

use core::ffi::c_int;

use crate::netlink::{HEADER_BYTES, attribute, attributes};
use crate::{Result, message, netlink};

/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
const ANSWER_BYTES: usize = 512;

/// A socket to ask with.
pub fn socket() -> Result<c_int> {
    netlink::socket(libc::NETLINK_SOCK_DIAG)
}

/// `struct nlmsghdr`, and what is asked.
#[repr(C)]
struct Question<T> {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    pid: u32,
    what: T,
}

/// Asks, and returns what the kernel said behind its header; `ENOENT` if it knows no such socket.
fn ask<T>(socket: c_int, what: T, answer: &mut [u8]) -> Result<&[u8]> {
    let question = Question {
        len: size_of::<Question<T>>() as u32,
        kind: BY_FAMILY,
        flags: libc::NLM_F_REQUEST as u16,
        sequence: 1,
        pid: 0,
        what,
    };
    let at = (&raw const question).cast::<u8>();
    // SAFETY: both kinds of questions are numbers without gaps.
    let bytes = unsafe { core::slice::from_raw_parts(at, size_of_val(&question)) };
    message::send_bytes(socket, bytes, 0)?;
    // The kernel has answered by now.
    let answer = message::receive_bytes(socket, answer, libc::MSG_DONTWAIT)?;
    let parts = answer.split_at_checked(HEADER_BYTES);
    let (_, body) = parts
        .filter(|(header, _)| header[4..6] == BY_FAMILY.to_ne_bytes())
        .ok_or(libc::ENOENT)?;
    Ok(body)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

/// One end of a TCP connection; IPv4 addresses as in IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// In the order of the network.
    pub address: [u8; 16],
    /// In the machine's order.
    pub port: u16,
}

impl End {
    /// Whether its address is one of IPv4.
    pub fn is_v4(&self) -> bool {
        self.address[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
    }

    /// The address as the kernel has it in sockets of a family.
    fn address_in(&self, family: c_int) -> [u8; 16] {
        let mut bytes = self.address;
        if family == libc::AF_INET {
            bytes = [0; 16];
            bytes[..4].copy_from_slice(&self.address[12..]);
        }
        bytes
    }
}

/// `struct inet_diag_req_v2`
#[repr(C)]
struct TcpQuestion {
    family: u8,
    protocol: u8,
    extensions: u8,
    pad: u8,
    states: u32,
    ports: [[u8; 2]; 2],
    addresses: [[u8; 16]; 2],
    interface: u32,
    cookie: [u32; 2],
}

/// What the kernel says of a TCP socket.
pub struct TcpSocket {
    /// The user.
    pub user: u32,
    /// Its inode; 0 before it is accepted.
    pub inode: u32,
    /// Its cookie, which no other socket has.
    pub cookie: u64,
    /// The state of the connection (include/net/tcp_states.h).
    pub state: u8,
    /// The flags of `struct inet_diag_sockopt`, which Linux tells since 5.10.
    pub options: Option<u16>,
}

/// Asks for the TCP socket of a family whose own end is `own`, and which is connected to `other`; or, if there is
/// none, for one that listens there.
pub fn tcp(socket: c_int, family: c_int, own: &End, other: &End) -> Result<TcpSocket> {
    let question = TcpQuestion {
        family: family as u8,
        protocol: libc::IPPROTO_TCP as u8,
        extensions: 0,
        pad: 0,
        states: u32::MAX,
        ports: [own, other].map(|end| end.port.to_be_bytes()),
        addresses: [own, other].map(|end| end.address_in(family)),
        interface: 0,
        cookie: [u32::MAX; 2],
    };
    let mut answer = [0; ANSWER_BYTES];
    let body = ask(socket, question, &mut answer)?;
    parse_tcp(body, own, other).ok_or(libc::ENOENT)
}

/// `struct inet_diag_msg`: family, state, timer, retransmissions; then the socket as in the question (ports at 4,
/// addresses at 8, cookie at 44); expires, queues, user and inode at 52; then attributes.
fn parse_tcp(body: &[u8], own: &End, other: &End) -> Option<TcpSocket> {
    /// `INET_DIAG_SOCKOPT`
    const OPTIONS: u16 = 22;
    let (body, rest) = body.split_at_checked(72)?;
    let is = |end: &End, port_at: usize, address_at: usize| {
        let family = c_int::from(body[0]);
        let address = end.address_in(family);
        // Behind an IPv4 address may be anything.
        let len = if family == libc::AF_INET { 4 } else { 16 };
        body[address_at..address_at + len] == address[..len]
            && body[port_at..port_at + 2] == end.port.to_be_bytes()
    };
    if !is(own, 4, 8) || !is(other, 6, 24) {
        return None;
    }
    let options = attribute(rest, OPTIONS).and_then(<[u8]>::first_chunk);
    Some(TcpSocket {
        user: word(body, 64)?,
        inode: word(body, 68)?,
        cookie: u64::from(word(body, 44)?) | u64::from(word(body, 48)?) << 32,
        state: body[1],
        options: options.map(|flags| u16::from_le_bytes(*flags)),
    })
}

/// `struct unix_diag_req`
#[repr(C)]
struct UnixQuestion {
    family: u8,
    protocol: u8,
    pad: u16,
    states: u32,
    inode: u32,
    show: u32,
    cookie: [u32; 2],
}

/// `UDIAG_SHOW_PEER`, `_RQLEN`, `_MEMINFO`, `_UID`.
const SHOW: u32 = 4 | 0x10 | 0x20 | 0x40;

/// What the kernel says of a Unix socket.
#[derive(Default)]
pub struct UnixSocket {
    /// Its cookie, which no other socket has.
    pub cookie: u64,
    /// Inode of the other end: 0 before it is accepted.
    pub peer: Option<u32>,
    /// Bytes that it has received and nobody has read.
    pub unread: Option<u32>,
    /// Size of its receive buffer.
    pub receive_buffer: Option<u32>,
    /// The user.
    pub user: Option<u32>,
    /// Which halves are shut.
    pub shut: u8,
}

/// Asks for the Unix socket of an inode.
pub fn unix(socket: c_int, inode: u32) -> Result<UnixSocket> {
    let question = UnixQuestion {
        family: libc::AF_UNIX as u8,
        protocol: 0,
        pad: 0,
        states: u32::MAX,
        inode,
        show: SHOW,
        cookie: [u32::MAX; 2],
    };
    let mut answer = [0; ANSWER_BYTES];
    let body = ask(socket, question, &mut answer)?;
    parse_unix(body, inode).ok_or(libc::ENOENT)
}

/// `struct unix_diag_msg`: family, kind, state, pad; inode at 4, cookie at 8; then attributes.
fn parse_unix(body: &[u8], inode: u32) -> Option<UnixSocket> {
    if body.first() != Some(&(libc::AF_UNIX as u8)) || word(body, 4)? != inode {
        return None;
    }
    let mut found = UnixSocket {
        cookie: u64::from(word(body, 8)?) | u64::from(word(body, 12)?) << 32,
        ..UnixSocket::default()
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            2 => found.peer = word(value, 0),
            4 => found.unread = word(value, 0),
            // `SK_MEMINFO_RCVBUF`.
            5 => found.receive_buffer = word(value, 4),
            6 => found.shut = value.first().copied().unwrap_or(0),
            7 => found.user = word(value, 0),
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(last: u8, port: u16) -> End {
        End {
            address: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last],
            port,
        }
    }

    /// What the kernel says of the socket that has port 4000: user 7, inode 8, cookie 9, with options.
    fn answer() -> [u8; 72 + 8] {
        let mut body = [0_u8; 72 + 8];
        body[0] = libc::AF_INET as u8;
        body[1] = 1;
        body[4..6].copy_from_slice(&4000_u16.to_be_bytes());
        body[6..8].copy_from_slice(&80_u16.to_be_bytes());
        body[8..12].copy_from_slice(&[127, 0, 0, 2]);
        body[24..28].copy_from_slice(&[127, 0, 0, 1]);
        body[44..48].copy_from_slice(&9_u32.to_ne_bytes());
        body[64..68].copy_from_slice(&7_u32.to_ne_bytes());
        body[68..72].copy_from_slice(&8_u32.to_ne_bytes());
        body[72..74].copy_from_slice(&6_u16.to_ne_bytes());
        body[74..76].copy_from_slice(&22_u16.to_ne_bytes());
        body[77] = 2;
        body
    }

    fn parse(body: &[u8]) -> Option<TcpSocket> {
        parse_tcp(body, &end(2, 4000), &end(1, 80))
    }

    #[test]
    fn an_answer_is_read() {
        let found = parse(&answer()).unwrap();
        assert_eq!((found.user, found.inode, found.cookie), (7, 8, 9));
        assert_eq!((found.state, found.options), (1, Some(2 << 8)));
        assert_eq!(parse(&answer()[..72]).unwrap().options, None);
    }

    #[test]
    fn broken_answers_bear_no_harm_and_others_are_not_taken() {
        let whole = answer();
        for len in 0..whole.len() {
            assert!(len >= 72 || parse(&whole[..len]).is_none());
        }
        // Ports and addresses decide whose it is.
        for at in [4, 5, 6, 7, 8, 11, 24, 27] {
            let mut other = whole;
            other[at] ^= 1;
            assert!(parse(&other).is_none(), "byte {at}");
        }
        let mut state = 88_172_645_463_325_252_u64;
        let mut any = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        for _ in 0..200_000 {
            let mut spoiled = whole;
            for _ in 0..=any() % 4 {
                spoiled[any() % whole.len()] = any() as u8;
            }
            let _ = parse(&spoiled[..any() % (whole.len() + 1)]);
        }
    }

    #[test]
    fn answers_of_unix_sockets_are_read_and_broken_ones_bear_no_harm() {
        let mut body = [0_u8; 16 + 8 + 8];
        body[0] = libc::AF_UNIX as u8;
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        body[8..12].copy_from_slice(&9_u32.to_ne_bytes());
        body[16..20].copy_from_slice(&[8, 0, 2, 0]);
        body[20..24].copy_from_slice(&8_u32.to_ne_bytes());
        body[24..28].copy_from_slice(&[8, 0, 7, 0]);
        body[28..32].copy_from_slice(&1000_u32.to_ne_bytes());
        let found = parse_unix(&body, 7).unwrap();
        let told = (found.cookie, found.peer, found.user);
        assert_eq!(told, (9, Some(8), Some(1000)));
        assert!(parse_unix(&body, 8).is_none());
        for len in 0..body.len() {
            let _ = parse_unix(&body[..len], 7);
        }
        for (at, value) in (16..32).flat_map(|at| [0, 1, 255].map(|value| (at, value))) {
            let mut broken = body;
            broken[at] = value;
            let _ = parse_unix(&broken, 7);
        }
    }
}
