//! What can be wrong with a device that carries frames.

use crate::error::{Errno, SysError};

/// Bytes of the header before each frame, where a device has one.
pub const FRAME_HEADER_BYTES: usize = 10;

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
    /// The device has been removed.
    #[error("the network device is gone: somebody removed it; start again")]
    Gone,
    /// Any other failure of the kernel.
    #[error("{0}")]
    Sys(#[from] SysError),
}
