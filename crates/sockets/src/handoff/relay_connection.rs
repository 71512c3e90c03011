//! The connection between a relay and the successor: both ends belong to this process, and it looks like
//! the old one.

use core::ffi::c_int;

use libc::{sockaddr_storage, socklen_t};

use barewire_calls::{descriptor, name};

use crate::process::clock;
use crate::system::{
    kernel::{self, Owned},
    real,
};

/// How many milliseconds the connection to itself may take.
const ACCEPT_TRIES: u32 = 200;

type Name = (sockaddr_storage, socklen_t);

/// The address, with this port; 0: whatever is free.
fn with_port(mut name: Name, port: u16) -> Option<Name> {
    let (at, port) = (&raw mut name.0, port.to_be());
    // SAFETY: the family says what it is; the storage is larger than either.
    unsafe {
        match c_int::from(name.0.ss_family) {
            libc::AF_INET => (*at.cast::<libc::sockaddr_in>()).sin_port = port,
            libc::AF_INET6 => (*at.cast::<libc::sockaddr_in6>()).sin6_port = port,
            _ => return None,
        }
    }
    Some(name)
}

fn tcp_socket(family: c_int) -> Option<Owned> {
    Owned::checked(name::socket(family, libc::SOCK_STREAM, 0))
}

fn bind(socket: &Owned, name: &Name) -> bool {
    // SAFETY: the address has its length.
    unsafe { libc::bind(socket.raw(), (&raw const name.0).cast(), name.1) == 0 }
}

/// How many ports are tried, out of those that the kernel does not assign by itself.
const PORT_TRIES: u16 = 256;
const PORTS: core::ops::Range<u16> = 2_000..32_768;

/// As [`bind`], to any port. Where many connections were closed lately, the kernel finds no free port by
/// itself.
fn bind_anywhere(socket: &Owned, name: Name) -> bool {
    let first = clock::now_ns() as u16 % PORTS.len() as u16;
    let others =
        (0..PORT_TRIES).map(|nth| PORTS.start + first.wrapping_add(nth * 119) % PORTS.len() as u16);
    let mut ports = core::iter::once(0).chain(others);
    ports.any(|port| with_port(name, port).is_some_and(|name| bind(socket, &name)))
}

/// Two ends of a pair of Unix sockets.
fn pair() -> Option<(Owned, Owned)> {
    let mut fds: [c_int; 2] = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two numbers.
    let result = unsafe { real::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    Some((Owned::moved(fds[0]), Owned::moved(fds[1])))
}

/// The two ends of a new connection. The second has the addresses of `fd`, if that is a TCP socket and can
/// have them.
pub fn connection_like(fd: c_int, is_local: bool) -> Option<(Owned, Owned)> {
    if is_local {
        return pair();
    }
    // Where no port is free: a successor that asks for options of TCP hears of errors, but the bytes
    // come.
    tcp_like(fd).or_else(pair)
}

fn tcp_like(fd: c_int) -> Option<(Owned, Owned)> {
    let own = with_port(kernel::address(fd, true)?, 0)?;
    // Where both halves have ended, the kernel has forgotten the other name, and tells nobody.
    let other = kernel::address(fd, false).unwrap_or(own);
    let family = c_int::from(own.0.ss_family);
    let (listener, outer) = (tcp_socket(family)?, tcp_socket(family)?);
    // Its port comes when it connects, and may be that of others to other ports.
    kernel::set_option(
        outer.raw(),
        libc::IPPROTO_IP,
        libc::IP_BIND_ADDRESS_NO_PORT,
        1,
    );
    let listens = bind_anywhere(&listener, other)
        && bind(&outer, &own)
        && name::listen(listener.raw(), 1).is_ok()
        && descriptor::set_flags(listener.raw(), libc::O_NONBLOCK).is_ok();
    let there = kernel::address(listener.raw(), true)?;
    // SAFETY: the address has its length.
    let connected =
        listens && unsafe { real::connect(outer.raw(), (&raw const there.0).cast(), there.1) } == 0;
    if !connected {
        return None;
    }
    let ours = kernel::address(outer.raw(), true)?;
    for _ in 0..ACCEPT_TRIES {
        let Some(inner) = kernel::accept_now(listener.raw()) else {
            clock::sleep_us(1000);
            continue;
        };
        // Someone else may have connected first: not to this one.
        if kernel::address(inner.raw(), false).is_some_and(|name| same(&name, &ours)) {
            return Some((inner, outer));
        }
    }
    None
}

fn same(a: &Name, b: &Name) -> bool {
    let bytes = |name: &Name| -> [u8; size_of::<sockaddr_storage>()] {
        // SAFETY: plain bytes, all of them written.
        unsafe { core::mem::transmute(name.0) }
    };
    a.1 == b.1 && bytes(a) == bytes(b)
}
