//! A TCP port at which ordinary hosts connect.
//!
//! The lease of the port gets what belongs to no connection: each SYN. For each of them
//! [`Edge`](crate::Edge) asks for a lease of that one connection, and answers there, so that each
//! connection has a queue of its own. Nobody waits for the bridge meanwhile.

use crate::clock::Clock;
use crate::error::EdgeError;
use crate::lease::{Lease, LeaseError};
use crate::stream::{EdgeStream, StreamOptions};
use barewire::ConnectionId;
use barewire_proto::edge::message::{Ask, Checksum, Protocol, Refusal};
use barewire_proto::edge::packet::{Body, Packet, tcp_flags};
use barewire_tcp::{Checked, Tcp};
use std::net::SocketAddr;

/// The longest SYN that is kept while the bridge is asked, in bytes: one as long as an ordinary
/// MTU allows has room. No SYN has to be longer than its header.
const SYN_BYTES_MAX: usize = 2048;

/// A lease of a port of the bridge.
#[derive(Debug)]
pub(crate) struct Listener {
    lease: Lease,
    options: StreamOptions,
}

/// A packet with which another host opens a connection.
#[derive(Debug)]
pub(crate) struct Syn {
    packet: Vec<u8>,
    checked: Checked,
    /// Who has sent it.
    pub(crate) remote: SocketAddr,
    /// Where it goes.
    local: SocketAddr,
}

impl Listener {
    /// What to ask the bridge for to listen at [`StreamOptions::local_port`].
    pub(crate) fn ask(is_v6: bool, options: &StreamOptions) -> Ask {
        Ask::listen(Protocol::Tcp, options.local_port, is_v6)
    }

    /// Over the lease of the port; the settings are those of each connection.
    pub(crate) fn new(lease: Lease, options: &StreamOptions) -> Self {
        Self {
            lease,
            options: options.clone(),
        }
    }

    /// The address and port at which it listens.
    pub(crate) fn local(&self) -> SocketAddr {
        self.lease.granted().local
    }

    /// The number of its connection to the bridge: events of the node name it.
    pub(crate) fn id(&self) -> ConnectionId {
        self.lease.id()
    }

    /// The settings of its connections.
    pub(crate) fn options(&self) -> &StreamOptions {
        &self.options
    }

    /// The next packet, without waiting for one: the SYN, if it is one.
    pub(crate) fn try_recv(&mut self) -> Result<Option<Option<Syn>>, LeaseError> {
        let local = self.local();
        let Some((header, packet)) = self.lease.try_recv()? else {
            return Ok(None);
        };
        let checked = match header.checksum {
            Checksum::Present => Checked::No,
            Checksum::Verified | Checksum::Open { .. } => Checked::Yes,
        };
        let remote = sender(packet).filter(|_| packet.len() <= SYN_BYTES_MAX);
        Ok(Some(remote.map(|remote| Syn {
            packet: packet.to_vec(),
            checked,
            remote,
            local,
        })))
    }
}

impl Syn {
    /// What to ask the bridge for to answer it.
    pub(crate) fn ask(&self) -> Ask {
        Ask {
            local_port: self.local.port(),
            ..Ask::connect(Protocol::Tcp, self.remote)
        }
    }

    /// Answers it, over a lease of its connection.
    pub(crate) fn answer(
        &self,
        mut lease: Lease,
        options: &StreamOptions,
    ) -> Result<EdgeStream, EdgeError> {
        if lease.granted().local != self.local {
            return Err(LeaseError::Refused(Refusal::PortTaken(self.local.port())).into());
        }
        let config = options.config(&mut lease, self.remote)?;
        let clock = Clock::new();
        let tcp = Tcp::accept(&config, &self.packet, self.checked, clock.now())?;
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
