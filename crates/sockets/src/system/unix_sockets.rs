//! Unix stream sockets: what the kernel knows of them and of their other ends.
//!
//! Usually they have no addresses, so the two ends of a connection are named by their inodes, which
//! `sock_diag` tells (Linux 3.3 or later, with `unix_diag`).

use core::ffi::c_int;

use barewire_calls::{descriptor, diag};

use crate::system::kernel::{self, Name, Owned, Peer, option, set_option};

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
    let Some(socket) = Owned::checked(diag::socket()) else {
        return Found::Nothing;
    };
    let other = match other {
        0 => diag::unix(socket.raw(), own).ok().and_then(|it| it.peer),
        known => Some(known),
    };
    match other {
        None => Found::Nothing,
        Some(0) => Found::NotAccepted,
        Some(other) => diag::unix(socket.raw(), other)
            .ok()
            .and_then(|found| as_peer(&found, own, other))
            .map_or(Found::Nothing, |(peer, unread)| {
                Found::Pair(Pair { own, other }, peer, unread)
            }),
    }
}

/// Bytes that the socket of this inode has received and nobody has read.
pub fn unread_of(inode: u32) -> Option<u64> {
    let socket = Owned::checked(diag::socket())?;
    diag::unix(socket.raw(), inode).ok()?.unread.map(u64::from)
}

/// Bytes that this socket has received and nobody has read.
pub fn unread(fd: c_int) -> Option<u64> {
    let bytes = descriptor::count(fd, libc::FIONREAD).ok()?;
    Some(u64::from(bytes.unsigned_abs()))
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

/// A socket as the other end of the one with inode `own`, if it is, and both halves are open.
fn as_peer(found: &diag::UnixSocket, own: u32, inode: u32) -> Option<(Peer, u64)> {
    if found.peer != Some(own) || found.shut != 0 {
        return None;
    }
    let peer = Peer {
        user: found.user?,
        inode,
        cookie: found.cookie,
        is_marked: found.receive_buffer.is_some_and(is_marked),
        is_holder: found.receive_buffer.is_some_and(is_holder),
        state: kernel::ESTABLISHED,
    };
    Some((peer, u64::from(found.unread.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_seen() {
        let marked = 2 * ((212_992_u32 / 2) & !MARK_BITS | MARK);
        assert!(is_marked(marked));
        assert!(!is_marked(212_992));
        assert!(marked.abs_diff(212_992) <= 4096);
    }
}
