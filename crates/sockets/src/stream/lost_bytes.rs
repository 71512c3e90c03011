//! The other end has gone and left bytes in the ring unread. The kernel, which has carried none of them,
//! tells a clean end; over its own connection it would have told `ECONNRESET`, by which a sender learns
//! that something was lost.
//!
//! | how the other end went | who tells |
//! |---|---|
//! | `close`, of any kind, or `exit` | TCP: it has the kernel reset the connection. Unix: its LEAVING is [`UNREAD`] |
//! | it became another program, was killed, or crashed | this end finds that out: LEAVING is 0, and HEAD is not TAIL |
//!
//! An end that only shuts its half says so by LEAVING before, and is not taken for one that is gone.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{LEAVING, Sender, SharedMemory};

use crate::system::{kernel, real};
use crate::table::directions::outgoing;
use crate::table::flags::{ENDED, LINE_ONLY, LOCAL, READ_SHUT, RESET_TOLD};
use crate::table::socket_state::Record;
use crate::table::state::State;

/// In LEAVING: closed with bytes of the ring unread.
pub const UNREAD: u64 = 2;

/// The kernel has told that the other end sends no more.
pub fn note_ended(record: &Record) {
    // Of an end whose own reading was shut it tells the same.
    if record.has(ENDED | READ_SHUT) {
        return;
    }
    record.set(ENDED, true);
    if is_without_word(record) {
        // Nobody reads the ring any more.
        record.set(LINE_ONLY, true);
    }
}

/// Asks the kernel for that, where it matters.
pub fn look_for_end(fd: c_int, record: &Record) {
    let matters = record.state() == State::Up && !record.has(ENDED) && has_unread(record);
    if matters && kernel::events_now(fd, libc::POLLRDHUP) & ENDS != 0 {
        note_ended(record);
    }
}

const ENDS: i16 = libc::POLLRDHUP | libc::POLLHUP;

/// How the other end says that it goes, or has gone; 0: not yet.
fn word_of_other(record: &Record) -> u64 {
    // Relaxed: with Up comes the side.
    let other = 1 - record.side.load(Ordering::Relaxed) as usize;
    record.carrier().load(LEAVING + other)
}

fn is_without_word(record: &Record) -> bool {
    record.state() == State::Up && word_of_other(record) == 0
}

/// Whether the other end has not read all that is in the ring.
fn has_unread(record: &Record) -> bool {
    outgoing(record).in_ring(&record.carrier()) != 0
}

/// Who sends has found the other end there: what it leaves unread of the bytes so far, it leaves when it
/// goes.
#[inline]
pub fn note_there(record: &Record, sender: &Sender) {
    // Relaxed, here and below: under the send lock.
    record
        .put_when_there
        .store(sender.head(), Ordering::Relaxed);
}

/// As [`is_reset`], for who sends: bytes that came when the other end had gone are no loss, but the
/// kernel's `EPIPE`.
pub fn is_reset_before(record: &Record) -> bool {
    let (out, carrier) = (outgoing(record), record.carrier());
    let taken = out.head(&carrier).wrapping_sub(out.in_ring(&carrier));
    is_reset(record) && taken < record.put_when_there.load(Ordering::Relaxed)
}

/// Whether the other end has gone with bytes of ours unread, of which the program was not told yet.
pub fn is_reset(record: &Record) -> bool {
    if record.has(RESET_TOLD) || record.state() != State::Up {
        return false;
    }
    match word_of_other(record) {
        0 => record.has(ENDED) && has_unread(record),
        how => how == UNREAD,
    }
}

/// What a wait is to tell besides, if it tells these events: those of a reset, where that was one.
pub fn events_of(record: &Record, told: i16) -> i16 {
    if told & ENDS == 0 {
        return 0;
    }
    note_ended(record);
    if is_reset(record) {
        libc::POLLERR | libc::POLLHUP
    } else {
        0
    }
}

/// As [`is_reset`]; the program is told now, once. As after a reset, it can neither read nor send any
/// more.
pub fn take_reset(fd: c_int, record: &Record) -> bool {
    let is_reset = is_reset(record);
    if is_reset {
        record.set(RESET_TOLD, true);
        let saved = real::errno();
        // SAFETY: no pointers.
        unsafe { real::shutdown(fd, libc::SHUT_RDWR) };
        real::set_errno(saved);
    }
    is_reset
}

/// The kernel has told an error of the line itself.
pub fn note_error(record: &Record, error: c_int) {
    if error == libc::ECONNRESET && record.has(LOCAL) {
        record.set(RESET_TOLD, true);
    }
}

/// This end sends no more, but may read.
pub fn say_half_is_over(record: &Record) {
    if record.state() == State::Up {
        // Relaxed: with Up comes the side.
        let side = record.side.load(Ordering::Relaxed) as usize;
        record.carrier().store(LEAVING + side, 1);
    }
}
