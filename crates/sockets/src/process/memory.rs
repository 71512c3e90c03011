//! Memory that is reserved at start: address space that takes memory only where it is used.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::system::real;

/// Bytes of addresses that are reserved since the start.
static RESERVED: AtomicU64 = AtomicU64::new(0);
/// Bytes ever mapped.
static EVER_MAPPED: AtomicU64 = AtomicU64::new(0);

/// What was reserved at the start: address and length of each piece.
static PIECES: [(AtomicUsize, AtomicUsize); PIECES_MAX] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; PIECES_MAX];
/// How many pieces can be noted.
const PIECES_MAX: usize = 16;

/// A smaller limit leaves no room for the reservation and the program.
pub const ROOM_MIN: u64 = 18 << 30;

/// Whether the limit of addresses permits the reservation.
pub fn may_reserve() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes two numbers.
    let result = unsafe { real::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    result != 0 || limit.rlim_cur > ROOM_MIN
}

/// Everything is reserved now.
pub fn note_reserved() {
    // Relaxed, here and below: before the program's first line.
    RESERVED.store(EVER_MAPPED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Bytes of addresses that were reserved at the start, and are not the program's.
pub fn reserved() -> u64 {
    RESERVED.load(Ordering::Relaxed)
}

/// Whether the library knows every piece that it has reserved.
pub fn is_all_known() -> bool {
    let known: usize = PIECES
        .iter()
        .map(|piece| piece.1.load(Ordering::Relaxed))
        .sum();
    known as u64 == reserved()
}

/// Gives all back that was reserved at the start, for a process that has nothing there and no other
/// thread.
///
/// # Safety
/// Nothing there is used any more.
pub unsafe fn give_all_back() {
    RESERVED.store(0, Ordering::Relaxed);
    for (at, len) in &PIECES {
        let (at, len) = (
            at.swap(0, Ordering::Relaxed),
            len.swap(0, Ordering::Relaxed),
        );
        if len > 0 {
            // SAFETY: mapped at the start; as promised.
            unsafe { libc::munmap(at as *mut c_void, len) };
        }
    }
}

/// So many bytes of the reservation are given back.
pub fn note_given_back(bytes: usize) {
    RESERVED.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Notes a piece that is reserved at the start.
fn note_piece(at: *mut c_void, len: usize) {
    let free = PIECES
        .iter()
        .find(|piece| piece.1.load(Ordering::Relaxed) == 0);
    if let Some(piece) = free {
        // Relaxed: before the program's first line.
        piece.0.store(at as usize, Ordering::Relaxed);
        piece.1.store(len, Ordering::Relaxed);
    }
}

pub fn map(len: usize, protection: i32, flags: i32) -> Option<*mut c_void> {
    let flags = flags | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, anywhere.
    let at = unsafe { libc::mmap(core::ptr::null_mut(), len, protection, flags, -1, 0) };
    EVER_MAPPED.fetch_add(len as u64, Ordering::Relaxed);
    let is_there = at != libc::MAP_FAILED;
    if is_there && reserved() == 0 {
        note_piece(at, len);
    }
    is_there.then_some(at)
}

/// Zeroed memory that children made by fork share.
pub fn reserve_shared(len: usize) -> Option<*mut c_void> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)
}

/// Zeroed memory that children made by fork have a copy of.
pub fn reserve_private(len: usize) -> Option<*mut c_void> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)
}
