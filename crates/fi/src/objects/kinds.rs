//! What functions of several objects share: domains and endpoints, and the flags of operations.

use std::ffi::c_void;
use std::sync::Arc;

use crate::raw::{self, fid_domain, fid_ep};
use crate::space::Space;

/// What libfabric passes for a memory region of the program's own, and an array of such. This provider needs none.
pub(super) type Desc = *mut c_void;
pub(super) type Descs = *mut *mut c_void;

/// Flags that every operation may have which sends something.
pub(super) const SENDING_FLAGS: u64 = raw::FI_COMPLETION
    | raw::FI_MORE
    | raw::FI_INJECT
    | raw::FI_INJECT_COMPLETE
    | raw::FI_TRANSMIT_COMPLETE
    | raw::FI_DELIVERY_COMPLETE;

/// A domain, which begins with what libfabric knows of it.
#[repr(C)]
pub(super) struct Domain {
    pub(super) fid: fid_domain,
    pub(super) space: Arc<Space>,
}

/// An endpoint, which begins with what libfabric knows of it.
#[repr(C)]
pub(super) struct Endpoint {
    pub(super) fid: fid_ep,
    pub(super) space: Arc<Space>,
    /// Its place in the space.
    pub(super) place: usize,
}

/// What the objects of a domain share.
///
/// # Safety
/// It is an object of this provider, and was not closed.
pub(super) unsafe fn space(domain: *mut fid_domain) -> Arc<Space> {
    // SAFETY: the caller says so.
    let domain = unsafe { &*domain.cast::<Domain>() };
    Arc::clone(&domain.space)
}

/// The endpoint that a program names.
///
/// # Safety
/// It is an object of this provider, and is not closed while the reference is used.
pub(super) unsafe fn endpoint<'a>(ep: *mut fid_ep) -> &'a Endpoint {
    // SAFETY: the caller says so.
    unsafe { &*ep.cast::<Endpoint>() }
}
