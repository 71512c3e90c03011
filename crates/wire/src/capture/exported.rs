//! The tags in front of a packet of link type `WIRESHARK_UPPER_PDU`: they name the
//! dissector that is to show it. So our own formats reach `docs/wireshark/barewire.lua`.
//!
//! ```text
//! tag | number u16 | length u16 | value, padded to a multiple of 4 and so counted |
//!
//! 12 dissector name   33 text of the protocol column
//! 20 source IPv4      22 source IPv6        25 source port        24 port type (2: TCP)
//! 21 destination IPv4 23 destination IPv6   26 destination port    0 end, length 0; then the packet
//! ```
//!
//! Words are big-endian, ports take 32 bits. Tags with other numbers are passed over.
//!
//! Source: wireshark (`epan/exported_pdu.h`).

use core::fmt;
use core::net::IpAddr;

use crate::error::{Error, Fault, need};
use crate::tree::{Sink, Value};

const FORMAT: &str = "exported";

const END: u16 = 0;
const DISSECTOR: u16 = 12;
const SOURCE_ADDRESS: u16 = 20;
const DESTINATION_ADDRESS: u16 = 21;
const SOURCE_ADDRESS_V6: u16 = 22;
const DESTINATION_ADDRESS_V6: u16 = 23;
const PORT_TYPE: u16 = 24;
const SOURCE_PORT: u16 = 25;
const DESTINATION_PORT: u16 = 26;
const PROTOCOL: u16 = 33;
const PORT_TYPE_TCP: u32 = 2;

/// Longest name in a tag that we write, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The dissector of a CBN frame of 149 bytes.
pub const CBN: &str = "barewire.cbn";
/// The dissector of a CBN cell of 36 bytes.
pub const MSDL: &str = "barewire.msdl";
/// The dissector of an MSNL message.
pub const MSNL: &str = "barewire.msnl";
/// The dissector of a Jetstream frame.
pub const JETSTREAM: &str = "barewire.jetstream";
/// The dissector of an ATM cell of 53 bytes, with its HEC.
pub const CELL: &str = "barewire.cell";
/// The dissector of an ATM cell of 53 bytes that carries a SAR PDU of AAL3/4.
pub const AAL34: &str = "barewire.aal34";
/// The dissector of an AAL5 PDU of any length behind the header, with its HEC, of a cell.
pub const AAL5: &str = "barewire.aal5";
/// Wireshark's own: bytes without structure.
pub const DATA: &str = "data";

/// One end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// IP address.
    pub address: IpAddr,
    /// Port.
    pub port: u32,
}

/// The tags that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagsRepr<'a> {
    /// Name of the dissector; empty in files of others that choose it in another way.
    pub dissector: &'a str,
    /// Text for the protocol column; empty for none.
    pub protocol: &'a str,
    /// Source and destination.
    pub ends: Option<(Endpoint, Endpoint)>,
}

impl<'a> TagsRepr<'a> {
    /// Tags that only name a dissector.
    #[must_use]
    pub const fn new(dissector: &'a str) -> Self {
        Self {
            dissector,
            protocol: "",
            ends: None,
        }
    }

    /// The tags at the beginning of `bytes`, and how many bytes they take. Source and
    /// destination are there only if all four tags of them are.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] for a tag that is cut off, and for tags without an end;
    /// [`Fault::Value`] for a name that is not UTF-8, and an address or a port of a wrong
    /// length.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), Error> {
        let mut tags = Self::new("");
        let (mut addresses, mut ports) = ([None; 2], [None; 2]);
        let mut at = 0;
        loop {
            let tag = Tag::at(bytes, at)?;
            at = tag.end();
            match tag.number {
                END => break,
                DISSECTOR => tags.dissector = tag.text()?,
                PROTOCOL => tags.protocol = tag.text()?,
                SOURCE_ADDRESS => addresses[0] = Some(tag.bytes::<4>()?.into()),
                DESTINATION_ADDRESS => addresses[1] = Some(tag.bytes::<4>()?.into()),
                SOURCE_ADDRESS_V6 => addresses[0] = Some(tag.bytes::<16>()?.into()),
                DESTINATION_ADDRESS_V6 => addresses[1] = Some(tag.bytes::<16>()?.into()),
                SOURCE_PORT => ports[0] = Some(u32::from_be_bytes(tag.bytes()?)),
                DESTINATION_PORT => ports[1] = Some(u32::from_be_bytes(tag.bytes()?)),
                _ => {}
            }
        }
        let end = |i: usize| {
            Some(Endpoint {
                address: addresses[i]?,
                port: ports[i]?,
            })
        };
        tags.ends = end(0).zip(end(1));
        Ok((tags, at))
    }

    /// Bytes that [`TagsRepr::emit`] writes.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        let address = |end: &Endpoint| match end.address {
            IpAddr::V4(_) => 8,
            IpAddr::V6(_) => 20,
        };
        let ends = self.ends.as_ref();
        let ends = ends.map_or(0, |(from, to)| address(from) + address(to) + 3 * 8);
        text_bytes(self.dissector) + text_bytes(self.protocol) + ends + 4
    }

    /// Writes the tags to the beginning of `buffer`, and gives what was written. Of a name
    /// the first 255 bytes count.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] if the buffer has less than [`TagsRepr::buffer_len`] bytes.
    pub fn emit<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Error> {
        need(FORMAT, "tags", buffer, self.buffer_len())?;
        let mut at = 0;
        let mut tag = |number: u16, value: &[u8]| {
            let padded = value.len().next_multiple_of(4);
            buffer[at..at + 2].copy_from_slice(&number.to_be_bytes());
            buffer[at + 2..at + 4].copy_from_slice(&(padded as u16).to_be_bytes());
            at += 4;
            buffer[at..at + padded].fill(0);
            buffer[at..at + value.len()].copy_from_slice(value);
            at += padded;
        };
        for (number, text) in [(DISSECTOR, self.dissector), (PROTOCOL, self.protocol)] {
            if !text.is_empty() {
                tag(number, &text.as_bytes()[..text.len().min(NAME_BYTES_MAX)]);
            }
        }
        if let Some((source, destination)) = self.ends {
            match source.address {
                IpAddr::V4(address) => tag(SOURCE_ADDRESS, &address.octets()),
                IpAddr::V6(address) => tag(SOURCE_ADDRESS_V6, &address.octets()),
            }
            match destination.address {
                IpAddr::V4(address) => tag(DESTINATION_ADDRESS, &address.octets()),
                IpAddr::V6(address) => tag(DESTINATION_ADDRESS_V6, &address.octets()),
            }
            tag(PORT_TYPE, &PORT_TYPE_TCP.to_be_bytes());
            tag(SOURCE_PORT, &source.port.to_be_bytes());
            tag(DESTINATION_PORT, &destination.port.to_be_bytes());
        }
        tag(END, &[]);
        Ok(&buffer[..at])
    }
}

fn text_bytes(text: &str) -> usize {
    match text.len().min(NAME_BYTES_MAX) {
        0 => 0,
        bytes => 4 + bytes.next_multiple_of(4),
    }
}

/// A tag in the bytes of a packet.
struct Tag<'a> {
    number: u16,
    /// Where the value begins.
    at: usize,
    value: &'a [u8],
}

impl<'a> Tag<'a> {
    fn at(bytes: &'a [u8], at: usize) -> Result<Self, Error> {
        need(FORMAT, "tag", bytes, at + 4)?;
        let number = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let length = u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]);
        let at = at + 4;
        let end = at + usize::from(length);
        need(FORMAT, "tag", bytes, end)?;
        let value = &bytes[at..end];
        Ok(Self { number, at, value })
    }

    const fn end(&self) -> usize {
        self.at + self.value.len()
    }

    /// The value without the zeros that pad it.
    fn text(&self) -> Result<&'a str, Error> {
        let length = self
            .value
            .iter()
            .rposition(|b| *b != 0)
            .map_or(0, |i| i + 1);
        core::str::from_utf8(&self.value[..length])
            .map_err(|e| self.wrong(self.value[e.valid_up_to()].into(), "UTF-8"))
    }

    fn bytes<const N: usize>(&self) -> Result<[u8; N], Error> {
        let found = self.value.len() as u64;
        let allowed = match N {
            4 => "a length of 4 bytes",
            _ => "a length of 16 bytes",
        };
        <[u8; N]>::try_from(self.value).map_err(|_| self.wrong(found, allowed))
    }

    const fn wrong(&self, found: u64, allowed: &'static str) -> Error {
        let bits = self.at * 8..self.end() * 8;
        Error::new(FORMAT, "tag", bits, Fault::Value { found, allowed })
    }

    const fn name(&self) -> &'static str {
        match self.number {
            END => "end",
            DISSECTOR => "dissector",
            PROTOCOL => "protocol",
            SOURCE_ADDRESS | SOURCE_ADDRESS_V6 => "source address",
            DESTINATION_ADDRESS | DESTINATION_ADDRESS_V6 => "destination address",
            PORT_TYPE => "port type",
            SOURCE_PORT => "source port",
            DESTINATION_PORT => "destination port",
            _ => "other",
        }
    }
}

impl fmt::Display for TagsRepr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {:?}", self.dissector)?;
        if !self.protocol.is_empty() {
            write!(f, " as {:?}", self.protocol)?;
        }
        if let Some((source, destination)) = &self.ends {
            write!(f, ", {} to {}", source.port, destination.port)?;
        }
        Ok(())
    }
}

/// Shows the tags, and the packet as bytes.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open("exported PDU", first_bit..first_bit + bytes.len() * 8);
    let mut at = 0;
    let checked = loop {
        let tag = match Tag::at(bytes, at) {
            Ok(tag) => tag,
            Err(error) => break Err(error),
        };
        let bits = first_bit + at * 8..first_bit + tag.end() * 8;
        sink.field(tag.name(), bits, Value::Bytes(tag.value));
        at = tag.end();
        if tag.number == END {
            break TagsRepr::parse(bytes).map(|_| ());
        }
    };
    match checked {
        Ok(()) => {
            let bits = first_bit + at * 8..first_bit + bytes.len() * 8;
            sink.field("packet", bits, Value::Bytes(&bytes[at..]));
        }
        Err(error) => sink.wrong(error.shifted(first_bit)),
    }
    sink.close();
}
