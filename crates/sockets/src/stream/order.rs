//! The order in which programs hear of what was sent: the sender's part.
//!
//! For bytes in rings, the time at which they came tells the order (`fabric::hybrid`, SINCE), and waits
//! report them in that order (`wait::ring_events`). Bytes that the kernel carries have no such time, only a
//! place in the kernel's list of what is ready. So before this process sends anything by the kernel, it has
//! a wake-up byte follow the unread bytes in its rings. The kernel then has both in its list, in their
//! order. That holds whatever function the program sends with, and for whoever sends next because of it.
//!
//! The other way round, bytes may be put into a ring after something that the kernel carries. The receiver
//! of the ring then has to ask the kernel first. It can skip that if it has asked since the sender last
//! used the kernel. So the sender stores that time beside its bytes (`fabric::hybrid`, KERNEL). A process
//! that reads from a ring adopts the time if it is later than its own: so a chain of messages carries the
//! latest time of all its senders.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use barewire_fabric::hybrid::Dates;

use crate::process::clock;
use crate::process::words::Lone;
use crate::table::directions;
use crate::table::socket_state::SocketState;

/// Whether this process has sent or heard something by the kernel since [`KERNEL_NS`] was last set.
static HAS_USED: AtomicBool = AtomicBool::new(false);
/// When this process, or one that it heard of through a ring, last used the kernel to send or receive.
///
/// A thread that another one's message made send has synchronized with that one, by the message.
static KERNEL_NS: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));

/// The program has sent or received something by the kernel.
#[inline]
pub fn has_used_kernel() {
    // Relaxed: looked at first, so that the line stays shared among threads.
    if !HAS_USED.load(Ordering::Relaxed) {
        // Release pairs with the AcqRel in `dates`.
        HAS_USED.store(true, Ordering::Release);
    }
}

/// The times that go with bytes that are put into an empty ring now.
#[inline(never)]
pub fn dates() -> Dates {
    // AcqRel pairs with the Release in `has_used_kernel`. The clock is read behind it: what was used before is
    // earlier. Relaxed, the first: looked at, so that the line stays shared.
    if HAS_USED.load(Ordering::Relaxed) && HAS_USED.swap(false, Ordering::AcqRel) {
        KERNEL_NS.raise(clock::now_ns());
    }
    let kernel_used = KERNEL_NS.get();
    Dates {
        since: clock::now_ns(),
        kernel_used,
    }
}

/// The program receives bytes from the ring of a connection.
#[inline]
pub fn heard(socket: &SocketState) {
    heard_of(directions::incoming(socket).kernel_used(&socket.memory()));
}

/// As above, of bytes whose sender has stored this time.
#[inline]
pub fn heard_of(kernel_ns: u64) {
    if kernel_ns > KERNEL_NS.get() {
        // Nobody has used it later than now, whatever the other end says.
        KERNEL_NS.raise(kernel_ns.min(clock::now_ns()));
    }
}

/// Descriptors whose rings got bytes while they were empty, each plus 1, since this process last sent by
/// the kernel. Two descriptors that share an entry are seldom both in use. If they are, the first gets its
/// wake-up byte early.
///
/// Whoever sends because of these bytes, or after them, has synchronized with the thread that noted them.
pub static PENDING: [Lone<AtomicU32>; PLACES] = [const { Lone::new(AtomicU32::new(0)) }; PLACES];
/// Whether there are any.
pub static ANY: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));
/// A power of two.
const PLACES: usize = 64;

/// A receiver that wants order has been sent bytes through a ring.
#[inline]
pub fn note(fd: c_int) {
    let place = &PENDING[fd.unsigned_abs() as usize % PLACES];
    let noted = fd.unsigned_abs() + 1;
    // Looked at first: the lines stay shared among threads that send.
    if place.get() != noted {
        place.set(noted);
        // Pairs with the fence in `order_marks::follow_all_unread`: either that one finds the place, or we find that
        // there are none any more.
        fence(Ordering::SeqCst);
    }
    if !ANY.get() {
        ANY.set(true);
    }
}
