//! Options of TCP sockets that the standard library does not set.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Gives what a socket sends from now on a priority; a class of a queue's own, as `MAJOR:MINOR` in
/// 16 bits each, is one too. Above 6 it needs `CAP_NET_ADMIN`.
///
/// # Errors
/// Those of `setsockopt`.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<u32>() as libc::socklen_t;
    let value = (&raw const priority).cast();
    // SAFETY: `priority` has `len` bytes.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, value, len) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
