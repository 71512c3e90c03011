//! The numbers by which events name connections.

/// The number of a connection on its node: small, and used again after the connection
/// has been dropped, so that it can index a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    /// The connection of this number, where a program keeps numbers: other languages do.
    #[must_use]
    pub fn from_index(index: u32) -> ConnectionId {
        ConnectionId(index)
    }

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
