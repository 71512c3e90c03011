//! First contact: finding whoever listens under a name, and the exchange of hellos that makes a
//! link.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use barewire_cpu::probes::nodes as probes;
use barewire_fabric::OverBudget;
use barewire_fabric::doorbell::PAGE_BYTES;
use barewire_shm::Window;
use barewire_shm::counters::QueueCounter;
use barewire_sys::memory::{Access, Memfd, PeerAccess};
use barewire_sys::process::Credentials;
use barewire_sys::retire::Guarded;
use barewire_sys::socket::Socket;
use barewire_sys::wake::{EventFd, Interest};

use crate::config::{ConnectOptions, check_data, check_ring, socket_name};
use crate::error::{Error, Misconduct, Result, descriptors_exhausted};
use crate::links::budget::{Charges, Resource};
use crate::links::driven::{Driven, is_same};
use crate::links::link::{Link, Status, WakeUp};
use crate::log::{self, Level};
use crate::messages::control::{FLAG_MEMBARRIER, Message, RejectCode, VERSION};
use crate::messages::passed::{Checked, Passed};
use crate::remote::address::HostName;
use crate::tables::doorbells::Source;
use crate::tables::entries::Phase;
use crate::tables::peer::{Peer, Stage, checked_source};
use crate::tables::state::State;
use crate::tables::token::Token;

/// Peers that may have connected and not yet said who they are.
const GREETING_MAX: usize = 256;

/// In the place of an owner, for links that are known by the address of another host.
const HOST_OWNER: u32 = u32::MAX;

/// What a link takes: its socket and the process's descriptor; the peer's doorbell page.
const LINK: [(Resource, u64); 4] = [
    (Resource::Links, 1),
    (Resource::Descriptors, 2),
    (Resource::Mappings, 1),
    (Resource::PrivateBytes, 4096),
];

impl State {
    /// Begins a connection; the answer comes later. Returns its number and the
    /// index of its link, which may have to be greeted first.
    pub fn start_connect(
        &mut self,
        name: &str,
        options: &ConnectOptions,
        announce: bool,
    ) -> Result<(u32, usize)> {
        let owner = options.owner.unwrap_or(self.base.own.uid);
        let socket_name = socket_name(owner, name)?;
        let key = (owner, name.to_owned());
        let link = match self.by_name.get(&key) {
            Some(link) => *link,
            None => self.reach(&socket_name, owner, name)?,
        };
        self.start_on(link, name, options, announce)
    }

    /// Begins a connection to a name of a node on another host. As [`State::start_connect`]; `reach` makes what plays
    /// that node's part if there is no link to it yet.
    pub fn start_connect_to_host(
        &mut self,
        host: &HostName,
        options: &ConnectOptions,
        announce: bool,
        reach: impl FnOnce() -> Result<(Arc<dyn Driven>, Socket)>,
    ) -> Result<(u32, usize)> {
        // The name is checked as one here would be.
        socket_name(self.base.own.uid, &host.name)?;
        let key = (HOST_OWNER, host.host.clone());
        let link = match self.by_name.get(&key) {
            Some(link) => *link,
            None => {
                let (remote, socket) = reach()?;
                let index = self.add_remote(socket, remote, true)?;
                self.peers[index].name = Some(key.clone());
                self.by_name.insert(key, index);
                self.send_hello(index)?;
                index
            }
        };
        self.start_on(link, &host.name, options, announce)
    }

    /// A node on another host, whose part `remote` plays at the other end of `socket`. Returns the index of the link.
    pub fn add_remote(
        &mut self,
        socket: Socket,
        remote: Arc<dyn Driven>,
        initiator: bool,
    ) -> Result<usize> {
        let socket = Guarded::new(socket, &self.base.retirer);
        let own = self.base.own;
        let index = self.add_peer(socket, own, None, initiator)?;
        self.peers[index].remote = Some(remote);
        Ok(index)
    }

    /// Bytes of a receive ring over this link, where nobody says otherwise.
    pub fn usual_ring_bytes(&self, link: usize) -> usize {
        let config = &self.base.live().config;
        let is_remote = self
            .peers
            .get(link)
            .is_some_and(|peer| peer.remote.is_some());
        match is_remote {
            true => config.hosts.ring_bytes,
            false => config.ring_bytes,
        }
    }

    /// Begins a connection over a link, which perhaps has to be greeted first.
    fn start_on(
        &mut self,
        link: usize,
        name: &str,
        options: &ConnectOptions,
        announce: bool,
    ) -> Result<(u32, usize)> {
        let ring_bytes = options.ring_bytes;
        let ring_bytes = ring_bytes.unwrap_or_else(|| self.usual_ring_bytes(link));
        check_ring(ring_bytes)?;
        check_data(&options.data)?;
        let number = self.add_connection(link, Phase::Opening, name)?;
        let entry = &mut self.connections[number as usize];
        entry.data.clone_from(&options.data);
        entry.announce = announce;
        entry.wanted_ring_bytes = ring_bytes;
        if self.is_up(link) {
            self.open(number);
        } else {
            self.peers[link].waiting.push(number);
        }
        Ok((number, link))
    }

    /// Makes first contact with whoever listens under a name.
    fn reach(&mut self, socket_name: &[u8], owner: u32, name: &str) -> Result<usize> {
        let socket = Socket::connect(socket_name).map_err(|error| match error {
            barewire_sys::SysError::NoListener { .. } => Error::NoSuchName {
                name: name.to_owned(),
                owner,
            },
            other => other.into(),
        })?;
        // Whoever holds the name may have sent something by now.
        let socket = Guarded::new(socket, &self.base.retirer);
        let credentials = socket.peer_credentials()?;
        if credentials.uid != owner {
            return Err(Error::WrongOwner {
                name: name.to_owned(),
                pid: credentials.pid,
                found: credentials.uid,
                expected: owner,
            });
        }
        let charges = self.charge_link(&credentials)?;
        let pidfd = socket.peer_pidfd().map(Arc::new);
        let index = self.add_peer(socket, credentials, pidfd, true)?;
        self.peers[index].charges = charges;
        let key = (owner, name.to_owned());
        self.peers[index].name = Some(key.clone());
        self.by_name.insert(key, index);
        if let Err(error) = self.send_hello(index) {
            self.close_peer(index, Status::Left, None);
            return Err(error);
        }
        Ok(index)
    }

    pub fn add_peer(
        &mut self,
        socket: Guarded,
        credentials: Credentials,
        pidfd: Option<Arc<OwnedFd>>,
        initiator: bool,
    ) -> Result<usize> {
        self.peer_generation = self.peer_generation.wrapping_add(1);
        let generation = self.peer_generation;
        let index = self.peers.vacant_key();
        let token = Token::Socket(index, generation).pack();
        self.base.epoll.add(&*socket, token, Interest::READ)?;
        if let Some(pidfd) = &pidfd {
            let token = Token::Death(index, generation).pack();
            self.base.epoll.add(pidfd, token, Interest::READ)?;
        }
        let source = self.doorbells.add_source(Source::Link(index))?;
        let mut peer = Peer::new(generation, socket, credentials, pidfd, source);
        peer.initiator = initiator;
        self.peers.insert(peer);
        self.base.counters.add(QueueCounter::Links, 1);
        Ok(index)
    }

    /// Charges a user with one more link. If one of its links has not been greeted yet, that
    /// one makes room.
    pub fn charge_link(&mut self, who: &Credentials) -> Result<Charges, OverBudget> {
        if who.uid == self.base.own.uid {
            return Ok(Charges::default());
        }
        let charged = self.accounts.charge(who.uid, &LINK);
        if charged.is_ok() || !self.drop_greeter(who.uid) {
            return charged;
        }
        self.accounts.charge(who.uid, &LINK)
    }

    /// Makes room when too many have connected without saying hello: the oldest goes, of
    /// the user who has most of them, so that nobody can drive the others out.
    pub fn limit_greeters(&mut self) {
        let mut users: HashMap<u32, usize> = HashMap::new();
        for (_, peer) in self.peers.iter().filter(|(_, p)| p.is_greeter()) {
            *users.entry(peer.credentials.uid).or_default() += 1;
        }
        if users.values().sum::<usize>() < GREETING_MAX {
            return;
        }
        if let Some((uid, _)) = users.into_iter().max_by_key(|(_, count)| *count) {
            self.drop_greeter(uid);
        }
    }

    fn drop_greeter(&mut self, uid: u32) -> bool {
        let theirs = |p: &Peer| p.is_greeter() && p.credentials.uid == uid;
        let greeters = self.peers.iter().filter(|(_, p)| theirs(p));
        let oldest = greeters.min_by_key(|(_, p)| p.generation).map(|(i, _)| i);
        if let Some(index) = oldest {
            self.close_peer(index, Status::Left, None);
        }
        oldest.is_some()
    }

    fn send_hello(&mut self, index: usize) -> Result<()> {
        let (uid, source) = {
            let peer = &self.peers[index];
            (peer.credentials.uid, peer.source)
        };
        let page = self
            .doorbells
            .descriptor(uid)?
            .try_clone_to_owned()
            .map_err(|_| descriptors_exhausted())?;
        self.attract();
        let flags = if self.base.membarrier {
            FLAG_MEMBARRIER
        } else {
            0
        };
        let hello = Message::Hello {
            version: VERSION,
            node_id: self.base.node_id,
            flags,
            source,
        };
        // A foreign user gets no eventfd of ours to fill up; it wakes us by the socket,
        // as we wake it.
        if uid == self.base.own.uid {
            let base = Arc::clone(&self.base);
            self.send(index, &hello, &[page.as_fd(), base.eventfd.as_fd()]);
        } else {
            self.send(index, &hello, &[page.as_fd()]);
        }
        Ok(())
    }

    pub fn handle_hello(&mut self, index: usize, message: &Message<'_>, passed: Passed) -> Checked {
        let &Message::Hello {
            version,
            node_id,
            flags,
            source,
        } = message
        else {
            return Err(Misconduct::Control("not a hello"));
        };
        if version != VERSION {
            let reason = format!("protocol version {VERSION} here, {version} there");
            self.send_reject(index, 0, RejectCode::Version, &reason);
            self.handle_refusal(index, RejectCode::Version, &reason);
            return Ok(());
        }
        let peer_source = checked_source(source)?;
        let same_user = self.peers[index].credentials.uid == self.base.own.uid;
        let (page, waker) = checked_wake_up(passed, same_user)?;
        let initiator = self.peers[index].initiator;
        if !initiator && self.send_hello(index).is_err() {
            self.close_peer(index, Status::Left, None);
            return Ok(());
        }
        let peer = &mut self.peers[index];
        let Some(socket) = peer.socket.clone() else {
            return Ok(());
        };
        peer.peer_source = peer_source;
        peer.node_id = Some(node_id);
        // Our light fence may be free only if their heavy one reaches us.
        let asymmetric = self.base.membarrier && flags & FLAG_MEMBARRIER != 0;
        let counters = self.base.counters.clone();
        let credentials = peer.credentials;
        let pidfd = peer.pidfd.clone();
        let remote = peer.remote.clone();
        let is_remote = remote.is_some();
        let link = Link::new(
            socket,
            pidfd,
            credentials,
            WakeUp {
                page,
                waker,
                asymmetric,
            },
            counters,
            remote,
        );
        peer.stage = Stage::Up(Arc::new(link));
        peer.watch = None;
        probes::link_up(credentials.pid, credentials.uid);
        log::line(Level::Info, || {
            format!("the link to {} is up", peer.described())
        });
        // What another host says of itself joins no links.
        if node_id != self.base.node_id && !is_remote {
            let known = *self.by_node_id.entry(node_id).or_insert(index);
            if initiator && known != index && self.joins(node_id, credentials, known) {
                self.join(index, known);
                return Ok(());
            }
        }
        for number in core::mem::take(&mut self.peers[index].waiting) {
            self.open(number);
        }
        Ok(())
    }

    /// Whether a link that we began with a node gives way to one that it began.
    ///
    /// If both nodes began a link at once and each gave its own up for the other's, both would end. So only one of them
    /// does, unless the other has shown by a connection that it keeps the link that it began.
    fn joins(&self, node_id: [u64; 2], credentials: Credentials, known: usize) -> bool {
        let may = |p: &Peer| node_id < self.base.node_id || !p.connections.is_empty();
        // Ids are said, not proved: only the kernel's word makes it the same process.
        let same = |p: &Peer| p.credentials == credentials;
        let fits = |p: &Peer| same(p) && may(p);
        self.peers.get(known).is_some_and(fits) && self.is_up(known)
    }

    /// The peer turns out to be one that we have a link with: that one is used.
    fn join(&mut self, new: usize, known: usize) {
        let waiting = core::mem::take(&mut self.peers[new].waiting);
        if let Some(name) = self.peers[new].name.take() {
            self.by_name.insert(name.clone(), known);
            self.peers[known].name = Some(name);
        }
        for number in &waiting {
            self.connections[*number as usize].link = known;
            self.peers[new].connections.remove(number);
            self.peers[known].connections.insert(*number);
        }
        self.close_peer(new, Status::Left, None);
        for number in waiting {
            self.open(number);
        }
    }

    /// The node that this plays the part of is on this very host: it is reached by its names.
    pub fn move_to_this_host(&mut self, remote: &Arc<dyn Driven>) {
        let plays = |peer: &Peer| peer.remote.as_ref().is_some_and(|r| is_same(r, remote));
        let Some(index) = self.peers.iter().find(|(_, p)| plays(p)).map(|(i, _)| i) else {
            return;
        };
        for number in core::mem::take(&mut self.peers[index].waiting) {
            let name = self.connections[number as usize].name.clone();
            match self.reach_here(&name) {
                Ok(link) => self.move_connection(number, link),
                Err(error) => self.opening_failed(number, error),
            }
        }
        self.close_peer(index, Status::Left, None);
    }

    /// The link to whoever listens here under a name of our own user's.
    fn reach_here(&mut self, name: &str) -> Result<usize> {
        let own = self.base.own.uid;
        if let Some(link) = self.by_name.get(&(own, name.to_owned())) {
            return Ok(*link);
        }
        self.reach(&socket_name(own, name)?, own, name)
    }

    /// A connection that is yet to be asked for goes over another link.
    fn move_connection(&mut self, number: u32, to: usize) {
        let entry = &mut self.connections[number as usize];
        let from = core::mem::replace(&mut entry.link, to);
        self.peers[from].connections.remove(&number);
        self.peers[to].connections.insert(number);
        if self.is_up(to) {
            self.open(number);
        } else {
            self.peers[to].waiting.push(number);
        }
    }

    pub fn handle_refusal(&mut self, index: usize, code: RejectCode, reason: &str) {
        for number in core::mem::take(&mut self.peers[index].waiting) {
            let error = self.refusal(number, code, reason);
            self.opening_failed(number, error);
        }
        self.close_peer(index, Status::Left, None);
    }
}

/// The peer's doorbell page and, from our own user, its eventfd.
fn checked_wake_up(passed: Passed, same_user: bool) -> Checked<(Window, Option<EventFd>)> {
    let page = (PAGE_BYTES, PeerAccess::ReadWrite);
    let (memfd, waker) = if same_user {
        passed.check_memory([page])?;
        let [memory, waker] = passed.take()?;
        let memfd = Memfd::from_peer(memory, PAGE_BYTES, PeerAccess::ReadWrite)?;
        (memfd, Some(waker))
    } else {
        let [memfd] = passed.take_memory([page])?;
        (memfd, None)
    };
    let region = memfd
        .map(Access::ReadWrite)
        .map_err(|_| Misconduct::Control("doorbell page that can not be mapped here"))?;
    let waker = match waker.map(EventFd::from_peer) {
        None => None,
        Some(Ok(waker)) => Some(waker),
        // Without /proc nothing can be told; then the socket wakes.
        Some(Err(barewire_sys::BadDescriptor::CannotVerify)) => None,
        Some(Err(bad)) => return Err(bad.into()),
    };
    Ok((region.whole(), waker))
}
