//! The first bytes that two proxies exchange: whether they can talk to each other, and whether they are on one host.
//!
//! ```text
//! | offset | size | what                                                   |
//! |      0 |    8 | "barewire"                                             |
//! |      8 |    4 | version of what two hosts must agree on, little-endian |
//! |     12 |    4 | 0x01020304 in the byte order of the host               |
//! |     16 |   16 | id of the node                                         |
//! |     32 |   16 | id of this boot of the host's kernel                   |
//! |     48 |    8 | network namespace: inode number, little-endian         |
//! |     56 |    4 | process id                                             |
//! |     60 |    4 | user id                                                |
//! |     64 |    4 | flags, little-endian: 1 wants the link over libfabric  |
//! |     68 |    4 | zero                                                   |
//! ```
//! Source: own design (`docs/decisions/0035`).

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Bytes of a greeting.
pub(crate) const GREETING_BYTES: usize = 72;
const MAGIC: [u8; 8] = *b"barewire";
/// Version of everything that two hosts must agree on: records, control messages and the layout of a ring.
const VERSION: u32 = 2;
const FLAG_LIBFABRIC: u32 = 1;
const BYTE_ORDER: u32 = 0x0102_0304;

/// Who a node is, as it says to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub node_id: [u64; 2],
    boot_id: [u8; 16],
    network_namespace: u64,
    pub pid: u32,
    pub uid: u32,
    flags: u32,
}

impl Greeting {
    /// That of a node of this process.
    pub fn own(node_id: [u64; 2], pid: u32, uid: u32) -> Greeting {
        Greeting {
            node_id,
            boot_id: boot_id().unwrap_or_default(),
            network_namespace: fs::metadata("/proc/self/ns/net").map_or(0, |found| found.ino()),
            pid,
            uid,
            flags: 0,
        }
    }

    /// As that of a node that wants its links over libfabric.
    pub fn wanting_libfabric(self) -> Greeting {
        Greeting {
            flags: self.flags | FLAG_LIBFABRIC,
            ..self
        }
    }

    /// Whether both want the link over libfabric.
    pub fn agrees_on_libfabric(&self, other: &Greeting) -> bool {
        self.flags & other.flags & FLAG_LIBFABRIC != 0
    }

    /// As that of a node that is on no host that any other is on.
    pub fn of_nowhere(self) -> Greeting {
        Greeting {
            boot_id: [0; 16],
            ..self
        }
    }

    /// Whether the two nodes reach each other through shared memory, by a name: they are on one host, in one network
    /// namespace, of one user.
    pub fn is_local_to(&self, other: &Greeting) -> bool {
        self.boot_id != [0; 16]
            && self.network_namespace != 0
            && (self.boot_id, self.network_namespace, self.uid)
                == (other.boot_id, other.network_namespace, other.uid)
    }

    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        let parts: [&[u8]; 10] = [
            &MAGIC,
            &VERSION.to_le_bytes(),
            &BYTE_ORDER.to_ne_bytes(),
            &self.node_id[0].to_le_bytes(),
            &self.node_id[1].to_le_bytes(),
            &self.boot_id,
            &self.network_namespace.to_le_bytes(),
            &self.pid.to_le_bytes(),
            &self.uid.to_le_bytes(),
            &self.flags.to_le_bytes(),
        ];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }

    /// # Errors
    /// Why this is nobody to talk to, for people.
    pub fn parse(bytes: &[u8; GREETING_BYTES]) -> Result<Greeting, String> {
        fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            let mut part = [0; N];
            part.copy_from_slice(&bytes[at..at + N]);
            part
        }
        if bytes[..8] != MAGIC {
            return Err(
                "it does not speak the protocol of Barewire: is this the right port?".into(),
            );
        }
        let version = u32::from_le_bytes(part(bytes, 8));
        if version != VERSION {
            return Err(format!(
                "it speaks version {version} of the protocol between hosts, and this node version {VERSION}"
            ));
        }
        if part(bytes, 12) != BYTE_ORDER.to_ne_bytes() {
            return Err("its processor has another byte order".into());
        }
        Ok(Greeting {
            node_id: [16, 24].map(|at| u64::from_le_bytes(part(bytes, at))),
            boot_id: part(bytes, 32),
            network_namespace: u64::from_le_bytes(part(bytes, 48)),
            pid: u32::from_le_bytes(part(bytes, 56)),
            uid: u32::from_le_bytes(part(bytes, 60)),
            flags: u32::from_le_bytes(part(bytes, 64)),
        })
    }
}

/// The kernel's name for this boot: differs between hosts.
fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (digits.len() == 32).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_round_trip_and_name_what_is_wrong() {
        let own = Greeting::own([1, 2], 3, 4);
        let bytes = own.encode();
        assert_eq!(Greeting::parse(&bytes), Ok(own));
        assert!(own.is_local_to(&own));
        for (at, reason) in [(0, "right port"), (8, "version"), (12, "byte order")] {
            let mut wrong = bytes;
            wrong[at] ^= 0x40;
            let error = Greeting::parse(&wrong).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn another_boot_namespace_or_user_is_not_local() {
        let own = Greeting::own([1, 2], 3, 4);
        let mut other = own;
        other.boot_id[3] ^= 1;
        assert!(!own.is_local_to(&other));
        assert!(!own.is_local_to(&Greeting { uid: 5, ..own }));
        let elsewhere = own.network_namespace + 1;
        assert!(!own.is_local_to(&Greeting {
            network_namespace: elsewhere,
            ..own
        }));
    }
}
