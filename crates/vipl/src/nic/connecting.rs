//! Connections begin and end.
//!
//! - *Client and server.* A server listens under its address as long as it waits. A client that finds nobody there, or
//!   nobody who waits, is told so at once: `VIP_NO_MATCH`.
//! - *Peers.* Both ask for each other, in any order. The one with the smaller address calls, again and again until its
//!   time is over; the other one listens. If both addresses are equal, whoever gets the name listens.
//! - The VI of who called is connected when the other end has told the attributes of its VI.
//! - *The end.* Whoever disconnects drops the connection. What it had sent is still received at the other end, whose
//!   node then reports the end.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Connection, ConnectionId, Error, Request};
use barewire_proto::via::state::ViEvent;

use super::sending::put;
use super::state::{Connecting, Flow, Inner, Link, Listening, Pending, Phase};
use crate::address::Model;
use crate::raw::{AsyncError, Code};
use crate::records::{Asked, Record, Told};

/// Why a request is refused. The texts are what the other end tells the cases apart by.
const NO_MATCH: &str = "vipl: nobody waits for this address";
const REJECTED: &str = "vipl: rejected";
/// The pause between two calls of a peer.
const PAUSE: Duration = Duration::from_millis(5);

impl Inner {
    /// Moves a VI to the state after an event.
    fn happens(&mut self, vi: usize, event: ViEvent) {
        self.changed = true;
        if let Some(of) = self.vis.get_mut(&vi) {
            of.state = of.state.on(event).unwrap_or(of.state);
        }
    }

    /// Begins to listen under a name, or goes on.
    pub(crate) fn listen(&mut self, name: &str) -> Result<(), Code> {
        if !self.listening.contains_key(name) {
            let listener = self.node.listen(name).map_err(|_| Code::ErrorResource)?;
            let listening = Listening {
                _listener: listener,
                waiting: 0,
                arrived: Default::default(),
            };
            self.listening.insert(name.to_owned(), listening);
        }
        if let Some(listening) = self.listening.get_mut(name) {
            listening.waiting += 1;
        }
        Ok(())
    }

    /// One who listened under a name does not any more.
    pub(crate) fn stop_listening(&mut self, name: &str) {
        let Some(listening) = self.listening.get_mut(name) else {
            return;
        };
        listening.waiting -= 1;
        if listening.waiting == 0 {
            let gone = self.listening.remove(name);
            for pending in gone.into_iter().flat_map(|of| of.arrived) {
                pending.request.reject(NO_MATCH);
            }
        }
    }

    /// A request of a client that arrived under this name.
    pub(crate) fn arrived_request(&mut self, name: &str) -> Option<Pending> {
        self.listening.get_mut(name)?.arrived.pop_front()
    }

    /// Somebody wants to connect.
    pub(super) fn requested(&mut self, request: Request) {
        let asked = Asked::read(request.data());
        let Some(asked) = asked.filter(|asked| asked.to.name(asked.model) == request.name()) else {
            return request.reject("vipl: not a VI");
        };
        if asked.model == Model::Peer {
            return self.requested_by_peer(request, &asked);
        }
        let listening = self.listening.get_mut(request.name());
        match listening.filter(|of| of.arrived.len() < of.waiting) {
            Some(listening) => {
                listening.arrived.push_back(Pending { request, asked });
                self.changed = true;
            }
            None => request.reject(NO_MATCH),
        }
    }

    fn requested_by_peer(&mut self, request: Request, asked: &Asked) {
        let waits = |vi: &super::state::Vi| {
            vi.connecting.as_ref().is_some_and(|own| {
                own.phase == Phase::Listening
                    && own.asked.from == asked.to
                    && own.asked.to == asked.from
            })
        };
        let found = self.vis.iter().find(|(_, vi)| waits(vi));
        let Some((&vi, of)) = found else {
            return request.reject(NO_MATCH);
        };
        if let Err(code) = fits(&of.told, &asked.told) {
            request.reject(REJECTED);
            return self.fail_connecting(vi, code);
        }
        if let Ok(connection) = request.accept() {
            self.stop_connecting(vi);
            self.happens(vi, ViEvent::Established);
            self.connected_as_server(vi, connection, asked.told);
        }
    }

    /// Accepts a client's request with a VI.
    pub(crate) fn accept(&mut self, vi: usize, pending: Pending) -> Result<(), Code> {
        // The other end has given up.
        let connection = pending.request.accept().map_err(|_| Code::Timeout)?;
        self.happens(vi, ViEvent::Accept);
        self.connected_as_server(vi, connection, pending.asked.told);
        Ok(())
    }

    /// Whether a VI may be connected with another one.
    pub(crate) fn fits(&self, vi: usize, other: &Told) -> Result<(), Code> {
        let of = self.vis.get(&vi).ok_or(Code::InvalidParameter)?;
        fits(&of.told, other)
    }

    fn connected_as_server(&mut self, vi: usize, connection: Connection, other: Told) {
        let Some(of) = self.vis.get_mut(&vi) else {
            return;
        };
        of.outcome = Some(Ok(other));
        let hello = Record::Hello(of.told);
        let flow = Flow {
            established: true,
            ..Flow::default()
        };
        let link = self.keep(vi, connection, flow);
        if let Some(link) = link {
            // A new connection has room for it.
            put(
                link.connection.sender(),
                &mut Vec::new(),
                &mut link.flow,
                &hello,
                &[],
            );
        }
        self.pump(vi);
    }

    fn keep(&mut self, vi: usize, connection: Connection, mut flow: Flow) -> Option<&mut Link> {
        let of = self.vis.get_mut(&vi)?;
        (0..of.receives.work.open_len()).for_each(|_| flow.offered.post());
        self.by_connection.insert(connection.id(), vi);
        let link = Link { connection, flow };
        Some(of.link.insert(Box::new(link)))
    }

    /// Asks for a connection.
    pub(crate) fn request(
        &mut self,
        vi: usize,
        asked: Asked,
        deadline: Option<Instant>,
    ) -> Result<(), Code> {
        self.happens(vi, ViEvent::Request);
        let of = self.vis.get_mut(&vi).ok_or(Code::InvalidParameter)?;
        of.outcome = None;
        self.pending += 1;
        of.connecting = Some(Connecting {
            asked,
            deadline,
            phase: Phase::Pausing(Instant::now()),
        });
        self.try_connecting(vi);
        // It has to know when this is due.
        self.wake_helper();
        Ok(())
    }

    /// Calls, or listens, for a VI whose time it is to do so.
    fn try_connecting(&mut self, vi: usize) {
        let Some(own) = self.vis.get(&vi).and_then(|of| of.connecting.as_ref()) else {
            return;
        };
        let (from, to, model) = (&own.asked.from, &own.asked.to, own.asked.model);
        let order = match model {
            Model::ClientServer => Ordering::Less,
            Model::Peer => from.cmp(to),
        };
        let (own_name, name) = (from.name(model), to.name(model));
        let options = ConnectOptions {
            wait_for_name: false,
            data: own.asked.write(),
            ..ConnectOptions::default()
        };
        if order != Ordering::Less && self.listen(&own_name).is_ok() {
            return self.phase(vi, Phase::Listening);
        }
        if order == Ordering::Greater {
            // Somebody else has the name, perhaps not for long.
            return self.phase(vi, Phase::Pausing(Instant::now() + PAUSE));
        }
        match self.node.start_connect(&name, &options) {
            Ok(connection) => {
                self.by_connection.insert(connection, vi);
                self.phase(vi, Phase::Calling(connection));
            }
            Err(error) => self.not_connected(vi, &error),
        }
    }

    fn phase(&mut self, vi: usize, phase: Phase) {
        if let Some(own) = self.vis.get_mut(&vi).and_then(|of| of.connecting.as_mut()) {
            own.phase = phase;
        }
    }

    fn phase_of(&self, vi: usize) -> Option<Phase> {
        Some(self.vis.get(&vi)?.connecting.as_ref()?.phase)
    }

    /// A connection that this end began is open.
    pub(super) fn connected(&mut self, connection: Connection) {
        let id = connection.id();
        let vi = self.by_connection.get(&id).copied();
        let Some(vi) = vi.filter(|&vi| self.phase_of(vi) == Some(Phase::Calling(id))) else {
            return;
        };
        self.phase(vi, Phase::Greeting);
        self.keep(vi, connection, Flow::default());
        self.drain(vi);
    }

    /// A call failed.
    pub(super) fn call_failed(&mut self, id: ConnectionId, error: &Error) {
        let vi = self.by_connection.get(&id).copied();
        if let Some(vi) = vi.filter(|&vi| self.phase_of(vi) == Some(Phase::Calling(id))) {
            self.by_connection.remove(&id);
            self.not_connected(vi, error);
        }
    }

    fn not_connected(&mut self, vi: usize, error: &Error) {
        let code = match error {
            Error::NoSuchName { .. } => Code::NoMatch,
            Error::Refused { reason } if reason == NO_MATCH => Code::NoMatch,
            Error::Refused { .. } => Code::Reject,
            Error::PeerGone | Error::PeerDied { .. } => Code::NoMatch,
            _ => Code::ErrorResource,
        };
        let own = self.vis.get(&vi).and_then(|of| of.connecting.as_ref());
        let is_peer = own.is_some_and(|own| own.asked.model == Model::Peer);
        if is_peer && code == Code::NoMatch {
            return self.phase(vi, Phase::Pausing(Instant::now() + PAUSE));
        }
        self.fail_connecting(vi, code);
    }

    /// The other end has told the attributes of its VI.
    pub(super) fn greeted(&mut self, vi: usize, other: Told) {
        if let Some(of) = self.vis.get_mut(&vi) {
            self.pending -= usize::from(of.connecting.take().is_some());
            of.outcome = Some(Ok(other));
        }
        self.happens(vi, ViEvent::Established);
    }

    /// A request has failed.
    pub(super) fn fail_connecting(&mut self, vi: usize, code: Code) {
        self.stop_connecting(vi);
        self.drop_link(vi);
        if let Some(of) = self.vis.get_mut(&vi) {
            of.outcome = Some(Err(code));
        }
        self.happens(vi, ViEvent::Refused);
    }

    /// Gives up what a request has begun.
    fn stop_connecting(&mut self, vi: usize) {
        let own = self.vis.get_mut(&vi).and_then(|of| of.connecting.take());
        let Some(own) = own else {
            return;
        };
        self.pending -= 1;
        match own.phase {
            Phase::Calling(id) => {
                self.by_connection.remove(&id);
                self.node.cancel_connect(id);
            }
            Phase::Listening => self.stop_listening(&own.asked.from.name(own.asked.model)),
            Phase::Pausing(_) | Phase::Greeting => {}
        }
    }

    fn drop_link(&mut self, vi: usize) {
        let link = self.vis.get_mut(&vi).and_then(|of| of.link.take());
        if let Some(link) = link {
            self.by_connection.remove(&link.connection.id());
        }
    }

    /// Does what is due by the clock. Returns when it is due next.
    pub(crate) fn keep_time(&mut self) -> Option<Instant> {
        if self.pending == 0 {
            return None;
        }
        let now = Instant::now();
        let mut next = None;
        let pending = self.vis.iter().filter(|(_, of)| of.connecting.is_some());
        let pending: Vec<usize> = pending.map(|(&vi, _)| vi).collect();
        for vi in pending {
            let Some(own) = self.vis.get(&vi).and_then(|of| of.connecting.as_ref()) else {
                continue;
            };
            if own.deadline.is_some_and(|deadline| deadline <= now) {
                self.fail_connecting(vi, Code::Timeout);
                continue;
            }
            let deadline = own.deadline;
            if let Phase::Pausing(until) = own.phase {
                if until <= now {
                    self.try_connecting(vi);
                }
            }
            let pause = match self.phase_of(vi) {
                Some(Phase::Pausing(until)) => Some(until),
                _ => None,
            };
            next = [next, deadline, pause].into_iter().flatten().min();
        }
        next
    }

    /// The connection of a VI ends because something failed, which the other end sees when it is dropped.
    pub(super) fn fault(&mut self, vi: usize, link: Box<Link>) {
        self.by_connection.remove(&link.connection.id());
        drop(link);
        if self.phase_of(vi).is_some() {
            return self.fail_connecting(vi, Code::Reject);
        }
        self.happens(vi, ViEvent::Fault);
        self.flush(vi, true);
        self.tell_error(vi, AsyncError::ConnLost);
    }

    /// A receive that was posted makes no sense, and the connection must not go on without it.
    pub(crate) fn break_connection(&mut self, vi: usize) {
        let link = self.vis.get_mut(&vi).and_then(|of| of.link.take());
        if let Some(link) = link {
            self.fault(vi, link);
        }
    }

    /// The other end is gone.
    pub(super) fn lost(&mut self, vi: usize) {
        self.drop_link(vi);
        if self.phase_of(vi).is_some() {
            return self.fail_connecting(vi, Code::Reject);
        }
        self.happens(vi, ViEvent::Lost);
        self.flush(vi, true);
        self.tell_error(vi, AsyncError::ConnLost);
    }

    /// The program disconnects a VI.
    pub(crate) fn disconnect(&mut self, vi: usize) {
        if self.phase_of(vi).is_some() {
            self.fail_connecting(vi, Code::InvalidState);
        }
        // What has arrived is received.
        while self.drain(vi) {}
        self.drop_link(vi);
        self.happens(vi, ViEvent::Disconnect);
        self.flush(vi, false);
    }
}

/// Whether two VIs may be connected.
fn fits(own: &Told, other: &Told) -> Result<(), Code> {
    if own.reliability != other.reliability {
        return Err(Code::InvalidReliabilityLevel);
    }
    if own.transfer_bytes_max != other.transfer_bytes_max {
        return Err(Code::InvalidMtu);
    }
    Ok(())
}

/// Rejects a request on behalf of the program.
pub(crate) fn reject(pending: Pending) {
    pending.request.reject(REJECTED);
}
