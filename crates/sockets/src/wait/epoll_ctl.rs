//! `epoll_ctl`: the kernel's set and the library's tables change together.

use core::ffi::c_int;

use libc::epoll_event;

use crate::epoll::deferred_ctl;
use crate::epoll::locked::tables;
use crate::epoll::sets::{ONCE, now_upgraded};
use crate::epoll::tables::{Tables, are_deferred};
use crate::stream::{calls, leaving};
use crate::system::real;
use crate::table::flags::IN_PARENTS_SET;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{descriptors, slots};

/// `epoll_ctl`. The kernel and our tables change together: a socket that was added and told
/// of may be taken out and freed by another thread before this one is back.
///
/// # Safety
/// As for the C library's.
pub unsafe fn control(
    set_fd: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: as promised.
    let kernel = || unsafe { real::epoll_ctl(set_fd, operation, fd, event) };
    // SAFETY: as promised; asked when the kernel has read it. To take a socket out it reads none.
    let wanted = || (operation != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
    let Some(socket) = descriptors::find(fd) else {
        let result = kernel();
        if result == 0 && !slots::is_hidden() {
            inner_changed(set_fd, operation, fd, wanted());
        }
        return result;
    };
    let is_ours = !matches!(socket.state(), State::Kernel | State::Listening);
    if !is_ours && !are_deferred() {
        return kernel();
    }
    let Some(mut locked) = tables() else {
        return kernel();
    };
    let tables = &mut *locked;
    // SAFETY: as promised.
    if let Some(result) = unsafe { tables.defer_change(set_fd, operation, fd, socket, event) } {
        return result.map_or_else(|error| real::fail(error) as c_int, |()| 0);
    }
    let result = kernel();
    if result != 0 || !is_ours {
        return result;
    }
    let is_looked_at = change(tables, set_fd, operation, fd, socket, wanted());
    drop(locked);
    let saved = real::errno();
    if is_looked_at.is_none() && operation != libc::EPOLL_CTL_DEL {
        // More sets than we keep count of: nobody would look at it.
        leaving::stay_with_kernel(socket);
    }
    // Another thread may have put it up since.
    let leaves = !is_looked_at.unwrap_or(false)
        && socket.state() == State::Upgraded
        && !now_upgraded(socket);
    if leaves && !calls::leave_to_kernel(socket) {
        deferred_ctl::wake_sleepers(socket);
    }
    real::set_errno(saved);
    0
}

fn inner_changed(set_fd: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
    let Some(mut locked) = tables() else { return };
    let inner = locked.set_number(fd);
    let outer = locked.set_number(set_fd);
    if let (Some(inner), Some(outer)) = (inner, outer) {
        locked.make_immediate(inner);
        locked.sets[outer as usize].change_inner(operation, fd, event);
    }
}

/// Returns whether waits look at the socket from now on, if it is upgraded; `None` if not known.
fn change(
    tables: &mut Tables,
    set_fd: c_int,
    operation: c_int,
    fd: c_int,
    socket: &SocketState,
    event: Option<epoll_event>,
) -> Option<bool> {
    if event.is_some_and(|event| event.events & libc::EPOLLONESHOT as u32 != 0) {
        ONCE.set(true);
    }
    match (operation, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => {
            let set = tables.set_for(set_fd)?;
            let is_looked_at = tables.add(set, fd, socket, event);
            // Who comes to have it later has it from this process.
            if tables.sets[set as usize].is_inherited && socket.process_count_alone() > 1 {
                socket.set(IN_PARENTS_SET, true);
            }
            Some(is_looked_at && !socket.has(IN_PARENTS_SET))
        }
        (libc::EPOLL_CTL_MOD, Some(event)) => {
            let set = tables.set_for(set_fd)?;
            let Some(index) = tables.registration_of(set, socket, fd) else {
                // It was registered before we knew it.
                return Some(tables.add(set, fd, socket, event));
            };
            tables.leave(index);
            let registration = &mut tables.registrations[index];
            registration.events = event.events;
            registration.kernel_events = event.events;
            registration.data = event.u64;
            registration.reported_head = 0;
            registration.silent = false;
            tables.enter(index);
            if socket.state() != State::Upgraded {
                return Some(true);
            }
            tables.counters(set).note_change();
            Some(tables.look_at(index))
        }
        (libc::EPOLL_CTL_DEL, _) => {
            let set = tables.set_number(set_fd)?;
            let index = tables.registration_of(set, socket, fd)?;
            tables.remove(index);
            Some(true)
        }
        _ => None,
    }
}
