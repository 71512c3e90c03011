//! Wake-up bytes that are sent to keep the order in which programs hear of what was sent. See `order`.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, fence};

use crate::stream::order::{ANY, PENDING, note};
use crate::stream::wake_bytes::wake;
use crate::system::kernel;
use crate::table::descriptors;
use crate::table::socket_state::SocketState;
use crate::table::state::State;

/// The program is about to send something by the kernel, on `fd`.
#[inline]
pub fn before_kernel_sends(fd: c_int) {
    if ANY.get() {
        follow_all_unread(fd);
    }
}

#[cold]
fn follow_all_unread(fd: c_int) {
    // What is written to a file wakes nobody.
    if kernel::is_regular_file(fd) {
        return;
    }
    // What is noted meanwhile is noted for the next one.
    ANY.set(false);
    // Pairs with the fence in `order::note`.
    fence(Ordering::SeqCst);
    for place in &PENDING {
        if place.get() == 0 {
            continue;
        }
        let noted = place.swap(0);
        let other = noted.wrapping_sub(1) as c_int;
        if noted != 0 && other != fd {
            follow_unread(other);
        }
    }
}

fn follow_unread(fd: c_int) {
    let up = |socket: &&SocketState| socket.state() == State::Upgraded;
    if let Some(socket) = descriptors::find(fd).filter(up) {
        send_wake_byte_behind(fd, socket);
    }
}

/// Sends a wake-up byte behind what is unread in the ring. See `order`.
fn send_wake_byte_behind(fd: c_int, socket: &SocketState) {
    let Some(held) = socket.send_lock.try_hold() else {
        // Who sends at this moment is not before what this thread is about to send, but perhaps before what comes after
        // that. It may have found its place noted.
        return note(fd);
    };
    if socket.state() != State::Upgraded || !descriptors::is_of(fd, socket) || held.is_taken_over()
    {
        return;
    }
    let memory = socket.memory();
    let sender = socket.sender(&held);
    held.moving(|| {
        if sender.mark(&memory) {
            wake(fd, sender, &memory);
        }
    });
}
