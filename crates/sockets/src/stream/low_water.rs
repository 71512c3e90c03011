//! The low-water mark (`SO_RCVLOWAT`): a socket counts as readable, and a blocking read returns, only
//! when at least that number of bytes is there.
//!
//! A thread that waits for bytes waits in the kernel. The kernel counts bytes of the kernel connection, and
//! knows nothing of those in the byte ring. So a socket with a mark falls back to the kernel for good.
//! While bytes are left in the byte ring, the kernel's mark is lowered by their number, and raised by the
//! number of wake-up bytes in the kernel. The program still sees the mark that it has set.

use core::ffi::c_int;

use crate::process::lock::Held;
use crate::system::kernel;
use crate::table::flags::LOW_WATER;
use crate::table::socket_state::SocketState;
use crate::table::state::State;

/// The mark that the program has set, where the kernel's differs.
pub fn programs_mark(socket: &SocketState) -> Option<c_int> {
    let mark = socket.low_water.get();
    let is_ours = socket.state() == State::Upgraded && socket.has(LOW_WATER);
    is_ours.then_some(mark as c_int)
}

/// How many bytes a blocking read must have at least.
pub fn minimum(socket: &SocketState) -> usize {
    if socket.has(LOW_WATER) {
        socket.low_water.get() as usize
    } else {
        1
    }
}

/// Adjusts the kernel's mark after bytes were read, so that it counts as the program expects.
pub fn update_kernel_mark(fd: c_int, socket: &SocketState, held: &Held<'_>) {
    if socket.state() == State::Upgraded {
        set_kernel_mark(fd, socket, held, socket.low_water.get().into());
    }
}

/// Has the kernel report the socket when there are `bytes` more than have been read.
pub fn set_kernel_mark(fd: c_int, socket: &SocketState, held: &Held<'_>, bytes: u64) {
    let (in_ring, wake_bytes) = socket.receiver(held).unread(&socket.memory());
    let mark = (bytes + wake_bytes).saturating_sub(in_ring).max(1);
    set_option(fd, c_int::try_from(mark).unwrap_or(c_int::MAX));
}

/// Restores the program's mark, for a program that cannot use the byte ring.
pub fn restore(fd: c_int, socket: &SocketState) {
    if let Some(mark) = programs_mark(socket) {
        set_option(fd, mark);
    }
}

fn set_option(fd: c_int, mark: c_int) {
    kernel::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark);
}
