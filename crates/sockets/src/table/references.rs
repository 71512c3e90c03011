//! Which processes have a socket: its record counts them, and whoever leaves last frees it.
//!
//! What each of them is counted for stands in `members`. A process is counted before that is noted,
//! and it is noted no more before it is counted no more: so one that is killed in between leaves a
//! record that is never used again, and none that is two sockets'.

use core::sync::atomic::Ordering;

use crate::table::process_refs;
use crate::table::socket_state::Record;
use crate::table::sockets::{mapping, uncount, unmap};

/// This process is about to leave the socket. Returns whether others have it, who need not wait for
/// this one: it is not counted any more, and the record may soon be another socket's. If it is the
/// last, it is counted until it has left.
pub fn others_have(record: &Record) -> bool {
    let number = record.number();
    if !process_refs::forget(number) {
        return true;
    }
    let others = |count: u32| (count > 1).then(|| count - 1);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let result = record.processes.fetch_update(success, failure, others);
    if result.is_err() {
        process_refs::note(number);
    }
    result.is_ok()
}

/// This process has no descriptor of the socket any more. Whoever is the last frees the record: it
/// is counted until then.
pub fn leave(record: &'static Record) {
    unmap(record, mapping(record));
    if process_refs::forget(record.number()) {
        uncount(record);
    }
}
