//! Collects events for the owner from the doorbell pages and the tables.

use std::sync::Arc;

use barewire_fabric::aperture::Action;

use crate::apertures::imported::Imported;
use crate::error::Error;
use crate::tables::doorbells::Source;
use crate::tables::entries::Phase;
use crate::tables::events::{Found, Pending, Requested};
use crate::tables::state::State;

/// Bits looked at in one poll: whoever raises bits without end gets no further.
const SOURCES_PER_TURN: u32 = 8192;
/// What reading from a link counts for among them.
const LINK_COST: u32 = 1024;

/// Where events go, and how many there may be.
struct Sink<F> {
    put: F,
    max: usize,
    found: usize,
}

impl<F: FnMut(Found)> Sink<F> {
    fn has_room(&self) -> bool {
        self.found < self.max
    }

    fn put(&mut self, found: Option<Found>) {
        if let Some(found) = found {
            self.found += 1;
            (self.put)(found);
        }
    }
}

impl State {
    /// Hands at most `max` events to `put`; returns how many.
    pub fn collect(&mut self, max: usize, put: impl FnMut(Found)) -> usize {
        let mut sink = Sink { put, max, found: 0 };
        let reported = self.events.reported.len();
        self.events.reported_first = !self.events.reported_first;
        if self.events.reported_first {
            self.report_again(reported, &mut sink);
        }
        self.hand_out_pending(&mut sink);
        let (mut at, mut turn) = (0, SOURCES_PER_TURN);
        while at < self.doorbells.domains.len() && sink.has_room() && turn > 0 {
            turn -= 1;
            let domain = &mut self.doorbells.domains[at];
            let Some(number) = domain.drain.next_source(&domain.page) else {
                at += 1;
                continue;
            };
            let uid = domain.uid;
            let source = self.doorbells.sources.get(number as usize);
            if matches!(source, Some(Source::Link(_))) {
                turn = turn.saturating_sub(LINK_COST);
            }
            self.handle_bit(number, uid, &mut sink);
        }
        self.close_marked();
        self.hand_out_pending(&mut sink);
        if !self.events.reported_first {
            self.report_again(reported, &mut sink);
        }
        sink.found
    }

    /// Repeats readiness where the receiver began to take and stopped, for the first
    /// `count` that were reported, in turn.
    fn report_again(&mut self, count: usize, sink: &mut Sink<impl FnMut(Found)>) {
        for _ in 0..count {
            if !sink.has_room() {
                return;
            }
            let Some(number) = self.events.reported.pop_front() else {
                return;
            };
            let Some(entry) = self.connections.get_mut(number as usize) else {
                continue;
            };
            entry.reported = false;
            if entry.core.as_ref().is_some_and(|c| c.may_have_more()) {
                sink.put(self.report_ready(number));
            }
        }
    }

    /// What is handed out for a connection that is ready, if its handle is in use.
    fn report_ready(&mut self, number: u32) -> Option<Found> {
        let entry = self.connections.get_mut(number as usize)?;
        if entry.phase != Phase::Open || entry.handle_gone || entry.core.is_none() {
            return None;
        }
        if !core::mem::replace(&mut entry.reported, true) {
            self.events.reported.push_back(number);
        }
        Some(Found::Ready(number))
    }

    /// A bit was found set: it may have been set by anybody of user `uid`, at any time.
    #[inline]
    fn handle_bit(&mut self, number: u32, uid: u32, sink: &mut Sink<impl FnMut(Found)>) {
        match self.doorbells.sources.get(number as usize) {
            Some(Source::Connection(connection)) => {
                let connection = *connection;
                if !self.base.is_foreign(uid) || self.connection_uid(connection) == Some(uid) {
                    self.events.hot.note(connection);
                    sink.put(self.report_ready(connection));
                }
            }
            Some(Source::Tripwire(tripwire)) => {
                if self.base.is_foreign(uid) && !tripwire.may_be_rung_by(uid) {
                    return;
                }
                match tripwire.fired() {
                    Some(Action::Enqueue { cookie }) => sink.put(Some(Found::Tripwire {
                        cookie,
                        aperture: tripwire.aperture(),
                    })),
                    Some(Action::Wake) => self.base.note_woken(),
                    Some(Action::Count) | None => {}
                }
            }
            Some(Source::Link(link)) => {
                let link = *link;
                self.read_socket(link);
            }
            Some(Source::Own | Source::Free) | None => {}
        }
    }

    fn hand_out_pending(&mut self, sink: &mut Sink<impl FnMut(Found)>) {
        while sink.has_room() {
            let Some(pending) = self.events.pending.pop_front() else {
                return;
            };
            sink.put(self.resolve(pending));
        }
    }

    /// What is handed out for an event that has waited; nothing if it is out of date.
    fn resolve(&mut self, pending: Pending) -> Option<Found> {
        match pending {
            Pending::Ready(number) => self.report_ready(number),
            Pending::Completion { cookie, result } => Some(Found::Completion { cookie, result }),
            Pending::OutOfBand {
                link: (index, generation),
                number,
                serial,
                data,
                charges,
            } => {
                drop(charges);
                self.count_handed_out(number, serial);
                self.resume_if_read(index, generation);
                // The number may be another connection's by now.
                self.connection(number, serial)?;
                Some(Found::OutOfBand { number, data })
            }
            Pending::Granted {
                number,
                serial,
                cookie,
                aperture,
                charges,
            } => {
                drop(charges);
                self.count_handed_out(number, serial);
                if self.connection(number, serial).is_none() {
                    self.give_back_unclaimed(aperture);
                    return None;
                }
                Some(Found::Granted {
                    number,
                    cookie,
                    aperture,
                })
            }
            Pending::Request { number, serial } => {
                self.find_request(number, serial).map(Found::Request)
            }
            Pending::Connected { number, serial } => self.answer_connect(number, serial),
            Pending::Closed { number, serial } => self.find_closed(number, serial),
        }
    }

    fn find_request(&mut self, number: u32, serial: u64) -> Option<Requested> {
        let entry = self.connection(number, serial)?;
        if entry.phase != Phase::Requested {
            return None;
        }
        let (name, data) = (entry.name.clone(), core::mem::take(&mut entry.data));
        let link = entry.link;
        Some(Requested {
            number,
            serial,
            peer: self.peers.get(link)?.credentials,
            name,
            data,
        })
    }

    fn answer_connect(&mut self, number: u32, serial: u64) -> Option<Found> {
        let entry = self.connection(number, serial)?;
        let result = match entry.failure.take() {
            Some(error) => Err(error),
            None => self.open_handle(number),
        };
        Some(match result {
            Ok(opened) => Found::Connected(Box::new(opened)),
            Err(error) => {
                self.drop_handle(number);
                Found::ConnectFailed { number, error }
            }
        })
    }

    fn find_closed(&mut self, number: u32, serial: u64) -> Option<Found> {
        let entry = self.connection(number, serial)?;
        let core = entry.core.as_ref()?;
        if entry.handle_gone {
            return None;
        }
        Some(Found::Closed {
            number,
            reason: match core.check() {
                Err(error) => error,
                Ok(()) => Error::PeerGone,
            },
        })
    }

    /// Takes the first request out of the events.
    pub fn take_request(&mut self) -> Option<Requested> {
        loop {
            let wanted = |p: &Pending| matches!(p, Pending::Request { .. });
            let at = self.events.pending.iter().position(wanted)?;
            let Some(Pending::Request { number, serial }) = self.events.pending.remove(at) else {
                return None;
            };
            let request = self.find_request(number, serial);
            if request.is_some() {
                return request;
            }
        }
    }

    /// Takes the first granted aperture out of the events of a connection.
    pub fn take_granted(&mut self, number: u32) -> Option<(u64, Arc<Imported>)> {
        let serial = self.connections.get(number as usize)?.serial;
        let wanted = |p: &Pending| matches!(p, Pending::Granted { serial: s, .. } if *s == serial);
        let at = self.events.pending.iter().position(wanted)?;
        match self.events.pending.remove(at) {
            Some(Pending::Granted {
                cookie, aperture, ..
            }) => {
                self.count_handed_out(number, serial);
                Some((cookie, aperture))
            }
            _ => None,
        }
    }
}
