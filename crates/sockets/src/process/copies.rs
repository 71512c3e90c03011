//! Copies of this process that are made by a raw system call.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use barewire_calls::call;
use barewire_calls::memory::unmap;
use barewire_calls::process::without_signals;

use crate::process::memory;

/// As `fork`, without a signal at its end, and past the C library: no handlers of the
/// program's run, and no lock of the C library is taken.
pub fn copy() -> isize {
    // SAFETY: no flags: a copy of this process, with a copy of this thread's stack.
    unsafe { call(libc::SYS_clone, []) }.map_or(-1, |id| id as isize)
}

/// Runs `work` in a [`copy`] of this process, which ends then, and returns what it says; `false` if
/// it ended otherwise, or could not be made. All signals are held back meanwhile: no handler of the
/// program's may run in the copy.
pub fn in_copy(work: impl FnOnce() -> bool) -> bool {
    let Some(said) = memory::reserve_shared(size_of::<AtomicBool>()) else {
        return false;
    };
    // SAFETY: zeroed memory of ours, until it is given back below.
    let good = unsafe { &*said.cast::<AtomicBool>() };
    without_signals(|| match copy() {
        0 => {
            // Relaxed: looked at when this process has ended.
            good.store(work(), Ordering::Relaxed);
            end(0)
        }
        child if child > 0 => await_end(child),
        _ => {}
    });
    // Relaxed: the copy has ended, and its store is done.
    let is_good = good.load(Ordering::Relaxed);
    // SAFETY: nobody looks there any more.
    unsafe { unmap(said, size_of::<AtomicBool>()) };
    is_good
}

/// Waits until a [`copy`] ends. How it did so is not asked: another thread of the program's, which
/// waits for any child, may be told that.
fn await_end(child: isize) {
    let given = [child as usize, 0, libc::__WALL as usize, 0];
    // SAFETY: nothing is asked back.
    while unsafe { call(libc::SYS_wait4, given) } == Err(libc::EINTR) {}
}

/// Ends a [`copy`], past the exit handlers, which are the program's.
pub fn end(status: c_int) -> ! {
    loop {
        // SAFETY: ends this process.
        let _ = unsafe { call(libc::SYS_exit_group, [status as usize]) };
    }
}
