//! The order in which programs hear of what was sent: what a sender does for it.
//!
//! Between sockets on board, the time at which bytes came tells (`fabric::hybrid`, SINCE), and waits hand
//! them out by it (`wait::told`). What the kernel carries has no such time: only the order of its own list
//! of what is ready. So before this process sends anything by the kernel, what it has put into rings and is not
//! read yet is followed by a token. The kernel then has both in its list, in their order. That
//! holds for whatever the program sends by, and for whoever sends next because of it.
//!
//! The other way round, for bytes in a ring that were sent after something that the kernel carries, the
//! receiver asks the kernel first. It need not do so when it has asked since the sender last used the
//! kernel: so the sender stores that time beside its bytes (`fabric::hybrid`, KERNEL). Who reads a ring
//! takes the time over if it is later than its own: a chain of messages has the latest of all its senders.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use barewire_fabric::hybrid::Dates;

use crate::process::clock;
use crate::table::directions;
use crate::table::socket_state::Record;

/// Whether this process has sent or heard something by the kernel that [`KERNEL_NS`] does not know of.
static HAS_USED: AtomicBool = AtomicBool::new(false);
/// When this process, or one that it heard of through a ring, last sent or heard something by the kernel.
static KERNEL_NS: AtomicU64 = AtomicU64::new(0);

/// The program has sent or heard something by the kernel.
#[inline]
pub fn has_used_kernel() {
    // Relaxed: looked at first, so that the line stays shared among threads.
    if !HAS_USED.load(Ordering::Relaxed) {
        // Release: partner: the swap in dates.
        HAS_USED.store(true, Ordering::Release);
    }
}

/// What is said of bytes that are put into an empty ring now.
#[inline(never)]
pub fn dates() -> Dates {
    // AcqRel: partner: has_used_kernel. The clock is read behind it: what was used before is earlier.
    if HAS_USED.load(Ordering::Relaxed) && HAS_USED.swap(false, Ordering::AcqRel) {
        KERNEL_NS.fetch_max(clock::now_ns(), Ordering::Relaxed);
    }
    // Relaxed: a thread that another one's message made send has synchronized with that one.
    let kernel_used = KERNEL_NS.load(Ordering::Relaxed);
    Dates {
        since: clock::now_ns(),
        kernel_used,
    }
}

/// The program hears of bytes in the ring of a connection.
#[inline]
pub fn heard(record: &Record) {
    heard_of(directions::incoming(record).kernel_used(&record.carrier()));
}

/// As above, of bytes whose sender has said this time.
#[inline]
pub fn heard_of(kernel_ns: u64) {
    // Relaxed: as in dates.
    if kernel_ns > KERNEL_NS.load(Ordering::Relaxed) {
        // Nobody has used it later than now, whatever the other end says.
        KERNEL_NS.fetch_max(kernel_ns.min(clock::now_ns()), Ordering::Relaxed);
    }
}

/// Descriptors whose rings got bytes while they were empty, each plus 1, since this process sent by the
/// kernel. Two that share a place are seldom both in use: then the first is followed by a token early.
pub static PENDING: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
/// Whether there are any.
pub static ANY: AtomicBool = AtomicBool::new(false);
/// A power of two.
const PLACES: usize = 64;

/// A receiver that wants order has been sent bytes through a ring.
#[inline]
pub fn note(fd: c_int) {
    let place = &PENDING[fd.unsigned_abs() as usize % PLACES];
    let noted = fd.unsigned_abs() + 1;
    // Relaxed: whoever sends because of these bytes, or after them, has synchronized with this thread.
    // Looked at first: the lines stay shared among threads that send.
    if place.load(Ordering::Relaxed) != noted {
        place.store(noted, Ordering::Relaxed);
    }
    if !ANY.load(Ordering::Relaxed) {
        ANY.store(true, Ordering::Relaxed);
    }
}
