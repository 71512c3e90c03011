//! The way out of a card: a FIFO that processor or engine fill, and what makes frames of it.
//!
//! A frame leaves when the FIFO holds all of it, or the rest of its piece. A card with an
//! aperture lets stores straight through: whenever the link is free, it sends what there is.

use std::collections::VecDeque;

use super::{Frame, Framing, Piece};

/// What a transmitter is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitterConfig {
    /// Its frames.
    pub framing: Framing,
    /// Bytes that the FIFO holds.
    pub fifo_bytes: u64,
    /// Whether it sends what there is, or whole frames.
    pub straight_through: bool,
}

#[derive(Clone, Copy, Debug)]
struct Outgoing {
    piece: Piece,
    arrived_bytes: u64,
    /// Of the piece and its trailer.
    sent_bytes: u64,
}

/// The way out.
#[derive(Clone, Debug)]
pub struct Transmitter {
    config: TransmitterConfig,
    pieces: VecDeque<Outgoing>,
    held_bytes: u64,
    frames: u64,
}

impl Transmitter {
    /// An empty transmitter.
    #[must_use]
    pub const fn new(config: TransmitterConfig) -> Self {
        Self {
            config,
            pieces: VecDeque::new(),
            held_bytes: 0,
            frames: 0,
        }
    }

    /// The bytes of `piece` are going to come, after those of the pieces before.
    pub fn start(&mut self, piece: Piece) {
        self.pieces.push_back(Outgoing {
            piece,
            arrived_bytes: 0,
            sent_bytes: 0,
        });
    }

    /// Bytes for which the FIFO has room.
    #[must_use]
    pub const fn room_bytes(&self) -> u64 {
        self.config.fifo_bytes.saturating_sub(self.held_bytes)
    }

    /// The next `bytes` of the piece that comes are in the FIFO.
    pub fn arrive(&mut self, bytes: u64) {
        let mut pieces = self.pieces.iter_mut();
        if let Some(coming) = pieces.find(|piece| piece.arrived_bytes < piece.piece.bytes) {
            coming.arrived_bytes += bytes;
            self.held_bytes += bytes;
        }
    }

    /// A frame that can leave now, taken out; its bytes stay in the FIFO until
    /// [`Transmitter::sent`].
    pub fn poll(&mut self) -> Option<Frame> {
        let framing = &self.config.framing;
        let trailer_bytes = framing.trailer_bytes;
        let head = self.pieces.front_mut()?;
        let piece = head.piece;
        let whole = piece.bytes + trailer_bytes;
        let all_arrived = head.arrived_bytes == piece.bytes;
        let there = if all_arrived {
            whole
        } else {
            head.arrived_bytes
        };
        let there = there - head.sent_bytes;
        let body_bytes = there.min(framing.payload_bytes.max(1));
        let full = body_bytes == framing.payload_bytes;
        let some = self.config.straight_through && body_bytes > 0;
        if !(full || all_arrived || some) {
            return None;
        }
        let offset = head.sent_bytes.min(piece.bytes);
        head.sent_bytes += body_bytes;
        let frame = Frame {
            piece,
            offset,
            bytes: head.sent_bytes.min(piece.bytes) - offset,
            body_bytes,
            last: head.sent_bytes == whole,
        };
        if frame.last {
            self.pieces.pop_front();
        }
        self.frames += 1;
        Some(frame)
    }

    /// `frame` has left the card.
    pub const fn sent(&mut self, frame: &Frame) {
        self.held_bytes = self.held_bytes.saturating_sub(frame.bytes);
    }

    /// Frames made.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }
}
