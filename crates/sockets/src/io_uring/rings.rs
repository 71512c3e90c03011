//! The io_urings of the program. Through one, the program reaches a socket past this library.
//!
//! Where the program submits entries by a call that the library intercepts (the C library's `syscall`, or
//! a function of liburing that the dynamic loader resolves), the library inspects them first
//! ([`entries`]). The sockets that they use fall back to the kernel for good; the others stay as they
//! are. So a program loses nothing if it uses an io_uring for files, timers or changes of epoll sets.
//!
//! An io_uring whose entries cannot be inspected sends all sockets of the process back to the kernel,
//! present and future ones: one from which a kernel thread takes the entries (`SQPOLL`), or one that the
//! program sets up or uses by raw system calls. The library looks for the latter kind when a connection has
//! been upgraded: after the first of a process, the second, the fourth and so on. So all these searches
//! together cost each connection no more than looking at a few descriptors.
//!
//! The setting `io_uring` chooses: `inspect` does the above, `leave` sends all sockets back for any
//! io_uring, and `refuse` has the program find that it may not have one, as in most containers.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use barewire_calls::descriptor;

use crate::handoff::give_back::give_all_back;
use crate::io_uring::entries;
use crate::process::words::Lone;
use crate::process::{
    fault, open_files,
    settings::{self, Rings},
};
use crate::system::cancel::quietly;
use crate::system::{real, text};
use crate::table::state::Reason;
use crate::table::{slots, uring_rings};

/// Rings whose descriptors are kept; with more at once the process is the kernel's for good.
const KEPT_MAX: usize = 8;
/// No ring.
const NONE: u32 = 0;

/// Rings that were made so far, each of which has its number.
static MADE: Lone<AtomicU32> = Lone::new(AtomicU32::new(NONE));
/// The last ring, if there may be any: what every call that moves bytes looks at.
static ANY: AtomicU32 = AtomicU32::new(NONE);
/// There is one whose descriptor is not known.
static FOR_GOOD: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));
/// Rings, each with its descriptor. As they have numbers, who finds one closed can not take away
/// another, which another thread makes meanwhile, though it has the same descriptor.
static KEPT: [Lone<AtomicU64>; KEPT_MAX] =
    [const { Lone::new(AtomicU64::new(NONE as u64)) }; KEPT_MAX];
/// Connections of this process that were upgraded.
static UPGRADES: Lone<AtomicU32> = Lone::new(AtomicU32::new(0));

/// Whether the program has a ring. One that was made only to see whether it can be, as many
/// programs do at their start, does not count when it is closed.
#[inline]
pub fn are_used() -> bool {
    // Relaxed: a ring that another thread makes at this moment has nothing submitted yet, and its maker gives back
    // what was upgraded meanwhile.
    ANY.load(Ordering::Relaxed) != NONE && are_used_still()
}

#[cold]
fn are_used_still() -> bool {
    any_is_open(is_open)
}

/// Whether there is a ring; closed ones are forgotten.
fn any_is_open(is_open: impl Fn(c_int) -> bool) -> bool {
    // Acquire pairs with the Release in `note`. What was made later than this is not forgotten below.
    let last = ANY.load(Ordering::Acquire);
    let mut used = FOR_GOOD.get();
    for place in &KEPT {
        let kept = place.get();
        if kept == u64::from(NONE) {
            continue;
        }
        let is_open = is_open(kept as c_int);
        used |= is_open;
        if !is_open {
            place.exchange(kept, u64::from(NONE));
        }
    }
    if !used {
        // Relaxed: it tells of no ring.
        let _ = ANY.compare_exchange(last, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
    used
}

/// Whether a ring's descriptor is one still. Where that cannot be seen, it is as long as it is open.
fn is_open(fd: c_int) -> bool {
    is_ring(libc::AT_FDCWD, text::link_of(fd).as_path())
        .unwrap_or_else(|| descriptor::is_inherited(fd) != Err(libc::EBADF))
}

/// The program has made a ring. Without a descriptor it is never known to be closed.
#[cold]
pub fn made(fd: Option<c_int>) {
    note(fd);
    give_all_back(Reason::UnseenIoUring);
}

fn note(fd: Option<c_int>) {
    let number = MADE.add(1).wrapping_add(1).max(1);
    if !fd.is_some_and(|fd| keep(number, fd)) {
        FOR_GOOD.set(true);
    }
    // Release pairs with the Acquire in `any_is_open`: with its number comes its place.
    ANY.store(number, Ordering::Release);
}

/// Whether there is a place for it.
fn keep(number: u32, fd: c_int) -> bool {
    let fd = fd.unsigned_abs();
    let ring = u64::from(number) << 32 | u64::from(fd);
    let is_free = |kept: u64| kept == u64::from(NONE) || kept as u32 == fd;
    KEPT.iter()
        .any(|place| place.update(|kept| is_free(kept).then_some(ring)))
}

/// `io_uring_setup` has made a ring.
///
/// # Safety
/// `params` is what the kernel has just filled in.
pub unsafe fn set_up(fd: c_int, params: *const uring_rings::Params) {
    if slots::is_hidden() {
        return;
    }
    quietly(|| {
        // SAFETY: as promised.
        let params = unsafe { params.read_unaligned() };
        let has_descriptor = params.flags & uring_rings::NO_DESCRIPTOR == 0;
        if !may_look() || !uring_rings::set_up(fd, &params) {
            made(has_descriptor.then_some(fd));
        }
    });
}

/// liburing has made a ring with these flags; it looks at its entries itself, see `hooks::uring`.
pub fn made_by_library(fd: c_int, flags: u32) {
    if slots::is_hidden() {
        return;
    }
    quietly(|| {
        let is_noted = flags & uring_rings::NO_DESCRIPTOR != 0 || uring_rings::note(fd, flags);
        if !may_look() || !uring_rings::can_be_of_library(flags) || !is_noted {
            uring_rings::closing(fd);
            made((flags & uring_rings::NO_DESCRIPTOR == 0).then_some(fd));
        }
    });
}

fn may_look() -> bool {
    settings::get().rings == Rings::Inspect
}

/// The program submits `count` entries of a ring by a call of the kernel's: they are looked at before.
/// What is returned lives until the call is over. `None`: nothing is to be looked at.
pub fn before_enter(fd: c_int, count: u32, is_descriptor: bool) -> Option<uring_rings::Submission> {
    if count == 0 || slots::is_hidden() || !may_look() {
        return None;
    }
    let saved = real::errno();
    let begun = is_descriptor.then(|| uring_rings::begin(fd, count));
    real::set_errno(saved);
    let Some((submission, queue)) = begun.flatten() else {
        cannot_look(fd, is_descriptor);
        return None;
    };
    // SAFETY: of a ring that is mapped until the submission is over, and has no other.
    if !unsafe { entries::look(&queue) } {
        quietly(|| made(None));
    }
    Some(submission)
}

/// Entries of a ring are used that nobody can look at.
#[cold]
fn cannot_look(fd: c_int, is_descriptor: bool) {
    quietly(|| {
        // Looked up before all else: it is so at each call of a ring that cannot be looked at.
        if FOR_GOOD.get() || (is_descriptor && is_kept(fd)) {
            return;
        }
        uring_rings::closing(fd);
        made(is_descriptor.then_some(fd));
    });
}

/// Whether it is known as one that sends all sockets back.
fn is_kept(fd: c_int) -> bool {
    KEPT.iter().any(|place| {
        let kept = place.get();
        kept != u64::from(NONE) && kept as c_int == fd
    })
}

/// The program is about to submit these entries of a ring of liburing's.
///
/// # Safety
/// As for [`entries::look`].
pub unsafe fn before_submit(fd: c_int, queue: &uring_rings::Queue) {
    if slots::is_hidden() || !may_look() {
        return;
    }
    // SAFETY: as promised.
    if !unsafe { entries::look(queue) } {
        quietly(|| made(None));
    }
    uring_rings::looked(fd, queue.first.wrapping_add(queue.count));
}

/// The program registers these descriptors with a ring of liburing's.
///
/// # Safety
/// As for [`entries::leave_list_to_kernel`].
pub unsafe fn before_list(list: *const c_int, count: u32) {
    if !slots::is_hidden() && may_look() {
        // SAFETY: as promised.
        quietly(|| unsafe { entries::leave_list_to_kernel(list, count) });
    }
}

/// The program registers something with a ring.
///
/// # Safety
/// As for `io_uring_register`.
pub unsafe fn before_register(fd: c_int, operation: u32, list: *const c_void, count: u32) {
    /// `struct io_uring_rsrc_register` and `io_uring_rsrc_update2`, which begin alike up to here.
    const DATA_AT: usize = 16;
    const COUNT_AT: usize = 24;
    if slots::is_hidden() || !may_look() {
        return;
    }
    // SAFETY: the program's list, here and below; what is not there is not read.
    let word = |at: usize| unsafe {
        let at = list.cast::<u8>().wrapping_add(at);
        let is_there = fault::can_read_aside(at, 8);
        is_there.then(|| at.cast::<u64>().read_unaligned())
    };
    let list_at = |at: Option<u64>| at.unwrap_or(0) as *const c_int;
    // SAFETY: as above.
    quietly(|| unsafe {
        match operation & !USES_REGISTERED {
            REGISTER_FILES => entries::leave_list_to_kernel(list.cast(), count),
            REGISTER_FILES_UPDATE => entries::leave_list_to_kernel(list_at(word(8)), count),
            REGISTER_FILES2 => {
                let count = word(0).unwrap_or(0) as u32;
                entries::leave_list_to_kernel(list_at(word(DATA_AT)), count);
            }
            REGISTER_FILES_UPDATE2 => {
                let count = word(COUNT_AT).map_or(0, |count| count as u32);
                entries::leave_list_to_kernel(list_at(word(8)), count);
            }
            // What it may submit, and where its entries are, is another matter from now on.
            REGISTER_RESTRICTIONS | RESIZE_RINGS => uring_rings::closing(fd),
            _ => {}
        }
    });
}

/// Operations of `io_uring_register`, and the bit that says that the ring is a registered one.
const REGISTER_FILES: u32 = 2;
const REGISTER_FILES_UPDATE: u32 = 6;
const REGISTER_RESTRICTIONS: u32 = 11;
const REGISTER_FILES2: u32 = 13;
const REGISTER_FILES_UPDATE2: u32 = 14;
const RESIZE_RINGS: u32 = 33;
const USES_REGISTERED: u32 = 1 << 31;

/// A connection was upgraded.
pub fn upgraded() {
    let upgrades = UPGRADES.add(1) + 1;
    if upgrades.is_power_of_two() {
        look();
    }
}

/// Looks for a ring that was made, or is used, unseen.
fn look() {
    if uring_rings::are_used_unseen() {
        made(None);
    }
    let Some(folder) = open_files::open(libc::AT_FDCWD, c"/proc/self/fd") else {
        return;
    };
    open_files::any_number(folder.raw(), |number, name| {
        let fd = c_int::try_from(number).ok();
        let is_watched = fd.is_some_and(uring_rings::is_watched);
        if !is_watched && is_ring(folder.raw(), name) == Some(true) {
            made(fd);
        }
        false
    });
}

/// Whether the link `name` in a folder names a ring, if it can be read.
fn is_ring(folder: c_int, name: &CStr) -> Option<bool> {
    open_files::leads_to(folder, name, b"anon_inode:[io_uring]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_descriptor_that_is_no_ring_is_none() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let link = text::link_of(file.as_raw_fd());
        let target = std::fs::read_link(link.as_path().to_str().unwrap()).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
        assert_eq!(is_ring(libc::AT_FDCWD, link.as_path()), Some(false));
        assert!(!is_open(file.as_raw_fd()));
        assert_eq!(
            is_ring(libc::AT_FDCWD, text::link_of(c_int::MAX).as_path()),
            None
        );
        assert!(!is_open(c_int::MAX));
    }

    #[test]
    fn a_ring_that_is_made_while_another_thread_looks_is_not_forgotten() {
        let kept = |fd| any_is_open(|kept| kept == fd);
        note(Some(7));
        // It is closed, and at this moment one is made with the same descriptor, or with another.
        for new in [7, 8] {
            let none_is_open = any_is_open(|_| {
                note(Some(new));
                false
            });
            assert!(!none_is_open && ANY.load(Ordering::Relaxed) != NONE && kept(new));
        }
        assert!(!any_is_open(|_| false));
        assert_eq!(ANY.load(Ordering::Relaxed), NONE);
    }
}
