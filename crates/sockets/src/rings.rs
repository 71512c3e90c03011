//! Rings of the kernel's (`io_uring`) that the program has. Through one it reaches a socket past
//! this library, which does not see that it does: so a process with one leaves its sockets to the
//! kernel, those on board and those to come.
//!
//! A ring that is made by `syscall`, or by a function of liburing's that the dynamic loader
//! resolves, for the program or for a plugin with its own, is noticed at once; one that is made by
//! an instruction of the program's own, when a connection has gone up: after the first of a process,
//! the second, the fourth and so on, so that all these looks together cost each connection no more
//! than a few descriptors' worth.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::hooks::lifetime::give_all_back;
use crate::real;
use crate::record::Why;
use crate::relay::holders;

/// Rings whose descriptors are kept; with more at once the process is the kernel's for good.
const KEPT_MAX: usize = 8;
/// No ring.
const NONE: u32 = 0;

/// Rings that were made so far, each of which has its number.
static MADE: AtomicU32 = AtomicU32::new(NONE);
/// The last ring, if there may be any: what every call that moves bytes looks at.
static ANY: AtomicU32 = AtomicU32::new(NONE);
/// There is one whose descriptor is not known.
static FOR_GOOD: AtomicBool = AtomicBool::new(false);
/// Rings, each with its descriptor. As they have numbers, who finds one closed can not take away
/// another, which another thread makes meanwhile, though it has the same descriptor.
static KEPT: [AtomicU64; KEPT_MAX] = [const { AtomicU64::new(NONE as u64) }; KEPT_MAX];
/// Connections of this process that went up.
static UPGRADES: AtomicU32 = AtomicU32::new(0);

// Relaxed, where nothing is said: a ring that another thread makes at this moment has nothing
// submitted yet, and its maker gives back what has gone up meanwhile.

/// Whether the program has a ring. One that was made only to see whether it can be, as many
/// programs do at their start, does not count when it is closed.
#[inline]
pub fn are_used() -> bool {
    ANY.load(Ordering::Relaxed) != NONE && are_used_still()
}

#[cold]
fn are_used_still() -> bool {
    let saved = real::errno();
    let used = any_is_open(is_open);
    real::set_errno(saved);
    used
}

/// Whether there is a ring; closed ones are forgotten.
fn any_is_open(is_open: impl Fn(c_int) -> bool) -> bool {
    // Acquire: partner: the release in note. What was made later than this is not forgotten below.
    let last = ANY.load(Ordering::Acquire);
    let mut used = FOR_GOOD.load(Ordering::Relaxed);
    for place in &KEPT {
        let kept = place.load(Ordering::Relaxed);
        if kept == u64::from(NONE) {
            continue;
        }
        let is_open = is_open(kept as c_int);
        used |= is_open;
        if !is_open {
            let none = u64::from(NONE);
            let _ = place.compare_exchange(kept, none, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
    if !used {
        let _ = ANY.compare_exchange(last, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
    used
}

/// Whether a ring's descriptor is one still. Where that cannot be seen, it is as long as it is open.
fn is_open(fd: c_int) -> bool {
    is_ring(libc::AT_FDCWD, Link::of(fd).text()).unwrap_or_else(|| {
        // SAFETY: no pointers.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
        flags >= 0 || real::errno() != libc::EBADF
    })
}

/// The program has made a ring. Without a descriptor it is never known to be closed.
#[cold]
pub fn made(fd: Option<c_int>) {
    note(fd);
    give_all_back(Why::Rings);
}

fn note(fd: Option<c_int>) {
    let number = MADE.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    if !fd.is_some_and(|fd| keep(number, fd)) {
        FOR_GOOD.store(true, Ordering::Relaxed);
    }
    // Release: partner: the acquire in any_is_open.
    ANY.store(number, Ordering::Release);
}

/// Whether there is a place for it.
fn keep(number: u32, fd: c_int) -> bool {
    let fd = fd.unsigned_abs();
    let ring = u64::from(number) << 32 | u64::from(fd);
    let is_free = |kept: u64| kept == u64::from(NONE) || kept as u32 == fd;
    KEPT.iter().any(|place| {
        let put = |kept| is_free(kept).then_some(ring);
        let was = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, put);
        was.is_ok()
    })
}

/// A ring was made by a function that does not say which: it is looked for.
#[cold]
pub fn made_somewhere() {
    if !look() {
        made(None);
    }
}

/// A connection has gone up.
pub fn upgraded() {
    let upgrades = UPGRADES.fetch_add(1, Ordering::Relaxed) + 1;
    if upgrades.is_power_of_two() {
        look();
    }
}

/// Looks for a ring among all descriptors; says whether there is one.
fn look() -> bool {
    let Some(folder) = holders::open(libc::AT_FDCWD, c"/proc/self/fd") else {
        return false;
    };
    let mut found = false;
    holders::any_number(folder.raw(), |number, name| {
        if is_ring(folder.raw(), name) == Some(true) {
            found = true;
            made(c_int::try_from(number).ok());
        }
        false
    });
    found
}

/// Whether the link `name` in a folder names a ring, if it can be read.
fn is_ring(folder: c_int, name: &CStr) -> Option<bool> {
    holders::leads_to(folder, name, b"anon_inode:[io_uring]")
}

/// The name of a descriptor under `/proc`.
struct Link([u8; 32]);

impl Link {
    fn of(fd: c_int) -> Self {
        let mut text = [0; 32];
        let folder = b"/proc/self/fd/";
        text[..folder.len()].copy_from_slice(folder);
        let mut digits = [0; 10];
        let mut first = digits.len();
        let mut rest = fd.unsigned_abs();
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let digits = &digits[first..];
        text[folder.len()..folder.len() + digits.len()].copy_from_slice(digits);
        Self(text)
    }

    fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_descriptor_that_is_no_ring_is_none() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let link = Link::of(file.as_raw_fd());
        let target = std::fs::read_link(link.text().to_str().unwrap()).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
        assert_eq!(is_ring(libc::AT_FDCWD, link.text()), Some(false));
        assert!(!is_open(file.as_raw_fd()));
        assert_eq!(is_ring(libc::AT_FDCWD, Link::of(c_int::MAX).text()), None);
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
