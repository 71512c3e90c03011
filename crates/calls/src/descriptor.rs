//! Descriptors: what is open, its flags, its file, and closing it.

use core::ffi::{CStr, c_int, c_ulong};
use core::mem::zeroed;

use crate::{Result, call};

/// Closes a descriptor.
pub fn close(fd: c_int) {
    // SAFETY: no pointers. Whatever it says, the descriptor is gone.
    let _ = unsafe { call(libc::SYS_close, [fd as usize]) };
}

/// Whether there is a descriptor of this number.
pub fn is_open(fd: c_int) -> bool {
    control(fd, libc::F_GETFD, 0).is_ok()
}

/// Whether another program gets it that begins in this process.
pub fn is_inherited(fd: c_int) -> Result<bool> {
    control(fd, libc::F_GETFD, 0).map(|flags| flags & libc::FD_CLOEXEC == 0)
}

/// How a file was opened, and its status (`O_RDWR`, `O_NONBLOCK` ...).
pub fn flags(fd: c_int) -> Result<c_int> {
    control(fd, libc::F_GETFL, 0)
}

/// Sets the status.
pub fn set_flags(fd: c_int, flags: c_int) -> Result<()> {
    control(fd, libc::F_SETFL, flags as usize).map(drop)
}

/// A second descriptor of a file: the first free number from `first` on.
pub fn duplicate(fd: c_int, first: u32) -> Result<c_int> {
    control(fd, libc::F_DUPFD_CLOEXEC, first as usize)
}

/// `fcntl`, of commands that take a number.
pub(crate) fn control(fd: c_int, command: c_int, argument: usize) -> Result<c_int> {
    // SAFETY: no pointers.
    let result = unsafe { call(libc::SYS_fcntl, [fd as usize, command as usize, argument]) };
    result.map(|result| result as c_int)
}

/// Ends one direction of a connection, or both (`SHUT_RDWR` ...).
pub fn shut(fd: c_int, how: c_int) {
    // SAFETY: no pointers. It can only fail where there is no connection.
    let _ = unsafe { call(libc::SYS_shutdown, [fd as usize, how as usize]) };
}

/// The number that the kernel answers to a question about a descriptor (`FIONREAD` ...).
pub fn count(fd: c_int, question: c_ulong) -> Result<c_int> {
    let mut count = 0;
    let given = [fd as usize, question as usize, (&raw mut count) as usize];
    // SAFETY: the kernel writes a number.
    unsafe { call(libc::SYS_ioctl, given) }.map(|_| count)
}

/// Opens a file in a folder, or from where this process is (`AT_FDCWD`). `mode`: of a file that is made.
pub fn open_in(folder: c_int, path: &CStr, flags: c_int, mode: u32) -> Result<c_int> {
    let (folder, path) = (folder as usize, path.as_ptr() as usize);
    let flags = (flags | libc::O_CLOEXEC) as usize;
    // SAFETY: the path ends with a zero.
    let fd = unsafe { call(libc::SYS_openat, [folder, path, flags, mode as usize]) };
    fd.map(|fd| fd as c_int)
}

/// As [`open_in`], for reading.
pub fn open(path: &CStr) -> Result<c_int> {
    open_in(libc::AT_FDCWD, path, libc::O_RDONLY, 0)
}

/// Reads what comes next of a file, up to the length of `into`.
pub fn read(fd: c_int, into: &mut [u8]) -> Result<&[u8]> {
    let (at, len) = (into.as_mut_ptr() as usize, into.len());
    // SAFETY: `into` has `len` bytes.
    let len = unsafe { call(libc::SYS_read, [fd as usize, at, len]) }?;
    Ok(&into[..len])
}

/// Writes bytes to a file; returns how many.
pub fn write(fd: c_int, bytes: &[u8]) -> Result<usize> {
    let (at, len) = (bytes.as_ptr() as usize, bytes.len());
    // SAFETY: `bytes` has `len` bytes.
    unsafe { call(libc::SYS_write, [fd as usize, at, len]) }
}

/// The beginning of a file, as much as one read gives: of the short ones in `/proc` and `/sys` that is all.
pub fn beginning<'a>(path: &CStr, into: &'a mut [u8]) -> Result<&'a [u8]> {
    let file = open(path)?;
    let text = read(file, into);
    close(file);
    text
}

/// What the kernel knows of a file in a folder; of the folder itself, or any other descriptor, if there is no name.
pub fn status_in(folder: c_int, name: &CStr) -> Result<libc::stat> {
    // SAFETY: zeros are a status; the name ends with a zero.
    unsafe {
        let mut status: libc::stat = zeroed();
        let (name, at) = (name.as_ptr() as usize, (&raw mut status) as usize);
        let flags = libc::AT_EMPTY_PATH as usize;
        call(libc::SYS_newfstatat, [folder as usize, name, at, flags])?;
        Ok(status)
    }
}

/// As [`status_in`], of a descriptor.
pub fn status(fd: c_int) -> Result<libc::stat> {
    status_in(fd, c"")
}
