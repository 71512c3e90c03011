//! A node's tables: links, connections, listeners, sources, events; under one lock.
//!
//! Everything here is off the data path. What a peer says on a control channel is handled
//! in [`crate::peer`]; this file holds the tables and what the owner does to them.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barewire_fabric::OverBudget;
use barewire_fabric::doorbell::{self, Drain, PAGE_BYTES, SOURCES_MAX};
use barewire_fabric::ring::publish_state;
use barewire_shm::Window;
use barewire_shm::counters::{QueueCounter, RegionPlace};
use barewire_sys::memory::{Access, Memfd, Placement};
use barewire_sys::socket::Listener;
use barewire_sys::wake::{EpollEvent, EventFd};
use slab::Slab;

use crate::config::Policy;
use crate::error::{Error, Misconduct, Result};
use crate::handles::connection::{Connection, ConnectionShared, DEAF, FINISHED};
use crate::handles::event::Event;
use crate::handles::remote::RemoteShared;
use crate::handles::tripwire::TripwireShared;
use crate::links::budget::{Accounts, Charges, Resource};
use crate::messages::control::{Message, RegionRef, RejectCode};
use crate::node::shared::Shared;
use crate::tables::exports::Exports;
use crate::tables::peer::Peer;

/// Epoll token of the node's own eventfd.
pub(crate) const TOKEN_EVENTFD: u64 = 0;

/// What an epoll token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Listener(usize),
    Socket(usize, u32),
    Death(usize, u32),
}

impl Token {
    pub fn pack(self) -> u64 {
        let (kind, index, generation) = match self {
            Token::Listener(index) => (1, index, 0),
            Token::Socket(index, generation) => (2, index, generation),
            Token::Death(index, generation) => (3, index, generation),
        };
        kind | (index as u64 & 0x3fff_ffff) << 2 | u64::from(generation) << 32
    }

    fn unpack(token: u64) -> Option<Token> {
        let index = (token as u32 >> 2) as usize;
        let generation = (token >> 32) as u32;
        match token & 3 {
            1 => Some(Token::Listener(index)),
            2 => Some(Token::Socket(index, generation)),
            3 => Some(Token::Death(index, generation)),
            _ => None,
        }
    }
}

/// The doorbell page of one trust domain.
pub(crate) struct Domain {
    pub uid: u32,
    memfd: Memfd,
    pub page: Window,
    pub drain: Drain,
}

/// What a bit of the doorbell pages stands for.
#[derive(Clone)]
pub(crate) enum Source {
    Free,
    /// A link's control channel.
    Link(usize),
    Connection(u32),
    Tripwire(Arc<TripwireShared>),
    /// This node itself, to be looked at.
    Own,
}

pub(crate) struct ListenerEntry {
    pub name: String,
    pub socket: Listener,
    pub policy: Policy,
    /// Requests not yet accepted.
    pub waiting: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We asked and wait for the answer.
    Opening,
    /// They asked and wait for our answer.
    Requested,
    Open,
    /// We asked and no longer care for the answer.
    Abandoned,
}

/// The peer's half of a connection, checked.
#[derive(Clone)]
pub(crate) struct Far {
    pub number: u32,
    pub window: Window,
    pub ring_bytes: usize,
    pub source: u32,
    pub message_bytes_max: u64,
}

pub(crate) struct ConnectionEntry {
    pub link: usize,
    pub phase: Phase,
    /// Distinguishes uses of the same number.
    pub serial: u64,
    pub name: String,
    pub data: Vec<u8>,
    pub listener: Option<usize>,
    pub far: Option<Far>,
    pub region: Option<(RegionRef, Window)>,
    /// Where others of our user find it.
    pub place: Option<RegionPlace>,
    /// Longest message that we take, as we tell the peer.
    pub message_bytes_max: usize,
    pub wanted_ring_bytes: usize,
    pub source: u32,
    /// Why opening failed.
    pub failure: Option<Error>,
    /// Whether the answer is to be reported as an event.
    pub announce: bool,
    /// The user's handle, once made.
    pub shared: Option<Arc<ConnectionShared>>,
    pub handle_gone: bool,
    pub peer_detached: bool,
    pub closed_reported: bool,
    /// In the list of those whose readiness was told.
    pub told: bool,
    /// Events of it that wait and are counted.
    pub events: u32,
    pub charges: Charges,
}

/// An event that has not been handed out.
pub(crate) enum Pending {
    Request {
        number: u32,
        serial: u64,
    },
    Connected {
        number: u32,
        serial: u64,
    },
    Ready(u32),
    Closed {
        number: u32,
        serial: u64,
    },
    OutOfBand {
        link: (usize, u32),
        number: u32,
        serial: u64,
        data: Vec<u8>,
        charges: Charges,
    },
    Granted {
        number: u32,
        serial: u64,
        cookie: u64,
        aperture: Arc<RemoteShared>,
        charges: Charges,
    },
    Plain(Event),
}

pub(crate) struct State {
    pub peers: Slab<Peer>,
    pub peer_generation: u32,
    pub by_node_id: HashMap<[u64; 2], usize>,
    pub by_name: HashMap<(u32, String), usize>,
    pub listeners: Slab<ListenerEntry>,
    pub connections: Slab<ConnectionEntry>,
    pub exports: Exports,
    pub accounts: Accounts,
    next_serial: u64,
    pub sources: Vec<Source>,
    free_sources: VecDeque<u32>,
    pub domains: Vec<Domain>,
    /// Where the memory that we make is to lie.
    placement: Placement,
    sleep_sequence: u64,
    /// Who has announced sleep and not yet being awake: threads, and the descriptor.
    sleepers: u32,
    /// A peer's word has been handled, for which some thread may be waiting.
    pub news: bool,
    /// Events that have not been handed out. Whoever adds one attracts attention.
    pub pending: VecDeque<Pending>,
    attention: Arc<AtomicBool>,
    /// Links to be closed: index, generation, and what their peers did.
    pub doomed: Vec<(usize, u32, Option<Misconduct>)>,
    /// Apertures that came too late, to be dropped without our lock.
    pub stale: Vec<Arc<RemoteShared>>,
    /// A descriptor in reserve.
    pub spare: Option<EventFd>,
    /// Connections whose readiness was told and is perhaps to be told again.
    pub told: VecDeque<u32>,
    /// Listening sockets are not looked at until more has been closed.
    pub listeners_paused: bool,
    /// Whether those go before new arrivals this time; they take turns.
    pub told_first: bool,
}

/// What a connection takes of private memory in our tables, in bytes: generously.
const CONNECTION_BYTES: u64 = 2048;

/// The source by which a node rings itself.
pub(crate) const OWN_SOURCE: u32 = 0;

impl State {
    /// `attention` is set whenever something other than a bit of the own page has come up.
    /// The memory that the node makes lies where `placement` says.
    pub fn new(attention: Arc<AtomicBool>, accounts: Accounts, placement: Placement) -> State {
        State {
            peers: Slab::new(),
            peer_generation: 0,
            by_node_id: HashMap::new(),
            by_name: HashMap::new(),
            listeners: Slab::new(),
            connections: Slab::new(),
            exports: Exports::default(),
            accounts,
            next_serial: 1,
            sources: vec![Source::Own],
            free_sources: VecDeque::new(),
            domains: Vec::new(),
            placement,
            sleep_sequence: 0,
            sleepers: 0,
            news: false,
            pending: VecDeque::new(),
            attention,
            doomed: Vec::new(),
            stale: Vec::new(),
            spare: EventFd::new().ok(),
            told: VecDeque::new(),
            listeners_paused: false,
            told_first: false,
        }
    }

    fn domain(&mut self, uid: u32) -> Result<usize> {
        if let Some(at) = self.domains.iter().position(|d| d.uid == uid) {
            return Ok(at);
        }
        let memfd = Memfd::create_sealed("barewire-doorbell", PAGE_BYTES)?;
        // It is far smaller than a huge page.
        let placement = self.placement.on_small_pages();
        let page = memfd.map_placed(Access::ReadWrite, &placement)?.whole();
        doorbell::announce_awake(&page, self.sleep_sequence & !1);
        if self.sleep_sequence % 2 == 1 {
            // Somebody sleeps already; the page is not yet known to any peer.
            doorbell::announce_sleep(&page, self.sleep_sequence);
        }
        // Release pairs with the Acquire in `Shared::quiet`.
        self.attention.store(true, Ordering::Release);
        self.domains.push(Domain {
            uid,
            memfd,
            page,
            drain: Drain::default(),
        });
        Ok(self.domains.len() - 1)
    }

    /// The doorbell page for peers of user `uid`.
    pub fn domain_page(&mut self, uid: u32) -> Result<&Window> {
        let at = self.domain(uid)?;
        Ok(&self.domains[at].page)
    }

    /// The descriptor of that page, for a peer.
    pub fn domain_descriptor(&mut self, uid: u32) -> Result<BorrowedFd<'_>> {
        let at = self.domain(uid)?;
        Ok(self.domains[at].memfd.as_fd())
    }

    /// From now on ringers wake us.
    pub fn announce_sleep(&mut self) {
        self.sleepers += 1;
        self.renumber_sleep();
    }

    /// As [`State::renumber_sleep`], if anybody sleeps.
    pub fn renumber_sleep_if_asleep(&mut self) {
        if self.sleepers > 0 {
            self.renumber_sleep();
        }
    }

    /// Those who sleep are to be woken again: the last wake-up was taken by another.
    pub fn renumber_sleep(&mut self) {
        self.sleep_sequence += 1 + self.sleep_sequence % 2;
        for domain in &self.domains {
            doorbell::announce_sleep(&domain.page, self.sleep_sequence);
        }
    }

    /// From now on they need not, unless others still sleep.
    pub fn announce_awake(&mut self) {
        self.sleepers -= 1;
        if self.sleepers > 0 {
            return self.renumber_sleep();
        }
        self.sleep_sequence += self.sleep_sequence % 2;
        for domain in &self.domains {
            doorbell::announce_awake(&domain.page, self.sleep_sequence);
        }
    }

    /// Gives up the doorbell page of another user's peers when the last has gone.
    pub fn forget_user(&mut self, own: u32, uid: u32) {
        let linked = |p: &Peer| p.uid() == Some(uid) && p.has_socket();
        if uid != own && !self.peers.iter().any(|(_, p)| linked(p)) {
            self.domains.retain(|d| d.uid != uid);
        }
    }

    /// Finds bits that a dying peer left half-raised.
    pub fn sweep(&self, uid: u32) {
        if let Some(domain) = self.domains.iter().find(|d| d.uid == uid) {
            doorbell::sweep(&domain.page);
        }
    }

    pub fn add_source(&mut self, source: Source) -> Result<u32> {
        // First in, first out: a bit is not used again at once, so that news for its last
        // use rarely reaches the next.
        if self.free_sources.len() > 64 || self.sources.len() >= SOURCES_MAX as usize {
            if let Some(number) = self.free_sources.pop_front() {
                self.sources[number as usize] = source;
                return Ok(number);
            }
            return Err(Error::LimitReached {
                what: "connections and tripwires on one node",
                limit: u64::from(SOURCES_MAX),
            });
        }
        self.sources.push(source);
        Ok(self.sources.len() as u32 - 1)
    }

    pub fn set_source(&mut self, number: u32, source: Source) {
        self.sources[number as usize] = source;
    }

    pub fn free_source(&mut self, number: u32) {
        self.sources[number as usize] = Source::Free;
        self.free_sources.push_back(number);
    }

    pub fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// The connection with this number, if it is still the same use of it.
    pub fn connection(&mut self, number: u32, serial: u64) -> Option<&mut ConnectionEntry> {
        let entry = self.connections.get_mut(number as usize)?;
        (entry.serial == serial).then_some(entry)
    }

    /// The link of an open connection and its number at the peer.
    pub fn route(&self, number: u32) -> Option<(usize, u32)> {
        let entry = self.connections.get(number as usize)?;
        Some((entry.link, entry.far.as_ref()?.number))
    }

    /// The page through which this node rings itself.
    pub fn own_ring(&self) -> Option<&Window> {
        self.domains.first().map(|d| &d.page)
    }

    /// Gives up a connection whose answer has not been reported.
    pub fn cancel_connect(&mut self, shared: &Shared, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.announce && entry.shared.is_none() && !entry.handle_gone {
            // The event that is perhaps under way finds another use of the number.
            entry.announce = false;
            entry.serial = 0;
            self.abandon(shared, number);
        }
    }

    /// Adds an event, to be found by the next poll. A sleeper is not woken: for that, ring
    /// [`OWN_SOURCE`].
    pub fn push(&mut self, pending: Pending) {
        // An owner that never polls would else keep the news of all it ever had.
        if self.pending.len() == self.pending.capacity() {
            self.drop_stale();
        }
        self.pending.push_back(pending);
        self.attract();
    }

    /// Has the next poll look here.
    pub fn attract(&self) {
        // Release pairs with the Acquire in `Shared::quiet`.
        self.attention.store(true, Ordering::Release);
    }

    pub fn push_ready(&mut self, number: u32) {
        self.push(Pending::Ready(number));
    }

    /// Whether nothing has to be looked at but the own page.
    pub fn settled(&self) -> bool {
        self.pending.is_empty() && self.told.is_empty() && self.domains.len() == 1 && self.drained()
    }

    /// Whether every bit that was taken from a page has been looked at.
    pub fn drained(&self) -> bool {
        self.domains.iter().all(|d| d.drain.is_idle())
    }

    /// Whether a poll would find something to look at.
    pub fn has_work(&self) -> bool {
        !self.pending.is_empty()
            || !self.told.is_empty()
            || !self.drained()
            || self.domains.iter().any(|d| doorbell::pending(&d.page))
    }

    /// Reports the end of a connection, once.
    pub fn report_closed(&mut self, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.phase == Phase::Open && !entry.closed_reported && entry.shared.is_some() {
            entry.closed_reported = true;
            let serial = entry.serial;
            self.push(Pending::Closed { number, serial });
        }
    }

    /// Makes the user's handle of an open connection.
    pub fn make_handle(&mut self, shared: &Arc<Shared>, number: u32) -> Result<Connection> {
        let entry = &mut self.connections[number as usize];
        let peer = self.peers.get(entry.link).ok_or(Error::PeerGone)?;
        let link = peer.link().ok_or(Error::PeerGone)?;
        let (Some(far), Some((_, window))) = (&entry.far, &entry.region) else {
            return Err(Error::PeerGone);
        };
        let uid = link.peer.uid;
        let foreign = uid != shared.own.uid;
        let allowance = foreign.then(|| self.accounts.allowance(uid));
        let mut connection = Connection::new(shared, link, number, entry, far, window, allowance);
        entry.shared = Some(connection.shared());
        if connection.arm() {
            self.push_ready(number);
            shared.ring_own(OWN_SOURCE);
        }
        // It may have ended before the handle was made.
        if self.connections[number as usize].peer_detached {
            self.report_closed(number);
        }
        Ok(connection)
    }

    /// The user's handle is gone, or was never made.
    pub fn drop_handle(&mut self, shared: &Shared, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        entry.handle_gone = true;
        if let (None, Some(far)) = (&entry.shared, &entry.far) {
            // There never was a handle that would have said so.
            publish_state(&far.window, FINISHED | DEAF);
        }
        let (link, far) = (entry.link, entry.far.as_ref().map(|far| far.number));
        if let Some(far) = far {
            self.send(shared, link, &Message::Detach { connection: far }, &[]);
        }
        self.free_if_done(shared, number);
    }

    /// Frees what a connection holds once neither side uses it.
    pub fn free_if_done(&mut self, shared: &Shared, number: u32) {
        let Some(entry) = self.connections.get(number as usize) else {
            return;
        };
        if !(entry.handle_gone && entry.peer_detached) {
            return;
        }
        let entry = self.connections.remove(number as usize);
        if entry.events > 0 {
            self.drop_events(shared, entry.serial);
        }
        if entry.phase == Phase::Requested {
            self.request_answered(entry.listener);
        }
        self.free_source(entry.source);
        shared.counters.sub(QueueCounter::Connections, 1);
        if let Some(peer) = self.peers.get_mut(entry.link) {
            peer.connections.remove(&number);
            if let Some((region, window)) = entry.region {
                drop(window);
                peer.arena.free(region);
            }
        }
        self.forget_peer_if_done(shared, entry.link);
    }

    /// Charges the user of a peer, unless it is our own.
    pub fn charge(
        &mut self,
        shared: &Shared,
        index: usize,
        wanted: &[(Resource, u64)],
    ) -> core::result::Result<Charges, OverBudget> {
        let uid = self.peers.get(index).map(|p| p.credentials.uid);
        match uid.filter(|uid| *uid != shared.own.uid) {
            Some(uid) => self.accounts.charge(uid, wanted),
            None => Ok(Charges::default()),
        }
    }

    pub fn request_answered(&mut self, listener: Option<usize>) {
        if let Some(listener) = listener.and_then(|l| self.listeners.get_mut(l)) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// Adds a connection to the tables.
    pub fn add_connection(
        &mut self,
        shared: &Shared,
        link: usize,
        phase: Phase,
        name: &str,
    ) -> Result<u32> {
        let (limit, ring_bytes, message_bytes_max) = {
            let config = &shared.live().config;
            (
                config.connections_max,
                config.ring_bytes,
                config.message_bytes_max,
            )
        };
        if self.connections.len() >= limit as usize {
            return Err(Error::LimitReached {
                what: "connections",
                limit: u64::from(limit),
            });
        }
        let wanted = [
            (Resource::Connections, 1),
            (Resource::PrivateBytes, CONNECTION_BYTES),
        ];
        let charges = self.charge(shared, link, &wanted)?;
        let source = self.add_source(Source::Free)?;
        let serial = self.serial();
        let number = self.connections.insert(ConnectionEntry {
            link,
            phase,
            serial,
            name: name.to_owned(),
            data: Vec::new(),
            listener: None,
            far: None,
            region: None,
            place: None,
            message_bytes_max,
            wanted_ring_bytes: ring_bytes,
            source,
            failure: None,
            announce: false,
            shared: None,
            handle_gone: false,
            peer_detached: false,
            closed_reported: false,
            told: false,
            events: 0,
            charges,
        }) as u32;
        self.set_source(source, Source::Connection(number));
        self.peers[link].connections.insert(number);
        shared.counters.add(QueueCounter::Connections, 1);
        Ok(number)
    }

    /// Gives a connection its receive region, and announces new segments to the peer.
    pub fn give_region(
        &mut self,
        shared: &Shared,
        number: u32,
        ring_bytes: usize,
    ) -> Result<RegionRef> {
        let link = self.connections[number as usize].link;
        if self.peers[link].arena.must_grow(ring_bytes) {
            let segment = [(Resource::Mappings, 1), (Resource::Descriptors, 1)];
            let charges = self.charge(shared, link, &segment)?;
            self.peers[link].charges.add(charges);
        }
        let arena = &mut self.peers[link].arena;
        let allocated = arena.allocate(ring_bytes, &self.placement)?;
        self.announce_segments(shared, link)?;
        let region = allocated.region;
        let entry = &mut self.connections[number as usize];
        entry.region = Some((region, allocated.window));
        entry.place = allocated.place;
        Ok(region)
    }

    /// Accepts a request.
    pub fn accept(
        &mut self,
        shared: &Arc<Shared>,
        number: u32,
        serial: u64,
        ring_bytes: usize,
    ) -> Result<Connection> {
        let entry = self.connection(number, serial).ok_or(Error::PeerGone)?;
        if entry.phase != Phase::Requested {
            return Err(Error::PeerGone);
        }
        let (link, listener, source) = (entry.link, entry.listener, entry.source);
        let Some(far) = entry.far.clone() else {
            return Err(Error::PeerGone);
        };
        let region = self.give_region(shared, number, ring_bytes)?;
        let entry = &mut self.connections[number as usize];
        entry.phase = Phase::Open;
        let message_bytes_max = entry.message_bytes_max as u64;
        self.peers[link].requests.remove(&far.number);
        self.request_answered(listener);
        let message = Message::Accept {
            connection: far.number,
            own: number,
            region,
            source,
            message_bytes_max,
        };
        self.send(shared, link, &message, &[]);
        self.make_handle(shared, number)
    }

    /// Refuses a request.
    pub fn reject(&mut self, shared: &Shared, number: u32, serial: u64, reason: &str) {
        let Some(entry) = self.connection(number, serial) else {
            return;
        };
        if entry.phase != Phase::Requested {
            return;
        }
        let (link, far) = (entry.link, entry.far.take());
        entry.handle_gone = true;
        entry.peer_detached = true;
        if let Some(far) = far {
            self.peers[link].requests.remove(&far.number);
            self.send_reject(shared, link, far.number, RejectCode::Application, reason);
        }
        self.free_if_done(shared, number);
    }

    pub fn send_reject(
        &mut self,
        shared: &Shared,
        link: usize,
        connection: u32,
        code: RejectCode,
        reason: &str,
    ) {
        let message = Message::Reject {
            connection,
            code,
            reason,
        };
        self.send(shared, link, &message, &[]);
    }

    /// One of our descriptors has something.
    pub fn socket_event(&mut self, shared: &Shared, event: &EpollEvent) {
        match Token::unpack(event.token) {
            None => {}
            Some(Token::Listener(index)) => self.accept_sockets(shared, index),
            Some(Token::Socket(index, generation)) if self.is_peer(index, generation) => {
                if event.writable {
                    self.flush(shared, index);
                }
                if event.hangup {
                    // Nothing more can come: what is left is read, however much it is.
                    self.peer_died(shared, index);
                } else {
                    self.read_socket(shared, index);
                }
            }
            Some(Token::Death(index, generation)) if self.is_peer(index, generation) => {
                self.peer_died(shared, index);
            }
            // Of a peer that is gone.
            Some(Token::Socket(..) | Token::Death(..)) => {}
        }
    }

    fn is_peer(&self, index: usize, generation: u32) -> bool {
        self.peers
            .get(index)
            .is_some_and(|p| p.generation == generation)
    }

    /// The node goes away: tells all peers.
    pub fn say_goodbye(&mut self) {
        for (_, peer) in &self.peers {
            peer.say_goodbye();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for token in [
            Token::Listener(0),
            Token::Listener(0x3fff_ffff),
            Token::Socket(7, u32::MAX),
            Token::Death(0x3fff_ffff, 3),
        ] {
            assert_eq!(Token::unpack(token.pack()), Some(token));
        }
        assert_eq!(Token::unpack(TOKEN_EVENTFD), None);
    }
}
