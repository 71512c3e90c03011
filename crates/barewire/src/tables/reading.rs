//! Reads the control messages of peers, and hands each to the code for what it is about.
//!
//! Whatever a peer sends is checked before it is used. A violation closes the link, with an error
//! that names it, and affects no other link.

use barewire_cpu::probes::nodes as probes;
use barewire_shm::counters::QueueCounter;
use barewire_sys::memory::{Access, PeerAccess};
use barewire_sys::socket::RIGHTS_MAX;
use barewire_sys::wake::EpollEvent;

use crate::error::Misconduct;
use crate::links::arena::SEGMENTS_MAX;
use crate::links::budget::Resource;
use crate::links::link::Status;
use crate::log::{self, Level};
use crate::messages::control::{MESSAGE_BYTES_MAX, Message, THE_LINK};
use crate::messages::passed::{Checked, ControlInput, Passed, receive_control};
use crate::tables::events::Pending;
use crate::tables::peer::{Peer, Stage};
use crate::tables::sending::OUT_OF_BAND_MAX;
use crate::tables::state::State;
use crate::tables::token::Token;

/// Control messages read from one socket before the others get a turn.
const MESSAGES_PER_TURN: usize = 64;
/// Messages read from a socket whose other end has hung up: more than a socket holds. They
/// would not end if it only looked so.
const LAST_WORDS_MAX: usize = 4096;
/// Largest segment of a peer's arena.
const PEER_SEGMENT_BYTES_MAX: u64 = 1 << 30;

impl State {
    /// One of our descriptors has something.
    pub fn socket_event(&mut self, event: &EpollEvent) {
        match Token::unpack(event.token) {
            None => {}
            Some(Token::Listener(index)) => self.accept_sockets(index),
            Some(Token::Socket(index, generation)) if self.is_peer(index, generation) => {
                if event.writable {
                    self.flush(index);
                }
                if event.hangup {
                    // Nothing more can come: what is left is read, however much it is.
                    self.handle_death(index);
                } else {
                    self.read_socket(index);
                }
            }
            Some(Token::Death(index, generation)) if self.is_peer(index, generation) => {
                self.handle_death(index);
            }
            // Of a peer that is gone.
            Some(Token::Socket(..) | Token::Death(..)) => {}
        }
    }

    /// Reads what a peer has sent.
    pub fn read_socket(&mut self, index: usize) {
        for _ in 0..MESSAGES_PER_TURN {
            let peer = self.peers.get(index).filter(|p| !p.paused && !p.is_closing);
            let Some(socket) = peer.and_then(|p| p.socket.clone()) else {
                return;
            };
            let mut buffer = [0; MESSAGE_BYTES_MAX];
            let foreign = self.is_foreign(index);
            let (len, passed) =
                match receive_control(&socket, foreign, &mut buffer, &self.base.retirer) {
                    ControlInput::Message(len, passed) => (len, passed),
                    ControlInput::Nothing => return,
                    ControlInput::Closed => return self.handle_death(index),
                    ControlInput::Wrong(reason) => return self.close_for_misconduct(index, reason),
                    ControlInput::NoDescriptorsLeft => {
                        let (what, limit) =
                            ("descriptors than this process may open", RIGHTS_MAX as u64);
                        return self
                            .close_for_misconduct(index, Misconduct::Exceeds { what, limit });
                    }
                };
            self.news = true;
            let handled = match Message::parse(&buffer[..len]) {
                Some(message) => self.handle(index, message, passed),
                None => Err(Misconduct::Control("not a message")),
            };
            if let Err(reason) = handled {
                self.close_for_misconduct(index, reason);
                return;
            }
        }
        // More may be left; it is announced again by epoll, or found here.
        self.pending_read(index);
    }

    /// The peer's process is gone. What it sent before is read first.
    pub fn handle_death(&mut self, index: usize) {
        let socket = self.peers.get(index).and_then(|p| p.socket.clone());
        let mut died = true;
        if let Some(socket) = socket {
            let mut buffer = [0; MESSAGE_BYTES_MAX];
            let foreign = self.is_foreign(index);
            for _ in 0..LAST_WORDS_MAX {
                let up = |p: &Peer| p.socket.is_some() && !p.is_closing;
                if !self.peers.get(index).is_some_and(up) {
                    break;
                }
                let heard = receive_control(&socket, foreign, &mut buffer, &self.base.retirer);
                let ControlInput::Message(len, passed) = heard else {
                    break;
                };
                let Some(message) = Message::parse(&buffer[..len]) else {
                    break;
                };
                died &= message != Message::Bye;
                if self.handle(index, message, passed).is_err() {
                    break;
                }
            }
        }
        if died && self.peers.get(index).is_some_and(|p| p.socket.is_some()) {
            self.base.counters.add(QueueCounter::Deaths, 1);
            let peer = &self.peers[index];
            probes::peer_died(peer.credentials.pid, peer.credentials.uid);
            log::line(Level::Warn, || format!("{} has died", peer.described()));
        }
        self.close_peer(index, Status::Died, None);
    }

    fn handle(&mut self, index: usize, message: Message<'_>, passed: Passed) -> Checked {
        let peer = self.peers.get(index).ok_or(Misconduct::Control("closed"))?;
        let greeting = matches!(peer.stage, Stage::Greeting);
        match message {
            Message::Hello { .. } if greeting => self.handle_hello(index, &message, passed),
            Message::Reject { code, reason, .. } if greeting => {
                self.handle_refusal(index, code, reason);
                Ok(())
            }
            Message::Bye => {
                self.close_peer(index, Status::Left, None);
                Ok(())
            }
            _ if greeting => Err(Misconduct::Control("spoke before saying hello")),
            Message::Hello { .. } => Err(Misconduct::Control("said hello twice")),
            Message::Segment { number, len_bytes } => {
                self.handle_segment(index, number, len_bytes, passed)
            }
            Message::Open { .. } => self.handle_open(index, &message),
            Message::Reject {
                connection: THE_LINK,
                reason,
                ..
            } => {
                if let Stage::Up(link) = &peer.stage {
                    link.refused(reason);
                }
                self.close_peer(index, Status::Left, None);
                Ok(())
            }
            Message::Accept { .. } => self.handle_accept(index, &message),
            Message::Reject {
                connection,
                code,
                reason,
            } => self.handle_reject(index, connection, code, reason),
            Message::Detach { connection } => self.handle_detach(index, connection),
            Message::Abandon { connection } => {
                self.handle_abandon(index, connection);
                Ok(())
            }
            Message::Grant { .. } => self.handle_grant(index, &message, passed),
            Message::Release { aperture } => {
                self.exports.released(aperture, index);
                Ok(())
            }
            Message::Revoke { aperture } => {
                self.peers[index].granted.revoked(aperture, &self.base);
                Ok(())
            }
            Message::OutOfBand { connection, data } => {
                self.handle_out_of_band(index, connection, data)
            }
            Message::Wake => Ok(()),
        }
    }

    fn handle_segment(
        &mut self,
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
        let charges = self.charge(index, &[(Resource::Mappings, 1)])?;
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

    fn handle_out_of_band(&mut self, index: usize, connection: u32, data: &[u8]) -> Checked {
        let Some(serial) = self.serial_if_open(index, connection)? else {
            return Ok(());
        };
        let wanted = [
            (Resource::Events, 1),
            (Resource::PrivateBytes, data.len() as u64 + 128),
        ];
        let charges = self.charge(index, &wanted)?;
        self.connections[connection as usize].events += 1;
        let peer = &mut self.peers[index];
        let generation = peer.generation;
        peer.out_of_band += 1;
        if peer.out_of_band >= OUT_OF_BAND_MAX {
            // The rest waits in the socket, and then at the sender.
            peer.paused = true;
            self.set_interest(index);
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
