//! The reading end of a ring, and a poll of it for others that know how far its reader is ([`RingWatch`]).
//! See [`super`] for the invariants.

use super::{frame_bytes_max, offset};
use crate::duplex::{DuplexReceiver, InLine};
use crate::frame::{
    ALIGNED, ARMED, BEHIND_LINE, CONTROL_BYTES, CREDIT, HEADER_BYTES, Kind, LINE_BYTES,
    ONE_LINE_BYTES_MAX, STARVED, STATE, STATE_FINISHED, is_of_last_lap, lines_for,
    ring_bytes_valid, unpack, whole_at,
};
use crate::memory::{Fences, Incoming, Outgoing};
use crate::violation::Violation;

/// A frame at the reader's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it holds; never [`Kind::Skip`].
    pub kind: Kind,
    /// Payload bytes.
    pub len_bytes: usize,
    /// Offset of the payload in the window.
    pub offset: usize,
    /// It lies in the duplex line, and in its window.
    pub in_line: bool,
    /// Lines that it takes.
    lines: u64,
}

/// What a short way of receiving found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// A message, which has been taken.
    Message(T),
    /// Nothing new in the ring. The duplex line may hold what only the long way accepts or refuses.
    Nothing,
    /// Something for the long way.
    Other,
}

/// Kind of a frame, offset of its payload in it, and length of that.
type Parsed = (Kind, usize, usize);

/// What comes before what was found in the ring.
enum Before {
    /// A message in the duplex line.
    Message(Frame),
    /// Nothing; and what is in the ring now.
    Nothing(Option<Parsed>),
}

impl Frame {
    #[inline]
    fn in_line(found: &InLine) -> Frame {
        Frame {
            kind: Kind::Whole,
            len_bytes: found.len_bytes,
            offset: found.offset,
            in_line: true,
            lines: 0,
        }
    }
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct RingReceiver<I, O> {
    inn: I,
    out: O,
    lines: u64,
    /// Position of the next frame to read.
    tail: u64,
    /// Position last told to the writer.
    told: u64,
    /// Lines of the last frame.
    expected_lines: u64,
    /// Length and [`ALIGNED`] of the header of the last whole message.
    expected_shape: u64,
    frame_bytes_max: usize,
    /// Where short messages may come instead.
    line: Option<DuplexReceiver<I>>,
}

impl<I: Incoming, O: Outgoing> RingReceiver<I, O> {
    /// A receiver at the beginning of a fresh ring.
    ///
    /// # Panics
    /// As [`super::RingSender::new`], with the windows exchanged.
    pub fn new(inn: I, out: O, ring_bytes: usize) -> Self {
        assert!(ring_bytes_valid(ring_bytes), "ring of {ring_bytes} bytes");
        assert!(inn.len_bytes() >= CONTROL_BYTES + ring_bytes && out.len_bytes() >= CONTROL_BYTES);
        RingReceiver {
            inn,
            out,
            lines: (ring_bytes / LINE_BYTES) as u64,
            tail: 0,
            told: 0,
            expected_lines: 1,
            expected_shape: 0,
            frame_bytes_max: frame_bytes_max(ring_bytes),
            line: None,
        }
    }

    /// Receives what comes through a duplex line, too.
    #[must_use]
    pub fn with_line(mut self, line: DuplexReceiver<I>) -> Self {
        self.line = Some(line);
        self
    }

    /// As [`RingReceiver::new`], at a ring that has been read up to position `tail`: for who looks
    /// at it from outside ([`crate::survey`]).
    pub(crate) fn beginning_at(inn: I, out: O, ring_bytes: usize, tail: u64) -> Self {
        let ring = RingReceiver::new(inn, out, ring_bytes);
        RingReceiver {
            tail,
            told: tail,
            ..ring
        }
    }

    /// Most payload bytes of one frame.
    #[inline]
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Copies out of a frame that is `in_line` or in the ring, from `offset` of its window.
    #[inline]
    pub fn read(&self, in_line: bool, offset: usize, into: &mut [u8]) {
        match &self.line {
            Some(line) if in_line => line.read(offset, into),
            _ => self.inn.read(offset, into),
        }
    }

    /// The window that frames of the ring are read from.
    #[inline]
    pub fn incoming(&self) -> &I {
        &self.inn
    }

    /// Lines read and released so far.
    #[inline]
    pub fn tail_lines(&self) -> u64 {
        self.tail
    }

    #[inline]
    fn offset(&self, position: u64) -> usize {
        offset(self.lines, position)
    }

    /// Whether nothing is published at the reader's position, and nothing is in the duplex line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        is_empty(&self.inn, self.line.as_ref(), self.lines, self.tail)
    }

    /// What sees from beside the receiver whether something is there.
    pub fn watch(&self) -> RingWatch<I>
    where
        I: Clone,
    {
        RingWatch {
            inn: self.inn.clone(),
            line: self.line.clone(),
            lines: self.lines,
        }
    }

    /// The next frame, checked; it stays the next until [`RingReceiver::release`].
    ///
    /// # Errors
    /// What is wrong with the header. The position does not move: the error stays.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Frame>, Violation> {
        loop {
            // The ring first: what was sent through the line before a frame found here is visible there then.
            let header = self.inn.observe_u64(self.offset(self.tail));
            let mut found = self.parse(header)?;
            // Other frames have no message in the line before them.
            if found.is_none() || header & BEHIND_LINE != 0 {
                match self.before(found)? {
                    Before::Message(frame) => return Ok(Some(frame)),
                    Before::Nothing(now) => found = now,
                }
            }
            let Some((kind, begin, len_bytes)) = found else {
                return Ok(None);
            };
            if kind != Kind::Skip {
                return self.checked(kind, begin, len_bytes).map(Some);
            }
            // There is no second skip in a row: it would begin at the beginning.
            self.take_skip(len_bytes)?;
        }
    }

    /// What was sent through the line before what was `found` in the ring.
    #[inline]
    fn before(&self, found: Option<Parsed>) -> Result<Before, Violation> {
        let Some(message) = self.in_line()? else {
            return Ok(Before::Nothing(found));
        };
        if message.is_at(self.tail) {
            return Ok(Before::Message(Frame::in_line(&message)));
        }
        if found.is_some() {
            return Ok(Before::Nothing(found));
        }
        // Frames that were published before the message come first. They are there, even if they were not when we
        // looked.
        let found = self.parse(self.inn.observe_u64(self.offset(self.tail)))?;
        found.ok_or(self.no_such_position())?;
        Ok(Before::Nothing(found))
    }

    /// The message in the duplex line, if there is one for us.
    #[inline]
    fn in_line(&self) -> Result<Option<InLine>, Violation> {
        self.line.as_ref().map_or(Ok(None), DuplexReceiver::look)
    }

    #[cold]
    fn no_such_position(&self) -> Violation {
        Violation::DuplexPosition {
            expected: self.tail as u32 & 0xff_ffff,
        }
    }

    /// The frame with this header at the reader's position.
    #[inline]
    fn checked(&self, kind: Kind, begin: usize, len_bytes: usize) -> Result<Frame, Violation> {
        // In the last line of the ring there is no next line for a payload to begin on.
        let to_end = self.bytes_to_end();
        let max = self.frame_bytes_max.min(to_end.saturating_sub(begin));
        if len_bytes == 0 && kind != Kind::Whole {
            return Err(Violation::FrameEmpty { kind: kind as u8 });
        }
        if len_bytes > max || begin >= to_end {
            return Err(Violation::FrameLength {
                found: len_bytes as u64,
                max: max as u64,
            });
        }
        Ok(Frame {
            kind,
            len_bytes,
            offset: self.offset(self.tail) + begin,
            in_line: false,
            lines: lines_for(begin, len_bytes),
        })
    }

    /// Where the payload begins in a frame with this header, and its length. The header is perhaps still on its way.
    /// Frames in a row are mostly alike: betting on that makes the result that of the last frame, after a predicted
    /// branch, so that the processor fetches the payload meanwhile. The black box keeps the compiler from seeing that.
    #[inline]
    fn shape(&mut self, header: u64) -> (usize, usize) {
        let found = header & (0xffff_ffff << 32 | ALIGNED);
        if core::hint::black_box(found != self.expected_shape) {
            self.expected_shape = found;
        }
        let expected = self.expected_shape;
        let begin = if expected & ALIGNED == 0 {
            HEADER_BYTES
        } else {
            LINE_BYTES
        };
        (begin, (expected >> 32) as usize)
    }

    #[inline]
    fn bytes_to_end(&self) -> usize {
        (self.lines - (self.tail & (self.lines - 1))) as usize * LINE_BYTES
    }

    /// The short way of [`RingReceiver::peek`], [`RingReceiver::read`] and [`RingReceiver::release`]: takes the next
    /// frame if it is a whole message of at most `into.len()` bytes. Yields its length, and whether credit was told.
    #[inline(always)]
    pub fn take(&mut self, into: &mut [u8]) -> Taken<(usize, bool)> {
        let header = self.inn.observe_u64(self.offset(self.tail));
        if header as u32 & !(ALIGNED as u32) == whole_at(self.tail) {
            return self.take_from_ring(header, into);
        }
        // Whatever stands in the ring: a message that was sent at this position comes before it.
        let in_line = self
            .line
            .as_ref()
            .and_then(|line| line.take(self.tail, into));
        match in_line {
            Some(len_bytes) => Taken::Message((len_bytes, false)),
            None if header == 0 || is_of_last_lap(header, self.tail, self.lines) => Taken::Nothing,
            None => Taken::Other,
        }
    }

    /// Takes the whole message with this header out of the ring. Out of line, as everything that is not the way through
    /// the duplex line.
    #[inline(never)]
    fn take_from_ring(&mut self, header: u64, into: &mut [u8]) -> Taken<(usize, bool)> {
        let len_bytes = (header >> 32) as usize;
        if header & ALIGNED == 0 && len_bytes <= ONE_LINE_BYTES_MAX {
            // The next header lies in the next line, whatever this one says: nothing waits for it.
            let Some(into) = into.get_mut(..len_bytes) else {
                return Taken::Other;
            };
            self.inn.read(self.offset(self.tail) + HEADER_BYTES, into);
            self.tail += 1;
            return Taken::Message((len_bytes, self.tell_credit()));
        }
        match self.take_whole(header, into) {
            Some(taken) => Taken::Message(taken),
            None => Taken::Other,
        }
    }

    #[inline]
    fn take_whole(&mut self, header: u64, into: &mut [u8]) -> Option<(usize, bool)> {
        let (begin, len_bytes) = self.shape(header);
        if len_bytes > self.frame_bytes_max || begin + len_bytes > self.bytes_to_end() {
            return None;
        }
        let offset = self.offset(self.tail) + begin;
        self.inn.read(offset, into.get_mut(..len_bytes)?);
        Some((len_bytes, self.release_lines(lines_for(begin, len_bytes))))
    }

    /// Kind, offset and length in the header at the reader's position, if one is published.
    #[inline]
    fn parse(&self, header: u64) -> Result<Option<Parsed>, Violation> {
        match unpack(header, self.tail) {
            Ok(found) => Ok(Some(found)),
            Err(_) if header == 0 || is_of_last_lap(header, self.tail, self.lines) => Ok(None),
            Err(violation) => Err(violation),
        }
    }

    #[inline]
    fn take_skip(&mut self, len_bytes: usize) -> Result<(), Violation> {
        let to_end = self.lines - (self.tail & (self.lines - 1));
        let needed = to_end as usize * LINE_BYTES - HEADER_BYTES;
        // A skip reaches exactly to the end, and never from the beginning.
        if len_bytes != needed || to_end == self.lines {
            return Err(Violation::SkipLength {
                found: len_bytes as u64,
                needed: needed as u64,
            });
        }
        self.tail += to_end;
        Ok(())
    }

    /// Gives the frame that [`RingReceiver::peek`] found back to the writer. Returns whether
    /// credit was told to it (then [`RingReceiver::must_ring`] is to be asked).
    #[inline]
    pub fn release(&mut self, frame: &Frame) -> bool {
        if frame.in_line {
            if let Some(line) = &self.line {
                line.taken();
            }
            return false;
        }
        self.release_lines(frame.lines)
    }

    #[inline]
    fn release_lines(&mut self, lines: u64) -> bool {
        self.advance(lines);
        self.tell_credit()
    }

    /// Tells the writer how far the reader is, if that is a quarter of the ring further than it was told.
    #[inline]
    fn tell_credit(&mut self) -> bool {
        if self.tail - self.told < self.lines / 4 {
            return false;
        }
        self.told = self.tail;
        self.out.publish_u64(CREDIT, self.tail);
        true
    }

    /// Moves on by a frame. Where the next header lies depends on the length in this one,
    /// so each look would wait for the one before to arrive. Frames in a row are mostly
    /// alike: betting on that turns the wait into a predicted branch (measured: a tenth more
    /// messages a second). The black box keeps the compiler from seeing that both ways do
    /// the same.
    #[inline]
    fn advance(&mut self, lines: u64) {
        let expected = self.expected_lines;
        if core::hint::black_box(lines == expected) {
            self.tail += expected;
        } else {
            self.tail += lines;
            self.expected_lines = lines;
        }
    }

    /// To be asked after credit was told: does the writer want its doorbell rung?
    #[inline]
    pub fn must_ring<F: Fences>(&self, fences: &F) -> bool {
        fences.light();
        self.inn.read_u64(STARVED) != 0
    }

    /// Asks the writer to ring our doorbell when it publishes. `true` if something is
    /// there already, so that there is nothing to wait for.
    pub fn arm<F: Fences>(&mut self, fences: &F) -> bool {
        self.out.write_u64(ARMED, 1);
        fences.heavy();
        !self.is_empty() || self.peer_finished()
    }

    /// Says that we poll: the writer need not ring.
    #[inline]
    pub fn disarm(&mut self) {
        self.out.write_u64(ARMED, 0);
    }

    /// The writer said that it published its last frame. Frames may still be unread:
    /// ask [`RingReceiver::is_empty`] afterwards.
    #[inline]
    pub fn peer_finished(&self) -> bool {
        self.inn.observe_u64(STATE) & STATE_FINISHED != 0
    }
}

/// Looks into a ring for someone who is not its receiver, but knows how far that is.
#[derive(Debug)]
pub struct RingWatch<I> {
    inn: I,
    line: Option<DuplexReceiver<I>>,
    lines: u64,
}

impl<I: Incoming> RingWatch<I> {
    /// As [`RingReceiver::is_empty`], for a receiver that stands at line `tail`.
    #[inline]
    pub fn is_empty(&self, tail: u64) -> bool {
        is_empty(&self.inn, self.line.as_ref(), self.lines, tail)
    }
}

#[inline]
fn is_empty<I: Incoming>(inn: &I, line: Option<&DuplexReceiver<I>>, lines: u64, tail: u64) -> bool {
    let header = inn.observe_u64(offset(lines, tail));
    (header == 0 || is_of_last_lap(header, tail, lines))
        && line.is_none_or(|line| line.look() == Ok(None))
}
