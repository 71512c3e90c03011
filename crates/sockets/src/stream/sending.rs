//! Sending. See [`super`].

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{Broken, Path};
use libc::ssize_t;

use crate::epoll::sets;
use crate::process::lock::Held;
use crate::process::{clock, fault};
use crate::stream::buffers::{Parts, for_each_stretch, kernel_send, offered, slice, total};
use crate::stream::calls::{count_bytes, give_up, is_over, is_to_wait, line_ended, other_leaves};
use crate::stream::recall::step_back;
use crate::stream::send_side::{hold, line_is_clear, mend, on_line};
use crate::stream::wake_bytes::publish;
use crate::stream::{
    capture, empty_reads, fast_path, lost_bytes, order_marks, pending_error, ring_full_wait,
};
use crate::system::{
    cancel, kernel,
    real::{self, errno, fail},
};
use crate::table::descriptors;
use crate::table::flags::{HELD_BACK, LINE_ONLY, LOCAL, NEVER_UP, READ_SHUT, WRITE_SHUT};
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};
use crate::upgrade::unix_streams;

/// Sends as `sendmsg` would. The socket is up, or may go up at any moment.
pub fn send(fd: c_int, record: &Record, parts: Parts<'_>, flags: c_int) -> ssize_t {
    // What follows does not end in the middle, or can be mended.
    cancel::end_if_cancelled();
    fast_path::send(fd, record, parts, flags).unwrap_or_else(|| send_with(fd, record, parts, flags))
}

fn send_with(fd: c_int, record: &Record, parts: Parts<'_>, flags: c_int) -> ssize_t {
    let result = real::keeping_errno(|| match hold(fd, record, is_to_wait(record, flags)) {
        Some(held) => send_alone(fd, record, parts, flags, &held),
        None => fail(libc::EAGAIN),
    });
    if capture::is_on() {
        capture::sent(fd, record, parts, result);
    }
    result
}

fn send_alone(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    flags: c_int,
    held: &Held<'_>,
) -> ssize_t {
    if let Some(error) = pending_error::take_kept_error(record) {
        return fail(error);
    }
    if record.state() != State::Up || !descriptors::is_of(fd, record) {
        if flags & libc::MSG_OOB != 0 {
            // The kernel's counts, from which positions begin, are others from now on.
            record.note_why(Why::Usage);
            record.set(NEVER_UP, true);
        }
        unix_streams::mark_first(fd, record);
        order_marks::before_kernel_sends(fd);
        note_held_back(record, flags);
        let result = kernel_send(fd, parts, 0, flags);
        unix_streams::count_out(record, result);
        return result;
    }
    if record.has(WRITE_SHUT) {
        return line_send_once(fd, record, parts, 0, flags, held);
    }
    if held.is_taken_over() && !mend(fd, record, held) {
        return give_up(fd, record);
    }
    if flags & libc::MSG_OOB != 0 {
        // The byte out of band is no byte of the stream to the receiver: positions say nothing
        // any more, and no epoch may end.
        record.set(LINE_ONLY, true);
    }
    let waits = is_to_wait(record, flags);
    let whole = total(parts);
    let generation = record.generation();
    let mut sent = 0;
    loop {
        // Who has sent something is told of that, not of the end.
        let quiet = if sent > 0 { libc::MSG_NOSIGNAL } else { 0 };
        let flags = flags | quiet;
        // Behind what another thread says is the end, nothing may come.
        if sent > 0 && (is_over(fd, record, generation) || record.has(WRITE_SHUT)) {
            return sent as ssize_t;
        }
        let step = match lane_to_use(fd, record, whole - sent, flags, held) {
            Ok(Path::Ring) => match ring_send(fd, record, parts, sent, waits, held) {
                Ok(Put::Bytes(bytes)) => Ok(Some(bytes)),
                Ok(Put::Fault) => return with_sent(fail(libc::EFAULT), sent),
                Err(broken) => Err(broken),
            },
            // On a Unix socket the next read is told.
            Ok(Path::Kernel)
                if sent == 0 && !record.has(LOCAL) && lost_bytes::is_reset_before(record) =>
            {
                lost_bytes::take_reset(fd, record);
                return fail(libc::ECONNRESET);
            }
            Ok(Path::Kernel) if !line_is_clear(fd, record, waits, held) => Ok(None),
            Ok(Path::Kernel) if is_over(fd, record, generation) => {
                return with_sent(fail(libc::EBADF), sent);
            }
            Ok(Path::Kernel) if waits && unix_streams::is_awaited(record) => {
                // In slices that do not wait, so that the other end can see how far we are.
                let now = flags | libc::MSG_DONTWAIT;
                let result = line_send_once(fd, record, parts, sent, now, held);
                match result {
                    0.. => Ok(Some(result.unsigned_abs())),
                    _ if errno() == libc::EAGAIN && unix_streams::wait_for_room(fd) => Ok(Some(0)),
                    _ if errno() == libc::EAGAIN => {
                        let result = line_send_once(fd, record, parts, sent, flags, held);
                        return with_sent(result, sent);
                    }
                    _ => return with_sent(result, sent),
                }
            }
            Ok(Path::Kernel) => {
                // The kernel waits, if that is wanted, as it does for everyone.
                let result = line_send_once(fd, record, parts, sent, flags, held);
                let offered = offered(parts, sent);
                if !waits || result != offered as ssize_t || sent + offered == whole {
                    return with_sent(result, sent);
                }
                Ok(Some(offered))
            }
            Err(broken) => Err(broken),
        };
        match step {
            Ok(Some(bytes)) => sent += bytes,
            Ok(None) => {
                // The kernel has room, so it does not tell when there is.
                sets::tell_again(record);
                return match sent {
                    0 => fail(libc::EAGAIN),
                    _ => sent as ssize_t,
                };
            }
            Err(_) => return give_up(fd, record),
        }
        if sent == whole {
            return sent as ssize_t;
        }
        // As above: a short count means to programs that wait for edges that there is no room.
        if !waits && sent > 0 && empty_reads::is_known(record) {
            sets::tell_again(record);
            return sent as ssize_t;
        }
        // Of sets that we do not know, only the kernel can tell: the rest goes over the line.
    }
}

/// What a call returns of which the kernel did the last part, behind `sent` bytes.
const fn with_sent(result: ssize_t, sent: usize) -> ssize_t {
    match result {
        _ if sent == 0 => result,
        0.. => result + sent as ssize_t,
        _ => sent as ssize_t,
    }
}

/// Flags that only the kernel can serve; the ring ignores the others.
const LINE_FLAGS: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY | libc::MSG_FASTOPEN;

/// So many bytes at once the kernel carries as well between Unix sockets.
const LOCAL_BYTES: usize = 32 << 10;

fn lane_to_use(
    fd: c_int,
    record: &Record,
    bytes: usize,
    flags: c_int,
    held: &Held<'_>,
) -> Result<Path, Broken> {
    let carrier = record.carrier();
    let sender = record.sender(held);
    if note_held_back(record, flags) {
        return leave_for_line(fd, record, held);
    }
    let line_only = record.has(LINE_ONLY)
        || record.has(HELD_BACK)
        || flags & LINE_FLAGS != 0
        || (bytes >= LOCAL_BYTES && record.has(LOCAL));
    match sender.path() {
        Path::Kernel if line_only || other_leaves(record, &carrier, held) => Ok(Path::Kernel),
        Path::Kernel => {
            let up = held.changing(|| sender.try_ring(&carrier))?;
            Ok(if up { Path::Ring } else { Path::Kernel })
        }
        Path::Ring
            if line_only
                || sender.is_kernel_wanted(&carrier)
                || other_leaves(record, &carrier, held)
                || other_is_gone(fd, record, held) =>
        {
            leave_for_line(fd, record, held)
        }
        // It has to be woken over the line: then the bytes may as well go there. Or the kernel is to have
        // its say.
        Path::Ring if sender.receiver_sleeps(&carrier) || is_due_for_kernel(record) => {
            held.changing(|| sender.leave_ring(&carrier));
            Ok(Path::Kernel)
        }
        Path::Ring => Ok(Path::Ring),
    }
}

/// Whether the kernel is to carry this send, so that its rules act on the connection. None concern Unix
/// sockets.
fn is_due_for_kernel(record: &Record) -> bool {
    !record.has(LOCAL) && record.probe.is_due()
}

/// Notes whether what is sent now is to wait for more. Returns whether that is new, or over: what comes
/// behind bytes that wait sets them free, over the line as well.
fn note_held_back(record: &Record, flags: c_int) -> bool {
    let holds_back = flags & libc::MSG_MORE != 0 && !record.has(LOCAL);
    let changes = record.has(HELD_BACK) != holds_back;
    if changes {
        record.set(HELD_BACK, holds_back);
    }
    changes
}

fn leave_for_line(fd: c_int, record: &Record, held: &Held<'_>) -> Result<Path, Broken> {
    if record.sender(held).path() == Path::Ring {
        step_back(fd, record, held)?;
    }
    Ok(Path::Kernel)
}

/// Whether the other end was killed: it has ended, and did not say so. Then too the kernel says what
/// becomes of what is sent. Asked once a tick.
fn other_is_gone(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    // Relaxed, both: under the lock.
    let tick_ns = clock::tick_ns();
    if record.send_checked_ns.load(Ordering::Relaxed) == tick_ns {
        return false;
    }
    record.send_checked_ns.store(tick_ns, Ordering::Relaxed);
    // Of an end that reads no more, `poll` tells the same.
    let is_gone = if record.has(READ_SHUT) {
        kernel::is_half_open(fd)
    } else {
        line_ended(fd)
    };
    fast_path::note_send(record, record.sender(held));
    if is_gone {
        lost_bytes::note_ended(record);
        record.set(LINE_ONLY, true);
    } else {
        lost_bytes::note_there(record, record.sender(held));
    }
    is_gone
}

/// What came of putting bytes into the ring.
enum Put {
    /// So many were put; with none, go on with the line.
    Bytes(usize),
    /// They are not where the program says.
    Fault,
}

/// Puts what fits into the ring; waits for some room if `waits` and the receiver goes on.
/// Leaves the ring if there is none.
fn ring_send(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    sent: usize,
    waits: bool,
    held: &Held<'_>,
) -> Result<Put, Broken> {
    let carrier = record.carrier();
    let sender = record.sender(held);
    let rest = total(parts) - sent;
    if sender.room_known() < rest as u64
        && sender.room(&carrier)? == 0
        && !ring_full_wait::comes(record, waits, held)?
    {
        step_back(fd, record, held)?;
        return Ok(Put::Bytes(0));
    }
    let len = rest.min(sender.room_known() as usize);
    if !are_there(parts, sent, len) {
        return Ok(Put::Fault);
    }
    fast_path::note_send(record, sender);
    let is_put = held.moving(|| {
        if !sender.enter_ring(&carrier) {
            return false;
        }
        for_each_stretch(parts, sent, len, |part, skip, len| {
            // SAFETY: the program's buffer.
            sender.put(&carrier, unsafe { slice(part, skip, len) });
        });
        count_bytes(&record.ring_bytes_out, len);
        publish(fd, sender, &carrier);
        true
    });
    if !is_put {
        step_back(fd, record, held)?;
        return Ok(Put::Bytes(0));
    }
    Ok(Put::Bytes(len))
}

/// Whether the program's bytes can be read.
fn are_there(parts: Parts<'_>, skip: usize, limit: usize) -> bool {
    let mut there = true;
    for_each_stretch(parts, skip, limit, |part, skip, len| {
        let at = part.iov_base.wrapping_byte_add(skip);
        there = there && fault::can_read(at, len);
    });
    there
}

/// One `sendmsg` of the kernel's from byte `sent` of the buffers on.
fn line_send_once(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    sent: usize,
    flags: c_int,
    held: &Held<'_>,
) -> ssize_t {
    order_marks::before_kernel_sends(fd);
    on_line(record, held, || kernel_send(fd, parts, sent, flags))
}
