//! Memory: memfds, their seals, mappings.

use core::ffi::{CStr, c_int, c_void};

use crate::descriptor::control;
use crate::{Result, call};

/// The size of memory stays, and so do its seals: nothing that another process does can make an access to a mapping
/// of it fault.
pub const FIXED: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Makes shared memory of no bytes, with a name that shows up in `/proc`. It is sealed against being executed where
/// the kernel can: before Linux 6.3, which does not know the flag, there is a second call.
pub fn create(name: &CStr) -> Result<c_int> {
    let create = |flags: c_int| {
        let flags = flags | (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as c_int;
        // SAFETY: the name ends with a zero.
        unsafe {
            call(
                libc::SYS_memfd_create,
                [name.as_ptr() as usize, flags as usize],
            )
        }
    };
    let made = match create(libc::MFD_NOEXEC_SEAL as c_int) {
        Err(libc::EINVAL) => create(0),
        other => other,
    };
    made.map(|fd| fd as c_int)
}

/// Sets the size. One beyond the limit (`RLIMIT_FSIZE`) ends the process: memory is a file to the kernel.
pub fn set_len(fd: c_int, len_bytes: usize) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_ftruncate, [fd as usize, len_bytes]) }.map(drop)
}

/// The seals; an error if it is no memfd.
pub fn seals(fd: c_int) -> Result<c_int> {
    control(fd, libc::F_GET_SEALS, 0)
}

/// Adds seals, for good.
pub fn add_seals(fd: c_int, seals: c_int) -> Result<()> {
    control(fd, libc::F_ADD_SEALS, seals as usize).map(drop)
}

/// `mmap`.
///
/// # Safety
/// With `MAP_FIXED` nobody relies on what is in the range.
pub unsafe fn map(
    at: *mut c_void,
    len_bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset_bytes: i64,
) -> Result<*mut c_void> {
    let (at, protection, flags) = (at as usize, protection as usize, flags as usize);
    let given = [
        at,
        len_bytes,
        protection,
        flags,
        fd as usize,
        offset_bytes as usize,
    ];
    // SAFETY: as promised; elsewhere the kernel chooses a free range.
    let at = unsafe { call(libc::SYS_mmap, given) };
    at.map(|at| at as *mut c_void)
}

/// A new mapping of memory that nobody else has, or that only children have.
pub fn map_new(len_bytes: usize, protection: c_int, flags: c_int) -> Result<*mut c_void> {
    let flags = (flags | libc::MAP_ANONYMOUS) & !libc::MAP_FIXED;
    // SAFETY: not at a fixed address.
    unsafe { map(core::ptr::null_mut(), len_bytes, protection, flags, -1, 0) }
}

/// Takes a range out of the address space.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn unmap(at: *mut c_void, len_bytes: usize) {
    // SAFETY: as promised. Should it fail, the range stays mapped.
    let _ = unsafe { call(libc::SYS_munmap, [at as usize, len_bytes]) };
}

/// `mprotect`.
///
/// # Safety
/// Nobody relies on a right that goes.
pub unsafe fn protect(at: *mut c_void, len_bytes: usize, protection: c_int) -> Result<()> {
    // SAFETY: as promised.
    unsafe {
        call(
            libc::SYS_mprotect,
            [at as usize, len_bytes, protection as usize],
        )
    }
    .map(drop)
}

/// `madvise`.
///
/// # Safety
/// Nobody relies on what the advice takes away.
pub unsafe fn advise(at: *mut c_void, len_bytes: usize, advice: c_int) -> Result<()> {
    // SAFETY: as promised.
    unsafe { call(libc::SYS_madvise, [at as usize, len_bytes, advice as usize]) }.map(drop)
}
