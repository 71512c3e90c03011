//! The receiving half of a connection: messages, batches, messages read in place.

use std::sync::Arc;
use std::time::Duration;

use barewire_fabric::MessageReceiver;
use barewire_fabric::queue::Next;
use barewire_shm::Window;

use crate::error::{Error, Result};
use crate::half::RxSide;
use crate::wait::Deadline;

/// Looks at the ring before anything slower is done.
const GLIMPSES: u32 = 64;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) side: RxSide,
    pub(crate) queue: MessageReceiver<Window, Window>,
    scratch: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new(side: RxSide, queue: MessageReceiver<Window, Window>) -> Receiver {
        Receiver {
            side,
            queue,
            scratch: Vec::new(),
        }
    }

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
        if self.glimpse() {
            if let Some(len) = self.try_recv(buffer)? {
                return Ok(Some(len));
            }
        }
        let deadline = Deadline::after(timeout);
        // Once is not enough: what came may be a part of a long message.
        while self.wait(deadline)? {
            if let Some(len) = self.try_recv(buffer)? {
                return Ok(Some(len));
            }
        }
        Ok(None)
    }

    /// Where we poll already, an answer often comes before the clock could be read: looks
    /// for it that long.
    #[inline]
    fn glimpse(&mut self) -> bool {
        if self.side.common.is_armed() {
            return false;
        }
        (0..GLIMPSES).any(|_| {
            core::hint::spin_loop();
            self.queue.maybe_ready()
        })
    }

    /// Waits until something can be received, or an error will be returned instead.
    fn wait(&mut self, deadline: Deadline) -> Result<bool> {
        let node = Arc::clone(&self.side.node);
        let (side, queue) = (&mut self.side, &mut self.queue);
        let found = node.wait_until(deadline, true, |step| {
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
            if !self.wait(deadline)? {
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
