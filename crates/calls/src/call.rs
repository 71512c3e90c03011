//! The instruction that calls the kernel.

use core::arch::asm;
use core::ffi::{c_int, c_long};

/// The number of an error, as the C library has them.
pub type Errno = c_int;

/// What the kernel returned.
pub type Result<T> = core::result::Result<T, Errno>;

/// The numbers of errors are at most so high.
const ERRNO_MAX: usize = 4095;

/// Makes a system call. Arguments that are not given are zeros.
///
/// # Safety
/// The kernel reads and writes only what the caller may read and write: the arguments are those of the call of this
/// number.
#[inline]
pub unsafe fn call<const N: usize>(number: c_long, given: [usize; N]) -> Result<usize> {
    const { assert!(N <= 6, "the kernel takes six arguments") };
    let mut all = [0; 6];
    all[..N].copy_from_slice(&given);
    // SAFETY: as promised.
    let result = unsafe { instruction(number, all) };
    if result >= ERRNO_MAX.wrapping_neg() {
        return Err(result.wrapping_neg() as Errno);
    }
    Ok(result)
}

/// # Safety
/// As for [`call`].
#[inline]
unsafe fn instruction(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    let result;
    // SAFETY: as promised; these are the registers of the kernel's convention. On x86-64 it changes rcx and r11.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            inlateout("rax") number as usize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc 0",
            in("x8") number as usize,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_told_apart_and_errno_stays() {
        // SAFETY: the C library's own variable of this thread; the calls have no pointers.
        unsafe {
            *libc::__errno_location() = 77;
            assert_eq!(call(libc::SYS_getpid, []), Ok(libc::getpid() as usize));
            let closed = call(libc::SYS_close, [usize::MAX]);
            assert_eq!(closed, Err(libc::EBADF));
            assert_eq!(*libc::__errno_location(), 77);
        }
    }

    #[test]
    fn all_six_arguments_arrive() {
        let mut bytes = [0_u8; 3];
        let parts = [bytes.as_mut_ptr() as usize, bytes.len()];
        let path = c"/proc/self/comm".as_ptr() as usize;
        // SAFETY: the path ends with a zero; one part, of three bytes that are ours.
        let read = unsafe {
            let fd = call(libc::SYS_openat, [libc::AT_FDCWD as usize, path, 0, 0]).unwrap();
            // From byte 1 on (the two halves of the offset), and an unknown flag.
            let at = parts.as_ptr() as usize;
            let flagged = call(libc::SYS_preadv2, [fd, at, 1, 1, 0, usize::MAX]);
            assert_eq!(flagged, Err(libc::EOPNOTSUPP));
            let read = call(libc::SYS_preadv2, [fd, at, 1, 0, 0, 0]);
            assert_eq!(call(libc::SYS_close, [fd]), Ok(0));
            read
        };
        assert_eq!(read, Ok(3));
        assert!(bytes.iter().all(|byte| *byte != 0));
    }
}
