//! Network addresses, and the names of listeners that they stand for.
//!
//! An address has a part for the host and a discriminator. The host part is 4 bytes, as an address of the Internet
//! Protocol: 127.0.0.1 is the device `barewire0` of this host, 127.0.0.2 is `barewire1`, and so on. A discriminator has
//! up to [`DISCRIMINATOR_BYTES_MAX`] bytes and is chosen by programs. A server listens under a name that device and
//! discriminator give. So all programs of a user in a network namespace share the discriminators of a device.

use std::fmt::Write as _;

/// Bytes of the host part.
pub(crate) const HOST_BYTES: usize = 4;
/// Most bytes of a discriminator.
pub(crate) const DISCRIMINATOR_BYTES_MAX: usize = 16;
/// Devices: `barewire0` and so on.
pub(crate) const DEVICES: u8 = 10;

/// An address of this host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) device: u8,
    pub(crate) discriminator: Vec<u8>,
}

/// How two VIs are brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// A client asks, a server waits and accepts.
    ClientServer,
    /// Both ask for each other.
    Peer,
}

/// The host part of the address of a device.
pub(crate) const fn host(device: u8) -> [u8; HOST_BYTES] {
    [127, 0, 0, 1 + device]
}

/// The same, if there is such a device.
pub(crate) fn host_of(device: u8) -> Option<[u8; HOST_BYTES]> {
    (device < DEVICES).then(|| host(device))
}

/// The device whose address has this host part.
pub(crate) fn device_of(host_part: &[u8]) -> Option<u8> {
    (0..DEVICES).find(|&device| host_part == host(device))
}

/// The device of this name.
pub(crate) fn device_named(name: &[u8]) -> Option<u8> {
    let digit = *name.strip_prefix(b"barewire")?.first()?;
    let device = digit.checked_sub(b'0')?;
    (name.len() == 9 && device < DEVICES).then_some(device)
}

impl Address {
    /// Reads it from its two parts.
    pub(crate) fn read(host_part: &[u8], discriminator: &[u8]) -> Option<Address> {
        let short = discriminator.len() <= DISCRIMINATOR_BYTES_MAX;
        Some(Address {
            device: device_of(host_part)?,
            discriminator: short.then(|| discriminator.to_vec())?,
        })
    }

    /// The name that is listened to under it.
    pub(crate) fn name(&self, model: Model) -> String {
        let model = match model {
            Model::ClientServer => 's',
            Model::Peer => 'p',
        };
        let mut name = format!("vipl-{}-{model}-", self.device);
        for byte in &self.discriminator {
            // Writing to a text does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names() {
        let address = Address::read(&host(3), &[1, 0xab]).unwrap();
        assert_eq!(address.name(Model::ClientServer), "vipl-3-s-01ab");
        assert_eq!(address.name(Model::Peer), "vipl-3-p-01ab");
        assert_eq!(Address::read(&[127, 0, 0, 11], &[1]), None);
        assert_eq!(Address::read(&[127, 0, 0], &[1]), None);
        assert_eq!(Address::read(&host(0), &[0; 17]), None);
        assert_eq!(device_named(b"barewire9"), Some(9));
        for name in [
            &b"barewire"[..],
            b"barewire10",
            b"barewirex",
            b"VINIC0",
            b"",
        ] {
            assert_eq!(device_named(name), None);
        }
    }
}
