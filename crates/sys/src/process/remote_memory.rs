//! The memory of another process of the same user, read with one copy by the kernel.

use std::ffi::c_void;

use barewire_calls::call;
use rustix::process::{PTracer, Pid};

use crate::error::{Result, SysError};

const READ: &str = "read the memory of another process (process_vm_readv)";

/// Copies `into.len()` bytes from `address` in the memory of process `pid`.
///
/// # Errors
/// `PermissionDenied` if this process may not trace the other one (another user, `kernel.yama.ptrace_scope`);
/// `NoSuchProcess`; otherwise what the kernel says, `EFAULT` if it has no such memory.
pub fn read_process(pid: i32, address: u64, into: &mut [u8]) -> Result<()> {
    if pid <= 0 {
        return Err(SysError::NoSuchProcess { what: READ, pid });
    }
    let mut done_bytes = 0;
    while done_bytes < into.len() {
        let rest = &mut into[done_bytes..];
        let local = libc::iovec {
            iov_base: rest.as_mut_ptr().cast::<c_void>(),
            iov_len: rest.len(),
        };
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address as usize + done_bytes),
            iov_len: rest.len(),
        };
        let (local, remote) = ((&raw const local) as usize, (&raw const remote) as usize);
        let given = [pid as usize, local, 1, remote, 1, 0];
        // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`, which is borrowed exclusively; the remote
        // address is never used by this process.
        match unsafe { call(libc::SYS_process_vm_readv, given) } {
            Ok(0) => return Err(SysError::new(READ, libc::EFAULT)),
            Ok(copied) => done_bytes += copied,
            Err(libc::ESRCH) => return Err(SysError::NoSuchProcess { what: READ, pid }),
            Err(errno) => return Err(SysError::new(READ, errno)),
        }
    }
    Ok(())
}

/// Whether [`read_process`] is allowed for process `pid`.
///
/// # Errors
/// As [`read_process`], why not.
pub fn may_read_process(pid: i32) -> Result<()> {
    // Nothing is mapped at address 0: whoever may read is told so.
    match read_process(pid, 0, &mut [0]) {
        Err(SysError::Os { errno, .. }) if errno.0 == libc::EFAULT => Ok(()),
        other => other,
    }
}

/// Lets process `pid` read and trace this one, where only ancestors may do so (`kernel.yama.ptrace_scope = 1`). Does
/// nothing elsewhere.
pub fn let_process_trace(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Without Yama the call fails, and everybody of this user may do so.
        let _ = rustix::process::set_ptracer(PTracer::ProcessID(pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::getpid;

    #[test]
    fn reads_what_is_there_and_refuses_what_is_not() {
        let there = [7_u8, 8, 9];
        let mut found = [0; 3];
        read_process(getpid(), there.as_ptr() as u64, &mut found).unwrap();
        assert_eq!(found, there);
        may_read_process(getpid()).unwrap();
        assert!(read_process(getpid(), 0, &mut found).is_err());
        assert!(matches!(
            may_read_process(-1),
            Err(SysError::NoSuchProcess { .. })
        ));
    }
}
