//! The entries that a program submits to an io_uring, and the sockets that they use.
//!
//! A socket that an entry reads, writes or polls falls back to the kernel for good, before the kernel
//! gets the entry. An entry that changes an epoll set for a socket that the library carries is
//! executed here, as `epoll_ctl` would be, and then turned into a no-op, whose result is 0 as well. If that
//! fails, the entry stays as it is and fails again in the kernel. All other entries are left alone.

use core::ffi::c_int;

use crate::epoll::{deferred_ctl, sets};
use crate::handoff::{closing, give_back};
use crate::process::{fault, settings};
use crate::system::cancel::quietly;
use crate::system::{kernel, own_descriptors, real, unix_sockets};
use crate::table::descriptors;
use crate::table::state::{Reason, State};
use crate::table::uring_rings::Queue;
use crate::upgrade::enrol;
use crate::wait::epoll_ctl;

/// `struct io_uring_sqe` (linux/io_uring.h), as far as it is read here.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    operation: u8,
    flags: u8,
    priority: u16,
    fd: c_int,
    offset: u64,
    address: u64,
    len: u32,
    operation_flags: u32,
    data: u64,
    buffer: u16,
    personality: u16,
    other_fd: c_int,
}

/// Operations: see `io_uring_enter(2)`.
mod operation {
    pub const NOP: u8 = 0;
    pub const POLL_ADD: u8 = 6;
    pub const CLOSE: u8 = 19;
    pub const FILES_UPDATE: u8 = 20;
    pub const EPOLL_CTL: u8 = 29;
    pub const SPLICE: u8 = 30;
    pub const TEE: u8 = 33;
    pub const EPOLL_WAIT: u8 = 59;
}

/// A bit for each operation that has no descriptor where others have it, or one of a file, a folder or
/// a ring: NOP, FSYNC, POLL_REMOVE, SYNC_FILE_RANGE, TIMEOUT, TIMEOUT_REMOVE, ASYNC_CANCEL, LINK_TIMEOUT,
/// FALLOCATE, OPENAT, STATX, FADVISE, MADVISE, OPENAT2, PROVIDE_BUFFERS, REMOVE_BUFFERS, RENAMEAT to
/// MSG_RING, the extended attributes, SOCKET, WAITID and the futexes, FIXED_FD_INSTALL, FTRUNCATE, PIPE.
const NO_SOCKET: u64 = 1
    | 1 << 3
    | 0b11 << 7
    | 0b11 << 11
    | 0b11 << 14
    | 0b11 << 17
    | 1 << 21
    | 0b11 << 24
    | 1 << 28
    | 0b11 << 31
    | 0b111_1111 << 35
    | 0b1111 << 42
    | 0b11_1111 << 50
    | 1 << 62;

const FIXED_FILE: u8 = 1;
const DRAIN: u8 = 2;
const LINKS: u8 = 4 | 8;
/// Whatever these say, what an entry does is the same: linked, ordered, by a thread, without a result.
const HARMLESS: u8 = DRAIN | LINKS | 16 | 64;
/// Of `splice`: the other descriptor is one of the registered ones.
const OTHER_IS_FIXED: u32 = 1 << 31;
/// Sockets of one submission whose `epoll_ctl` has failed.
const FAILED_MAX: usize = 8;

/// What is known of the entries before the one that is looked at.
struct Before {
    is_linked: bool,
    failed: [c_int; FAILED_MAX],
    failed_count: usize,
}

/// Looks at entries that are about to be submitted. `false`: one of them waits for a set, in which
/// there may be any sockets, or changes one in a way that cannot be followed.
///
/// # Safety
/// The queue is the program's, and mapped; nobody else submits its entries.
pub unsafe fn look(queue: &Queue) -> bool {
    let mut before = Before {
        is_linked: false,
        failed: [-1; FAILED_MAX],
        failed_count: 0,
    };
    let mut is_known = true;
    for nth in 0..queue.count {
        let place = queue.first.wrapping_add(nth) & queue.mask;
        let index = if queue.array.is_null() {
            place
        } else {
            // SAFETY: as promised; the mask keeps it in the array.
            unsafe { queue.array.add(place as usize).read_volatile() }
        };
        if index > queue.mask {
            // The kernel drops it.
            continue;
        }
        let at = (index as usize) << (6 + usize::from(queue.is_wide));
        // SAFETY: as promised; it is in the array of entries, which is aligned.
        let is_usual = unsafe {
            let at = queue.entries.add(at).cast::<Entry>();
            look_at(at, queue.is_polled, &mut before)
        };
        is_known &= is_usual;
    }
    is_known
}

/// # Safety
/// The entry is the program's, and mapped.
unsafe fn look_at(at: *mut Entry, is_polled: bool, before: &mut Before) -> bool {
    // SAFETY: as promised. Read once.
    let entry = unsafe { at.read_volatile() };
    let is_chained = before.is_linked || entry.flags & (LINKS | DRAIN) != 0;
    before.is_linked = entry.flags & LINKS != 0;
    let is_fixed = entry.flags & FIXED_FILE != 0;
    match entry.operation {
        operation::EPOLL_CTL if is_polled => return true,
        operation::EPOLL_CTL => {
            // SAFETY: as promised.
            return unsafe { control(at, &entry, is_chained, before) };
        }
        operation::CLOSE if entry.other_fd == 0 => {
            if is_chained {
                leave_to_kernel(entry.fd);
            }
            closing::closing(entry.fd);
            return true;
        }
        operation::CLOSE => return true,
        operation::FILES_UPDATE => {
            // SAFETY: the program's list.
            unsafe { leave_list_to_kernel(entry.address as *const c_int, entry.len) };
            return true;
        }
        operation::SPLICE | operation::TEE if entry.operation_flags & OTHER_IS_FIXED == 0 => {
            leave_to_kernel(entry.other_fd);
        }
        low if low < 64 && NO_SOCKET >> low & 1 != 0 => return true,
        _ => {}
    }
    if is_fixed {
        // What is registered was left to the kernel then.
        return true;
    }
    if matches!(entry.operation, operation::POLL_ADD | operation::EPOLL_WAIT)
        && sets::is_set(entry.fd)
    {
        return false;
    }
    if entry.operation == operation::POLL_ADD {
        // It may still wait when the socket is connected.
        leave_for_good(entry.fd);
    } else {
        leave_to_kernel(entry.fd);
    }
    true
}

/// The program uses the socket past this library: from now on it is the kernel's. What is not known to
/// the library is so already.
fn leave_to_kernel(fd: c_int) {
    if let Some(socket) = descriptors::find(fd) {
        give_back::leave_to_kernel(fd, socket, Reason::IoUring);
    }
}

/// As above; a socket that is not connected yet does not be upgraded when it is.
fn leave_for_good(fd: c_int) {
    if descriptors::find(fd).is_some() {
        leave_to_kernel(fd);
    } else {
        quietly(|| leave_new(fd));
    }
}

fn leave_new(fd: c_int) {
    let protocol = kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL);
    let may_upgrade = match protocol {
        Some(libc::IPPROTO_TCP) => kernel::tuple(fd).is_none(),
        Some(_) => settings::get().unix && unix_sockets::is_of_streams(fd),
        None => false,
    };
    let listens = kernel::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0);
    if may_upgrade && !listens {
        if let Some(socket) = descriptors::add(fd, State::Kernel) {
            own_descriptors::note_highest(fd);
            socket.note_reason(Reason::IoUring);
        }
    }
}

/// As above, of sockets that are registered with a ring.
///
/// # Safety
/// `list` is null or the program's, of `count`.
pub unsafe fn leave_list_to_kernel(list: *const c_int, count: u32) {
    let bytes = count as usize * size_of::<c_int>();
    if !fault::can_read_aside(list, bytes) {
        return;
    }
    for nth in 0..count as usize {
        // SAFETY: as promised, and it is there.
        let fd = unsafe { list.add(nth).read_unaligned() };
        if fd >= 0 {
            leave_for_good(fd);
        }
    }
}

/// A change of an epoll set.
///
/// # Safety
/// As for [`look_at`].
unsafe fn control(at: *mut Entry, entry: &Entry, is_chained: bool, before: &mut Before) -> bool {
    let (set_fd, fd, number) = (entry.fd, entry.offset as c_int, entry.len as c_int);
    // The kernel refuses these, or is asked as somebody else.
    let is_plain = entry.flags & !HARMLESS == 0 && entry.priority == 0 && entry.buffer == 0;
    if !is_plain || entry.other_fd != 0 {
        return true;
    }
    let is_set = sets::is_set(fd);
    if is_set && is_chained {
        return false;
    }
    if !is_set && number == libc::EPOLL_CTL_ADD && descriptors::find(fd).is_none() {
        enrol::before_connect_if_new(fd);
    }
    let ours =
        descriptors::find(fd).filter(|it| !matches!(it.state(), State::Kernel | State::Listening));
    if ours.is_none() && !is_set {
        return true;
    }
    let failed = &before.failed[..before.failed_count];
    if is_chained || failed.contains(&fd) || before.failed_count == FAILED_MAX {
        // Whether the kernel comes to it, and with what outcome, depends on others.
        leave_to_kernel(fd);
        return true;
    }
    let (result, error) = quietly(|| {
        let event = entry.address as *mut libc::epoll_event;
        // SAFETY: the program's call, which the kernel would make with these.
        let result = unsafe { epoll_ctl::control(set_fd, number, fd, event) };
        (result, real::errno())
    });
    if result == 0 {
        // SAFETY: as promised to look_at.
        unsafe {
            (&raw mut (*at).operation_flags).write_volatile(0);
            (&raw mut (*at).operation).write_volatile(operation::NOP);
        }
        return true;
    }
    if error == libc::ENOENT {
        // The kernel may not have been told yet that it is gone.
        quietly(|| deferred_ctl::note_other_watcher(set_fd));
    }
    before.failed[before.failed_count] = fd;
    before.failed_count += 1;
    true
}
