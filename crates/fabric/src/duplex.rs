//! The duplex line: one cache line through which both sides of a connection send small messages, in turn.
//!
//! ```text
//! | offset | size | what                                                             |
//! |      0 |    8 | header: bits 63..32 number of the turn                           |
//! |        |      |         bits 31..8  low 24 bits of the position in the ring      |
//! |        |      |         bits 7..0   length of the message in bytes, at most 56   |
//! |      8 |   56 | the message                                                      |
//! ```
//!
//! In a ring, where each line has one writer, a line moves twice for a message: the reader's load fetches it, and the
//! writer's next store there has to fetch it back. A line that both sides write in turn moves once for a message: the
//! reader's processor fetches it, and still has it when that side answers (`docs/decisions/0027`).
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

use crate::frame::{DUPLEX, HEADER_BYTES, LINE_BYTES};
use crate::memory::{Incoming, Outgoing};
use crate::violation::Violation;

/// Most bytes of a message in the line.
pub const DUPLEX_BYTES_MAX: usize = LINE_BYTES - HEADER_BYTES;
/// Offset of the message in the region.
pub(crate) const MESSAGE: usize = DUPLEX + HEADER_BYTES;
const POSITION_MASK: u64 = 0xff_ffff;

/// What one side knows of the turns; its sending and its receiving half share it.
///
/// Turns are numbered from 1. The side that opened the connection has the odd ones. The number kept is that of the
/// last message that this side sent or took.
#[derive(Clone, Debug)]
pub struct Turns {
    last: Arc<AtomicU32>,
    opened: bool,
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
            last: Arc::new(AtomicU32::new(last)),
            opened,
        }
    }

    #[inline]
    fn last(&self) -> u32 {
        // Acquire pairs with the Release of `set`, if the halves are in different threads: the message has been
        // copied out before it is overwritten.
        self.last.load(Ordering::Acquire)
    }

    /// Only the half whose turn it is calls this: the sending half if [`Turns::is_ours`], else the receiving half.
    #[inline]
    fn set(&self, turn: u32) {
        // Release pairs with the Acquire of `last`.
        self.last.store(turn, Ordering::Release);
    }

    /// Whether the message after turn `last` is ours to send.
    #[inline]
    fn is_ours(&self, last: u32) -> bool {
        (last % 2 == 0) == self.opened
    }
}

#[inline]
fn pack(turn: u32, position: u64, len_bytes: usize) -> u64 {
    u64::from(turn) << 32 | (position & POSITION_MASK) << 8 | len_bytes as u64
}

/// The sending half of a duplex line.
#[derive(Debug)]
pub struct DuplexSender<O> {
    window: O,
    turns: Turns,
}

impl<O: Outgoing> DuplexSender<O> {
    /// Sends through the line of the region `window`.
    pub fn new(window: O, turns: Turns) -> Self {
        DuplexSender { window, turns }
    }

    /// Sends a message if it is short enough and the turn is ours; `position` is where the ring's next frame will be.
    #[inline]
    pub(crate) fn send(&self, message: &[u8], position: u64) -> bool {
        if message.len() > DUPLEX_BYTES_MAX {
            return false;
        }
        let last = self.turns.last();
        if !self.turns.is_ours(last) {
            return false;
        }
        let turn = last.wrapping_add(1);
        self.window.write(MESSAGE, message);
        self.window
            .publish_u64(DUPLEX, pack(turn, position, message.len()));
        self.turns.set(turn);
        true
    }
}

/// A message that lies in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InLine {
    /// Low 24 bits of the position in the ring before which it was sent.
    position: u32,
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
    turns: Turns,
}

impl<I: Incoming> DuplexReceiver<I> {
    /// Receives through the line of the region `window`.
    pub fn new(window: I, turns: Turns) -> Self {
        DuplexReceiver { window, turns }
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
        let header = self.window.observe_u64(DUPLEX);
        let turn = (header >> 32) as u32;
        // The header of our own last message, or the zero of the beginning.
        if turn == last {
            return Ok(None);
        }
        let len_bytes = (header & 0xff) as usize;
        if turn != last.wrapping_add(1) || len_bytes > DUPLEX_BYTES_MAX {
            return Err(Violation::DuplexHeader { header });
        }
        Ok(Some(InLine {
            position: (header >> 8 & POSITION_MASK) as u32,
            len_bytes,
        }))
    }

    /// The short way of [`DuplexReceiver::look`], [`DuplexReceiver::read`] and [`DuplexReceiver::taken`]: takes a
    /// message that was sent when the ring stood at `position`. `None` if there is none, and for whatever else
    /// [`DuplexReceiver::look`] has to find out.
    #[inline]
    pub(crate) fn take(&self, position: u64, into: &mut [u8]) -> Option<usize> {
        let last = self.turns.last();
        if self.turns.is_ours(last) {
            return None;
        }
        let turn = last.wrapping_add(1);
        let header = self.window.observe_u64(DUPLEX);
        let len_bytes = (header & 0xff) as usize;
        if header & !0xff != pack(turn, position, 0) || len_bytes > DUPLEX_BYTES_MAX {
            return None;
        }
        self.window.read(MESSAGE, into.get_mut(..len_bytes)?);
        self.turns.set(turn);
        Some(len_bytes)
    }

    /// Copies from the message, whose bytes begin at offset [`MESSAGE`] of the region.
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
