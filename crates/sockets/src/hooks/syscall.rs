//! `syscall`: a program that makes a call by number must see the same as one that calls the C library's
//! function.
//!
//! Numbers of interposed functions go to the function of that name, whoever provides it. All others go to the
//! C library unchanged, with all six arguments.

use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use libc::{msghdr, socklen_t, timespec};

use crate::handoff::fork::fork_untold;
use crate::hooks::{confine, uring};
use crate::io_uring::rings;
use crate::process::{fault, sandbox};
use crate::system::cancel::{quietly, uncancelled};
use crate::system::real;
use crate::wait::deadline::Deadline;

/// The sixth argument of `pselect6`.
#[repr(C)]
struct MaskAndSize {
    mask: *const libc::sigset_t,
    bytes: usize,
}

/// # Safety
/// As for the C library's. It takes any number of arguments: the caller has put them where these
/// are, and those that it has not are not looked at.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the program's call.
    unsafe {
        let call = || carried(number, [a, b, c, d, e, f]);
        // A thread that was cancelled does not end in a call by its number.
        let result = if returns(number) {
            uncancelled(call)
        } else {
            call()
        };
        match result {
            Some(result) => result,
            None => real::syscall(number, a, b, c, d, e, f),
        }
    }
}

/// Whether a call returns here. If not, a child made by vfork would leave this frame, which belongs to its
/// parent's thread, unfinished.
const fn returns(number: c_long) -> bool {
    !matches!(
        number,
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_exit_group
    )
}

/// Makes the call of that number, if the library interposes its function.
///
/// # Safety
/// The arguments are those of the call of that number.
#[inline]
unsafe fn carried(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as promised: each gets what the kernel would.
    let result = unsafe {
        match number {
            libc::SYS_read => libc::read(fd, b as *mut c_void, c) as c_long,
            libc::SYS_write => libc::write(fd, b as *const c_void, c) as c_long,
            libc::SYS_readv => libc::readv(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_writev => libc::writev(fd, b as *const _, c as c_int) as c_long,
            // Only without an offset do they work on sockets.
            libc::SYS_preadv2 if d == usize::MAX => {
                libc::preadv2(fd, b as *const _, c as c_int, -1, f as c_int) as c_long
            }
            libc::SYS_pwritev2 if d == usize::MAX => {
                libc::pwritev2(fd, b as *const _, c as c_int, -1, f as c_int) as c_long
            }
            libc::SYS_recvfrom => {
                libc::recvfrom(fd, b as *mut _, c, d as c_int, e as *mut _, f as *mut _) as c_long
            }
            libc::SYS_sendto => {
                let size = f as socklen_t;
                libc::sendto(fd, b as *const _, c, d as c_int, e as *const _, size) as c_long
            }
            libc::SYS_recvmsg => libc::recvmsg(fd, b as *mut msghdr, c as c_int) as c_long,
            libc::SYS_sendmsg => libc::sendmsg(fd, b as *const msghdr, c as c_int) as c_long,
            libc::SYS_recvmmsg => {
                let time = e as *mut timespec;
                libc::recvmmsg(fd, b as *mut _, c as c_uint, d as c_int, time).into()
            }
            libc::SYS_sendmmsg => libc::sendmmsg(fd, b as *mut _, c as c_uint, d as c_int).into(),
            libc::SYS_sendfile => libc::sendfile(fd, b as c_int, c as *mut _, d) as c_long,
            libc::SYS_splice => {
                let flags = f as c_uint;
                libc::splice(fd, b as *mut _, c as c_int, d as *mut _, e, flags) as c_long
            }
            _ => return of_sockets(number, [a, b, c, d, e, f]),
        }
    };
    Some(result)
}

/// As [`carried`]: calls that create, close and configure sockets.
///
/// # Safety
/// As for [`carried`].
unsafe fn of_sockets(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as promised.
    let result = unsafe {
        match number {
            libc::SYS_close => libc::close(fd),
            libc::SYS_close_range => libc::close_range(a as c_uint, b as c_uint, c as c_int),
            libc::SYS_dup => libc::dup(fd),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => libc::dup2(fd, b as c_int),
            libc::SYS_dup3 => libc::dup3(fd, b as c_int, c as c_int),
            libc::SYS_fcntl => libc::fcntl(fd, b as c_int, c),
            libc::SYS_ioctl => libc::ioctl(fd, b as c_ulong, c),
            libc::SYS_shutdown => libc::shutdown(fd, b as c_int),
            libc::SYS_listen => libc::listen(fd, b as c_int),
            libc::SYS_accept => libc::accept(fd, b as *mut _, c as *mut _),
            libc::SYS_accept4 => libc::accept4(fd, b as *mut _, c as *mut _, d as c_int),
            libc::SYS_connect => libc::connect(fd, b as *const _, c as socklen_t),
            libc::SYS_getsockname => libc::getsockname(fd, b as *mut _, c as *mut _),
            libc::SYS_getpeername => libc::getpeername(fd, b as *mut _, c as *mut _),
            libc::SYS_socketpair => libc::socketpair(fd, b as c_int, c as c_int, d as *mut _),
            libc::SYS_getsockopt => {
                libc::getsockopt(fd, b as c_int, c as c_int, d as *mut _, e as *mut _)
            }
            libc::SYS_setsockopt => {
                let size = e as socklen_t;
                libc::setsockopt(fd, b as c_int, c as c_int, d as *const _, size)
            }
            libc::SYS_execve => libc::execve(a as *const _, b as *const _, c as *const _),
            libc::SYS_execveat => {
                let flags = e as c_int;
                libc::execveat(fd, b as *const _, c as *const _, d as *const _, flags)
            }
            libc::SYS_exit_group => libc::_exit(fd),
            libc::SYS_prlimit64 => libc::prlimit(fd, b as c_uint, c as *const _, d as *mut _),
            libc::SYS_setrlimit => libc::setrlimit(a as c_uint, b as *const _),
            libc::SYS_getrlimit => libc::getrlimit(a as c_uint, b as *mut _),
            libc::SYS_rt_sigaction => return fault::call([a, b, c, d]),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => fork_by_number(number, [a, b, c, d, e, f]),
            libc::SYS_clone if is_fork(a, b) => fork_by_number(number, [a, b, c, d, e, f]),
            libc::SYS_io_uring_setup => return Some(uring::setup(a, b)),
            libc::SYS_io_uring_enter => return Some(uring::enter([a, b, c, d, e, f])),
            libc::SYS_io_uring_register => {
                rings::before_register(fd, b as u32, c as *const c_void, d as u32);
                return None;
            }
            libc::SYS_seccomp | libc::SYS_prctl => {
                return confine::call(number, [a, b, c, d, e, f]);
            }
            _ => return of_waits(number, [a, b, c, d, e, f]),
        }
    };
    Some(result.into())
}

/// Whether a `clone` is a fork: the child has a copy of what it does not get from its parent.
const fn is_fork(flags: usize, stack: usize) -> bool {
    let shares = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_THREAD;
    stack == 0 && flags & shares as usize == 0
}

/// # Safety
/// As for the call of that number.
#[cold]
unsafe fn fork_by_number(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> libc::pid_t {
    // SAFETY: the program's call.
    fork_untold(|| unsafe { real::syscall(number, a, b, c, d, e, f) as libc::pid_t })
}

/// As [`carried`]: calls that wait.
///
/// # Safety
/// As for [`carried`].
unsafe fn of_waits(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as promised.
    let result = unsafe {
        match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => libc::poll(a as *mut _, b as libc::nfds_t, c as c_int),
            libc::SYS_ppoll if is_mask(d, e) => until_told(c as *mut timespec, |time| {
                libc::ppoll(a as *mut _, b as libc::nfds_t, time, d as *const _)
            })?,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select if is_looked_at(e as *const libc::timeval) => {
                libc::select(fd, b as *mut _, c as *mut _, d as *mut _, e as *mut _)
            }
            libc::SYS_pselect6 => {
                let mask = mask_of_select(f as *const MaskAndSize)?;
                until_told(e as *mut timespec, |time| {
                    libc::pselect(fd, b as *mut _, c as *mut _, d as *mut _, time, mask)
                })?
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => libc::epoll_create(fd),
            libc::SYS_epoll_create1 => libc::epoll_create1(fd),
            libc::SYS_epoll_ctl => libc::epoll_ctl(fd, b as c_int, c as c_int, d as *mut _),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => libc::epoll_wait(fd, b as *mut _, c as c_int, d as c_int),
            libc::SYS_epoll_pwait if is_mask(e, f) => {
                libc::epoll_pwait(fd, b as *mut _, c as c_int, d as c_int, e as *const _)
            }
            libc::SYS_epoll_pwait2 if is_mask(e, f) => {
                libc::epoll_pwait2(fd, b as *mut _, c as c_int, d as *const _, e as *const _)
            }
            _ => return None,
        }
    };
    Some(result.into())
}

/// Whether the kernel accepts a mask of this length. If not, it says so.
const fn is_mask(mask: usize, bytes: usize) -> bool {
    mask == 0 || bytes == real::KERNEL_MASK_BYTES
}

/// Whether the C library may read what the program passes. If not, the kernel judges it.
fn is_looked_at<T>(given: *const T) -> bool {
    given.is_null() || (fault::is_watched() && fault::can_read_aside(given, size_of::<T>()))
}

/// The mask of a `pselect6`; `None` if the kernel does not accept it.
///
/// # Safety
/// The argument is the program's.
unsafe fn mask_of_select(given: *const MaskAndSize) -> Option<*const libc::sigset_t> {
    if given.is_null() {
        return Some(core::ptr::null());
    }
    if !is_looked_at(given) {
        return None;
    }
    // SAFETY: as promised, and it is there.
    let given = unsafe { given.read_unaligned() };
    is_mask(given.mask as usize, given.bytes).then_some(given.mask)
}

/// Waits as a function of the C library's does, and tells what is left of the time, as the kernel's
/// call does. `None` for a time that is not one: the kernel says so; and where no call may be made
/// but the program's.
///
/// # Safety
/// `time` is the program's.
unsafe fn until_told(
    time: *mut timespec,
    wait: impl FnOnce(*const timespec) -> c_int,
) -> Option<c_int> {
    if time.is_null() {
        return Some(wait(time));
    }
    if sandbox::is_sandboxed() || !is_looked_at(time) {
        return None;
    }
    // SAFETY: as promised, and it is there.
    let deadline = Deadline::after(Some(unsafe { time.read_unaligned() }))?;
    let result = wait(time);
    let left = deadline.left()?;
    // To memory that is only to be read it is not told, and all is well.
    quietly(|| fault::write_time(time, left));
    Some(result)
}
