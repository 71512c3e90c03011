//! Reading capture files: one [`Decoder`] for pcapng and pcap in both byte orders.
//!
//! The decoder keeps the interfaces of the section that it is in, and nothing else: it
//! takes the bytes at its position, says how many of them it used up, and gives the packet
//! that they held, if any.

use core::ops::Range;

use super::block::{self, FORMAT, Opt, Options, value};
use super::order::Words;
use super::pcap::{self, FileHeader, RECORD_BYTES};
use super::{ByteOrder, Comments, LinkType, Packet};
use crate::error::{Error, Fault};

/// Most interfaces that we remember of one section.
pub const INTERFACES_MAX: usize = 128;

/// What the packets of an interface need to be understood.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    snap_bytes: u32,
    /// As in the option: `10^-n` s, with bit 7 `2^-n` s.
    resolution: u8,
    offset_s: i64,
}

impl Interface {
    const NONE: Self = Self {
        link_type: LinkType(0),
        snap_bytes: 0,
        resolution: 6,
        offset_s: 0,
    };

    /// The interface that an interface block describes.
    fn parse(block: Words<'_>) -> Result<Self, Error> {
        let order = block.order;
        let mut interface = Self {
            link_type: LinkType(block.u16(8)),
            snap_bytes: block.u32(12),
            ..Self::NONE
        };
        for Opt { at, code, value } in Options::of(block, 16)? {
            let wrong = |allowed| {
                let found = value.len() as u64;
                block::value(FORMAT, "option length", at + 2..at + 4, found, allowed)
            };
            match code {
                block::OPTION_RESOLUTION => {
                    let [resolution] = value else {
                        return Err(wrong("1"));
                    };
                    interface.resolution = *resolution;
                }
                block::OPTION_TIME_OFFSET => {
                    if value.len() != 8 {
                        return Err(wrong("8"));
                    }
                    let bytes = value;
                    interface.offset_s = Words { bytes, order }.u64(0) as i64;
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    /// Nanoseconds since 1970 of a time stamp; `None` outside of 64 bits.
    fn time_ns(&self, stamp: u64) -> Option<u64> {
        let exponent = u32::from(self.resolution & 0x7f);
        let scaled = u128::from(stamp) * 1_000_000_000;
        let ns = if self.resolution & 0x80 == 0 {
            10_u128
                .checked_pow(exponent)
                .map_or(0, |unit| scaled / unit)
        } else {
            scaled >> exponent
        };
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(i128::try_from(ns).ok()? + offset_ns).ok()
    }
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Unknown,
    Pcap(FileHeader),
    Pcapng(ByteOrder),
}

/// What the bytes at the decoder's position held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// There are too few: come back with at least this many, from the same position.
    More {
        /// Bytes that are needed.
        needed_bytes: usize,
    },
    /// A whole block or record; go on behind it.
    Done {
        /// Bytes that it took.
        used_bytes: usize,
        /// The packet in it, if it was one.
        packet: Option<Packet<'a>>,
    },
}

/// Takes a capture file apart, block after block, from any source of bytes.
///
/// ```no_run
/// use barewire_wire::capture::{Decoder, Step};
/// # extern crate std;
/// use std::io::Read;
/// # fn main() -> Result<(), std::boxed::Box<dyn std::error::Error>> {
/// let mut file = std::fs::File::open("large.pcapng")?;
/// let (mut decoder, mut held) = (Decoder::new(), std::vec::Vec::new());
/// loop {
///     match decoder.step(&held)? {
///         Step::Done { used_bytes, packet } => {
///             if let Some(packet) = packet { std::println!("{packet}"); }
///             held.drain(..used_bytes);
///         }
///         Step::More { needed_bytes } => {
///             let missing = (needed_bytes - held.len()) as u64;
///             if file.by_ref().take(missing).read_to_end(&mut held)? == 0 { break; }
///         }
///     }
/// }
/// decoder.finish(&held)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    format: Format,
    interfaces: [Interface; INTERFACES_MAX],
    interface_count: usize,
    offset_bytes: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a file.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            format: Format::Unknown,
            interfaces: [Interface::NONE; INTERFACES_MAX],
            interface_count: 0,
            offset_bytes: 0,
        }
    }

    /// Where the decoder is in the file, in bytes.
    #[must_use]
    pub const fn offset_bytes(&self) -> usize {
        self.offset_bytes
    }

    /// Takes the next block or record from `bytes`, which begin at the decoder's position.
    ///
    /// # Errors
    ///
    /// What is wrong, with its position in the file. The decoder stays where it is.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Error> {
        let step = match self.format {
            Format::Unknown => self.first(bytes),
            Format::Pcap(header) => self.record(header, bytes),
            Format::Pcapng(order) => self.block(order, bytes),
        };
        let step = step.map_err(|error| error.shifted(self.offset_bytes.saturating_mul(8)))?;
        if let Step::Done { used_bytes, .. } = step {
            self.offset_bytes = self.offset_bytes.saturating_add(used_bytes);
        }
        Ok(step)
    }

    /// Checks that the file may end here, with `rest` unused.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] where a block, a record or the file header is cut off.
    pub fn finish(&self, rest: &[u8]) -> Result<(), Error> {
        let (format, field) = match self.format {
            Format::Unknown => ("capture", "magic"),
            Format::Pcap(_) => (pcap::FORMAT, "record"),
            Format::Pcapng(_) => (FORMAT, "block"),
        };
        if rest.is_empty() && !matches!(self.format, Format::Unknown) {
            return Ok(());
        }
        let needed_bytes = match self.clone().step(rest)? {
            Step::More { needed_bytes } => needed_bytes,
            Step::Done { .. } => return Ok(()),
        };
        let have_bytes = rest.len();
        let fault = Fault::Short {
            needed_bytes,
            have_bytes,
        };
        let bits = have_bytes * 8..needed_bytes * 8;
        Err(Error::new(format, field, bits, fault).shifted(self.offset_bytes.saturating_mul(8)))
    }

    /// The first block tells what the file is.
    fn first<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Error> {
        let Some(magic) = bytes.first_chunk() else {
            return Ok(Step::More { needed_bytes: 4 });
        };
        if u32::from_be_bytes(*magic) == block::SECTION {
            return self.block(ByteOrder::Little, bytes);
        }
        let header = FileHeader::with_magic(*magic)?;
        if bytes.len() < pcap::HEADER_BYTES {
            let needed_bytes = pcap::HEADER_BYTES;
            return Ok(Step::More { needed_bytes });
        }
        self.format = Format::Pcap(header.parse(bytes)?);
        Ok(Step::Done {
            used_bytes: pcap::HEADER_BYTES,
            packet: None,
        })
    }

    fn record<'a>(&self, header: FileHeader, bytes: &'a [u8]) -> Result<Step<'a>, Error> {
        if bytes.len() < RECORD_BYTES {
            let needed_bytes = RECORD_BYTES;
            return Ok(Step::More { needed_bytes });
        }
        let record = header.record(bytes)?;
        let used_bytes = RECORD_BYTES + record.captured_bytes;
        let Some(data) = bytes.get(RECORD_BYTES..used_bytes) else {
            return Ok(Step::More {
                needed_bytes: used_bytes,
            });
        };
        let packet = Packet {
            interface: 0,
            link_type: header.link_type,
            time_ns: Some(record.time_ns),
            original_bytes: record.original_bytes,
            offset_bytes: self.offset_bytes.saturating_add(RECORD_BYTES),
            data,
            comments: Comments(Options::NONE),
        };
        Ok(Step::Done {
            used_bytes,
            packet: Some(packet),
        })
    }

    fn block<'a>(&mut self, order: ByteOrder, bytes: &'a [u8]) -> Result<Step<'a>, Error> {
        // The order of a section stands behind type and length of its first block.
        let is_section = bytes.starts_with(&block::SECTION.to_be_bytes());
        let head_bytes = block::HEAD_BYTES + if is_section { 4 } else { 0 };
        if bytes.len() < head_bytes {
            return Ok(Step::More {
                needed_bytes: head_bytes,
            });
        }
        let order = match bytes.get(8..).and_then(<[u8]>::first_chunk) {
            Some(magic) if is_section => block::section_order(*magic)?,
            _ => order,
        };
        let used_bytes = block::length(Words { bytes, order })?;
        let Some(bytes) = bytes.get(..used_bytes) else {
            return Ok(Step::More {
                needed_bytes: used_bytes,
            });
        };
        let block = Words { bytes, order };
        block::check_tail(block)?;
        let packet = match block.u32(0) {
            block::SECTION => self.section(block).map(|()| None),
            block::INTERFACE => self.interface(block).map(|()| None),
            block::SIMPLE_PACKET => self.simple_packet(block).map(Some),
            block::ENHANCED_PACKET => self.packet(block, block.u32(8)).map(Some),
            block::PACKET => self.packet(block, u32::from(block.u16(8))).map(Some),
            _ => Ok(None),
        }?;
        Ok(Step::Done { used_bytes, packet })
    }

    fn section(&mut self, block: Words<'_>) -> Result<(), Error> {
        let major = block.u16(12);
        if major != block::MAJOR {
            return Err(value(FORMAT, "major version", 12..14, major.into(), "1"));
        }
        Options::of(block, 24)?;
        self.format = Format::Pcapng(block.order);
        self.interface_count = 0;
        Ok(())
    }

    fn interface(&mut self, block: Words<'_>) -> Result<(), Error> {
        let interface = Interface::parse(block)?;
        let found = self.interface_count as u64 + 1;
        let allowed = "at most 128 interfaces of a section";
        let wrong = value(FORMAT, "interface", 0..4, found, allowed);
        *self.interfaces.get_mut(self.interface_count).ok_or(wrong)? = interface;
        self.interface_count += 1;
        Ok(())
    }

    fn known_interface(&self, number: u32, at: Range<usize>) -> Result<&Interface, Error> {
        let known = &self.interfaces[..self.interface_count];
        let allowed = "an interface that the section describes before";
        let wrong = value(FORMAT, "interface", at, number.into(), allowed);
        known.get(number as usize).ok_or(wrong)
    }

    fn packet<'a>(&self, block: Words<'a>, number: u32) -> Result<Packet<'a>, Error> {
        const DATA: usize = 28;
        let interface = self.known_interface(number, 8..12)?;
        let stamp = u64::from(block.u32(12)) << 32 | u64::from(block.u32(16));
        let allowed = "a time in the 584 years from 1970 on";
        let wrong = value(FORMAT, "time", 12..20, stamp, allowed);
        let time_ns = interface.time_ns(stamp).ok_or(wrong)?;
        let (captured, original_bytes) = (block.u32(20), block.u32(24));
        let wrong = |allowed| value(FORMAT, "captured length", 20..24, captured.into(), allowed);
        if captured > original_bytes {
            return Err(wrong("at most the original length"));
        }
        let room = block.bytes.len() - DATA - block::TAIL_BYTES;
        let captured = captured as usize;
        if captured > room {
            return Err(wrong("at most what the block has room for"));
        }
        let options = Options::of(block, DATA + captured.next_multiple_of(4))?;
        Ok(Packet {
            interface: number,
            link_type: interface.link_type,
            time_ns: Some(time_ns),
            original_bytes,
            offset_bytes: self.offset_bytes.saturating_add(DATA),
            data: &block.bytes[DATA..DATA + captured],
            comments: Comments(options),
        })
    }

    fn simple_packet<'a>(&self, block: Words<'a>) -> Result<Packet<'a>, Error> {
        const DATA: usize = 12;
        let interface = self.known_interface(0, 0..4)?;
        let original_bytes = block.u32(8);
        let captured = match interface.snap_bytes {
            0 => original_bytes,
            snap_bytes => original_bytes.min(snap_bytes),
        } as usize;
        let room = block.bytes.len() - DATA - block::TAIL_BYTES;
        if captured > room {
            let allowed = "at most what the block has room for, or the snap length";
            let found = u64::from(original_bytes);
            return Err(value(FORMAT, "original length", 8..12, found, allowed));
        }
        Ok(Packet {
            interface: 0,
            link_type: interface.link_type,
            time_ns: None,
            original_bytes,
            offset_bytes: self.offset_bytes.saturating_add(DATA),
            data: &block.bytes[DATA..DATA + captured],
            comments: Comments(Options::NONE),
        })
    }
}

const _: () = assert!(INTERFACES_MAX == 128, "an error names the number");
