//! Writing what was encoded into a pcapng file that Wireshark opens.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use barewire_formats::atm::{Cell, HeaderRepr, Interface, PAYLOAD_BYTES};
use barewire_wire::capture::exported::TagsRepr;
use barewire_wire::capture::{ByteOrder, LinkType, Output, Pcapng, erf};

use super::error::{Result, WireError};

/// Link type of a bare IP packet.
pub const RAW_IP: LinkType = LinkType(101);
/// Longest unit that a record has room for, behind its headers.
pub const ERF_BYTES_MAX: usize = 65_500;
/// Time between packets: about that of a cell at 155 Mbit/s.
const SPACING_NS: u64 = 2_830;

/// How the units of a format stand in a capture.
#[derive(Clone, Copy, Debug)]
pub enum Store {
    /// Behind tags that name this dissector.
    Exported(&'static str),
    /// Behind tags that name this dissector, and as the payload of a cell with this header.
    InCell(&'static str, HeaderRepr),
    /// In a record of this kind, behind a cell header without HEC where there is one.
    Erf(erf::Kind, Option<HeaderRepr>),
    /// As they are, or behind these bytes.
    Plain(LinkType, &'static [u8]),
    /// In no capture; what it is.
    Nowhere(&'static str),
}

impl Store {
    fn link_type(self) -> Result<LinkType> {
        match self {
            Self::Exported(_) | Self::InCell(..) => Ok(LinkType::UPPER_PDU),
            Self::Erf(..) => Ok(LinkType::ERF),
            Self::Plain(link_type, _) => Ok(link_type),
            Self::Nowhere(what) => Err(WireError::NoLinkType(what)),
        }
    }

    /// What stands in front of a unit of `unit_bytes`, seen at `time_ns`.
    fn front(self, time_ns: u64, unit_bytes: usize) -> Vec<u8> {
        match self {
            Self::Exported(name) => tags(name),
            Self::InCell(name, header) => {
                let mut front = tags(name);
                front.extend(header.to_bytes(Interface::Uni));
                front
            }
            Self::Erf(kind, header) => {
                let word = header.map(|header| header.to_word(Interface::Uni).to_be_bytes());
                let word = word.as_ref().map_or(&[][..], |word| &word[..]);
                let payload_bytes = (word.len() + unit_bytes) as u16;
                let record = erf::RecordRepr {
                    time_ns,
                    kind,
                    interface: 0,
                    payload_bytes,
                    wire_bytes: payload_bytes,
                };
                [&record.to_bytes()[..], word].concat()
            }
            Self::Plain(_, front) => front.to_vec(),
            Self::Nowhere(_) => Vec::new(),
        }
    }
}

fn tags(dissector: &str) -> Vec<u8> {
    let tags = TagsRepr::new(dissector);
    let mut buffer = vec![0; tags.buffer_len()];
    let written = tags.emit(&mut buffer).map_or(0, <[u8]>::len);
    buffer.truncate(written);
    buffer
}

/// A file as the place where a capture goes.
struct To(BufWriter<File>);

impl Output for To {
    type Error = io::Error;

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

/// Writes `units`, one packet each.
pub fn write(path: &str, store: Store, units: &[Vec<u8>]) -> Result<()> {
    let link_type = store.link_type()?;
    let write = || -> io::Result<()> {
        let out = To(BufWriter::new(File::create(path)?));
        let mut capture = Pcapng::new(out, ByteOrder::NATIVE)?;
        let port = capture.interface(link_type, 0, "barewire wire encode")?;
        for (number, unit) in units.iter().enumerate() {
            let time_ns = number as u64 * SPACING_NS;
            let front = store.front(time_ns, unit.len());
            capture.packet(port, time_ns, &[&front, unit], "")?;
        }
        capture.output().0.flush()
    };
    write().map_err(|error| WireError::File(path.to_owned(), error))
}

/// The bytes of a cell, padded with zeros.
pub fn cell(header: HeaderRepr, interface: Interface, payload: &[u8]) -> Vec<u8> {
    let mut cell = Cell::new_unchecked(vec![0; header.buffer_len()]);
    header.emit(&mut cell, interface);
    let room = payload.len().min(PAYLOAD_BYTES);
    cell.payload_mut()[..room].copy_from_slice(&payload[..room]);
    cell.into_inner()
}
