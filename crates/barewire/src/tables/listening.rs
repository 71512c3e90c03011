//! Listening sockets: accepting first contacts, and refusing those for which there is no room.

use std::sync::Arc;

use barewire_sys::retire::Guarded;
use barewire_sys::wake::{EventFd, Interest};

use crate::error::Error;
use crate::messages::control::{Message, RejectCode};
use crate::tables::peer::admits;
use crate::tables::state::State;
use crate::tables::token::Token;

/// First contacts taken from one listening socket before the others get a turn.
const CONTACTS_PER_TURN: usize = 64;

impl State {
    /// Takes what waits at a listening socket.
    pub fn accept_sockets(&mut self, listener: usize) {
        for _ in 0..CONTACTS_PER_TURN {
            // Whoever comes may have sent what is slow to close.
            if self.base.retirer.is_full() {
                return self.pause_listeners();
            }
            let Some(entry) = self.listeners.entries.get(listener) else {
                return;
            };
            let socket = match entry.socket.accept() {
                Ok(Some(socket)) => Guarded::new(socket, &self.base.retirer),
                Ok(None) => return,
                Err(_) => return self.turn_one_away(listener),
            };
            let policy = entry.policy.clone();
            let Ok(credentials) = socket.peer_credentials() else {
                continue;
            };
            if !admits(&policy, self.base.own.uid, &socket, &credentials) {
                let refusal = Message::Reject {
                    connection: 0,
                    code: RejectCode::Policy,
                    reason: "not allowed by the listener's policy",
                };
                let _ = socket.send(&refusal.encode(), &[]);
                continue;
            }
            self.limit_greeters();
            let charges = match self.charge_link(&credentials) {
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
            let pidfd = socket.peer_pidfd().map(Arc::new);
            if let Ok(index) = self.add_peer(socket, credentials, pidfd, false) {
                self.peers[index].policy = policy;
                self.peers[index].charges = charges;
            }
        }
    }

    /// No descriptor is left for whoever waits at a listening socket, and it would be
    /// reported again and again. One kept in reserve lets us take it and hang up.
    fn turn_one_away(&mut self, listener: usize) {
        self.listeners.spare = None;
        if let Some(entry) = self.listeners.entries.get(listener) {
            if let Ok(Some(socket)) = entry.socket.accept() {
                self.base.retirer.socket(socket);
            }
        }
        self.listeners.spare = EventFd::new().ok();
    }

    /// Nobody is let in until more has been closed. Who waits, waits in the kernel.
    fn pause_listeners(&mut self) {
        self.listeners.paused = true;
        self.listen_for(Interest::default());
    }

    /// Ends that pause if it is time.
    pub fn resume_listeners(&mut self) {
        if self.listeners.paused && !self.base.retirer.is_full() {
            self.listeners.paused = false;
            self.listen_for(Interest::READ);
        }
    }

    fn listen_for(&self, interest: Interest) {
        for (index, entry) in &self.listeners.entries {
            let token = Token::Listener(index).pack();
            // It can only fail for a descriptor that is not in the set.
            let _ = self.base.epoll.modify(&entry.socket, token, interest);
        }
    }
}
