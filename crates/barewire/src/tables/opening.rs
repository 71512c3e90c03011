//! Opening, accepting and refusing connections: the messages of both sides, and what follows
//! from them.

use barewire_fabric::frame::{LINE_BYTES, region_bytes, ring_bytes_valid};
use barewire_shm::Window;

use crate::error::{Error, Misconduct, Result};
use crate::links::budget::Resource;
use crate::messages::control::{Message, RegionRef, RejectCode};
use crate::messages::passed::Checked;
use crate::tables::entries::{PeerHalf, Phase};
use crate::tables::events::{Opened, Pending};
use crate::tables::peer::checked_source;
use crate::tables::state::State;

/// Private memory for a peer's ring: a bit for each line of it.
fn bits_bytes(ring_bytes: usize) -> u64 {
    (ring_bytes / LINE_BYTES / 8) as u64
}

impl State {
    /// Sends the request for a connection, now that the link is up.
    pub fn open(&mut self, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.phase != Phase::Opening {
            // Given up before it was even asked for.
            entry.handle_gone = true;
            entry.peer_detached = true;
            return self.free_if_done(number);
        }
        let (link, source, ring_bytes) = (entry.link, entry.source, entry.wanted_ring_bytes);
        let region = match self.give_region(number, ring_bytes) {
            Ok(region) => region,
            Err(error) => return self.opening_failed(number, error),
        };
        let entry = &self.connections[number as usize];
        let (name, data) = (entry.name.clone(), entry.data.clone());
        let message = Message::Open {
            connection: number,
            region,
            source,
            message_bytes_max: entry.message_bytes_max as u64,
            name: &name,
            data: &data,
        };
        self.send(link, &message, &[]);
    }

    /// Checks where the peer wants us to store.
    fn peer_region(&self, index: usize, region: &RegionRef) -> Checked<(Window, usize)> {
        let ring_bytes = region.ring_bytes as usize;
        let offset = usize::try_from(region.offset).unwrap_or(usize::MAX);
        if !ring_bytes_valid(ring_bytes) || offset % 64 != 0 {
            return Err(Misconduct::Control("region of impossible size or offset"));
        }
        let segment = self.peers[index].segments.get(region.segment as usize);
        segment
            .and_then(|s| s.window(offset, region_bytes(ring_bytes)))
            .map(|window| (window, ring_bytes))
            .ok_or(Misconduct::Control("region outside its segment"))
    }

    /// The peer asks for a connection.
    pub fn handle_open(&mut self, index: usize, message: &Message<'_>) -> Checked {
        let &Message::Open {
            connection,
            region,
            source,
            message_bytes_max,
            name,
            data,
        } = message
        else {
            return Err(Misconduct::Control("not an open"));
        };
        let (window, ring_bytes) = self.peer_region(index, &region)?;
        let peer_half = PeerHalf {
            number: connection,
            window,
            ring_bytes,
            source: checked_source(source)?,
            message_bytes_max,
        };
        self.add_request(index, peer_half, name, data);
        Ok(())
    }

    fn add_request(&mut self, index: usize, peer_half: PeerHalf, name: &str, data: &[u8]) {
        let connection = peer_half.number;
        let refuse = |state: &mut State, code, reason: &str| {
            state.send_reject(index, connection, code, reason);
        };
        let found = self.listeners.entries.iter().find(|(_, l)| l.name == name);
        let Some((listener, entry)) = found else {
            return refuse(
                self,
                RejectCode::NoSuchName,
                "nobody listens under this name",
            );
        };
        // A link made through one listener reaches the others; each has its own policy.
        let peer = &self.peers[index];
        if !peer.is_admitted(&entry.policy, self.base.own.uid) {
            return refuse(
                self,
                RejectCode::Policy,
                "not allowed by the listener's policy",
            );
        }
        if entry.waiting >= self.base.live().config.backlog_max {
            return refuse(
                self,
                RejectCode::Busy,
                "too many requests wait to be accepted",
            );
        }
        let max = self.base.live().config.foreign_ring_bytes_max;
        if self.is_foreign(index) && peer_half.ring_bytes > max {
            let reason = format!("a ring of more than {max} bytes, which is the most here");
            return refuse(self, RejectCode::Busy, &reason);
        }
        let private = bits_bytes(peer_half.ring_bytes) + data.len() as u64;
        let charged = self.charge(index, &[(Resource::PrivateBytes, private)]);
        let added = charged.map_err(Error::from).and_then(|charges| {
            let number = self.add_connection(index, Phase::Requested, name)?;
            self.connections[number as usize].charges.add(charges);
            Ok(number)
        });
        match added {
            Ok(number) => {
                self.listeners.entries[listener].waiting += 1;
                self.peers[index].requests.insert(connection, number);
                let entry = &mut self.connections[number as usize];
                entry.data = data.to_vec();
                entry.listener = Some(listener);
                entry.peer_half = Some(peer_half);
                let serial = entry.serial;
                self.push(Pending::Request { number, serial });
            }
            Err(error) => refuse(self, RejectCode::Busy, &error.to_string()),
        }
    }

    pub fn handle_accept(&mut self, index: usize, message: &Message<'_>) -> Checked {
        let &Message::Accept {
            connection,
            own,
            region,
            source,
            message_bytes_max,
        } = message
        else {
            return Err(Misconduct::Control("not an accept"));
        };
        let phase = self.own_connection(index, connection)?;
        let (window, ring_bytes) = self.peer_region(index, &region)?;
        let max = self.base.live().config.foreign_ring_bytes_max;
        if self.is_foreign(index) && ring_bytes > max {
            let (what, limit) = ("bytes of a ring of this user", max as u64);
            return Err(Misconduct::Exceeds { what, limit });
        }
        let private = [(Resource::PrivateBytes, bits_bytes(ring_bytes))];
        let charges = self.charge(index, &private)?;
        let source = checked_source(source)?;
        let entry = &mut self.connections[connection as usize];
        if entry.peer_half.is_some() {
            return Err(Misconduct::Control("accepts twice"));
        }
        entry.charges.add(charges);
        let peer_half = PeerHalf {
            number: own,
            window,
            ring_bytes,
            source,
            message_bytes_max,
        };
        match phase {
            Phase::Opening => {
                entry.peer_half = Some(peer_half);
                entry.phase = Phase::Open;
                if entry.announce {
                    let (number, serial) = (connection, entry.serial);
                    self.push(Pending::Connected { number, serial });
                }
                Ok(())
            }
            Phase::Abandoned => {
                entry.peer_half = Some(peer_half);
                // As if it had been opened and closed: the peer closes its end as usual.
                entry.phase = Phase::Open;
                self.drop_handle(connection);
                Ok(())
            }
            Phase::Requested | Phase::Open => Err(Misconduct::Control("accepts out of turn")),
        }
    }

    pub fn handle_reject(
        &mut self,
        index: usize,
        connection: u32,
        code: RejectCode,
        reason: &str,
    ) -> Checked {
        match self.own_connection(index, connection)? {
            Phase::Opening => {
                if code == RejectCode::NoSuchName {
                    let uid = self.peers[index].credentials().uid;
                    let name = self.connections[connection as usize].name.clone();
                    self.by_name.remove(&(uid, name));
                }
                let error = self.refusal(connection, code, reason);
                self.opening_failed(connection, error);
            }
            Phase::Abandoned => {
                self.connections[connection as usize].peer_detached = true;
                self.drop_handle(connection);
            }
            Phase::Requested | Phase::Open => {
                return Err(Misconduct::Control("rejects out of turn"));
            }
        }
        Ok(())
    }

    pub fn handle_detach(&mut self, index: usize, connection: u32) -> Checked {
        let phase = self.own_connection(index, connection)?;
        let entry = &mut self.connections[connection as usize];
        if phase != Phase::Open || entry.peer_detached {
            return Err(Misconduct::Control("detaches out of turn"));
        }
        entry.peer_detached = true;
        self.push_ready(connection);
        self.report_closed(connection);
        self.free_if_done(connection);
        Ok(())
    }

    /// The opener does not wait for our answer any longer.
    pub fn handle_abandon(&mut self, index: usize, connection: u32) {
        let requests = &mut self.peers[index].requests;
        // If we have answered meanwhile, the opener takes our answer back by itself.
        if let Some(number) = requests.remove(&connection) {
            let entry = self.connections.get_mut(number as usize);
            let Some(entry) = entry.filter(|e| e.link == index && e.phase == Phase::Requested)
            else {
                return;
            };
            entry.handle_gone = true;
            entry.peer_detached = true;
            self.free_if_done(number);
            self.send_reject(index, connection, RejectCode::Application, "abandoned");
        }
    }

    /// Accepts a request.
    pub fn accept(
        &mut self,
        number: u32,
        serial: u64,
        ring_bytes: Option<usize>,
    ) -> Result<Opened> {
        let entry = self.connection(number, serial).ok_or(Error::PeerGone)?;
        if entry.phase != Phase::Requested {
            return Err(Error::PeerGone);
        }
        let (link, listener, source) = (entry.link, entry.listener, entry.source);
        let Some(connection) = entry.peer_half.as_ref().map(|half| half.number) else {
            return Err(Error::PeerGone);
        };
        let ring_bytes = ring_bytes.unwrap_or_else(|| self.usual_ring_bytes(link));
        let region = self.give_region(number, ring_bytes)?;
        let entry = &mut self.connections[number as usize];
        entry.phase = Phase::Open;
        let message_bytes_max = entry.message_bytes_max as u64;
        self.peers[link].requests.remove(&connection);
        self.listeners.request_answered(listener);
        let message = Message::Accept {
            connection,
            own: number,
            region,
            source,
            message_bytes_max,
        };
        self.send(link, &message, &[]);
        self.open_handle(number)
    }

    /// Refuses a request.
    pub fn reject(&mut self, number: u32, serial: u64, reason: &str) {
        let Some(entry) = self.connection(number, serial) else {
            return;
        };
        if entry.phase != Phase::Requested {
            return;
        }
        let (link, peer_half) = (entry.link, entry.peer_half.take());
        entry.handle_gone = true;
        entry.peer_detached = true;
        if let Some(half) = peer_half {
            self.peers[link].requests.remove(&half.number);
            self.send_reject(link, half.number, RejectCode::Application, reason);
        }
        self.free_if_done(number);
    }
}
