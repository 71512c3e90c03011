//! Back to the line: for a call, for good, or for someone who knows nothing of the carrier.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{LEAVING, Next, Path, SharedMemory, WANT_KERNEL};

use crate::epoll::sets;
use crate::process::clock;
use crate::process::lock::Held;
use crate::stream::calls::line_ended;
use crate::stream::ready::unread_on_line;
use crate::stream::recall::{LET_GO_LOCK_MS, Patience, step_back, wait_for_answer, wake, withdraw};
use crate::stream::wake_bytes::{Tokens, take_tokens};
use crate::stream::{
    low_water::{self, follow},
    receive_side,
    send_side::{self, line_is_clear},
};
use crate::system::kernel;
use crate::table::flags::{LINE_ONLY, LOW_WATER};
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};
use crate::table::{descriptors, report, sockets};
use crate::upgrade::steps;

/// From now on this socket uses the line, and asks the other end to do so too.
pub fn line_only(record: &Record, why: Why) {
    record.note_why(why);
    record.set(LINE_ONLY, true);
    let carrier = record.carrier();
    // Relaxed: with Up comes the side.
    let side = record.side.load(Ordering::Relaxed) as usize;
    carrier.store(WANT_KERNEL + side, 1);
    // A send in progress is on the line already, or is soon.
    let Some(held) = record.send_lock.hold_for(LET_GO_LOCK_MS) else {
        return;
    };
    let sender = record.sender(&held);
    if sender.path() == Path::Ring {
        sender.leave_ring(&carrier);
        report::stepped_back();
    }
}

/// Pause between two looks at it.
const PAUSE_US: u32 = 50;

/// What became of a socket that was to be the kernel's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is.
    Kernel,
    /// There are bytes in the ring that the other end did not take back by the deadline, or
    /// has sent others behind. It uses the line to send, and the other end is asked to.
    Unread,
}

/// Makes the socket the kernel's alone, for someone who knows nothing of the carrier. Waits
/// for the other end to take back what was not read.
pub fn let_go(fd: c_int, record: &'static Record, why: Why, patience: Patience) -> Left {
    let send = record.send_lock.hold_for(patience.for_lock_ms());
    let recv = record.recv_lock.hold_for(patience.for_lock_ms());
    let (Some(send), Some(recv)) = (send, recv) else {
        return Left::Unread;
    };
    // Another thread may have been at the same, and a relay have taken its place.
    if record.state() != State::Up || !descriptors::is_of(fd, record) {
        return Left::Kernel;
    }
    let is_sound = (!send.is_taken_over() || send_side::mend(fd, record, &send))
        && (!recv.is_taken_over() || receive_side::mend(fd, record, &recv));
    if !is_sound {
        return Left::Unread;
    }
    let carrier = record.carrier();
    // Next, so that no read of the line is in progress.
    let read = matches!(record.receiver(&recv).next(&carrier), Ok(Next::Kernel(_)));
    if read {
        record.receiver(&recv).read_kernel(&carrier, 0);
    }
    low_water::restore(fd, record);
    let asked = record.receiver(&recv).ask_to_take_back(&carrier);
    // To an end that has closed a token would bring a reset.
    if asked && !line_ended(fd) {
        wake(fd, record, &send);
    }
    record.note_why(why);
    record.set(LINE_ONLY, true);
    let mut over = ring_is_over(fd, record, &recv, patience);
    if asked {
        let taken = if over {
            withdraw(record, &recv, patience)
        } else {
            wait_for_answer(fd, record, &send, &recv, patience)
        };
        over = (over || taken) && ring_is_over(fd, record, &recv, patience.and_a_little());
    }
    if record.sender(&send).path() == Path::Ring && step_back(fd, record, &send).is_err() {
        return Left::Unread;
    }
    if !over || !line_is_clear(fd, record, false, &send) {
        return Left::Unread;
    }
    become_plain(fd, record, why, send, recv);
    Left::Kernel
}

fn become_plain(fd: c_int, record: &'static Record, why: Why, send: Held<'_>, recv: Held<'_>) {
    record.make_plain(why);
    steps::restore_delays(fd, record);
    report::closed(record);
    sockets::unmap(record, sockets::mapping(record));
    drop(recv);
    drop(send);
    sets::socket_closed(record);
}

/// The program has cut the line, for all who have the socket: what it becomes is the kernel's. Returns
/// whether it is, which it is not while a call of another thread's goes on.
pub fn cut(fd: c_int, record: &'static Record) -> bool {
    let send = record.send_lock.hold_for(LET_GO_LOCK_MS);
    let recv = record.recv_lock.hold_for(LET_GO_LOCK_MS);
    let (Some(send), Some(recv), State::Up) = (send, recv, record.state()) else {
        return record.state() != State::Up;
    };
    // Relaxed: with Up comes the side.
    let side = record.side.load(Ordering::Relaxed) as usize;
    record.carrier().store(LEAVING + side, 1);
    become_plain(fd, record, Why::Usage, send, recv);
    true
}

/// Has the sender put nothing more into the ring. One that is stopped in the middle of that may yet.
pub fn end_ring(record: &Record, held: &Held<'_>) {
    let carrier = record.carrier();
    for _ in 0..END_RING_ROUNDS {
        if record.receiver(held).end_ring(&carrier) {
            return;
        }
        clock::sleep_us(PAUSE_US);
    }
}

/// Pauses in which a sender is to come to the end of what it puts into the ring.
const END_RING_ROUNDS: u32 = 2000;

/// Whether nothing is in the ring, nor will be, and no token is on the line or will be.
fn ring_is_over(fd: c_int, record: &Record, held: &Held<'_>, patience: Patience) -> bool {
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    while clock::now_ns() < patience.until_ns {
        if !receiver.end_ring(&carrier) {
            clock::sleep_us(PAUSE_US);
            continue;
        }
        // An error behind all bytes is the program's to be told: who asked for tokens would take it.
        let reset = libc::POLLERR | libc::POLLHUP;
        let is_broken = || kernel::events_now(fd, 0) & reset == reset && unread_on_line(fd) == 0;
        match receiver.next(&carrier) {
            Ok(Next::Ring(_)) => return false,
            Ok(Next::WakeBytes(_)) if is_broken() => return true,
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&carrier, 0);
                // Behind an end in sight there may be a ring that was not read.
                return !receiver.ring_has_bytes(&carrier);
            }
            Ok(Next::Empty) | Err(_) => return true,
            Ok(Next::WakeBytes(count)) => match take_tokens(fd, record, held, count) {
                Tokens::Taken => {}
                Tokens::NotYet => clock::sleep_us(PAUSE_US),
                Tokens::End | Tokens::Failed(_) => return true,
            },
        }
    }
    false
}

/// The program has set the mark of a socket, which is up or was.
pub fn set_low_water(fd: c_int, record: &Record) {
    let mark = kernel::option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT).unwrap_or(1);
    line_only(record, Why::Usage);
    let Some(held) = record.recv_lock.hold() else {
        return;
    };
    if record.state() != State::Up {
        return;
    }
    // Relaxed, here and below: with the flag, under the lock.
    record
        .low_water
        .store(mark.unsigned_abs(), Ordering::Relaxed);
    record.set(LOW_WATER, mark > 1);
    if mark > 1 {
        end_ring(record, &held);
        follow(fd, record, &held);
    }
}

/// The socket is used in a way that only the kernel can serve.
pub fn stay_with_kernel(record: &'static Record) {
    if !steps::stays_down(record) {
        line_only(record, Why::Usage);
    }
}
