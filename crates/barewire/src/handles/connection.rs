//! Connections: messages both ways, with everything for blocking and non-blocking use.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use barewire_fabric::{MessageReceiver, MessageSender};

use crate::error::{Credentials, Error, Result};
use crate::handles::aperture::Aperture;
use crate::handles::half::{ReceivingHalf, SendingHalf};
use crate::handles::id::ConnectionId;
use crate::handles::receiver::Receiver;
use crate::handles::remote::RemoteAperture;
use crate::handles::sender::Sender;
use crate::handles::stream::Stream;
use crate::links::driven::RemotePeer;
use crate::node::core::NodeCore;
use crate::node::wait::Deadline;
use crate::tables::events::Opened;

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
    pub(crate) fn new(node: &Arc<NodeCore>, opened: Opened) -> Connection {
        let Opened {
            core,
            counters,
            sender,
            sent_bytes_max,
            receiver,
            received_bytes_max,
            allowance,
        } = opened;
        let mut messages = MessageReceiver::new(receiver, received_bytes_max);
        if let Some(allowance) = allowance {
            messages = messages.with_allowance(allowance);
        }
        let out = MessageSender::new(sender);
        let out = SendingHalf::new(node, Arc::clone(&core), counters.clone(), out);
        Connection {
            sender: Sender::new(out, sent_bytes_max),
            receiver: Receiver::new(ReceivingHalf::new(node, core, counters, messages)),
            _not_sync: PhantomData,
        }
    }

    /// Whether it is one of this node's.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_of(&self, node: &Arc<NodeCore>) -> bool {
        Arc::ptr_eq(self.sender.half().node(), node)
    }

    /// Its number on this node, as events name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        ConnectionId(self.sender.half().core().number)
    }

    /// The name that was connected to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.sender.half().core().name
    }

    /// The node at the other end, if it is on another host.
    #[must_use]
    pub fn remote(&self) -> Option<RemotePeer> {
        self.sender.half().core().link.remote()?.peer()
    }

    /// Who is at the other end, as the kernel says. If that is on another host ([`Connection::remote`]), this process
    /// itself, which speaks for it.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.sender.half().core().link.peer
    }

    /// The two halves, for two threads. The connection is closed when both are dropped; each half,
    /// when dropped, closes its own direction.
    ///
    /// A connection that is not split is faster: short messages there and back move one cache line
    /// instead of two. Halves in two threads would lose more than that gains.
    #[must_use]
    pub fn split(mut self) -> (Sender, Receiver) {
        self.sender.leave_line();
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
    /// that has died gives [`Error::PeerDied`] here, even if nobody polls the node.
    pub fn send_out_of_band(&self, data: &[u8]) -> Result<bool> {
        self.sender.half().send_out_of_band(data)
    }

    /// Grants the peer an aperture; it gets [`Event::Granted`](crate::Event::Granted)
    /// with this cookie. The rights are those of the aperture. The grant lasts until the peer gives it
    /// back or the aperture is revoked, also after this connection is dropped.
    ///
    /// A peer on another host holds the aperture through this process: a thread of this node makes its accesses.
    /// [`RemoteAperture`] says what they cost.
    ///
    /// # Errors
    /// [`Error::Access`] if the aperture has been revoked; [`Error::OtherNode`] if it is
    /// none of this connection's node; [`Error::GrantedAlready`] if the peer's node has it already;
    /// why the connection is down.
    pub fn grant(&self, aperture: &Aperture, cookie: u64) -> Result<()> {
        self.sender.half().check_alive()?;
        let half = self.sender.half();
        aperture.grant(half.node(), half.core(), cookie)
    }

    /// Waits for an aperture that the peer grants on this connection, for programs
    /// without an event loop. Other events stay where they are.
    ///
    /// # Errors
    /// [`Error::Timeout`], or why the connection is down.
    pub fn import(&self, timeout: impl Into<Option<Duration>>) -> Result<(u64, RemoteAperture)> {
        let half = self.sender.half();
        let number = half.core().number;
        let deadline = Deadline::after(timeout.into());
        let found = half.node().wait_until(deadline, false, |_| {
            let granted = half.node().state().take_granted(number);
            granted.map(Ok).or_else(|| half.check().err().map(Err))
        })?;
        let (cookie, memory) = found.unwrap_or(Err(Error::Timeout))?;
        Ok((cookie, RemoteAperture::new(memory, half.node())))
    }
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.sender.half().core().describe("Connection", f)
    }
}
