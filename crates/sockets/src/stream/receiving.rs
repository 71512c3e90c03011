//! Receiving. See [`super`].

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{Broken, Next};
use libc::ssize_t;

use crate::epoll::sets;
use crate::process::clock;
use crate::process::lock::{Held, WITHOUT_LIMIT};
use crate::process::spin::Spin;
use crate::stream::buffers::{
    Control, Parts, for_each_stretch, kernel_receive, kernel_receive_all, kernel_receive_as_asked,
    slice_mut, total,
};
use crate::stream::calls::{arm, count_bytes, give_up, is_at_mark, is_over, is_to_wait};
use crate::stream::peeking::{peek_now, peek_waiting, room_is_there};
use crate::stream::pending_error::{keep_error, take_kept_error};
use crate::stream::receive_side::{mend, tell_read};
use crate::stream::wake_bytes::{Tokens, is_alone, take_tokens, take_tokens_ahead};
use crate::stream::{capture, empty_reads, fast_path, lost_bytes, low_water, order, recall};
use crate::system::{
    cancel, kernel,
    real::{self, errno, fail},
};
use crate::table::directions::peer_is_near;
use crate::table::flags::{CHECK_LINE, LOCAL, LOW_WATER, RESET_TOLD};
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::table::{descriptors, slots};
use crate::upgrade::unix_streams;

/// How often a read that does not wait looks again because something has come.
const ROUNDS_MAX: u32 = 64;

/// Receives as `recvmsg` would. The socket is up, or may go up at any moment.
pub fn receive(fd: c_int, record: &'static Record, parts: Parts<'_>, flags: c_int) -> ssize_t {
    // What follows ends in waits only.
    cancel::end_if_cancelled();
    fast_path::receive(fd, record, parts, flags)
        .unwrap_or_else(|| receive_with(fd, record, parts, flags, &mut None))
}

/// As [`receive`], with what comes beside the bytes on the line.
pub fn receive_with(
    fd: c_int,
    record: &'static Record,
    parts: Parts<'_>,
    flags: c_int,
    control: &mut Option<Control>,
) -> ssize_t {
    let result = real::keeping_errno(|| receive_some(fd, record, parts, flags, control));
    if record.has(LOW_WATER) {
        let saved = errno();
        let held = record.recv_lock.hold();
        held.iter()
            .for_each(|held| low_water::follow(fd, record, held));
        real::set_errno(saved);
    }
    if capture::is_on() {
        capture::received(fd, record, parts, flags, result);
    }
    result
}

fn receive_some(
    fd: c_int,
    record: &'static Record,
    parts: Parts<'_>,
    flags: c_int,
    control: &mut Option<Control>,
) -> ssize_t {
    let directly = || kernel_receive_all(fd, parts, flags, control.as_mut());
    if let Some(result) = unix_streams::read_directly(fd, record, flags, directly) {
        return result;
    }
    let waits = is_to_wait(record, flags);
    let wanted = total(parts);
    let peeks = flags & libc::MSG_PEEK != 0;
    let enough = match flags & libc::MSG_WAITALL {
        // So does the kernel peek at a Unix socket.
        _ if !waits || (peeks && record.has(LOCAL)) => 1,
        0 => low_water::of(record),
        _ => usize::MAX,
    };
    let enough = enough.min(wanted);
    let mut generation = None;
    let mut got = 0;
    let mut spin = Spin::begin();
    let mut rounds = 0;
    let mut slept_since_ns = None;
    loop {
        let Some(held) = record.recv_lock.hold_unless_cancelled(WITHOUT_LIMIT) else {
            return fail(libc::EAGAIN);
        };
        if held.is_taken_over() && !mend(fd, record, &held) {
            return give_up(fd, record);
        }
        let generation = *generation.get_or_insert_with(|| record.generation());
        // A relay may have taken its place: then the descriptor is the kernel's.
        let is_up = record.state() == State::Up && descriptors::is_of(fd, record);
        if !is_up {
            unix_streams::mark_first(fd, record);
        }
        let step = if is_up {
            held.moving(|| receive_now(fd, record, parts, got, flags, control, &held))
        } else {
            Ok(plain_now(fd, record, parts, got, flags, control))
        };
        match step {
            Ok(Step::Bytes(bytes)) => {
                got += bytes;
                let has_more_beside =
                    record.has(LOCAL) && control.as_ref().is_some_and(|control| control.len > 0);
                let goes_on = is_up && !peeks && got < wanted && has_more(record, &held);
                if bytes == 0 || has_more_beside || (got >= enough && !goes_on) {
                    spin.paid(got > 0);
                    return got as ssize_t;
                }
                if peeks {
                    drop(held);
                    return peek_waiting(fd, record, parts, flags);
                }
                continue;
            }
            // The next call is told.
            Ok(Step::Failed(error)) if got > 0 => {
                if error != libc::EFAULT {
                    keep_error(record, error);
                }
                return got as ssize_t;
            }
            Ok(Step::Failed(error)) => return fail(error),
            Ok(Step::End | Step::Mark) if got > 0 => return got as ssize_t,
            // The sleep below may have taken an error off the line, which then looks ended.
            Ok(Step::End | Step::Mark) => {
                return take_kept_error(record).map_or(0, fail);
            }
            Ok(Step::Nothing) => recall::answer(fd, record),
            Err(_) => return give_up(fd, record),
        }
        if !waits && got == 0 {
            // A sound other end has something by then.
            if is_up && !empty_reads::may_tell(record, &held) && rounds < ROUNDS_MAX {
                rounds += 1;
                continue;
            }
            return fail(libc::EAGAIN);
        }
        if !waits || got >= enough {
            return got as ssize_t;
        }
        let carrier = record.carrier();
        if is_up {
            let news = || record.receiver(&held).is_ready(&carrier);
            let rarely = || kernel::events_now(fd, libc::POLLIN) != 0 && note_line(record);
            if spin.until_or(news, rarely, || peer_is_near(record))
                || !arm(record, &held)
                || recall::is_asked(record)
            {
                continue;
            }
        }
        let on_line = is_up && record.receiver(&held).is_on_open_kernel_epoch(&carrier);
        if is_up && got > 0 && record.has(LOW_WATER) {
            low_water::want(fd, record, &held, (enough - got) as u64);
        }
        // Counted, while we have the lock: until we are back, nobody disarms, so the sender
        // stays with the line.
        let sleeper = Sleeper::new(record);
        drop(held);
        if let Some(error) = has_had_its_time(fd, &mut slept_since_ns) {
            return if got > 0 { got as ssize_t } else { fail(error) };
        }
        // Who is killed in a read that waits leaves nobody who knows of it.
        let is_alone = record.processes.load(Ordering::Relaxed) == 1;
        let slept = if on_line && is_alone {
            read_line_waiting(fd, record, parts, got, flags, control)
        } else {
            sleep_on_line(fd, flags)
        };
        drop(sleeper);
        spin.woke();
        if is_over(fd, record, generation) {
            let is_same = record.generation() == generation;
            return match (
                &slept,
                descriptors::any_descriptor(record).filter(|_| is_same),
            ) {
                // There is a duplicate of what was closed.
                (Ok(woken), Some(other)) if got == 0 && woken.has_not_read() => {
                    receive_some(other, record, parts, flags, control)
                }
                _ => after_close(slept, got),
            };
        }
        let slept = slept.map(|woken| woken.bytes);
        match slept {
            Ok(bytes) if bytes > 0 => {
                got += bytes;
                if peeks && got < enough {
                    return peek_waiting(fd, record, parts, flags);
                }
                if got >= enough {
                    let held = record.recv_lock.hold();
                    held.iter().for_each(|held| awake(record, held, false));
                    return got as ssize_t;
                }
            }
            // Meanwhile the program has been confined: the rest is its own call.
            Ok(_) if slots::is_hidden() && got == 0 => {
                return kernel_receive_as_asked(fd, parts, flags, control.as_mut());
            }
            Ok(_) if slots::is_hidden() => return got as ssize_t,
            // A token, or the end of the line.
            Ok(_) => _ = note_line(record),
            Err(error @ (libc::EINTR | libc::EAGAIN | libc::EFAULT)) => {
                return if got > 0 { got as ssize_t } else { fail(error) };
            }
            // The kernel tells an error once. What was put into the ring before it comes first.
            Err(error) => keep_error(record, error),
        }
    }
}

/// A read that the kernel does alone, until this is dropped: the socket does not go up meanwhile,
/// since nobody would count what is read.
pub struct ReadPastUs {
    record: &'static Record,
    generation: u32,
}

/// Before such a read; `None` if the socket has just gone up.
pub fn read_past_us(record: &'static Record) -> Option<ReadPastUs> {
    let _held = record.recv_lock.hold()?;
    (record.state() != State::Up).then(|| {
        // Relaxed: read under the lock that we have.
        record.direct_reads.fetch_add(1, Ordering::Relaxed);
        ReadPastUs {
            record,
            generation: record.generation(),
        }
    })
}

impl Drop for ReadPastUs {
    fn drop(&mut self) {
        if self.record.generation() == self.generation {
            // Release: partner: the acquire in go_up; the bytes come first.
            self.record.direct_reads.fetch_sub(1, Ordering::Release);
        }
    }
}

/// A thread that sleeps on a socket, until this is dropped: it may be cancelled.
struct Sleeper {
    record: &'static Record,
    generation: u32,
}

impl Sleeper {
    fn new(record: &'static Record) -> Sleeper {
        // Relaxed: under the lock.
        record.sleepers.fetch_add(1, Ordering::Relaxed);
        let generation = record.generation();
        Sleeper { record, generation }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // Relaxed: closed meanwhile, it may be another socket's.
        if self.record.generation() == self.generation {
            self.record.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Before a sleep of a read: if it is not the first, waits for what is left of the time that a read may
/// take, which the kernel would count anew. Returns what the read has failed with by then.
fn has_had_its_time(fd: c_int, since_ns: &mut Option<u64>) -> Option<c_int> {
    let now_ns = clock::now_ns();
    let slept_ns = now_ns - *since_ns.get_or_insert(now_ns);
    if slept_ns == 0 {
        return None;
    }
    let left_ns = kernel::time_limit_ns(fd, libc::SO_RCVTIMEO)?.saturating_sub(slept_ns);
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let left_ms = left_ns.div_ceil(1_000_000);
    // SAFETY: one descriptor.
    match unsafe {
        real::poll(
            &raw mut poll,
            1,
            c_int::try_from(left_ms).unwrap_or(c_int::MAX),
        )
    } {
        0 => Some(libc::EAGAIN),
        1.. => None,
        _ => Some(errno()),
    }
}

/// What ended a sleep in the kernel.
struct Woken {
    /// So many bytes were read.
    bytes: usize,
    /// The end of the line.
    ended: bool,
}

impl Woken {
    /// There is something, of which nothing was taken.
    const fn has_not_read(&self) -> bool {
        self.bytes == 0 && !self.ended
    }
}

/// What a call returns if another thread has closed the socket while it slept. What is in the ring is
/// lost, as the socket is.
fn after_close(slept: Result<Woken, c_int>, got: usize) -> ssize_t {
    match slept {
        Ok(woken) if got + woken.bytes > 0 => (got + woken.bytes) as ssize_t,
        Err(_) if got > 0 => got as ssize_t,
        Ok(woken) if woken.ended => 0,
        Ok(_) => fail(libc::EBADF),
        Err(error) => fail(error),
    }
}

/// Reads from the line as the kernel does, waiting. The receiver has armed in an epoch of the
/// line that was open then: there is nothing but bytes of the stream on it until it is awake again.
fn read_line_waiting(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
) -> Result<Woken, c_int> {
    let limit = total(parts) - got;
    let generation = record.generation();
    let uncounted = Uncounted {
        fd,
        record,
        generation,
    };
    // Relaxed: who counts anew does so under the lock, which is taken below.
    let recounts = record.recounts.load(Ordering::Relaxed);
    let result = kernel_receive(
        fd,
        parts,
        got,
        limit,
        flags & !libc::MSG_WAITALL,
        control.as_mut(),
    );
    core::mem::forget(uncounted);
    if result < 0 {
        return Err(errno());
    }
    let bytes = result.unsigned_abs();
    let read = if flags & libc::MSG_PEEK == 0 {
        bytes
    } else {
        0
    };
    let held = record.recv_lock.hold();
    if let Some(held) = held.filter(|_| record.generation() == generation) {
        let receiver = record.receiver(&held);
        // Relaxed: as above. Another thread may have counted what this one read.
        if record.recounts.load(Ordering::Relaxed) == recounts {
            held.moving(|| receiver.read_kernel(&record.carrier(), read as u64));
        } else {
            mend(fd, record, &held);
        }
        tell_read(record, &held);
    }
    Ok(Woken {
        bytes,
        ended: bytes == 0,
    })
}

/// A read of the line that waits. Dropped, its thread was cancelled, perhaps with bytes that nobody has
/// counted: then the kernel is asked.
struct Uncounted<'a> {
    fd: c_int,
    record: &'a Record,
    generation: u32,
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        let Some(held) = self.record.recv_lock.hold() else {
            return;
        };
        if self.record.generation() == self.generation {
            mend(self.fd, self.record, &held);
        }
    }
}

/// As [`receive_now`], of a socket that is not up: from the kernel, which is not let wait
/// in a read, because the socket may go up meanwhile.
fn plain_now(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
) -> Step {
    let wanted = total(parts) - got;
    let now = flags | libc::MSG_DONTWAIT;
    let result = kernel_receive(fd, parts, got, wanted, now, control.as_mut());
    unix_streams::count_in(record, result, flags);
    match result {
        0 if wanted == 0 => Step::Bytes(0),
        0 => Step::End,
        bytes @ 1.. => Step::Bytes(bytes.unsigned_abs()),
        _ if errno() == libc::EAGAIN => Step::Nothing,
        _ => Step::Failed(errno()),
    }
}

/// There is something on the line, which the next look asks for.
fn note_line(record: &Record) -> bool {
    record.set(CHECK_LINE, true);
    true
}

/// Waits until there is something on the line, a token or more, as a blocking `recv` does.
fn sleep_on_line(fd: c_int, flags: c_int) -> Result<Woken, c_int> {
    let mut byte = 0_u8;
    let keep = flags & (libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC);
    // SAFETY: one byte of ours.
    let result = unsafe { real::recv(fd, (&raw mut byte).cast(), 1, keep | libc::MSG_PEEK) };
    let ended = result == 0;
    if result < 0 {
        Err(errno())
    } else {
        Ok(Woken { bytes: 0, ended })
    }
}

enum Step {
    Bytes(usize),
    Nothing,
    End,
    /// Bytes were read, and here is the urgent mark: a read goes on to there.
    Mark,
    Failed(c_int),
}

/// Gives what there is, without waiting.
fn receive_now(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
    held: &Held<'_>,
) -> Result<Step, Broken> {
    let step = receive_next(fd, record, parts, got, flags, control, held)?;
    match step {
        Step::Bytes(bytes)
            if flags & (libc::MSG_PEEK | libc::MSG_TRUNC) == libc::MSG_PEEK
                && bytes < total(parts) =>
        {
            // Some may be in the other lane.
            Ok(Step::Bytes(peek_now(fd, record, parts, held).max(bytes)))
        }
        step => Ok(step),
    }
}

/// As [`receive_now`], of one epoch.
fn receive_next(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
    held: &Held<'_>,
) -> Result<Step, Broken> {
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    awake(record, held, !is_to_wait(record, flags));
    let wanted = total(parts) - got;
    for _ in 0..8 {
        match receiver.next(&carrier)? {
            Next::Ring(bytes) => {
                let len = wanted.min(bytes as usize);
                let mut done = 0;
                if flags & libc::MSG_TRUNC == 0 {
                    if !room_is_there(parts, got, len) {
                        return Ok(Step::Failed(libc::EFAULT));
                    }
                    for_each_stretch(parts, got, len, |part, skip, len| {
                        // SAFETY: the program's buffer.
                        receiver.copy(&carrier, done, unsafe { slice_mut(part, skip, len) });
                        done += len as u64;
                    });
                }
                order::heard(record);
                if flags & libc::MSG_PEEK == 0 {
                    receiver.took(&carrier, len as u64);
                    count_bytes(&record.ring_bytes_in, len);
                    // Armed still: others sleep.
                    let others = record.sleepers.load(Ordering::Relaxed) > 0 || receiver.is_armed();
                    if others && !receiver.is_armed_now(&carrier) {
                        // What is there already, this thread's next call finds.
                        let _ = receiver.arm(&carrier);
                    }
                    take_tokens_ahead(fd, record, held);
                }
                return Ok(Step::Bytes(len));
            }
            Next::Kernel(_) if got > 0 && is_at_mark(fd) => {
                receiver.read_kernel(&carrier, 0);
                return Ok(Step::Mark);
            }
            Next::Kernel(limit) => {
                let limit = wanted.min(usize::try_from(limit).unwrap_or(usize::MAX));
                let now = flags | libc::MSG_DONTWAIT;
                let result = kernel_receive(fd, parts, got, limit, now, control.as_mut());
                let bytes = if flags & libc::MSG_PEEK == 0 {
                    result.max(0)
                } else {
                    0
                };
                let error = if result < 0 { errno() } else { 0 };
                receiver.read_kernel(&carrier, bytes.unsigned_abs() as u64);
                if bytes > 0 {
                    fast_path::note_heard_on_line(record);
                }
                tell_read(record, held);
                let ended =
                    wanted > 0 && result <= 0 && error != libc::EAGAIN && error != libc::EINTR;
                if ended && receiver.is_ready(&carrier) {
                    // What was put into the ring before the end comes first.
                    keep_error(record, error);
                    continue;
                }
                return Ok(match result {
                    0 if wanted == 0 => Step::Bytes(0),
                    0 => ended_with(fd, record, 0),
                    1.. => Step::Bytes(result.unsigned_abs()),
                    _ if error == libc::EAGAIN => Step::Nothing,
                    _ => ended_with(fd, record, error),
                });
            }
            Next::WakeBytes(count) => match take_tokens(fd, record, held, count) {
                Tokens::Taken => {}
                Tokens::NotYet => return Ok(Step::Nothing),
                // What was put into the ring before the end is there by now.
                Tokens::End if receiver.is_ready(&carrier) => receiver.took_wake_bytes(count),
                Tokens::End => return Ok(ended_with(fd, record, 0)),
                Tokens::Failed(error) if receiver.is_ready(&carrier) => {
                    receiver.took_wake_bytes(count);
                    keep_error(record, error);
                }
                Tokens::Failed(error) => return Ok(ended_with(fd, record, error)),
            },
            Next::Empty => match end_of_line(fd, record) {
                Line::Quiet => return Ok(Step::Nothing),
                // What is sent there is announced before. If this was not, it lies there for ever,
                // and in front of the end.
                Line::Bytes if receiver.next(&carrier)? == Next::Empty => {
                    return Err(Broken::Stray);
                }
                Line::Bytes => {}
                Line::Ended(error) if receiver.is_ready(&carrier) => keep_error(record, error),
                Line::Ended(error) => return Ok(ended_with(fd, record, error)),
            },
        }
    }
    Ok(Step::Nothing)
}

/// Whether another lane has bytes behind those that were read, or had, or will.
fn has_more(record: &Record, held: &Held<'_>) -> bool {
    record.receiver(held).epochs_ahead(&record.carrier()) > 1
}

/// The line has ended, with an error or without, and the ring is empty.
fn ended_with(fd: c_int, record: &Record, error: c_int) -> Step {
    // A reset is told once, whoever found it.
    let is_told = error == libc::ECONNRESET && record.has(RESET_TOLD);
    let error = if is_told { 0 } else { error };
    match error {
        0 => lost_bytes::note_ended(record),
        _ => lost_bytes::note_error(record, error),
    }
    match error {
        0 if lost_bytes::take_reset(fd, record) => Step::Failed(libc::ECONNRESET),
        0 => Step::End,
        _ => Step::Failed(error),
    }
}

/// The socket is being read. Unless others sleep on it, nobody need send a token; then the
/// waits to come look at it themselves. Not if they may be unseen, after a read that does not wait.
fn awake(record: &Record, held: &Held<'_>, may_wait_unseen: bool) {
    let receiver = record.receiver(held);
    if !receiver.is_armed() || (may_wait_unseen && !empty_reads::is_known(record)) {
        return;
    }
    if is_alone(record) && sets::now_up(record) {
        receiver.disarm(&record.carrier());
    }
}

/// What the line is at, while the ring is empty.
enum Line {
    /// There is nothing on it, as far as was looked.
    Quiet,
    /// There are bytes.
    Bytes,
    /// It has ended: 0, or failed with an error.
    Ended(c_int),
}

/// Asks the kernel now and then only.
fn end_of_line(fd: c_int, record: &Record) -> Line {
    if let Some(error) = take_kept_error(record) {
        note_line(record);
        return Line::Ended(error);
    }
    if fast_path::may_skip_line(record) {
        return Line::Quiet;
    }
    record
        .line_checked_ns
        .store(clock::tick_ns(), Ordering::Relaxed);
    record.set(CHECK_LINE, false);
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: one byte of ours.
    match cancel::uncancelled(|| unsafe { real::recv(fd, (&raw mut byte).cast(), 1, flags) }) {
        0 => {
            // The next call is told so, too.
            note_line(record);
            Line::Ended(0)
        }
        1.. => Line::Bytes,
        _ if errno() == libc::EAGAIN || errno() == libc::EINTR => Line::Quiet,
        // Peeking has taken the error off the socket: so we tell it. The end is behind it.
        _ => {
            note_line(record);
            Line::Ended(errno())
        }
    }
}
