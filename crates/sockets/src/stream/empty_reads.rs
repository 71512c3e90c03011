//! Empty reads: non-blocking reads that find nothing.
//!
//! After one, the program may wait in a way that the library does not intercept, by a raw system
//! call, as asynchronous runtimes do. Then the kernel has to wake it. So the receiver is armed, and the next
//! bytes cost a wake-up byte. There are two exceptions:
//!
//! - A wait for this very socket was intercepted: such waits poll the byte ring.
//! - The program is busy polling: it does not wait at all. This does not count if the program has an epoll
//!   set that the library does not know.

use crate::epoll::sets;
use crate::process::ids;
use crate::process::lock::Held;
use crate::stream::calls::arm;
use crate::table::flags::{BUSY_POLLS, WAITS_INTERCEPTED};
use crate::table::socket_state::SocketState;

/// A thread is busy polling after so many empty reads for which nothing had come, if it did not wait since the first
/// [`SOME`] of them.
const BUSY_POLLING: u16 = 1024;
/// A thread that does so much else between two empty reads may be waiting in between.
const EACH_NS: u64 = 50_000;
/// More empty reads than a waiting thread makes, so that the kernel is seldom asked what the thread did.
const SOME: u16 = 64;
/// As a count: the thread waits in a way that is not intercepted.
const NEVER: u16 = u16::MAX;

/// The program waits for this socket by an intercepted call, which polls the byte ring.
#[inline]
pub fn note_intercepted_wait(socket: &SocketState) {
    // Looked at first: the line stays shared.
    if !socket.has(WAITS_INTERCEPTED) {
        socket.set(WAITS_INTERCEPTED, true);
    }
}

/// Whether it is known how the program waits for this socket: by intercepted calls, or not at all.
#[inline]
pub fn is_known(socket: &SocketState) -> bool {
    socket.has(WAITS_INTERCEPTED | BUSY_POLLS)
}

/// Before a read of an upgraded socket reports that there is nothing. If the program may wait in a way that
/// is not intercepted, arms the receiver. `false` if something has come.
#[inline]
pub fn may_report_empty(socket: &SocketState, held: &Held<'_>) -> bool {
    // One that comes to have it has what this one knows. Of others we do not know how they wait.
    let is_own = socket.process_count_alone() == 1;
    let looks = is_own && (is_known(socket) || is_busy_polling(socket, held));
    // One that is armed is left to the kernel: of what comes next it is to tell as well.
    (looks && !socket.receiver(held).is_armed()) || arm(socket, held)
}

/// Counts an empty read. Returns whether the thread is busy polling.
#[cold]
fn is_busy_polling(socket: &SocketState, held: &Held<'_>) -> bool {
    let thread = ids::thread_id();
    let position = socket.receiver(held).position();
    let is_another = socket.empty_reads_by.get() != thread;
    let has_come = socket.empty_reads_at.get() != position;
    let wake_bytes = socket.receiver(held).wake_bytes_taken() as u16;
    // Two halves: how many empty reads, and the lower bits of how many wake-up bytes had been taken.
    let word = socket.empty_reads.get();
    let was_woken = (word >> 16) as u16 != wake_bytes;
    socket.empty_reads_by.set(thread);
    socket.empty_reads_at.set(position);
    let count = match word as u16 {
        NEVER => NEVER,
        _ if is_another => 0,
        // One that waits is told of what came by the bytes and, once more at most, by a wake-up byte that it may have taken
        // with them.
        count if was_woken => count.saturating_sub(1),
        count if has_come => count,
        SOME => {
            may_have_waited(socket);
            SOME + 1
        }
        BUSY_POLLING if may_have_waited(socket) => 0,
        BUSY_POLLING if sets::has_unseen_set() => NEVER,
        BUSY_POLLING => {
            socket.set(BUSY_POLLS, true);
            return true;
        }
        count => count + 1,
    };
    let halves = u32::from(wake_bytes) << 16 | u32::from(count);
    socket.empty_reads.set(halves);
    false
}

/// Whether the thread may have waited since the last call of this function: it slept, or was busy with
/// something else. Only its own time counts, since the processor is also taken from a thread that does not
/// wait.
fn may_have_waited(socket: &SocketState) -> bool {
    let Some(usage) = ids::thread_usage() else {
        return true;
    };
    let sleeps = socket.empty_reads_sleeps.swap(usage.sleeps);
    let busy_ns = socket.empty_reads_busy_ns.swap(usage.busy_ns);
    sleeps != usage.sleeps
        || usage.busy_ns.wrapping_sub(busy_ns) > u64::from(BUSY_POLLING) * EACH_NS
}
