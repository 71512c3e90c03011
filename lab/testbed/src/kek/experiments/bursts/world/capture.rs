//! What goes over the links, as bytes.

use barewire_units::Instant;

use super::links::ends_of;
use super::{Sending, World};
use crate::kek::ethernet::{self, PieceHeader};

impl World<'_> {
    pub(super) fn capture_sent(&mut self, source: u16, now: Instant, sending: &Sending) {
        let Some(capture) = self.captures.from_sources.get_mut(usize::from(source)) else {
            return;
        };
        let builder = match sending {
            Sending::Piece(piece) => piece.builder.0,
            Sending::Segment(number, _) => match self.connections.as_mut() {
                Some(connections) => connections.at(*number).builder,
                None => return,
            },
        };
        let header_bytes = self.shape.header_bytes;
        capture.record(now, || bytes_of(source, builder, header_bytes, sending));
    }

    pub(super) fn capture_received(
        &mut self,
        source: u16,
        builder: u16,
        left: Instant,
        sending: &Sending,
    ) {
        let Some(capture) = self.captures.to_builders.get_mut(usize::from(builder)) else {
            return;
        };
        let payload_bytes = match sending {
            Sending::Piece(piece) => piece.bytes,
            Sending::Segment(_, segment) => segment.len,
        };
        let wire_bytes = self.shape.frame_bytes(payload_bytes);
        let time = self.builders[usize::from(builder)].port.time(wire_bytes);
        let began = left.checked_sub(time).unwrap_or(left);
        let header_bytes = self.shape.header_bytes;
        capture.record(began, || bytes_of(source, builder, header_bytes, sending));
    }
}

fn bytes_of(source: u16, builder: u16, header_bytes: u64, sending: &Sending) -> Vec<u8> {
    let ends = ends_of(source, builder);
    match sending {
        Sending::Piece(piece) => {
            let header = PieceHeader {
                event: piece.event,
                source,
                sequence: piece.sequence,
                offset: piece.offset,
                fragment_bytes: piece.fragment_bytes,
                bytes: piece.bytes,
            };
            ethernet::datagram(&ends, header_bytes, &header)
        }
        Sending::Segment(_, segment) => {
            ethernet::tcp(&ends, segment.seq, 0, u64::from(u16::MAX), segment.len)
        }
    }
}
