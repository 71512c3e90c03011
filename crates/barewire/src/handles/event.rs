//! What a node tells its owner.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::handles::connection::Connection;
use crate::handles::node::Request;
use crate::handles::remote::RemoteAperture;

/// The number of a connection on its node: small, and used again after the connection
/// has been dropped, so that it can index a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl core::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An aperture, as its handles name it ([`Aperture::id`](crate::Aperture::id),
/// [`RemoteAperture::id`]): each aperture of a process has another, and none is used again.
/// The two ends of an aperture have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApertureId(u64);

impl ApertureId {
    /// One that nothing has had yet.
    pub(crate) fn next() -> ApertureId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only has to be another number each time.
        ApertureId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl core::fmt::Display for ApertureId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Something that happened on a node.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Somebody wants to connect to one of our names.
    Request(Request),
    /// A connection begun with [`Node::start_connect`](crate::Node::start_connect) stands.
    Connected(Box<Connection>),
    /// A connection begun with [`Node::start_connect`](crate::Node::start_connect) failed.
    ConnectFailed {
        /// The number that `start_connect` returned.
        connection: ConnectionId,
        /// Why.
        error: Error,
    },
    /// Try this connection: there may be something to receive, room to send, or an end.
    /// Comes when something arrives while nothing was there; it is repeated if you
    /// receive and stop before [`try_recv`](crate::Receiver::try_recv) says that nothing
    /// is left, so you may take as much at a time as you like, but take something. Who can take
    /// nothing, because an answer waits for room, tries again when it is told of the room.
    Ready(ConnectionId),
    /// The peer of a connection closed it, died or broke the protocol. What it had sent
    /// before can still be received. Comes once.
    Closed {
        /// Which connection.
        connection: ConnectionId,
        /// [`Error::PeerGone`], [`Error::PeerDied`] or [`Error::PeerMisbehaved`].
        reason: Error,
    },
    /// A message outside the queue, from
    /// [`send_out_of_band`](crate::Connection::send_out_of_band).
    OutOfBand {
        /// Connection on which it was sent.
        connection: ConnectionId,
        /// The message.
        data: Vec<u8>,
    },
    /// The peer granted us an aperture with [`Connection::grant`](crate::Connection::grant).
    Granted {
        /// Connection on which it was granted.
        connection: ConnectionId,
        /// What the peer calls it.
        cookie: u64,
        /// The aperture.
        aperture: RemoteAperture,
    },
    /// A tripwire with the action `Enqueue` fired, at least once since its last event.
    Tripwire {
        /// Its cookie.
        cookie: u64,
        /// The aperture that it was set on.
        aperture: ApertureId,
    },
    /// A bulk transfer has ended.
    Completion {
        /// Its cookie.
        cookie: u64,
        /// The buffer: what was put, or what was got; or why nothing was.
        result: Result<Vec<u8>>,
    },
}
