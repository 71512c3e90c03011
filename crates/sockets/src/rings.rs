//! Rings of the kernel's (`io_uring`) that the program has. Through one it reaches a socket past
//! this library, which does not see that it does: so a process with one leaves its sockets to the
//! kernel, those on board and those to come.
//!
//! A ring that is made by `syscall`, or by a function of liburing's that the dynamic loader
//! resolves, is noticed at once; one that is made by an instruction of the program's own, when a
//! connection has gone up: after the first of a process, the second, the fourth and so on, so that
//! all these looks together cost each connection no more than a few descriptors' worth.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::hooks::lifetime::give_all_back;
use crate::record::Why;
use crate::relay::holders;

/// Rings whose descriptors are kept; with more at once the process is the kernel's for good.
const KEPT_MAX: usize = 8;
const NONE: c_int = -1;

/// Whether there may be a ring: what every call that moves bytes looks at.
static ANY: AtomicBool = AtomicBool::new(false);
/// There is one whose descriptor is not known.
static FOR_GOOD: AtomicBool = AtomicBool::new(false);
static KEPT: [AtomicI32; KEPT_MAX] = [const { AtomicI32::new(NONE) }; KEPT_MAX];
/// Connections of this process that went up.
static UPGRADES: AtomicU32 = AtomicU32::new(0);

// Relaxed, all: a ring that another thread makes at this moment has nothing submitted yet, and
// its maker gives back what has gone up meanwhile.

/// Whether the program has a ring. One that was made only to see whether it can be, as many
/// programs do at their start, does not count when it is closed.
#[inline]
pub fn are_used() -> bool {
    ANY.load(Ordering::Relaxed) && are_used_still()
}

#[cold]
fn are_used_still() -> bool {
    let mut used = FOR_GOOD.load(Ordering::Relaxed);
    for place in &KEPT {
        let fd = place.load(Ordering::Relaxed);
        if fd != NONE && is_ring(libc::AT_FDCWD, Link::of(fd).text()) {
            used = true;
        } else if fd != NONE {
            place.store(NONE, Ordering::Relaxed);
        }
    }
    ANY.store(used, Ordering::Relaxed);
    used
}

/// The program has made a ring. Without a descriptor it is never known to be closed.
#[cold]
pub fn made(fd: Option<c_int>) {
    match fd {
        Some(fd) => keep(fd),
        None => FOR_GOOD.store(true, Ordering::Relaxed),
    }
    ANY.store(true, Ordering::Relaxed);
    give_all_back(Why::Rings);
}

fn keep(fd: c_int) {
    let is_kept = KEPT.iter().any(|place| {
        let was = place.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed);
        was.is_ok_and(|_| true) || was == Err(fd)
    });
    if !is_kept {
        FOR_GOOD.store(true, Ordering::Relaxed);
    }
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
        if is_ring(folder.raw(), name) {
            found = true;
            made(c_int::try_from(number).ok());
        }
        false
    });
    found
}

/// Whether the link `name` in a folder names a ring.
fn is_ring(folder: c_int, name: &CStr) -> bool {
    const RING: &[u8] = b"anon_inode:[io_uring]";
    let mut target = [0_u8; RING.len() + 1];
    // SAFETY: the name ends with a zero; `target` has as many bytes.
    let len = unsafe {
        let into = target.as_mut_ptr().cast();
        libc::readlinkat(folder, name.as_ptr(), into, target.len())
    };
    usize::try_from(len).is_ok_and(|len| &target[..len] == RING)
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
        assert!(!is_ring(libc::AT_FDCWD, link.text()));
        assert!(!is_ring(libc::AT_FDCWD, Link::of(c_int::MAX).text()));
    }
}
