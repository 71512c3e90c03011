//! Protection tags and registered memory.

use std::ffi::{c_int, c_ulong, c_void};

use barewire_proto::via::protection::Region;

use crate::border::{get, guarded, put};
use crate::handles::{self, Kind, find, pointer};
use crate::nic::state::{Inner, OBJECTS_MAX, REGIONS_MAX};
use crate::raw::{Code, MemAttributes};

/// Makes a protection tag.
///
/// # Safety
/// There is room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreatePtag(nic: *mut c_void, tag: *mut *mut c_void) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        if tag.is_null() {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        if inner.tags.len() >= OBJECTS_MAX {
            return Err(Code::ErrorResource);
        }
        let number = handles::open(Kind::Ptag, &nic);
        inner.tags.insert(number);
        // SAFETY: the caller promises it.
        unsafe { put(tag, pointer(number)) }
    })
}

/// Gives up a protection tag that no VI and no memory has any more.
#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyPtag(nic: *mut c_void, tag: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let mut inner = nic.lock();
        let number = own_tag(&inner, tag)?;
        let used = inner.vis.values().any(|vi| vi.tag == number);
        if used || inner.regions.uses_tag(number as u64) {
            return Err(Code::ErrorResource);
        }
        inner.tags.remove(&number);
        drop(inner);
        handles::close(number);
        Ok(())
    })
}

/// The number of a tag of this NIC.
pub(super) fn own_tag(inner: &Inner, tag: *mut c_void) -> Result<usize, Code> {
    let number = tag.expose_provenance();
    match inner.tags.contains(&number) {
        true => Ok(number),
        false => Err(Code::InvalidPtag),
    }
}

/// Registers memory.
///
/// # Safety
/// The memory is there until it is deregistered. There are attributes, and room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRegisterMem(
    nic: *mut c_void,
    start: *mut c_void,
    len_bytes: c_ulong,
    attributes: *const MemAttributes,
    handle: *mut u32,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        // SAFETY: the caller promises it.
        let attributes = unsafe { get(attributes)? };
        if start.is_null() || handle.is_null() || len_bytes == 0 {
            return Err(Code::InvalidParameter);
        }
        let mut inner = nic.lock();
        let region = Region {
            start: start.expose_provenance() as u64,
            len_bytes,
            tag: own_tag(&inner, attributes.Ptag)? as u64,
            rdma_write: attributes.EnableRdmaWrite != 0,
            rdma_read: attributes.EnableRdmaRead != 0,
        };
        if region.start.checked_add(len_bytes).is_none() {
            return Err(Code::InvalidParameter);
        }
        let registered = inner.regions.register(region, REGIONS_MAX);
        // SAFETY: the caller promises it.
        unsafe { put(handle, registered.ok_or(Code::ErrorResource)?) }
    })
}

/// Deregisters memory.
#[unsafe(no_mangle)]
pub extern "C" fn VipDeregisterMem(nic: *mut c_void, start: *mut c_void, handle: u32) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let start = start.expose_provenance() as u64;
        match nic.lock().regions.deregister(handle, start) {
            true => Ok(()),
            false => Err(Code::InvalidParameter),
        }
    })
}

/// The attributes of registered memory.
///
/// # Safety
/// There is room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryMem(
    nic: *mut c_void,
    start: *mut c_void,
    handle: u32,
    attributes: *mut MemAttributes,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let start = start.expose_provenance() as u64;
        let region = nic.lock().regions.get(handle, start).copied();
        let region = region.ok_or(Code::InvalidParameter)?;
        let told = MemAttributes {
            Ptag: pointer(region.tag as usize),
            EnableRdmaWrite: region.rdma_write.into(),
            EnableRdmaRead: region.rdma_read.into(),
        };
        // SAFETY: the caller promises it.
        unsafe { put(attributes, told) }
    })
}

/// Changes the attributes of registered memory.
///
/// # Safety
/// There are attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetMemAttributes(
    nic: *mut c_void,
    start: *mut c_void,
    handle: u32,
    attributes: *const MemAttributes,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        // SAFETY: the caller promises it.
        let attributes = unsafe { get(attributes)? };
        let mut inner = nic.lock();
        let tag = own_tag(&inner, attributes.Ptag)? as u64;
        let start = start.expose_provenance() as u64;
        let region = inner.regions.get_mut(handle, start);
        let region = region.ok_or(Code::InvalidParameter)?;
        region.tag = tag;
        region.rdma_write = attributes.EnableRdmaWrite != 0;
        region.rdma_read = attributes.EnableRdmaRead != 0;
        Ok(())
    })
}
