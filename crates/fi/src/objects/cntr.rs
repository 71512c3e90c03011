//! A counter of operations that have ended. To read it, or to wait for it, takes operations further.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::kinds::space;
use crate::border::{Constant, guarded, only_closed_by};
use crate::raw::{self, Function, fi_ops, fi_ops_cntr, fid, fid_cntr, fid_domain};
use crate::space::{Counter, Space, place};

#[repr(C)]
pub(super) struct CounterObject {
    fid: fid_cntr,
    space: Arc<Space>,
    pub(super) counter: usize,
}

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

static COUNTER: Constant<fi_ops_cntr> = Constant(fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: read as Function,
    readerr: readerr as Function,
    add: add as Function,
    set: set as Function,
    wait: wait as Function,
    adderr: adderr as Function,
    seterr: seterr as Function,
});

/// Makes the object.
///
/// # Safety
/// `domain` is one of this provider, `attr` one of libfabric's, `counter` leads to a place for a pointer.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut raw::fi_cntr_attr,
    counter: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric gives it, or nothing.
        let attr = unsafe { attr.as_ref() };
        match attr.map_or(raw::FI_WAIT_NONE, |attr| attr.wait_obj) {
            raw::FI_WAIT_NONE | raw::FI_WAIT_UNSPEC | raw::FI_WAIT_YIELD => {}
            _ => return Err(raw::FI_ENOSYS),
        }
        // SAFETY: a domain of this provider.
        let space = unsafe { space(domain) };
        let at = place(&mut space.lock().counters, Counter::default());
        let made = Box::new(CounterObject {
            fid: fid_cntr {
                fid: fid {
                    fclass: raw::FI_CLASS_CNTR,
                    context,
                    ops: &OPS.0,
                },
                ops: &COUNTER.0,
            },
            space,
            counter: at,
        });
        // SAFETY: the caller gives a place for it.
        unsafe { *counter = Box::into_raw(made).cast() };
        Ok(0)
    })
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `open` made it, and it was not closed.
        let counter = unsafe { &*fid.cast::<CounterObject>() };
        counter.space.lock().remove_counter(counter.counter)?;
        // SAFETY: `open` made it so, and libfabric closes an object once.
        drop(unsafe { Box::from_raw(fid.cast::<CounterObject>()) });
        Ok(0)
    })
}

/// Does something with a counter, after operations were taken further.
///
/// # Safety
/// It is an object of this provider.
unsafe fn with<T: Default>(counter: *mut fid_cntr, work: impl FnOnce(&mut Counter) -> T) -> T {
    // SAFETY: the caller got it from `open`, and has not closed it.
    let object = unsafe { &*counter.cast::<CounterObject>() };
    let mut inner = object.space.lock();
    inner.counter(object.counter).map(work).unwrap_or_default()
}

/// How many operations have ended well.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn read(counter: *mut fid_cntr) -> u64 {
    // SAFETY: the caller says so.
    unsafe { with(counter, |counter| counter.done) }
}

/// How many operations have failed.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn readerr(counter: *mut fid_cntr) -> u64 {
    // SAFETY: the caller says so.
    unsafe { with(counter, |counter| counter.failed) }
}

/// Adds to what has ended well.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn add(counter: *mut fid_cntr, value: u64) -> c_int {
    let change = |counter: &mut Counter| counter.done = counter.done.wrapping_add(value);
    // SAFETY: the caller says so.
    unsafe { with(counter, change) };
    0
}

/// Sets what has ended well.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn set(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(counter, |counter| counter.done = value) };
    0
}

/// Adds to what has failed.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn adderr(counter: *mut fid_cntr, value: u64) -> c_int {
    let change = |counter: &mut Counter| counter.failed = counter.failed.wrapping_add(value);
    // SAFETY: the caller says so.
    unsafe { with(counter, change) };
    0
}

/// Sets what has failed.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn seterr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(counter, |counter| counter.failed = value) };
    0
}

/// Waits until so many operations have ended well, or one more has failed, and lets others run meanwhile.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider.
unsafe extern "C" fn wait(counter: *mut fid_cntr, threshold: u64, timeout_ms: c_int) -> c_int {
    let begun = Instant::now();
    let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: the caller got it from `open`, and has not closed it.
    let object = unsafe { &*counter.cast::<CounterObject>() };
    // Without taking operations further: what fails meanwhile is what this call tells.
    let failed_before = object.space.lock().failures(object.counter);
    loop {
        // SAFETY: the caller says so.
        let (done, failed) = unsafe { with(counter, |counter| (counter.done, counter.failed)) };
        if done >= threshold {
            return 0;
        }
        if failed != failed_before {
            return -raw::FI_EAVAIL;
        }
        if limit.is_some_and(|limit| begun.elapsed() >= limit) {
            return -raw::FI_ETIMEDOUT;
        }
        std::thread::yield_now();
    }
}
