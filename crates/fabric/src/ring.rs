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
//! and a message moves a single cache line.

mod mirror;
mod receiver;
mod sender;

pub use mirror::{Mirror, Published, Tally, fits_ring, lines_between, publish_repeated};
pub use receiver::{Frame, RingReceiver, RingWatch, Taken};
pub use sender::{RingSender, Slot};

use crate::frame::{ARMED, CONTROL_BYTES, LINE_BYTES, STARVED, STATE};
use crate::memory::Outgoing;

/// Most payload bytes of one frame in a ring of `ring_bytes`: a quarter of the ring, with
/// the line of the header.
#[must_use]
pub fn frame_bytes_max(ring_bytes: usize) -> usize {
    ring_bytes / 4 - LINE_BYTES
}

/// Offset of the line at `position` in the window of a ring of `lines`.
#[inline]
fn offset(lines: u64, position: u64) -> usize {
    CONTROL_BYTES + (position & (lines - 1)) as usize * LINE_BYTES
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

/// Stores the state of our side where the peer reads it: [`crate::frame::STATE_FINISHED`] after the
/// last frame, [`crate::frame::STATE_DEAF`] when nothing will be read any more. Both halves of a
/// connection share the word, so the caller passes all bits set so far.
pub fn publish_state<O: Outgoing>(out: &O, bits: u64) {
    out.publish_u64(STATE, bits);
}
