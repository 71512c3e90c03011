//! NICs: open, close, query, errors that belong to no call.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};

use barewire_proto::via::descriptor::SEGMENTS_MAX;

use crate::address::{DISCRIMINATOR_BYTES_MAX, HOST_BYTES, device_named, host};
use crate::border::{get, guarded, put, put_address};
use crate::handles::{self, Kind, find};
use crate::helper;
use crate::nic::Nic;
use crate::nic::state::{DESCRIPTORS_MAX, OBJECTS_MAX, REGIONS_MAX, TRANSFER_BYTES_MAX};
use crate::raw::{
    AUTODISCOVERY, AutodiscoveryList, Code, ErrorHandler, NicAttributes, RELIABLE_DELIVERY,
    RELIABLE_RECEPTION, UNRELIABLE,
};

/// The addresses of all devices, which attributes point to.
static HOSTS: [[u8; HOST_BYTES]; crate::address::DEVICES as usize] = {
    let mut all = [[0; HOST_BYTES]; crate::address::DEVICES as usize];
    let mut device = 0;
    while device < all.len() {
        all[device] = host(device as u8);
        device += 1;
    }
    all
};

/// Opens a device.
///
/// # Safety
/// The name is null or ends with a zero, and there is room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipOpenNic(name: *const c_char, handle: *mut *mut c_void) -> c_int {
    guarded(|| {
        if name.is_null() || handle.is_null() {
            return Err(Code::InvalidParameter);
        }
        // SAFETY: the caller promises it.
        let name = unsafe { CStr::from_ptr(name) };
        let device = device_named(name.to_bytes()).ok_or(Code::InvalidParameter)?;
        let nic = Nic::open(device)?;
        helper::start(&nic)?;
        let number = handles::open(Kind::Nic, &nic);
        // SAFETY: the caller promises it.
        unsafe { put(handle, handles::pointer(number)) }
    })
}

/// Closes a NIC that has no VIs, completion queues and requests any more.
#[unsafe(no_mangle)]
pub extern "C" fn VipCloseNic(nic: *mut c_void) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let mut inner = nic.lock();
        if !inner.vis.is_empty() || !inner.queues.is_empty() || !inner.requests.is_empty() {
            return Err(Code::ErrorResource);
        }
        inner.closed = true;
        inner.changed = true;
        inner.wake_helper();
        drop(inner);
        nic.helper.notify_all();
        handles::close_nic(&nic);
        Ok(())
    })
}

/// What a NIC can do.
///
/// # Safety
/// There is room for the attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryNic(nic: *mut c_void, attributes: *mut NicAttributes) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let device = nic.lock().device;
        let mut name = [0; 64];
        let text = format!("barewire{device}");
        for (into, byte) in name.iter_mut().zip(text.bytes()) {
            *into = byte as c_char;
        }
        let objects = OBJECTS_MAX as c_ulong;
        let told = NicAttributes {
            Name: name,
            HardwareVersion: 0,
            ProviderVersion: 0x0001_0000,
            NicAddressLen: HOST_BYTES as u16,
            LocalNicAddress: HOSTS[usize::from(device)].as_ptr(),
            ThreadSafe: 1,
            MaxDiscriminatorLen: DISCRIMINATOR_BYTES_MAX as u16,
            MaxRegisterBytes: c_ulong::MAX,
            MaxRegisterRegions: REGIONS_MAX as c_ulong,
            MaxRegisterBlockBytes: c_ulong::MAX,
            MaxVI: objects,
            MaxDescriptorsPerQueue: c_ulong::from(DESCRIPTORS_MAX),
            MaxSegmentsPerDesc: c_ulong::from(SEGMENTS_MAX),
            MaxCQ: objects,
            // Each descriptor has an entry at most.
            MaxCQEntries: 2 * objects * c_ulong::from(DESCRIPTORS_MAX),
            MaxTransferSize: c_ulong::from(TRANSFER_BYTES_MAX),
            NativeMTU: c_ulong::from(TRANSFER_BYTES_MAX),
            MaxPtags: objects,
            ReliabilityLevelSupport: UNRELIABLE | RELIABLE_DELIVERY | RELIABLE_RECEPTION,
            RDMAReadSupport: RELIABLE_DELIVERY | RELIABLE_RECEPTION,
        };
        // SAFETY: the caller promises it.
        unsafe { put(attributes, told) }
    })
}

/// Which NICs can be reached: this one.
///
/// # Safety
/// The list has as many pointers as it says, each to room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQuerySystemManagementInfo(
    nic: *mut c_void,
    kind: c_ulong,
    info: *mut c_void,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let list = info.cast::<AutodiscoveryList>();
        if kind != AUTODISCOVERY {
            return Err(Code::InvalidParameter);
        }
        // SAFETY: the caller promises it.
        let mut told = unsafe { get(list)? };
        let room = told.NumAdAddrs;
        told.NumAdAddrs = 1;
        // SAFETY: the caller promises it.
        unsafe { put(list, told)? };
        if room == 0 {
            return Err(Code::ErrorResource);
        }
        // SAFETY: the caller promises a pointer there.
        let first = unsafe { get(told.ADAddrArray)? };
        let device = nic.lock().device;
        // SAFETY: and room for an address where it leads.
        unsafe { put_address(first, device, &[]) }
    })
}

/// Has a function called for errors that belong to no call, or none.
#[unsafe(no_mangle)]
pub extern "C" fn VipErrorCallback(
    nic: *mut c_void,
    context: *mut c_void,
    handler: Option<ErrorHandler>,
) -> c_int {
    guarded(|| {
        let (nic, _) = find(Kind::Nic, nic)?;
        let mut inner = nic.lock();
        if handler.is_some() {
            helper::start_calls(&nic, &mut inner)?;
        }
        inner.error_handler = handler.map(|handler| (context.expose_provenance(), handler));
        Ok(())
    })
}
