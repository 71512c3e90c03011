//! `barewire wire check`: what a capture says about the health of each circuit.
//!
//! Every packet goes down the layers that its link type names: cells through the HEC
//! receiver and the reassembler, PDUs and frames through their check codes. Errors are
//! counted under the name of the field at fault, for the circuit that they belong to; what
//! no circuit can be blamed for belongs to the link. Each interface of the capture has a
//! receiver, a reassembler and a SONET frame before of its own.

mod cells;
mod msdl;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::atm::{HEADER_BYTES, HeaderRepr, Interface, Vc};
use barewire_formats::cbn::{self, FrameRepr, SLOTS};
use barewire_formats::jetstream::{self, AddrType};
use barewire_formats::llc::EtherType;
use barewire_formats::{atmarp, llc, msnl, sonet};
use barewire_report::columns::print;
use barewire_wire::Error;
use barewire_wire::capture::{Content, LinkType, Packet, Reader, erf, exported, sunatm};
use clap::Args;

use self::cells::Cells;
use self::msdl::Blocks;
use self::tally::{Circuit, Tally};
use super::content::WORD_BYTES;
use super::encode::vc;
use super::error::{Result, Verdict, WireError};
use super::kind::{Kind, check_ip, check_ipv4};
use super::show::Tree;
use super::{input, store};

/// Count the errors of a capture per circuit
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// A pcap or pcapng file, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Circuits that carry AAL3/4, VPI/VCI; others carry AAL5, unless the capture says so
    #[arg(long, value_name = "VPI/VCI", value_parser = vc)]
    pub aal34: Vec<Vc>,
    /// List all errors, not only the first 20
    #[arg(long)]
    pub all: bool,
    /// As JSON: one object
    #[arg(long)]
    pub json: bool,
}

/// Checks and prints; the verdict says whether there were errors.
pub fn run(args: &CheckArgs) -> Result<Verdict> {
    let file = input::read_file(&args.file)?;
    if !input::is_capture(&file) {
        return Err(WireError::NoCapture(args.file.clone()));
    }
    let tally = &mut Tally::default();
    let aal34: BTreeSet<Vc> = args.aal34.iter().copied().collect();
    let mut ports = BTreeMap::new();
    for packet in Reader::new(&file) {
        match packet {
            Ok(packet) => {
                let new = || Port::new(aal34.clone());
                let port = ports.entry(port_of(&packet)).or_insert_with(new);
                Check { tally, port }.packet(&packet);
            }
            Err(error) => tally.fault(Circuit::Link, "file", &error),
        }
    }
    for port in ports.values_mut() {
        port.cells.finish(tally);
        port.blocks.finish(tally);
    }
    let text = match args.json {
        true => format!("{:#}\n", tally.json()),
        false => tally.text(args.all),
    };
    print(&text)?;
    Ok(Verdict::of(tally.error_count()))
}

/// What is known of an interface from its packets so far.
struct Port {
    cells: Cells,
    blocks: Blocks,
    /// The last SONET frame, if it was a whole one.
    frame_before: Vec<u8>,
}

impl Port {
    fn new(aal34: BTreeSet<Vc>) -> Self {
        Self {
            cells: Cells::new(aal34),
            blocks: Blocks::default(),
            frame_before: Vec::new(),
        }
    }
}

/// The interface of a packet: that of the capture, and that of its record.
fn port_of(packet: &Packet<'_>) -> (u32, u8) {
    let record = match packet.link_type {
        LinkType::ERF => erf::Record::new_checked(packet.data).ok(),
        _ => None,
    };
    let within = record.map_or(0, |record| record.interface());
    (packet.interface, within)
}

/// The circuit that the pseudo-header of a packet names, whatever else is wrong with it.
fn circuit_of(packet: &Packet<'_>) -> Circuit {
    let vc = match packet.link_type {
        LinkType::SUNATM => sunatm_vc(packet.data),
        LinkType::ERF => erf_vc(packet.data),
        _ => None,
    };
    vc.map_or(Circuit::Link, Circuit::Atm)
}

fn sunatm_vc(data: &[u8]) -> Option<Vc> {
    let header = sunatm::Header::new_checked(data).ok()?;
    Some(Vc {
        vpi: header.vpi().into(),
        vci: header.vci(),
    })
}

fn erf_vc(data: &[u8]) -> Option<Vc> {
    let record = erf::Record::new_checked(data).ok()?;
    if !matches!(record.kind(), erf::Kind::Cell | erf::Kind::Aal5) {
        return None;
    }
    let payload = data.get(record.payload_range())?;
    let word = payload.first_chunk::<WORD_BYTES>()?;
    Some(HeaderRepr::from_word(u32::from_be_bytes(*word), Interface::Uni).vc)
}

/// One packet and what it is looked at with.
struct Check<'a> {
    tally: &'a mut Tally,
    port: &'a mut Port,
}

impl Check<'_> {
    fn packet(&mut self, packet: &Packet<'_>) {
        self.tally.next_packet();
        if packet.is_cut() {
            let text = format!(
                "cut to {} of {} bytes",
                packet.data.len(),
                packet.original_bytes
            );
            self.tally.error(circuit_of(packet), "cut", 1, &text);
            return;
        }
        let content = match packet.open() {
            Ok(content) => content,
            Err(error) => return self.tally.fault(circuit_of(packet), error.field, &error),
        };
        let begin = |bytes: &[u8]| packet.offset_bytes + packet.data.len() - bytes.len();
        match content {
            Content::SunAtm(header, bytes) => self.payload(header, bytes, begin(bytes)),
            Content::Erf(record, bytes) => self.erf(record.kind, bytes, begin(bytes)),
            Content::Exported(tags, bytes) => self.exported(tags.dissector, bytes, begin(bytes)),
            Content::Plain(link_type, bytes) => self.plain(link_type, bytes, begin(bytes)),
        }
    }

    /// The payload of an AAL5 PDU, without the trailer that could say what is wrong with it.
    fn payload(&mut self, header: sunatm::HeaderRepr, bytes: &[u8], at: usize) {
        let circuit = Circuit::Atm(Vc {
            vpi: header.vpi.into(),
            vci: header.vci,
        });
        self.tally.count(circuit, "PDUs", 1);
        self.tally.count(circuit, "bytes", bytes.len() as u64);
        if header.traffic == sunatm::Traffic::Llc {
            self.llc(circuit, bytes, at);
        }
    }

    fn llc(&mut self, circuit: Circuit, bytes: &[u8], at: usize) {
        if let Err(error) = check_llc(bytes) {
            self.fault(circuit, error, at);
        }
    }

    /// A whole AAL5 PDU that begins at byte `at` of the file.
    fn pdu(&mut self, circuit: Circuit, bytes: &[u8], at: usize) {
        let parsed = Pdu::new_checked(bytes).and_then(|pdu| PduRepr::parse(&pdu));
        self.tally.count(circuit, "PDUs", 1);
        match parsed {
            Ok(repr) if repr.is_abort() => self.tally.count(circuit, "aborts", 1),
            Ok(repr) => self
                .tally
                .count(circuit, "bytes", repr.payload_bytes.into()),
            Err(error) => self.fault(circuit, error, at),
        }
    }

    /// Something is wrong in what begins at byte `at` of the file.
    fn fault(&mut self, circuit: Circuit, error: Error, at: usize) {
        self.tally
            .fault(circuit, error.field, &error.shifted(at * 8));
    }

    fn erf(&mut self, kind: erf::Kind, bytes: &[u8], at: usize) {
        if kind == erf::Kind::RawLink {
            return self.sonet(bytes, at);
        }
        let Some((word, rest)) = bytes.split_first_chunk::<WORD_BYTES>() else {
            let text = format!("an ERF record with {} bytes of payload", bytes.len());
            return self.tally.error(Circuit::Link, "record", 1, &text);
        };
        let header = HeaderRepr::from_word(u32::from_be_bytes(*word), Interface::Uni);
        match kind {
            erf::Kind::Aal5 => self.pdu(Circuit::Atm(header.vc), rest, at + WORD_BYTES),
            erf::Kind::Cell => {
                let payload_at = at + WORD_BYTES;
                self.port
                    .cells
                    .bare_cell(header, rest, payload_at, self.tally);
            }
            _ => self
                .tally
                .count(Circuit::Link, "packets not looked into", 1),
        }
    }

    fn exported(&mut self, dissector: &str, bytes: &[u8], at: usize) {
        match dissector {
            exported::CELL => self.port.cells.cell(bytes, at, false, self.tally),
            exported::AAL34 => self.port.cells.cell(bytes, at, true, self.tally),
            exported::AAL5 => self.headed_pdu(bytes, at),
            exported::MSNL => self.message(bytes, at),
            exported::CBN => self.frame(bytes, at),
            exported::MSDL => self.port.blocks.cell(bytes, at, self.tally),
            exported::JETSTREAM => self.jetstream(bytes, at),
            _ => self
                .tally
                .count(Circuit::Link, "packets not looked into", 1),
        }
    }

    /// An AAL5 PDU behind the header of a cell.
    fn headed_pdu(&mut self, bytes: &[u8], at: usize) {
        let Some((header, pdu)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            let text = format!("{} bytes at byte {at}, no cell header", bytes.len());
            return self.tally.error(Circuit::Link, "short cell", 1, &text);
        };
        match HeaderRepr::from_bytes(header, Interface::Uni) {
            Ok(header) => self.pdu(Circuit::Atm(header.vc), pdu, at + HEADER_BYTES),
            Err(error) => self.fault(Circuit::Link, error, at),
        }
    }

    fn message(&mut self, bytes: &[u8], at: usize) {
        self.tally.count(Circuit::Link, "MSNL messages", 1);
        let parsed = msnl::Message::new_checked(bytes);
        let parsed = parsed.and_then(|message| msnl::MessageRepr::parse(&message));
        if let Err(error) = parsed {
            self.fault(Circuit::Link, error, at);
        }
    }

    /// A SONET frame: what its own tree finds wrong. B1 and B2 cover the frame before, if it
    /// was a whole one of the same rate.
    fn sonet(&mut self, bytes: &[u8], at: usize) {
        self.tally.count(Circuit::Link, "SONET frames", 1);
        let is_whole = sonet::Rate::of_frame_bytes(bytes.len()).is_some();
        let mut both = std::mem::take(&mut self.port.frame_before);
        if both.len() != bytes.len() {
            both.clear();
        }
        let first_bit = at.saturating_sub(both.len()) * 8;
        both.extend_from_slice(bytes);
        let mut tree = Tree::default();
        Kind::Sonet.describe(&both, first_bit, &mut tree);
        for error in tree.faults().filter(|error| error.first_bit >= at * 8) {
            self.tally.fault(Circuit::Link, error.field, error);
        }
        if is_whole {
            self.port.frame_before = bytes.to_vec();
        }
    }

    fn plain(&mut self, link_type: LinkType, bytes: &[u8], at: usize) {
        match link_type {
            LinkType::ATM_RFC1483 => {
                self.tally.count(Circuit::Link, "LLC packets", 1);
                self.llc(Circuit::Link, bytes, at);
            }
            store::RAW_IP => {
                self.tally.count(Circuit::Link, "IP packets", 1);
                if let Err(error) = check_ip(bytes) {
                    self.fault(Circuit::Link, error, at);
                }
            }
            _ => self
                .tally
                .count(Circuit::Link, "packets not looked into", 1),
        }
    }

    /// A frame of the backbone: its cells count only if its CRC is right.
    fn frame(&mut self, bytes: &[u8], at: usize) {
        self.tally.count(Circuit::Link, "frames", 1);
        let frame = match cbn::Frame::new_checked(bytes) {
            Ok(frame) => frame,
            Err(error) => return self.fault(Circuit::Link, error, at),
        };
        if let Err(error) = FrameRepr::parse(&frame) {
            return self.fault(Circuit::Link, error, at);
        }
        for slot in (0..SLOTS).filter(|&slot| frame.full(slot) && !frame.slot_type(slot)) {
            let cell_at = at + 2 + slot * cbn::CELL_BYTES;
            self.port.blocks.cell(frame.slot(slot), cell_at, self.tally);
        }
    }

    fn jetstream(&mut self, bytes: &[u8], at: usize) {
        self.tally.count(Circuit::Link, "frames", 1);
        let parsed = jetstream::Frame::new_checked(bytes)
            .and_then(|frame| Ok((jetstream::FrameRepr::parse(&frame)?, frame)));
        let (repr, frame) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return self.fault(Circuit::Link, error, at),
        };
        let jetstream::Kind::Data { cell_header, .. } = repr.kind else {
            return self.tally.count(Circuit::Link, "control frames", 1);
        };
        let circuit = match repr.header.addr_type {
            AddrType::Rid => Circuit::Rid(repr.header.dst_rid),
            _ => Circuit::Atm(cell_header.vc),
        };
        if repr.header.crc_present {
            self.pdu(circuit, frame.pdu(), at + jetstream::OVERHEAD_BYTES);
        } else {
            self.tally.count(circuit, "PDUs", 1);
        }
    }
}

/// Checks an LLC header, and the header of what it announces if that has a check of its own.
fn check_llc(bytes: &[u8]) -> std::result::Result<(), Error> {
    let packet = llc::Packet::new_checked(bytes)?;
    let header = llc::HeaderRepr::parse(&packet)?;
    let payload = packet.payload();
    let checked = match header {
        llc::HeaderRepr::Routed(EtherType::Ipv4) => check_ipv4(payload),
        llc::HeaderRepr::Routed(EtherType::Arp) => check_atmarp(payload),
        _ => Ok(()),
    };
    checked.map_err(|error| error.shifted(packet.header_bytes() * 8))
}

fn check_atmarp(bytes: &[u8]) -> std::result::Result<(), Error> {
    let packet = atmarp::Packet::new_checked(bytes)?;
    atmarp::PacketRepr::parse(&packet).map(drop)
}
