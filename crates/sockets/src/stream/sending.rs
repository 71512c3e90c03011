//! Sending, in all cases that the fast path does not take: it chooses a path for each piece, and changes
//! paths.

use core::ffi::c_int;

use barewire_fabric::hybrid::{Broken, Path, SHORT_BYTES_MAX};
use libc::ssize_t;

use crate::epoll::sets;
use crate::process::lock::Held;
use crate::process::{clock, fault, spin};
use crate::stream::buffers::{
    PIECE_BYTES, Parts, for_each_stretch, kernel_send, offered, slice, total,
};
use crate::stream::calls::{
    break_connection, count_bytes, has_kernel_ended, is_closed_since, is_peer_leaving, may_block,
};
use crate::stream::recall::leave_ring;
use crate::stream::send_side::{
    count_sent_by_kernel, lock_for_sending, recover, wait_for_clear_kernel_path,
};
use crate::stream::wake_bytes::publish;
use crate::stream::{
    capture, empty_reads, fast_path, lost_bytes, order_marks, pending_error, ring_full_wait,
};
use crate::system::{
    cancel, kernel,
    real::{self, errno, fail},
};
use crate::table::descriptors;
use crate::table::flags::{FALLEN_BACK, MORE_TO_COME, NEVER_UPGRADE, READ_SHUT, UNIX, WRITE_SHUT};
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::upgrade::unix_streams;

/// Sends as `sendmsg` would. The socket is upgraded, or may be at any moment.
pub fn send(fd: c_int, socket: &SocketState, parts: Parts<'_>, flags: c_int) -> ssize_t {
    // What follows does not end in the middle, or can be mended.
    cancel::end_if_cancelled();
    fast_path::send(fd, socket, parts, flags).unwrap_or_else(|| send_with(fd, socket, parts, flags))
}

// Not inlined, so that the fast path has its registers to itself.
#[inline(never)]
fn send_with(fd: c_int, socket: &SocketState, parts: Parts<'_>, flags: c_int) -> ssize_t {
    let result =
        real::keeping_errno(
            || match lock_for_sending(fd, socket, may_block(socket, flags)) {
                Some(held) => send_alone(fd, socket, parts, flags, &held),
                None => fail(libc::EAGAIN),
            },
        );
    spin::got_on(0, result.max(0).unsigned_abs() as u64);
    if capture::is_on() {
        capture::sent(fd, socket, parts, result);
    }
    result
}

fn send_alone(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    flags: c_int,
    held: &Held<'_>,
) -> ssize_t {
    if let Some(error) = pending_error::take_kept_error(socket) {
        return fail(error);
    }
    if socket.state() != State::Upgraded || !descriptors::is_of(fd, socket) {
        return send_without_stream(fd, socket, parts, flags);
    }
    if socket.has(WRITE_SHUT) {
        return kernel_send_once(fd, socket, parts, 0, flags, held);
    }
    if held.is_taken_over() && !recover(fd, socket, held) {
        return break_connection(fd, socket);
    }
    if flags & libc::MSG_OOB != 0 {
        // The byte out of band is no byte of the stream to the receiver: positions say nothing
        // any more, and no epoch may end.
        socket.set(FALLEN_BACK, true);
    }
    let waits = may_block(socket, flags);
    let whole = total(parts);
    let generation = socket.generation();
    let mut sent = 0;
    loop {
        // Who has sent something is told of that, not of the end.
        let quiet = if sent > 0 { libc::MSG_NOSIGNAL } else { 0 };
        let flags = flags | quiet;
        // Behind what another thread says is the end, nothing may come.
        if sent > 0 && (is_closed_since(fd, socket, generation) || socket.has(WRITE_SHUT)) {
            return sent as ssize_t;
        }
        let step = match path_to_use(fd, socket, whole - sent, flags, held) {
            Ok(Path::Ring) => match ring_send(fd, socket, parts, sent, waits, held) {
                Ok(Put::Bytes(bytes)) => Ok(Some(bytes)),
                Ok(Put::Fault) => return with_sent(fail(libc::EFAULT), sent),
                Err(broken) => Err(broken),
            },
            // On a Unix socket the next read is told.
            Ok(Path::Kernel)
                if sent == 0 && !socket.has(UNIX) && lost_bytes::is_reset_before(socket) =>
            {
                lost_bytes::take_reset(fd, socket);
                return fail(libc::ECONNRESET);
            }
            Ok(Path::Kernel) if !wait_for_clear_kernel_path(fd, socket, waits, held) => Ok(None),
            Ok(Path::Kernel) if is_closed_since(fd, socket, generation) => {
                return with_sent(fail(libc::EBADF), sent);
            }
            Ok(Path::Kernel) => match send_by_kernel(fd, socket, parts, sent, waits, flags, held) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(result) => return with_sent(result, sent),
            },
            Err(broken) => Err(broken),
        };
        match step {
            Ok(Some(bytes)) => sent += bytes,
            Ok(None) => {
                // The kernel has room, so it does not tell when there is.
                sets::report_writable_again(socket);
                return match sent {
                    0 => fail(libc::EAGAIN),
                    _ => sent as ssize_t,
                };
            }
            Err(_) => return break_connection(fd, socket),
        }
        if sent == whole {
            return sent as ssize_t;
        }
        // As above: a short count means to programs that wait for edges that there is no room.
        if !waits && sent > 0 && empty_reads::is_known(socket) {
            sets::report_writable_again(socket);
            return sent as ssize_t;
        }
        // Of sets that we do not know, only the kernel can tell: the rest goes over the kernel connection.
    }
}

/// Sends on a socket that is not upgraded.
fn send_without_stream(fd: c_int, socket: &SocketState, parts: Parts<'_>, flags: c_int) -> ssize_t {
    if flags & libc::MSG_OOB != 0 {
        // The kernel's counts, from which positions begin, are others from now on.
        socket.note_reason(Reason::Usage);
        socket.set(NEVER_UPGRADE, true);
    }
    unix_streams::mark_first(fd, socket);
    order_marks::before_kernel_sends(fd);
    note_held_back(socket, flags);
    let result = kernel_send(fd, parts, 0, flags);
    unix_streams::count_out(socket, result);
    result
}

/// Sends on the kernel connection, from byte `sent` of the buffers on. Returns how many bytes were sent, if
/// the call is to go on.
///
/// # Errors
/// What the kernel returned for the last part of the call.
fn send_by_kernel(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    sent: usize,
    waits: bool,
    flags: c_int,
    held: &Held<'_>,
) -> Result<usize, ssize_t> {
    if waits && unix_streams::is_awaited(socket) {
        // In slices that do not wait, so that the other end can see how far we are.
        let now = flags | libc::MSG_DONTWAIT;
        let result = kernel_send_once(fd, socket, parts, sent, now, held);
        return match result {
            0.. => Ok(result.unsigned_abs()),
            _ if errno() == libc::EAGAIN && unix_streams::wait_for_room(fd) => Ok(0),
            _ if errno() == libc::EAGAIN => {
                Err(kernel_send_once(fd, socket, parts, sent, flags, held))
            }
            _ => Err(result),
        };
    }
    // The kernel waits, if that is wanted, as it does for everyone.
    let result = kernel_send_once(fd, socket, parts, sent, flags, held);
    let offered = offered(parts, sent);
    if !waits || result != offered as ssize_t || sent + offered == total(parts) {
        return Err(result);
    }
    Ok(offered)
}

/// The result of a call whose last part the kernel executed, behind `sent` bytes.
const fn with_sent(result: ssize_t, sent: usize) -> ssize_t {
    match result {
        _ if sent == 0 => result,
        0.. => result + sent as ssize_t,
        _ => sent as ssize_t,
    }
}

/// Flags that only the kernel can serve; the byte ring ignores all others.
const KERNEL_FLAGS: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY | libc::MSG_FASTOPEN;

/// For so many bytes at once the kernel is as fast between Unix sockets.
const LOCAL_BYTES: usize = 32 << 10;

fn path_to_use(
    fd: c_int,
    socket: &SocketState,
    bytes: usize,
    flags: c_int,
    held: &Held<'_>,
) -> Result<Path, Broken> {
    let memory = socket.memory();
    let sender = socket.sender(held);
    if note_held_back(socket, flags) {
        return leave_for_kernel(fd, socket, held);
    }
    let fall_back = socket.has(FALLEN_BACK)
        || socket.has(MORE_TO_COME)
        || flags & KERNEL_FLAGS != 0
        || (bytes >= LOCAL_BYTES && socket.has(UNIX));
    match sender.path() {
        Path::Kernel if fall_back || is_peer_leaving(socket, &memory, held) => Ok(Path::Kernel),
        Path::Kernel => {
            let up = held.changing(|| sender.try_ring(&memory))?;
            Ok(if up { Path::Ring } else { Path::Kernel })
        }
        Path::Ring
            if fall_back
                || sender.is_kernel_wanted(&memory)
                || is_peer_leaving(socket, &memory, held)
                || is_peer_gone(fd, socket, held) =>
        {
            leave_for_kernel(fd, socket, held)
        }
        // It has to be woken over the kernel connection: then the bytes may as well go there. Or the kernel
        // is to have its say.
        Path::Ring if sender.receiver_sleeps(&memory) || is_due_for_kernel(socket) => {
            held.changing(|| sender.leave_ring(&memory));
            Ok(Path::Kernel)
        }
        Path::Ring => Ok(Path::Ring),
    }
}

/// Whether the kernel is to carry this send, so that its rules act on the connection. None concern Unix
/// sockets.
fn is_due_for_kernel(socket: &SocketState) -> bool {
    !socket.has(UNIX) && socket.probe.is_due()
}

/// Notes whether what is sent now is to wait for more. Returns whether that has changed: bytes that wait
/// are set free by what follows them over the kernel connection.
fn note_held_back(socket: &SocketState, flags: c_int) -> bool {
    let holds_back = flags & libc::MSG_MORE != 0 && !socket.has(UNIX);
    let changes = socket.has(MORE_TO_COME) != holds_back;
    if changes {
        socket.set(MORE_TO_COME, holds_back);
    }
    changes
}

fn leave_for_kernel(fd: c_int, socket: &SocketState, held: &Held<'_>) -> Result<Path, Broken> {
    if socket.sender(held).path() == Path::Ring {
        leave_ring(fd, socket, held)?;
    }
    Ok(Path::Kernel)
}

/// Whether the other end was killed: it has ended without announcing it. Then the kernel decides what
/// becomes of sent bytes. Asked once a tick.
fn is_peer_gone(fd: c_int, socket: &SocketState, held: &Held<'_>) -> bool {
    let tick_ns = clock::tick_ns();
    if socket.send_checked_ns.get() == tick_ns {
        return false;
    }
    socket.send_checked_ns.set(tick_ns);
    // Of an end that reads no more, `poll` tells the same.
    let is_gone = if socket.has(READ_SHUT) {
        kernel::is_half_open(fd)
    } else {
        has_kernel_ended(fd)
    };
    fast_path::note_send(socket, socket.sender(held));
    if is_gone {
        lost_bytes::note_ended(socket);
        socket.set(FALLEN_BACK, true);
    } else {
        lost_bytes::note_there(socket, socket.sender(held));
    }
    is_gone
}

/// The result of putting bytes into the ring.
enum Put {
    /// So many were put; with none, go on with the kernel connection.
    Bytes(usize),
    /// They are not where the program says.
    Fault,
}

/// Puts what fits into the ring. Waits for some room if `waits` and the receiver makes progress. Leaves the
/// ring if there is none.
fn ring_send(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    sent: usize,
    waits: bool,
    held: &Held<'_>,
) -> Result<Put, Broken> {
    let memory = socket.memory();
    let sender = socket.sender(held);
    let rest = total(parts) - sent;
    if sender.room_known() < rest as u64
        && sender.room(&memory)? == 0
        && !ring_full_wait::poll_for_room(socket, waits, held)?
    {
        leave_ring(fd, socket, held)?;
        return Ok(Put::Bytes(0));
    }
    let len = rest.min(sender.room_known() as usize);
    if !are_readable(parts, sent, len) {
        return Ok(Put::Fault);
    }
    let is_one_way = fast_path::sends_one_way(socket);
    fast_path::note_send(socket, sender);
    let mut short = [0; SHORT_BYTES_MAX];
    let is_put = held.moving(|| {
        if !sender.enter_ring(&memory) {
            return false;
        }
        // Empty if there are more.
        let short = short.get_mut(..len).unwrap_or_default();
        let mut gathered = 0;
        for_each_stretch(parts, sent, len, |part, skip, len| {
            // SAFETY: the program's buffer.
            let bytes = unsafe { slice(part, skip, len) };
            if let Some(place) = short.get_mut(gathered..gathered + len) {
                place.copy_from_slice(bytes);
                gathered += len;
            }
            sender.put_in_pieces(&memory, bytes, PIECE_BYTES);
        });
        if is_one_way {
            sender.fetch_ahead(&memory, len);
        }
        count_bytes(&socket.ring_bytes_out, len);
        publish(fd, sender, &memory, short);
        true
    });
    if !is_put {
        leave_ring(fd, socket, held)?;
        return Ok(Put::Bytes(0));
    }
    Ok(Put::Bytes(len))
}

/// Whether the program's bytes can be read.
fn are_readable(parts: Parts<'_>, skip: usize, limit: usize) -> bool {
    let mut there = true;
    for_each_stretch(parts, skip, limit, |part, skip, len| {
        let at = part.iov_base.wrapping_byte_add(skip);
        there = there && fault::can_read(at, len);
    });
    there
}

/// One `sendmsg` of the kernel, from byte `sent` of the buffers on.
fn kernel_send_once(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    sent: usize,
    flags: c_int,
    held: &Held<'_>,
) -> ssize_t {
    order_marks::before_kernel_sends(fd);
    count_sent_by_kernel(socket, held, || kernel_send(fd, parts, sent, flags))
}
