//! An address at which nodes of other hosts reach a node.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::error::Result;
use crate::node::core::NodeCore;

/// An address at which nodes of other hosts reach this node, under every name that it listens to. Dropping it closes
/// the port; links that came by it stay.
pub struct Port {
    node: Arc<NodeCore>,
    address: SocketAddr,
    token: u64,
}

impl Port {
    pub(crate) fn open(node: &Arc<NodeCore>, address: &str) -> Result<Port> {
        node.base.check_fork()?;
        let (address, token) = node.open_port(address)?;
        Ok(Port {
            node: Arc::clone(node),
            address,
            token,
        })
    }

    /// The address, with the port that the system chose if none was named.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // In a child the thread that would close it does not run.
        if self.node.base.check_fork().is_ok() {
            self.node.close_port(self.token);
        }
    }
}

impl core::fmt::Debug for Port {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Port")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
