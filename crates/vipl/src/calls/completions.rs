//! Completion queues.

use std::ffi::{c_int, c_ulong, c_void};

use barewire_proto::via::descriptor::Side;

use crate::border::{deadline, guarded, put};
use crate::handles::{self, Kind, find, pointer};
use crate::helper;
use crate::nic::state::{Completions, Inner, OBJECTS_MAX};
use crate::raw::{Code, CqHandler};

/// Makes a completion queue. It grows as it has to: no entry is lost.
///
/// # Safety
/// There is room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateCQ(
    nic: *mut c_void,
    entries: c_ulong,
    handle: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        if handle.is_null() || entries == 0 {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        if inner.queues.len() >= OBJECTS_MAX {
            return Err(Code::ErrorResource);
        }
        let number = handles::open(Kind::Cq, &nic);
        inner.queues.insert(number, Completions::default());
        // SAFETY: the caller promises it.
        unsafe { put(handle, pointer(number)) }
    })
}

/// Destroys a completion queue that no work queue is bound to.
#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyCQ(queue: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, number) = find(Kind::Cq, queue)?;
        let mut inner = nic.lock();
        let queue = inner.queues.get(&number).ok_or(Code::InvalidParameter)?;
        if queue.users > 0 {
            return Err(Code::ErrorResource);
        }
        inner.queues.remove(&number);
        drop(inner);
        handles::close(number);
        Ok(())
    })
}

/// Says how many entries there will be. It matters to nobody.
#[unsafe(no_mangle)]
pub extern "C" fn VipResizeCQ(queue: *mut c_void, entries: c_ulong) -> c_int {
    guarded(|| {
        find(Kind::Cq, queue)?;
        match entries {
            0 => Err(Code::InvalidParameter),
            _ => Ok(()),
        }
    })
}

fn take(inner: &mut Inner, queue: usize) -> Option<(usize, Side)> {
    inner.queues.get_mut(&queue)?.entries.pop_front()
}

/// # Safety
/// There is room for both.
unsafe fn give(
    (vi, side): (usize, Side),
    vi_out: *mut *mut c_void,
    received: *mut c_int,
) -> Result<(), Code> {
    // SAFETY: the caller promises it.
    unsafe {
        put(vi_out, pointer(vi))?;
        put(received, (side == Side::Receive).into())
    }
}

/// Takes the first entry, if there is one.
///
/// # Safety
/// There is room for what is given out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQDone(
    queue: *mut c_void,
    vi: *mut *mut c_void,
    received: *mut c_int,
) -> c_int {
    guarded(|| {
        let (nic, queue) = find(Kind::Cq, queue)?;
        if vi.is_null() || received.is_null() {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        let mut taken = take(&mut inner, queue);
        if taken.is_none() {
            inner.progress(None);
            taken = take(&mut inner, queue);
        }
        drop(inner);
        // SAFETY: the caller promises it.
        unsafe { give(taken.ok_or(Code::NotDone)?, vi, received) }
    })
}

/// Waits for an entry, and takes it.
///
/// # Safety
/// There is room for what is given out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQWait(
    queue: *mut c_void,
    timeout_ms: c_ulong,
    vi: *mut *mut c_void,
    received: *mut c_int,
) -> c_int {
    guarded(|| {
        let (nic, queue) = find(Kind::Cq, queue)?;
        if vi.is_null() || received.is_null() {
            return Err(Code::InvalidParameter);
        }
        let until = deadline(timeout_ms);
        let taken = nic.wait(until, None, |inner| {
            match inner.queues.contains_key(&queue) {
                true => take(inner, queue).map(Ok),
                false => Some(Err(Code::InvalidParameter)),
            }
        });
        // SAFETY: the caller promises it.
        unsafe { give(taken.ok_or(Code::Timeout)??, vi, received) }
    })
}

/// Has a function called with the next entry.
#[unsafe(no_mangle)]
pub extern "C" fn VipCQNotify(
    queue: *mut c_void,
    context: *mut c_void,
    handler: Option<CqHandler>,
) -> c_int {
    guarded(|| {
        let (nic, queue) = find(Kind::Cq, queue)?;
        let handler = handler.ok_or(Code::InvalidParameter)?;
        let mut inner = nic.lock();
        helper::start_calls(&nic, &mut inner)?;
        let of = inner.queues.get_mut(&queue).ok_or(Code::InvalidParameter)?;
        let context = context.expose_provenance();
        of.notify.push_back((context, handler));
        inner.notify_of_entries(queue);
        Ok(())
    })
}
