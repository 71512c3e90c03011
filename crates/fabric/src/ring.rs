//! The frame ring: one writer, one reader, one direction.
//!
//! The writer holds two windows: *out* into the peer's region (ring and control line) and
//! *in*, its own region, of which it reads only the control line (credit, arming, state
//! that the peer stored). The reader holds the same two the other way round. The reader
//! writes nothing into the ring.
//!
//! Invariants:
//! 1. The header word at the writer's position is, until the writer publishes there,
//!    either zero or the header of exactly one lap ago. A header carries its position, so
//!    the reader takes neither for a frame. Where the lap before left anything else there
//!    (payload, skipped lines, an earlier connection), the writer clears the word before
//!    it publishes the frame in front of it. The writer remembers where such words are.
//! 2. The writer never fills the ring to the last line, so that position is always free.
//! 3. Positions count lines from the beginning of the connection and never wrap.
//!
//! In the common case of one-line frames nothing has to be cleared on the critical path,
//! and a message is a single line transfer.

use alloc::vec::Vec;

use crate::copying::{Copying, LONG_BYTES, Way};
use crate::duplex::{DuplexReceiver, DuplexSender, InLine, MESSAGE};
use crate::frame::{
    ALIGNED, ARMED, BEHIND_LINE, CONTROL_BYTES, CREDIT, HEADER_BYTES, Kind, LINE_BYTES, STARVED,
    STATE, STATE_DEAF, STATE_FINISHED, is_of_last_lap, lines_for, pack, payload_offset,
    ring_bytes_valid, unpack, whole_at,
};
use crate::memory::{Fences, Incoming, Outgoing};
use crate::violation::Violation;

/// Most payload bytes of one frame in a ring of `ring_bytes`: a quarter of the ring, with
/// the line of the header.
#[must_use]
pub fn frame_bytes_max(ring_bytes: usize) -> usize {
    ring_bytes / 4 - LINE_BYTES
}

/// A place for one frame, got from [`RingSender::reserve`].
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Offset of the payload in the window.
    pub offset: usize,
    /// Offset of the payload in the frame.
    begin: usize,
    lines: u64,
}

/// The writing end of a ring.
#[derive(Debug)]
pub struct RingSender<O, I> {
    out: O,
    inn: I,
    lines: u64,
    /// Position of the next frame.
    head: u64,
    /// Position up to which the reader said it is done.
    credit: u64,
    /// A bit per line: its first word is neither zero nor the header of the lap before.
    stale: Vec<u64>,
    frame_bytes_max: usize,
    starved: bool,
    copying: Copying,
    /// What may carry short messages instead.
    line: Option<DuplexSender<O>>,
    /// [`BEHIND_LINE`] if a message went that way after the last frame, else 0.
    behind_line: u64,
}

impl<O: Outgoing, I: Incoming> RingSender<O, I> {
    /// A sender at the beginning of a fresh, zeroed ring.
    ///
    /// # Panics
    /// If `out` is not a region with a ring of `ring_bytes`, or `inn` lacks a control line.
    pub fn new(out: O, inn: I, ring_bytes: usize) -> Self {
        assert!(ring_bytes_valid(ring_bytes), "ring of {ring_bytes} bytes");
        assert!(out.len_bytes() >= CONTROL_BYTES + ring_bytes && inn.len_bytes() >= CONTROL_BYTES);
        RingSender {
            out,
            inn,
            lines: (ring_bytes / LINE_BYTES) as u64,
            head: 0,
            credit: 0,
            stale: all_stale(ring_bytes / LINE_BYTES),
            frame_bytes_max: frame_bytes_max(ring_bytes),
            starved: false,
            copying: Copying::new(),
            line: None,
            behind_line: 0,
        }
    }

    /// Sends short messages through a duplex line when it is this side's turn
    /// ([`RingSender::send_in_line`]).
    #[must_use]
    pub fn with_line(mut self, line: DuplexSender<O>) -> Self {
        self.line = Some(line);
        self
    }

    /// Never again sends through the duplex line.
    pub fn leave_line(&mut self) {
        self.line = None;
    }

    /// Sends what would be a frame of kind [`Kind::Whole`] through the duplex line; `false` if there is none, if it
    /// is not this side's turn, or if the bytes are too many.
    #[inline]
    pub fn send_in_line(&mut self, bytes: &[u8]) -> bool {
        let line = self.line.as_ref();
        let sent = line.is_some_and(|line| line.send(bytes, self.head));
        if sent {
            self.behind_line = BEHIND_LINE;
        }
        sent
    }

    /// Most payload bytes of one frame.
    #[inline]
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Bytes of the ring.
    #[inline]
    pub fn ring_bytes(&self) -> usize {
        self.lines as usize * LINE_BYTES
    }

    /// Longest message that can be in the ring as a whole, in bytes: two frames. (Another
    /// quarter may be skipped at the wrap, and less than a quarter may be free without our
    /// having been told.)
    #[inline]
    pub fn whole_message_bytes_max(&self) -> usize {
        2 * self.frame_bytes_max
    }

    /// Whether a message of at most that length, in fragments, has room now.
    ///
    /// # Errors
    /// As [`RingSender::reserve`].
    pub fn has_room_for_message(&mut self, len_bytes: usize) -> Result<bool, Violation> {
        let frame_lines = self.lines / 4;
        let frames = (len_bytes / self.frame_bytes_max) as u64 + 1;
        self.has_room((frames + 1) * frame_lines)
    }

    /// Lines published so far.
    #[inline]
    pub fn head_lines(&self) -> u64 {
        self.head
    }

    #[inline]
    fn offset(&self, position: u64) -> usize {
        offset(self.lines, position)
    }

    /// Takes a place for a frame of `payload_bytes`; `None` while the ring is too full.
    /// The place is to be filled and published before the next call.
    ///
    /// # Errors
    /// [`Violation::Credit`] if the peer's progress report is impossible.
    ///
    /// # Panics
    /// If `payload_bytes` is more than [`RingSender::frame_bytes_max`].
    #[inline]
    pub fn reserve(&mut self, payload_bytes: usize) -> Result<Option<Slot>, Violation> {
        assert!(payload_bytes <= self.frame_bytes_max);
        let begin = payload_offset(payload_bytes);
        let lines = lines_for(begin, payload_bytes);
        let to_end = self.lines - (self.head & (self.lines - 1));
        let skip = if lines > to_end { to_end } else { 0 };
        // One line more than the frame: the position behind it must be free to clear.
        if !self.has_room(lines + skip + 1)? {
            return Ok(None);
        }
        if skip > 0 {
            self.mark_stale(skip);
            let bytes = skip as usize * LINE_BYTES - HEADER_BYTES;
            self.publish_header(Kind::Skip, HEADER_BYTES, bytes, skip);
        }
        if payload_bytes >= LONG_BYTES {
            // The words that publishing it will clear: they come while it is copied.
            let behind = self.offset(self.head + lines);
            self.out.prefetch_for_writing(behind, 2 * LINE_BYTES);
        }
        if lines > 1 {
            // Even if the frame is then published shorter or not at all.
            self.mark_stale(lines);
        }
        Ok(Some(Slot {
            offset: self.offset(self.head) + begin,
            begin,
            lines,
        }))
    }

    #[inline]
    fn has_room(&mut self, lines: u64) -> Result<bool, Violation> {
        if self.head + lines - self.credit <= self.lines {
            return Ok(true);
        }
        self.refresh_credit()?;
        Ok(self.head + lines - self.credit <= self.lines)
    }

    #[inline]
    fn refresh_credit(&mut self) -> Result<(), Violation> {
        let found = self.inn.observe_u64(CREDIT);
        if found < self.credit || found > self.head {
            return Err(Violation::Credit {
                found,
                low: self.credit,
                high: self.head,
            });
        }
        self.credit = found;
        Ok(())
    }

    /// Fills part of a reserved place.
    #[inline]
    pub fn fill(&mut self, slot: &Slot, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() + slot.begin <= slot.lines as usize * LINE_BYTES);
        let offset = slot.offset + at;
        match self.copying.choose(bytes.len()) {
            Way::Ordinary => self.out.write(offset, bytes),
            Way::PastCaches => self.out.write_past_caches(offset, bytes),
            Way::Measured => {
                let took_cycles = self.out.write_measured(offset, bytes);
                self.copying.note(bytes.len(), took_cycles);
            }
        }
    }

    /// Fills a word of a reserved place, `at` a multiple of 8.
    #[inline]
    pub fn fill_u64(&self, slot: &Slot, at: usize, value: u64) {
        self.out.write_u64(slot.offset + at, value);
    }

    /// Publishes a reserved place with `payload_bytes`, at most what was reserved.
    #[inline]
    pub fn publish(&mut self, slot: Slot, kind: Kind, payload_bytes: usize) {
        let lines = lines_for(slot.begin, payload_bytes);
        debug_assert!(lines <= slot.lines);
        self.publish_header(kind, slot.begin, payload_bytes, lines);
    }

    #[inline]
    fn publish_header(&mut self, kind: Kind, begin: usize, payload_bytes: usize, lines: u64) {
        let next = self.head + lines;
        if self.is_stale(next) {
            self.clear(next);
        }
        let header = pack(kind, begin, payload_bytes, self.head) | self.behind_line;
        self.behind_line = 0;
        self.out.publish_u64(self.offset(self.head), header);
        self.head = next;
        // Storing one position further now, while nobody waits, has the line here when the
        // next frame but one is written (measured: a tenth off the round trip).
        if next + 1 - self.credit < self.lines {
            self.clear(next + 1);
        }
        self.fetch_ahead(lines);
    }

    /// Fetches lines that will be written soon: the reader has had them since it read them a lap ago, and a store
    /// would wait for each. `lines` is what the last frame took; the next ones are perhaps alike.
    #[inline]
    fn fetch_ahead(&self, lines: u64) {
        let (ahead, fetched) = self.copying.lines_to_fetch(lines);
        // What the reader has not read yet is its own.
        if self.head + ahead + fetched - self.credit < self.lines {
            let bytes = fetched as usize * LINE_BYTES;
            self.out
                .prefetch_for_writing(self.offset(self.head + ahead), bytes);
        }
    }

    /// Whether the header word of a position may be taken for what it is not.
    #[inline]
    fn is_stale(&self, position: u64) -> bool {
        let line = (position & (self.lines - 1)) as usize;
        self.stale[line / 64] >> (line % 64) & 1 != 0
    }

    /// Clears the header word of a position that nothing has been published at.
    #[inline]
    fn clear(&mut self, position: u64) {
        let line = (position & (self.lines - 1)) as usize;
        self.out.write_u64(self.offset(position), 0);
        self.stale[line / 64] &= !(1 << (line % 64));
    }

    /// Notes that the lines behind the one at `head`, up to `lines` in all, do not hold
    /// headers of this lap.
    fn mark_stale(&mut self, lines: u64) {
        for position in self.head + 1..self.head + lines {
            let line = (position & (self.lines - 1)) as usize;
            self.stale[line / 64] |= 1 << (line % 64);
        }
    }

    /// To be asked after publishing: does the receiver want its doorbell rung?
    #[inline]
    pub fn must_ring<F: Fences>(&self, fences: &F) -> bool {
        fences.light();
        self.inn.read_u64(ARMED) != 0
    }

    /// Asks the receiver to ring our doorbell when it returns credit. `true` if there is
    /// nothing to wait for: there is room for a frame of `payload_bytes` after all, or the
    /// peer will read no more.
    ///
    /// # Errors
    /// As [`RingSender::reserve`].
    pub fn arm<F: Fences>(&mut self, fences: &F, payload_bytes: usize) -> Result<bool, Violation> {
        self.out.write_u64(STARVED, 1);
        self.starved = true;
        fences.heavy();
        // As reserve() will ask: the frame, the skip before it, the line behind it.
        let lines = lines_for(payload_offset(payload_bytes), payload_bytes);
        let to_end = self.lines - (self.head & (self.lines - 1));
        let skip = if lines > to_end { to_end } else { 0 };
        Ok(self.has_room(lines + skip + 1)? || self.peer_deaf())
    }

    /// Takes back [`RingSender::arm`].
    #[inline]
    pub fn disarm(&mut self) {
        if self.starved {
            self.out.write_u64(STARVED, 0);
            self.starved = false;
        }
    }

    /// The peer said that it will read no more.
    #[inline]
    pub fn peer_deaf(&self) -> bool {
        self.inn.observe_u64(STATE) & STATE_DEAF != 0
    }
}

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
            offset: MESSAGE,
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
    /// As [`RingSender::new`], with the windows exchanged.
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
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> Taken<(usize, bool)> {
        let header = self.inn.observe_u64(self.offset(self.tail));
        if header as u32 & !(ALIGNED as u32) == whole_at(self.tail) {
            return match self.take_whole(header, into) {
                Some(taken) => Taken::Message(taken),
                None => Taken::Other,
            };
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

/// Offset of the line at `position` in the window of a ring of `lines`.
#[inline]
fn offset(lines: u64, position: u64) -> usize {
    CONTROL_BYTES + (position & (lines - 1)) as usize * LINE_BYTES
}

/// At the beginning every line may hold anything, but for the first, which the owner of the
/// memory has zeroed.
fn all_stale(lines: usize) -> Vec<u64> {
    let mut stale = alloc::vec![u64::MAX; lines.div_ceil(64)];
    stale[0] &= !1;
    stale
}

/// Asks the writer to ring, or takes that back, for a caller that holds only the window. To be asked is to be
/// followed by a heavy fence and another look at the ring, as in [`RingReceiver::arm`].
pub fn publish_armed<O: Outgoing>(out: &O, armed: bool) {
    out.write_u64(ARMED, u64::from(armed));
}

/// Asks the reader to ring when it returns credit, or takes that back, for a caller that
/// holds only the window. To be followed by a heavy fence and another attempt to send, as
/// in [`RingSender::arm`].
pub fn publish_starved<O: Outgoing>(out: &O, starved: bool) {
    out.write_u64(STARVED, u64::from(starved));
}

/// Stores the state of our side where the peer reads it: [`STATE_FINISHED`] after the
/// last frame, [`STATE_DEAF`] when nothing will be read any more. Both halves of a
/// connection share the word, so the caller passes all bits set so far.
pub fn publish_state<O: Outgoing>(out: &O, bits: u64) {
    out.publish_u64(STATE, bits);
}
