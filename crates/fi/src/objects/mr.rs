//! A memory region: memory that other endpoints may read and write.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use libc::iovec;

use super::kinds::space;
use crate::border::{Constant, guarded, only_closed_by};
use crate::raw::{self, Function, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_mr};
use crate::space::Space;

#[repr(C)]
struct MemoryRegion {
    fid: fid_mr,
    space: Arc<Space>,
}

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

/// What a domain does with memory.
pub(super) static MEMORY: Constant<fi_ops_mr> = Constant(fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: reg as Function,
    regv: regv as Function,
    regattr: regattr as Function,
});

/// What a program may ask for; what of that peers do is remembered.
const ACCESS: u64 = raw::FI_SEND
    | raw::FI_RECV
    | raw::FI_READ
    | raw::FI_WRITE
    | raw::FI_REMOTE_READ
    | raw::FI_REMOTE_WRITE;

/// Registers memory. The program's wish for a key is passed over: keys are this provider's (`FI_MR_PROV_KEY`).
///
/// # Safety
/// `domain` is one of this provider, `region` leads to a place for a pointer, and the memory is there until the region is
/// closed.
unsafe fn register(
    domain: *mut fid,
    memory: &iovec,
    access: u64,
    context: *mut c_void,
    region: *mut *mut fid_mr,
) -> c_int {
    guarded(|| {
        if access & !ACCESS != 0 {
            return Err(raw::FI_EINVAL);
        }
        // SAFETY: a domain of this provider.
        let space = unsafe { space(domain.cast()) };
        let start = memory.iov_base.expose_provenance();
        let regions = Arc::clone(&space.lock().regions);
        // SAFETY: the caller says that the memory is there.
        let key = unsafe { regions.add(start, memory.iov_len, access) };
        let made = Box::new(MemoryRegion {
            fid: fid_mr {
                fid: fid {
                    fclass: raw::FI_CLASS_MR,
                    context,
                    ops: &OPS.0,
                },
                mem_desc: std::ptr::null_mut(),
                key,
            },
            space,
        });
        // SAFETY: the caller gives a place for it.
        unsafe { *region = Box::into_raw(made).cast() };
        Ok(0)
    })
}

/// Registers memory in one place.
///
/// # Safety
/// It is called by libfabric's rules: the memory is there until the region is closed.
unsafe extern "C" fn reg(
    domain: *mut fid,
    start: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    _key: u64,
    flags: u64,
    region: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -raw::FI_EINVAL;
    }
    let memory = iovec {
        iov_base: start.cast_mut(),
        iov_len: len,
    };
    // SAFETY: the caller says so.
    unsafe { register(domain, &memory, access, context, region) }
}

/// As [`reg`], given as an array of one place.
///
/// # Safety
/// It is called by libfabric's rules: the memory is there until the region is closed.
unsafe extern "C" fn regv(
    domain: *mut fid,
    places: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    _key: u64,
    flags: u64,
    region: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if flags != 0 || count != 1 || places.is_null() {
        return -raw::FI_EINVAL;
    }
    // SAFETY: the caller says so.
    unsafe { register(domain, &*places, access, context, region) }
}

/// As [`reg`], by a description.
///
/// # Safety
/// It is called by libfabric's rules: the memory is there until the region is closed.
unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    region: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: libfabric gives it, or nothing.
    let Some(attr) = (unsafe { attr.as_ref() }) else {
        return -raw::FI_EINVAL;
    };
    // SAFETY: the caller says so.
    unsafe {
        regv(
            domain,
            attr.mr_iov,
            attr.iov_count,
            attr.access,
            attr.offset,
            attr.requested_key,
            flags,
            region,
            attr.context,
        )
    }
}

/// Closes the object. What peers are doing with the memory ends.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `register` made it so, and libfabric closes an object once.
        let region = unsafe { Box::from_raw(fid.cast::<MemoryRegion>()) };
        region.space.lock().remove_region(region.fid.key);
        Ok(0)
    })
}
