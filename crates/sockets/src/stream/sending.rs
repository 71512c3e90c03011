//! Sending. See [`super`].

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::{Broken, LEAVING, Lane, Sender, SharedMemory};
use libc::ssize_t;

use super::recall::{self, step_back};
use super::receiving::{count_bytes, is_to_wait};
use super::{give_up, in_vain, is_over, quick, room};
use crate::buffers::{Parts, for_each_stretch, kernel_send, offered, slice, total};
use crate::lock::{Held, WITHOUT_LIMIT};
use crate::memory::Carrier;
use crate::real::{self, errno, fail};
use crate::record::{
    HELD_BACK, LINE_ONLY, LOCAL, NEVER_UP, OPENER, READ_SHUT, Record, STUCK, State, WRITE_SHUT, Why,
};
use crate::{capture, epoll, fault, kernel, local, lost, order, process, record};

/// Sends as `sendmsg` would. The socket is up, or may go up at any moment.
pub fn send(fd: c_int, record: &Record, parts: Parts<'_>, flags: c_int) -> ssize_t {
    // What follows does not end in the middle, or can be mended.
    process::end_if_cancelled();
    quick::send(fd, record, parts, flags).unwrap_or_else(|| send_with(fd, record, parts, flags))
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

/// How long a send that does not wait waits for another thread's, which may wait for the other end.
const OTHERS_MS: u32 = 20;

/// Holds the lock of what is sent. `None`: a signal handler is in the middle of a send of this very
/// thread; or this call does not wait, and another thread's does.
pub fn hold(fd: c_int, record: &Record, waits: bool) -> Option<Held<'_>> {
    if let Some(held) = record.send_lock.try_hold() {
        return Some(held);
    }
    if waits {
        let limit_ns = kernel::time_limit_ns(fd, libc::SO_SNDTIMEO);
        let limit_ms = limit_ns.and_then(|ns| u32::try_from(ns.div_ceil(1_000_000)).ok());
        return record
            .send_lock
            .hold_unless_cancelled(limit_ms.unwrap_or(WITHOUT_LIMIT));
    }
    let held = record.send_lock.hold_for(OTHERS_MS);
    if held.is_none() {
        // When that one is done, the kernel has nothing new to tell.
        epoll::tell_again(record);
    }
    held
}

/// The last to send ended in the middle: counts what the line took of its bytes. `false`: nobody knows.
#[cold]
pub fn mend(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    if !held.is_to_mend() || record.has(LOCAL) {
        return false;
    }
    let Some(bytes) = kernel::bytes_sent(fd, record.has(OPENER)) else {
        return false;
    };
    if !record.sender(held).mend(&record.carrier(), bytes) {
        return false;
    }
    held.mended();
    let sender = record.sender(held);
    if sender.lane() == Lane::Ring && sender.owes_token() {
        held.moving(|| wake(fd, sender, &record.carrier()));
    } else {
        recall::wake(fd, record, held);
    }
    true
}

fn send_alone(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    flags: c_int,
    held: &Held<'_>,
) -> ssize_t {
    if let Some(error) = super::take_kept_error(record) {
        return fail(error);
    }
    if record.state() != State::Up || !record::is_of(fd, record) {
        if flags & libc::MSG_OOB != 0 {
            // The kernel's counts, from which positions begin, are others from now on.
            record.note_why(Why::Usage);
            record.set(NEVER_UP, true);
        }
        local::mark_first(fd, record);
        order::before_kernel_sends(fd);
        note_held_back(record, flags);
        let result = kernel_send(fd, parts, 0, flags);
        local::count_out(record, result);
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
            Ok(Lane::Ring) => match ring_send(fd, record, parts, sent, waits, held) {
                Ok(Put::Bytes(bytes)) => Ok(Some(bytes)),
                Ok(Put::Fault) => return with_sent(fail(libc::EFAULT), sent),
                Err(broken) => Err(broken),
            },
            // On a Unix socket the next read is told.
            Ok(Lane::Line) if sent == 0 && !record.has(LOCAL) && lost::is_reset_before(record) => {
                lost::take_reset(fd, record);
                return fail(libc::ECONNRESET);
            }
            Ok(Lane::Line) if !line_is_clear(fd, record, waits, held) => Ok(None),
            Ok(Lane::Line) if is_over(fd, record, generation) => {
                return with_sent(fail(libc::EBADF), sent);
            }
            Ok(Lane::Line) if waits && local::is_awaited(record) => {
                // In slices that do not wait, so that the other end can see how far we are.
                let now = flags | libc::MSG_DONTWAIT;
                let result = line_send_once(fd, record, parts, sent, now, held);
                match result {
                    0.. => Ok(Some(result.unsigned_abs())),
                    _ if errno() == libc::EAGAIN && local::wait_for_room(fd) => Ok(Some(0)),
                    _ if errno() == libc::EAGAIN => {
                        let result = line_send_once(fd, record, parts, sent, flags, held);
                        return with_sent(result, sent);
                    }
                    _ => return with_sent(result, sent),
                }
            }
            Ok(Lane::Line) => {
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
                epoll::tell_again(record);
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
        if !waits && sent > 0 && in_vain::is_known(record) {
            epoll::tell_again(record);
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
) -> Result<Lane, Broken> {
    let carrier = record.carrier();
    let sender = record.sender(held);
    if note_held_back(record, flags) {
        return leave_for_line(fd, record, held);
    }
    let line_only = record.has(LINE_ONLY)
        || record.has(HELD_BACK)
        || flags & LINE_FLAGS != 0
        || (bytes >= LOCAL_BYTES && record.has(LOCAL));
    match sender.lane() {
        Lane::Line if line_only || other_leaves(record, &carrier, held) => Ok(Lane::Line),
        Lane::Line => {
            let up = held.changing(|| sender.try_ring(&carrier))?;
            Ok(if up { Lane::Ring } else { Lane::Line })
        }
        Lane::Ring
            if line_only
                || sender.line_wanted(&carrier)
                || other_leaves(record, &carrier, held)
                || other_is_gone(fd, record, held) =>
        {
            leave_for_line(fd, record, held)
        }
        // It has to be woken over the line: then the bytes may as well go there. Or the kernel is to have
        // its say.
        Lane::Ring if sender.receiver_sleeps(&carrier) || record.probe.is_due(record) => {
            held.changing(|| sender.leave_ring(&carrier));
            Ok(Lane::Line)
        }
        Lane::Ring => Ok(Lane::Ring),
    }
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

fn leave_for_line(fd: c_int, record: &Record, held: &Held<'_>) -> Result<Lane, Broken> {
    if record.sender(held).lane() == Lane::Ring {
        step_back(fd, record, held)?;
    }
    Ok(Lane::Line)
}

/// Whether the other end has closed: then the kernel says what becomes of what is sent.
#[inline]
pub fn other_leaves(record: &Record, carrier: &Carrier, held: &Held<'_>) -> bool {
    let other = 1 - record.sender(held).side();
    carrier.load(LEAVING + other) != 0
}

/// Whether the other end was killed: it has ended, and did not say so. Then too the kernel says what
/// becomes of what is sent. Asked once a tick.
fn other_is_gone(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    // Relaxed, both: under the lock.
    let tick_ns = process::tick_ns();
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
    quick::note_send(record, record.sender(held));
    if is_gone {
        lost::note_ended(record);
        record.set(LINE_ONLY, true);
    } else {
        lost::note_there(record, record.sender(held));
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
        && !room::comes(record, waits, held)?
    {
        step_back(fd, record, held)?;
        return Ok(Put::Bytes(0));
    }
    let len = rest.min(sender.room_known() as usize);
    if !are_there(parts, sent, len) {
        return Ok(Put::Fault);
    }
    quick::note_send(record, sender);
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

/// Shows the other end what was put into the ring, and wakes it if it sleeps.
#[inline]
pub fn publish(fd: c_int, sender: &mut Sender, carrier: &Carrier) {
    let is_first = sender.date(carrier, order::dates);
    if sender.publish(carrier, process::processor()) {
        wake(fd, sender, carrier);
    } else if is_first {
        order::note(fd);
    }
}

/// Has a token follow what is unread in the ring. See [`crate::order`].
pub fn mark(fd: c_int, record: &Record) {
    // Who sends at this moment is not behind what this thread is about to send.
    let Some(held) = record.send_lock.try_hold() else {
        return;
    };
    if record.state() != State::Up || !record::is_of(fd, record) || held.is_taken_over() {
        return;
    }
    let carrier = record.carrier();
    let sender = record.sender(&held);
    held.moving(|| {
        if sender.mark(&carrier) {
            wake(fd, sender, &carrier);
        }
    });
}

#[cold]
fn wake(fd: c_int, sender: &mut Sender, carrier: &Carrier) {
    if send_token(fd) || send_token_soon(fd) {
        sender.token_sent();
    } else {
        sender.token_failed();
        sender.leave_ring(carrier);
    }
}

/// How long the line may be full although all on it was read: as long as the kernel may put off to
/// acknowledge that, and more.
const FULL_NS: u64 = 1_000_000_000;

/// Sends the token when the line has room. It is full of what the receiver, who sleeps behind it, has
/// read. Nobody else would send the token if the program sent nothing more.
#[cold]
pub fn send_token_soon(fd: c_int) -> bool {
    let until_ns = process::now_ns() + FULL_NS;
    while process::now_ns() < until_ns {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one descriptor.
        process::uncancelled(|| unsafe { real::poll(&raw mut poll, 1, 10) });
        if send_token(fd) {
            return true;
        }
        process::sleep_us(100);
    }
    false
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

pub fn send_token(fd: c_int) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let saved = errno();
    // Not cancelled: then nobody would know that it is on the line.
    // SAFETY: one byte, which lives.
    let result =
        process::uncancelled(|| unsafe { real::send(fd, c"".as_ptr().cast::<c_void>(), 1, flags) });
    let gone = result < 0 && errno() != libc::EAGAIN && errno() != libc::ENOBUFS;
    real::set_errno(saved);
    // If the line is gone, the receiver hears of that instead.
    result == 1 || gone
}

/// Whether the line may be used: the receiver may be in the middle of a read that began
/// before we left the ring.
pub fn line_is_clear(fd: c_int, record: &Record, waits: bool, held: &Held<'_>) -> bool {
    let carrier = record.carrier();
    let sender = record.sender(held);
    let mut until_ns = None;
    for round in 0_u32.. {
        if sender.owes_token() {
            held.changing(|| {
                if send_token(fd) {
                    sender.token_sent();
                }
            });
        }
        match sender.may_use_line(&carrier) {
            Ok(true) => {
                record.set(STUCK, false);
                return true;
            }
            // The next step says what is broken.
            Err(_) => return true,
            Ok(false) if round < YIELDS => {
                process::give_way();
                continue;
            }
            Ok(false) => {}
        }
        // A receiver that was killed in the middle of its read never ends it.
        if line_ended(fd) || (round % YIELDS == 0 && is_abandoned(fd)) {
            return true;
        }
        let now_ns = process::now_ns();
        let until_ns =
            until_ns.get_or_insert_with(|| now_ns.saturating_add(patience_ns(fd, record, waits)));
        if now_ns >= *until_ns {
            record.set(STUCK, true);
            return false;
        }
        process::sleep_us(100);
    }
    true
}

/// How often a sender lets others run before it sleeps.
const YIELDS: u32 = 1000;

/// Whether no process has the other end any more.
fn is_abandoned(fd: c_int) -> bool {
    kernel::tuple(fd).is_some_and(|tuple| kernel::is_abandoned(&tuple))
}

/// How long a receiver may be in the middle of a read that does not wait, if the program does not.
const READ_NS: u64 = 10_000_000;

/// How long a call that sends may wait: as the program has told the kernel. One that may not does
/// so once: who has been waited for in vain is not waited for again.
fn patience_ns(fd: c_int, record: &Record, waits: bool) -> u64 {
    if !waits {
        return if record.has(STUCK) { 0 } else { READ_NS };
    }
    kernel::time_limit_ns(fd, libc::SO_SNDTIMEO).unwrap_or(u64::MAX)
}

pub fn line_ended(fd: c_int) -> bool {
    let ends = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
    kernel::events_now(fd, libc::POLLRDHUP) & ends != 0
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
    order::before_kernel_sends(fd);
    on_line(record, held, || kernel_send(fd, parts, sent, flags))
}

/// A call that sends bytes on the line, and returns how many.
pub fn on_line(record: &Record, held: &Held<'_>, call: impl FnOnce() -> ssize_t) -> ssize_t {
    held.moving(|| {
        let sender = record.sender(held);
        local::tell_sent(record, sender.side(), None);
        let result = call();
        if result > 0 {
            sender.sent_on_line(result.unsigned_abs() as u64);
            record.probe.sent_on_line();
        }
        local::tell_sent(record, sender.side(), Some(sender.position()));
        result
    })
}
