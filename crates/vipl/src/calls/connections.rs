//! Connections, by client and server and by peers.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::Arc;

use barewire_proto::via::state::ViState;

use super::vis::attributes;
use crate::address::{Address, Model};
use crate::border::{address, deadline, guarded, put, put_address};
use crate::handles::{self, Kind, find, pointer};
use crate::nic::Nic;
use crate::nic::connecting::reject;
use crate::nic::state::{Inner, Vi};
use crate::raw::{Code, ViAttributes};
use crate::records::{Asked, Told};

/// The address of this end, if it is one of this NIC.
///
/// # Safety
/// As [`address`].
unsafe fn own_address(inner: &Inner, from: *const c_void) -> Result<Address, Code> {
    // SAFETY: the caller promises it.
    let own = unsafe { address(from)? };
    match own.device == inner.device {
        true => Ok(own),
        false => Err(Code::InvalidParameter),
    }
}

/// Stores attributes of the other end, if the program wants them.
///
/// # Safety
/// There is room for them, or no pointer.
unsafe fn put_remote(out: *mut ViAttributes, told: &Told) -> Result<(), Code> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises it.
    unsafe { put(out, attributes(told, 0)) }
}

fn idle(inner: &mut Inner, vi: usize) -> Result<&mut Vi, Code> {
    let vi = inner.vis.get_mut(&vi).ok_or(Code::InvalidParameter)?;
    match vi.state {
        ViState::Idle => Ok(vi),
        _ => Err(Code::InvalidState),
    }
}

/// Waits for a client.
///
/// # Safety
/// There is an address, and room for what is given out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectWait(
    nic: *mut c_void,
    local: *const c_void,
    timeout_ms: c_ulong,
    remote: *mut c_void,
    told: *mut ViAttributes,
    handle: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let until = deadline(timeout_ms);
        if handle.is_null() {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        // SAFETY: the caller promises it.
        let name = unsafe { own_address(&inner, local)? }.name(Model::ClientServer);
        inner.listen(&name)?;
        drop(inner);
        let arrived = nic.wait(until, None, |inner| inner.arrived_request(&name));
        let mut inner = nic.lock();
        inner.stop_listening(&name);
        let pending = arrived.ok_or(Code::Timeout)?;
        let from = pending.asked.from.clone();
        let other = pending.asked.told;
        let number = handles::open(Kind::Connection, &nic);
        inner.requests.insert(number, pending);
        drop(inner);
        // SAFETY: the caller promises it.
        unsafe {
            if !remote.is_null() {
                put_address(remote, from.device, &from.discriminator)?;
            }
            put_remote(told, &other)?;
            put(handle, pointer(number))
        }
    })
}

/// Accepts a client with a VI.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectAccept(request: *mut c_void, vi: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, request) = find(Kind::Connection, request)?;
        let (of_vi, vi) = find(Kind::Vi, vi)?;
        if !Arc::ptr_eq(&nic, &of_vi) {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        idle(&mut inner, vi)?;
        let pending = inner.requests.get(&request).ok_or(Code::InvalidParameter)?;
        let told = pending.asked.told;
        inner.fits(vi, &told)?;
        let pending = inner
            .requests
            .remove(&request)
            .ok_or(Code::InvalidParameter)?;
        handles::close(request);
        inner.accept(vi, pending)
    })
}

/// Rejects a client.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectReject(request: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, request) = find(Kind::Connection, request)?;
        let pending = nic.lock().requests.remove(&request);
        reject(pending.ok_or(Code::InvalidParameter)?);
        handles::close(request);
        Ok(())
    })
}

/// Begins to ask for a connection.
///
/// # Safety
/// There are addresses.
unsafe fn begin(
    nic: &Nic,
    vi: usize,
    model: Model,
    [local, remote]: [*const c_void; 2],
    timeout_ms: c_ulong,
) -> Result<(), Code> {
    let mut inner = nic.lock();
    // SAFETY: the caller promises it.
    let from = unsafe { own_address(&inner, local)? };
    // SAFETY: the caller promises it.
    let to = unsafe { address(remote)? };
    let told = idle(&mut inner, vi)?.told;
    let asked = Asked {
        model,
        told,
        from,
        to,
    };
    inner.request(vi, asked, deadline(timeout_ms))
}

/// Waits for the end of a request.
fn outcome(nic: &Nic, vi: usize) -> Result<Told, Code> {
    let ended = nic.wait(None, Some(vi), |inner| match inner.vis.get_mut(&vi) {
        Some(vi) => vi.outcome.take(),
        None => Some(Err(Code::InvalidParameter)),
    });
    ended.unwrap_or(Err(Code::Timeout))
}

/// Connects to a server, and waits for its answer.
///
/// # Safety
/// There are addresses, and room for attributes or no pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectRequest(
    vi: *mut c_void,
    local: *const c_void,
    remote: *const c_void,
    timeout_ms: c_ulong,
    told: *mut ViAttributes,
) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        let addresses = [local, remote];
        // SAFETY: the caller promises it.
        unsafe { begin(&nic, vi, Model::ClientServer, addresses, timeout_ms)? };
        let other = outcome(&nic, vi)?;
        // SAFETY: the caller promises it.
        unsafe { put_remote(told, &other) }
    })
}

/// Asks for a connection with a peer that asks for one, too. Does not wait.
///
/// # Safety
/// There are addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerRequest(
    vi: *mut c_void,
    local: *const c_void,
    remote: *const c_void,
    timeout_ms: c_ulong,
) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        // SAFETY: the caller promises it.
        unsafe { begin(&nic, vi, Model::Peer, [local, remote], timeout_ms) }
    })
}

/// Whether this VI has asked for something whose end was not told yet.
fn asks(inner: &Inner, vi: usize) -> Result<(), Code> {
    let vi = inner.vis.get(&vi).ok_or(Code::InvalidParameter)?;
    match vi.connecting.is_some() || vi.outcome.is_some() {
        true => Ok(()),
        false => Err(Code::InvalidState),
    }
}

/// Whether a connection with a peer has come about.
///
/// # Safety
/// There is room for attributes, or no pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerDone(vi: *mut c_void, told: *mut ViAttributes) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        let mut inner = nic.lock();
        asks(&inner, vi)?;
        inner.progress(Some(vi));
        let of = inner.vis.get_mut(&vi).ok_or(Code::InvalidParameter)?;
        let other = of.outcome.take().ok_or(Code::NotDone)??;
        drop(inner);
        // SAFETY: the caller promises it.
        unsafe { put_remote(told, &other) }
    })
}

/// Waits until a connection with a peer has come about.
///
/// # Safety
/// There is room for attributes, or no pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerWait(vi: *mut c_void, told: *mut ViAttributes) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        asks(&nic.lock(), vi)?;
        let other = outcome(&nic, vi)?;
        // SAFETY: the caller promises it.
        unsafe { put_remote(told, &other) }
    })
}

/// Disconnects a VI, and flushes its descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn VipDisconnect(vi: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, vi) = find(Kind::Vi, vi)?;
        nic.lock().disconnect(vi);
        Ok(())
    })
}
