//! The end of this program: by `exit`, or since another one begins.

use core::ffi::{c_uint, c_void};
use core::sync::atomic::Ordering;

use crate::epoll::deferred_ctl;
use crate::handoff::closing::leave;
use crate::handoff::give_back::{give_back, recall_deadline};
use crate::process::{ids, sandbox};
use crate::stream::{capture, ready};
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::state::{State, Why};
use crate::table::{descriptors, inheritance, reason_report, report, slots};
use crate::upgrade::{capability_mark, steps};

/// Another program is about to begin, in this process or in a child: it has the descriptors
/// that do not close by themselves, and may not be on board. A child made by vfork does this
/// with its parent's tables, as it should: the sockets are the same. It also has
/// those that `actions` duplicate for it, if that is not null.
pub fn before_another_program(actions: *const c_void) {
    if slots::is_hidden() {
        return;
    }
    deferred_ctl::before_another_program();
    let deadline_ns = recall_deadline();
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        let is_kernels = matches!(record.state(), State::Listening | State::Plain);
        if is_kernels && !capability_mark::has_any(record) {
            return;
        }
        // SAFETY: no pointers.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
        let stays = flags >= 0 && flags & libc::FD_CLOEXEC == 0;
        // Relaxed: named by this thread before, or by no actions that it has.
        let named_by = record.named_by.load(Ordering::Relaxed) as usize;
        if stays || (!actions.is_null() && named_by == actions as usize) {
            give_back(fd, record, Why::Given, deadline_ns);
        }
    });
}

/// The program in this process ends (`true`), or goes on because no other could begin. What
/// closes by itself leaves the line without tokens, which the kernel would take for bytes that
/// were not read; what does not is no longer ours. A child made by vfork has nothing that counts.
pub fn end_of_image(ends: bool) {
    if sandbox::is_confined() || ids::is_borrower() {
        return;
    }
    quietly(|| {
        if !ends {
            return inheritance::take_up_again();
        }
        capture::end();
        descriptors::for_each_descriptor(0, c_uint::MAX, |fd, record| match record.state() {
            State::Up => {
                ready::settle(fd, record, false);
            }
            State::Seeking => steps::end_seeking(fd, record),
            _ => {}
        });
        inheritance::leave_to_others();
    });
}

/// Registered before the program's own, it comes after them.
pub extern "C" fn at_quick_exit(_: *mut c_void) {
    at_exit();
}

/// The process ends: its sockets are in one process less.
pub fn at_exit() {
    quietly(leave_all);
}

fn leave_all() {
    if sandbox::is_confined() || ids::is_borrower() {
        return;
    }
    reason_report::tell_all();
    report::write();
    capture::end();
    // The kernel closes them now, or takes them from this process: without tokens.
    descriptors::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        if record.state() == State::Up && record.processes.load(Ordering::Acquire) == 1 {
            leave(fd, record, 0);
        }
    });
    inheritance::leave_to_others();
}
