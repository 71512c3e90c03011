//! The record of Endace's extensible record format, in captures of link type `ERF`.
//!
//! ```text
//! | bytes  | field         |                                                            |
//! |  0..8  | time          | seconds since 1970, 32.32 bits, little-endian               |
//! |  8     | type          | bit 0: extension headers follow; 1..8: 2 Ethernet, 3 ATM,   |
//! |        |               | 4 AAL5, 24 raw link                                        |
//! |  9     | flags         | bits 6..8 interface, 5 varying length, 4 truncated,         |
//! |        |               | 3 receive error                                            |
//! | 10..12 | record length | with all headers                                           |
//! | 12..14 | loss counter  |                                                            |
//! | 14..16 | wire length   |                                                            |
//! | 16..   | extension headers, 8 bytes each, bit 0 of each: another follows; payload   |
//! ```
//!
//! Payload of ATM: the cell without its HEC, 4 + 48 bytes. Of AAL5: the first four bytes of
//! a cell header, then the PDU with its trailer. Of a raw link: a SONET or SDH frame after
//! the scrambler, which Wireshark shows as `sdh`; it takes an STS-3c unless its preference
//! `sdh.data.rate` says otherwise. Of Ethernet: two bytes of padding, then the frame.
//!
//! Source: endace-erf (types 2, 3, 4 and 24).

use core::fmt;
use core::ops::Range;

use crate::error::{Error, Fault, need};
use crate::tree::{Sink, Value};

const FORMAT: &str = "erf";
/// Length of the header without extensions.
pub const HEADER_BYTES: usize = 16;
const EXTENSION_BYTES: usize = 8;
const MORE: u8 = 0x80;
const VARYING_LENGTH: u8 = 0x04;
const NS_PER_S: u64 = 1_000_000_000;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Ethernet frame behind two bytes of padding.
    Ethernet,
    /// A cell without its HEC.
    Cell,
    /// A cell header without its HEC, and an AAL5 PDU.
    Aal5,
    /// A SONET or SDH frame.
    RawLink,
    /// A type that we do not know; 7 bits.
    Unknown(u8),
}

impl Kind {
    /// The kind with this code, of which the low 7 bits count.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code & !MORE {
            2 => Self::Ethernet,
            3 => Self::Cell,
            4 => Self::Aal5,
            24 => Self::RawLink,
            code => Self::Unknown(code),
        }
    }

    /// The code of this kind.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ethernet => 2,
            Self::Cell => 3,
            Self::Aal5 => 4,
            Self::RawLink => 24,
            Self::Unknown(code) => code & !MORE,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::Cell => "ATM",
            Self::Aal5 => "AAL5",
            Self::RawLink => "raw link",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A view of a record.
#[derive(Clone, Debug)]
pub struct Record<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Record<T> {
    /// A view of `buffer`, whose accessors panic if it is too short.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of `buffer`, which holds all headers.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], and [`Fault::Value`] for a record length that leaves no room for
    /// the headers.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let bytes = buffer.as_ref();
        need(FORMAT, "header", bytes, HEADER_BYTES)?;
        let mut end = HEADER_BYTES;
        let mut more = bytes[8] & MORE != 0;
        while more {
            need(FORMAT, "extension header", bytes, end + EXTENSION_BYTES)?;
            more = bytes[end] & MORE != 0;
            end += EXTENSION_BYTES;
        }
        let record = Self { buffer };
        let found = record.record_bytes();
        if usize::from(found) < end {
            let fault = Fault::Value {
                found: found.into(),
                allowed: "at least the length of the headers",
            };
            return Err(Error::new(FORMAT, "record length", 80..96, fault));
        }
        Ok(record)
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Time in units of 2^-32 seconds since 1970.
    pub fn time(&self) -> u64 {
        let bytes = self.buffer.as_ref();
        u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ])
    }

    /// What the record holds.
    pub fn kind(&self) -> Kind {
        Kind::from_code(self.buffer.as_ref()[8])
    }

    /// The interface that captured it, 0 to 3.
    pub fn interface(&self) -> u8 {
        self.buffer.as_ref()[9] & 3
    }

    /// Length of the record with its headers.
    pub fn record_bytes(&self) -> u16 {
        self.u16(10)
    }

    /// Records lost before this one.
    pub fn lost_records(&self) -> u16 {
        self.u16(12)
    }

    /// Length of the packet on the wire.
    pub fn wire_bytes(&self) -> u16 {
        self.u16(14)
    }

    /// Where the payload stands in the buffer: behind all headers, up to the end of the
    /// record or of what was captured.
    pub fn payload_range(&self) -> Range<usize> {
        let bytes = self.buffer.as_ref();
        let mut begin = HEADER_BYTES;
        let mut more = bytes[8] & MORE != 0;
        while more {
            more = bytes[begin] & MORE != 0;
            begin += EXTENSION_BYTES;
        }
        begin..bytes.len().min(self.record_bytes().into()).max(begin)
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = self.buffer.as_ref();
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Record<T> {
    /// Sets the time, in units of 2^-32 seconds since 1970.
    pub fn set_time(&mut self, time: u64) {
        self.buffer.as_mut()[..8].copy_from_slice(&time.to_le_bytes());
    }

    /// Sets the type, without extension headers.
    pub fn set_kind(&mut self, kind: Kind) {
        self.buffer.as_mut()[8] = kind.code();
    }

    /// Sets the interface, of which two bits count, and that records vary in length.
    pub fn set_interface(&mut self, interface: u8) {
        self.buffer.as_mut()[9] = interface & 3 | VARYING_LENGTH;
    }

    /// Sets the length of the record with its headers.
    pub fn set_record_bytes(&mut self, record_bytes: u16) {
        self.buffer.as_mut()[10..12].copy_from_slice(&record_bytes.to_be_bytes());
    }

    /// Sets the number of records lost before this one.
    pub fn set_lost_records(&mut self, lost_records: u16) {
        self.buffer.as_mut()[12..14].copy_from_slice(&lost_records.to_be_bytes());
    }

    /// Sets the length of the packet on the wire.
    pub fn set_wire_bytes(&mut self, wire_bytes: u16) {
        self.buffer.as_mut()[14..16].copy_from_slice(&wire_bytes.to_be_bytes());
    }
}

/// The header of a record as values, without extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRepr {
    /// Nanoseconds since 1970. What is after February 2106 becomes the last moment that
    /// the format has.
    pub time_ns: u64,
    /// What the record holds.
    pub kind: Kind,
    /// The interface that captured it, 0 to 3.
    pub interface: u8,
    /// Length of the payload, at most 65 519 bytes: the format has no room for more.
    pub payload_bytes: u16,
    /// Length of the packet on the wire.
    pub wire_bytes: u16,
}

impl RecordRepr {
    /// The values of a view; extension headers are passed over.
    ///
    /// # Errors
    ///
    /// None beyond those of [`Record::new_checked`].
    pub fn parse<T: AsRef<[u8]>>(record: &Record<T>) -> Result<Self, Error> {
        let (seconds, fraction) = (record.time() >> 32, record.time() & 0xffff_ffff);
        let payload_bytes = usize::from(record.record_bytes()) - record.payload_range().start;
        Ok(Self {
            time_ns: seconds * NS_PER_S + ((fraction * NS_PER_S) >> 32),
            kind: record.kind(),
            interface: record.interface(),
            payload_bytes: payload_bytes as u16,
            wire_bytes: record.wire_bytes(),
        })
    }

    /// Bytes that [`RecordRepr::emit`] writes: the header, without the payload.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, record: &mut Record<T>) {
        let seconds = (self.time_ns / NS_PER_S).min(u32::MAX.into());
        // Rounded up, so that rounding down gives the same nanosecond.
        let fraction = ((self.time_ns % NS_PER_S) << 32).div_ceil(NS_PER_S);
        record.set_time(seconds << 32 | fraction);
        record.set_kind(self.kind);
        record.set_interface(self.interface);
        record.set_record_bytes(self.payload_bytes.saturating_add(HEADER_BYTES as u16));
        record.set_lost_records(0);
        record.set_wire_bytes(self.wire_bytes);
    }

    /// The header itself.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut record = Record::new_unchecked([0; HEADER_BYTES]);
        self.emit(&mut record);
        record.into_inner()
    }
}

impl fmt::Display for RecordRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.name();
        write!(
            f,
            "{kind} record, {} bytes, interface {}",
            self.payload_bytes, self.interface
        )
    }
}

/// Shows the header of a record, and the payload as bytes.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open("ERF record", first_bit..first_bit + bytes.len() * 8);
    match Record::new_checked(bytes) {
        Ok(record) => describe_record(&record, first_bit, sink),
        Err(error) => sink.wrong(error.shifted(first_bit)),
    }
    sink.close();
}

fn describe_record(record: &Record<&[u8]>, first_bit: usize, sink: &mut dyn Sink) {
    let bits = |range: Range<usize>| first_bit + range.start..first_bit + range.end;
    let kind = record.kind();
    let payload = record.payload_range();
    let code = Value::Code(kind.code().into(), kind.name());
    sink.field("time", bits(0..64), Value::Hex(record.time()));
    sink.field("type", bits(65..72), code);
    sink.field(
        "interface",
        bits(78..80),
        Value::Uint(record.interface().into()),
    );
    sink.field(
        "record length",
        bits(80..96),
        Value::Uint(record.record_bytes().into()),
    );
    sink.field(
        "loss counter",
        bits(96..112),
        Value::Uint(record.lost_records().into()),
    );
    sink.field(
        "wire length",
        bits(112..128),
        Value::Uint(record.wire_bytes().into()),
    );
    let bytes = &record.buffer[payload.clone()];
    sink.field(
        "payload",
        bits(payload.start * 8..payload.end * 8),
        Value::Bytes(bytes),
    );
}
