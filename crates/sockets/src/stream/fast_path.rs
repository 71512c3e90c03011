//! The commonest calls, on a socket that is up: one buffer, and the ring is all that there is to heed. How
//! long these take is what a program that polls waits for. All else goes the long way: `receiving`,
//! `sending`.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{LEAVING, Path, Sender, SharedMemory};
use libc::{iovec, ssize_t};

use crate::process::lock::Held;
use crate::process::{clock, fault};
use crate::stream::buffers::{Parts, slice, slice_mut};
use crate::stream::calls::{count_bytes, other_leaves};
use crate::stream::wake_bytes::publish;
use crate::stream::{capture, empty_reads, lost_bytes, order, recall};
use crate::system::real::fail;
use crate::table::descriptors;
use crate::table::flags::{CHECK_LINE, LINE_ONLY, LOCAL, LOW_WATER, NONBLOCKING, WRITE_SHUT};
use crate::table::socket_state::Record;
use crate::table::state::State;

/// Flags that change nothing here, or are looked at.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// As [`super::receive`]; `None`: nothing was done, go the long way.
#[inline]
pub fn receive(fd: c_int, record: &Record, parts: Parts<'_>, flags: c_int) -> Option<ssize_t> {
    let part = plain(record, parts, flags, LOW_WATER | LOCAL)?;
    let held = record
        .recv_lock
        .try_hold()
        .filter(|_| is_here(fd, record))?;
    match record.receiver(&held).simple_bytes(&record.carrier())? {
        0 if flags & libc::MSG_DONTWAIT != 0 || record.has(NONBLOCKING) => nothing(record, &held),
        0 => None,
        bytes => take(record, part, bytes, &held),
    }
}

/// The buffer, if that is all, and none of these `bits` of the record is set.
#[inline]
fn plain<'a>(record: &Record, parts: Parts<'a>, flags: c_int, bits: u32) -> Option<&'a iovec> {
    let [part] = parts else { return None };
    let is_plain = flags & !FLAGS == 0
        && part.iov_len > 0
        && record.state() == State::Up
        && !record.has(bits)
        && !capture::is_on();
    is_plain.then_some(part)
}

/// Once more, under a lock of the record. A relay may have taken its place.
#[inline]
fn is_here(fd: c_int, record: &Record) -> bool {
    record.state() == State::Up && descriptors::is_of(fd, record)
}

#[inline]
fn take(record: &Record, part: &iovec, bytes: u64, held: &Held<'_>) -> Option<ssize_t> {
    let len = part.iov_len.min(bytes as usize);
    // Relaxed: a sleeper that comes now arms the receiver itself.
    let is_alone = record.sleepers.load(Ordering::Relaxed) == 0;
    if !is_alone || !fault::can_overwrite(part.iov_base, len) {
        return None;
    }
    held.moving(|| {
        let carrier = record.carrier();
        let receiver = record.receiver(held);
        // SAFETY: the program's buffer, which is there.
        receiver.copy(&carrier, 0, unsafe { slice_mut(part, 0, len) });
        receiver.took(&carrier, len as u64);
        count_bytes(&record.ring_bytes_in, len);
        order::heard(record);
    });
    Some(len as ssize_t)
}

/// The ring is empty.
#[inline]
fn nothing(record: &Record, held: &Held<'_>) -> Option<ssize_t> {
    // Relaxed: under the lock.
    let is_well = record.line_error.load(Ordering::Relaxed) == 0 && may_skip_line(record);
    let may_tell = is_well && !recall::is_asked(record) && empty_reads::may_tell(record, held);
    may_tell.then(|| fail(libc::EAGAIN))
}

/// Whether the line need not be looked at: the other end has not said that it leaves, and it was
/// looked at since the last tick.
#[inline]
pub fn may_skip_line(record: &Record) -> bool {
    let carrier = record.carrier();
    let leaves = carrier.load(LEAVING) | carrier.load(LEAVING + 1) != 0;
    // Relaxed: under the lock.
    let checked_ns = record.line_checked_ns.load(Ordering::Relaxed);
    !leaves && !record.has(CHECK_LINE) && clock::tick_ns() == checked_ns
}

/// Whether the line need not be looked at before a send: something came from the other end since the last
/// send, or who sends has looked since the last tick.
#[inline]
fn is_known_there(record: &Record, sender: &Sender) -> bool {
    // Relaxed, all: under the lock, but for what came, which stands for itself.
    let heard = record.ring_bytes_in.load(Ordering::Relaxed);
    if record.heard_bytes.load(Ordering::Relaxed) != heard && !record.probe.is_to_be_timed() {
        record.heard_bytes.store(heard, Ordering::Relaxed);
        lost_bytes::note_there(record, sender);
        return true;
    }
    record.send_checked_ns.load(Ordering::Relaxed) == clock::tick_ns()
}

/// Something came over the line.
pub fn note_heard_on_line(record: &Record) {
    // Relaxed: as in is_known_there. So many bytes no ring has had.
    record.heard_bytes.store(u64::MAX, Ordering::Relaxed);
}

/// Something is about to be sent. If anything came since the last time, the other end was there then; of what
/// is sent now that says nothing.
pub fn note_send(record: &Record, sender: &Sender) {
    // Relaxed, all: as in is_known_there.
    let heard = record.ring_bytes_in.load(Ordering::Relaxed);
    if record.heard_bytes.load(Ordering::Relaxed) != heard {
        record.heard_bytes.store(heard, Ordering::Relaxed);
        lost_bytes::note_there(record, sender);
    }
}

/// As [`super::send`]; `None`: nothing was done, go the long way.
#[inline]
pub fn send(fd: c_int, record: &Record, parts: Parts<'_>, flags: c_int) -> Option<ssize_t> {
    let part = plain(record, parts, flags, LINE_ONLY | WRITE_SHUT | LOCAL)?;
    // Under the lock again: another thread may have said meanwhile that this is the end.
    let held = record
        .send_lock
        .try_hold()
        .filter(|_| is_here(fd, record) && !record.has(WRITE_SHUT))?;
    let carrier = record.carrier();
    let sender = record.sender(&held);
    let len = part.iov_len;
    let is_simple = sender.path() == Path::Ring
        && sender.room_known() >= len as u64
        && !sender.receiver_sleeps(&carrier)
        && !other_leaves(record, &carrier, &held)
        && is_known_there(record, sender)
        && fault::can_read(part.iov_base, len);
    let put = || {
        // Last: whoever has entered puts something.
        sender.enter_ring(&carrier).then(|| {
            // SAFETY: the program's buffer, which is there.
            sender.put(&carrier, unsafe { slice(part, 0, len) });
            count_bytes(&record.ring_bytes_out, len);
            publish(fd, sender, &carrier);
            len as ssize_t
        })
    };
    if is_simple { held.moving(put) } else { None }
}
