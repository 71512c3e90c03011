//! Limits of the address space (`RLIMIT_AS`). The library reserves addresses that take no memory. They must
//! not count against the program's limit.
//!
//! - A program that has no socket here and a single thread (a shell, for instance) gives the whole
//!   reservation back when it sets a limit that leaves no room for it. It then runs as without the library.
//! - For any other program the kernel's limit is raised by the size of the reservation, as far as the kernel
//!   permits. The program still sees the limit that it set.
//! - A program that this one starts gets the limit as set. The library sets the kernel's limit just before an
//!   `exec` in this process, and just after a `posix_spawn`. A shell started by `system` or `popen` is told to
//!   lower the limit itself.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{RLIM_INFINITY, pid_t, rlim_t, rlimit};

use crate::epoll::sets;
use crate::process::words::Lone;
use crate::process::{fault, ids, memory, sandbox};
use crate::stream::capture;
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::{descriptors, process_refs, sockets, status, stream_memory, uring_rings};

/// A limit that is kept, `rlim_cur` and `rlim_max`.
/// Threads that set a limit at the same moment get either.
struct Kept([Lone<AtomicU64>; 2]);

impl Kept {
    const fn none() -> Kept {
        Kept([const { Lone::new(AtomicU64::new(0)) }; 2])
    }

    fn get(&self) -> rlimit {
        rlimit {
            rlim_cur: self.0[0].get(),
            rlim_max: self.0[1].get(),
        }
    }

    fn set(&self, limit: rlimit) {
        self.0[0].set(limit.rlim_cur);
        self.0[1].set(limit.rlim_max);
    }
}

/// Whether the program has set a limit.
static IS_SET: AtomicBool = AtomicBool::new(false);

fn is_set() -> bool {
    // Acquire pairs with the Release in `of_addresses`: with it come the limits.
    IS_SET.load(Ordering::Acquire)
}

/// The limit that the program has set.
static WANTED: Kept = Kept::none();
/// The limit that the kernel has got.
static TOLD: Kept = Kept::none();

fn is_of_addresses(process: pid_t, resource: c_uint) -> bool {
    resource == libc::RLIMIT_AS
        && memory::reserved() > 0
        && (!sandbox::is_sandboxed() || is_set())
        && (process == 0 || process.unsigned_abs() == ids::id())
}

const fn with_ours(limit: rlim_t, ours: u64) -> rlim_t {
    if limit == RLIM_INFINITY {
        limit
    } else {
        limit.saturating_add(ours)
    }
}

/// The limit that the program sees where the kernel has `kernel`.
fn shown(kernel: rlimit) -> rlimit {
    let told = TOLD.get();
    let is_ours = (kernel.rlim_cur, kernel.rlim_max) == (told.rlim_cur, told.rlim_max);
    if is_ours && is_set() {
        WANTED.get()
    } else {
        kernel
    }
}

/// The limit that the kernel gets where the program wants `wanted` and the kernel has `now`.
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

/// The kernel's limit. In a sandbox the library makes no call: then what the kernel was told last.
fn kernels() -> rlimit {
    if sandbox::is_sandboxed() {
        return TOLD.get();
    }
    let mut now = Kept::none().get();
    // SAFETY: the kernel writes two numbers.
    unsafe { real::prlimit(0, libc::RLIMIT_AS, core::ptr::null(), &raw mut now) };
    now
}

/// Whether a limit leaves no room for the reservation.
fn is_small(limit: rlimit) -> bool {
    limit.rlim_cur.min(limit.rlim_max) <= memory::ROOM_MIN
}

/// Gives the whole reservation back, if this process can do without.
#[cold]
fn give_all_back() {
    if is_set() || sandbox::is_sandboxed() || ids::is_vfork_child() || !memory::is_all_known() {
        return;
    }
    let is_unused = descriptors::has_none() && sets::has_none() && !uring_rings::are_there();
    if !is_unused || !quietly(ids::is_single_threaded) {
        return;
    }
    capture::forget_memory();
    descriptors::forget_all();
    sets::forget();
    process_refs::forget_all();
    uring_rings::forget_places();
    stream_memory::forget_places();
    // SAFETY: no other thread is there, and this one finds the tables no more.
    quietly(|| unsafe { memory::give_all_back() });
    status::publish(capture::addresses());
}

/// The kernel has exactly the limit that the program has set, for the program that this process becomes. If
/// it goes on after all, that ends when this is dropped.
pub struct Exact {
    before: rlimit,
    wanted: rlimit,
}

/// The kernel's limit and the program's, if they differ.
fn told_and_wanted() -> Option<(rlimit, rlimit)> {
    if !is_set() || sandbox::is_sandboxed() {
        return None;
    }
    let now = kernels();
    let wanted = shown(now);
    let differ = (now.rlim_cur, now.rlim_max) != (wanted.rlim_cur, wanted.rlim_max);
    differ.then_some((now, wanted))
}

fn update_kernel(process: pid_t, limit: &rlimit) -> bool {
    // SAFETY: the limit lives, and nothing is asked back.
    unsafe { real::prlimit(process, libc::RLIMIT_AS, limit, core::ptr::null_mut()) == 0 }
}

/// This process is about to become another program.
pub fn for_another_program() -> Option<Exact> {
    let (before, wanted) = told_and_wanted()?;
    quietly(|| update_kernel(0, &wanted)).then_some(Exact { before, wanted })
}

impl Drop for Exact {
    fn drop(&mut self) {
        let restored = quietly(|| update_kernel(0, &self.before));
        // A child made by vfork has its parent's memory, and is about to end.
        if restored || ids::is_vfork_child() {
            return;
        }
        // To raise it again takes a right that this program has not: it gets room in another way.
        quietly(sockets::give_places_back);
        TOLD.set(self.wanted);
    }
}

/// The program's limit for what it begins, if the kernel has another one for this process.
pub fn wanted_of_children() -> Option<rlimit> {
    quietly(told_and_wanted).map(|(_, wanted)| wanted)
}

/// This process has made a child that is another program by now.
pub fn for_child(child: pid_t) {
    if let Some((_, wanted)) = told_and_wanted() {
        quietly(|| update_kernel(child, &wanted));
    }
}

/// # Safety
/// The limits are the program's.
unsafe fn of_addresses(new: *const rlimit, old: *mut rlimit) -> c_int {
    let now = kernels();
    let is_there = !new.is_null() && fault::can_read(new, size_of::<rlimit>());
    // SAFETY: as promised, and it is there.
    let wanted = is_there.then(|| unsafe { new.read() });
    if wanted.is_some_and(is_small) {
        give_all_back();
    }
    // What a child made by vfork sets is for the program that it becomes.
    let is_exact = ids::is_vfork_child() && !sandbox::is_sandboxed();
    let as_told = |wanted| if is_exact { wanted } else { told(wanted, now) };
    let kernel = wanted.map(as_told);
    let new = kernel.as_ref().map_or(new, core::ptr::from_ref);
    // SAFETY: the program's call; the kernel has just written to `old`.
    unsafe {
        let result = real::prlimit(0, libc::RLIMIT_AS, new, old);
        if result == 0 && !old.is_null() {
            old.write(shown(now));
        }
        // Of a child made by vfork it is the child's own, and these are its parent's.
        let is_own = sandbox::is_sandboxed() || !ids::is_vfork_child();
        if let (0, Some(wanted), Some(kernel), true) = (result, wanted, kernel, is_own) {
            WANTED.set(wanted);
            TOLD.set(kernel);
            // Release pairs with the Acquire in `is_set`.
            IS_SET.store(true, Ordering::Release);
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
