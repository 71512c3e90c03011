//! What can be wrong with a device that carries frames, and whether it takes one.

use rustix::io::Errno as Raw;

use crate::error::{Errno, SysError};

/// Bytes of the header before each frame, where a device has one.
pub const FRAME_HEADER_BYTES: usize = 10;

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

impl FrameSent {
    /// What became of a frame by how its write ended.
    ///
    /// # Errors
    /// `Gone`, or what else the kernel says.
    pub fn of_write(written: std::io::Result<usize>) -> Result<Self, FrameError> {
        let Err(error) = written else {
            return Ok(Self::Sent);
        };
        match Raw::from_io_error(&error).unwrap_or(Raw::IO) {
            Raw::AGAIN | Raw::INTR | Raw::NETDOWN | Raw::IO | Raw::NOBUFS => Ok(Self::NoRoom),
            Raw::INVAL | Raw::MSGSIZE => Ok(Self::Refused),
            Raw::BADFD | Raw::NODEV | Raw::NXIO => Err(FrameError::Gone),
            errno => Err(SysError::new("send a frame", errno).into()),
        }
    }
}

/// Why there is no device, or why it does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// No device can have this name.
    #[error(
        "`{0}` is no name of a network device: it has 1 to 15 bytes, none of them a slash, a colon or a blank"
    )]
    BadName(String),
    /// There is no /dev/net/tun.
    #[error(
        "open /dev/net/tun: {0}; this kernel or container has no TAP devices: load the module (`modprobe tun`), or \
         give the container the device (`--device /dev/net/tun`)"
    )]
    NoTapDevices(Errno),
    /// The process may not.
    #[error(
        "{what}: {errno}; it needs {capability}: run as root, or `setcap {setcap}+ep` the program"
    )]
    NotAllowed {
        /// What was attempted.
        what: &'static str,
        /// EPERM or EACCES.
        errno: Errno,
        /// What it takes.
        capability: &'static str,
        /// The same, as `setcap` writes it.
        setcap: &'static str,
    },
    /// There is no such device.
    #[error(
        "there is no network interface `{0}` in this network namespace: `ip link` shows those that there are"
    )]
    NoDevice(String),
    /// Another process has the TAP device.
    #[error(
        "TAP device `{0}` is in use: another process has it open; stop that, or use another name"
    )]
    Busy(String),
    /// It is there and no TAP device.
    #[error(
        "`{0}` is there and is no TAP device, or one of another kind: use another name, or `--interface`"
    )]
    NotTap(String),
    /// It is no Ethernet.
    #[error("interface `{0}` carries no Ethernet frames: use another")]
    NotEthernet(String),
    /// This kernel or sandbox has no `AF_XDP`, or the driver does not take part.
    #[error(
        "{what}: {errno}; `--xdp` needs Linux 5.9 or newer with CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL, a sandbox \
         that allows `bpf`, and a driver that takes its program (`dmesg` may say why not): leave `--xdp` out"
    )]
    NoXdp {
        /// What was attempted.
        what: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// There is a program at the interface.
    #[error(
        "interface `{0}` has an XDP program already (`ip link show {0}`): stop the one that has put it there, `ip link \
         set {0} xdp off`, or leave `--xdp` out"
    )]
    OtherProgram(String),
    /// Another process has an `AF_XDP` socket there.
    #[error(
        "another process takes the frames of queue 0 of interface `{0}`: stop it, or leave `--xdp` out"
    )]
    QueueTaken(String),
    /// Frames would come by queues that nobody looks at.
    #[error(
        "interface `{0}` has {1} receive queues, and `--xdp` takes frames of one: set one (`ethtool -L {0} combined 1`, \
         or `ethtool -L {0} rx 1`), or leave `--xdp` out"
    )]
    ManyQueues(String, u32),
    /// A packet would not fit into its place.
    #[error(
        "interface `{name}` has an MTU of {mtu_bytes} bytes, and `--xdp` takes at most {most}: `ip link set {name} mtu \
         {most}`, or leave `--xdp` out"
    )]
    LongPackets {
        /// The interface.
        name: String,
        /// What it has, in bytes.
        mtu_bytes: u32,
        /// What is possible, in bytes.
        most: u32,
    },
    /// Packets are joined before the program sees them.
    #[error(
        "the driver of interface `{0}` runs no XDP programs, and the kernel joins packets before it runs one (GRO): \
         `ethtool -K {0} gro off`, or leave `--xdp` out"
    )]
    JoinsPackets(String),
    /// The device has been removed.
    #[error("the network device is gone: somebody removed it; start again")]
    Gone,
    /// Any other failure of the kernel.
    #[error("{0}")]
    Sys(#[from] SysError),
}
