//! Bytes that the other end left unread in the byte ring when it went. The kernel never carried them, so it
//! reports a clean end. Had it carried them, it would report `ECONNRESET`, from which a sender learns that
//! bytes were lost. So the library reports that error.
//!
//! | how the other end went | who finds out |
//! |---|---|
//! | `close` of any kind, or `exit` | TCP: it has the kernel reset the connection. Unix: its LEAVING word is [`UNREAD`] |
//! | it became another program, was killed, or crashed | this end: LEAVING is 0, and HEAD is not TAIL |
//!
//! An end that only shuts down its half sets LEAVING before, and does not count as gone.
//!
//! The other way round, the kernel reports a reset for a wake-up byte that an end had not read when it was killed. Of that the
//! program is not told.

use core::ffi::c_int;

use barewire_calls::descriptor;
use barewire_fabric::hybrid::{LEAVING, Sender, SharedMemory};

use crate::system::kernel;
use crate::table::directions::outgoing;
use crate::table::event_log;
use crate::table::flags::{FALLEN_BACK, PEER_ENDED, READ_SHUT, RESET_REPORTED, UNIX};
use crate::table::socket_state::SocketState;
use crate::table::state::State;

/// In the LEAVING word: closed with bytes of the byte ring unread.
pub const UNREAD: u64 = 2;

/// The kernel has reported that the other end sends no more.
pub fn note_ended(socket: &SocketState) {
    // Of an end whose own reading was shut it tells the same.
    if socket.has(PEER_ENDED | READ_SHUT) {
        return;
    }
    socket.set(PEER_ENDED, true);
    if has_gone_silently(socket) {
        // Nobody reads the ring any more.
        socket.set(FALLEN_BACK, true);
        event_log::peer_lost(socket, outgoing(socket).in_ring(&socket.memory()));
    }
}

/// Asks the kernel whether the other end has ended, where it matters.
pub fn look_for_end(fd: c_int, socket: &SocketState) {
    let matters =
        socket.state() == State::Upgraded && !socket.has(PEER_ENDED) && has_unread(socket);
    if matters && kernel::events_now(fd, libc::POLLRDHUP) & ENDS != 0 {
        note_ended(socket);
    }
}

const ENDS: i16 = libc::POLLRDHUP | libc::POLLHUP;

/// How the other end announces that it leaves, or has left; 0: not yet.
fn peers_leaving_word(socket: &SocketState) -> u64 {
    let other = 1 - socket.side() as usize;
    socket.memory().load(LEAVING + other)
}

fn has_gone_silently(socket: &SocketState) -> bool {
    socket.state() == State::Upgraded && peers_leaving_word(socket) == 0
}

/// Whether the other end has not read all that is in the byte ring.
fn has_unread(socket: &SocketState) -> bool {
    outgoing(socket).in_ring(&socket.memory()) != 0
}

/// A sender has found the other end alive. What the other end leaves unread of the bytes so far, it leaves
/// when it goes.
#[inline]
pub fn note_there(socket: &SocketState, sender: &Sender) {
    socket.put_when_there.set(sender.head());
}

/// As [`is_reset`], for a sender. Bytes that came after the other end had gone are no loss, but the
/// kernel's `EPIPE`.
pub fn is_reset_before(socket: &SocketState) -> bool {
    let (out, memory) = (outgoing(socket), socket.memory());
    let put_since = out.put_since(&memory, socket.put_when_there.get());
    is_reset(socket) && put_since < out.in_ring(&memory)
}

/// Whether the other end has gone with bytes of this end unread, and the program has not been told.
pub fn is_reset(socket: &SocketState) -> bool {
    if socket.has(RESET_REPORTED) || socket.state() != State::Upgraded {
        return false;
    }
    match peers_leaving_word(socket) {
        0 => socket.has(PEER_ENDED) && has_unread(socket),
        how => how == UNREAD,
    }
}

/// Further events that a wait reports with these: those of a reset, where there was one.
pub fn events_of(socket: &SocketState, told: i16) -> i16 {
    if told & ENDS == 0 {
        return 0;
    }
    note_ended(socket);
    if is_reset(socket) {
        libc::POLLERR | libc::POLLHUP
    } else {
        0
    }
}

/// As [`is_reset`]. The program is told now, once. As after a reset, it can neither read nor send any more.
pub fn take_reset(fd: c_int, socket: &SocketState) -> bool {
    let is_reset = is_reset(socket);
    if is_reset {
        socket.set(RESET_REPORTED, true);
        descriptor::shut(fd, libc::SHUT_RDWR);
    }
    is_reset
}

/// Whether an error of the kernel connection is a reset for a wake-up byte alone: the other end was killed after it had read all
/// that was sent to it, but for such a byte. Had the kernel carried the bytes of the program, it would report a clean end.
pub fn is_for_wake_byte(socket: &SocketState, error: c_int) -> bool {
    error == libc::ECONNRESET
        && has_gone_silently(socket)
        && !has_unread(socket)
        && outgoing(socket).has_wake_bytes_only(&socket.memory())
}

/// The kernel has reported an error of the kernel connection itself.
pub fn note_error(socket: &SocketState, error: c_int) {
    if error == libc::ECONNRESET && socket.has(UNIX) {
        socket.set(RESET_REPORTED, true);
    }
}

/// This end sends no more, but may read.
pub fn announce_half_close(socket: &SocketState) {
    if socket.state() == State::Upgraded {
        let side = socket.side() as usize;
        socket.memory().store(LEAVING + side, 1);
    }
}
