//! What may go wrong with a connection, in words for whoever has to do something about it.

use thiserror::Error;

/// Why a call failed, or why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The other host answered the first packet with a reset.
    #[error("connection refused: nothing listens at that address and port")]
    Refused,
    /// The other end reset the connection.
    #[error("connection reset by the other end; bytes that it had not acknowledged may be lost")]
    Reset,
    /// The other end did not answer for as long as [`crate::Config::timeout`] says.
    #[error("the other end does not answer; check the route to it, or allow a longer timeout")]
    TimedOut,
    /// The other end did not answer in time, and a host on the way has said that it cannot be
    /// reached.
    #[error(
        "a host on the way says that the other end cannot be reached; check its address and the route to it"
    )]
    Unreachable,
    /// The connection was aborted by this end.
    #[error("the connection was aborted by this end")]
    Aborted,
    /// The connection is not open yet.
    #[error("the connection is not open yet; wait until the other end has answered")]
    NotConnected,
    /// This end has said that it sends nothing more.
    #[error("this end has ended its stream and can send nothing more")]
    SendClosed,
    /// This end has closed the connection and reads nothing more.
    #[error("this end has closed the connection and can read nothing more")]
    ReceiveClosed,
    /// The datagram is longer than a packet may be.
    #[error("the datagram has {bytes} bytes, but at most {bytes_max} fit in a packet; send less")]
    TooLong {
        /// What should have been sent.
        bytes: usize,
        /// What fits.
        bytes_max: usize,
    },
    /// The two addresses do not fit together, or one of them cannot be used.
    #[error("{0}")]
    BadAddress(&'static str),
    /// A setting is out of its range.
    #[error("{0}")]
    BadSetting(&'static str),
    /// The packet does not begin a connection.
    #[error("the packet does not ask for a connection")]
    NotASyn,
    /// As many connections wait as the backlog allows.
    #[error("too many connections wait to be accepted; accept some, or raise the backlog")]
    BacklogFull,
}
