//! The fabric: the programs of this user on this host.

use std::ffi::{c_int, c_void};

use super::{domain, eq};
use crate::border::{Constant, absent, guarded, only_closed_by};
use crate::raw::{self, Function, fi_ops, fi_ops_fabric, fid, fid_fabric};

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

static FABRIC: Constant<fi_ops_fabric> = Constant(fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain::open as Function,
    passive_ep: absent as Function,
    eq_open: eq::open as Function,
    wait_open: absent as Function,
    trywait: nothing_to_wait_for as Function,
    domain2: absent as Function,
});

/// Makes the object.
///
/// # Safety
/// `fabric` leads to a place for a pointer.
pub(crate) unsafe extern "C" fn open(
    _attr: *mut raw::fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let made = Box::new(fid_fabric {
        fid: fid {
            fclass: raw::FI_CLASS_FABRIC,
            context,
            ops: &OPS.0,
        },
        ops: &FABRIC.0,
        api_version: raw::VERSION,
    });
    // SAFETY: the caller gives a place for it.
    unsafe { *fabric = Box::into_raw(made) };
    0
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `open` made it so, and libfabric closes an object once.
        drop(unsafe { Box::from_raw(fid.cast::<fid_fabric>()) });
        Ok(0)
    })
}

/// No object has a descriptor to wait for.
extern "C" fn nothing_to_wait_for(_: *mut fid_fabric, _: *mut *mut fid, _: c_int) -> c_int {
    -raw::FI_ENOSYS
}
