//! Sockets that the library looks after from when they listen, connect or are accepted.

use core::ffi::c_int;

use crate::process::settings;
use crate::system::cancel::quietly;
use crate::system::{kernel, own_descriptors, unix_sockets};
use crate::table::flags::{LOCAL, MULTIPATH, OPENER};
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};
use crate::table::{admission, descriptors};
use crate::upgrade::{capability_mark, unix_streams};

/// Whether a socket is one of TCP.
fn is_tcp(fd: c_int) -> bool {
    protocol(fd) == Some(libc::IPPROTO_TCP)
}

pub fn protocol(fd: c_int) -> Option<c_int> {
    kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)
}

/// A socket of Multipath TCP is the kernel's. Its other end may use TCP alone; but the kernel has then
/// still two sockets of this end, and tells the program of the one, and others of the other: it cannot
/// prove which it is.
pub fn leave_multipath(fd: c_int) {
    if descriptors::find(fd).is_none() {
        if let Some(record) = enter(fd, State::Plain) {
            record.note_why(Why::Multipath);
        }
    }
}

/// Enters a socket into the table.
pub fn enter(fd: c_int, state: State) -> Option<&'static Record> {
    let record = descriptors::add(fd, state)?;
    own_descriptors::note_highest(fd);
    Some(record)
}

/// Marks a listening socket, once.
pub fn adopt_listener(fd: c_int) -> Option<&'static Record> {
    if let Some(record) = descriptors::find(fd) {
        match record.state() {
            State::Listening => return Some(record),
            State::Fresh if !settle_connecting(fd, record) => {}
            State::Plain => {}
            // A connection cannot listen: the kernel says so.
            _ => return None,
        }
    }
    if !admission::may_come() {
        return None;
    }
    let protocol = protocol(fd);
    let is_tcp = protocol == Some(libc::IPPROTO_TCP);
    let is_multipath = protocol == Some(libc::IPPROTO_MPTCP);
    let is_local = !is_tcp && !is_multipath && unix_streams::is_carried(fd);
    if !is_local && !is_tcp && !is_multipath {
        return None;
    }
    let record = descriptors::find(fd).or_else(|| enter(fd, State::Plain))?;
    record.set(LOCAL, is_local);
    record.set(MULTIPATH, is_multipath);
    // A listener of Multipath TCP cannot be marked; what it accepts is, one by one.
    let is_carried = is_local || is_multipath || capability_mark::mark_record(fd, record);
    record.set_state(if is_carried {
        State::Listening
    } else {
        State::Plain
    });
    Some(record)
}

pub fn accepted(listener: c_int, new: c_int) {
    // A socket that listened before this program began has no mark yet: from now on it has.
    let known = descriptors::find(listener);
    let listener = known.or_else(|| adopt_listener(listener));
    let Some(listener) = listener.filter(|listener| listener.state() == State::Listening) else {
        return;
    };
    if listener.has(MULTIPATH) {
        accepted_by_multipath(new);
    } else if listener.has(LOCAL) {
        unix_streams::enter(new);
    } else if let Some(record) = enter(new, State::Candidate) {
        if known.is_some() {
            capability_mark::inherit(new, record, listener);
        } else {
            capability_mark::mark_record(new, record);
        }
    }
}

/// Where the other end uses TCP alone, the kernel has made the new socket one of TCP.
fn accepted_by_multipath(new: c_int) {
    if !is_tcp(new) {
        leave_multipath(new);
    } else if let Some(record) = enter(new, State::Candidate) {
        capability_mark::mark_record(new, record);
    }
}

pub fn connected_locally(fd: c_int) {
    let is_carried =
        settings::get().unix && admission::may_come() && unix_sockets::is_of_streams(fd);
    if is_carried && descriptors::find(fd).is_none() {
        unix_streams::enter(fd);
    }
}

/// A socket is about to enter a set: if it has yet to connect, it is looked after from now on, so that
/// the set's waits know it.
#[cold]
pub fn before_connect_if_new(fd: c_int) {
    quietly(|| {
        let listens = kernel::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0);
        if admission::may_come() && is_tcp(fd) && !listens && kernel::tuple(fd).is_none() {
            before_connect(fd);
        }
    });
}

/// Marks a socket that is about to connect.
pub fn before_connect(fd: c_int) -> Option<&'static Record> {
    if let Some(record) = descriptors::find(fd) {
        // A second call, for a connection in progress, or one that failed.
        return (record.state() == State::Fresh).then_some(record);
    }
    let flags = capability_mark::mark(fd)?;
    let record = enter(fd, State::Fresh)?;
    record.set(flags, true);
    Some(record)
}

pub fn connected(record: &Record) {
    record.set(OPENER, true);
    record.change(State::Fresh, State::Candidate);
}

/// Finds out whether a socket that was connecting is connected.
pub fn settle_connecting(fd: c_int, record: &'static Record) -> bool {
    quietly(|| {
        // In progress, it has no other end yet.
        let is_connected = kernel::tuple(fd).is_some();
        if is_connected {
            connected(record);
        }
        is_connected
    })
}
