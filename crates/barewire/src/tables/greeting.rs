//! First contact: who may have a link, and the exchange of hellos that makes one.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use barewire_fabric::OverBudget;
use barewire_fabric::doorbell::PAGE_BYTES;
use barewire_shm::Window;
use barewire_sys::memory::{Access, Memfd, PeerAccess};
use barewire_sys::process::Credentials;
use barewire_sys::retire::Guarded;
use barewire_sys::socket::Socket;
use barewire_sys::wake::{EventFd, Interest};

use crate::config::Policy;
use crate::error::{Error, Misconduct, Result};
use crate::links::budget::{Charges, Resource};
use crate::links::link::{Link, Status};
use crate::messages::control::{FLAG_MEMBARRIER, Message, RejectCode, VERSION};
use crate::messages::passed::Passed;
use crate::node::shared::Shared;
use crate::tables::peer::{
    Checked, MESSAGES_PER_TURN, Peer, Stage, checked_source, descriptors_exhausted,
};
use crate::tables::state::{State, Token};

/// Peers that may have connected and not yet said who they are.
const GREETING_MAX: usize = 256;

/// What a link takes: its socket and the process's descriptor; the peer's doorbell page.
const LINK: [(Resource, u64); 4] = [
    (Resource::Links, 1),
    (Resource::Descriptors, 2),
    (Resource::Mappings, 1),
    (Resource::PrivateBytes, 4096),
];

impl State {
    /// Takes what waits at a listening socket.
    pub(crate) fn accept_sockets(&mut self, shared: &Shared, listener: usize) {
        for _ in 0..MESSAGES_PER_TURN {
            // Whoever comes may have sent what is slow to close.
            if shared.retirer.is_full() {
                return self.pause_listeners(shared);
            }
            let Some(entry) = self.listeners.get(listener) else {
                return;
            };
            let socket = match entry.socket.accept() {
                Ok(Some(socket)) => Guarded::new(socket, &shared.retirer),
                Ok(None) => return,
                Err(_) => return self.turn_one_away(shared, listener),
            };
            let policy = entry.policy.clone();
            let Ok(credentials) = socket.peer_credentials() else {
                continue;
            };
            if !admits(&policy, shared, &socket, &credentials) {
                let refusal = Message::Reject {
                    connection: 0,
                    code: RejectCode::Policy,
                    reason: "not allowed by the listener's policy",
                };
                let _ = socket.send(&refusal.encode(), &[]);
                continue;
            }
            self.limit_greeters(shared);
            let charges = match self.charge_link(shared, &credentials) {
                Ok(charges) => charges,
                Err(exceeded) => {
                    let reason = Error::from(exceeded).to_string();
                    let refusal = Message::Reject {
                        connection: 0,
                        code: RejectCode::Busy,
                        reason: &reason,
                    };
                    let _ = socket.send(&refusal.encode(), &[]);
                    continue;
                }
            };
            if let Ok(index) = self.add_peer(shared, socket, credentials, false) {
                self.peers[index].policy = policy;
                self.peers[index].charges = charges;
            }
        }
    }

    /// No descriptor is left for whoever waits at a listening socket, and it would be
    /// reported again and again. One kept in reserve lets us take it and hang up.
    fn turn_one_away(&mut self, shared: &Shared, listener: usize) {
        self.spare = None;
        if let Some(entry) = self.listeners.get(listener) {
            if let Ok(Some(socket)) = entry.socket.accept() {
                shared.retirer.socket(socket);
            }
        }
        self.spare = EventFd::new().ok();
    }

    /// Nobody is let in until more has been closed. Who waits, waits in the kernel.
    fn pause_listeners(&mut self, shared: &Shared) {
        self.listeners_paused = true;
        self.listen_for(shared, Interest::default());
    }

    /// Ends that pause if it is time.
    pub(crate) fn resume_listeners(&mut self, shared: &Shared) {
        if self.listeners_paused && !shared.retirer.is_full() {
            self.listeners_paused = false;
            self.listen_for(shared, Interest::READ);
        }
    }

    fn listen_for(&self, shared: &Shared, interest: Interest) {
        for (index, entry) in &self.listeners {
            let token = Token::Listener(index).pack();
            // It can only fail for a descriptor that is not in the set.
            let _ = shared.epoll.modify(&entry.socket, token, interest);
        }
    }

    /// Charges a user with one more link. If one of its links has not been greeted yet, that
    /// one makes room.
    pub(crate) fn charge_link(
        &mut self,
        shared: &Shared,
        who: &Credentials,
    ) -> Result<Charges, OverBudget> {
        if who.uid == shared.own.uid {
            return Ok(Charges::default());
        }
        let charged = self.accounts.charge(who.uid, &LINK);
        if charged.is_ok() || !self.drop_greeter(shared, who.uid) {
            return charged;
        }
        self.accounts.charge(who.uid, &LINK)
    }

    /// Makes room when too many have connected without saying hello: the oldest goes, of
    /// the user who has most of them, so that nobody can drive the others out.
    fn limit_greeters(&mut self, shared: &Shared) {
        let mut users: HashMap<u32, usize> = HashMap::new();
        for (_, peer) in self.peers.iter().filter(|(_, p)| p.is_greeter()) {
            *users.entry(peer.credentials.uid).or_default() += 1;
        }
        if users.values().sum::<usize>() < GREETING_MAX {
            return;
        }
        if let Some((uid, _)) = users.into_iter().max_by_key(|(_, count)| *count) {
            self.drop_greeter(shared, uid);
        }
    }

    fn drop_greeter(&mut self, shared: &Shared, uid: u32) -> bool {
        let theirs = |p: &Peer| p.is_greeter() && p.credentials.uid == uid;
        let greeters = self.peers.iter().filter(|(_, p)| theirs(p));
        let oldest = greeters.min_by_key(|(_, p)| p.generation).map(|(i, _)| i);
        if let Some(index) = oldest {
            self.close_peer(shared, index, Status::Left, None);
        }
        oldest.is_some()
    }

    pub(crate) fn say_hello(&mut self, shared: &Shared, index: usize) -> Result<()> {
        let (uid, source) = {
            let peer = &self.peers[index];
            (peer.credentials.uid, peer.source)
        };
        let page = self
            .domain_descriptor(uid)?
            .try_clone_to_owned()
            .map_err(|_| descriptors_exhausted())?;
        let flags = if shared.membarrier {
            FLAG_MEMBARRIER
        } else {
            0
        };
        let hello = Message::Hello {
            version: VERSION,
            node_id: shared.node_id,
            flags,
            source,
        };
        // A foreign user gets no eventfd of ours to fill up; it wakes us by the socket,
        // as we wake it.
        if uid == shared.own.uid {
            let fds = [page.as_fd(), shared.eventfd.as_fd()];
            self.send(shared, index, &hello, &fds);
        } else {
            self.send(shared, index, &hello, &[page.as_fd()]);
        }
        Ok(())
    }

    pub(crate) fn hello(
        &mut self,
        shared: &Shared,
        index: usize,
        message: &Message<'_>,
        passed: Passed,
    ) -> Checked {
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
            self.send_reject(shared, index, 0, RejectCode::Version, &reason);
            self.refused_at_once(shared, index, RejectCode::Version, &reason);
            return Ok(());
        }
        let far_source = checked_source(source)?;
        let same_user = self.peers[index].credentials.uid == shared.own.uid;
        let (page, waker) = checked_wake_up(passed, same_user)?;
        let initiator = self.peers[index].initiator;
        if !initiator && self.say_hello(shared, index).is_err() {
            self.close_peer(shared, index, Status::Left, None);
            return Ok(());
        }
        let peer = &mut self.peers[index];
        let Some(socket) = peer.socket.clone() else {
            return Ok(());
        };
        peer.far_source = far_source;
        peer.node_id = Some(node_id);
        // Our light fence may be free only if their heavy one reaches us.
        let asymmetric = shared.membarrier && flags & FLAG_MEMBARRIER != 0;
        let counters = shared.counters.clone();
        let credentials = peer.credentials;
        let pidfd = peer.pidfd.clone();
        let link = Link::new(
            socket,
            pidfd,
            credentials,
            page,
            waker,
            asymmetric,
            counters,
        );
        peer.stage = Stage::Up(Arc::new(link));
        peer.watch = None;
        if node_id != shared.node_id {
            let known = *self.by_node_id.entry(node_id).or_insert(index);
            // Ids are said, not proved: only the kernel's word makes it the same process.
            let same = self.peers.get(known).map(|p| p.credentials) == Some(credentials);
            if initiator && known != index && same && self.is_up(known) {
                self.join(shared, index, known);
                return Ok(());
            }
        }
        for number in core::mem::take(&mut self.peers[index].waiting) {
            self.open(shared, number);
        }
        Ok(())
    }

    /// The peer turns out to be one that we have a link with: that one is used.
    pub(crate) fn join(&mut self, shared: &Shared, new: usize, known: usize) {
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
        self.close_peer(shared, new, Status::Left, None);
        for number in waiting {
            self.open(shared, number);
        }
    }

    pub(crate) fn refused_at_once(
        &mut self,
        shared: &Shared,
        index: usize,
        code: RejectCode,
        reason: &str,
    ) {
        for number in core::mem::take(&mut self.peers[index].waiting) {
            let error = self.refusal(number, code, reason);
            self.opening_failed(number, error);
        }
        self.close_peer(shared, index, Status::Left, None);
    }
}

pub(crate) fn admits(policy: &Policy, shared: &Shared, socket: &Socket, who: &Credentials) -> bool {
    let groups = socket.peer_groups().unwrap_or_default();
    policy.allows(shared.own.uid, who, &groups)
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
