//! Descriptors that are about to be closed.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{LEAVING, Next, SharedMemory};

use crate::epoll::sets;
use crate::process::lock::Held;
use crate::process::{clock, ids};
use crate::stream::lost_bytes::UNREAD;
use crate::stream::{capture, recall, wake_bytes};
use crate::system::cancel::quietly;
use crate::system::kernel;
use crate::table::flags::LOCAL;
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::table::{
    descriptors, pins, process_refs, reason_report, references, report, sockets, uring_rings,
};
use crate::upgrade::{rendezvous, steps};

/// How long a close waits for a call of another thread on the same socket.
const CLOSE_WAIT_MS: u32 = 100;

/// A descriptor is about to be closed.
pub fn closing(fd: c_int) {
    let record = descriptors::find(fd);
    let is_set = sets::is_set(fd);
    if record.is_none() && !is_set {
        // Looked at before: is_borrower is a call.
        if uring_rings::are_there() && !ids::is_borrower() {
            uring_rings::closing(fd);
        }
        return not_known(fd);
    }
    // The tables are its parent's, other threads of which use the socket.
    if ids::is_borrower() {
        return;
    }
    quietly(|| {
        if is_set {
            sets::set_closed(fd);
        }
        let last = descriptors::detach(fd);
        pins::wait_for(fd);
        if let Some(record) = last {
            pins::wait_for_all(record);
            release(fd, record);
        } else if let Some(record) = record {
            sets::descriptor_closed(record, fd);
        }
    });
}

/// A descriptor that is no socket of the program's is about to be closed.
fn not_known(fd: c_int) {
    if let Some(number) = descriptors::own(fd).filter(|_| !ids::is_borrower()) {
        rendezvous::lost(number, fd);
    }
}

/// The process is done with a socket whose last descriptor is `fd`, which is still open.
fn release(fd: c_int, record: &'static Record) {
    sets::socket_closed(record);
    steps::end_seeking(fd, record);
    let is_up = record.state() == State::Up;
    if is_up {
        report::closed(record);
        if record.processes.load(Ordering::Acquire) > 1 {
            // Others may be gone without a word.
            process_refs::check_at_times(record);
        }
    }
    let mapping = sockets::mapping(record);
    // What others have as well is theirs: whoever is killed in here must not hold it.
    if references::others_have(record) {
        return sockets::unmap(record, mapping);
    }
    reason_report::tell(fd, record);
    if capture::is_on() {
        capture::closed(fd, record);
    }
    if is_up {
        leave(fd, record, CLOSE_WAIT_MS);
    }
    references::leave(record);
}

/// How often a close looks for a token that is on its way.
const TOKEN_WAIT_ROUNDS: u32 = 200;

fn still_waits(rounds: &mut u32, dropped: bool) -> bool {
    *rounds -= 1;
    if !dropped {
        clock::give_way();
    }
    *rounds > 0
}

/// The kernel would take tokens for bytes that were not read, and reset the connection. Returns
/// whether there are such bytes in the ring.
fn take_all_tokens(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    let mut rounds = TOKEN_WAIT_ROUNDS;
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    loop {
        match receiver.next(&carrier) {
            Ok(Next::Ring(_)) => return true,
            Ok(Next::WakeBytes(count)) => {
                // They are announced before they are sent. One that came to a closed socket would
                // reset the connection, and with it what the other end has not read.
                let taken = wake_bytes::take_tokens(fd, record, held, count);
                let dropped = matches!(taken, wake_bytes::Tokens::Taken);
                if !still_waits(&mut rounds, dropped) {
                    return false;
                }
            }
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&carrier, 0);
                return false;
            }
            Ok(Next::Empty) | Err(_) => return false,
        }
    }
}

/// Leaves the line as the kernel expects it: without tokens. If bytes in the ring were not read, the
/// other end is told so, as TCP does.
pub fn leave(fd: c_int, record: &'static Record, wait_ms: u32) {
    recall::answer(fd, record);
    let _send = record.send_lock.hold_for(wait_ms);
    let Some(held) = record.recv_lock.hold_for(wait_ms) else {
        return;
    };
    let unread = take_all_tokens(fd, record, &held);
    let carrier = record.carrier();
    let side = record.side.load(Ordering::Relaxed) as usize;
    if record.has(LOCAL) {
        carrier.store(LEAVING + side, if unread { UNREAD } else { 1 });
        return;
    }
    carrier.store(LEAVING + side, 1);
    if unread {
        kernel::reset_at_close(fd);
    }
}

pub fn close_all(first: c_uint, last: c_uint) {
    for fd in descriptors::known_descriptors(first, last) {
        closing(fd);
    }
    if uring_rings::are_there() && !ids::is_borrower() {
        uring_rings::closing_range(first, last);
    }
}
