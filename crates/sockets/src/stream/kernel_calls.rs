//! Calls that the kernel makes on an upgraded socket for the program.

use core::ffi::c_int;

use barewire_fabric::hybrid::Path;
use libc::{iovec, ssize_t};

use crate::epoll::sets;
use crate::stream::calls::{give_up, is_over, is_to_wait};
use crate::stream::recall::step_back;
use crate::stream::receiving::receive;
use crate::stream::{
    pending_error,
    send_side::{self, line_is_clear, on_line},
};
use crate::system::{
    cancel, kernel,
    real::{self, fail},
};
use crate::table::descriptors;
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::upgrade::unix_streams;

/// Runs a call of the kernel's that sends on the line with these `flags`, and returns how many bytes it
/// sent.
pub fn with_line(
    fd: c_int,
    record: &Record,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    real::keeping_errno(|| on_clear_line(fd, record, flags, call))
}

fn on_clear_line(
    fd: c_int,
    record: &Record,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let waits = is_to_wait(record, flags);
    let Some(held) = send_side::hold(fd, record, waits) else {
        return fail(libc::EAGAIN);
    };
    if let Some(error) = pending_error::take_kept_error(record) {
        return fail(error);
    }
    if record.state() != State::Up || !descriptors::is_of(fd, record) {
        unix_streams::mark_first(fd, record);
        let result = call();
        unix_streams::count_out(record, result);
        return result;
    }
    if held.is_taken_over() && !send_side::mend(fd, record, &held) {
        return give_up(fd, record);
    }
    if record.sender(&held).path() == Path::Ring && step_back(fd, record, &held).is_err() {
        return give_up(fd, record);
    }
    let generation = record.generation();
    if !line_is_clear(fd, record, waits, &held) {
        // The kernel has room, so it does not tell when there is.
        sets::tell_again(record);
        return fail(libc::EAGAIN);
    }
    if is_over(fd, record, generation) {
        return fail(libc::EBADF);
    }
    on_line(record, &held, call)
}

/// Moves bytes to the pipe `to`, as `splice` does; `waits`: for room there. By hand: the kernel cannot
/// tell tokens from bytes, and does not see the ring.
pub fn splice_by_hand(
    fd: c_int,
    record: &'static Record,
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
    let peeked = receive(fd, record, &[part], libc::MSG_PEEK);
    if peeked <= 0 {
        return peeked;
    }
    let written = put_into_pipe(to, &chunk[..peeked.unsigned_abs()]);
    if written > 0 {
        // The same bytes again: only this call may read the socket meanwhile, as in any
        // program that splices.
        part.iov_len = written.unsigned_abs();
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        cancel::uncancelled(|| receive(fd, record, &[part], flags));
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

/// Bytes spliced at once.
const SPLICE_BYTES: usize = 16 << 10;
