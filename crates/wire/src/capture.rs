//! Capture files: reading and writing pcapng and pcap, and what stands in front of the
//! packets of the link types that Wireshark knows for ATM, SONET and our own formats.
//!
//! Writing needs a place to put bytes, an [`Output`]: a [`Buffer`] over a slice, or three
//! lines around a file:
//!
//! ```
//! use barewire_wire::capture::{ByteOrder, LinkType, Output, Pcapng, Reader};
//! # extern crate std;
//! struct To<W>(W);
//! impl<W: std::io::Write> Output for To<W> {
//!     type Error = std::io::Error;
//!     fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> { self.0.write_all(bytes) }
//! }
//!
//! let mut file = std::vec::Vec::new();
//! let mut capture = Pcapng::new(To(&mut file), ByteOrder::NATIVE)?;
//! let port = capture.interface(LinkType::ETHERNET, 0, "eth0")?;
//! capture.packet(port, 1_700_000_000_000_000_001, &[&[0; 12], &[8, 0]], "first")?;
//!
//! let packet = Reader::new(&file).next().unwrap()?;
//! assert_eq!(packet.link_type, LinkType::ETHERNET);
//! assert_eq!(packet.time_ns, Some(1_700_000_000_000_000_001));
//! assert_eq!(packet.data.len(), 14);
//! assert_eq!(packet.comments().next(), Some("first"));
//! # Ok::<(), std::boxed::Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading is an iterator over a slice, [`Reader`], or over pieces of a file of any size,
//! [`Decoder`]; both tell the format and the byte order by themselves. What Wireshark makes
//! of each link type:
//!
//! | link type | packet | checked by Wireshark |
//! |---|---|---|
//! | [`LinkType::SUNATM`] | [`sunatm`] header, AAL5 payload without trailer | |
//! | [`LinkType::ERF`] | [`erf`] header, cell without HEC, or cell header and AAL5 PDU, or SONET frame | CRC-32, OAM CRC-10 |
//! | [`LinkType::ATM_RFC1483`] | LLC/SNAP and payload | |
//! | [`LinkType::UPPER_PDU`] | [`exported`] tags, then what the dissector named there takes | by `docs/wireshark/barewire.lua` |
//!
//! No link type holds a cell with its HEC, says that a cell is one of AAL3/4, or has room
//! for the longest AAL5 PDU with its trailer. Those go to our own dissectors; the first two
//! Wireshark also shows by itself, from a file of the DOS Sniffer (the tests of
//! `barewire-formats` write one).
//!
//! Source: pcapng (draft-ietf-opsawg-pcapng), pcap (draft-ietf-opsawg-pcap).

mod block;
mod decode;
pub mod erf;
pub mod exported;
mod order;
mod pcap;
mod pcapng;
mod reader;
pub mod sunatm;
#[cfg(test)]
mod tests;

use core::fmt;

pub use block::{BLOCK_BYTES_MAX, Comments};
pub use decode::{Decoder, INTERFACES_MAX, Step};
pub use order::ByteOrder;
pub use pcap::{Pcap, Resolution};
pub use pcapng::{Pcapng, Port};
pub use reader::{Reader, describe};

use crate::error::Error;

/// Longest packet that Wireshark takes, pseudo-header included.
pub const PACKET_BYTES_MAX: usize = 256 << 10;

/// What the packets of an interface begin with, by the number that pcap and pcapng use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet, without its check sequence.
    pub const ETHERNET: Self = Self(1);
    /// An AAL5 payload in LLC/SNAP encapsulation: no cell header, no trailer.
    pub const ATM_RFC1483: Self = Self(100);
    /// An AAL5 payload, without padding and trailer, behind a [`sunatm`] header.
    pub const SUNATM: Self = Self(123);
    /// A record of Endace's format, with an [`erf`] header.
    pub const ERF: Self = Self(197);
    /// [`exported`] tags that name a dissector, and what that dissector takes.
    pub const UPPER_PDU: Self = Self(252);

    /// The name in the registry of link types, if it is one of the above.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::ETHERNET => Some("ETHERNET"),
            Self::ATM_RFC1483 => Some("ATM_RFC1483"),
            Self::SUNATM => Some("SUNATM"),
            Self::ERF => Some("ERF"),
            Self::UPPER_PDU => Some("WIRESHARK_UPPER_PDU"),
            _ => None,
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "link type {}", self.0),
        }
    }
}

/// One packet of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of the interface in its section; 0 in pcap.
    pub interface: u32,
    /// What [`Packet::data`] begins with.
    pub link_type: LinkType,
    /// Nanoseconds since 1970 began; simple packet blocks have no time.
    pub time_ns: Option<u64>,
    /// Length of the packet before it was cut.
    pub original_bytes: u32,
    /// Where `data` begins in the file, in bytes.
    pub offset_bytes: usize,
    /// What was captured.
    pub data: &'a [u8],
    comments: Comments<'a>,
}

impl<'a> Packet<'a> {
    /// The comments on this packet; those that are not UTF-8 are passed over.
    #[must_use]
    pub fn comments(&self) -> Comments<'a> {
        self.comments
    }

    /// Whether the capture holds less than there was.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.data.len() < self.original_bytes as usize
    }

    /// Takes the pseudo-header off, as the link type says.
    ///
    /// # Errors
    ///
    /// What is wrong with the pseudo-header, with its position in the file.
    pub fn open(&self) -> Result<Content<'a>, Error> {
        self.content().map_err(|e| e.shifted(self.offset_bytes * 8))
    }

    fn content(&self) -> Result<Content<'a>, Error> {
        match self.link_type {
            LinkType::SUNATM => {
                let header = sunatm::HeaderRepr::parse(&sunatm::Header::new_checked(self.data)?)?;
                Ok(Content::SunAtm(header, &self.data[sunatm::HEADER_BYTES..]))
            }
            LinkType::ERF => {
                let record = erf::Record::new_checked(self.data)?;
                let payload = &self.data[record.payload_range()];
                Ok(Content::Erf(erf::RecordRepr::parse(&record)?, payload))
            }
            LinkType::UPPER_PDU => {
                let (tags, length) = exported::TagsRepr::parse(self.data)?;
                Ok(Content::Exported(tags, &self.data[length..]))
            }
            other => Ok(Content::Plain(other, self.data)),
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(time_ns) = self.time_ns {
            let (s, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            write!(f, "{s}.{ns:09} s, ")?;
        }
        write!(f, "{}, {} bytes", self.link_type, self.data.len())?;
        if self.is_cut() {
            write!(f, " of {}", self.original_bytes)?;
        }
        Ok(())
    }
}

/// A packet without its pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// An AAL5 payload, without padding and trailer.
    SunAtm(sunatm::HeaderRepr, &'a [u8]),
    /// What the record type says.
    Erf(erf::RecordRepr, &'a [u8]),
    /// What the dissector named by the tags takes.
    Exported(exported::TagsRepr<'a>, &'a [u8]),
    /// A link type without a pseudo-header, or one that we do not know.
    Plain(LinkType, &'a [u8]),
}

/// Where a writer puts the bytes of a file.
pub trait Output {
    /// Why bytes could not be put.
    type Error;

    /// Puts all of `bytes` behind what has been put before.
    ///
    /// # Errors
    ///
    /// When the place takes no more. The file ends in the middle of a block then.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

impl<O: Output + ?Sized> Output for &mut O {
    type Error = O::Error;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        (**self).put(bytes)
    }
}

/// An [`Output`] into a slice.
#[derive(Debug)]
pub struct Buffer<'a> {
    bytes: &'a mut [u8],
    used_bytes: usize,
}

/// A [`Buffer`] has no room for what was to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<'a> Buffer<'a> {
    /// An empty buffer that `bytes` is the room of.
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            used_bytes: 0,
        }
    }

    /// What has been put.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.used_bytes]
    }
}

impl Output for Buffer<'_> {
    type Error = Full;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let room = self.bytes[self.used_bytes..].get_mut(..bytes.len());
        room.ok_or(Full)?.copy_from_slice(bytes);
        self.used_bytes += bytes.len();
        Ok(())
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the buffer is full")
    }
}

impl core::error::Error for Full {}

/// The parts of a packet, cut where `snap_bytes` (0: nowhere) of it have been used.
fn cut<'a>(parts: &'a [&'a [u8]], snap_bytes: usize) -> impl Iterator<Item = &'a [u8]> {
    let mut room = if snap_bytes == 0 {
        usize::MAX
    } else {
        snap_bytes
    };
    parts.iter().map(move |part| {
        let kept = &part[..part.len().min(room)];
        room -= kept.len();
        kept
    })
}

/// Captured and original length of a packet in `parts`, cut at `snap_bytes` (0: nowhere)
/// and at what the format can say.
fn lengths(parts: &[&[u8]], snap_bytes: usize) -> (usize, u32) {
    let total = parts.iter().fold(0_usize, |n, p| n.saturating_add(p.len()));
    let kept = cut(parts, snap_bytes).map(<[u8]>::len).sum();
    (kept, u32::try_from(total).unwrap_or(u32::MAX))
}
