//! Options of sockets, and who is at the other end of a Unix socket.

use core::ffi::c_int;

use crate::{Result, call};

/// Reads an option into `into`; returns how many bytes came.
pub fn get_bytes(fd: c_int, level: c_int, name: c_int, into: &mut [u8]) -> Result<usize> {
    let mut len = into.len() as libc::socklen_t;
    let (level, name) = (level as usize, name as usize);
    let (at, len_at) = (into.as_mut_ptr() as usize, (&raw mut len) as usize);
    // SAFETY: `into` has `len` bytes.
    unsafe { call(libc::SYS_getsockopt, [fd as usize, level, name, at, len_at]) }?;
    Ok((len as usize).min(into.len()))
}

/// Reads a numeric option.
pub fn get(fd: c_int, level: c_int, name: c_int) -> Result<c_int> {
    let mut value = [0; 4];
    match get_bytes(fd, level, name, &mut value)? {
        4 => Ok(c_int::from_ne_bytes(value)),
        _ => Err(libc::EINVAL),
    }
}

/// Sets an option.
pub fn set_bytes(fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
    let (level, name) = (level as usize, name as usize);
    let (at, len) = (value.as_ptr() as usize, value.len());
    // SAFETY: `value` has `len` bytes.
    unsafe { call(libc::SYS_setsockopt, [fd as usize, level, name, at, len]) }.map(drop)
}

/// Sets a numeric option.
pub fn set(fd: c_int, level: c_int, name: c_int, value: c_int) -> Result<()> {
    set_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Process id; 0 for one that cannot be seen from this pid namespace.
    pub pid: i32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// Who has the other end of a Unix socket: as it was when it connected or listened.
pub fn peer_credentials(fd: c_int) -> Result<Credentials> {
    let mut words = [[0; 4]; 3];
    let len = get_bytes(
        fd,
        libc::SOL_SOCKET,
        libc::SO_PEERCRED,
        words.as_flattened_mut(),
    )?;
    if len != size_of_val(&words) {
        return Err(libc::EINVAL);
    }
    let [pid, uid, gid] = words;
    Ok(Credentials {
        pid: i32::from_ne_bytes(pid),
        uid: u32::from_ne_bytes(uid),
        gid: u32::from_ne_bytes(gid),
    })
}
