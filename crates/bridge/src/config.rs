//! What a bridge is to be.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use barewire::Policy;
use barewire_proto::edge::leases::Limits;
use barewire_proto::edge::message::NAME_DEFAULT;

/// An address with the length of its network's prefix, as `10.0.0.9/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixed {
    /// The address.
    pub address: IpAddr,
    /// How many bits all addresses of the network begin with alike.
    pub prefix: u8,
}

impl FromStr for Prefixed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no address with a prefix, as in 10.0.0.9/24 or fd00::9/64");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let (address, prefix): (IpAddr, u8) = (
            address.parse().map_err(|_| wrong())?,
            prefix.parse().map_err(|_| wrong())?,
        );
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }
}

/// Where the network is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// Behind a TAP device, which is made if it is not there.
    Tap {
        /// Its name.
        name: String,
        /// Addresses that this host's kernel is to have at the device.
        host: Vec<Prefixed>,
    },
    /// At an interface.
    Interface {
        /// Its name.
        name: String,
    },
    /// At an interface, by an `AF_XDP` socket. Whatever [`BridgeConfig::offload`] says, nothing is left to the device.
    Xdp {
        /// Its name.
        name: String,
    },
}

impl Device {
    /// The name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tap { name, .. } | Self::Interface { name } | Self::Xdp { name } => name,
        }
    }
}

/// Settings of a bridge.
#[derive(Clone, Debug)]
pub struct BridgeConfig {
    /// Where the network is.
    pub device: Device,
    /// The bridge's addresses: at most one of each version of IP.
    pub addresses: Vec<Prefixed>,
    /// Hosts that take packets to other networks, at most one of each version of IP.
    pub gateways: Vec<IpAddr>,
    /// The name under which it listens.
    pub name: String,
    /// Who may lease.
    pub policy: Policy,
    /// How much there is to lease.
    pub limits: Limits,
    /// Bytes of the queue from each client, a power of two: the client's memory for packets that it sends.
    pub ring_bytes: usize,
    /// How long to poll before sleeping.
    pub spin: Duration,
    /// Whether checksums and segments are left to the device where it takes them.
    pub offload: bool,
}

impl BridgeConfig {
    /// A bridge at a device, without addresses yet, for this user's own programs.
    #[must_use]
    pub fn new(device: Device) -> Self {
        Self {
            device,
            addresses: Vec::new(),
            gateways: Vec::new(),
            name: NAME_DEFAULT.to_owned(),
            policy: Policy::same_user(),
            limits: Limits::default(),
            ring_bytes: 512 << 10,
            spin: Duration::from_micros(50),
            offload: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| text.parse::<Prefixed>();
        let wanted = Prefixed {
            address: [10, 0, 0, 9].into(),
            prefix: 24,
        };
        assert_eq!(read("10.0.0.9/24"), Ok(wanted));
        assert_eq!(read("fd00::9/64").map(|it| it.prefix), Ok(64));
        for wrong in [
            "10.0.0.9",
            "10.0.0.9/33",
            "10.0.0/8",
            "/8",
            "fd00::9/129",
            "10.0.0.9/-1",
            "",
        ] {
            assert!(read(wrong).unwrap_err().contains("as in"), "{wrong}");
        }
    }
}
