//! An endpoint.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::av::{AddressVector, give};
use super::cntr::CounterObject;
use super::cq::CompletionQueue;
use super::kinds::{Endpoint, endpoint, space};
use super::{atomic, messages, rma};
use crate::border::{Constant, absent, guarded};
use crate::engine::state::{Engine, RECEIVES, SENDS};
use crate::memory::Context;
use crate::raw::{self, Function, fi_info, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_domain, fid_ep};
use crate::space::{Bound, place};

static OPS: Constant<fi_ops> = Constant(fi_ops {
    size: size_of::<fi_ops>(),
    close: close as Function,
    bind: bind as Function,
    control: control as Function,
    ops_open: absent as Function,
    tostr: absent as Function,
    ops_set: absent as Function,
});

static ENDPOINT: Constant<fi_ops_ep> = Constant(fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: cancel as Function,
    getopt: getopt as Function,
    setopt: setopt as Function,
    tx_ctx: absent as Function,
    rx_ctx: absent as Function,
    rx_size_left: absent as Function,
    tx_size_left: absent as Function,
});

static NAMES: Constant<fi_ops_cm> = Constant(fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: absent as Function,
    getname: getname as Function,
    getpeer: absent as Function,
    connect: absent as Function,
    listen: absent as Function,
    accept: absent as Function,
    reject: absent as Function,
    shutdown: absent as Function,
    join: absent as Function,
});

/// Makes the object.
///
/// # Safety
/// `domain` is one of this provider, `info` one of libfabric's, `endpoint` leads to a place for a pointer.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric gives it.
        let info = unsafe { info.as_ref() }.ok_or(raw::FI_EINVAL)?;
        // SAFETY: a part of it, or nothing.
        let sends = unsafe { info.tx_attr.as_ref() }.map_or(0, |attr| attr.op_flags);
        // SAFETY: a part of it, or nothing.
        let receives = unsafe { info.rx_attr.as_ref() }.map_or(0, |attr| attr.op_flags);
        // SAFETY: a domain of this provider.
        let space = unsafe { space(domain) };
        let regions = Arc::clone(&space.lock().regions);
        let engine = Engine::new(regions).map_err(|_| raw::FI_ENOMEM)?;
        let bound = Bound::new(engine, info.caps, sends, receives);
        let place = place(&mut space.lock().endpoints, bound);
        let made = Box::new(Endpoint {
            fid: fid_ep {
                fid: fid {
                    fclass: raw::FI_CLASS_EP,
                    context,
                    ops: &OPS.0,
                },
                ops: &ENDPOINT.0,
                cm: &NAMES.0,
                msg: &messages::PLAIN.0,
                rma: &rma::RMA.0,
                tagged: &messages::TAGGED.0,
                atomic: &atomic::ATOMIC.0,
                collective: std::ptr::null(),
            },
            space,
            place,
        });
        // SAFETY: the caller gives a place for it.
        unsafe { *endpoint = Box::into_raw(made).cast() };
        Ok(0)
    })
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `open` made it so, and libfabric closes an object once.
        let endpoint = unsafe { Box::from_raw(fid.cast::<Endpoint>()) };
        endpoint.space.lock().remove_endpoint(endpoint.place);
        Ok(0)
    })
}

/// Binds a queue or a table to the endpoint.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: an object of `open`.
        let endpoint = unsafe { endpoint(fid.cast()) };
        let mut inner = endpoint.space.lock();
        // SAFETY: an object of this provider, all of which begin alike.
        let class = unsafe { (*other).fclass };
        match class {
            raw::FI_CLASS_AV => {
                // SAFETY: its class says so.
                let table = unsafe { (*other.cast::<AddressVector>()).table };
                let bound = inner.endpoints[endpoint.place].as_mut();
                bound.ok_or(raw::FI_EINVAL)?.table = Some(table);
            }
            raw::FI_CLASS_CQ => {
                // SAFETY: its class says so.
                let queue = unsafe { (*other.cast::<CompletionQueue>()).queue };
                let bound = inner.endpoints[endpoint.place].as_mut();
                let bound = bound.ok_or(raw::FI_EINVAL)?;
                let selective = flags & raw::FI_SELECTIVE_COMPLETION != 0;
                let both = [(raw::FI_RECV, RECEIVES), (raw::FI_SEND, SENDS)];
                let directions = both.iter().filter(|(flag, _)| flags & flag != 0);
                for &(_, direction) in directions {
                    bound.bind_queue(direction, queue, selective);
                }
                inner.bind_endpoint(endpoint.place)?;
            }
            raw::FI_CLASS_CNTR => {
                // SAFETY: its class says so.
                let counter = unsafe { (*other.cast::<CounterObject>()).counter };
                inner.bind_counter(endpoint.place, counter, flags)?;
            }
            // It stays empty.
            raw::FI_CLASS_EQ => {}
            _ => return Err(raw::FI_ENOSYS),
        }
        Ok(0)
    })
}

/// Enables the endpoint.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, _argument: *mut c_void) -> c_int {
    guarded(|| {
        if command != raw::FI_ENABLE {
            return Err(raw::FI_ENOSYS);
        }
        // SAFETY: an object of `open`.
        let endpoint = unsafe { endpoint(fid.cast()) };
        let mut inner = endpoint.space.lock();
        let bound = inner.endpoints[endpoint.place].as_mut();
        let bound = bound.ok_or(raw::FI_EINVAL)?;
        if bound.table.is_none() {
            return Err(raw::FI_ENOAV);
        }
        let has_queue = bound.sends.queue.is_some() || bound.receives.queue.is_some();
        if !has_queue && bound.engine.counted.is_empty() {
            return Err(raw::FI_ENOCQ);
        }
        bound.enabled = true;
        Ok(0)
    })
}

/// Gives the address of the endpoint.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn getname(fid: *mut fid, address: *mut c_void, len: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: an object of `open`.
        let endpoint = unsafe { endpoint(fid.cast()) };
        let inner = endpoint.space.lock();
        let bound = inner.endpoints[endpoint.place].as_ref();
        let own = bound.ok_or(raw::FI_EINVAL)?.engine.address();
        // SAFETY: `len` says how much room is at `address`.
        match unsafe { give(&own, address.cast(), len) } {
            true => Ok(0),
            false => Err(raw::FI_ETOOSMALL),
        }
    })
}

/// Whether an option is the only one that there is: how much of a buffer for several messages is left when the program
/// gets it back.
fn is_known(level: c_int, name: c_int) -> Result<(), c_int> {
    match (level, name) {
        (raw::FI_OPT_ENDPOINT, raw::FI_OPT_MIN_MULTI_RECV) => Ok(()),
        _ => Err(raw::FI_ENOPROTOOPT),
    }
}

/// Reads an option.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guarded(|| {
        is_known(level, name)?;
        // SAFETY: libfabric gives the place of a length.
        let len = unsafe { len.as_mut() }.ok_or(raw::FI_EINVAL)?;
        let room = std::mem::replace(len, size_of::<usize>());
        if value.is_null() || room < size_of::<usize>() {
            return Err(raw::FI_ETOOSMALL);
        }
        // SAFETY: an object of `open`.
        let endpoint = unsafe { endpoint(fid.cast()) };
        let inner = endpoint.space.lock();
        let bound = inner.endpoints[endpoint.place].as_ref();
        let bytes_min = bound.ok_or(raw::FI_EINVAL)?.many_bytes_min;
        // SAFETY: there is as much room.
        unsafe { value.cast::<usize>().write_unaligned(bytes_min) };
        Ok(0)
    })
}

/// Sets an option, for receives that are posted from now on.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    guarded(|| {
        is_known(level, name)?;
        if value.is_null() || len != size_of::<usize>() {
            return Err(raw::FI_EINVAL);
        }
        // SAFETY: the value is as long.
        let bytes_min = unsafe { value.cast::<usize>().read_unaligned() };
        // SAFETY: an object of `open`.
        let endpoint = unsafe { endpoint(fid.cast()) };
        let mut inner = endpoint.space.lock();
        let bound = inner.endpoints[endpoint.place].as_mut();
        bound.ok_or(raw::FI_EINVAL)?.many_bytes_min = bytes_min;
        Ok(0)
    })
}

/// Ends a posted receive.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    guarded(|| {
        // SAFETY: an object of `open`.
        let endpoint = unsafe { endpoint(fid.cast()) };
        let mut inner = endpoint.space.lock();
        inner.cancel(endpoint.place, Context(context))?;
        Ok(0)
    })
}
