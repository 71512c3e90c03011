//! Memory that is reserved at start: address space that takes memory only where it is used.
//!
//! The kernel copies each mapping of a process when the process forks, and takes each apart when it ends. So
//! the tables lie in two mappings: one that children share, and one of which they have a copy.
//!
//! After a fork, the child has no page of the shared memory in its page table until it touches one. A read then
//! maps the [`WINDOW_BYTES`] around it at once. So what every child touches lies in one such window: see
//! [`begin`].

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, AtomicUsize};

use barewire_calls::memory::{map_new, unmap};
use barewire_calls::process;

use crate::process::words::{AtStart, Lone};

/// Bytes of addresses that are reserved since the start.
static RESERVED: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
/// Bytes ever mapped.
static EVER_MAPPED: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));

/// What was reserved at the start: address and length of each piece. It is complete before there is another thread.
/// What is noted while nothing is reserved, nobody reads.
static PIECES: [Piece; PIECES_MAX] = [const {
    (
        Lone::new(AtomicUsize::new(0)),
        Lone::new(AtomicUsize::new(0)),
    )
}; PIECES_MAX];
type Piece = (Lone<AtomicUsize>, Lone<AtomicUsize>);
/// How many pieces can be noted.
const PIECES_MAX: usize = 4;

const fn zero() -> AtStart<AtomicUsize> {
    AtStart::new(AtomicUsize::new(0))
}

/// A mapping whose parts are given out one after the other.
struct Arena {
    /// Where the next part may begin, and the end. Both 0: there is none.
    next: AtStart<AtomicUsize>,
    end: AtStart<AtomicUsize>,
}

/// What children share, and what they have a copy of.
static SHARED: Arena = Arena::none();
static PRIVATE: Arena = Arena::none();
/// Where the mapping that children share begins.
static SHARED_AT: AtStart<AtomicUsize> = zero();

/// What the kernel brings at once when shared memory is read, at multiples of this (`fault_around_bytes`).
pub const WINDOW_BYTES: usize = 64 << 10;
/// How far the first window begins below the meeting point. See [`begin`].
const BELOW_BYTES: usize = WINDOW_BYTES / 4;
/// Parts of shared memory begin at a multiple of this, so that two of them share no cache line.
pub const SHARED_ALIGNMENT: usize = 128;
/// Other parts begin a page.
const PRIVATE_ALIGNMENT: usize = 4096;

/// Bytes that a part of `len` bytes takes of the memory that children have a copy of.
pub const fn private_bytes(len: usize) -> usize {
    len.next_multiple_of(PRIVATE_ALIGNMENT)
}

/// Bytes that a part of `len` bytes takes of the memory that children share.
pub const fn shared_bytes(len: usize) -> usize {
    len.next_multiple_of(SHARED_ALIGNMENT)
}

impl Arena {
    const fn none() -> Self {
        Self {
            next: zero(),
            end: zero(),
        }
    }

    fn begin(&self, at: usize, bytes: usize) {
        self.next.set(at);
        self.end.set(at + bytes);
    }

    fn part(&self, len: usize, alignment: usize) -> Option<*mut c_void> {
        let next = self.next.get();
        let at = next.next_multiple_of(alignment);
        let end = at.checked_add(len)?;
        if at == 0 || end > self.end.get() {
            return None;
        }
        self.next.set(end);
        Some(at as *mut c_void)
    }
}

/// A smaller limit leaves no room for the reservation and the program.
pub const ROOM_MIN: u64 = 18 << 30;

/// Whether the limit of addresses permits the reservation.
pub fn may_reserve() -> bool {
    process::limit(libc::RLIMIT_AS).is_ok_and(|limit| limit.rlim_cur > ROOM_MIN)
}

/// Everything is reserved now.
pub fn note_reserved() {
    RESERVED.set(EVER_MAPPED.get());
}

/// Bytes of addresses that were reserved at the start, and are not the program's.
pub fn reserved() -> u64 {
    RESERVED.get()
}

/// Whether the library knows every piece that it has reserved.
pub fn is_all_known() -> bool {
    let known: usize = PIECES.iter().map(|piece| piece.1.get()).sum();
    known as u64 == reserved()
}

/// Gives all back that was reserved at the start, for a process that has nothing there and no other
/// thread.
///
/// # Safety
/// Nothing there is used any more.
pub unsafe fn give_all_back() {
    RESERVED.set(0);
    for piece in &PIECES {
        let (at, len) = (piece.0.swap(0), piece.1.swap(0));
        if len > 0 {
            // SAFETY: mapped at the start; as promised.
            unsafe { unmap(at as *mut c_void, len) };
        }
    }
}

/// So many bytes of the reservation are given back.
pub fn note_given_back(bytes: usize) {
    RESERVED.sub(bytes as u64);
}

/// Notes a piece that is reserved at the start.
fn note_piece(at: *mut c_void, len: usize) {
    if let Some(piece) = PIECES.iter().find(|piece| piece.1.get() == 0) {
        piece.0.set(at as usize);
        piece.1.set(len);
    }
}

/// Maps the memory whose parts [`part_shared`] and [`part_private`] give out. The byte `meeting` of the shared
/// parts gets such an address that [`BELOW_BYTES`] below it and three times as many above it are one window.
pub fn begin(shared_bytes: usize, meeting: usize, private_bytes: usize) -> bool {
    let Some(shared) = reserve_shared(shared_bytes + WINDOW_BYTES) else {
        return false;
    };
    let Some(private) = reserve_private(private_bytes) else {
        return false;
    };
    let at = shared as usize;
    let unaligned = (at + meeting).wrapping_sub(BELOW_BYTES) % WINDOW_BYTES;
    SHARED_AT.set(at);
    SHARED.begin(at + (WINDOW_BYTES - unaligned) % WINDOW_BYTES, shared_bytes);
    PRIVATE.begin(private as usize, private_bytes);
    true
}

/// Where the mapping begins that children made by fork share.
pub fn shared_at() -> usize {
    SHARED_AT.get()
}

/// Zeroed memory that children made by fork share: the next part. For the constructor.
pub fn part_shared(len: usize) -> Option<*mut c_void> {
    SHARED.part(len, SHARED_ALIGNMENT)
}

/// Zeroed memory that children made by fork have a copy of: the next part. For the constructor.
pub fn part_private(len: usize) -> Option<*mut c_void> {
    PRIVATE.part(len, PRIVATE_ALIGNMENT)
}

pub fn map(len: usize, protection: i32, flags: i32) -> Option<*mut c_void> {
    let at = map_new(len, protection, flags | libc::MAP_NORESERVE).ok()?;
    if reserved() == 0 {
        note_piece(at, len);
    }
    EVER_MAPPED.add(len as u64);
    Some(at)
}

/// Zeroed memory that children made by fork share.
pub fn reserve_shared(len: usize) -> Option<*mut c_void> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)
}

/// Zeroed memory that children made by fork have a copy of.
pub fn reserve_private(len: usize) -> Option<*mut c_void> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_end_with_the_mapping() {
        let arena = Arena::none();
        assert!(arena.part(1, 64).is_none());
        arena.begin(0x1_0000, 300);
        let next = |len| arena.part(len, 128).map(|at| at as usize);
        assert_eq!(next(1), Some(0x1_0000));
        assert_eq!(next(128), Some(0x1_0080));
        assert_eq!(next(45), None);
        assert_eq!(next(44), Some(0x1_0100));
        assert_eq!(next(1), None);
    }
}
