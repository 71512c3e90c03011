//! The receiving half of a connection: messages, batches, messages read in place.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::time::Duration;

use barewire_fabric::MessageReceiver;
use barewire_fabric::queue::{Fragments, Next};
use barewire_fabric::ring::Taken;
use barewire_shm::Window;
use barewire_sys::memory;

use crate::error::{Error, Result};
use crate::handles::half::{ReceivingHalf, Waited};
use crate::links::driven::StoredFrame;
use crate::node::wait::Deadline;

/// How often a receiver looks for the next fragment of a long message before it puts aside what it has: some
/// microseconds. The sender needs less to copy one.
const POLLS_FOR_FRAGMENT: u32 = 256;

/// The receiving half of a connection.
///
/// Every call that receives one message has the same shape: `try_…` does not wait and
/// `…_timeout` waits for a while, both with `None` for «no message»; the bare name waits
/// until there is one.
///
/// | a message goes | wait | do not wait | wait for a while |
/// |---|---|---|---|
/// | into a buffer; its length | [`recv`](Receiver::recv) | [`try_recv`](Receiver::try_recv) | [`recv_timeout`](Receiver::recv_timeout) |
/// | into a vector, whatever its length | [`recv_into`](Receiver::recv_into) | [`try_recv_into`](Receiver::try_recv_into) | [`recv_into_timeout`](Receiver::recv_into_timeout) |
/// | nowhere: it is read in place | [`recv_message`](Receiver::recv_message) | [`try_recv_message`](Receiver::try_recv_message) | [`recv_message_timeout`](Receiver::recv_message_timeout) |
///
/// A time-out is a [`Duration`], or `None` for ever. [`Receiver::recv_batch`] takes many
/// that are there, and never waits.
pub struct Receiver {
    half: ReceivingHalf<MessageReceiver<Window, Window>>,
    scratch: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new(half: ReceivingHalf<MessageReceiver<Window, Window>>) -> Receiver {
        Receiver {
            half,
            scratch: Vec::new(),
        }
    }

    /// What is below messages, to go on with in another way.
    pub(crate) fn into_half(self) -> ReceivingHalf<MessageReceiver<Window, Window>> {
        self.half
    }

    /// Receives a message into `buffer` if one is there; returns its length. What else is in the buffer then, or if none is
    /// there, means nothing.
    ///
    /// # Errors
    /// [`Error::BufferTooSmall`] (the message stays); [`Error::Finished`] when the peer has
    /// finished and everything has been received; otherwise why the connection is down,
    /// again only when everything has been received.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.half.check_failed()?;
        match self.half.queue.take(buffer) {
            Taken::Message(len) => Ok(Some(self.taken(&buffer[..len]))),
            Taken::Nothing => self.try_recv_slowly(buffer),
            Taken::Other => self.try_recv_long(buffer, 0),
        }
    }

    /// As [`Receiver::try_recv`], by one look at memory: a call that finds nothing does nothing else. So it does not tell of
    /// an end, and does not see that the peer has died. It is for programs that poll many connections without a pause:
    /// they also call [`Node::poll`](crate::Node::poll) now and then, and [`Receiver::try_recv`] when that says so.
    ///
    /// # Errors
    /// [`Error::BufferTooSmall`] (the message stays), or what the peer did wrong.
    #[inline]
    pub fn poll_once(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.half.check_failed()?;
        match self.half.queue.take(buffer) {
            Taken::Message(len) => Ok(Some(self.taken(&buffer[..len]))),
            Taken::Nothing => Ok(None),
            Taken::Other => self.try_recv_long(buffer, 0),
        }
    }

    /// Counts a message that was taken; returns its length.
    #[inline(always)]
    fn taken(&mut self, message: &[u8]) -> usize {
        self.half.tap(message);
        self.half.copied_out(message.len());
        self.half.received(message.len());
        message.len()
    }

    /// As [`Receiver::try_recv`], for what may be a message in fragments. They go straight into the buffer as long as
    /// they come one soon after the other. `taken_bytes` of it are in the buffer already.
    #[inline(never)]
    fn try_recv_long(
        &mut self,
        buffer: &mut [u8],
        mut taken_bytes: usize,
    ) -> Result<Option<usize>> {
        let mut empty_polls = 0;
        while empty_polls < POLLS_FOR_FRAGMENT {
            let found = self.half.queue.take_fragments(buffer, &mut taken_bytes);
            self.half.credit_told();
            match found {
                Ok(Fragments::All) => return Ok(Some(self.taken(&buffer[..taken_bytes]))),
                Ok(Fragments::Some) => empty_polls = 0,
                Ok(Fragments::Nothing) => {
                    empty_polls += 1;
                    self.half.await_fragment();
                }
                Ok(Fragments::Other) => break,
                Err(violation) => return Err(self.half.violated(violation)),
            }
        }
        let begun = &buffer[..taken_bytes];
        if let Err(violation) = self.half.queue.put_together(begun) {
            return Err(self.half.violated(violation));
        }
        self.try_recv_slowly(buffer)
    }

    /// Takes the next frame, whose payload is in the buffer already, and what follows of its message.
    fn take_stored(&mut self, frame: StoredFrame, buffer: &mut [u8]) -> Result<Option<usize>> {
        let StoredFrame {
            payload_offset,
            payload_bytes,
        } = frame;
        match self.half.queue.take_stored(payload_offset, payload_bytes) {
            Ok(true) => Ok(Some(self.taken(&buffer[..payload_bytes]))),
            Ok(false) => self.try_recv_long(buffer, payload_bytes),
            Err(violation) => Err(self.half.violated(violation)),
        }
    }

    /// As [`Receiver::try_recv`], for whatever is not a short message in one piece.
    fn try_recv_slowly(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        let driven = self.half.drive_into(buffer);
        if let Some(Some(frame)) = driven {
            return self.take_stored(frame, buffer);
        }
        let next = self.next(driven.is_none())?;
        let len = match &next {
            Next::Nothing => return Ok(None),
            Next::InPlace(located) if located.len_bytes <= buffer.len() => {
                self.half
                    .queue
                    .copy_out(located, &mut buffer[..located.len_bytes]);
                located.len_bytes
            }
            Next::Assembled if self.half.queue.assembled().len() <= buffer.len() => {
                let message = self.half.queue.assembled();
                buffer[..message.len()].copy_from_slice(message);
                message.len()
            }
            Next::InPlace(located) => {
                return Err(too_small(located.len_bytes, buffer.len()));
            }
            Next::Assembled => {
                return Err(too_small(self.half.queue.assembled().len(), buffer.len()));
            }
        };
        self.half.tap(&buffer[..len]);
        self.half.copied_out(len);
        self.done(&next, len);
        Ok(Some(len))
    }

    /// The next message. If none is there and `drives`, a link to another host is asked for more.
    #[inline]
    fn next(&mut self, drives: bool) -> Result<Next> {
        self.half.check_failed()?;
        loop {
            match self.half.queue.next_message() {
                Ok(Next::Nothing) => {
                    // Fragments of a long message may have been taken all the same.
                    self.half.credit_told();
                    if !self.half.nothing(drives)? {
                        return Ok(Next::Nothing);
                    }
                }
                Ok(next) => return Ok(next),
                Err(violation) => return Err(self.half.violated(violation)),
            }
        }
    }

    #[inline]
    fn done(&mut self, next: &Next, len: usize) {
        self.half.queue.done(next);
        self.half.received(len);
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
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<usize>> {
        self.half.check_failed()?;
        let polled = self.half.poll_briefly(|queue| match queue.take(buffer) {
            Taken::Nothing => None,
            found => Some(found),
        });
        let received = match polled {
            Some(Taken::Message(len)) => return Ok(Some(self.taken(&buffer[..len]))),
            Some(_) => self.try_recv_long(buffer, 0)?,
            None => self.try_recv_slowly(buffer)?,
        };
        if let Some(len) = received {
            return Ok(Some(len));
        }
        let deadline = Deadline::after(timeout.into());
        // Once is not enough: what came may be a part of a long message.
        loop {
            let received = match self.half.wait_into(deadline, buffer)? {
                Waited::Ready => self.try_recv(buffer)?,
                Waited::Stored(frame) => self.take_stored(frame, buffer)?,
                Waited::Expired => return Ok(None),
            };
            if received.is_some() {
                return Ok(received);
            }
        }
    }

    fn is_ready_soon(&mut self) -> bool {
        let polled = self
            .half
            .poll_briefly(|queue| queue.maybe_ready().then_some(()));
        polled.is_some()
    }

    /// The next message, or `None` if none has come by the deadline.
    fn next_until(&mut self, timeout: Option<Duration>) -> Result<Option<Next>> {
        self.half.reads_in_place();
        let mut deadline = None;
        loop {
            match self.next(true)? {
                Next::Nothing => {}
                next => return Ok(Some(next)),
            }
            // Once is not enough: what came may be a part of a long message.
            let ready = match deadline {
                None if self.is_ready_soon() => true,
                None => self.half.wait(*deadline.insert(Deadline::after(timeout)))?,
                Some(deadline) => self.half.wait(deadline)?,
            };
            if !ready {
                return Ok(None);
            }
        }
    }

    /// Receives a message of any length into a vector, replacing what is in it, and returns
    /// its length; waits for one.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`], but for the buffer.
    pub fn recv_into(&mut self, into: &mut Vec<u8>) -> Result<usize> {
        match self.recv_into_timeout(into, None)? {
            Some(len) => Ok(len),
            None => Err(Error::Timeout),
        }
    }

    /// As [`Receiver::recv_into`], if a message is there. If not, the vector may hold a part of one that is on its way.
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    pub fn try_recv_into(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>> {
        let received = self.try_recv(into);
        self.received_into(into, received)
    }

    /// As [`Receiver::recv_into`], for at most `timeout`; `None` if it has passed.
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    pub fn recv_into_timeout(
        &mut self,
        into: &mut Vec<u8>,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<usize>> {
        let received = self.recv_timeout(into, timeout);
        self.received_into(into, received)
    }

    /// A message was received into a vector as long as it was, most often as the message before. One that is longer
    /// than that is still there.
    fn received_into(
        &mut self,
        into: &mut Vec<u8>,
        received: Result<Option<usize>>,
    ) -> Result<Option<usize>> {
        match received {
            Ok(Some(len)) => {
                into.truncate(len);
                Ok(Some(len))
            }
            Err(Error::BufferTooSmall { needed_bytes, .. }) => {
                into.resize(needed_bytes, 0);
                self.try_recv(into)
            }
            other => other,
        }
    }

    /// Receives a message into a vector; waits for at most `timeout`, `false` if it has
    /// passed.
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    #[deprecated(
        since = "0.1.0",
        note = "use `recv_into`, or `recv_into_timeout` for a time-out: they return the length"
    )]
    pub fn recv_vec(&mut self, into: &mut Vec<u8>, timeout: Option<Duration>) -> Result<bool> {
        Ok(self.recv_into_timeout(into, timeout)?.is_some())
    }

    /// Receives at most `max` messages that are there, handing each to `handle`, and
    /// returns how many.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`], but for the buffer; only if there was no message first.
    pub fn recv_batch(&mut self, max: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        self.half.reads_in_place();
        let mut count = 0;
        while count < max {
            // Whoever has got something comes again: to look for more at once would cost a system call each time.
            let next = match self.next(count == 0) {
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
                    self.half.queue.copy_out(located, &mut self.scratch[..len]);
                    self.half.tap(&self.scratch[..len]);
                    handle(&self.scratch[..len]);
                    len
                }
                _ => {
                    self.half.tap(self.half.queue.assembled());
                    handle(self.half.queue.assembled());
                    self.half.queue.assembled().len()
                }
            };
            self.done(&next, len);
            count += 1;
        }
        Ok(count)
    }

    /// The next message, in place; waits for one. It stays the next until
    /// [`Message::release`].
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    pub fn recv_message(&mut self) -> Result<Message<'_>> {
        match self.recv_message_timeout(None)? {
            Some(message) => Ok(message),
            None => Err(Error::Timeout),
        }
    }

    /// As [`Receiver::recv_message`], if a message is there.
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    pub fn try_recv_message(&mut self) -> Result<Option<Message<'_>>> {
        self.half.reads_in_place();
        Ok(match self.next(true)? {
            Next::Nothing => None,
            next => Some(Message::new(self, next)),
        })
    }

    /// As [`Receiver::recv_message`], for at most `timeout`; `None` if it has passed.
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    pub fn recv_message_timeout(
        &mut self,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Message<'_>>> {
        let next = self.next_until(timeout.into())?;
        Ok(next.map(|next| Message::new(self, next)))
    }

    /// Readiness need not be told again for what has not been taken: whoever waits next
    /// tries first.
    #[cfg(feature = "tokio")]
    pub(crate) fn leave_the_rest(&self) {
        self.half.core().set_may_have_more(false);
    }

    /// The next message, in place, if one is there.
    ///
    /// # Errors
    /// As [`Receiver::recv_into`].
    #[deprecated(since = "0.1.0", note = "use `try_recv_message`")]
    pub fn peek(&mut self) -> Result<Option<Message<'_>>> {
        self.try_recv_message()
    }
}

impl core::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.half.core().describe("Receiver", f)
    }
}

#[cold]
fn too_small(needed_bytes: usize, buffer_bytes: usize) -> Error {
    Error::BufferTooSmall {
        needed_bytes,
        buffer_bytes,
    }
}

/// A message that lies where the sender put it, got from
/// [`Receiver::recv_message`] and its kin.
///
/// It may still change under a hostile sender, so it can be copied, but not borrowed:
/// [`Message::read_at`], [`io::Read`], [`Message::into_vec`]. It compares with bytes
/// (`message == b"stop"`). It stays the next message until [`Message::release`], or
/// another call that takes it by value; dropped before that, it is received again.
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    next: Next,
    /// How far [`io::Read`] has come.
    read_bytes: usize,
}

impl<'a> Message<'a> {
    fn new(receiver: &'a mut Receiver, next: Next) -> Message<'a> {
        Message {
            receiver,
            next,
            read_bytes: 0,
        }
    }

    /// Its length.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match &self.next {
            Next::InPlace(located) => located.len_bytes,
            _ => self.receiver.half.queue.assembled().len(),
        }
    }

    /// Where it lies, for callers that hand the address to other languages; `None` if it is empty, or came through the
    /// duplex line: such a message is short, copy it. The address is good for reading until the message is released, something
    /// else is received, or the receiver is dropped. The sender may still change the bytes.
    #[must_use]
    pub fn base(&self) -> Option<NonNull<u8>> {
        let queue = &self.receiver.half.queue;
        match &self.next {
            Next::InPlace(located) if located.in_line => None,
            Next::InPlace(located) => {
                let bytes = queue.incoming().sub(located.offset, located.len_bytes)?;
                Some(bytes.base())
            }
            _ => Some(NonNull::from(queue.assembled()).cast()),
        }
    }

    /// Copies bytes from offset `at`.
    ///
    /// # Panics
    /// If they do not lie inside the message.
    pub fn read_at(&self, at: usize, into: &mut [u8]) {
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
                self.receiver.half.queue.copy_out(&part, into);
            }
            _ => into.copy_from_slice(&self.receiver.half.queue.assembled()[at..at + into.len()]),
        }
    }

    /// Copies bytes from offset `at`.
    ///
    /// # Panics
    /// If they do not lie inside the message.
    #[deprecated(
        since = "0.1.0",
        note = "use `read_at`; `read` becomes that of `std::io::Read`"
    )]
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.read_at(at, into);
    }

    /// Writes `before` and then the bytes from offset `at` on to a file, a pipe or a socket, by one system call, from where they
    /// lie; how many bytes of both were taken. Under a hostile sender they are not sure to be those that were read before.
    ///
    /// # Errors
    /// What the operating system says, as of a write.
    ///
    /// # Panics
    /// If `at` does not lie inside the message, or at its end.
    pub fn write_to(&self, to: impl AsFd, before: &[u8], at: usize) -> io::Result<usize> {
        let len = self.len_bytes();
        assert!(at <= len, "offset {at} of a message of {len} bytes");
        let lies_in = match &self.next {
            Next::InPlace(located) if !located.in_line => {
                let queue = &self.receiver.half.queue;
                queue.incoming().sub(located.offset, len)
            }
            _ => None,
        };
        let written = match lies_in {
            Some(window) => memory::write_parts(to.as_fd(), before, &window, at),
            None => {
                let mut rest = vec![0; len - at];
                self.read_at(at, &mut rest);
                memory::write_slices(to.as_fd(), before, &rest)
            }
        };
        written.map_err(|errno| io::Error::from_raw_os_error(errno.0))
    }

    /// Copies the whole message into a vector, replacing what is in it.
    pub fn copy_to(&self, into: &mut Vec<u8>) {
        into.resize(self.len_bytes(), 0);
        self.read_at(0, into);
    }

    /// Takes the message out, as a vector of its own.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_to(&mut bytes);
        self.release();
        bytes
    }

    /// Gives its memory back to the sender: the message has been received.
    pub fn release(self) {
        let len = self.len_bytes();
        if self.receiver.half.tapped() {
            let mut bytes = Vec::new();
            self.copy_to(&mut bytes);
            self.receiver.half.tap(&bytes);
        }
        self.receiver.done(&self.next, len);
    }

    fn equals(&self, bytes: &[u8]) -> bool {
        let mut piece = [0; 256];
        let mut pieces = bytes.chunks(piece.len()).enumerate();
        self.len_bytes() == bytes.len()
            && pieces.all(|(at, expected)| {
                let found = &mut piece[..expected.len()];
                self.read_at(at * 256, found);
                found == expected
            })
    }
}

/// Reads the message from its beginning to its end, a copy at a time. It does not release
/// the message.
impl io::Read for Message<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = into.len().min(self.len_bytes() - self.read_bytes);
        self.read_at(self.read_bytes, &mut into[..len]);
        self.read_bytes += len;
        Ok(len)
    }
}

impl PartialEq<[u8]> for Message<'_> {
    fn eq(&self, bytes: &[u8]) -> bool {
        self.equals(bytes)
    }
}

impl PartialEq<&[u8]> for Message<'_> {
    fn eq(&self, bytes: &&[u8]) -> bool {
        self.equals(bytes)
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Message<'_> {
    fn eq(&self, bytes: &[u8; N]) -> bool {
        self.equals(bytes)
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Message<'_> {
    fn eq(&self, bytes: &&[u8; N]) -> bool {
        self.equals(*bytes)
    }
}

impl PartialEq<Vec<u8>> for Message<'_> {
    fn eq(&self, bytes: &Vec<u8>) -> bool {
        self.equals(bytes)
    }
}

impl core::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let connection = self.receiver.half.core().number;
        let len_bytes = self.len_bytes();
        write!(
            f,
            "Message {{ connection: {connection}, len_bytes: {len_bytes} }}"
        )
    }
}
