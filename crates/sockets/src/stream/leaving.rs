//! Falling back to the kernel connection: for one call, for good, or for a program that cannot use the
//! hybrid stream.

use core::ffi::c_int;

use barewire_fabric::hybrid::{LEAVING, Next, Path, SharedMemory, WANT_KERNEL};

use crate::epoll::sets;
use crate::process::clock;
use crate::process::lock::Held;
use crate::stream::calls::has_kernel_ended;
use crate::stream::ready::unread_in_kernel;
use crate::stream::recall::{
    LET_GO_LOCK_MS, Patience, leave_ring, wait_for_recall, wake, withdraw_recall,
};
use crate::stream::wake_bytes::{TakeResult, take_wake_bytes};
use crate::stream::{
    low_water::{self, update_kernel_mark},
    receive_side,
    send_side::{self, wait_for_clear_kernel_path},
};
use crate::system::kernel;
use crate::table::flags::{FALLEN_BACK, LOW_WATER};
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::table::{descriptors, report, sockets};
use crate::upgrade::steps;

/// From now on this socket uses the kernel connection, and asks the other end to do the same.
pub fn fall_back(socket: &SocketState, reason: Reason) {
    socket.note_reason(reason);
    socket.set(FALLEN_BACK, true);
    let memory = socket.memory();
    let side = socket.side() as usize;
    memory.store(WANT_KERNEL + side, 1);
    // A send in progress is on the kernel connection already, or is soon.
    let Some(held) = socket.send_lock.hold_for(LET_GO_LOCK_MS) else {
        return;
    };
    let sender = socket.sender(&held);
    if sender.path() == Path::Ring {
        sender.leave_ring(&memory);
        report::stepped_back(socket);
    }
}

/// Pause between two looks at it.
const PAUSE_US: u32 = 50;

/// What became of a socket that was to fall back to the kernel for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is.
    Kernel,
    /// There are bytes in the ring that the other end did not take back by the deadline, or
    /// has sent others behind. It uses the kernel connection to send, and the other end is asked to.
    Unread,
}

/// Makes the socket fall back to the kernel for good, for a program that cannot use the hybrid stream.
/// Waits for the other end to take back what was not read.
pub fn make_kernel_only(
    fd: c_int,
    socket: &'static SocketState,
    reason: Reason,
    patience: Patience,
) -> Left {
    let send = socket.send_lock.hold_for(patience.for_lock_ms());
    let recv = socket.recv_lock.hold_for(patience.for_lock_ms());
    let (Some(send), Some(recv)) = (send, recv) else {
        return Left::Unread;
    };
    // Another thread may have been at the same, and a relay have taken its place.
    if socket.state() != State::Upgraded || !descriptors::is_of(fd, socket) {
        return Left::Kernel;
    }
    let is_sound = (!send.is_taken_over() || send_side::recover(fd, socket, &send))
        && (!recv.is_taken_over() || receive_side::recover(fd, socket, &recv));
    if !is_sound {
        return Left::Unread;
    }
    let memory = socket.memory();
    // Next, so that no read of the kernel connection is in progress.
    let read = matches!(socket.receiver(&recv).next(&memory), Ok(Next::Kernel(_)));
    if read {
        socket.receiver(&recv).read_kernel(&memory, 0);
    }
    low_water::restore(fd, socket);
    let asked = socket.receiver(&recv).ask_to_take_back(&memory);
    // To an end that has closed a wake-up byte would bring a reset.
    if asked && !has_kernel_ended(fd) {
        wake(fd, socket, &send);
    }
    socket.note_reason(reason);
    socket.set(FALLEN_BACK, true);
    let mut over = ring_is_over(fd, socket, &recv, patience);
    if asked {
        let taken = if over {
            withdraw_recall(socket, &recv, patience)
        } else {
            wait_for_recall(fd, socket, &send, &recv, patience)
        };
        over = (over || taken) && ring_is_over(fd, socket, &recv, patience.and_a_little());
    }
    if socket.sender(&send).path() == Path::Ring && leave_ring(fd, socket, &send).is_err() {
        return Left::Unread;
    }
    if !over || !wait_for_clear_kernel_path(fd, socket, false, &send) {
        return Left::Unread;
    }
    become_kernel_only(fd, socket, reason, send, recv);
    Left::Kernel
}

fn become_kernel_only(
    fd: c_int,
    socket: &'static SocketState,
    reason: Reason,
    send: Held<'_>,
    recv: Held<'_>,
) {
    socket.leave_to_kernel_because(reason);
    steps::restore_delays(fd, socket);
    report::closed(socket);
    sockets::unmap(socket, sockets::mapping(socket));
    drop(recv);
    drop(send);
    sets::socket_closed(socket);
}

/// The program has disconnected the socket, for all processes that have it. Returns whether it is the
/// kernel's now, which it is not while another thread is in a call on it.
pub fn end_stream(fd: c_int, socket: &'static SocketState) -> bool {
    let send = socket.send_lock.hold_for(LET_GO_LOCK_MS);
    let recv = socket.recv_lock.hold_for(LET_GO_LOCK_MS);
    let (Some(send), Some(recv), State::Upgraded) = (send, recv, socket.state()) else {
        return socket.state() != State::Upgraded;
    };
    let side = socket.side() as usize;
    socket.memory().store(LEAVING + side, 1);
    become_kernel_only(fd, socket, Reason::Usage, send, recv);
    true
}

/// Keeps the sender from putting more into the byte ring. A sender that is stopped in the middle of that
/// may yet put some.
pub fn end_ring(socket: &SocketState, held: &Held<'_>) {
    let memory = socket.memory();
    for _ in 0..END_RING_ROUNDS {
        if socket.receiver(held).end_ring(&memory) {
            return;
        }
        clock::sleep_us(PAUSE_US);
    }
}

/// Pauses in which a sender is to come to the end of what it puts into the ring.
const END_RING_ROUNDS: u32 = 2000;

/// Whether the byte ring is and stays empty, and the kernel connection has no wake-up byte and gets none.
fn ring_is_over(fd: c_int, socket: &SocketState, held: &Held<'_>, patience: Patience) -> bool {
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    while clock::now_ns() < patience.until_ns {
        if !receiver.end_ring(&memory) {
            clock::sleep_us(PAUSE_US);
            continue;
        }
        // An error behind all bytes is the program's to be told: who asked for wake-up bytes would take it.
        let reset = libc::POLLERR | libc::POLLHUP;
        let is_broken = || kernel::events_now(fd, 0) & reset == reset && unread_in_kernel(fd) == 0;
        match receiver.next(&memory) {
            Ok(Next::Ring(_)) => return false,
            Ok(Next::WakeBytes(_)) if is_broken() => return true,
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&memory, 0);
                // Behind an end in sight there may be a ring that was not read.
                return !receiver.ring_has_bytes(&memory);
            }
            Ok(Next::Empty) | Err(_) => return true,
            Ok(Next::WakeBytes(count)) => match take_wake_bytes(fd, socket, held, count) {
                TakeResult::Taken => {}
                TakeResult::NotYet => clock::sleep_us(PAUSE_US),
                TakeResult::End | TakeResult::Failed(_) => return true,
            },
        }
    }
    false
}

/// The program has set the low-water mark of a socket that is or was upgraded.
pub fn set_low_water(fd: c_int, socket: &SocketState) {
    let mark = kernel::option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT).unwrap_or(1);
    fall_back(socket, Reason::Usage);
    let Some(held) = socket.recv_lock.hold() else {
        return;
    };
    if socket.state() != State::Upgraded {
        return;
    }
    socket.low_water.set(mark.unsigned_abs());
    socket.set(LOW_WATER, mark > 1);
    if mark > 1 {
        end_ring(socket, &held);
        update_kernel_mark(fd, socket, &held);
    }
}

/// The program uses the socket in a way that only the kernel can serve.
pub fn stay_with_kernel(socket: &'static SocketState) {
    if !steps::rule_out_upgrade(socket) {
        fall_back(socket, Reason::Usage);
    }
}
