//! The payload of an OAM cell: faults, performance, loopback on a path or channel.
//!
//! ```text
//! bit  0          4          8                         368        374        384
//!      | OAM type | function | function-specific field | reserved |  CRC-10  |
//! bits      4          4          360 (45 bytes)            6         10
//! ```
//!
//! The CRC-10 (x¹⁰+x⁹+x⁵+x⁴+x+1, initially zero) covers the 374 bits in front of it, so
//! that the remainder over the whole payload is zero; AAL3/4 ends its SAR PDUs alike. Unused bytes of the
//! function-specific field are `6a`, reserved bits zero.
//!
//! Source: itu-i610 §10 (cell format, types and functions).

use core::fmt;
use core::ops::Range;

use super::{IDLE_PAYLOAD_BYTE, PAYLOAD_BYTES};
use crate::crc10::crc10;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

const FORMAT: &str = "oam";
/// Bytes of the function-specific field.
pub const FUNCTION_SPECIFIC_BYTES: usize = 45;
/// What stands in the bytes of the function-specific field that a function leaves unused.
pub const UNUSED_BYTE: u8 = IDLE_PAYLOAD_BYTE;
const RESERVED: Range<usize> = 368..374;
const CRC: Range<usize> = 374..384;

/// What the cell is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OamType {
    /// AIS, RDI, continuity, loopback.
    FaultManagement,
    /// Monitoring and its reports.
    PerformanceManagement,
    /// Protection switching.
    ProtectionSwitching,
    /// Switching monitoring and continuity checks on and off.
    ActivationDeactivation,
    /// For the systems at the ends.
    SystemManagement,
    /// None of these; 4 bits.
    Unknown(u8),
}

impl OamType {
    /// The type with this code; bits above the fourth are dropped.
    #[must_use]
    pub const fn new(code: u8) -> Self {
        match code & 0xf {
            0b0001 => Self::FaultManagement,
            0b0010 => Self::PerformanceManagement,
            0b0101 => Self::ProtectionSwitching,
            0b1000 => Self::ActivationDeactivation,
            0b1111 => Self::SystemManagement,
            code => Self::Unknown(code),
        }
    }

    /// The code.
    #[must_use]
    pub const fn get(self) -> u8 {
        match self {
            Self::FaultManagement => 0b0001,
            Self::PerformanceManagement => 0b0010,
            Self::ProtectionSwitching => 0b0101,
            Self::ActivationDeactivation => 0b1000,
            Self::SystemManagement => 0b1111,
            Self::Unknown(code) => code & 0xf,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::FaultManagement => "fault management",
            Self::PerformanceManagement => "performance management",
            Self::ProtectionSwitching => "protection switching",
            Self::ActivationDeactivation => "activation and deactivation",
            Self::SystemManagement => "system management",
            Self::Unknown(_) => "unknown",
        }
    }

    /// What a function of this type is called.
    #[must_use]
    pub const fn function_name(self, function: u8) -> &'static str {
        match (self, function) {
            (Self::FaultManagement, FUNCTION_AIS) => "AIS",
            (Self::FaultManagement, FUNCTION_RDI) => "RDI",
            (Self::FaultManagement, FUNCTION_CONTINUITY_CHECK) => "continuity check",
            (Self::FaultManagement, FUNCTION_LOOPBACK) => "loopback",
            (Self::PerformanceManagement, 0b0000) => "forward monitoring",
            (Self::PerformanceManagement, 0b0001) => "backward reporting",
            _ => "unknown",
        }
    }
}

impl fmt::Display for OamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Fault management: alarm indication signal.
pub const FUNCTION_AIS: u8 = 0b0000;
/// Fault management: remote defect indication.
pub const FUNCTION_RDI: u8 = 0b0001;
/// Fault management: continuity check.
pub const FUNCTION_CONTINUITY_CHECK: u8 = 0b0100;
/// Fault management: loopback.
pub const FUNCTION_LOOPBACK: u8 = 0b1000;

/// A view of the 48 bytes of an OAM cell's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Payload<T> {
    /// A view of `buffer`. Accessors panic if it is shorter than [`PAYLOAD_BYTES`].
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of `buffer`, whose accessors do not panic.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] below [`PAYLOAD_BYTES`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "payload", buffer.as_ref(), PAYLOAD_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn bytes(&self) -> &[u8; PAYLOAD_BYTES] {
        let bytes = self.buffer.as_ref().first_chunk();
        bytes.expect("a payload has 48 bytes")
    }

    /// The OAM type.
    #[must_use]
    pub fn oam_type(&self) -> OamType {
        OamType::new(self.bytes()[0] >> 4)
    }

    /// The function code.
    #[must_use]
    pub fn function(&self) -> u8 {
        self.bytes()[0] & 0xf
    }

    /// The function-specific field.
    #[must_use]
    pub fn function_specific(&self) -> &[u8; FUNCTION_SPECIFIC_BYTES] {
        let field = self.bytes()[1..].first_chunk();
        field.expect("the field ends within the payload")
    }

    /// The six reserved bits.
    #[must_use]
    pub fn reserved(&self) -> u8 {
        self.bytes()[46] >> 2
    }

    /// The CRC that stands there.
    #[must_use]
    pub fn crc(&self) -> u16 {
        u16::from_be_bytes([self.bytes()[46], self.bytes()[47]]) & 0x3ff
    }

    /// The CRC that belongs there.
    #[must_use]
    pub fn compute_crc(&self) -> u16 {
        crc10(self.bytes())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Payload<T> {
    /// Computes the CRC of what stands there, and writes it.
    pub fn fill_crc(&mut self) {
        let crc = self.compute_crc() | u16::from(self.reserved()) << 10;
        self.buffer.as_mut()[46..48].copy_from_slice(&crc.to_be_bytes());
    }
}

/// What an OAM payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OamRepr {
    /// What it is about.
    pub oam_type: OamType,
    /// Which function of that type, 4 bits.
    pub function: u8,
    /// What the function says.
    pub function_specific: [u8; FUNCTION_SPECIFIC_BYTES],
}

impl OamRepr {
    /// Takes a payload apart whose reserved bits and CRC must be right.
    ///
    /// # Errors
    ///
    /// [`Fault::Check`] on the CRC, [`Fault::Value`] on the reserved bits.
    pub fn parse<T: AsRef<[u8]>>(payload: &Payload<T>) -> Result<Self, Error> {
        check_crc(payload)?;
        check_reserved(payload)?;
        Ok(Self {
            oam_type: payload.oam_type(),
            function: payload.function(),
            function_specific: *payload.function_specific(),
        })
    }

    /// Bytes of a payload.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        PAYLOAD_BYTES
    }

    /// Writes the payload, CRC included. Bits of the function above the fourth are dropped.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, payload: &mut Payload<T>) {
        let bytes = payload.buffer.as_mut();
        bytes[0] = self.oam_type.get() << 4 | (self.function & 0xf);
        bytes[1..46].copy_from_slice(&self.function_specific);
        bytes[46] = 0;
        payload.fill_crc();
    }
}

fn check_crc<T: AsRef<[u8]>>(payload: &Payload<T>) -> Result<(), Error> {
    let (computed, found) = (payload.compute_crc().into(), payload.crc().into());
    if computed == found {
        return Ok(());
    }
    let fault = Fault::Check { computed, found };
    Err(Error::new(FORMAT, "CRC-10", CRC, fault))
}

fn check_reserved<T: AsRef<[u8]>>(payload: &Payload<T>) -> Result<(), Error> {
    if payload.reserved() == 0 {
        return Ok(());
    }
    let (found, allowed) = (payload.reserved().into(), "0");
    let fault = Fault::Value { found, allowed };
    Err(Error::new(FORMAT, "reserved", RESERVED, fault))
}

impl fmt::Display for OamRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.oam_type.function_name(self.function);
        write!(f, "OAM {}: {function}", self.oam_type)
    }
}

/// Shows an OAM payload.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let at = first_bit;
    sink.open("OAM", at..at + bytes.len() * 8);
    if let Some(&first) = bytes.first() {
        let (oam_type, function) = (OamType::new(first >> 4), first & 0xf);
        let name = Value::Code(oam_type.get().into(), oam_type.name());
        sink.field("OAM type", at..at + 4, name);
        let name = Value::Code(function.into(), oam_type.function_name(function));
        sink.field("function", at + 4..at + 8, name);
        let specific = &bytes[1..bytes.len().min(46)];
        let bits = at + 8..at + 8 + specific.len() * 8;
        sink.field("function-specific", bits, Value::Bytes(specific));
    }
    match Payload::new_checked(bytes) {
        Err(error) => sink.wrong(error.shifted(at)),
        Ok(payload) => describe_end(&payload, at, sink),
    }
    if bytes.len() > PAYLOAD_BYTES {
        let fault = Fault::Long {
            allowed_bytes: PAYLOAD_BYTES,
            have_bytes: bytes.len(),
        };
        let bits = at + PAYLOAD_BYTES * 8..at + bytes.len() * 8;
        sink.wrong(Error::new(FORMAT, "payload", bits, fault));
    }
    sink.close();
}

fn describe_end(payload: &Payload<&[u8]>, at: usize, sink: &mut dyn Sink) {
    let reserved = Value::Hex(payload.reserved().into());
    sink.field("reserved", at + RESERVED.start..at + RESERVED.end, reserved);
    let crc = Value::Hex(payload.crc().into());
    sink.field("CRC-10", at + CRC.start..at + CRC.end, crc);
    for result in [check_crc(payload), check_reserved(payload)] {
        if let Err(error) = result {
            sink.wrong(error.shifted(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    /// Long division of the 374 bits in front of the CRC, and ten zeros.
    #[test]
    fn the_crc_is_that_of_the_definition() {
        let mut payload = Payload::new_unchecked([0; PAYLOAD_BYTES]);
        (0_u8..46).for_each(|i| payload.buffer[usize::from(i)] = i.wrapping_mul(0x9d));
        payload.fill_crc();
        let bit = |i: usize| u16::from(payload.buffer[i / 8] >> (7 - i % 8) & 1);
        let covered = (0..374).map(bit).chain([0; 10]);
        let remainder = covered.fold(0, |remainder: u16, bit| {
            let longer = remainder << 1 | bit;
            longer ^ ((longer >> 10 & 1) * 0x633)
        });
        assert_eq!(payload.crc(), remainder);
    }

    #[test]
    fn a_loopback_cell_reads_back() {
        let repr = OamRepr {
            oam_type: OamType::FaultManagement,
            function: FUNCTION_LOOPBACK,
            function_specific: [UNUSED_BYTE; FUNCTION_SPECIFIC_BYTES],
        };
        let mut payload = Payload::new_unchecked([0xff; PAYLOAD_BYTES]);
        repr.emit(&mut payload);
        assert_eq!(payload.bytes()[0], 0x18);
        assert_eq!(OamRepr::parse(&payload), Ok(repr));
        assert_eq!(repr.to_string(), "OAM fault management: loopback");
    }

    /// Every single and every double bit error is seen, wherever it is: the CRC is linear, so
    /// that two errors hide each other only if both change the syndrome alike.
    #[test]
    fn one_and_two_wrong_bits_are_always_seen() {
        let mut good = Payload::new_unchecked([0x5a; PAYLOAD_BYTES]);
        good.fill_crc();
        let syndrome = |bit: usize| {
            let mut wrong = good;
            wrong.buffer[bit / 8] ^= 0x80 >> (bit % 8);
            wrong.compute_crc() ^ wrong.crc()
        };
        let syndromes: std::vec::Vec<u16> = (0..384).map(syndrome).collect();
        for (bit, syndrome) in syndromes.iter().enumerate() {
            assert_ne!(*syndrome, 0, "bit {bit}");
            assert!(!syndromes[..bit].contains(syndrome), "bit {bit}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_of_the_right_field() {
        let mut payload = Payload::new_unchecked([0; PAYLOAD_BYTES]);
        payload.buffer[46] = 0b0000_0100;
        payload.fill_crc();
        let error = OamRepr::parse(&payload).unwrap_err();
        assert_eq!((error.field, error.first_bit), ("reserved", 368));
        payload.buffer[10] ^= 1;
        let error = OamRepr::parse(&payload).unwrap_err();
        assert_eq!((error.field, error.first_bit), ("CRC-10", 374));
        let error = Payload::new_checked(&payload.buffer[..47]).unwrap_err();
        assert_eq!((error.field, error.first_bit), ("payload", 376));
    }

    proptest! {
        #[test]
        fn emit_then_parse(code in 0_u8..16, function in 0_u8..16, fill: [u8; 15]) {
            let mut function_specific = [UNUSED_BYTE; FUNCTION_SPECIFIC_BYTES];
            function_specific[..15].copy_from_slice(&fill);
            let oam_type = OamType::new(code);
            prop_assert_eq!(oam_type.get(), code);
            let repr = OamRepr { oam_type, function, function_specific };
            let mut payload = Payload::new_unchecked([0; PAYLOAD_BYTES]);
            repr.emit(&mut payload);
            prop_assert_eq!(OamRepr::parse(&payload), Ok(repr));
        }
    }
}
