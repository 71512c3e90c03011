//! A UDP socket that ordinary hosts are reached by.

use crate::clock::Clock;
use crate::error::EdgeError;
use crate::lease::{Lease, LeaseOptions};
use crate::packets::Driven;
use barewire::{ConnectionId, Node};
use barewire_proto::edge::message::{Ask, Protocol};
use barewire_tcp::{Offload, Udp, UdpConfig};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes that wait to be sent, and bytes that wait to be read, at most.
const BUFFER_BYTES: usize = 256 << 10;

/// A UDP socket over a lease of the bridge.
#[derive(Debug)]
pub struct EdgeSocket {
    driven: Driven<Udp>,
}

impl EdgeSocket {
    /// One that exchanges datagrams with one other end only.
    ///
    /// # Errors
    /// The bridge gives no lease.
    pub fn connect(
        node: &Node,
        remote: SocketAddr,
        options: &LeaseOptions,
    ) -> Result<Self, EdgeError> {
        Self::new(
            node,
            &Ask::connect(Protocol::Udp, remote),
            Some(remote),
            options,
        )
    }

    /// One that takes datagrams of everybody at a port of the bridge; 0: any that is free.
    ///
    /// # Errors
    /// The bridge gives no lease: the port is taken, for instance.
    pub fn bind(
        node: &Node,
        local_port: u16,
        is_v6: bool,
        options: &LeaseOptions,
    ) -> Result<Self, EdgeError> {
        let ask = Ask::listen(Protocol::Udp, local_port, is_v6);
        Self::new(node, &ask, None, options)
    }

    fn new(
        node: &Node,
        ask: &Ask,
        remote: Option<SocketAddr>,
        options: &LeaseOptions,
    ) -> Result<Self, EdgeError> {
        let lease = Lease::new(node, ask, options)?;
        let granted = lease.granted();
        let udp = Udp::new(&UdpConfig {
            local: granted.local,
            remote,
            mtu: usize::from(granted.mtu_bytes),
            buffer_bytes: BUFFER_BYTES,
            offload: Offload {
                checksum: granted.takes.open_checksum,
                segmentation_bytes_max: None,
            },
        })?;
        Ok(Self {
            driven: Driven::new(udp, lease, Clock::new()),
        })
    }

    /// Address and port of this end.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.driven.lease().granted().local
    }

    /// The number of the connection to the bridge: events of the node name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.driven.id()
    }

    /// The longest datagram, in bytes.
    #[must_use]
    pub fn datagram_bytes_max(&self) -> usize {
        self.driven.endpoint.datagram_bytes_max()
    }

    /// How many datagrams came and were dropped, since too many waited to be read.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.driven.endpoint.dropped()
    }

    /// Sends a datagram; says whether there was room for it.
    ///
    /// # Errors
    /// It is too long, the address cannot be reached from here, or the bridge is gone.
    pub fn try_send_to(&mut self, datagram: &[u8], to: SocketAddr) -> Result<bool, EdgeError> {
        let is_taken = self.driven.endpoint.send_to(datagram, to)?;
        self.driven.pump()?;
        Ok(is_taken)
    }

    /// The next datagram, and who sent it, if one is there.
    ///
    /// # Errors
    /// The bridge is gone, and all that came before was read.
    pub fn try_receive(&mut self) -> Result<Option<(SocketAddr, Vec<u8>)>, EdgeError> {
        let pumped = self.driven.pump();
        match self.driven.endpoint.receive() {
            Some(datagram) => Ok(Some(datagram)),
            None => pumped.map(|_| None),
        }
    }

    /// The next datagram, and who sent it; waits for it at most so long.
    ///
    /// # Errors
    /// As [`try_receive`](Self::try_receive).
    pub fn receive_timeout(
        &mut self,
        longest: Duration,
    ) -> Result<Option<(SocketAddr, Vec<u8>)>, EdgeError> {
        let from = Instant::now();
        loop {
            if let Some(datagram) = self.try_receive()? {
                return Ok(Some(datagram));
            }
            let left = longest.saturating_sub(from.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.driven.wait(left)?;
        }
    }
}
