//! A lease at a bridge: the client's half of `barewire_proto::edge::message`.
//!
//! ```no_run
//! use barewire::Node;
//! use barewire_edge::{Ask, Lease, LeaseOptions, Protocol};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::new()?;
//! let ask = Ask::connect(Protocol::Udp, "198.51.100.7:53".parse()?);
//! let lease = Lease::new(&node, &ask, &LeaseOptions::default())?;
//! println!("packets come from {}", lease.granted().local);
//! # Ok(())
//! # }
//! ```

use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Connection, ConnectionId, Error, Node};
use barewire_proto::edge::message::{
    Answer, Ask, Granted, MESSAGE_BYTES_MAX, MessageError, NAME_DEFAULT, PACKET_HEADER_BYTES,
    PacketHeader, Refusal,
};

/// Why there is no lease, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// No bridge listens under the name.
    #[error(
        "no bridge listens as `{name}` ({error}); start one: `barewire bridge --tap bw0 --address 10.0.0.9/24`"
    )]
    NoBridge {
        /// The name.
        name: String,
        /// What the network says.
        error: Error,
    },
    /// The bridge refuses.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// What listens there is no bridge, or one of another version.
    #[error("what listens as `{name}` does not answer as a bridge: {error}")]
    NoAnswer {
        /// The name.
        name: String,
        /// What is wrong with what came.
        error: MessageError,
    },
    /// What came from the bridge is no packet.
    #[error("the bridge sent what is no packet: {0}")]
    Broken(#[from] MessageError),
    /// The bridge has ended, or has ended this lease.
    #[error("the bridge is gone ({0}): what was leased is lost; start it again, and connect anew")]
    Gone(Error),
    /// A packet is longer than the lease allows.
    #[error("a packet of {len_bytes} bytes is too long: the bridge takes {max_bytes}")]
    TooLong {
        /// What it has.
        len_bytes: usize,
        /// What it may have.
        max_bytes: usize,
    },
}

/// How to find the bridge.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Its name.
    pub name: String,
    /// The user that the bridge must run as; `None`: our own.
    pub owner: Option<u32>,
    /// Bytes of the queue to this program, a power of two. Large packets need 256 KiB.
    pub ring_bytes: usize,
    /// How long to wait for the bridge and its answer.
    pub timeout: Duration,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            name: NAME_DEFAULT.to_owned(),
            owner: None,
            ring_bytes: 256 << 10,
            timeout: Duration::from_secs(5),
        }
    }
}

impl LeaseOptions {
    fn connect(&self) -> ConnectOptions {
        ConnectOptions {
            timeout: self.timeout,
            owner: self.owner,
            ring_bytes: Some(self.ring_bytes),
            ..ConnectOptions::default()
        }
    }
}

fn no_bridge(name: &str, error: Error) -> LeaseError {
    LeaseError::NoBridge {
        name: name.to_owned(),
        error,
    }
}

/// A lease that was asked for, while nobody waits for the answer.
#[derive(Debug)]
pub(crate) struct LeaseRequest {
    ask: Ask,
    name: String,
    /// Once there is a connection to the bridge.
    connection: Option<Connection>,
}

impl LeaseRequest {
    /// Begins to ask. Events of the node with that number say when to go on.
    pub(crate) fn begin(
        node: &Node,
        ask: &Ask,
        options: &LeaseOptions,
    ) -> Result<(ConnectionId, Self), LeaseError> {
        let name = &options.name;
        let id = node.start_connect(name, &options.connect());
        let request = Self {
            ask: *ask,
            name: name.clone(),
            connection: None,
        };
        Ok((id.map_err(|error| no_bridge(name, error))?, request))
    }

    /// The bridge is there: it is asked.
    pub(crate) fn connected(&mut self, mut connection: Connection) -> Result<(), LeaseError> {
        match connection.try_send(&self.ask.to_bytes()) {
            Ok(true) => self.connection = Some(connection),
            // Its queue is new, and has no room even for that.
            Ok(false) => return Err(LeaseError::Gone(Error::Timeout)),
            Err(error) => return Err(LeaseError::Gone(error)),
        }
        Ok(())
    }

    /// There is no connection to the bridge.
    pub(crate) fn failed(&self, error: Error) -> LeaseError {
        no_bridge(&self.name, error)
    }

    /// Gives it up: the bridge has not answered in time, or nobody wants it any more.
    pub(crate) fn give_up(self, node: &Node, id: ConnectionId) -> LeaseError {
        match self.connection {
            Some(_) => LeaseError::Gone(Error::Timeout),
            None => {
                node.cancel_connect(id);
                no_bridge(&self.name, Error::Timeout)
            }
        }
    }

    /// The lease, if the answer has come. Afterwards the request is over.
    pub(crate) fn try_finish(&mut self) -> Result<Option<Lease>, LeaseError> {
        let Some(mut connection) = self.connection.take() else {
            return Ok(None);
        };
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        match connection.try_recv(&mut message) {
            Ok(Some(len)) => Lease::of_answer(connection, message, len, &self.name).map(Some),
            Ok(None) => {
                self.connection = Some(connection);
                Ok(None)
            }
            Err(error) => Err(LeaseError::Gone(error)),
        }
    }
}

/// A lease. Dropping it ends it: the peer of a connection that is open gets a RST.
#[derive(Debug)]
pub struct Lease {
    connection: Connection,
    granted: Granted,
    message: Vec<u8>,
}

/// What became of a packet that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the queue.
    Queued,
    /// The queue is full. There is an event when it has room again.
    Full,
}

impl Lease {
    /// Asks a bridge for a lease, and waits for its answer.
    ///
    /// The calling thread waits in the node; its events stay.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn new(node: &Node, ask: &Ask, options: &LeaseOptions) -> Result<Self, LeaseError> {
        let name = &options.name;
        let from = Instant::now();
        let connected = node.connect_with(name, &options.connect());
        let mut connection = connected.map_err(|error| no_bridge(name, error))?;
        connection.send(&ask.to_bytes()).map_err(LeaseError::Gone)?;
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        let left = options.timeout.saturating_sub(from.elapsed());
        let received = connection
            .recv_timeout(&mut message, left)
            .map_err(LeaseError::Gone)?;
        let len = received.ok_or(LeaseError::Gone(Error::Timeout))?;
        Self::of_answer(connection, message, len, name)
    }

    /// With the answer that has come.
    fn of_answer(
        connection: Connection,
        message: Vec<u8>,
        len: usize,
        name: &str,
    ) -> Result<Self, LeaseError> {
        match Answer::parse(&message[..len]) {
            Ok(Answer::Granted(granted)) => Ok(Self {
                connection,
                granted,
                message,
            }),
            Ok(Answer::Refused(refusal)) => Err(refusal.into()),
            Err(error) => Err(LeaseError::NoAnswer {
                name: name.to_owned(),
                error,
            }),
        }
    }

    /// What was granted.
    #[must_use]
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// The number of its connection: events of the node name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.connection.id()
    }

    /// Sends an IP packet.
    ///
    /// # Errors
    /// [`LeaseError::Gone`], [`LeaseError::TooLong`].
    pub fn try_send(&mut self, header: &PacketHeader, packet: &[u8]) -> Result<Sent, LeaseError> {
        let max_bytes = (self.granted.packet_bytes_max as usize).min(self.room_bytes());
        if packet.len() > max_bytes {
            return Err(LeaseError::TooLong {
                len_bytes: packet.len(),
                max_bytes,
            });
        }
        let len = PACKET_HEADER_BYTES + packet.len();
        self.message[..PACKET_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.message[PACKET_HEADER_BYTES..len].copy_from_slice(packet);
        match self.connection.try_send(&self.message[..len]) {
            Ok(true) => Ok(Sent::Queued),
            Ok(false) => Ok(Sent::Full),
            Err(error) => Err(LeaseError::Gone(error)),
        }
    }

    /// As [`try_send`](Self::try_send), without a copy of the packet: `message` has room for the header before it.
    pub(crate) fn try_send_message(
        &mut self,
        header: &PacketHeader,
        message: &mut [u8],
    ) -> Result<Sent, LeaseError> {
        message[..PACKET_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        match self.connection.try_send(message) {
            Ok(true) => Ok(Sent::Queued),
            Ok(false) => Ok(Sent::Full),
            Err(error) => Err(LeaseError::Gone(error)),
        }
    }

    /// As [`try_send_message`](Self::try_send_message), for a packet in parts, of which the first has room for the header. They
    /// are put together in the bridge's queue. `None`: that does not take as much in one piece.
    pub(crate) fn try_send_parts(
        &mut self,
        header: &PacketHeader,
        head: &mut [u8],
        payload: [&[u8]; 2],
    ) -> Result<Option<Sent>, LeaseError> {
        let parts = [head.len(), payload[0].len(), payload[1].len()];
        let sender = self.connection.sender();
        if parts.iter().sum::<usize>() > sender.reserve_bytes_max() {
            return Ok(None);
        }
        let reserved = sender.reserve(parts.iter().sum());
        let Some(mut room) = reserved.map_err(LeaseError::Gone)? else {
            return Ok(Some(Sent::Full));
        };
        head[..PACKET_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        room.write_at(0, head);
        room.write_at(parts[0], payload[0]);
        room.write_at(parts[0] + parts[1], payload[1]);
        room.commit_written();
        Ok(Some(Sent::Queued))
    }

    /// The longest packet that the bridge's queue has room for, in bytes.
    pub(crate) fn room_bytes(&mut self) -> usize {
        let most = self.connection.sender().try_send_bytes_max();
        most.saturating_sub(PACKET_HEADER_BYTES)
    }

    /// The next packet, if one is there.
    ///
    /// # Errors
    /// [`LeaseError::Gone`] when all that came before the end was taken; [`LeaseError::Broken`].
    pub fn try_recv(&mut self) -> Result<Option<(PacketHeader, &[u8])>, LeaseError> {
        Ok(self.recv_mut(None)?.map(shared))
    }

    /// The next packet; waits for it at most so long.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn recv_timeout(
        &mut self,
        longest: Duration,
    ) -> Result<Option<(PacketHeader, &[u8])>, LeaseError> {
        Ok(self.recv_mut(Some(longest))?.map(shared))
    }

    /// The next packet, as it lies in memory of this program; waits for it at most so long, or not at all.
    pub(crate) fn recv_mut(
        &mut self,
        longest: Option<Duration>,
    ) -> Result<Option<(PacketHeader, &mut [u8])>, LeaseError> {
        let received = match longest {
            Some(longest) => self.connection.recv_timeout(&mut self.message, longest),
            None => self.connection.try_recv(&mut self.message),
        };
        self.read(received)
    }

    fn read(
        &mut self,
        received: barewire::Result<Option<usize>>,
    ) -> Result<Option<(PacketHeader, &mut [u8])>, LeaseError> {
        match received {
            Ok(Some(len)) => {
                let (header, _) = PacketHeader::parse(&self.message[..len])?;
                Ok(Some((header, &mut self.message[PACKET_HEADER_BYTES..len])))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(LeaseError::Gone(error)),
        }
    }
}

fn shared((header, packet): (PacketHeader, &mut [u8])) -> (PacketHeader, &[u8]) {
    (header, packet)
}
