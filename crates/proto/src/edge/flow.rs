//! What tells connections apart, and the table from them to leases.
//!
//! The hash has a key that nobody outside knows, so a stranger cannot choose ports that meet in one place of a table.
//! A stranger cannot fill one either: only leases are in them, never what came from the network.

use core::hash::{BuildHasher, Hash, Hasher};
use core::net::SocketAddr;

use barewire_units::{Duration, Instant};
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

use super::message::Protocol;

/// One connection, seen from the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The end at the bridge.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All in one write, so that the hash takes one pass. The addresses are of one version.
        let mut bytes = [0; 37];
        bytes[0] = self.protocol.number();
        bytes[1..3].copy_from_slice(&self.local.port().to_ne_bytes());
        bytes[3..5].copy_from_slice(&self.remote.port().to_ne_bytes());
        let len = match (self.local, self.remote) {
            (SocketAddr::V6(local), SocketAddr::V6(remote)) => {
                bytes[5..21].copy_from_slice(&local.ip().octets());
                bytes[21..37].copy_from_slice(&remote.ip().octets());
                37
            }
            (SocketAddr::V4(local), SocketAddr::V4(remote)) => {
                bytes[5..9].copy_from_slice(&local.ip().octets());
                bytes[9..13].copy_from_slice(&remote.ip().octets());
                13
            }
            // There is no such flow.
            _ => 5,
        };
        state.write(&bytes[..len]);
    }
}

/// A port of the bridge, of one protocol and version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortKey {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Whether it is of version 6.
    pub is_v6: bool,
    /// The number.
    pub port: u16,
}

impl PortKey {
    /// The port at the bridge's end of a connection.
    #[must_use]
    pub const fn of(protocol: Protocol, local: SocketAddr) -> Self {
        Self {
            protocol,
            is_v6: local.is_ipv6(),
            port: local.port(),
        }
    }
}

/// A key for hashes: 16 bytes that nobody outside may know.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 2]);

impl HashKey {
    /// From random numbers.
    #[must_use]
    pub const fn new(random: [u64; 2]) -> Self {
        Self(random)
    }
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl BuildHasher for HashKey {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

/// An instant, seen from an origin `by` later; what lies before that is then at the origin.
pub(super) fn rebased(at: Instant, by: Duration) -> Instant {
    Instant::ORIGIN.saturating_add(at.since_origin().saturating_sub(by))
}

/// A table with such a key.
pub type Keyed<K, V> = HashMap<K, V, HashKey>;
