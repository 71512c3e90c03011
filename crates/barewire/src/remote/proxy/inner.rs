//! What a proxy has, how it begins and how it ends.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use barewire_carrier::{Broken, Carrier, How, Sleep};
use barewire_fabric::doorbell::{Drain, PAGE_BYTES};
use barewire_fabric::frame::region_bytes;
use barewire_fabric::ring::Published;
use barewire_shm::counters::{CounterPage, RemoteCounters, RemoteInfo};
use barewire_shm::{Region, Window};
use barewire_sys::SysError;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::memory::{Access, Memfd};
use barewire_sys::process::Credentials;
use barewire_sys::retire::{Guarded, Retirer};
use barewire_sys::socket::Socket;
use barewire_sys::wake::{EventFd, Interest};

use crate::error::{Error, Result};
use crate::links::arena::Arena;
use crate::links::driven::{DrivenSet, RemotePeer, TRAPS_FROM};
use crate::links::far::Far;
use crate::links::link::Link;
use crate::links::unconfirmed::Unconfirmed;
use crate::messages::control::{FLAG_MEMBARRIER, Message, VERSION};
use crate::remote::connections::{CONTROL_SOURCE, Connection, Connections, Receiving, source_of};
use crate::remote::firings::Firings;
use crate::remote::greeting::Greeting;
use crate::remote::inbox::Inbox;
use crate::remote::lent::Lent;
use crate::remote::outbox::Outbox;
use crate::remote::pings::Pings;

/// Token of a carrier's descriptor in the set. Which one it is does not matter: all are driven.
const TOKEN_CARRIER: u64 = 0;
/// Messages for our node that may wait for it to read; then nothing is taken from the other host.
const TO_NODE_MAX: usize = 4096;

/// So many turns in a row have something to find before the carrier's descriptor is left out of the set.
const ARRIVALS_BEFORE_LEFT_OUT: u32 = 32;

/// Why a proxy stops.
pub(super) enum Stop {
    /// The other host can not be reached any more.
    Broken(Broken),
    /// The other host broke the protocol between hosts.
    Misbehaved(&'static str),
    /// The other host has closed its end.
    Ended,
    /// Our own node, of this process and this version, says what it must not.
    Fault(&'static str),
    /// Something of this machine is missing: memory, descriptors.
    System(Error),
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Stop {
        Stop::Broken(broken)
    }
}

impl From<SysError> for Stop {
    fn from(error: SysError) -> Stop {
        Stop::System(error.into())
    }
}

/// How far a proxy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The other host has not been reached yet.
    Reaching,
    Up,
    /// One of the nodes has said good-bye, or our node is gone: what was accepted is still sent.
    Leaving,
    /// All was sent; the other host has yet to close.
    Sent,
    Ended,
}

/// What a proxy needs of its node.
pub(crate) struct OfNode {
    pub own: Credentials,
    /// Whether this process may use membarrier.
    pub membarrier: bool,
    pub counters: CounterPage,
    pub retirer: Retirer,
    pub set: Arc<DrivenSet>,
}

/// What others see of a proxy without its lock.
#[derive(Default)]
pub(super) struct Shared {
    peer: Mutex<Option<RemotePeer>>,
    /// What others see of the link in the counters page, until nobody has the proxy any more.
    counters: OnceLock<RemoteCounters>,
    round_trip_ns: AtomicU64,
    failure: Mutex<Option<Error>>,
    /// By our node's numbers of connections.
    unconfirmed: Mutex<HashMap<u32, Unconfirmed>>,
    ended: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Who the other side is. The link is shown from now on.
    pub fn set_peer(&self, peer: RemotePeer, page: &CounterPage) {
        self.counters.get_or_init(|| {
            page.open_remote(&RemoteInfo {
                address: &peer.address,
                identity: (peer.identity.how != How::Nobody).then_some(peer.identity.name.as_str()),
                transport: &peer.transport,
                pid: peer.pid,
                is_encrypted: peer.is_encrypted,
            })
        });
        *locked(&self.peer) = Some(peer);
    }

    pub fn peer(&self) -> Option<RemotePeer> {
        let mut peer = locked(&self.peer).clone()?;
        // Relaxed: it stands for itself.
        let ns = self.round_trip_ns.load(Ordering::Relaxed);
        peer.round_trip = (ns > 0).then(|| Duration::from_nanos(ns));
        Some(peer)
    }

    /// The record of the link in the counters page.
    pub fn record(&self) -> Option<u32> {
        self.counters.get()?.number()
    }

    pub fn set_round_trip(&self, ns: u64) {
        // Relaxed: it stands for itself.
        self.round_trip_ns.store(ns, Ordering::Relaxed);
        if let Some(counters) = self.counters.get() {
            counters.set_round_trip(ns);
        }
    }

    pub fn failure(&self) -> Option<Error> {
        locked(&self.failure).clone()
    }

    pub fn unconfirmed(&self, connection: u32) -> Option<Unconfirmed> {
        locked(&self.unconfirmed).get(&connection).copied()
    }

    pub fn has_ended(&self) -> bool {
        // Acquire pairs with the Release in `end`: the failure is visible.
        self.ended.load(Ordering::Acquire)
    }

    fn end(&self, failure: Option<Error>) {
        *locked(&self.failure) = failure;
        if let Some(counters) = self.counters.get() {
            counters.set_down();
        }
        // Release pairs with the Acquire in `has_ended`.
        self.ended.store(true, Ordering::Release);
    }
}

/// A frame that is being sent.
pub(super) struct Sending {
    pub index: usize,
    pub frame: Published,
    /// Bytes of it that are in the outbox or beyond.
    pub done_bytes: usize,
}

/// A proxy, under its lock.
pub(super) struct Inner {
    pub stage: Stage,
    pub of_node: OfNode,
    pub shared: Arc<Shared>,
    /// `host:port`, for errors.
    host: String,
    pub carrier: Option<Box<dyn Carrier>>,
    pub outbox: Outbox,
    pub inbox: Inbox,
    pub socket: Arc<Guarded>,
    /// Messages for our node that it has not read yet.
    pub to_node: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    page_memfd: Memfd,
    pub page: Window,
    pub drain: Drain,
    /// Our node's doorbell page and eventfd, and its bit for control messages: once it has said hello.
    pub link: Option<(Arc<Link>, u32)>,
    /// What is asked for of the other host's memory, and what the other host holds of our node's.
    pub far: Arc<Far>,
    pub lent: Lent,
    pub firings: Arc<Firings>,
    /// Whether apertures have their turn before messages.
    pub accesses_first: bool,
    pub arena: Arena,
    /// Bytes of the stand-ins that are in use.
    pub stand_in_bytes: u64,
    /// Memory in which our node receives.
    pub segments: Vec<Region>,
    pub connections: Connections,
    /// Connections that our node has rung for.
    pub listed: VecDeque<usize>,
    /// Connections whose credit waits for a message to go with.
    pub postponed: Vec<usize>,
    /// Turns of threads that poll since then.
    pub turns_postponed: u32,
    /// Credit may wait: this is the turn of a thread that looks for what has come.
    pub may_postpone: bool,
    /// Our node has announced control messages.
    pub control_pending: bool,
    /// A control message that has to wait for what comes before it.
    pub held: Option<Vec<u8>>,
    /// As many requests were made before it.
    pub held_after: Option<u64>,
    /// As many requests were made before the next frame of this connection, which waits for them.
    pub frame_after: Option<(usize, u64)>,
    pub sending: Option<Sending>,
    pub receiving: Option<Receiving>,
    /// One of the last two reads for a [`DirectBuffer`](crate::links::driven::DirectBuffer) began with a long frame for this
    /// connection: the next one may, too.
    pub long_from: Option<usize>,
    /// The last of them did not.
    pub has_missed: bool,
    /// Connections for which something was stored since our node was rung.
    pub touched: Vec<usize>,
    /// What the set waits for at the carrier's descriptor.
    interest: Interest,
    /// The set does not wait for it, because somebody polls.
    is_left_out: bool,
    /// Turns in which something came since a thread was last about to sleep.
    arrivals: u32,
    pub last_arrival_ns: u64,
    pub pings: Pings,
    /// Something has come in this turn.
    pub has_received: bool,
}

impl Inner {
    pub fn new(host: &str, of_node: OfNode, own: Socket, shared: Arc<Shared>) -> Result<Inner> {
        let page_memfd = Memfd::create_sealed("barewire-doorbell", PAGE_BYTES)?;
        let page = page_memfd.map(Access::ReadWrite)?.whole();
        Ok(Inner {
            stage: Stage::Reaching,
            socket: Arc::new(Guarded::new(own, &of_node.retirer)),
            of_node,
            shared,
            host: host.to_owned(),
            carrier: None,
            outbox: Outbox::new(),
            inbox: Inbox::new(),
            to_node: VecDeque::new(),
            page_memfd,
            page,
            drain: Drain::default(),
            link: None,
            far: Arc::new(Far::new()),
            lent: Lent::default(),
            firings: Arc::default(),
            accesses_first: false,
            arena: Arena::default(),
            stand_in_bytes: 0,
            segments: Vec::new(),
            connections: Connections::default(),
            listed: VecDeque::new(),
            postponed: Vec::new(),
            turns_postponed: 0,
            may_postpone: false,
            control_pending: false,
            held: None,
            held_after: None,
            frame_after: None,
            sending: None,
            receiving: None,
            long_from: None,
            has_missed: false,
            touched: Vec::new(),
            interest: Interest::READ,
            last_arrival_ns: 0,
            pings: Pings::default(),
            has_received: false,
            is_left_out: false,
            arrivals: 0,
        })
    }

    pub fn set(&self) -> &Arc<DrivenSet> {
        &self.of_node.set
    }

    /// There is a carrier now: says hello to our node.
    pub fn begin(&mut self, carrier: Box<dyn Carrier>, theirs: &Greeting) -> Result<()> {
        if self.stage != Stage::Reaching {
            return Err(Error::Closed);
        }
        let carrier = self.carrier.insert(carrier);
        let epoll = &self.of_node.set.epoll;
        epoll.add(carrier.descriptor(), TOKEN_CARRIER, self.interest)?;
        self.last_arrival_ns = monotonic_ns();
        self.stage = Stage::Up;
        // Our node may have said hello, and asked for connections, long ago.
        self.control_pending = true;
        self.say_hello(theirs)
    }

    /// Says hello to our node, in the place of the other host's.
    fn say_hello(&mut self, theirs: &Greeting) -> Result<()> {
        let flags = match self.of_node.membarrier {
            true => FLAG_MEMBARRIER,
            false => 0,
        };
        let hello = Message::Hello {
            version: VERSION,
            node_id: theirs.node_id,
            flags,
            source: CONTROL_SOURCE,
        };
        // Nobody sleeps by our page: whoever rings us drives us. A process's page comes with an eventfd all the same.
        let eventfd = EventFd::new_for_peers()?;
        let fds: [BorrowedFd<'_>; 2] = [self.page_memfd.as_fd(), eventfd.as_fd()];
        self.socket.send(&hello.encode(), &fds)?;
        Ok(())
    }

    pub fn lost(&self, reason: String) -> Error {
        Error::HostLost {
            host: self.host.clone(),
            reason,
            lost: None,
        }
    }

    /// Ends for this reason.
    pub fn stop(&mut self, stop: Stop) {
        let error = match stop {
            // One of the nodes has said good-bye: nobody waits for anything any more.
            Stop::Ended | Stop::Broken(_) if matches!(self.stage, Stage::Leaving | Stage::Sent) => {
                return self.end(None);
            }
            Stop::Ended => self.lost("its process ended, or it closed the connection".to_owned()),
            Stop::Broken(broken) => self.lost(broken.to_string()),
            Stop::Misbehaved(what) => self.lost(format!("it broke the protocol: {what}")),
            Stop::Fault(what) => self.lost(format!("a fault of this node: {what}")),
            Stop::System(error) => error,
        };
        self.end(Some(error));
    }

    /// Nothing more happens here. Our node learns of it by the hang-up.
    pub fn end(&mut self, failure: Option<Error>) {
        if self.stage == Stage::Ended {
            return;
        }
        self.stage = Stage::Ended;
        if let Some(carrier) = self.carrier.take() {
            // It can only fail for a descriptor that is not in the set.
            let _ = self.of_node.set.epoll.remove(carrier.descriptor());
        }
        let connections = core::mem::take(&mut self.connections);
        *locked(&self.shared.unconfirmed) = connections.into_unconfirmed();
        self.shared.end(failure);
        self.far.clear();
        self.lent = Lent::default();
        self.socket.shutdown();
        self.segments = Vec::new();
        self.to_node.clear();
        if let Some((link, source)) = self.link.take() {
            link.ring(source);
        }
    }

    /// Whether our node has not read what it was told, so that nothing more is taken from the other host.
    pub fn is_node_behind(&self) -> bool {
        self.to_node.len() >= TO_NODE_MAX
    }

    /// Whether something waits to be sent that is known of.
    pub fn has_more(&self) -> bool {
        !self.outbox.is_empty()
            || self.sending.is_some()
            || !self.listed.is_empty()
            || self.has_accesses()
    }

    /// Asks the carrier what to wait for, and has the set wait for it.
    pub fn before_sleep(&mut self) -> Sleep {
        let has_more = self.has_more();
        let Some(carrier) = self.carrier.as_mut() else {
            return Sleep::UntilReadable;
        };
        let sleep = carrier.before_sleep();
        if self.is_left_out {
            return sleep;
        }
        let is_set = self.set_interest(Interest {
            readable: self.to_node.len() < TO_NODE_MAX,
            writable: has_more || sleep == Sleep::UntilReadableOrWritable,
            edge: false,
        });
        match is_set {
            true => sleep,
            // Nobody would be woken.
            false => Sleep::NotYet,
        }
    }

    /// As [`Inner::before_sleep`], for a thread that is about to sleep on the set.
    pub fn before_sleep_on_set(&mut self) -> Sleep {
        self.is_left_out = false;
        self.arrivals = 0;
        if self.list_postponed() {
            self.turn(false);
        }
        self.before_sleep()
    }

    /// `false` if the kernel has no memory for it.
    fn set_interest(&mut self, interest: Interest) -> bool {
        let Some(carrier) = self.carrier.as_ref().filter(|_| self.interest != interest) else {
            return true;
        };
        let (epoll, descriptor) = (&self.of_node.set.epoll, carrier.descriptor());
        // Where the set waits for nothing, it goes out: each packet would pay for having it there all the same.
        let changed = match (self.interest, interest) {
            (Interest::NONE, _) => epoll.add(descriptor, TOKEN_CARRIER, interest),
            (_, Interest::NONE) => epoll.remove(descriptor),
            _ => epoll.modify(descriptor, TOKEN_CARRIER, interest),
        };
        if changed.is_ok() {
            self.interest = interest;
        }
        changed.is_ok()
    }

    /// Something has come in this turn. After many such turns in a row, the set no longer waits for the carrier's
    /// descriptor, until somebody is about to sleep.
    pub fn note_arrival(&mut self) {
        let set = &self.of_node.set;
        set.note_arrival(self.last_arrival_ns);
        self.arrivals += 1;
        if self.arrivals >= ARRIVALS_BEFORE_LEFT_OUT && !self.is_left_out && set.may_leave_out() {
            self.is_left_out = true;
            self.set_interest(Interest::NONE);
        }
    }
}

/// Connections of the link.
impl Inner {
    pub fn add(&mut self, connection: Connection) -> Result<usize, Stop> {
        let added = self.connections.add(connection);
        let index = added.ok_or(Stop::Misbehaved("uses a number twice"))?;
        if source_of(index) >= TRAPS_FROM {
            let (what, limit) = ("connections over one link to another host", TRAPS_FROM);
            let limit = u64::from(limit);
            return Err(Stop::System(Error::LimitReached { what, limit }));
        }
        Ok(index)
    }

    /// Nothing more is begun: one of the nodes has said good-bye, or our node is gone.
    pub fn leave(&mut self) {
        if self.stage == Stage::Up {
            self.stage = Stage::Leaving;
            // What was posted is still sent. Nobody waits for answers any more.
            self.far.end();
        }
    }

    /// Both sides have let go of a connection: forgets it.
    pub fn free_if_done(&mut self, index: usize) {
        let done = |c: &mut Connection| c.node_detached && c.host_detached;
        if self.connections.get(index).is_some_and(done) {
            self.free(index);
        }
    }

    /// Forgets a connection.
    pub fn free(&mut self, index: usize) {
        self.frame_after.take_if(|(of, _)| *of == index);
        let removed = self.connections.remove(index);
        if let Some(stand_in) = removed.and_then(|connection| connection.stand_in) {
            let region = stand_in.region;
            drop(stand_in);
            self.stand_in_bytes -= region_bytes(region.ring_bytes as usize) as u64;
            self.arena.free(region);
        }
    }
}
