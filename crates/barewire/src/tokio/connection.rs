//! A connection that carries messages, in async code.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use barewire_fabric::SendProgress;
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;

use super::driver::Wanted;
use super::stream::{AsyncStream, Seat};
use crate::error::{Credentials, Error, Result};
use crate::handles::connection::Connection;
use crate::handles::id::ConnectionId;

/// A message that was taken over and is not yet in the ring as a whole.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    progress: SendProgress,
    waits: bool,
}

/// Messages both ways in async code: [`Stream`] of what is received, [`Sink`] for what is
/// sent, and calls for both that need no vector of their own for each message.
///
/// *Cancelling.* A future that is dropped loses nothing. What was not yet received stays in
/// the ring. A message whose sending is given up was not sent; only one that the sink has
/// taken, or one that is longer than half the receiver's ring, may be under way: the rest of
/// it goes out with the next [`send`](AsyncConnection::send),
/// [`flush`](AsyncConnection::flush) or [`finish`](AsyncConnection::finish). If you flush
/// before you send such a long message, and cancel that, [`is_flushed`](AsyncConnection::is_flushed)
/// says whether it had been begun.
///
/// *Back-pressure.* While the receiver's memory is full, sending waits. Dropping the
/// connection closes it; what a sink holds must be flushed before.
pub struct AsyncConnection {
    // Before the connection: its number must not be another's while the seat is there.
    seat: Seat,
    connection: Connection,
    outgoing: Outgoing,
    /// The stream has reported its end.
    ended: bool,
}

impl AsyncConnection {
    pub(crate) fn new(seat: Seat, connection: Connection) -> AsyncConnection {
        AsyncConnection {
            seat,
            connection,
            outgoing: Outgoing::default(),
            ended: false,
        }
    }

    /// Its number on the node, as events name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.seat.id
    }

    /// Who is at the other end, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.connection.peer()
    }

    /// The connection, for what does not wait: granting apertures, messages out of band.
    #[must_use]
    pub fn get_ref(&self) -> &Connection {
        &self.connection
    }

    /// The same connection as a byte stream; to be done on both sides, before the first
    /// message. See [`Connection::into_stream`].
    #[must_use]
    pub fn into_stream(self) -> AsyncStream {
        AsyncStream::new(self.seat, self.connection.into_stream())
    }

    /// Receives a message into `buffer`, and returns its length.
    ///
    /// # Errors
    /// As [`Receiver::recv`](crate::Receiver::recv); [`Error::NoRuntime`] if the runtime of
    /// the node has ended.
    pub async fn recv(&mut self, buffer: &mut [u8]) -> Result<usize> {
        poll_fn(|context| {
            self.poll_with_receiver(context, |connection| connection.try_recv(buffer))
        })
        .await
    }

    /// Receives a message of any length into a vector, replacing what is in it, and returns
    /// its length.
    ///
    /// # Errors
    /// As [`AsyncConnection::recv`], but for the buffer.
    pub async fn recv_into(&mut self, into: &mut Vec<u8>) -> Result<usize> {
        poll_fn(|context| {
            self.poll_with_receiver(context, |connection| {
                connection.receiver().try_recv_into(into)
            })
        })
        .await
    }

    fn poll_with_receiver<T>(
        &mut self,
        context: &mut Context<'_>,
        mut receive: impl FnMut(&mut Connection) -> Result<Option<T>>,
    ) -> Poll<Result<T>> {
        let (seat, connection) = (&self.seat, &mut self.connection);
        seat.driver
            .poll_with(context, seat.id, Wanted::ToReceive, || {
                let received = receive(connection);
                connection.receiver().leave_the_rest();
                received
            })
    }

    /// Sends a message; waits while the ring is full.
    ///
    /// # Errors
    /// As [`Sender::send`](crate::Sender::send); [`Error::NoRuntime`] if the runtime of the
    /// node has ended.
    pub async fn send(&mut self, message: &[u8]) -> Result<()> {
        poll_fn(|context| self.poll_send_rest(context)).await?;
        if message.len() > self.connection.sender().try_send_bytes_max() {
            // If we are dropped half-way, the rest must not be gone.
            self.take_over(message)?;
            return self.flush().await;
        }
        poll_fn(|context| {
            let (seat, connection) = (&self.seat, &mut self.connection);
            seat.driver.poll_with(context, seat.id, Wanted::ToSend, || {
                Ok(connection.try_send(message)?.then_some(()))
            })
        })
        .await
    }

    /// Waits until everything that was taken over is in the receiver's memory.
    ///
    /// # Errors
    /// As [`AsyncConnection::send`].
    pub async fn flush(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_send_rest(context)).await
    }

    /// Whether everything that was taken over is in the receiver's memory.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        !self.outgoing.waits
    }

    /// Flushes, and says that nothing more will be sent. Receiving goes on.
    ///
    /// # Errors
    /// As [`AsyncConnection::flush`].
    pub async fn finish(&mut self) -> Result<()> {
        self.flush().await?;
        self.connection.finish();
        Ok(())
    }

    /// Keeps a message, to be sent as there is room.
    fn take_over(&mut self, message: &[u8]) -> Result<()> {
        let max_bytes = self.connection.sender().message_bytes_max();
        let len_bytes = message.len() as u64;
        if len_bytes > max_bytes {
            return Err(Error::TooLong {
                len_bytes,
                max_bytes,
            });
        }
        self.outgoing.bytes.clear();
        self.outgoing.bytes.extend_from_slice(message);
        self.outgoing.progress = SendProgress::default();
        self.outgoing.waits = true;
        Ok(())
    }

    fn poll_send_rest(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.outgoing.waits {
            return Poll::Ready(Ok(()));
        }
        let (seat, sender) = (&self.seat, self.connection.sender());
        let outgoing = &mut self.outgoing;
        let sent = ready!(seat.driver.poll_with(context, seat.id, Wanted::ToSend, || {
            let whole = sender.try_send_part(&outgoing.bytes, &mut outgoing.progress)?;
            Ok(whole.then_some(()))
        }));
        // After an error there is nothing that could be sent either.
        outgoing.waits = false;
        Poll::Ready(sent)
    }
}

/// Messages as they come. Ends after [`Error::Finished`]; another error is an item, and
/// nothing comes behind it.
impl Stream for AsyncConnection {
    type Item = Result<Vec<u8>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let received = ready!(this.poll_with_receiver(context, |connection| {
            let message = connection.receiver().try_recv_message()?;
            Ok(message.map(crate::handles::receiver::Message::into_vec))
        }));
        this.ended = received.is_err();
        Poll::Ready(match received {
            Err(Error::Finished) => None,
            received => Some(received),
        })
    }
}

impl FusedStream for AsyncConnection {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

/// Closing says that nothing more will be sent; receiving goes on.
impl<M: AsRef<[u8]>> Sink<M> for AsyncConnection {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.get_mut().poll_send_rest(context)
    }

    fn start_send(self: Pin<&mut Self>, message: M) -> Result<()> {
        let (this, message) = (self.get_mut(), message.as_ref());
        if this.outgoing.waits {
            return Err(Error::LimitReached {
                what: "messages in a sink: call poll_ready before start_send",
                limit: 1,
            });
        }
        let sender = this.connection.sender();
        let at_once = message.len() <= sender.try_send_bytes_max();
        if at_once && sender.try_send(message)? {
            return Ok(());
        }
        this.take_over(message)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.get_mut().poll_send_rest(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send_rest(context))?;
        this.connection.finish();
        Poll::Ready(Ok(()))
    }
}

impl core::fmt::Debug for AsyncConnection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Async{:?}", self.connection)
    }
}
