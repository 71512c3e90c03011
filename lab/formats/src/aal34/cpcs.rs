//! The CPCS-PDU of AAL3/4: the message with its tags and lengths; bit table in the
//! parent's header.
//! Source: itu-i363-3, CPCS-PDU format.

use core::fmt;
use core::ops::Range;

use super::PAYLOAD_BYTES_MAX;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

/// Bytes before the payload.
pub const CPCS_HEADER_BYTES: usize = 4;
/// Bytes behind the pad.
pub const CPCS_TRAILER_BYTES: usize = 4;
/// Longest PDU.
pub const PDU_BYTES_MAX: usize = pdu_bytes(PAYLOAD_BYTES_MAX);

const FORMAT: &str = "aal34-cpcs";
const WORD_BYTES: usize = 4;
const AROUND_BYTES: usize = CPCS_HEADER_BYTES + CPCS_TRAILER_BYTES;
/// Longest pad.
const PAD_BYTES_MAX: usize = WORD_BYTES - 1;

/// Bytes of the PDU with `payload_bytes`: a multiple of 4.
#[must_use]
pub const fn pdu_bytes(payload_bytes: usize) -> usize {
    payload_bytes
        .saturating_add(AROUND_BYTES)
        .div_ceil(WORD_BYTES)
        .saturating_mul(WORD_BYTES)
}

/// A view of a whole CPCS-PDU.
#[derive(Clone, Copy, Debug)]
pub struct CpcsPdu<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> CpcsPdu<T> {
    /// A view without a check: the accessors panic on fewer than 8 bytes.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a PDU of whole 32-bit words.
    ///
    /// # Errors
    /// [`Fault::Short`] below 8 bytes or where bytes are missing to a multiple of 4,
    /// [`Fault::Long`] beyond [`PDU_BYTES_MAX`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        check_size(buffer.as_ref())?;
        Ok(Self { buffer })
    }

    /// The buffer again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn byte(&self, at: usize) -> u8 {
        self.buffer.as_ref()[at]
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.byte(at), self.byte(at + 1)])
    }

    fn trailer_at(&self) -> usize {
        self.buffer.as_ref().len() - CPCS_TRAILER_BYTES
    }

    /// Where the payload ends: where Length says, at most at the trailer.
    fn payload_end(&self) -> usize {
        (CPCS_HEADER_BYTES + usize::from(self.length())).min(self.trailer_at())
    }

    /// Common part indicator: 0.
    pub fn cpi(&self) -> u8 {
        self.byte(0)
    }

    /// The tag at the beginning.
    pub fn beginning_tag(&self) -> u8 {
        self.byte(1)
    }

    /// Bytes that the receiver should set aside.
    pub fn buffer_allocation(&self) -> u16 {
        self.word(2)
    }

    /// The alignment byte: 0.
    pub fn alignment(&self) -> u8 {
        self.byte(self.trailer_at())
    }

    /// The tag at the end.
    pub fn end_tag(&self) -> u8 {
        self.byte(self.trailer_at() + 1)
    }

    /// Bytes of payload.
    pub fn length(&self) -> u16 {
        self.word(self.trailer_at() + 2)
    }

    /// As many bytes as Length says and there are.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[CPCS_HEADER_BYTES..self.payload_end()]
    }

    /// What stands between payload and trailer.
    pub fn pad(&self) -> &[u8] {
        &self.buffer.as_ref()[self.payload_end()..self.trailer_at()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> CpcsPdu<T> {
    /// Payload and pad, to be written: payload first.
    pub fn body_mut(&mut self) -> &mut [u8] {
        let at = self.trailer_at();
        &mut self.buffer.as_mut()[CPCS_HEADER_BYTES..at]
    }

    /// Sets the four bytes before the payload.
    pub fn set_header(&mut self, header: [u8; CPCS_HEADER_BYTES]) {
        self.buffer.as_mut()[..CPCS_HEADER_BYTES].copy_from_slice(&header);
    }

    /// Sets the four bytes behind the pad.
    pub fn set_trailer(&mut self, trailer: [u8; CPCS_TRAILER_BYTES]) {
        let at = self.trailer_at();
        self.buffer.as_mut()[at..].copy_from_slice(&trailer);
    }
}

/// What a CPCS-PDU says besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpcsRepr {
    /// Common part indicator. What [`CpcsRepr::parse`] gives has 0.
    pub cpi: u8,
    /// Btag and Etag.
    pub tag: u8,
    /// BASize: bytes that the receiver should set aside, at least the payload.
    pub buffer_allocation: u16,
    /// Bytes of payload.
    pub payload_bytes: u16,
}

impl CpcsRepr {
    /// Of a message whose length is known from the beginning.
    #[must_use]
    pub const fn new(tag: u8, payload_bytes: u16) -> Self {
        Self {
            cpi: 0,
            tag,
            buffer_allocation: payload_bytes,
            payload_bytes,
        }
    }

    /// Takes the PDU apart and checks everything.
    ///
    /// # Errors
    /// On the fields `cpi` and `al` (not 0), `etag` (not Btag), `length` (more than the
    /// PDU holds), `pad` (more than 3 bytes) and `basize` (less than Length).
    pub fn parse<T: AsRef<[u8]>>(pdu: &CpcsPdu<T>) -> Result<Self, Error> {
        for check in CHECKS {
            check(&CpcsPdu::new_unchecked(pdu.buffer.as_ref()))?;
        }
        Ok(Self {
            cpi: pdu.cpi(),
            tag: pdu.beginning_tag(),
            buffer_allocation: pdu.buffer_allocation(),
            payload_bytes: pdu.length(),
        })
    }

    /// Bytes of the PDU.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        pdu_bytes(self.payload_bytes as usize)
    }

    /// The four bytes before the payload.
    #[must_use]
    pub const fn header(&self) -> [u8; CPCS_HEADER_BYTES] {
        let [high, low] = self.buffer_allocation.to_be_bytes();
        [self.cpi, self.tag, high, low]
    }

    /// The four bytes behind the pad.
    #[must_use]
    pub const fn trailer(&self) -> [u8; CPCS_TRAILER_BYTES] {
        let [high, low] = self.payload_bytes.to_be_bytes();
        [0, self.tag, high, low]
    }

    /// Writes header, pad and trailer around the payload, which stands there already.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, pdu: &mut CpcsPdu<T>) {
        let body = pdu.body_mut();
        let payload_end = usize::from(self.payload_bytes).min(body.len());
        body[payload_end..].fill(0);
        pdu.set_header(self.header());
        pdu.set_trailer(self.trailer());
    }
}

impl fmt::Display for CpcsRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpi,
            tag,
            buffer_allocation,
            payload_bytes,
        } = self;
        write!(f, "AAL3/4 {payload_bytes} bytes tag={tag:#04x}")?;
        if buffer_allocation != payload_bytes {
            write!(f, " basize={buffer_allocation}")?;
        }
        if *cpi != 0 {
            write!(f, " cpi={cpi:#04x}")?;
        }
        Ok(())
    }
}

type Check = fn(&CpcsPdu<&[u8]>) -> Result<(), Error>;

/// In the order of the bits, but lengths before what depends on them.
const CHECKS: [Check; 5] = [
    check_cpi,
    check_alignment,
    check_tags,
    check_length,
    check_allocation,
];

fn check_size(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() > PDU_BYTES_MAX {
        let fault = Fault::Long {
            allowed_bytes: PDU_BYTES_MAX,
            have_bytes: bytes.len(),
        };
        let bits = PDU_BYTES_MAX * 8..bytes.len() * 8;
        return Err(Error::new(FORMAT, "pdu", bits, fault));
    }
    let words = bytes.len().max(AROUND_BYTES).div_ceil(WORD_BYTES);
    need(FORMAT, "pdu", bytes, words * WORD_BYTES)
}

/// A value that may not stand in the field of these bytes.
fn value(field: &'static str, bytes: Range<usize>, found: u64, allowed: &'static str) -> Error {
    let bits = bytes.start * 8..bytes.end * 8;
    Error::new(FORMAT, field, bits, Fault::Value { found, allowed })
}

fn check_cpi(pdu: &CpcsPdu<&[u8]>) -> Result<(), Error> {
    match pdu.cpi() {
        0 => Ok(()),
        cpi => Err(value("cpi", 0..1, cpi.into(), "0")),
    }
}

fn check_alignment(pdu: &CpcsPdu<&[u8]>) -> Result<(), Error> {
    let at = pdu.trailer_at();
    match pdu.alignment() {
        0 => Ok(()),
        alignment => Err(value("al", at..at + 1, alignment.into(), "0")),
    }
}

fn check_tags(pdu: &CpcsPdu<&[u8]>) -> Result<(), Error> {
    if pdu.beginning_tag() == pdu.end_tag() {
        return Ok(());
    }
    let at = pdu.trailer_at() + 1;
    let found = pdu.end_tag().into();
    Err(value("etag", at..at + 1, found, "the same as Btag"))
}

fn check_length(pdu: &CpcsPdu<&[u8]>) -> Result<(), Error> {
    let at = pdu.trailer_at();
    let payload_end = CPCS_HEADER_BYTES + usize::from(pdu.length());
    if payload_end > at {
        let found = pdu.length().into();
        let allowed = "at most the bytes before the trailer";
        return Err(value("length", at + 2..at + 4, found, allowed));
    }
    let pad_bytes = at - payload_end;
    if pad_bytes > PAD_BYTES_MAX {
        let fault = Fault::Long {
            allowed_bytes: PAD_BYTES_MAX,
            have_bytes: pad_bytes,
        };
        return Err(Error::new(FORMAT, "pad", payload_end * 8..at * 8, fault));
    }
    Ok(())
}

fn check_allocation(pdu: &CpcsPdu<&[u8]>) -> Result<(), Error> {
    if pdu.buffer_allocation() >= pdu.length() {
        return Ok(());
    }
    let found = pdu.buffer_allocation().into();
    Err(value("basize", 2..4, found, "at least Length"))
}

/// Shows a CPCS-PDU that takes all of `bytes`; every fault, not only the first.
pub fn describe_cpcs(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let shift = |bytes: Range<usize>| first_bit + bytes.start * 8..first_bit + bytes.end * 8;
    sink.open("AAL3/4 CPCS-PDU", shift(0..bytes.len()));
    if let Err(error) = check_size(bytes) {
        sink.wrong(error.shifted(first_bit));
    }
    if bytes.len() < AROUND_BYTES {
        sink.field("pdu", shift(0..bytes.len()), Value::Bytes(bytes));
        sink.close();
        return;
    }
    let pdu = CpcsPdu::new_unchecked(bytes);
    let (end, at) = (pdu.payload_end(), pdu.trailer_at());
    let hex = |value: u8| Value::Hex(value.into());
    let uint = |value: u16| Value::Uint(value.into());
    sink.field("cpi", shift(0..1), hex(pdu.cpi()));
    sink.field("btag", shift(1..2), hex(pdu.beginning_tag()));
    sink.field("basize", shift(2..4), uint(pdu.buffer_allocation()));
    sink.field("payload", shift(4..end), Value::Bytes(pdu.payload()));
    sink.field("pad", shift(end..at), Value::Bytes(pdu.pad()));
    sink.field("al", shift(at..at + 1), hex(pdu.alignment()));
    sink.field("etag", shift(at + 1..at + 2), hex(pdu.end_tag()));
    sink.field("length", shift(at + 2..at + 4), uint(pdu.length()));
    for check in CHECKS {
        if let Err(error) = check(&pdu) {
            sink.wrong(error.shifted(first_bit));
        }
    }
    sink.close();
}
