//! Connections: messages both ways, with everything for blocking and non-blocking use.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use barewire_fabric::frame::{STATE_DEAF, STATE_FINISHED};
use barewire_fabric::ring::{
    RingReceiver, RingSender, publish_armed, publish_starved, publish_state,
};
use barewire_fabric::{Allowance, MessageReceiver, MessageSender};
use barewire_shm::Window;
use barewire_shm::counters::{SlotCounters, SlotInfo};

use crate::error::{Credentials, Error, Result};
use crate::handles::aperture::Aperture;
use crate::handles::event::ConnectionId;
use crate::handles::half::{RxSide, TxSide};
use crate::handles::receiver::Receiver;
use crate::handles::remote::RemoteAperture;
use crate::handles::sender::Sender;
use crate::handles::stream::Stream;
use crate::links::link::Link;
use crate::node::shared::Shared;
use crate::node::wait::Deadline;
use crate::tables::state::{ConnectionEntry, Far};

/// What both halves of a connection and the node's tables share.
pub(crate) struct ConnectionShared {
    pub number: u32,
    pub name: String,
    pub link: Arc<Link>,
    /// The peer's region: we store.
    pub outgoing: Window,
    /// The bit that stands for this connection at the peer.
    pub far_source: u32,
    /// What we have said in the peer's STATE word.
    said: Mutex<u64>,
    /// Something was received and it has not been seen that nothing is left.
    taking: AtomicBool,
    /// The peer has been asked to ring.
    armed: AtomicBool,
    /// An attempt to send found no room, and nobody is asked to ring for it yet.
    wants_room: AtomicBool,
    /// The peer has been asked to ring when there is room.
    starved: AtomicBool,
    /// Held while that changes: the node and the receiver may be in different threads.
    arming: Mutex<()>,
    /// On the node's list of those that have not.
    listed: AtomicBool,
    halves: AtomicU8,
}

impl ConnectionShared {
    /// Tells the peer something that stays true: it is to be rung for it.
    pub fn say(&self, bits: u64) {
        // A forked child has no say.
        if self.link.check_fork().is_err() {
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said | bits != *said {
            *said |= bits;
            publish_state(&self.outgoing, *said);
            drop(said);
            self.link.ring(self.far_source);
        }
    }

    #[inline]
    pub fn set_taking(&self, taking: bool) {
        // Relaxed: a hint between handles of one node.
        if self.taking.load(Ordering::Relaxed) != taking {
            self.taking.store(taking, Ordering::Relaxed);
        }
    }

    /// Whether readiness is to be told again.
    pub fn stopped_early(&self) -> bool {
        // Relaxed: a hint between handles of one node.
        self.taking.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_armed(&self) -> bool {
        // Relaxed: only says what we have stored ourselves.
        self.armed.load(Ordering::Relaxed)
    }

    /// Arms or disarms by `change`, and remembers which.
    pub fn set_armed(&self, armed: bool, change: impl FnOnce()) {
        let changing = self.arming.lock().unwrap_or_else(PoisonError::into_inner);
        change();
        // Relaxed: only says what we have stored ourselves.
        self.armed.store(armed, Ordering::Relaxed);
        drop(changing);
    }

    /// Has the peer ring again, for the node, which has taken us from its list. A heavy
    /// fence and another look at the ring must follow.
    pub fn rearm(&self) {
        // Relaxed: the list has a lock of its own.
        self.listed.store(false, Ordering::Relaxed);
        // Acquire pairs with `half_gone`: of a closed connection the peer's memory may
        // already serve another.
        if self.halves.load(Ordering::Acquire) > 0 {
            self.set_armed(true, || publish_armed(&self.outgoing));
            // Relaxed: the fence that follows orders it.
            if self.wants_room.swap(false, Ordering::Relaxed) {
                publish_starved(&self.outgoing, true);
                self.starved.store(true, Ordering::Relaxed);
            }
        }
    }

    /// An attempt to send found no room. Returns whether the node has to be told, to have
    /// the peer ring before anything sleeps.
    pub fn want_room(&self) -> bool {
        // Relaxed: the node's list has a lock of its own.
        !self.starved.load(Ordering::Relaxed)
            && !self.wants_room.swap(true, Ordering::Relaxed)
            && self.list()
    }

    /// There was room: the peer need not ring for it.
    #[inline]
    pub fn had_room(&self) {
        // Relaxed: set by the node's thread; seen late, it costs a bell.
        if self.starved.load(Ordering::Relaxed) {
            self.starved.store(false, Ordering::Relaxed);
            publish_starved(&self.outgoing, false);
        }
    }

    /// Whether this call put it on the list.
    pub fn list(&self) -> bool {
        // Relaxed: the list has a lock of its own.
        !self.listed.swap(true, Ordering::Relaxed)
    }

    /// Whether no handle is left.
    pub fn is_gone(&self) -> bool {
        // Relaxed: a hint; what is gone stays gone.
        self.halves.load(Ordering::Relaxed) == 0
    }

    /// A line that says which connection a handle is of, for people.
    pub fn describe(&self, handle: &str, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (number, name, peer) = (self.number, &self.name, self.link.peer);
        let (pid, uid) = (peer.pid, peer.uid);
        let state = if self.link.is_up() { "" } else { ", down" };
        write!(
            f,
            "{handle} {{ connection: {number}, name: {name:?}, peer: process {pid} of user {uid}{state} }}"
        )
    }

    /// One half is gone; returns whether both are.
    pub fn half_gone(&self) -> bool {
        // AcqRel pairs with itself: the last half sees what the other did.
        self.halves.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// A connection: messages both ways.
///
/// Each side accepts messages of any size up to the other side's limit, delivers them
/// whole and in order, and pushes back when the receiver is slow. Dropping a connection
/// closes it; what was sent before stays receivable at the other end.
///
/// A connection is `Send`: it may be used in another thread than its node's. It is not
/// `Sync`; [`Connection::split`] gives halves for two threads, and [`Sender::share`] a
/// sender for many.
pub struct Connection {
    pub(crate) sender: Sender,
    receiver: Receiver,
    _not_sync: PhantomData<Cell<()>>,
}

impl Connection {
    pub(crate) fn new(
        node: &Arc<Shared>,
        link: Arc<Link>,
        number: u32,
        entry: &ConnectionEntry,
        far: &Far,
        incoming: &Window,
        allowance: Option<Arc<dyn Allowance>>,
    ) -> Connection {
        let own_ring = incoming.len_bytes() - barewire_fabric::frame::CONTROL_BYTES;
        let slot = SlotInfo {
            connection: number,
            peer_pid: link.peer.pid as u32,
            peer_uid: link.peer.uid,
            ring_bytes_out: far.ring_bytes as u32,
            ring_bytes_in: own_ring as u32,
            region: entry.place,
            name: &entry.name,
        };
        let counters: Option<SlotCounters> = node.counters.open_slot(number, &slot);
        let common = Arc::new(ConnectionShared {
            number,
            name: entry.name.clone(),
            link,
            outgoing: far.window.clone(),
            far_source: far.source,
            said: Mutex::new(0),
            taking: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
            starved: AtomicBool::new(false),
            arming: Mutex::new(()),
            listed: AtomicBool::new(false),
            halves: AtomicU8::new(2),
        });
        let out = RingSender::new(far.window.clone(), incoming.clone(), far.ring_bytes);
        let inn = RingReceiver::new(incoming.clone(), far.window.clone(), own_ring);
        let mut messages = MessageReceiver::new(inn, entry.message_bytes_max);
        if let Some(allowance) = allowance {
            messages = messages.with_allowance(allowance);
        }
        Connection {
            sender: Sender::new(
                TxSide::new(Arc::clone(node), Arc::clone(&common), counters.clone()),
                MessageSender::new(out),
                far.message_bytes_max,
            ),
            receiver: Receiver::new(RxSide::new(Arc::clone(node), common, counters), messages),
            _not_sync: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> Arc<ConnectionShared> {
        Arc::clone(&self.sender.side.common)
    }

    /// Has the peer ring; `true` if something is there already.
    pub(crate) fn arm(&mut self) -> bool {
        let common = &self.sender.side.common;
        let mut ready = false;
        let ring = self.receiver.queue.ring();
        common.set_armed(true, || ready = ring.arm(&*common.link));
        ready
    }

    /// Whether it is one of this node's.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_of(&self, node: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.sender.side.node, node)
    }

    /// Its number on this node, as events name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        ConnectionId(self.sender.side.common.number)
    }

    /// The name that was connected to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.sender.side.common.name
    }

    /// Who is at the other end, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.sender.side.common.link.peer
    }

    /// The two halves, for two threads. The connection is closed when both are dropped;
    /// each half, when dropped, closes its own direction.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// The same connection as a byte stream, with message boundaries ignored; to be done on
    /// both sides, before the first message. One that has not been received completely is
    /// lost.
    #[must_use]
    pub fn into_stream(self) -> Stream {
        Stream::new(self.sender, self.receiver)
    }

    /// The sending half.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// The receiving half.
    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Sends a message; waits while the ring is full. See [`Sender::send`].
    ///
    /// # Errors
    /// See [`Sender::send`].
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.sender.send(message)
    }

    /// Sends a message if there is room. See [`Sender::try_send`].
    ///
    /// # Errors
    /// See [`Sender::try_send`].
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<bool> {
        self.sender.try_send(message)
    }

    /// Receives a message; waits for one. See [`Receiver::recv`].
    ///
    /// # Errors
    /// See [`Receiver::recv`].
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.receiver.recv(buffer)
    }

    /// Receives a message if one is there. See [`Receiver::try_recv`].
    ///
    /// # Errors
    /// See [`Receiver::try_recv`].
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.receiver.try_recv(buffer)
    }

    /// Sends a message; waits for at most `timeout`. See [`Sender::send_timeout`].
    ///
    /// # Errors
    /// See [`Sender::send_timeout`].
    pub fn send_timeout(
        &mut self,
        message: &[u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<()> {
        self.sender.send_timeout(message, timeout)
    }

    /// Receives a message; waits for at most `timeout`. See [`Receiver::recv_timeout`]; the
    /// other ways to receive are there, too.
    ///
    /// # Errors
    /// See [`Receiver::recv_timeout`].
    pub fn recv_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<usize>> {
        self.receiver.recv_timeout(buffer, timeout)
    }

    /// Receives a message of any length into a vector; waits for one. See
    /// [`Receiver::recv_into`].
    ///
    /// # Errors
    /// See [`Receiver::recv_into`].
    pub fn recv_into(&mut self, into: &mut Vec<u8>) -> Result<usize> {
        self.receiver.recv_into(into)
    }

    /// Says that nothing more will be sent: the peer receives what was sent, then
    /// [`Error::Finished`]. Receiving goes on.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Sends a short message outside the queue (at most
    /// [`OUT_OF_BAND_BYTES_MAX`](crate::config::OUT_OF_BAND_BYTES_MAX) bytes), which
    /// arrives as [`Event::OutOfBand`](crate::Event::OutOfBand). `false` if the peer has
    /// too many unread: try again later.
    ///
    /// # Errors
    /// [`Error::OutOfLimits`], or why the connection is down, as the kernel knows it: a peer
    /// that has died is told as such by this call, also if nobody polls the node.
    pub fn send_out_of_band(&self, data: &[u8]) -> Result<bool> {
        self.sender.side.send_out_of_band(data)
    }

    /// Grants the peer an aperture; it gets [`Event::Granted`](crate::Event::Granted)
    /// with this cookie. The rights are those of the aperture. The grant lasts until the peer gives it
    /// back or the aperture is revoked, also after this connection is dropped.
    ///
    /// # Errors
    /// [`Error::Access`] if the aperture has been revoked; [`Error::OtherNode`] if it is
    /// none of this connection's node; [`Error::GrantedAlready`] if the peer's node has it already;
    /// why the connection is down.
    pub fn grant(&self, aperture: &Aperture, cookie: u64) -> Result<()> {
        self.sender.side.check_alive()?;
        aperture.grant(&self.sender.side.node, &self.sender.side.common, cookie)
    }

    /// Waits for an aperture that the peer grants on this connection, for programs
    /// without an event loop. Other events stay where they are.
    ///
    /// # Errors
    /// [`Error::Timeout`], or why the connection is down.
    pub fn import(&self, timeout: impl Into<Option<Duration>>) -> Result<(u64, RemoteAperture)> {
        let side = &self.sender.side;
        let number = side.common.number;
        let deadline = Deadline::after(timeout.into());
        let found = side.node.wait_until(deadline, false, |_| {
            let granted = side.node.state().take_granted(&side.node, number);
            granted.map(Ok).or_else(|| side.check().err().map(Err))
        })?;
        found.unwrap_or(Err(Error::Timeout))
    }
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.sender.side.common.describe("Connection", f)
    }
}

pub(crate) const FINISHED: u64 = STATE_FINISHED;
pub(crate) const DEAF: u64 = STATE_DEAF;
