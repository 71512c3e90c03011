//! The cell of 36 bytes, and its first word as MSDL reads it.
//!
//! Bit table in [the parent module](super). Source: cbn91, Fig 4 and Fig 5.

use core::fmt;

use super::{BODY_BYTES, CELL_BYTES, CELL_HEADER_BYTES, PART_BYTES_MAX};
use barewire_wire::{Error, Fault, need};

/// A cell of 36 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Cell<T> {
    /// The view, unchecked: accessors panic if there are less than 36 bytes.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// The view, if there are 36 bytes; more are ignored.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need("cbn-cell", "payload", buffer.as_ref(), CELL_BYTES)?;
        Ok(Self { buffer })
    }

    /// The bytes again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The first word: VCI and SAR.
    #[must_use]
    pub fn word(&self) -> u32 {
        u32::from_be_bytes(*part(self.buffer.as_ref(), 0))
    }

    /// The virtual circuit.
    #[must_use]
    pub fn vci(&self) -> u16 {
        u16::from_be_bytes(*part(self.buffer.as_ref(), 0))
    }

    /// The 16 segmentation bits that Fig 4 counts as data.
    #[must_use]
    pub fn sar(&self) -> u16 {
        u16::from_be_bytes(*part(self.buffer.as_ref(), 2))
    }

    /// The first word as MSDL reads it.
    #[must_use]
    pub fn msdl(&self) -> Msdl {
        Msdl::from_word(self.word())
    }

    /// The 32 bytes behind the first word.
    #[must_use]
    pub fn body(&self) -> &[u8; BODY_BYTES] {
        part(self.buffer.as_ref(), CELL_HEADER_BYTES)
    }

    /// The 272 data bits of Fig 4: SAR and payload.
    #[must_use]
    pub fn data(&self) -> &[u8; CELL_BYTES - 2] {
        part(self.buffer.as_ref(), 2)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Cell<T> {
    /// Writes the first word.
    pub fn set_word(&mut self, word: u32) {
        self.buffer.as_mut()[..CELL_HEADER_BYTES].copy_from_slice(&word.to_be_bytes());
    }

    /// The 32 bytes behind the first word, to be written.
    pub fn body_mut(&mut self) -> &mut [u8; BODY_BYTES] {
        part_mut(self.buffer.as_mut(), CELL_HEADER_BYTES)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CBN cell VCI {:#06x} SAR {:#06x}",
            self.vci(),
            self.sar()
        )
    }
}

/// `N` bytes from `at` on. Panics where the buffer ends before.
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("a checked length")
}

/// As [`part`], to be written.
pub(super) fn part_mut<const N: usize>(bytes: &mut [u8], at: usize) -> &mut [u8; N] {
    bytes[at..].first_chunk_mut().expect("a checked length")
}

/// The first word of a cell as MSDL reads it, also its representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Msdl {
    /// The virtual circuit.
    pub vci: u16,
    /// Cells of the block from this one on, itself included: 1 in the last one.
    pub sequence: u8,
    /// Which block of the circuit, 6 bits.
    pub rid: u8,
    /// Not all bytes of the body are valid; the last one counts those that are.
    pub part: bool,
    /// First cell of the block.
    pub start: bool,
}

impl Msdl {
    /// `VCI 16 | sequence 8 | RID 6 | part 1 | start 1`, most significant first.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        (self.vci as u32) << 16
            | (self.sequence as u32) << 8
            | (self.rid as u32 & 0x3f) << 2
            | (self.part as u32) << 1
            | self.start as u32
    }

    /// The fields of a first word.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self {
            vci: (word >> 16) as u16,
            sequence: (word >> 8) as u8,
            rid: (word >> 2) as u8 & 0x3f,
            part: word & 2 != 0,
            start: word & 1 != 0,
        }
    }

    /// The first word of a cell, checked against what one cell can show by itself.
    ///
    /// # Errors
    ///
    /// A sequence of zero; `part` with more than 31 valid bytes.
    pub fn parse<T: AsRef<[u8]>>(cell: &Cell<T>) -> Result<Self, Error> {
        let msdl = cell.msdl();
        msdl.check_sequence()?;
        msdl.valid_bytes(cell.body())?;
        Ok(msdl)
    }

    /// Bytes that a cell needs.
    #[must_use]
    pub const fn buffer_len() -> usize {
        CELL_BYTES
    }

    /// Writes the first word of `cell`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(self, cell: &mut Cell<T>) {
        cell.set_word(self.to_word());
    }

    /// Checks that the sequence is one that a cell can have.
    ///
    /// # Errors
    ///
    /// A sequence of zero.
    pub fn check_sequence(self) -> Result<(), Error> {
        if self.sequence > 0 {
            return Ok(());
        }
        let fault = Fault::Value {
            found: 0,
            allowed: "1 to 255",
        };
        Err(Error::new("msdl", "sequence", 16..24, fault))
    }

    /// How many bytes of `body` are valid.
    ///
    /// # Errors
    ///
    /// `part` with more than 31 of them.
    pub fn valid_bytes(self, body: &[u8; BODY_BYTES]) -> Result<usize, Error> {
        let count = usize::from(body[BODY_BYTES - 1]);
        match self.part {
            false => Ok(BODY_BYTES),
            true if count <= PART_BYTES_MAX => Ok(count),
            true => {
                let fault = Fault::Value {
                    found: count as u64,
                    allowed: "0 to 31",
                };
                let last_bit = CELL_BYTES * 8;
                Err(Error::new("msdl", "valid", last_bit - 8..last_bit, fault))
            }
        }
    }
}

impl fmt::Display for Msdl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            vci, sequence, rid, ..
        } = self;
        write!(f, "MSDL VCI {vci:#06x} sequence {sequence} RID {rid:#04x}")?;
        f.write_str(if self.part { " part" } else { "" })?;
        f.write_str(if self.start { " start" } else { "" })
    }
}
