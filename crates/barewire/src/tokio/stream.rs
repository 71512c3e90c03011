//! A connection as a byte stream in async code.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::driver::{Driver, Wanted};
use crate::error::Credentials;
use crate::handles::id::ConnectionId;
use crate::handles::stream::Stream;

/// A connection's place among those whom the driver wakes; given up when it is dropped.
pub(crate) struct Seat {
    pub driver: Arc<Driver>,
    pub id: ConnectionId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.driver.forget(self.id);
    }
}

/// A byte stream in async code: [`AsyncRead`] and [`AsyncWrite`], got from
/// [`AsyncConnection::into_stream`](super::AsyncConnection::into_stream).
///
/// A write is visible at once; there is nothing to flush. Shutting it down says that nothing
/// more will be written. A read or a write that is cancelled has taken or written nothing.
pub struct AsyncStream {
    // Before the stream: its number must not be another's while the seat is there.
    seat: Seat,
    stream: Stream,
}

impl AsyncStream {
    pub(crate) fn new(seat: Seat, stream: Stream) -> AsyncStream {
        AsyncStream { seat, stream }
    }

    /// Its number on the node.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.seat.id
    }

    /// Who is at the other end, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.stream.peer()
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (seat, reader) = (&this.seat, this.stream.reader());
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = seat
            .driver
            .poll_with(context, seat.id, Wanted::ToReceive, || {
                let read = reader.try_read(into.initialize_unfilled());
                reader.leave_the_rest();
                read
            });
        let len = core::task::ready!(read)?;
        into.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let (seat, writer) = (&this.seat, this.stream.writer());
        let written = seat.driver.poll_with(context, seat.id, Wanted::ToSend, || {
            let written = writer.try_write(bytes)?;
            Ok((written > 0 || bytes.is_empty()).then_some(written))
        });
        written.map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.finish();
        Poll::Ready(Ok(()))
    }
}

impl core::fmt::Debug for AsyncStream {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Async{:?}", self.stream)
    }
}
