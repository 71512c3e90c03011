//! Cells, PDUs and packets, and files of them, as the tests put them together.

use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::atm::{CELL_BYTES, Cell, HeaderRepr, Interface, PayloadType, Vc};
use barewire_formats::llc::{self, EtherType};
use barewire_wire::capture::exported::TagsRepr;
use barewire_wire::capture::{ByteOrder, LinkType, Output, Pcapng, erf, sunatm};
use barewire_wire::checksum::checksum;

use crate::sniffer::{Payload, Sniffer};

pub type CellBytes = [u8; CELL_BYTES];

/// A cell whose HEC is right.
pub fn cell(header: HeaderRepr, payload: &[u8; 48]) -> CellBytes {
    let mut cell = Cell::new_unchecked([0; CELL_BYTES]);
    header.emit(&mut cell, Interface::Uni);
    *cell.payload_mut() = *payload;
    cell.into_inner()
}

pub fn user(vpi: u16, vci: u16) -> HeaderRepr {
    HeaderRepr::user(Vc { vpi, vci }, PayloadType::USER)
}

pub fn sniffer_file(payload: Payload, cells: &[CellBytes]) -> Vec<u8> {
    let Ok(mut sniffer) = Sniffer::new(Memory(Vec::new()), time_ns(0));
    for (i, cell) in cells.iter().enumerate() {
        let Ok(()) = sniffer.cell(time_ns(i), payload, cell);
    }
    let Ok(file) = sniffer.finish();
    file.0
}

pub fn aal5(payload: &[u8], uu: u8) -> Vec<u8> {
    let repr = PduRepr {
        uu,
        cpi: 0,
        payload_bytes: payload.len() as u16,
    };
    let mut bytes = vec![0; repr.buffer_len()];
    bytes[..payload.len()].copy_from_slice(payload);
    repr.emit(&mut Pdu::new_checked(&mut bytes).unwrap());
    bytes
}

pub fn sunatm_header(traffic: sunatm::Traffic, vpi: u8, vci: u16) -> [u8; 4] {
    let header = sunatm::HeaderRepr {
        is_sent: true,
        traffic,
        vpi,
        vci,
    };
    header.to_bytes()
}

/// An ERF record of `kind` with the first four bytes of a cell header in front of `payload`.
pub fn erf_record(kind: erf::Kind, cell_header: Option<HeaderRepr>, payload: &[u8]) -> Vec<u8> {
    let head = cell_header.map(|h| h.to_word(Interface::Uni).to_be_bytes());
    let mut content = head.map_or(Vec::new(), |head| head.to_vec());
    content.extend(payload);
    let record = erf::RecordRepr {
        time_ns: time_ns(0),
        kind,
        interface: 0,
        payload_bytes: content.len() as u16,
        wire_bytes: content.len() as u16,
    };
    [&record.to_bytes(), content.as_slice()].concat()
}

pub fn exported(dissector: &str, packet: &[u8]) -> Vec<u8> {
    let mut room = [0; 300];
    let tags = TagsRepr::new(dissector).emit(&mut room).unwrap();
    [tags, packet].concat()
}

/// `payload` behind an LLC header.
pub fn llc(header: llc::HeaderRepr, payload: &[u8]) -> Vec<u8> {
    let mut packet = llc::Packet::new_unchecked(vec![0; header.buffer_len() + payload.len()]);
    header.emit(&mut packet);
    packet.payload_mut().copy_from_slice(payload);
    packet.into_inner()
}

/// LLC/SNAP and an IPv4 packet with a UDP header from 10.0.0.1 to 10.0.0.2.
pub fn llc_ipv4(ident: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28];
    packet.extend(ident.to_be_bytes());
    packet.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0x30, 0x39, 0xd4, 0x31, 0, 8, 0, 0]);
    llc(llc::HeaderRepr::Routed(EtherType::Ipv4), &packet)
}

pub fn numbered(n: usize) -> Vec<u8> {
    (0..n).map(|i| i as u8).collect()
}

/// A file in memory.
pub struct Memory(pub Vec<u8>);

impl Output for Memory {
    type Error = std::convert::Infallible;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Begins a pcapng file with one interface, and writes `packets`, each a millisecond after
/// the one before.
pub fn pcapng(link_type: LinkType, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Memory(Vec::new());
    let Ok(mut pcapng) = Pcapng::new(&mut file, ByteOrder::NATIVE);
    let Ok(port) = pcapng.interface(link_type, 0, "lab0");
    for (i, packet) in packets.iter().enumerate() {
        let Ok(()) = pcapng.packet(port, time_ns(i), &[packet], "");
    }
    file.0
}

/// When packet `i` is said to have been seen.
pub fn time_ns(i: usize) -> u64 {
    1_700_000_000_000_000_000 + i as u64 * 1_000_001
}
