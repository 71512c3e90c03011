//! A connection as a byte stream.

use std::io;
use std::time::Duration;

use barewire_fabric::{StreamReceiver, StreamSender};
use barewire_shm::Window;

use crate::error::{Credentials, Error, Result};
use crate::handles::half::{ReceivingHalf, SendingHalf};
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
                half: receiver
                    .into_half()
                    .map(|messages| StreamReceiver::new(messages.into_ring())),
            },
            writer: StreamWriter {
                half: sender
                    .into_half()
                    .map(|messages| StreamSender::new(messages.into_ring())),
            },
        }
    }

    /// Its number on this node, as events name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        ConnectionId(self.reader.half.core().number)
    }

    /// Who is at the other end, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.reader.half.core().link.peer
    }

    /// The two directions, for two threads. As [`Connection::split`](crate::Connection::split), it gives up the faster
    /// way for short pieces.
    #[must_use]
    pub fn split(mut self) -> (StreamReader, StreamWriter) {
        self.writer.half.queue.ring().leave_line();
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
        self.reader.half.core().describe("Stream", f)
    }
}

impl core::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.half.core().describe("StreamReader", f)
    }
}

impl core::fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.half.core().describe("StreamWriter", f)
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
    half: ReceivingHalf<StreamReceiver<Window, Window>>,
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
        self.half.check_failed()?;
        loop {
            match self.half.queue.read(into) {
                Ok(0) => {}
                Ok(len) => return Ok(Some(self.taken(&into[..len]))),
                Err(violation) => return Err(self.half.violated(violation)),
            }
            match self.half.nothing(true) {
                // What was written before the end is visible now.
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(Error::Finished) => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts bytes that were read; returns how many.
    #[inline]
    fn taken(&mut self, bytes: &[u8]) -> usize {
        self.half.tap(bytes);
        self.half.received(bytes.len());
        bytes.len()
    }

    /// As [`Receiver::leave_the_rest`].
    #[cfg(feature = "tokio")]
    pub(crate) fn leave_the_rest(&self) {
        self.half.core().set_may_have_more(false);
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
        self.half.check_failed()?;
        let polled = self.half.poll_briefly(|queue| match queue.read(into) {
            Ok(0) => None,
            found => Some(found),
        });
        if let Some(Ok(len)) = polled {
            return Ok(Some(self.taken(&into[..len])));
        }
        if let Some(len) = self.try_read(into)? {
            return Ok(Some(len));
        }
        let deadline = Deadline::after(timeout.into());
        loop {
            let came = self.half.wait(deadline)?;
            // Once is not enough: what came may be a frame without bytes.
            let read = self.try_read(into)?;
            if !came || read.is_some() {
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
    half: SendingHalf<StreamSender<Window, Window>>,
}

impl StreamWriter {
    /// Writes as much of `bytes` as there is room for, and returns how much that was.
    ///
    /// # Errors
    /// [`Error::PeerDeaf`]; [`Error::Closed`] after [`StreamWriter::finish`]; or why the
    /// connection is down.
    #[inline]
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.half.check_sending()?;
        match self.half.queue.write(bytes) {
            Ok(written) => {
                if written > 0 {
                    self.half.tap([&bytes[..written]]);
                    self.half.sent(1, written);
                }
                if written < bytes.len() {
                    self.half.was_full();
                }
                Ok(written)
            }
            Err(violation) => Err(self.half.violated(violation)),
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
        let deadline = Deadline::after(timeout.into());
        let written = self.half.wait(deadline, |half, step| {
            if step == Step::Arm {
                let piece = bytes.len().min(half.queue.ring().frame_bytes_max());
                half.arm(piece);
            }
            match half.queue.write(bytes) {
                Ok(0) => None,
                Ok(written) => Some(Ok(written)),
                Err(violation) => Some(Err(half.violated(violation))),
            }
        })?;
        let Some(written) = written else {
            return Ok(0);
        };
        self.half.tap([&bytes[..written]]);
        self.half.sent(1, written);
        Ok(written)
    }

    /// Says that nothing more will be written.
    pub fn finish(&mut self) {
        self.half.close();
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
