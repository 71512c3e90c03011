//! The border to C: no panic crosses it, and what a pointer leads to is checked as far as it can be.

use std::ffi::{c_int, c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::address::{Address, DISCRIMINATOR_BYTES_MAX, HOST_BYTES, device_of, host};
use crate::raw::{ADDRESS_HEAD_BYTES, Code};

/// From this timeout on, a call waits as long as it takes.
const INFINITE: c_ulong = 0xffff_ffff;

/// Does the work of a call. A panic, which is a mistake of this crate, becomes an error of the call.
#[inline]
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Code::Success as c_int,
        Ok(Err(code)) => code as c_int,
        Err(_) => Code::ErrorResource as c_int,
    }
}

/// Stores a result.
///
/// # Safety
/// `out` is null, or a `T` can be stored there.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Code> {
    if out.is_null() {
        return Err(Code::InvalidParameter);
    }
    // SAFETY: the caller promises it.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// A copy of what a pointer leads to.
///
/// # Safety
/// `from` is null, or leads to a `T`, which may have any bytes.
pub(crate) unsafe fn get<T: Copy>(from: *const T) -> Result<T, Code> {
    if from.is_null() {
        return Err(Code::InvalidParameter);
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { from.read_unaligned() })
}

/// When a timeout in milliseconds is over; `None`: never.
pub(crate) fn deadline(timeout_ms: c_ulong) -> Option<Instant> {
    let timeout = Duration::from_millis(timeout_ms);
    (timeout_ms < INFINITE).then(|| Instant::now() + timeout)
}

/// The lengths at the beginning of an address.
///
/// # Safety
/// `address` is null, or leads to a `VIP_NET_ADDRESS`.
unsafe fn lengths(address: *const c_void) -> Result<(usize, usize), Code> {
    // SAFETY: the caller promises two numbers.
    let [host, discriminator] = unsafe { get(address.cast::<[u16; 2]>())? };
    Ok((host.into(), discriminator.into()))
}

/// An address with a discriminator.
///
/// # Safety
/// `address` is null, or leads to a `VIP_NET_ADDRESS` with as many bytes as it says.
pub(crate) unsafe fn address(address: *const c_void) -> Result<Address, Code> {
    // SAFETY: the caller promises it.
    let (host_bytes, discriminator_bytes) = unsafe { lengths(address)? };
    if host_bytes != HOST_BYTES || discriminator_bytes > DISCRIMINATOR_BYTES_MAX {
        return Err(Code::InvalidParameter);
    }
    let bytes = address.cast::<u8>().wrapping_add(ADDRESS_HEAD_BYTES);
    let len = host_bytes + discriminator_bytes;
    // SAFETY: the caller promises as many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    let (host_part, discriminator) = bytes.split_at(host_bytes);
    Address::read(host_part, discriminator).ok_or(Code::InvalidParameter)
}

/// The device that the host part of an address stands for.
///
/// # Safety
/// As [`address`].
pub(crate) unsafe fn host_part(address: *const c_void) -> Result<Option<u8>, Code> {
    // SAFETY: the caller promises it.
    let (host_bytes, _) = unsafe { lengths(address)? };
    if host_bytes != HOST_BYTES {
        return Ok(None);
    }
    let bytes = address.cast::<u8>().wrapping_add(ADDRESS_HEAD_BYTES);
    // SAFETY: the caller promises as many bytes.
    Ok(device_of(unsafe {
        std::slice::from_raw_parts(bytes, host_bytes)
    }))
}

/// Stores an address.
///
/// # Safety
/// `out` is null, or leads to room for it: the lengths, the host part and the discriminator.
pub(crate) unsafe fn put_address(
    out: *mut c_void,
    device: u8,
    discriminator: &[u8],
) -> Result<(), Code> {
    let lengths = [HOST_BYTES as u16, discriminator.len() as u16];
    // SAFETY: the caller promises room for two numbers.
    unsafe { put(out.cast(), lengths)? };
    let bytes = out.cast::<u8>().wrapping_add(ADDRESS_HEAD_BYTES);
    // SAFETY: the caller promises room for both parts.
    unsafe {
        bytes.cast::<[u8; HOST_BYTES]>().write(host(device));
        let behind = bytes.add(HOST_BYTES);
        std::ptr::copy_nonoverlapping(discriminator.as_ptr(), behind, discriminator.len());
    }
    Ok(())
}
