//! The events of a node.

use std::sync::Arc;

use crate::apertures::layout::ApertureId;
use crate::error::{Error, Result};
use crate::handles::connection::Connection;
use crate::handles::id::ConnectionId;
use crate::handles::remote::RemoteAperture;
use crate::handles::request::Request;
use crate::node::core::NodeCore;
use crate::tables::events::Found;

/// Something that happened on a node.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Somebody wants to connect to one of our names.
    Request(Request),
    /// A connection begun with [`Node::start_connect`](crate::Node::start_connect) is open.
    Connected(Box<Connection>),
    /// A connection begun with [`Node::start_connect`](crate::Node::start_connect) failed.
    ConnectFailed {
        /// The number that `start_connect` returned.
        connection: ConnectionId,
        /// Why.
        error: Error,
    },
    /// Try this connection: there may be something to receive, room to send, or an end.
    /// The event comes when something arrives after nothing was there. It is repeated if you
    /// receive, and stop before [`try_recv`](crate::Receiver::try_recv) says that nothing
    /// is left. So you may take as much at a time as you like, but take something. If you can take
    /// nothing, because an answer waits for room, try again after the event that reports the room. Where several threads
    /// wait on one node, take all: what is left may be told to none of them.
    Ready(ConnectionId),
    /// The peer of a connection closed it, died or broke the protocol. What it had sent
    /// before can still be received. Comes once.
    Closed {
        /// Which connection.
        connection: ConnectionId,
        /// [`Error::PeerGone`], [`Error::PeerDied`], [`Error::PeerMisbehaved`], or [`Error::HostLost`] with what may be lost.
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
        /// The number that the peer gave with the grant.
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
        /// The buffer with the bytes that were put or got; or why the transfer failed.
        result: Result<Vec<u8>>,
    },
}

impl Event {
    /// Makes the handles that go with what the tables of `node` have found.
    #[inline]
    pub(crate) fn new(node: &Arc<NodeCore>, found: Found) -> Event {
        match found {
            Found::Ready(number) => Event::Ready(ConnectionId(number)),
            Found::Request(requested) => Event::Request(Request::new(node, requested)),
            Found::Connected(opened) => Event::Connected(Box::new(Connection::new(node, *opened))),
            Found::ConnectFailed { number, error } => Event::ConnectFailed {
                connection: ConnectionId(number),
                error,
            },
            Found::Closed { number, reason } => Event::Closed {
                connection: ConnectionId(number),
                reason,
            },
            Found::OutOfBand { number, data } => Event::OutOfBand {
                connection: ConnectionId(number),
                data,
            },
            Found::Granted {
                number,
                cookie,
                aperture,
            } => Event::Granted {
                connection: ConnectionId(number),
                cookie,
                aperture: RemoteAperture::new(aperture, node),
            },
            Found::Tripwire { cookie, aperture } => Event::Tripwire { cookie, aperture },
            Found::Completion { cookie, result } => Event::Completion { cookie, result },
        }
    }
}
