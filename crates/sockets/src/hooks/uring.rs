//! Calls that set up an io_uring, submit entries, or register sockets with one: by the C library's
//! `syscall`, and by the functions of liburing, which make raw system calls.

use core::ffi::{CStr, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::ffi::CString;

use crate::io_uring::rings;
use crate::process::settings::{self, Rings};
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::{
    slots,
    uring_rings::{self, Params, Queue},
};

/// The error for a program that may have no io_uring, as from a container's filter, or from the kernel with
/// `kernel.io_uring_disabled`.
const REFUSED: c_int = libc::EPERM;

fn refuses() -> bool {
    settings::get().rings == Rings::Refuse && !slots::is_hidden()
}

/// # Safety
/// As for the call of this name.
#[cold]
pub unsafe fn setup(entries: usize, params: usize) -> c_long {
    if refuses() {
        return real::fail(REFUSED) as c_long;
    }
    // SAFETY: the program's call; if it succeeds, the kernel has just written what is given.
    unsafe {
        let result = real::syscall(libc::SYS_io_uring_setup, entries, params, 0, 0, 0, 0);
        if result >= 0 {
            rings::set_up(result as c_int, params as *const Params);
        }
        result
    }
}

/// The descriptor of a ring is one of those that are registered.
const REGISTERED_RING: usize = 1 << 4;

/// # Safety
/// As for the call of this name.
pub unsafe fn enter([fd, count, least, flags, argument, bytes]: [usize; 6]) -> c_long {
    let is_descriptor = flags & REGISTERED_RING == 0;
    let submission = rings::before_enter(fd as c_int, count as u32, is_descriptor);
    let number = libc::SYS_io_uring_enter;
    // SAFETY: the program's call.
    let result = unsafe { real::syscall(number, fd, count, least, flags, argument, bytes) };
    drop(submission);
    result
}

/// Where `struct io_uring` (liburing.h), which is part of the programs that were built with it, has the
/// pointers to the kernel's head, the mask and the entries; what is not submitted yet; flags, descriptor and
/// what the kernel can do.
const HEAD_AT: usize = 0;
const MASK_AT: usize = 16;
const ENTRIES_AT: usize = 56;
const TAIL_AT: usize = 68;
const FLAGS_AT: usize = 192;
const FD_AT: usize = 196;
const FEATURES_AT: usize = 200;
/// `IORING_FEAT_EXT_ARG`: the kernel's call takes a time itself.
const TAKES_TIME: u32 = 1 << 8;

/// The number at an offset in a ring of liburing's.
///
/// # Safety
/// The ring is the program's.
unsafe fn number_at(ring: *const c_void, at: usize) -> u32 {
    // SAFETY: as promised.
    unsafe { ring.byte_add(at).cast::<u32>().read() }
}

/// liburing has set up an io_uring.
///
/// # Safety
/// As for [`number_at`].
unsafe fn made(ring: *const c_void) {
    // SAFETY: as promised.
    let (fd, flags) = unsafe { (number_at(ring, FD_AT), number_at(ring, FLAGS_AT)) };
    rings::made_by_library(fd as c_int, flags);
}

/// The entries in an io_uring of liburing are about to be submitted.
///
/// # Safety
/// As for [`number_at`].
unsafe fn submits(ring: *const c_void) {
    // SAFETY: as promised; a ring that was made has these.
    unsafe {
        let flags = number_at(ring, FLAGS_AT);
        if !uring_rings::can_be_of_library(flags) {
            return;
        }
        let pointer_at = |at| ring.byte_add(at).cast::<*mut u32>().read();
        // Acquire pairs with the Release with which the kernel stores its head.
        let first = AtomicU32::from_ptr(pointer_at(HEAD_AT)).load(Ordering::Acquire);
        let count = number_at(ring, TAIL_AT).wrapping_sub(first);
        let mask = pointer_at(MASK_AT).read();
        if count == 0 || count > mask.wrapping_add(1) {
            return;
        }
        let queue = Queue {
            entries: pointer_at(ENTRIES_AT).cast(),
            array: core::ptr::null(),
            mask,
            is_wide: flags & uring_rings::WIDE_ENTRIES != 0,
            is_polled: flags & uring_rings::POLLED != 0,
            first,
            count,
        };
        rings::before_submit(number_at(ring, FD_AT) as c_int, &queue);
    }
}

/// The program has closed an io_uring of liburing.
///
/// # Safety
/// As for [`number_at`].
unsafe fn ends(ring: *const c_void) {
    // SAFETY: as promised.
    let fd = unsafe { number_at(ring, FD_AT) };
    quietly(|| uring_rings::closing(fd as c_int));
}

/// liburing's function of this name, behind the interposed one.
fn look_up(cache: &AtomicPtr<c_void>, name: &CStr, ours: *const c_void) -> *mut c_void {
    // Relaxed: the pointer is to code that is never unloaded.
    let found = cache.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    let found = quietly(|| look_up_first(name, ours));
    // Relaxed: as above. Every thread finds the same.
    cache.store(found, Ordering::Relaxed);
    found
}

#[cold]
fn look_up_first(name: &CStr, ours: *const c_void) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        found = look_up_aside(name, ours);
    }
    // SAFETY: what is told of is ours to write; the object is there, and stays from now on.
    unsafe {
        let mut object: libc::Dl_info = core::mem::zeroed();
        if !found.is_null() && libc::dladdr(found, &raw mut object) != 0 {
            let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            libc::dlopen(object.dli_fname, how);
        }
    }
    found
}

/// As above, where it was loaded for a part of the program only, by whatever name: its own
/// liburing, or one that is linked into it. Ours come before these as well.
fn look_up_aside(name: &CStr, ours: *const c_void) -> *mut c_void {
    let mut objects: Vec<CString> = Vec::new();
    // SAFETY: the list lives. An object is not loaded, only found: who calls its function keeps it.
    unsafe {
        libc::dl_iterate_phdr(Some(note_object), (&raw mut objects).cast());
        let found_in = |object: &CString| {
            let object = libc::dlopen(object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if object.is_null() {
                return None;
            }
            let found = libc::dlsym(object, name.as_ptr());
            libc::dlclose(object);
            (!found.is_null() && !core::ptr::eq(found, ours)).then_some(found)
        };
        let found = objects.iter().find_map(found_in);
        found.unwrap_or(core::ptr::null_mut())
    }
}

/// Notes an object's name. The program itself has none, and what it exports comes before ours.
///
/// # Safety
/// Called with the loader's description of an object, and a list of names.
unsafe extern "C" fn note_object(
    info: *mut libc::dl_phdr_info,
    _: usize,
    objects: *mut c_void,
) -> c_int {
    // SAFETY: as promised; the name ends with a zero.
    unsafe {
        let name = CStr::from_ptr((*info).dlpi_name);
        if !name.is_empty() {
            (*objects.cast::<Vec<CString>>()).push(name.to_owned());
        }
    }
    0
}

/// Calls liburing's function of a name and a type. It returns 0, or a number, or an error's number below
/// 0, and does not touch `errno`.
macro_rules! call {
    ($name:ident($($arg:ident: $type:ty),* $(,)?)) => {{
        static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
        let name = concat!(stringify!($name), "\0").as_bytes();
        let name = CStr::from_bytes_until_nul(name).unwrap_or(c"");
        let found = look_up(&FOUND, name, $name as *const c_void);
        if found.is_null() {
            -libc::ENOSYS
        } else {
            // SAFETY: liburing's function of this name has this type; the program's call.
            unsafe {
                let call: unsafe extern "C-unwind" fn($($type),*) -> c_int = core::mem::transmute(found);
                call($($arg),*)
            }
        }
    }};
}

/// Functions that make a ring: whatever is at `ring` describes it then.
macro_rules! making {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// As for liburing's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(entries: c_uint, ring: *mut c_void, $($arg: $type),*) -> c_int {
            if refuses() {
                return -REFUSED;
            }
            let result = call!($name(entries: c_uint, ring: *mut c_void, $($arg: $type),*));
            if result >= 0 {
                // SAFETY: it was just made.
                unsafe { made(ring) };
            }
            result
        }
    )* };
}

making! {
    io_uring_queue_init(flags: c_uint);
    io_uring_queue_init_params(params: *mut c_void);
    io_uring_queue_init_mem(params: *mut c_void, memory: *mut c_void, bytes: usize);
}

/// What may be in a ring is submitted by a call that waits, with a timeout of its own beside it: before
/// Linux 5.11 only. PostgreSQL waits so for other processes' rings, whose entries are none of this one's.
///
/// # Safety
/// As for [`number_at`].
unsafe fn waits(ring: *const c_void) {
    // SAFETY: as promised.
    unsafe {
        if number_at(ring, FEATURES_AT) & TAKES_TIME == 0 {
            submits(ring);
        }
    }
}

/// Functions that submit what is in a ring, or may.
macro_rules! submitting {
    ($before:ident: $($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// As for liburing's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(ring: *mut c_void, $($arg: $type),*) -> c_int {
            // SAFETY: the program's ring.
            unsafe { $before(ring) };
            call!($name(ring: *mut c_void, $($arg: $type),*))
        }
    )* };
}

submitting! { submits:
    io_uring_submit();
    io_uring_submit_and_get_events();
    io_uring_submit_and_wait(least: c_uint);
    io_uring_submit_and_wait_timeout(result: *mut c_void, least: c_uint, time: *mut c_void, mask: *mut c_void);
    io_uring_submit_and_wait_min_timeout(result: *mut c_void, least: c_uint, time: *mut c_void, shortest: c_uint, mask: *mut c_void);
    io_uring_submit_and_wait_reg(result: *mut c_void, least: c_uint, place: c_int);
}

submitting! { waits:
    io_uring_wait_cqes(result: *mut c_void, least: c_uint, time: *mut c_void, mask: *mut c_void);
    io_uring_wait_cqes_min_timeout(result: *mut c_void, least: c_uint, time: *mut c_void, shortest: c_uint, mask: *mut c_void);
    io_uring_wait_cqe_timeout(result: *mut c_void, time: *mut c_void);
}

/// Functions that register descriptors with a ring, or tell of its end.
macro_rules! registering {
    ($($name:ident($($arg:ident: $type:ty),*) => $first:expr;)*) => { $(
        /// # Safety
        /// As for liburing's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(ring: *mut c_void, $($arg: $type),*) -> c_int {
            // SAFETY: the program's ring, and its list.
            unsafe { $first(ring) };
            call!($name(ring: *mut c_void, $($arg: $type),*))
        }
    )* };
}

registering! {
    io_uring_register_files(list: *const c_int, count: c_uint) => |_| rings::before_list(list, count);
    io_uring_register_files_tags(list: *const c_int, tags: *const u64, count: c_uint) => |_| rings::before_list(list, count);
    io_uring_register_files_update(at: c_uint, list: *const c_int, count: c_uint) => |_| rings::before_list(list, count);
    io_uring_register_files_update_tag(at: c_uint, list: *const c_int, tags: *const u64, count: c_uint) => |_| rings::before_list(list, count);
    io_uring_register_restrictions(list: *mut c_void, count: c_uint) => |ring| ends(ring);
    io_uring_close_ring_fd() => |ring| ends(ring);
}

/// # Safety
/// As for liburing's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn io_uring_queue_exit(ring: *mut c_void) {
    // SAFETY: the program's ring.
    unsafe { ends(ring) };
    // It returns nothing: what is in the register of the result means nothing.
    let _ = call!(io_uring_queue_exit(ring: *mut c_void));
}

/// # Safety
/// As for liburing's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, params: *mut c_void) -> c_int {
    if refuses() {
        return -REFUSED;
    }
    let result = call!(io_uring_setup(entries: c_uint, params: *mut c_void));
    if result >= 0 {
        // SAFETY: the kernel has just written what is given.
        unsafe { rings::set_up(result, params.cast()) };
    }
    result
}

/// # Safety
/// As for liburing's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn io_uring_enter(
    fd: c_uint,
    count: c_uint,
    least: c_uint,
    flags: c_uint,
    mask: *mut c_void,
) -> c_int {
    let is_descriptor = flags as usize & REGISTERED_RING == 0;
    let submission = rings::before_enter(fd as c_int, count, is_descriptor);
    let result = call!(io_uring_enter(fd: c_uint, count: c_uint, least: c_uint, flags: c_uint, mask: *mut c_void));
    drop(submission);
    result
}

/// # Safety
/// As for liburing's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn io_uring_enter2(
    fd: c_uint,
    count: c_uint,
    least: c_uint,
    flags: c_uint,
    argument: *mut c_void,
    bytes: usize,
) -> c_int {
    let is_descriptor = flags as usize & REGISTERED_RING == 0;
    let submission = rings::before_enter(fd as c_int, count, is_descriptor);
    let result = call!(io_uring_enter2(fd: c_uint, count: c_uint, least: c_uint, flags: c_uint, argument: *mut c_void, bytes: usize));
    drop(submission);
    result
}

/// # Safety
/// As for liburing's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn io_uring_register(
    fd: c_uint,
    operation: c_uint,
    list: *const c_void,
    count: c_uint,
) -> c_int {
    // SAFETY: the program's call.
    unsafe { rings::before_register(fd as c_int, operation, list, count) };
    call!(io_uring_register(fd: c_uint, operation: c_uint, list: *const c_void, count: c_uint))
}
