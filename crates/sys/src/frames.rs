//! Ethernet frames to and from the kernel: a TAP device, or an interface that is there, by a packet socket or by an
//! `AF_XDP` socket.
//!
//! Where a device has a *frame header*, every frame has [`FRAME_HEADER_BYTES`] of `virtio_net_hdr` before it, in both
//! directions. It says what is left to do: complete a checksum, cut a large TCP packet into segments. Its layout is in
//! `linux/virtio_net.h`; its numbers have the byte order of the machine.

mod area;
mod packet;
mod problem;
mod tap;
mod xdp;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use barewire_cpu::after_system_call;
use rustix::io::Errno as Raw;

use crate::error::SysError;
use crate::links::{Link, link};
use crate::netlink::RouteSocket;

pub use packet::Want;
pub use problem::{FRAME_HEADER_BYTES, FrameError, FrameSent};
pub use tap::TapOffload;

/// The name of a device has at most so many bytes.
const NAME_BYTES_MAX: usize = 15;

/// How frames go to and fro.
#[derive(Debug)]
enum Port {
    /// Each by a system call.
    File(OwnedFd),
    /// What comes: by memory that is shared with the kernel. What is sent: each by a system call.
    Ring(OwnedFd, Box<Mutex<packet::Ring>>),
    /// By memory that is shared with the kernel.
    Xdp(Box<xdp::Xdp>),
}

/// Where frames come from and go to.
#[derive(Debug)]
pub struct FrameDevice {
    port: Port,
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
        let link = device(name)?;
        Self::around(Port::File(fd), &link, name, offload.is_some(), true)
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
        let port = match packet::open(&link, name, has_header, want)? {
            (fd, Some(ring)) => Port::Ring(fd, Box::new(Mutex::new(ring))),
            (fd, None) => Port::File(fd),
        };
        Self::around(port, &link, name, has_header, false)
    }

    /// As [`interface`](Self::interface), by an `AF_XDP` socket: frames come and go by memory that is shared with the
    /// kernel, many with one system call. They have no header, so a checksum must not be left open on the way here.
    ///
    /// What comes here is ARP whose target is the address of IPv4, and packets whose target is an address of `want` or
    /// the solicited-node address of that of IPv6. The kernel does not get these, and gets all others.
    ///
    /// A frame is sent at the latest when [`try_receive`](Self::try_receive) finds none, or whoever polls the descriptor
    /// does so. That the device was removed is noticed when the next frame is to be sent.
    ///
    /// # Errors
    /// Not root (`CAP_NET_RAW`, `CAP_NET_ADMIN`, `CAP_BPF`), no such interface, no Ethernet, several queues, packets that
    /// are too long, a program that is there already; this kernel has no `AF_XDP`.
    pub fn xdp(name: &str, want: &Want) -> Result<Self, FrameError> {
        check_name(name)?;
        let link = device(name)?;
        let port = xdp::open(&link, name, want)?;
        Self::around(Port::Xdp(Box::new(port)), &link, name, false, false)
    }

    fn around(
        port: Port,
        link: &Link,
        name: &str,
        has_header: bool,
        is_tap: bool,
    ) -> Result<Self, FrameError> {
        crate::returns::learn();
        let hardware_address = link.hardware_address;
        let hardware_address =
            hardware_address.ok_or_else(|| FrameError::NotEthernet(name.to_owned()))?;
        Ok(Self {
            port,
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
        let received = match &self.port {
            Port::File(fd) => {
                let received = rustix::io::read(fd, into);
                after_system_call();
                received.map(Some)
            }
            Port::Ring(fd, ring) => {
                let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
                ring.try_receive(fd, into)
            }
            Port::Xdp(xdp) => return xdp.try_receive(into),
        };
        match received {
            Ok(received) => Ok(received),
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
        let fd = match &self.port {
            Port::File(fd) | Port::Ring(fd, _) => fd,
            Port::Xdp(xdp) => return xdp.try_send(frame),
        };
        let sent = rustix::io::write(fd, frame);
        after_system_call();
        FrameSent::of_write(sent.map_err(Into::into))
    }

    /// The descriptor to which a frame is written, with its header where the device has one, by one system call each; what
    /// became of it says [`FrameSent::of_write`]. `None`: this device takes frames by memory.
    #[must_use]
    pub fn written_to(&self) -> Option<BorrowedFd<'_>> {
        match &self.port {
            Port::File(fd) | Port::Ring(fd, _) => Some(fd.as_fd()),
            Port::Xdp(_) => None,
        }
    }
}

impl AsFd for FrameDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.port {
            Port::File(fd) | Port::Ring(fd, _) => fd.as_fd(),
            Port::Xdp(xdp) => xdp.as_fd(),
        }
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
