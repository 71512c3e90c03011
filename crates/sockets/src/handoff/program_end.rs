//! The end of this program: it exits, or another program takes its place.

use core::ffi::{c_uint, c_void};

use barewire_calls::descriptor;

use crate::epoll::deferred_ctl;
use crate::handoff::closing::leave;
use crate::handoff::give_back::{give_back, recall_deadline};
use crate::process::{ids, sandbox};
use crate::stream::{capture, ready};
use crate::system::cancel::quietly;
use crate::table::state::{Reason, State};
use crate::table::{descriptors, inheritance, reason_report, report, slots};
use crate::upgrade::{capability_mark, steps};

/// Another program is about to begin, in this process or in a child. It gets the descriptors that are not
/// closed by `exec`, and may not have the library. A child made by vfork uses its parent's tables here, as
/// it should: the sockets are the same. The program also gets those that `actions` duplicate for it, if
/// that is not null.
pub fn before_another_program(actions: *const c_void) {
    if slots::is_hidden() {
        return;
    }
    deferred_ctl::before_another_program();
    let deadline_ns = recall_deadline();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, socket| {
        let is_kernels = matches!(socket.state(), State::Listening | State::Kernel);
        if is_kernels && !capability_mark::has_any(socket) {
            return;
        }
        let stays = descriptor::is_inherited(fd).unwrap_or(false);
        // Relaxed: named by this thread before, or by no actions that it has.
        let named_by = socket.named_by.get() as usize;
        if stays || (!actions.is_null() && named_by == actions as usize) {
            give_back(fd, socket, Reason::HandedOff, deadline_ns);
        }
    });
}

/// The program in this process ends (`true`), or goes on because no other could begin. Sockets that are
/// closed by `exec` leave the kernel connection without wake-up bytes, which the kernel would take for
/// unread data. Other sockets are no longer the library's. A child made by vfork has none that count.
pub fn end_of_image(ends: bool) {
    if sandbox::is_sandboxed() || ids::is_vfork_child() {
        return;
    }
    quietly(|| {
        if !ends {
            return inheritance::take_up_again();
        }
        capture::end();
        descriptors::for_each_descriptor(0, c_uint::MAX, |fd, socket| match socket.state() {
            State::Upgraded => {
                ready::check_readiness(fd, socket, false);
            }
            State::AtRendezvous => steps::leave_rendezvous(fd, socket),
            _ => {}
        });
        inheritance::leave_to_others();
    });
}

/// Registered before the program's own handlers, this runs after them.
pub extern "C" fn at_quick_exit(_: *mut c_void) {
    at_exit();
}

/// The process ends: its sockets lose one process reference.
pub fn at_exit() {
    if !descriptors::has_none() || report::is_wanted() || capture::is_on() {
        quietly(leave_all);
    }
}

fn leave_all() {
    if sandbox::is_sandboxed() || ids::is_vfork_child() {
        return;
    }
    reason_report::tell_all();
    report::write();
    capture::end();
    // The kernel closes them now, or takes them from this process: without wake-up bytes.
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, socket| {
        if socket.state() == State::Upgraded && socket.process_count() == 1 {
            leave(fd, socket, 0);
        }
    });
    inheritance::leave_to_others();
}
