//! Receiving, in all cases that the fast path does not take.
//!
//! A blocking read goes round a loop: take what there is without blocking, poll for a while, arm the
//! receiver, sleep in the kernel, and look again.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_calls::message;
use barewire_cpu::probes::sockets as probes;
use barewire_fabric::hybrid::{Broken, Next};
use libc::ssize_t;

use crate::epoll::sets;
use crate::process::clock;
use crate::process::lock::{Held, WITHOUT_LIMIT};
use crate::process::spin::{self, Spin};
use crate::stream::buffers::{
    Control, Parts, for_each_stretch, kernel_receive, kernel_receive_all, kernel_receive_as_asked,
    slice_mut, total,
};
use crate::stream::calls::{
    arm, break_connection, count_bytes, is_at_mark, is_closed_since, may_block,
};
use crate::stream::peeking::{peek_now, peek_waiting, room_is_there};
use crate::stream::pending_error::{keep_error, take_kept_error};
use crate::stream::receive_side::{publish_read, recover};
use crate::stream::sleeping::{
    Sleeper, Woken, read_kernel_blocking, sleep_in_kernel, wait_out_time_limit,
};
use crate::stream::wake_bytes::{TakeResult, is_alone, take_wake_bytes, take_wake_bytes_ahead};
use crate::stream::{capture, empty_reads, fast_path, lost_bytes, low_water, order, recall};
use crate::system::{
    cancel, kernel,
    real::{self, errno, fail},
};
use crate::table::directions::peer_is_near;
use crate::table::flags::{CHECK_KERNEL, LOW_WATER, RESET_REPORTED, UNIX};
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{descriptors, slots};
use crate::upgrade::{steps, unix_streams};

/// How often a non-blocking read looks again because something has come.
const ROUNDS_MAX: u32 = 64;

/// Receives as `recvmsg` would. The socket is upgraded, or may be at any moment.
pub fn receive(fd: c_int, socket: &'static SocketState, parts: Parts<'_>, flags: c_int) -> ssize_t {
    // What follows ends in waits only.
    cancel::end_if_cancelled();
    fast_path::receive(fd, socket, parts, flags)
        .unwrap_or_else(|| receive_with(fd, socket, parts, flags, &mut None))
}

/// As [`receive`], with the control data that comes with bytes of the kernel connection.
// Not inlined, so that the fast path has its registers to itself.
#[inline(never)]
pub fn receive_with(
    fd: c_int,
    socket: &'static SocketState,
    parts: Parts<'_>,
    flags: c_int,
    control: &mut Option<Control>,
) -> ssize_t {
    let result = real::keeping_errno(|| receive_some(fd, socket, parts, flags, control));
    if socket.has(LOW_WATER) {
        let saved = errno();
        let held = socket.recv_lock.hold();
        held.iter()
            .for_each(|held| low_water::update_kernel_mark(fd, socket, held));
        real::set_errno(saved);
    }
    if capture::is_on() {
        capture::received(fd, socket, parts, flags, result);
    }
    result
}

fn receive_some(
    fd: c_int,
    socket: &'static SocketState,
    parts: Parts<'_>,
    flags: c_int,
    control: &mut Option<Control>,
) -> ssize_t {
    let mut directly = || kernel_receive_all(fd, parts, flags, control.as_mut());
    if let Some(result) = unix_streams::read_directly(fd, socket, flags, &mut directly) {
        return result;
    }
    if let Some(result) = read_alone(socket, parts, &mut directly) {
        return result;
    }
    let mut call = Call::new(fd, socket, parts, flags);
    loop {
        if let Some(result) = call.round(control) {
            spin::got_on(1, call.got as u64);
            return result;
        }
    }
}

/// One receive call of the program.
struct Call<'a> {
    fd: c_int,
    socket: &'static SocketState,
    parts: Parts<'a>,
    flags: c_int,
    /// Whether it may block.
    waits: bool,
    /// Bytes that there is room for.
    wanted: usize,
    /// Bytes that are enough for it to return.
    enough: usize,
    /// The socket's generation when the call began.
    generation: Option<u32>,
    /// Bytes received so far.
    got: usize,
    spin: Spin,
    /// How often something came just before the call was to report that there is nothing.
    rounds: u32,
    /// When it first slept.
    slept_since_ns: Option<u64>,
}

/// What a round does after it has taken what there was.
enum After {
    Return(ssize_t),
    Again,
    /// Peek until there is enough, without the lock.
    Peek,
    /// Wait for more.
    Wait,
}

impl<'a> Call<'a> {
    fn new(fd: c_int, socket: &'static SocketState, parts: Parts<'a>, flags: c_int) -> Self {
        let waits = may_block(socket, flags);
        let wanted = total(parts);
        let enough = match flags & libc::MSG_WAITALL {
            // So does the kernel peek at a Unix socket.
            _ if !waits || (flags & libc::MSG_PEEK != 0 && socket.has(UNIX)) => 1,
            0 => low_water::minimum(socket),
            _ => usize::MAX,
        };
        Self {
            fd,
            socket,
            parts,
            flags,
            waits,
            wanted,
            enough: enough.min(wanted),
            generation: None,
            got: 0,
            spin: Spin::begin(),
            rounds: 0,
            slept_since_ns: None,
        }
    }

    const fn peeks(&self) -> bool {
        self.flags & libc::MSG_PEEK != 0
    }

    /// The result of a call that fails with `error`, unless it has received something.
    fn got_or(&self, error: c_int) -> ssize_t {
        match self.got {
            0 => fail(error),
            got => got as ssize_t,
        }
    }

    /// Takes what there is, and waits for more if that is not enough. Returns the result of the call, if it
    /// is over.
    fn round(&mut self, control: &mut Option<Control>) -> Option<ssize_t> {
        let (fd, socket) = (self.fd, self.socket);
        let Some(held) = socket.recv_lock.hold_unless_cancelled(WITHOUT_LIMIT) else {
            return Some(fail(libc::EAGAIN));
        };
        if held.is_taken_over() && !recover(fd, socket, &held) {
            return Some(break_connection(fd, socket));
        }
        let generation = *self.generation.get_or_insert_with(|| socket.generation());
        // A relay may have taken its place: then the descriptor is the kernel's.
        let is_up = socket.state() == State::Upgraded && descriptors::is_of(fd, socket);
        match self.take(is_up, control, &held) {
            After::Return(result) => return Some(result),
            After::Again => return None,
            After::Peek => {
                drop(held);
                return Some(peek_waiting(fd, socket, self.parts, self.flags));
            }
            After::Wait if is_up && self.poll(&held) => return None,
            After::Wait => {}
        }
        let on_kernel = is_up
            && socket
                .receiver(&held)
                .is_on_open_kernel_epoch(&socket.memory());
        if is_up && self.got > 0 && socket.has(LOW_WATER) {
            low_water::set_kernel_mark(fd, socket, &held, (self.enough - self.got) as u64);
        }
        // Counted, while we have the lock: until we are back, nobody disarms, so the sender
        // stays with the kernel connection.
        let sleeper = Sleeper::new(socket);
        drop(held);
        if let Some(error) = wait_out_time_limit(fd, &mut self.slept_since_ns) {
            return Some(self.got_or(error));
        }
        // Who is killed in a read that waits leaves nobody who knows of it.
        let is_alone = socket.process_count_alone() == 1;
        probes::sleeps(fd);
        let slept = if on_kernel && is_alone {
            read_kernel_blocking(fd, socket, self.parts, self.got, self.flags, control)
        } else {
            sleep_in_kernel(fd, self.flags)
        };
        probes::woken(fd);
        drop(sleeper);
        self.spin.woke();
        if is_closed_since(fd, socket, generation) {
            return Some(self.after_close(slept, generation, control));
        }
        self.after_sleep(slept.map(|woken| woken.bytes), control)
    }

    /// Takes what there is, without waiting.
    fn take(&mut self, is_up: bool, control: &mut Option<Control>, held: &Held<'_>) -> After {
        let (fd, socket, parts, flags) = (self.fd, self.socket, self.parts, self.flags);
        let step = if is_up {
            held.moving(|| receive_now(fd, socket, parts, self.got, flags, control, held))
        } else {
            unix_streams::mark_first(fd, socket);
            let got = self.got;
            Ok(receive_without_stream(
                fd, socket, parts, got, flags, control,
            ))
        };
        match step {
            Ok(Step::Bytes(bytes)) => return self.took(bytes, is_up, control, held),
            // The next call is told.
            Ok(Step::Failed(error)) if self.got > 0 => {
                if error != libc::EFAULT {
                    keep_error(socket, error);
                }
                return After::Return(self.got as ssize_t);
            }
            Ok(Step::Failed(error)) => return After::Return(fail(error)),
            Ok(Step::End | Step::Mark) if self.got > 0 => {
                return After::Return(self.got as ssize_t);
            }
            // A sleep may have taken an error off the kernel connection, which then looks ended.
            Ok(Step::End | Step::Mark) => {
                return After::Return(take_kept_error(socket).map_or(0, fail));
            }
            Ok(Step::Nothing) => recall::answer_recall(fd, socket),
            Err(_) => return After::Return(break_connection(fd, socket)),
        }
        if !self.waits && self.got == 0 {
            // A sound other end has something by then.
            if is_up && !empty_reads::may_report_empty(socket, held) && self.rounds < ROUNDS_MAX {
                self.rounds += 1;
                return After::Again;
            }
            return After::Return(fail(libc::EAGAIN));
        }
        if !self.waits || self.got >= self.enough {
            return After::Return(self.got as ssize_t);
        }
        After::Wait
    }

    /// So many bytes more were received.
    fn took(
        &mut self,
        bytes: usize,
        is_up: bool,
        control: &Option<Control>,
        held: &Held<'_>,
    ) -> After {
        self.got += bytes;
        let has_control =
            self.socket.has(UNIX) && control.as_ref().is_some_and(|control| control.len > 0);
        let has_room = !self.peeks() && self.got < self.wanted;
        let goes_on = is_up && has_room && may_have_more(self.socket, held);
        if bytes == 0 || has_control || (self.got >= self.enough && !goes_on) {
            self.spin.paid(self.got > 0);
            return After::Return(self.got as ssize_t);
        }
        if self.peeks() {
            After::Peek
        } else {
            After::Again
        }
    }

    /// Polls for a while, and then arms the receiver. Returns whether there is something to do.
    fn poll(&mut self, held: &Held<'_>) -> bool {
        let (fd, socket) = (self.fd, self.socket);
        let memory = socket.memory();
        let is_ready = || socket.receiver(held).is_ready(&memory);
        let rarely =
            || kernel::events_now(fd, libc::POLLIN) != 0 && note_kernel_has_something(socket);
        self.spin
            .until_or(is_ready, rarely, || peer_is_near(socket))
            || !arm(socket, held)
            || recall::is_recall_asked(socket)
    }

    /// The result of the call, of which the socket was closed while it slept.
    fn after_close(
        &self,
        slept: Result<Woken, c_int>,
        generation: u32,
        control: &mut Option<Control>,
    ) -> ssize_t {
        let is_same = self.socket.generation() == generation;
        let other = descriptors::any_descriptor(self.socket).filter(|_| is_same);
        match (&slept, other) {
            // There is a duplicate of what was closed.
            (Ok(woken), Some(other)) if self.got == 0 && woken.has_not_read() => {
                receive_some(other, self.socket, self.parts, self.flags, control)
            }
            _ => result_after_close(slept, self.got),
        }
    }

    /// After a sleep that brought so many bytes, or an error. Returns the result of the call, if it is over.
    fn after_sleep(
        &mut self,
        slept: Result<usize, c_int>,
        control: &mut Option<Control>,
    ) -> Option<ssize_t> {
        let (fd, socket, parts, flags) = (self.fd, self.socket, self.parts, self.flags);
        match slept {
            Ok(bytes) if bytes > 0 => {
                self.got += bytes;
                if self.peeks() && self.got < self.enough {
                    return Some(peek_waiting(fd, socket, parts, flags));
                }
                if self.got >= self.enough {
                    let held = socket.recv_lock.hold();
                    held.iter()
                        .for_each(|held| disarm_if_awake(socket, held, false));
                    return Some(self.got as ssize_t);
                }
            }
            // Meanwhile the program has been sandboxed: the rest is its own call.
            Ok(_) if slots::is_hidden() && self.got == 0 => {
                return Some(kernel_receive_as_asked(fd, parts, flags, control.as_mut()));
            }
            Ok(_) if slots::is_hidden() => return Some(self.got as ssize_t),
            // A wake-up byte, or the end of the kernel connection.
            Ok(_) => _ = note_kernel_has_something(socket),
            Err(error @ (libc::EINTR | libc::EAGAIN | libc::EFAULT)) => {
                return Some(self.got_or(error));
            }
            // The kernel tells an error once. What was put into the ring before it comes first.
            Err(error) => keep_error(socket, error),
        }
        None
    }
}

/// Has the kernel execute a whole read while an upgrade is far: one call, where a wait that may be upgraded takes three.
fn read_alone(
    socket: &'static SocketState,
    parts: Parts<'_>,
    read: impl FnOnce() -> ssize_t,
) -> Option<ssize_t> {
    // To receive no bytes waits in the kernel, to read none does not: here nobody knows which it was.
    if !steps::is_upgrade_far(socket) || total(parts) == 0 {
        return None;
    }
    let _past_us = read_past_us(socket)?;
    Some(read())
}

/// A read that the kernel executes alone, until this is dropped. The socket is not upgraded meanwhile,
/// since nobody would count the bytes.
pub struct ReadPastUs {
    socket: &'static SocketState,
    generation: u32,
}

/// Begins such a read; `None` if the socket has just been upgraded.
pub fn read_past_us(socket: &'static SocketState) -> Option<ReadPastUs> {
    let _held = socket.recv_lock.hold()?;
    (socket.state() != State::Upgraded).then(|| {
        // Relaxed: read under the lock that we have.
        socket.direct_reads.fetch_add(1, Ordering::Relaxed);
        ReadPastUs {
            socket,
            generation: socket.generation(),
        }
    })
}

impl Drop for ReadPastUs {
    fn drop(&mut self) {
        if self.socket.generation() == self.generation {
            // Release pairs with the Acquire in `steps::upgrade`: the bytes come first.
            self.socket.direct_reads.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The result of a call if another thread has closed the socket while it slept. Bytes in the ring are lost,
/// as the socket is.
fn result_after_close(slept: Result<Woken, c_int>, got: usize) -> ssize_t {
    match slept {
        Ok(woken) if got + woken.bytes > 0 => (got + woken.bytes) as ssize_t,
        Err(_) if got > 0 => got as ssize_t,
        Ok(woken) if woken.ended => 0,
        Ok(_) => fail(libc::EBADF),
        Err(error) => fail(error),
    }
}

/// As [`receive_now`], for a socket that is not upgraded: from the kernel, never blocking, because the
/// socket may be upgraded meanwhile.
fn receive_without_stream(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
) -> Step {
    let wanted = total(parts) - got;
    let now = flags | libc::MSG_DONTWAIT;
    let result = kernel_receive(fd, parts, got, wanted, now, control.as_mut());
    unix_streams::count_in(socket, result, flags);
    match result {
        0 if wanted == 0 => Step::Bytes(0),
        0 => Step::End,
        bytes @ 1.. => Step::Bytes(bytes.unsigned_abs()),
        _ if errno() == libc::EAGAIN => Step::Nothing,
        _ => Step::Failed(errno()),
    }
}

/// The kernel connection has something, which the next poll asks for.
fn note_kernel_has_something(socket: &SocketState) -> bool {
    socket.set(CHECK_KERNEL, true);
    true
}

enum Step {
    Bytes(usize),
    Nothing,
    End,
    /// Bytes were read, and here is the urgent mark: a read goes on to there.
    Mark,
    Failed(c_int),
}

/// Takes what there is, without waiting.
fn receive_now(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
    held: &Held<'_>,
) -> Result<Step, Broken> {
    let step = receive_next(fd, socket, parts, got, flags, control, held)?;
    match step {
        Step::Bytes(bytes)
            if flags & (libc::MSG_PEEK | libc::MSG_TRUNC) == libc::MSG_PEEK
                && bytes < total(parts) =>
        {
            // Some may be in the other path.
            Ok(Step::Bytes(peek_now(fd, socket, parts, held).max(bytes)))
        }
        step => Ok(step),
    }
}

/// As [`receive_now`], of one epoch.
fn receive_next(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
    held: &Held<'_>,
) -> Result<Step, Broken> {
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    disarm_if_awake(socket, held, !may_block(socket, flags));
    let wanted = total(parts) - got;
    for _ in 0..8 {
        match receiver.next(&memory)? {
            Next::Ring(bytes) => {
                let len = wanted.min(bytes as usize);
                return Ok(take_from_ring(fd, socket, parts, got, len, flags, held));
            }
            Next::Kernel(_) if got > 0 && is_at_mark(fd) => {
                receiver.read_kernel(&memory, 0);
                return Ok(Step::Mark);
            }
            Next::Kernel(limit) => {
                let limit = wanted.min(usize::try_from(limit).unwrap_or(usize::MAX));
                let step = take_from_kernel(fd, socket, parts, got, limit, flags, control, held);
                if let Some(step) = step {
                    return Ok(step);
                }
            }
            Next::WakeBytes(count) => match take_wake_bytes(fd, socket, held, count) {
                TakeResult::Taken => {}
                TakeResult::NotYet => return Ok(Step::Nothing),
                // What was put into the ring before the end is there by now.
                TakeResult::End if receiver.is_ready(&memory) => receiver.took_wake_bytes(count),
                TakeResult::End => return Ok(ended_with(fd, socket, 0)),
                TakeResult::Failed(error) if receiver.is_ready(&memory) => {
                    receiver.took_wake_bytes(count);
                    keep_error(socket, error);
                }
                TakeResult::Failed(error) => return Ok(ended_with(fd, socket, error)),
            },
            Next::Empty => match poll_end_of_kernel(fd, socket) {
                Line::Quiet => return Ok(Step::Nothing),
                // What is sent there is announced before. If this was not, it lies there for ever,
                // and in front of the end.
                Line::Bytes if receiver.next(&memory)? == Next::Empty => {
                    return Err(Broken::Stray);
                }
                Line::Bytes => {}
                Line::Ended(error) if receiver.is_ready(&memory) => keep_error(socket, error),
                Line::Ended(error) => return Ok(ended_with(fd, socket, error)),
            },
        }
    }
    Ok(Step::Nothing)
}

/// Takes `len` bytes of the ring, or peeks at them.
fn take_from_ring(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    got: usize,
    len: usize,
    flags: c_int,
    held: &Held<'_>,
) -> Step {
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    let mut done = 0;
    if flags & libc::MSG_TRUNC == 0 {
        if !room_is_there(parts, got, len) {
            return Step::Failed(libc::EFAULT);
        }
        for_each_stretch(parts, got, len, |part, skip, len| {
            // SAFETY: the program's buffer.
            receiver.copy(&memory, done, unsafe { slice_mut(part, skip, len) });
            done += len as u64;
        });
    }
    order::heard(socket);
    if flags & libc::MSG_PEEK == 0 {
        receiver.took(&memory, len as u64);
        count_bytes(&socket.ring_bytes_in, len);
        // Armed still: others sleep.
        let others = socket.sleepers.get() > 0 || receiver.is_armed();
        if others && !receiver.is_armed_now(&memory) {
            // What is there already, this thread's next call finds.
            let _ = receiver.arm(&memory);
        }
        take_wake_bytes_ahead(fd, socket, held);
    }
    Step::Bytes(len)
}

/// Reads up to `limit` bytes of the kernel connection, or peeks at them. `None`: it has ended, and the
/// ring has bytes that come before the end.
#[expect(
    clippy::too_many_arguments,
    reason = "the call, and what of it is left"
)]
fn take_from_kernel(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    got: usize,
    limit: usize,
    flags: c_int,
    control: &mut Option<Control>,
    held: &Held<'_>,
) -> Option<Step> {
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    let now = flags | libc::MSG_DONTWAIT;
    let result = kernel_receive(fd, parts, got, limit, now, control.as_mut());
    let bytes = if flags & libc::MSG_PEEK == 0 {
        result.max(0)
    } else {
        0
    };
    let error = if result < 0 { errno() } else { 0 };
    receiver.read_kernel(&memory, bytes.unsigned_abs() as u64);
    if bytes > 0 {
        fast_path::note_heard_from_kernel(socket);
    }
    publish_read(socket, held);
    let is_wanted = total(parts) > got;
    let ended = is_wanted && result <= 0 && error != libc::EAGAIN && error != libc::EINTR;
    if ended && receiver.is_ready(&memory) {
        // What was put into the ring before the end comes first.
        keep_error(socket, error);
        return None;
    }
    Some(match result {
        0 if !is_wanted => Step::Bytes(0),
        0 => ended_with(fd, socket, 0),
        1.. => Step::Bytes(result.unsigned_abs()),
        _ if error == libc::EAGAIN => Step::Nothing,
        _ => ended_with(fd, socket, error),
    })
}

/// Whether another path has, had or will have bytes behind those that were read.
fn may_have_more(socket: &SocketState, held: &Held<'_>) -> bool {
    socket.receiver(held).epochs_ahead(&socket.memory()) > 1
}

/// The kernel connection has ended, with an error or without, and the byte ring is empty.
fn ended_with(fd: c_int, socket: &SocketState, error: c_int) -> Step {
    // A reset is told once, whoever found it.
    let is_told = error == libc::ECONNRESET && socket.has(RESET_REPORTED);
    let is_none = is_told || lost_bytes::is_for_wake_byte(socket, error);
    let error = if is_none { 0 } else { error };
    match error {
        0 => lost_bytes::note_ended(socket),
        _ => lost_bytes::note_error(socket, error),
    }
    match error {
        0 if lost_bytes::take_reset(fd, socket) => Step::Failed(libc::ECONNRESET),
        0 => Step::End,
        _ => Step::Failed(error),
    }
}

/// The socket is being read. Unless other threads sleep on it, the other end need not send wake-up bytes:
/// later waits poll the ring themselves. Not after a non-blocking read that waits may follow which are not
/// intercepted.
fn disarm_if_awake(socket: &SocketState, held: &Held<'_>, may_wait_unseen: bool) {
    let receiver = socket.receiver(held);
    if !receiver.is_armed() || (may_wait_unseen && !empty_reads::is_known(socket)) {
        return;
    }
    if is_alone(socket) && sets::now_upgraded(socket) {
        receiver.disarm(&socket.memory());
    }
}

/// The state of the kernel connection while the byte ring is empty.
enum Line {
    /// There is nothing on it, as far as was looked.
    Quiet,
    /// There are bytes.
    Bytes,
    /// It has ended: 0, or failed with an error.
    Ended(c_int),
}

/// Asks the kernel whether the connection has ended, at most once a tick.
fn poll_end_of_kernel(fd: c_int, socket: &SocketState) -> Line {
    if let Some(error) = take_kept_error(socket) {
        note_kernel_has_something(socket);
        return Line::Ended(error);
    }
    if fast_path::may_skip_kernel(socket) {
        return Line::Quiet;
    }
    socket.kernel_checked_ns.set(clock::tick_ns());
    socket.set(CHECK_KERNEL, false);
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    match message::receive_bytes(fd, &mut [0], flags) {
        Ok([]) => {
            // The next call is told so, too.
            note_kernel_has_something(socket);
            Line::Ended(0)
        }
        Ok(_) => Line::Bytes,
        Err(libc::EAGAIN | libc::EINTR) => Line::Quiet,
        // Peeking has taken the error off the socket: so we tell it. The end is behind it.
        Err(errno) => {
            note_kernel_has_something(socket);
            Line::Ended(errno)
        }
    }
}
