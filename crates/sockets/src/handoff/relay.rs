//! Relays: small processes that keep a socket for a program that cannot use its hybrid stream. A relay is
//! needed if such a program gets the socket while the byte ring holds unread bytes that the other end could
//! not take back. It copies between the socket and a new connection, and the program gets the far end of
//! that connection instead.
//!
//! ```text
//! other end ══ hybrid stream ══ old socket │ relay │ inner ── kernel TCP ── outer: successor
//! ```
//!
//! The outer socket takes the place of every descriptor that this process has of the old one. It gets
//! the old flags and the options that programs set most. It is a TCP connection between the same
//! addresses, so options, resets and half closes behave as in TCP. Only its two *ports* differ, which the
//! successor can see by `getsockname`, `getpeername` and `ss`. Urgent data and timestamps do not come
//! through. For a Unix socket the outer socket is one end of a pair: it has no name, `SO_PEERCRED` shows
//! the giver as its other end, and nothing but bytes comes through. The process is called `barewire-relay`.
//!
//! A relay ends when both directions have ended, when either end is reset, or when the successor has
//! closed its end. While other processes with the library have the old socket too, the relay does not
//! read from it: the bytes may be for them.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_calls::{descriptor, option};

use crate::epoll::sets;
use crate::handoff::{relay_connection, relay_process};
use crate::process::ids::is_vfork_child;
use crate::system::{kernel, real};
use crate::table::flags::{RELAYED, UNIX, WRITE_SHUT};
use crate::table::socket_state::SocketState;
use crate::table::{descriptors, pins, reason_report, references};

/// Puts a relay between a socket and its descriptors in this process. Returns whether that succeeded.
pub fn put_between(fd: c_int, socket: &'static SocketState) -> bool {
    let Some((inner, outer)) = relay_connection::connection_like(fd, socket.has(UNIX)) else {
        return false;
    };
    carry_options(fd, outer.raw());
    if socket.has(WRITE_SHUT) {
        descriptor::shut(outer.raw(), libc::SHUT_WR);
    }
    // In the relay it might be too late: what a look-up needs may lie in the program's memory,
    // or be locked by a thread that the relay has not.
    real::look_up_all();
    // A child made by vfork is not counted, and its parent keeps the socket.
    let is_shared = is_vfork_child() || socket.process_count() > 1;
    // The relay has another number, and sees the addresses only while both ends are connected.
    if !is_shared {
        reason_report::tell(fd, socket);
    }
    // The relay is one more, until this process lets go of the socket.
    // AcqRel pairs with the AcqRel in `sockets::uncount` and in `references::others_have`.
    socket.processes.fetch_add(1, Ordering::AcqRel);
    let begun = relay_process::begin(fd, inner.raw(), socket, is_shared);
    if begun {
        replace(outer.raw(), socket, is_shared);
    } else {
        // AcqRel pairs with the same two.
        socket.processes.fetch_sub(1, Ordering::AcqRel);
    }
    begun
}

/// Copies options that a program may have set on the old socket to the new one.
fn carry_options(from: c_int, to: c_int) {
    const NUMBERS: [(c_int, c_int); 5] = [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE),
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    ];
    const STRUCTURES: [c_int; 3] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_LINGER];
    for (level, name) in NUMBERS {
        if let Some(value) = kernel::option(from, level, name) {
            kernel::set_option(to, level, name, value);
        }
    }
    for name in STRUCTURES {
        let mut bytes = [0_u8; 16];
        if let Ok(len) = option::get_bytes(from, libc::SOL_SOCKET, name, &mut bytes) {
            let _ = option::set_bytes(to, libc::SOL_SOCKET, name, &bytes[..len]);
        }
    }
    if let Ok(flags) = descriptor::flags(from) {
        let _ = descriptor::set_flags(to, flags);
    }
}

/// How long to wait for a call of another thread on the socket.
const REPLACE_WAIT_MS: u32 = 200;

/// Puts `outer` in the place of every descriptor of this socket in this process.
fn replace(outer: c_int, socket: &'static SocketState, is_shared: bool) {
    // Whoever is about to send or read finds the descriptor another's.
    let send = socket.send_lock.hold_for(REPLACE_WAIT_MS);
    let recv = socket.recv_lock.hold_for(REPLACE_WAIT_MS);
    if !is_vfork_child() {
        socket.set(RELAYED, true);
    }
    let mut last = None;
    descriptors::for_each_descriptor(0, u32::MAX, |fd, found| {
        if !core::ptr::eq(found, socket) {
            return;
        }
        let flags = match descriptor::is_inherited(fd) {
            Ok(true) => 0,
            Ok(false) => libc::O_CLOEXEC,
            Err(_) => return,
        };
        let put = || {
            // SAFETY: no pointers.
            unsafe { real::dup3(outer, fd, flags) };
        };
        if is_vfork_child() {
            // The sets are its parent's, which keeps the socket.
            put();
        } else {
            sets::replaced(fd, socket, is_shared, || {
                last = descriptors::replace(fd, socket, put).or(last);
            });
        }
    });
    drop((send, recv));
    if let Some(socket) = last {
        pins::wait_for_all(socket);
        sets::socket_closed(socket);
        references::leave(socket);
    }
}
