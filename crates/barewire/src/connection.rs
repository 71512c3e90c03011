//! Connections: messages both ways, with everything for blocking and non-blocking use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use barewire_fabric::frame::{Kind, STATE_DEAF, STATE_FINISHED};
use barewire_fabric::queue::Next;
use barewire_fabric::ring::{RingReceiver, RingSender, Slot, publish_state};
use barewire_fabric::{MessageReceiver, MessageSender, SendProgress};
use barewire_shm::Window;
use barewire_shm::counters::{SlotCounters, SlotInfo};

use crate::aperture::{Aperture, RemoteAperture};
use crate::error::{Credentials, Error, Result};
use crate::event::ConnectionId;
use crate::half::{RxSide, TxSide};
use crate::link::Link;
use crate::shared::{Shared, Step};
use crate::state::{ConnectionEntry, Far};
use crate::stream::Stream;
use crate::wait::Deadline;

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
    /// On the node's list of those that have not.
    listed: AtomicBool,
    halves: AtomicU8,
}

impl ConnectionShared {
    /// Tells the peer something that stays true: it is to be rung for it.
    pub fn say(&self, bits: u64) {
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

    pub fn set_armed(&self, armed: bool) {
        // Relaxed: only says what we have stored ourselves.
        self.armed.store(armed, Ordering::Relaxed);
        if armed {
            self.listed.store(false, Ordering::Relaxed);
        }
    }

    /// Whether this call put it on the list.
    pub fn list(&self) -> bool {
        // Relaxed: the list has a lock of its own.
        !self.listed.swap(true, Ordering::Relaxed)
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
#[derive(Debug)]
pub struct Connection {
    pub(crate) sender: Sender,
    receiver: Receiver,
}

impl Connection {
    pub(crate) fn new(
        node: &Arc<Shared>,
        link: Arc<Link>,
        number: u32,
        entry: &ConnectionEntry,
        far: &Far,
        incoming: &Window,
    ) -> Connection {
        let own_ring = incoming.len_bytes() - barewire_fabric::frame::CONTROL_BYTES;
        let slot = SlotInfo {
            connection: number,
            peer_pid: link.peer.pid as u32,
            peer_uid: link.peer.uid,
            ring_bytes_out: far.ring_bytes as u32,
            ring_bytes_in: own_ring as u32,
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
            listed: AtomicBool::new(false),
            halves: AtomicU8::new(2),
        });
        let out = RingSender::new(far.window.clone(), incoming.clone(), far.ring_bytes);
        let inn = RingReceiver::new(incoming.clone(), far.window.clone(), own_ring);
        Connection {
            sender: Sender {
                side: TxSide::new(Arc::clone(node), Arc::clone(&common), counters.clone()),
                queue: MessageSender::new(out),
                message_bytes_max: far.message_bytes_max,
            },
            receiver: Receiver {
                side: RxSide::new(Arc::clone(node), common, counters),
                queue: MessageReceiver::new(inn, node.config.message_bytes_max),
                scratch: Vec::new(),
            },
        }
    }

    pub(crate) fn shared(&self) -> Arc<ConnectionShared> {
        Arc::clone(&self.sender.side.common)
    }

    /// Has the peer ring; `true` if something is there already.
    pub(crate) fn arm(&mut self) -> bool {
        let common = &self.sender.side.common;
        common.set_armed(true);
        self.receiver.queue.ring().arm(&*common.link)
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
    /// [`Error::OutOfLimits`], or why the connection is down.
    pub fn send_out_of_band(&self, data: &[u8]) -> Result<bool> {
        self.sender.side.send_out_of_band(data)
    }

    /// Grants the peer an aperture; it gets [`Event::Granted`](crate::Event::Granted)
    /// with this cookie. The rights are those of the aperture.
    ///
    /// # Errors
    /// [`Error::Access`] if the aperture has been revoked; why the connection is down.
    pub fn grant(&self, aperture: &Aperture, cookie: u64) -> Result<()> {
        self.sender.side.check()?;
        aperture.grant(&self.sender.side.node, &self.sender.side.common, cookie)
    }

    /// Waits for an aperture that the peer grants on this connection, for programs
    /// without an event loop. Other events stay where they are.
    ///
    /// # Errors
    /// [`Error::Timeout`], or why the connection is down.
    pub fn import(&self, timeout: Option<Duration>) -> Result<(u64, RemoteAperture)> {
        let side = &self.sender.side;
        let number = side.common.number;
        let deadline = Deadline::after(timeout);
        let found = side.node.wait_until(deadline, false, |_| {
            let granted = side.node.state().take_granted(number);
            granted.map(Ok).or_else(|| side.check().err().map(Err))
        })?;
        found.unwrap_or(Err(Error::Timeout))
    }
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct Sender {
    pub(crate) side: TxSide,
    pub(crate) queue: MessageSender<Window, Window>,
    message_bytes_max: u64,
}

impl Sender {
    /// The longest message that the receiver takes, in bytes.
    #[must_use]
    pub fn message_bytes_max(&self) -> u64 {
        self.message_bytes_max
    }

    /// Sends a message if there is room for the whole of it now; `false` if not.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::OutOfLimits`] if the message can never fit the ring in
    /// one go (then use [`Sender::send`]); [`Error::PeerDeaf`]; [`Error::Closed`] after
    /// [`Sender::finish`]; or why the connection is down.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<bool> {
        self.side.check_sending(self.queue.ring())?;
        if message.len() > self.queue.ring().frame_bytes_max() {
            return self.try_send_long(message);
        }
        if message.len() as u64 > self.message_bytes_max {
            return Err(self.too_long(message.len()));
        }
        match self.queue.send_frame(message) {
            Ok(true) => {
                self.side.tap([message]);
                self.side.sent(self.queue.ring(), 1, message.len());
                Ok(true)
            }
            Ok(false) => {
                self.side.was_full();
                Ok(false)
            }
            Err(violation) => Err(self.side.violated(violation)),
        }
    }

    #[cold]
    fn too_long(&self, len: usize) -> Error {
        Error::TooLong {
            len_bytes: len as u64,
            max_bytes: self.message_bytes_max,
        }
    }

    #[cold]
    fn try_send_long(&mut self, message: &[u8]) -> Result<bool> {
        if message.len() as u64 > self.message_bytes_max {
            return Err(self.too_long(message.len()));
        }
        let ring = self.queue.ring();
        let most = ring.whole_message_bytes_max();
        if message.len() > most {
            return Err(Error::OutOfLimits {
                what: "length of a message for try_send on this ring (use send)",
                value: message.len() as u64,
                min: 0,
                max: most as u64,
            });
        }
        match ring.has_room_for_message(message.len()) {
            Ok(true) => {}
            Ok(false) => {
                self.side.was_full();
                return Ok(false);
            }
            Err(violation) => return Err(self.side.violated(violation)),
        }
        let mut progress = SendProgress::default();
        match self.queue.send_part(message, &mut progress) {
            Ok(whole) => {
                debug_assert!(whole, "room was there");
                self.side.tap([message]);
                self.side.sent(self.queue.ring(), 1, message.len());
                Ok(true)
            }
            Err(violation) => Err(self.side.violated(violation)),
        }
    }

    /// Sends a message; waits while the ring is full.
    ///
    /// # Errors
    /// As [`Sender::try_send`], without its limit on the length.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.send_timeout(message, None)
    }

    /// As [`Sender::send`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Sender::send`]; [`Error::Timeout`]. If a message longer than a frame times
    /// out half-sent, this half is closed: its end can not be sent any more.
    #[inline]
    pub fn send_timeout(&mut self, message: &[u8], timeout: Option<Duration>) -> Result<()> {
        if message.len() <= self.queue.ring().frame_bytes_max() && self.try_send(message)? {
            return Ok(());
        }
        self.send_slowly(message, timeout)
    }

    #[cold]
    fn send_slowly(&mut self, message: &[u8], timeout: Option<Duration>) -> Result<()> {
        if message.len() as u64 > self.message_bytes_max {
            return Err(self.too_long(message.len()));
        }
        let mut progress = SendProgress::default();
        let queue = &mut self.queue;
        let (node, deadline) = (Arc::clone(&self.side.node), Deadline::after(timeout));
        let side = &mut self.side;
        let found = node.wait_until(deadline, true, |step| {
            if let Err(error) = side.check_sending(queue.ring()) {
                return Some(Err(error));
            }
            let ring = queue.ring();
            let before = progress.sent_bytes;
            if step == Step::Arm {
                let next = (message.len() - before).min(ring.frame_bytes_max());
                side.arm(ring, next);
            }
            match queue.send_part(message, &mut progress) {
                Ok(true) => return Some(Ok(())),
                Ok(false) => {}
                Err(violation) => return Some(Err(side.violated(violation))),
            }
            if progress.sent_bytes > before {
                side.bell(queue.ring());
            }
            None
        });
        side.stop_waiting(self.queue.ring());
        match found? {
            Some(Ok(())) => {
                side.tap([message]);
                side.sent(self.queue.ring(), 1, message.len());
                Ok(())
            }
            Some(Err(error)) => Err(error),
            None => {
                if progress.sent_bytes > 0 {
                    self.side.close();
                }
                Err(Error::Timeout)
            }
        }
    }

    /// Sends as many of `messages` as there is room for, several to a frame where they
    /// are small, and returns how many that was. The receiver is rung once.
    ///
    /// # Errors
    /// As [`Sender::try_send`].
    pub fn send_batch<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<usize> {
        self.side.check_sending(self.queue.ring())?;
        let long = |m: &&M| m.as_ref().len() as u64 > self.message_bytes_max;
        if let Some(message) = messages.iter().find(long) {
            return Err(self.too_long(message.as_ref().len()));
        }
        let sent = match self.queue.send_batch(messages) {
            Ok(sent) => sent,
            Err(violation) => return Err(self.side.violated(violation)),
        };
        self.side.tap(messages[..sent].iter().map(AsRef::as_ref));
        if sent < messages.len()
            && self.queue.ring().frame_bytes_max() < messages[sent].as_ref().len()
        {
            // One that needs several frames: alone, if it fits.
            let bytes = messages[..sent].iter().map(|m| m.as_ref().len()).sum();
            self.side.sent(self.queue.ring(), sent as u64, bytes);
            return match self.try_send_long(messages[sent].as_ref()) {
                Ok(one) => Ok(sent + usize::from(one)),
                // Those before it have gone; the next call tells.
                Err(_) if sent > 0 => Ok(sent),
                Err(error) => Err(error),
            };
        }
        if sent > 0 {
            let bytes = messages[..sent].iter().map(|m| m.as_ref().len()).sum();
            self.side.sent(self.queue.ring(), sent as u64, bytes);
        } else {
            self.side.was_full();
        }
        Ok(sent)
    }

    /// Takes room in the peer's memory for a message of at most `len_bytes`, to be filled
    /// in place; `None` while there is none.
    ///
    /// # Errors
    /// As [`Sender::try_send`]; the length must fit one frame, a quarter of the ring less
    /// eight bytes.
    pub fn reserve(&mut self, len_bytes: usize) -> Result<Option<Reservation<'_>>> {
        self.side.check_sending(self.queue.ring())?;
        let max = self.queue.ring().frame_bytes_max();
        if len_bytes as u64 > self.message_bytes_max {
            return Err(self.too_long(len_bytes));
        }
        if len_bytes > max {
            return Err(Error::OutOfLimits {
                what: "length to reserve on this ring",
                value: len_bytes as u64,
                min: 0,
                max: max as u64,
            });
        }
        match self.queue.ring().reserve(len_bytes) {
            Ok(Some(slot)) => Ok(Some(Reservation {
                sender: self,
                slot,
                len_bytes,
            })),
            Ok(None) => {
                self.side.was_full();
                Ok(None)
            }
            Err(violation) => Err(self.side.violated(violation)),
        }
    }

    /// Says that nothing more will be sent. Further sends give [`Error::Closed`].
    pub fn finish(&mut self) {
        self.side.close();
    }

    /// A sender for many threads: each message is sent whole, in some order.
    #[must_use]
    pub fn share(self) -> SharedSender {
        SharedSender(Arc::new(Mutex::new(self)))
    }
}

/// Room for one message in the receiver's memory. Dropped without
/// [`Reservation::commit`], nothing is sent.
#[derive(Debug)]
pub struct Reservation<'a> {
    sender: &'a mut Sender,
    slot: Slot,
    len_bytes: usize,
}

impl Reservation<'_> {
    /// Bytes reserved.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Stores `bytes` at offset `at`.
    ///
    /// # Panics
    /// If they do not lie inside the reservation.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at <= self.len_bytes && bytes.len() <= self.len_bytes - at,
            "{} bytes at {at} of a reservation of {}",
            bytes.len(),
            self.len_bytes
        );
        self.sender.queue.ring().fill(&self.slot, at, bytes);
    }

    /// Sends the first `len_bytes` of it.
    ///
    /// # Panics
    /// If that is more than was reserved.
    pub fn commit(self, len_bytes: usize) {
        assert!(len_bytes <= self.len_bytes, "more than was reserved");
        if self.sender.side.tapped() {
            let mut bytes = vec![0; len_bytes];
            let outgoing = &self.sender.side.common.outgoing;
            outgoing.read_bytes(self.slot.offset, &mut bytes);
            self.sender.side.tap([&bytes[..]]);
        }
        let ring = self.sender.queue.ring();
        ring.publish(self.slot, Kind::Whole, len_bytes);
        self.sender.side.sent(ring, 1, len_bytes);
    }
}

/// A sender for many threads, got from [`Sender::share`]: a queue of many producers into
/// one receiver. Cloning it is cheap; the direction is closed when the last is dropped.
#[derive(Clone, Debug)]
pub struct SharedSender(Arc<Mutex<Sender>>);

impl SharedSender {
    /// Sends a message; waits while the ring is full, other threads behind it.
    ///
    /// # Errors
    /// See [`Sender::send`].
    pub fn send(&self, message: &[u8]) -> Result<()> {
        self.lock().send(message)
    }

    /// Sends a message if there is room; `false` if not.
    ///
    /// # Errors
    /// See [`Sender::try_send`].
    pub fn try_send(&self, message: &[u8]) -> Result<bool> {
        self.lock().try_send(message)
    }

    /// Sends as many of `messages` as there is room for, with none from other threads
    /// between them. See [`Sender::send_batch`].
    ///
    /// # Errors
    /// See [`Sender::send_batch`].
    pub fn send_batch<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<usize> {
        self.lock().send_batch(messages)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sender> {
        // A thread that panicked in here had not yet published anything half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) side: RxSide,
    pub(crate) queue: MessageReceiver<Window, Window>,
    scratch: Vec<u8>,
}

impl Receiver {
    /// Receives a message into `buffer` if one is there; returns its length.
    ///
    /// # Errors
    /// [`Error::BufferTooSmall`] (the message stays); [`Error::Finished`] when the peer has
    /// finished and everything has been received; otherwise why the connection is down,
    /// again only when everything has been received.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        let next = self.next()?;
        let len = match &next {
            Next::Nothing => return Ok(None),
            Next::InPlace(located) if located.len_bytes <= buffer.len() => {
                self.queue
                    .copy_out(located, &mut buffer[..located.len_bytes]);
                located.len_bytes
            }
            Next::Assembled if self.queue.assembled().len() <= buffer.len() => {
                let message = self.queue.assembled();
                buffer[..message.len()].copy_from_slice(message);
                message.len()
            }
            Next::InPlace(located) => {
                return Err(too_small(located.len_bytes, buffer.len()));
            }
            Next::Assembled => return Err(too_small(self.queue.assembled().len(), buffer.len())),
        };
        self.side.tap(&buffer[..len]);
        self.done(&next, len);
        Ok(Some(len))
    }

    #[inline]
    fn next(&mut self) -> Result<Next> {
        self.side.check_failed()?;
        loop {
            match self.queue.next_message() {
                Ok(Next::Nothing) => {
                    // Fragments of a long message may have been taken all the same.
                    if self.queue.take_told() {
                        self.side.credit_told(self.queue.ring());
                    }
                    if !self.side.nothing(&mut self.queue)? {
                        return Ok(Next::Nothing);
                    }
                }
                Ok(next) => return Ok(next),
                Err(violation) => return Err(self.side.violated(violation)),
            }
        }
    }

    #[inline]
    fn done(&mut self, next: &Next, len: usize) {
        self.queue.done(next);
        let told = self.queue.take_told();
        self.side.received(self.queue.ring(), told, len);
    }

    /// Receives a message; waits for one.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`].
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.recv_timeout(buffer, None)? {
            Some(len) => Ok(len),
            None => Err(Error::Timeout),
        }
    }

    /// As [`Receiver::recv`], for at most `timeout`; `None` if it has passed.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`].
    #[inline]
    pub fn recv_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>> {
        if let Some(len) = self.try_recv(buffer)? {
            return Ok(Some(len));
        }
        let deadline = Deadline::after(timeout);
        // Once is not enough: what came may be a part of a long message.
        while self.wait(deadline.left(barewire_sys::clock::monotonic_ns()))? {
            if let Some(len) = self.try_recv(buffer)? {
                return Ok(Some(len));
            }
        }
        Ok(None)
    }

    /// Waits until something can be received, or an error will be returned instead.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let node = Arc::clone(&self.side.node);
        let (side, queue) = (&mut self.side, &mut self.queue);
        let found = node.wait_until(Deadline::after(timeout), true, |step| {
            side.step(queue.ring(), step);
            let ready = queue.maybe_ready() || queue.ring().peer_finished() || side.is_down();
            ready.then_some(())
        })?;
        Ok(found.is_some())
    }

    /// Receives a message of any length into a vector, replacing what is in it; waits
    /// for at most `timeout`. `false` if that has passed.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`], but for the buffer.
    pub fn recv_vec(&mut self, into: &mut Vec<u8>, timeout: Option<Duration>) -> Result<bool> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(message) = self.peek()? {
                message.copy_to(into);
                message.release();
                return Ok(true);
            }
            let left = deadline.left(barewire_sys::clock::monotonic_ns());
            if !self.wait(left)? {
                return Ok(false);
            }
        }
    }

    /// Receives at most `max` messages that are there, handing each to `handle`, and
    /// returns how many.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`], but for the buffer; only if there was no message first.
    pub fn recv_batch(&mut self, max: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let mut count = 0;
        while count < max {
            let next = match self.next() {
                Ok(Next::Nothing) => break,
                Ok(next) => next,
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            };
            let len = match &next {
                Next::InPlace(located) => {
                    // A copy of our own: the peer may change its bytes while they are used.
                    let len = located.len_bytes;
                    if self.scratch.len() < len {
                        self.scratch.resize(len, 0);
                    }
                    self.queue.copy_out(located, &mut self.scratch[..len]);
                    self.side.tap(&self.scratch[..len]);
                    handle(&self.scratch[..len]);
                    len
                }
                _ => {
                    self.side.tap(self.queue.assembled());
                    handle(self.queue.assembled());
                    self.queue.assembled().len()
                }
            };
            self.done(&next, len);
            count += 1;
        }
        Ok(count)
    }

    /// The next message, in place; it stays the next until [`Message::release`].
    ///
    /// # Errors
    /// As [`Receiver::try_recv`], but for the buffer.
    pub fn peek(&mut self) -> Result<Option<Message<'_>>> {
        Ok(match self.next()? {
            Next::Nothing => None,
            next => Some(Message {
                receiver: self,
                next,
            }),
        })
    }
}

#[cold]
fn too_small(needed_bytes: usize, buffer_bytes: usize) -> Error {
    Error::BufferTooSmall {
        needed_bytes,
        buffer_bytes,
    }
}

/// A message that lies where the sender put it. It may still change under a hostile
/// sender, so it can be copied, but not borrowed.
#[derive(Debug)]
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    next: Next,
}

impl Message<'_> {
    /// Its length.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match &self.next {
            Next::InPlace(located) => located.len_bytes,
            _ => self.receiver.queue.assembled().len(),
        }
    }

    /// Copies bytes from offset `at`.
    ///
    /// # Panics
    /// If they do not lie inside the message.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let len = self.len_bytes();
        assert!(
            at <= len && into.len() <= len - at,
            "{} bytes at {at} of a message of {len}",
            into.len()
        );
        match &self.next {
            Next::InPlace(located) => {
                let mut part = *located;
                part.offset += at;
                self.receiver.queue.copy_out(&part, into);
            }
            _ => into.copy_from_slice(&self.receiver.queue.assembled()[at..at + into.len()]),
        }
    }

    /// Copies the whole message into a vector, replacing what is in it.
    pub fn copy_to(&self, into: &mut Vec<u8>) {
        into.resize(self.len_bytes(), 0);
        self.read(0, into);
    }

    /// Gives its memory back to the sender: the message has been received.
    pub fn release(self) {
        let len = self.len_bytes();
        if self.receiver.side.tapped() {
            let mut bytes = Vec::new();
            self.copy_to(&mut bytes);
            self.receiver.side.tap(&bytes);
        }
        self.receiver.done(&self.next, len);
    }
}

pub(crate) const FINISHED: u64 = STATE_FINISHED;
pub(crate) const DEAF: u64 = STATE_DEAF;
