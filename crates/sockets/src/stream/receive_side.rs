//! The receiving side of a socket: what a reader that ended left behind.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::process::lock::Held;
use crate::system::kernel;
use crate::table::descriptors;
use crate::table::flags::LOCAL;
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::upgrade::unix_streams;

/// Who read last ended in the middle: counts what it took of the line. `false`: nobody knows.
#[cold]
pub fn mend(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    let is_up = record.state() == State::Up && descriptors::is_of(fd, record);
    if !is_up || record.has(LOCAL) || (held.is_taken_over() && !held.is_to_mend()) {
        return !is_up;
    }
    let receiver = record.receiver(held);
    let mends = |bytes| held.moving(|| receiver.recover(&record.carrier(), bytes));
    let is_mended = kernel::bytes_read(fd).is_some_and(mends);
    record.recounts.fetch_add(1, Ordering::Relaxed);
    if is_mended {
        held.mended();
    }
    is_mended
}

pub fn tell_read(record: &Record, held: &Held<'_>) {
    let receiver = record.receiver(held);
    // Relaxed: with Up comes the side.
    let side = record.side.load(Ordering::Relaxed) as usize;
    unix_streams::tell_read(record, side, receiver.position());
}
