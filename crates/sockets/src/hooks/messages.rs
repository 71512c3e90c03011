//! Functions that move several messages in one call: `recvmmsg` and `sendmmsg`.

use core::ffi::{c_int, c_uint};

use libc::{mmsghdr, size_t, ssize_t, timespec};

use crate::handoff::give_back;
use crate::hooks::io::{PARTS_MAX, by_kernel, from_kernel, list, ours, recvmsg, sendmsg};
use crate::process::fault;
use crate::stream::{buffers, pending_error};
use crate::system::real;
use crate::table::descriptors;
use crate::table::socket_state::SocketState;
use crate::wait::deadline::Deadline;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let Some(socket) = ours(fd) else {
        // SAFETY: the program's call.
        return from_kernel(|| unsafe { real::recvmmsg(fd, messages, count, flags, timeout) });
    };
    // SAFETY: the program's call.
    real::keeping_errno(|| unsafe { take_messages(fd, socket, messages, count, flags, timeout) })
}

/// # Safety
/// As for [`recvmmsg`].
unsafe fn take_messages(
    fd: c_int,
    socket: &'static SocketState,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the program's time.
    let deadline = match unsafe { fault::copy_aside(timeout) } {
        _ if timeout.is_null() => None,
        None => return real::fail(libc::EFAULT) as c_int,
        time => match Deadline::after(time) {
            None => return real::fail(libc::EINVAL) as c_int,
            deadline => deadline,
        },
    };
    // The kernel begins so, whatever there is to read.
    let error = match flags & libc::MSG_ERRQUEUE {
        0 => pending_error::take_error(fd, socket),
        _ => 0,
    };
    if error != 0 {
        return real::fail(error) as c_int;
    }
    let mut done = 0;
    // As in the kernel, the time is looked at between messages only.
    while done < count && !deadline.is_some_and(Deadline::is_over) {
        let later = if done > 0 && flags & libc::MSG_WAITFORONE != 0 {
            libc::MSG_DONTWAIT
        } else {
            0
        };
        // SAFETY: the program's `count` messages.
        unsafe {
            let message = messages.add(done as usize);
            let flags = (flags & !libc::MSG_WAITFORONE) | later;
            let result = recvmsg(fd, &raw mut (*message).msg_hdr, flags);
            if result < 0 || !note_length(message, result) {
                if done > 0 && real::errno() != libc::EAGAIN {
                    pending_error::keep_error(socket, real::errno());
                }
                break;
            }
            done += 1;
        }
    }
    if done == 0 && count > 0 {
        return -1;
    }
    if let Some(left) = deadline.and_then(Deadline::left) {
        if !fault::write_time(timeout, left) {
            return real::fail(libc::EFAULT) as c_int;
        }
    }
    done as c_int
}

/// Stores how many bytes a message had. `false`: `EFAULT`, there is no room for that.
///
/// # Safety
/// The message is the program's.
unsafe fn note_length(message: *mut mmsghdr, moved: ssize_t) -> bool {
    // SAFETY: as promised; no more than an address is made of it before it is known to be there.
    let at = unsafe { &raw mut (*message).msg_len };
    let is_there = fault::can_write(at, size_of::<c_uint>());
    if is_there {
        // SAFETY: as promised, and it is there.
        unsafe { at.write_unaligned(moved.unsigned_abs() as c_uint) };
    } else {
        real::set_errno(libc::EFAULT);
    }
    is_there
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if descriptors::find(fd).is_none() {
        let count_taken = count.min(PARTS_MAX.unsigned_abs()) as usize;
        let are_there = give_back::may_give()
            && fault::can_read_aside(messages, count_taken * size_of::<mmsghdr>());
        for nth in 0..if are_there { count_taken } else { 0 } {
            // SAFETY: the program's `count` messages.
            unsafe { give_back::before_giving(&raw const (*messages.add(nth)).msg_hdr) };
        }
        // SAFETY: the program's call.
        return unsafe { by_kernel(fd, || real::sendmmsg(fd, messages, count, flags)) };
    }
    // SAFETY: the program's call.
    real::keeping_errno(|| unsafe { give_messages(fd, messages, count, flags) })
}

/// # Safety
/// As for [`sendmmsg`].
unsafe fn give_messages(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // The kernel takes no more at once either. It has no such limit for what is received.
    let count = count.min(PARTS_MAX.unsigned_abs());
    let mut done = 0;
    while done < count {
        // SAFETY: the program's `count` messages.
        unsafe {
            let message = messages.add(done as usize);
            let result = sendmsg(fd, &raw const (*message).msg_hdr, flags);
            if result < 0 || !note_length(message, result) {
                break;
            }
            done += 1;
            let (parts, parts_len) = ((*message).msg_hdr.msg_iov, (*message).msg_hdr.msg_iovlen);
            let whole = list(parts, parts_len as size_t).map_or(0, buffers::total);
            if result.unsigned_abs() < whole {
                break;
            }
        }
    }
    if done == 0 && count > 0 {
        -1
    } else {
        done as c_int
    }
}
