//! The blocks of pcapng: layout, and the checks that hold for all of them.
//!
//! ```text
//! block       | type u32 | length u32 | body, padded to 4 | length u32 |
//! section     | 0x0a0d0d0a | length | 0x1a2b3c4d | major u16 = 1 | minor u16 | section length u64 | options | length |
//! interface   | 1 | length | link type u16 | 0 u16 | snap length u32 | options | length |
//! simple      | 3 | length | original length u32 | data, padded | length |
//! enhanced    | 6 | length | interface u32 | time high u32 | time low u32 | captured length u32
//!             |   | original length u32 | data, padded | options | length |
//! packet      | 2 | length | interface u16 | drops u16 | as enhanced (obsolete)
//! option      | code u16 | length u16 | value, padded to 4 |
//! ```
//!
//! Words are in the byte order of the section: the first word after the length of its
//! header tells. Options end with code 0, length 0, or with the block. Of them we know:
//! comment (1), interface name (2), time resolution (9: `10^-n` s, with bit 7 set `2^-n` s;
//! without it microseconds), and time offset (14: whole seconds to add, signed).
//!
//! Source: pcapng (draft-ietf-opsawg-pcapng, sections 3 and 4).

use core::ops::Range;

use super::order::{ByteOrder, Words};
use crate::error::{Error, Fault};

/// Longest block or record that we take: what is longer is taken for a broken length.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

pub(super) const FORMAT: &str = "pcapng";
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
pub(super) const PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const ORDER_MAGIC: u32 = 0x1a2b_3c4d;
pub(super) const MAJOR: u16 = 1;

pub(super) const OPTION_END: u16 = 0;
pub(super) const OPTION_COMMENT: u16 = 1;
pub(super) const OPTION_NAME: u16 = 2;
pub(super) const OPTION_RESOLUTION: u16 = 9;
pub(super) const OPTION_TIME_OFFSET: u16 = 14;

/// Type and length in front of every body, in bytes.
pub(super) const HEAD_BYTES: usize = 8;
/// The length behind every body, in bytes.
pub(super) const TAIL_BYTES: usize = 4;

/// An error about `field`, which stands at `bytes` of the format's own bytes.
pub(super) const fn value(
    format: &'static str,
    field: &'static str,
    bytes: Range<usize>,
    found: u64,
    allowed: &'static str,
) -> Error {
    let bits = bytes.start * 8..bytes.end * 8;
    Error::new(format, field, bits, Fault::Value { found, allowed })
}

/// Shortest block of a type, in bytes.
const fn shortest(kind: u32) -> usize {
    match kind {
        SECTION => 28,
        INTERFACE => 20,
        SIMPLE_PACKET => 16,
        PACKET | ENHANCED_PACKET => 32,
        _ => HEAD_BYTES + TAIL_BYTES,
    }
}

/// The order of the section whose header has these bytes as its magic.
pub(super) fn section_order(bytes: [u8; 4]) -> Result<ByteOrder, Error> {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        if order.u32(bytes) == ORDER_MAGIC {
            return Ok(order);
        }
    }
    let found = u64::from(u32::from_be_bytes(bytes));
    let allowed = "0x1a2b3c4d in either byte order";
    Err(value(FORMAT, "byte-order magic", 8..12, found, allowed))
}

/// The length of the block that begins with `head`, in bytes.
pub(super) fn length(head: Words<'_>) -> Result<usize, Error> {
    let (kind, length) = (head.u32(0), head.u32(4));
    let wrong = |allowed| value(FORMAT, "block length", 4..8, u64::from(length), allowed);
    let length_bytes = length as usize;
    if length_bytes % 4 != 0 {
        return Err(wrong("a multiple of 4"));
    }
    if length_bytes < shortest(kind) {
        return Err(wrong("at least the fixed fields of the block's type"));
    }
    if length_bytes > BLOCK_BYTES_MAX {
        return Err(wrong("at most 16 MiB"));
    }
    Ok(length_bytes)
}

/// Checks that a whole block ends with the length that it begins with.
pub(super) fn check_tail(block: Words<'_>) -> Result<(), Error> {
    let at = block.bytes.len() - TAIL_BYTES;
    let found = block.u32(at);
    if found as usize == block.bytes.len() {
        return Ok(());
    }
    let allowed = "the length at the beginning of the block";
    let bytes = at..at + TAIL_BYTES;
    Err(value(
        FORMAT,
        "length at the end",
        bytes,
        u64::from(found),
        allowed,
    ))
}

/// An option of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opt<'a> {
    /// Where it begins in the block.
    pub at: usize,
    pub code: u16,
    pub value: &'a [u8],
}

/// The options of a block, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    /// Where `bytes` begin in the block.
    at: usize,
}

impl<'a> Options<'a> {
    /// No options.
    pub const NONE: Self = Self {
        bytes: &[],
        order: ByteOrder::Little,
        at: 0,
    };

    /// The options of `block` from `at` on, each of them whole.
    pub fn of(block: Words<'a>, at: usize) -> Result<Self, Error> {
        let end = block.bytes.len() - TAIL_BYTES;
        let options = Self {
            bytes: block.bytes.get(at..end).unwrap_or_default(),
            order: block.order,
            at,
        };
        let mut rest = options;
        while rest.next().is_some() {}
        if rest.bytes.is_empty() {
            return Ok(options);
        }
        let (_, length_bytes) = rest.head();
        let fault = Fault::Short {
            needed_bytes: 4 + length_bytes,
            have_bytes: rest.bytes.len(),
        };
        Err(Error::new(FORMAT, "option", rest.at * 8..end * 8, fault))
    }

    /// Code and length of the next option.
    fn head(self) -> (u16, usize) {
        let words = Words {
            bytes: self.bytes,
            order: self.order,
        };
        (words.u16(0), usize::from(words.u16(2)))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Opt<'a>;

    /// The next option. At the end nothing is left, at one that does not fit it is.
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let (code, length_bytes) = self.head();
        if code == OPTION_END {
            self.bytes = &[];
            return None;
        }
        let value = self.bytes.get(4..4 + length_bytes)?;
        let padded = 4 + length_bytes.next_multiple_of(4);
        self.bytes = self.bytes.get(padded..)?;
        let at = self.at;
        self.at += padded;
        Some(Opt { at, code, value })
    }
}

/// The comments on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comments<'a>(pub(super) Options<'a>);

impl<'a> Iterator for Comments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.find_map(|option| match option.code {
            OPTION_COMMENT => core::str::from_utf8(option.value).ok(),
            _ => None,
        })
    }
}
