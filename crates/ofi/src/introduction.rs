//! The bytes of an offer, and what both sides say when they connect.
//!
//! An offer goes over a connection that both sides trust, but its sender may still lie. All
//! numbers are little endian, and what is reserved is zero:
//!
//! ```text
//! offer    0..4    "BWOF"
//!          4       version of this format and of the messages: 1
//!          5       4 or 6: kind of the address
//!          6..8    port
//!          8..24   address; one of IPv4 in the first four bytes
//!         24..40   key by which the answering side proves itself
//!         40..56   key by which the offering side proves itself
//!         56..58   slots to receive into
//!         58..60   reserved
//!         60..64   bytes of each slot
//!         64       bytes of the provider's name, 1 to 32
//!         65..     the name
//!
//! greeting 0..16   key
//!         16       version: 1
//!         17       reserved
//!         18..20   slots to receive into
//!         20..24   bytes of each slot
//! ```
//!
//! The greeting goes with the connection (the other side's greeting with its acceptance), and
//! is not encrypted. A provider may append bytes to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::OfiError;
use crate::flow::{BUFFERS_MIN, HEADER_BYTES};

const MAGIC: &[u8; 4] = b"BWOF";
const VERSION: u8 = 1;
const NAME_AT: usize = 65;
const NAME_BYTES_MAX: usize = 32;

/// Bytes of a greeting.
pub(crate) const GREETING_BYTES: usize = 24;

/// The most slots, and bytes of a slot, that we let the other side have.
const SLOTS_MAX: u32 = 4096;
const SLOT_BYTES_MAX: usize = 1 << 20;
/// The fewest bytes of a slot.
const SLOT_BYTES_MIN: usize = 64;

/// A random key of one link.
#[derive(Clone)]
pub(crate) struct Key(pub(crate) [u8; 16]);

impl Key {
    /// A new one, from the kernel.
    pub(crate) fn random() -> Result<Key, OfiError> {
        let mut bytes = [0; 16];
        let mut done = 0;
        while done < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[done..], rustix::rand::GetRandomFlags::empty())
            {
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(OfiError::kernel("asking for random bytes", errno)),
            }
        }
        Ok(Key(bytes))
    }

    /// Whether this is the key. Takes as long for every other one.
    fn is(&self, other: &[u8; 16]) -> bool {
        let differences = self.0.iter().zip(other).map(|(a, b)| a ^ b);
        std::hint::black_box(differences.fold(0, |all, one| all | one)) == 0
    }
}

/// What a side has to receive into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// How many slots.
    pub(crate) slots: u32,
    /// Bytes of each.
    pub(crate) slot_bytes: usize,
}

impl Room {
    fn check(slots: u16, slot_bytes: u32) -> Result<Room, String> {
        let (slots, slot_bytes) = (u32::from(slots), slot_bytes as usize);
        if !(BUFFERS_MIN..=SLOTS_MAX).contains(&slots) {
            return Err(format!("{slots} slots"));
        }
        if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&slot_bytes) {
            return Err(format!("slots of {slot_bytes} bytes"));
        }
        Ok(Room { slots, slot_bytes })
    }
}

const _: () = assert!(SLOT_BYTES_MIN > HEADER_BYTES);

/// What an offer says.
pub(crate) struct Introduction {
    /// The provider's name.
    pub(crate) provider: String,
    /// Where the offering side listens.
    pub(crate) address: SocketAddr,
    /// By which the answering side proves itself.
    pub(crate) answer_key: Key,
    /// By which the offering side proves itself.
    pub(crate) offer_key: Key,
    /// What the offering side has to receive into.
    pub(crate) room: Room,
}

impl Introduction {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; NAME_AT];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = VERSION;
        bytes[6..8].copy_from_slice(&self.address.port().to_le_bytes());
        match self.address.ip() {
            IpAddr::V4(ip) => {
                bytes[5] = 4;
                bytes[8..12].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes[5] = 6;
                bytes[8..24].copy_from_slice(&ip.octets());
            }
        }
        bytes[24..40].copy_from_slice(&self.answer_key.0);
        bytes[40..56].copy_from_slice(&self.offer_key.0);
        bytes[56..58].copy_from_slice(&(self.room.slots as u16).to_le_bytes());
        bytes[60..64].copy_from_slice(&(self.room.slot_bytes as u32).to_le_bytes());
        bytes[64] = self.provider.len() as u8;
        bytes.extend_from_slice(self.provider.as_bytes());
        bytes
    }

    /// Reads an offer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Introduction, OfiError> {
        parse(bytes).map_err(|reason| OfiError::Offer { reason })
    }
}

fn parse(bytes: &[u8]) -> Result<Introduction, String> {
    let Some((head, name)) = bytes.split_first_chunk::<NAME_AT>() else {
        return Err(format!(
            "{} bytes, at least {NAME_AT} expected",
            bytes.len()
        ));
    };
    if !head.starts_with(MAGIC) {
        return Err("it does not begin as one".into());
    }
    if head[4] != VERSION {
        return Err(format!("version {}, this side knows {VERSION}", head[4]));
    }
    if head[58..60] != [0, 0] {
        return Err("reserved bytes are not zero".into());
    }
    let port = u16::from_le_bytes(fixed(&head[6..8]));
    let ip = match head[5] {
        4 if head[12..24] == [0; 12] => IpAddr::V4(Ipv4Addr::from(fixed::<4>(&head[8..12]))),
        6 => IpAddr::V6(Ipv6Addr::from(fixed::<16>(&head[8..24]))),
        kind => return Err(format!("an address of kind {kind}")),
    };
    if port == 0 || ip.is_unspecified() || ip.is_multicast() {
        return Err(format!("nobody can be at {}", SocketAddr::new(ip, port)));
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-;".contains(byte);
    if usize::from(head[64]) != name.len() || !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(format!("a name of {} bytes, {} said", name.len(), head[64]));
    }
    if !name.iter().all(is_name) {
        return Err("a provider's name has other characters than letters and digits".into());
    }
    Ok(Introduction {
        provider: String::from_utf8_lossy(name).into_owned(),
        address: SocketAddr::new(ip, port),
        answer_key: Key(fixed(&head[24..40])),
        offer_key: Key(fixed(&head[40..56])),
        room: Room::check(
            u16::from_le_bytes(fixed(&head[56..58])),
            u32::from_le_bytes(fixed(&head[60..64])),
        )?,
    })
}

/// A range whose length the caller has checked.
fn fixed<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    bytes.try_into().expect("a range of this length")
}

/// What one side says when it connects.
pub(crate) fn greet(key: &Key, room: Room) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..16].copy_from_slice(&key.0);
    bytes[16] = VERSION;
    bytes[18..20].copy_from_slice(&(room.slots as u16).to_le_bytes());
    bytes[20..24].copy_from_slice(&(room.slot_bytes as u32).to_le_bytes());
    bytes
}

/// Reads a greeting. `None` if it is not by somebody who has the key.
///
/// # Errors
/// What is wrong, if it has the key and is nonsense.
pub(crate) fn hear(bytes: &[u8], key: &Key) -> Option<Result<Room, String>> {
    let head = bytes.first_chunk::<GREETING_BYTES>()?;
    if !key.is(&fixed(&head[..16])) {
        return None;
    }
    if head[16] != VERSION || head[17] != 0 {
        return Some(Err(format!(
            "version {}, this side knows {VERSION}",
            head[16]
        )));
    }
    let slots = u16::from_le_bytes(fixed(&head[18..20]));
    Some(Room::check(slots, u32::from_le_bytes(fixed(&head[20..24]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer(address: &str) -> Introduction {
        Introduction {
            provider: "tcp".into(),
            address: address.parse().unwrap(),
            answer_key: Key([1; 16]),
            offer_key: Key([2; 16]),
            room: Room {
                slots: 64,
                slot_bytes: 4096,
            },
        }
    }

    #[test]
    fn what_was_offered_is_read() {
        for address in ["10.1.2.3:4567", "[fd00::1]:65535"] {
            let read = Introduction::decode(&offer(address).encode()).unwrap();
            assert_eq!(read.address.to_string(), address);
            assert_eq!(read.provider, "tcp");
            assert_eq!((read.answer_key.0, read.offer_key.0), ([1; 16], [2; 16]));
            assert_eq!(read.room, offer(address).room);
        }
    }

    #[test]
    fn every_length_but_the_right_one_is_refused() {
        let good = offer("10.1.2.3:4567").encode();
        for length in 0..good.len() {
            assert!(Introduction::decode(&good[..length]).is_err(), "{length}");
        }
        let longer = [good, vec![b'x']].concat();
        assert!(Introduction::decode(&longer).is_err());
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        for (at, bytes) in [
            (0, &b"X"[..]),
            (4, &[2]),
            (5, &[5]),
            (6, &[0, 0]),
            (8, &[0; 4]),
            (8, &[224, 0, 0, 1]),
            (20, &[1]),
            (56, &[3, 0]),
            (56, &[1, 16]),
            (58, &[1]),
            (60, &[63, 0, 0, 0]),
            (60, &[1, 0, 16, 0]),
            (64, &[2]),
            (65, b"/"),
        ] {
            let mut wrong = offer("10.1.2.3:4567").encode();
            wrong[at..at + bytes.len()].copy_from_slice(bytes);
            assert!(Introduction::decode(&wrong).is_err(), "{at}: {bytes:?}");
        }
    }

    #[test]
    fn only_the_key_opens() {
        let room = offer("10.1.2.3:1").room;
        let greeting = greet(&Key([7; 16]), room);
        assert_eq!(hear(&greeting, &Key([7; 16])), Some(Ok(room)));
        for at in 0..16 {
            let mut wrong = [7; 16];
            wrong[at] ^= 1;
            assert_eq!(hear(&greeting, &Key(wrong)), None);
        }
        assert_eq!(hear(&greeting[..23], &Key([7; 16])), None);
        let mut other_version = greeting;
        other_version[16] = 2;
        assert!(matches!(hear(&other_version, &Key([7; 16])), Some(Err(_))));
        // A provider may give more bytes than were sent.
        let padded = [&greeting[..], &[0; 32]].concat();
        assert_eq!(hear(&padded, &Key([7; 16])), Some(Ok(room)));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Introduction::decode(&bytes);
            let _ = hear(&bytes, &Key([0; 16]));
        }

        #[test]
        fn what_is_accepted_is_what_was_meant(
            at in 0_usize..68, byte in any::<u8>(), cut in 0_usize..4,
        ) {
            let mut bytes = offer("10.1.2.3:4567").encode();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            if let Ok(read) = Introduction::decode(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }
    }
}
