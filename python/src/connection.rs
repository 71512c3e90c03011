//! Connections and their halves.

use std::sync::{Mutex, PoisonError};

use barewire::{
    Connection as Inner, Receiver as InnerReceiver, SendProgress, Sender as InnerSender,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::aperture::{Aperture, RemoteAperture};
use crate::calls::{Data, Direction, Room, Slot, timeout as seconds, wait};
use crate::errors::Outcome;
use crate::ids::number;
use crate::in_place::{Lender, Message, Reservation};
use crate::messages::{self, Scratch};
use crate::peer::{Credentials, Peer};
use crate::stream::RawStream;

/// A connection, and where its messages are put.
struct Both {
    connection: Inner,
    scratch: Scratch,
}

/// Messages both ways, whole and in order.
///
/// One thread at a time uses it, or gets `Busy`; `split` gives halves for two threads. Use it in a `with` statement, or
/// call `close`: what was sent before stays receivable at the other end.
#[pyclass(frozen, module = "barewire")]
pub struct Connection {
    slot: Slot<Both>,
    /// Its number on its node, as events name it.
    #[pyo3(get)]
    id: u32,
    /// The name that was connected to.
    #[pyo3(get)]
    name: String,
    /// Who is at the other end, as the kernel says: `pid`, `uid`, `gid`.
    #[pyo3(get)]
    peer: Credentials,
    /// The node at the other end, if it is on another host; else `None`.
    #[pyo3(get)]
    remote: Option<Peer>,
}

impl Connection {
    pub fn new(connection: Inner) -> Connection {
        Connection {
            id: number(connection.id()),
            name: connection.name().to_owned(),
            peer: connection.peer().into(),
            remote: connection.remote().map(Peer::from),
            slot: Slot::new(
                Both {
                    connection,
                    scratch: Scratch::new(),
                },
                "another thread is using this connection; use split() and give each thread a half",
            ),
        }
    }
}

#[pymethods]
impl Connection {
    /// Sends a message; waits while the receiver's ring is full, at most `timeout` seconds.
    #[pyo3(signature = (message, timeout = None))]
    fn send(&self, py: Python<'_>, message: Data<'_>, timeout: Option<f64>) -> Outcome {
        let timeout = seconds(timeout)?;
        let mut used = self.slot.lock_for(Direction::Sending)?;
        let sender = used.connection.sender();
        messages::send(py, sender, message.get(), timeout, self.slot.closing())
    }

    /// Sends a message if there is room for it now; whether there was.
    #[pyo3(signature = (message, /))]
    fn try_send(&self, message: Data<'_>) -> Outcome<bool> {
        Ok(self
            .slot
            .lock_for(Direction::Sending)?
            .connection
            .try_send(message.get())?)
    }

    /// Goes on to send a long message, as far as there is room; whether all of it was sent. Until then nothing else may be
    /// sent. For event loops.
    fn try_send_part(&self, message: &LongMessage) -> Outcome<bool> {
        let mut used = self.slot.lock_for(Direction::Sending)?;
        let mut progress = message
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sender = used.connection.sender();
        Ok(sender.try_send_part(&message.bytes, &mut progress)?)
    }

    /// Sends one message that is made of several parts, without joining them first.
    #[pyo3(signature = (parts, timeout = None))]
    fn send_parts(&self, py: Python<'_>, parts: Vec<Data<'_>>, timeout: Option<f64>) -> Outcome {
        let timeout = seconds(timeout)?;
        let mut used = self.slot.lock_for(Direction::Sending)?;
        let sender = used.connection.sender();
        messages::send_parts(py, sender, &parts, timeout, self.slot.closing())
    }

    /// Sends as many of these messages as there is room for now, several to a frame; how many that was.
    #[pyo3(signature = (messages, /))]
    fn send_batch(&self, messages: Vec<Data<'_>>) -> Outcome<usize> {
        messages::send_batch(
            self.slot.lock_for(Direction::Sending)?.connection.sender(),
            &messages,
        )
    }

    /// Receives a message; waits for one, at most `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Outcome<Bound<'py, PyBytes>> {
        let timeout = seconds(timeout)?;
        let mut used = self.slot.lock_for(Direction::Receiving)?;
        let Both {
            connection,
            scratch,
        } = &mut *used;
        let receiver = connection.receiver();
        messages::recv(py, receiver, scratch, timeout, self.slot.closing())
    }

    /// Receives a message if one is there, else returns `None`.
    fn try_recv<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let mut used = self.slot.lock_for(Direction::Receiving)?;
        let Both {
            connection,
            scratch,
        } = &mut *used;
        messages::try_recv(py, connection.receiver(), scratch)
    }

    /// Receives a message into a buffer and returns its length; waits for one, at most `timeout` seconds. A message that is
    /// too long for the buffer stays the next one.
    #[pyo3(signature = (buffer, timeout = None))]
    fn recv_into(&self, py: Python<'_>, buffer: Room<'_>, timeout: Option<f64>) -> Outcome<usize> {
        let timeout = seconds(timeout)?;
        let mut used = self.slot.lock_for(Direction::Receiving)?;
        let Both {
            connection,
            scratch,
        } = &mut *used;
        let receiver = connection.receiver();
        messages::recv_into(py, receiver, scratch, &buffer, timeout, self.slot.closing())
    }

    /// Receives a message into a buffer if one is there, and returns its length, else `None`.
    #[pyo3(signature = (buffer, /))]
    fn try_recv_into(&self, buffer: Room<'_>) -> Outcome<Option<usize>> {
        let mut used = self.slot.lock_for(Direction::Receiving)?;
        let Both {
            connection,
            scratch,
        } = &mut *used;
        messages::try_recv_into(connection.receiver(), scratch, &buffer)
    }

    /// Receives the messages that are there, at most `max`; never waits.
    #[pyo3(signature = (max = 64))]
    fn recv_batch<'py>(&self, py: Python<'py>, max: usize) -> Outcome<Bound<'py, PyList>> {
        messages::recv_batch(
            py,
            self.slot
                .lock_for(Direction::Receiving)?
                .connection
                .receiver(),
            max,
        )
    }

    /// Takes room for a message of `size` bytes in the receiver's memory, to be filled in place; waits for it, at most `timeout`
    /// seconds. A message that is built in place has to fit a frame: `reserve_bytes_max`.
    #[pyo3(signature = (size, timeout = None))]
    fn reserve(slf: Bound<'_, Self>, size: usize, timeout: Option<f64>) -> Outcome<Reservation> {
        let (py, slot, timeout) = (slf.py(), &slf.get().slot, seconds(timeout)?);
        let mut used = slot.lock_for(Direction::Sending)?;
        let sender = used.connection.sender();
        let bytes = messages::reserve(py, sender, size, timeout, slot.closing())?;
        slot.lend(Direction::Sending);
        Ok(Reservation::new(py, OfConnection::sending(&slf), bytes)?)
    }

    /// The longest message that `reserve` takes, in bytes: a quarter of the receiver's ring less 64.
    #[getter]
    fn reserve_bytes_max(&self) -> Outcome<usize> {
        Ok(self.slot.lock()?.connection.sender().reserve_bytes_max())
    }

    /// The next message, to be read in place; waits for one, at most `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn peek(slf: Bound<'_, Self>, timeout: Option<f64>) -> Outcome<Message> {
        let (py, slot, timeout) = (slf.py(), &slf.get().slot, seconds(timeout)?);
        let mut used = slot.lock_for(Direction::Receiving)?;
        let receiver = used.connection.receiver();
        let found = messages::peek(py, receiver, timeout, slot.closing())?;
        slot.lend(Direction::Receiving);
        Ok(Message::new(py, OfConnection::receiving(&slf), found)?)
    }

    /// Says that nothing more will be sent: the peer receives what was sent, then `Finished`. Receiving goes on.
    fn finish(&self) -> Outcome {
        self.slot.lock_for(Direction::Sending)?.connection.finish();
        Ok(())
    }

    /// Sends at most 4096 bytes outside the queue; they arrive as an event `OutOfBand`. `False` if the peer has too many
    /// unread: try again later.
    #[pyo3(signature = (data, /))]
    fn send_out_of_band(&self, data: Data<'_>) -> Outcome<bool> {
        let used = self.slot.lock()?;
        Ok(used.connection.send_out_of_band(data.get())?)
    }

    /// Grants the peer an aperture. It gets an event `Granted` with the cookie, or calls `import_aperture`.
    #[pyo3(signature = (aperture, cookie = 0))]
    fn grant(&self, aperture: &Aperture, cookie: u64) -> Outcome {
        let used = self.slot.lock()?;
        aperture.with(|inner| Ok(used.connection.grant(inner, cookie)?))
    }

    /// Waits for an aperture that the peer grants on this connection, at most `timeout` seconds; its cookie and itself.
    #[pyo3(signature = (timeout = None))]
    fn import_aperture<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> Outcome<(u64, RemoteAperture)> {
        let timeout = seconds(timeout)?;
        let mut used = self.slot.lock()?;
        let connection = &mut used.connection;
        let found = wait(py, timeout, self.slot.closing(), |slice| {
            // Not by reference: a connection is for one thread at a time.
            let connection: &mut Inner = connection;
            or_nothing(connection.import(slice))
        })?;
        let (cookie, aperture) = found.ok_or(barewire::Error::Timeout)?;
        Ok((cookie, RemoteAperture::new(aperture)))
    }

    /// The connection as a byte stream, without the bounds of messages: to be done on both sides, before the first message.
    /// This object can not be used any more.
    #[allow(
        clippy::wrong_self_convention,
        reason = "the name is that of the Rust API, and Python has no moves"
    )]
    fn into_stream<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let Both { connection, .. } = self.slot.take()?;
        let raw = RawStream::new(connection.into_stream(), self.name.clone());
        let class = py.import("barewire.stream")?.getattr("Stream")?;
        Ok(class.call1((raw,))?)
    }

    /// The two halves, `(sender, receiver)`, for two threads. This object can not be used any more. A connection that is
    /// not split is faster.
    fn split<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyTuple>> {
        let (sender, receiver) = self.slot.take()?.connection.split();
        Ok((Sender::new(sender), Receiver::new(receiver)).into_pyobject(py)?)
    }

    /// The longest message that the peer takes, in bytes.
    #[getter]
    fn message_bytes_max(&self) -> Outcome<u64> {
        Ok(self.slot.lock()?.connection.sender().message_bytes_max())
    }

    /// Whether it was closed, or given away by `into_stream` or `split`.
    #[getter]
    fn closed(&self) -> bool {
        self.slot.is_closed()
    }

    /// Closes it; may be called twice. Ends a wait in another thread.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.slot.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<barewire.Connection {} to {}>", self.id, self.name)
    }
}

/// A connection that lends the memory of a direction.
struct OfConnection(Py<Connection>, Direction);

impl OfConnection {
    fn sending(connection: &Bound<'_, Connection>) -> OfConnection {
        OfConnection(connection.clone().unbind(), Direction::Sending)
    }

    fn receiving(connection: &Bound<'_, Connection>) -> OfConnection {
        OfConnection(connection.clone().unbind(), Direction::Receiving)
    }
}

impl Lender for OfConnection {
    fn complete(&self, _py: Python<'_>, room_bytes: usize, len_bytes: usize) -> Outcome {
        let mut used = self.0.get().slot.lock()?;
        match self.1 {
            Direction::Sending => messages::commit(used.connection.sender(), room_bytes, len_bytes),
            Direction::Receiving => messages::release(used.connection.receiver()),
        }
    }

    fn let_go(&self) {
        self.0.get().slot.let_go(self.1);
    }
}

/// A message that is sent in parts, and how much of it was.
#[pyclass(frozen, module = "barewire._native")]
pub struct LongMessage {
    bytes: Vec<u8>,
    progress: Mutex<SendProgress>,
}

#[pymethods]
impl LongMessage {
    #[new]
    fn new(message: Data<'_>) -> LongMessage {
        LongMessage {
            bytes: message.into_vec(),
            progress: Mutex::default(),
        }
    }

    /// How much of it was sent, in bytes.
    #[getter]
    fn sent_bytes(&self) -> usize {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.sent_bytes
    }
}

/// What a wait of the network found, if the time has not passed.
pub fn or_nothing<T>(result: barewire::Result<T>) -> barewire::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(barewire::Error::Timeout) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The sending half of a connection. Threads may share it: each message is sent whole.
#[pyclass(frozen, module = "barewire")]
pub struct Sender(Slot<InnerSender>);

impl Sender {
    fn new(sender: InnerSender) -> Sender {
        Sender(Slot::new(sender, "another thread is sending"))
    }
}

#[pymethods]
impl Sender {
    /// As `Connection.send`; waits for other threads, too.
    #[pyo3(signature = (message, timeout = None))]
    fn send(&self, py: Python<'_>, message: Data<'_>, timeout: Option<f64>) -> Outcome {
        let timeout = seconds(timeout)?;
        let mut used = self.0.lock_in_turn(py)?;
        messages::send(py, &mut used, message.get(), timeout, self.0.closing())
    }

    /// As `Connection.try_send`.
    #[pyo3(signature = (message, /))]
    fn try_send(&self, py: Python<'_>, message: Data<'_>) -> Outcome<bool> {
        Ok(self.0.lock_in_turn(py)?.try_send(message.get())?)
    }

    /// As `Connection.send_parts`.
    #[pyo3(signature = (parts, timeout = None))]
    fn send_parts(&self, py: Python<'_>, parts: Vec<Data<'_>>, timeout: Option<f64>) -> Outcome {
        let timeout = seconds(timeout)?;
        let mut used = self.0.lock_in_turn(py)?;
        messages::send_parts(py, &mut used, &parts, timeout, self.0.closing())
    }

    /// As `Connection.send_batch`.
    #[pyo3(signature = (messages, /))]
    fn send_batch(&self, py: Python<'_>, messages: Vec<Data<'_>>) -> Outcome<usize> {
        messages::send_batch(&mut *self.0.lock_in_turn(py)?, &messages)
    }

    /// As `Connection.reserve`. Until the message is sent, other threads that send get `Busy`.
    #[pyo3(signature = (size, timeout = None))]
    fn reserve(slf: Bound<'_, Self>, size: usize, timeout: Option<f64>) -> Outcome<Reservation> {
        let (py, slot, timeout) = (slf.py(), &slf.get().0, seconds(timeout)?);
        let mut used = slot.lock_in_turn(py)?;
        let bytes = messages::reserve(py, &mut used, size, timeout, slot.closing())?;
        slot.lend(Direction::Sending);
        Ok(Reservation::new(py, OfSender(slf.clone().unbind()), bytes)?)
    }

    /// As `Connection.reserve_bytes_max`.
    #[getter]
    fn reserve_bytes_max(&self, py: Python<'_>) -> Outcome<usize> {
        Ok(self.0.lock_in_turn(py)?.reserve_bytes_max())
    }

    /// Says that nothing more will be sent.
    fn finish(&self, py: Python<'_>) -> Outcome {
        self.0.lock_in_turn(py)?.finish();
        Ok(())
    }

    /// Closes this direction.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.0.close(py);
    }
}

/// A sending half that lends its memory.
struct OfSender(Py<Sender>);

impl Lender for OfSender {
    fn complete(&self, _py: Python<'_>, room_bytes: usize, len_bytes: usize) -> Outcome {
        messages::commit(&mut *self.0.get().0.lock()?, room_bytes, len_bytes)
    }

    fn let_go(&self) {
        self.0.get().0.let_go(Direction::Sending);
    }
}

/// The receiving half of a connection. One thread at a time uses it.
#[pyclass(frozen, module = "barewire")]
pub struct Receiver(Slot<(InnerReceiver, Scratch)>);

impl Receiver {
    fn new(receiver: InnerReceiver) -> Receiver {
        let advice = "another thread is receiving: let one thread receive";
        Receiver(Slot::new((receiver, Scratch::new()), advice))
    }
}

#[pymethods]
impl Receiver {
    /// As `Connection.recv`.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Outcome<Bound<'py, PyBytes>> {
        let timeout = seconds(timeout)?;
        let mut used = self.0.lock_for(Direction::Receiving)?;
        let (receiver, scratch) = &mut *used;
        messages::recv(py, receiver, scratch, timeout, self.0.closing())
    }

    /// As `Connection.try_recv`.
    fn try_recv<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let mut used = self.0.lock_for(Direction::Receiving)?;
        let (receiver, scratch) = &mut *used;
        messages::try_recv(py, receiver, scratch)
    }

    /// As `Connection.recv_into`.
    #[pyo3(signature = (buffer, timeout = None))]
    fn recv_into(&self, py: Python<'_>, buffer: Room<'_>, timeout: Option<f64>) -> Outcome<usize> {
        let timeout = seconds(timeout)?;
        let mut used = self.0.lock_for(Direction::Receiving)?;
        let (receiver, scratch) = &mut *used;
        messages::recv_into(py, receiver, scratch, &buffer, timeout, self.0.closing())
    }

    /// As `Connection.try_recv_into`.
    #[pyo3(signature = (buffer, /))]
    fn try_recv_into(&self, buffer: Room<'_>) -> Outcome<Option<usize>> {
        let mut used = self.0.lock_for(Direction::Receiving)?;
        let (receiver, scratch) = &mut *used;
        messages::try_recv_into(receiver, scratch, &buffer)
    }

    /// As `Connection.recv_batch`.
    #[pyo3(signature = (max = 64))]
    fn recv_batch<'py>(&self, py: Python<'py>, max: usize) -> Outcome<Bound<'py, PyList>> {
        messages::recv_batch(py, &mut self.0.lock_for(Direction::Receiving)?.0, max)
    }

    /// As `Connection.peek`.
    #[pyo3(signature = (timeout = None))]
    fn peek(slf: Bound<'_, Self>, timeout: Option<f64>) -> Outcome<Message> {
        let (py, slot, timeout) = (slf.py(), &slf.get().0, seconds(timeout)?);
        let mut used = slot.lock_for(Direction::Receiving)?;
        let found = messages::peek(py, &mut used.0, timeout, slot.closing())?;
        slot.lend(Direction::Receiving);
        Ok(Message::new(py, OfReceiver(slf.clone().unbind()), found)?)
    }

    /// Closes this direction.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.0.close(py);
    }
}

/// A receiving half that lends its memory.
struct OfReceiver(Py<Receiver>);

impl Lender for OfReceiver {
    fn complete(&self, _py: Python<'_>, _room_bytes: usize, _len_bytes: usize) -> Outcome {
        messages::release(&mut self.0.get().0.lock()?.0)
    }

    fn let_go(&self) {
        self.0.get().0.let_go(Direction::Receiving);
    }
}
