//! The objects that other objects' functions get: domains and endpoints.

use std::sync::Arc;

use crate::raw::{fid_domain, fid_ep};
use crate::space::Space;

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
