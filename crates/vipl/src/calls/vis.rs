//! VIs: create, destroy, query, change.

use std::ffi::{c_int, c_void};

use barewire_proto::via::descriptor::Side;
use barewire_proto::via::state::ViState;

use super::memory::own_tag;
use crate::border::{get, guarded, put};
use crate::handles::{self, Kind, find, pointer};
use crate::nic::state::{Inner, OBJECTS_MAX, Queue, TRANSFER_BYTES_MAX, Vi};
use crate::raw::{Code, RELIABLE_DELIVERY, RELIABLE_RECEPTION, UNRELIABLE, ViAttributes};
use crate::records::Told;

/// Checks attributes of a VI; what the other end is told of them, and the tag.
fn checked(inner: &Inner, attributes: &ViAttributes) -> Result<(Told, usize), Code> {
    let levels = [UNRELIABLE, RELIABLE_DELIVERY, RELIABLE_RECEPTION];
    if !levels.contains(&attributes.ReliabilityLevel) {
        return Err(Code::InvalidReliabilityLevel);
    }
    let max = u32::try_from(attributes.MaxTransferSize).map_err(|_| Code::InvalidMtu)?;
    if max == 0 || max > TRANSFER_BYTES_MAX {
        return Err(Code::InvalidMtu);
    }
    if !attributes.QoS.is_null() {
        return Err(Code::InvalidQos);
    }
    let tag = own_tag(inner, attributes.Ptag)?;
    let rdma_read = attributes.EnableRdmaRead != 0;
    if rdma_read && attributes.ReliabilityLevel == UNRELIABLE {
        return Err(Code::InvalidRdmaRead);
    }
    let told = Told {
        reliability: attributes.ReliabilityLevel,
        rdma_write: attributes.EnableRdmaWrite != 0,
        rdma_read,
        transfer_bytes_max: max,
    };
    Ok((told, tag))
}

/// Attributes as programs see them.
pub(super) fn attributes(told: &Told, tag: usize) -> ViAttributes {
    ViAttributes {
        ReliabilityLevel: told.reliability,
        MaxTransferSize: told.transfer_bytes_max.into(),
        QoS: std::ptr::null_mut(),
        Ptag: pointer(tag),
        EnableRdmaWrite: told.rdma_write.into(),
        EnableRdmaRead: told.rdma_read.into(),
    }
}

/// The completion queue of this handle, if there is to be one.
fn bound(inner: &Inner, queue: *mut c_void) -> Result<Option<usize>, Code> {
    let number = queue.expose_provenance();
    match inner.queues.contains_key(&number) {
        _ if queue.is_null() => Ok(None),
        true => Ok(Some(number)),
        false => Err(Code::InvalidParameter),
    }
}

/// Makes a VI.
///
/// # Safety
/// There are attributes, and room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateVi(
    nic: *mut c_void,
    attributes: *const ViAttributes,
    send_queue: *mut c_void,
    receive_queue: *mut c_void,
    handle: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        // SAFETY: the caller promises it.
        let attributes = unsafe { get(attributes)? };
        if handle.is_null() {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        let (told, tag) = checked(&inner, &attributes)?;
        let queues = [bound(&inner, send_queue)?, bound(&inner, receive_queue)?];
        if inner.vis.len() >= OBJECTS_MAX {
            return Err(Code::ErrorResource);
        }
        for queue in queues.iter().flatten() {
            if let Some(queue) = inner.queues.get_mut(queue) {
                queue.users += 1;
            }
        }
        let number = handles::open(Kind::Vi, &nic);
        let [sends, receives] = queues.map(Queue::new);
        let vi = Vi {
            state: ViState::Idle,
            told,
            tag,
            sends,
            receives,
            link: None,
            connecting: None,
            outcome: None,
        };
        inner.vis.insert(number, vi);
        // SAFETY: the caller promises it.
        unsafe { put(handle, pointer(number)) }
    })
}

/// Destroys a VI that is idle and whose queues are empty.
#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyVi(vi: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, number) = find(Kind::Vi, vi)?;
        let mut inner = nic.lock();
        let vi = inner.vis.get(&number).ok_or(Code::InvalidParameter)?;
        if vi.state != ViState::Idle {
            return Err(Code::InvalidState);
        }
        if !vi.sends.work.is_empty() || !vi.receives.work.is_empty() {
            return Err(Code::ErrorResource);
        }
        let queues = [vi.sends.completions, vi.receives.completions];
        inner.vis.remove(&number);
        for queue in queues.iter().flatten() {
            if let Some(queue) = inner.queues.get_mut(queue) {
                queue.users -= 1;
                queue.entries.retain(|&(vi, _)| vi != number);
            }
        }
        drop(inner);
        handles::close(number);
        Ok(())
    })
}

/// The state, attributes and queues of a VI.
///
/// # Safety
/// There is room for each of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryVi(
    vi: *mut c_void,
    state: *mut c_int,
    told: *mut ViAttributes,
    sends_empty: *mut c_int,
    receives_empty: *mut c_int,
) -> c_int {
    guarded(|| {
        let (nic, number) = find(Kind::Vi, vi)?;
        let mut inner = nic.lock();
        // What has arrived may change the state.
        inner.progress(Some(number));
        let vi = inner.vis.get_mut(&number).ok_or(Code::InvalidParameter)?;
        let code = match vi.state {
            ViState::Idle => 0,
            ViState::Connected => 1,
            ViState::ConnectPending => 2,
            ViState::Error => 3,
        };
        let empty = [Side::Send, Side::Receive].map(|side| vi.queue(side).work.is_empty());
        // SAFETY: the caller promises it.
        unsafe {
            put(state, code)?;
            put(told, attributes(&vi.told, vi.tag))?;
            put(sends_empty, empty[0].into())?;
            put(receives_empty, empty[1].into())
        }
    })
}

/// Changes the attributes of a VI that is idle.
///
/// # Safety
/// There are attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetViAttributes(
    vi: *mut c_void,
    attributes: *const ViAttributes,
) -> c_int {
    guarded(|| {
        let (nic, number) = find(Kind::Vi, vi)?;
        // SAFETY: the caller promises it.
        let attributes = unsafe { get(attributes)? };
        let mut inner = nic.lock();
        let changed = checked(&inner, &attributes)?;
        let vi = inner.vis.get_mut(&number).ok_or(Code::InvalidParameter)?;
        if vi.state != ViState::Idle {
            return Err(Code::InvalidState);
        }
        (vi.told, vi.tag) = changed;
        Ok(())
    })
}
