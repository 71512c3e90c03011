//! An event queue. Nothing here happens later than the call that began it, so it stays empty.

use std::ffi::{c_int, c_void};

use crate::border::{Constant, absent, guarded, only_closed_by};
use crate::raw::{self, Function, fi_ops, fi_ops_eq, fid, fid_eq, fid_fabric};

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

static QUEUE: Constant<fi_ops_eq> = Constant(fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: empty as Function,
    readerr: empty as Function,
    write: absent as Function,
    sread: absent as Function,
    strerror: super::cq::strerror as Function,
});

/// Makes the object.
///
/// # Safety
/// `queue` leads to a place for a pointer.
pub(super) unsafe extern "C" fn open(
    _fabric: *mut fid_fabric,
    _attr: *mut c_void,
    queue: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    let made = Box::new(fid_eq {
        fid: fid {
            fclass: raw::FI_CLASS_EQ,
            context,
            ops: &OPS.0,
        },
        ops: &QUEUE.0,
    });
    // SAFETY: the caller gives a place for it.
    unsafe { *queue = Box::into_raw(made) };
    0
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `open` made it so, and libfabric closes an object once.
        drop(unsafe { Box::from_raw(fid.cast::<fid_eq>()) });
        Ok(0)
    })
}

extern "C" fn empty() -> isize {
    -(raw::FI_EAGAIN as isize)
}
