//! Ethernet frames to and from the kernel: a TAP device, or an interface that is there, by a packet socket.
//!
//! Where a device has a *frame header*, every frame has [`FRAME_HEADER_BYTES`] of `virtio_net_hdr` before it, in both
//! directions. It says what is left to do: complete a checksum, cut a large TCP packet into segments. Its layout is in
//! `linux/virtio_net.h`; its numbers have the byte order of the machine.

mod packet;
mod problem;
mod tap;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno as Raw;

use crate::error::SysError;
use crate::links::{Link, link};
use crate::netlink::RouteSocket;

pub use packet::Want;
pub use problem::{FRAME_HEADER_BYTES, FrameError};
pub use tap::TapOffload;

/// The name of a device has at most so many bytes.
const NAME_BYTES_MAX: usize = 15;

/// Whether a frame was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSent {
    /// It is the kernel's.
    Sent,
    /// The device has no room, or is down. Nothing was sent.
    NoRoom,
    /// The kernel does not take such a frame: it is too long for the device, or its header is wrong.
    Refused,
}

/// Where frames come from and go to.
#[derive(Debug)]
pub struct FrameDevice {
    fd: OwnedFd,
    name: String,
    has_header: bool,
    hardware_address: [u8; 6],
    mtu_bytes: u32,
    index: u32,
    is_tap: bool,
}

impl FrameDevice {
    /// The far end of a TAP device of the calling thread's network namespace: what the kernel sends out by the device
    /// is received here. A device that is not there is made, and goes with this value.
    ///
    /// With `offload`, frames have a header.
    ///
    /// # Errors
    /// Not root (`CAP_NET_ADMIN`), no such devices here, the name is wrong or somebody else's.
    pub fn tap(name: &str, offload: Option<TapOffload>) -> Result<Self, FrameError> {
        check_name(name)?;
        let fd = tap::open(name, offload)?;
        Self::around(fd, name, offload.is_some(), true)
    }

    /// All frames that come by an interface of the calling thread's network namespace, those that `want` says. What
    /// the host itself sends there does not come here. Without a header, nothing says that a checksum is open or a packet
    /// large, as they are where the other end is on the same machine.
    ///
    /// # Errors
    /// Not root (`CAP_NET_RAW`), no such interface, no Ethernet.
    pub fn interface(name: &str, has_header: bool, want: &Want) -> Result<Self, FrameError> {
        check_name(name)?;
        let link = device(name)?;
        let fd = packet::open(&link, name, has_header, want)?;
        Self::around(fd, name, has_header, false)
    }

    fn around(fd: OwnedFd, name: &str, has_header: bool, is_tap: bool) -> Result<Self, FrameError> {
        let link = device(name)?;
        let hardware_address = link.hardware_address;
        let hardware_address =
            hardware_address.ok_or_else(|| FrameError::NotEthernet(name.to_owned()))?;
        Ok(Self {
            fd,
            name: name.to_owned(),
            has_header,
            hardware_address,
            mtu_bytes: link.mtu_bytes,
            index: link.index,
            is_tap,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether each frame has a header before it.
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// Whether it is the far end of a TAP device.
    #[must_use]
    pub fn is_tap(&self) -> bool {
        self.is_tap
    }

    /// The kernel's Ethernet address at the device. At the far end of a TAP device another one is needed.
    #[must_use]
    pub fn hardware_address(&self) -> [u8; 6] {
        self.hardware_address
    }

    /// The longest IP packet, in bytes, when the device was opened.
    #[must_use]
    pub fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// Its index in the network namespace.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The next frame, with its header where the device has one; the bytes of both together. `None`: none is there.
    /// A frame that is longer than `into` is cut off.
    ///
    /// # Errors
    /// `Gone`. A device that is down is no error: nothing comes.
    pub fn try_receive(&self, into: &mut [u8]) -> Result<Option<usize>, FrameError> {
        match rustix::io::read(&self.fd, into) {
            Ok(len) => Ok(Some(len)),
            Err(Raw::AGAIN | Raw::INTR | Raw::NETDOWN | Raw::IO | Raw::NOBUFS) => Ok(None),
            Err(Raw::BADFD | Raw::NODEV | Raw::NXIO) => Err(FrameError::Gone),
            Err(errno) => Err(SysError::new("receive a frame", errno).into()),
        }
    }

    /// Sends a frame, with its header where the device has one.
    ///
    /// # Errors
    /// `Gone`.
    pub fn try_send(&self, frame: &[u8]) -> Result<FrameSent, FrameError> {
        match rustix::io::write(&self.fd, frame) {
            Ok(_) => Ok(FrameSent::Sent),
            Err(Raw::AGAIN | Raw::INTR | Raw::NETDOWN | Raw::IO | Raw::NOBUFS) => {
                Ok(FrameSent::NoRoom)
            }
            Err(Raw::INVAL | Raw::MSGSIZE) => Ok(FrameSent::Refused),
            Err(Raw::BADFD | Raw::NODEV | Raw::NXIO) => Err(FrameError::Gone),
            Err(errno) => Err(SysError::new("send a frame", errno).into()),
        }
    }
}

impl AsFd for FrameDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check_name(name: &str) -> Result<(), FrameError> {
    let is_right = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
    match name.len() {
        1..=NAME_BYTES_MAX if name.bytes().all(is_right) && name != "." && name != ".." => Ok(()),
        _ => Err(FrameError::BadName(name.to_owned())),
    }
}

/// What the kernel says of a device.
fn device(name: &str) -> Result<Link, FrameError> {
    let asked = RouteSocket::open().and_then(|mut socket| link(&mut socket, name));
    asked.map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => FrameError::NoDevice(name.to_owned()),
        errno => SysError::new("ask for a network device", errno.unwrap_or(libc::EIO)).into(),
    })
}
