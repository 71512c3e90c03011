//! Names of hosts. There is one host: this one.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};

use crate::border::{get, guarded, host_part, put, put_address};
use crate::handles::{Kind, find};
use crate::raw::Code;

/// The name of this host, as the kernel has it.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// Nothing has to be prepared.
#[unsafe(no_mangle)]
pub extern "C" fn VipNSInit(nic: *mut c_void, _info: *mut c_void) -> c_int {
    guarded(|| find(Kind::Nic, nic).map(drop))
}

/// Nothing has to be cleaned up.
#[unsafe(no_mangle)]
pub extern "C" fn VipNSShutdown(nic: *mut c_void) -> c_int {
    guarded(|| find(Kind::Nic, nic).map(drop))
}

/// The address of a host. This one has one for each device: that of the NIC.
///
/// # Safety
/// The name ends with a zero, and there is room for an address without discriminator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByName(
    nic: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
    index: c_ulong,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        if name.is_null() {
            return Err(Code::InvalidParameter);
        }
        // SAFETY: the caller promises it.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        if index > 0 || name != "localhost" && name != host_name() {
            return Err(Code::ErrorNameService);
        }
        let device = nic.lock().device;
        // SAFETY: the caller promises it.
        unsafe { put_address(address, device, &[]) }
    })
}

/// The name of the host that has an address.
///
/// # Safety
/// There is an address, a length, and as much room for the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByAddr(
    nic: *mut c_void,
    address: *const c_void,
    name: *mut c_char,
    len: *mut c_ulong,
) -> c_int {
    guarded(|| {
        find(Kind::Nic, nic)?;
        // SAFETY: the caller promises it.
        let room = unsafe { get(len)? };
        // SAFETY: the caller promises it.
        if unsafe { host_part(address)? }.is_none() {
            return Err(Code::ErrorNameService);
        }
        let found = host_name();
        let needed = found.len() as c_ulong + 1;
        // SAFETY: the caller promises it.
        unsafe { put(len, needed)? };
        if name.is_null() || room < needed {
            return Err(Code::ErrorResource);
        }
        // SAFETY: there is room for it and a zero.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr().cast(), name, found.len());
            name.add(found.len()).write(0);
        }
        Ok(())
    })
}
