//! The program's buffers, and the kernel's send and receive calls with the rest of them.

use core::ffi::{c_int, c_void};

use libc::{iovec, ssize_t};

use crate::stream::order;
use crate::system::{cancel, real};

/// The program's buffers, as in `readv`.
pub type Parts<'a> = &'a [iovec];

/// Of a long write the receiver sees so many bytes as soon as they are copied. Streams of 64 KiB writes took 0.66 of the
/// time where the two sides share a cache and 0.72 where they do not. With pieces of 8 KiB, streams of 16 KiB writes took
/// 1.07 of the time in the latter case (AMD EPYC).
pub const PIECE_BYTES: usize = 16 * 1024;

/// Bytes of all buffers.
pub fn total(parts: Parts<'_>) -> usize {
    parts
        .iter()
        .fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// The bytes of a buffer from `skip` on, cut to `limit`.
///
/// # Safety
/// The buffer is the program's, and as large as it says.
pub unsafe fn slice<'a>(part: &iovec, skip: usize, limit: usize) -> &'a [u8] {
    let len = (part.iov_len - skip).min(limit);
    // SAFETY: as promised.
    unsafe { core::slice::from_raw_parts(part.iov_base.cast::<u8>().add(skip), len) }
}

/// As [`slice()`], to write to.
///
/// # Safety
/// As for [`slice()`].
pub unsafe fn slice_mut<'a>(part: &iovec, skip: usize, limit: usize) -> &'a mut [u8] {
    let len = (part.iov_len - skip).min(limit);
    // SAFETY: as promised.
    unsafe { core::slice::from_raw_parts_mut(part.iov_base.cast::<u8>().add(skip), len) }
}

/// Calls `visit` with each stretch of the buffers from byte `skip` on, up to `limit` bytes.
pub fn for_each_stretch(
    parts: Parts<'_>,
    mut skip: usize,
    mut limit: usize,
    mut visit: impl FnMut(&iovec, usize, usize),
) {
    for part in parts {
        if limit == 0 {
            return;
        }
        if skip >= part.iov_len {
            skip -= part.iov_len;
            continue;
        }
        let len = (part.iov_len - skip).min(limit);
        visit(part, skip, len);
        limit -= len;
        skip = 0;
    }
}

/// Buffers that one call of the kernel's takes when the first of them are done with.
const PARTS_MAX: usize = 64;

/// Bytes that [`kernel_send`] offers to the kernel: not all of very many buffers.
pub fn offered(parts: Parts<'_>, sent: usize) -> usize {
    if sent == 0 {
        return total(parts);
    }
    let (mut count, mut bytes) = (0, 0);
    for_each_stretch(parts, sent, usize::MAX, |_, _, len| {
        if count < PARTS_MAX {
            count += 1;
            bytes += len;
        }
    });
    bytes
}

/// `sendmsg` of the kernel's from byte `sent` of the buffers on.
pub fn kernel_send(fd: c_int, parts: Parts<'_>, sent: usize, flags: c_int) -> ssize_t {
    let result = kernel_send_parts(fd, parts, sent, flags);
    order::has_used_kernel();
    result
}

fn kernel_send_parts(fd: c_int, parts: Parts<'_>, sent: usize, flags: c_int) -> ssize_t {
    if let [part] = parts {
        // SAFETY: the program's buffer, of which `sent` bytes are done with.
        return cancel::counted(flags, || unsafe {
            let from = part.iov_base.cast::<u8>().add(sent).cast();
            real::send(fd, from, part.iov_len - sent, flags)
        });
    }
    let mut rest = [libc::iovec {
        iov_base: core::ptr::null_mut(),
        iov_len: 0,
    }; PARTS_MAX];
    let mut count = 0;
    let mut whole = parts;
    if sent > 0 {
        for_each_stretch(parts, sent, usize::MAX, |part, skip, len| {
            if let Some(place) = rest.get_mut(count) {
                // SAFETY: within the program's buffer.
                place.iov_base = unsafe { part.iov_base.cast::<u8>().add(skip) }.cast();
                place.iov_len = len;
                count += 1;
            }
        });
        whole = &rest[..count];
    }
    // SAFETY: zeros are a message without address and control; the buffers are the program's.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = whole.as_ptr().cast_mut();
        message.msg_iovlen = whole.len() as _;
        cancel::counted(flags, || real::sendmsg(fd, &raw const message, flags))
    }
}

/// Room for what comes beside the bytes on a Unix socket.
pub struct Control {
    /// The program's.
    pub at: *mut c_void,
    /// Bytes there.
    pub room: usize,
    /// Bytes that the kernel has written.
    pub len: usize,
    /// `msg_flags`, as the kernel gave them.
    pub flags: c_int,
}

/// The program hears of what the kernel gave.
fn heard(result: ssize_t) -> ssize_t {
    if result >= 0 {
        order::has_used_kernel();
    }
    result
}

/// `recvmsg` of the kernel's into `limit` bytes from byte `got` on.
pub fn kernel_receive(
    fd: c_int,
    parts: Parts<'_>,
    got: usize,
    limit: usize,
    flags: c_int,
    control: Option<&mut Control>,
) -> ssize_t {
    let flags = flags & !libc::MSG_WAITALL;
    if let ([part], None) = (parts, &control) {
        // SAFETY: the program's buffer, of which `got` bytes are done with.
        return cancel::counted(flags, || unsafe {
            let into = part.iov_base.cast::<u8>().add(got).cast();
            heard(real::recv(fd, into, limit.min(part.iov_len - got), flags))
        });
    }
    if got == 0 && limit >= total(parts) {
        return receive_message(fd, parts, flags, control);
    }
    let mut rest = [libc::iovec {
        iov_base: core::ptr::null_mut(),
        iov_len: 0,
    }; PARTS_MAX];
    let mut count = 0;
    for_each_stretch(parts, got, limit, |part, skip, len| {
        if let Some(place) = rest.get_mut(count) {
            // SAFETY: within the program's buffer.
            place.iov_base = unsafe { part.iov_base.cast::<u8>().add(skip) }.cast();
            place.iov_len = len;
            count += 1;
        }
    });
    receive_message(fd, &rest[..count], flags, control)
}

/// `recvmsg` of the kernel's, as it is.
pub fn kernel_receive_all(
    fd: c_int,
    parts: Parts<'_>,
    flags: c_int,
    control: Option<&mut Control>,
) -> ssize_t {
    match (parts, &control) {
        // SAFETY: the program's buffer.
        ([part], None) => unsafe { heard(real::recv(fd, part.iov_base, part.iov_len, flags)) },
        _ => receive_message(fd, parts, flags, control),
    }
}

/// As above, by the very call of the program's: without flags it was a read.
pub fn kernel_receive_as_asked(
    fd: c_int,
    parts: Parts<'_>,
    flags: c_int,
    control: Option<&mut Control>,
) -> ssize_t {
    match parts {
        _ if flags != 0 || control.is_some() => kernel_receive_all(fd, parts, flags, control),
        // SAFETY: the program's buffer.
        [part] => unsafe { heard(real::read(fd, part.iov_base, part.iov_len)) },
        // SAFETY: the program's buffers.
        _ => unsafe { heard(real::readv(fd, parts.as_ptr(), parts.len() as c_int)) },
    }
}

fn receive_message(
    fd: c_int,
    parts: Parts<'_>,
    flags: c_int,
    control: Option<&mut Control>,
) -> ssize_t {
    // SAFETY: as in kernel_send; the control bytes are the program's.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = parts.as_ptr().cast_mut();
        message.msg_iovlen = parts.len() as _;
        if let Some(control) = &control {
            message.msg_control = control.at;
            message.msg_controllen = control.room as _;
        }
        let result = cancel::counted(flags, || heard(real::recvmsg(fd, &raw mut message, flags)));
        if let (Some(control), 0..) = (control, result) {
            control.len = message.msg_controllen as usize;
            control.flags = message.msg_flags;
        }
        result
    }
}
