//! What a packet of a capture carries, by its link type, down through the layers.

use barewire_formats::atm::{HeaderRepr, Interface};
use barewire_formats::{aal5, atm};
use barewire_wire::capture::{Content, LinkType, Packet, erf, exported, sunatm};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

use super::kind::Kind;

/// Bytes of a cell header without its HEC, as ERF records have it.
pub const WORD_BYTES: usize = 4;

/// Shows a packet with all that is in it; positions are those of the file. With `kind` the
/// content is taken for that, whatever the link type says.
pub fn describe(number: usize, packet: &Packet<'_>, kind: Option<Kind>, sink: &mut dyn Sink) {
    let at = packet.offset_bytes * 8;
    let bits = at..at + packet.data.len() * 8;
    sink.open(&format!("packet {number}: {packet}"), bits);
    for comment in packet.comments() {
        sink.field("comment", at..at, Value::Code(0, comment));
    }
    let pseudo_header = match packet.link_type {
        LinkType::SUNATM => Some(sunatm::describe as fn(&[u8], usize, &mut dyn Sink)),
        LinkType::ERF => Some(erf::describe as _),
        LinkType::UPPER_PDU => Some(exported::describe as _),
        _ => None,
    };
    if let Some(describe) = pseudo_header {
        describe(packet.data, at, sink);
    }
    // A pseudo-header that is wrong has said so.
    if let Ok(content) = packet.open() {
        let inner = inner_bytes(&content);
        let first_bit = at + (packet.data.len() - inner.len()) * 8;
        match kind {
            Some(kind) => kind.describe(inner, first_bit, sink),
            None => describe_content(&content, inner, first_bit, sink),
        }
    }
    sink.close();
}

/// What stands behind the pseudo-header.
fn inner_bytes<'a>(content: &Content<'a>) -> &'a [u8] {
    match *content {
        Content::SunAtm(_, bytes)
        | Content::Erf(_, bytes)
        | Content::Exported(_, bytes)
        | Content::Plain(_, bytes) => bytes,
    }
}

fn describe_content(content: &Content<'_>, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    match content {
        // The pseudo-header has shown the payload: there is no trailer to check it by.
        Content::SunAtm(header, _) => {
            if header.traffic == sunatm::Traffic::Llc {
                Kind::Llc.describe(bytes, first_bit, sink);
            }
        }
        Content::Erf(record, _) => describe_erf(record.kind, bytes, first_bit, sink),
        Content::Exported(tags, _) => describe_exported(tags.dissector, bytes, first_bit, sink),
        Content::Plain(link_type, _) => {
            let bits = first_bit..first_bit + bytes.len() * 8;
            match kind_of(*link_type) {
                Some(kind) => kind.describe(bytes, first_bit, sink),
                None => sink.field("data", bits, Value::Bytes(bytes)),
            }
        }
    }
}

/// The format of a link type without a pseudo-header.
fn kind_of(link_type: LinkType) -> Option<Kind> {
    match link_type {
        LinkType::ATM_RFC1483 => Some(Kind::Llc),
        super::store::RAW_IP => Some(Kind::IpChecksum),
        _ => None,
    }
}

/// The format that one of our dissectors takes.
pub fn kind_of_dissector(name: &str) -> Option<Kind> {
    match name {
        exported::CBN => Some(Kind::Cbn),
        exported::MSDL => Some(Kind::Msdl),
        exported::MSNL => Some(Kind::Msnl),
        exported::JETSTREAM => Some(Kind::Jetstream),
        exported::CELL | exported::AAL34 => Some(Kind::Atm),
        _ => None,
    }
}

fn describe_exported(dissector: &str, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    if let Some(kind) = kind_of_dissector(dissector) {
        kind.describe(bytes, first_bit, sink);
    }
    let payload = bytes.get(atm::HEADER_BYTES..).unwrap_or_default();
    let behind = first_bit + atm::HEADER_BYTES * 8;
    match dissector {
        exported::AAL34 if !payload.is_empty() => Kind::Aal34.describe(payload, behind, sink),
        exported::AAL5 => {
            let header = &bytes[..bytes.len().min(atm::HEADER_BYTES)];
            describe_header(header, first_bit, sink);
            Kind::Aal5.describe(payload, behind, sink);
        }
        _ => {}
    }
}

fn describe_erf(kind: erf::Kind, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    if kind == erf::Kind::RawLink {
        return Kind::Sonet.describe(bytes, first_bit, sink);
    }
    if !matches!(kind, erf::Kind::Cell | erf::Kind::Aal5) {
        return;
    }
    if let Err(error) = need("atm", "header", bytes, WORD_BYTES) {
        return sink.wrong(error.shifted(first_bit));
    }
    let (word, rest) = bytes.split_at(WORD_BYTES);
    let behind = first_bit + WORD_BYTES * 8;
    match kind {
        erf::Kind::Cell => {
            let header = describe_header(word, first_bit, sink);
            if header.kind().is_oam() {
                atm::oam::describe(rest, behind, sink);
            } else {
                let bits = behind..behind + rest.len() * 8;
                sink.field("payload", bits, Value::Bytes(rest));
                if let Err(error) = check_payload(rest) {
                    sink.wrong(error.shifted(behind));
                }
            }
        }
        erf::Kind::Aal5 => {
            describe_header(word, first_bit, sink);
            aal5::describe(rest, behind, sink);
        }
        _ => {}
    }
}

/// Checks that what stands behind a cell header is as long as a cell's payload.
pub fn check_payload(payload: &[u8]) -> Result<(), Error> {
    let (allowed_bytes, have_bytes) = (atm::PAYLOAD_BYTES, payload.len());
    need("atm", "payload", payload, allowed_bytes)?;
    if have_bytes == allowed_bytes {
        return Ok(());
    }
    let fault = Fault::Long {
        allowed_bytes,
        have_bytes,
    };
    let bits = allowed_bytes * 8..have_bytes * 8;
    Err(Error::new("atm", "payload", bits, fault))
}

/// Shows a cell header, with or without HEC, in front of something that is no cell.
fn describe_header(part: &[u8], at: usize, sink: &mut dyn Sink) -> HeaderRepr {
    sink.open("cell header", at..at + part.len() * 8);
    let header = atm::describe_header(Interface::Uni, part, at, sink);
    sink.close();
    header
}
