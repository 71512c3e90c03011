//! Frames and cells: what stands around the bytes of a piece on the link.

use barewire_units::{ByteSize, Duration, Rate};

/// What is sent over the link at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Rate of the link.
    pub rate: Rate,
    /// The most bytes that a frame carries; at least one.
    pub payload_bytes: u64,
    /// A frame with fewer bytes is filled up to so many: to all of them, and it is a cell.
    pub least_bytes: u64,
    /// Bytes on the link around them: header, check, gap.
    pub overhead_bytes: u64,
    /// Bytes that the card puts behind a piece before it cuts it.
    pub trailer_bytes: u64,
}

/// A part of a message that the host hands to the card at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The message.
    pub message: u32,
    /// Who sends it.
    pub from: u16,
    /// To whom.
    pub to: u16,
    /// Where in the message it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether the message ends with it.
    pub last: bool,
}

/// A frame, or a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is a part of.
    pub piece: Piece,
    /// Where in the piece its bytes begin.
    pub offset: u64,
    /// Bytes of the piece in it.
    pub bytes: u64,
    /// Bytes of the piece and its trailer in it.
    pub body_bytes: u64,
    /// Whether the piece ends with it.
    pub last: bool,
}

impl Framing {
    /// Bytes on the link for a frame with so many bytes in it.
    #[must_use]
    pub const fn frame_bytes(&self, body_bytes: u64) -> u64 {
        let body = if body_bytes > self.least_bytes {
            body_bytes
        } else {
            self.least_bytes
        };
        body.saturating_add(self.overhead_bytes)
    }

    /// Time on the link of a frame with so many bytes in it.
    #[must_use]
    pub fn frame_time(&self, body_bytes: u64) -> Duration {
        let size = ByteSize::from_bytes(self.frame_bytes(body_bytes));
        let time = self.rate.checked_time_to_send(size);
        time.unwrap_or(Duration::MAX)
    }

    /// Frames of a piece of `bytes`, with its trailer.
    #[must_use]
    pub fn frames(&self, bytes: u64) -> u64 {
        let body = bytes.saturating_add(self.trailer_bytes);
        body.div_ceil(self.payload_bytes.max(1)).max(1)
    }

    /// The most bits of messages of `bytes`, cut in pieces of `piece_bytes`, that the link can
    /// carry in a second.
    #[must_use]
    pub fn payload_bps(&self, bytes: u64, piece_bytes: u64) -> f64 {
        let mut time = Duration::ZERO;
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(piece_bytes.max(1));
            left -= piece;
            let mut body = piece.saturating_add(self.trailer_bytes);
            while body > 0 {
                let frame = body.min(self.payload_bytes.max(1));
                body -= frame;
                time = time.saturating_add(self.frame_time(frame));
            }
        }
        bytes as f64 * 8e12 / time.as_ps().max(1) as f64
    }
}
