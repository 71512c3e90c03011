//! An endpoint without libfabric's objects: a node of the network, its peers, what was posted and what has ended.
//!
//! Nothing here waits. Calls of the program begin operations, [`Engine::progress`] takes them further, and what has
//! ended lies in [`Engine::ended`].
//!
//! - *Names.* An endpoint listens under a random name, which is its address. It connects to another one with the first
//!   message for it. The connection serves both directions, so an endpoint that was connected to does not connect
//!   back. If two connect to each other at once, the connection of the smaller name stays.
//! - *Order.* What an endpoint sends to another goes through one connection, and through the queue in front of it
//!   (`backlog`) while the connection is being made or has no room.
//! - *Short messages* are copied through the connection. *Long* ones are announced there; when there is a receive for
//!   one, the sender sends it in pieces through the connection. *Very long* ones the receiver copies from the sender's
//!   memory with one system call, where the kernel allows that: the sender need not take part.
//! - *Death.* When a connection closes, all that its peer still owed has ended with an error: sends that have not
//!   arrived, receives that take messages of this peer alone.

pub(crate) mod buffers;
pub(crate) mod receiving;
pub(crate) mod remote;
pub(crate) mod sending;
pub(crate) mod state;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use barewire::{Event, Node, NodeConfig};
use barewire_proto::matching::Matching;

use crate::raw;
use crate::regions::{Regions, random};
use receiving::Look;
use sending::STAGED_BYTES_MAX;
use state::{Ended, Engine, Link, NAME_BYTES, Name, Out, error_number};

/// The receive ring of a connection. A quarter of it is the longest record. Its pages are taken as they are used.
const RING_BYTES: usize = 256 << 10;
/// Events that are taken at once.
const EVENTS_MAX: usize = 64;
/// Messages that are taken from a connection at once.
const MESSAGES_MAX: usize = 32;
/// The longest record that is copied out of the connection before it is looked at. Longer ones are read in place: there
/// a copy costs more than a look that fails.
const ARRIVING_BYTES: usize = 1 << 10;
/// Of so many calls, one asks the node, and looks at all connections, even if there is always something from the one of
/// the last message.
const TURNS_BETWEEN_POLLS: u32 = 8;
/// Looks at the connection of the last message in one call, if that was not long ago: until the program calls again, it
/// takes as long as some looks.
const LOOKS_MAX: u32 = 8;
/// In so many calls after a message.
const TURNS_OF_MANY_LOOKS: u32 = 1000;
/// Connections that are looked at in one turn, beside those that the node reports. A node that is polled looks at
/// connections less and less often the longer nothing comes. Where each read gives way to other ranks, a turn is long.
const LINKS_PER_TURN: usize = 32;
/// How long an endpoint that is closed tries to get rid of what it has accepted.
const LINGER: Duration = Duration::from_secs(2);

/// Changes whenever something has happened at an endpoint of this process. A queue that finds nothing offers the processor to
/// others only if it has stayed the same: a program may have several, and serves the memory of a region without a completion.
static WORKED: AtomicU32 = AtomicU32::new(0);

/// What changes when something has happened at an endpoint of this process.
#[inline]
pub(crate) fn worked() -> u32 {
    // Relaxed: it only says whether there was anything, and nothing else is read because of it. Its partner is below.
    WORKED.load(Ordering::Relaxed)
}

/// Why a request to connect was refused that crossed one in the other direction.
const CROSSED: &str = "crossed";

impl Engine {
    /// A new endpoint, under a name that nobody else has, of a domain with these memory regions.
    pub(crate) fn new(regions: Arc<Regions>) -> barewire::Result<Engine> {
        let node = Node::with_config(NodeConfig {
            ring_bytes: RING_BYTES,
            ..NodeConfig::default()
        })?;
        let mark: u64 = random();
        let text = format!("fi-{:08x}-{mark:016x}", std::process::id());
        let name: Name = text.as_bytes().try_into().expect("made to be as long");
        let listener = node.listen(&text)?;
        Ok(Engine {
            node,
            _listener: listener,
            name,
            mark: Box::new(mark),
            peers: Vec::new(),
            by_name: HashMap::new(),
            links: Vec::new(),
            recent: 0,
            next_link: 0,
            tagged: Matching::new(),
            plain: Matching::new(),
            buffers: buffers::Buffers::default(),
            regions,
            next_number: 1,
            sends: HashMap::new(),
            pulls: HashMap::new(),
            busy: Vec::new(),
            staging: vec![0; STAGED_BYTES_MAX].into(),
            arriving: vec![0; ARRIVING_BYTES].into(),
            events: Vec::new(),
            turns: 0,
            quiet: 0,
            ended: Ended::default(),
            counted: Vec::new(),
        })
    }

    /// Takes all operations as far as they go now. Returns whether anything happened.
    pub(crate) fn progress(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        let mut worked = self.drain(self.recent, MESSAGES_MAX, Look::Quick) > 0;
        let mut looks = 1;
        while !worked && self.quiet < TURNS_OF_MANY_LOOKS && looks < LOOKS_MAX {
            worked = self.drain(self.recent, MESSAGES_MAX, Look::Quick) > 0;
            looks += 1;
        }
        self.quiet = if worked {
            0
        } else {
            self.quiet.saturating_add(1)
        };
        let is_time = self.turns % TURNS_BETWEEN_POLLS == 0;
        if is_time || (!worked && self.links.len() > 1) || !self.busy.is_empty() {
            worked |= self.look_around(is_time);
        }
        if worked {
            // Relaxed: its partner is in `worked()`. If two threads change it at once, it has changed.
            let before = WORKED.load(Ordering::Relaxed);
            WORKED.store(before.wrapping_add(1), Ordering::Relaxed);
        }
        worked
    }

    /// Takes those operations further that are not messages of the last connection. `asks`: the node as well. Returns
    /// whether anything happened.
    #[inline(never)]
    fn look_around(&mut self, asks: bool) -> bool {
        let mut worked = self.look();
        if asks {
            worked |= self.poll();
        }
        if !self.busy.is_empty() {
            worked |= self.flush_all();
        }
        worked
    }

    /// Sends what waits for peers, as far as there is room. Returns whether any went.
    #[inline(never)]
    fn flush_all(&mut self) -> bool {
        let mut any = false;
        for peer in std::mem::take(&mut self.busy) {
            any |= self.flush(peer);
            if !self.peers[peer].backlog.is_empty() && !self.busy.contains(&peer) {
                self.busy.push(peer);
            }
        }
        any
    }

    /// Looks at the connections in turn, but for that of the last message. Returns whether there was anything.
    #[inline]
    fn look(&mut self) -> bool {
        let (links, recent) = (self.links.len(), self.recent);
        let mut any = false;
        for _ in 0..links.min(LINKS_PER_TURN) {
            let next = self.next_link + 1;
            self.next_link = if next < links { next } else { 0 };
            if self.next_link != recent {
                any |= self.take_all(self.next_link, Look::Quick);
            }
        }
        any
    }

    /// Takes what is there in a connection. Returns whether there was anything.
    #[inline(never)]
    fn take_all(&mut self, index: usize, look: Look) -> bool {
        let any = self.drain(index, MESSAGES_MAX, look) > 0;
        if any {
            self.recent = index;
        }
        any
    }

    /// Handles what the node has to say.
    fn poll(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.events);
        // It can only fail where nothing of the node is of use any more: in a child of the process that made it.
        let found = self.node.poll(&mut events, EVENTS_MAX).unwrap_or(0);
        for event in events.drain(..) {
            self.handle(event);
        }
        self.events = events;
        found > 0
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ready(connection) => {
                self.take_all(connection.index(), Look::Asked);
            }
            Event::Request(request) => self.requested(request),
            Event::Connected(connection) => self.connected(*connection),
            Event::ConnectFailed { connection, error } => {
                let waits = |peer: &state::Peer| peer.out == Out::Connecting(connection);
                if let Some(peer) = self.peers.iter().position(waits) {
                    self.not_connected(peer, &error);
                }
            }
            Event::Closed { connection, reason } => {
                let index = connection.index();
                while self.take_all(index, Look::Asked) {}
                if let Some(link) = self.links.get_mut(index).and_then(Option::take) {
                    let peer = link.peer;
                    drop(link);
                    self.lose(peer, error_number(&reason));
                }
            }
            _ => {}
        }
    }

    /// Somebody wants to connect.
    fn requested(&mut self, request: barewire::Request) {
        let Ok(name) = Name::try_from(request.data()) else {
            return request.reject("not an endpoint of this provider");
        };
        let peer = self.peer(&name);
        let is_self = name == self.name;
        let keeps_own = match self.peers[peer].out {
            Out::Idle => false,
            Out::Connecting(_) => self.name < name,
            Out::Open(_) | Out::Lost(_) => true,
        };
        if keeps_own && !is_self {
            return request.reject(CROSSED);
        }
        // If it fails, the other side has gone, or tries again.
        let Ok(connection) = request.accept() else {
            return;
        };
        let index = self.keep(connection, peer);
        if is_self {
            return;
        }
        if let Out::Connecting(own) = self.peers[peer].out {
            self.node.cancel_connect(own);
        }
        self.peers[peer].out = Out::Open(index);
        self.flush(peer);
    }

    /// A connection that this endpoint began is open.
    fn connected(&mut self, connection: barewire::Connection) {
        let own = Out::Connecting(connection.id());
        if let Some(peer) = self.peers.iter().position(|peer| peer.out == own) {
            let index = self.keep(connection, peer);
            self.peers[peer].out = Out::Open(index);
            self.flush(peer);
        }
    }

    fn not_connected(&mut self, peer: usize, error: &barewire::Error) {
        if matches!(error, barewire::Error::Refused { reason } if reason == CROSSED) {
            // The other side's request is on its way, unless it has died meanwhile: then trying again says so.
            self.peers[peer].out = Out::Idle;
            self.connect(peer);
        } else {
            self.lose(peer, raw::FI_EHOSTUNREACH);
        }
    }

    fn keep(&mut self, connection: barewire::Connection, peer: usize) -> usize {
        let index = connection.id().index();
        if self.links.len() <= index {
            self.links.resize_with(index + 1, || None);
        }
        self.peers[peer].pid = Some(connection.peer().pid);
        self.links[index] = Some(Box::new(Link { connection, peer }));
        index
    }

    /// Sends what was accepted and still waits, for a while.
    pub(crate) fn linger(&mut self) {
        let begun = Instant::now();
        while !self.busy.is_empty() && begun.elapsed() < LINGER {
            if !self.progress() {
                std::thread::yield_now();
            }
        }
    }

    /// The address of this endpoint as libfabric shows it: its name and a zero.
    pub(crate) fn address(&self) -> [u8; NAME_BYTES + 1] {
        let mut address = [0; NAME_BYTES + 1];
        address[..NAME_BYTES].copy_from_slice(&self.name);
        address
    }
}
