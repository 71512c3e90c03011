//! Why something cannot be sent or received.

/// Why something cannot be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// Of the user-level network.
    #[error("{0}")]
    Ring(#[from] barewire::Error),
    /// Of TCP.
    #[error("{0}")]
    Tcp(#[from] std::io::Error),
    /// Of waiting.
    #[error("{0}")]
    System(#[from] barewire_sys::SysError),
    /// A message that is longer than any of ours.
    #[error("a message of {0} bytes")]
    TooLong(usize),
    /// The other end has closed.
    #[error("the other end has closed")]
    Ended,
}

impl NetError {
    /// Whether this says no more than that nobody has answered yet.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Ring(error) => matches!(error, barewire::Error::Timeout),
            Self::Tcp(error) => error.kind() == std::io::ErrorKind::TimedOut,
            _ => false,
        }
    }

    /// Whether somebody listens there already.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Ring(error) => matches!(error, barewire::Error::NameTaken { .. }),
            Self::Tcp(error) => error.kind() == std::io::ErrorKind::AddrInUse,
            _ => false,
        }
    }
}
