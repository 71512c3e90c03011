//! Memory that is reserved at start: addresses, which take memory only where they are used.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::system::real;

/// Bytes of addresses that were reserved at the start.
static RESERVED: AtomicU64 = AtomicU64::new(0);
/// Bytes that were ever mapped.
static EVER_MAPPED: AtomicU64 = AtomicU64::new(0);

/// What was reserved at the start: address and length of each piece.
static PIECES: [(AtomicUsize, AtomicUsize); PIECES_MAX] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; PIECES_MAX];
/// As above.
const PIECES_MAX: usize = 16;

/// With less than that there is no room for what is reserved, and the program.
pub const ROOM_MIN: u64 = 18 << 30;

/// Whether the process may have so many addresses.
pub fn may_reserve() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes two numbers.
    let result = unsafe { real::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    result != 0 || limit.rlim_cur > ROOM_MIN
}

/// All is reserved.
pub fn note_reserved() {
    // Relaxed, here and below: before the program's first line.
    RESERVED.store(EVER_MAPPED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Bytes of addresses that were reserved at the start, and are not the program's.
pub fn reserved() -> u64 {
    RESERVED.load(Ordering::Relaxed)
}

/// Whether it is known where all is that was reserved at the start.
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

/// So many bytes of what was reserved at the start are given back.
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
