//! Sockets that go to somebody who knows nothing of byte rings: from then on they are the kernel's.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;

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
use crate::table::flags::LEFT;
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};
use crate::table::{descriptors, pins, process_refs, reason_report, references, report, slots};
use crate::upgrade::{capability_mark, steps};

/// This process has all its sockets from the kernel from now on, and none of them here.
pub fn let_all_go() {
    let deadline_ns = recall_deadline();
    let is_borrower = ids::is_borrower();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        if !matches!(record.state(), State::Listening | State::Plain) {
            give_back(fd, record, Why::Confined, deadline_ns);
        }
        // Nobody is to look for it, unless another process may still meet it.
        if !is_borrower && record.processes.load(Ordering::Acquire) == 1 {
            steps::unmark(fd, record);
        }
    });
    if is_borrower {
        return;
    }
    capture::end();
    report::write();
    report::forget();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, _| {
        if let Some(record) = descriptors::detach(fd) {
            pins::wait_for_all(record);
            sets::socket_closed(record);
            if record.processes.load(Ordering::Acquire) == 1 {
                reason_report::tell(fd, record);
            }
            references::leave(record);
        }
    });
}

/// The C library is about to read or write a descriptor past our functions.
pub fn used_past_us(fd: c_int) {
    // What is the kernel's already is asked for again and again.
    if let Some(record) = descriptors::find(fd).filter(|record| record.state() != State::Plain) {
        give_back(fd, record, Why::Usage, recall_deadline());
    }
}

/// How long the other ends have to take back what was not read, all of them together; each
/// has a little in any case.
const RECALL_NS: u64 = 200_000_000;
/// As above.
const RECALL_MIN_NS: u64 = 10_000_000;
/// How much longer those may need, all together, that say they are at it.
const TAKING_NS: u64 = 1_000_000_000;
/// The least for a socket that other processes on board have as well.
const RECALL_SHARED_NS: u64 = 1_000_000_000;

/// Of the threads that give a socket back. Of this process, by the number of the record.
pub static TURNS: [Lock; 64] = [const { Lock::new() }; 64];

/// The socket goes to someone who knows nothing of the carrier: it is the kernel's from now
/// on. If the ring has bytes that were not read, the other end takes them back; if it cannot,
/// a relay takes the socket's place.
pub fn give_back(fd: c_int, record: &'static Record, why: Why, until_ns: u64) {
    quietly(|| give_back_loudly(fd, record, why, until_ns));
}

fn give_back_loudly(fd: c_int, record: &'static Record, why: Why, until_ns: u64) {
    let is_borrower = ids::is_borrower();
    let _borrowing = is_borrower.then(ids::Borrowing::begin);
    // One at a time: the next finds it done. Before the use, for which whoever closes waits.
    let _turn = TURNS[record.number() as usize % TURNS.len()].hold();
    // Other threads may close it, and get its number for something else.
    let Some(_used) = descriptors::pin(fd, record) else {
        return;
    };
    let guest = is_borrower.then(|| process_refs::Guest::enter(record));
    if matches!(guest, Some(None)) {
        return;
    }
    if !steps::stays_down(record) {
        // A relay for a socket that others have, too, must wait until they have closed it.
        if !is_borrower && record.processes.load(Ordering::Acquire) > 1 {
            process_refs::check(record);
        }
        // Its parent may have closed what it has a copy of, and got the number for another socket.
        // Relaxed: with Up comes the cookie.
        if is_borrower && kernel::cookie(fd) != Some(record.cookie.load(Ordering::Relaxed)) {
            return;
        }
        let is_shared = is_borrower || record.processes.load(Ordering::Acquire) > 1;
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
        let left = leaving::let_go(fd, record, why, patience);
        if left == Left::Unread && !relay::put_between(fd, record) {
            // No descriptors, or no processes: whoever reads this socket after us would miss bytes.
            leaving::line_only(record, why);
            kernel::disconnect(fd);
        }
    } else {
        record.note_why(why);
    }
    if why == Why::Given {
        capability_mark::unmark(fd, record);
    }
}

/// A socket that a child made by vfork duplicates is for the program that it becomes, which has it by
/// a number that our tables, its parent's, do not know.
pub fn before_duplicate(fd: c_int) {
    if let Some(record) = descriptors::find(fd) {
        give_back(fd, record, Why::Given, recall_deadline());
    }
}

/// The program reaches this socket past this library from now on: it is the kernel's. One that listens
/// stays what it is.
pub fn leave_to_kernel(fd: c_int, record: &'static Record, why: Why) {
    let is_left = matches!(record.state(), State::Listening | State::Plain) || record.has(LEFT);
    if !is_left {
        give_back(fd, record, why, recall_deadline());
        if descriptors::is_of(fd, record) {
            record.set(LEFT, true);
        }
    }
}

/// The program reaches its sockets past this library from now on: all are the kernel's.
pub fn give_all_back(why: Why) {
    let deadline_ns = recall_deadline();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        if !matches!(record.state(), State::Listening | State::Plain) {
            give_back(fd, record, why, deadline_ns);
        }
    });
}

pub fn recall_deadline() -> u64 {
    clock::now_ns() + RECALL_NS
}

/// Whether there is, or was, a socket of ours that a message might give away.
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
                    deferred_ctl::is_looked_at(fd);
                    if let Some(record) = descriptors::find(fd) {
                        give_back(fd, record, Why::Given, deadline_ns);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
