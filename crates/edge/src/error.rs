//! Why a connection to an ordinary host is not there, or no longer.

use crate::lease::LeaseError;

/// Why a call failed, or why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeError {
    /// The bridge gave no lease, or has ended it.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// What TCP or UDP says.
    #[error(transparent)]
    Transport(#[from] barewire_tcp::Error),
    /// No address was found for a name, or it is no address.
    #[error(
        "`{name}` is no address with a port, and no name of one ({reason}): write `198.51.100.7:80` or `host:80`"
    )]
    NoAddress {
        /// What was given.
        name: String,
        /// What the system says.
        reason: String,
    },
    /// The call would have to wait longer than it may.
    #[error("nothing came of it in time; try again, or allow more time")]
    TimedOut,
    /// The system gives no random numbers.
    #[error("no random numbers for a connection: {0}")]
    NoEntropy(String),
}

impl From<EdgeError> for std::io::Error {
    fn from(error: EdgeError) -> Self {
        use barewire_tcp::Error as Tcp;
        use std::io::ErrorKind;
        let kind = match &error {
            EdgeError::Transport(Tcp::Refused) => ErrorKind::ConnectionRefused,
            EdgeError::Transport(Tcp::Reset) => ErrorKind::ConnectionReset,
            EdgeError::Transport(Tcp::Aborted) => ErrorKind::ConnectionAborted,
            EdgeError::Transport(Tcp::TimedOut) | EdgeError::TimedOut => ErrorKind::TimedOut,
            EdgeError::Transport(Tcp::Unreachable) => ErrorKind::HostUnreachable,
            EdgeError::Transport(Tcp::NotConnected) => ErrorKind::NotConnected,
            EdgeError::Transport(Tcp::SendClosed) => ErrorKind::BrokenPipe,
            EdgeError::Transport(Tcp::BadAddress(_) | Tcp::BadSetting(_))
            | EdgeError::NoAddress { .. } => ErrorKind::InvalidInput,
            EdgeError::Lease(LeaseError::Gone(_)) => ErrorKind::BrokenPipe,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
