//! The sending half of a connection: messages, batches, messages built in place.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire_fabric::frame::Kind;
use barewire_fabric::ring::Slot;
use barewire_fabric::{MessageSender, SendProgress};
use barewire_shm::Window;

use crate::error::{Error, Result};
use crate::half::TxSide;
use crate::shared::Step;
use crate::wait::Deadline;

/// The sending half of a connection.
#[derive(Debug)]
pub struct Sender {
    pub(crate) side: TxSide,
    pub(crate) queue: MessageSender<Window, Window>,
    message_bytes_max: u64,
}

impl Sender {
    pub(crate) fn new(
        side: TxSide,
        queue: MessageSender<Window, Window>,
        message_bytes_max: u64,
    ) -> Sender {
        Sender {
            side,
            queue,
            message_bytes_max,
        }
    }

    /// The longest message that the receiver takes, in bytes.
    #[must_use]
    pub fn message_bytes_max(&self) -> u64 {
        self.message_bytes_max
    }

    /// Sends a message if there is room for the whole of it now; `false` if not. Then
    /// [`Event::Ready`](crate::Event::Ready) tells when to try again.
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
        }
        if sent < messages.len() {
            self.side.was_full();
        }
        Ok(sent)
    }

    /// Takes room in the peer's memory for a message of at most `len_bytes`, to be filled
    /// in place; `None` while there is none.
    ///
    /// # Errors
    /// As [`Sender::try_send`]; the length must fit one frame, a quarter of the ring less
    /// one line of 64 bytes.
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
