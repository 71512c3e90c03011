//! The low-water mark (`SO_RCVLOWAT`): a program is told of bytes, and a read that waits returns, only
//! when there are so many.
//!
//! Who waits for bytes waits in the kernel, which counts those on the line and does not know of
//! those in the ring. So a socket with a mark goes to the line for good, and while bytes are left
//! in the ring the kernel's mark is lower by them (and higher by the tokens on the line). What the
//! program has set it is shown.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::process::lock::Held;
use crate::system::kernel;
use crate::table::flags::LOW_WATER;
use crate::table::socket_state::Record;
use crate::table::state::State;

/// The mark as the program has set it, where the kernel's is another.
pub fn shown(record: &Record) -> Option<c_int> {
    let mark = record.low_water.load(Ordering::Relaxed);
    let is_ours = record.state() == State::Up && record.has(LOW_WATER);
    is_ours.then_some(mark as c_int)
}

/// How many bytes a read that waits is to have at least.
pub fn of(record: &Record) -> usize {
    if record.has(LOW_WATER) {
        record.low_water.load(Ordering::Relaxed) as usize
    } else {
        1
    }
}

/// Has the kernel count as the program expects, after bytes were read.
pub fn follow(fd: c_int, record: &Record, held: &Held<'_>) {
    if record.state() == State::Up {
        want(
            fd,
            record,
            held,
            record.low_water.load(Ordering::Relaxed).into(),
        );
    }
}

/// Has the kernel tell when there are `bytes` more than have been read.
pub fn want(fd: c_int, record: &Record, held: &Held<'_>, bytes: u64) {
    let (in_ring, tokens) = record.receiver(held).unread(&record.carrier());
    let mark = (bytes + tokens).saturating_sub(in_ring).max(1);
    tell_kernel(fd, c_int::try_from(mark).unwrap_or(c_int::MAX));
}

/// For someone who knows nothing of the ring.
pub fn restore(fd: c_int, record: &Record) {
    if let Some(mark) = shown(record) {
        tell_kernel(fd, mark);
    }
}

fn tell_kernel(fd: c_int, mark: c_int) {
    kernel::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark);
}
