//! Closing a descriptor: leaving the connection as the kernel expects it, without wake-up bytes in it.

use core::ffi::{c_int, c_uint};

use barewire_fabric::hybrid::{LEAVING, Next, SharedMemory};

use crate::epoll::sets;
use crate::process::lock::Held;
use crate::process::{clock, ids};
use crate::stream::lost_bytes::UNREAD;
use crate::stream::{capture, recall, wake_bytes};
use crate::system::cancel::quietly;
use crate::system::kernel;
use crate::table::flags::UNIX;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{
    descriptors, pins, process_refs, reason_report, references, report, slots, sockets, uring_rings,
};
use crate::upgrade::{patience, rendezvous, steps};

/// How long a close waits for a call of another thread on the same socket.
const CLOSE_WAIT_MS: u32 = 100;

/// A descriptor is about to be closed.
pub fn closing(fd: c_int) {
    let socket = descriptors::find(fd);
    let is_set = sets::is_set(fd);
    if socket.is_none() && !is_set {
        // Looked at before: is_borrower is a call.
        if uring_rings::are_there() && !ids::is_vfork_child() {
            uring_rings::closing(fd);
        }
        return not_known(fd);
    }
    // The tables are its parent's, other threads of which use the socket.
    if ids::is_vfork_child() {
        return;
    }
    quietly(|| {
        if is_set {
            sets::set_closed(fd);
        }
        if let Some(socket) = descriptors::detach(fd) {
            pins::wait_for_last(fd, socket);
            return release(fd, socket);
        }
        pins::wait_for(fd);
        if let Some(socket) = socket {
            sets::descriptor_closed(socket, fd);
        }
    });
}

/// A descriptor that is not a socket of the program is about to be closed.
fn not_known(fd: c_int) {
    if slots::take_new_tcp(fd) {
        return;
    }
    if let Some(number) = descriptors::own(fd).filter(|_| !ids::is_vfork_child()) {
        rendezvous::lost(number, fd);
    }
}

/// The process lets go of a socket. Its last descriptor `fd` is still open.
fn release(fd: c_int, socket: &'static SocketState) {
    sets::socket_closed(socket);
    steps::leave_rendezvous(fd, socket);
    let is_up = socket.state() == State::Upgraded;
    if is_up {
        report::closed(socket);
        if socket.process_count() > 1 {
            // Others may be gone without a word.
            process_refs::check_at_times(socket);
        }
    }
    let mapping = sockets::mapping(socket);
    // What others have as well is theirs: whoever is killed in here must not hold it.
    if references::others_have(socket) {
        return sockets::unmap(socket, mapping);
    }
    patience::ended(socket);
    reason_report::tell(fd, socket);
    if capture::is_on() {
        capture::closed(fd, socket);
    }
    if is_up {
        leave(fd, socket, CLOSE_WAIT_MS);
    }
    references::leave(socket);
}

/// How often a close polls for a wake-up byte that is on its way.
const WAKE_BYTE_WAIT_ROUNDS: u32 = 200;

fn still_waits(rounds: &mut u32, dropped: bool) -> bool {
    *rounds -= 1;
    if !dropped {
        clock::yield_now();
    }
    *rounds > 0
}

/// Takes all wake-up bytes. The kernel would take them for unread data, and reset the connection. Returns
/// whether there is unread data in the ring.
fn take_all_wake_bytes(fd: c_int, socket: &SocketState, held: &Held<'_>) -> bool {
    let mut rounds = WAKE_BYTE_WAIT_ROUNDS;
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    loop {
        match receiver.next(&memory) {
            Ok(Next::Ring(_)) => return true,
            Ok(Next::WakeBytes(count)) => {
                // They are announced before they are sent. One that came to a closed socket would
                // reset the connection, and with it what the other end has not read.
                let taken = wake_bytes::take_wake_bytes(fd, socket, held, count);
                let dropped = matches!(taken, wake_bytes::TakeResult::Taken);
                if !still_waits(&mut rounds, dropped) {
                    return false;
                }
            }
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&memory, 0);
                return false;
            }
            Ok(Next::Empty) | Err(_) => return false,
        }
    }
}

/// Leaves the kernel connection as the kernel expects it: without wake-up bytes. If bytes in the ring were
/// not read, the other end is told so, as TCP does.
pub fn leave(fd: c_int, socket: &'static SocketState, wait_ms: u32) {
    recall::answer_recall(fd, socket);
    let _send = socket.send_lock.hold_for(wait_ms);
    let Some(held) = socket.recv_lock.hold_for(wait_ms) else {
        return;
    };
    let unread = take_all_wake_bytes(fd, socket, &held);
    let memory = socket.memory();
    let side = socket.side() as usize;
    if socket.has(UNIX) {
        memory.store(LEAVING + side, if unread { UNREAD } else { 1 });
        return;
    }
    memory.store(LEAVING + side, 1);
    if unread {
        kernel::reset_at_close(fd);
    }
}

pub fn close_all(first: c_uint, last: c_uint) {
    for fd in descriptors::known_descriptors(first, last) {
        closing(fd);
    }
    if uring_rings::are_there() && !ids::is_vfork_child() {
        uring_rings::closing_range(first, last);
    }
}
