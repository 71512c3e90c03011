//! Sockets that a process passes on to its children, or leaves to other processes.

use crate::table::descriptors::{for_each_own, forget, has_none};
use crate::table::gate::GATE;
use crate::table::process_refs;
use crate::table::references::others_have;
use crate::table::sockets::count_again;

/// This process is about to end, or to become another program: others that have its sockets need
/// not wait for it. What nobody else has is freed when it is gone, since threads may use it yet.
pub fn leave_to_others() {
    for_each_own(|socket| {
        others_have(socket);
    });
}

/// It goes on after all, or others took it for gone. Sockets that everybody else has left meanwhile
/// are the kernel's alone.
pub fn take_up_again() {
    if !process_refs::has_place() {
        // We do not know which we have left.
        return;
    }
    for_each_own(|socket| {
        let number = socket.number();
        if process_refs::is_noted(number) {
            return;
        }
        if count_again(socket) {
            process_refs::note(number);
        } else {
            let _gate = GATE.hold();
            forget(socket);
        }
    });
}

/// This process is about to have a child, which will have all its sockets. Under the gate until the child is
/// there: [`become_child`] finds what this did.
pub fn count_child() {
    if has_none() {
        return process_refs::reserve_none();
    }
    process_refs::reserve_for_child();
    for_each_own(|socket| {
        // A listening socket is not read from; it may be in any number of processes.
        if count_again(socket) {
            process_refs::note_reserved_socket(socket.number());
        }
    });
}

/// In a child, which has the sockets that its parent has counted for it.
pub fn become_child() {
    if has_none() {
        process_refs::become_child_without_sockets();
    } else if !process_refs::become_child() {
        take_up_again();
    }
}
