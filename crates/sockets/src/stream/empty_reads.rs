//! Reads that do not wait, and find nothing.
//!
//! The program may go on to wait in a way that we do not see, by an instruction of its own:
//! asynchronous runtimes do. Then the kernel has to wake it, so the receiver is armed, and what
//! comes costs a token. Not if a wait for this very socket was seen: those look at the ring. Nor if
//! the program asks again and again: it does not wait at all; unless it has a set that was made unseen.

use core::sync::atomic::Ordering;

use crate::epoll::sets;
use crate::process::ids;
use crate::process::lock::Held;
use crate::stream::calls::arm;
use crate::table::flags::{ASKS, WAITS_SEEN};
use crate::table::socket_state::Record;

/// A program that asked so many times in a row, and did not wait since the first [`SOME`] of these, asks
/// for ever.
const ASKS_FOR_EVER: u32 = 4096;
/// Whoever does so much else between two of them may wait in between for what need not come yet.
const EACH_NS: u64 = 50_000;
/// More than one that waits asks in vain, so the kernel is seldom asked what it did.
const SOME: u32 = 64;
/// As a count: it waits unseen.
const NEVER: u32 = u32::MAX;

/// The program waits for this socket by a call that looks at the ring.
#[inline]
pub fn wait_is_seen(record: &Record) {
    // Looked at first: the line stays shared.
    if !record.has(WAITS_SEEN) {
        record.set(WAITS_SEEN, true);
    }
}

/// Whether it is known how the program waits for this socket: seen, or not at all.
#[inline]
pub fn is_known(record: &Record) -> bool {
    record.has(WAITS_SEEN | ASKS)
}

/// Before a read of a socket that is up tells that there is nothing: if it may be waited for unseen,
/// the other end is to wake who does. `false` if something has come.
#[inline]
pub fn may_tell(record: &Record, held: &Held<'_>) -> bool {
    // Relaxed: one that comes to have it has what this one knows. Of others we do not know how they wait.
    let is_own = record.processes.load(Ordering::Relaxed) == 1;
    let looks = is_own && (is_known(record) || asks_for_ever(record, held));
    // One that is armed is left to the kernel: of what comes next it is to tell as well.
    (looks && !record.receiver(held).is_armed()) || arm(record, held)
}

/// Counts.
#[cold]
fn asks_for_ever(record: &Record, held: &Held<'_>) -> bool {
    // Relaxed, all: under the lock.
    let thread = ids::thread_id();
    let position = record.receiver(held).position();
    let is_another = record.in_vain_by.load(Ordering::Relaxed) != thread;
    let has_come = record.in_vain_at.load(Ordering::Relaxed) != position;
    record.in_vain_by.store(thread, Ordering::Relaxed);
    record.in_vain_at.store(position, Ordering::Relaxed);
    let count = match record.in_vain.load(Ordering::Relaxed) {
        NEVER => NEVER,
        _ if is_another => 0,
        // One that waits is told of what came once by the bytes, and once by a token at most.
        count if has_come => count.saturating_sub(1),
        SOME => {
            may_have_waited(record);
            SOME + 1
        }
        ASKS_FOR_EVER if may_have_waited(record) => 0,
        ASKS_FOR_EVER if sets::is_used_unseen() => NEVER,
        ASKS_FOR_EVER => {
            record.set(ASKS, true);
            return true;
        }
        count => count + 1,
    };
    record.in_vain.store(count, Ordering::Relaxed);
    false
}

/// Whether the thread may have waited since this was asked last: it slept, or was busy with other things.
/// Only its own time tells: the processor is also taken from who does not wait.
fn may_have_waited(record: &Record) -> bool {
    let Some(usage) = ids::thread_usage() else {
        return true;
    };
    // Relaxed, both: under the lock.
    let sleeps = record.in_vain_sleeps.swap(usage.sleeps, Ordering::Relaxed);
    let busy_ns = record
        .in_vain_busy_ns
        .swap(usage.busy_ns, Ordering::Relaxed);
    sleeps != usage.sleeps
        || usage.busy_ns.wrapping_sub(busy_ns) > u64::from(ASKS_FOR_EVER) * EACH_NS
}
