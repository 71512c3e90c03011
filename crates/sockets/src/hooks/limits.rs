//! Limits of the address space. What this library has reserved there takes no memory, and is not the
//! program's: a limit that the program sets for itself is so much larger to the kernel, and no larger to
//! the program.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{RLIM_INFINITY, pid_t, rlim_t, rlimit};

use crate::{fault, memory, process, real};

/// Whether the kernel's limit is the program's and ours.
static ADDED: AtomicBool = AtomicBool::new(false);

fn is_of_addresses(process: pid_t, resource: c_uint) -> bool {
    resource == libc::RLIMIT_AS
        && memory::reserved() > 0
        && (process == 0 || process.unsigned_abs() == process::id())
}

fn each(limit: rlimit, change: impl Fn(rlim_t) -> rlim_t) -> rlimit {
    let change = |limit| match limit {
        RLIM_INFINITY => limit,
        limit => change(limit),
    };
    rlimit {
        rlim_cur: change(limit.rlim_cur),
        rlim_max: change(limit.rlim_max),
    }
}

/// # Safety
/// The limits are the program's.
unsafe fn of_addresses(process: pid_t, new: *const rlimit, old: *mut rlimit) -> c_int {
    let is_there = new.is_null() || fault::can_read(new, size_of::<rlimit>());
    // SAFETY: as promised, and it is there.
    let wanted = (!new.is_null() && is_there).then(|| unsafe { new.read() });
    let wanted = wanted.map(|limit| each(limit, |limit| limit.saturating_add(memory::reserved())));
    let new = wanted.as_ref().map_or(new, core::ptr::from_ref);
    // Relaxed, both: it stands for itself.
    let was_added = ADDED.load(Ordering::Relaxed);
    // SAFETY: the program's call.
    let result = unsafe { real::prlimit(process, libc::RLIMIT_AS, new, old) };
    if result == 0 && wanted.is_some() {
        ADDED.store(true, Ordering::Relaxed);
    }
    if result == 0 && was_added && !old.is_null() {
        // SAFETY: the kernel has just written there.
        unsafe {
            old.write(each(old.read(), |limit| {
                limit.saturating_sub(memory::reserved())
            }));
        }
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prlimit(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the program's call.
    unsafe {
        if is_of_addresses(process, resource) {
            of_addresses(process, new, old)
        } else {
            real::prlimit(process, resource, new, old)
        }
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prlimit64(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the program's call; the limits are of the same size.
    unsafe { prlimit(process, resource, new, old) }
}

/// The same for the process itself, by the older functions.
macro_rules! of_itself {
    ($($set:ident $get:ident)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $set(resource: c_uint, new: *const rlimit) -> c_int {
            // SAFETY: the program's call.
            unsafe {
                if is_of_addresses(0, resource) {
                    of_addresses(0, new, core::ptr::null_mut())
                } else {
                    real::setrlimit(resource, new)
                }
            }
        }

        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $get(resource: c_uint, old: *mut rlimit) -> c_int {
            // SAFETY: the program's call.
            unsafe {
                if is_of_addresses(0, resource) {
                    of_addresses(0, core::ptr::null(), old)
                } else {
                    real::getrlimit(resource, old)
                }
            }
        }
    )* };
}

of_itself! { setrlimit getrlimit setrlimit64 getrlimit64 }
