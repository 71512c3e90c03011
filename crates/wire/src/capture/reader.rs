//! A capture file that is a slice: the iterator over its packets, and the tree that shows it.

use super::decode::{Decoder, Step};
use super::{LinkType, Packet, erf, exported, sunatm};
use crate::error::Error;
use crate::tree::{Sink, Value};

/// The packets of a capture file that is a slice. The first error is the last item.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    decoder: Decoder,
    rest: &'a [u8],
    is_over: bool,
}

impl<'a> Reader<'a> {
    /// Reads the file with these `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            decoder: Decoder::new(),
            rest: bytes,
            is_over: false,
        }
    }

    fn advance(&mut self) -> Result<Option<Packet<'a>>, Error> {
        loop {
            match self.decoder.step(self.rest)? {
                Step::More { .. } => return self.decoder.finish(self.rest).map(|()| None),
                Step::Done { used_bytes, packet } => {
                    self.rest = &self.rest[used_bytes..];
                    if packet.is_some() {
                        return Ok(packet);
                    }
                }
            }
        }
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Packet<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.advance().transpose();
        self.is_over = !matches!(item, Some(Ok(_)));
        item
    }
}

impl core::iter::FusedIterator for Reader<'_> {}

/// Shows the packets of the capture file `bytes`, and what is wrong with it.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open("capture", first_bit..first_bit + bytes.len() * 8);
    for packet in Reader::new(bytes) {
        match packet {
            Ok(packet) => describe_packet(&packet, first_bit, sink),
            Err(error) => sink.wrong(error.shifted(first_bit)),
        }
    }
    sink.close();
}

fn describe_packet(packet: &Packet<'_>, first_bit: usize, sink: &mut dyn Sink) {
    let begin = first_bit + packet.offset_bytes * 8;
    let bits = begin..begin + packet.data.len() * 8;
    let LinkType(link_type) = packet.link_type;
    let name = packet.link_type.name().unwrap_or("unknown");
    sink.open("packet", bits.clone());
    // Where the words about a packet stand differs from block to block.
    sink.field(
        "interface",
        begin..begin,
        Value::Uint(packet.interface.into()),
    );
    sink.field(
        "link type",
        begin..begin,
        Value::Code(link_type.into(), name),
    );
    if let Some(time_ns) = packet.time_ns {
        sink.field("time, ns", begin..begin, Value::Uint(time_ns));
    }
    let original = Value::Uint(packet.original_bytes.into());
    sink.field("original length, bytes", begin..begin, original);
    match packet.link_type {
        LinkType::SUNATM => sunatm::describe(packet.data, begin, sink),
        LinkType::ERF => erf::describe(packet.data, begin, sink),
        LinkType::UPPER_PDU => exported::describe(packet.data, begin, sink),
        _ => sink.field("data", bits, Value::Bytes(packet.data)),
    }
    sink.close();
}
