//! Functions by which the C library reads or writes a descriptor without calling an interposed function.
//! The socket falls back to the kernel for good.

use core::ffi::{c_char, c_int, c_void};

use libc::{aiocb, sigevent};

use crate::handoff::give_back::used_past_us;
use crate::system::real;

/// What a register for floating point holds.
#[cfg(target_arch = "x86_64")]
type Vector = core::arch::x86_64::__m128i;
#[cfg(target_arch = "aarch64")]
type Vector = core::arch::aarch64::uint8x16_t;

/// `dprintf` takes any number of arguments, which a function of Rust's cannot: these take the registers
/// in which there may be some, and as much of the stack as is likely, and hand them on where they
/// were. More than those are lost. Behind the last argument there is something else on the stack, which
/// the C library does not look at.
macro_rules! prints {
    ($($name:ident = $real:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[allow(improper_ctypes_definitions, reason = "what a register holds is nothing of Rust's")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(fd: c_int, $($arg: $type,)* a0: usize, a1: usize, a2: usize, a3: usize, v0: Vector, v1: Vector, v2: Vector, v3: Vector, v4: Vector, v5: Vector, v6: Vector, v7: Vector, s0: usize, s1: usize, s2: usize, s3: usize, s4: usize, s5: usize, s6: usize, s7: usize, s8: usize, s9: usize, s10: usize, s11: usize, s12: usize, s13: usize, s14: usize, s15: usize, s16: usize, s17: usize, s18: usize, s19: usize, s20: usize, s21: usize, s22: usize, s23: usize, s24: usize, s25: usize, s26: usize, s27: usize, s28: usize, s29: usize, s30: usize, s31: usize, s32: usize, s33: usize, s34: usize, s35: usize, s36: usize, s37: usize, s38: usize, s39: usize) -> c_int {
            used_past_us(fd);
            // SAFETY: the C library's function of this name has this type; the program's call.
            unsafe {
                let call: unsafe extern "C-unwind" fn(c_int, $($type,)* ...) -> c_int = core::mem::transmute(real::$real());
                call(fd, $($arg,)* a0, a1, a2, a3, v0, v1, v2, v3, v4, v5, v6, v7, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31, s32, s33, s34, s35, s36, s37, s38, s39)
            }
        }
    )* };
}

prints! {
    dprintf = dprintf(format: *const c_char);
    __dprintf_chk = dprintf_chk(flag: c_int, format: *const c_char);
}

/// # Safety
/// As for the C library's. The list is passed by a pointer, on the machines that we know.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    used_past_us(fd);
    // SAFETY: the program's call.
    unsafe { real::vdprintf(fd, format, list) }
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    used_past_us(fd);
    // SAFETY: the program's call.
    unsafe { real::__vdprintf_chk(fd, flag, format, list) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn backtrace_symbols_fd(
    addresses: *const *mut c_void,
    count: c_int,
    fd: c_int,
) {
    used_past_us(fd);
    // SAFETY: the program's call.
    unsafe { real::backtrace_symbols_fd(addresses, count, fd) };
}

/// The C library reads and writes in threads of its own.
macro_rules! in_its_threads {
    ($($name:ident = $real:ident;)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(what: *mut aiocb) -> c_int {
            // SAFETY: the program's call, which the C library looks at as we do.
            unsafe {
                used_past_us((*what).aio_fildes);
                real::$real(what)
            }
        }
    )* };
}

in_its_threads! {
    aio_read = aio_read;
    aio_read64 = aio_read;
    aio_write = aio_write;
    aio_write64 = aio_write;
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lio_listio(
    mode: c_int,
    list: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    // SAFETY: the program's call, which the C library looks at as we do.
    unsafe {
        for nth in 0..count.max(0) as usize {
            if let Some(what) = (*list.add(nth)).as_ref() {
                used_past_us(what.aio_fildes);
            }
        }
        real::lio_listio(mode, list, count, event)
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lio_listio64(
    mode: c_int,
    list: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    // SAFETY: on the targets that we know both are the same.
    unsafe { lio_listio(mode, list, count, event) }
}
