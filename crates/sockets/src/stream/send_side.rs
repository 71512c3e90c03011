//! The sending side of a socket: its lock, what a sender that ended left behind, and the kernel connection.

use core::ffi::c_int;

use barewire_fabric::hybrid::Path;
use libc::ssize_t;

use crate::epoll::sets;
use crate::process::clock;
use crate::process::lock::{Held, WITHOUT_LIMIT};
use crate::stream::calls::line_ended;
use crate::stream::recall;
use crate::stream::wake_bytes::{send_token, wake};
use crate::system::kernel;
use crate::table::flags::{LOCAL, OPENER, STUCK};
use crate::table::socket_state::Record;
use crate::upgrade::unix_streams;

/// How long a send that does not wait waits for another thread's, which may wait for the other end.
const OTHERS_MS: u32 = 20;

/// Holds the lock of what is sent. `None`: a signal handler is in the middle of a send of this very
/// thread; or this call does not wait, and another thread's does.
pub fn hold(fd: c_int, record: &Record, waits: bool) -> Option<Held<'_>> {
    if let Some(held) = record.send_lock.try_hold() {
        return Some(held);
    }
    if waits {
        let limit_ns = kernel::time_limit_ns(fd, libc::SO_SNDTIMEO);
        let limit_ms = limit_ns.and_then(|ns| u32::try_from(ns.div_ceil(1_000_000)).ok());
        return record
            .send_lock
            .hold_unless_cancelled(limit_ms.unwrap_or(WITHOUT_LIMIT));
    }
    let held = record.send_lock.hold_for(OTHERS_MS);
    if held.is_none() {
        // When that one is done, the kernel has nothing new to tell.
        sets::tell_again(record);
    }
    held
}

/// The last to send ended in the middle: counts what the line took of its bytes. `false`: nobody knows.
#[cold]
pub fn mend(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    if !held.is_to_mend() || record.has(LOCAL) {
        return false;
    }
    let Some(bytes) = kernel::bytes_sent(fd, record.has(OPENER)) else {
        return false;
    };
    if !record.sender(held).recover(&record.carrier(), bytes) {
        return false;
    }
    held.mended();
    let sender = record.sender(held);
    if sender.path() == Path::Ring && sender.owes_wake_byte() {
        held.moving(|| wake(fd, sender, &record.carrier()));
    } else {
        recall::wake(fd, record, held);
    }
    true
}

/// Whether the line may be used: the receiver may be in the middle of a read that began
/// before we left the ring.
pub fn line_is_clear(fd: c_int, record: &Record, waits: bool, held: &Held<'_>) -> bool {
    let carrier = record.carrier();
    let sender = record.sender(held);
    let mut until_ns = None;
    for round in 0_u32.. {
        if sender.owes_wake_byte() {
            held.changing(|| {
                if send_token(fd) {
                    sender.wake_byte_sent();
                }
            });
        }
        match sender.may_use_kernel(&carrier) {
            Ok(true) => {
                record.set(STUCK, false);
                return true;
            }
            // The next step says what is broken.
            Err(_) => return true,
            Ok(false) if round < YIELDS => {
                clock::give_way();
                continue;
            }
            Ok(false) => {}
        }
        // A receiver that was killed in the middle of its read never ends it.
        if line_ended(fd) || (round % YIELDS == 0 && is_abandoned(fd)) {
            return true;
        }
        let now_ns = clock::now_ns();
        let until_ns =
            until_ns.get_or_insert_with(|| now_ns.saturating_add(patience_ns(fd, record, waits)));
        if now_ns >= *until_ns {
            record.set(STUCK, true);
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

/// How long a receiver may be in the middle of a read that does not wait, if the program does not.
const READ_NS: u64 = 10_000_000;

/// How long a call that sends may wait: as the program has told the kernel. One that may not does
/// so once: who has been waited for in vain is not waited for again.
fn patience_ns(fd: c_int, record: &Record, waits: bool) -> u64 {
    if !waits {
        return if record.has(STUCK) { 0 } else { READ_NS };
    }
    kernel::time_limit_ns(fd, libc::SO_SNDTIMEO).unwrap_or(u64::MAX)
}

/// A call that sends bytes on the line, and returns how many.
pub fn on_line(record: &Record, held: &Held<'_>, call: impl FnOnce() -> ssize_t) -> ssize_t {
    held.moving(|| {
        let sender = record.sender(held);
        unix_streams::tell_sent(record, sender.side(), None);
        let result = call();
        if result > 0 {
            sender.sent_by_kernel(result.unsigned_abs() as u64);
            record.probe.sent_by_kernel();
        }
        unix_streams::tell_sent(record, sender.side(), Some(sender.position()));
        result
    })
}
