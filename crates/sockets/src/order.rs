//! The order in which programs hear of what was sent: what a sender does for it.
//!
//! Between sockets on board, the time at which bytes came tells (`fabric::carrier`, SINCE), and waits hand
//! them out by it (`wait::told`). What the kernel carries has no such time: only the order of its own list
//! of what is ready. So before this process sends anything by the kernel, what it has put into rings and is not
//! read yet is followed by a token. The kernel then has both in its list, in their order. That
//! holds for whatever the program sends by, and for whoever sends next because of it.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::record::{self, Record, State};
use crate::stream;

/// Descriptors whose rings got bytes while they were empty, each plus 1, since this process sent by the
/// kernel. Two that share a place are seldom both in use: then the first is followed by a token early.
static PENDING: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);
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

/// The program is about to send something by the kernel, on `fd`.
#[inline]
pub fn before_kernel_sends(fd: c_int) {
    // Relaxed: as in note.
    if ANY.load(Ordering::Relaxed) {
        mark_all(fd);
    }
}

#[cold]
fn mark_all(fd: c_int) {
    // What is written to a file wakes nobody.
    if crate::kernel::is_regular_file(fd) {
        return;
    }
    // Relaxed, all: as in note. What is noted meanwhile is noted for the next one.
    ANY.store(false, Ordering::Relaxed);
    for place in &PENDING {
        if place.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let noted = place.swap(0, Ordering::Relaxed);
        let other = noted.wrapping_sub(1) as c_int;
        if noted != 0 && other != fd {
            mark(other);
        }
    }
}

fn mark(fd: c_int) {
    let up = |record: &&Record| record.state() == State::Up;
    if let Some(record) = record::find(fd).filter(up) {
        stream::mark(fd, record);
    }
}
