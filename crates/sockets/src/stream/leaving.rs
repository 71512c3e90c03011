//! Back to the line: for a call, for good, or for someone who knows nothing of the carrier.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::{LEAVING, Lane, Next, SharedMemory, WANT_LINE};
use libc::{iovec, ssize_t};

use super::ready::unread_on_line;
use super::recall::{step_back, wait_for_answer, wake, withdraw};
use super::receiving::{self, is_to_wait};
use super::sending::{self, line_ended, line_is_clear, on_line};
use super::tokens::{Tokens, take_tokens};
use super::{give_up, is_over, low_water, receive};
use crate::lock::Held;
use crate::real::{self, fail};
use crate::record::{LINE_ONLY, Record, State, Why};
use crate::{epoll, kernel, local, process, record, report, upgrade};

/// From now on this socket uses the line, and asks the other end to do so too.
pub fn line_only(record: &Record, why: Why) {
    record.note_why(why);
    record.set(LINE_ONLY, true);
    let carrier = record.carrier();
    // Relaxed: with Up comes the side.
    let side = record.side.load(Ordering::Relaxed) as usize;
    carrier.store(WANT_LINE + side, 1);
    // A send in progress is on the line already, or is soon.
    let Some(held) = record.send_lock.hold_for(LET_GO_LOCK_MS) else {
        return;
    };
    let sender = record.sender(&held);
    if sender.lane() == Lane::Ring {
        sender.leave_ring(&carrier);
        report::stepped_back();
    }
}

/// How long a socket that is to be given away waits for a call of another thread's.
const LET_GO_LOCK_MS: u32 = 200;

/// How long a socket that is to be given away waits for the other end.
#[derive(Clone, Copy)]
pub struct Patience {
    /// For an answer, and for a call of the other end's to return.
    pub until_ns: u64,
    /// For the end of what the other end says it is at: it does not wait itself.
    pub taking_until_ns: u64,
}

impl Patience {
    /// For a lock.
    fn for_lock_ms(self) -> u32 {
        let left_ns = self.until_ns.saturating_sub(process::now_ns());
        (left_ns / 1_000_000).clamp(1, LET_GO_LOCK_MS.into()) as u32
    }

    /// For a step that follows a wait, and takes no time with a sound other end.
    fn and_a_little(self) -> Self {
        let least_ns = process::now_ns() + LITTLE_NS;
        Self {
            until_ns: self.until_ns.max(least_ns),
            ..self
        }
    }
}

/// As above.
const LITTLE_NS: u64 = 10_000_000;

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
    if record.state() != State::Up || !record::is_of(fd, record) {
        return Left::Kernel;
    }
    let is_sound = (!send.is_taken_over() || sending::mend(fd, record, &send))
        && (!recv.is_taken_over() || receiving::mend(fd, record, &recv));
    if !is_sound {
        return Left::Unread;
    }
    let carrier = record.carrier();
    // Next, so that no read of the line is in progress.
    let read = matches!(record.receiver(&recv).next(&carrier), Ok(Next::Line(_)));
    if read {
        record.receiver(&recv).read_line(&carrier, 0);
    }
    low_water::restore(fd, record);
    let asked = record.receiver(&recv).ask_back(&carrier);
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
    if record.sender(&send).lane() == Lane::Ring && step_back(fd, record, &send).is_err() {
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
    upgrade::restore_delays(fd, record);
    report::closed(record);
    record::unmap(record, record::mapping(record));
    drop(recv);
    drop(send);
    epoll::socket_closed(record);
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
        process::sleep_us(PAUSE_US);
    }
}

/// Pauses in which a sender is to come to the end of what it puts into the ring.
const END_RING_ROUNDS: u32 = 2000;

/// Whether nothing is in the ring, nor will be, and no token is on the line or will be.
fn ring_is_over(fd: c_int, record: &Record, held: &Held<'_>, patience: Patience) -> bool {
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    while process::now_ns() < patience.until_ns {
        if !receiver.end_ring(&carrier) {
            process::sleep_us(PAUSE_US);
            continue;
        }
        // An error behind all bytes is the program's to be told: who asked for tokens would take it.
        let reset = libc::POLLERR | libc::POLLHUP;
        let is_broken = || kernel::events_now(fd, 0) & reset == reset && unread_on_line(fd) == 0;
        match receiver.next(&carrier) {
            Ok(Next::Ring(_)) => return false,
            Ok(Next::Tokens(_)) if is_broken() => return true,
            Ok(Next::Line(_)) => {
                receiver.read_line(&carrier, 0);
                // Behind an end in sight there may be a ring that was not read.
                return !receiver.ring_has_bytes(&carrier);
            }
            Ok(Next::Empty) | Err(_) => return true,
            Ok(Next::Tokens(count)) => match take_tokens(fd, record, held, count) {
                Tokens::Taken => {}
                Tokens::NotYet => process::sleep_us(PAUSE_US),
                Tokens::End | Tokens::Failed(_) => return true,
            },
        }
    }
    false
}

/// Runs a call of the kernel's that sends on the line with these `flags`, and returns how many bytes it
/// sent.
pub fn with_line(
    fd: c_int,
    record: &Record,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    real::keeping_errno(|| on_clear_line(fd, record, flags, call))
}

fn on_clear_line(
    fd: c_int,
    record: &Record,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let waits = is_to_wait(record, flags);
    let Some(held) = sending::hold(fd, record, waits) else {
        return fail(libc::EAGAIN);
    };
    if let Some(error) = super::take_kept_error(record) {
        return fail(error);
    }
    if record.state() != State::Up || !record::is_of(fd, record) {
        local::mark_first(fd, record);
        let result = call();
        local::count_out(record, result);
        return result;
    }
    if held.is_taken_over() && !sending::mend(fd, record, &held) {
        return give_up(fd, record);
    }
    if record.sender(&held).lane() == Lane::Ring && step_back(fd, record, &held).is_err() {
        return give_up(fd, record);
    }
    let generation = record.generation();
    if !line_is_clear(fd, record, waits, &held) {
        // The kernel has room, so it does not tell when there is.
        epoll::tell_again(record);
        return fail(libc::EAGAIN);
    }
    if is_over(fd, record, generation) {
        return fail(libc::EBADF);
    }
    on_line(record, &held, call)
}

/// Moves bytes to the pipe `to`, as `splice` does; `waits`: for room there. By hand: the kernel cannot
/// tell tokens from bytes, and does not see the ring.
pub fn splice_by_hand(
    fd: c_int,
    record: &'static Record,
    to: c_int,
    len: usize,
    waits: bool,
) -> ssize_t {
    if let Err(error) = kernel::is_pipe_to_write(to) {
        return fail(error);
    }
    if !waits && !kernel::pipe_has_room(to) {
        return fail(libc::EAGAIN);
    }
    let mut chunk = [0_u8; SPLICE_BYTES];
    let mut part = iovec {
        iov_base: chunk.as_mut_ptr().cast(),
        iov_len: chunk.len().min(len),
    };
    let peeked = receive(fd, record, &[part], libc::MSG_PEEK);
    if peeked <= 0 {
        return peeked;
    }
    let written = put_into_pipe(to, &chunk[..peeked.unsigned_abs()]);
    if written > 0 {
        // The same bytes again: only this call may read the socket meanwhile, as in any
        // program that splices.
        part.iov_len = written.unsigned_abs();
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        process::uncancelled(|| receive(fd, record, &[part], flags));
    }
    written
}

/// Writes a page to a pipe, and more as long as there is room.
fn put_into_pipe(to: c_int, bytes: &[u8]) -> ssize_t {
    let mut done = 0;
    for page in bytes.chunks(libc::PIPE_BUF) {
        if done > 0 && !kernel::pipe_has_room(to) {
            break;
        }
        // SAFETY: the page has as many bytes.
        let write = || unsafe { real::write(to, page.as_ptr().cast(), page.len()) };
        // What is in the pipe is to be taken from the socket.
        let written = if done > 0 {
            process::uncancelled(write)
        } else {
            write()
        };
        match written {
            1.. => done += written,
            _ if done == 0 => return written,
            _ => break,
        }
    }
    done
}

/// Bytes spliced at once.
const SPLICE_BYTES: usize = 16 << 10;
