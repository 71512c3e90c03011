//! What `vipl.h` declares, for Rust: types, layouts and codes. The tests compare both.

#![allow(non_snake_case)] // the names of the header

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// What functions return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Success = 0,
    NotDone = 1,
    InvalidParameter = 2,
    ErrorResource = 3,
    Timeout = 4,
    Reject = 5,
    InvalidReliabilityLevel = 6,
    InvalidMtu = 7,
    InvalidQos = 8,
    InvalidPtag = 9,
    InvalidRdmaRead = 10,
    DescriptorError = 11,
    InvalidState = 12,
    ErrorNameService = 13,
    NoMatch = 14,
}

/// Errors that belong to no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum AsyncError {
    ConnLost = 1,
    RecvqEmpty = 2,
    RdmawProt = 4,
    RdmarProt = 7,
}

/// `VIP_RESOURCE_VI`.
pub(crate) const RESOURCE_VI: c_int = 1;

pub(crate) const UNRELIABLE: u16 = 1;
pub(crate) const RELIABLE_DELIVERY: u16 = 2;
pub(crate) const RELIABLE_RECEPTION: u16 = 4;

/// `VIP_SMI_AUTODISCOVERY`.
pub(crate) const AUTODISCOVERY: c_ulong = 1;

/// The head of `VIP_NET_ADDRESS`, and where the bytes behind it begin.
pub(crate) const ADDRESS_HEAD_BYTES: usize = 4;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct NicAttributes {
    pub Name: [c_char; 64],
    pub HardwareVersion: c_ulong,
    pub ProviderVersion: c_ulong,
    pub NicAddressLen: u16,
    pub LocalNicAddress: *const u8,
    pub ThreadSafe: c_int,
    pub MaxDiscriminatorLen: u16,
    pub MaxRegisterBytes: c_ulong,
    pub MaxRegisterRegions: c_ulong,
    pub MaxRegisterBlockBytes: c_ulong,
    pub MaxVI: c_ulong,
    pub MaxDescriptorsPerQueue: c_ulong,
    pub MaxSegmentsPerDesc: c_ulong,
    pub MaxCQ: c_ulong,
    pub MaxCQEntries: c_ulong,
    pub MaxTransferSize: c_ulong,
    pub NativeMTU: c_ulong,
    pub MaxPtags: c_ulong,
    pub ReliabilityLevelSupport: u16,
    pub RDMAReadSupport: u16,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ViAttributes {
    pub ReliabilityLevel: u16,
    pub MaxTransferSize: c_ulong,
    pub QoS: *mut c_void,
    pub Ptag: *mut c_void,
    pub EnableRdmaWrite: c_int,
    pub EnableRdmaRead: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct MemAttributes {
    pub Ptag: *mut c_void,
    pub EnableRdmaWrite: c_int,
    pub EnableRdmaRead: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ErrorDescriptor {
    pub NicHandle: *mut c_void,
    pub ViHandle: *mut c_void,
    pub CQHandle: *mut c_void,
    pub DescriptorPtr: *mut c_void,
    pub OpCode: c_ulong,
    pub ResourceCode: c_int,
    pub ErrorCode: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct AutodiscoveryList {
    pub NumberOfHops: c_ulong,
    pub ADAddrArray: *mut *mut c_void,
    pub NumAdAddrs: c_ulong,
}

/// Hears of errors that belong to no call.
pub type ErrorHandler = unsafe extern "C" fn(*mut c_void, *mut ErrorDescriptor);
/// Hears of a descriptor that is done.
pub type ViHandler = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void);
/// Hears of an entry of a completion queue.
pub type CqHandler = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, c_int);

const _: () = assert!(size_of::<NicAttributes>() == 200);
const _: () = assert!(std::mem::offset_of!(NicAttributes, LocalNicAddress) == 88);
const _: () = assert!(std::mem::offset_of!(NicAttributes, MaxRegisterBytes) == 104);
const _: () = assert!(std::mem::offset_of!(NicAttributes, ReliabilityLevelSupport) == 192);
const _: () = assert!(size_of::<ViAttributes>() == 40);
const _: () = assert!(std::mem::offset_of!(ViAttributes, EnableRdmaRead) == 36);
const _: () = assert!(size_of::<MemAttributes>() == 16);
const _: () = assert!(size_of::<ErrorDescriptor>() == 48);
const _: () = assert!(size_of::<AutodiscoveryList>() == 24);
