//! The receiving side of a socket: recovery after a reader that ended in the middle of a call.

use core::ffi::c_int;

use crate::process::lock::Held;
use crate::system::kernel;
use crate::table::descriptors;
use crate::table::flags::UNIX;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::upgrade::unix_streams;

/// The last reader ended in the middle of a call: counts what it took off the kernel connection. `false`:
/// that cannot be known.
#[cold]
pub fn recover(fd: c_int, socket: &SocketState, held: &Held<'_>) -> bool {
    let is_up = socket.state() == State::Upgraded && descriptors::is_of(fd, socket);
    if !is_up || socket.has(UNIX) || (held.is_taken_over() && !held.needs_mending()) {
        return !is_up;
    }
    let receiver = socket.receiver(held);
    let mends = |bytes| held.moving(|| receiver.recover(&socket.memory(), bytes));
    let is_mended = kernel::bytes_read(fd).is_some_and(mends);
    socket.recounts.add(1);
    if is_mended {
        held.mended();
    }
    is_mended
}

/// Publishes how far a Unix socket was read.
pub fn publish_read(socket: &SocketState, held: &Held<'_>) {
    let receiver = socket.receiver(held);
    let side = socket.side() as usize;
    unix_streams::publish_read(socket, side, receiver.position());
}
