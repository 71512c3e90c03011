//! Unix stream sockets: what the kernel knows of them and of their other ends.
//!
//! Usually they have no addresses, so the two ends of a connection are named by their inodes, which
//! `sock_diag` tells (Linux 3.3 or later, with `unix_diag`).

use core::ffi::c_int;

use barewire_calls::descriptor;

use crate::system::{
    kernel::{
        self, Name, Owned, Peer, SOCK_DIAG_BY_FAMILY, ask_kernel, diag_socket, has_message, option,
        set_option,
    },
    real,
};

/// Whether it is a stream socket of the Unix family.
pub fn is_stream(fd: c_int) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_UNIX) && is_of_streams(fd)
}

/// Whether a socket of the Unix family is a stream socket.
pub fn is_of_streams(fd: c_int) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// The two ends of a connection, by inode.
#[derive(Clone, Copy)]
pub struct Pair {
    pub own: u32,
    pub other: u32,
}

impl Pair {
    /// Where both ends meet: the same name from either end.
    pub fn rendezvous_name(&self) -> Name {
        let mut name = Name::begin(b"barewire/5/unix/");
        for inode in [self.own.min(self.other), self.own.max(self.other)] {
            name.add(inode.to_be_bytes());
        }
        name
    }
}

/// What [`look_up`] found.
pub enum Found {
    /// Both ends, who has the other, and the bytes that it has yet to read.
    Pair(Pair, Peer, u64),
    /// Nobody has accepted the connection yet.
    NotAccepted,
    /// It is not connected, or the kernel does not say.
    Nothing,
}

/// Asks the kernel for the other end, whose inode is `other`, or 0 if it is not known.
pub fn look_up(fd: c_int, other: u32) -> Found {
    let Some(own) = inode(fd) else {
        return Found::Nothing;
    };
    let Some(socket) = diag_socket() else {
        return Found::Nothing;
    };
    let other = match other {
        0 => ask(&socket, own, |answer| answer.peer).flatten(),
        known => Some(known),
    };
    match other {
        None => Found::Nothing,
        Some(0) => Found::NotAccepted,
        Some(other) => ask(&socket, other, |answer| answer.as_peer(own, other))
            .flatten()
            .map_or(Found::Nothing, |(peer, unread)| {
                Found::Pair(Pair { own, other }, peer, unread)
            }),
    }
}

/// Bytes that the socket of this inode has received and nobody has read.
pub fn unread_of(inode: u32) -> Option<u64> {
    let socket = diag_socket()?;
    ask(&socket, inode, |answer| answer.unread.map(u64::from)).flatten()
}

/// Bytes that this socket has received and nobody has read.
pub fn unread(fd: c_int) -> Option<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes a number.
    let result = unsafe { real::ioctl(fd, libc::FIONREAD, &raw mut bytes as usize) };
    (result == 0).then_some(u64::from(bytes.unsigned_abs()))
}

/// The socket's inode, which is its name among sockets.
pub fn inode(fd: c_int) -> Option<u32> {
    let status = descriptor::status(fd).ok()?;
    // Sockets have no longer ones; the question has no room for them.
    u32::try_from(status.st_ino).ok()
}

const PASS_SECURITY: c_int = 34;
const PASS_PIDFD: c_int = 76;
/// Options with which only the kernel can serve a receiver, and what they are without it.
const KERNEL_ONLY: [(c_int, c_int); 5] = [
    (libc::SO_PASSCRED, 0),
    (PASS_SECURITY, 0),
    (PASS_PIDFD, 0),
    (libc::SO_PEEK_OFF, -1),
    (libc::SO_RCVLOWAT, 1),
];

/// Whether an option of `SOL_SOCKET` is one of those.
pub fn is_kernel_only(name: c_int) -> bool {
    KERNEL_ONLY.iter().any(|(known, _)| *known == name)
}

/// Whether the program has set none of them. Older kernels do not know all.
pub fn is_simple(fd: c_int) -> bool {
    let is_unset = |&(name, unset): &(c_int, c_int)| {
        option(fd, libc::SOL_SOCKET, name).is_none_or(|value| value == unset)
    };
    KERNEL_ONLY.iter().all(is_unset)
}

/// The capability mark: these last bits in the size of the receive buffer, which has no effect on a Unix
/// socket. The kernel doubles what it is told.
const MARK: u32 = 0x5d1;
/// The same, with the mark of the process that holds the rendezvous socket.
const HOLDER: u32 = 0x5d3;
const MARK_BITS: u32 = 0x7ff;

/// Marks a socket. Returns the size before.
pub fn mark(fd: c_int) -> Option<u32> {
    mark_with(fd, MARK)
}

/// Sets or clears the mark of the process that holds the rendezvous socket.
pub fn set_holder(fd: c_int, on: bool) -> bool {
    mark_with(fd, if on { HOLDER } else { MARK }).is_some()
}

fn mark_with(fd: c_int, bits: u32) -> Option<u32> {
    let before = option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)?.unsigned_abs();
    let marked = (before / 2) & !MARK_BITS | bits;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, marked as c_int).then_some(before)
}

/// Whether this is the size of a receive buffer with the mark.
pub fn is_marked(receive_buffer: u32) -> bool {
    has_bits(receive_buffer, MARK) || is_holder(receive_buffer)
}

/// Whether this is the size of a receive buffer with the sign of [`set_holder`].
fn is_holder(receive_buffer: u32) -> bool {
    has_bits(receive_buffer, HOLDER)
}

fn has_bits(receive_buffer: u32, bits: u32) -> bool {
    receive_buffer % 2 == 0 && (receive_buffer / 2) & MARK_BITS == bits
}

/// `struct unix_diag_req` (linux/unix_diag.h) behind `struct nlmsghdr`.
#[repr(C)]
struct Question {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    pid: u32,
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

fn ask<T>(socket: &Owned, inode: u32, read: impl FnOnce(&Answer) -> T) -> Option<T> {
    let question = Question {
        len: size_of::<Question>() as u32,
        kind: SOCK_DIAG_BY_FAMILY,
        flags: libc::NLM_F_REQUEST as u16,
        sequence: 1,
        pid: 0,
        family: libc::AF_UNIX as u8,
        protocol: 0,
        pad: 0,
        states: u32::MAX,
        inode,
        show: SHOW,
        cookie: [u32::MAX; 2],
    };
    let mut bytes = [0_u8; 512];
    let answer = ask_kernel(socket, &question, &mut bytes)?;
    parse(answer, inode).map(|answer| read(&answer))
}

/// What the kernel says of a socket.
#[derive(Default)]
struct Answer {
    cookie: u64,
    /// Inode of the other end: 0 before it is accepted.
    peer: Option<u32>,
    unread: Option<u32>,
    receive_buffer: Option<u32>,
    user: Option<u32>,
    shut: u8,
}

impl Answer {
    /// The socket as the other end of the one with inode `own`, if it is, and both halves are
    /// open.
    fn as_peer(&self, own: u32, inode: u32) -> Option<(Peer, u64)> {
        if self.peer != Some(own) || self.shut != 0 {
            return None;
        }
        let peer = Peer {
            user: self.user?,
            inode,
            cookie: self.cookie,
            is_marked: self.receive_buffer.is_some_and(is_marked),
            is_holder: self.receive_buffer.is_some_and(is_holder),
            state: kernel::ESTABLISHED,
        };
        Some((peer, u64::from(self.unread.unwrap_or(0))))
    }
}

/// `struct unix_diag_msg` behind the header: family, kind, state, pad; inode at 4, cookie at 8;
/// then attributes.
fn parse(answer: &[u8], inode: u32) -> Option<Answer> {
    if !has_message(answer, SOCK_DIAG_BY_FAMILY) {
        return None;
    }
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let body = answer.get(16..)?;
    if body.first() != Some(&(libc::AF_UNIX as u8)) || word(body, 4)? != inode {
        return None;
    }
    let mut found = Answer {
        cookie: u64::from(word(body, 8)?) | u64::from(word(body, 12)?) << 32,
        ..Answer::default()
    };
    kernel::for_each_attribute(body.get(16..)?, |kind, value| match kind {
        2 => found.peer = word(value, 0),
        4 => found.unread = word(value, 0),
        // `SK_MEMINFO_RCVBUF`.
        5 => found.receive_buffer = word(value, 4),
        6 => found.shut = value.first().copied().unwrap_or(0),
        7 => found.user = word(value, 0),
        _ => {}
    });
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_broken_ones_bear_no_harm() {
        let mut answer = [0_u8; 16 + 16 + 8 + 8];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[16] = libc::AF_UNIX as u8;
        answer[20..24].copy_from_slice(&7_u32.to_ne_bytes());
        answer[24..28].copy_from_slice(&9_u32.to_ne_bytes());
        answer[32..34].copy_from_slice(&8_u16.to_ne_bytes());
        answer[34] = 2;
        answer[36..40].copy_from_slice(&8_u32.to_ne_bytes());
        answer[40..42].copy_from_slice(&8_u16.to_ne_bytes());
        answer[42] = 7;
        answer[44..48].copy_from_slice(&1000_u32.to_ne_bytes());
        let found = parse(&answer, 7).unwrap();
        assert_eq!(
            (found.cookie, found.peer, found.user),
            (9, Some(8), Some(1000))
        );
        assert!(found.as_peer(8, 7).is_some());
        assert!(found.as_peer(9, 7).is_none());
        assert!(parse(&answer, 8).is_none());
        for len in 0..answer.len() {
            let _ = parse(&answer[..len], 7);
        }
        for (at, value) in (32..48).flat_map(|at| [0, 1, 255].map(|value| (at, value))) {
            let mut broken = answer;
            broken[at] = value;
            let _ = parse(&broken, 7);
        }
    }

    #[test]
    fn the_mark_is_seen() {
        let marked = 2 * ((212_992_u32 / 2) & !MARK_BITS | MARK);
        assert!(is_marked(marked));
        assert!(!is_marked(212_992));
        assert!(marked.abs_diff(212_992) <= 4096);
    }
}
