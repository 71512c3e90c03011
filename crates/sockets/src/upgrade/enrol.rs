//! Sockets enter the tables here: when they listen, connect, are accepted, or are added to an epoll set.

use core::ffi::c_int;

use crate::process::settings;
use crate::system::cancel::quietly;
use crate::system::{kernel, own_descriptors, unix_sockets};
use crate::table::flags::{MULTIPATH, OPENER, UNIX};
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::table::{admission, descriptors};
use crate::upgrade::{capability_mark, unix_streams};

/// Whether a socket is one of TCP.
fn is_tcp(fd: c_int) -> bool {
    protocol(fd) == Some(libc::IPPROTO_TCP)
}

pub fn protocol(fd: c_int) -> Option<c_int> {
    kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)
}

/// A socket of Multipath TCP stays with the kernel. Its other end may use TCP alone, but the kernel then
/// still has two sockets for this end. It shows the program one of them, and other processes the other. So
/// this end cannot prove which socket it is.
pub fn leave_multipath(fd: c_int) {
    if descriptors::find(fd).is_none() {
        if let Some(socket) = enter(fd, State::Kernel) {
            socket.note_reason(Reason::Multipath);
        }
    }
}

/// Enters a socket into the tables.
pub fn enter(fd: c_int, state: State) -> Option<&'static SocketState> {
    let socket = descriptors::add(fd, state)?;
    own_descriptors::note_highest(fd);
    Some(socket)
}

/// Marks a listening socket, once.
pub fn adopt_listener(fd: c_int) -> Option<&'static SocketState> {
    if let Some(socket) = descriptors::find(fd) {
        match socket.state() {
            State::Listening => return Some(socket),
            State::Unconnected if !settle_connecting(fd, socket) => {}
            State::Kernel => {}
            // A connection cannot listen: the kernel says so.
            _ => return None,
        }
    }
    if !admission::may_upgrade() {
        return None;
    }
    let protocol = protocol(fd);
    let is_tcp = protocol == Some(libc::IPPROTO_TCP);
    let is_multipath = protocol == Some(libc::IPPROTO_MPTCP);
    let is_local = !is_tcp && !is_multipath && unix_streams::is_carried(fd);
    if !is_local && !is_tcp && !is_multipath {
        return None;
    }
    let socket = descriptors::find(fd).or_else(|| enter(fd, State::Kernel))?;
    socket.set(UNIX, is_local);
    socket.set(MULTIPATH, is_multipath);
    // A listener of Multipath TCP cannot be marked; what it accepts is, one by one.
    let is_carried = is_local || is_multipath || capability_mark::mark_socket(fd, socket);
    socket.set_state(if is_carried {
        State::Listening
    } else {
        State::Kernel
    });
    Some(socket)
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
    } else if listener.has(UNIX) {
        unix_streams::enter(new);
    } else if let Some(socket) = enter(new, State::Candidate) {
        if known.is_some() {
            capability_mark::inherit(new, socket, listener);
        } else {
            capability_mark::mark_socket(new, socket);
        }
    }
}

/// Where the other end uses TCP alone, the kernel has made the accepted socket one of TCP.
fn accepted_by_multipath(new: c_int) {
    if !is_tcp(new) {
        leave_multipath(new);
    } else if let Some(socket) = enter(new, State::Candidate) {
        capability_mark::mark_socket(new, socket);
    }
}

pub fn connected_locally(fd: c_int) {
    let is_carried =
        settings::get().unix && admission::may_upgrade() && unix_sockets::is_of_streams(fd);
    if is_carried && descriptors::find(fd).is_none() {
        unix_streams::enter(fd);
    }
}

/// A socket is about to be added to an epoll set. If it has yet to connect, it is entered now, so that the
/// waits on the set know it.
#[cold]
pub fn before_connect_if_new(fd: c_int) {
    quietly(|| {
        let listens = kernel::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0);
        if admission::may_upgrade() && is_tcp(fd) && !listens && kernel::tuple(fd).is_none() {
            before_connect(fd);
        }
    });
}

/// Enters a socket that is about to connect. Its mark comes later, as a rule: see [`CALLS_BEFORE_MARK`].
pub fn before_connect(fd: c_int) -> Option<&'static SocketState> {
    if let Some(socket) = descriptors::find(fd) {
        // A second call, for a connection in progress, or one that failed.
        return (socket.state() == State::Unconnected).then_some(socket);
    }
    let socket = enter(fd, State::Unconnected)?;
    if settings::get().calls_before >= CALLS_FOR_LATE_MARK || mark_opener(fd, socket) {
        return Some(socket);
    }
    socket.leave_to_kernel_because(Reason::Kind);
    None
}

/// Calls that move bytes after which a socket that has connected gets its mark. Connections for one request
/// and its answer need none, and a mark costs as much as all else that the library does for them. The other
/// end looks for it after more calls.
pub const CALLS_BEFORE_MARK: u32 = 3;

/// Where the other end may look for the mark after fewer calls, a socket gets it before it connects.
const CALLS_FOR_LATE_MARK: u32 = 8;

/// Marks a socket that connects or has connected. `false`: it cannot be marked.
#[cold]
pub fn mark_opener(fd: c_int, socket: &SocketState) -> bool {
    // What `connect` knew of it was a hint.
    is_tcp(fd) && capability_mark::mark_socket(fd, socket)
}

pub fn connected(socket: &SocketState) {
    socket.set(OPENER, true);
    socket.change(State::Unconnected, State::Candidate);
}

/// Finds out whether a socket that was connecting is connected.
pub fn settle_connecting(fd: c_int, socket: &'static SocketState) -> bool {
    quietly(|| {
        // In progress, it has no other end yet.
        let is_connected = kernel::tuple(fd).is_some();
        if is_connected {
            connected(socket);
        }
        is_connected
    })
}
