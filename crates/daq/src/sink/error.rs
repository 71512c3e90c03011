//! Why a sink takes no events.

use crate::net::NetError;

/// Why a sink takes no events.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Events cannot be recorded: which file, why, and what its file system has.
    #[error("{0}")]
    Record(String),
    /// They cannot be handed over.
    #[error("{0}")]
    Net(#[from] NetError),
}
