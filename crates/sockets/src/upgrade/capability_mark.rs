//! The marks of TCP sockets: two options of IP that mean nothing to TCP, and that the other end can see
//! by `sock_diag`. See `upgrade` for what they say.
//!
//! The program is shown what it has set itself, which the record keeps; when a socket goes to somebody
//! else, or this library lets go of it, the options are as the program wants them.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::system::kernel;
use crate::table::flags::{LOCAL, LOOPS_NOT, MARKED, TELLS_LENGTHS};
use crate::table::socket_state::Record;
use crate::upgrade::{rendezvous, unix_streams};

/// Marks a socket before it listens or connects. Returns the flags of its record: with [`MARKED`], and
/// what the program had set before.
pub fn mark(fd: c_int) -> Option<u32> {
    let had = |name| kernel::option(fd, libc::IPPROTO_IP, name);
    let mut flags = MARKED;
    if had(libc::IP_MULTICAST_LOOP) == Some(0) {
        flags |= LOOPS_NOT;
    }
    if had(kernel::TELL_LENGTHS) == Some(1) {
        flags |= TELLS_LENGTHS;
        kernel::set_holder(fd, false);
    }
    set_mark(fd).then_some(flags)
}

fn set_mark(fd: c_int) -> bool {
    kernel::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)
}

/// Marks the socket of a record, which may be marked.
pub fn mark_record(fd: c_int, record: &Record) -> bool {
    if !record.has(MARKED) {
        let Some(flags) = mark(fd) else { return false };
        record.set(LOOPS_NOT | TELLS_LENGTHS, false);
        record.set(flags, true);
    }
    true
}

/// A socket was accepted: it is as the one that listens, which may have lost its mark.
pub fn inherit(fd: c_int, record: &Record, listener: &Record) {
    for flag in [LOOPS_NOT, TELLS_LENGTHS] {
        record.set(flag, listener.has(flag));
    }
    if !listener.has(MARKED) {
        if listener.has(TELLS_LENGTHS) {
            kernel::set_holder(fd, false);
        }
        set_mark(fd);
    }
    record.set(MARKED, true);
}

/// Whether a socket has any, also one of the Unix family.
pub fn has_any(record: &Record) -> bool {
    // Relaxed: shown to the program only.
    record.has(MARKED) || record.receive_buffer.load(Ordering::Relaxed) != 0
}

/// Takes the marks away: the options are as the program has set them.
pub fn unmark(fd: c_int, record: &Record) {
    if record.has(LOCAL) {
        return unix_streams::unmark(fd, record);
    }
    if record.has(MARKED) {
        record.set(MARKED, false);
        let loops = c_int::from(!record.has(LOOPS_NOT));
        kernel::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, loops);
        if record.has(TELLS_LENGTHS) {
            kernel::set_holder(fd, true);
        }
    }
}

/// Whether an option of IP is one of those.
pub const fn is_one(name: c_int) -> bool {
    matches!(name, libc::IP_MULTICAST_LOOP | kernel::TELL_LENGTHS)
}

/// What the program is shown of such an option.
pub fn shown(record: &Record, name: c_int) -> Option<c_int> {
    record.has(MARKED).then(|| {
        c_int::from(if name == libc::IP_MULTICAST_LOOP {
            !record.has(LOOPS_NOT)
        } else {
            record.has(TELLS_LENGTHS)
        })
    })
}

/// The program has set such an option: that is noted, and a socket that was marked is marked again.
pub fn set_by_program(fd: c_int, record: &Record, name: c_int) {
    let value = kernel::option(fd, libc::IPPROTO_IP, name);
    if name == libc::IP_MULTICAST_LOOP {
        record.set(LOOPS_NOT, value == Some(0));
        let _ = record.has(MARKED) && set_mark(fd);
    } else {
        record.set(TELLS_LENGTHS, value == Some(1));
        let is_holder = rendezvous::get(record, rendezvous::Part::Place).is_some();
        let _ = record.has(MARKED) && kernel::set_holder(fd, is_holder);
    }
}
