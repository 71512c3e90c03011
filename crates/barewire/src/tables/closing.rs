//! Closing a link, for whatever reason, and everything that depends on it.

use barewire_cpu::probes::nodes as probes;
use barewire_shm::counters::QueueCounter;

use crate::error::{Error, Misconduct};
use crate::links::link::Status;
use crate::log::{self, Level};
use crate::messages::control::Message;
use crate::tables::entries::Phase;
use crate::tables::peer::{Peer, Stage};
use crate::tables::state::State;

impl State {
    /// Ends a link: nothing is sent or received on it any more. What lies in the rings
    /// can still be taken.
    pub fn close_peer(&mut self, index: usize, status: Status, misconduct: Option<Misconduct>) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let Some(socket) = peer.socket.take() else {
            return;
        };
        self.news = true;
        peer.watch = None;
        self.base.counters.sub(QueueCounter::Links, 1);
        let _ = self.base.epoll.remove(&**socket);
        if let Some(pidfd) = peer.pidfd.take() {
            let _ = self.base.epoll.remove(&pidfd);
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
            if link.remote().is_some() {
                link.ring(self.peers[index].peer_source);
            }
            link.reason()
        } else if let Some(error) = self.peers[index].remote.as_ref().and_then(|r| r.failure()) {
            error
        } else {
            match (status, misconduct) {
                (_, Some(misconduct)) => Error::PeerMisbehaved(misconduct),
                (Status::Died, None) => Error::PeerDied { pid },
                _ => Error::PeerGone,
            }
        };
        probes::link_ended(pid, uid);
        let described = || self.peers[index].described();
        log::line(Level::Info, || {
            format!("the link to {} has ended: {error}", described())
        });
        let granted = core::mem::take(&mut self.peers[index].granted);
        granted.owner_gone(&self.base);
        if node_id.is_some_and(|id| self.by_node_id.get(&id) == Some(&index)) {
            self.by_node_id.retain(|_, at| *at != index);
        }
        if name.is_some_and(|name| self.by_name.get(&name) == Some(&index)) {
            self.by_name.retain(|_, at| *at != index);
        }
        self.doorbells.sweep(uid);
        self.forget_user(uid);
        self.exports.forget_link(index);
        self.end_connections(index, &error);
        let source = self.peers.get(index).map(|p| p.source);
        if let Some(source) = source {
            self.doorbells.free_source(source);
        }
        // The slot is kept until the last connection that refers to it is gone.
        self.forget_peer_if_done(index);
    }

    fn end_connections(&mut self, index: usize, error: &Error) {
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
            self.free_if_done(number);
        }
    }

    /// Gives up the doorbell page of another user's peers when the last has gone.
    fn forget_user(&mut self, uid: u32) {
        let linked = |p: &Peer| p.credentials.uid == uid && p.has_socket();
        if self.base.is_foreign(uid) && !self.peers.iter().any(|(_, p)| linked(p)) {
            self.doorbells.forget(uid);
        }
    }

    pub fn close_for_misconduct(&mut self, index: usize, reason: Misconduct) {
        let level = match reason {
            Misconduct::Exceeds { .. } => Level::Warn,
            _ => Level::Error,
        };
        if let Some(peer) = self.peers.get(index) {
            log::line(level, || {
                format!("the link to {} is ended: {reason}", peer.described())
            });
        }
        if let Misconduct::Exceeds { .. } = reason {
            self.send_reason(index, reason);
        } else {
            self.base.counters.add(QueueCounter::Violations, 1);
        }
        self.close_peer(index, Status::Misbehaved, Some(reason));
    }

    /// Closes the link of an open connection for this reason, which the peer is told.
    pub fn end_link_of(&mut self, connection: u32, reason: Misconduct) {
        if let Some(entry) = self.connections.get(connection as usize) {
            self.close_for_misconduct(entry.link, reason);
        }
    }

    /// Closes the links that were to be closed.
    pub fn close_marked(&mut self) {
        while let Some((index, generation, reason)) = self.to_close.pop() {
            let same = |p: &Peer| p.generation == generation;
            if self.peers.get(index).is_some_and(same) {
                match reason {
                    Some(reason) => self.close_for_misconduct(index, reason),
                    None => self.close_peer(index, Status::Left, None),
                }
            }
        }
    }
}
