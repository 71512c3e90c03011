//! The socket states, which a process shares with its children: one array, of which some are free.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::process::lock::Lock;
use crate::process::{family, memory};
use crate::table::gate::GATE;
use crate::table::limits::RECORDS_MAX;
use crate::table::socket_state::{RECORDS, Record};
use crate::table::state::State;
use crate::table::stream_memory::{self, Mapping};

/// Generation of each record when this process came to have it.
static GENERATIONS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// In the shared memory behind the records: how many were ever used, and the free ones.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());

#[repr(C)]
struct Shared {
    used: AtomicU32,
    lock: Lock,
    free: AtomicU32,
}

/// How many records were ever used.
pub fn ever_used() -> u32 {
    shared().map_or(0, |shared| {
        shared.used.load(Ordering::Relaxed).min(RECORDS_MAX)
    })
}

/// Reserves the memory of the records.
pub fn set_up() -> bool {
    let records = memory::reserve_shared(RECORDS_MAX as usize * size_of::<Record>() + 4096);
    let generations = memory::reserve_private(RECORDS_MAX as usize * 4);
    let (Some(records), Some(generations)) = (records, generations) else {
        return false;
    };
    let first = records.cast::<Record>();
    // SAFETY: the mapping has 4096 bytes behind the records.
    let shared = unsafe { first.add(RECORDS_MAX as usize) }.cast::<Shared>();
    // Relaxed, all: published by the table of descriptors.
    GENERATIONS.store(generations.cast(), Ordering::Relaxed);
    SHARED.store(shared, Ordering::Relaxed);
    RECORDS.store(first, Ordering::Relaxed);
    family::note_shared_memory(first as usize);
    true
}

/// As above, of the records.
pub fn forget() {
    SHARED.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Gives the places of carriers back that were never used.
pub fn give_places_back() {
    let _gate = GATE.hold();
    stream_memory::give_places_back();
}

/// The record of this number.
pub fn by_number(number: u32) -> &'static Record {
    debug_assert!(number < RECORDS_MAX);
    // SAFETY: there are RECORDS_MAX records, never unmapped; zeros are a valid record.
    unsafe { &*RECORDS.load(Ordering::Relaxed).add(number as usize) }
}

pub fn own_generation(number: u32) -> &'static AtomicU32 {
    // SAFETY: as for the records.
    unsafe { &*GENERATIONS.load(Ordering::Relaxed).add(number as usize) }
}

/// What this process has mapped for a socket.
pub fn mapping(record: &Record) -> Mapping {
    stream_memory::mapping(record.number())
}

/// Maps the memory of a socket's carrier, if that can be.
pub fn map(record: &Record, fd: i32) -> Option<Mapping> {
    let _gate = GATE.hold();
    stream_memory::map_carrier(record.number(), fd).then(|| mapping(record))
}

/// Gives it back, if it is still there: the record may be another socket's by now.
pub fn unmap(record: &Record, mapping: Mapping) {
    let _gate = GATE.hold();
    stream_memory::unmap_carrier(record.number(), mapping);
}

fn shared() -> Option<&'static Shared> {
    let shared = SHARED.load(Ordering::Relaxed);
    // SAFETY: behind the records, never unmapped; zeros are valid.
    (!shared.is_null()).then(|| unsafe { &*shared })
}

/// Free records that are looked at for one that no thread holds.
const FREE_LOOKS: u32 = 64;

pub fn allocate() -> Option<u32> {
    let shared = shared()?;
    let _held = shared.lock.hold()?;
    // Relaxed, all: under the lock.
    let mut from = &shared.free;
    for _ in 0..FREE_LOOKS {
        // Children share this memory, also those that have gone over to somebody else.
        let free = from.load(Ordering::Relaxed).checked_sub(1);
        let Some(number) = free.filter(|number| *number < RECORDS_MAX) else {
            break;
        };
        let record = by_number(number);
        // A thread may be in the middle of a call on the socket that it was.
        if record.send_lock.is_idle() && record.recv_lock.is_idle() {
            from.store(record.next_free.load(Ordering::Relaxed), Ordering::Relaxed);
            record.is_free.store(0, Ordering::Relaxed);
            return Some(number);
        }
        from = &record.next_free;
    }
    let number = shared.used.load(Ordering::Relaxed);
    if number >= RECORDS_MAX {
        return None;
    }
    shared.used.store(number + 1, Ordering::Relaxed);
    Some(number)
}

/// A process that had the socket is gone.
pub fn killed(record: &'static Record) {
    // It may have been in the middle of a call.
    record.send_lock.abandon();
    record.recv_lock.abandon();
    uncount(record);
}

pub fn uncount(record: &'static Record) {
    // AcqRel, here and below: what others did with it comes before it is free.
    let one_less = |count: u32| count.checked_sub(1);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let before = record.processes.fetch_update(success, failure, one_less);
    if before == Ok(1) {
        free(record);
    }
}

/// Counts one more process that has the socket: `false` if nobody has any more, and the record is
/// free, or another's. For who may not be counted itself, but has it in its table.
pub fn count_again(record: &'static Record) -> bool {
    // Relaxed: of this process.
    let is_same = || record.generation() == own_generation(record.number()).load(Ordering::Relaxed);
    let one_more = |count: u32| (count > 0 && is_same()).then(|| count + 1);
    // Acquire: partner: the release in reset.
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let counted = record.processes.fetch_update(success, failure, one_more);
    if counted.is_err() {
        return false;
    }
    let counted = is_same();
    if !counted {
        uncount(record);
    }
    counted
}

/// No process has it any more.
fn free(record: &'static Record) {
    let Some(shared) = shared() else { return };
    // Whoever ended with another thread in the middle of a call is gone.
    record.send_lock.abandon();
    record.recv_lock.abandon();
    let Some(_held) = shared.lock.hold() else {
        return;
    };
    // One that is freed twice would be two sockets'. Relaxed, here and in allocate: under the lock.
    if record.is_free.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    record.set_state(State::Plain);
    // Relaxed, all: under the lock. Whoever sleeps in a call on this socket is to see that it is over.
    record.generation.fetch_add(1, Ordering::Relaxed);
    let next = shared.free.load(Ordering::Relaxed);
    record.next_free.store(next, Ordering::Relaxed);
    shared.free.store(record.number() + 1, Ordering::Relaxed);
}
