//! The cell of the Cambridge Fast Ring, and how a CBN cell becomes one and comes back.
//!
//! ```text
//! |  0..15  | address 16: the VCI |
//! | 16..271 | data 256            |
//! ```
//! cbn91 says that CBN is compatible with the cells of the Fast Ring, and no more. `OPEN`,
//! and ours: the two bytes in front ([`ADDRESS_BYTES`]), that they hold the VCI unchanged,
//! that the 32 bytes are the payload of Fig 4 ([`DATA_BYTES`]), and the SAR bits of a cell
//! that comes from a ring without them ([`SAR_UNKNOWN`]). The Fast Ring's own flags and
//! check code belong to its hardware and are not part of this cell.
//!
//! Source: cbn91, section on the ring (Fast Ring compatibility).

use core::fmt;

use super::{BODY_BYTES, Cell};
use barewire_wire::{Error, need};

/// Bytes of the address. `OPEN` in the source.
pub const ADDRESS_BYTES: usize = 2;
/// Bytes of data. `OPEN` in the source.
pub const DATA_BYTES: usize = 32;
/// Bytes of a Fast Ring cell.
pub const CELL_BYTES: usize = ADDRESS_BYTES + DATA_BYTES;
/// SAR bits of a cell that comes from the Fast Ring without any: as MSDL, no cell of any
/// block (sequence 0). `OPEN` in the source.
pub const SAR_UNKNOWN: u16 = 0;

const _: () = assert!(DATA_BYTES == BODY_BYTES);

/// A Fast Ring cell of 34 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfrCell<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> CfrCell<T> {
    /// The view, unchecked: accessors panic if there are less than 34 bytes.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// The view, if there are 34 bytes; more are ignored.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`](barewire_wire::Fault::Short).
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need("cfr", "data", buffer.as_ref(), CELL_BYTES)?;
        Ok(Self { buffer })
    }

    /// The bytes again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The address: a VCI.
    #[must_use]
    pub fn vci(&self) -> u16 {
        u16::from_be_bytes(*super::cell::part(self.buffer.as_ref(), 0))
    }

    /// The data.
    #[must_use]
    pub fn data(&self) -> &[u8; DATA_BYTES] {
        super::cell::part(self.buffer.as_ref(), ADDRESS_BYTES)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for CfrCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CFR cell VCI {:#06x}", self.vci())
    }
}

/// What a Fast Ring cell holds; every 34 bytes are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfrRepr {
    /// The address: a VCI.
    pub vci: u16,
    /// The data.
    pub data: [u8; DATA_BYTES],
}

impl CfrRepr {
    /// What the cell holds.
    ///
    /// # Errors
    ///
    /// None: the format has no field that can be wrong.
    pub fn parse<T: AsRef<[u8]>>(cell: &CfrCell<T>) -> Result<Self, Error> {
        Ok(Self {
            vci: cell.vci(),
            data: *cell.data(),
        })
    }

    /// Bytes that a cell needs.
    #[must_use]
    pub const fn buffer_len() -> usize {
        CELL_BYTES
    }

    /// Writes the cell.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, cell: &mut CfrCell<T>) {
        let bytes = cell.buffer.as_mut();
        bytes[..ADDRESS_BYTES].copy_from_slice(&self.vci.to_be_bytes());
        bytes[ADDRESS_BYTES..CELL_BYTES].copy_from_slice(&self.data);
    }

    /// A CBN cell as one of the Fast Ring, and beside it the SAR bits, which find no place
    /// there: whoever needs them again hands them to [`CfrRepr::to_cbn`].
    pub fn from_cbn<T: AsRef<[u8]>>(cell: &Cell<T>) -> (Self, u16) {
        let cfr = Self {
            vci: cell.vci(),
            data: *cell.body(),
        };
        (cfr, cell.sar())
    }

    /// The CBN cell, with the SAR bits that [`CfrRepr::from_cbn`] gave, or [`SAR_UNKNOWN`].
    pub fn to_cbn<T: AsRef<[u8]> + AsMut<[u8]>>(&self, sar: u16, cell: &mut Cell<T>) {
        cell.set_word(u32::from(self.vci) << 16 | u32::from(sar));
        *cell.body_mut() = self.data;
    }
}

impl fmt::Display for CfrRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CFR cell VCI {:#06x}", self.vci)
    }
}
