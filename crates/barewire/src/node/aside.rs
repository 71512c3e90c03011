//! What is done for a node beside whoever polls it: seeing that a peer is gone, and going on
//! with connecting.
//!
//! An importer that never polls its node would go on storing into the memory of the dead, and
//! loading from it. So while a link has apertures of the peer's, a thread of the process
//! ([`barewire_sys::watch`]) watches the link's descriptors for their end. It sets a word in
//! each of these apertures, which every access loads anyway, and rings for those who wait for
//! the owner's stores. It takes no lock of the node's tables: the rest of what a death means
//! waits for the next poll, as ever. A node without imported apertures has no part in it. Why
//! not otherwise: `docs/decisions/0007`.

use std::sync::{Arc, MutexGuard};

use barewire_sys::wake::Interest;
use barewire_sys::watch::{Told, Watched, watch};

use crate::links::link::has_ended;
use crate::node::shared::Shared;
use crate::tables::peer::{Peer, Stage};
use crate::tables::state::State;

impl Peer {
    /// Asks the kernel whether the peer has ended or hung up. A system call.
    pub fn has_ended(&self) -> bool {
        let socket = self.socket.as_ref();
        socket.is_none_or(|socket| has_ended(socket, self.pidfd.as_deref()))
    }

    /// Has the thread of the process call `told` for what `interest` says of the socket, and
    /// for the end of the process; whether it does.
    fn watch(&mut self, interest: Interest, told: Told) -> bool {
        let Some(socket) = self.socket.as_ref().filter(|_| self.watch.is_none()) else {
            return self.watch.is_some();
        };
        let mut watched: Vec<(Watched, Interest)> = vec![(Arc::clone(socket) as _, interest)];
        if let Some(pidfd) = &self.pidfd {
            watched.push((Arc::clone(pidfd) as _, Interest::READ));
        }
        self.watch = watch(watched, told).ok();
        self.watch.is_some()
    }
}

impl Shared {
    /// There is news of this peer, whether or not anybody polls: handles it, and wakes who
    /// waits for it.
    pub fn look_after(&self, index: usize, generation: u32) {
        let mut state = self.state();
        let same = |p: &&Peer| p.generation == generation && p.has_socket();
        let Some(peer) = state.peers.get(index).filter(same) else {
            return;
        };
        if peer.has_ended() {
            state.peer_died(self, index);
        } else if matches!(peer.stage, Stage::Greeting) {
            state.read_socket(self, index);
        } else {
            return;
        }
        self.handled_aside(state);
    }

    /// As [`Shared::look_after`], for the peer of a connection of ours.
    pub fn look_after_peer_of(&self, connection: u32) {
        let state = self.state();
        let link = state.route(connection).map(|(link, _)| link);
        let peer = link.and_then(|link| Some((link, state.peers.get(link)?.generation)));
        drop(state);
        if let Some((index, generation)) = peer {
            self.look_after(index, generation);
        }
    }

    /// Has whoever waits on this node look at what was handled without it.
    fn handled_aside(&self, mut state: MutexGuard<'_, State>) {
        state.close_doomed(self);
        state.news = false;
        state.attract();
        let stale = core::mem::take(&mut state.stale);
        state.renumber_sleep_if_asleep();
        self.pass_on(&state);
        drop(state);
        // Each gives itself back, for which it takes the lock.
        drop(stale);
        self.wake_leader();
    }
}

impl State {
    /// Has the end of a peer tell its apertures even if nobody polls. `false` if no thread can
    /// be started.
    pub fn watch_for_end(&mut self, shared: &Shared, index: usize) -> bool {
        let Some(peer) = self.peers.get_mut(index) else {
            return false;
        };
        let Some(socket) = peer.socket.clone() else {
            return false;
        };
        let (node, granted, pidfd) = (shared.me.clone(), peer.granted.clone(), peer.pidfd.clone());
        let told = move || {
            let node = node.upgrade();
            if let Some(node) = node.filter(|_| has_ended(&socket, pidfd.as_deref())) {
                granted.owner_gone(&node);
            }
        };
        peer.watch(Interest::default(), Arc::new(told))
    }

    /// Has the peer's hello read even if nobody polls. `false` if no thread can be started.
    pub fn watch_for_hello(&mut self, shared: &Shared, index: usize) -> bool {
        let Some(peer) = self.peers.get_mut(index) else {
            return false;
        };
        let (node, generation) = (shared.me.clone(), peer.generation);
        let told = move || {
            if let Some(node) = node.upgrade() {
                node.look_after(index, generation);
            }
        };
        peer.watch(Interest::READ, Arc::new(told))
    }
}
