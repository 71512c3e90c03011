//! A TCP port at which ordinary hosts connect.
//!
//! The lease of the port gets what belongs to no connection: each SYN. For each of them the listener
//! asks for a lease of that one connection, and answers there, so that each connection has a queue
//! of its own. A SYN that comes again before that is ignored: the lease is there already.

use crate::clock::Clock;
use crate::error::EdgeError;
use crate::lease::{Lease, LeaseError};
use crate::stream::{EdgeStream, StreamOptions};
use barewire::{ConnectionId, Node};
use barewire_proto::edge::message::{Ask, Checksum, Protocol, Refusal};
use barewire_proto::edge::packet::{Body, Packet, tcp_flags};
use barewire_tcp::{Checked, Tcp};
use std::net::SocketAddr;

/// A listener at a port of the bridge.
#[derive(Debug)]
pub struct EdgeListener {
    lease: Lease,
    options: StreamOptions,
    ignored: u64,
}

impl EdgeListener {
    /// Listens at [`StreamOptions::local_port`] of the bridge; the other settings are those of each
    /// connection.
    ///
    /// # Errors
    /// The bridge gives no lease: the port is taken, for instance.
    pub fn new(node: &Node, is_v6: bool, options: &StreamOptions) -> Result<Self, EdgeError> {
        let ask = Ask::listen(Protocol::Tcp, options.local_port, is_v6);
        Ok(Self {
            lease: Lease::new(node, &ask, &options.lease)?,
            options: options.clone(),
            ignored: 0,
        })
    }

    /// The address and port at which it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.lease.granted().local
    }

    /// The number of its connection to the bridge: events of the node name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.lease.id()
    }

    /// How many packets came that did not ask for a connection, or for one that is there already.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The next connection that an ordinary host opens, without waiting for one. It is not open yet:
    /// drive it as any other.
    ///
    /// # Errors
    /// The bridge is gone. A connection for which it gives no lease is not an error: its host
    /// asks again.
    pub fn try_accept(&mut self, node: &Node) -> Result<Option<EdgeStream>, EdgeError> {
        while let Some((header, packet)) = self.lease.try_recv()? {
            let checked = match header.checksum {
                Checksum::Present => Checked::No,
                Checksum::Verified | Checksum::Open { .. } => Checked::Yes,
            };
            let syn = packet.to_vec();
            match self.open(node, &syn, checked) {
                Ok(stream) => return Ok(Some(stream)),
                Err(EdgeError::Lease(
                    error @ (LeaseError::Gone(_) | LeaseError::NoBridge { .. }),
                )) => return Err(error.into()),
                Err(_) => self.ignored += 1,
            }
        }
        Ok(None)
    }

    /// Asks for a lease of the connection that a SYN opens, and answers it there.
    fn open(&self, node: &Node, syn: &[u8], checked: Checked) -> Result<EdgeStream, EdgeError> {
        let remote = sender(syn).ok_or(barewire_tcp::Error::NotASyn)?;
        let local = self.local();
        let ask = Ask {
            local_port: local.port(),
            ..Ask::connect(Protocol::Tcp, remote)
        };
        let mut lease = Lease::new(node, &ask, &self.options.lease())?;
        if lease.granted().local != local {
            return Err(LeaseError::Refused(Refusal::PortTaken(local.port())).into());
        }
        let config = self.options.config(&mut lease, remote)?;
        let clock = Clock::new();
        let tcp = Tcp::accept(&config, syn, checked, clock.now())?;
        let mut stream = EdgeStream::around(tcp, lease, clock);
        stream.pump()?;
        Ok(stream)
    }
}

/// Who sent a SYN.
fn sender(packet: &[u8]) -> Option<SocketAddr> {
    let read = Packet::parse(packet).ok()?;
    let Body::Tcp {
        segment,
        source_port,
        ..
    } = read.body
    else {
        return None;
    };
    let is_first = segment.flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN;
    is_first.then_some(SocketAddr::new(read.source, source_port))
}
