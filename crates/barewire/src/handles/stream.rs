//! A connection as a byte stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use barewire_fabric::{StreamReceiver, StreamSender};
use barewire_shm::Window;

use crate::error::{Credentials, Error, Result};
use crate::handles::half::{RxSide, TxSide};
use crate::handles::id::ConnectionId;
use crate::handles::receiver::Receiver;
use crate::handles::sender::Sender;
use crate::node::wait::{Deadline, Step};

/// A byte stream both ways, got from
/// [`Connection::into_stream`](crate::Connection::into_stream).
///
/// [`io::Read`] and [`io::Write`] block; `try_read` and `try_write` do not. At the end of
/// what the peer sent, reading gives 0 bytes, as everywhere.
pub struct Stream {
    reader: StreamReader,
    writer: StreamWriter,
}

impl Stream {
    pub(crate) fn new(sender: Sender, receiver: Receiver) -> Stream {
        Stream {
            reader: StreamReader {
                side: receiver.side,
                stream: StreamReceiver::new(receiver.queue.into_ring()),
            },
            writer: StreamWriter {
                side: sender.side,
                stream: StreamSender::new(sender.queue.into_ring()),
            },
        }
    }

    /// Its number on this node, as events name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        ConnectionId(self.reader.side.common.number)
    }

    /// Who is at the other end, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.reader.side.common.link.peer
    }

    /// The two directions, for two threads.
    #[must_use]
    pub fn split(self) -> (StreamReader, StreamWriter) {
        (self.reader, self.writer)
    }

    /// The reading direction.
    pub fn reader(&mut self) -> &mut StreamReader {
        &mut self.reader
    }

    /// The writing direction.
    pub fn writer(&mut self) -> &mut StreamWriter {
        &mut self.writer
    }

    /// Says that nothing more will be written: the peer reads what was, then the end.
    pub fn finish(&mut self) {
        self.writer.finish();
    }
}

impl core::fmt::Debug for Stream {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.reader.side.common.describe("Stream", f)
    }
}

impl core::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.side.common.describe("StreamReader", f)
    }
}

impl core::fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.side.common.describe("StreamWriter", f)
    }
}

impl io::Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

impl io::Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading direction of a [`Stream`].
pub struct StreamReader {
    side: RxSide,
    stream: StreamReceiver<Window, Window>,
}

impl StreamReader {
    /// Reads what is there, at most `into.len()` bytes; `None` if nothing is there yet,
    /// 0 at the end.
    ///
    /// # Errors
    /// Why the connection is down, when everything has been read.
    #[inline]
    pub fn try_read(&mut self, into: &mut [u8]) -> Result<Option<usize>> {
        if into.is_empty() {
            return Ok(Some(0));
        }
        self.side.check_failed()?;
        loop {
            match self.stream.read(into) {
                Ok(0) => {}
                Ok(len) => {
                    self.side.tap(&into[..len]);
                    let told = self.stream.take_told();
                    self.side.received(self.stream.ring(), told, len);
                    return Ok(Some(len));
                }
                Err(violation) => return Err(self.side.violated(violation)),
            }
            match self.side.ended(self.stream.ring()) {
                None => {
                    self.side.idle()?;
                    return Ok(None);
                }
                // What was written before the end is visible now.
                Some(_) if self.stream.maybe_ready() => {}
                Some(error) => {
                    self.side.common.set_taking(false);
                    return match error {
                        Error::Finished => Ok(Some(0)),
                        error => Err(error),
                    };
                }
            }
        }
    }

    /// As [`Receiver::leave_the_rest`].
    #[cfg(feature = "tokio")]
    pub(crate) fn leave_the_rest(&self) {
        self.side.common.set_taking(false);
    }

    /// Reads at least one byte, unless at the end; waits for at most `timeout`; `None` if
    /// that has passed.
    ///
    /// # Errors
    /// As [`StreamReader::try_read`].
    pub fn read_timeout(
        &mut self,
        into: &mut [u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<usize>> {
        if let Some(len) = self.try_read(into)? {
            return Ok(Some(len));
        }
        let deadline = Deadline::after(timeout.into());
        let node = Arc::clone(&self.side.node);
        loop {
            let (side, stream) = (&mut self.side, &mut self.stream);
            let found = node.wait_until(deadline, true, |step| {
                side.step(stream.ring(), step);
                let ready = stream.maybe_ready() || stream.ring().peer_finished() || side.is_down();
                ready.then_some(())
            })?;
            // Once is not enough: what came may be a frame without bytes.
            let read = self.try_read(into)?;
            if found.is_none() || read.is_some() {
                return Ok(read);
            }
        }
    }
}

impl io::Read for StreamReader {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.read_timeout(into, None)? {
            Some(len) => Ok(len),
            None => Err(Error::Timeout.into()),
        }
    }
}

/// The writing direction of a [`Stream`].
pub struct StreamWriter {
    side: TxSide,
    stream: StreamSender<Window, Window>,
}

impl StreamWriter {
    /// Writes as much of `bytes` as there is room for, and returns how much that was.
    ///
    /// # Errors
    /// [`Error::PeerDeaf`]; [`Error::Closed`] after [`StreamWriter::finish`]; or why the
    /// connection is down.
    #[inline]
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.side.check_sending(self.stream.ring())?;
        match self.stream.write(bytes) {
            Ok(written) => {
                if written > 0 {
                    self.side.tap([&bytes[..written]]);
                    self.side.sent(self.stream.ring(), 1, written);
                }
                if written < bytes.len() {
                    self.side.was_full();
                }
                Ok(written)
            }
            Err(violation) => Err(self.side.violated(violation)),
        }
    }

    /// Writes at least one byte of `bytes`; waits while the ring is full, for at most
    /// `timeout`; 0 if that has passed.
    ///
    /// # Errors
    /// As [`StreamWriter::try_write`].
    pub fn write_timeout(
        &mut self,
        bytes: &[u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<usize> {
        let written = self.try_write(bytes)?;
        if written > 0 || bytes.is_empty() {
            return Ok(written);
        }
        let node = Arc::clone(&self.side.node);
        let (side, stream) = (&mut self.side, &mut self.stream);
        let found = node.wait_until(Deadline::after(timeout.into()), true, |step| {
            if let Err(error) = side.check_sending(stream.ring()) {
                return Some(Err(error));
            }
            if step == Step::Arm {
                let piece = bytes.len().min(stream.ring().frame_bytes_max());
                side.arm(stream.ring(), piece);
            }
            match stream.write(bytes) {
                Ok(0) => None,
                Ok(written) => Some(Ok(written)),
                Err(violation) => Some(Err(side.violated(violation))),
            }
        })?;
        side.stop_waiting(stream.ring());
        match found {
            None => Ok(0),
            Some(Ok(written)) => {
                side.tap([&bytes[..written]]);
                side.sent(stream.ring(), 1, written);
                Ok(written)
            }
            Some(Err(error)) => Err(error),
        }
    }

    /// Says that nothing more will be written.
    pub fn finish(&mut self) {
        self.side.close();
    }
}

impl io::Write for StreamWriter {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.write_timeout(bytes, None)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
