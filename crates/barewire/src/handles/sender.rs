//! The sending half of a connection: messages, batches, messages built in place.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use barewire_fabric::copying::PIECES_FROM_BYTES;
use barewire_fabric::frame::Kind;
use barewire_fabric::ring::Slot;
use barewire_fabric::{MessageSender, SendProgress};
use barewire_shm::Window;

use crate::error::{Error, Result};
use crate::handles::half::SendingHalf;
use crate::node::wait::{Deadline, Step};

/// From this length on a message to another host is sent from where it lies. Shorter ones are copied in less time than the
/// kernel takes to gather what lies in two places.
const DIRECT_FROM_BYTES: usize = 1024;

/// The sending half of a connection.
pub struct Sender {
    half: SendingHalf<MessageSender<Window, Window>>,
    message_bytes_max: u64,
}

impl Sender {
    pub(crate) fn new(
        half: SendingHalf<MessageSender<Window, Window>>,
        message_bytes_max: u64,
    ) -> Sender {
        Sender {
            half,
            message_bytes_max,
        }
    }

    /// What is below messages.
    pub(crate) fn half(&self) -> &SendingHalf<MessageSender<Window, Window>> {
        &self.half
    }

    /// What is below messages, to go on with in another way.
    pub(crate) fn into_half(self) -> SendingHalf<MessageSender<Window, Window>> {
        self.half
    }

    /// Uses the ring alone from now on: the two halves are perhaps going to be used by two threads, and the word
    /// that says whose turn it is would go from one to the other with each message.
    pub(crate) fn leave_line(&mut self) {
        self.half.queue.ring().leave_line();
    }

    /// The longest message that the receiver takes, in bytes.
    #[must_use]
    pub fn message_bytes_max(&self) -> u64 {
        self.message_bytes_max
    }

    /// The most that [`Sender::reserve`] may ask for, in bytes: what fits one frame (a quarter
    /// of the receiver's ring less one line of 64 bytes), and what the receiver takes.
    #[must_use]
    pub fn reserve_bytes_max(&self) -> usize {
        self.at_most(self.half.queue.frame_bytes_max())
    }

    /// The longest message that [`Sender::try_send`] can send, in bytes: two frames, and what
    /// the receiver takes. [`Sender::send`] has only the latter limit.
    #[must_use]
    pub fn try_send_bytes_max(&self) -> usize {
        self.at_most(self.half.queue.whole_message_bytes_max())
    }

    /// This length, if the receiver takes as much.
    fn at_most(&self, len_bytes: usize) -> usize {
        usize::try_from(self.message_bytes_max).map_or(len_bytes, |max| len_bytes.min(max))
    }

    /// Sends a message if there is room for the whole of it now; `false` if not. Then
    /// [`Event::Ready`](crate::Event::Ready) comes when it is time to try again.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::OutOfLimits`] if the message can never fit the ring in
    /// one go (then use [`Sender::send`]); [`Error::PeerDeaf`]; [`Error::Closed`] after
    /// [`Sender::finish`]; or why the connection is down.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<bool> {
        self.try_send_here(message)
    }

    /// [`Sender::try_send`], as a part of whoever sends: its result would go through memory, because of the error.
    #[inline(always)]
    fn try_send_here(&mut self, message: &[u8]) -> Result<bool> {
        self.half.check_sending()?;
        if message.len() >= DIRECT_FROM_BYTES && self.try_send_direct(message)? {
            return Ok(true);
        }
        if message.len() >= PIECES_FROM_BYTES {
            self.half.note_direction();
        }
        if message.len() > self.half.queue.ring().frame_bytes_max() {
            return self.try_send_long(message);
        }
        if message.len() as u64 > self.message_bytes_max {
            return Err(self.too_long(message.len()));
        }
        match self.half.queue.send_frame(message) {
            Ok(true) => {
                self.half.tap([message]);
                self.half.sent(1, message.len());
                Ok(true)
            }
            Ok(false) => {
                self.half.was_full();
                Ok(false)
            }
            Err(violation) => Err(self.half.violated(violation)),
        }
    }

    /// Sends a message to another host without a copy of it; `false` if that can not be.
    fn try_send_direct(&mut self, message: &[u8]) -> Result<bool> {
        let is_long = message.len() > self.try_send_bytes_max();
        if is_long || self.half.core().link.remote().is_none() {
            return Ok(false);
        }
        let announce = |queue: &mut MessageSender<_, _>| queue.announce(message.len());
        let is_sent = self.half.send_direct(message, announce)?;
        if is_sent {
            self.half.tap([message]);
            self.half.count(1, message.len());
        }
        Ok(is_sent)
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
        let ring = self.half.queue.ring();
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
                self.half.was_full();
                return Ok(false);
            }
            Err(violation) => return Err(self.half.violated(violation)),
        }
        let mut progress = SendProgress::default();
        match self.half.queue.send_part(message, &mut progress) {
            Ok(whole) => {
                debug_assert!(whole, "room was there");
                self.half.tap([message]);
                self.half.sent(1, message.len());
                Ok(true)
            }
            Err(violation) => Err(self.half.violated(violation)),
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
    pub fn send_timeout(
        &mut self,
        message: &[u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<()> {
        match self.send_while(message, timeout, || false)? {
            true => Ok(()),
            false => Err(Error::Timeout),
        }
    }

    /// As [`Sender::send`], for callers that must look at something else meanwhile, such as signals. While it waits for
    /// room, it asks `goes_on` every `interval`, and gives up when that says no: then it returns `false`.
    ///
    /// # Errors
    /// As [`Sender::send`]. If a message longer than a frame is given up half-sent, this half is closed: its end can not
    /// be sent any more.
    #[inline]
    pub fn send_while(
        &mut self,
        message: &[u8],
        interval: impl Into<Option<Duration>>,
        goes_on: impl FnMut() -> bool,
    ) -> Result<bool> {
        if message.len() <= self.half.queue.ring().frame_bytes_max()
            && self.try_send_here(message)?
        {
            return Ok(true);
        }
        self.send_slowly(message, interval.into(), goes_on)
    }

    #[cold]
    fn send_slowly(
        &mut self,
        message: &[u8],
        interval: Option<Duration>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool> {
        if message.len() as u64 > self.message_bytes_max {
            return Err(self.too_long(message.len()));
        }
        self.half.check_sending()?;
        let is_tried = message.len() <= self.half.queue.ring().frame_bytes_max();
        if !is_tried && self.try_send_direct(message)? {
            return Ok(true);
        }
        self.half.note_direction();
        let mut progress = SendProgress::default();
        loop {
            if self.send_until(message, &mut progress, Deadline::after(interval))? {
                self.half.tap([message]);
                self.half.sent(1, message.len());
                return Ok(true);
            }
            if !goes_on() {
                break;
            }
        }
        if progress.sent_bytes > 0 {
            self.half.close();
        }
        Ok(false)
    }

    /// Sends the rest of a message; `false` if the time has passed before all of it was sent.
    fn send_until(
        &mut self,
        message: &[u8],
        progress: &mut SendProgress,
        deadline: Deadline,
    ) -> Result<bool> {
        let sent = self.half.wait(deadline, |half, step| {
            let before = progress.sent_bytes;
            if step == Step::Arm {
                half.arm((message.len() - before).min(half.queue.frame_bytes_max()));
            }
            match half.queue.send_part(message, progress) {
                Ok(true) => return Some(Ok(())),
                Ok(false) => {}
                Err(violation) => return Some(Err(half.violated(violation))),
            }
            if progress.sent_bytes > before {
                half.bell();
            }
            None
        })?;
        Ok(sent.is_some())
    }

    /// Puts as much of a message of any length into the ring as there is room for; `true` when all of it is in. Until then
    /// nothing else may be sent: call it again with the same message and `progress` after the next
    /// [`Event::Ready`](crate::Event::Ready), or give up with [`Sender::finish`].
    ///
    /// # Errors
    /// As [`Sender::send`].
    ///
    /// # Panics
    /// If `progress` is of a longer message.
    pub fn try_send_part(&mut self, message: &[u8], progress: &mut SendProgress) -> Result<bool> {
        self.half.check_sending()?;
        if message.len() as u64 > self.message_bytes_max {
            return Err(self.too_long(message.len()));
        }
        let before = progress.sent_bytes;
        match self.half.queue.send_part(message, progress) {
            Ok(true) => {
                self.half.tap([message]);
                self.half.sent(1, message.len());
                Ok(true)
            }
            Ok(false) => {
                if progress.sent_bytes > before {
                    self.half.bell();
                }
                self.half.was_full();
                Ok(false)
            }
            Err(violation) => Err(self.half.violated(violation)),
        }
    }

    /// Sends as many of `messages` as there is room for, several to a frame where they
    /// are small, and returns how many that was. The receiver is rung once.
    ///
    /// # Errors
    /// As [`Sender::try_send`].
    pub fn send_batch<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<usize> {
        self.half.check_sending()?;
        let long = |m: &&M| m.as_ref().len() as u64 > self.message_bytes_max;
        if let Some(message) = messages.iter().find(long) {
            return Err(self.too_long(message.as_ref().len()));
        }
        let sent = match self.half.queue.send_batch(messages) {
            Ok(sent) => sent,
            Err(violation) => return Err(self.half.violated(violation)),
        };
        self.half.tap(messages[..sent].iter().map(AsRef::as_ref));
        if sent < messages.len()
            && self.half.queue.ring().frame_bytes_max() < messages[sent].as_ref().len()
        {
            // One that needs several frames: alone, if it fits.
            let bytes = messages[..sent].iter().map(|m| m.as_ref().len()).sum();
            self.half.sent(sent as u64, bytes);
            return match self.try_send_long(messages[sent].as_ref()) {
                Ok(one) => Ok(sent + usize::from(one)),
                // Those before it have gone; the next call tells.
                Err(_) if sent > 0 => Ok(sent),
                Err(error) => Err(error),
            };
        }
        if sent > 0 {
            let bytes = messages[..sent].iter().map(|m| m.as_ref().len()).sum();
            self.half.sent(sent as u64, bytes);
        }
        if sent < messages.len() {
            self.half.was_full();
        }
        Ok(sent)
    }

    /// Takes room in the peer's memory for a message of at most `len_bytes`, to be filled
    /// in place; `None` while there is none. Then [`Event::Ready`](crate::Event::Ready) comes
    /// when it is time to try again.
    ///
    /// # Errors
    /// As [`Sender::try_send`]; [`Error::OutOfLimits`] if `len_bytes` is more than
    /// [`Sender::reserve_bytes_max`].
    pub fn reserve(&mut self, len_bytes: usize) -> Result<Option<Reservation<'_>>> {
        self.check_reserving(len_bytes)?;
        match self.half.queue.ring().reserve(len_bytes) {
            Ok(Some(slot)) => Ok(Some(Reservation::new(self, slot, len_bytes))),
            Ok(None) => {
                self.half.was_full();
                Ok(None)
            }
            Err(violation) => Err(self.half.violated(violation)),
        }
    }

    /// As [`Sender::reserve`], but waits for room, for at most `timeout` (a [`Duration`], or
    /// `None` for ever); `None` if it has passed.
    ///
    /// # Errors
    /// As [`Sender::reserve`].
    pub fn reserve_timeout(
        &mut self,
        len_bytes: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Reservation<'_>>> {
        self.check_reserving(len_bytes)?;
        let slot = match self.half.queue.ring().reserve(len_bytes) {
            Ok(None) => self.wait_for_slot(len_bytes, timeout.into())?,
            Ok(slot) => slot,
            Err(violation) => return Err(self.half.violated(violation)),
        };
        Ok(slot.map(|slot| Reservation::new(self, slot, len_bytes)))
    }

    #[cold]
    fn wait_for_slot(
        &mut self,
        len_bytes: usize,
        timeout: Option<Duration>,
    ) -> Result<Option<Slot>> {
        self.half.wait(Deadline::after(timeout), |half, step| {
            if step == Step::Arm {
                half.arm(len_bytes);
            }
            match half.queue.ring().reserve(len_bytes) {
                Ok(slot) => slot.map(Ok),
                Err(violation) => Some(Err(half.violated(violation))),
            }
        })
    }

    /// Builds a message in place and sends it: waits for room for `len_bytes`, has `fill`
    /// write at most as many, and sends what was written. If `fill` fails, nothing is sent
    /// and its error is returned.
    ///
    /// ```
    /// # use barewire::Node;
    /// # fn main() -> std::io::Result<()> {
    /// # let name = format!("send-with-{}", std::process::id());
    /// # let (a, b) = (Node::new()?, Node::new()?);
    /// # let _listener = a.listen(&name)?;
    /// # let opening = std::thread::spawn(move || b.connect(&name).map(|c| (b, c)));
    /// # let mut to_b = a.next_request(None)?.accept()?;
    /// # let (_b, mut to_a) = opening.join().unwrap()?;
    /// use std::io::Write;
    ///
    /// let (x, y) = (3, 4);
    /// to_b.sender().send_with(64, |room| write!(room, "{x} and {y}"))?;
    /// assert_eq!(to_a.receiver().recv_message()?, b"3 and 4");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Sender::reserve`]; those of `fill`.
    pub fn send_with<E: From<Error>>(
        &mut self,
        len_bytes: usize,
        fill: impl FnOnce(&mut Reservation<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(mut room) = self.reserve_timeout(len_bytes, None)? else {
            return Err(Error::Timeout.into());
        };
        fill(&mut room)?;
        room.commit_written();
        Ok(())
    }

    fn check_reserving(&mut self, len_bytes: usize) -> Result<()> {
        self.half.check_sending()?;
        let max = self.half.queue.frame_bytes_max();
        if len_bytes as u64 > self.message_bytes_max {
            return Err(self.too_long(len_bytes));
        }
        if len_bytes > max {
            return Err(Error::OutOfLimits {
                what: "length to reserve on this ring (see reserve_bytes_max, or use send)",
                value: len_bytes as u64,
                min: 0,
                max: max as u64,
            });
        }
        Ok(())
    }

    /// Says that nothing more will be sent. Further sends give [`Error::Closed`].
    pub fn finish(&mut self) {
        self.half.close();
    }

    /// A sender for many threads: each message is sent whole, in some order.
    #[must_use]
    pub fn share(self) -> SharedSender {
        SharedSender(Arc::new(Mutex::new(self)))
    }
}

impl core::fmt::Debug for Sender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.half.core().describe("Sender", f)
    }
}

/// Room for one message in the receiver's memory, to be filled at any offset
/// ([`Reservation::write_at`]) or from the beginning on ([`io::Write`]), then sent
/// ([`Reservation::commit`], [`Reservation::commit_written`]). Dropped without that,
/// nothing is sent.
pub struct Reservation<'a> {
    sender: &'a mut Sender,
    slot: Slot,
    len_bytes: usize,
    /// Up to where it has been written.
    written_bytes: usize,
}

impl<'a> Reservation<'a> {
    fn new(sender: &'a mut Sender, slot: Slot, len_bytes: usize) -> Reservation<'a> {
        Reservation {
            sender,
            slot,
            len_bytes,
            written_bytes: 0,
        }
    }

    /// Bytes reserved.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Where it begins, for callers that hand the address to other languages. What is stored by address is sent by
    /// [`Reservation::commit`], and does not count as written. The address is good until something else is sent or the
    /// sender is dropped: once this is dropped, a new reservation of the same length begins there too.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        let outgoing = &self.sender.half.core().outgoing;
        // Of an empty message too: its frame has a line. The ring has checked where its window ends.
        let room = outgoing.sub(self.slot.offset, self.len_bytes.max(1));
        room.expect("room that is reserved lies in the window")
            .base()
    }

    /// Up to where it has been written so far, in bytes from its beginning.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.written_bytes
    }

    /// Stores `bytes` at offset `at`.
    ///
    /// # Panics
    /// If they do not lie inside the reservation.
    pub fn write_at(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at <= self.len_bytes && bytes.len() <= self.len_bytes - at,
            "{} bytes at {at} of a reservation of {}",
            bytes.len(),
            self.len_bytes
        );
        self.sender.half.queue.ring().fill(&self.slot, at, bytes);
        self.written_bytes = self.written_bytes.max(at + bytes.len());
    }

    /// Stores `bytes` at offset `at`.
    ///
    /// # Panics
    /// If they do not lie inside the reservation.
    #[deprecated(
        since = "0.1.0",
        note = "use `write_at`; `write` becomes that of `std::io::Write`"
    )]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.write_at(at, bytes);
    }

    /// Sends what has been written: the first [`Reservation::written_bytes`].
    pub fn commit_written(self) {
        let len_bytes = self.written_bytes;
        self.commit(len_bytes);
    }

    /// Sends the first `len_bytes` of it.
    ///
    /// # Panics
    /// If that is more than was reserved.
    pub fn commit(self, len_bytes: usize) {
        assert!(len_bytes <= self.len_bytes, "more than was reserved");
        if self.sender.half.tapped() {
            let mut bytes = vec![0; len_bytes];
            let outgoing = &self.sender.half.core().outgoing;
            outgoing.read_bytes(self.slot.offset, &mut bytes);
            self.sender.half.tap([&bytes[..]]);
        }
        let half = &mut self.sender.half;
        half.queue.ring().publish(self.slot, Kind::Whole, len_bytes);
        half.sent(1, len_bytes);
    }
}

/// Writes behind what has been written, as long as there is room: 0 when it is full, which
/// [`write_all`](io::Write::write_all) reports as an error.
impl io::Write for Reservation<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at = self.written_bytes;
        let len = bytes.len().min(self.len_bytes - at);
        self.write_at(at, &bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl core::fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let connection = self.sender.half.core().number;
        let (len, written) = (self.len_bytes, self.written_bytes);
        write!(
            f,
            "Reservation {{ connection: {connection}, len_bytes: {len}, written_bytes: {written} }}"
        )
    }
}

/// A sender for many threads, got from [`Sender::share`]: a queue of many producers into
/// one receiver. Cloning it is cheap; the direction is closed when the last is dropped.
#[derive(Clone)]
pub struct SharedSender(Arc<Mutex<Sender>>);

impl core::fmt::Debug for SharedSender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Another thread may be waiting in there for room.
        match self.0.try_lock() {
            Ok(sender) => sender.half.core().describe("SharedSender", f),
            Err(TryLockError::Poisoned(sender)) => {
                let sender = sender.into_inner();
                sender.half.core().describe("SharedSender", f)
            }
            Err(TryLockError::WouldBlock) => f.write_str("SharedSender { in use }"),
        }
    }
}

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
