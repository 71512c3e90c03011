//! Apertures, the peer's and our own, and tripwires on them.

use std::ffi::c_void;
use std::sync::Arc;

use barewire::{Action, Memory, Mode, Rights};

use crate::border::{buffer, bytes, call_on, close, from_c, make, put, status, status_on};
use crate::failure::{BwE, Failure, Result};
use crate::handles::enter;
use crate::kinds::{ApertureObject, BwAperture, BwNode, BwRemoteAperture, BwTripwire};
use crate::messages::length;

/// What a peer may do with an aperture.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwRights {
    /// Load. The kernel refuses it a writable mapping.
    Read = 0,
    /// Load and store.
    ReadWrite = 1,
}

/// How often a tripwire fires.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwMode {
    /// Once; then it is disarmed.
    OneShot = 0,
    /// Until it is disarmed.
    Sticky = 1,
}

/// What a tripwire does when a transfer touches its range.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwAction {
    /// Puts BW_EVENT_KIND_TRIPWIRE with its cookie into the event queue, at most one at a time.
    Enqueue = 0,
    /// Counts the transfers: bw_tripwire_count.
    Count = 1,
    /// Wakes whoever waits for events, without an event.
    Wake = 2,
}

from_c!(BwRights, "bw_rights", Read, ReadWrite);
from_c!(BwMode, "bw_mode", OneShot, Sticky);
from_c!(BwAction, "bw_action", Enqueue, Count, Wake);

fn mode(mode: i32) -> Result<Mode> {
    Ok(match BwMode::from_c(mode)? {
        BwMode::OneShot => Mode::OneShot,
        BwMode::Sticky => Mode::Sticky,
    })
}

fn action(action: i32, cookie: u64) -> Result<Action> {
    Ok(match BwAction::from_c(action)? {
        BwAction::Enqueue => Action::Enqueue { cookie },
        BwAction::Count => Action::Count,
        BwAction::Wake => Action::Wake,
    })
}

/// Replaces a word if it is `*expected`: 1; 0 if it is not, and then what it is.
///
/// # Safety
/// `expected` is null, or leads to a number.
unsafe fn exchange(
    memory: &impl Memory,
    offset: usize,
    expected: *mut u64,
    new: u64,
) -> Result<i32> {
    if expected.is_null() {
        return Err(crate::border::null("the pointer to the expected word"));
    }
    // SAFETY: the caller promises it.
    let current = unsafe { expected.read_unaligned() };
    match memory.compare_exchange(offset, current, new)? {
        Ok(_) => Ok(1),
        Err(found) => {
            // SAFETY: the caller promises it.
            unsafe { put(expected, found)? };
            Ok(0)
        }
    }
}

/// Makes an aperture: memory of this process, of so many bytes, all zero, that peers may be granted.
/// rights: a value of bw_rights. tripwires_max: how many tripwires may be set on it; 0 for 1024.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_export(
    node: BwNode,
    len_bytes: usize,
    rights: i32,
    tripwires_max: u32,
    out: *mut BwAperture,
) -> i32 {
    status_on(node, |n| {
        let rights = match BwRights::from_c(rights)? {
            BwRights::Read => Rights::Read,
            BwRights::ReadWrite => Rights::ReadWrite,
        };
        let mut config = barewire::ApertureConfig::new(len_bytes, rights);
        if tripwires_max > 0 {
            config.tripwires_max = tripwires_max;
        }
        // SAFETY: the caller promises it.
        unsafe { make(out, || Ok(ApertureObject(Arc::new(n.node.export(config)?)))) }
    })
}

/// Its length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn bw_aperture_len_bytes(aperture: BwAperture) -> i64 {
    call_on(aperture, |a| Ok(length(a.0.len_bytes())))
}

/// The number by which events of tripwires name it. Another one for each aperture of a process.
#[unsafe(no_mangle)]
pub extern "C" fn bw_aperture_number(aperture: BwAperture) -> i64 {
    call_on(aperture, |a| Ok(a.0.id().number() as i64))
}

/// Stores bytes at an offset. When a tripwire tells of it, all of them are there.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_put(
    aperture: BwAperture,
    offset: usize,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status_on(aperture, |a| {
        // SAFETY: the caller promises it.
        a.0.put(offset, unsafe { bytes(data, data_bytes)? })?;
        Ok(0)
    })
}

/// Loads bytes from an offset.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_get(
    aperture: BwAperture,
    offset: usize,
    into: *mut c_void,
    into_bytes: usize,
) -> i32 {
    status_on(aperture, |a| {
        // SAFETY: the caller promises it.
        a.0.get(offset, unsafe { buffer(into, into_bytes)? })?;
        Ok(0)
    })
}

/// Loads a word of 8 bytes at an offset, which is a multiple of 8. This and all other accesses to words are atomic
/// for all processes that hold the aperture.
///
/// # Safety
/// `value` leads to room for a number. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_load(
    aperture: BwAperture,
    offset: usize,
    value: *mut u64,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(aperture, |a| unsafe { put(value, a.0.load(offset)?) })
}

/// Stores a word. Whoever sees it sees what was put before.
#[unsafe(no_mangle)]
pub extern "C" fn bw_aperture_store(aperture: BwAperture, offset: usize, value: u64) -> i32 {
    status_on(aperture, |a| {
        a.0.store(offset, value)?;
        Ok(0)
    })
}

/// Adds to a word. was, if it is not null, gets what the word was before.
///
/// # Safety
/// `was` is null or leads to room for a number. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_add(
    aperture: BwAperture,
    offset: usize,
    value: u64,
    was: *mut u64,
) -> i32 {
    status_on(aperture, |a| {
        let before = a.0.add(offset, value)?;
        if !was.is_null() {
            // SAFETY: the caller promises it.
            unsafe { put(was, before)? };
        }
        Ok(0)
    })
}

/// Replaces a word by another if it is *expected: returns 1. Otherwise it returns 0 and stores in *expected what
/// the word is.
///
/// # Safety
/// `expected` leads to a number. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_compare_exchange(
    aperture: BwAperture,
    offset: usize,
    expected: *mut u64,
    new_value: u64,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(aperture, |a| unsafe {
        exchange(&*a.0, offset, expected, new_value)
    })
}

/// Sets a tripwire on what peers store in len_bytes at an offset.
/// mode: a value of bw_mode. action: one of bw_action; cookie is for BW_ACTION_ENQUEUE.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_tripwire(
    aperture: BwAperture,
    offset: usize,
    len_bytes: usize,
    mode: i32,
    action: i32,
    cookie: u64,
    out: *mut BwTripwire,
) -> i32 {
    status_on(aperture, |a| {
        let (mode, action) = (self::mode(mode)?, self::action(action, cookie)?);
        // SAFETY: the caller promises it.
        unsafe { make(out, || Ok(a.0.tripwire(offset, len_bytes, mode, action)?)) }
    })
}

/// Another handle of the same aperture, for another thread.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_aperture_clone(aperture: BwAperture, out: *mut BwAperture) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe { make(out, || Ok(ApertureObject(Arc::clone(&enter(aperture)?.0)))) })
}

/// Cuts all peers off: nothing that they store from now on is seen here. Our contents stay.
#[unsafe(no_mangle)]
pub extern "C" fn bw_aperture_revoke(aperture: BwAperture) -> i32 {
    status_on(aperture, |a| {
        a.0.revoke()?;
        Ok(0)
    })
}

/// Closes this handle. With the last one, the aperture is revoked.
#[unsafe(no_mangle)]
pub extern "C" fn bw_aperture_close(aperture: BwAperture) -> i32 {
    close(aperture)
}

/// Its length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn bw_remote_aperture_len_bytes(aperture: BwRemoteAperture) -> i64 {
    call_on(aperture, |a| Ok(length(a.len_bytes())))
}

/// The number by which events of tripwires name it. Another one for each aperture of a process.
#[unsafe(no_mangle)]
pub extern "C" fn bw_remote_aperture_number(aperture: BwRemoteAperture) -> i64 {
    call_on(aperture, |a| Ok(a.id().number() as i64))
}

/// Stores bytes at an offset. When a tripwire tells of it, all of them are there.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_put(
    aperture: BwRemoteAperture,
    offset: usize,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status_on(aperture, |a| {
        // SAFETY: the caller promises it.
        a.put(offset, unsafe { bytes(data, data_bytes)? })?;
        Ok(0)
    })
}

/// Loads bytes from an offset.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_get(
    aperture: BwRemoteAperture,
    offset: usize,
    into: *mut c_void,
    into_bytes: usize,
) -> i32 {
    status_on(aperture, |a| {
        // SAFETY: the caller promises it.
        a.get(offset, unsafe { buffer(into, into_bytes)? })?;
        Ok(0)
    })
}

/// Loads a word of 8 bytes at an offset, which is a multiple of 8. This and all other accesses to words are atomic
/// for all processes that hold the aperture.
///
/// # Safety
/// `value` leads to room for a number. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_load(
    aperture: BwRemoteAperture,
    offset: usize,
    value: *mut u64,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(aperture, |a| unsafe { put(value, a.load(offset)?) })
}

/// Stores a word. Whoever sees it sees what was put before.
#[unsafe(no_mangle)]
pub extern "C" fn bw_remote_aperture_store(
    aperture: BwRemoteAperture,
    offset: usize,
    value: u64,
) -> i32 {
    status_on(aperture, |a| {
        a.store(offset, value)?;
        Ok(0)
    })
}

/// Adds to a word. was, if it is not null, gets what the word was before.
///
/// # Safety
/// `was` is null or leads to room for a number. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_add(
    aperture: BwRemoteAperture,
    offset: usize,
    value: u64,
    was: *mut u64,
) -> i32 {
    status_on(aperture, |a| {
        let before = a.add(offset, value)?;
        if !was.is_null() {
            // SAFETY: the caller promises it.
            unsafe { put(was, before)? };
        }
        Ok(0)
    })
}

/// Replaces a word by another if it is *expected: returns 1. Otherwise it returns 0 and stores in *expected what
/// the word is.
///
/// # Safety
/// `expected` leads to a number. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_compare_exchange(
    aperture: BwRemoteAperture,
    offset: usize,
    expected: *mut u64,
    new_value: u64,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(aperture, |a| unsafe {
        exchange(&**a, offset, expected, new_value)
    })
}

/// Sets a tripwire on what this process itself stores in len_bytes at an offset.
/// mode: a value of bw_mode. action: one of bw_action; cookie is for BW_ACTION_ENQUEUE.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_tripwire(
    aperture: BwRemoteAperture,
    offset: usize,
    len_bytes: usize,
    mode: i32,
    action: i32,
    cookie: u64,
    out: *mut BwTripwire,
) -> i32 {
    status_on(aperture, |a| {
        let (mode, action) = (self::mode(mode)?, self::action(action, cookie)?);
        // SAFETY: the caller promises it.
        unsafe { make(out, || Ok(a.tripwire(offset, len_bytes, mode, action)?)) }
    })
}

/// Another handle of the same aperture, for another thread.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_clone(
    aperture: BwRemoteAperture,
    out: *mut BwRemoteAperture,
) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe { make(out, || Ok(enter(aperture)?.clone())) })
}

/// Sets a tripwire on what the owner stores in len_bytes at an offset. A store that begins after this returns fires it;
/// so does the end of the owner. To wait for a change: set it, read, and only then wait.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_tripwire_on_owner(
    aperture: BwRemoteAperture,
    offset: usize,
    len_bytes: usize,
    mode: i32,
    action: i32,
    cookie: u64,
    out: *mut BwTripwire,
) -> i32 {
    status_on(aperture, |a| {
        let (mode, action) = (self::mode(mode)?, self::action(action, cookie)?);
        // SAFETY: the caller promises it.
        unsafe {
            make(out, || {
                Ok(a.tripwire_on_owner(offset, len_bytes, mode, action)?)
            })
        }
    })
}

/// What we may do with it: a value of bw_rights.
#[unsafe(no_mangle)]
pub extern "C" fn bw_remote_aperture_rights(aperture: BwRemoteAperture) -> i32 {
    status_on(aperture, |a| {
        Ok(match a.rights() {
            Rights::Read => BwRights::Read as i32,
            Rights::ReadWrite => BwRights::ReadWrite as i32,
        })
    })
}

/// Copies bytes into the aperture in the background. They are copied before this returns, so the buffer is free again.
/// The end comes as BW_EVENT_KIND_COMPLETION with this cookie.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_remote_aperture_bulk_put(
    aperture: BwRemoteAperture,
    offset: usize,
    data: *const c_void,
    data_bytes: usize,
    cookie: u64,
) -> i32 {
    status_on(aperture, |a| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        // Before they are copied.
        inside(offset, data_bytes, a.len_bytes())?;
        a.bulk_put(offset, data.to_vec(), cookie)?;
        Ok(0)
    })
}

/// Copies bytes out of the aperture in the background. They come with BW_EVENT_KIND_COMPLETION and this cookie.
#[unsafe(no_mangle)]
pub extern "C" fn bw_remote_aperture_bulk_get(
    aperture: BwRemoteAperture,
    offset: usize,
    len_bytes: usize,
    cookie: u64,
) -> i32 {
    status_on(aperture, |a| {
        a.bulk_get(offset, len_bytes, cookie)?;
        Ok(0)
    })
}

fn inside(offset: usize, len: usize, of: usize) -> Result<()> {
    if offset <= of && len <= of - offset {
        return Ok(());
    }
    Err(Failure::caller(
        BwE::OutOfRange,
        format!("{len} bytes at {offset} do not lie inside an aperture of {of} bytes"),
    ))
}

/// Closes this handle. With the last one, the aperture is given back.
#[unsafe(no_mangle)]
pub extern "C" fn bw_remote_aperture_close(aperture: BwRemoteAperture) -> i32 {
    close(aperture)
}

/// 1 if the tripwire is still set, 0 if it was disarmed or is a one-shot that has fired.
#[unsafe(no_mangle)]
pub extern "C" fn bw_tripwire_is_armed(tripwire: BwTripwire) -> i32 {
    status_on(tripwire, |t| Ok(i32::from(t.is_armed())))
}

/// How many transfers it has counted, with BW_ACTION_COUNT.
#[unsafe(no_mangle)]
pub extern "C" fn bw_tripwire_count(tripwire: BwTripwire) -> i64 {
    call_on(tripwire, |t| {
        Ok(i64::try_from(t.count()).unwrap_or(i64::MAX))
    })
}

/// The number of its aperture, as events name it.
#[unsafe(no_mangle)]
pub extern "C" fn bw_tripwire_aperture(tripwire: BwTripwire) -> i64 {
    call_on(tripwire, |t| Ok(t.aperture().number() as i64))
}

/// Takes it away. A transfer that is under way may still be reported.
#[unsafe(no_mangle)]
pub extern "C" fn bw_tripwire_disarm(tripwire: BwTripwire) -> i32 {
    status_on(tripwire, |t| {
        t.disarm();
        Ok(0)
    })
}

/// Takes it away, and closes its handle.
#[unsafe(no_mangle)]
pub extern "C" fn bw_tripwire_close(tripwire: BwTripwire) -> i32 {
    close(tripwire)
}
