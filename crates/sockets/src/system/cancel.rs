//! Cancellation of threads: where a thread may end, and where it must not.

use core::ffi::c_int;

use crate::system::real;

/// Ends the calling thread if it was cancelled: for a wait that the program would have in the kernel.
pub fn end_if_cancelled() {
    // SAFETY: the C library's function of this name has this type.
    unsafe extern "C-unwind" {
        fn pthread_testcancel();
    }
    // SAFETY: no arguments.
    unsafe { pthread_testcancel() };
}

/// Runs `work`, which is not the program's: `errno` is as it was, and the thread is not cancelled in
/// the middle.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let saved = real::errno();
    let result = uncancelled(work);
    real::set_errno(saved);
    result
}

/// Runs `work`, in which a thread that was cancelled does not end.
pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's function of this name has this type.
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    /// As the C library has it.
    const CANCEL_DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: the number is ours.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    let result = work();
    // SAFETY: as it was; nothing is asked back.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    result
}

/// Runs a call of the kernel's that moves bytes with these `flags`. Of one that does not wait, what it
/// moved is counted, whatever comes: the thread is not cancelled there.
pub fn counted<T>(flags: c_int, call: impl FnOnce() -> T) -> T {
    if flags & libc::MSG_DONTWAIT == 0 {
        call()
    } else {
        uncancelled(call)
    }
}
