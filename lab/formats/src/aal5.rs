//! AAL5: the CPCS-PDU that is cut into 48-byte cell payloads as it stands.
//!
//! ```text
//! | payload 0..65535 | PAD 0..47 | UU 8 | CPI 8 | Length 16 | CRC-32 32 |  big-endian
//! ```
//!
//! | field | bytes from the end | meaning |
//! |---|---|---|
//! | pad | 8 + 0..47 | fills the PDU to a multiple of 48 bytes; any value, zero when sent |
//! | uu | 8 | user-to-user indication, passed through |
//! | cpi | 7 | common part indicator, 0 |
//! | length | 6..5 | bytes of payload; 0 aborts the PDU, whatever stands before |
//! | crc32 | 4..1 | over everything before it, see [`Crc32`] |
//!
//! The last cell of a PDU is marked in its header (ATM-user-to-user bit 1). A PDU
//! without payload cannot be told from an abort.
//! Source: itu-i363-5, CPCS-PDU format; check values: docs/sources/vectors.md; the residue
//! as a card appends it, jet93.

mod crc32;
#[cfg(test)]
pub(crate) mod shown;
#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::Range;

pub use crc32::{Crc32, GOOD, RESIDUE, crc32};

use crate::atm::PAYLOAD_BYTES as CELL_PAYLOAD_BYTES;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 8;
/// Longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 65_535;
/// Longest pad.
pub const PAD_BYTES_MAX: usize = CELL_PAYLOAD_BYTES - 1;
/// Longest PDU: 1366 cell payloads.
pub const PDU_BYTES_MAX: usize = pdu_bytes(PAYLOAD_BYTES_MAX);

const FORMAT: &str = "aal5";
const CRC_BYTES: usize = 4;

/// Bytes of the PDU with `payload_bytes`: the next multiple of 48 that holds the trailer too.
#[must_use]
pub const fn pdu_bytes(payload_bytes: usize) -> usize {
    payload_bytes
        .saturating_add(TRAILER_BYTES)
        .div_ceil(CELL_PAYLOAD_BYTES)
        .saturating_mul(CELL_PAYLOAD_BYTES)
}

/// A view of the eight bytes of a trailer.
#[derive(Clone, Copy, Debug)]
pub struct Trailer<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Trailer<T> {
    /// A view without a check: the accessors panic on fewer than [`TRAILER_BYTES`].
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of at least [`TRAILER_BYTES`].
    ///
    /// # Errors
    /// [`Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "trailer", buffer.as_ref(), TRAILER_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.buffer.as_ref();
        core::array::from_fn(|i| bytes[at + i])
    }

    /// User-to-user indication.
    pub fn uu(&self) -> u8 {
        self.buffer.as_ref()[0]
    }

    /// Common part indicator: 0.
    pub fn cpi(&self) -> u8 {
        self.buffer.as_ref()[1]
    }

    /// Bytes of payload; 0 is an abort.
    pub fn length(&self) -> u16 {
        u16::from_be_bytes(self.bytes(2))
    }

    /// The check code as it stands.
    pub fn crc32(&self) -> u32 {
        u32::from_be_bytes(self.bytes(4))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Trailer<T> {
    /// Sets the user-to-user indication.
    pub fn set_uu(&mut self, uu: u8) {
        self.buffer.as_mut()[0] = uu;
    }

    /// Sets the common part indicator.
    pub fn set_cpi(&mut self, cpi: u8) {
        self.buffer.as_mut()[1] = cpi;
    }

    /// Sets the length of the payload.
    pub fn set_length(&mut self, length: u16) {
        self.buffer.as_mut()[2..4].copy_from_slice(&length.to_be_bytes());
    }

    /// Sets the check code.
    pub fn set_crc32(&mut self, crc32: u32) {
        self.buffer.as_mut()[4..8].copy_from_slice(&crc32.to_be_bytes());
    }
}

/// The fields of a trailer, not yet held against the PDU before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailerRepr {
    /// User-to-user indication.
    pub uu: u8,
    /// Common part indicator: 0.
    pub cpi: u8,
    /// Bytes of payload; 0 is an abort.
    pub length: u16,
    /// Check code.
    pub crc32: u32,
}

impl TrailerRepr {
    /// The fields as they stand.
    pub fn parse<T: AsRef<[u8]>>(trailer: &Trailer<T>) -> Self {
        Self {
            uu: trailer.uu(),
            cpi: trailer.cpi(),
            length: trailer.length(),
            crc32: trailer.crc32(),
        }
    }

    /// Bytes that [`TrailerRepr::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        TRAILER_BYTES
    }

    /// Writes the fields.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, trailer: &mut Trailer<T>) {
        trailer.set_uu(self.uu);
        trailer.set_cpi(self.cpi);
        trailer.set_length(self.length);
        trailer.set_crc32(self.crc32);
    }
}

impl fmt::Display for TrailerRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uu, cpi, .. } = self;
        let (length, crc32) = (self.length, self.crc32);
        write!(
            f,
            "AAL5 trailer uu={uu:#04x} cpi={cpi:#04x} length={length} crc32={crc32:#010x}"
        )
    }
}

/// A view of a whole CPCS-PDU: payload, pad and trailer.
#[derive(Clone, Copy, Debug)]
pub struct Pdu<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Pdu<T> {
    /// A view without a check: the accessors panic on fewer than [`TRAILER_BYTES`].
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a PDU of whole cells.
    ///
    /// # Errors
    /// [`Fault::Short`] where bytes are missing to a multiple of 48, [`Fault::Long`]
    /// beyond [`PDU_BYTES_MAX`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        check_size(buffer.as_ref())?;
        Ok(Self { buffer })
    }

    /// The buffer again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn trailer_at(&self) -> usize {
        self.buffer.as_ref().len() - TRAILER_BYTES
    }

    /// Where the payload ends: where Length says, at most at the trailer.
    fn payload_end(&self) -> usize {
        usize::from(self.trailer().length()).min(self.trailer_at())
    }

    /// The trailer.
    pub fn trailer(&self) -> Trailer<&[u8]> {
        Trailer::new_unchecked(&self.buffer.as_ref()[self.trailer_at()..])
    }

    /// As many bytes as Length says and there are.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[..self.payload_end()]
    }

    /// What stands between payload and trailer.
    pub fn pad(&self) -> &[u8] {
        &self.buffer.as_ref()[self.payload_end()..self.trailer_at()]
    }

    /// The check code that the bytes before it give.
    pub fn compute_crc32(&self) -> u32 {
        let bytes = self.buffer.as_ref();
        crc32(&bytes[..bytes.len() - CRC_BYTES])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Pdu<T> {
    /// The trailer, to be written.
    pub fn trailer_mut(&mut self) -> Trailer<&mut [u8]> {
        let at = self.trailer_at();
        Trailer::new_unchecked(&mut self.buffer.as_mut()[at..])
    }

    /// Everything before the trailer, to be written: payload first.
    pub fn body_mut(&mut self) -> &mut [u8] {
        let at = self.trailer_at();
        &mut self.buffer.as_mut()[..at]
    }

    /// Computes the check code and sets it.
    pub fn fill_crc32(&mut self) {
        let crc32 = self.compute_crc32();
        self.trailer_mut().set_crc32(crc32);
    }
}

/// What a PDU says besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduRepr {
    /// User-to-user indication.
    pub uu: u8,
    /// Common part indicator. What [`PduRepr::parse`] gives has 0.
    pub cpi: u8,
    /// Bytes of payload; 0 is an abort.
    pub payload_bytes: u16,
}

impl PduRepr {
    /// The sender gave this PDU up.
    pub const ABORT: Self = Self {
        uu: 0,
        cpi: 0,
        payload_bytes: 0,
    };

    /// True where the sender gave the PDU up.
    #[must_use]
    pub const fn is_abort(&self) -> bool {
        self.payload_bytes == 0
    }

    /// Takes the PDU apart and checks everything. The check code comes first: where it
    /// fails, no other field can be trusted.
    ///
    /// # Errors
    /// On the fields `crc32`, `cpi` (not 0), `length` (more than the PDU holds) and
    /// `pad` (more than 47 bytes; an abort may have any).
    pub fn parse<T: AsRef<[u8]>>(pdu: &Pdu<T>) -> Result<Self, Error> {
        let trailer = TrailerRepr::parse(&pdu.trailer());
        let at = pdu.trailer_at();
        check_crc32(pdu, at)?;
        check_cpi(trailer.cpi, at)?;
        check_length(trailer.length, at)?;
        Ok(Self {
            uu: trailer.uu,
            cpi: trailer.cpi,
            payload_bytes: trailer.length,
        })
    }

    /// Bytes of the PDU.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        pdu_bytes(self.payload_bytes as usize)
    }

    /// Writes pad, trailer and check code behind the payload, which stands there already.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, pdu: &mut Pdu<T>) {
        let body = pdu.body_mut();
        let payload_end = usize::from(self.payload_bytes).min(body.len());
        body[payload_end..].fill(0);
        let trailer = TrailerRepr {
            uu: self.uu,
            cpi: self.cpi,
            length: self.payload_bytes,
            crc32: 0,
        };
        trailer.emit(&mut pdu.trailer_mut());
        pdu.fill_crc32();
    }
}

impl fmt::Display for PduRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_abort() {
            return write!(f, "AAL5 abort");
        }
        write!(f, "AAL5 {} bytes", self.payload_bytes)?;
        if self.uu != 0 {
            write!(f, " uu={:#04x}", self.uu)?;
        }
        if self.cpi != 0 {
            write!(f, " cpi={:#04x}", self.cpi)?;
        }
        Ok(())
    }
}

fn check_size(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() > PDU_BYTES_MAX {
        let fault = Fault::Long {
            allowed_bytes: PDU_BYTES_MAX,
            have_bytes: bytes.len(),
        };
        let bits = PDU_BYTES_MAX * 8..bytes.len() * 8;
        return Err(Error::new(FORMAT, "pdu", bits, fault));
    }
    let cells = bytes.len().div_ceil(CELL_PAYLOAD_BYTES).max(1);
    need(FORMAT, "pdu", bytes, cells * CELL_PAYLOAD_BYTES)
}

/// Bits of the `bytes` of a PDU.
const fn bits(bytes: Range<usize>) -> Range<usize> {
    bytes.start * 8..bytes.end * 8
}

fn check_crc32<T: AsRef<[u8]>>(pdu: &Pdu<T>, trailer_at: usize) -> Result<(), Error> {
    let (computed, found) = (pdu.compute_crc32(), pdu.trailer().crc32());
    if computed == found {
        return Ok(());
    }
    let fault = Fault::Check { computed, found };
    let at = bits(trailer_at + 4..trailer_at + 8);
    Err(Error::new(FORMAT, "crc32", at, fault))
}

fn check_cpi(cpi: u8, trailer_at: usize) -> Result<(), Error> {
    if cpi == 0 {
        return Ok(());
    }
    let fault = Fault::Value {
        found: cpi.into(),
        allowed: "0",
    };
    let at = bits(trailer_at + 1..trailer_at + 2);
    Err(Error::new(FORMAT, "cpi", at, fault))
}

fn check_length(length: u16, trailer_at: usize) -> Result<(), Error> {
    let payload_end = usize::from(length);
    if payload_end > trailer_at {
        let fault = Fault::Value {
            found: length.into(),
            allowed: "at most the bytes before the trailer",
        };
        let at = bits(trailer_at + 2..trailer_at + 4);
        return Err(Error::new(FORMAT, "length", at, fault));
    }
    let pad_bytes = trailer_at - payload_end;
    if length != 0 && pad_bytes > PAD_BYTES_MAX {
        let fault = Fault::Long {
            allowed_bytes: PAD_BYTES_MAX,
            have_bytes: pad_bytes,
        };
        let at = bits(payload_end..trailer_at);
        return Err(Error::new(FORMAT, "pad", at, fault));
    }
    Ok(())
}

/// Shows a PDU that takes all of `bytes`; every fault, not only the first.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let shift = |bytes: Range<usize>| first_bit + bytes.start * 8..first_bit + bytes.end * 8;
    sink.open("AAL5 CPCS-PDU", shift(0..bytes.len()));
    let wrong = |result: Result<(), Error>, sink: &mut dyn Sink| {
        if let Err(error) = result {
            sink.wrong(error.shifted(first_bit));
        }
    };
    wrong(check_size(bytes), sink);
    if bytes.len() < TRAILER_BYTES {
        sink.field("payload", shift(0..bytes.len()), Value::Bytes(bytes));
        sink.close();
        return;
    }
    let pdu = Pdu::new_unchecked(bytes);
    let (end, at) = (pdu.payload_end(), pdu.trailer_at());
    let trailer = TrailerRepr::parse(&pdu.trailer());
    sink.field("payload", shift(0..end), Value::Bytes(pdu.payload()));
    sink.field("pad", shift(end..at), Value::Bytes(pdu.pad()));
    sink.field("uu", shift(at..at + 1), Value::Hex(trailer.uu.into()));
    sink.field("cpi", shift(at + 1..at + 2), Value::Hex(trailer.cpi.into()));
    wrong(check_cpi(trailer.cpi, at), sink);
    let length = match trailer.length {
        0 => Value::Code(0, "abort"),
        length => Value::Uint(length.into()),
    };
    sink.field("length", shift(at + 2..at + 4), length);
    wrong(check_length(trailer.length, at), sink);
    let crc32 = Value::Hex(trailer.crc32.into());
    sink.field("crc32", shift(at + 4..at + 8), crc32);
    wrong(check_crc32(&pdu, at), sink);
    sink.close();
}
