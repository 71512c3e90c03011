//! Functions that move bytes: `read`, `write`, `send`, `recv` and their variants.

use core::ffi::{c_int, c_uint, c_void};

use libc::{iovec, msghdr, off_t, off64_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::handoff::give_back::{self, used_past_us};
use crate::io_uring::rings;
use crate::process::fault;
use crate::stream::leaving::stay_with_kernel;
use crate::stream::{
    buffers::{self, Control},
    capture, kernel_calls, order, order_marks, receiving, sending,
};
use crate::system::cancel::{end_if_cancelled, quietly, uncancelled};
use crate::system::{kernel, real};
use crate::table::descriptors;
use crate::table::flags::{FALLEN_BACK, UNIX};
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::upgrade::enrol::settle_connecting;
use crate::upgrade::steps::{self, Way};

/// Runs a call that sends something by the kernel.
#[inline]
pub fn by_kernel<T>(fd: c_int, call: impl FnOnce() -> T) -> T {
    order_marks::before_kernel_sends(fd);
    let result = call();
    order::has_used_kernel();
    result
}

/// Runs a call that receives something by the kernel.
#[inline]
pub fn from_kernel<T>(call: impl FnOnce() -> T) -> T {
    let result = call();
    order::has_used_kernel();
    result
}

/// The socket of a descriptor whose bytes the library moves.
#[inline]
pub fn ours(fd: c_int) -> Option<&'static SocketState> {
    let socket = descriptors::find(fd)?;
    match socket.state() {
        State::Candidate | State::AtRendezvous | State::Stepping | State::Upgraded => Some(socket),
        State::Unconnected => settle_connecting(fd, socket).then_some(socket),
        State::Listening | State::Kernel => None,
    }
}

/// After bytes were moved: a socket that is not upgraded may take a step of the upgrade.
#[inline]
fn moved(fd: c_int, socket: &'static SocketState, way: Way, result: ssize_t) -> ssize_t {
    if result > 0 && socket.state() != State::Upgraded {
        quietly(|| step(fd, socket, way, result.unsigned_abs() as u64));
    }
    result
}

#[cold]
fn step(fd: c_int, socket: &'static SocketState, way: Way, bytes: u64) {
    if rings::are_used() {
        stay_with_kernel(socket);
        socket.note_reason(Reason::UnseenIoUring);
    } else {
        steps::advance(fd, socket, bytes, way);
    }
    if socket.state() == State::Upgraded {
        rings::upgraded();
    }
}

#[inline]
fn take(fd: c_int, socket: &'static SocketState, parts: &[iovec], flags: c_int) -> ssize_t {
    // To a Unix socket this flag means nothing.
    let flags = if flags & libc::MSG_TRUNC != 0 && socket.has(UNIX) {
        flags & !libc::MSG_TRUNC
    } else {
        flags
    };
    moved(
        fd,
        socket,
        Way::In,
        receiving::receive(fd, socket, parts, flags),
    )
}

/// As [`take`], into a message. Control data comes over the kernel connection.
///
/// # Safety
/// The message is the program's.
#[cold]
unsafe fn take_message(
    fd: c_int,
    socket: &'static SocketState,
    message: *mut msghdr,
    parts: &[iovec],
    flags: c_int,
) -> ssize_t {
    // SAFETY: as promised, here and below.
    let (at, room) = unsafe { ((*message).msg_control, (*message).msg_controllen as size_t) };
    let mut control = Some(Control {
        at,
        room,
        len: 0,
        flags: flags & libc::MSG_CMSG_CLOEXEC,
    });
    let plain = if socket.has(UNIX) {
        flags & !libc::MSG_TRUNC
    } else {
        flags
    };
    end_if_cancelled();
    let result = receiving::receive_with(fd, socket, parts, plain, &mut control);
    let result = moved(fd, socket, Way::In, result);
    if let (0.., Some(control)) = (result, control) {
        // SAFETY: as promised.
        unsafe {
            (*message).msg_controllen = control.len as _;
            (*message).msg_flags = control.flags;
            let name = (*message).msg_name.cast::<sockaddr>();
            if !socket.has(UNIX) {
                (*message).msg_namelen = 0;
            } else if !name.is_null() {
                let len = &raw mut (*message).msg_namelen;
                if !sender_name(fd, name, len, result) {
                    return real::fail(libc::EFAULT);
                }
            }
        }
    }
    result
}

#[inline]
fn give(fd: c_int, socket: &'static SocketState, parts: &[iovec], flags: c_int) -> ssize_t {
    moved(
        fd,
        socket,
        Way::Out,
        sending::send(fd, socket, parts, flags),
    )
}

const fn part(base: *const c_void, len: size_t) -> iovec {
    iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }
}

/// Flags with which the kernel executes a receive.
const KERNEL_FLAGS: c_int = libc::MSG_OOB | libc::MSG_ERRQUEUE;
/// The kernel refuses more buffers or messages than this.
pub const PARTS_MAX: c_int = 1024;

/// The program's list of buffers, if the kernel would accept it.
///
/// # Safety
/// `parts` points to `count` of them.
pub unsafe fn list<'a>(parts: *const iovec, count: size_t) -> Option<&'a [iovec]> {
    if count == 0
        || count > PARTS_MAX as usize
        || !fault::can_read(parts, count * size_of::<iovec>())
    {
        return None;
    }
    // SAFETY: as promised.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    let are_lengths = parts.iter().all(|part| part.iov_len <= isize::MAX as usize);
    are_lengths.then_some(parts)
}

/// The socket state, if there is one, with what is looked up for it only then.
fn with<T>(
    socket: Option<&'static SocketState>,
    look_up: impl FnOnce() -> Option<T>,
) -> Option<(&'static SocketState, T)> {
    socket.and_then(|socket| Some((socket, look_up()?)))
}

/// Whether the kernel would take an address to send to, which means nothing to a connection.
fn is_good_name(address: *const sockaddr, len: socklen_t) -> bool {
    let len = len as usize;
    address.is_null()
        || (len <= size_of::<libc::sockaddr_storage>() && fault::can_read(address, len))
}

/// Where the length of an address goes, or the error that the kernel returns, after it has moved the bytes,
/// if there is no room for the address.
///
/// # Safety
/// They are the program's.
unsafe fn name_length(len: *mut socklen_t) -> Result<*mut socklen_t, c_int> {
    if !fault::can_write(len, size_of::<socklen_t>()) {
        return Err(libc::EFAULT);
    }
    // SAFETY: as promised, and it is there.
    match unsafe { len.read_unaligned() } as c_int {
        0.. => Ok(len),
        _ => Err(libc::EINVAL),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
    match ours(fd) {
        Some(socket) if len > 0 => take(fd, socket, &[part(into, len)], 0),
        // SAFETY: the program's call.
        _ => from_kernel(|| unsafe { real::read(fd, into, len) }),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the program's call.
    unsafe { read(fd, into, len) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's call, here and below.
    match with(ours(fd), || unsafe { list(parts, count.max(0) as size_t) }) {
        Some((socket, parts)) => take(fd, socket, parts, 0),
        // SAFETY: the program's call.
        _ => from_kernel(|| unsafe { real::readv(fd, parts, count) }),
    }
}

/// The socket and flags of a call with an offset of -1, which is a receive or send without one. `None` if
/// the kernel executes the call.
fn without_offset(
    fd: c_int,
    offset: off64_t,
    flags: c_int,
) -> Option<(&'static SocketState, c_int)> {
    if offset != -1 {
        return None;
    }
    match flags {
        0 => Some((ours(fd)?, 0)),
        libc::RWF_NOWAIT => Some((ours(fd)?, libc::MSG_DONTWAIT)),
        _ => {
            used_past_us(fd);
            None
        }
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    let ours = without_offset(fd, offset, flags);
    // SAFETY: the program's call, here and below.
    match ours.and_then(|ours| Some((ours, unsafe { list(parts, count.max(0) as size_t) }?))) {
        Some(((socket, flags), parts)) => take(fd, socket, parts, flags),
        // SAFETY: the program's call.
        None => unsafe { real::preadv64v2(fd, parts, count, offset, flags) },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    let ours = without_offset(fd, offset, flags);
    // SAFETY: the program's call, here and below.
    match ours.and_then(|ours| Some((ours, unsafe { list(parts, count.max(0) as size_t) }?))) {
        Some(((socket, flags), parts)) if buffers::total(parts) > 0 => {
            give(fd, socket, parts, flags)
        }
        // SAFETY: the program's call.
        _ => unsafe { by_kernel(fd, || real::pwritev64v2(fd, parts, count, offset, flags)) },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recv(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    match ours(fd) {
        Some(socket) if flags & KERNEL_FLAGS == 0 => take(fd, socket, &[part(into, len)], flags),
        // SAFETY: the program's call.
        _ => from_kernel(|| unsafe { real::recv(fd, into, len, flags) }),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the program's call.
    unsafe { recv(fd, into, len, flags) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    match ours(fd) {
        Some(socket) if flags & KERNEL_FLAGS == 0 => {
            let result = take(fd, socket, &[part(into, len)], flags);
            if result < 0 || address.is_null() {
                return result;
            }
            // SAFETY: the program's own, here and below.
            match unsafe { name_length(address_len) } {
                // SAFETY: as above.
                Ok(len) if socket.has(UNIX) => unsafe {
                    if !sender_name(fd, address, len, result) {
                        return real::fail(libc::EFAULT);
                    }
                },
                // A TCP socket has no address to give with each byte.
                // SAFETY: as above.
                Ok(len) => unsafe { len.write_unaligned(0) },
                Err(error) => return real::fail(error),
            }
            result
        }
        // SAFETY: the program's call.
        _ => from_kernel(|| unsafe { real::recvfrom(fd, into, len, flags, address, address_len) }),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the program's call.
    unsafe { recvfrom(fd, into, len, flags, address, address_len) }
}

/// The buffers of a message to be filled, if the kernel would accept it.
///
/// # Safety
/// The message is the program's, and there.
unsafe fn room<'a>(message: *const msghdr) -> Option<&'a [iovec]> {
    // SAFETY: as promised.
    unsafe {
        let has_length = (*message).msg_name.is_null() || (*message).msg_namelen as c_int >= 0;
        match (*message).msg_iovlen as size_t {
            _ if !has_length => None,
            0 => Some(&[]),
            count => list((*message).msg_iov, count),
        }
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let ours = ours(fd).filter(|_| flags & KERNEL_FLAGS == 0);
    if ours.is_some() && !fault::can_write(message, size_of::<msghdr>()) {
        return real::fail(libc::EFAULT);
    }
    // SAFETY: the program's message, here and below.
    let Some((socket, parts)) = with(ours, || unsafe { room(message) }) else {
        // SAFETY: the program's call.
        return from_kernel(|| unsafe { real::recvmsg(fd, message, flags) });
    };
    // Of a TCP socket the kernel may have been asked for times, and what is left.
    if socket.has(UNIX) || socket.has(FALLEN_BACK) {
        // SAFETY: the program's message.
        return unsafe { take_message(fd, socket, message, parts, flags) };
    }
    let result = take(fd, socket, parts, flags);
    if result >= 0 {
        // SAFETY: the program's call.
        unsafe {
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
            (*message).msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
        }
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    match ours(fd) {
        Some(socket) if len > 0 => give(fd, socket, &[part(from, len)], 0),
        // SAFETY: the program's call.
        _ => unsafe { by_kernel(fd, || real::write(fd, from, len)) },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's call, here and below.
    match with(ours(fd), || unsafe { list(parts, count.max(0) as size_t) }) {
        Some((socket, parts)) if buffers::total(parts) > 0 => give(fd, socket, parts, 0),
        // SAFETY: the program's call.
        _ => unsafe { by_kernel(fd, || real::writev(fd, parts, count)) },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn send(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    match ours(fd) {
        Some(socket) if len > 0 => give(fd, socket, &[part(from, len)], flags),
        // SAFETY: the program's call.
        _ => unsafe { by_kernel(fd, || real::send(fd, from, len, flags)) },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    match ours(fd) {
        // An address is not looked at on a connected TCP socket, and is an error on a Unix one.
        Some(socket)
            if len > 0
                && flags & libc::MSG_FASTOPEN == 0
                && (address_len == 0 || !socket.has(UNIX))
                && is_good_name(address, address_len) =>
        {
            give(fd, socket, &[part(from, len)], flags)
        }
        // SAFETY: the program's call.
        _ => unsafe {
            by_kernel(fd, || {
                real::sendto(fd, from, len, flags, address, address_len)
            })
        },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's message, here and below.
    unsafe {
        let Some(socket) = ours(fd) else {
            if give_back::may_give() && fault::can_read_aside(message, size_of::<msghdr>()) {
                give_back::before_giving(message);
            }
            return by_kernel(fd, || real::sendmsg(fd, message, flags));
        };
        if !fault::can_read(message, size_of::<msghdr>()) {
            return real::fail(libc::EFAULT);
        }
        if socket.has(UNIX) && ((*message).msg_controllen > 0 || (*message).msg_namelen > 0) {
            return give_message(fd, socket, message, flags);
        }
        let parts = list((*message).msg_iov, (*message).msg_iovlen as size_t);
        match parts {
            Some(parts)
                if buffers::total(parts) > 0
                    && (*message).msg_controllen == 0
                    && is_good_name((*message).msg_name.cast(), (*message).msg_namelen) =>
            {
                give(fd, socket, parts, flags)
            }
            _ => kernel_calls::with_kernel_path(fd, socket, flags, || {
                let result = real::sendmsg(fd, message, flags);
                if let Some(parts) = parts.filter(|_| capture::is_on()) {
                    capture::sent(fd, socket, parts, result);
                }
                result
            }),
        }
    }
}

/// Sends a message with control data on a Unix socket (descriptors, credentials), which only the kernel can.
///
/// # Safety
/// The message is the program's.
#[cold]
unsafe fn give_message(
    fd: c_int,
    socket: &'static SocketState,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as promised.
    unsafe {
        give_back::before_giving(message);
        let result =
            kernel_calls::with_kernel_path(fd, socket, flags, || real::sendmsg(fd, message, flags));
        moved(fd, socket, Way::Out, result)
    }
}

/// Up to so many bytes of a file go through the ring; the kernel is faster with more.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Bytes read from a file at once.
const FILE_CHUNK_BYTES: usize = 16 << 10;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    file: c_int,
    offset: *mut off64_t,
    count: size_t,
) -> ssize_t {
    let is_small = || {
        (1..=FILE_BYTES_MAX).contains(&count)
            && fault::can_write(offset, size_of::<off64_t>())
            && kernel::is_regular_file(file)
    };
    // No thread is cancelled in the kernel's.
    match ours(out) {
        Some(socket) if socket.state() == State::Upgraded && is_small() => {
            // SAFETY: the program's offset.
            uncancelled(|| unsafe { send_small_file(out, socket, file, offset, count) })
        }
        Some(socket) => {
            let send = || {
                // SAFETY: the program's call, and its offset.
                unsafe {
                    let result = real::sendfile64(out, file, offset, count);
                    if capture::is_on() {
                        capture::sent_from_file(out, socket, file, offset.as_ref(), result);
                    }
                    result
                }
            };
            let result = uncancelled(|| kernel_calls::with_kernel_path(out, socket, 0, send));
            moved(out, socket, Way::Out, result)
        }
        // SAFETY: the program's call.
        None => unsafe { by_kernel(out, || real::sendfile64(out, file, offset, count)) },
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendfile(
    out: c_int,
    file: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: on the targets that we know both offsets are 64 bits.
    unsafe { sendfile64(out, file, offset.cast::<off64_t>(), count) }
}

/// # Safety
/// `offset` is the program's.
unsafe fn send_small_file(
    out: c_int,
    socket: &'static SocketState,
    file: c_int,
    offset: *mut off64_t,
    count: size_t,
) -> ssize_t {
    let mut chunk = [0_u8; FILE_CHUNK_BYTES];
    let mut sent = 0;
    while sent < count {
        let len = chunk.len().min(count - sent);
        // SAFETY: `chunk` has `len` bytes; the offset is the program's.
        let read = unsafe { real::pread64(file, chunk.as_mut_ptr().cast(), len, *offset) };
        if read <= 0 {
            return if sent > 0 { sent as ssize_t } else { read };
        }
        let bytes = read.unsigned_abs();
        let given = give(out, socket, &[part(chunk.as_ptr().cast(), bytes)], 0);
        if given < 0 {
            return if sent > 0 { sent as ssize_t } else { given };
        }
        // SAFETY: the program's offset.
        unsafe { *offset += given as off64_t };
        sent += given.unsigned_abs();
        if given.unsigned_abs() < bytes {
            break;
        }
    }
    sent as ssize_t
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut off64_t,
    to: c_int,
    to_offset: *mut off64_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let source = ours(from);
    let past_us = source.and_then(receiving::read_past_us);
    // An offset in a socket or a pipe is an error: the kernel's.
    let has_offset = !from_offset.is_null() || !to_offset.is_null();
    let is_up = |socket: &&SocketState| past_us.is_none() && socket.state() == State::Upgraded;
    if let Some(socket) = source.filter(|socket| !has_offset && is_up(socket)) {
        let waits = flags & libc::SPLICE_F_NONBLOCK == 0;
        return real::keeping_errno(|| kernel_calls::splice_by_hand(from, socket, to, len, waits));
    }
    if let Some(socket) = source.filter(|socket| socket.has(UNIX)) {
        // What goes past our counters.
        stay_with_kernel(socket);
    }
    let call = || {
        order_marks::before_kernel_sends(to);
        // SAFETY: the program's call.
        let result = unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
        order::has_used_kernel();
        drop(past_us);
        result
    };
    match ours(to) {
        Some(socket) => kernel_calls::with_kernel_path(to, socket, 0, || {
            let result = call();
            if capture::is_on() {
                capture::sent_unseen(socket, result);
            }
            result
        }),
        None => call(),
    }
}

/// Writes the name of the sender of received bytes, as the kernel does: none without bytes, and none if the
/// other end has no name. `false`: the memory for it is not there.
///
/// # Safety
/// `address` has as many bytes as `len` says; both are the program's, and the length is there.
pub unsafe fn sender_name(
    fd: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    received: libc::ssize_t,
) -> bool {
    let mut name = [0_u8; size_of::<libc::sockaddr_un>()];
    let mut name_len = name.len() as libc::socklen_t;
    // SAFETY: `name` has `name_len` bytes; the rest as promised.
    unsafe {
        let result = if received > 0 {
            libc::getpeername(fd, name.as_mut_ptr().cast(), &raw mut name_len)
        } else {
            -1
        };
        // One without a name has the family only.
        if result != 0 || name_len <= 2 {
            name_len = 0;
        }
        let room = len.read_unaligned().min(name_len) as usize;
        let is_there = fault::can_overwrite(address, room);
        if is_there {
            core::ptr::copy_nonoverlapping(name.as_ptr(), address.cast::<u8>(), room);
            len.write_unaligned(name_len);
        }
        is_there
    }
}
