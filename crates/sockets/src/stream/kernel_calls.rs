//! Calls of the program's that the kernel executes on an upgraded socket, such as `splice` and `sendfile`.

use core::ffi::c_int;

use barewire_fabric::hybrid::Path;
use libc::{iovec, ssize_t};

use crate::epoll::sets;
use crate::stream::calls::{break_connection, is_closed_since, may_block};
use crate::stream::recall::leave_ring;
use crate::stream::receiving::receive;
use crate::stream::{
    pending_error,
    send_side::{self, count_sent_by_kernel, wait_for_clear_kernel_path},
};
use crate::system::{
    cancel, kernel,
    real::{self, fail},
};
use crate::table::descriptors;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::upgrade::unix_streams;

/// Runs a call that sends on the kernel connection with these `flags`. Returns how many bytes it sent.
pub fn with_kernel_path(
    fd: c_int,
    socket: &SocketState,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    real::keeping_errno(|| call_on_clear_path(fd, socket, flags, call))
}

fn call_on_clear_path(
    fd: c_int,
    socket: &SocketState,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let waits = may_block(socket, flags);
    let Some(held) = send_side::lock_for_sending(fd, socket, waits) else {
        return fail(libc::EAGAIN);
    };
    if let Some(error) = pending_error::take_kept_error(socket) {
        return fail(error);
    }
    if socket.state() != State::Upgraded || !descriptors::is_of(fd, socket) {
        unix_streams::mark_first(fd, socket);
        let result = call();
        unix_streams::count_out(socket, result);
        return result;
    }
    if held.is_taken_over() && !send_side::recover(fd, socket, &held) {
        return break_connection(fd, socket);
    }
    if socket.sender(&held).path() == Path::Ring && leave_ring(fd, socket, &held).is_err() {
        return break_connection(fd, socket);
    }
    let generation = socket.generation();
    if !wait_for_clear_kernel_path(fd, socket, waits, &held) {
        // The kernel has room, so it does not tell when there is.
        sets::report_writable_again(socket);
        return fail(libc::EAGAIN);
    }
    if is_closed_since(fd, socket, generation) {
        return fail(libc::EBADF);
    }
    count_sent_by_kernel(socket, &held, call)
}

/// Moves bytes to the pipe `to`, as `splice` does; `waits`: for room there. The kernel cannot do it: it
/// does not know wake-up bytes from data, and does not see the byte ring.
pub fn splice_by_hand(
    fd: c_int,
    socket: &'static SocketState,
    to: c_int,
    len: usize,
    waits: bool,
) -> ssize_t {
    if let Err(error) = kernel::is_pipe_to_write(to) {
        return fail(error);
    }
    if !waits && !kernel::pipe_has_room(to) {
        return fail(libc::EAGAIN);
    }
    let mut chunk = [0_u8; SPLICE_BYTES];
    let mut part = iovec {
        iov_base: chunk.as_mut_ptr().cast(),
        iov_len: chunk.len().min(len),
    };
    let peeked = receive(fd, socket, &[part], libc::MSG_PEEK);
    if peeked <= 0 {
        return peeked;
    }
    let written = put_into_pipe(to, &chunk[..peeked.unsigned_abs()]);
    if written > 0 {
        // The same bytes again: only this call may read the socket meanwhile, as in any
        // program that splices.
        part.iov_len = written.unsigned_abs();
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        cancel::uncancelled(|| receive(fd, socket, &[part], flags));
    }
    written
}

/// Writes a page to a pipe, and more as long as there is room.
fn put_into_pipe(to: c_int, bytes: &[u8]) -> ssize_t {
    let mut done = 0;
    for page in bytes.chunks(libc::PIPE_BUF) {
        if done > 0 && !kernel::pipe_has_room(to) {
            break;
        }
        // SAFETY: the page has as many bytes.
        let write = || unsafe { real::write(to, page.as_ptr().cast(), page.len()) };
        // What is in the pipe is to be taken from the socket.
        let written = if done > 0 {
            cancel::uncancelled(write)
        } else {
            write()
        };
        match written {
            1.. => done += written,
            _ if done == 0 => return written,
            _ => break,
        }
    }
    done
}

/// Bytes moved at once.
const SPLICE_BYTES: usize = 16 << 10;
