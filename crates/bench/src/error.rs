//! What can go wrong in a benchmark, in words that a user can act on.

use std::io;

/// Why a benchmark did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments ask for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The other process said that it failed, or is gone.
    #[error("the server process failed: {0}")]
    Peer(String),
    /// Nothing moved for a long time.
    #[error("{0}: no progress for {1} seconds")]
    Stuck(&'static str, u64),
    /// A transport cannot be used here.
    #[error("{0}")]
    Transport(String),
}

/// The result of everything in the benchmark.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds what was being done to an error of the operating system.
pub trait What<T> {
    /// `what` names the action, such as "connecting to 127.0.0.1".
    fn what(self, what: &str) -> Result<T>;
}

impl<T, E: Into<io::Error>> What<T> for std::result::Result<T, E> {
    fn what(self, what: &str) -> Result<T> {
        self.map_err(|error| Error::Os {
            what: what.to_owned(),
            source: error.into(),
        })
    }
}
