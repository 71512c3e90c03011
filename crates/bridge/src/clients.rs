//! Connections of clients, and their leases.

use std::collections::VecDeque;

use barewire::{Connection, ConnectionId};
use barewire_proto::edge::bridge::{FrameFate, Output};
use barewire_proto::edge::leases::LeaseId;
use barewire_proto::edge::offload::FRAME_HEADER_BYTES;
use barewire_sys::frames::{FrameDevice, FrameError, FrameSent};
use barewire_units::{Duration, Instant};

/// How long a client may take to ask for its lease.
const ASKING: Duration = Duration::from_s(10);

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub connection: Connection,
    /// What it has leased; `None`: it has not asked yet.
    pub lease: Option<LeaseId>,
    /// Which of all clients it is.
    serial: u64,
}

/// All clients, by the numbers of their connections.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Vec<Option<Client>>,
    by_lease: Vec<Option<ConnectionId>>,
    /// Those that have not asked yet, and until when they may.
    asking: VecDeque<(Instant, ConnectionId, u64)>,
    count: usize,
    serial: u64,
}

impl Clients {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// A new one.
    pub fn add(&mut self, now: Instant, connection: Connection) {
        let id = connection.id();
        self.serial += 1;
        let client = Client {
            connection,
            lease: None,
            serial: self.serial,
        };
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(client);
        self.count += 1;
        self.asking
            .push_back((now.saturating_add(ASKING), id, self.serial));
    }

    /// One of them.
    pub fn get(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    /// It has leased.
    pub fn leased(&mut self, id: ConnectionId, lease: LeaseId) {
        if let Some(client) = self.get(id) {
            client.lease = Some(lease);
        }
        if self.by_lease.len() <= lease.index() {
            self.by_lease.resize(lease.index() + 1, None);
        }
        self.by_lease[lease.index()] = Some(id);
    }

    /// It goes; returns what it had leased.
    pub fn remove(&mut self, id: ConnectionId) -> Option<LeaseId> {
        let client = self.slots.get_mut(id.index())?.take()?;
        self.count -= 1;
        if let Some(place) = client
            .lease
            .and_then(|lease| self.by_lease.get_mut(lease.index()))
        {
            *place = None;
        }
        client.lease
    }

    /// Lets those go that have not asked in time.
    pub fn handle_time(&mut self, now: Instant) {
        while let Some(&(until, id, serial)) = self.asking.front() {
            let waits = self
                .get(id)
                .is_some_and(|client| client.serial == serial && client.lease.is_none());
            if waits && until > now {
                return;
            }
            self.asking.pop_front();
            if waits {
                self.remove(id);
            }
        }
    }

    /// Time counts from `by` later on.
    pub fn rebase(&mut self, by: Duration) {
        for (until, ..) in &mut self.asking {
            *until = Instant::ORIGIN.saturating_add(until.since_origin().saturating_sub(by));
        }
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.asking.front().map(|(until, ..)| *until)
    }

    fn of_lease(&mut self, lease: LeaseId) -> Option<&mut Client> {
        let id = self.by_lease.get(lease.index()).copied().flatten()?;
        self.get(id)
    }
}

/// Where the core puts what it has.
pub struct Out<'a> {
    /// The device.
    pub device: &'a FrameDevice,
    /// The clients.
    pub clients: &'a mut Clients,
}

impl Output for Out<'_> {
    fn frame(&mut self, frame: &[u8]) -> FrameFate {
        send(self.device, frame)
    }

    fn message(&mut self, lease: LeaseId, message: &[u8]) -> bool {
        // A client that is gone is noticed when its connection is to be read.
        let client = self.clients.of_lease(lease);
        client.is_some_and(|client| matches!(client.connection.try_send(message), Ok(true)))
    }
}

/// Where the core puts what it has for the network, while a client's message is in use.
pub struct Questions<'a>(pub &'a FrameDevice);

impl Output for Questions<'_> {
    fn frame(&mut self, frame: &[u8]) -> FrameFate {
        send(self.0, frame)
    }

    fn message(&mut self, _: LeaseId, _: &[u8]) -> bool {
        false
    }
}

/// Where a frame with the kernel's header begins for a device, in bytes: behind that header if the device has none.
pub fn frame_begins(device: &FrameDevice) -> usize {
    match device.has_header() {
        true => 0,
        false => FRAME_HEADER_BYTES,
    }
}

fn send(device: &FrameDevice, frame: &[u8]) -> FrameFate {
    fate(device.try_send(&frame[frame_begins(device)..]))
}

/// What the core is told of a frame.
pub fn fate(sent: Result<FrameSent, FrameError>) -> FrameFate {
    match sent {
        Ok(FrameSent::Sent) => FrameFate::Sent,
        // A device that is gone is noticed when the next frame is to be received.
        Ok(FrameSent::NoRoom) | Err(_) => FrameFate::NoRoom,
        Ok(FrameSent::Refused) => FrameFate::Refused,
    }
}
