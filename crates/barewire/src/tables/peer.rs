//! The control channel to one peer: greeting, opening and closing connections, death.
//!
//! Whatever a peer says is checked before it is used. A breach closes the link and names
//! what was wrong; it touches no other link.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_shm::Region;
use barewire_shm::counters::QueueCounter;
use barewire_sys::SysError;
use barewire_sys::memory::{Access, PeerAccess};
use barewire_sys::process::Credentials;
use barewire_sys::retire::Guarded;
use barewire_sys::socket::{RIGHTS_MAX, Sent};
use barewire_sys::wake::Interest;
use barewire_sys::watch::Watch;

use crate::apertures::standing::Granted;
use crate::config::Policy;
use crate::error::{Error, Misconduct, Result};
use crate::links::arena::{Arena, SEGMENTS_MAX};
use crate::links::budget::{Charges, Resource};
use crate::links::link::{Link, Status};
use crate::messages::control::{MESSAGE_BYTES_MAX, Message, RejectCode, THE_LINK};
use crate::messages::passed::{Heard, Passed, hear};
use crate::node::shared::Shared;
use crate::tables::state::{Far, Pending, Phase, Source, State, Token};

/// Control messages read from one socket before the others get a turn.
pub(crate) const MESSAGES_PER_TURN: usize = 64;
/// Out-of-band messages of one peer that wait for our owner to take them.
const OUT_OF_BAND_MAX: u32 = 64;
/// Messages that may wait for a peer that does not read.
const OUTBOX_MAX: usize = 300_000;
/// As [`OUTBOX_MAX`], for a peer of another user.
const OUTBOX_FOREIGN_MAX: usize = 16_384;
/// Messages read from a socket whose other end has hung up: more than a socket holds. They
/// would not end if it only looked so.
const LAST_WORDS_MAX: usize = 4096;
/// Largest segment of a peer's arena.
const PEER_SEGMENT_BYTES_MAX: u64 = 1 << 30;

pub(crate) type Checked<T = ()> = Result<T, Misconduct>;

/// How far a peer is.
pub(crate) enum Stage {
    /// Neither hello has been exchanged in full.
    Greeting,
    Up(Arc<Link>),
    /// What was received before may still be taken.
    Down(Option<Arc<Link>>),
}

/// What a node keeps of one peer.
pub(crate) struct Peer {
    pub generation: u32,
    pub socket: Option<Arc<Guarded>>,
    pub credentials: Credentials,
    pub pidfd: Option<Arc<OwnedFd>>,
    /// While the thread of the process watches its descriptors for us.
    pub watch: Option<Watch>,
    pub stage: Stage,
    pub initiator: bool,
    /// The bit by which the peer announces control messages.
    pub source: u32,
    /// The bit by which we do.
    pub far_source: u32,
    pub arena: Arena,
    pub segments: Vec<Region>,
    outbox: VecDeque<(Vec<u8>, Vec<OwnedFd>, Charges)>,
    pub charges: Charges,
    /// Our numbers of the connections with this peer.
    pub connections: HashSet<u32>,
    /// Its connections that wait for our answer: its numbers and ours.
    pub requests: HashMap<u32, u32>,
    /// Out-of-band messages that the owner has not taken.
    out_of_band: u32,
    /// Not read from until the owner has taken some.
    paused: bool,
    /// Its link is about to be closed: see [`State::doom`].
    doomed: bool,
    /// Connections that wait for the greeting to be over.
    pub waiting: Vec<u32>,
    pub node_id: Option<[u64; 2]>,
    pub name: Option<(u32, String)>,
    /// Who may connect, if we are the listener.
    pub policy: Policy,
    /// Apertures of the peer's that we hold, by its numbers.
    pub granted: Granted,
}

impl Peer {
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    pub fn link(&self) -> Option<Arc<Link>> {
        match &self.stage {
            Stage::Up(link) => Some(Arc::clone(link)),
            Stage::Down(link) => link.clone(),
            Stage::Greeting => None,
        }
    }

    pub fn uid(&self) -> Option<u32> {
        Some(self.credentials.uid)
    }

    /// Whether the link has not been closed.
    pub fn has_socket(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether it has connected to us and not said hello yet.
    pub fn is_greeter(&self) -> bool {
        matches!(self.stage, Stage::Greeting) && !self.initiator && self.socket.is_some()
    }

    /// Whether messages wait because the peer does not read them.
    pub fn congested(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub fn say_goodbye(&self) {
        if let Some(socket) = &self.socket {
            // If it does not get through, the peer learns of it by the hang-up.
            let _ = socket.send(&Message::Bye.encode(), &[]);
        }
        if let Stage::Up(link) = &self.stage {
            link.close(Status::Left, None);
        }
    }
}

impl State {
    pub(crate) fn add_peer(
        &mut self,
        shared: &Shared,
        socket: Guarded,
        credentials: Credentials,
        initiator: bool,
    ) -> Result<usize> {
        self.peer_generation = self.peer_generation.wrapping_add(1);
        let generation = self.peer_generation;
        let index = self.peers.vacant_key();
        let token = Token::Socket(index, generation).pack();
        shared.epoll.add(&*socket, token, Interest::READ)?;
        let pidfd = socket.peer_pidfd().map(Arc::new);
        if let Some(pidfd) = &pidfd {
            let token = Token::Death(index, generation).pack();
            shared.epoll.add(pidfd, token, Interest::READ)?;
        }
        let source = self.add_source(Source::Link(index))?;
        self.peers.insert(Peer {
            generation,
            socket: Some(Arc::new(socket)),
            credentials,
            pidfd,
            watch: None,
            stage: Stage::Greeting,
            initiator,
            source,
            far_source: 0,
            arena: Arena::default(),
            segments: Vec::new(),
            outbox: VecDeque::new(),
            charges: Charges::default(),
            connections: HashSet::new(),
            requests: HashMap::new(),
            out_of_band: 0,
            paused: false,
            doomed: false,
            waiting: Vec::new(),
            node_id: None,
            name: None,
            policy: Policy::default(),
            granted: Granted::default(),
        });
        shared.counters.add(QueueCounter::Links, 1);
        Ok(index)
    }

    /// Sends a control message, now or when the peer has read others. What became of the
    /// peer is seen when its socket is read.
    pub fn send(
        &mut self,
        shared: &Shared,
        index: usize,
        message: &Message<'_>,
        fds: &[BorrowedFd<'_>],
    ) {
        let Some(peer) = self.peers.get_mut(index).filter(|p| !p.doomed) else {
            return;
        };
        let Some(socket) = peer.socket.clone() else {
            return;
        };
        let bytes = message.encode();
        if peer.outbox.is_empty() {
            match socket.send(&bytes, fds) {
                Ok(Sent::Done) => {
                    if let Stage::Up(link) = &peer.stage {
                        link.ring(peer.far_source);
                    }
                    return;
                }
                Ok(Sent::WouldBlock) => {}
                // It will be seen when the socket is read.
                Err(SysError::Hangup { .. }) => return,
                // The peer would misread everything after what it does not get.
                Err(_) => return self.doom(index, None),
            }
        }
        let own = peer.credentials.uid == shared.own.uid;
        let max = if own { OUTBOX_MAX } else { OUTBOX_FOREIGN_MAX };
        if peer.outbox.len() >= max {
            let reason = Misconduct::Control("does not read its control channel");
            return self.doom(index, Some(reason));
        }
        let owned: Option<Vec<OwnedFd>> =
            fds.iter().map(|fd| fd.try_clone_to_owned().ok()).collect();
        // Without descriptors to keep, the message can not wait; the peer would misread
        // everything after it, so the link ends here.
        let Some(owned) = owned else {
            return self.doom(index, None);
        };
        let wanted = [
            (Resource::PrivateBytes, bytes.len() as u64 + 128),
            (Resource::Descriptors, owned.len() as u64),
        ];
        let charges = match self.charge(shared, index, &wanted) {
            Ok(charges) => charges,
            Err(exceeded) => return self.doom(index, Some(exceeded.into())),
        };
        let peer = &mut self.peers[index];
        peer.outbox.push_back((bytes, owned, charges));
        if peer.outbox.len() == 1 {
            self.set_interest(shared, index);
        }
    }

    /// Has a link closed as soon as whoever is at work on it has finished. Nothing is sent
    /// on it any more.
    fn doom(&mut self, index: usize, reason: Option<Misconduct>) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.doomed = true;
            self.doomed.push((index, peer.generation, reason));
            self.attract();
        }
    }

    /// Closes the link of an open connection for this reason, which the peer is told.
    pub fn end_link_of(&mut self, shared: &Shared, connection: u32, reason: Misconduct) {
        if let Some(entry) = self.connections.get(connection as usize) {
            self.misbehaved(shared, entry.link, reason);
        }
    }

    /// Closes the links that were to be closed.
    pub fn close_doomed(&mut self, shared: &Shared) {
        while let Some((index, generation, reason)) = self.doomed.pop() {
            let same = |p: &Peer| p.generation == generation;
            if self.peers.get(index).is_some_and(same) {
                match reason {
                    Some(reason) => self.misbehaved(shared, index, reason),
                    None => self.close_peer(shared, index, Status::Left, None),
                }
            }
        }
    }

    /// Has epoll report what we can handle now.
    fn set_interest(&self, shared: &Shared, index: usize) {
        let peer = &self.peers[index];
        let Some(socket) = &peer.socket else {
            return;
        };
        let interest = Interest {
            readable: !peer.paused,
            writable: !peer.outbox.is_empty(),
            edge: false,
        };
        let token = Token::Socket(index, peer.generation).pack();
        // It can only fail for a descriptor that is not in the set.
        let _ = shared.epoll.modify(&***socket, token, interest);
    }

    /// The owner has taken an out-of-band message of the peer at this index.
    pub fn out_of_band_handed_out(&mut self, shared: &Shared, index: usize, generation: u32) {
        let peer = self.peers.get_mut(index);
        let Some(peer) = peer.filter(|p| p.generation == generation) else {
            return;
        };
        peer.out_of_band = peer.out_of_band.saturating_sub(1);
        if peer.paused && peer.out_of_band < OUT_OF_BAND_MAX / 2 {
            peer.paused = false;
            self.set_interest(shared, index);
            self.pending_read(index);
        }
    }

    /// Sends what waited for the peer to read.
    pub fn flush(&mut self, shared: &Shared, index: usize) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let Some(socket) = peer.socket.clone() else {
            return;
        };
        while let Some((bytes, fds, _)) = peer.outbox.front() {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match socket.send(bytes, &fds) {
                Ok(Sent::Done) => drop(peer.outbox.pop_front()),
                Ok(Sent::WouldBlock) => break,
                Err(SysError::Hangup { .. }) => return,
                Err(_) => return self.doom(index, None),
            }
        }
        if let Stage::Up(link) = &peer.stage {
            link.ring(peer.far_source);
        }
        if peer.outbox.is_empty() {
            self.set_interest(shared, index);
        }
    }

    pub fn announce_segments(&mut self, shared: &Shared, index: usize) -> Result<()> {
        while let Some((number, len_bytes, fd)) = self.peers[index].arena.unannounced() {
            let fd = fd
                .try_clone_to_owned()
                .map_err(|_| descriptors_exhausted())?;
            let message = Message::Segment { number, len_bytes };
            self.send(shared, index, &message, &[fd.as_fd()]);
        }
        Ok(())
    }

    /// Reads what a peer has sent.
    pub fn read_socket(&mut self, shared: &Shared, index: usize) {
        for _ in 0..MESSAGES_PER_TURN {
            let peer = self.peers.get(index).filter(|p| !p.paused && !p.doomed);
            let Some(socket) = peer.and_then(|p| p.socket.clone()) else {
                return;
            };
            let mut buffer = [0; MESSAGE_BYTES_MAX];
            let foreign = self.is_foreign(shared, index);
            let (len, passed) = match hear(&socket, foreign, &mut buffer, &shared.retirer) {
                Heard::Message(len, passed) => (len, passed),
                Heard::Nothing => return,
                Heard::Gone => return self.peer_died(shared, index),
                Heard::Wrong(reason) => return self.misbehaved(shared, index, reason),
                Heard::NoRoom => {
                    let (what, limit) =
                        ("descriptors than this process may open", RIGHTS_MAX as u64);
                    return self.misbehaved(shared, index, Misconduct::Exceeds { what, limit });
                }
            };
            self.news = true;
            let handled = match Message::parse(&buffer[..len]) {
                Some(message) => self.handle(shared, index, message, passed),
                None => Err(Misconduct::Control("not a message")),
            };
            if let Err(reason) = handled {
                self.misbehaved(shared, index, reason);
                return;
            }
        }
        // More may be left; it is announced again by epoll, or found here.
        self.pending_read(index);
    }

    fn pending_read(&mut self, index: usize) {
        if let Some(peer) = self.peers.get(index) {
            let source = peer.source;
            if let Some(domain) = self.own_ring() {
                barewire_fabric::doorbell::ring(domain, source);
            }
        }
    }

    /// Tells a peer that has asked for too much why its link ends.
    fn say_why(&mut self, shared: &Shared, index: usize, reason: Misconduct) {
        shared.counters.add(QueueCounter::Refusals, 1);
        let socket = self.peers.get(index).and_then(|p| p.socket.clone());
        if let Some(socket) = socket {
            let message = Message::Reject {
                connection: THE_LINK,
                code: RejectCode::Busy,
                reason: &reason.to_string(),
            };
            // If it does not get through, the peer learns of the end by the hang-up.
            let _ = socket.send(&message.encode(), &[]);
        }
    }

    fn misbehaved(&mut self, shared: &Shared, index: usize, reason: Misconduct) {
        if let Misconduct::Exceeds { .. } = reason {
            self.say_why(shared, index, reason);
        } else {
            shared.counters.add(QueueCounter::Violations, 1);
        }
        self.close_peer(shared, index, Status::Misbehaved, Some(reason));
    }

    /// The peer's process is gone. What it sent before is read first.
    pub fn peer_died(&mut self, shared: &Shared, index: usize) {
        let socket = self.peers.get(index).and_then(|p| p.socket.clone());
        let mut died = true;
        if let Some(socket) = socket {
            let mut buffer = [0; MESSAGE_BYTES_MAX];
            let foreign = self.is_foreign(shared, index);
            for _ in 0..LAST_WORDS_MAX {
                let up = |p: &Peer| p.socket.is_some() && !p.doomed;
                if !self.peers.get(index).is_some_and(up) {
                    break;
                }
                let heard = hear(&socket, foreign, &mut buffer, &shared.retirer);
                let Heard::Message(len, passed) = heard else {
                    break;
                };
                let Some(message) = Message::parse(&buffer[..len]) else {
                    break;
                };
                died &= message != Message::Bye;
                if self.handle(shared, index, message, passed).is_err() {
                    break;
                }
            }
        }
        if died && self.peers.get(index).is_some_and(|p| p.socket.is_some()) {
            shared.counters.add(QueueCounter::Deaths, 1);
        }
        self.close_peer(shared, index, Status::Died, None);
    }

    /// Ends a link: nothing is sent or received on it any more. What lies in the rings
    /// can still be taken.
    pub fn close_peer(
        &mut self,
        shared: &Shared,
        index: usize,
        status: Status,
        misconduct: Option<Misconduct>,
    ) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let Some(socket) = peer.socket.take() else {
            return;
        };
        self.news = true;
        peer.watch = None;
        shared.counters.sub(QueueCounter::Links, 1);
        let _ = shared.epoll.remove(&**socket);
        if let Some(pidfd) = peer.pidfd.take() {
            let _ = shared.epoll.remove(&pidfd);
        }
        peer.outbox.clear();
        peer.waiting.clear();
        let link = peer.link();
        peer.stage = Stage::Down(link.clone());
        let (uid, node_id, name) = (peer.credentials.uid, peer.node_id, peer.name.take());
        let pid = peer.credentials.pid;
        let error = if let Some(link) = link {
            if status == Status::Left {
                let _ = socket.send(&Message::Bye.encode(), &[]);
            }
            link.close(status, misconduct);
            // Handles of its connections keep the socket open; the peer is to know now.
            socket.shutdown();
            link.reason()
        } else {
            match (status, misconduct) {
                (_, Some(misconduct)) => Error::PeerMisbehaved(misconduct),
                (Status::Died, None) => Error::PeerDied { pid },
                _ => Error::PeerGone,
            }
        };
        let granted = core::mem::take(&mut self.peers[index].granted);
        granted.owner_gone(shared);
        if node_id.is_some_and(|id| self.by_node_id.get(&id) == Some(&index)) {
            self.by_node_id.retain(|_, at| *at != index);
        }
        if name.is_some_and(|name| self.by_name.get(&name) == Some(&index)) {
            self.by_name.retain(|_, at| *at != index);
        }
        self.sweep(uid);
        self.forget_user(shared.own.uid, uid);
        self.exports.forget_link(index);
        self.end_connections(shared, index, &error);
        let source = self.peers.get(index).map(|p| p.source);
        if let Some(source) = source {
            self.free_source(source);
        }
        // The slot is kept until the last connection that refers to it is gone.
        self.forget_peer_if_done(shared, index);
    }

    fn end_connections(&mut self, shared: &Shared, index: usize, error: &Error) {
        let numbers: Vec<u32> = self.peers[index].connections.iter().copied().collect();
        for number in numbers {
            let entry = &mut self.connections[number as usize];
            entry.peer_detached = true;
            match entry.phase {
                Phase::Opening => self.opening_failed(number, error.clone()),
                Phase::Requested | Phase::Abandoned => entry.handle_gone = true,
                Phase::Open => {
                    self.push_ready(number);
                    self.report_closed(number);
                }
            }
            self.free_if_done(shared, number);
        }
    }

    pub fn forget_peer_if_done(&mut self, shared: &Shared, index: usize) {
        let done = |p: &Peer| p.connections.is_empty() && p.socket.is_none();
        if self.peers.get(index).is_some_and(done) {
            let foreign = self.is_foreign(shared, index);
            let peer = self.peers.remove(index);
            // To give much memory back takes its time.
            if foreign && !peer.segments.is_empty() {
                shared.retirer.later(Box::new(peer.segments));
            }
        }
    }

    fn handle(
        &mut self,
        shared: &Shared,
        index: usize,
        message: Message<'_>,
        passed: Passed,
    ) -> Checked {
        let peer = self.peers.get(index).ok_or(Misconduct::Control("closed"))?;
        let greeting = matches!(peer.stage, Stage::Greeting);
        match message {
            Message::Hello { .. } if greeting => self.hello(shared, index, &message, passed),
            Message::Reject { code, reason, .. } if greeting => {
                self.refused_at_once(shared, index, code, reason);
                Ok(())
            }
            Message::Bye => {
                self.close_peer(shared, index, Status::Left, None);
                Ok(())
            }
            _ if greeting => Err(Misconduct::Control("spoke before saying hello")),
            Message::Hello { .. } => Err(Misconduct::Control("said hello twice")),
            Message::Segment { number, len_bytes } => {
                self.segment(shared, index, number, len_bytes, passed)
            }
            Message::Open {
                connection,
                region,
                source,
                message_bytes_max,
                name,
                data,
            } => {
                let (far_window, ring_bytes) = self.peer_region(index, &region)?;
                let far = Far {
                    number: connection,
                    window: far_window,
                    ring_bytes,
                    source: checked_source(source)?,
                    message_bytes_max,
                };
                self.opened(shared, index, far, name, data);
                Ok(())
            }
            Message::Reject {
                connection: THE_LINK,
                reason,
                ..
            } => {
                if let Stage::Up(link) = &peer.stage {
                    link.refused(reason);
                }
                self.close_peer(shared, index, Status::Left, None);
                Ok(())
            }
            Message::Accept { .. } => self.accepted(shared, index, &message),
            Message::Reject {
                connection,
                code,
                reason,
            } => self.rejected(shared, index, connection, code, reason),
            Message::Detach { connection } => self.detached(shared, index, connection),
            Message::Abandon { connection } => {
                self.abandoned(shared, index, connection);
                Ok(())
            }
            Message::Grant { .. } => match shared.me.upgrade() {
                Some(node) => self.granted(&node, index, &message, passed),
                None => Ok(()),
            },
            Message::Release { aperture } => {
                self.exports.released(aperture, index);
                Ok(())
            }
            Message::Revoke { aperture } => {
                self.peers[index].granted.revoked(aperture, shared);
                Ok(())
            }
            Message::OutOfBand { connection, data } => {
                self.out_of_band(shared, index, connection, data)
            }
            Message::Wake => Ok(()),
        }
    }

    /// Whether a peer is of another user.
    pub(crate) fn is_foreign(&self, shared: &Shared, index: usize) -> bool {
        let peer = self.peers.get(index);
        peer.is_some_and(|p| p.credentials.uid != shared.own.uid)
    }

    pub(crate) fn is_up(&self, index: usize) -> bool {
        let up = |p: &Peer| matches!(p.stage, Stage::Up(_));
        self.peers.get(index).is_some_and(up)
    }

    fn segment(
        &mut self,
        shared: &Shared,
        index: usize,
        number: u32,
        len_bytes: u64,
        passed: Passed,
    ) -> Checked {
        let peer = &mut self.peers[index];
        if number as usize != peer.segments.len() || number >= SEGMENTS_MAX {
            return Err(Misconduct::Control("segment out of order, or too many"));
        }
        if len_bytes > PEER_SEGMENT_BYTES_MAX {
            return Err(Misconduct::Control("segment too large"));
        }
        let charges = self.charge(shared, index, &[(Resource::Mappings, 1)])?;
        let wanted = [(len_bytes as usize, PeerAccess::ReadWrite)];
        let [memfd] = passed.take_memory(wanted)?;
        let region = memfd
            .map(Access::ReadWrite)
            .map_err(|_| Misconduct::Control("segment that can not be mapped here"))?;
        let peer = &mut self.peers[index];
        peer.charges.add(charges);
        peer.segments.push(region);
        Ok(())
    }

    fn out_of_band(
        &mut self,
        shared: &Shared,
        index: usize,
        connection: u32,
        data: &[u8],
    ) -> Checked {
        let Some(serial) = self.standing(index, connection)? else {
            return Ok(());
        };
        let wanted = [
            (Resource::Events, 1),
            (Resource::PrivateBytes, data.len() as u64 + 128),
        ];
        let charges = self.charge(shared, index, &wanted)?;
        self.connections[connection as usize].events += 1;
        let peer = &mut self.peers[index];
        let generation = peer.generation;
        peer.out_of_band += 1;
        if peer.out_of_band >= OUT_OF_BAND_MAX {
            // The rest waits in the socket, and then at the sender.
            peer.paused = true;
            self.set_interest(shared, index);
        }
        let data = data.to_vec();
        self.push(Pending::OutOfBand {
            link: (index, generation),
            number: connection,
            serial,
            data,
            charges,
        });
        Ok(())
    }
}

pub(crate) fn checked_source(source: u32) -> Checked<u32> {
    if source < SOURCES_MAX {
        Ok(source)
    } else {
        Err(Misconduct::Control("doorbell bit beyond the page"))
    }
}

pub(crate) fn descriptors_exhausted() -> Error {
    Error::System(barewire_sys::SysError::TooManyDescriptors {
        what: "duplicating a descriptor for a peer",
        errno: barewire_sys::Errno(24),
    })
}
