//! What can go wrong with a bridge, and what to do about it.

use std::net::IpAddr;

use barewire_proto::edge::network::NetworkError;
use barewire_sys::SysError;
use barewire_sys::frames::FrameError;

/// Why a bridge cannot be, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// It was given no address.
    #[error(
        "the bridge needs an address of its own (`--address 10.0.0.9/24`): one that no host of the network has"
    )]
    NoAddress,
    /// It was given two of one version of IP.
    #[error("{0} and {1}: a bridge has at most one address of IPv4 and one of IPv6")]
    TwoAddresses(IpAddr, IpAddr),
    /// A gateway without an address of its version of IP.
    #[error("gateway {0}: the bridge has no address of that version of IP")]
    NoNetwork(IpAddr),
    /// An address or gateway cannot be.
    #[error("{0}")]
    Network(#[from] NetworkError),
    /// The address is this host's own.
    #[error(
        "{0} is an address of this host: its kernel would refuse each connection of the bridge; give the bridge an \
         address of its own, that no host of the network has"
    )]
    OwnAddress(IpAddr),
    /// Packets of the network are too short for its version of IP.
    #[error(
        "the MTU of {mtu_bytes} bytes is too small: {least} are needed (`ip link set {name} mtu 1500`)"
    )]
    Mtu {
        /// The device.
        name: String,
        /// What it has.
        mtu_bytes: u32,
        /// What is needed.
        least: u32,
    },
    /// The device does not work.
    #[error("{0}")]
    Device(#[from] FrameError),
    /// The device could not be set up.
    #[error(
        "set up {name}: {error}; it needs CAP_NET_ADMIN: run as root, or set the device up beforehand (`ip link`)"
    )]
    SetUp {
        /// The device.
        name: String,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// A call of the system failed.
    #[error("{0}")]
    System(#[from] SysError),
    /// The node cannot be, or cannot listen.
    #[error("{0}")]
    Node(#[from] barewire::Error),
}
