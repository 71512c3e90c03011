//! The count of processes that have a socket: the socket state counts them, and the last one to leave frees
//! it.
//!
//! `process_refs` notes which processes are counted. A process is counted before that is noted, and the
//! note is removed before the count goes down. So a process that is killed in between leaves a socket state
//! that is never used again, but never one that stands for two sockets.

use core::sync::atomic::Ordering;

use crate::table::process_refs;
use crate::table::socket_state::SocketState;
use crate::table::sockets::{mapping, uncount, unmap};

/// This process is about to leave the socket. Returns whether others have it, who need not wait for
/// this one: it is not counted any more, and the socket state may soon be another socket's. If it is the
/// last, it is counted until it has left.
pub fn others_have(socket: &SocketState) -> bool {
    let number = socket.number();
    // Acquire: pairs with the AcqRel below, of those that were the others. Who is noted, and alone, stays so.
    if socket.processes.load(Ordering::Acquire) == 1 && process_refs::is_noted(number) {
        return false;
    }
    if !process_refs::forget(number) {
        return true;
    }
    let others = |count: u32| (count > 1).then(|| count - 1);
    // AcqRel: pairs with the Acquire above.
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let result = socket.processes.fetch_update(success, failure, others);
    if result.is_err() {
        process_refs::note(number);
    }
    result.is_ok()
}

/// This process has no descriptor of the socket any more. Whoever is the last frees the socket state: it
/// is counted until then.
pub fn leave(socket: &'static SocketState) {
    unmap(socket, mapping(socket));
    if process_refs::forget(socket.number()) {
        uncount(socket);
    }
}
