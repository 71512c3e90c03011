//! Other names of interposed functions, which some programs and libraries call.

use core::ffi::{c_char, c_int, c_void};

use libc::{
    FILE, fd_set, iovec, nfds_t, off64_t, pid_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};

macro_rules! alias {
    ($($alias:ident = $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        // SAFETY: ours, elsewhere in this library, of these types.
        unsafe extern "C-unwind" {
            $(fn $name($($arg: $type),*) -> $result;)*
        }
        $(
        /// # Safety
        /// As for the C library's.
        #[allow(non_snake_case, reason = "named after the functions")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $alias($($arg: $type),*) -> $result {
            // SAFETY: the program's call.
            unsafe { $name($($arg),*) }
        }
    )* };
}

alias! {
    __read = read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    __write = write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    __send = send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    __recv = recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    preadv2 = preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t;
    pwritev2 = pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t;
    __connect = connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    __fcntl = fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    __close = close(fd: c_int) -> c_int;
    __dup2 = dup2(old: c_int, new: c_int) -> c_int;
    __poll = poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    __select = select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    __fork = fork() -> pid_t;
    __wait = wait(status: *mut c_int) -> pid_t;
    __waitpid = waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    _IO_fdopen = fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    _IO_fclose = fclose(file: *mut FILE) -> c_int;
    _IO_popen = popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    _Exit = _exit(status: c_int) -> !;
}
