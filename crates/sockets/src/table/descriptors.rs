//! What this library knows of each socket: the records, which a process shares with its
//! children as the kernel shares the sockets, and the table of descriptors, which it does not.
//!
//! | memory | shared with children | what |
//! |---|---|---|
//! | records | yes, as the kernel's sockets are | [`Record`], by number |
//! | descriptors | copied | number of the record of each descriptor |
//! | generations | copied | which use of each record the descriptors are of |
//! | places | copied; what is mapped there is shared | where the carrier of record `n` is mapped |
//!
//! All four are reserved at start and take memory only where they are used. A place stays
//! readable when its carrier is gone (there are zeros then), so whoever looks at a carrier
//! while another thread closes it sees nothing bad.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use crate::process::{fault, memory};
use crate::system::own_descriptors::{highest, note_highest};
use crate::table::gate::GATE;
use crate::table::limits::{DESCRIPTORS_MAX, RECORDS_MAX};
use crate::table::references::leave;
use crate::table::slots::{self, OWN, slot};
use crate::table::socket_state::Record;
use crate::table::sockets::{self, allocate, by_number, ever_used, own_generation};
use crate::table::state::State;
use crate::table::{
    admission,
    pins::{self, Use, note},
    process_refs,
};

/// Descriptors of this process for each record.
static LOCAL_COUNTS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Reserves the memory. Without it, all goes to the kernel.
pub fn set_up() -> bool {
    let descriptors = memory::reserve_private(DESCRIPTORS_MAX as usize * 4);
    let counts = memory::reserve_private(RECORDS_MAX as usize * 4);
    let (Some(descriptors), Some(counts)) = (descriptors, counts) else {
        return false;
    };
    LOCAL_COUNTS.store(counts.cast(), Ordering::Relaxed);
    if !sockets::set_up() {
        return false;
    }
    slots::publish(descriptors.cast());
    true
}

/// Whether this process has no socket here.
pub fn has_none() -> bool {
    let mut none = true;
    for_each_own(|_| none = false);
    none
}

/// For a process that has none, and gives the tables' memory back.
pub fn forget_all() {
    slots::forget();
    sockets::forget();
}

fn local_count(number: u32) -> &'static AtomicU32 {
    // SAFETY: as for the records.
    unsafe { &*LOCAL_COUNTS.load(Ordering::Relaxed).add(number as usize) }
}

/// Whether this process has a descriptor of the record of this number.
pub fn is_own(number: u32) -> bool {
    // Relaxed: as of now.
    local_count(number).load(Ordering::Relaxed) > 0
}

/// The record of a descriptor.
#[inline]
pub fn find(fd: i32) -> Option<&'static Record> {
    // Acquire: partner: the release in attach.
    match slot(fd)?.load(Ordering::Acquire) {
        0 | OWN.. => None,
        number => Some(by_number(number - 1)),
    }
}

/// Notes that a descriptor is our own, for a record.
pub fn note_own(fd: i32, record: &Record) {
    if let Some(slot) = slot(fd) {
        // Relaxed, here and below: it stands for itself.
        HIGHEST_OWN.fetch_max(fd.unsigned_abs(), Ordering::Relaxed);
        slot.store(OWN | (record.number() + 1), Ordering::Relaxed);
    }
}

/// It is no longer.
pub fn forget_own(fd: i32) {
    if let Some(slot) = slot(fd) {
        slot.store(0, Ordering::Relaxed);
    }
}

/// The number of the record that a descriptor of our own is for.
pub fn own(fd: i32) -> Option<u32> {
    let found = slot(fd)?.load(Ordering::Relaxed);
    (found & OWN != 0).then(|| (found & !OWN) - 1)
}

/// Whether a descriptor is this socket's.
#[inline]
pub fn is_of(fd: i32, record: &Record) -> bool {
    find(fd).is_some_and(|found| core::ptr::eq(found, record))
}

/// A new record for a descriptor that has none.
pub fn add(fd: i32, state: State) -> Option<&'static Record> {
    slot(fd).filter(|_| admission::may_come())?;
    fault::watch();
    process_refs::look_around();
    let gate = GATE.hold();
    let number = allocate().or_else(|| {
        process_refs::look_at_all();
        allocate()
    });
    let record = by_number(number?);
    if is_own(record.number()) {
        forget(record);
    }
    record.reset(state);
    let before = enter(fd, record);
    drop(gate);
    lost(before);
    Some(record)
}

/// A further descriptor of the same socket, of which the process is counted.
pub fn attach(fd: i32, record: &'static Record) {
    let gate = GATE.hold();
    let before = enter(fd, record);
    drop(gate);
    lost(before);
}

/// Runs a call that duplicates a descriptor, and returns the new one. No other thread puts another
/// socket in the place of the old one meanwhile.
pub fn duplicate(old: i32, call: impl FnOnce() -> i32) -> i32 {
    if find(old).is_none() {
        return call();
    }
    let gate = GATE.hold();
    let new = call();
    let record = find(old).filter(|_| new >= 0 && new != old);
    let before = record.map_or(0, |record| enter(new, record));
    drop(gate);
    note_highest(new.max(0));
    lost(before);
    new
}

/// Puts another file in the place of a descriptor of the socket's, which is the socket's no more;
/// nobody forks meanwhile. Returns the record if it was the process's last.
pub fn replace(fd: i32, record: &'static Record, put: impl FnOnce()) -> Option<&'static Record> {
    let _gate = GATE.hold();
    if !is_of(fd, record) {
        return None;
    }
    put();
    take_out(fd)
}

/// Under the gate. Returns the number of the record that the descriptor had, plus 1: it was closed
/// where we did not see it.
fn enter(fd: i32, record: &'static Record) -> u32 {
    let Some(slot) = slot(fd) else { return 0 };
    let number = record.number();
    if local_count(number).fetch_add(1, Ordering::Relaxed) == 0 {
        // Relaxed: of this process, under the gate.
        own_generation(number).store(record.generation(), Ordering::Relaxed);
        process_refs::note(number);
    }
    // AcqRel: partner: the acquire in find.
    slot.swap(number + 1, Ordering::AcqRel)
}

/// What else knows a socket by its descriptors: called when the last one is found closed.
static OBSERVER: OnceLock<fn(&Record)> = OnceLock::new();

/// Has `observe` called for each socket whose last descriptor was closed past this library. For the
/// constructor.
pub fn observe_lost(observe: fn(&Record)) {
    let _ = OBSERVER.set(observe);
}

/// A descriptor was closed past this library.
fn lost(before: u32) {
    let Some(number) = before.checked_sub(1).filter(|_| before & OWN == 0) else {
        return;
    };
    if local_count(number).fetch_sub(1, Ordering::Relaxed) == 1 {
        let record = by_number(number);
        if let Some(observe) = OBSERVER.get() {
            observe(record);
        }
        pins::wait_for_all(record);
        leave(record);
    }
}

/// The descriptor is about to be closed, or was. `Some` if it was the process's last of the
/// socket: then the process is no longer counted.
pub fn detach(fd: i32) -> Option<&'static Record> {
    let _gate = GATE.hold();
    take_out(fd)
}

/// Under the gate.
fn take_out(fd: i32) -> Option<&'static Record> {
    let slot = slot(fd)?;
    // AcqRel: as in find and attach; only one caller gets the number.
    let is_theirs = |number: u32| (1..OWN).contains(&number).then_some(0);
    let number = slot.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_theirs);
    let number = number.ok()? - 1;
    let last = local_count(number).fetch_sub(1, Ordering::Relaxed) == 1;
    last.then(|| by_number(number))
}

/// Under the gate. Takes a socket that this process was not counted for, and that is over, out of the
/// table.
pub fn forget(record: &Record) {
    for_each_descriptor(0, u32::MAX, |fd, found| {
        if core::ptr::eq(found, record) {
            take_out(fd);
        }
    });
}

/// Forgets all descriptors but one. For a process that has closed the others.
pub fn keep_only(fd: i32, record: &'static Record) {
    for_each_descriptor(0, u32::MAX, |other, _| {
        if let Some(slot) = slot(other) {
            // Relaxed, both: nobody else is there.
            slot.store(0, Ordering::Relaxed);
        }
    });
    for_each_own(|other| local_count(other.number()).store(0, Ordering::Relaxed));
    attach(fd, record);
}

/// Calls `visit` for every record that this process has a descriptor of.
pub fn for_each_own(mut visit: impl FnMut(&'static Record)) {
    for number in 0..ever_used() {
        if local_count(number).load(Ordering::Relaxed) > 0 {
            visit(by_number(number));
        }
    }
}

/// A descriptor of the socket, if the process has one.
pub fn any_descriptor(record: &Record) -> Option<i32> {
    let mut found = None;
    for_each_descriptor(0, u32::MAX, |fd, other| {
        if core::ptr::eq(record, other) {
            found = Some(fd);
        }
    });
    found
}

/// Calls `visit` for every descriptor of `first..=last` that has a record.
pub fn for_each_descriptor(first: u32, last: u32, mut visit: impl FnMut(i32, &'static Record)) {
    for fd in known_descriptors(first, last) {
        if let Some(record) = find(fd) {
            visit(fd, record);
        }
    }
}

/// Those of `first..=last` that may be a socket or a set that we know: however many a program
/// closes at once, no more are looked at than up to the highest that ever was one.
pub fn known_descriptors(first: u32, last: u32) -> impl Iterator<Item = i32> {
    let highest = highest().max(HIGHEST_OWN.load(Ordering::Relaxed));
    let highest = highest.min(DESCRIPTORS_MAX - 1);
    (first..=last.min(highest)).map(|fd| fd as i32)
}

/// The highest that was ever our own.
static HIGHEST_OWN: AtomicU32 = AtomicU32::new(0);

/// Begins to use a descriptor; `None` if it is not the socket's any more.
pub fn pin(fd: c_int, record: &Record) -> Option<Use> {
    let noted = note(fd, record);
    is_of(fd, record).then_some(noted)
}
