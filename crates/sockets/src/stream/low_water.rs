//! The low-water mark (`SO_RCVLOWAT`): a program is told of bytes, and a read that waits returns, only
//! when there are so many.
//!
//! Who waits for bytes waits in the kernel, which counts those on the line and does not know of
//! those in the ring. So a socket with a mark goes to the line for good, and while bytes are left
//! in the ring the kernel's mark is lower by them (and higher by the tokens on the line). What the
//! program has set it is shown.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::Direction;

use super::leaving::{end_ring, line_only};
use crate::lock::Held;
use crate::record::{LOCAL, LOW_WATER, Record, State, Why};
use crate::{kernel, memory::RING_BYTES};

/// The program has set the mark of a socket, which is up or was.
pub fn set(fd: c_int, record: &Record) {
    let mark = kernel::option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT).unwrap_or(1);
    line_only(record, Why::Usage);
    let Some(held) = record.recv_lock.hold() else {
        return;
    };
    if record.state() != State::Up {
        return;
    }
    // Relaxed, here and below: with the flag, under the lock.
    record
        .low_water
        .store(mark.unsigned_abs(), Ordering::Relaxed);
    record.set(LOW_WATER, mark > 1);
    if mark > 1 {
        end_ring(record, &held);
        follow(fd, record, &held);
    }
}

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

/// Whether the program is not to be told of what is in the ring: too little. With the line's bytes it
/// may be enough, which the kernel says. Waits for Unix sockets know of no mark.
pub fn holds_back(record: &Record) -> bool {
    if !record.has(LOW_WATER) || record.has(LOCAL) {
        return false;
    }
    let side = record.side.load(Ordering::Relaxed);
    let incoming = Direction::from_side(1 - side, RING_BYTES);
    incoming.in_ring(&record.carrier()) < u64::from(record.low_water.load(Ordering::Relaxed))
}
