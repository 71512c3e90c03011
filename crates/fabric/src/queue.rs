//! Messages over a frame ring: boundaries kept, any size up to a limit.
//!
//! A message that fits a frame is one frame, or several if it is long and the reader copies
//! it out while it is written. A longer one is a run of `More` frames and a `Whole` one. Small
//! messages that are sent together share a `Packed` frame.

use alloc::sync::Arc;

use crate::assembly::{Allowance, Assembly};
use crate::frame::{FRAGMENT_BYTES_MIN, Kind};
use crate::memory::{Incoming, Outgoing};
use crate::ring::{Frame, RingReceiver, RingSender, Slot, Taken};
use crate::violation::Violation;

/// Bytes of a packed message's length word.
const PACKED_HEADER_BYTES: usize = 8;

/// Bytes that a message takes in a packed frame.
#[inline]
fn packed_bytes(len_bytes: usize) -> usize {
    PACKED_HEADER_BYTES + len_bytes.next_multiple_of(8)
}

/// How much of a long message has been put into the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendProgress {
    /// Bytes published so far.
    pub sent_bytes: usize,
}

/// The sending end of a message queue.
#[derive(Debug)]
pub struct MessageSender<O, I> {
    ring: RingSender<O, I>,
}

impl<O: Outgoing, I: Incoming> MessageSender<O, I> {
    /// Sends messages over `ring`.
    pub fn new(ring: RingSender<O, I>) -> Self {
        MessageSender { ring }
    }

    /// The ring underneath.
    #[inline]
    pub fn ring(&mut self) -> &mut RingSender<O, I> {
        &mut self.ring
    }

    /// The ring underneath, to go on with in another way.
    pub fn into_ring(self) -> RingSender<O, I> {
        self.ring
    }

    /// Most bytes of a message in one frame.
    #[inline]
    pub fn frame_bytes_max(&self) -> usize {
        self.ring.frame_bytes_max()
    }

    /// Longest message that can be in the ring as a whole, in bytes.
    #[inline]
    pub fn whole_message_bytes_max(&self) -> usize {
        self.ring.whole_message_bytes_max()
    }

    /// Sends a message that fits one frame; `false` while the ring is too full.
    ///
    /// # Errors
    /// The peer's violation, if its credit is impossible.
    ///
    /// # Panics
    /// If the message is longer than a frame.
    #[inline(always)]
    pub fn send_frame(&mut self, message: &[u8]) -> Result<bool, Violation> {
        if self.ring.send_in_line(message) || self.ring.send_in_one_line(message) {
            return Ok(true);
        }
        if let Some(piece_bytes) = self.ring.piece_bytes(message.len()) {
            if self.ring.has_room_for_pieces(message.len(), piece_bytes)? {
                return self.send_fragments(message, &mut SendProgress::default(), piece_bytes);
            }
        }
        let Some(slot) = self.ring.reserve(message.len())? else {
            return Ok(false);
        };
        self.ring.fill(&slot, 0, message);
        self.ring.publish(slot, Kind::Whole, message.len());
        Ok(true)
    }

    /// Publishes a message of `len_bytes`, at most [`MessageSender::whole_message_bytes_max`], without storing its bytes;
    /// `false` while there is no room for the whole of it. Only for a ring that nobody but a [`Mirror`](crate::ring::Mirror)
    /// reads: whoever has that takes the bytes from elsewhere.
    ///
    /// # Errors
    /// The peer's violation, if its credit is impossible.
    pub fn announce(&mut self, len_bytes: usize) -> Result<bool, Violation> {
        let max = self.ring.frame_bytes_max();
        if len_bytes > max && !self.ring.has_room_for_message(len_bytes)? {
            return Ok(false);
        }
        let mut left_bytes = len_bytes;
        loop {
            let part_bytes = left_bytes.min(max);
            let Some(slot) = self.ring.reserve(part_bytes)? else {
                debug_assert!(left_bytes == len_bytes, "room was there");
                return Ok(false);
            };
            left_bytes -= part_bytes;
            let kind = match left_bytes {
                0 => Kind::Whole,
                _ => Kind::More,
            };
            self.ring.publish(slot, kind, part_bytes);
            if left_bytes == 0 {
                return Ok(true);
            }
        }
    }

    /// Puts as much of a message of any length into the ring as fits now, going on from
    /// `progress`. `true` when the whole of it is in. Until then no other message may be
    /// sent.
    ///
    /// # Errors
    /// The peer's violation, if its credit is impossible.
    pub fn send_part(
        &mut self,
        message: &[u8],
        progress: &mut SendProgress,
    ) -> Result<bool, Violation> {
        let max = self.ring.frame_bytes_max();
        let piece_bytes = match message.len() > max {
            true => self.ring.piece_bytes(message.len()),
            // It is there as a whole or not at all.
            false => None,
        };
        self.send_fragments(message, progress, piece_bytes.unwrap_or(max))
    }

    fn send_fragments(
        &mut self,
        message: &[u8],
        progress: &mut SendProgress,
        fragment_bytes: usize,
    ) -> Result<bool, Violation> {
        loop {
            let rest = &message[progress.sent_bytes..];
            let len = rest.len().min(fragment_bytes);
            let last = len == rest.len();
            let Some(slot) = self.ring.reserve(len)? else {
                return Ok(false);
            };
            self.ring.fill(&slot, 0, &rest[..len]);
            let kind = if last { Kind::Whole } else { Kind::More };
            self.ring.publish(slot, kind, len);
            progress.sent_bytes += len;
            if last {
                return Ok(true);
            }
        }
    }

    /// Sends as many of `messages` as fit now, several to a frame where they are small,
    /// and returns how many were sent. A message longer than a frame ends the run: send
    /// it with [`MessageSender::send_part`].
    ///
    /// # Errors
    /// The peer's violation, if its credit is impossible.
    pub fn send_batch<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<usize, Violation> {
        let mut sent = 0;
        while sent < messages.len() {
            let first = messages[sent].as_ref();
            if first.len() > self.ring.frame_bytes_max() {
                break;
            }
            let (count, bytes) = self.fitting(&messages[sent..]);
            if count < 2 {
                if !self.send_frame(first)? {
                    break;
                }
                sent += 1;
                continue;
            }
            let Some(slot) = self.ring.reserve(bytes)? else {
                // Too full for a whole frame of them: what fits one by one goes.
                if !self.send_frame(first)? {
                    break;
                }
                sent += 1;
                continue;
            };
            self.fill_packed(&slot, &messages[sent..sent + count]);
            self.ring.publish(slot, Kind::Packed, bytes);
            sent += count;
        }
        Ok(sent)
    }

    /// How many of the messages share the next frame, and its payload bytes. Frames are
    /// kept to a sixteenth of the ring, so that the reader starts early.
    #[inline]
    fn fitting<M: AsRef<[u8]>>(&self, messages: &[M]) -> (usize, usize) {
        let budget = (self.ring.ring_bytes() / 16).max(256) - 64;
        let mut bytes = 0;
        let mut count = 0;
        for message in messages {
            let more = packed_bytes(message.as_ref().len());
            if bytes + more > budget {
                break;
            }
            bytes += more;
            count += 1;
        }
        (count, bytes)
    }

    #[inline]
    fn fill_packed<M: AsRef<[u8]>>(&mut self, slot: &Slot, messages: &[M]) {
        let mut at = 0;
        for message in messages {
            let message = message.as_ref();
            self.ring.fill_u64(slot, at, message.len() as u64);
            self.ring.fill(slot, at + PACKED_HEADER_BYTES, message);
            at += packed_bytes(message.len());
        }
    }
}

/// Where a received message lies in the window, until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Offset in the window.
    pub offset: usize,
    /// It lies in the duplex line, and in its window.
    pub in_line: bool,
    /// Bytes.
    pub len_bytes: usize,
}

/// What [`MessageReceiver::next_message`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing complete yet.
    Nothing,
    /// A message that lies in the window in one piece.
    InPlace(Located),
    /// A message that came in fragments and has been put together in the receiver's
    /// buffer ([`MessageReceiver::assembled`]).
    Assembled,
}

/// What [`MessageReceiver::take_fragments`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragments {
    /// Nothing is there.
    Nothing,
    /// What is there is for [`MessageReceiver::next_message`].
    Other,
    /// All that were there, but more are to come.
    Some,
    /// The last one.
    All,
}

/// The receiving end of a message queue.
#[derive(Debug)]
pub struct MessageReceiver<I, O> {
    ring: RingReceiver<I, O>,
    message_bytes_max: usize,
    /// The packed frame being taken apart, and the offset of its next message.
    packed: Option<(Frame, usize)>,
    /// Fragments of a message so far; empty if none is under way.
    partial: Assembly,
    in_fragments: bool,
    /// `partial` holds a whole message that has not been given back yet.
    assembled: bool,
    /// The frame in which the message announced last lies in one piece.
    whole: Option<Frame>,
    /// Credit was told since the last call of [`MessageReceiver::take_told`].
    told: bool,
}

impl<I: Incoming, O: Outgoing> MessageReceiver<I, O> {
    /// Receives messages of at most `message_bytes_max` from `ring`.
    pub fn new(ring: RingReceiver<I, O>, message_bytes_max: usize) -> Self {
        MessageReceiver {
            ring,
            message_bytes_max,
            packed: None,
            partial: Assembly::new(None),
            in_fragments: false,
            assembled: false,
            whole: None,
            told: false,
        }
    }

    /// Has messages in pieces take no more memory than `allowance` gives.
    #[must_use]
    pub fn with_allowance(mut self, allowance: Arc<dyn Allowance>) -> Self {
        self.partial = Assembly::new(Some(allowance));
        self
    }

    /// The ring underneath.
    #[inline]
    pub fn ring(&mut self) -> &mut RingReceiver<I, O> {
        &mut self.ring
    }

    /// The ring underneath, to go on with in another way; what was received of a message
    /// that is not complete is lost.
    pub fn into_ring(self) -> RingReceiver<I, O> {
        self.ring
    }

    /// Whether a message may be waiting (a cheap look; it may still be incomplete).
    #[inline]
    pub fn maybe_ready(&self) -> bool {
        self.packed.is_some() || self.assembled || !self.ring.is_empty()
    }

    /// Whether a message has begun but not ended: at end of stream, it was cut off.
    pub fn cut_off(&self) -> bool {
        self.in_fragments
    }

    /// Credit was told to the sender since this was last asked.
    #[inline]
    pub fn take_told(&mut self) -> bool {
        core::mem::take(&mut self.told)
    }

    /// The short way of [`MessageReceiver::next_message`], [`MessageReceiver::copy_out`] and
    /// [`MessageReceiver::done`]: takes the next message if it is a frame of its own of at most `into.len()` bytes.
    /// Yields its length.
    #[inline(always)]
    pub fn take(&mut self, into: &mut [u8]) -> Taken<usize> {
        if self.packed.is_some() || self.assembled || self.in_fragments {
            return Taken::Other;
        }
        let max = into.len().min(self.message_bytes_max);
        match self.ring.take(&mut into[..max]) {
            Taken::Message((len_bytes, told)) => {
                self.told |= told;
                Taken::Message(len_bytes)
            }
            Taken::Nothing => Taken::Nothing,
            Taken::Other => Taken::Other,
        }
    }

    /// Finds the next message. It stays the next until [`MessageReceiver::done`].
    ///
    /// # Errors
    /// What the peer did wrong; the error stays.
    #[inline]
    pub fn next_message(&mut self) -> Result<Next, Violation> {
        if self.packed.is_some() {
            return self.next_packed();
        }
        if self.assembled {
            return Ok(Next::Assembled);
        }
        loop {
            let Some(frame) = self.ring.peek()? else {
                return Ok(Next::Nothing);
            };
            if !self.in_fragments && frame.kind == Kind::Whole {
                if frame.len_bytes > self.message_bytes_max {
                    return Err(self.too_long());
                }
                self.whole = Some(frame);
                return Ok(Next::InPlace(Located {
                    offset: frame.offset,
                    in_line: frame.in_line,
                    len_bytes: frame.len_bytes,
                }));
            }
            match frame.kind {
                kind if self.in_fragments && (kind == Kind::Packed || frame.in_line) => {
                    return Err(Violation::Interleaved { kind: kind as u8 });
                }
                Kind::Packed => {
                    self.packed = Some((frame, 0));
                    return self.next_packed();
                }
                _ => {
                    self.append(&frame)?;
                    if frame.kind == Kind::Whole {
                        self.in_fragments = false;
                        self.assembled = true;
                        return Ok(Next::Assembled);
                    }
                }
            }
        }
    }

    fn too_long(&self) -> Violation {
        Violation::MessageLength {
            max: self.message_bytes_max as u64,
        }
    }

    /// Takes what is there of a message in fragments straight into `into`, behind the `taken_bytes` that earlier calls
    /// have put there: it need not be put together elsewhere first. Not if its beginning was put together already, or if
    /// it does not fit. Unless it comes to the last fragment in the end, give what it took to [`MessageReceiver::put_together`].
    ///
    /// # Errors
    /// As [`MessageReceiver::next_message`].
    pub fn take_fragments(
        &mut self,
        into: &mut [u8],
        taken_bytes: &mut usize,
    ) -> Result<Fragments, Violation> {
        if self.packed.is_some() || self.assembled || (self.in_fragments && *taken_bytes == 0) {
            return Ok(Fragments::Other);
        }
        let mut found = Fragments::Nothing;
        while let Some(frame) = self.ring.peek()? {
            let is_fragment = !frame.in_line && frame.kind != Kind::Packed;
            let is_last = frame.kind == Kind::Whole;
            let end = *taken_bytes + frame.len_bytes;
            if !is_fragment || (is_last && !self.in_fragments) || end > into.len() {
                return Ok(Fragments::Other);
            }
            self.check_fragment(&frame, *taken_bytes)?;
            self.ring
                .incoming()
                .read(frame.offset, &mut into[*taken_bytes..end]);
            self.told |= self.ring.release(&frame);
            *taken_bytes = end;
            self.in_fragments = !is_last;
            if is_last {
                return Ok(Fragments::All);
            }
            found = Fragments::Some;
        }
        Ok(found)
    }

    /// Whether the next frame begins a message.
    #[inline]
    pub fn is_between_messages(&self) -> bool {
        self.packed.is_none() && !self.assembled && !self.in_fragments
    }

    /// Takes the next frame, which begins a message and whose payload is not in the ring but where the caller wants it. It
    /// has to be the one with this payload. `true`: that is the whole message; `false`: the rest of it is for
    /// [`MessageReceiver::take_fragments`].
    ///
    /// # Errors
    /// As [`MessageReceiver::next_message`], or another frame is next.
    pub fn take_stored(
        &mut self,
        payload_offset: usize,
        payload_bytes: usize,
    ) -> Result<bool, Violation> {
        let expected = self.ring.tail_lines() as u32 & 0xff_ffff;
        let missing = Violation::FramePosition { found: 0, expected };
        let frame = self.ring.peek()?.ok_or(missing)?;
        let is_that = self.is_between_messages()
            && !frame.in_line
            && (frame.offset, frame.len_bytes) == (payload_offset, payload_bytes)
            && matches!(frame.kind, Kind::Whole | Kind::More);
        if !is_that {
            return Err(missing);
        }
        self.check_fragment(&frame, 0)?;
        self.told |= self.ring.release(&frame);
        self.in_fragments = frame.kind == Kind::More;
        Ok(!self.in_fragments)
    }

    /// Goes on with a message of which [`MessageReceiver::take_fragments`] has taken the beginning in the usual way.
    ///
    /// # Errors
    /// The budget or the memory is used up.
    pub fn put_together(&mut self, begun: &[u8]) -> Result<(), Violation> {
        if begun.is_empty() {
            return Ok(());
        }
        self.partial.clear();
        let into = self.partial.extend(begun.len(), self.message_bytes_max)?;
        into.copy_from_slice(begun);
        Ok(())
    }

    /// Whether a fragment may come behind `before_bytes` of its message.
    fn check_fragment(&self, frame: &Frame, before_bytes: usize) -> Result<(), Violation> {
        let needed = self.ring.frame_bytes_max().min(FRAGMENT_BYTES_MIN);
        if frame.kind == Kind::More && frame.len_bytes < needed {
            return Err(Violation::FragmentLength {
                found: frame.len_bytes as u64,
                needed: needed as u64,
            });
        }
        if frame.len_bytes > self.message_bytes_max - before_bytes {
            return Err(self.too_long());
        }
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> Result<(), Violation> {
        if !self.in_fragments {
            self.partial.clear();
            self.in_fragments = true;
        }
        self.check_fragment(frame, self.partial.bytes().len())?;
        let into = self
            .partial
            .extend(frame.len_bytes, self.message_bytes_max)?;
        self.ring.incoming().read(frame.offset, into);
        self.told |= self.ring.release(frame);
        Ok(())
    }

    #[inline]
    fn next_packed(&mut self) -> Result<Next, Violation> {
        let Some((frame, at)) = self.packed else {
            return Ok(Next::Nothing);
        };
        let left = frame.len_bytes - at;
        let violation = |found| Violation::PackedLength {
            found,
            left: left as u64,
        };
        if left < PACKED_HEADER_BYTES {
            return Err(violation(0));
        }
        // Read once, then checked: the peer may change it any time.
        let found = self.ring.incoming().read_u64(frame.offset + at);
        if found > (left - PACKED_HEADER_BYTES) as u64 {
            return Err(violation(found));
        }
        if found > self.message_bytes_max as u64 {
            return Err(self.too_long());
        }
        let len_bytes = found as usize;
        Ok(Next::InPlace(Located {
            offset: frame.offset + at + PACKED_HEADER_BYTES,
            in_line: false,
            len_bytes,
        }))
    }

    /// The window that messages in place lie in, but for those in the duplex line.
    #[inline]
    pub fn incoming(&self) -> &I {
        self.ring.incoming()
    }

    /// The message that [`Next::Assembled`] announced.
    #[inline]
    pub fn assembled(&self) -> &[u8] {
        self.partial.bytes()
    }

    /// Copies out a message that lies in place.
    #[inline]
    pub fn copy_out(&self, located: &Located, into: &mut [u8]) {
        self.ring.read(located.in_line, located.offset, into);
    }

    /// Gives back what [`MessageReceiver::next_message`] returned last.
    #[inline]
    pub fn done(&mut self, next: &Next) {
        match next {
            Next::Nothing => {}
            Next::Assembled => {
                self.assembled = false;
                self.partial.used();
            }
            Next::InPlace(located) => self.done_in_place(located),
        }
    }

    #[inline]
    fn done_in_place(&mut self, located: &Located) {
        let Some((frame, at)) = self.packed else {
            if let Some(frame) = self.whole.take() {
                self.told |= self.ring.release(&frame);
            }
            return;
        };
        let at = at + packed_bytes(located.len_bytes);
        if at < frame.len_bytes {
            self.packed = Some((frame, at));
        } else {
            self.packed = None;
            self.told |= self.ring.release(&frame);
        }
    }
}
