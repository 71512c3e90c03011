//! Fork: what is done before and after it, in the parent and in the child.

use core::ffi::{c_int, c_void};

use crate::epoll::sets;
use crate::handoff::give_back::TURNS;
use crate::handoff::program_end::at_quick_exit;
use crate::process::lock::Lock;
use crate::process::{deferred_close, ids, sandbox};
use crate::stream::capture;
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::{
    descriptors, gate, inheritance, pins, process_refs, report, slots, uring_rings,
};
use crate::upgrade::rendezvous;

/// The child that is about to be made will have all sockets too. Until it is made, no other thread of this
/// process gets or closes a socket, and the tables are consistent.
extern "C" fn before_fork() {
    if sandbox::is_sandboxed() {
        return;
    }
    quietly(|| {
        process_refs::check_some();
        // In this order: see `relay::replace`.
        sets::begin_fork();
        gate::begin_fork();
        inheritance::count_child();
    });
}

extern "C" fn after_fork() {
    sets::end_fork();
    gate::end_fork();
}

extern "C" fn after_fork_in_child() {
    if sandbox::is_sandboxed() {
        return;
    }
    // Of a process without sockets nothing here asks the kernel for what it could refuse.
    if descriptors::has_none() && !capture::is_on() {
        return become_child();
    }
    let saved = real::errno();
    become_child();
    real::set_errno(saved);
}

#[inline(always)]
fn become_child() {
    ids::note_own_ids();
    gate::end_fork();
    inheritance::become_child();
    rendezvous::after_fork();
    pins::after_fork();
    TURNS.iter().for_each(Lock::reset);
    deferred_close::after_fork();
    sets::after_fork();
    uring_rings::after_fork();
    report::forget();
    capture::forget();
}

/// A fork that the C library's handlers do not see.
pub fn fork_untold(call: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    if slots::is_hidden() {
        return call();
    }
    real::keeping_errno(|| {
        before_fork();
        let child = call();
        if child == 0 {
            after_fork_in_child();
        } else {
            after_fork();
            process_refs::child_made(child);
        }
        child
    })
}

/// Registers what is done at a fork, and at an end without the usual exit handlers.
pub fn set_up() {
    // SAFETY: the C library's function of this name has this type.
    unsafe extern "C" {
        fn __register_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
            library: *const c_void,
        ) -> c_int;
        fn __cxa_at_quick_exit(
            handler: extern "C" fn(*mut c_void),
            library: *const c_void,
        ) -> c_int;
    }
    // SAFETY: the functions live as long as the process: this library is never unloaded.
    unsafe {
        __register_atfork(
            Some(before_fork),
            Some(after_fork),
            Some(after_fork_in_child),
            core::ptr::null(),
        );
        __cxa_at_quick_exit(at_quick_exit, core::ptr::null());
    }
}
