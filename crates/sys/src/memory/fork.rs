//! Telling a forked child from the process that made the connections.
//!
//! One page of private memory is marked so that the kernel gives children a
//! page of zeros in its place. A nonzero word in it is the number of this
//! process; reading it costs one load.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use barewire_calls::memory::advise;

use super::mapping::Mapping;

/// The word in the page that forks wipe; null until armed, or where the
/// kernel cannot wipe pages. Never unmapped once set.
static GUARD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Without the page: pid in the upper half, generation in the lower. Zero
/// where the page is used or nothing is armed.
static BY_PID: AtomicU64 = AtomicU64::new(0);

/// The generation given out last, in this process or those it was forked from.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The generation of the process that armed the guard.
const FIRST: u32 = 1;

/// Sets the guard up; call it before the first connection is made. Calls after
/// the first do nothing, in forked children too. Before Linux 4.14, which
/// cannot wipe pages, process ids are compared, at the cost of a system call.
pub fn arm_fork_guard() {
    static ARMING: Mutex<()> = Mutex::new(());
    if armed() {
        return;
    }
    let _lock = ARMING.lock().unwrap_or_else(PoisonError::into_inner);
    if armed() {
        return;
    }
    // Relaxed: under the lock, and before the Release stores that tell of it.
    LAST.store(FIRST, Ordering::Relaxed);
    if !arm_with_page() {
        // Pairs with the Acquire load in `armed`: `LAST` is set.
        BY_PID.store(pack(own_pid(), FIRST), Ordering::Release);
    }
}

fn armed() -> bool {
    // Each pairs with its Release store in `arm_fork_guard` and `arm_with_page`.
    !GUARD.load(Ordering::Acquire).is_null() || BY_PID.load(Ordering::Acquire) != 0
}

fn arm_with_page() -> bool {
    const LEN_BYTES: usize = 4096;
    let Ok(page) = Mapping::anonymous(LEN_BYTES) else {
        return false;
    };
    let base = page.base().as_ptr();
    // SAFETY: the range is the private mapping just made; this advice changes
    // nothing in this process.
    if unsafe { advise(base.cast(), LEN_BYTES, libc::MADV_WIPEONFORK) }.is_err() {
        return false;
    }
    let word = page.leak().cast::<AtomicU32>();
    // SAFETY: page-aligned, writable, zeroed, and never unmapped any more. Relaxed: the Release
    // store below tells of it.
    unsafe { word.as_ref() }.store(FIRST, Ordering::Relaxed);
    // Pairs with the Acquire load in `armed`: the word holds its number, `LAST` is set.
    GUARD.store(word.as_ptr(), Ordering::Release);
    true
}

#[inline]
fn guard_word() -> Option<&'static AtomicU32> {
    // SAFETY: null, or a word in a page that is mapped and writable for good,
    // in forked children too (theirs holds zero). Relaxed: who uses a connection got it from a
    // thread that had called `arm_fork_guard`, and so sees what that wrote.
    unsafe { GUARD.load(Ordering::Relaxed).as_ref() }
}

/// Whether this process was forked from the one that called
/// [`arm_fork_guard`]. False before that call. One load, mostly.
#[inline]
pub fn forked() -> bool {
    match guard_word() {
        // Relaxed: the word alone says it.
        Some(word) => word.load(Ordering::Relaxed) != FIRST,
        None => forked_by_pid(),
    }
}

#[cold]
fn forked_by_pid() -> bool {
    // Relaxed: the word alone says it.
    BY_PID.load(Ordering::Relaxed) != 0 && generation_by_pid() != FIRST
}

/// A number for this process that no process it was forked from has: 1 in the
/// one that armed the guard, another in each child. Keep it next to what must
/// not be used across a fork, and compare. Zero before [`arm_fork_guard`].
#[inline]
pub fn fork_generation() -> u32 {
    match guard_word() {
        // Relaxed: the word alone says it.
        Some(word) => match word.load(Ordering::Relaxed) {
            0 => first_look_in_child(word),
            generation => generation,
        },
        None => generation_by_pid(),
    }
}

#[cold]
fn first_look_in_child(word: &AtomicU32) -> u32 {
    // Relaxed: only has to be another number each time.
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // Relaxed: the first exchange decides, and the word alone says it.
    match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        Err(by_another_thread) => by_another_thread,
    }
}

fn generation_by_pid() -> u32 {
    // Relaxed: the word alone says it; below, the first exchange decides.
    let seen = BY_PID.load(Ordering::Relaxed);
    let pid = own_pid();
    if seen == 0 || seen >> 32 == u64::from(pid) {
        return seen as u32;
    }
    // Relaxed: only has to be another number each time.
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match BY_PID.compare_exchange(seen, pack(pid, next), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        Err(by_another_thread) => by_another_thread as u32,
    }
}

fn own_pid() -> u32 {
    std::process::id()
}

fn pack(pid: u32, generation: u32) -> u64 {
    u64::from(pid) << 32 | u64::from(generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::fork_child;

    /// In a child of its own, so that the rest of the tests are left alone.
    #[test]
    fn process_ids_do_where_pages_cannot_be_wiped() {
        let child = fork_child(|| {
            GUARD.store(std::ptr::null_mut(), Ordering::Relaxed);
            BY_PID.store(pack(own_pid(), FIRST), Ordering::Relaxed);
            LAST.store(FIRST, Ordering::Relaxed);
            if forked() || fork_generation() != FIRST {
                return 1;
            }
            let grandchild = fork_child(|| {
                let stable = fork_generation() == fork_generation();
                i32::from(!(forked() && stable && fork_generation() > FIRST))
            });
            let told = grandchild
                .and_then(|g| g.wait())
                .ok()
                .and_then(|s| s.code());
            told.unwrap_or(2)
        });
        assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
    }
}
