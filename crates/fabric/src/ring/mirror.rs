//! Repeats a ring elsewhere: finds the frames that were published in one copy of a ring, and stores them in another.
//!
//! For a link to another host. There the writer stores into a stand-in of the reader's region, which lies in the
//! writer's own memory. A [`Mirror`] finds what was published there. It is stored at the same offsets into the region that
//! the reader has, the header last ([`publish_repeated`]). Nothing of this returns credit: the reader's words of credit
//! travel back in the same way.
//!
//! The copy need not equal the original but in what a reader looks at: before a header is published, the header position
//! behind its frame is zero ([`super`], invariant 1).

use super::offset;
use crate::frame::{
    CONTROL_BYTES, HEADER_BYTES, Kind, LINE_BYTES, is_of_last_lap, lines_for, ring_bytes_valid,
    unpack,
};
use crate::memory::{Incoming, Outgoing};
use crate::violation::Violation;

/// A frame as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The header word.
    pub header: u64,
    /// Offset of the header word in the region.
    pub offset: usize,
    /// Bytes from the header to the end of the payload: at least those of the header.
    pub len_bytes: usize,
    /// Offset of the header position behind the frame.
    pub next_offset: usize,
    /// Position of what follows, in lines.
    next: u64,
    kind: Kind,
    payload_bytes: usize,
}

impl Published {
    /// Position behind it, in lines.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.next
    }

    /// Bytes of a fragment with more to come; `None` of everything else.
    #[must_use]
    pub fn fragment_bytes(&self) -> Option<u64> {
        (self.kind == Kind::More).then_some(self.payload_bytes as u64)
    }

    /// Offset of its payload in the region, and the bytes of it. A skip has none.
    #[must_use]
    pub fn payload(&self) -> (usize, usize) {
        let len_bytes = match self.kind {
            Kind::Skip => 0,
            _ => self.payload_bytes,
        };
        (self.offset + self.len_bytes - len_bytes, len_bytes)
    }

    /// Whether it is nothing but the way to the beginning of the ring.
    #[must_use]
    pub fn is_skip(&self) -> bool {
        self.kind == Kind::Skip
    }
}

/// Messages that were published in a ring, and their bytes.
///
/// What a stream has published counts as one message for each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages whose last byte is there.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Bytes of the fragments of one whose last byte is not there yet.
    pub begun_bytes: u64,
}

impl Tally {
    fn message(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes + core::mem::take(&mut self.begun_bytes);
    }
}

/// Reads what is published in a ring, without taking it.
#[derive(Debug)]
pub struct Mirror<I> {
    inn: I,
    lines: u64,
    position: u64,
}

impl<I: Incoming> Mirror<I> {
    /// At the beginning of a fresh ring.
    ///
    /// # Panics
    /// If `inn` is not a region with a ring of `ring_bytes`.
    pub fn new(inn: I, ring_bytes: usize) -> Self {
        assert!(ring_bytes_valid(ring_bytes), "ring of {ring_bytes} bytes");
        assert!(inn.len_bytes() >= CONTROL_BYTES + ring_bytes);
        Mirror {
            inn,
            lines: (ring_bytes / LINE_BYTES) as u64,
            position: 0,
        }
    }

    /// As [`Mirror::new`], of a ring that is in use, from `position` on, in lines. A frame has to begin there.
    ///
    /// # Panics
    /// As [`Mirror::new`].
    pub fn beginning_at(inn: I, ring_bytes: usize, position: u64) -> Self {
        Mirror {
            position,
            ..Mirror::new(inn, ring_bytes)
        }
    }

    /// Goes over the frames up to position `until`, or to where nothing has been published, and adds them to `tally`.
    /// Never goes over more than the ring holds.
    ///
    /// # Errors
    /// What is wrong with a frame.
    pub fn count(&mut self, until: u64, tally: &mut Tally) -> Result<(), Violation> {
        let until = until.min(self.position.saturating_add(self.lines));
        while self.position < until {
            let Some(frame) = self.peek()? else {
                return Ok(());
            };
            match frame.kind {
                Kind::Skip => {}
                Kind::More => tally.begun_bytes += frame.payload_bytes as u64,
                Kind::Whole => tally.message(frame.payload_bytes as u64),
                Kind::Packed => self.count_packed(&frame, tally)?,
            }
            self.advance(&frame);
        }
        Ok(())
    }

    fn count_packed(&self, frame: &Published, tally: &mut Tally) -> Result<(), Violation> {
        let end = frame.offset + frame.len_bytes;
        let mut at = end - frame.payload_bytes;
        while at + HEADER_BYTES <= end {
            let found = self.inn.read_u64(at);
            let left = (end - at - HEADER_BYTES) as u64;
            if found > left {
                return Err(Violation::PackedLength { found, left });
            }
            tally.message(found);
            at += HEADER_BYTES + (found as usize).next_multiple_of(HEADER_BYTES);
        }
        Ok(())
    }

    /// The window that is read.
    pub fn incoming(&self) -> &I {
        &self.inn
    }

    /// Lines of the ring that it is done with.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next frame, skips included; it stays the next until [`Mirror::advance`].
    ///
    /// # Errors
    /// What is wrong with the header.
    pub fn peek(&self) -> Result<Option<Published>, Violation> {
        let at = offset(self.lines, self.position);
        let header = self.inn.observe_u64(at);
        let (kind, begin, payload_bytes) = match unpack(header, self.position) {
            Ok(found) => found,
            Err(_) if header == 0 || is_of_last_lap(header, self.position, self.lines) => {
                return Ok(None);
            }
            Err(violation) => return Err(violation),
        };
        let to_end = self.lines - (self.position & (self.lines - 1));
        let max = to_end as usize * LINE_BYTES - HEADER_BYTES;
        let lines = lines_for(begin, payload_bytes);
        if payload_bytes > max || lines > to_end {
            let found = payload_bytes as u64;
            return Err(Violation::FrameLength {
                found,
                max: max as u64,
            });
        }
        // A skip has no payload, though its length is that of what is skipped.
        let len_bytes = match kind {
            Kind::Skip => HEADER_BYTES,
            _ => begin + payload_bytes,
        };
        let next = self.position + lines;
        Ok(Some(Published {
            header,
            offset: at,
            len_bytes,
            next_offset: offset(self.lines, next),
            next,
            kind,
            payload_bytes,
        }))
    }

    /// Goes on behind `frame`, which [`Mirror::peek`] found.
    pub fn advance(&mut self, frame: &Published) {
        self.position = frame.next;
    }
}

/// Whether a frame of `len_bytes` at `frame_offset`, and the header position behind it, lie within a ring of
/// `ring_bytes`: for what another host says.
#[must_use]
pub fn fits_ring(
    ring_bytes: usize,
    frame_offset: usize,
    len_bytes: usize,
    next_offset: usize,
) -> bool {
    let end = CONTROL_BYTES + ring_bytes;
    let is_line = |at: usize| at % LINE_BYTES == 0 && (CONTROL_BYTES..end).contains(&at);
    is_line(frame_offset)
        && is_line(next_offset)
        && len_bytes >= HEADER_BYTES
        && len_bytes <= end - frame_offset
        // A frame never reaches the position behind it.
        && !(frame_offset..frame_offset + len_bytes).contains(&next_offset)
}

/// Lines that a frame takes which is stored at `frame_offset`, with the header position behind it at `next_offset`: both as
/// [`fits_ring`] wants them.
#[must_use]
pub fn lines_between(ring_bytes: usize, frame_offset: usize, next_offset: usize) -> u64 {
    let ahead_bytes = (next_offset + ring_bytes - frame_offset) % ring_bytes;
    (ahead_bytes / LINE_BYTES) as u64
}

/// Publishes a frame whose payload has been stored: clears the header position behind it, then stores the header.
pub fn publish_repeated<O: Outgoing>(
    out: &O,
    frame_offset: usize,
    next_offset: usize,
    header: u64,
) {
    out.write_u64(next_offset, 0);
    out.publish_u64(frame_offset, header);
}
