//! Netlink: the frame of questions to the kernel about sockets, links and queues, and of its answers.
//!
//! All numbers are in the machine's byte order. Attributes are padded to 4 bytes.
//!
//! | message | bytes | | attribute | bytes |
//! |---|---|---|---|---|
//! | length, with this header | 4 | | length, with this header | 2 |
//! | kind | 2 | | kind, highest bit: holds attributes | 2 |
//! | flags | 2 | | value | |
//! | sequence | 4 | | | |
//! | port | 4 | | | |

use core::ffi::c_int;

use crate::{Result, name};

/// Bytes in front of a message.
pub const HEADER_BYTES: usize = 16;
/// Bytes in front of an attribute.
pub const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The bit in the kind of an attribute that holds others.
pub const NESTED: u16 = 0x8000;

/// A socket to ask the network namespace of the calling thread. `protocol`: `NETLINK_ROUTE` ...
pub fn socket(protocol: c_int) -> Result<c_int> {
    name::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)
}

/// The attributes in some bytes, as far as they are whole: kind and value.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (header, _) = bytes.split_first_chunk::<ATTRIBUTE_HEADER_BYTES>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !NESTED;
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a kind.
#[must_use]
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|it| it.0 == kind).map(|it| it.1)
}
