//! Writing pcapng; the layout of the blocks stands in `block.rs`.

use super::block::{
    ENHANCED_PACKET, INTERFACE, MAJOR, OPTION_COMMENT, OPTION_NAME, OPTION_RESOLUTION, ORDER_MAGIC,
    SECTION,
};
use super::{ByteOrder, LinkType, Output, PACKET_BYTES_MAX, cut, lengths};

/// Time in nanoseconds: what the option for the resolution says.
const NANOSECONDS: u8 = 9;
/// A length of unknown size, for a section that is still being written.
const LENGTH_UNKNOWN: u32 = u32::MAX;

/// An interface of a file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    number: u32,
    snap_bytes: usize,
}

/// Writes a pcapng file of one section. All its times are in nanoseconds.
#[derive(Debug)]
pub struct Pcapng<O> {
    out: O,
    order: ByteOrder,
    port_count: u32,
}

impl<O: Output> Pcapng<O> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new(out: O, order: ByteOrder) -> Result<Self, O::Error> {
        let mut file = Self {
            out,
            order,
            port_count: 0,
        };
        file.words(&[SECTION, 28, ORDER_MAGIC])?;
        file.halves(MAJOR, 0)?;
        file.words(&[LENGTH_UNKNOWN, LENGTH_UNKNOWN, 28])?;
        Ok(file)
    }

    /// Describes an interface whose packets are of `link_type`, of which at most
    /// `snap_bytes` are kept (0, or more than [`PACKET_BYTES_MAX`]: that much), with a
    /// name for people, which may be empty and is cut after 255 bytes.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn interface(
        &mut self,
        link_type: LinkType,
        snap_bytes: u32,
        name: &str,
    ) -> Result<Port, O::Error> {
        let name = start_of(name, 255);
        let options_bytes = 8 + option_bytes(name) + 4;
        let length = 20 + options_bytes as u32;
        self.words(&[INTERFACE, length])?;
        self.halves(link_type.0, 0)?;
        self.words(&[snap_bytes])?;
        self.option(OPTION_NAME, name)?;
        self.halves(OPTION_RESOLUTION, 1)?;
        self.out.put(&[NANOSECONDS, 0, 0, 0])?;
        self.words(&[0, length])?;
        let port = Port {
            number: self.port_count,
            snap_bytes: match snap_bytes as usize {
                0 => PACKET_BYTES_MAX,
                other => other.min(PACKET_BYTES_MAX),
            },
        };
        self.port_count += 1;
        Ok(port)
    }

    /// Writes the packet that `parts` make up, seen on `port` at `time_ns` nanoseconds
    /// after 1970 began, with a comment, which may be empty and is cut after 65 535 bytes.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn packet(
        &mut self,
        port: Port,
        time_ns: u64,
        parts: &[&[u8]],
        comment: &str,
    ) -> Result<(), O::Error> {
        let comment = start_of(comment, usize::from(u16::MAX));
        let options_bytes = match option_bytes(comment) {
            0 => 0,
            bytes => bytes + 4,
        };
        let (captured, original_bytes) = lengths(parts, port.snap_bytes);
        let length = (32 + captured.next_multiple_of(4) + options_bytes) as u32;
        self.words(&[ENHANCED_PACKET, length, port.number])?;
        self.words(&[(time_ns >> 32) as u32, time_ns as u32])?;
        self.words(&[captured as u32, original_bytes])?;
        cut(parts, port.snap_bytes).try_for_each(|part| self.out.put(part))?;
        self.pad(captured)?;
        self.option(OPTION_COMMENT, comment)?;
        if options_bytes != 0 {
            self.words(&[0])?;
        }
        self.words(&[length])
    }

    /// The output, for instance to flush it.
    pub fn output(&mut self) -> &mut O {
        &mut self.out
    }

    fn option(&mut self, code: u16, text: &str) -> Result<(), O::Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.halves(code, text.len() as u16)?;
        self.out.put(text.as_bytes())?;
        self.pad(text.len())
    }

    fn pad(&mut self, used_bytes: usize) -> Result<(), O::Error> {
        let missing = used_bytes.next_multiple_of(4) - used_bytes;
        self.out.put(&[0; 4][..missing])
    }

    fn words(&mut self, words: &[u32]) -> Result<(), O::Error> {
        let order = self.order;
        words
            .iter()
            .try_for_each(|w| self.out.put(&order.put_u32(*w)))
    }

    fn halves(&mut self, first: u16, second: u16) -> Result<(), O::Error> {
        self.out.put(&self.order.put_u16(first))?;
        self.out.put(&self.order.put_u16(second))
    }
}

/// The first `bytes_max` bytes of `text`, or a little less where a character is cut.
fn start_of(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What a text takes as an option; nothing, if it is empty.
fn option_bytes(text: &str) -> usize {
    match text.len() {
        0 => 0,
        bytes => 4 + bytes.next_multiple_of(4),
    }
}
