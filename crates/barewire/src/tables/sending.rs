//! Sends control messages to peers, now or when the peer has read earlier ones.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use barewire_fabric::doorbell;
use barewire_shm::counters::QueueCounter;
use barewire_sys::SysError;
use barewire_sys::socket::Sent;
use barewire_sys::wake::Interest;

use crate::error::{Error, Misconduct, Result, descriptors_exhausted};
use crate::links::budget::Resource;
use crate::messages::control::{Message, RejectCode, THE_LINK};
use crate::tables::peer::Stage;
use crate::tables::state::State;
use crate::tables::token::Token;

/// Out-of-band messages of one peer that wait for our owner to take them.
pub(crate) const OUT_OF_BAND_MAX: u32 = 64;
/// Messages that may wait for a peer that does not read.
const OUTBOX_MAX: usize = 300_000;
/// As [`OUTBOX_MAX`], for a peer of another user.
const OUTBOX_FOREIGN_MAX: usize = 16_384;

impl State {
    /// Sends a control message, now or when the peer has read others. What became of the
    /// peer is seen when its socket is read.
    pub fn send(&mut self, index: usize, message: &Message<'_>, fds: &[BorrowedFd<'_>]) {
        let Some(peer) = self.peers.get_mut(index).filter(|p| !p.is_closing) else {
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
                        link.ring(peer.peer_source);
                    }
                    return;
                }
                Ok(Sent::WouldBlock) => {}
                // It will be seen when the socket is read.
                Err(SysError::Hangup { .. }) => return,
                // The peer would misread everything after what it does not get.
                Err(_) => return self.close_later(index, None),
            }
        }
        let own = peer.credentials.uid == self.base.own.uid;
        let max = if own { OUTBOX_MAX } else { OUTBOX_FOREIGN_MAX };
        if peer.outbox.len() >= max {
            let reason = Misconduct::Control("does not read its control channel");
            return self.close_later(index, Some(reason));
        }
        let owned: Option<Vec<OwnedFd>> =
            fds.iter().map(|fd| fd.try_clone_to_owned().ok()).collect();
        // Without descriptors to keep, the message can not wait; the peer would misread
        // everything after it, so the link ends here.
        let Some(owned) = owned else {
            return self.close_later(index, None);
        };
        let wanted = [
            (Resource::PrivateBytes, bytes.len() as u64 + 128),
            (Resource::Descriptors, owned.len() as u64),
        ];
        let charges = match self.charge(index, &wanted) {
            Ok(charges) => charges,
            Err(exceeded) => return self.close_later(index, Some(exceeded.into())),
        };
        let peer = &mut self.peers[index];
        peer.outbox.push_back((bytes, owned, charges));
        if peer.outbox.len() == 1 {
            self.set_interest(index);
        }
    }

    pub fn send_reject(&mut self, link: usize, connection: u32, code: RejectCode, reason: &str) {
        let message = Message::Reject {
            connection,
            code,
            reason,
        };
        self.send(link, &message, &[]);
    }

    /// Sends a message outside the queue of a connection; `false` if the peer has too many
    /// unread.
    pub fn send_out_of_band(&mut self, number: u32, data: &[u8]) -> Result<bool> {
        let (link, connection) = self.route(number).ok_or(Error::PeerGone)?;
        if self.peers[link].congested() {
            return Ok(false);
        }
        self.send(link, &Message::OutOfBand { connection, data }, &[]);
        Ok(true)
    }

    /// Has a link closed as soon as whoever is at work on it has finished. Nothing is sent
    /// on it any more.
    pub fn close_later(&mut self, index: usize, reason: Option<Misconduct>) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.is_closing = true;
            self.to_close.push((index, peer.generation, reason));
            self.attract();
        }
    }

    /// Tells a peer that has asked for too much why its link ends.
    pub fn send_reason(&mut self, index: usize, reason: Misconduct) {
        self.base.counters.add(QueueCounter::Refusals, 1);
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

    /// Has epoll report what we can handle now.
    pub fn set_interest(&self, index: usize) {
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
        let _ = self.base.epoll.modify(&***socket, token, interest);
    }

    /// Sends what waited for the peer to read.
    pub fn flush(&mut self, index: usize) {
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
                Err(_) => return self.close_later(index, None),
            }
        }
        if let Stage::Up(link) = &peer.stage {
            link.ring(peer.peer_source);
        }
        if peer.outbox.is_empty() {
            self.set_interest(index);
        }
    }

    pub fn announce_segments(&mut self, index: usize) -> Result<()> {
        while let Some((number, len_bytes, fd)) = self.peers[index].arena.unannounced() {
            let fd = fd
                .try_clone_to_owned()
                .map_err(|_| descriptors_exhausted())?;
            let message = Message::Segment { number, len_bytes };
            self.send(index, &message, &[fd.as_fd()]);
        }
        Ok(())
    }

    pub fn pending_read(&mut self, index: usize) {
        if let Some(peer) = self.peers.get(index) {
            doorbell::ring(&self.base.own_page, peer.source);
        }
    }

    /// The owner has taken an out-of-band message of the peer at this index.
    pub fn resume_if_read(&mut self, index: usize, generation: u32) {
        let peer = self.peers.get_mut(index);
        let Some(peer) = peer.filter(|p| p.generation == generation) else {
            return;
        };
        peer.out_of_band = peer.out_of_band.saturating_sub(1);
        if peer.paused && peer.out_of_band < OUT_OF_BAND_MAX / 2 {
            peer.paused = false;
            self.set_interest(index);
            self.pending_read(index);
        }
    }
}
