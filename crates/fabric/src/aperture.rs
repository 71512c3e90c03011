//! What an aperture, a tripwire, an event queue and a connection are, for every fabric.
//!
//! Implementations pass the conformance suite in `tests/conformance`, which is written
//! against these traits alone.

use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

pub use crate::memory::{AccessError, Memory};

/// What a peer may do with an aperture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rights {
    /// The peer may load; the mapping refuses its stores.
    Read,
    /// The peer may load and store.
    ReadWrite,
}

/// How often a tripwire fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Once; then it is disarmed.
    OneShot,
    /// Until disarmed.
    Sticky,
}

/// What a tripwire does when a transfer touches its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Puts an event with this cookie into the event queue, at most one at a time.
    Enqueue {
        /// Handed back with the event.
        cookie: u64,
    },
    /// Counts the transfers.
    Count,
    /// Wakes whoever sleeps on the event queue, without an event.
    Wake,
}

/// A tripwire that has been set. Dropping it disarms it.
pub trait Trap {
    /// Whether it is still set: not disarmed, and not a one-shot whose firing has been
    /// reported or counted.
    fn is_armed(&self) -> bool;
    /// How many transfers it has counted, with the action [`Action::Count`]; a one-shot
    /// counts one at most.
    fn count(&self) -> u64;
    /// Takes it away. May be called at any time, from any thread, more than once.
    fn disarm(&self);
}

/// One end of an aperture, where tripwires may be set.
///
/// Contract:
/// - At the owner's end a tripwire watches what peers transfer into the aperture; at an
///   importer's end, what this importer transfers. The owner's own stores fire nothing set
///   here ([`OwnerTripwires`]). The ends know nothing of each other's tripwires.
/// - A put (of at least one byte), a store, an add and an exchange that replaced are
///   transfers; a get, a load and an exchange that did not replace are none. A transfer
///   fires every tripwire whose range it touches by at least one byte, and no other.
/// - A transfer that begins after [`TripwireSet::arm`] has returned fires the tripwire. One
///   that begins after [`Trap::disarm`] has returned does not.
/// - When a firing is seen, as an event or in the count, the bytes of the transfer are
///   visible.
pub trait TripwireSet {
    /// A tripwire that has been set.
    type Trap: Trap;
    /// Why one could not be set.
    type Error: Debug;

    /// Sets a tripwire on `len_bytes` at `offset`.
    ///
    /// # Errors
    /// If the range is empty or not inside the aperture, or there is no room for more.
    fn arm(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Self::Trap, Self::Error>;
}

/// An importer's end of an aperture whose owner tells what it stores.
///
/// Contract: as [`TripwireSet`], but what is watched is what the owner transfers through its
/// own end, and nothing else: no importer's transfers fire it. The owner's own tripwires, and
/// those that an importer sets by [`TripwireSet::arm`], know nothing of it. An aperture that
/// may only be read will do. It may also fire when the owner is gone or has withdrawn the
/// aperture, so that whoever waits finds out.
pub trait OwnerTripwires: TripwireSet {
    /// Sets a tripwire on `len_bytes` at `offset`.
    ///
    /// # Errors
    /// If the range is empty or not inside the aperture, there is no room for more, or there
    /// is no owner any more.
    fn arm_on_owner(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Self::Trap, Self::Error>;
}

/// What an event queue reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// A tripwire with the action [`Action::Enqueue`] fired, at least once since it was
    /// last reported.
    Tripwire {
        /// Its cookie.
        cookie: u64,
    },
    /// There may be something to receive, room to send, or an end.
    Ready {
        /// Of which connection: [`Transport::number`].
        connection: u64,
    },
    /// Something else, which is not for the suite.
    Other,
}

/// An event queue.
///
/// Contract:
/// - It can not overflow: between two reports each tripwire and each connection is in it
///   at most once, however often it fired. A report may come without a cause.
/// - Nothing is lost: what fires after a report is reported again. Reports come in any
///   order, but when one is seen, everything that the same side fired before is there.
/// - A firing with [`Action::Wake`] ends a wait, or the next one, and reports nothing.
pub trait EventSource {
    /// Why it could not be looked at.
    type Error: Debug;

    /// Appends what is there, at most `max` notices, and returns how many.
    ///
    /// # Errors
    /// If the queue is broken.
    fn poll_notices(&self, notices: &mut Vec<Notice>, max: usize) -> Result<usize, Self::Error>;

    /// As [`EventSource::poll_notices`], but waits for something, for at most `timeout`.
    /// 0 if that has passed or a [`Action::Wake`] fired.
    ///
    /// # Errors
    /// If the queue is broken.
    fn wait_notices(
        &self,
        notices: &mut Vec<Notice>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize, Self::Error>;
}

/// What became of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Received {
    /// A message.
    Message,
    /// Nothing is there yet.
    Nothing,
    /// Nothing will come any more, and everything has been received.
    Finished,
}

/// One end of a connection that carries messages.
///
/// Contract:
/// - Messages arrive whole, once, in the order sent; the two directions are independent.
/// - A slow receiver makes the sender wait; it loses nothing, and memory is bounded.
/// - After [`Transport::finish`], or when this end is dropped, the other end receives
///   everything that was sent, and then [`Received::Finished`] or an error; after `finish`
///   this end still receives.
pub trait Transport {
    /// Why the connection is down, or a message impossible.
    type Error: Debug;

    /// Its number in its event queue, see [`Notice::Ready`].
    fn number(&self) -> u64;
    /// The longest message that the other end takes.
    fn message_bytes_max(&self) -> usize;
    /// Sends a message if there is room for the whole of it now; `false` if not.
    ///
    /// # Errors
    /// If it can never be sent this way, or the connection is down.
    fn try_send(&mut self, message: &[u8]) -> Result<bool, Self::Error>;
    /// Sends a message; waits for room, for at most `timeout`.
    ///
    /// # Errors
    /// If it is too long, the connection is down, or the time has passed.
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), Self::Error>;
    /// Receives a message if one is there, replacing what is in `into`.
    ///
    /// # Errors
    /// If the connection is down and everything has been received.
    fn try_recv(&mut self, into: &mut Vec<u8>) -> Result<Received, Self::Error>;
    /// Receives a message; waits for one, for at most `timeout`.
    ///
    /// # Errors
    /// As [`Transport::try_recv`].
    fn recv(&mut self, into: &mut Vec<u8>, timeout: Duration) -> Result<Received, Self::Error>;
    /// Says that nothing more will be sent.
    fn finish(&mut self);
}

/// One end of a connection that carries bytes.
///
/// Contract: as [`Transport`], with bytes in place of messages and no boundaries.
pub trait ByteStream {
    /// Why the connection is down.
    type Error: Debug;

    /// Writes as much as there is room for and returns how much that was; waits for room
    /// for one byte, for at most `timeout`; 0 if that has passed.
    ///
    /// # Errors
    /// If the connection is down.
    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<usize, Self::Error>;
    /// Reads what is there, at most `into.len()` bytes; waits for one byte, for at most
    /// `timeout`; `None` if that has passed, 0 at the end.
    ///
    /// # Errors
    /// If the connection is down and everything has been read.
    fn read(&mut self, into: &mut [u8], timeout: Duration) -> Result<Option<usize>, Self::Error>;
    /// Says that nothing more will be written.
    fn finish(&mut self);
}
