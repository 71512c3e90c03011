//! The network that the bridge has addresses in, and where a packet goes next.

use core::net::IpAddr;

use super::answers::Sender;
use super::message::Takes;
use super::neighbours::Ethernet;

/// An address of the bridge, and what is near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The bridge's address.
    pub address: IpAddr,
    /// How many bits all addresses of the network begin with alike.
    pub prefix: u8,
    /// The host that takes packets to other networks.
    pub gateway: Option<IpAddr>,
}

/// Why a network cannot be as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The address is no host's.
    #[error("{0} is no address of a host: give one that no other host of the network has")]
    NotAHost(IpAddr),
    /// The prefix is longer than the address.
    #[error("a prefix of {0} bits is too long: at most 32 for IPv4, 128 for IPv6")]
    Prefix(u8),
    /// The gateway is not in the network.
    #[error(
        "gateway {gateway} is not in the network of {address}/{prefix}, or is the bridge itself"
    )]
    Gateway {
        /// The gateway.
        gateway: IpAddr,
        /// The bridge's address.
        address: IpAddr,
        /// The prefix.
        prefix: u8,
    },
}

/// The bits of an address, left-aligned, and how many there are.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl Network {
    /// Checks it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), NetworkError> {
        let Self {
            address, prefix, ..
        } = *self;
        if prefix > bits(address).1 {
            return Err(NetworkError::Prefix(prefix));
        }
        if !self.is_host(address) {
            return Err(NetworkError::NotAHost(address));
        }
        match self.gateway {
            Some(gateway)
                if !self.contains(gateway) || gateway == address || !self.is_host(gateway) =>
            {
                Err(NetworkError::Gateway {
                    gateway,
                    address,
                    prefix,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether an address is in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = 128 - u32::from(self.prefix);
        let head = |address| bits(address).0.checked_shr(shift).unwrap_or(0);
        address.is_ipv4() == self.address.is_ipv4() && head(address) == head(self.address)
    }

    /// Whether an address can be that of one host: no group, no broadcast, not of one link, not this host.
    #[must_use]
    pub fn is_host(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => {
                let [first, ..] = v4.octets();
                let is_broadcast = self.contains(address) && self.prefix < 31 && {
                    let host = u32::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0);
                    let low = u32::from(v4) & host;
                    low == 0 || low == host
                };
                first != 0 && first != 127 && first < 224 && !is_broadcast
            }
            IpAddr::V6(v6) => {
                let is_link_local = v6.segments()[0] & 0xffc0 == 0xfe80;
                !v6.is_unspecified()
                    && !v6.is_loopback()
                    && !v6.is_multicast()
                    && !is_link_local
                    && v6.to_ipv4_mapped().is_none()
            }
        }
    }

    /// The host on this network that a packet goes to next. `None`: there is no way.
    #[must_use]
    pub fn next_hop(&self, target: IpAddr) -> Option<IpAddr> {
        if target == self.address
            || !self.is_host(target)
            || target.is_ipv4() != self.address.is_ipv4()
        {
            return None;
        }
        if self.contains(target) {
            Some(target)
        } else {
            self.gateway
        }
    }
}

/// How the bridge is attached to its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its Ethernet address.
    pub ethernet: Ethernet,
    /// Its address of IPv4.
    pub v4: Option<Network>,
    /// Its address of IPv6.
    pub v6: Option<Network>,
    /// The longest IP packet, in bytes.
    pub mtu_bytes: u16,
    /// What the device takes.
    pub takes: Takes,
}

impl Attachment {
    /// The network of the version of IP that an address has.
    #[must_use]
    pub fn network(&self, of: IpAddr) -> Option<&Network> {
        if of.is_ipv4() {
            self.v4.as_ref()
        } else {
            self.v6.as_ref()
        }
    }

    /// Whether an address is the bridge's.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.network(address)
            .is_some_and(|network| network.address == address)
    }

    /// The bridge as a sender to an address.
    #[must_use]
    pub fn sender(&self, of: IpAddr) -> Option<Sender> {
        let address = self.network(of)?.address;
        Some(Sender {
            ethernet: self.ethernet,
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str, prefix: u8, gateway: Option<&str>) -> Network {
        let parse = |text: &str| text.parse().expect("an address");
        Network {
            address: parse(address),
            prefix,
            gateway: gateway.map(parse),
        }
    }

    #[test]
    fn packets_go_to_neighbours_or_the_gateway() {
        let hop =
            |network: Network, target: &str| network.next_hop(target.parse().expect("an address"));
        let near = |text: &str| Some(text.parse().expect("an address"));
        let v4 = network("10.1.2.3", 24, Some("10.1.2.1"));
        assert_eq!(v4.check(), Ok(()));
        assert_eq!(hop(v4, "10.1.2.9"), near("10.1.2.9"));
        assert_eq!(hop(v4, "198.51.100.7"), near("10.1.2.1"));
        for nowhere in [
            "10.1.2.3",
            "10.1.2.255",
            "10.1.2.0",
            "224.0.0.1",
            "127.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "fd00::1",
        ] {
            assert_eq!(hop(v4, nowhere), None, "{nowhere}");
        }
        assert_eq!(hop(network("10.1.2.3", 24, None), "10.1.3.1"), None);
        assert_eq!(
            hop(network("10.1.2.3", 0, None), "8.8.8.8"),
            near("8.8.8.8")
        );
        assert_eq!(hop(network("10.1.2.3", 32, None), "10.1.2.4"), None);
        let v6 = network("fd00::3", 64, Some("fd00::1"));
        assert_eq!(v6.check(), Ok(()));
        assert_eq!(hop(v6, "fd00::9"), near("fd00::9"));
        assert_eq!(hop(v6, "2001:db8::1"), near("fd00::1"));
        for nowhere in [
            "fd00::3",
            "ff02::1",
            "fe80::1",
            "::1",
            "::",
            "::ffff:10.0.0.1",
            "10.0.0.1",
        ] {
            assert_eq!(hop(v6, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn wrong_networks_are_told() {
        let wrong = |address: &str, prefix: u8, gateway: Option<&str>| {
            network(address, prefix, gateway).check().is_err()
        };
        assert!(wrong("10.0.0.1", 33, None));
        assert!(wrong("fd00::1", 129, None));
        assert!(wrong("10.0.0.255", 24, None));
        assert!(wrong("127.0.0.1", 8, None));
        assert!(wrong("10.0.0.1", 24, Some("10.0.1.1")));
        assert!(wrong("10.0.0.1", 24, Some("10.0.0.1")));
        assert!(wrong("10.0.0.1", 24, Some("fd00::1")));
    }
}
