//! What all parts of a stream test speak of: transports, limits, errors.

use std::io;
use std::time::Duration;

use clap::ValueEnum;

/// Where TCP listens unless told otherwise.
pub const PORT: u16 = 7299;
/// Under which name barewire listens unless told otherwise.
pub const NAME: &str = "stream";
/// An end that does nothing for so long is given up.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What carries a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// The kernel's TCP
    #[default]
    Tcp,
    /// A barewire connection, between programs of one host
    Barewire,
}

impl Over {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Barewire => "barewire",
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Options that cannot be.
    #[error("{0}")]
    Usage(String),
    /// A connection, or an end of it, that failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What was said.
        source: io::Error,
    },
    /// The other end does not do as it should.
    #[error("the other end {0}")]
    Peer(String),
}

pub type Result<T> = std::result::Result<T, StreamError>;

/// Says what was being done when it failed.
pub fn doing<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> StreamError {
    move |error| StreamError::Io {
        what: what.into(),
        source: error.into(),
    }
}
