//! What the calls on an upgraded socket have in common.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::AtomicU64;

use barewire_calls::descriptor;
use barewire_fabric::hybrid::{LEAVING, SharedMemory};
use libc::ssize_t;

use crate::process::lock::Held;
use crate::process::sandbox;
use crate::process::words::Lone;
use crate::system::{kernel, real::fail};
use crate::table::descriptors;
use crate::table::flags::{NONBLOCKING, RELAYED};
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::table::stream_memory::StreamMemory;

/// The other side broke the protocol, or a process that shares the socket was killed in the middle of a
/// call: the connection ends as if it had been reset.
#[cold]
pub fn break_connection(fd: c_int, socket: &SocketState) -> ssize_t {
    socket.note_reason(Reason::Broken);
    if descriptors::is_of(fd, socket) {
        descriptor::shut(fd, libc::SHUT_RDWR);
    }
    fail(libc::ECONNRESET)
}

/// Whether the socket was closed while a call waited that began at this `generation`. Then the descriptor
/// and the socket state may belong to another socket. `false` if a relay has taken its place, or the
/// program has sandboxed itself: then the descriptor is the kernel's.
pub fn is_closed_since(fd: c_int, socket: &SocketState, generation: u32) -> bool {
    let is_ours = descriptors::is_of(fd, socket) || socket.has(RELAYED);
    (socket.generation() != generation || !is_ours) && !sandbox::all_left()
}

/// Asks whether the next byte is the one behind the urgent mark.
pub const SIOCATMARK: c_ulong = 0x8905;

/// Whether the kernel connection is at the urgent mark.
pub fn is_at_mark(fd: c_int) -> bool {
    descriptor::count(fd, SIOCATMARK).is_ok_and(|at_mark| at_mark != 0)
}

/// Counts bytes under the lock of their direction, so that nobody else counts at the same time.
pub fn count_bytes(counter: &Lone<AtomicU64>, bytes: usize) {
    counter.set(counter.get() + bytes as u64);
}

/// Tells the sender that a thread is about to sleep. `false` if something has come.
pub fn arm(socket: &SocketState, held: &Held<'_>) -> bool {
    socket.receiver(held).arm(&socket.memory())
}

/// No wait polls the byte ring: until the socket is read, the other end sends wake-up bytes. `false` if
/// something has come already.
pub fn leave_to_kernel(socket: &SocketState) -> bool {
    let held = socket.recv_lock.hold();
    // It may be closed, or back on the kernel connection, by now.
    held.is_none_or(|held| socket.state() != State::Upgraded || arm(socket, &held))
}

/// Whether a call with these flags may block.
pub fn may_block(socket: &SocketState, flags: c_int) -> bool {
    !socket.has(NONBLOCKING) && flags & libc::MSG_DONTWAIT == 0
}

/// Whether the other end has closed. Then the kernel decides what becomes of sent bytes.
#[inline]
pub fn is_peer_leaving(socket: &SocketState, memory: &StreamMemory, held: &Held<'_>) -> bool {
    let other = 1 - socket.sender(held).side();
    memory.load(LEAVING + other) != 0
}

pub fn has_kernel_ended(fd: c_int) -> bool {
    let ends = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
    kernel::events_now(fd, libc::POLLRDHUP) & ends != 0
}
