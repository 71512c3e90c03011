//! What a node can do once there is a bridge: connect to ordinary hosts.

use crate::error::EdgeError;
use crate::stream::{EdgeStream, StreamOptions};
use barewire::Node;
use std::net::{SocketAddr, ToSocketAddrs};

/// Connections to ordinary hosts, as methods of a node.
///
/// ```no_run
/// use barewire::Node;
/// use barewire_edge::EdgeNode;
/// use std::io::{Read, Write};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::new()?;
/// let mut stream = node.tcp_connect("198.51.100.7:80")?;
/// stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
/// let mut page = String::new();
/// stream.read_to_string(&mut page)?;
/// # Ok(())
/// # }
/// ```
pub trait EdgeNode {
    /// Opens a TCP connection through the bridge, and waits until it is open. A name is looked up as
    /// the system does, and each of its addresses is tried.
    ///
    /// # Errors
    /// No address, no lease, or what the last address that was tried said.
    fn tcp_connect(&self, remote: &str) -> Result<EdgeStream, EdgeError> {
        self.tcp_connect_with(remote, &StreamOptions::default())
    }

    /// Likewise, with settings of one's own.
    ///
    /// # Errors
    /// As [`tcp_connect`](Self::tcp_connect).
    fn tcp_connect_with(
        &self,
        remote: &str,
        options: &StreamOptions,
    ) -> Result<EdgeStream, EdgeError>;
}

impl EdgeNode for Node {
    fn tcp_connect_with(
        &self,
        remote: &str,
        options: &StreamOptions,
    ) -> Result<EdgeStream, EdgeError> {
        let no_address = |reason: String| EdgeError::NoAddress {
            name: remote.to_owned(),
            reason,
        };
        let addresses = remote
            .to_socket_addrs()
            .map_err(|error| no_address(error.to_string()))?;
        let mut last = no_address("it has no addresses".to_owned());
        for address in addresses {
            match connect(self, address, options) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn connect(
    node: &Node,
    address: SocketAddr,
    options: &StreamOptions,
) -> Result<EdgeStream, EdgeError> {
    EdgeStream::connect(node, address, options)
}
