//! Functions by which a program sandboxes itself. See `sandbox`.

use core::ffi::{c_int, c_long};

use crate::handoff::sandbox_entry;
use crate::system::real;

/// `SECCOMP_SET_MODE_STRICT` and `_FILTER` of seccomp(2), and `SECCOMP_MODE_STRICT` and `_FILTER` of
/// prctl(2).
const CALL_STRICT: usize = 0;
const CALL_FILTER: usize = 1;
const MODE_STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
const MODE_FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;

/// The kernel reads 32 bits of an operation, whatever the rest of the register holds.
const fn is_operation(given: usize, number: usize) -> bool {
    given as u32 == number as u32
}

/// Whether a `prctl` sets a filter. One without a filter only asks whether the kernel could.
const fn is_prctl(option: usize, mode: usize, filter: usize) -> bool {
    is_operation(option, libc::PR_SET_SECCOMP as usize)
        && (mode == MODE_STRICT || (mode == MODE_FILTER && filter != 0))
}

/// Whether a system call by number does so.
const fn is_call(number: c_long, a: usize, b: usize, c: usize) -> bool {
    match number {
        libc::SYS_seccomp => {
            is_operation(a, CALL_STRICT) || (is_operation(a, CALL_FILTER) && c != 0)
        }
        libc::SYS_prctl => is_prctl(a, b, c),
        _ => false,
    }
}

/// Runs `set`, which sets a filter. All sockets fall back to the kernel before.
#[cold]
#[inline(never)]
fn confine(set: impl FnOnce() -> c_long) -> c_long {
    sandbox_entry::begin();
    let result = set();
    // A positive number is a descriptor, or a thread that could not be sandboxed.
    if result == -1 {
        sandbox_entry::refused();
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: the program's call, here and below.
    let call = || unsafe { real::prctl(option, a, b, c, d) };
    if is_prctl(option as usize, a, b) {
        confine(|| c_long::from(call())) as c_int
    } else {
        call()
    }
}

/// A system call by number, if it sets a filter.
///
/// # Safety
/// The arguments are those of the call of that number.
pub unsafe fn call(number: c_long, args: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = args;
    is_call(number, a, b, c).then(|| {
        // SAFETY: the program's call.
        confine(move || unsafe { real::syscall(number, a, b, c, d, e, f) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sets_a_filter_is_seen_and_what_asks_is_not() {
        let set = libc::PR_SET_SECCOMP as usize;
        assert!(is_prctl(set, MODE_STRICT, 0));
        assert!(is_prctl(set, MODE_FILTER, 1));
        assert!(!is_prctl(set, MODE_FILTER, 0));
        assert!(!is_prctl(libc::PR_GET_SECCOMP as usize, MODE_STRICT, 0));
        assert!(is_call(libc::SYS_seccomp, CALL_STRICT, 0, 0));
        assert!(is_call(libc::SYS_seccomp, CALL_FILTER, 0, 1));
        assert!(!is_call(libc::SYS_seccomp, CALL_FILTER, 0, 0));
        assert!(is_call(libc::SYS_prctl, set, MODE_FILTER, 1));
        let above = 1 << 32;
        assert!(is_call(libc::SYS_seccomp, CALL_FILTER + above, 0, 1));
        assert!(is_call(libc::SYS_prctl, set + above, MODE_FILTER, 1));
        assert!(!is_call(libc::SYS_prctl, set, MODE_FILTER + above, 1));
        assert!(!is_call(libc::SYS_read, set, MODE_FILTER, 1));
    }
}
