//! Handing out events: what the doorbell pages and the tables have for the owner.

use std::sync::Arc;

use crate::error::Error;
use crate::handles::event::{ConnectionId, Event};
use crate::handles::node::Request;
use crate::handles::remote::RemoteAperture;
use crate::node::shared::Shared;
use crate::tables::state::{Pending, Phase, Source, State};

/// Bits looked at in one poll: whoever raises bits without end gets no further.
const SOURCES_PER_TURN: u32 = 8192;
/// What reading from a link counts for among them.
const LINK_COST: u32 = 1024;

impl State {
    /// Hands out at most `max` events.
    pub fn collect(&mut self, shared: &Arc<Shared>, out: &mut Vec<Event>, max: usize) {
        let end = out.len() + max;
        let told = self.told.len();
        self.told_first = !self.told_first;
        if self.told_first {
            self.tell_again(told, out, end);
        }
        self.hand_out_pending(shared, out, end);
        let (mut at, mut turn) = (0, SOURCES_PER_TURN);
        while at < self.domains.len() && out.len() < end && turn > 0 {
            turn -= 1;
            let domain = &mut self.domains[at];
            let Some(number) = domain.drain.next_source(&domain.page) else {
                at += 1;
                continue;
            };
            let uid = domain.uid;
            if matches!(self.sources.get(number as usize), Some(Source::Link(_))) {
                turn = turn.saturating_sub(LINK_COST);
            }
            self.rung(shared, number, uid, out);
        }
        self.close_doomed(shared);
        self.hand_out_pending(shared, out, end);
        if !self.told_first {
            self.tell_again(told, out, end);
        }
    }

    /// Repeats readiness where the receiver began to take and stopped, for the first
    /// `count` that were told, in turn.
    fn tell_again(&mut self, count: usize, out: &mut Vec<Event>, end: usize) {
        for _ in 0..count {
            if out.len() >= end {
                return;
            }
            let Some(number) = self.told.pop_front() else {
                return;
            };
            let Some(entry) = self.connections.get_mut(number as usize) else {
                continue;
            };
            entry.told = false;
            if entry.shared.as_ref().is_some_and(|s| s.stopped_early()) {
                self.tell_ready(number, out);
            }
        }
    }

    fn tell_ready(&mut self, number: u32, out: &mut Vec<Event>) {
        let Some(entry) = self.connections.get_mut(number as usize) else {
            return;
        };
        if entry.phase == Phase::Open && !entry.handle_gone && entry.shared.is_some() {
            out.push(Event::Ready(ConnectionId(number)));
            if !core::mem::replace(&mut entry.told, true) {
                self.told.push_back(number);
            }
        }
    }

    /// A bit was found set: it may have been set by anybody of user `uid`, at any time.
    #[inline]
    fn rung(&mut self, shared: &Arc<Shared>, number: u32, uid: u32, out: &mut Vec<Event>) {
        match self.sources.get(number as usize) {
            Some(Source::Connection(connection)) => {
                let connection = *connection;
                if uid == shared.own.uid || self.connection_uid(connection) == Some(uid) {
                    self.tell_ready(connection, out);
                }
            }
            Some(Source::Tripwire(tripwire)) => {
                let tripwire = Arc::clone(tripwire);
                if uid == shared.own.uid || tripwire.may_be_rung_by(uid) {
                    out.extend(tripwire.fired());
                }
            }
            Some(Source::Link(link)) => {
                let link = *link;
                self.read_socket(shared, link);
            }
            Some(Source::Own | Source::Free) | None => {}
        }
    }

    fn connection_uid(&self, number: u32) -> Option<u32> {
        let entry = self.connections.get(number as usize)?;
        self.peers.get(entry.link)?.uid()
    }

    fn hand_out_pending(&mut self, shared: &Arc<Shared>, out: &mut Vec<Event>, end: usize) {
        while out.len() < end {
            let Some(pending) = self.pending.pop_front() else {
                return;
            };
            match pending {
                Pending::Plain(event) => out.push(event),
                Pending::OutOfBand {
                    link: (index, generation),
                    number,
                    serial,
                    data,
                    charges,
                } => {
                    drop(charges);
                    self.event_handed_out(number, serial);
                    self.out_of_band_handed_out(shared, index, generation);
                    let connection = ConnectionId(number);
                    // The number may be another connection's by now.
                    if self.connection(number, serial).is_some() {
                        out.push(Event::OutOfBand { connection, data });
                    }
                }
                Pending::Granted {
                    number,
                    serial,
                    cookie,
                    aperture,
                    charges,
                } => {
                    drop(charges);
                    self.event_handed_out(number, serial);
                    if self.connection(number, serial).is_some() {
                        out.push(Event::Granted {
                            connection: ConnectionId(number),
                            cookie,
                            aperture: RemoteAperture::new(aperture, shared),
                        });
                    } else {
                        self.stale.push(aperture);
                    }
                }
                Pending::Ready(number) => self.tell_ready(number, out),
                Pending::Request { number, serial } => {
                    out.extend(self.request(shared, number, serial).map(Event::Request));
                }
                Pending::Connected { number, serial } => {
                    out.extend(self.connected(shared, number, serial));
                }
                Pending::Closed { number, serial } => out.extend(self.closed(number, serial)),
            }
        }
    }

    pub(crate) fn request(
        &mut self,
        shared: &Arc<Shared>,
        number: u32,
        serial: u64,
    ) -> Option<Request> {
        let entry = self.connection(number, serial)?;
        if entry.phase != Phase::Requested {
            return None;
        }
        let (name, data) = (entry.name.clone(), core::mem::take(&mut entry.data));
        let link = entry.link;
        let peer = self.peers.get(link)?.credentials();
        Some(Request::new(shared, number, serial, peer, name, data))
    }

    fn connected(&mut self, shared: &Arc<Shared>, number: u32, serial: u64) -> Option<Event> {
        let entry = self.connection(number, serial)?;
        let result = match entry.failure.take() {
            Some(error) => Err(error),
            None => self.make_handle(shared, number),
        };
        Some(match result {
            Ok(connection) => Event::Connected(Box::new(connection)),
            Err(error) => {
                self.drop_handle(shared, number);
                Event::ConnectFailed {
                    connection: ConnectionId(number),
                    error,
                }
            }
        })
    }

    fn closed(&mut self, number: u32, serial: u64) -> Option<Event> {
        let entry = self.connection(number, serial)?;
        let shared = entry.shared.as_ref()?;
        if entry.handle_gone {
            return None;
        }
        Some(Event::Closed {
            connection: ConnectionId(number),
            reason: match shared.link.check() {
                Err(error) => error,
                Ok(()) => Error::PeerGone,
            },
        })
    }

    /// Takes the first request out of the events.
    pub fn take_request(&mut self, shared: &Arc<Shared>) -> Option<Request> {
        loop {
            let wanted = |p: &Pending| matches!(p, Pending::Request { .. });
            let at = self.pending.iter().position(wanted)?;
            let Some(Pending::Request { number, serial }) = self.pending.remove(at) else {
                return None;
            };
            let request = self.request(shared, number, serial);
            if request.is_some() {
                return request;
            }
        }
    }

    /// Takes the first granted aperture out of the events.
    pub fn take_granted(
        &mut self,
        shared: &Arc<Shared>,
        number: u32,
    ) -> Option<(u64, RemoteAperture)> {
        let serial = self.connections.get(number as usize)?.serial;
        let wanted = |p: &Pending| matches!(p, Pending::Granted { serial: s, .. } if *s == serial);
        let at = self.pending.iter().position(wanted)?;
        match self.pending.remove(at) {
            Some(Pending::Granted {
                cookie, aperture, ..
            }) => {
                self.event_handed_out(number, serial);
                Some((cookie, RemoteAperture::new(aperture, shared)))
            }
            _ => None,
        }
    }

    fn event_handed_out(&mut self, number: u32, serial: u64) {
        if let Some(entry) = self.connection(number, serial) {
            entry.events = entry.events.saturating_sub(1);
        }
    }

    /// Drops what a connection that is no more was sent and nobody has taken.
    pub(crate) fn drop_events(&mut self, shared: &Shared, of: u64) {
        for event in core::mem::take(&mut self.pending) {
            match event {
                Pending::OutOfBand { link, serial, .. } if serial == of => {
                    self.out_of_band_handed_out(shared, link.0, link.1);
                }
                // It gives itself back, for which it takes our lock.
                Pending::Granted {
                    serial, aperture, ..
                } if serial == of => {
                    self.stale.push(aperture);
                    self.attract();
                }
                other => self.pending.push_back(other),
            }
        }
    }

    /// Drops the news of connections that are no more.
    pub(crate) fn drop_stale(&mut self) {
        let connections = &self.connections;
        let is_live = |number: u32, serial: u64| {
            let entry = connections.get(number as usize);
            entry.is_some_and(|e| e.serial == serial && !e.handle_gone)
        };
        self.pending.retain(|pending| match *pending {
            Pending::Ready(number) => {
                let entry = connections.get(number as usize);
                entry.is_some_and(|e| !e.handle_gone)
            }
            Pending::Request { number, serial }
            | Pending::Connected { number, serial }
            | Pending::Closed { number, serial } => is_live(number, serial),
            Pending::OutOfBand { .. } | Pending::Granted { .. } | Pending::Plain(_) => true,
        });
    }
}
