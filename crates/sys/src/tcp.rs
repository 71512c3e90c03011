//! Options of TCP sockets that the standard library does not set.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use barewire_calls::option;

/// Gives what a socket sends from now on a priority; a class of a queue's own, as `MAJOR:MINOR` in
/// 16 bits each, is one too. Above 6 it needs `CAP_NET_ADMIN`.
///
/// # Errors
/// Those of `setsockopt`.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    option::set(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, priority as i32)
        .map_err(io::Error::from_raw_os_error)
}
