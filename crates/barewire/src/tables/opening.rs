//! Opening and closing connections: what is said on the control channel, from both sides.

use barewire_fabric::frame::{LINE_BYTES, region_bytes, ring_bytes_valid};
use barewire_shm::Window;
use barewire_sys::retire::Guarded;
use barewire_sys::socket::Socket;

use crate::config::{ConnectOptions, check_data, check_ring, socket_name};
use crate::error::{Error, Misconduct, Result};
use crate::links::budget::Resource;
use crate::links::link::Status;
use crate::messages::control::{Message, RegionRef, RejectCode};
use crate::node::shared::Shared;
use crate::tables::greeting::admits;
use crate::tables::peer::{Checked, checked_source};
use crate::tables::state::{Far, Pending, Phase, State};

/// Private memory for a peer's ring: a bit for each line of it.
fn bits_bytes(ring_bytes: usize) -> u64 {
    (ring_bytes / LINE_BYTES / 8) as u64
}

impl State {
    /// Begins a connection; the answer comes later. Returns its number.
    pub fn start_connect(
        &mut self,
        shared: &Shared,
        name: &str,
        options: &ConnectOptions,
        announce: bool,
    ) -> Result<u32> {
        let owner = options.owner.unwrap_or(shared.own.uid);
        let ring_bytes = options.ring_bytes;
        let ring_bytes = ring_bytes.unwrap_or_else(|| shared.live().config.ring_bytes);
        check_ring(ring_bytes)?;
        check_data(&options.data)?;
        let socket_name = socket_name(owner, name)?;
        let key = (owner, name.to_owned());
        let link = match self.by_name.get(&key) {
            Some(link) => *link,
            None => self.reach(shared, &socket_name, owner, name)?,
        };
        let number = self.add_connection(shared, link, Phase::Opening, name)?;
        let entry = &mut self.connections[number as usize];
        entry.data.clone_from(&options.data);
        entry.announce = announce;
        entry.wanted_ring_bytes = ring_bytes;
        if self.is_up(link) {
            self.open(shared, number);
        } else {
            self.peers[link].waiting.push(number);
            if announce {
                // Nobody need poll before the other side is asked. Without a thread to do it,
                // the next poll does.
                self.watch_for_hello(shared, link);
            }
        }
        Ok(number)
    }

    /// Makes first contact with whoever listens under a name.
    fn reach(
        &mut self,
        shared: &Shared,
        socket_name: &[u8],
        owner: u32,
        name: &str,
    ) -> Result<usize> {
        let socket = Socket::connect(socket_name).map_err(|error| match error {
            barewire_sys::SysError::NoListener { .. } => Error::NoSuchName {
                name: name.to_owned(),
                owner,
            },
            other => other.into(),
        })?;
        // Whoever holds the name may have sent something by now.
        let socket = Guarded::new(socket, &shared.retirer);
        let credentials = socket.peer_credentials()?;
        if credentials.uid != owner {
            return Err(Error::WrongOwner {
                name: name.to_owned(),
                pid: credentials.pid,
                found: credentials.uid,
                expected: owner,
            });
        }
        let charges = self.charge_link(shared, &credentials)?;
        let index = self.add_peer(shared, socket, credentials, true)?;
        self.peers[index].charges = charges;
        let key = (owner, name.to_owned());
        self.peers[index].name = Some(key.clone());
        self.by_name.insert(key, index);
        if let Err(error) = self.say_hello(shared, index) {
            self.close_peer(shared, index, Status::Left, None);
            return Err(error);
        }
        Ok(index)
    }

    /// Sends the request for a connection, now that the link is up.
    pub(crate) fn open(&mut self, shared: &Shared, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.phase != Phase::Opening {
            // Given up before it was even asked for.
            entry.handle_gone = true;
            entry.peer_detached = true;
            return self.free_if_done(shared, number);
        }
        let (link, source, ring_bytes) = (entry.link, entry.source, entry.wanted_ring_bytes);
        let region = match self.give_region(shared, number, ring_bytes) {
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
        self.send(shared, link, &message, &[]);
    }

    /// Gives up a connection that has not been answered.
    pub fn abandon(&mut self, shared: &Shared, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        let link = entry.link;
        if entry.failure.is_some() || entry.peer_detached || entry.phase == Phase::Open {
            return self.drop_handle(shared, number);
        }
        entry.phase = Phase::Abandoned;
        if self.is_up(link) {
            let message = Message::Abandon { connection: number };
            self.send(shared, link, &message, &[]);
        }
    }

    /// Checks where the peer wants us to store.
    pub(crate) fn peer_region(&self, index: usize, region: &RegionRef) -> Checked<(Window, usize)> {
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

    pub(crate) fn opened(
        &mut self,
        shared: &Shared,
        index: usize,
        far: Far,
        name: &str,
        data: &[u8],
    ) {
        let connection = far.number;
        let refuse = |state: &mut State, code, reason: &str| {
            state.send_reject(shared, index, connection, code, reason);
        };
        let found = self.listeners.iter().find(|(_, l)| l.name == name);
        let Some((listener, entry)) = found else {
            return refuse(
                self,
                RejectCode::NoSuchName,
                "nobody listens under this name",
            );
        };
        // A link made through one listener reaches the others; each has its own policy.
        let peer = &self.peers[index];
        let socket = peer.socket.as_ref();
        if !socket.is_some_and(|s| admits(&entry.policy, shared, s, &peer.credentials())) {
            return refuse(
                self,
                RejectCode::Policy,
                "not allowed by the listener's policy",
            );
        }
        if entry.waiting >= shared.live().config.backlog_max {
            return refuse(
                self,
                RejectCode::Busy,
                "too many requests wait to be accepted",
            );
        }
        let max = shared.live().config.foreign_ring_bytes_max;
        if self.is_foreign(shared, index) && far.ring_bytes > max {
            let reason = format!("a ring of more than {max} bytes, which is the most here");
            return refuse(self, RejectCode::Busy, &reason);
        }
        let private = bits_bytes(far.ring_bytes) + data.len() as u64;
        let charged = self.charge(shared, index, &[(Resource::PrivateBytes, private)]);
        let added = charged.map_err(Error::from).and_then(|charges| {
            let number = self.add_connection(shared, index, Phase::Requested, name)?;
            self.connections[number as usize].charges.add(charges);
            Ok(number)
        });
        match added {
            Ok(number) => {
                self.listeners[listener].waiting += 1;
                self.peers[index].requests.insert(connection, number);
                let entry = &mut self.connections[number as usize];
                entry.data = data.to_vec();
                entry.listener = Some(listener);
                entry.far = Some(far);
                let serial = entry.serial;
                self.push(Pending::Request { number, serial });
            }
            Err(error) => refuse(self, RejectCode::Busy, &error.to_string()),
        }
    }

    /// Our connection with this number, if it is one with this peer.
    pub(crate) fn ours(&self, index: usize, number: u32) -> Checked<Phase> {
        self.connections
            .get(number as usize)
            .filter(|entry| entry.link == index)
            .map(|entry| entry.phase)
            .ok_or(Misconduct::Control(
                "speaks of a connection that is not its own",
            ))
    }

    /// The serial of our connection with this number, if it stands; `None` if we have let
    /// go of it, which the peer need not know yet.
    pub(crate) fn standing(&self, index: usize, number: u32) -> Checked<Option<u64>> {
        let phase = self.ours(index, number)?;
        let entry = &self.connections[number as usize];
        match phase {
            Phase::Open if !entry.handle_gone => Ok(Some(entry.serial)),
            Phase::Open | Phase::Abandoned => Ok(None),
            Phase::Opening | Phase::Requested => Err(Misconduct::Control(
                "speaks on a connection that does not stand",
            )),
        }
    }

    pub(crate) fn accepted(
        &mut self,
        shared: &Shared,
        index: usize,
        message: &Message<'_>,
    ) -> Checked {
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
        let phase = self.ours(index, connection)?;
        let (window, ring_bytes) = self.peer_region(index, &region)?;
        let max = shared.live().config.foreign_ring_bytes_max;
        if self.is_foreign(shared, index) && ring_bytes > max {
            let (what, limit) = ("bytes of a ring of this user", max as u64);
            return Err(Misconduct::Exceeds { what, limit });
        }
        let private = [(Resource::PrivateBytes, bits_bytes(ring_bytes))];
        let charges = self.charge(shared, index, &private)?;
        let source = checked_source(source)?;
        let entry = &mut self.connections[connection as usize];
        if entry.far.is_some() {
            return Err(Misconduct::Control("accepts twice"));
        }
        entry.charges.add(charges);
        let far = Far {
            number: own,
            window,
            ring_bytes,
            source,
            message_bytes_max,
        };
        match phase {
            Phase::Opening => {
                entry.far = Some(far);
                entry.phase = Phase::Open;
                if entry.announce {
                    let (number, serial) = (connection, entry.serial);
                    self.push(Pending::Connected { number, serial });
                }
                Ok(())
            }
            Phase::Abandoned => {
                entry.far = Some(far);
                // As if it had been opened and closed: the peer closes its end as usual.
                entry.phase = Phase::Open;
                self.drop_handle(shared, connection);
                Ok(())
            }
            Phase::Requested | Phase::Open => Err(Misconduct::Control("accepts out of turn")),
        }
    }

    pub(crate) fn rejected(
        &mut self,
        shared: &Shared,
        index: usize,
        connection: u32,
        code: RejectCode,
        reason: &str,
    ) -> Checked {
        match self.ours(index, connection)? {
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
                self.drop_handle(shared, connection);
            }
            Phase::Requested | Phase::Open => {
                return Err(Misconduct::Control("rejects out of turn"));
            }
        }
        Ok(())
    }

    pub(crate) fn detached(&mut self, shared: &Shared, index: usize, connection: u32) -> Checked {
        let phase = self.ours(index, connection)?;
        let entry = &mut self.connections[connection as usize];
        if phase != Phase::Open || entry.peer_detached {
            return Err(Misconduct::Control("detaches out of turn"));
        }
        entry.peer_detached = true;
        self.push_ready(connection);
        self.report_closed(connection);
        self.free_if_done(shared, connection);
        Ok(())
    }

    /// The opener does not wait for our answer any longer.
    pub(crate) fn abandoned(&mut self, shared: &Shared, index: usize, connection: u32) {
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
            self.free_if_done(shared, number);
            self.send_reject(
                shared,
                index,
                connection,
                RejectCode::Application,
                "abandoned",
            );
        }
    }

    pub(crate) fn opening_failed(&mut self, number: u32, error: Error) {
        let entry = &mut self.connections[number as usize];
        // The first reason stays.
        if entry.failure.is_some() {
            return;
        }
        entry.failure = Some(error);
        entry.peer_detached = true;
        entry.far = None;
        if entry.announce {
            let serial = entry.serial;
            self.push(Pending::Connected { number, serial });
        }
    }

    pub(crate) fn refusal(&self, number: u32, code: RejectCode, reason: &str) -> Error {
        let entry = &self.connections[number as usize];
        match code {
            RejectCode::NoSuchName => Error::NoSuchName {
                name: entry.name.clone(),
                owner: self
                    .peers
                    .get(entry.link)
                    .map_or(0, |p| p.credentials().uid),
            },
            _ => Error::Refused {
                reason: reason.to_owned(),
            },
        }
    }
}
