//! For a socket that goes to someone who knows nothing of the ring, while the ring has bytes
//! that were not read and that the other end could not take back: a small process that keeps
//! the socket, and copies between it and another connection, whose other end is given away.
//!
//! ```text
//! other end ══ ring and line ══ old socket │ relay │ inner ── kernel TCP ── outer: successor
//! ```
//!
//! The outer socket takes the place of every descriptor that this process has of the old one,
//! with its flags and the options that programs set most. It is a TCP connection of the same
//! addresses, so that options, resets and half closes are those of TCP; its two *ports* are
//! others. That is what a successor can see of it, by `getsockname`, `getpeername` and `ss`;
//! urgent data and timestamps do not come through. Of a Unix socket it is one end of a pair, which
//! has no names and whose other end is, to `SO_PEERCRED`, the giver; nothing comes through but
//! bytes. The process is called `barewire-relay`.
//!
//! It ends when both directions have ended, or either end is reset, or the successor has
//! closed. While other processes that are on board have the old socket, too, it does not read
//! from it: the bytes may be for them.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use libc::socklen_t;

use crate::epoll::sets;
use crate::handoff::{relay_connection, relay_process};
use crate::process::ids::is_borrower;
use crate::system::{kernel, real};
use crate::table::flags::{LOCAL, RELAYED, WRITE_SHUT};
use crate::table::socket_state::Record;
use crate::table::{descriptors, pins, references};

/// Puts a relay between a socket and its descriptors in this process. Returns whether there
/// is one.
pub fn put_between(fd: c_int, record: &'static Record) -> bool {
    let Some((inner, outer)) = relay_connection::connection_like(fd, record.has(LOCAL)) else {
        return false;
    };
    carry_options(fd, outer.raw());
    if record.has(WRITE_SHUT) {
        // SAFETY: no pointers.
        unsafe { real::shutdown(outer.raw(), libc::SHUT_WR) };
    }
    // In the relay it might be too late: what a look-up needs may lie in the program's memory,
    // or be locked by a thread that the relay has not.
    real::look_up_all();
    // A child made by vfork is not counted, and its parent keeps the socket.
    let is_shared = is_borrower() || record.processes.load(Ordering::Acquire) > 1;
    // The relay is one more, until this process lets go of the socket.
    record.processes.fetch_add(1, Ordering::AcqRel);
    let begun = relay_process::begin(fd, inner.raw(), record, is_shared);
    if begun {
        replace(outer.raw(), record, is_shared);
    } else {
        record.processes.fetch_sub(1, Ordering::AcqRel);
    }
    begun
}

/// Options that a program may have set on the old socket, and that the new one has, too.
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
        if let Some(len) = kernel::option_bytes(from, libc::SOL_SOCKET, name, &mut bytes) {
            // SAFETY: the kernel has just written `len` bytes.
            unsafe {
                let value = bytes.as_ptr().cast::<c_void>();
                real::setsockopt(to, libc::SOL_SOCKET, name, value, len as socklen_t);
            }
        }
    }
    // SAFETY: no pointers.
    unsafe {
        let flags = real::fcntl(from, libc::F_GETFL, 0);
        if flags >= 0 {
            real::fcntl(to, libc::F_SETFL, flags as usize);
        }
    }
}

/// How long it waits for a call of another thread's on the socket.
const REPLACE_WAIT_MS: u32 = 200;

/// Puts `outer` in the place of every descriptor of this process that is one of the socket's.
fn replace(outer: c_int, record: &'static Record, is_shared: bool) {
    // Whoever is about to send or read finds the descriptor another's.
    let send = record.send_lock.hold_for(REPLACE_WAIT_MS);
    let recv = record.recv_lock.hold_for(REPLACE_WAIT_MS);
    if !is_borrower() {
        record.set(RELAYED, true);
    }
    let mut last = None;
    descriptors::for_each_descriptor(0, u32::MAX, |fd, found| {
        if !core::ptr::eq(found, record) {
            return;
        }
        // SAFETY: no pointers.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
        if flags < 0 {
            return;
        }
        let flags = if flags & libc::FD_CLOEXEC == 0 {
            0
        } else {
            libc::O_CLOEXEC
        };
        let put = || {
            // SAFETY: no pointers.
            unsafe { real::dup3(outer, fd, flags) };
        };
        if is_borrower() {
            // The sets are its parent's, which keeps the socket.
            put();
        } else {
            sets::replaced(fd, record, is_shared, || {
                last = descriptors::replace(fd, record, put).or(last);
            });
        }
    });
    drop((send, recv));
    if let Some(record) = last {
        pins::wait_for_all(record);
        sets::socket_closed(record);
        references::leave(record);
    }
}
