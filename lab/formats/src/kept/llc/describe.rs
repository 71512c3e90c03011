//! LLC/SNAP and what it carries, as a tree.

use core::ops::Range;

use super::{EtherType, HeaderRepr, LLC_BYTES, LLC_ISO, PAD_BYTES, Packet, VcMux, check_pad};
use crate::kept::atmarp;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

const MAC_ADDRESS_BYTES: usize = 6;
const ETHERNET_HEADER_BYTES: usize = 14;
const FCS_BYTES: usize = 4;
/// The check sequence of Ethernet, sent least significant byte first.
const FCS: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// Shows an LLC-encapsulated packet, and an ATMARP packet in it.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let bits = |range: Range<usize>| first_bit + range.start * 8..first_bit + range.end * 8;
    sink.open("LLC", bits(0..bytes.len()));
    describe_llc(bytes, first_bit, sink);
    match Packet::new_checked(bytes).and_then(|packet| {
        let header = HeaderRepr::parse(&packet)?;
        Ok((header, packet.header_bytes()))
    }) {
        Ok((header, header_bytes)) => {
            if header_bytes > LLC_BYTES {
                describe_snap(&Packet::new_unchecked(bytes), header, first_bit, sink);
            }
            let payload_bit = first_bit + header_bytes * 8;
            describe_payload(&bytes[header_bytes..], payload_bit, header, sink);
        }
        Err(error) => sink.wrong(error.shifted(first_bit)),
    }
    sink.close();
}

/// Shows the PDU of a VC that was set up for one protocol.
pub fn describe_vc_mux(mux: VcMux, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let end_bit = first_bit + bytes.len() * 8;
    sink.open("VC-multiplexed PDU", first_bit..end_bit);
    match mux {
        VcMux::Routed(ethertype) => {
            let header = HeaderRepr::Routed(ethertype);
            describe_payload(bytes, first_bit, header, sink);
        }
        VcMux::BridgedEthernet { fcs } => {
            if let [high, low, frame @ ..] = bytes {
                let pad = u16::from_be_bytes([*high, *low]);
                sink.field("pad", first_bit..first_bit + 16, Value::Hex(pad.into()));
                if let Err(error) = check_pad(pad, 0) {
                    sink.wrong(error.shifted(first_bit));
                }
                describe_ethernet(frame, first_bit + PAD_BYTES * 8, fcs, sink);
            } else if let Err(error) = mux.payload(bytes) {
                sink.wrong(error.shifted(first_bit));
            }
        }
    }
    sink.close();
}

/// The bytes of the LLC header that are there.
fn describe_llc(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let fields = ["dsap", "ssap", "control"];
    for (place, (field, &byte)) in fields.into_iter().zip(bytes).enumerate() {
        let bit = first_bit + place * 8;
        sink.field(field, bit..bit + 8, Value::Hex(byte.into()));
    }
    if bytes.starts_with(&LLC_ISO) && bytes.len() > LLC_BYTES {
        let bit = first_bit + LLC_BYTES * 8;
        let name = match bytes[LLC_BYTES] {
            0x81 => "CLNP",
            0x82 => "ES-IS",
            0x83 => "IS-IS",
            _ => "unknown",
        };
        sink.field(
            "nlpid",
            bit..bit + 8,
            Value::Code(bytes[LLC_BYTES].into(), name),
        );
    }
}

/// OUI, PID and padding.
fn describe_snap(
    packet: &Packet<&[u8]>,
    header: HeaderRepr,
    first_bit: usize,
    sink: &mut dyn Sink,
) {
    let [a, b, c] = packet.oui();
    let oui = u32::from_be_bytes([0, a, b, c]);
    sink.field(
        "oui",
        first_bit + 24..first_bit + 48,
        Value::Hex(oui.into()),
    );
    let name = match header {
        HeaderRepr::Routed(ethertype) => ethertype_name(ethertype),
        HeaderRepr::BridgedEthernet { fcs: true } => "bridged Ethernet, FCS",
        HeaderRepr::BridgedEthernet { fcs: false } => "bridged Ethernet, no FCS",
        HeaderRepr::Iso { .. } | HeaderRepr::Unknown { .. } => "unknown",
    };
    let pid = Value::Code(packet.pid().into(), name);
    sink.field("pid", first_bit + 48..first_bit + 64, pid);
    if let HeaderRepr::BridgedEthernet { .. } = header {
        let pad = Value::Hex(packet.pad().into());
        sink.field("pad", first_bit + 64..first_bit + 80, pad);
    }
}

fn describe_payload(bytes: &[u8], first_bit: usize, header: HeaderRepr, sink: &mut dyn Sink) {
    match header {
        HeaderRepr::Routed(EtherType::Arp) => atmarp::describe(bytes, first_bit, sink),
        HeaderRepr::BridgedEthernet { fcs } => describe_ethernet(bytes, first_bit, fcs, sink),
        _ => show_bytes("payload", bytes, first_bit, sink),
    }
}

/// The header of an Ethernet frame and, if it is there, its check sequence.
fn describe_ethernet(frame: &[u8], first_bit: usize, fcs: bool, sink: &mut dyn Sink) {
    let fcs_bytes = if fcs { FCS_BYTES } else { 0 };
    sink.open("Ethernet", first_bit..first_bit + frame.len() * 8);
    if let Err(error) = need(
        super::FORMAT,
        "frame",
        frame,
        ETHERNET_HEADER_BYTES + fcs_bytes,
    ) {
        sink.wrong(error.shifted(first_bit));
        show_bytes("frame", frame, first_bit, sink);
        return sink.close();
    }
    let (header, rest) = frame.split_at(ETHERNET_HEADER_BYTES);
    let (payload, fcs) = rest.split_at(rest.len() - fcs_bytes);
    let computed = FCS.checksum(&frame[..frame.len() - fcs_bytes]);
    let (target, header) = header.split_at(MAC_ADDRESS_BYTES);
    let (source, kind) = header.split_at(MAC_ADDRESS_BYTES);
    let mut bit = first_bit;
    for (name, bytes) in [
        ("destination", target),
        ("source", source),
        ("type or length", kind),
        ("payload", payload),
        ("fcs", fcs),
    ] {
        show_bytes(name, bytes, bit, sink);
        bit += bytes.len() * 8;
    }
    if let Err(error) = check_fcs(fcs, computed) {
        sink.wrong(error.shifted(bit - fcs.len() * 8));
    }
    sink.close();
}

/// Blames a check sequence that is there and is not `computed`.
fn check_fcs(fcs: &[u8], computed: u32) -> Result<(), Error> {
    let Some(&bytes) = fcs.first_chunk::<FCS_BYTES>() else {
        return Ok(());
    };
    let found = u32::from_le_bytes(bytes);
    if found == computed {
        return Ok(());
    }
    let fault = Fault::Check { computed, found };
    Err(Error::new(super::FORMAT, "fcs", 0..FCS_BYTES * 8, fault))
}

/// Bytes as a field, unless there are none.
fn show_bytes(name: &str, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    if !bytes.is_empty() {
        let bits = first_bit..first_bit + bytes.len() * 8;
        sink.field(name, bits, Value::Bytes(bytes));
    }
}

fn ethertype_name(ethertype: EtherType) -> &'static str {
    match ethertype {
        EtherType::Ipv4 => "IPv4",
        EtherType::Arp => "ARP",
        EtherType::Ipv6 => "IPv6",
        EtherType::Unknown(_) => "unknown",
    }
}
