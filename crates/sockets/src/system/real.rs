//! The real functions of the C library, behind the interposed ones.
//!
//! They are looked up once, by `dlsym(RTLD_NEXT)`, in the constructor of this library. Functions that other
//! constructors call earlier are looked up at their first call. Afterwards nothing is looked up: a signal
//! handler must not call `dlsym`, nor must a child made by vfork.

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off64_t, pid_t, pollfd, sighandler_t,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

/// A list of strings, ended by a null pointer.
type Strings = *const *const c_char;

/// The next definition of the symbol `name`, which ends with a zero.
#[inline]
fn look_up(cache: &AtomicPtr<c_void>, name: &'static [u8]) -> *mut c_void {
    // Relaxed: the pointer is to code that is there from before we were loaded.
    let found = cache.load(Ordering::Relaxed);
    if found.is_null() {
        return look_up_first(cache, name);
    }
    found
}

#[cold]
#[inline(never)]
fn look_up_first(cache: &AtomicPtr<c_void>, name: &'static [u8]) -> *mut c_void {
    // SAFETY: `name` ends with a zero.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    if found.is_null() {
        found = stand_in(name);
    }
    // Relaxed: as in `look_up`. Every thread finds the same.
    cache.store(found, Ordering::Relaxed);
    found
}

/// What is called in place of a function that this C library is too old for. A program can make some
/// of these calls by their numbers all the same.
#[cold]
fn stand_in(name: &[u8]) -> *mut c_void {
    // SAFETY: no arguments. What `dlsym` has said is not meant for the program.
    unsafe { libc::dlerror() };
    let function = match name {
        b"close_range\0" => close_range_by_number as *const (),
        b"execveat\0" => execveat_by_number as *const (),
        b"epoll_pwait2\0" => epoll_pwait2_by_number as *const (),
        _ => not_there as *const (),
    };
    function.cast_mut().cast()
}

extern "C-unwind" fn not_there() -> ssize_t {
    fail(libc::ENOSYS)
}

/// # Safety
/// As for the C library's.
unsafe extern "C-unwind" fn close_range_by_number(
    first: usize,
    last: usize,
    flags: usize,
) -> c_int {
    // SAFETY: the program's call, here and below.
    unsafe { syscall(libc::SYS_close_range, first, last, flags, 0, 0, 0) as c_int }
}

/// # Safety
/// As for the C library's.
unsafe extern "C-unwind" fn execveat_by_number(
    folder: usize,
    path: usize,
    arguments: usize,
    environment: usize,
    flags: usize,
) -> c_int {
    let number = libc::SYS_execveat;
    // SAFETY: the program's call.
    unsafe { syscall(number, folder, path, arguments, environment, flags, 0) as c_int }
}

/// # Safety
/// As for the C library's.
unsafe extern "C-unwind" fn epoll_pwait2_by_number(
    set: usize,
    events: usize,
    count: usize,
    timeout: usize,
    mask: usize,
) -> c_int {
    let number = libc::SYS_epoll_pwait2;
    // SAFETY: the program's call.
    unsafe { syscall(number, set, events, count, timeout, mask, KERNEL_MASK_BYTES) as c_int }
}

/// Bytes of a set of signals, as the kernel has it.
pub const KERNEL_MASK_BYTES: usize = 8;

macro_rules! real {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        #[allow(non_upper_case_globals, reason = "named after the functions")]
        mod cache {
            $(pub static $name: super::AtomicPtr<core::ffi::c_void> = super::AtomicPtr::new(core::ptr::null_mut());)*
        }

        /// Looks up all of them: from now on nothing is looked up any more.
        pub fn look_up_all() {
            $(look_up(&cache::$name, concat!(stringify!($name), "\0").as_bytes());)*
            look_up_variadic();
            dprintf();
            dprintf_chk();
        }

        $(
        /// The C library's function of this name.
        ///
        /// # Safety
        /// As for the C library's.
        #[allow(non_snake_case, reason = "named after the functions")]
        #[inline]
        pub unsafe fn $name($($arg: $type),*) -> $result {
            let found = look_up(&cache::$name, concat!(stringify!($name), "\0").as_bytes());
            // SAFETY: the C library's function of this name has this type.
            unsafe {
                let call: unsafe extern "C-unwind" fn($($type),*) -> $result = core::mem::transmute(found);
                call($($arg),*)
            }
        }
    )* };
}

/// As `real!`, for functions that take more arguments than their fixed ones: the extra ones
/// are passed as the C library reads them.
macro_rules! real_variadic {
    ($($name:ident($($arg:ident: $type:ty),*; $($extra:ident: $extra_type:ty),*) -> $result:ty;)*) => {
        #[allow(non_upper_case_globals, reason = "named after the functions")]
        mod variadic_cache {
            $(pub static $name: super::AtomicPtr<core::ffi::c_void> = super::AtomicPtr::new(core::ptr::null_mut());)*
        }

        fn look_up_variadic() {
            $(look_up(&variadic_cache::$name, concat!(stringify!($name), "\0").as_bytes());)*
        }

        $(
        /// The C library's function of this name.
        ///
        /// # Safety
        /// As for the C library's.
        #[inline]
        pub unsafe fn $name($($arg: $type,)* $($extra: $extra_type),*) -> $result {
            let found = look_up(&variadic_cache::$name, concat!(stringify!($name), "\0").as_bytes());
            // SAFETY: the C library's function of this name has this type.
            unsafe {
                let call: unsafe extern "C-unwind" fn($($type,)* ...) -> $result = core::mem::transmute(found);
                call($($arg,)* $($extra),*)
            }
        }
    )* };
}

real! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom(first: c_int) -> ();
    dup(fd: c_int) -> c_int;
    dup2(old: c_int, new: c_int) -> c_int;
    dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, into: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t;
    pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t;
    pread64(fd: c_int, into: *mut c_void, len: size_t, offset: off64_t) -> ssize_t;
    aio_read(what: *mut libc::aiocb) -> c_int;
    aio_write(what: *mut libc::aiocb) -> c_int;
    lio_listio(mode: c_int, list: *const *mut libc::aiocb, count: c_int, event: *mut libc::sigevent) -> c_int;
    vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> ();
    sendfile64(out: c_int, file: c_int, offset: *mut off64_t, count: size_t) -> ssize_t;
    splice(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, len: size_t, flags: c_uint) -> ssize_t;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    prlimit(process: pid_t, resource: c_uint, new: *const libc::rlimit, old: *mut libc::rlimit) -> c_int;
    getrlimit(resource: c_uint, limit: *mut libc::rlimit) -> c_int;
    setrlimit(resource: c_uint, limit: *const libc::rlimit) -> c_int;
    epoll_create(size: c_int) -> c_int;
    epoll_create1(flags: c_int) -> c_int;
    epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int;
    epoll_pwait(set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int;
    epoll_pwait2(set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fork() -> pid_t;
    _Fork() -> pid_t;
    wait(status: *mut c_int) -> pid_t;
    waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    wait3(status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> pid_t;
    wait4(child: pid_t, status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> pid_t;
    waitid(kind: libc::idtype_t, id: libc::id_t, info: *mut libc::siginfo_t, options: c_int) -> c_int;
    fclose(file: *mut libc::FILE) -> c_int;
    fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE;
    freopen(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE;
    freopen64(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE;
    execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execv(path: *const c_char, arguments: Strings) -> c_int;
    execvp(file: *const c_char, arguments: Strings) -> c_int;
    execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execveat(folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
    fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    posix_spawn(child: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int;
    posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int;
    posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, new: c_int) -> c_int;
    system(command: *const c_char) -> c_int;
    popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    // Of any number of arguments, but written in assembly: it takes all six from where they are.
    syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
    sigaction(signal: c_int, action: *const libc::sigaction, before: *mut libc::sigaction) -> c_int;
    signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    sigset(signal: c_int, handler: sighandler_t) -> sighandler_t;
}

real_variadic! {
    fcntl(fd: c_int, command: c_int; argument: usize) -> c_int;
    fcntl64(fd: c_int, command: c_int; argument: usize) -> c_int;
    ioctl(fd: c_int, request: c_ulong; argument: usize) -> c_int;
    prctl(option: c_int; a: usize, b: usize, c: usize, d: usize) -> c_int;
}

/// Where the C library's `dprintf` is, for who has its arguments as they came.
pub fn dprintf() -> *mut c_void {
    static CACHE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    look_up(&CACHE, b"dprintf\0")
}

/// As [`dprintf`]: `__dprintf_chk`.
pub fn dprintf_chk() -> *mut c_void {
    static CACHE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    look_up(&CACHE, b"__dprintf_chk\0")
}

/// Where the calling thread has its `errno`.
pub fn errno_place() -> *mut c_int {
    // SAFETY: no arguments.
    unsafe { libc::__errno_location() }
}

/// The calling thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: the C library gives a pointer to the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

/// What the C library's functions return after an error: -1, with `errno` set.
pub fn fail(error: c_int) -> ssize_t {
    set_errno(error);
    -1
}

/// Runs a call of the program's: one that succeeds leaves `errno` as it was, whatever this library
/// has asked the kernel for in the middle.
#[inline]
pub fn keeping_errno<T: Copy + PartialOrd + Default>(call: impl FnOnce() -> T) -> T {
    let saved = errno();
    let result = call();
    if result >= T::default() {
        set_errno(saved);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_c_library_lacks_is_called_by_its_number_or_not_there() {
        type Call = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize) -> c_int;
        let bad = usize::MAX;
        for (name, args, error) in [
            (&b"close_range\0"[..], [5, 4, 0, 0, 0], libc::EINVAL),
            (
                b"execveat\0",
                [bad, c"x".as_ptr() as usize, 0, 0, 0],
                libc::EBADF,
            ),
            (b"epoll_pwait2\0", [bad, 1, 1, 0, 0], libc::EBADF),
            (b"of the next century\0", [0; 5], libc::ENOSYS),
        ] {
            // SAFETY: more arguments than it takes do no harm on the machines that we know, and
            // these do nothing.
            let result = unsafe {
                let call: Call = core::mem::transmute(stand_in(name));
                call(args[0], args[1], args[2], args[3], args[4])
            };
            assert_eq!((result, errno()), (-1, error));
        }
    }
}
