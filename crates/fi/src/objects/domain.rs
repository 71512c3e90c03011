//! A domain: what its endpoints, queues and tables share.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::kinds::Domain;
use super::{atomic, av, cntr, cq, endpoint, mr};
use crate::border::{Constant, absent, guarded, only_closed_by};
use crate::raw::{self, Function, fi_info, fi_ops, fi_ops_domain, fid, fid_domain, fid_fabric};
use crate::space::Space;

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

static DOMAIN: Constant<fi_ops_domain> = Constant(fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: av::open as Function,
    cq_open: cq::open as Function,
    endpoint: endpoint::open as Function,
    scalable_ep: absent as Function,
    cntr_open: cntr::open as Function,
    poll_open: absent as Function,
    stx_ctx: absent as Function,
    srx_ctx: absent as Function,
    query_atomic: atomic::query as Function,
    query_collective: absent as Function,
    endpoint2: absent as Function,
});

/// Makes the object.
///
/// # Safety
/// `info` is null or a description, `domain` leads to a place for a pointer.
pub(super) unsafe extern "C" fn open(
    _fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: libfabric gives a description, with its parts.
    let attr = unsafe { info.as_ref().and_then(|info| info.domain_attr.as_ref()) };
    let is_serial = attr.is_some_and(|attr| attr.threading == raw::FI_THREAD_DOMAIN);
    let made = Box::new(Domain {
        fid: fid_domain {
            fid: fid {
                fclass: raw::FI_CLASS_DOMAIN,
                context,
                ops: &OPS.0,
            },
            ops: &DOMAIN.0,
            mr: &mr::MEMORY.0,
        },
        space: Arc::new(Space::new(is_serial)),
    });
    // SAFETY: the caller gives a place for it.
    unsafe { *domain = Box::into_raw(made).cast() };
    0
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        let domain = fid.cast::<Domain>();
        // SAFETY: `open` made it, and it was not closed.
        if Arc::strong_count(unsafe { &(*domain).space }) > 1 {
            return Err(raw::FI_EBUSY);
        }
        // SAFETY: `open` made it so, and libfabric closes an object once.
        drop(unsafe { Box::from_raw(domain) });
        Ok(0)
    })
}
