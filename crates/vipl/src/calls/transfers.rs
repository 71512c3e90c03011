//! Descriptors are posted, and are done.

use std::ffi::{c_int, c_ulong, c_void};

use barewire_proto::via::descriptor::{
    ALIGNMENT_BYTES, CONTROL_BYTES, SEGMENT_BYTES, SEGMENTS_MAX, Segment, Side, check,
};
use barewire_proto::via::protection::Access;

use crate::border::{deadline, guarded, put};
use crate::handles::{Kind, find, pointer};
use crate::helper;
use crate::memory::Descriptor;
use crate::nic::state::{Inner, Posted};
use crate::raw::{Code, ViHandler};

/// Reads a descriptor and checks it.
///
/// # Safety
/// What the program has registered is there.
unsafe fn read(
    inner: &Inner,
    vi: usize,
    side: Side,
    descriptor: Descriptor,
    handle: u32,
) -> Result<Posted, Code> {
    let of = inner.vis.get(&vi).ok_or(Code::InvalidParameter)?;
    let tag = of.tag as u64;
    let own = |address: u64, len: usize| {
        let len = len as u64;
        inner
            .regions
            .allows(handle, address, len, tag, Access::Local)
    };
    let address = descriptor.0 as u64;
    let aligned = descriptor.0 != 0 && descriptor.0 % ALIGNMENT_BYTES == 0;
    if !aligned || !own(address, CONTROL_BYTES) {
        return Err(Code::InvalidParameter);
    }
    // SAFETY: it lies in a registered region.
    let control = unsafe { descriptor.control() };
    // If it says that there are more, its format is wrong.
    let count = control.segments.min(SEGMENTS_MAX);
    if !own(address, CONTROL_BYTES + SEGMENT_BYTES * usize::from(count)) {
        return Err(Code::InvalidParameter);
    }
    // SAFETY: they lie in a registered region.
    let segments = unsafe { descriptor.segments(count) };
    let allows = |s: &Segment| {
        let len = u64::from(s.len_bytes);
        inner
            .regions
            .allows(s.handle, s.address, len, tag, Access::Local)
    };
    Ok(Posted {
        descriptor,
        handle,
        work: check(side, &control, &segments, &of.limits(), allows),
        operation: control.operation(side).status(),
        status: 0,
    })
}

fn post(vi: *mut c_void, side: Side, descriptor: *mut c_void, handle: u32) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        let descriptor = Descriptor(descriptor.expose_provenance());
        let mut inner = nic.lock();
        // SAFETY: the program promised with the registration that the memory is there.
        let posted = unsafe { read(&inner, vi, side, descriptor, handle)? };
        inner.post(vi, side, posted)
    })
}

/// Takes the first descriptor out, if it is done.
fn take(inner: &mut Inner, vi: usize, side: Side) -> Option<(*mut c_void, Result<(), Code>)> {
    let (descriptor, failed) = inner.take_done(vi, side)?;
    let code = match failed {
        true => Err(Code::DescriptorError),
        false => Ok(()),
    };
    Some((pointer(descriptor.0), code))
}

/// # Safety
/// There is room for a pointer.
unsafe fn done(vi: *mut c_void, side: Side, out: *mut *mut c_void) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        // SAFETY: the caller promises it.
        unsafe { put(out, std::ptr::null_mut())? };
        let mut inner = nic.lock();
        let mut taken = take(&mut inner, vi, side);
        if taken.is_none() {
            inner.progress(Some(vi));
            taken = take(&mut inner, vi, side);
        }
        drop(inner);
        let (descriptor, code) = taken.ok_or(Code::NotDone)?;
        // SAFETY: the caller promises it.
        unsafe { put(out, descriptor)? };
        code
    })
}

/// # Safety
/// There is room for a pointer.
unsafe fn wait(vi: *mut c_void, side: Side, timeout_ms: c_ulong, out: *mut *mut c_void) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        let until = deadline(timeout_ms);
        // SAFETY: the caller promises it.
        unsafe { put(out, std::ptr::null_mut())? };
        unbound(&mut nic.lock(), vi, side)?;
        let taken = nic.wait(until, Some(vi), |inner| match inner.vis.contains_key(&vi) {
            true => take(inner, vi, side),
            false => Some((std::ptr::null_mut(), Err(Code::InvalidParameter))),
        });
        let (descriptor, code) = taken.ok_or(Code::Timeout)?;
        // SAFETY: the caller promises it.
        unsafe { put(out, descriptor)? };
        code
    })
}

/// That a work queue is bound to no completion queue: who waits for the one waits for the other.
fn unbound(inner: &mut Inner, vi: usize, side: Side) -> Result<(), Code> {
    let of = inner.vis.get_mut(&vi).ok_or(Code::InvalidParameter)?;
    match of.queue(side).completions {
        Some(_) => Err(Code::InvalidParameter),
        None => Ok(()),
    }
}

fn notify(vi: *mut c_void, side: Side, context: *mut c_void, handler: Option<ViHandler>) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        let handler = handler.ok_or(Code::InvalidParameter)?;
        let mut inner = nic.lock();
        unbound(&mut inner, vi, side)?;
        helper::start_calls(&nic, &mut inner)?;
        let of = inner.vis.get_mut(&vi).ok_or(Code::InvalidParameter)?;
        let context = context.expose_provenance();
        of.queue(side).notify.push_back((context, handler));
        inner.notify_of_descriptors(vi, side);
        Ok(())
    })
}

/// Posts a descriptor to the send queue.
#[unsafe(no_mangle)]
pub extern "C" fn VipPostSend(vi: *mut c_void, descriptor: *mut c_void, handle: u32) -> c_int {
    post(vi, Side::Send, descriptor, handle)
}

/// Posts a descriptor to the receive queue.
#[unsafe(no_mangle)]
pub extern "C" fn VipPostRecv(vi: *mut c_void, descriptor: *mut c_void, handle: u32) -> c_int {
    post(vi, Side::Receive, descriptor, handle)
}

/// Takes the first descriptor of the send queue, if it is done.
///
/// # Safety
/// There is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendDone(vi: *mut c_void, out: *mut *mut c_void) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { done(vi, Side::Send, out) }
}

/// Takes the first descriptor of the receive queue, if it is done.
///
/// # Safety
/// There is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvDone(vi: *mut c_void, out: *mut *mut c_void) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { done(vi, Side::Receive, out) }
}

/// Waits until the first descriptor of the send queue is done, and takes it.
///
/// # Safety
/// There is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendWait(
    vi: *mut c_void,
    timeout_ms: c_ulong,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { wait(vi, Side::Send, timeout_ms, out) }
}

/// Waits until the first descriptor of the receive queue is done, and takes it.
///
/// # Safety
/// There is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvWait(
    vi: *mut c_void,
    timeout_ms: c_ulong,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { wait(vi, Side::Receive, timeout_ms, out) }
}

/// Has a function called with the next descriptor of the send queue that is done.
#[unsafe(no_mangle)]
pub extern "C" fn VipSendNotify(
    vi: *mut c_void,
    context: *mut c_void,
    handler: Option<ViHandler>,
) -> c_int {
    notify(vi, Side::Send, context, handler)
}

/// Has a function called with the next descriptor of the receive queue that is done.
#[unsafe(no_mangle)]
pub extern "C" fn VipRecvNotify(
    vi: *mut c_void,
    context: *mut c_void,
    handler: Option<ViHandler>,
) -> c_int {
    notify(vi, Side::Receive, context, handler)
}
