//! Unix sockets that keep message boundaries, under abstract names, in this network namespace. No call on them waits.

use core::ffi::c_int;
use core::mem::{offset_of, zeroed};

use libc::sockaddr_un;

use crate::{Result, call};

/// The longest name.
pub const NAME_BYTES_MAX: usize = size_of::<sockaddr_un>() - offset_of!(sockaddr_un, sun_path) - 1;

/// A socket, of any kind.
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    let (domain, kind) = (domain as usize, (kind | libc::SOCK_CLOEXEC) as usize);
    // SAFETY: no pointers.
    let fd = unsafe { call(libc::SYS_socket, [domain, kind, protocol as usize]) };
    fd.map(|fd| fd as c_int)
}

/// A socket to be bound or connected.
pub fn new() -> Result<c_int> {
    socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0)
}

/// Binds a socket to a name. Nobody can connect before [`listen`].
pub fn bind(fd: c_int, name: &[u8]) -> Result<()> {
    with_address(libc::SYS_bind, fd, name)
}

/// Connects a socket to who listens under a name.
pub fn connect(fd: c_int, name: &[u8]) -> Result<()> {
    with_address(libc::SYS_connect, fd, name)
}

/// A call that takes a socket and an address.
fn with_address(number: libc::c_long, fd: c_int, name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(libc::ENAMETOOLONG);
    }
    // SAFETY: zeros are an address of no family.
    let mut address: sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // A zero comes first: the name is in no folder.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let len = offset_of!(sockaddr_un, sun_path) + 1 + name.len();
    // SAFETY: `bind` or `connect`; the address has `len` bytes.
    unsafe { call(number, [fd as usize, (&raw const address) as usize, len]) }.map(drop)
}

/// Lets others connect to a socket. `waiting_max`: how many may wait to be accepted.
pub fn listen(fd: c_int, waiting_max: c_int) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_listen, [fd as usize, waiting_max as usize]) }.map(drop)
}

/// Accepts the next connection, of any kind of socket.
pub fn accept(fd: c_int) -> Result<c_int> {
    let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as usize;
    // SAFETY: no address is asked for.
    let fd = unsafe { call(libc::SYS_accept4, [fd as usize, 0, 0, flags]) };
    fd.map(|fd| fd as c_int)
}
