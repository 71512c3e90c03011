//! Many connections on one node: which of them to look at, by its events and by one timer wheel.

use crate::clock::{Clock, until};
use crate::error::EdgeError;
use crate::lease::{Lease, LeaseError, LeaseOptions, LeaseRequest};
use crate::listener::{Listener, Syn};
use crate::stream::{EdgeStream, StreamOptions};
use crate::wheel::Wheel;
use barewire::{ConnectionId, Event, Node};
use barewire_proto::edge::message::Ask;
use barewire_tcp::State;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

/// How many events one wait takes.
const EVENTS_MAX: usize = 64;

/// How many packets of one listener are looked at before others have their turn.
const SYNS_MAX: usize = 64;

/// After so long without an answer to ours, a connection that another host opens makes room for the next one that comes: it
/// was answered three times, and a stranger may have no other end at all.
const HALF_OPEN: Duration = Duration::from_secs(5);

/// The connections of a node to ordinary hosts, driven by its event queue.
///
/// ```no_run
/// use barewire::Node;
/// use barewire_edge::{Edge, StreamOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::new()?;
/// let mut edge = Edge::new(&node);
/// for port in [80, 8080] {
///     edge.start_connect(([198, 51, 100, 7], port).into(), &StreamOptions::default())?;
/// }
/// loop {
///     for id in edge.wait(None)? {
///         let Some(stream) = edge.stream(id) else { continue };
///         let mut buffer = [0; 4096];
///         while let Ok(Some(count @ 1..)) = stream.try_read(&mut buffer) {
///             println!("{}: {count} bytes", stream.remote());
///         }
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Edge<'n> {
    node: &'n Node,
    clock: Clock,
    streams: HashMap<ConnectionId, EdgeStream>,
    /// Those whose lease the bridge has not granted yet.
    asking: HashMap<ConnectionId, Asking>,
    /// Why connections have never begun, until somebody asks.
    failures: HashMap<ConnectionId, EdgeError>,
    wheel: Wheel<ConnectionId>,
    /// Those whose deadlines may have changed since the last wait.
    touched: Vec<ConnectionId>,
    listeners: HashMap<ConnectionId, Port>,
    /// The connections that others open and have not opened yet: those included whose lease was
    /// asked for.
    opening: HashMap<ConnectionId, Opening>,
    /// Listeners that may have more to accept: their backlog is full, or they had their turn.
    held: HashSet<ConnectionId>,
    /// Whether one of them can go on at once.
    may_accept: bool,
    /// Packets at listeners that opened nothing.
    ignored: u64,
    /// Connections that were half open for too long.
    given_up: u64,
    /// Listeners that are gone, until that is told.
    failed: Vec<ConnectionId>,
    others: Vec<Event>,
}

/// A port at which others connect.
#[derive(Debug)]
struct Port {
    listener: Listener,
    backlog: usize,
    /// Who is on the way to an open connection there.
    on_the_way: HashSet<SocketAddr>,
    /// The next one, for which there is no room yet.
    next: Option<Syn>,
}

/// A connection that another host opens.
#[derive(Debug)]
struct Opening {
    listener: ConnectionId,
    remote: SocketAddr,
    /// By the clock of all.
    since: Duration,
}

/// A connection whose lease was asked for.
#[derive(Debug)]
struct Asking {
    request: LeaseRequest,
    wish: Wish,
    options: StreamOptions,
    /// By the clock of all, as the wheel has it.
    gives_up: Duration,
}

/// What a lease was asked for.
#[derive(Debug)]
enum Wish {
    /// To open a connection.
    Connect(SocketAddr),
    /// To answer the packet with which another host opens one.
    Accept(Syn),
    /// To listen, with this backlog.
    Listen(usize),
}

impl<'n> Edge<'n> {
    /// One without connections. While it waits, it takes the node's events.
    #[must_use]
    pub fn new(node: &'n Node) -> Self {
        Self {
            node,
            clock: Clock::new(),
            streams: HashMap::new(),
            asking: HashMap::new(),
            failures: HashMap::new(),
            wheel: Wheel::new(),
            touched: Vec::new(),
            listeners: HashMap::new(),
            opening: HashMap::new(),
            held: HashSet::new(),
            may_accept: false,
            ignored: 0,
            given_up: 0,
            failed: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Begins to open a connection, without waiting for anybody. Until the bridge has granted a lease, there is no
    /// [`stream`](Self::stream). [`wait`](Self::wait) gives the connection when there is one, and when there will be none:
    /// then [`take_failure`](Self::take_failure) says why.
    ///
    /// # Errors
    /// No bridge listens under the name, or this node can open no connection to it.
    pub fn start_connect(
        &mut self,
        remote: SocketAddr,
        options: &StreamOptions,
    ) -> Result<ConnectionId, EdgeError> {
        let ask = options.ask(remote);
        self.ask(&ask, Wish::Connect(remote), &options.lease(), options)
    }

    /// Asks the bridge for a lease, without waiting for it.
    fn ask(
        &mut self,
        ask: &Ask,
        wish: Wish,
        lease: &LeaseOptions,
        options: &StreamOptions,
    ) -> Result<ConnectionId, EdgeError> {
        let (id, request) = LeaseRequest::begin(self.node, ask, lease)?;
        let gives_up = self.clock.elapsed().saturating_add(lease.timeout);
        self.wheel.set(id, gives_up);
        let asking = Asking {
            request,
            wish,
            options: options.clone(),
            gives_up,
        };
        self.asking.insert(id, asking);
        // The number may be that of one that has failed, and that nobody has asked about.
        self.failures.remove(&id);
        Ok(id)
    }

    /// Whether the bridge has not answered yet for a connection that was begun.
    #[must_use]
    pub fn is_asking(&self, id: ConnectionId) -> bool {
        self.asking.contains_key(&id)
    }

    /// Why a connection that was begun has not got as far as a [`stream`](Self::stream). It is told once.
    pub fn take_failure(&mut self, id: ConnectionId) -> Option<EdgeError> {
        self.failures.remove(&id)
    }

    /// Takes a connection that was opened otherwise.
    pub fn add(&mut self, stream: EdgeStream) -> ConnectionId {
        let id = stream.id();
        self.streams.insert(id, stream);
        self.schedule(id);
        id
    }

    /// Has ordinary hosts connect to a port of the bridge. [`wait`](Self::wait) gives their
    /// connections once they are open. Up to `backlog` of them may be on the way there, those included
    /// for which the bridge was asked and has not answered. More wait in the queue of the port, which
    /// the bridge does not make longer.
    ///
    /// This call waits for the bridge; accepting a connection does not.
    ///
    /// # Errors
    /// The bridge gives no lease: the port is taken, for instance.
    pub fn listen(
        &mut self,
        is_v6: bool,
        backlog: usize,
        options: &StreamOptions,
    ) -> Result<SocketAddr, EdgeError> {
        let ask = Listener::ask(is_v6, options);
        let lease = Lease::new(self.node, &ask, &options.lease)?;
        Ok(self.add_listener(lease, backlog, options))
    }

    /// As [`listen`](Self::listen), without waiting for the bridge. [`wait`](Self::wait) gives the number when it listens:
    /// then [`listening`](Self::listening) says where; and when it does not, or no longer: then
    /// [`take_failure`](Self::take_failure) says why.
    ///
    /// # Errors
    /// No bridge listens under the name, or this node can open no connection to it.
    pub fn start_listen(
        &mut self,
        is_v6: bool,
        backlog: usize,
        options: &StreamOptions,
    ) -> Result<ConnectionId, EdgeError> {
        let ask = Listener::ask(is_v6, options);
        self.ask(&ask, Wish::Listen(backlog), &options.lease, options)
    }

    /// Where it listens, for a number of [`start_listen`](Self::start_listen).
    #[must_use]
    pub fn listening(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.listeners.get(&id).map(|port| port.listener.local())
    }

    fn add_listener(
        &mut self,
        lease: Lease,
        backlog: usize,
        options: &StreamOptions,
    ) -> SocketAddr {
        let listener = Listener::new(lease, options);
        let (id, local) = (listener.id(), listener.local());
        let port = Port {
            listener,
            backlog,
            on_the_way: HashSet::new(),
            next: None,
        };
        self.listeners.insert(id, port);
        // It may have come together with the answer.
        self.held.insert(id);
        self.may_accept = true;
        local
    }

    /// How many packets came to listeners and opened no connection: they were not SYNs, came again,
    /// or the bridge gave no lease.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// How many connections of others were given up after 5 s half open, since the backlog was full and another one came.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// A connection, to read and write.
    pub fn stream(&mut self, id: ConnectionId) -> Option<&mut EdgeStream> {
        let stream = self.streams.get_mut(&id)?;
        self.touched.push(id);
        Some(stream)
    }

    /// Gives a connection up; dropping it ends it. Of a listener, nobody is accepted any more.
    pub fn remove(&mut self, id: ConnectionId) -> Option<EdgeStream> {
        self.wheel.remove(id);
        self.listeners.remove(&id);
        self.failures.remove(&id);
        self.arrived(id);
        if let Some(asking) = self.asking.remove(&id) {
            asking.request.give_up(self.node, id);
        }
        self.streams.remove(&id)
    }

    /// How many connections there are, those included that wait for the bridge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.streams.len() + self.asking.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The events of the node that belong to no connection here.
    pub fn other_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.others)
    }

    /// Waits until something happens to connections, for at most `longest`, and gives which: read,
    /// write, and look at their state. A connection whose bridge is gone is among them too.
    ///
    /// # Errors
    /// What [`Node::wait`] says.
    pub fn wait(&mut self, longest: Option<Duration>) -> barewire::Result<Vec<ConnectionId>> {
        self.look_at_touched();
        let longest = match self.may_accept {
            true => Some(Duration::ZERO),
            false => [self.next_deadline(), longest].into_iter().flatten().min(),
        };
        let longest = match self.failed.is_empty() {
            true => longest,
            false => Some(Duration::ZERO),
        };
        let mut events = Vec::new();
        self.node.wait(&mut events, EVENTS_MAX, longest)?;
        Ok(self.handle(events))
    }

    /// As [`wait`](Self::wait), without waiting: for a program that waits for other descriptors, too. The second value
    /// says whether it may wait now. Then the node's descriptor becomes readable when there is more, and
    /// [`next_deadline`](Self::next_deadline) says when to call again even if not.
    ///
    /// # Errors
    /// What [`Node::poll`] says.
    pub fn poll(&mut self) -> barewire::Result<(Vec<ConnectionId>, bool)> {
        self.look_at_touched();
        let mut events = Vec::new();
        let found = self.node.poll(&mut events, EVENTS_MAX)?;
        let touched = self.handle(events);
        let may_wait = found == 0 && touched.is_empty() && !self.may_accept;
        Ok((touched, may_wait))
    }

    /// How long it is until [`poll`](Self::poll) is to be called even if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let next = self.wheel.next()?;
        Some(next.saturating_sub(self.clock.elapsed()))
    }

    fn look_at_touched(&mut self) {
        self.may_accept = false;
        for id in core::mem::take(&mut self.held) {
            if self.accept(id) {
                self.failed.push(id);
            }
        }
        for id in core::mem::take(&mut self.touched) {
            self.schedule(id);
        }
    }

    /// Moves the packets of connections with events or whose time has come, and says which these are.
    fn handle(&mut self, events: Vec<Event>) -> Vec<ConnectionId> {
        let mut touched = core::mem::take(&mut self.failed);
        for event in events {
            match id_of(&event) {
                Some(id) if self.asking.contains_key(&id) => {
                    if self.hear_bridge(id, event) {
                        touched.push(id);
                    }
                }
                Some(id) if self.streams.contains_key(&id) => touched.push(id),
                Some(id) if self.listeners.contains_key(&id) => {
                    if self.accept(id) {
                        touched.push(id);
                    }
                }
                _ => self.others.push(event),
            }
        }
        for id in self.wheel.due(self.clock.elapsed()) {
            if self.is_overdue(id) {
                touched.push(id);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for &id in &touched {
            if let Some(stream) = self.streams.get_mut(&id) {
                // If the bridge is gone, the next call of the connection says so.
                let _ = stream.pump();
            }
            self.schedule(id);
        }
        touched.retain(|&id| self.is_told(id));
        touched
    }

    /// Goes on with a connection whose lease was asked for. Says whether there is something to tell of it.
    fn hear_bridge(&mut self, id: ConnectionId, event: Event) -> bool {
        let Some(mut asking) = self.asking.remove(&id) else {
            return false;
        };
        let heard = match event {
            Event::Connected(connection) => asking.request.connected(*connection),
            Event::ConnectFailed { error, .. } => Err(asking.request.failed(error)),
            _ => Ok(()),
        };
        let answer = heard.and_then(|()| asking.request.try_finish());
        let begun = match answer {
            Ok(Some(lease)) => self.begin(lease, &asking),
            Ok(None) => {
                self.asking.insert(id, asking);
                return false;
            }
            Err(error) => Err(error.into()),
        };
        self.wheel.remove(id);
        match begun {
            Ok(()) => true,
            Err(error) => self.fail(id, &asking.wish, error),
        }
    }

    /// Does what a lease was asked for.
    fn begin(&mut self, lease: Lease, asking: &Asking) -> Result<(), EdgeError> {
        let options = &asking.options;
        let stream = match &asking.wish {
            Wish::Connect(remote) => EdgeStream::start_over(lease, *remote, options)?,
            Wish::Accept(syn) => syn.answer(lease, options)?,
            Wish::Listen(backlog) => {
                self.add_listener(lease, *backlog, options);
                return Ok(());
            }
        };
        self.add(stream);
        Ok(())
    }

    /// A connection has not begun. Says whether there is something to tell of it.
    fn fail(&mut self, id: ConnectionId, wish: &Wish, error: EdgeError) -> bool {
        match wish {
            Wish::Connect(_) | Wish::Listen(_) => {
                self.failures.insert(id, error);
                true
            }
            // Its host asks again.
            Wish::Accept(_) => {
                self.ignored += 1;
                self.arrived(id);
                false
            }
        }
    }

    /// The time of a connection has come. Says whether there is something to tell of it.
    fn is_overdue(&mut self, id: ConnectionId) -> bool {
        if self.listeners.contains_key(&id) {
            return self.accept(id);
        }
        let Some(asking) = self.asking.get(&id) else {
            return self.streams.contains_key(&id);
        };
        if self.clock.elapsed() < asking.gives_up {
            // The wheel is a little early.
            self.wheel.set(id, asking.gives_up);
            return false;
        }
        let Some(Asking { request, wish, .. }) = self.asking.remove(&id) else {
            return false;
        };
        let error: LeaseError = request.give_up(self.node, id);
        self.fail(id, &wish, error.into())
    }

    /// Takes the connections that others open at a listener: asks for their leases.
    /// Says whether there is something to tell of it.
    fn accept(&mut self, id: ConnectionId) -> bool {
        let Some(mut port) = self.listeners.remove(&id) else {
            return false;
        };
        // What would be too much stays in the queue: a lease that is given up resets its peer.
        for _ in 0..SYNS_MAX {
            let next = match port.next.take() {
                Some(next) => Ok(Some(Some(next))),
                None => port.listener.try_recv(),
            };
            match next {
                Ok(Some(syn)) => self.answer(&mut port, syn),
                Ok(None) => {
                    self.listeners.insert(id, port);
                    return false;
                }
                // The bridge is gone: the listener is given up, and its connections say so.
                Err(error) => {
                    self.failures.insert(id, error.into());
                    return true;
                }
            }
            if port.next.is_some() {
                break;
            }
        }
        self.may_accept |= port.next.is_none();
        self.held.insert(id);
        self.listeners.insert(id, port);
        false
    }

    /// Asks for a lease of the connection that a SYN opens.
    fn answer(&mut self, port: &mut Port, syn: Option<Syn>) {
        // One that came again before the bridge has answered is not answered twice.
        let Some(syn) = syn.filter(|syn| !port.on_the_way.contains(&syn.remote)) else {
            self.ignored += 1;
            return;
        };
        if port.on_the_way.len() >= port.backlog && !self.make_room(port) {
            port.next = Some(syn);
            return;
        }
        let (ask, remote) = (syn.ask(), syn.remote);
        let options = port.listener.options();
        match self.ask(&ask, Wish::Accept(syn), &options.lease(), options) {
            Ok(id) => {
                let opening = Opening {
                    listener: port.listener.id(),
                    remote,
                    since: self.clock.elapsed(),
                };
                port.on_the_way.insert(remote);
                self.opening.insert(id, opening);
            }
            // Its host asks again.
            Err(_) => self.ignored += 1,
        }
    }

    /// Gives up the connection of a listener that has been half open for longest, if that is too long. Otherwise it is
    /// looked at again then.
    fn make_room(&mut self, port: &mut Port) -> bool {
        let listener = port.listener.id();
        let of_listener = self
            .opening
            .iter()
            .filter(|(_, one)| one.listener == listener);
        let Some((&id, oldest)) = of_listener.min_by_key(|(_, one)| one.since) else {
            return false;
        };
        let until = oldest.since.saturating_add(HALF_OPEN);
        if self.clock.elapsed() < until {
            self.wheel.set(listener, until);
            return false;
        }
        port.on_the_way.remove(&oldest.remote);
        self.given_up += 1;
        drop(self.remove(id));
        true
    }

    /// A connection that another host opens is not on its way any more: there is room for one more.
    fn arrived(&mut self, id: ConnectionId) {
        let Some(Opening {
            listener, remote, ..
        }) = self.opening.remove(&id)
        else {
            return;
        };
        if let Some(port) = self.listeners.get_mut(&listener) {
            port.on_the_way.remove(&remote);
        }
        self.may_accept |= self.held.contains(&listener);
    }

    /// Whether the program hears of a connection: not while others have not opened it yet. One that
    /// never opens goes away.
    fn is_told(&mut self, id: ConnectionId) -> bool {
        if !self.opening.contains_key(&id) {
            return true;
        }
        match self.streams.get(&id).map(EdgeStream::state) {
            Some(State::Opening) => false,
            Some(State::Closed) | None => {
                self.remove(id);
                false
            }
            Some(State::Open | State::TimeWait) => {
                self.arrived(id);
                true
            }
        }
    }

    fn schedule(&mut self, id: ConnectionId) {
        let Some((deadline, of_stream)) = self.streams.get(&id).and_then(EdgeStream::deadline)
        else {
            return;
        };
        // Each connection counts time from its own beginning.
        let wait = until(deadline, of_stream);
        self.wheel
            .set(id, self.clock.elapsed().saturating_add(wait));
    }
}

/// Which connection an event is about.
fn id_of(event: &Event) -> Option<ConnectionId> {
    match event {
        Event::Connected(connection) => Some(connection.id()),
        Event::ConnectFailed { connection, .. } => Some(*connection),
        Event::Ready(id) => Some(*id),
        Event::Closed { connection, .. } => Some(*connection),
        _ => None,
    }
}
