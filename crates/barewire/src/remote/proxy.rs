//! A proxy: plays the part of a node on another host, towards a node of this process.
//!
//! It has the other end of the link's control socket. To the node it sends a hello with a doorbell page, makes the
//! memory into which the node stores (stand-ins), and maps the memory in which the node receives. With the proxy on the
//! other host it exchanges records ([`crate::remote::record`]) over a carrier.
//!
//! Nobody is in it for long: [`Driven::push`] sends what the node has published and [`Driven::drive`] also stores what
//! has arrived; both return as soon as nothing is left that can be done at once. Of two threads that want to, one does it
//! for both. The proxy takes no lock of its node, so it can be driven under any.
//!
//! It also carries accesses to apertures. For its node's apertures that the other host holds it is the importer.
//!
//! Memory is bounded: messages wait in rings, where credit from the other host limits them; requests and answers of
//! apertures in queues with limits ([`crate::links::far`]); and a fixed number of bytes waits on either side of the carrier.
//! What has arrived is always taken, unless our node does not read what it is told: so two proxies never wait for each other.

mod accesses;
mod direct;
mod inner;
mod to_host;
mod to_node;

use std::sync::Arc;

use barewire_carrier::{Carrier, Sleep};
use barewire_sys::clock::monotonic_ns;
use barewire_sys::socket::Socket;

use crate::error::{Error, Result};
use crate::links::driven::{DirectBuffer, Driven, RemotePeer};
use crate::links::far::Far;
use crate::links::unconfirmed::Unconfirmed;
use crate::remote::firings::Firings;
use crate::remote::greeting::Greeting;
use crate::remote::one_worker::OneWorker;
use crate::remote::proxy::inner::{Inner, Shared, Stage};

pub(crate) use crate::remote::proxy::inner::OfNode;

/// Work that is wanted: to send what there is.
const SEND: u8 = 1;
/// As [`SEND`], and to store what has arrived.
const BOTH: u8 = 3;

/// A proxy.
pub(crate) struct Proxy {
    inner: OneWorker<Inner>,
    shared: Arc<Shared>,
    far: Arc<Far>,
    firings: Arc<Firings>,
}

impl Proxy {
    /// A proxy for a node on `host` that is yet to be reached; and the socket at which our node finds it.
    pub fn new(host: &str, of_node: OfNode) -> Result<(Arc<Proxy>, Socket)> {
        barewire_sys::returns::learn();
        let (for_node, own) = Socket::pair()?;
        let shared = Arc::new(Shared::default());
        let inner = Inner::new(host, of_node, own, Arc::clone(&shared))?;
        let proxy = Proxy {
            far: Arc::clone(&inner.far),
            firings: Arc::clone(&inner.firings),
            inner: OneWorker::new(inner),
            shared,
        };
        Ok((Arc::new(proxy), for_node))
    }

    /// Waits for the lock. What others want meanwhile is done after `f`.
    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        self.inner.with(f, Inner::work)
    }

    /// The other host was reached, greetings have been exchanged: from now on there is a link.
    ///
    /// # Errors
    /// No memory or descriptors are left. Then the link has ended.
    pub fn establish(
        self: &Arc<Self>,
        carrier: Box<dyn Carrier>,
        theirs: &Greeting,
        peer: RemotePeer,
    ) -> Result<()> {
        let set = self.with(|inner| {
            self.shared.set_peer(peer, &inner.of_node.counters);
            if let Err(error) = inner.begin(carrier, theirs) {
                inner.end(Some(error.clone()));
                return Err(error);
            }
            inner.ping();
            Ok(Arc::clone(inner.set()))
        })?;
        if !set.add(Arc::clone(self) as Arc<dyn Driven>) {
            self.give_up(Error::Closed);
            return Err(Error::Closed);
        }
        self.drive();
        Ok(())
    }

    /// The other host could not be reached.
    pub fn give_up(&self, error: Error) {
        self.with(|inner| inner.end(Some(error)));
    }
}

impl Driven for Proxy {
    fn push(&self) {
        self.inner.work(SEND, Inner::work);
    }

    fn send_direct(&self, source: u32, message: &[u8], announce: &mut dyn FnMut() -> bool) -> bool {
        let send = |inner: &mut Inner| inner.send_direct(source, message, announce);
        self.inner.try_with(send, Inner::work).unwrap_or(false)
    }

    fn drive(&self) {
        self.inner.work(BOTH, Inner::work);
    }

    fn drive_into(&self, buffer: &mut DirectBuffer<'_>) {
        let turn = |inner: &mut Inner| inner.turn_into(Some(buffer));
        if self.inner.try_with(turn, Inner::work).is_none() {
            self.drive();
        }
    }

    fn settle(&self) {
        self.with(|inner| inner.turn(true));
    }

    fn tick(&self, ping_after_ns: u64, lost_after_ns: u64) {
        // What has arrived meanwhile counts.
        self.drive();
        self.with(|inner| inner.check_times(monotonic_ns(), ping_after_ns, lost_after_ns));
        // What is owed to the other host.
        self.push();
    }

    fn may_sleep(&self) -> bool {
        let mut was_left = false;
        let after = |inner: &mut Inner, bits| {
            was_left = true;
            inner.work(bits);
        };
        let sleep = self.inner.with(Inner::before_sleep_on_set, after);
        sleep != Sleep::NotYet && !was_left
    }

    fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }

    fn peer(&self) -> Option<RemotePeer> {
        self.shared.peer()
    }

    fn failure(&self) -> Option<Error> {
        self.shared.failure()
    }

    fn unconfirmed(&self, connection: u32) -> Option<Unconfirmed> {
        self.shared.unconfirmed(connection)
    }

    fn record(&self) -> Option<u32> {
        self.shared.record()
    }

    fn far(&self) -> &Arc<Far> {
        &self.far
    }

    fn fired(&self, source: u32) {
        self.firings.add(source);
        self.push();
    }
}

impl Inner {
    /// Does the work of these bits.
    fn work(&mut self, bits: u8) {
        self.turn(bits & BOTH == BOTH);
    }

    /// Does what there is to do; `both`: stores what has arrived, too.
    pub(super) fn turn(&mut self, both: bool) {
        if both {
            return self.turn_into(None);
        }
        if self.carrier.is_none() {
            return;
        }
        if let Err(stop) = self.send() {
            self.stop(stop);
        }
        self.before_sleep();
    }

    /// Does what there is to do, and stores what has arrived: in the buffer, if there is one, and that is possible.
    fn turn_into(&mut self, buffer: Option<&mut DirectBuffer<'_>>) {
        if self.carrier.is_none() {
            return;
        }
        self.begin_look();
        self.has_received = false;
        let mut result = self.send();
        if result.is_ok() {
            result = self.receive(buffer);
        }
        // What is stored may make room for what waits, as credit does, and what is said may want an answer.
        if self.has_received && result.is_ok() && self.is_send_wanted() {
            result = self.send();
        }
        if let Err(stop) = result {
            self.stop(stop);
        }
        self.may_postpone = false;
        if self.has_received {
            self.note_arrival();
        }
        self.before_sleep();
    }

    /// Whether sending again may find something to do, other than what our node has rung for since.
    fn is_send_wanted(&self) -> bool {
        self.has_more()
            || self.held.is_some()
            || self.control_pending
            || self.pings.is_asked()
            || self.stage != Stage::Up
    }

    /// Sees whether the other host is still there, and has it see that we are.
    pub fn check_times(&mut self, now_ns: u64, ping_after_ns: u64, lost_after_ns: u64) {
        if matches!(self.stage, Stage::Reaching | Stage::Ended) {
            return;
        }
        let silent_ns = now_ns.saturating_sub(self.last_arrival_ns);
        if silent_ns > lost_after_ns {
            let reason = format!("nothing came from it for {} ms", silent_ns / 1_000_000);
            return self.end(Some(self.lost(reason)));
        }
        // Also while there is traffic: how long it takes there and back is wanted.
        if now_ns.saturating_sub(self.pings.sent_ns()) > ping_after_ns {
            self.ping();
            self.acknowledge();
        }
    }
}
