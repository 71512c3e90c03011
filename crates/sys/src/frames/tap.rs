//! TAP devices: `linux/if_tun.h`.

use std::ffi::c_ulong;
use std::os::fd::{AsRawFd, OwnedFd};

use barewire_calls::call;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as Raw;

use super::problem::{FRAME_HEADER_BYTES, FrameError};
use crate::error::SysError;

const TAP: u16 = 0x0002;
const NO_PACKET_INFORMATION: u16 = 0x1000;
const FRAME_HEADER: u16 = 0x4000;

const SET_DEVICE: c_ulong = 0x4004_54ca;
const SET_OFFLOAD: c_ulong = 0x4004_54d0;
const SET_FRAME_HEADER_BYTES: c_ulong = 0x4004_54d8;

const OFFLOAD_CHECKSUM: usize = 0x01;
const OFFLOAD_TCP_4: usize = 0x02;
const OFFLOAD_TCP_6: usize = 0x04;

/// What the kernel may leave open in frames that it sends by the device. It always takes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapOffload {
    /// Checksums of TCP and UDP.
    pub checksum: bool,
    /// Cutting TCP packets into segments; it includes checksums.
    pub tcp_segments: bool,
}

/// `struct ifreq`, with flags.
#[repr(C)]
struct DeviceRequest {
    name: [u8; 16],
    flags: u16,
    pad: [u8; 22],
}

pub(super) fn open(name: &str, offload: Option<TapOffload>) -> Result<OwnedFd, FrameError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open("/dev/net/tun", flags, Mode::empty());
    let fd = opened.map_err(|errno| match errno {
        Raw::PERM | Raw::ACCESS => not_allowed("open /dev/net/tun", errno),
        _ => FrameError::NoTapDevices(errno.into()),
    })?;
    let header = offload.map_or(0, |_| FRAME_HEADER);
    let mut request = DeviceRequest {
        name: [0; 16],
        flags: TAP | NO_PACKET_INFORMATION | header,
        pad: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    control(&fd, SET_DEVICE, (&raw mut request) as usize).map_err(|errno| match errno {
        libc::EPERM | libc::EACCES => {
            not_allowed("open a TAP device", Raw::from_raw_os_error(errno))
        }
        libc::EBUSY => FrameError::Busy(name.to_owned()),
        libc::EINVAL | libc::EEXIST => FrameError::NotTap(name.to_owned()),
        _ => SysError::new("open a TAP device", errno).into(),
    })?;
    if let Some(offload) = offload {
        let mut len = FRAME_HEADER_BYTES as libc::c_int;
        control(&fd, SET_FRAME_HEADER_BYTES, (&raw mut len) as usize)
            .map_err(|errno| SysError::new("set the header of frames", errno))?;
        let bits = match offload {
            TapOffload {
                tcp_segments: true, ..
            } => OFFLOAD_CHECKSUM | OFFLOAD_TCP_4 | OFFLOAD_TCP_6,
            TapOffload { checksum: true, .. } => OFFLOAD_CHECKSUM,
            TapOffload { .. } => 0,
        };
        control(&fd, SET_OFFLOAD, bits)
            .map_err(|errno| SysError::new("set what the kernel leaves open", errno))?;
    }
    Ok(fd)
}

fn not_allowed(what: &'static str, errno: Raw) -> FrameError {
    FrameError::NotAllowed {
        what,
        errno: errno.into(),
        capability: "CAP_NET_ADMIN",
        setcap: "cap_net_admin",
    }
}

/// `ioctl`, of the three requests above.
fn control(fd: &OwnedFd, request: c_ulong, argument: usize) -> Result<(), libc::c_int> {
    let given = [fd.as_raw_fd() as usize, request as usize, argument];
    // SAFETY: the argument is a number, or the address of what the request takes, which lives in the caller.
    unsafe { call(libc::SYS_ioctl, given) }.map(drop)
}

const _: () = assert!(size_of::<DeviceRequest>() == 40);
