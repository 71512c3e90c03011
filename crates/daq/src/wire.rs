//! What parts say to each other: pieces of fragments, and control messages. All numbers are
//! little-endian. A message on a connection holds either pieces one after the other, or one
//! batch of control messages.
//!
//! Source: ours; CRC-32C is that of RFC 3720 (polynomial 0x1EDC6F41, reflected).
//!
//! # A piece of a fragment
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic 0xB1 0xE5 |
//! | 2 | 1 | version: 2 |
//! | 3 | 1 | kind: 1 |
//! | 4 | 4 | run |
//! | 8 | 8 | event |
//! | 16 | 8 | time of the trigger, ns on the clock of the manager |
//! | 24 | 8 | sequence number among the fragments from this source to this builder |
//! | 32 | 2 | source |
//! | 34 | 2 | zero |
//! | 36 | 4 | bytes of the fragment |
//! | 40 | 4 | offset of the piece in it |
//! | 44 | 4 | bytes of the piece |
//! | 48 | 4 | CRC-32C of the piece's bytes |
//! | 52 | 4 | CRC-32C of bytes 0 to 51 |
//! | 56 | | the piece's bytes |
//!
//! # A batch of control messages
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic 0xB1 0xE5 |
//! | 2 | 1 | version: 2 |
//! | 3 | 1 | kind: 2 |
//! | 4 | 4 | CRC-32C of bytes 0 to 3 and of those from 8 on |
//! | 8 | | messages, each a tag byte and its fields: [`Control`] |

mod control;

use crate::limits::FRAGMENT_BYTES_MAX;
pub use crate::limits::PIECE_HEADER_BYTES;
pub use control::{Batch, Control, Role};

const MAGIC: [u8; 2] = [0xb1, 0xe5];
const VERSION: u8 = 2;
const KIND_PIECE: u8 = 1;
const KIND_CONTROL: u8 = 2;

/// What is wrong with bytes that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end too early.
    #[error("{what}: {found} bytes, {needed} needed")]
    Short {
        /// What was read.
        what: &'static str,
        /// Bytes there.
        found: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// Not ours.
    #[error("magic {0:02x?}, expected [b1, e5]")]
    Magic([u8; 2]),
    /// Another version.
    #[error(
        "version {0}, expected {VERSION}: all parts of a run must be of one release of Barewire"
    )]
    Version(u8),
    /// Neither pieces nor control messages, or not that which belongs here.
    #[error("kind {0}")]
    Kind(u8),
    /// A check code is wrong.
    #[error("{what}: CRC-32C {found:08x}, computed {computed:08x}")]
    Crc {
        /// Of what.
        what: &'static str,
        /// As it came.
        found: u32,
        /// As it should be.
        computed: u32,
    },
    /// A field holds what it cannot.
    #[error("{field}: {value} is not possible")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

/// CRC-32C.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The header of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceHeader {
    /// The run.
    pub run: u32,
    /// The event.
    pub event: u64,
    /// When it was triggered, in ns on the manager's clock.
    pub at_ns: u64,
    /// Number among the fragments from this source to this builder.
    pub sequence: u64,
    /// The source.
    pub source: u16,
    /// Bytes of the fragment.
    pub fragment_bytes: u32,
    /// Where in it the piece begins.
    pub offset: u32,
    /// Bytes of the piece.
    pub bytes: u32,
    /// CRC-32C of those.
    pub crc: u32,
}

impl PieceHeader {
    /// As bytes, with its check code.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; PIECE_HEADER_BYTES] {
        let mut bytes = [0; PIECE_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &[MAGIC[0], MAGIC[1], VERSION, KIND_PIECE]);
        put(4, &self.run.to_le_bytes());
        put(8, &self.event.to_le_bytes());
        put(16, &self.at_ns.to_le_bytes());
        put(24, &self.sequence.to_le_bytes());
        put(32, &self.source.to_le_bytes());
        put(36, &self.fragment_bytes.to_le_bytes());
        put(40, &self.offset.to_le_bytes());
        put(44, &self.bytes.to_le_bytes());
        put(48, &self.crc.to_le_bytes());
        let crc = crc32c(&bytes[..52]);
        bytes[52..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// It is short, not one of ours, spoilt, or its piece does not lie in its fragment.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let Some(bytes) = bytes.first_chunk::<PIECE_HEADER_BYTES>() else {
            return Err(WireError::Short {
                what: "header of a piece",
                found: bytes.len(),
                needed: PIECE_HEADER_BYTES,
            });
        };
        check_start(bytes, KIND_PIECE)?;
        let (found, computed) = (u32_at(bytes, 52), crc32c(&bytes[..52]));
        if found != computed {
            return Err(WireError::Crc {
                what: "header of a piece",
                found,
                computed,
            });
        }
        let header = Self {
            run: u32_at(bytes, 4),
            event: u64_at(bytes, 8),
            at_ns: u64_at(bytes, 16),
            sequence: u64_at(bytes, 24),
            source: u16::from_le_bytes([bytes[32], bytes[33]]),
            fragment_bytes: u32_at(bytes, 36),
            offset: u32_at(bytes, 40),
            bytes: u32_at(bytes, 44),
            crc: u32_at(bytes, 48),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), WireError> {
        if u64::from(self.fragment_bytes) > FRAGMENT_BYTES_MAX {
            return Err(WireError::Value {
                field: "bytes of the fragment",
                value: u64::from(self.fragment_bytes),
            });
        }
        if u64::from(self.offset) + u64::from(self.bytes) > u64::from(self.fragment_bytes) {
            return Err(WireError::Value {
                field: "end of the piece",
                value: u64::from(self.offset) + u64::from(self.bytes),
            });
        }
        Ok(())
    }

    /// Whether it is the last of its fragment.
    #[must_use]
    pub const fn ends(&self) -> bool {
        self.offset + self.bytes == self.fragment_bytes
    }
}

fn check_start(bytes: &[u8], kind: u8) -> Result<(), WireError> {
    match *bytes {
        [a, b, ..] if [a, b] != MAGIC => Err(WireError::Magic([a, b])),
        [_, _, version, ..] if version != VERSION => Err(WireError::Version(version)),
        [_, _, _, found, ..] if found != kind => Err(WireError::Kind(found)),
        [_, _, _, _, ..] => Ok(()),
        _ => Err(WireError::Short {
            what: "start of a message",
            found: bytes.len(),
            needed: 4,
        }),
    }
}

/// Whether a message holds control messages, not pieces.
#[must_use]
pub fn is_control(start: &[u8]) -> bool {
    start.get(3) == Some(&KIND_CONTROL)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
