//! Functions of liburing's that make a ring. That library calls the kernel past the C library, so
//! `syscall` does not see them.

use core::ffi::{CStr, c_int, c_uint, c_void};

use crate::rings;

/// The function of this name of liburing's, which the program has found ours in place of. It may
/// have been loaded for a part of the program only, where the next definition is not found.
fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: the names end with a zero; a library is not loaded, only found.
    unsafe {
        let found = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !found.is_null() {
            return found;
        }
        let libraries = [c"liburing.so.2", c"liburing.so.1"];
        libraries
            .iter()
            .map(|library| libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD))
            .filter(|library| !library.is_null())
            .map(|library| libc::dlsym(library, name.as_ptr()))
            .find(|found| !found.is_null())
            .unwrap_or(core::ptr::null_mut())
    }
}

/// They return 0, or a descriptor, or an error's number below 0, and do not touch `errno`.
macro_rules! makes_ring {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// As for liburing's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let saved = crate::real::errno();
            let name = concat!(stringify!($name), "\0").as_bytes();
            let found = look_up(CStr::from_bytes_until_nul(name).unwrap_or(c""));
            if found.is_null() {
                return -libc::ENOSYS;
            }
            // SAFETY: liburing's function of this name has this type; the program's call.
            let result = unsafe {
                let call: unsafe extern "C-unwind" fn($($type),*) -> c_int = core::mem::transmute(found);
                call($($arg),*)
            };
            if result >= 0 {
                rings::made_somewhere();
            }
            crate::real::set_errno(saved);
            result
        }
    )* };
}

makes_ring! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void);
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, memory: *mut c_void, bytes: usize);
    io_uring_setup(entries: c_uint, params: *mut c_void);
}
