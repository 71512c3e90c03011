//! The classic pcap file: one link type, and a record for each packet.
//!
//! ```text
//! file   | magic u32 | major u16 = 2 | minor u16 = 4 | 0 u32 | 0 u32 | snap length u32 | link type u32 |
//! record | seconds u32 | fraction u32 | captured length u32 | original length u32 | data |
//! ```
//!
//! The magic tells the byte order and the unit of the fraction: 0xa1b2c3d4 microseconds,
//! 0xa1b23c4d nanoseconds. The upper half of the link type says things about check
//! sequences, which we pass over. Records are not padded.
//!
//! Source: pcapng (draft-ietf-opsawg-pcap, sections 4 and 5).

use super::block::value;
use super::order::{ByteOrder, Words};
use super::{BLOCK_BYTES_MAX, LinkType, Output, PACKET_BYTES_MAX, cut, lengths};
use crate::error::Error;

pub(super) const FORMAT: &str = "pcap";
pub(super) const HEADER_BYTES: usize = 24;
pub(super) const RECORD_BYTES: usize = 16;
const MAJOR: u16 = 2;
const MINOR: u16 = 4;

/// The unit of the fraction of a second in a pcap file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds: what all programs read.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl Resolution {
    const fn magic(self) -> u32 {
        match self {
            Self::Microseconds => 0xa1b2_c3d4,
            Self::Nanoseconds => 0xa1b2_3c4d,
        }
    }

    const fn unit_ns(self) -> u32 {
        match self {
            Self::Microseconds => 1000,
            Self::Nanoseconds => 1,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FileHeader {
    order: ByteOrder,
    resolution: Resolution,
    pub link_type: LinkType,
}

/// What stands in front of a packet.
pub(super) struct Record {
    pub time_ns: u64,
    pub captured_bytes: usize,
    pub original_bytes: u32,
}

impl FileHeader {
    pub fn with_magic(magic: [u8; 4]) -> Result<Self, Error> {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for resolution in [Resolution::Microseconds, Resolution::Nanoseconds] {
                if order.u32(magic) == resolution.magic() {
                    let link_type = LinkType(0);
                    return Ok(Self {
                        order,
                        resolution,
                        link_type,
                    });
                }
            }
        }
        let found = u64::from(u32::from_be_bytes(magic));
        let allowed = "0x0a0d0d0a (pcapng), 0xa1b2c3d4 or 0xa1b23c4d (pcap)";
        Err(value("capture", "magic", 0..4, found, allowed))
    }

    /// The header, from at least [`HEADER_BYTES`].
    pub fn parse(self, bytes: &[u8]) -> Result<Self, Error> {
        let order = self.order;
        let words = Words { bytes, order };
        let major = words.u16(4);
        if major != MAJOR {
            return Err(value(FORMAT, "major version", 4..6, major.into(), "2"));
        }
        Ok(Self {
            link_type: LinkType((words.u32(20) & 0xffff) as u16),
            ..self
        })
    }

    /// The head of a record, from at least [`RECORD_BYTES`].
    pub fn record(self, bytes: &[u8]) -> Result<Record, Error> {
        let order = self.order;
        let words = Words { bytes, order };
        let [seconds, fraction, captured, original_bytes] = [0, 4, 8, 12].map(|at| words.u32(at));
        let unit_ns = self.resolution.unit_ns();
        if fraction >= 1_000_000_000 / unit_ns {
            let allowed = "less than a second";
            return Err(value(FORMAT, "fraction", 4..8, fraction.into(), allowed));
        }
        let wrong = |allowed| value(FORMAT, "captured length", 8..12, captured.into(), allowed);
        if captured > original_bytes {
            return Err(wrong("at most the original length"));
        }
        if captured as usize > BLOCK_BYTES_MAX {
            return Err(wrong("at most 16 MiB"));
        }
        Ok(Record {
            time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction * unit_ns),
            captured_bytes: captured as usize,
            original_bytes,
        })
    }
}

/// Writes a pcap file.
#[derive(Debug)]
pub struct Pcap<O> {
    out: O,
    order: ByteOrder,
    resolution: Resolution,
    snap_bytes: usize,
}

impl<O: Output> Pcap<O> {
    /// Begins a file of packets of `link_type`, of which at most `snap_bytes` are kept
    /// (0, or more than [`PACKET_BYTES_MAX`]: that much).
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new(
        mut out: O,
        order: ByteOrder,
        resolution: Resolution,
        link_type: LinkType,
        snap_bytes: u32,
    ) -> Result<Self, O::Error> {
        let snap_bytes = match snap_bytes as usize {
            0 => PACKET_BYTES_MAX,
            other => other.min(PACKET_BYTES_MAX),
        };
        out.put(&order.put_u32(resolution.magic()))?;
        out.put(&order.put_u16(MAJOR))?;
        out.put(&order.put_u16(MINOR))?;
        for word in [0, 0, snap_bytes as u32, u32::from(link_type.0)] {
            out.put(&order.put_u32(word))?;
        }
        Ok(Self {
            out,
            order,
            resolution,
            snap_bytes,
        })
    }

    /// Writes the packet that `parts` make up. Of the time, in nanoseconds since 1970,
    /// what the file's resolution does not show is lost, and a time after February 2106
    /// becomes the last second that the format has.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn packet(&mut self, time_ns: u64, parts: &[&[u8]]) -> Result<(), O::Error> {
        let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = (time_ns % 1_000_000_000) as u32 / self.resolution.unit_ns();
        let (captured, original_bytes) = lengths(parts, self.snap_bytes);
        for word in [seconds, fraction, captured as u32, original_bytes] {
            self.out.put(&self.order.put_u32(word))?;
        }
        cut(parts, self.snap_bytes).try_for_each(|part| self.out.put(part))
    }

    /// The output, for instance to flush it.
    pub fn output(&mut self) -> &mut O {
        &mut self.out
    }
}
