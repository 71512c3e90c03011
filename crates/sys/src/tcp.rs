//! Options of TCP sockets that the unmodified programs' library uses, for `barewire doctor`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Keep the packet that opens a connection. Not in `libc` for all targets (linux/tcp.h).
const TCP_SAVE_SYN: i32 = 27;
const TCP_SAVED_SYN: i32 = 28;

/// Sets the maximum segment size that a socket advertises.
///
/// # Errors
/// Those of `setsockopt`.
pub fn set_segment_size(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set(socket, libc::TCP_MAXSEG, i32::from(bytes))
}

/// The maximum segment size that a connection uses, in bytes.
///
/// # Errors
/// Those of `getsockopt`.
pub fn segment_size(socket: impl AsFd) -> io::Result<u32> {
    let mut value = [0; 4];
    get(socket, libc::TCP_MAXSEG, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

/// Lets a listening socket keep the opening packets of the connections that it accepts.
///
/// # Errors
/// Those of `setsockopt`.
pub fn save_openings(listener: impl AsFd) -> io::Result<()> {
    set(listener, TCP_SAVE_SYN, 1)
}

/// The opening packet of an accepted connection: IP and TCP header. Empty if it was not kept.
///
/// # Errors
/// Those of `getsockopt`.
pub fn opening(socket: impl AsFd) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 256];
    let len = get(socket, TCP_SAVED_SYN, &mut packet)?;
    packet.truncate(len);
    Ok(packet)
}

fn set(socket: impl AsFd, name: i32, value: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` has `len` bytes.
    let result =
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, name, (&raw const value).cast(), len) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn get(socket: impl AsFd, name: i32, into: &mut [u8]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let mut len = into.len() as libc::socklen_t;
    // SAFETY: `into` has `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            name,
            into.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok((len as usize).min(into.len()))
    } else {
        Err(io::Error::last_os_error())
    }
}
