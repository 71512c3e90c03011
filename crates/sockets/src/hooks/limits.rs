//! Limits of the address space. What this library has reserved there takes no memory, and is not the
//! program's: a limit that the program sets for itself is so much larger to the kernel, as far as the kernel
//! permits, and no larger to the program.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{RLIM_INFINITY, pid_t, rlim_t, rlimit};

use crate::{confinement, fault, memory, process, real};

/// A limit that is kept, `rlim_cur` and `rlim_max`.
struct Kept([AtomicU64; 2]);

impl Kept {
    const fn none() -> Kept {
        Kept([const { AtomicU64::new(0) }; 2])
    }

    // Relaxed, all: threads that set a limit at the same moment get either.
    fn get(&self) -> rlimit {
        rlimit {
            rlim_cur: self.0[0].load(Ordering::Relaxed),
            rlim_max: self.0[1].load(Ordering::Relaxed),
        }
    }

    fn set(&self, limit: rlimit) {
        self.0[0].store(limit.rlim_cur, Ordering::Relaxed);
        self.0[1].store(limit.rlim_max, Ordering::Relaxed);
    }
}

/// Whether the program has set a limit.
static IS_SET: AtomicBool = AtomicBool::new(false);
/// What it has set.
static WANTED: Kept = Kept::none();
/// What the kernel was told.
static TOLD: Kept = Kept::none();

fn is_of_addresses(process: pid_t, resource: c_uint) -> bool {
    resource == libc::RLIMIT_AS
        && memory::reserved() > 0
        && (!confinement::is_confined() || IS_SET.load(Ordering::Relaxed))
        && (process == 0 || process.unsigned_abs() == process::id())
}

const fn with_ours(limit: rlim_t, ours: u64) -> rlim_t {
    if limit == RLIM_INFINITY {
        limit
    } else {
        limit.saturating_add(ours)
    }
}

/// What the program is to see of what the kernel has.
fn shown(kernel: rlimit) -> rlimit {
    let told = TOLD.get();
    let is_ours = (kernel.rlim_cur, kernel.rlim_max) == (told.rlim_cur, told.rlim_max);
    if is_ours && IS_SET.load(Ordering::Relaxed) {
        WANTED.get()
    } else {
        kernel
    }
}

/// What the kernel is to be told of what the program wants, where it has `now`.
fn told(wanted: rlimit, now: rlimit) -> rlimit {
    let ours = memory::reserved();
    let mut rlim_max = with_ours(wanted.rlim_max, ours);
    if wanted.rlim_max <= shown(now).rlim_max {
        // To raise it takes a right that the program may not have.
        rlim_max = rlim_max.min(now.rlim_max);
    }
    let rlim_cur = if wanted.rlim_cur > wanted.rlim_max {
        // As it is not to be.
        RLIM_INFINITY
    } else {
        with_ours(wanted.rlim_cur, ours).min(rlim_max)
    };
    rlimit { rlim_cur, rlim_max }
}

/// What the kernel has. A confined program makes no call but its own: then what the kernel was told.
fn kernels() -> rlimit {
    if confinement::is_confined() {
        return TOLD.get();
    }
    let mut now = Kept::none().get();
    // SAFETY: the kernel writes two numbers.
    unsafe { real::prlimit(0, libc::RLIMIT_AS, core::ptr::null(), &raw mut now) };
    now
}

/// # Safety
/// The limits are the program's.
unsafe fn of_addresses(new: *const rlimit, old: *mut rlimit) -> c_int {
    let now = kernels();
    let is_there = !new.is_null() && fault::can_read(new, size_of::<rlimit>());
    // SAFETY: as promised, and it is there.
    let wanted = is_there.then(|| unsafe { new.read() });
    let kernel = wanted.map(|wanted| told(wanted, now));
    let new = kernel.as_ref().map_or(new, core::ptr::from_ref);
    // SAFETY: the program's call; the kernel has just written to `old`.
    unsafe {
        let result = real::prlimit(0, libc::RLIMIT_AS, new, old);
        if result == 0 && !old.is_null() {
            old.write(shown(now));
        }
        // Of a child made by vfork it is the child's own, and these are its parent's.
        let is_own = confinement::is_confined() || !process::is_borrower();
        if let (0, Some(wanted), Some(kernel), true) = (result, wanted, kernel, is_own) {
            WANTED.set(wanted);
            TOLD.set(kernel);
            IS_SET.store(true, Ordering::Relaxed);
        }
        result
    }
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
            of_addresses(new, old)
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
                    of_addresses(new, core::ptr::null_mut())
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
                    of_addresses(core::ptr::null(), old)
                } else {
                    real::getrlimit(resource, old)
                }
            }
        }
    )* };
}

of_itself! { setrlimit getrlimit setrlimit64 getrlimit64 }
