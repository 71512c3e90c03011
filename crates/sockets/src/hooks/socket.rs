//! Functions that create, connect and configure sockets.

use core::ffi::{c_int, c_ulong, c_void};
use core::sync::atomic::Ordering;

use barewire_calls::option;
use barewire_fabric::hybrid::{LEAVING, SharedMemory};
use libc::{sockaddr, socklen_t};

use crate::handoff::closing;
use crate::handoff::duplicate::duplicating;
use crate::hooks::io::from_kernel;
use crate::process::edge::{self, Side};
use crate::process::{fault, settings};
use crate::stream::{
    calls, capture,
    leaving::{self, stay_with_kernel},
    lost_bytes, low_water, pending_error, ready, recall,
};
use crate::system::cancel::quietly;
use crate::system::{kernel, real, unix_sockets};
use crate::table::flags::{
    CHECK_KERNEL, LOW_WATER, NAGLE, NONBLOCKING, READ_SHUT, UNIX, WRITE_SHUT,
};
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{admission, descriptors, slots};
use crate::upgrade::enrol::{
    accepted, adopt_listener, before_connect, connected, connected_locally, enter, leave_multipath,
    protocol,
};
use crate::upgrade::{capability_mark, steps, unix_streams};

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    quietly(|| adopt_listener(fd));
    // SAFETY: the program's call.
    let result = unsafe { real::listen(fd, backlog) };
    if result == 0 {
        edge::listens(fd);
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the program's call.
    unsafe { accept4(fd, address, len, 0) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let room = room(len);
    // SAFETY: the program's call.
    let call = || unsafe { real::accept4(fd, address, len, flags) };
    let new = from_kernel(|| steps::with_room(call));
    if new >= 0 {
        if edge::is_on() && !address.is_null() {
            quietly(|| show_end(new, Side::Other, address, len, room));
        }
        quietly(|| accepted(fd, new));
    }
    new
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let room = room(len);
    // SAFETY: the program's call.
    let result = unsafe { real::getpeername(fd, address, len) };
    if result == 0 && edge::is_on() {
        quietly(|| show_end(fd, Side::Other, address, len, room));
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let room = room(len);
    // SAFETY: the program's call.
    let result = unsafe { real::getsockname(fd, address, len) };
    if result == 0 && edge::is_on() {
        quietly(|| show_end(fd, Side::Own, address, len, room));
    }
    result
}

/// How many bytes the program has for an address, if that matters.
fn room(len: *const socklen_t) -> socklen_t {
    if !edge::is_on() || len.is_null() {
        return 0;
    }
    // SAFETY: any bytes are one.
    unsafe { fault::copy_aside(len) }.unwrap_or(0)
}

/// Replaces the address that the kernel has written by that of a connection through the bridge, if it is one.
fn show_end(fd: c_int, side: Side, address: *mut sockaddr, len: *mut socklen_t, room: socklen_t) {
    if let Some((end, end_len)) = edge::end(fd, side) {
        // SAFETY: the kernel has just written there as much as fits, and the length.
        unsafe {
            let from = (&raw const end).cast::<u8>();
            address
                .cast::<u8>()
                .copy_from_nonoverlapping(from, room.min(end_len) as usize);
            len.write_unaligned(end_len);
        }
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let socket = quietly(|| {
        // Not read from the address, which may be anything: the kernel says what it thinks of it.
        if !admission::may_upgrade() {
            return None;
        }
        if slots::take_new_tcp(fd) {
            return before_connect(fd);
        }
        match protocol(fd) {
            Some(libc::IPPROTO_TCP) => before_connect(fd),
            Some(libc::IPPROTO_MPTCP) => {
                leave_multipath(fd);
                None
            }
            _ => None,
        }
    });
    // SAFETY: the program's call.
    let result = edge::connect(fd, address, len)
        .unwrap_or_else(|| unsafe { real::connect(fd, address, len) });
    if result != 0 {
        if socket.is_some() && real::errno() == libc::ENOTSOCK {
            // The socket was closed past this library.
            closing::closing(fd);
        }
        return result;
    }
    // SAFETY: the kernel has just read it.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match (socket, c_int::from(family)) {
        // With no family it ends a connection.
        (_, libc::AF_UNSPEC) => disconnected(fd),
        (Some(socket), _) => connected(socket),
        (None, libc::AF_UNIX) => quietly(|| connected_locally(fd)),
        _ => {}
    }
    result
}

/// The socket has no other end any more. From here on it stays with the kernel: it may be in epoll sets.
fn disconnected(fd: c_int) {
    let Some(socket) = descriptors::find(fd) else {
        return;
    };
    let mut linger = [0; size_of::<libc::linger>()];
    let known = option::get_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger);
    let generation = socket.generation();
    let cut = || quietly(|| steps::rule_out_upgrade(socket) || leaving::end_stream(fd, socket));
    quietly(|| {
        steps::restore_delays(fd, socket);
        capability_mark::unmark(fd, socket);
    });
    // Relaxed: who comes to have it later has it from this process.
    if socket.processes.load(Ordering::Relaxed) > 1 {
        // While this process has it, too.
        cut();
    }
    closing::closing(fd);
    if socket.generation() == generation {
        // There are duplicates.
        cut();
    }
    if let Ok(len) = known {
        // A close with bytes unread may have changed what they say.
        let _ = option::set_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger[..len]);
    }
    quietly(|| enter(fd, State::Kernel));
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: no pointers.
    let fd = steps::with_room(|| unsafe { real::socket(domain, kind, protocol) });
    let is_tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
        && type_of(kind) == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP);
    if is_tcp && fd >= 0 && descriptors::find(fd).is_none() {
        slots::note_new_tcp(fd);
    }
    fd
}

/// The type of a socket, without the flags that come with it.
const fn type_of(kind: c_int) -> c_int {
    kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    fds: *mut c_int,
) -> c_int {
    // SAFETY: the program's call.
    let result = steps::with_room(|| unsafe { real::socketpair(domain, kind, protocol, fds) });
    let is_stream = type_of(kind) == libc::SOCK_STREAM;
    if result == 0 && domain == libc::AF_UNIX && is_stream && settings::get().unix {
        // SAFETY: the kernel has just written two numbers there.
        let fds = unsafe { [*fds, *fds.add(1)] };
        quietly(|| unix_streams::enter_pair(fds));
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let up = descriptors::find(fd).filter(|socket| socket.state() == State::Upgraded);
    let Some(socket) = up else {
        // SAFETY: no pointers.
        return unsafe { real::shutdown(fd, how) };
    };
    real::keeping_errno(|| shut(fd, socket, how))
}

fn shut(fd: c_int, socket: &SocketState, how: c_int) -> c_int {
    // What another thread sends at this moment goes first, and what we were asked to take back;
    // but one that waits in the kernel is freed by this very call.
    quietly(|| recall::answer_recall(fd, socket));
    let mut held = socket.send_lock.hold_for(SHUTDOWN_WAIT_MS);
    let side = socket.side() as usize;
    if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
        socket.set(WRITE_SHUT, true);
        // One that puts bytes into the ring ends now: they must not come behind the end.
        held = held.or_else(|| socket.send_lock.hold_for(SHUTDOWN_WAIT_MS * 10));
        socket.memory().store(LEAVING + side, 1);
        if capture::is_on() {
            capture::send_ended(fd, socket);
        }
    }
    if how == libc::SHUT_RD || how == libc::SHUT_RDWR {
        socket.set(CHECK_KERNEL | READ_SHUT, true);
        if socket.has(UNIX) {
            // What the other end sends from now on is an error: the kernel's.
            socket.memory().store(LEAVING + side, 1);
        }
    }
    drop(held);
    // SAFETY: no pointers.
    unsafe { real::shutdown(fd, how) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) {
        descriptors::find(fd).into_iter().for_each(stay_with_kernel);
    }
    // SAFETY: the program's call, here and below.
    let result = unsafe { real::getsockopt(fd, level, name, value, len) };
    if result != 0 {
        return result;
    }
    let number = value.cast::<c_int>();
    // SAFETY: where a number is asked for, the kernel has just written one there.
    unsafe {
        match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY)
                if descriptors::find(fd).is_some_and(|socket| socket.has(NAGLE)) =>
            {
                // As many bytes of it as the kernel has.
                value.cast::<u8>().write_bytes(0, *len as usize);
            }
            (libc::IPPROTO_IP, name) if capability_mark::is_one(name) => {
                if let Some(shown) =
                    descriptors::find(fd).and_then(|socket| capability_mark::shown(socket, name))
                {
                    // As many bytes as the kernel has written: one will do.
                    let bytes = shown.to_ne_bytes();
                    let count = bytes.len().min(*len as usize);
                    value
                        .cast::<u8>()
                        .copy_from_nonoverlapping(bytes.as_ptr(), count);
                }
            }
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT) if *len == 4 => {
                if let Some(mark) = descriptors::find(fd).and_then(low_water::programs_mark) {
                    number.write_unaligned(mark);
                }
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_ERROR) if *len == 4 => {
                if let Some(socket) = descriptors::find(fd) {
                    let shown = shown_option(fd, socket, name, number.read_unaligned());
                    number.write_unaligned(shown);
                }
                if name == libc::SO_ERROR && edge::is_on() {
                    number.write_unaligned(edge::told(fd, number.read_unaligned()));
                }
            }
            _ => {}
        }
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the program's call.
    let result = unsafe { real::setsockopt(fd, level, name, value, len) };
    if result == 0 && level == libc::IPPROTO_TCP && name == libc::TCP_NODELAY {
        quietly(|| steps::keep_wake_bytes_fast(fd));
    }
    if result == 0 {
        quietly(|| option_set(fd, level, name));
    }
    result
}

/// The value of a numeric option as the program sees it: an error may be pending.
fn shown_option(fd: c_int, socket: &SocketState, name: c_int, value: c_int) -> c_int {
    if name == libc::SO_ERROR {
        lost_bytes::look_for_end(fd, socket);
    }
    match (name, value) {
        (libc::SO_ERROR, 0) if pending_error::has_error(socket) => {
            pending_error::take_error(fd, socket)
        }
        (libc::SO_ERROR, 0) if lost_bytes::take_reset(fd, socket) => libc::ECONNRESET,
        (libc::SO_ERROR, error) => {
            lost_bytes::note_error(socket, error);
            error
        }
        (_, size) => unix_streams::shown_receive_buffer(socket, size),
    }
}

/// How long a shutdown waits for a send of another thread.
const SHUTDOWN_WAIT_MS: u32 = 1;

/// Handles options that only the kernel can carry.
fn option_set(fd: c_int, level: c_int, name: c_int) {
    if level == libc::SOL_SOCKET && name == libc::SO_RCVBUF {
        unix_streams::receive_buffer_set(fd);
        return;
    }
    if level == libc::SOL_SOCKET && name == libc::SO_RCVLOWAT {
        low_water_set(fd);
        return;
    }
    if level == libc::IPPROTO_IP && capability_mark::is_one(name) {
        if let Some(socket) = descriptors::find(fd) {
            capability_mark::set_by_program(fd, socket, name);
        }
        return;
    }
    let kernel_only = match level {
        // Most of them mean nothing to TCP.
        libc::SOL_SOCKET => unix_sockets::is_kernel_only(name) || kernel::TIMES.contains(&name),
        // TLS in the kernel, and repair; how much there is with each message.
        libc::IPPROTO_TCP => matches!(name, libc::TCP_ULP | libc::TCP_REPAIR | libc::TCP_INQ),
        _ => false,
    };
    if !kernel_only {
        return;
    }
    if let Some(socket) = descriptors::find(fd) {
        stay_with_kernel(socket);
    }
}

/// The program has set a low-water mark. One byte is what all sockets have.
fn low_water_set(fd: c_int) {
    let Some(socket) = descriptors::find(fd) else {
        return;
    };
    let is_usual = kernel::option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT) == Some(1);
    match socket.state() {
        _ if is_usual && !socket.has(LOW_WATER) => {}
        State::Upgraded => leaving::set_low_water(fd, socket),
        _ => stay_with_kernel(socket),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the program's call.
    with_fcntl(fd, command, argument, || unsafe {
        real::fcntl(fd, command, argument)
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the program's call.
    with_fcntl(fd, command, argument, || unsafe {
        real::fcntl64(fd, command, argument)
    })
}

fn with_fcntl(fd: c_int, command: c_int, argument: usize, call: impl FnOnce() -> c_int) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return duplicating(fd, call);
    }
    let result = call();
    if result >= 0 && command == libc::F_SETFL {
        flags_set(fd, argument);
    }
    result
}

fn flags_set(fd: c_int, flags: usize) {
    let Some(socket) = descriptors::find(fd) else {
        return;
    };
    socket.set(NONBLOCKING, flags & libc::O_NONBLOCK as usize != 0);
    if flags & libc::O_ASYNC as usize != 0 {
        quietly(|| stay_with_kernel(socket));
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    let mut at_mark: c_int = 0;
    // SAFETY: the kernel writes a number.
    match unsafe { ioctl(fd, calls::SIOCATMARK, &raw mut at_mark as usize) } {
        0 => at_mark,
        _ => -1,
    }
}

/// The kernel reads the low 32 bits of a request.
const REQUEST_BITS: c_ulong = 0xffff_ffff;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let Some(socket) = descriptors::find(fd) else {
        // SAFETY: the program's call, here and below.
        return unsafe { real::ioctl(fd, request, argument) };
    };
    // SAFETY: the program's call.
    real::keeping_errno(|| unsafe { ioctl_ours(fd, socket, request, argument) })
}

/// # Safety
/// As for [`ioctl`].
unsafe fn ioctl_ours(
    fd: c_int,
    socket: &'static SocketState,
    request: c_ulong,
    argument: usize,
) -> c_int {
    let up = socket.state() == State::Upgraded;
    let request_bits = request & REQUEST_BITS;
    let number_at = argument as *mut c_int;
    if up && request_bits == libc::FIONREAD as c_ulong && fault::can_write(number_at, 4) {
        if let Some(bytes) = ready::readable_bytes(fd, socket) {
            // SAFETY: the program's number.
            unsafe { number_at.write_unaligned(bytes) };
            return 0;
        }
    }
    // Of what the kernel connection has only, and without wake-up bytes, the kernel knows.
    let is_before_mark = up && request_bits == calls::SIOCATMARK && ready::is_in_ring(fd, socket);
    // SAFETY: the program's call.
    let result = unsafe { real::ioctl(fd, request, argument) };
    if result < 0 || argument == 0 {
        return result;
    }
    // SAFETY: the kernel has just read or written a number there.
    let number = || unsafe { (argument as *const c_int).read_unaligned() };
    if up && request_bits == libc::TIOCOUTQ as c_ulong && socket.has(UNIX) {
        // Here it means: not yet read.
        let more = ready::unread_by_peer(socket).unwrap_or(0);
        // SAFETY: as above.
        unsafe { (argument as *mut c_int).write_unaligned(number().saturating_add(more)) };
    }
    if is_before_mark {
        // SAFETY: as above.
        unsafe { (argument as *mut c_int).write_unaligned(0) };
    }
    if request_bits == libc::FIONBIO as c_ulong {
        socket.set(NONBLOCKING, number() != 0);
    } else if request_bits == libc::FIOASYNC as c_ulong && number() != 0 {
        quietly(|| stay_with_kernel(socket));
    }
    result
}
