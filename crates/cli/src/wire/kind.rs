//! The formats by the names that the command line knows them by.

use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault};
use barewire_wire::{
    aal5, aal34, atm, atmarp, capture, cbn, checksum, jetstream, llc, msnl, sonet,
};
use clap::ValueEnum;

/// A format that can show itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// ATM cells of 53 bytes, headers of the UNI
    Atm,
    /// ATM cells of 53 bytes, headers of the NNI
    AtmNni,
    /// The payload of an OAM cell, 48 bytes
    Oam,
    /// An AAL5 PDU: payload, padding, trailer
    Aal5,
    /// A SAR PDU of AAL3/4, 48 bytes
    Aal34,
    /// A CPCS PDU of AAL3/4
    Aal34Cpcs,
    /// A frame of the Cambridge Backbone, 149 bytes
    Cbn,
    /// A cell of the Cambridge Backbone, 36 bytes
    CbnCell,
    /// A cell of the Cambridge Backbone as MSDL reads it
    Msdl,
    /// An MSNL signalling message, 32 bytes
    Msnl,
    /// A Jetstream frame
    Jetstream,
    /// SONET frames as on the line, STS-3c or STS-12c
    Sonet,
    /// LLC/SNAP and what it carries (RFC 2684)
    Llc,
    /// ATMARP and InATMARP (RFC 2225)
    Atmarp,
    /// The Internet checksum of bytes; of an IPv4 header, checked
    IpChecksum,
    /// The packets of a capture file as they stand
    Capture,
}

impl Kind {
    /// Shows `bytes`, which begin at `first_bit` of the input.
    pub fn describe(self, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
        let describe = match self {
            Self::Atm => atm::describe,
            Self::AtmNni => atm::describe_nni,
            Self::Oam => atm::oam::describe,
            Self::Aal5 => aal5::describe,
            Self::Aal34 => aal34::describe,
            Self::Aal34Cpcs => aal34::describe_cpcs,
            Self::Cbn => cbn::describe,
            Self::CbnCell => cbn::describe_cell,
            Self::Msdl => cbn::describe_msdl,
            Self::Msnl => msnl::describe,
            Self::Sonet => sonet::describe,
            Self::Jetstream => jetstream::describe,
            Self::Llc => llc::describe,
            Self::Atmarp => atmarp::describe,
            Self::IpChecksum => describe_checksum,
            Self::Capture => capture::describe,
        };
        describe(bytes, first_bit, sink);
    }
}

const FORMAT: &str = "ip-checksum";
/// Where the checksum of an IPv4 header stands.
pub const CHECKSUM_BYTE: usize = 10;

/// Length of the IPv4 header that `bytes` begin with, if they do.
pub fn ipv4_header_bytes(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let header_bytes = usize::from(first & 0x0f) * 4;
    let fits = first >> 4 == 4 && (20..=bytes.len()).contains(&header_bytes);
    fits.then_some(header_bytes)
}

/// Shows the sum of `bytes`, or of the IPv4 header that they begin with; its checksum field
/// must fit.
fn describe_checksum(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let header_bytes = ipv4_header_bytes(bytes);
    let covered = &bytes[..header_bytes.unwrap_or(bytes.len())];
    let bits = first_bit..first_bit + covered.len() * 8;
    let sum = checksum::sum(covered);
    let name = if header_bytes.is_some() {
        "IPv4 header"
    } else {
        "Internet checksum"
    };
    sink.open(name, bits.clone());
    sink.field("bytes", bits.clone(), Value::Bytes(covered));
    sink.field("sum", first_bit..first_bit, Value::Hex(sum.value().into()));
    if header_bytes.is_some() {
        let begin = first_bit + CHECKSUM_BYTE * 8;
        let field = begin..begin + 16;
        let found = u16::from_be_bytes([bytes[CHECKSUM_BYTE], bytes[CHECKSUM_BYTE + 1]]);
        sink.field("checksum", field.clone(), Value::Hex(found.into()));
        if !sum.is_valid() {
            let fault = Fault::Check {
                computed: expected_checksum(covered).into(),
                found: found.into(),
            };
            sink.wrong(Error::new(FORMAT, "checksum", field, fault));
        }
    } else {
        let checksum = Value::Hex(sum.checksum().into());
        sink.field("checksum", first_bit..first_bit, checksum);
    }
    sink.close();
}

/// The checksum that an IPv4 header should have.
pub fn expected_checksum(header: &[u8]) -> u16 {
    let (before, after) = (&header[..CHECKSUM_BYTE], &header[CHECKSUM_BYTE + 2..]);
    checksum::sum(before)
        .combine(checksum::sum(after))
        .checksum()
}
