//! The sending side of a socket: its lock, recovery after a sender that ended in the middle of a call, and
//! the kernel path.

use core::ffi::c_int;

use barewire_fabric::hybrid::Path;
use libc::ssize_t;

use crate::epoll::sets;
use crate::process::lock::{Held, WITHOUT_LIMIT};
use crate::process::{clock, spin};
use crate::stream::calls::has_kernel_ended;
use crate::stream::recall;
use crate::stream::wake_bytes::{send_wake_byte, wake};
use crate::system::kernel;
use crate::table::flags::{OPENER, PEER_READ_STUCK, UNIX};
use crate::table::socket_state::SocketState;
use crate::upgrade::unix_streams;

/// How long a non-blocking send waits for the send of another thread, which may wait for the other end.
const OTHERS_MS: u32 = 20;

/// Holds the send lock. `None`: a signal handler has interrupted a send of this very thread; or this call
/// may not block, and another thread is in one that does.
pub fn lock_for_sending(fd: c_int, socket: &SocketState, waits: bool) -> Option<Held<'_>> {
    if let Some(held) = socket.send_lock.try_hold() {
        return Some(held);
    }
    if waits {
        let limit_ns = kernel::time_limit_ns(fd, libc::SO_SNDTIMEO);
        let limit_ms = limit_ns.and_then(|ns| u32::try_from(ns.div_ceil(1_000_000)).ok());
        return socket
            .send_lock
            .hold_unless_cancelled(limit_ms.unwrap_or(WITHOUT_LIMIT));
    }
    let held = socket.send_lock.hold_for(OTHERS_MS);
    if held.is_none() {
        // When that one is done, the kernel has nothing new to tell.
        sets::report_writable_again(socket);
    }
    held
}

/// The last sender ended in the middle of a call: counts what the kernel took of its bytes. `false`: that
/// cannot be known.
#[cold]
pub fn recover(fd: c_int, socket: &SocketState, held: &Held<'_>) -> bool {
    if !held.needs_mending() || socket.has(UNIX) {
        return false;
    }
    let Some(bytes) = kernel::bytes_sent(fd, socket.has(OPENER)) else {
        return false;
    };
    if !socket.sender(held).recover(&socket.memory(), bytes) {
        return false;
    }
    held.mended();
    let sender = socket.sender(held);
    if sender.path() == Path::Ring && sender.owes_wake_byte() {
        held.moving(|| wake(fd, sender, &socket.memory()));
    } else {
        recall::wake(fd, socket, held);
    }
    true
}

/// Waits until the kernel connection may be used: the receiver may be in the middle of a read that began
/// before this end left the ring.
pub fn wait_for_clear_kernel_path(
    fd: c_int,
    socket: &SocketState,
    waits: bool,
    held: &Held<'_>,
) -> bool {
    let memory = socket.memory();
    let sender = socket.sender(held);
    let mut until_ns = None;
    let mut is_contended = false;
    for round in 0_u32.. {
        if sender.owes_wake_byte() {
            held.changing(|| {
                if send_wake_byte(fd) {
                    sender.wake_byte_sent();
                }
            });
        }
        match sender.may_use_kernel(&memory) {
            Ok(true) => {
                socket.set(PEER_READ_STUCK, false);
                return true;
            }
            // The next step says what is broken.
            Err(_) => return true,
            Ok(false) if round < YIELDS && !is_contended => {
                is_contended = (round == 0 && !spin::may_yield()) || !spin::yields_well();
                continue;
            }
            Ok(false) => {}
        }
        // A receiver that was killed in the middle of its read never ends it.
        if has_kernel_ended(fd) || (round % YIELDS == 0 && is_abandoned(fd)) {
            return true;
        }
        let now_ns = clock::now_ns();
        let until_ns =
            until_ns.get_or_insert_with(|| now_ns.saturating_add(patience_ns(fd, socket, waits)));
        if now_ns >= *until_ns {
            socket.set(PEER_READ_STUCK, true);
            return false;
        }
        clock::sleep_us(100);
    }
    true
}

/// How often a sender lets others run before it sleeps.
const YIELDS: u32 = 1000;

/// Whether no process has the other end any more.
fn is_abandoned(fd: c_int) -> bool {
    kernel::tuple(fd).is_some_and(|tuple| kernel::is_abandoned(&tuple))
}

/// How long a receiver may be in the middle of a non-blocking read, if the program does not block.
const READ_NS: u64 = 10_000_000;

/// How long a sending call may wait, by the program's time limit. A non-blocking one waits once: if that
/// ended without room, it does not wait for this receiver again.
fn patience_ns(fd: c_int, socket: &SocketState, waits: bool) -> u64 {
    if !waits {
        return if socket.has(PEER_READ_STUCK) {
            0
        } else {
            READ_NS
        };
    }
    kernel::time_limit_ns(fd, libc::SO_SNDTIMEO).unwrap_or(u64::MAX)
}

/// Runs a call that sends bytes on the kernel connection, and counts them.
pub fn count_sent_by_kernel(
    socket: &SocketState,
    held: &Held<'_>,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    held.moving(|| {
        let sender = socket.sender(held);
        unix_streams::publish_sent(socket, sender.side(), None);
        let result = call();
        if result > 0 {
            sender.sent_by_kernel(result.unsigned_abs() as u64);
            socket.probe.sent_by_kernel();
        }
        unix_streams::publish_sent(socket, sender.side(), Some(sender.position()));
        result
    })
}
