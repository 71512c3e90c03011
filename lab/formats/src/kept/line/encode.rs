//! Bytes to levels: 4B5B and NRZI in one go.
//!
//! A table gives for every byte the ten levels that its two blocks leave on a line that was
//! low. Four of them side by side are 40 bits; the last bit of each says whether the next
//! one is inverted. Tables in [the parent module](super).
//!
//! Source: ansi-x3t9-4b5b, cbn91.

use super::code::DATA;
use super::{BLOCK_BITS, GAP, SYN};
use crate::cbn::{FRAME_BYTES, Frame};
use barewire_wire::{Error, need};

/// Levels of the ten bits of a byte, from a low line, first bit on top.
static LEVELS: [u16; 256] = {
    let mut levels = [0; 256];
    let mut byte = 0;
    while byte < levels.len() {
        let bits = (DATA[byte >> 4] as u16) << BLOCK_BITS | DATA[byte & 0xf] as u16;
        levels[byte] = levels_of(bits as u64, 10) as u16;
        byte += 1;
    }
    levels
};

/// Levels that `count` bits leave on a low line: each the sum of the bits up to it.
const fn levels_of(bits: u64, count: u32) -> u64 {
    let mut levels = bits;
    let mut shift = 1;
    while shift < count {
        levels ^= levels >> shift;
        shift *= 2;
    }
    levels
}

/// The lowest bit of each of four groups of ten.
const LAST_BITS: u64 = 1 << 30 | 1 << 20 | 1 << 10 | 1;
const MASK_40: u64 = (1 << 40) - 1;

/// A stream of levels, written to bytes, first level in the most significant bit.
///
/// Levels that do not fill a byte wait for the next call, or for [`Encoder::finish`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    /// The last level: 0 or 1.
    level: u64,
    /// Levels that wait, less than eight.
    pending: u64,
    pending_bits: u32,
}

impl Encoder {
    /// An encoder on a line that is low.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            level: 0,
            pending: 0,
            pending_bits: 0,
        }
    }

    /// Bytes of line that are complete after `blocks` more blocks.
    #[must_use]
    pub const fn line_bytes(&self, blocks: usize) -> usize {
        let bits = blocks.saturating_mul(BLOCK_BITS as usize);
        bits.saturating_add(self.pending_bits as usize) / 8
    }

    /// Writes `data`, and says how many bytes of `line` it took.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`](barewire_wire::Fault::Short) if they are not there; nothing is written.
    pub fn data(&mut self, data: &[u8], line: &mut [u8]) -> Result<usize, Error> {
        let line_bytes = self.line_bytes(data.len() * 2);
        need("line", "line", line, line_bytes)?;
        let eights = data.chunks_exact(8);
        let rest = eights.remainder();
        let mut at = 0;
        for (eight, ten) in eights.zip(line.chunks_exact_mut(10)) {
            let one = self.forty([eight[0], eight[1], eight[2], eight[3]]);
            let two = self.forty([eight[4], eight[5], eight[6], eight[7]]);
            ten[..8].copy_from_slice(&(one << 24 | two >> 16).to_be_bytes());
            ten[8..].copy_from_slice(&(two as u16).to_be_bytes());
            at += 10;
        }
        for &byte in rest {
            at += self.push(u64::from(LEVELS[usize::from(byte)]), 10, &mut line[at..]);
        }
        Ok(at)
    }

    /// Writes one block, which need not be data, and says how many bytes of `line` it took.
    ///
    /// # Errors
    ///
    /// As [`Encoder::data`].
    pub fn block(&mut self, block: u8, line: &mut [u8]) -> Result<usize, Error> {
        need("line", "line", line, self.line_bytes(1))?;
        let levels = levels_of(u64::from(block & 0x1f), BLOCK_BITS);
        Ok(self.push(levels, BLOCK_BITS, line))
    }

    /// Writes `blocks` gap symbols, and says how many bytes of `line` they took.
    ///
    /// # Errors
    ///
    /// As [`Encoder::data`].
    pub fn gap(&mut self, blocks: usize, line: &mut [u8]) -> Result<usize, Error> {
        need("line", "line", line, self.line_bytes(blocks))?;
        let mut at = 0;
        for _ in 0..blocks {
            at += self.block(GAP, &mut line[at..])?;
        }
        Ok(at)
    }

    /// Writes a backbone frame with `syn` for its header, as its bits stand there: the CRC
    /// is the caller's. Says how many bytes of `line` it took.
    ///
    /// # Errors
    ///
    /// As [`Encoder::data`].
    pub fn frame<T: AsRef<[u8]>>(
        &mut self,
        frame: &Frame<T>,
        line: &mut [u8],
    ) -> Result<usize, Error> {
        need("line", "line", line, self.line_bytes(super::FRAME_BLOCKS))?;
        let at = self.block(SYN, line)?;
        // Without the header nibble and the pad nibble: 148 bytes, half a byte further on.
        let bytes: &[u8; FRAME_BYTES] = frame.bytes();
        let nibbles: [u8; FRAME_BYTES - 1] =
            core::array::from_fn(|i| bytes[i] << 4 | bytes[i + 1] >> 4);
        Ok(at + self.data(&nibbles, &mut line[at..])?)
    }

    /// Writes what waits, filled up with the level as it is. Says how many bytes it took.
    ///
    /// # Errors
    ///
    /// As [`Encoder::data`].
    pub fn finish(&mut self, line: &mut [u8]) -> Result<usize, Error> {
        // The common case, in a branch that is always foreseen.
        if self.pending_bits == 0 {
            return Ok(0);
        }
        need("line", "line", line, 1)?;
        Ok(self.push(0, 8 - self.pending_bits, line))
    }

    /// The next 40 levels of the stream, when those of `bytes` have joined it.
    #[inline]
    fn forty(&mut self, bytes: [u8; 4]) -> u64 {
        let [one, two, three, four] = bytes;
        let of = |byte: u8| u64::from(LEVELS[usize::from(byte)]);
        let levels = of(one) << 30 | of(two) << 20 | of(three) << 10 | of(four);
        // The sum of the last bits up to each group inverts the group behind it.
        let mut last = levels & LAST_BITS;
        last ^= last >> 10;
        last ^= last >> 20;
        let inverted = (last >> 10) * 0x3ff;
        let levels = levels ^ inverted ^ (self.level.wrapping_neg() & MASK_40);
        self.level ^= last & 1;
        // The common case, in a branch that is always foreseen.
        if self.pending_bits == 0 {
            return levels;
        }
        let stream = self.pending << 40 | levels;
        self.pending = stream & ((1 << self.pending_bits) - 1);
        stream >> self.pending_bits
    }

    /// Appends `count` levels as they would be on a low line, at most ten, and writes the
    /// bytes that are complete.
    fn push(&mut self, levels: u64, count: u32, line: &mut [u8]) -> usize {
        let levels = levels ^ (self.level.wrapping_neg() & ((1 << count) - 1));
        self.level = levels & 1;
        let stream = self.pending << count | levels;
        let bits = self.pending_bits + count;
        let bytes = (bits / 8) as usize;
        for (i, byte) in line.iter_mut().take(bytes).enumerate() {
            *byte = (stream >> (bits as usize - 8 * (i + 1))) as u8;
        }
        self.pending_bits = bits % 8;
        self.pending = stream & ((1 << self.pending_bits) - 1);
        bytes
    }
}
