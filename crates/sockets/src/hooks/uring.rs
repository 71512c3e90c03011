//! Functions of liburing's that make a ring, or have it live without its descriptor. That library
//! calls the kernel past the C library, so `syscall` does not see them.

use core::ffi::{CStr, c_int, c_uint, c_void};
use std::ffi::CString;

use crate::rings;

/// The function of this name of liburing's, which the program has found ours in place of.
fn look_up(name: &CStr, ours: *const c_void) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        look_up_aside(name, ours)
    } else {
        found
    }
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

/// They return 0, or a descriptor, or an error's number below 0, and do not touch `errno`.
macro_rules! announced {
    ($($name:ident($($arg:ident: $type:ty),*) => $then:expr;)*) => { $(
        /// # Safety
        /// As for liburing's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let saved = crate::real::errno();
            let name = concat!(stringify!($name), "\0").as_bytes();
            let name = CStr::from_bytes_until_nul(name).unwrap_or(c"");
            let found = look_up(name, $name as *const c_void);
            if found.is_null() {
                return -libc::ENOSYS;
            }
            // SAFETY: liburing's function of this name has this type; the program's call.
            let result = unsafe {
                let call: unsafe extern "C-unwind" fn($($type),*) -> c_int = core::mem::transmute(found);
                call($($arg),*)
            };
            if result >= 0 {
                $then;
            }
            crate::real::set_errno(saved);
            result
        }
    )* };
}

announced! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) => rings::made_somewhere();
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void) => rings::made_somewhere();
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, memory: *mut c_void, bytes: usize) => rings::made_somewhere();
    io_uring_setup(entries: c_uint, params: *mut c_void) => rings::made_somewhere();
    // It lives on then when its descriptor is closed, and nobody can see it any more.
    io_uring_register_ring_fd(ring: *mut c_void) => rings::made(None);
}
