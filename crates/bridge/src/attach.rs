//! The device, the rights that it takes, and the network behind it.
//!
//! Of root's rights only CAP_NET_ADMIN and CAP_NET_RAW are kept while the device is opened (with AF_XDP also CAP_BPF, for
//! its program, and CAP_IPC_LOCK, for its memory), and none afterwards: also none that a program could get which this
//! process starts. The node, whose threads would otherwise have them, is made later.

use std::net::IpAddr;

use barewire_proto::edge::message::Takes;
use barewire_proto::edge::network::{Attachment, Network};
use barewire_sys::frames::{FrameDevice, TapOffload, Want};
use barewire_sys::links::{add_address_in, addresses, set_state};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::process::{Capability, keep_capabilities, random_bytes};

use crate::config::{BridgeConfig, Device, Prefixed};
use crate::error::BridgeError;

/// What every network that carries IPv4, or IPv6, carries.
const MTU_LEAST_V4: u32 = 576;
const MTU_LEAST_V6: u32 = 1280;

/// Opens the device and gives up the rights.
pub fn attach(config: &BridgeConfig) -> Result<(FrameDevice, Attachment), BridgeError> {
    let v4 = network(config, true)?;
    let v6 = network(config, false)?;
    if v4.is_none() && v6.is_none() {
        return Err(BridgeError::NoAddress);
    }
    let is_xdp = matches!(config.device, Device::Xdp { .. });
    let network = [Capability::NetAdmin, Capability::NetRaw];
    let program = [Capability::Bpf, Capability::IpcLock];
    let kept = [network.as_slice(), if is_xdp { &program } else { &[] }].concat();
    keep_capabilities(&kept)?;
    let device = open(config, v4, v6)?;
    keep_capabilities(&[])?;
    let least = if v6.is_some() {
        MTU_LEAST_V6
    } else {
        MTU_LEAST_V4
    };
    if device.mtu_bytes() < least {
        let (name, mtu_bytes) = (device.name().to_owned(), device.mtu_bytes());
        return Err(BridgeError::Mtu {
            name,
            mtu_bytes,
            least,
        });
    }
    let ethernet = if device.is_tap() {
        far_address()?
    } else {
        device.hardware_address()
    };
    let takes = if config.offload && !is_xdp {
        Takes::ALL
    } else {
        Takes::NOTHING
    };
    let mtu_bytes = u16::try_from(device.mtu_bytes()).unwrap_or(u16::MAX);
    Ok((
        device,
        Attachment {
            ethernet,
            v4,
            v6,
            mtu_bytes,
            takes,
        },
    ))
}

/// The network of one version of IP.
fn network(config: &BridgeConfig, is_v4: bool) -> Result<Option<Network>, BridgeError> {
    let mut own = config
        .addresses
        .iter()
        .filter(|it| it.address.is_ipv4() == is_v4);
    let gateway = config
        .gateways
        .iter()
        .find(|it| it.is_ipv4() == is_v4)
        .copied();
    match (own.next(), own.next(), gateway) {
        (Some(first), Some(second), _) => {
            Err(BridgeError::TwoAddresses(first.address, second.address))
        }
        (None, _, Some(gateway)) => Err(BridgeError::NoNetwork(gateway)),
        (None, _, None) => Ok(None),
        (Some(&Prefixed { address, prefix }), None, gateway) => {
            let network = Network {
                address,
                prefix,
                gateway,
            };
            network.check()?;
            Ok(Some(network))
        }
    }
}

fn open(
    config: &BridgeConfig,
    v4: Option<Network>,
    v6: Option<Network>,
) -> Result<FrameDevice, BridgeError> {
    let name = config.device.name();
    let set_up = |error| BridgeError::SetUp {
        name: name.to_owned(),
        error,
    };
    let device = match &config.device {
        Device::Tap { host, .. } => {
            let all = TapOffload {
                checksum: true,
                tcp_segments: true,
            };
            let device = FrameDevice::tap(name, config.offload.then_some(all))?;
            let mut socket = RouteSocket::open().map_err(set_up)?;
            set_state(&mut socket, name, true).map_err(set_up)?;
            for own in host {
                add_address_in(&mut socket, device.index(), own.address, own.prefix)
                    .map_err(set_up)?;
            }
            device
        }
        Device::Interface { .. } => {
            // Without the header nothing would say that a checksum is open, and between hosts of one machine it is.
            FrameDevice::interface(name, true, &want(v4, v6))?
        }
        Device::Xdp { .. } => FrameDevice::xdp(name, &want(v4, v6))?,
    };
    let of_host = RouteSocket::open()
        .and_then(|mut socket| addresses(&mut socket))
        .map_err(set_up)?;
    let own = [v4, v6].into_iter().flatten().map(|it| it.address);
    match own
        .into_iter()
        .find(|own| of_host.iter().any(|(_, it)| it == own))
    {
        Some(own) => Err(BridgeError::OwnAddress(own)),
        None => Ok(device),
    }
}

/// Which frames are for the bridge.
fn want(v4: Option<Network>, v6: Option<Network>) -> Want {
    Want {
        v4: v4.and_then(|it| match it.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }),
        v6: v6.and_then(|it| match it.address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        }),
    }
}

/// An Ethernet address for the far end of a TAP device: a random one, which no maker of cards has.
fn far_address() -> Result<[u8; 6], BridgeError> {
    let mut address = [0; 6];
    random_bytes(&mut address)?;
    address[0] = address[0] & 0xfc | 2;
    Ok(address)
}
