//! Which processes have a socket: its record counts them, and whoever leaves last frees it.
//!
//! What each of them is counted for stands in `members`. A process is counted before that is noted,
//! and it is noted no more before it is counted no more: so one that is killed in between leaves a
//! record that is never used again, and none that is two sockets'.

use core::sync::atomic::Ordering;

use super::{GATE, Record, State, for_each_own, forget, mapping, own_generation, shared, unmap};
use crate::members;

/// This process is about to leave the socket. Returns whether others have it, who need not wait for
/// this one: it is not counted any more, and the record may soon be another socket's. If it is the
/// last, it is counted until it has left.
pub fn others_have(record: &Record) -> bool {
    let number = record.number();
    if !members::forget(number) {
        return true;
    }
    let others = |count: u32| (count > 1).then(|| count - 1);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let result = record.processes.fetch_update(success, failure, others);
    if result.is_err() {
        members::note(number);
    }
    result.is_ok()
}

/// This process has no descriptor of the socket any more. Whoever is the last frees the record: it
/// is counted until then.
pub fn leave(record: &'static Record) {
    unmap(record, mapping(record));
    if members::forget(record.number()) {
        uncount(record);
    }
}

/// A process that had the socket is gone.
pub fn killed(record: &'static Record) {
    // It may have been in the middle of a call.
    record.send_lock.abandon();
    record.recv_lock.abandon();
    uncount(record);
}

fn uncount(record: &'static Record) {
    // AcqRel, here and below: what others did with it comes before it is free.
    let one_less = |count: u32| count.checked_sub(1);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let before = record.processes.fetch_update(success, failure, one_less);
    if before == Ok(1) {
        free(record);
    }
}

/// This process is about to end, or to become another program: others that have its sockets need
/// not wait for it. What nobody else has is freed when it is gone, since threads may use it yet.
pub fn leave_to_others() {
    for_each_own(|record| {
        others_have(record);
    });
}

/// It goes on after all, or others took it for gone. Sockets that everybody else has left meanwhile
/// are the kernel's alone.
pub fn take_up_again() {
    if !members::has_place() {
        // We do not know which we have left.
        return;
    }
    for_each_own(|record| {
        let number = record.number();
        if members::is_noted(number) {
            return;
        }
        if count_again(record) {
            members::note(number);
        } else {
            let _gate = GATE.hold();
            forget(record);
        }
    });
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

/// This process is about to have a child, which will have all its sockets.
pub fn count_child() {
    members::expect_child();
    for_each_own(|record| {
        // A listening socket is not read from; it may be in any number of processes.
        if count_again(record) {
            members::note_expected(record.number());
        }
    });
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
