//! Many connections on one node: which of them to look at, by its events and by one timer wheel.

use crate::clock::{Clock, until};
use crate::error::EdgeError;
use crate::stream::{EdgeStream, StreamOptions};
use crate::wheel::Wheel;
use barewire::{ConnectionId, Event, Node};
use std::collections::HashMap;
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
    wheel: Wheel<ConnectionId>,
    /// Those whose deadlines may have changed since the last wait.
    touched: Vec<ConnectionId>,
    others: Vec<Event>,
}

impl<'n> Edge<'n> {
    /// One without connections. While it waits, it takes the node's events.
    #[must_use]
    pub fn new(node: &'n Node) -> Self {
        Self {
            node,
            clock: Clock::new(),
            streams: HashMap::new(),
            wheel: Wheel::new(),
            touched: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Begins to open a connection. It waits for the bridge, but not for the other end.
    ///
    /// # Errors
    /// The bridge gives no lease, or the settings are wrong.
    pub fn start_connect(
        &mut self,
        remote: SocketAddr,
        options: &StreamOptions,
    ) -> Result<ConnectionId, EdgeError> {
        let stream = EdgeStream::start_connect(self.node, remote, options)?;
        Ok(self.add(stream))
    }

    /// Takes a connection that was opened otherwise.
    pub fn add(&mut self, stream: EdgeStream) -> ConnectionId {
        let id = stream.id();
        self.streams.insert(id, stream);
        self.schedule(id);
        id
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
        self.streams.remove(&id)
    }

    /// How many connections there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
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
        for id in core::mem::take(&mut self.touched) {
            self.schedule(id);
        }
        let wake = self.wheel.next().map(|at| until(at, self.clock.now()));
        let longest = [wake, longest].into_iter().flatten().min();
        let mut events = Vec::new();
        self.node.wait(&mut events, EVENTS_MAX, longest)?;
        let mut touched = Vec::new();
        for event in events {
            match id_of(&event).filter(|id| self.streams.contains_key(id)) {
                Some(id) => touched.push(id),
                None => self.others.push(event),
            }
        }
        touched.extend(self.wheel.due(self.clock.now()));
        touched.sort_unstable();
        touched.dedup();
        for &id in &touched {
            if let Some(stream) = self.streams.get_mut(&id) {
                // If the bridge is gone, the next call of the connection says so.
                let _ = stream.pump();
            }
            self.schedule(id);
        }
        Ok(touched)
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
        Event::Ready(id) => Some(*id),
        Event::Closed { connection, .. } => Some(*connection),
        _ => None,
    }
}
