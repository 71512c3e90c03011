//! Many connections on one node: which of them to look at, by its events and by one timer wheel.

use crate::clock::{Clock, until};
use crate::error::EdgeError;
use crate::lease::{LeaseError, LeaseRequest};
use crate::listener::EdgeListener;
use crate::stream::{EdgeStream, StreamOptions};
use crate::wheel::Wheel;
use barewire::{ConnectionId, Event, Node};
use barewire_tcp::State;
use barewire_units::Instant;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

/// How many events one wait takes.
const EVENTS_MAX: usize = 64;

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
    listeners: HashMap<ConnectionId, (EdgeListener, usize)>,
    /// Which connections others open, and through which listener.
    opening: HashMap<ConnectionId, ConnectionId>,
    /// Listeners with more to accept than their backlog allows.
    held: HashSet<ConnectionId>,
    others: Vec<Event>,
}

/// A connection whose lease was asked for.
#[derive(Debug)]
struct Asking {
    request: LeaseRequest,
    remote: SocketAddr,
    options: StreamOptions,
    gives_up: Instant,
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
        let lease = options.lease();
        let (id, request) = LeaseRequest::begin(self.node, &options.ask(remote), &lease)?;
        let timeout = barewire_units::Duration::try_from(lease.timeout)
            .unwrap_or(barewire_units::Duration::MAX);
        let gives_up = self.clock.now().saturating_add(timeout);
        self.wheel.set(id, gives_up);
        let asking = Asking {
            request,
            remote,
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
    /// connections once they are open. Up to `backlog` of them may be on the way there; more wait.
    ///
    /// # Errors
    /// See [`EdgeListener::new`].
    pub fn listen(
        &mut self,
        is_v6: bool,
        backlog: usize,
        options: &StreamOptions,
    ) -> Result<SocketAddr, EdgeError> {
        let listener = EdgeListener::new(self.node, is_v6, options)?;
        let local = listener.local();
        self.listeners.insert(listener.id(), (listener, backlog));
        Ok(local)
    }

    /// A connection, to read and write.
    pub fn stream(&mut self, id: ConnectionId) -> Option<&mut EdgeStream> {
        let stream = self.streams.get_mut(&id)?;
        self.touched.push(id);
        Some(stream)
    }

    /// Gives a connection up; dropping it ends it.
    pub fn remove(&mut self, id: ConnectionId) -> Option<EdgeStream> {
        self.wheel.remove(id);
        self.failures.remove(&id);
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
        let longest = [self.next_deadline(), longest].into_iter().flatten().min();
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
        let may_wait = found == 0 && touched.is_empty();
        Ok((touched, may_wait))
    }

    /// How long it is until [`poll`](Self::poll) is to be called even if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.wheel.next().map(|at| until(at, self.clock.now()))
    }

    fn look_at_touched(&mut self) {
        for id in core::mem::take(&mut self.held) {
            self.accept(id);
        }
        for id in core::mem::take(&mut self.touched) {
            self.schedule(id);
        }
    }

    /// Moves the packets of connections with events or whose time has come, and says which these are.
    fn handle(&mut self, events: Vec<Event>) -> Vec<ConnectionId> {
        let mut touched = Vec::new();
        for event in events {
            match id_of(&event) {
                Some(id) if self.asking.contains_key(&id) => {
                    if self.hear_bridge(id, event) {
                        touched.push(id);
                    }
                }
                Some(id) if self.streams.contains_key(&id) => touched.push(id),
                Some(id) if self.listeners.contains_key(&id) => self.accept(id),
                _ => self.others.push(event),
            }
        }
        for id in self.wheel.due(self.clock.now()) {
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
        let begun = match heard.and_then(|()| asking.request.try_finish()) {
            Ok(Ok(lease)) => EdgeStream::start_over(lease, asking.remote, &asking.options),
            Ok(Err(request)) => {
                self.asking.insert(id, Asking { request, ..asking });
                return false;
            }
            Err(error) => Err(error.into()),
        };
        self.wheel.remove(id);
        match begun {
            Ok(stream) => {
                self.add(stream);
            }
            Err(error) => {
                self.failures.insert(id, error);
            }
        }
        true
    }

    /// The time of a connection has come. Says whether there is something to tell of it.
    fn is_overdue(&mut self, id: ConnectionId) -> bool {
        let Some(asking) = self.asking.get(&id) else {
            return true;
        };
        if self.clock.now() < asking.gives_up {
            // The wheel is a little early.
            self.wheel.set(id, asking.gives_up);
            return false;
        }
        if let Some(asking) = self.asking.remove(&id) {
            let error: LeaseError = asking.request.give_up(self.node, id);
            self.failures.insert(id, error.into());
        }
        true
    }

    /// Takes the connections that others open at a listener.
    fn accept(&mut self, id: ConnectionId) {
        let Some((mut listener, backlog)) = self.listeners.remove(&id) else {
            return;
        };
        let mut on_the_way = self.opening.values().filter(|&&of| of == id).count();
        // What would be too much stays in the queue: a lease that is given up resets its peer.
        while on_the_way < backlog {
            match listener.try_accept(self.node) {
                Ok(Some(stream)) => {
                    let stream = self.add(stream);
                    self.opening.insert(stream, id);
                    on_the_way += 1;
                }
                Ok(None) => {
                    self.listeners.insert(id, (listener, backlog));
                    return;
                }
                // The bridge is gone: the listener is given up, and its connections say so.
                Err(_) => return,
            }
        }
        self.held.insert(id);
        self.listeners.insert(id, (listener, backlog));
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
                self.opening.remove(&id);
                self.remove(id);
                false
            }
            Some(State::Open | State::TimeWait) => {
                self.opening.remove(&id);
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
        let wait = deadline.saturating_duration_since(of_stream);
        self.wheel.set(id, self.clock.now().saturating_add(wait));
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
