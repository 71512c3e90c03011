//! Giving sockets back to the kernel, for a program or process that cannot use a hybrid stream.

use core::ffi::{c_int, c_uint};

use libc::msghdr;

use crate::epoll::{deferred_ctl, sets};
use crate::handoff::relay;
use crate::process::lock::Lock;
use crate::process::{clock, fault, ids};
use crate::stream::recall::Patience;
use crate::stream::{
    capture,
    leaving::{self, Left},
};
use crate::system::cancel::quietly;
use crate::system::kernel;
use crate::table::flags::GIVEN_BACK;
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::table::{descriptors, pins, process_refs, reason_report, references, report, slots};
use crate::upgrade::{capability_mark, steps};

/// All sockets of this process fall back to the kernel, and leave the tables.
pub fn give_all_back_to_sandbox() {
    let deadline_ns = recall_deadline();
    let is_vfork_child = ids::is_vfork_child();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, socket| {
        if !matches!(socket.state(), State::Listening | State::Kernel) {
            give_back(fd, socket, Reason::Sandboxed, deadline_ns);
        }
        // Nobody is to look for it, unless another process may still meet it.
        if !is_vfork_child && socket.process_count() == 1 {
            steps::unmark(fd, socket);
        }
    });
    if is_vfork_child {
        return;
    }
    capture::end();
    report::write();
    report::forget();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, _| {
        if let Some(socket) = descriptors::detach(fd) {
            pins::wait_for_all(socket);
            sets::socket_closed(socket);
            if socket.process_count() == 1 {
                reason_report::tell(fd, socket);
            }
            references::leave(socket);
        }
    });
}

/// The C library is about to read or write a descriptor without calling an interposed function.
pub fn used_past_us(fd: c_int) {
    // What is the kernel's already is asked for again and again.
    if let Some(socket) = descriptors::find(fd).filter(|socket| socket.state() != State::Kernel) {
        give_back(fd, socket, Reason::Usage, recall_deadline());
    }
}

/// How long the other ends have to take back what was not read, all of them together. Each has
/// [`RECALL_MIN_NS`] in any case.
const RECALL_NS: u64 = 200_000_000;
/// The least that each other end has.
const RECALL_MIN_NS: u64 = 10_000_000;
/// How much longer those may need, all together, that have begun.
const TAKING_NS: u64 = 1_000_000_000;
/// The least for a socket that other processes with the library have too.
const RECALL_SHARED_NS: u64 = 1_000_000_000;

/// One lock for the threads that give a socket back, by the number of its state. They belong to this process.
pub static TURNS: [Lock; 64] = [const { Lock::new() }; 64];

/// The socket falls back to the kernel for good, for a program that cannot use its hybrid stream. The other
/// end takes back the unread bytes of the ring. If it cannot, a relay takes the socket's place.
pub fn give_back(fd: c_int, socket: &'static SocketState, reason: Reason, until_ns: u64) {
    quietly(|| give_back_now(fd, socket, reason, until_ns));
}

fn give_back_now(fd: c_int, socket: &'static SocketState, reason: Reason, until_ns: u64) {
    let is_vfork_child = ids::is_vfork_child();
    let _borrowing = is_vfork_child.then(ids::VforkWork::begin);
    // One at a time: the next finds it done. Before the use, for which whoever closes waits.
    let _turn = TURNS[socket.number() as usize % TURNS.len()].hold();
    // Other threads may close it, and get its number for something else.
    let Some(_used) = descriptors::pin(fd, socket) else {
        return;
    };
    let guest = is_vfork_child.then(|| process_refs::VforkReference::enter(socket));
    if matches!(guest, Some(None)) {
        return;
    }
    if !steps::rule_out_upgrade(socket) {
        // A relay for a socket that others have, too, must wait until they have closed it.
        if !is_vfork_child && socket.process_count() > 1 {
            process_refs::check(socket);
        }
        // Its parent may have closed what it has a copy of, and got the number for another socket.
        if is_vfork_child && kernel::cookie(fd) != Some(socket.cookie()) {
            return;
        }
        let is_shared = is_vfork_child || socket.process_count() > 1;
        let least_ns = if is_shared {
            RECALL_SHARED_NS
        } else {
            RECALL_MIN_NS
        };
        let until_least_ns = clock::now_ns() + least_ns;
        let patience = Patience {
            until_ns: until_ns.max(until_least_ns),
            taking_until_ns: (until_ns + TAKING_NS).max(until_least_ns),
        };
        let left = leaving::make_kernel_only(fd, socket, reason, patience);
        if left == Left::Unread && !relay::put_between(fd, socket) {
            // No descriptors, or no processes: whoever reads this socket after us would miss bytes.
            leaving::fall_back(socket, reason);
            kernel::disconnect(fd);
        }
    } else {
        socket.note_reason(reason);
    }
    if reason == Reason::HandedOff {
        capability_mark::unmark(fd, socket);
    }
}

/// A child made by vfork duplicates a socket for the program that it becomes. That program has it by a
/// number that the tables, its parent's, do not know.
pub fn before_duplicate(fd: c_int) {
    if let Some(socket) = descriptors::find(fd) {
        give_back(fd, socket, Reason::HandedOff, recall_deadline());
    }
}

/// From now on the program reaches this socket past the library: it falls back to the kernel. A listening
/// socket stays what it is.
pub fn leave_to_kernel(fd: c_int, socket: &'static SocketState, reason: Reason) {
    let is_left =
        matches!(socket.state(), State::Listening | State::Kernel) || socket.has(GIVEN_BACK);
    if !is_left {
        give_back(fd, socket, reason, recall_deadline());
        if descriptors::is_of(fd, socket) {
            socket.set(GIVEN_BACK, true);
        }
    }
}

/// From now on the program reaches its sockets past the library: all fall back to the kernel.
pub fn give_all_back(reason: Reason) {
    let deadline_ns = recall_deadline();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, socket| {
        if !matches!(socket.state(), State::Listening | State::Kernel) {
            give_back(fd, socket, reason, deadline_ns);
        }
    });
}

pub fn recall_deadline() -> u64 {
    clock::now_ns() + RECALL_NS
}

/// Whether a message may carry a socket of this library.
pub fn may_give() -> bool {
    fault::is_watched() && !slots::is_hidden()
}

/// Descriptors in this message go to another process.
///
/// # Safety
/// The message is the program's, and there.
pub unsafe fn before_giving(message: *const msghdr) {
    // SAFETY: as promised; the control message is walked as the C library's macros do.
    unsafe {
        if !may_give() || !fault::can_read_aside((*message).msg_control, (*message).msg_controllen)
        {
            return;
        }
        let deadline_ns = recall_deadline();
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes =
                    ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for nth in 0..bytes / 4 {
                    let fd = libc::CMSG_DATA(header)
                        .cast::<c_int>()
                        .add(nth)
                        .read_unaligned();
                    deferred_ctl::note_other_watcher(fd);
                    if let Some(socket) = descriptors::find(fd) {
                        give_back(fd, socket, Reason::HandedOff, deadline_ns);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
