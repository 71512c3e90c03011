//! The sockets at meeting places: descriptors of our own that stay open between two calls of
//! the program's, while a connection looks for its other end.
//!
//! They are the process's own, unlike the records: a child has copies, which it closes. A
//! program that closes descriptors it does not know of may close these as well: then we
//! forget them, since the next socket of the program may have the number.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::kernel::Owned;
use crate::record::{self, RECORDS_MAX, Record};
use crate::{memory, process};

/// By number of the record: the descriptor plus 1; 0 for none.
static SEEKERS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Reserves the table.
pub fn set_up() -> bool {
    let Some(table) = memory::reserve_private(RECORDS_MAX as usize * 4) else {
        return false;
    };
    // Release: partner: the acquire in place.
    SEEKERS.store(table.cast(), Ordering::Release);
    true
}

fn place(number: u32) -> &'static AtomicU32 {
    // Acquire: partner: the release in set_up, without which there are no records.
    let table = SEEKERS.load(Ordering::Acquire);
    // SAFETY: the table has RECORDS_MAX words, and is never unmapped.
    unsafe { &*table.add(number as usize) }
}

/// Keeps a socket for a record.
pub fn put(record: &Record, socket: Owned) {
    drop(take(record));
    let fd = socket.into_raw();
    record::note_own(fd, record);
    // Relaxed, here and below: only who has claimed the record's step is here, or its last closer.
    place(record.number()).store(fd.unsigned_abs() + 1, Ordering::Relaxed);
}

/// The record's socket, if this process has one for it.
pub fn get(record: &Record) -> Option<c_int> {
    let found = place(record.number()).load(Ordering::Relaxed);
    Some(found.checked_sub(1)? as c_int)
}

/// Gives up the record's socket. A child made by vfork leaves it to its parent, whose table it is.
pub fn take(record: &Record) -> Option<Owned> {
    if get(record).is_none() || process::is_borrower() {
        return None;
    }
    let found = place(record.number()).swap(0, Ordering::Relaxed);
    let fd = found.checked_sub(1)? as c_int;
    record::forget_own(fd);
    Some(Owned::from_raw(fd))
}

/// The program closes the descriptor of a record's socket, which it does not know of.
pub fn lost(number: u32, fd: c_int) {
    place(number).store(0, Ordering::Relaxed);
    record::forget_own(fd);
}

/// A child has copies of its parent's.
pub fn after_fork() {
    record::for_each_own(|record| drop(take(record)));
}
