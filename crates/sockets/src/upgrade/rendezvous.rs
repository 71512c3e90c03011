//! The sockets at meeting places: descriptors of our own that stay open between two calls of
//! the program's, while a connection looks for its other end. There are up to two for each.
//!
//! They are the process's own, unlike the records: a child has copies, which it closes. A
//! program that closes descriptors it does not know of may close these as well: then we
//! forget them, since the next socket of the program may have the number.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::process::{deferred_close, ids, memory};
use crate::system::kernel::Owned;
use crate::table::descriptors;
use crate::table::limits::RECORDS_MAX;
use crate::table::socket_state::Record;

/// What a socket is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The meeting place.
    Place = 0,
    /// Whoever has come there, and may be the other end.
    Visitor = 1,
}

const PARTS: usize = 2;

/// By number of the record, then part: the descriptor plus 1; 0 for none.
static SEEKERS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Reserves the table.
pub fn set_up() -> bool {
    let Some(table) = memory::reserve_private(RECORDS_MAX as usize * PARTS * 4) else {
        return false;
    };
    // Release: partner: the acquire in place.
    SEEKERS.store(table.cast(), Ordering::Release);
    true
}

fn slot(number: u32, part: Part) -> &'static AtomicU32 {
    // Acquire: partner: the release in set_up, without which there are no records.
    let table = SEEKERS.load(Ordering::Acquire);
    // SAFETY: the table has PARTS words for each of RECORDS_MAX, and is never unmapped.
    unsafe { &*table.add(number as usize * PARTS + part as usize) }
}

/// Keeps a socket for a record, which has none of that part.
pub fn put(record: &Record, part: Part, socket: Owned) {
    let fd = socket.into_raw();
    descriptors::note_own(fd, record);
    // Relaxed, here and below: only who has claimed the record's step is here, or its last closer.
    slot(record.number(), part).store(fd.unsigned_abs() + 1, Ordering::Relaxed);
}

/// The record's socket, if this process has one for it.
pub fn get(record: &Record, part: Part) -> Option<c_int> {
    let found = slot(record.number(), part).load(Ordering::Relaxed);
    Some(found.checked_sub(1)? as c_int)
}

/// Gives up a socket of the record's. A child made by vfork leaves it to its parent, whose table
/// it is.
pub fn take(record: &Record, part: Part) -> Option<Owned> {
    if get(record, part).is_none() || ids::is_borrower() {
        return None;
    }
    let found = slot(record.number(), part).swap(0, Ordering::Relaxed);
    let fd = found.checked_sub(1)? as c_int;
    descriptors::forget_own(fd);
    Some(Owned::from_raw(fd))
}

/// Closes the record's sockets.
pub fn close(record: &Record) {
    for part in [Part::Place, Part::Visitor] {
        take(record, part)
            .into_iter()
            .for_each(deferred_close::socket);
    }
}

/// The program closes the descriptor of a record's socket, which it does not know of.
pub fn lost(number: u32, fd: c_int) {
    for part in [Part::Place, Part::Visitor] {
        // Relaxed: as in put.
        let _ = slot(number, part).compare_exchange(
            fd.unsigned_abs() + 1,
            0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
    descriptors::forget_own(fd);
}

/// A child has copies of its parent's.
pub fn after_fork() {
    descriptors::for_each_own(|record| {
        for part in [Part::Place, Part::Visitor] {
            drop(take(record, part));
        }
    });
}
