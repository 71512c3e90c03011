//! The writing end of a ring. See [`super`] for the invariants.

use alloc::vec::Vec;

use super::{frame_bytes_max, offset};
use crate::copying::{Copying, LONG_BYTES, PIECES_FROM_BYTES, Way};
use crate::duplex::DuplexSender;
use crate::frame::{
    ARMED, BEHIND_LINE, CONTROL_BYTES, CREDIT, HEADER_BYTES, Kind, LINE_BYTES, ONE_LINE_BYTES_MAX,
    STARVED, STATE, STATE_COPIES, STATE_DEAF, lines_for, pack, payload_offset, ring_bytes_valid,
};
use crate::memory::{Fences, Incoming, Outgoing};
use crate::violation::Violation;

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
    /// The lines at `head` and behind it are not stale, whatever `stale` says.
    is_ahead_clear: bool,
    starved: bool,
    copying: Copying,
    /// The reader copies messages out ([`STATE_COPIES`]).
    reader_copies: bool,
    is_one_way: bool,
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
            is_ahead_clear: false,
            starved: false,
            copying: Copying::new(),
            reader_copies: false,
            is_one_way: false,
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
    #[inline(always)]
    pub fn send_in_line(&mut self, bytes: &[u8]) -> bool {
        let line = self.line.as_ref();
        let sent = line.is_some_and(|line| line.send(bytes, self.head, &mut self.copying));
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
                // In the first lap the kernel has yet to find the memory.
                if self.head >= self.lines {
                    self.copying.note(bytes.len(), took_cycles);
                }
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
        self.is_ahead_clear = next + 1 - self.credit < self.lines;
        if self.is_ahead_clear {
            self.clear(next + 1);
        }
        self.fetch_ahead(lines);
    }

    /// The short way of [`RingSender::reserve`], [`RingSender::fill`] and [`RingSender::publish`], for a whole message that
    /// takes one line: half their instructions. `false`: it has to go the long way.
    ///
    /// Out of line, as everything that is not the way through the duplex line.
    #[inline(never)]
    pub fn send_in_one_line(&mut self, bytes: &[u8]) -> bool {
        let next = self.head + 1;
        // Two lines behind the frame are not the reader's any more: one is clear, and one will be.
        let has_room = self.is_ahead_clear && next + 1 - self.credit < self.lines;
        if bytes.len() > ONE_LINE_BYTES_MAX || !has_room {
            return false;
        }
        let offset = self.offset(self.head);
        self.out.write(offset + HEADER_BYTES, bytes);
        let header = pack(Kind::Whole, HEADER_BYTES, bytes.len(), self.head) | self.behind_line;
        self.behind_line = 0;
        self.out.publish_u64(offset, header);
        self.head = next;
        // Where `stale` says that it must be cleared, it will be once more.
        self.out.write_u64(self.offset(next + 1), 0);
        self.fetch_ahead(1);
        true
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
    /// headers of this lap. They do not go beyond the end of the ring.
    #[inline]
    fn mark_stale(&mut self, lines: u64) {
        self.is_ahead_clear = false;
        let at = (self.head & (self.lines - 1)) as usize;
        let (mut first, end) = (at + 1, at + lines as usize);
        // A word at a time: bit by bit, a message of 4 KiB took 40 ns longer.
        while first < end {
            let word = first / 64;
            let end_here = end.min((word + 1) * 64);
            let count = end_here - first;
            self.stale[word] |= u64::MAX >> (64 - count) << (first % 64);
            first = end_here;
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
    pub fn peer_deaf(&mut self) -> bool {
        let state = self.inn.observe_u64(STATE);
        self.reader_copies = state & STATE_COPIES != 0;
        state & STATE_DEAF != 0
    }

    /// Whether messages go one way now: then the reader copies one while the next is written, and pieces would only cost
    /// their headers.
    #[inline]
    pub fn set_one_way(&mut self, is_one_way: bool) {
        self.is_one_way = is_one_way;
    }

    /// In pieces of how many bytes a message is best sent; `None`: as a whole. A reader that sleeps would not copy
    /// meanwhile.
    #[inline]
    pub fn piece_bytes(&self, len_bytes: usize) -> Option<usize> {
        let is_overlap_wanted = self.reader_copies && !self.is_one_way;
        if len_bytes < PIECES_FROM_BYTES || !is_overlap_wanted || self.inn.read_u64(ARMED) != 0 {
            return None;
        }
        let piece_bytes = self.copying.pieces(len_bytes)?;
        (piece_bytes <= self.frame_bytes_max).then_some(piece_bytes)
    }

    /// Whether a message in pieces has room now.
    ///
    /// # Errors
    /// As [`RingSender::reserve`].
    pub fn has_room_for_pieces(
        &mut self,
        len_bytes: usize,
        piece_bytes: usize,
    ) -> Result<bool, Violation> {
        let piece_lines = lines_for(LINE_BYTES, piece_bytes);
        // The last one may be followed by the word that must be free, and any of them by a skip shorter than itself.
        let pieces = len_bytes.div_ceil(piece_bytes) as u64;
        self.has_room((pieces + 1) * piece_lines + 1)
    }
}

/// At the beginning every line may hold anything, but for the first, which the owner of the
/// memory has zeroed.
fn all_stale(lines: usize) -> Vec<u64> {
    let mut stale = alloc::vec![u64::MAX; lines.div_ceil(64)];
    stale[0] &= !1;
    stale
}
