//! The formats by the names that the command line knows them by.

use barewire_formats::llc::{EtherType, VcMux};
use barewire_formats::{aal5, aal34, atm, atmarp, cbn, jetstream, line, llc, msnl, sonet};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};
use barewire_wire::{capture, checksum};
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
    /// A cell of the Cambridge Fast Ring, 34 bytes
    Cfr,
    /// Levels of a line of the Cambridge Backbone: 4B5B and NRZI, first level in the top bit
    Line,
    /// An MSNL signalling message, 32 bytes
    Msnl,
    /// A Jetstream frame
    Jetstream,
    /// SONET frames as on the line, STS-3c or STS-12c
    Sonet,
    /// LLC/SNAP and what it carries (RFC 2684)
    Llc,
    /// An IP packet on a circuit of its own, without LLC (RFC 2684)
    MuxIp,
    /// An Ethernet frame without check sequence on a circuit of its own
    MuxEth,
    /// An Ethernet frame with check sequence on a circuit of its own
    MuxEthFcs,
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
            Self::Cfr => cbn::describe_cfr,
            Self::Line => line::describe,
            Self::Msnl => msnl::describe,
            Self::Sonet => sonet::describe,
            Self::Jetstream => jetstream::describe,
            Self::Llc => llc::describe,
            Self::MuxIp => describe_mux_ip,
            Self::MuxEth => describe_mux_eth,
            Self::MuxEthFcs => describe_mux_eth_fcs,
            Self::Atmarp => atmarp::describe,
            Self::IpChecksum => describe_checksum,
            Self::Capture => capture::describe,
        };
        describe(bytes, first_bit, sink);
    }
}

fn describe_mux_ip(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let mux = VcMux::Routed(EtherType::Ipv4);
    llc::describe_vc_mux(mux, bytes, first_bit, sink);
    if let Err(error) = check_ip(bytes) {
        sink.wrong(error.shifted(first_bit));
    }
}

fn describe_mux_eth(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let mux = VcMux::BridgedEthernet { fcs: false };
    llc::describe_vc_mux(mux, bytes, first_bit, sink);
}

fn describe_mux_eth_fcs(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let mux = VcMux::BridgedEthernet { fcs: true };
    llc::describe_vc_mux(mux, bytes, first_bit, sink);
}

const FORMAT: &str = "ip-checksum";
/// Bytes of an IPv4 header without options.
const IPV4_HEADER_BYTES: usize = 20;
/// Where the checksum of an IPv4 header stands.
pub const CHECKSUM_BYTE: usize = 10;

/// Length of the IPv4 header that `bytes` begin with, if they do.
pub fn ipv4_header_bytes(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let header_bytes = usize::from(first & 0x0f) * 4;
    let fits = first >> 4 == 4 && (IPV4_HEADER_BYTES..=bytes.len()).contains(&header_bytes);
    fits.then_some(header_bytes)
}

/// Checks an IP packet of either version. Of IPv6 there is no check code to look at.
pub fn check_ip(packet: &[u8]) -> Result<(), Error> {
    match packet.first() {
        Some(first) if first >> 4 == 6 => Ok(()),
        _ => check_ipv4(packet),
    }
}

/// Checks an IPv4 packet: its header must be whole and its checksum right.
pub fn check_ipv4(packet: &[u8]) -> Result<(), Error> {
    const FORMAT: &str = "ipv4";
    let Some(&first) = packet.first() else {
        return need(FORMAT, "ip header", packet, IPV4_HEADER_BYTES);
    };
    let header_bytes = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header_bytes < IPV4_HEADER_BYTES {
        let allowed = "version 4 and a length of 5 to 15 words";
        let found = first.into();
        let fault = Fault::Value { found, allowed };
        return Err(Error::new(FORMAT, "ip header", 0..8, fault));
    }
    need(FORMAT, "ip header", packet, header_bytes)?;
    let header = &packet[..header_bytes];
    if checksum::sum(header).is_valid() {
        return Ok(());
    }
    let found = u16::from_be_bytes([header[CHECKSUM_BYTE], header[CHECKSUM_BYTE + 1]]);
    let fault = Fault::Check {
        computed: expected_checksum(header).into(),
        found: found.into(),
    };
    let bits = CHECKSUM_BYTE * 8..CHECKSUM_BYTE * 8 + 16;
    Err(Error::new(FORMAT, "ip checksum", bits, fault))
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
