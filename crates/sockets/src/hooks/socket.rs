//! Functions that make sockets and ask or tell them something.

use core::ffi::{c_int, c_ulong, c_void};
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::{LEAVING, SharedMemory};
use libc::{sockaddr, socklen_t};

use crate::hooks::io::from_kernel;
use crate::hooks::lifetime::{self, used_past_us};
use crate::process::quietly;
use crate::record::{
    CHECK_LINE, DELAYS, LOCAL, LOW_WATER, MULTIPATH, NONBLOCKING, OPENER, READ_SHUT, Record, State,
    WRITE_SHUT, Why,
};
use crate::{
    capture, confinement, epoll, fault, kernel, local, lost, marks, process, real, record,
    settings, stream, upgrade,
};

/// Whether a socket is one of TCP.
fn is_tcp(fd: c_int) -> bool {
    protocol(fd) == Some(libc::IPPROTO_TCP)
}

fn protocol(fd: c_int) -> Option<c_int> {
    kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)
}

/// A socket of Multipath TCP is the kernel's. Its other end may use TCP alone; but the kernel has then
/// still two sockets of this end, and tells the program of the one, and others of the other: it cannot
/// prove which it is.
fn leave_multipath(fd: c_int) {
    if record::find(fd).is_none() {
        if let Some(record) = enter(fd, State::Plain) {
            record.note_why(Why::Multipath);
        }
    }
}

/// Enters a socket into the table.
fn enter(fd: c_int, state: State) -> Option<&'static Record> {
    let record = record::add(fd, state)?;
    record::note_highest(fd);
    Some(record)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    quietly(|| adopt_listener(fd));
    // SAFETY: the program's call.
    unsafe { real::listen(fd, backlog) }
}

/// Marks a listening socket, once.
fn adopt_listener(fd: c_int) -> Option<&'static Record> {
    if let Some(record) = record::find(fd) {
        match record.state() {
            State::Listening => return Some(record),
            State::Fresh if !settle_connecting(fd, record) => {}
            State::Plain => {}
            // A connection cannot listen: the kernel says so.
            _ => return None,
        }
    }
    if !confinement::may_come() {
        return None;
    }
    let protocol = protocol(fd);
    let is_tcp = protocol == Some(libc::IPPROTO_TCP);
    let is_multipath = protocol == Some(libc::IPPROTO_MPTCP);
    let is_local = !is_tcp && !is_multipath && local::is_carried(fd);
    if !is_local && !is_tcp && !is_multipath {
        return None;
    }
    let record = record::find(fd).or_else(|| enter(fd, State::Plain))?;
    record.set(LOCAL, is_local);
    record.set(MULTIPATH, is_multipath);
    // A listener of Multipath TCP cannot be marked; what it accepts is, one by one.
    let is_carried = is_local || is_multipath || marks::mark_record(fd, record);
    record.set_state(if is_carried {
        State::Listening
    } else {
        State::Plain
    });
    Some(record)
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
    // SAFETY: the program's call.
    let call = || unsafe { real::accept4(fd, address, len, flags) };
    let new = from_kernel(|| upgrade::with_room(call));
    if new >= 0 {
        quietly(|| accepted(fd, new));
    }
    new
}

fn accepted(listener: c_int, new: c_int) {
    // A socket that listened before this program began has no mark yet: from now on it has.
    let known = record::find(listener);
    let listener = known.or_else(|| adopt_listener(listener));
    let Some(listener) = listener.filter(|listener| listener.state() == State::Listening) else {
        return;
    };
    if listener.has(MULTIPATH) {
        accepted_by_multipath(new);
    } else if listener.has(LOCAL) {
        local::enter(new);
    } else if let Some(record) = enter(new, State::Candidate) {
        if known.is_some() {
            marks::inherit(new, record, listener);
        } else {
            marks::mark_record(new, record);
        }
    }
}

/// Where the other end uses TCP alone, the kernel has made the new socket one of TCP.
fn accepted_by_multipath(new: c_int) {
    if !is_tcp(new) {
        leave_multipath(new);
    } else if let Some(record) = enter(new, State::Candidate) {
        marks::mark_record(new, record);
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let record = quietly(|| {
        // Not read from the address, which may be anything: the kernel says what it thinks of it.
        if !confinement::may_come() {
            return None;
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
    let result = unsafe { real::connect(fd, address, len) };
    if result != 0 {
        return result;
    }
    // SAFETY: the kernel has just read it.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match (record, c_int::from(family)) {
        // With no family it ends a connection.
        (_, libc::AF_UNSPEC) => disconnected(fd),
        (Some(record), _) => connected(record),
        (None, libc::AF_UNIX) => quietly(|| connected_locally(fd)),
        _ => {}
    }
    result
}

/// It has no other end any more. What it becomes is the kernel's: it may be in sets.
fn disconnected(fd: c_int) {
    let Some(record) = record::find(fd) else {
        return;
    };
    let mut linger = [0; size_of::<libc::linger>()];
    let known = kernel::option_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger);
    let generation = record.generation();
    let cut = || quietly(|| upgrade::stays_down(record) || stream::cut(fd, record));
    quietly(|| {
        upgrade::restore_delays(fd, record);
        marks::unmark(fd, record);
    });
    // Relaxed: who comes to have it later has it from this process.
    if record.processes.load(Ordering::Relaxed) > 1 {
        // While this process has it, too.
        cut();
    }
    lifetime::closing(fd);
    if record.generation() == generation {
        // There are duplicates.
        cut();
    }
    if let Some(len) = known {
        let len = len as socklen_t;
        // SAFETY: as many bytes; a close with bytes unread may have changed what they say.
        unsafe {
            real::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                linger.as_ptr().cast(),
                len,
            )
        };
    }
    quietly(|| enter(fd, State::Plain));
}

fn connected_locally(fd: c_int) {
    let is_carried =
        settings::get().unix && confinement::may_come() && kernel::unix::is_of_streams(fd);
    if is_carried && record::find(fd).is_none() {
        local::enter(fd);
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: no pointers.
    upgrade::with_room(|| unsafe { real::socket(domain, kind, protocol) })
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
    let result = upgrade::with_room(|| unsafe { real::socketpair(domain, kind, protocol, fds) });
    let is_stream = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == libc::SOCK_STREAM;
    if result == 0 && domain == libc::AF_UNIX && is_stream && settings::get().unix {
        // SAFETY: the kernel has just written two numbers there.
        let fds = unsafe { [*fds, *fds.add(1)] };
        quietly(|| local::enter_pair(fds));
    }
    result
}

/// A socket is about to enter a set: if it has yet to connect, it is looked after from now on, so that
/// the set's waits know it.
#[cold]
pub fn before_connect_if_new(fd: c_int) {
    quietly(|| {
        let listens = kernel::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0);
        if confinement::may_come() && is_tcp(fd) && !listens && kernel::tuple(fd).is_none() {
            before_connect(fd);
        }
    });
}

/// Marks a socket that is about to connect.
fn before_connect(fd: c_int) -> Option<&'static Record> {
    if let Some(record) = record::find(fd) {
        // A second call, for a connection in progress, or one that failed.
        return (record.state() == State::Fresh).then_some(record);
    }
    let flags = marks::mark(fd)?;
    let record = enter(fd, State::Fresh)?;
    record.set(flags, true);
    Some(record)
}

fn connected(record: &Record) {
    record.set(OPENER, true);
    record.change(State::Fresh, State::Candidate);
}

/// Finds out whether a socket that was connecting is connected.
pub fn settle_connecting(fd: c_int, record: &'static Record) -> bool {
    quietly(|| {
        // In progress, it has no other end yet.
        let is_connected = kernel::tuple(fd).is_some();
        if is_connected {
            connected(record);
        }
        is_connected
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let up = record::find(fd).filter(|record| record.state() == State::Up);
    let Some(record) = up else {
        // SAFETY: no pointers.
        return unsafe { real::shutdown(fd, how) };
    };
    real::keeping_errno(|| shut(fd, record, how))
}

fn shut(fd: c_int, record: &Record, how: c_int) -> c_int {
    // What another thread sends at this moment goes first, and what we were asked to take back;
    // but one that waits in the kernel is freed by this very call.
    quietly(|| stream::answer(fd, record));
    let mut held = record.send_lock.hold_for(SHUTDOWN_WAIT_MS);
    let side = record.side.load(Ordering::Relaxed) as usize;
    if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
        record.set(WRITE_SHUT, true);
        // One that puts bytes into the ring ends now: they must not come behind the end.
        held = held.or_else(|| record.send_lock.hold_for(SHUTDOWN_WAIT_MS * 10));
        record.carrier().store(LEAVING + side, 1);
        if capture::is_on() {
            capture::send_ended(fd, record);
        }
    }
    if how == libc::SHUT_RD || how == libc::SHUT_RDWR {
        record.set(CHECK_LINE | READ_SHUT, true);
        if record.has(LOCAL) {
            // What the other end sends from now on is an error: the kernel's.
            record.carrier().store(LEAVING + side, 1);
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
        record::find(fd).into_iter().for_each(stay_with_kernel);
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
                if record::find(fd).is_some_and(|record| record.has(DELAYS)) =>
            {
                // As many bytes of it as the kernel has.
                value.cast::<u8>().write_bytes(0, *len as usize);
            }
            (libc::IPPROTO_IP, name) if marks::is_one(name) => {
                if let Some(shown) = record::find(fd).and_then(|record| marks::shown(record, name))
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
                if let Some(mark) = record::find(fd).and_then(stream::low_water::shown) {
                    number.write_unaligned(mark);
                }
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_ERROR) if *len == 4 => {
                if let Some(record) = record::find(fd) {
                    let shown = shown_option(fd, record, name, number.read_unaligned());
                    number.write_unaligned(shown);
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
        quietly(|| upgrade::keep_tokens_fast(fd));
    }
    if result == 0 {
        quietly(|| option_set(fd, level, name));
    }
    result
}

/// What the program is told of a number that the kernel has for a socket: an error may have been kept.
fn shown_option(fd: c_int, record: &Record, name: c_int, value: c_int) -> c_int {
    if name == libc::SO_ERROR {
        lost::look_for_end(fd, record);
    }
    match (name, value) {
        (libc::SO_ERROR, 0) if stream::has_error(record) => stream::take_error(fd, record),
        (libc::SO_ERROR, 0) if lost::take_reset(fd, record) => libc::ECONNRESET,
        (libc::SO_ERROR, error) => {
            lost::note_error(record, error);
            error
        }
        (_, size) => local::shown_receive_buffer(record, size),
    }
}

/// How long a shutdown waits for a send of another thread.
const SHUTDOWN_WAIT_MS: u32 = 1;

/// Options that only the kernel can carry.
fn option_set(fd: c_int, level: c_int, name: c_int) {
    if level == libc::SOL_SOCKET && name == libc::SO_RCVBUF {
        local::receive_buffer_set(fd);
        return;
    }
    if level == libc::SOL_SOCKET && name == libc::SO_RCVLOWAT {
        low_water_set(fd);
        return;
    }
    if level == libc::IPPROTO_IP && marks::is_one(name) {
        if let Some(record) = record::find(fd) {
            marks::set_by_program(fd, record, name);
        }
        return;
    }
    let kernel_only = match level {
        // Most of them mean nothing to TCP.
        libc::SOL_SOCKET => kernel::unix::is_kernel_only(name) || kernel::TIMES.contains(&name),
        // TLS in the kernel, and repair; how much there is with each message.
        libc::IPPROTO_TCP => matches!(name, libc::TCP_ULP | libc::TCP_REPAIR | libc::TCP_INQ),
        _ => false,
    };
    if !kernel_only {
        return;
    }
    if let Some(record) = record::find(fd) {
        stay_with_kernel(record);
    }
}

/// The low-water mark of one byte is what all sockets have.
fn low_water_set(fd: c_int) {
    let Some(record) = record::find(fd) else {
        return;
    };
    let is_usual = kernel::option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT) == Some(1);
    match record.state() {
        _ if is_usual && !record.has(LOW_WATER) => {}
        State::Up => stream::low_water::set(fd, record),
        _ => stay_with_kernel(record),
    }
}

/// The socket is used in a way that only the kernel can serve.
pub fn stay_with_kernel(record: &'static Record) {
    if !upgrade::stays_down(record) {
        stream::line_only(record, Why::Usage);
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
    let Some(record) = record::find(fd) else {
        return;
    };
    record.set(NONBLOCKING, flags & libc::O_NONBLOCK as usize != 0);
    if flags & libc::O_ASYNC as usize != 0 {
        quietly(|| stay_with_kernel(record));
    }
}

/// Runs a call of the program's that duplicates a descriptor, and returns the new one.
pub fn duplicating(old: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let is_known = record::find(old).is_some() || epoll::is_set(old);
    if !is_known {
        return call();
    }
    if process::is_borrower() {
        lifetime::before_duplicate(old);
        return call();
    }
    let new = real::keeping_errno(|| record::duplicate(old, call));
    if new >= 0 && new != old {
        quietly(|| {
            // The C library's own streams are there: what the program prints goes past us.
            if new <= libc::STDERR_FILENO {
                used_past_us(new);
            }
            epoll::set_duplicated(old, new);
        });
    }
    new
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    let mut at_mark: c_int = 0;
    // SAFETY: the kernel writes a number.
    match unsafe { ioctl(fd, stream::SIOCATMARK, &raw mut at_mark as usize) } {
        0 => at_mark,
        _ => -1,
    }
}

/// The low 32 bits of a request are what the kernel reads.
const REQUEST_BITS: c_ulong = 0xffff_ffff;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let Some(record) = record::find(fd) else {
        // SAFETY: the program's call, here and below.
        return unsafe { real::ioctl(fd, request, argument) };
    };
    // SAFETY: the program's call.
    real::keeping_errno(|| unsafe { ioctl_ours(fd, record, request, argument) })
}

/// # Safety
/// As for [`ioctl`].
unsafe fn ioctl_ours(
    fd: c_int,
    record: &'static Record,
    request: c_ulong,
    argument: usize,
) -> c_int {
    let up = record.state() == State::Up;
    let request_bits = request & REQUEST_BITS;
    let number_at = argument as *mut c_int;
    if up && request_bits == libc::FIONREAD as c_ulong && fault::can_write(number_at, 4) {
        if let Some(bytes) = stream::readable_bytes(fd, record) {
            // SAFETY: the program's number.
            unsafe { number_at.write_unaligned(bytes) };
            return 0;
        }
    }
    // Of what the line has only, and without tokens, the kernel knows.
    let is_before_mark = up && request_bits == stream::SIOCATMARK && stream::is_in_ring(fd, record);
    // SAFETY: the program's call.
    let result = unsafe { real::ioctl(fd, request, argument) };
    if result < 0 || argument == 0 {
        return result;
    }
    // SAFETY: the kernel has just read or written a number there.
    let number = || unsafe { (argument as *const c_int).read_unaligned() };
    if up && request_bits == libc::TIOCOUTQ as c_ulong && record.has(LOCAL) {
        // Here it means: not yet read.
        let more = stream::unread_by_peer(record).unwrap_or(0);
        // SAFETY: as above.
        unsafe { (argument as *mut c_int).write_unaligned(number().saturating_add(more)) };
    }
    if is_before_mark {
        // SAFETY: as above.
        unsafe { (argument as *mut c_int).write_unaligned(0) };
    }
    if request_bits == libc::FIONBIO as c_ulong {
        record.set(NONBLOCKING, number() != 0);
    } else if request_bits == libc::FIOASYNC as c_ulong && number() != 0 {
        quietly(|| stay_with_kernel(record));
    }
    result
}
