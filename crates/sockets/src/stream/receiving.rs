//! Receiving. See [`super`].

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::{Broken, LEAVING, Next, Receiver, SharedMemory};
use libc::ssize_t;

use super::give_up;
use crate::buffers::{Parts, for_each_stretch, kernel_receive, slice_mut, total};
use crate::lock::Held;
use crate::real::{self, errno, fail};
use crate::record::{CHECK_LINE, NONBLOCKING, Record, State};
use crate::spin::Spin;
use crate::{epoll, process};

/// How often a reader that finds nothing asks the kernel whether the line has ended.
const LINE_CHECK_NS: u64 = 20_000;
/// Tokens read from the line at once.
const TOKENS_AT_ONCE: usize = 64;

/// Receives as `recvmsg` would. The socket is up, or may go up at any moment.
pub fn receive(fd: c_int, record: &Record, parts: Parts<'_>, flags: c_int) -> ssize_t {
    let waits = !record.has(NONBLOCKING) && flags & libc::MSG_DONTWAIT == 0;
    let wanted = total(parts);
    let all = flags & libc::MSG_WAITALL != 0 && waits && flags & libc::MSG_PEEK == 0;
    let mut got = 0;
    let mut spin = Spin::begin();
    loop {
        let Some(held) = record.recv_lock.hold() else {
            return fail(libc::EAGAIN);
        };
        let is_up = record.state() == State::Up;
        let step = if is_up {
            receive_now(fd, record, parts, got, flags, &held)
        } else {
            Ok(plain_now(fd, parts, got, flags))
        };
        match step {
            Ok(Step::Bytes(bytes)) => {
                got += bytes;
                if got == wanted || !all || bytes == 0 {
                    spin.paid(got > 0);
                    return got as ssize_t;
                }
                continue;
            }
            Ok(Step::Failed(error)) if got > 0 => {
                real::set_errno(error);
                return got as ssize_t;
            }
            Ok(Step::Failed(error)) => return fail(error),
            Ok(Step::End) => return got as ssize_t,
            Ok(Step::Nothing) => {}
            Err(broken) => return give_up(fd, record, broken),
        }
        if !waits {
            return match got {
                0 if is_up => nothing_yet(record, &held),
                0 => fail(libc::EAGAIN),
                _ => got as ssize_t,
            };
        }
        if wanted == 0 {
            return 0;
        }
        let carrier = record.carrier();
        if is_up && spin.until(|| record.receiver(&held).has_news(&carrier)) {
            continue;
        }
        if is_up && !record.receiver(&held).arm(&carrier) {
            continue;
        }
        drop(held);
        record.sleepers.fetch_add(1, Ordering::Relaxed);
        let slept = sleep_on_line(fd, flags);
        record.sleepers.fetch_sub(1, Ordering::Relaxed);
        match slept {
            Ok(()) => {}
            Err(error @ (libc::EINTR | libc::EAGAIN)) => {
                return if got > 0 { got as ssize_t } else { fail(error) };
            }
            // The kernel tells an error once. What was put into the ring before it comes first.
            Err(error) => record.line_error.store(error, Ordering::Relaxed),
        }
    }
}

/// As [`receive_now`], of a socket that is not up: from the kernel, which is not let wait
/// in a read, because the socket may go up meanwhile.
fn plain_now(fd: c_int, parts: Parts<'_>, got: usize, flags: c_int) -> Step {
    let wanted = total(parts) - got;
    match kernel_receive(fd, parts, got, wanted, flags) {
        0 if wanted == 0 => Step::Bytes(0),
        0 => Step::End,
        bytes @ 1.. => Step::Bytes(bytes.unsigned_abs()),
        _ if errno() == libc::EAGAIN => Step::Nothing,
        _ => Step::Failed(errno()),
    }
}

/// A read that does not wait and finds nothing. A program that then waits in a way that we
/// do not see must be woken by the kernel.
fn nothing_yet(record: &Record, held: &Held<'_>) -> ssize_t {
    let carrier = record.carrier();
    if !crate::wait::WAITS_ARE_SEEN.load(Ordering::Relaxed) {
        // If something has come, the program is told at its next call.
        let _ = record.receiver(held).arm(&carrier);
    }
    fail(libc::EAGAIN)
}

/// Waits until there is something on the line, a token or more, as a blocking `recv` does.
fn sleep_on_line(fd: c_int, flags: c_int) -> Result<(), c_int> {
    let mut byte = 0_u8;
    let keep = flags & (libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC);
    // SAFETY: one byte of ours.
    let result = unsafe { real::recv(fd, (&raw mut byte).cast(), 1, keep | libc::MSG_PEEK) };
    if result < 0 { Err(errno()) } else { Ok(()) }
}

enum Step {
    Bytes(usize),
    Nothing,
    End,
    Failed(c_int),
}

/// Gives what there is, without waiting.
fn receive_now(
    fd: c_int,
    record: &Record,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    held: &Held<'_>,
) -> Result<Step, Broken> {
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    awake(record, held);
    let wanted = total(parts) - got;
    for _ in 0..8 {
        match receiver.next(&carrier)? {
            Next::Ring(bytes) => {
                let len = wanted.min(bytes as usize);
                let mut done = 0;
                if flags & libc::MSG_TRUNC == 0 {
                    for_each_stretch(parts, got, len, |part, skip, len| {
                        // SAFETY: the program's buffer.
                        receiver.copy(&carrier, done, unsafe { slice_mut(part, skip, len) });
                        done += len as u64;
                    });
                }
                if flags & libc::MSG_PEEK == 0 {
                    receiver.took(&carrier, len as u64);
                    record
                        .ring_bytes_in
                        .fetch_add(len as u64, Ordering::Relaxed);
                    if record.sleepers.load(Ordering::Relaxed) > 0 && !receiver.is_armed() {
                        // What is there already, this thread's next call finds.
                        let _ = receiver.arm(&carrier);
                    }
                }
                return Ok(Step::Bytes(len));
            }
            Next::Line(limit) => {
                let limit = wanted.min(usize::try_from(limit).unwrap_or(usize::MAX));
                let result = kernel_receive(fd, parts, got, limit, flags);
                let bytes = if flags & libc::MSG_PEEK == 0 {
                    result.max(0)
                } else {
                    0
                };
                receiver.read_line(&carrier, bytes.unsigned_abs() as u64);
                return Ok(match result {
                    0 if wanted == 0 => Step::Bytes(0),
                    0 => Step::End,
                    1.. => Step::Bytes(result.unsigned_abs()),
                    _ if errno() == libc::EAGAIN => Step::Nothing,
                    _ => Step::Failed(errno()),
                });
            }
            Next::Tokens(count) => match take_tokens(fd, count) {
                Tokens::Taken(tokens) => receiver.took_tokens(tokens),
                Tokens::NotYet => return Ok(Step::Nothing),
                // What was put into the ring before the end is there by now.
                Tokens::End if receiver.has_news(&carrier) => receiver.took_tokens(count),
                Tokens::End => return Ok(Step::End),
                Tokens::Failed(error) => return Ok(Step::Failed(error)),
            },
            Next::Empty => match end_of_line(fd, record) {
                None => return Ok(Step::Nothing),
                Some(_) if receiver.has_news(&carrier) => {}
                Some(0) => return Ok(Step::End),
                Some(error) => return Ok(Step::Failed(error)),
            },
        }
    }
    Ok(Step::Nothing)
}

/// The socket is being read. Unless others sleep on it, nobody need send a token; then the
/// waits to come look at it themselves.
fn awake(record: &Record, held: &Held<'_>) {
    let receiver = record.receiver(held);
    // Relaxed: a sleeper that comes now arms it again.
    if receiver.is_armed() && record.sleepers.load(Ordering::Relaxed) == 0 {
        receiver.disarm(&record.carrier());
        epoll::now_up(record);
    }
}

/// What became of an attempt to take tokens off the line.
pub enum Tokens {
    Taken(u64),
    NotYet,
    End,
    Failed(c_int),
}

/// Reads at most `count` tokens, and throws them away.
pub fn take_tokens(fd: c_int, count: u64) -> Tokens {
    let mut bytes = [0_u8; TOKENS_AT_ONCE];
    let len = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    // SAFETY: `bytes` has `len` bytes.
    let result = unsafe { real::recv(fd, bytes.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) };
    match result {
        1.. => Tokens::Taken(result.unsigned_abs() as u64),
        0 => Tokens::End,
        _ if errno() == libc::EAGAIN || errno() == libc::EINTR => Tokens::NotYet,
        _ => Tokens::Failed(errno()),
    }
}

/// Takes tokens off the line before it is closed; says whether there may be more.
pub fn drop_tokens(fd: c_int, receiver: &mut Receiver, count: u64) -> bool {
    let Tokens::Taken(tokens) = take_tokens(fd, count) else {
        return false;
    };
    receiver.took_tokens(tokens);
    true
}

/// Whether the line has ended while the ring is empty: `Some(0)` at its end, `Some(error)`
/// if it failed. Asked of the kernel now and then only.
fn end_of_line(fd: c_int, record: &Record) -> Option<c_int> {
    // Relaxed, all: they stand for themselves.
    match record.line_error.swap(0, Ordering::Relaxed) {
        0 => {}
        error => return Some(error),
    }
    let now_ns = process::now_ns();
    let checked_ns = record.line_checked_ns.load(Ordering::Relaxed);
    let carrier = record.carrier();
    let leaves = carrier.load(LEAVING) | carrier.load(LEAVING + 1) != 0;
    if !leaves && !record.has(CHECK_LINE) && now_ns.wrapping_sub(checked_ns) < LINE_CHECK_NS {
        return None;
    }
    record.line_checked_ns.store(now_ns, Ordering::Relaxed);
    record.set(CHECK_LINE, false);
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: one byte of ours.
    match unsafe { real::recv(fd, (&raw mut byte).cast(), 1, flags) } {
        0 => Some(0),
        1.. => None,
        _ if errno() == libc::EAGAIN || errno() == libc::EINTR => None,
        _ => {
            let error = errno();
            // Peeking has taken the error off the socket: so we tell it.
            Some(error)
        }
    }
}
