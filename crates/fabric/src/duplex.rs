//! The duplex line, and the run of lines that belongs to it: memory through which both sides of a connection send
//! messages, in turn.
//!
//! ```text
//! | offset | size | what                                                             |
//! |      0 |    8 | header: bits 63..32 number of the turn                           |
//! |        |      |         bits 31..8  low 24 bits of the position in the ring      |
//! |        |      |         bits 7..0   length of the message in bytes, at most 56;  |
//! |        |      |                     or 255: it is longer and in the run          |
//! |      8 |   56 | the message; or, if it is in the run, its length in 8 bytes      |
//! ```
//!
//! The run lies behind the ring ([`crate::frame`]). Who has the turn writes there, and then the header.
//!
//! In a ring, where each line has one writer, a line moves twice for a message: the reader's load fetches it, and the
//! writer's next store there has to fetch it back. A line that both sides write in turn moves once for a message: the
//! reader's processor fetches it, and still has it when that side answers (`docs/decisions/0027`).
//!
//! The first lines of the run are fetched with each look, if the last message there took no more of them: then they come
//! together with the header, and not after it.
//!
//! The rule of turns. The side that opened the connection may send the first message through the line. After that, the
//! side that has *taken* the last message from the line may send the next one. So no message is overwritten before it
//! was taken. A side that may not send through the line, or does not want to, uses the ring. Nobody has to use the line.
//!
//! The order with the ring. A header states the position at which the sender would have published a frame instead.
//! The receiver takes the message when it has read the ring up to there. It looks at the ring *before* it looks at
//! the line: a message that was sent before the frame that it found is then visible in the line. The next frame
//! behind such a message says so ([`crate::frame`]), so a receiver that finds another frame need not look at the line.
//!
//! A peer is never trusted. A header is loaded once and checked. What a peer stores out of turn is ignored, or spoils
//! only what that peer itself is to receive. Both sides count turns in private memory, and never read back what they
//! have stored.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::copying::Copying;
use crate::frame::{DUPLEX, HEADER_BYTES, LINE_BYTES, run_bytes, run_offset};
use crate::memory::{Incoming, Outgoing};
use crate::violation::Violation;

/// Most bytes of a message in the line itself.
pub const DUPLEX_BYTES_MAX: usize = LINE_BYTES - HEADER_BYTES;
/// Offset of such a message in the region, or of the length of one in the run.
const MESSAGE: usize = DUPLEX + HEADER_BYTES;
const POSITION_MASK: u64 = 0xff_ffff;
const LENGTH_MASK: u64 = 0xff;
/// In place of a length in the header: the message is in the run.
const IN_RUN: u64 = 0xff;
/// Most bytes of the run that each look fetches. Longer ones are still being written when a look comes too early, and
/// would be taken away from their writer: 256 bytes there and back took 305 ns so, and 219 without (AMD EPYC, family
/// 25, model 17, where a bare line took 86). 64 bytes took 122 in place of 184, 128 bytes 152 in place of 199.
const FETCHED_BYTES_MAX: usize = 2 * LINE_BYTES;

/// Where messages lie.
#[derive(Clone, Copy, Debug)]
struct Places {
    run: usize,
    /// Most bytes of a message.
    bytes_max: usize,
}

impl Places {
    fn new(ring_bytes: usize, window_bytes: usize) -> Places {
        let run = run_offset(ring_bytes);
        let bytes_max = run_bytes(ring_bytes);
        assert!(bytes_max > DUPLEX_BYTES_MAX && run + bytes_max <= window_bytes);
        Places { run, bytes_max }
    }
}

/// What one side knows of the turns; its sending and its receiving half share it.
///
/// Turns are numbered from 1. The side that opened the connection has the odd ones. The number kept is that of the
/// last message that this side sent or took.
#[derive(Clone, Debug)]
pub struct Turns {
    shared: Arc<Shared>,
    opened: bool,
}

#[derive(Debug)]
struct Shared {
    last: AtomicU32,
    /// Bytes of the run that each look fetches: what the last message there took, if that was little. Here, so that a
    /// look finds it beside the turn, and who looks from beside the receiver finds it, too.
    fetched_bytes: AtomicU32,
}

impl Turns {
    /// At the beginning of a connection, which this side `opened` or accepted.
    #[must_use]
    pub fn new(opened: bool) -> Turns {
        Turns::after(opened, 0)
    }

    /// After turn `last`, of which the line must hold the header: turns are counted in 32 bits and begin anew.
    #[must_use]
    pub fn after(opened: bool, last: u32) -> Turns {
        Turns {
            shared: Arc::new(Shared {
                last: AtomicU32::new(last),
                fetched_bytes: AtomicU32::new(0),
            }),
            opened,
        }
    }

    #[inline]
    fn last(&self) -> u32 {
        // Acquire pairs with the Release of `set`, if the halves are in different threads: the message has been
        // copied out before it is overwritten.
        self.shared.last.load(Ordering::Acquire)
    }

    /// Only the half whose turn it is calls this: the sending half if [`Turns::is_ours`], else the receiving half.
    #[inline]
    fn set(&self, turn: u32) {
        // Release pairs with the Acquire of `last`.
        self.shared.last.store(turn, Ordering::Release);
    }

    /// Whether the message after turn `last` is ours to send.
    #[inline]
    fn is_ours(&self, last: u32) -> bool {
        (last % 2 == 0) == self.opened
    }
}

#[inline]
fn pack(turn: u32, position: u64, length: u64) -> u64 {
    u64::from(turn) << 32 | (position & POSITION_MASK) << 8 | length
}

/// The sending half of a duplex line.
#[derive(Debug)]
pub struct DuplexSender<O> {
    window: O,
    places: Places,
    turns: Turns,
}

impl<O: Outgoing> DuplexSender<O> {
    /// Sends through the line of the region `window`, which has a ring of `ring_bytes`.
    ///
    /// # Panics
    /// If the region is too small for that.
    pub fn new(window: O, ring_bytes: usize, turns: Turns) -> Self {
        DuplexSender {
            places: Places::new(ring_bytes, window.len_bytes()),
            window,
            turns,
        }
    }

    /// Sends a message if it is short enough, the turn is ours, and `copying` has nothing against it; `position` is where
    /// the ring's next frame will be.
    #[inline(always)]
    pub(crate) fn send(&self, message: &[u8], position: u64, copying: &mut Copying) -> bool {
        let last = self.turns.last();
        if !self.turns.is_ours(last) {
            return false;
        }
        let turn = last.wrapping_add(1);
        if message.len() > DUPLEX_BYTES_MAX {
            return self.send_in_run(message, turn, position, copying);
        }
        self.window.write(MESSAGE, message);
        let header = pack(turn, position, message.len() as u64);
        self.window.publish_u64(DUPLEX, header);
        self.turns.set(turn);
        true
    }

    /// Out of line: with this in it, the way of short messages was no longer part of its callers, and took 1.15 to 1.4
    /// times as long near (`docs/decisions/0027`).
    #[inline(never)]
    fn send_in_run(&self, message: &[u8], turn: u32, position: u64, copying: &mut Copying) -> bool {
        if message.len() > self.places.bytes_max || !copying.suits_line(message.len()) {
            return false;
        }
        self.window.write(self.places.run, message);
        self.window.write_u64(MESSAGE, message.len() as u64);
        self.window
            .publish_u64(DUPLEX, pack(turn, position, IN_RUN));
        self.turns.set(turn);
        true
    }
}

/// A message that lies in the line, or in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InLine {
    /// Low 24 bits of the position in the ring before which it was sent.
    position: u32,
    /// Where it begins in the region.
    pub offset: usize,
    pub len_bytes: usize,
}

impl InLine {
    /// Whether it was sent when the ring stood at `position`.
    #[inline]
    pub fn is_at(&self, position: u64) -> bool {
        u64::from(self.position) == position & POSITION_MASK
    }
}

/// The receiving half of a duplex line.
#[derive(Clone, Debug)]
pub struct DuplexReceiver<I> {
    window: I,
    places: Places,
    turns: Turns,
}

impl<I: Incoming> DuplexReceiver<I> {
    /// Receives through the line of the region `window`, which has a ring of `ring_bytes`.
    ///
    /// # Panics
    /// If the region is too small for that.
    pub fn new(window: I, ring_bytes: usize, turns: Turns) -> Self {
        DuplexReceiver {
            places: Places::new(ring_bytes, window.len_bytes()),
            window,
            turns,
        }
    }

    /// The message in the line, if there is one for us.
    ///
    /// # Errors
    /// [`Violation::DuplexHeader`].
    #[inline]
    pub(crate) fn look(&self) -> Result<Option<InLine>, Violation> {
        let last = self.turns.last();
        if self.turns.is_ours(last) {
            return Ok(None);
        }
        self.fetch();
        let header = self.window.observe_u64(DUPLEX);
        let turn = (header >> 32) as u32;
        // The header of our own last message, or the zero of the beginning.
        if turn == last {
            return Ok(None);
        }
        let place = self.place(header);
        match place.filter(|_| turn == last.wrapping_add(1)) {
            Some((offset, len_bytes)) => Ok(Some(InLine {
                position: (header >> 8 & POSITION_MASK) as u32,
                offset,
                len_bytes,
            })),
            None => Err(Violation::DuplexHeader { header }),
        }
    }

    /// Asks for the first lines of the run, so that they come together with the header.
    #[inline]
    fn fetch(&self) {
        // Relaxed: only speed depends on it.
        let fetched_bytes = self.turns.shared.fetched_bytes.load(Ordering::Relaxed) as usize;
        if fetched_bytes > 0 {
            self.window.prefetch(self.places.run);
            if fetched_bytes > LINE_BYTES {
                self.window.prefetch(self.places.run + LINE_BYTES);
            }
        }
    }

    /// Where the message with this header begins in the region, and its length, if that is possible.
    #[inline]
    fn place(&self, header: u64) -> Option<(usize, usize)> {
        let (offset, length, max) = match header & LENGTH_MASK {
            IN_RUN => {
                let length = self.window.read_u64(MESSAGE);
                (self.places.run, length, self.places.bytes_max)
            }
            length => (MESSAGE, length, DUPLEX_BYTES_MAX),
        };
        (length <= max as u64).then_some((offset, length as usize))
    }

    /// The short way of [`DuplexReceiver::look`], [`DuplexReceiver::read`] and [`DuplexReceiver::taken`]: takes a
    /// message that was sent when the ring stood at `position`. `None` if there is none, and for whatever else
    /// [`DuplexReceiver::look`] has to find out.
    #[inline(always)]
    pub(crate) fn take(&self, position: u64, into: &mut [u8]) -> Option<usize> {
        let last = self.turns.last();
        if self.turns.is_ours(last) {
            return None;
        }
        let turn = last.wrapping_add(1);
        self.fetch();
        let header = self.window.observe_u64(DUPLEX);
        if header & !LENGTH_MASK != pack(turn, position, 0) {
            return None;
        }
        let len_bytes = (header & LENGTH_MASK) as usize;
        if len_bytes > DUPLEX_BYTES_MAX {
            return self.take_from_run(header, turn, into);
        }
        self.window.read(MESSAGE, into.get_mut(..len_bytes)?);
        self.turns.set(turn);
        Some(len_bytes)
    }

    /// Out of line, as [`DuplexSender::send_in_run`] is.
    #[inline(never)]
    fn take_from_run(&self, header: u64, turn: u32, into: &mut [u8]) -> Option<usize> {
        let (offset, len_bytes) = self.place(header)?;
        self.window.read(offset, into.get_mut(..len_bytes)?);
        self.turns.set(turn);
        let is_fetched = len_bytes <= FETCHED_BYTES_MAX;
        let fetched_bytes = if is_fetched { len_bytes as u32 } else { 0 };
        let shared = &self.turns.shared;
        // Relaxed: only speed depends on it.
        shared.fetched_bytes.store(fetched_bytes, Ordering::Relaxed);
        Some(len_bytes)
    }

    /// Copies from the message, from `offset` of the region on.
    #[inline]
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        self.window.read(offset, into);
    }

    /// The message that [`DuplexReceiver::look`] found has been taken: the turn is ours.
    #[inline]
    pub(crate) fn taken(&self) {
        self.turns.set(self.turns.last().wrapping_add(1));
    }
}
