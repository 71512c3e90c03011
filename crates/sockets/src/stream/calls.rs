//! What calls on a socket have in common.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::{AtomicU64, Ordering};

use barewire_fabric::hybrid::{LEAVING, SharedMemory};
use libc::ssize_t;

use crate::process::lock::Held;
use crate::process::sandbox;
use crate::system::{
    kernel,
    real::{self, fail},
};
use crate::table::descriptors;
use crate::table::flags::{NONBLOCKING, RELAYED};
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};
use crate::table::stream_memory::Carrier;

/// The other side broke the protocol, or a process that shares the socket was killed in the
/// middle of a call: the connection ends, as if it had been reset.
#[cold]
pub fn give_up(fd: c_int, record: &Record) -> ssize_t {
    record.note_why(Why::Broken);
    if descriptors::is_of(fd, record) {
        // SAFETY: no pointers.
        unsafe { real::shutdown(fd, libc::SHUT_RDWR) };
    }
    fail(libc::ECONNRESET)
}

/// Whether the socket was closed while a call waited that began at this `generation` of its record:
/// then the descriptor and the record may be another's. Not if a relay has taken its place, or the
/// program has confined itself: then the descriptor is the kernel's.
pub fn is_over(fd: c_int, record: &Record, generation: u32) -> bool {
    let is_ours = descriptors::is_of(fd, record) || record.has(RELAYED);
    (record.generation() != generation || !is_ours) && !sandbox::all_left()
}

/// Asks whether the next byte is the one behind the urgent mark.
pub const SIOCATMARK: c_ulong = 0x8905;

/// Whether the line is at the urgent mark.
pub fn is_at_mark(fd: c_int) -> bool {
    let mut at_mark: c_int = 0;
    // SAFETY: the kernel writes a number.
    let result = unsafe { real::ioctl(fd, SIOCATMARK, &raw mut at_mark as usize) };
    result == 0 && at_mark != 0
}

/// Counts bytes, under the lock of their direction: nobody else does at the same time.
pub fn count_bytes(counter: &AtomicU64, bytes: usize) {
    // Relaxed, both: for display only.
    let before = counter.load(Ordering::Relaxed);
    counter.store(before + bytes as u64, Ordering::Relaxed);
}

/// Tells the sender that a thread is about to sleep. `false` if something has come.
pub fn arm(record: &Record, held: &Held<'_>) -> bool {
    record.receiver(held).arm(&record.carrier())
}

/// No wait looks at the ring: until the socket is read, the other end is to wake who waits.
/// `false` if something has come already.
pub fn leave_to_kernel(record: &Record) -> bool {
    let held = record.recv_lock.hold();
    // It may be closed, or back on the line, by now.
    held.is_none_or(|held| record.state() != State::Up || arm(record, &held))
}

/// Whether a call with these flags waits.
pub fn is_to_wait(record: &Record, flags: c_int) -> bool {
    !record.has(NONBLOCKING) && flags & libc::MSG_DONTWAIT == 0
}

/// Whether the other end has closed: then the kernel says what becomes of what is sent.
#[inline]
pub fn other_leaves(record: &Record, carrier: &Carrier, held: &Held<'_>) -> bool {
    let other = 1 - record.sender(held).side();
    carrier.load(LEAVING + other) != 0
}

pub fn line_ended(fd: c_int) -> bool {
    let ends = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
    kernel::events_now(fd, libc::POLLRDHUP) & ends != 0
}
