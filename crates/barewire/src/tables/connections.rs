//! Connections in the tables: how they are added, get memory, get a handle, and are freed.

use std::sync::Arc;

use barewire_fabric::frame::{STATE_DEAF, STATE_FINISHED};
use barewire_fabric::ring::{RingReceiver, RingSender, publish_state};
use barewire_fabric::{DuplexReceiver, DuplexSender, Turns};
use barewire_shm::counters::{QueueCounter, SlotInfo};
use barewire_sys::process::Credentials;

use crate::apertures::imported::Imported;
use crate::error::{Error, Result};
use crate::links::budget::Resource;
use crate::links::connection::ConnectionCore;
use crate::messages::control::{Message, RegionRef, RejectCode};
use crate::tables::doorbells::{OWN_SOURCE, Source};
use crate::tables::entries::{ConnectionEntry, Phase};
use crate::tables::events::{Opened, Pending};
use crate::tables::peer::Peer;
use crate::tables::state::State;

/// What a connection takes of private memory in our tables, in bytes: generously.
const CONNECTION_BYTES: u64 = 2048;

impl State {
    /// Adds a connection to the tables.
    pub fn add_connection(&mut self, link: usize, phase: Phase, name: &str) -> Result<u32> {
        let (limit, ring_bytes, message_bytes_max) = {
            let config = &self.base.live().config;
            (
                config.connections_max,
                config.ring_bytes,
                config.message_bytes_max,
            )
        };
        if self.connections.len() >= limit as usize {
            return Err(Error::LimitReached {
                what: "connections",
                limit: u64::from(limit),
            });
        }
        let wanted = [
            (Resource::Connections, 1),
            (Resource::PrivateBytes, CONNECTION_BYTES),
        ];
        let charges = self.charge(link, &wanted)?;
        let source = self.doorbells.add_source(Source::Free)?;
        let serial = self.serial();
        let number = self.connections.insert(ConnectionEntry {
            link,
            phase,
            serial,
            name: name.to_owned(),
            data: Vec::new(),
            listener: None,
            peer_half: None,
            region: None,
            line: None,
            place: None,
            message_bytes_max,
            wanted_ring_bytes: ring_bytes,
            source,
            failure: None,
            announce: false,
            core: None,
            handle_gone: false,
            peer_detached: false,
            closed_reported: false,
            reported: false,
            events: 0,
            charges,
        }) as u32;
        self.doorbells
            .set_source(source, Source::Connection(number));
        self.peers[link].connections.insert(number);
        self.base.counters.add(QueueCounter::Connections, 1);
        Ok(number)
    }

    /// Gives a connection its receive region, and announces new segments to the peer.
    pub fn give_region(&mut self, number: u32, ring_bytes: usize) -> Result<RegionRef> {
        let link = self.connections[number as usize].link;
        if self.peers[link].arena.must_grow(ring_bytes) {
            // It is mapped for reading, and once more for the duplex lines.
            let segment = [(Resource::Mappings, 2), (Resource::Descriptors, 1)];
            let charges = self.charge(link, &segment)?;
            self.peers[link].charges.add(charges);
        }
        let arena = &mut self.peers[link].arena;
        let allocated = arena.allocate(ring_bytes, &self.placement)?;
        self.announce_segments(link)?;
        let region = allocated.region;
        let entry = &mut self.connections[number as usize];
        entry.region = Some((region, allocated.window));
        entry.line = Some(allocated.line);
        entry.place = allocated.place;
        Ok(region)
    }

    /// Reports the end of a connection, once.
    pub fn report_closed(&mut self, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.phase == Phase::Open && !entry.closed_reported && entry.core.is_some() {
            entry.closed_reported = true;
            let serial = entry.serial;
            self.push(Pending::Closed { number, serial });
        }
    }

    /// What the user's handle of an open connection is made of.
    pub fn open_handle(&mut self, number: u32) -> Result<Opened> {
        let entry = &mut self.connections[number as usize];
        let peer = self.peers.get(entry.link).ok_or(Error::PeerGone)?;
        let link = peer.link().ok_or(Error::PeerGone)?;
        let (Some(half), Some((region, incoming)), Some(own_line)) =
            (&entry.peer_half, &entry.region, &entry.line)
        else {
            return Err(Error::PeerGone);
        };
        let Credentials { pid, uid, .. } = link.peer;
        let ring_bytes = region.ring_bytes as usize;
        let slot = SlotInfo {
            connection: number,
            serial: entry.serial,
            peer_connection: Some(half.number),
            peer_pid: pid as u32,
            peer_uid: uid,
            remote: link.remote().and_then(|remote| remote.record()),
            ring_bytes_out: half.ring_bytes as u32,
            ring_bytes_in: ring_bytes as u32,
            region: entry.place,
            name: &entry.name,
        };
        let counters = self.base.counters.open_slot(number, &slot);
        let is_foreign = self.base.is_foreign(uid);
        let outgoing = half.window.clone();
        let (name, source) = (entry.name.clone(), half.source);
        let mut sender = RingSender::new(outgoing.clone(), incoming.clone(), half.ring_bytes);
        let mut receiver = RingReceiver::new(incoming.clone(), outgoing.clone(), ring_bytes);
        // No line is shared with another host.
        if link.remote().is_none() {
            // The duplex line is the one in the region of the side that opens the connection.
            let opened_here = entry.listener.is_none();
            let turns = Turns::new(opened_here);
            let (line, beside_bytes) = if opened_here {
                (own_line, ring_bytes)
            } else {
                (&outgoing, half.ring_bytes)
            };
            let send_line = DuplexSender::new(line.clone(), beside_bytes, turns.clone());
            let receive_line = DuplexReceiver::new(line.clone(), beside_bytes, turns);
            sender = sender.with_line(send_line);
            receiver = receiver.with_line(receive_line);
        }
        let core = ConnectionCore::new(number, name, link, outgoing, source, receiver.watch());
        let mut opened = Opened {
            core: Arc::new(core),
            counters,
            sender,
            sent_bytes_max: half.message_bytes_max,
            receiver,
            received_bytes_max: entry.message_bytes_max,
            allowance: is_foreign.then(|| self.accounts.allowance(uid)),
        };
        entry.core = Some(Arc::clone(&opened.core));
        // From now on the peer rings. Perhaps something is there already.
        let (core, receiver) = (&opened.core, &mut opened.receiver);
        let mut is_ready = false;
        core.set_armed(true, || is_ready = receiver.arm(&*core.link));
        if is_ready {
            self.push_ready(number);
            self.base.ring_own(OWN_SOURCE);
        }
        // It may have ended before the handle was made.
        if self.connections[number as usize].peer_detached {
            self.report_closed(number);
        }
        Ok(opened)
    }

    /// The user's handle is gone, or was never made.
    pub fn drop_handle(&mut self, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        entry.handle_gone = true;
        if let (None, Some(half)) = (&entry.core, &entry.peer_half) {
            // There never was a handle that would have said so.
            publish_state(&half.window, STATE_FINISHED | STATE_DEAF);
        }
        let (link, connection) = (entry.link, entry.peer_half.as_ref().map(|half| half.number));
        if let Some(connection) = connection {
            self.send(link, &Message::Detach { connection }, &[]);
        }
        self.free_if_done(number);
    }

    /// Frees what a connection holds once neither side uses it.
    pub fn free_if_done(&mut self, number: u32) {
        let Some(entry) = self.connections.get(number as usize) else {
            return;
        };
        if !(entry.handle_gone && entry.peer_detached) {
            return;
        }
        let entry = self.connections.remove(number as usize);
        if entry.events > 0 {
            self.drop_events(entry.serial);
        }
        if entry.phase == Phase::Requested {
            self.listeners.request_answered(entry.listener);
        }
        self.doorbells.free_source(entry.source);
        self.base.counters.sub(QueueCounter::Connections, 1);
        if let Some(peer) = self.peers.get_mut(entry.link) {
            peer.connections.remove(&number);
            if let Some((region, window)) = entry.region {
                drop(window);
                peer.arena.free(region);
            }
        }
        self.forget_peer_if_done(entry.link);
    }

    pub fn forget_peer_if_done(&mut self, index: usize) {
        let done = |p: &Peer| p.connections.is_empty() && p.socket.is_none();
        if self.peers.get(index).is_some_and(done) {
            let foreign = self.is_foreign(index);
            let peer = self.peers.remove(index);
            // To give much memory back takes its time.
            if foreign && !peer.segments.is_empty() {
                self.base.retirer.later(Box::new(peer.segments));
            }
        }
    }

    /// Drops what a connection that is no more was sent and nobody has taken.
    pub fn drop_events(&mut self, of: u64) {
        for event in core::mem::take(&mut self.events.pending) {
            match event {
                Pending::OutOfBand { link, serial, .. } if serial == of => {
                    self.resume_if_read(link.0, link.1);
                }
                Pending::Granted {
                    serial, aperture, ..
                } if serial == of => self.give_back_unclaimed(aperture),
                other => self.events.pending.push_back(other),
            }
        }
    }

    /// Gives an aperture back that nobody will take, and keeps its memory for [`Events::unclaimed`].
    ///
    /// [`Events::unclaimed`]: crate::tables::events::Events::unclaimed
    pub fn give_back_unclaimed(&mut self, aperture: Arc<Imported>) {
        self.give_back(&aperture);
        self.events.unclaimed.push(aperture);
        self.attract();
    }

    /// Tells the peer that nothing of its aperture is in use here any more.
    pub fn give_back(&mut self, imported: &Imported) {
        let (index, generation) = imported.peer;
        let aperture = imported.number;
        let peer = self.peers.get_mut(index);
        if let Some(peer) = peer.filter(|p| p.generation == generation) {
            if peer.granted.remove(aperture) {
                peer.watch = None;
            }
            self.send(index, &Message::Release { aperture }, &[]);
        }
    }

    /// Gives up a connection that has not been answered.
    pub fn abandon(&mut self, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        let link = entry.link;
        if entry.failure.is_some() || entry.peer_detached || entry.phase == Phase::Open {
            return self.drop_handle(number);
        }
        entry.phase = Phase::Abandoned;
        if self.is_up(link) {
            let message = Message::Abandon { connection: number };
            self.send(link, &message, &[]);
        }
    }

    /// Gives up a connection whose answer has not been reported.
    pub fn cancel_connect(&mut self, number: u32) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.announce && entry.core.is_none() && !entry.handle_gone {
            // The event that is perhaps under way finds another use of the number.
            entry.announce = false;
            entry.serial = 0;
            self.abandon(number);
        }
    }

    pub fn opening_failed(&mut self, number: u32, error: Error) {
        let entry = &mut self.connections[number as usize];
        // The first reason stays.
        if entry.failure.is_some() {
            return;
        }
        entry.failure = Some(error);
        entry.peer_detached = true;
        entry.peer_half = None;
        if entry.announce {
            let serial = entry.serial;
            self.push(Pending::Connected { number, serial });
        }
    }

    pub fn refusal(&self, number: u32, code: RejectCode, reason: &str) -> Error {
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
