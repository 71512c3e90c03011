//! Pending errors: the kernel has reported them for a connection, and the program has not been told yet.

use core::ffi::c_int;

use crate::stream::lost_bytes;
use crate::system::kernel;
use crate::table::socket_state::SocketState;

/// The kernel reports an error once; the program is told later. 0 is no error, but the end of the stream.
pub fn keep_error(socket: &SocketState, error: c_int) {
    if error != 0 && !lost_bytes::is_for_wake_byte(socket, error) {
        socket.pending_error.set(error);
    }
}

/// Whether there is a pending error.
pub fn has_error(socket: &SocketState) -> bool {
    socket.pending_error.get() != 0
}

/// Takes the pending error: the program is told now.
pub fn take_kept_error(socket: &SocketState) -> Option<c_int> {
    // Looked at first: a swap takes its time. Another thread may be told at the same time.
    let error = match has_error(socket) {
        true => socket.pending_error.swap(0),
        false => 0,
    };
    (error != 0).then_some(error)
}

/// The pending error, or what the kernel has, or 0. The program is told now.
pub fn take_error(fd: c_int, socket: &SocketState) -> c_int {
    take_kept_error(socket)
        .unwrap_or_else(|| kernel::option(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0))
}
