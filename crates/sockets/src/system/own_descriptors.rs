//! Descriptors of the library itself, at numbers where they are not in the program's way.
//!
//! The kernel gives every new descriptor the lowest free number, and programs rely on that: they close 0
//! and open a file, or expect small numbers. So the library moves each of its descriptors at once to a
//! number from 1024 on (which `select` cannot name either), or above the program's sockets if these go
//! further. Between two calls of the program no descriptor of the library has a low number. Another thread
//! that opens something in the microsecond before the move gets a number that is one higher.
//!
//! If the limit for descriptors is low, they lie in its upper quarter. If no number is left, a descriptor
//! stays where it is.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use barewire_calls::{descriptor, process};

/// The highest descriptor that ever was a socket in the tables, or a set with one in it.
pub static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// The highest known descriptor of the program.
pub fn highest() -> u32 {
    // Relaxed: who closes a descriptor was given its number by the thread that called `note_highest`.
    HIGHEST.load(Ordering::Relaxed)
}

/// Notes that a descriptor is a socket in the tables, or a set.
pub fn note_highest(fd: i32) {
    // Relaxed: as in `highest`.
    HIGHEST.fetch_max(fd.unsigned_abs(), Ordering::Relaxed);
}

/// The first of the library's numbers, if limit and program permit.
const FIRST: u64 = 1024;

/// The first of the library's numbers, as last found; 0: not yet. The kernel reports if the limit is
/// lowered later.
static BEGIN: AtomicU32 = AtomicU32::new(0);

/// Moves a new descriptor of the library to another number. It is closed by `exec`.
pub fn moved(fd: c_int) -> c_int {
    let Some(new) = duplicate(fd) else { return fd };
    // The file stays open, so nothing is waited for.
    descriptor::close(fd);
    new
}

/// A descriptor of the library for a file that the program has open. It is closed by `exec`.
pub fn copy(fd: c_int) -> Option<c_int> {
    duplicate(fd)
}

fn duplicate(fd: c_int) -> Option<c_int> {
    let highest = highest();
    // Relaxed: a number that the kernel checks.
    let begin = BEGIN.load(Ordering::Relaxed);
    let found = Some(begin).filter(|&begin| begin > highest);
    found
        .and_then(|begin| descriptor::duplicate(fd, begin).ok())
        .or_else(|| {
            let limit = process::limit(libc::RLIMIT_NOFILE).map_or(0, |limit| limit.rlim_cur);
            let begin = first_number(limit, highest)?;
            // Relaxed: a number that the kernel checks.
            BEGIN.store(begin, Ordering::Relaxed);
            descriptor::duplicate(fd, begin).ok()
        })
}

/// The first of the library's numbers, with the process's `limit` and the `highest` known number of the
/// program.
fn first_number(limit: u64, highest: u32) -> Option<u32> {
    let above = (u64::from(highest) + 1).next_power_of_two();
    let first = FIRST.max(above).min(limit - limit / 4);
    u32::try_from(first).ok().filter(|&first| first > 2)
}

/// Has the kernel make room for such numbers, once. In a process with many threads this takes milliseconds,
/// since the kernel waits for all processors; at start there is one thread.
pub fn make_room() {
    if let Some(copy) = (0..3).find_map(duplicate) {
        descriptor::close(copy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_above_the_programs_and_below_the_limit() {
        assert_eq!(first_number(1 << 20, 10), Some(1024));
        assert_eq!(first_number(1 << 20, 1023), Some(1024));
        assert_eq!(first_number(1 << 20, 1024), Some(2048));
        assert_eq!(first_number(1024, 10), Some(768));
        assert_eq!(first_number(4096, 4000), Some(3072));
        assert_eq!(first_number(16, 0), Some(12));
        assert_eq!(first_number(u64::MAX, 10), Some(1024));
        assert_eq!(first_number(0, 0), None);
    }

    #[test]
    fn a_new_one_is_moved_and_the_low_number_is_free_again() {
        let pair = || {
            let pair = std::os::unix::net::UnixStream::pair().unwrap().0;
            std::os::fd::IntoRawFd::into_raw_fd(pair)
        };
        let low = pair();
        let high = moved(low);
        assert!(high >= 12 && high != low, "{low} {high}");
        assert!(descriptor::is_open(high) && !descriptor::is_open(low));
        descriptor::close(high);
    }
}
