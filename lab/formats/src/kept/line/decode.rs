//! Levels to bytes: NRZI and 4B5B in one go, from a known first bit.
//!
//! A bit is the change from the level before; a table gives for every ten bits the byte, or
//! a mark that one of its blocks is no data. Where the first bit is not known, use the
//! [`Receiver`](super::Receiver). Tables in [the parent module](super).
//!
//! Source: ansi-x3t9-4b5b, cbn91.

use super::BLOCK_BITS;
use super::code::Symbol;
use barewire_wire::{Error, need};

/// Mark of ten bits that are not two data blocks.
const NOT_DATA: u16 = 0x100;

/// The byte of ten bits; a block that is no data counts as zero.
static BYTES: [u16; 1024] = {
    let mut bytes = [0; 1024];
    let mut bits = 0;
    while bits < bytes.len() {
        let (upper, lower) = (nibble(bits >> 5), nibble(bits & 0x1f));
        bytes[bits] = (upper & 0xf) << 4 | lower & 0xf | (upper | lower) & NOT_DATA;
        bits += 1;
    }
    bytes
};

const fn nibble(block: usize) -> u16 {
    match Symbol::from_block(block as u8) {
        Symbol::Data(nibble) => nibble as u16,
        _ => NOT_DATA,
    }
}

/// A block that is no data, where data was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFault {
    /// First bit of the block, counted from the first bit of the stream.
    pub first_bit: u64,
    /// What stands there.
    pub symbol: Symbol,
}

/// A stream of levels, read as data blocks from its first bit on.
///
/// Bits that do not fill a byte of data wait for the next call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    /// The last level: 0 or 1.
    level: u64,
    /// Bits that wait, less than ten.
    pending: u64,
    pending_bits: u32,
    /// Where the first bit that waits stands in the stream.
    first_bit: u64,
}

impl Decoder {
    /// A decoder on a line that is low.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            level: 0,
            pending: 0,
            pending_bits: 0,
            first_bit: 0,
        }
    }

    /// Bytes of data that are complete after `line_bytes` more bytes of line.
    #[must_use]
    pub const fn data_bytes(&self, line_bytes: usize) -> usize {
        line_bytes
            .saturating_mul(8)
            .saturating_add(self.pending_bits as usize)
            / 10
    }

    /// Reads `line`, and says how many bytes of `data` it gave. A block that is no data goes
    /// to `fault`, and gives a nibble of zero.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`](barewire_wire::Fault::Short) if `data` has no room; nothing is read.
    pub fn data(
        &mut self,
        line: &[u8],
        data: &mut [u8],
        mut fault: impl FnMut(CodeFault),
    ) -> Result<usize, Error> {
        need("line", "data", data, self.data_bytes(line.len()))?;
        let tens = line.chunks_exact(10);
        let rest = tens.remainder();
        let mut at = 0;
        for (ten, eight) in tens.zip(data.chunks_exact_mut(8)) {
            let (Some(first), Some(last)) = (ten.first_chunk(), ten.last_chunk()) else {
                continue;
            };
            let first = u64::from_be_bytes(*first);
            let last = u64::from(u16::from_be_bytes(*last));
            let upper = self.forty(first >> 24);
            let lower = self.forty((first & 0xff_ffff) << 16 | last);
            let (upper_bytes, upper_marks) = four_bytes(upper);
            let (lower_bytes, lower_marks) = four_bytes(lower);
            let bytes = u64::from(upper_bytes) << 32 | u64::from(lower_bytes);
            eight.copy_from_slice(&bytes.to_be_bytes());
            if (upper_marks | lower_marks) & NOT_DATA != 0 {
                report(upper, 40, self.first_bit, &mut fault);
                report(lower, 40, self.first_bit + 40, &mut fault);
            }
            self.first_bit += 80;
            at += 8;
        }
        for &byte in rest {
            at += self.eight(byte, &mut data[at..], &mut fault);
        }
        Ok(at)
    }

    /// Takes 40 levels, and gives the next 40 bits of the stream.
    #[inline]
    fn forty(&mut self, levels: u64) -> u64 {
        let bits = levels ^ (levels >> 1 | self.level << 39);
        self.level = levels & 1;
        // The common case, in a branch that is always foreseen.
        if self.pending_bits == 0 {
            return bits;
        }
        let stream = self.pending << 40 | bits;
        self.pending = stream & ((1 << self.pending_bits) - 1);
        stream >> self.pending_bits
    }

    /// Takes eight levels, and gives a byte of the stream if there are ten bits of it.
    fn eight(&mut self, levels: u8, data: &mut [u8], fault: &mut impl FnMut(CodeFault)) -> usize {
        let levels = u64::from(levels);
        let bits = levels ^ (levels >> 1 | self.level << 7);
        self.level = levels & 1;
        self.pending = self.pending << 8 | bits;
        self.pending_bits += 8;
        if self.pending_bits < 10 {
            return 0;
        }
        self.pending_bits -= 10;
        let bits = self.pending >> self.pending_bits;
        self.pending &= (1 << self.pending_bits) - 1;
        let byte = BYTES[bits as usize & 0x3ff];
        data[0] = byte as u8;
        if byte & NOT_DATA != 0 {
            report(bits, 10, self.first_bit, fault);
        }
        self.first_bit += 10;
        1
    }
}

/// The four bytes of 40 bits, and the marks of all of them.
#[inline]
fn four_bytes(bits: u64) -> (u32, u16) {
    let one = BYTES[(bits >> 30) as usize & 0x3ff];
    let two = BYTES[(bits >> 20) as usize & 0x3ff];
    let three = BYTES[(bits >> 10) as usize & 0x3ff];
    let four = BYTES[bits as usize & 0x3ff];
    let bytes = u32::from_be_bytes([one as u8, two as u8, three as u8, four as u8]);
    (bytes, one | two | three | four)
}

/// Reports every block among `count` bits that is no data.
#[cold]
fn report(bits: u64, count: u32, first_bit: u64, fault: &mut impl FnMut(CodeFault)) {
    for at in (0..count).step_by(BLOCK_BITS as usize) {
        let symbol = Symbol::from_block((bits >> (count - BLOCK_BITS - at)) as u8);
        if !matches!(symbol, Symbol::Data(_)) {
            fault(CodeFault {
                first_bit: first_bit + u64::from(at),
                symbol,
            });
        }
    }
}
