//! The gateway of `barewire run --edge`: it has the connections of unmodified programs through the bridge, and hands
//! their bytes on.
//!
//! ```text
//! program ── its TCP socket ── loopback device ── gateway ── TCP at user level ── bridge ── ordinary host
//! ```
//!
//! The program's side is in the preload library (`crates/sockets/src/process/edge.rs`), whose head says how a
//! socket of the program comes to be connected to the gateway. What both say to each other is
//! in `barewire_proto::edge::program`. One thread does everything, and waits for the node, for requests and for the
//! programs' sockets at once.
//!
//! What a file of this folder imports, from the lowest up: `known`, `pair`, then this file.

mod known;
mod pair;

use crate::error::EdgeError;
use crate::hub::Edge;
use crate::lease::{Lease, LeaseError, LeaseOptions};
use crate::stream::StreamOptions;
use barewire::{ConnectionId, Node};
use barewire_proto::edge::message::{Ask, Protocol, Refusal};
use barewire_proto::edge::program::{
    Answer, Gateway as Place, NETWORKS_MAX, Network, REQUEST_BYTES, Request,
};
use barewire_sys::loopback::{self, Pending};
use barewire_sys::process::{own_credentials, pidfd_open, random_bytes};
use barewire_sys::socket::{Listener, Received, Socket};
use barewire_sys::wake::{Epoll, EpollEvent, Interest};
use barewire_tcp::State;
use known::Known;
use pair::{Fate, Pair};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

const TOKEN_NODE: u64 = u64::MAX;
const TOKEN_REQUESTS: u64 = u64::MAX - 1;
const TOKEN_PROGRAM: u64 = u64::MAX - 2;

/// How many requests may wait to be accepted.
const REQUESTS_MAX: i32 = 1024;
/// How many may have connected without saying anything yet. Any user can connect; only who knows the token is heard.
const SILENT_MAX: usize = 256;
/// So many requests are accepted before others have their turn.
const TURN: usize = 64;
/// How many connections of others may be on the way to a listener of the program.
const BACKLOG: usize = 128;
/// How long connections have for their last bytes, once the program is gone.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Why there is no gateway, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The bridge gives no leases.
    #[error("{0}")]
    Bridge(#[from] LeaseError),
    /// The loopback device does not work.
    #[error("the loopback device cannot be used ({0}); bring it up: `ip link set lo up`")]
    Loopback(io::Error),
    /// Too many networks.
    #[error(
        "{0} networks are too many: at most {NETWORKS_MAX} can be named; join some, or name none"
    )]
    Networks(usize),
    /// What the network says.
    #[error(transparent)]
    Network(#[from] barewire::Error),
    /// What the system says.
    #[error(transparent)]
    System(#[from] barewire_sys::SysError),
}

/// What a gateway is to do.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The name of the bridge.
    pub bridge: String,
    /// What goes through it; if nothing is named, all that leaves this host.
    pub networks: Vec<Network>,
    /// The process with whose end the gateway ends, too, once its connections have.
    pub program: i32,
}

/// A gateway.
#[derive(Debug)]
pub struct Gateway<'n> {
    edge: Edge<'n>,
    options: StreamOptions,
    place: Place,
    v4: Pending,
    v6: Option<Pending>,
    requests: Listener,
    asking: BTreeMap<u64, Socket>,
    epoll: Epoll,
    pairs: HashMap<ConnectionId, Pair>,
    by_token: HashMap<u64, ConnectionId>,
    /// Those that had their turn, and have more to do.
    again: HashSet<ConnectionId>,
    /// At which addresses the program listens, and the bridge was asked for.
    listening: HashMap<ConnectionId, SocketAddr>,
    known: Known,
    next_token: u64,
    program: Option<OwnedFd>,
}

impl<'n> Gateway<'n> {
    /// Opens one.
    ///
    /// # Errors
    /// See [`GatewayError`].
    pub fn open(node: &'n Node, options: &GatewayOptions) -> Result<Self, GatewayError> {
        let (lease, bridge) = probe(node, &options.bridge)?;
        let mut random = [0; 28];
        random_bytes(&mut random)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|nth| random[at + nth]));
        let v4 =
            Pending::open(loopback::address(word(0)).into()).map_err(GatewayError::Loopback)?;
        // Some hosts have no IPv6.
        let v6 = Pending::open(loopback::ADDRESS_V6.into()).ok();
        let mut networks = [None; NETWORKS_MAX];
        if options.networks.len() > networks.len() {
            return Err(GatewayError::Networks(options.networks.len()));
        }
        for (place, network) in networks.iter_mut().zip(&options.networks) {
            *place = Some(*network);
        }
        let place = Place {
            id: u64::from(word(4)) << 32 | u64::from(word(8)),
            user: own_credentials().uid,
            token: core::array::from_fn(|at| random[12 + at]),
            v4: as_v4(v4.local()),
            v6: v6.as_ref().and_then(|pending| match pending.local() {
                SocketAddr::V6(v6) => Some(v6),
                SocketAddr::V4(_) => None,
            }),
            bridge,
            networks,
        };
        let requests = Listener::bind(&place.name(), REQUESTS_MAX)?;
        let program = pidfd_open(options.program)?;
        let epoll = Epoll::new()?;
        epoll.add(node, TOKEN_NODE, Interest::READ)?;
        epoll.add(&requests, TOKEN_REQUESTS, Interest::READ)?;
        epoll.add(&program, TOKEN_PROGRAM, Interest::READ)?;
        Ok(Self {
            edge: Edge::new(node),
            options: StreamOptions {
                lease,
                ..StreamOptions::default()
            },
            place,
            v4,
            v6,
            requests,
            asking: BTreeMap::new(),
            epoll,
            pairs: HashMap::new(),
            by_token: HashMap::new(),
            again: HashSet::new(),
            listening: HashMap::new(),
            known: Known::default(),
            next_token: 0,
            program: Some(program),
        })
    }

    /// What the program's environment has to say of it.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Serves until the program has ended, and its connections as well.
    ///
    /// # Errors
    /// What the network and the system say.
    pub fn serve(&mut self) -> Result<(), GatewayError> {
        let mut events = Vec::new();
        let mut last = None;
        while self.program.is_some() || !self.pairs.is_empty() {
            let (touched, may_wait) = self.edge.poll()?;
            for id in touched {
                self.step(id);
            }
            for id in core::mem::take(&mut self.again) {
                self.step(id);
            }
            let is_idle = may_wait && self.again.is_empty();
            let longest = match is_idle {
                true => [self.edge.next_deadline(), last.map(left)]
                    .into_iter()
                    .flatten()
                    .min(),
                false => Some(Duration::ZERO),
            };
            self.epoll.wait(&mut events, longest)?;
            for event in &events {
                self.handle(event)?;
            }
            if self.program.is_none() {
                let end = *last.get_or_insert_with(|| std::time::Instant::now() + LAST_WAIT);
                if left(end).is_zero() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: &EpollEvent) -> Result<(), GatewayError> {
        match event.token {
            TOKEN_NODE => {}
            TOKEN_REQUESTS => self.take_requests(),
            TOKEN_PROGRAM => {
                if let Some(program) = self.program.take() {
                    self.epoll.remove(&program)?;
                }
            }
            token if self.asking.contains_key(&token) => self.hear(token),
            token => {
                if let Some(&id) = self.by_token.get(&token) {
                    if let Some(pair) = self.pairs.get_mut(&id) {
                        pair.note(event.hangup);
                    }
                    self.step(id);
                }
            }
        }
        Ok(())
    }

    /// Accepts some who ask for something. Without descriptors, they wait until some are free again.
    fn take_requests(&mut self) {
        for _ in 0..TURN {
            let Ok(Some(socket)) = self.requests.accept() else {
                return;
            };
            let token = self.token();
            if self.epoll.add(&socket, token, Interest::READ).is_ok() {
                self.asking.insert(token, socket);
                self.hear(token);
            }
            if self.asking.len() > SILENT_MAX {
                // Who is silent for longest is no socket of the program: those ask at once.
                self.asking.pop_first();
            }
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Hears what somebody asks for, if it is there.
    fn hear(&mut self, token: u64) {
        let Some(socket) = self.asking.get(&token) else {
            return;
        };
        let mut bytes = [0; REQUEST_BYTES + 1];
        let mut descriptors = Vec::new();
        let received = socket.recv(&mut bytes, &mut descriptors);
        let len = match received {
            Ok(Received::WouldBlock) => return,
            Ok(Received::Message(len)) => len,
            _ => 0,
        };
        // One request each. Dropping the socket takes it out of the epoll set.
        let socket = self.asking.remove(&token);
        let request = Request::parse(&bytes[..len], &self.place.token);
        let (Some(request), Some(socket)) = (request, socket) else {
            return;
        };
        match (request, descriptors.pop()) {
            (Request::Connect { cookie, target }, Some(program)) => {
                self.start_connect(cookie, target, program);
            }
            (Request::Ends { cookie, kernel }, None) => {
                let is_called = kernel.port() == self.place.v4.port()
                    || self.place.v6.is_some_and(|v6| kernel.port() == v6.port());
                let answer = match is_called {
                    true => self.known.of_cookie(cookie),
                    false => self.known.of_port(kernel.port()),
                };
                // If there is no room for an answer, nobody waits for it.
                let _ = socket.send(&answer.unwrap_or_default().to_bytes(), &[]);
            }
            (Request::Error { cookie }, None) => {
                let answer = self.known.of_cookie(cookie).unwrap_or_default();
                let _ = socket.send(&answer.to_bytes(), &[]);
            }
            (Request::Listen { at }, None) => self.listen(at),
            _ => {}
        }
    }

    /// Begins to connect for a socket of the program that is on its way here.
    fn start_connect(&mut self, cookie: u64, target: SocketAddr, program: OwnedFd) {
        let Ok(from) = loopback::local_of(&program) else {
            return;
        };
        // A socket that was given up begins anew: what it began before is over.
        let before = self
            .pairs
            .iter()
            .find(|(_, pair)| pair.is_opening_for(cookie));
        if let Some(id) = before.map(|(&id, _)| id) {
            self.remove(id);
        }
        match self.edge.start_connect(target, &self.options) {
            Ok(id) => {
                let token = self.token();
                self.by_token.insert(token, id);
                self.pairs
                    .insert(id, Pair::opening(token, cookie, from, program));
            }
            Err(error) => self.refuse(cookie, &program, number(&error)),
        }
    }

    /// Has a socket of the program fail.
    fn refuse(&mut self, cookie: u64, program: &OwnedFd, error: i32) {
        let answer = Answer {
            error,
            ..Answer::default()
        };
        // Known before anybody can ask.
        self.known.add(Some(cookie), None, answer);
        if loopback::is_on_its_way(program) {
            // It can only fail where there is no socket.
            let _ = loopback::give_up(program);
        }
    }

    /// Listens for the program. If the port is not to be had, others are told that nobody listens.
    fn listen(&mut self, at: SocketAddr) {
        let versions = match at {
            SocketAddr::V4(_) => [Some(false), None],
            SocketAddr::V6(_) => [Some(false), Some(true)],
        };
        for is_v6 in versions.into_iter().flatten() {
            let has = match is_v6 {
                false => self.place.bridge.0.is_some(),
                true => self.place.bridge.1.is_some(),
            };
            let address = match is_v6 {
                false => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port()),
                true => at,
            };
            if !has || self.listening.values().any(|known| *known == address) {
                continue;
            }
            let options = StreamOptions {
                local_port: at.port(),
                ..self.options.clone()
            };
            if let Ok(id) = self.edge.start_listen(is_v6, BACKLOG, &options) {
                self.listening.insert(id, address);
            }
        }
    }

    /// Takes a connection that another host has opened, to the program's listener.
    fn accept(&mut self, id: ConnectionId) {
        if self.listening.contains_key(&id) {
            if self.edge.take_failure(id).is_some() {
                // When the program listens anew, the bridge is asked again.
                self.listening.remove(&id);
            }
            return;
        }
        let Some(stream) = self.edge.stream(id) else {
            return;
        };
        let (local, remote) = (stream.local(), stream.remote());
        let listener = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), local.port());
        let called = self.v4.call(listener).and_then(|kernel| {
            let port = kernel.local_addr()?.port();
            Ok((kernel, port))
        });
        // Nobody listens any more: the other host gets a reset.
        let Ok((kernel, port)) = called else {
            self.edge.remove(id);
            return;
        };
        let answer = Answer {
            error: 0,
            local: Some(local),
            remote: Some(remote),
        };
        self.known.add(None, Some(port), answer);
        let token = self.token();
        self.by_token.insert(token, id);
        let mut pair = Pair::accepted(token, port);
        let attached = pair.attach(kernel, &self.epoll);
        self.pairs.insert(id, pair);
        match attached {
            Ok(()) => self.step(id),
            Err(_) => self.remove(id),
        }
    }

    /// Does for a connection what can be done now.
    fn step(&mut self, id: ConnectionId) {
        if !self.pairs.contains_key(&id) {
            return self.accept(id);
        }
        let (Some(pair), Some(stream)) = (self.pairs.get_mut(&id), self.edge.stream(id)) else {
            return self.step_without_lease(id);
        };
        if pair.is_opening() {
            if let Some(cookie) = pair.takes_ends() {
                let ends = Answer {
                    error: 0,
                    local: Some(stream.local()),
                    remote: Some(stream.remote()),
                };
                self.known.add(Some(cookie), None, ends);
            }
            match stream.state() {
                State::Opening => return,
                State::Open | State::TimeWait => {}
                State::Closed => {
                    let error = stream.error().map_or(libc_errors::TIMED_OUT, of_transport);
                    if let Some((cookie, program)) = pair.take_program() {
                        self.refuse(cookie, &program, error);
                    }
                    return self.remove(id);
                }
            }
            let v6 = self.v6.as_ref();
            let pending = match pair.from().ip() {
                IpAddr::V6(_) => v6.unwrap_or(&self.v4),
                IpAddr::V4(_) => &self.v4,
            };
            let joined = pending.join(pair.from());
            let attached = joined.and_then(|kernel| pair.attach(kernel, &self.epoll));
            // From now on the program's socket is its own.
            drop(pair.take_program());
            if attached.is_err() {
                return self.remove(id);
            }
        }
        match pair.pump(stream) {
            Fate::Waits => {}
            Fate::HasMore => {
                self.again.insert(id);
            }
            Fate::Over => self.remove(id),
        }
    }

    /// As [`step`](Self::step), for one whose lease the bridge has not granted.
    fn step_without_lease(&mut self, id: ConnectionId) {
        if self.edge.is_asking(id) {
            return;
        }
        let error = self.edge.take_failure(id);
        let program = self.pairs.get_mut(&id).and_then(Pair::take_program);
        if let Some((error, (cookie, program))) = error.zip(program) {
            self.refuse(cookie, &program, number(&error));
        }
        self.remove(id);
    }

    /// Gives a connection up. What was not ended ends with a reset, on either side.
    fn remove(&mut self, id: ConnectionId) {
        if let Some(pair) = self.pairs.remove(&id) {
            self.by_token.remove(&pair.token());
            pair.forget(&mut self.known);
        }
        self.again.remove(&id);
        self.edge.remove(id);
    }
}

/// How long it is until then.
fn left(end: std::time::Instant) -> Duration {
    end.saturating_duration_since(std::time::Instant::now())
}

fn as_v4(end: SocketAddr) -> std::net::SocketAddrV4 {
    match end {
        SocketAddr::V4(v4) => v4,
        // It was bound to an address of IPv4.
        SocketAddr::V6(v6) => std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, v6.port()),
    }
}

type BridgeAddresses = (Option<Ipv4Addr>, Option<std::net::Ipv6Addr>);

/// Finds the bridge, which may be this user's or root's, and its addresses.
fn probe(node: &Node, name: &str) -> Result<(LeaseOptions, BridgeAddresses), LeaseError> {
    let mut options = LeaseOptions {
        name: name.to_owned(),
        ..LeaseOptions::default()
    };
    let address = |options: &LeaseOptions, is_v6| {
        let ask = Ask::listen(Protocol::Udp, 0, is_v6);
        match Lease::new(node, &ask, options) {
            Ok(lease) => Ok(Some(lease.granted().local.ip())),
            Err(LeaseError::Refused(Refusal::NoRoute)) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let first = match address(&options, false) {
        Err(LeaseError::NoBridge { .. }) if own_credentials().uid != 0 => {
            options.owner = Some(0);
            address(&options, false)
        }
        found => found,
    };
    let v4 = match first? {
        Some(IpAddr::V4(v4)) => Some(v4),
        _ => None,
    };
    let v6 = match address(&options, true)? {
        Some(IpAddr::V6(v6)) => Some(v6),
        _ => None,
    };
    Ok((options, (v4, v6)))
}

/// Error numbers of Linux on the processors that this runs on.
mod libc_errors {
    pub const IO: i32 = 5;
    pub const ADDRESS_NOT_AVAILABLE: i32 = 99;
    pub const NETWORK_UNREACHABLE: i32 = 101;
    pub const ABORTED: i32 = 103;
    pub const RESET: i32 = 104;
    pub const TIMED_OUT: i32 = 110;
    pub const REFUSED: i32 = 111;
    pub const HOST_UNREACHABLE: i32 = 113;
}

/// What the system says where a connection of the kernel's fails in this way.
fn number(error: &EdgeError) -> i32 {
    use libc_errors as e;
    match error {
        EdgeError::Transport(error) => of_transport(*error),
        EdgeError::Lease(LeaseError::Refused(refusal)) => match refusal {
            Refusal::NoRoute => e::HOST_UNREACHABLE,
            Refusal::BadRequest => e::IO,
            _ => e::ADDRESS_NOT_AVAILABLE,
        },
        // A bridge that is stopped is as a host that is silent.
        EdgeError::Lease(
            LeaseError::NoBridge {
                error: barewire::Error::Timeout,
                ..
            }
            | LeaseError::Gone(barewire::Error::Timeout),
        ) => e::TIMED_OUT,
        EdgeError::Lease(_) => e::NETWORK_UNREACHABLE,
        EdgeError::TimedOut => e::TIMED_OUT,
        _ => e::IO,
    }
}

fn of_transport(error: barewire_tcp::Error) -> i32 {
    use barewire_tcp::Error;
    use libc_errors as e;
    match error {
        Error::Refused => e::REFUSED,
        Error::Reset => e::RESET,
        Error::TimedOut => e::TIMED_OUT,
        Error::Unreachable => e::HOST_UNREACHABLE,
        Error::Aborted => e::ABORTED,
        Error::BadAddress(_) => e::NETWORK_UNREACHABLE,
        _ => e::IO,
    }
}
