//! What a node keeps of one peer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_shm::Region;
use barewire_sys::process::Credentials;
use barewire_sys::retire::Guarded;
use barewire_sys::socket::Socket;
use barewire_sys::wake::Interest;
use barewire_sys::watch::{Told, Watch, Watched, watch};

use crate::apertures::access::Granted;
use crate::config::Policy;
use crate::error::Misconduct;
use crate::links::arena::Arena;
use crate::links::budget::Charges;
use crate::links::driven::Driven;
use crate::links::link::{Link, Status, has_ended};
use crate::messages::control::Message;
use crate::messages::passed::Checked;

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
    /// What plays its part, if it is on another host.
    pub remote: Option<Arc<dyn Driven>>,
    /// While the thread of the process watches its descriptors for us.
    pub watch: Option<Watch>,
    pub stage: Stage,
    /// Whether we have connected to it, and not it to us.
    pub initiator: bool,
    /// The bit by which the peer announces control messages.
    pub source: u32,
    /// The bit by which we do.
    pub peer_source: u32,
    pub arena: Arena,
    pub segments: Vec<Region>,
    pub outbox: VecDeque<(Vec<u8>, Vec<OwnedFd>, Charges)>,
    pub charges: Charges,
    /// Our numbers of the connections with this peer.
    pub connections: HashSet<u32>,
    /// Its connections that wait for our answer: its numbers and ours.
    pub requests: HashMap<u32, u32>,
    /// Out-of-band messages that the owner has not taken.
    pub out_of_band: u32,
    /// Not read from until the owner has taken some.
    pub paused: bool,
    /// Its link is about to be closed: see `State::close_later`.
    pub is_closing: bool,
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
    /// One that has been met at `socket`, and not been greeted.
    pub fn new(
        generation: u32,
        socket: Guarded,
        credentials: Credentials,
        pidfd: Option<Arc<OwnedFd>>,
        source: u32,
    ) -> Peer {
        Peer {
            generation,
            socket: Some(Arc::new(socket)),
            credentials,
            pidfd,
            remote: None,
            watch: None,
            stage: Stage::Greeting,
            initiator: false,
            source,
            peer_source: 0,
            arena: Arena::default(),
            segments: Vec::new(),
            outbox: VecDeque::new(),
            charges: Charges::default(),
            connections: HashSet::new(),
            requests: HashMap::new(),
            out_of_band: 0,
            paused: false,
            is_closing: false,
            waiting: Vec::new(),
            node_id: None,
            name: None,
            policy: Policy::default(),
            granted: Granted::default(),
        }
    }

    /// Who it is, for the log.
    pub fn described(&self) -> String {
        let remote = self.remote.as_ref().and_then(|remote| remote.peer());
        match remote {
            Some(node) => format!("the node at {}", node.address),
            None => {
                let Credentials { pid, uid, .. } = self.credentials;
                format!("process {pid} of user {uid}")
            }
        }
    }

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

    pub fn send_bye(&self) {
        if let Some(socket) = &self.socket {
            // If it does not get through, the peer learns of it by the hang-up.
            let _ = socket.send(&Message::Bye.encode(), &[]);
        }
        if let Stage::Up(link) = &self.stage {
            if link.remote().is_some() {
                link.ring(self.peer_source);
            }
            link.close(Status::Left, None);
        }
    }

    /// Asks the kernel whether the peer has ended or hung up. A system call.
    pub fn has_ended(&self) -> bool {
        let socket = self.socket.as_ref();
        socket.is_none_or(|socket| has_ended(socket, self.pidfd.as_deref()))
    }

    /// Has the thread of the process call `report` for what `interest` says of the socket, and
    /// for the end of the process; whether it does.
    pub fn watch(&mut self, interest: Interest, report: Told) -> bool {
        let Some(socket) = self.socket.as_ref().filter(|_| self.watch.is_none()) else {
            return self.watch.is_some();
        };
        let mut watched: Vec<(Watched, Interest)> = vec![(Arc::clone(socket) as _, interest)];
        if let Some(pidfd) = &self.pidfd {
            watched.push((Arc::clone(pidfd) as _, Interest::READ));
        }
        self.watch = watch(watched, report).ok();
        self.watch.is_some()
    }
}

/// Whether the policy of a listener of user `own_uid` lets the other end of `socket` in.
pub(crate) fn admits(policy: &Policy, own_uid: u32, socket: &Socket, who: &Credentials) -> bool {
    let groups = socket.peer_groups().unwrap_or_default();
    policy.allows(own_uid, who, &groups)
}

impl Peer {
    /// Whether the policy of a listener of user `own_uid` lets this peer in.
    pub fn is_admitted(&self, policy: &Policy, own_uid: u32) -> bool {
        match (&self.remote, &self.socket) {
            (Some(remote), _) => {
                let known = remote.peer();
                known.is_some_and(|peer| policy.allows_host(&peer.identity))
            }
            (None, Some(socket)) => admits(policy, own_uid, socket, &self.credentials),
            (None, None) => false,
        }
    }
}

/// A doorbell bit that a peer has named.
pub(crate) fn checked_source(source: u32) -> Checked<u32> {
    if source < SOURCES_MAX {
        Ok(source)
    } else {
        Err(Misconduct::Control("doorbell bit beyond the page"))
    }
}
