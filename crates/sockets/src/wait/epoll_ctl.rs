//! `epoll_ctl`: the kernel's set and the library's tables change together.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use libc::epoll_event;

use crate::epoll::deferred_ctl;
use crate::epoll::locked::tables;
use crate::epoll::sets::{ONCE, now_up};
use crate::epoll::tables::Tables;
use crate::stream::{calls, leaving};
use crate::system::real;
use crate::table::flags::WATCHED;
use crate::table::socket_state::Record;
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
    let Some(record) = descriptors::find(fd) else {
        let result = kernel();
        if result == 0 && !slots::is_hidden() {
            inner_changed(set_fd, operation, fd, wanted());
        }
        return result;
    };
    let is_ours = !matches!(record.state(), State::Plain | State::Listening);
    if !is_ours && !deferred_ctl::has_any() {
        return kernel();
    }
    let Some(mut locked) = tables() else {
        return kernel();
    };
    let tables = &mut *locked;
    // SAFETY: as promised.
    if let Some(result) = unsafe { tables.change_late(set_fd, operation, fd, record, event) } {
        return result.map_or_else(|error| real::fail(error) as c_int, |()| 0);
    }
    let result = kernel();
    if result != 0 || !is_ours {
        return result;
    }
    let is_looked_at = change(tables, set_fd, operation, fd, record, wanted());
    drop(locked);
    let saved = real::errno();
    if is_looked_at.is_none() && operation != libc::EPOLL_CTL_DEL {
        // More sets than we keep count of: nobody would look at it.
        leaving::stay_with_kernel(record);
    }
    // Another thread may have put it up since.
    let leaves = !is_looked_at.unwrap_or(false) && record.state() == State::Up && !now_up(record);
    if leaves && !calls::leave_to_kernel(record) {
        deferred_ctl::shout(record);
    }
    real::set_errno(saved);
    0
}

fn inner_changed(set_fd: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
    let Some(mut locked) = tables() else { return };
    let inner = locked.set_number(fd);
    let outer = locked.set_number(set_fd);
    if let (Some(inner), Some(outer)) = (inner, outer) {
        locked.make_eager(inner);
        locked.sets[outer as usize].change_inner(operation, fd, event);
    }
}

/// Returns whether waits look at the socket from now on, if it is up; `None` if not known.
fn change(
    tables: &mut Tables,
    set_fd: c_int,
    operation: c_int,
    fd: c_int,
    record: &Record,
    event: Option<epoll_event>,
) -> Option<bool> {
    if event.is_some_and(|event| event.events & libc::EPOLLONESHOT as u32 != 0) {
        ONCE.store(true, Ordering::Relaxed);
    }
    match (operation, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => {
            let set = tables.set_for(set_fd)?;
            let is_looked_at = tables.add(set, fd, record, event);
            // Relaxed: who comes to have it later has it from this process.
            if tables.sets[set as usize].is_inherited
                && record.processes.load(Ordering::Relaxed) > 1
            {
                record.set(WATCHED, true);
            }
            Some(is_looked_at && !record.has(WATCHED))
        }
        (libc::EPOLL_CTL_MOD, Some(event)) => {
            let set = tables.set_for(set_fd)?;
            let Some(index) = tables.registration_of(set, record, fd) else {
                // It was registered before we knew it.
                return Some(tables.add(set, fd, record, event));
            };
            tables.leave(index);
            let registration = &mut tables.registrations[index];
            registration.events = event.events;
            registration.told_kernel = event.events;
            registration.data = event.u64;
            registration.head_told = 0;
            registration.silent = false;
            tables.enter(index);
            if record.state() != State::Up {
                return Some(true);
            }
            tables.counters(set).note_change();
            Some(tables.look_at(index))
        }
        (libc::EPOLL_CTL_DEL, _) => {
            let set = tables.set_number(set_fd)?;
            let index = tables.registration_of(set, record, fd)?;
            tables.remove(index);
            Some(true)
        }
        _ => None,
    }
}
