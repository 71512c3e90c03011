//! Messages between parts, over the user-level network of one host or of several, or over TCP, with one way of waiting.
//!
//! A message is sent whole or not at all, and none is lost or overtaken while its link stands.
//! On TCP each has its length before it: 4 bytes, little-endian.

mod error;
mod tcp;

use std::net::{TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use barewire::{
    ConnectOptions, Connection, Event, ListenOptions, Node, NodeConfig, Policy, Port, Reservation,
    Spin,
};
use barewire_sys::wake::{Epoll, EpollEvent, Interest};

use crate::config::{Config, HostPort, Transport};
use crate::wire::{Batch, Control, PIECE_HEADER_BYTES};
pub use error::NetError;
use tcp::TcpLink;

/// How long one try to connect may take: less than anybody takes for death.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);
/// Between two tries to reach somebody.
pub const RETRY: Duration = Duration::from_millis(20);
/// Control messages go when there are so many bytes of them.
const BATCH_BYTES: usize = 16 << 10;
const TOKEN_NODE: u64 = u64::MAX;
const TOKEN_LISTENER: u64 = u64::MAX - 1;
const TOKEN_DETECTOR: u64 = u64::MAX - 2;

/// Where somebody listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A name on the user-level network.
    Ring(String),
    /// A TCP address.
    Tcp(HostPort),
    /// A name on the user-level network of any host.
    Host {
        /// Where nodes of other hosts reach the node.
        at: HostPort,
        /// The name.
        name: String,
    },
}

impl Address {
    /// The manager's.
    #[must_use]
    pub fn of_manager(config: &Config) -> Self {
        let name = format!("{}-manager", config.name);
        Self::new(config, name, &config.tcp_manager)
    }

    /// A builder's.
    #[must_use]
    pub fn of_builder(config: &Config, id: u16) -> Self {
        let name = format!("{}-builder-{id}", config.name);
        Self::new(config, name, &config.tcp_builders[usize::from(id)])
    }

    fn new(config: &Config, name: String, at: &HostPort) -> Self {
        let at = at.clone();
        match config.transport {
            Transport::Ring => Self::Ring(name),
            Transport::Tcp => Self::Tcp(at),
            Transport::Hosts => Self::Host { at, name },
        }
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Ring(name) => f.write_str(name),
            Self::Tcp(address) => address.fmt(f),
            Self::Host { at, name } => write!(f, "{at}/{name}"),
        }
    }
}

/// Tries all addresses of a host once.
fn connect_tcp(to: &HostPort) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in to.resolve()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection.
#[derive(Debug)]
pub enum Link {
    /// On the user-level network.
    Ring(Box<Connection>),
    /// On TCP.
    Tcp(Box<TcpLink>),
}

/// Room for a message.
#[derive(Debug)]
pub enum Room<'a> {
    /// In the receiver's memory.
    Ring(Reservation<'a>),
    /// In what waits to be written.
    Tcp(&'a mut [u8]),
}

impl Room<'_> {
    /// Stores `bytes` at `at`, inside of what was asked for.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        match self {
            Self::Ring(room) => room.write_at(at, bytes),
            Self::Tcp(room) => room[at..at + bytes.len()].copy_from_slice(bytes),
        }
    }

    /// Sends it, filled.
    pub fn commit(self) {
        if let Self::Ring(room) = self {
            let bytes = room.len_bytes();
            room.commit(bytes);
        }
    }
}

/// A message that has come.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// Lies in a ring.
    Ring(&'a barewire::Message<'a>),
    /// Lies in our memory.
    Tcp(&'a [u8]),
}

impl Incoming<'_> {
    /// Its length.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Ring(message) => message.len_bytes(),
            Self::Tcp(bytes) => bytes.len(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies what lies at `at`, inside of it.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        match self {
            Self::Ring(message) => message.read_at(at, into),
            Self::Tcp(bytes) => into.copy_from_slice(&bytes[at..at + into.len()]),
        }
    }
}

impl Link {
    /// Its TCP connection, if it is one.
    #[must_use]
    pub fn stream(&self) -> Option<&std::net::TcpStream> {
        match self {
            Self::Ring(_) => None,
            Self::Tcp(link) => Some(link.stream()),
        }
    }

    /// Sends a message; `false` if there is no room.
    ///
    /// # Errors
    ///
    /// The link is of no use any more.
    pub fn send(&mut self, bytes: &[u8]) -> Result<bool, NetError> {
        match self {
            Self::Ring(connection) => Ok(connection.try_send(bytes)?),
            Self::Tcp(link) => match link.reserve(bytes.len())? {
                Some(room) => {
                    room.copy_from_slice(bytes);
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Room for a message of `bytes`, if there is.
    ///
    /// # Errors
    ///
    /// The link is of no use any more.
    pub fn reserve(&mut self, bytes: usize) -> Result<Option<Room<'_>>, NetError> {
        match self {
            Self::Ring(connection) => Ok(connection.sender().reserve(bytes)?.map(Room::Ring)),
            Self::Tcp(link) => Ok(link.reserve(bytes)?.map(Room::Tcp)),
        }
    }

    /// Hands the next message to `take`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The link has ended, and everything was received.
    pub fn receive<R>(
        &mut self,
        take: impl FnOnce(&Incoming<'_>) -> R,
    ) -> Result<Option<R>, NetError> {
        match self {
            Self::Ring(connection) => {
                let Some(message) = connection.receiver().try_recv_message()? else {
                    return Ok(None);
                };
                let taken = take(&Incoming::Ring(&message));
                message.release();
                Ok(Some(taken))
            }
            Self::Tcp(link) => link.receive(|bytes| take(&Incoming::Tcp(bytes))),
        }
    }
}

/// All links of a process.
#[derive(Debug)]
pub struct Net {
    poll: Epoll,
    node: Option<Node>,
    ring_name: Option<barewire::Listener>,
    port: Option<Port>,
    policy: Policy,
    listener: Option<TcpListener>,
    links: Vec<Option<Link>>,
    accepted: Vec<usize>,
    message_bytes_max: usize,
    events: Vec<Event>,
    ready: Vec<EpollEvent>,
}

impl Net {
    /// No links.
    ///
    /// # Errors
    ///
    /// Those of the machine: no memory, no descriptors.
    pub fn new(config: &Config) -> Result<Self, NetError> {
        let poll = Epoll::new()?;
        let piece_bytes = usize::try_from(config.source.piece_bytes).unwrap_or(usize::MAX);
        let message_bytes_max = (piece_bytes + PIECE_HEADER_BYTES).max(config.ring_bytes / 2);
        let node = match config.transport {
            Transport::Tcp => None,
            Transport::Ring | Transport::Hosts => Some(Node::with_config(NodeConfig {
                spin: Spin::Never,
                ring_bytes: config.ring_bytes,
                message_bytes_max,
                hosts: config.hosts.node.clone(),
                ..NodeConfig::default()
            })?),
        };
        if let Some(node) = &node {
            poll.add(node, TOKEN_NODE, Interest::READ)?;
        }
        Ok(Self {
            poll,
            node,
            ring_name: None,
            port: None,
            policy: config.hosts.policy.clone(),
            listener: None,
            links: Vec::new(),
            accepted: Vec::new(),
            message_bytes_max,
            events: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// The address is taken, or not ours.
    pub fn listen(&mut self, address: &Address) -> Result<(), NetError> {
        match (address, &self.node) {
            (Address::Ring(name), Some(node)) => self.ring_name = Some(node.listen(name)?),
            (Address::Tcp(address), _) => {
                let listener = address.listen()?;
                listener.set_nonblocking(true)?;
                self.poll.add(&listener, TOKEN_LISTENER, Interest::READ)?;
                self.listener = Some(listener);
            }
            (Address::Host { at, name }, Some(node)) => {
                // Says with its kind what is wrong with the address.
                drop(at.listen()?);
                let port = node.listen_on(&at.to_string())?;
                let policy = self.policy.clone();
                self.ring_name = Some(node.listen_with(name, ListenOptions { policy })?);
                self.port = Some(port);
            }
            (Address::Ring(_) | Address::Host { .. }, None) => {}
        }
        Ok(())
    }

    /// Has [`Net::wait`] end when `what` can be read, or no more.
    ///
    /// # Errors
    ///
    /// It cannot be waited for.
    pub fn watch(&mut self, what: BorrowedFd<'_>, on: bool) -> Result<(), NetError> {
        match on {
            true => self.poll.add(what, TOKEN_DETECTOR, Interest::READ)?,
            false => self.poll.remove(what)?,
        }
        Ok(())
    }

    /// Tries once to connect.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or does not answer soon.
    pub fn connect(&mut self, address: &Address) -> Result<usize, NetError> {
        let link = match (address, &self.node) {
            (Address::Ring(_) | Address::Host { .. }, Some(node)) => {
                let options = ConnectOptions {
                    timeout: CONNECT_TIMEOUT,
                    wait_for_name: false,
                    ..ConnectOptions::default()
                };
                Link::Ring(Box::new(node.connect_with(&address.to_string(), &options)?))
            }
            (Address::Tcp(address), _) => {
                let stream = connect_tcp(address)?;
                Link::Tcp(Box::new(TcpLink::new(stream, self.message_bytes_max)?))
            }
            (Address::Ring(_) | Address::Host { .. }, None) => return Err(NetError::Ended),
        };
        self.insert(link)
    }

    fn insert(&mut self, link: Link) -> Result<usize, NetError> {
        let free = self.links.iter().position(Option::is_none);
        let at = free.unwrap_or(self.links.len());
        if let Link::Tcp(link) = &link {
            self.poll.add(link.stream(), at as u64, Interest::READ)?;
        }
        match free {
            Some(at) => self.links[at] = Some(link),
            None => self.links.push(Some(link)),
        }
        Ok(at)
    }

    /// Who has connected to us.
    pub fn accept(&mut self) -> Option<usize> {
        self.accepted.pop()
    }

    /// A link.
    ///
    /// # Errors
    ///
    /// There is none of that number.
    pub fn link(&mut self, at: usize) -> Result<&mut Link, NetError> {
        let link = self.links.get_mut(at).and_then(Option::as_mut);
        link.ok_or(NetError::Ended)
    }

    /// Lets a link go.
    pub fn close(&mut self, at: usize) {
        if let Some(Some(Link::Tcp(link))) = self.links.get_mut(at) {
            let _ = link.flush();
            let _ = self.poll.remove(link.stream());
        }
        if let Some(link) = self.links.get_mut(at) {
            *link = None;
        }
    }

    /// Lets in who waits; whether anything happened.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn look(&mut self) -> Result<bool, NetError> {
        let mut any = false;
        if let Some(node) = &self.node {
            let mut events = core::mem::take(&mut self.events);
            any = node.poll(&mut events, 64)? > 0;
            for event in events.drain(..) {
                if let Event::Request(request) = event {
                    // One that has gone meanwhile is no fault of ours.
                    let Ok(connection) = request.accept() else {
                        continue;
                    };
                    let at = self.insert(Link::Ring(Box::new(connection)))?;
                    self.accepted.push(at);
                }
            }
            self.events = events;
        }
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let link = TcpLink::new(stream, self.message_bytes_max)?;
            let at = self.insert(Link::Tcp(Box::new(link)))?;
            self.accepted.push(at);
            any = true;
        }
        Ok(any)
    }

    /// Has everything written that can be.
    pub fn flush(&mut self) {
        for link in self.links.iter_mut().flatten() {
            if let Link::Tcp(link) = link {
                // That it has ended is told when it is read.
                let _ = link.flush();
            }
        }
    }

    /// Waits until something may have happened, at most so long.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), NetError> {
        self.flush();
        if self.look()? {
            return Ok(());
        }
        for (at, link) in self.links.iter_mut().enumerate() {
            let Some(Link::Tcp(link)) = link else {
                continue;
            };
            let interest = match link.wants_to_write() {
                true => Interest::READ_WRITE,
                false => Interest::READ,
            };
            if link.interest_changes(interest) {
                self.poll.modify(link.stream(), at as u64, interest)?;
            }
        }
        self.poll.wait(&mut self.ready, Some(timeout))?;
        Ok(())
    }
}

/// Control messages for one link, which go together.
#[derive(Debug, Default)]
pub struct Outbox {
    full: std::collections::VecDeque<Vec<u8>>,
    batch: Batch,
}

impl Outbox {
    /// One more.
    pub fn push(&mut self, message: &Control) {
        self.batch.push(message);
        if self.batch.len() >= BATCH_BYTES {
            self.full.push_back(self.batch.seal().to_vec());
            self.batch.clear();
        }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.batch.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.full.clear();
        self.batch.clear();
    }

    /// Sends as much as there is room for.
    ///
    /// # Errors
    ///
    /// The link is of no use any more.
    pub fn flush(&mut self, link: &mut Link) -> Result<(), NetError> {
        while let Some(bytes) = self.full.front() {
            if !link.send(bytes)? {
                return Ok(());
            }
            self.full.pop_front();
        }
        if !self.batch.is_empty() && link.send(self.batch.seal())? {
            self.batch.clear();
        }
        Ok(())
    }
}
