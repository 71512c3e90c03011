//! Wake-up bytes that keep the order in which programs hear of what was sent. See `order`.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::stream::order::{ANY, PENDING};
use crate::stream::wake_bytes::wake;
use crate::system::kernel;
use crate::table::descriptors;
use crate::table::socket_state::Record;
use crate::table::state::State;

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
    if kernel::is_regular_file(fd) {
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
            follow_unread(other);
        }
    }
}

fn follow_unread(fd: c_int) {
    let up = |record: &&Record| record.state() == State::Up;
    if let Some(record) = descriptors::find(fd).filter(up) {
        mark(fd, record);
    }
}

/// Has a token follow what is unread in the ring. See `order`.
fn mark(fd: c_int, record: &Record) {
    // Who sends at this moment is not behind what this thread is about to send.
    let Some(held) = record.send_lock.try_hold() else {
        return;
    };
    if record.state() != State::Up || !descriptors::is_of(fd, record) || held.is_taken_over() {
        return;
    }
    let carrier = record.carrier();
    let sender = record.sender(&held);
    held.moving(|| {
        if sender.mark(&carrier) {
            wake(fd, sender, &carrier);
        }
    });
}
