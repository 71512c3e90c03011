//! The SAR-PDU: one cell payload of a message; bit table in the parent's header.
//! Source: itu-i363-3, SAR-PDU format.

use core::fmt;
use core::ops::Range;

use crate::atm::PAYLOAD_BYTES as SAR_BYTES;
use crate::crc10::{crc10, crc10_is_good};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

/// Bytes of a message that one segment carries at most.
pub const SEGMENT_BYTES: usize = 44;
/// Highest multiplexing identifier.
pub const MID_MAX: u16 = 0x3ff;
/// Sequence numbers count modulo this.
pub const SEQUENCE_MODULUS: u8 = 16;
/// What stands in LI where an EOM aborts its message.
pub const ABORT_LENGTH: u8 = 63;

const FORMAT: &str = "aal34";
const LENGTH_BITS: Range<usize> = 368..374;
const CRC_BITS: Range<usize> = 374..384;
/// Shortest EOM: the trailer of the CPCS-PDU.
const EOM_BYTES_MIN: u8 = 4;
/// Shortest SSM: header and trailer.
const SSM_BYTES_MIN: u8 = 8;

/// Which part of a message a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentType {
    /// Continuation of message.
    Com = 0b00,
    /// End of message.
    Eom = 0b01,
    /// Beginning of message.
    Bom = 0b10,
    /// Single segment message.
    Ssm = 0b11,
}

impl SegmentType {
    /// The type with this code, of which the low two bits count.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code & 3 {
            0b00 => Self::Com,
            0b01 => Self::Eom,
            0b10 => Self::Bom,
            _ => Self::Ssm,
        }
    }

    /// The name in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Com => "COM",
            Self::Eom => "EOM",
            Self::Bom => "BOM",
            Self::Ssm => "SSM",
        }
    }

    /// True where a message begins here.
    #[must_use]
    pub const fn begins(self) -> bool {
        matches!(self, Self::Bom | Self::Ssm)
    }

    /// True where a message ends here.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Eom | Self::Ssm)
    }

    /// Lengths that such a segment may have, and the words for it.
    const fn lengths(self) -> (u8, &'static str) {
        match self {
            Self::Com | Self::Bom => (SEGMENT_BYTES as u8, "44"),
            Self::Eom => (EOM_BYTES_MIN, "4 to 44, or 63 to abort"),
            Self::Ssm => (SSM_BYTES_MIN, "8 to 44"),
        }
    }
}

/// A view of the 48 bytes of a SAR-PDU.
#[derive(Clone, Copy, Debug)]
pub struct SarPdu<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> SarPdu<T> {
    /// A view without a check: the accessors panic on fewer than 48 bytes.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of exactly 48 bytes.
    ///
    /// # Errors
    /// [`Fault::Short`], [`Fault::Long`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        check_size(buffer.as_ref())?;
        Ok(Self { buffer })
    }

    /// The buffer again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn array(&self) -> &[u8; SAR_BYTES] {
        self.buffer
            .as_ref()
            .first_chunk()
            .expect("the caller of new_unchecked promised 48 bytes")
    }

    /// Which part of a message this is.
    pub fn segment_type(&self) -> SegmentType {
        SegmentType::from_code(self.array()[0] >> 6)
    }

    /// Sequence number, modulo 16.
    pub fn sequence(&self) -> u8 {
        (self.array()[0] >> 2) & 0xf
    }

    /// Multiplexing identifier.
    pub fn mid(&self) -> u16 {
        u16::from_be_bytes([self.array()[0], self.array()[1]]) & MID_MAX
    }

    /// LI as it stands: bytes of the segment that count, or [`ABORT_LENGTH`].
    pub fn length(&self) -> u8 {
        self.array()[46] >> 2
    }

    /// The check code as it stands.
    pub fn crc10(&self) -> u16 {
        u16::from_be_bytes([self.array()[46], self.array()[47]]) & 0x3ff
    }

    /// The check code that the other bits give.
    pub fn compute_crc10(&self) -> u16 {
        crc10(self.array())
    }

    /// All 44 bytes of the segment, whatever LI says.
    pub fn segment(&self) -> &[u8; SEGMENT_BYTES] {
        self.array()[2..]
            .first_chunk()
            .expect("46 bytes follow the first two")
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> SarPdu<T> {
    /// Sets which part of a message this is.
    pub fn set_segment_type(&mut self, segment_type: SegmentType) {
        let byte = &mut self.buffer.as_mut()[0];
        *byte = (*byte & 0x3f) | ((segment_type as u8) << 6);
    }

    /// Sets the sequence number, of which the low 4 bits count.
    pub fn set_sequence(&mut self, sequence: u8) {
        let byte = &mut self.buffer.as_mut()[0];
        *byte = (*byte & 0xc3) | ((sequence & 0xf) << 2);
    }

    /// Sets the multiplexing identifier, of which the low 10 bits count.
    pub fn set_mid(&mut self, mid: u16) {
        let bytes = self.buffer.as_mut();
        bytes[0] = (bytes[0] & 0xfc) | (mid >> 8) as u8 & 3;
        bytes[1] = mid as u8;
    }

    /// Sets LI, of which the low 6 bits count.
    pub fn set_length(&mut self, length: u8) {
        let byte = &mut self.buffer.as_mut()[46];
        *byte = (*byte & 3) | (length << 2);
    }

    /// Sets the check code, of which the low 10 bits count.
    pub fn set_crc10(&mut self, crc10: u16) {
        let bytes = self.buffer.as_mut();
        bytes[46] = (bytes[46] & 0xfc) | (crc10 >> 8) as u8 & 3;
        bytes[47] = crc10 as u8;
    }

    /// Computes the check code and sets it.
    pub fn fill_crc10(&mut self) {
        let crc10 = self.compute_crc10();
        self.set_crc10(crc10);
    }

    /// The 44 bytes of the segment, to be written.
    pub fn segment_mut(&mut self) -> &mut [u8; SEGMENT_BYTES] {
        self.buffer.as_mut()[2..]
            .first_chunk_mut()
            .expect("the caller of new_unchecked promised 48 bytes")
    }
}

/// What a SAR-PDU says besides its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarRepr {
    /// Which part of a message this is.
    pub segment_type: SegmentType,
    /// Sequence number, 0 to 15.
    pub sequence: u8,
    /// Multiplexing identifier, 0 to 1023.
    pub mid: u16,
    /// Bytes of the segment that count. None where the message is aborted.
    pub payload_bytes: u8,
}

impl SarRepr {
    /// An EOM that aborts its message.
    #[must_use]
    pub const fn abort(sequence: u8, mid: u16) -> Self {
        Self {
            segment_type: SegmentType::Eom,
            sequence,
            mid,
            payload_bytes: 0,
        }
    }

    /// True where the message is aborted: an EOM that carries nothing.
    #[must_use]
    pub const fn is_abort(&self) -> bool {
        matches!(self.segment_type, SegmentType::Eom) && self.payload_bytes == 0
    }

    /// Takes the PDU apart and checks everything, the check code first.
    ///
    /// # Errors
    /// On the fields `crc10` and `li`.
    pub fn parse<T: AsRef<[u8]>>(pdu: &SarPdu<T>) -> Result<Self, Error> {
        check_crc10(pdu)?;
        check_length(pdu.segment_type(), pdu.length())?;
        Ok(Self {
            segment_type: pdu.segment_type(),
            sequence: pdu.sequence(),
            mid: pdu.mid(),
            payload_bytes: match pdu.length() {
                ABORT_LENGTH => 0,
                length => length,
            },
        })
    }

    /// Bytes of the PDU.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        SAR_BYTES
    }

    /// Writes header, LI and check code around the segment, which stands there already;
    /// what does not count of it becomes zero.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, pdu: &mut SarPdu<T>) {
        let end = usize::from(self.payload_bytes).min(SEGMENT_BYTES);
        pdu.segment_mut()[end..].fill(0);
        pdu.set_segment_type(self.segment_type);
        pdu.set_sequence(self.sequence);
        pdu.set_mid(self.mid);
        pdu.set_length(if self.is_abort() {
            ABORT_LENGTH
        } else {
            self.payload_bytes
        });
        pdu.fill_crc10();
    }
}

impl fmt::Display for SarRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, sequence, mid) = (self.segment_type.name(), self.sequence, self.mid);
        write!(f, "AAL3/4 {name} sn={sequence} mid={mid} ")?;
        if self.is_abort() {
            return write!(f, "abort");
        }
        write!(f, "{} bytes", self.payload_bytes)
    }
}

fn check_size(bytes: &[u8]) -> Result<(), Error> {
    need(FORMAT, "pdu", bytes, SAR_BYTES)?;
    if bytes.len() == SAR_BYTES {
        return Ok(());
    }
    let fault = Fault::Long {
        allowed_bytes: SAR_BYTES,
        have_bytes: bytes.len(),
    };
    Err(Error::new(
        FORMAT,
        "pdu",
        SAR_BYTES * 8..bytes.len() * 8,
        fault,
    ))
}

fn check_crc10<T: AsRef<[u8]>>(pdu: &SarPdu<T>) -> Result<(), Error> {
    if crc10_is_good(pdu.array()) {
        return Ok(());
    }
    let fault = Fault::Check {
        computed: pdu.compute_crc10().into(),
        found: pdu.crc10().into(),
    };
    Err(Error::new(FORMAT, "crc10", CRC_BITS, fault))
}

fn check_length(segment_type: SegmentType, length: u8) -> Result<(), Error> {
    let (least, allowed) = segment_type.lengths();
    let aborts = segment_type == SegmentType::Eom && length == ABORT_LENGTH;
    if aborts || (least..=SEGMENT_BYTES as u8).contains(&length) {
        return Ok(());
    }
    let fault = Fault::Value {
        found: length.into(),
        allowed,
    };
    Err(Error::new(FORMAT, "li", LENGTH_BITS, fault))
}

/// Shows a SAR-PDU; every fault, not only the first.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let shift = |bits: Range<usize>| first_bit + bits.start..first_bit + bits.end;
    let wrong = |result: Result<(), Error>, sink: &mut dyn Sink| {
        if let Err(error) = result {
            sink.wrong(error.shifted(first_bit));
        }
    };
    sink.open("AAL3/4 SAR-PDU", shift(0..bytes.len() * 8));
    wrong(check_size(bytes), sink);
    if bytes.len() < SAR_BYTES {
        sink.field("pdu", shift(0..bytes.len() * 8), Value::Bytes(bytes));
        sink.close();
        return;
    }
    let pdu = SarPdu::new_unchecked(bytes);
    let (segment_type, length) = (pdu.segment_type(), pdu.length());
    let code = Value::Code(segment_type as u64, segment_type.name());
    sink.field("st", shift(0..2), code);
    sink.field("sn", shift(2..6), Value::Uint(pdu.sequence().into()));
    sink.field("mid", shift(6..16), Value::Uint(pdu.mid().into()));
    sink.field("segment", shift(16..368), Value::Bytes(pdu.segment()));
    let aborts = segment_type == SegmentType::Eom && length == ABORT_LENGTH;
    let value = if aborts {
        Value::Code(length.into(), "abort")
    } else {
        Value::Uint(length.into())
    };
    sink.field("li", shift(LENGTH_BITS), value);
    wrong(check_length(segment_type, length), sink);
    sink.field("crc10", shift(CRC_BITS), Value::Hex(pdu.crc10().into()));
    wrong(check_crc10(&pdu), sink);
    sink.close();
}
