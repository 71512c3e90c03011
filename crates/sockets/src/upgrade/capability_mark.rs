//! The capability mark and the holder mark: two IP options on TCP sockets that mean nothing to TCP, and that
//! the other end can see by `sock_diag`. `steps` says what they mean.
//!
//! The program sees the values that it has set itself, which the socket state keeps. When a socket is
//! handed off, or the library lets go of it, the options get these values.

use core::ffi::c_int;

use crate::system::kernel;
use crate::table::flags::{MARKED, NO_MULTICAST_LOOP, UNIX, WANTS_RFC4884};
use crate::table::socket_state::SocketState;
use crate::upgrade::{rendezvous, unix_streams};

/// Marks a socket before it listens or connects. Returns the flags for its socket state: [`MARKED`], and what
/// the program had set before.
pub fn mark(fd: c_int) -> Option<u32> {
    let had = |name| kernel::option(fd, libc::IPPROTO_IP, name);
    let mut flags = MARKED;
    if had(libc::IP_MULTICAST_LOOP) == Some(0) {
        flags |= NO_MULTICAST_LOOP;
    }
    if had(kernel::TELL_LENGTHS) == Some(1) {
        flags |= WANTS_RFC4884;
        kernel::set_holder(fd, false);
    }
    set_mark(fd).then_some(flags)
}

fn set_mark(fd: c_int) -> bool {
    kernel::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)
}

/// Marks a socket, unless it has its mark.
pub fn mark_socket(fd: c_int, socket: &SocketState) -> bool {
    if !socket.has(MARKED) {
        let Some(flags) = mark(fd) else { return false };
        socket.set(NO_MULTICAST_LOOP | WANTS_RFC4884, false);
        socket.set(flags, true);
    }
    true
}

/// An accepted socket has what its listener has. The listener may have lost its mark since.
pub fn inherit(fd: c_int, socket: &SocketState, listener: &SocketState) {
    for flag in [NO_MULTICAST_LOOP, WANTS_RFC4884] {
        socket.set(flag, listener.has(flag));
    }
    if !listener.has(MARKED) {
        if listener.has(WANTS_RFC4884) {
            kernel::set_holder(fd, false);
        }
        set_mark(fd);
    }
    socket.set(MARKED, true);
}

/// Whether a socket has a capability mark, of TCP or of the Unix family.
pub fn has_any(socket: &SocketState) -> bool {
    socket.has(MARKED) || socket.receive_buffer.get() != 0
}

/// Removes the marks: the options get the values that the program has set.
pub fn unmark(fd: c_int, socket: &SocketState) {
    if socket.has(UNIX) {
        return unix_streams::unmark(fd, socket);
    }
    if socket.has(MARKED) {
        socket.set(MARKED, false);
        let loops = c_int::from(!socket.has(NO_MULTICAST_LOOP));
        kernel::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, loops);
        if socket.has(WANTS_RFC4884) {
            kernel::set_holder(fd, true);
        }
    }
}

/// Whether an IP option is one of the two.
pub const fn is_one(name: c_int) -> bool {
    matches!(name, libc::IP_MULTICAST_LOOP | kernel::TELL_LENGTHS)
}

/// The value of such an option as the program sees it.
pub fn shown(socket: &SocketState, name: c_int) -> Option<c_int> {
    socket.has(MARKED).then(|| {
        c_int::from(if name == libc::IP_MULTICAST_LOOP {
            !socket.has(NO_MULTICAST_LOOP)
        } else {
            socket.has(WANTS_RFC4884)
        })
    })
}

/// The program has set such an option. The value is noted, and a marked socket is marked again.
pub fn set_by_program(fd: c_int, socket: &SocketState, name: c_int) {
    let value = kernel::option(fd, libc::IPPROTO_IP, name);
    if name == libc::IP_MULTICAST_LOOP {
        socket.set(NO_MULTICAST_LOOP, value == Some(0));
        let _ = socket.has(MARKED) && set_mark(fd);
    } else {
        socket.set(WANTS_RFC4884, value == Some(1));
        let is_holder = rendezvous::get(socket, rendezvous::Part::Place).is_some();
        let _ = socket.has(MARKED) && kernel::set_holder(fd, is_holder);
    }
}
