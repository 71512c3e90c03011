//! A request to connect, and the answer to it.

use std::sync::Arc;

use crate::config::check_ring;
use crate::error::{Credentials, Result};
use crate::handles::connection::Connection;
use crate::node::core::NodeCore;
use crate::tables::events::Requested;

/// A request to connect. Dropping it refuses it.
pub struct Request {
    node: Arc<NodeCore>,
    requested: Requested,
    answered: bool,
}

impl Request {
    pub(crate) fn new(node: &Arc<NodeCore>, requested: Requested) -> Request {
        Request {
            node: Arc::clone(node),
            requested,
            answered: false,
        }
    }

    /// The process that asks, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.requested.peer
    }

    /// The name that was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.requested.name
    }

    /// What the application sent along.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.requested.data
    }

    /// Accepts, with the node's ring size.
    ///
    /// # Errors
    /// [`Error::PeerGone`](crate::Error::PeerGone) if the other side has given up; [`Error::System`](crate::Error::System).
    pub fn accept(self) -> Result<Connection> {
        self.accept_with(None)
    }

    /// Accepts, with a receive ring of this size.
    ///
    /// # Errors
    /// [`Error::OutOfLimits`](crate::Error::OutOfLimits); as [`Request::accept`].
    pub fn accept_with_ring(self, ring_bytes: usize) -> Result<Connection> {
        check_ring(ring_bytes)?;
        self.accept_with(Some(ring_bytes))
    }

    fn accept_with(mut self, ring_bytes: Option<usize>) -> Result<Connection> {
        self.node.base.check_fork()?;
        let mut state = self.node.state();
        let opened = state.accept(self.requested.number, self.requested.serial, ring_bytes)?;
        drop(state);
        self.answered = true;
        Ok(Connection::new(&self.node, opened))
    }

    /// Refuses, with a reason that the other side gets to read.
    pub fn reject(mut self, reason: &str) {
        self.refuse(reason);
    }

    fn refuse(&mut self, reason: &str) {
        if !self.answered && self.node.base.check_fork().is_ok() {
            self.answered = true;
            let mut state = self.node.state();
            state.reject(self.requested.number, self.requested.serial, reason);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.refuse("the listener did not accept");
    }
}

impl core::fmt::Debug for Request {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.requested.name)
            .field("peer", &self.requested.peer)
            .finish_non_exhaustive()
    }
}
