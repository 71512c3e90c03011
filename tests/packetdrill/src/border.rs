//! The interface for C: a struct of functions that packetdrill asks this library to fill.
//!
//! The layout is our own declaration of `struct packetdrill_interface`, as packetdrill describes it
//! in `gtests/net/packetdrill/packetdrill.h` (commit 2c4001c). On 64-bit machines, in words of 8
//! bytes:
//!
//! | word | what |
//! |---|---|
//! | 0 | `userdata`, the first argument of each function |
//! | 1 | `free` |
//! | 2 to 6 | `socket`, `bind`, `listen`, `accept`, `connect` |
//! | 7 to 11 | `read`, `readv`, `recv`, `recvfrom`, `recvmsg` |
//! | 12 to 16 | `write`, `writev`, `send`, `sendto`, `sendmsg` |
//! | 17 to 23 | `fcntl`, `ioctl`, `close`, `shutdown`, `getsockopt`, `setsockopt`, `poll` |
//! | 24, 25 | `netdev_send`, `netdev_receive` |
//! | 26, 27 | `usleep`, `gettimeofday` |
//! | 28 to 32 | `epoll_create`, `epoll_ctl`, `epoll_wait`, `pipe`, `splice` |
//!
//! Functions that no script needs fail with ENOSYS. A panic here ends the process, as a failed
//! script does.
#![allow(unsafe_code)]

use crate::stack::{Errno, Stack};
use core::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_ulong, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

type User = *mut c_void;
type Address = *mut libc::sockaddr;
type Length = *mut libc::socklen_t;

/// A function that is not offered. It may be called with more arguments than it looks at: in the
/// calling conventions of x86-64 and AArch64 the caller removes them.
type Refused = unsafe extern "C" fn(User) -> isize;

/// What packetdrill asks to be filled.
#[repr(C)]
pub struct Interface {
    userdata: User,
    free: unsafe extern "C" fn(User),
    socket: unsafe extern "C" fn(User, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(User, c_int, Address, libc::socklen_t) -> c_int,
    listen: unsafe extern "C" fn(User, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(User, c_int, Address, Length) -> c_int,
    connect: unsafe extern "C" fn(User, c_int, Address, libc::socklen_t) -> c_int,
    read: unsafe extern "C" fn(User, c_int, *mut u8, usize) -> isize,
    readv: Refused,
    recv: Refused,
    recvfrom: Refused,
    recvmsg: Refused,
    write: unsafe extern "C" fn(User, c_int, *const u8, usize) -> isize,
    writev: Refused,
    send: Refused,
    sendto: Refused,
    sendmsg: Refused,
    /// Variadic in C; its further argument is not looked at.
    fcntl: unsafe extern "C" fn(User, c_int, c_int) -> c_int,
    ioctl: Refused,
    close: unsafe extern "C" fn(User, c_int) -> c_int,
    shutdown: unsafe extern "C" fn(User, c_int, c_int) -> c_int,
    getsockopt: unsafe extern "C" fn(User, c_int, c_int, c_int, *mut c_void, Length) -> c_int,
    setsockopt:
        unsafe extern "C" fn(User, c_int, c_int, c_int, *const c_void, libc::socklen_t) -> c_int,
    poll: unsafe extern "C" fn(User, *mut libc::pollfd, c_ulong, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(User, *const u8, usize) -> c_int,
    netdev_receive: unsafe extern "C" fn(User, *mut u8, *mut usize, *mut c_longlong) -> c_int,
    usleep: unsafe extern "C" fn(User, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(User, *mut libc::timeval, *mut c_void) -> c_int,
    epoll_create: Refused,
    epoll_ctl: Refused,
    epoll_wait: Refused,
    pipe: Refused,
    splice: Refused,
}

const _: () = assert!(size_of::<Interface>() == 33 * size_of::<usize>());

/// Fills `interface` with the functions of a new stack. `flags` is the value of `--so_flags`, or
/// null.
///
/// # Safety
///
/// `flags` is null or a C string, and `interface` has room for an [`Interface`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let flags = if flags.is_null() {
        ""
    } else {
        // SAFETY: the caller gives a C string.
        unsafe { CStr::from_ptr(flags) }.to_str().unwrap_or("?")
    };
    let stack = Stack::new(flags).unwrap_or_else(|reason| {
        eprintln!("barewire: {reason}");
        std::process::exit(2);
    });
    let userdata = Box::into_raw(Box::new(Mutex::new(stack))).cast();
    let filled = Interface {
        userdata,
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv: refused,
        recv: refused,
        recvfrom: refused,
        recvmsg: refused,
        write,
        writev: refused,
        send: refused,
        sendto: refused,
        sendmsg: refused,
        fcntl,
        ioctl: refused,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create: refused,
        epoll_ctl: refused,
        epoll_wait: refused,
        pipe: refused,
        splice: refused,
    };
    // SAFETY: the caller has room for it.
    unsafe { interface.write(filled) };
}

/// The stack behind `userdata`.
///
/// # Safety
///
/// `user` is what [`packetdrill_interface_init`] has stored, and `free` was not called.
unsafe fn stack<'a>(user: User) -> MutexGuard<'a, Stack> {
    // SAFETY: the caller says that it points to this, and that it lives.
    let stack = unsafe { &*user.cast::<Mutex<Stack>>() };
    stack.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a call, with `errno` set where it failed.
fn result<T>(result: Result<T, Errno>, value: impl FnOnce(T) -> isize) -> isize {
    match result {
        Ok(done) => value(done),
        Err(number) => {
            // SAFETY: it points to this thread's `errno`.
            unsafe { *libc::__errno_location() = number };
            -1
        }
    }
}

fn number<T>(outcome: Result<T, Errno>, value: impl FnOnce(T) -> c_int) -> c_int {
    // `value` fits, since it was a `c_int`.
    result(outcome, |done| value(done) as isize) as c_int
}

fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

/// Reads an address of `len` bytes.
///
/// # Safety
///
/// `address` points to as many bytes as `len` says.
unsafe fn address(address: Address, len: libc::socklen_t) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    let len = len as usize;
    if len >= size_of::<libc::sockaddr_in6>() {
        // SAFETY: there are enough bytes, and any of them make an address.
        let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
        if c_int::from(v6.sin6_family) == libc::AF_INET6 {
            let ip = IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr));
            return Ok(SocketAddr::new(ip, u16::from_be(v6.sin6_port)));
        }
    }
    if len >= size_of::<libc::sockaddr_in>() {
        // SAFETY: there are enough bytes, and any of them make an address.
        let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
        if c_int::from(v4.sin_family) == libc::AF_INET {
            let ip = IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)));
            return Ok(SocketAddr::new(ip, u16::from_be(v4.sin_port)));
        }
    }
    Err(libc::EAFNOSUPPORT)
}

/// Writes an address.
///
/// # Safety
///
/// Both pointers are null, or `len` says how many bytes there are at `to`.
unsafe fn store_address(address: SocketAddr, to: Address, len: Length) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller says that it can be read.
    let room = unsafe { *len } as usize;
    match address {
        SocketAddr::V4(v4) if room >= size_of::<libc::sockaddr_in>() => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: there is room.
            unsafe {
                to.cast::<libc::sockaddr_in>().write_unaligned(raw);
                *len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
        }
        SocketAddr::V6(v6) if room >= size_of::<libc::sockaddr_in6>() => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: 0,
            };
            // SAFETY: there is room.
            unsafe {
                to.cast::<libc::sockaddr_in6>().write_unaligned(raw);
                *len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        _ => {}
    }
}

/// Bytes that packetdrill lends for reading.
///
/// # Safety
///
/// `bytes` is null, or points to `len` bytes that nobody writes during `'a`.
unsafe fn lent<'a>(bytes: *const u8, len: usize) -> &'a [u8] {
    if bytes.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { core::slice::from_raw_parts(bytes, len) }
}

/// Bytes that packetdrill lends for writing.
///
/// # Safety
///
/// `bytes` is null, or points to `len` bytes that nobody else uses during `'a`.
unsafe fn lent_mut<'a>(bytes: *mut u8, len: usize) -> &'a mut [u8] {
    if bytes.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: the caller says so; packetdrill has written all of its buffers once.
    unsafe { core::slice::from_raw_parts_mut(bytes, len) }
}

// What holds for all functions from here on. packetdrill calls them with the `userdata` that it was
// given, before `free`, and with pointers as the functions of the C library of the same name take
// them. Each `SAFETY:` below stands on this.

/// Says what the script has left unseen, and ends the stack.
// SAFETY: see above; it is the last call.
unsafe extern "C" fn free(user: User) {
    // SAFETY: it came from `Box::into_raw`, and nobody uses it any longer.
    let stack = unsafe { Box::from_raw(user.cast::<Mutex<Stack>>()) };
    let left = stack.lock().map_or(0, |mut stack| stack.end());
    if left > 0 {
        eprintln!("barewire: the script did not expect {left} packets at its end");
    }
}

// SAFETY: see above.
unsafe extern "C" fn refused(_: User) -> isize {
    result::<()>(Err(libc::ENOSYS), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn socket(user: User, _domain: c_int, kind: c_int, _protocol: c_int) -> c_int {
    // SAFETY: see above.
    number(unsafe { stack(user) }.socket(kind), |fd| fd)
}

// SAFETY: see above.
unsafe extern "C" fn bind(user: User, fd: c_int, to: Address, len: libc::socklen_t) -> c_int {
    // SAFETY: see above.
    let (mut stack, to) = unsafe { (stack(user), address(to, len)) };
    number(to.and_then(|to| stack.bind(fd, to)), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn listen(user: User, fd: c_int, backlog: c_int) -> c_int {
    let backlog = usize::try_from(backlog).unwrap_or(0);
    // SAFETY: see above.
    number(unsafe { stack(user) }.listen(fd, backlog), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn accept(user: User, fd: c_int, from: Address, len: Length) -> c_int {
    // SAFETY: see above.
    let accepted = unsafe { stack(user) }.accept(fd);
    number(accepted, |(fd, remote)| {
        // SAFETY: see above.
        unsafe { store_address(remote, from, len) };
        fd
    })
}

// SAFETY: see above.
unsafe extern "C" fn connect(user: User, fd: c_int, to: Address, len: libc::socklen_t) -> c_int {
    // SAFETY: see above.
    let (mut stack, to) = unsafe { (stack(user), address(to, len)) };
    number(to.and_then(|to| stack.connect(fd, to)), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn read(user: User, fd: c_int, into: *mut u8, len: usize) -> isize {
    // SAFETY: see above.
    let (mut stack, into) = unsafe { (stack(user), lent_mut(into, len)) };
    result(stack.read(fd, into), signed)
}

// SAFETY: see above.
unsafe extern "C" fn write(user: User, fd: c_int, bytes: *const u8, len: usize) -> isize {
    // SAFETY: see above.
    let (mut stack, bytes) = unsafe { (stack(user), lent(bytes, len)) };
    result(stack.write(fd, bytes), signed)
}

// SAFETY: see above.
unsafe extern "C" fn fcntl(_: User, _fd: c_int, command: c_int) -> c_int {
    number(
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | libc::O_NONBLOCK),
            libc::F_SETFL => Ok(0),
            _ => Err(libc::EINVAL),
        },
        |flags| flags,
    )
}

// SAFETY: see above.
unsafe extern "C" fn close(user: User, fd: c_int) -> c_int {
    // SAFETY: see above.
    number(unsafe { stack(user) }.close(fd), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn shutdown(user: User, fd: c_int, how: c_int) -> c_int {
    // SAFETY: see above.
    number(unsafe { stack(user) }.shutdown(fd, how), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn getsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: Length,
) -> c_int {
    if value.is_null() || len.is_null() {
        return number::<()>(Err(libc::EFAULT), |()| 0);
    }
    // SAFETY: see above.
    let (mut stack, room) = unsafe { (stack(user), *len) };
    if (room as usize) < size_of::<c_int>() {
        return number::<()>(Err(libc::EINVAL), |()| 0);
    }
    number(stack.option(fd, level, name), |found| {
        // SAFETY: there is room, as was checked.
        unsafe {
            value.cast::<c_int>().write_unaligned(found);
            *len = size_of::<c_int>() as libc::socklen_t;
        }
        0
    })
}

// SAFETY: see above.
unsafe extern "C" fn setsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    // Of `struct linger` the second number is the time.
    let is_linger = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER);
    let at = usize::from(is_linger);
    if value.is_null() || (len as usize) < (at + 1) * size_of::<c_int>() {
        return number::<()>(Err(libc::EINVAL), |()| 0);
    }
    // SAFETY: see above; there are enough bytes, as was checked.
    let (mut stack, value) =
        unsafe { (stack(user), value.cast::<c_int>().add(at).read_unaligned()) };
    number(stack.set_option(fd, level, name, value), |()| 0)
}

// SAFETY: see above.
unsafe extern "C" fn poll(user: User, fds: *mut libc::pollfd, count: c_ulong, _: c_int) -> c_int {
    if fds.is_null() || count == 0 {
        return 0;
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: see above.
    let (mut stack, fds) = unsafe { (stack(user), core::slice::from_raw_parts_mut(fds, count)) };
    let mut ready = 0;
    for fd in fds {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        fd.revents = stack.events(fd.fd) & (fd.events | always);
        ready += c_int::from(fd.revents != 0);
    }
    ready
}

// SAFETY: see above.
unsafe extern "C" fn netdev_send(user: User, packet: *const u8, len: usize) -> c_int {
    // SAFETY: see above.
    let (mut stack, packet) = unsafe { (stack(user), lent(packet, len)) };
    stack.take_packet(packet);
    0
}

/// Gives the next packet. Where none will come, it ends the process: packetdrill would ask for
/// ever.
// SAFETY: see above.
unsafe extern "C" fn netdev_receive(
    user: User,
    into: *mut u8,
    len: *mut usize,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: see above.
    let (mut stack, into) = unsafe { (stack(user), lent_mut(into, *len)) };
    let Some((at, packet)) = stack.give_packet() else {
        eprintln!("barewire: the script waits for a packet, and none will come");
        std::process::exit(1);
    };
    let Some(room) = into.get_mut(..packet.len()) else {
        return -1;
    };
    room.copy_from_slice(&packet);
    // SAFETY: see above.
    unsafe {
        *len = packet.len();
        *time_us = c_longlong::try_from(at).unwrap_or(c_longlong::MAX);
    }
    0
}

// SAFETY: see above.
unsafe extern "C" fn usleep(user: User, us: c_uint) -> c_int {
    // SAFETY: see above.
    unsafe { stack(user) }.let_pass(u64::from(us));
    0
}

// SAFETY: see above.
unsafe extern "C" fn gettimeofday(user: User, to: *mut libc::timeval, _: *mut c_void) -> c_int {
    // SAFETY: see above.
    let us = unsafe { stack(user) }.time();
    let time = libc::timeval {
        tv_sec: libc::time_t::try_from(us / 1_000_000).unwrap_or(libc::time_t::MAX),
        tv_usec: (us % 1_000_000) as libc::suseconds_t,
    };
    if !to.is_null() {
        // SAFETY: see above.
        unsafe { to.write(time) };
    }
    0
}
