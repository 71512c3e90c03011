//! Messages over a half of a connection, in all ways to send and to receive.
//!
//! A receiver polls a moment with the interpreter's lock, because to give that back and to take it again costs as much as
//! a message. After that it waits without.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire::{Error, Message, Receiver, Sender};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::calls::{Data, Room, SLICE, wait};
use crate::errors::{Outcome, Problem};
use crate::in_place::Found;
use crate::view::Bytes;

/// Polls with the interpreter's lock: some microseconds.
const POLLS_WITH_LOCK: u32 = 128;
/// Room for the usual message; a longer one goes straight into a `bytes` of its length.
const SCRATCH_BYTES: usize = 4096;

/// Where messages are put until their length is known.
pub struct Scratch(Vec<u8>);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(vec![0; SCRATCH_BYTES])
    }

    /// At least this much of it.
    fn room(&mut self, len_bytes: usize) -> &mut [u8] {
        if self.0.len() < len_bytes {
            self.0.resize(len_bytes, 0);
        }
        &mut self.0[..len_bytes]
    }
}

/// Sends a message; waits while the ring is full. `false` if the time has passed.
pub fn send(
    py: Python<'_>,
    sender: &mut Sender,
    message: &[u8],
    timeout: Option<Duration>,
    closing: &AtomicBool,
) -> Outcome {
    if message.len() <= sender.reserve_bytes_max() && sender.try_send(message)? {
        return Ok(());
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let slice = timeout.map_or(SLICE, |timeout| timeout.min(SLICE));
    let mut why = None;
    let sent = py.detach(|| {
        sender.send_while(message, slice, || {
            why = why_stop(deadline, closing);
            why.is_none()
        })
    })?;
    match (sent, why) {
        (true, _) => Ok(()),
        (false, Some(why)) => Err(why.into()),
        (false, None) => Err(Error::Timeout.into()),
    }
}

/// Why a wait that has no lock of the interpreter is to end, if so.
fn why_stop(deadline: Option<Instant>, closing: &AtomicBool) -> Option<PyErr> {
    let interrupted = Python::attach(|py| py.check_signals());
    if let Err(error) = interrupted {
        return Some(error);
    }
    // Relaxed: see `Slot::close`.
    if closing.load(Ordering::Relaxed) {
        return Some(Problem::Network(Error::Closed).into());
    }
    let is_late = deadline.is_some_and(|at| Instant::now() >= at);
    is_late.then(|| Problem::Network(Error::Timeout).into())
}

/// Sends one message that is put together from parts, in the receiver's memory if it fits there.
pub fn send_parts(
    py: Python<'_>,
    sender: &mut Sender,
    parts: &[Data<'_>],
    timeout: Option<Duration>,
    closing: &AtomicBool,
) -> Outcome {
    let len_bytes = parts.iter().map(|part| part.get().len()).sum();
    if len_bytes > sender.reserve_bytes_max() {
        let whole: Vec<u8> = parts.iter().flat_map(Data::get).copied().collect();
        return send(py, sender, &whole, timeout, closing);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Data::get).collect();
    let sent = wait(py, timeout, closing, |slice| {
        let Some(mut room) = sender.reserve_timeout(len_bytes, slice)? else {
            return Ok(None);
        };
        let mut at = 0;
        for part in &parts {
            room.write_at(at, part);
            at += part.len();
        }
        room.commit_written();
        Ok(Some(()))
    })?;
    sent.ok_or(Error::Timeout.into())
}

/// Takes room for a message; waits for it.
pub fn reserve(
    py: Python<'_>,
    sender: &mut Sender,
    len_bytes: usize,
    timeout: Option<Duration>,
    closing: &AtomicBool,
) -> Outcome<Bytes> {
    let room = |base| Bytes {
        base,
        len_bytes,
        readonly: false,
    };
    // Also has an event come when there is room.
    if let Some(found) = sender.reserve(len_bytes)? {
        return Ok(room(found.base()));
    }
    if timeout == Some(Duration::ZERO) {
        return Err(Error::Timeout.into());
    }
    let found = wait(py, timeout, closing, |slice| {
        let found = sender.reserve_timeout(len_bytes, slice)?;
        Ok(found.map(|found| room(found.base())))
    })?;
    found.ok_or(Error::Timeout.into())
}

/// Sends the first `len_bytes` of room of `room_bytes` that [`reserve`] has given, and nobody else has had meanwhile.
pub fn commit(sender: &mut Sender, room_bytes: usize, len_bytes: usize) -> Outcome {
    // The same room: nothing was sent since.
    let room = sender.reserve(room_bytes)?.ok_or(Error::Timeout)?;
    room.commit(len_bytes);
    Ok(())
}

/// Finds the next message, and leaves it there; waits for one.
pub fn peek(
    py: Python<'_>,
    receiver: &mut Receiver,
    timeout: Option<Duration>,
    closing: &AtomicBool,
) -> Outcome<Found> {
    let found = |message: Message<'_>| match message.base() {
        Some(base) => Found::Shared(Bytes {
            base,
            len_bytes: message.len_bytes(),
            readonly: true,
        }),
        None => {
            let mut copy = Vec::new();
            message.copy_to(&mut copy);
            Found::Copied(copy)
        }
    };
    for _ in 0..POLLS_WITH_LOCK {
        if let Some(message) = receiver.try_recv_message()? {
            return Ok(found(message));
        }
        std::hint::spin_loop();
    }
    if timeout == Some(Duration::ZERO) {
        return Err(Error::Timeout.into());
    }
    let waited = wait(py, timeout, closing, |slice| {
        Ok(receiver.recv_message_timeout(slice)?.map(found))
    })?;
    waited.ok_or(Error::Timeout.into())
}

/// Takes the message away that [`peek`] has found.
pub fn release(receiver: &mut Receiver) -> Outcome {
    let message = receiver.try_recv_message()?.ok_or(Error::Finished)?;
    message.release();
    Ok(())
}

/// Sends as many of these as there is room for; how many that was.
pub fn send_batch(sender: &mut Sender, messages: &[Data<'_>]) -> Outcome<usize> {
    let messages: Vec<&[u8]> = messages.iter().map(Data::get).collect();
    Ok(sender.send_batch(&messages)?)
}

/// A message of this length, which is there, as bytes of its own.
fn long<'py>(
    py: Python<'py>,
    receiver: &mut Receiver,
    len_bytes: usize,
) -> Outcome<Bound<'py, PyBytes>> {
    let mut received = Ok(None);
    let bytes = PyBytes::new_with(py, len_bytes, |into| {
        received = receiver.try_recv(into);
        Ok(())
    })?;
    // It was there, and nobody else receives.
    received?.ok_or(Error::Finished)?;
    Ok(bytes)
}

/// Receives a message if one is there.
#[inline]
pub fn try_recv<'py>(
    py: Python<'py>,
    receiver: &mut Receiver,
    scratch: &mut Scratch,
) -> Outcome<Option<Bound<'py, PyBytes>>> {
    match receiver.try_recv(&mut scratch.0) {
        Ok(Some(len)) => Ok(Some(PyBytes::new(py, &scratch.0[..len]))),
        Ok(None) => Ok(None),
        Err(Error::BufferTooSmall { needed_bytes, .. }) => {
            long(py, receiver, needed_bytes).map(Some)
        }
        Err(error) => Err(error.into()),
    }
}

/// Receives a message; waits for one.
#[inline]
pub fn recv<'py>(
    py: Python<'py>,
    receiver: &mut Receiver,
    scratch: &mut Scratch,
    timeout: Option<Duration>,
    closing: &AtomicBool,
) -> Outcome<Bound<'py, PyBytes>> {
    for _ in 0..POLLS_WITH_LOCK {
        if let Some(message) = try_recv(py, receiver, scratch)? {
            return Ok(message);
        }
        std::hint::spin_loop();
    }
    let waited = wait(py, timeout, closing, |slice| {
        receiver.recv_timeout(&mut scratch.0, slice)
    });
    match waited {
        Ok(Some(len)) => Ok(PyBytes::new(py, &scratch.0[..len])),
        Ok(None) => Err(Error::Timeout.into()),
        Err(Problem::Network(Error::BufferTooSmall { needed_bytes, .. })) => {
            long(py, receiver, needed_bytes)
        }
        Err(problem) => Err(problem),
    }
}

/// Receives a message into a buffer, if one is there; its length.
pub fn try_recv_into(
    receiver: &mut Receiver,
    scratch: &mut Scratch,
    room: &Room<'_>,
) -> Outcome<Option<usize>> {
    let buffer = scratch.room(room.len_bytes);
    let Some(len) = receiver.try_recv(buffer)? else {
        return Ok(None);
    };
    room.fill(&buffer[..len])?;
    Ok(Some(len))
}

/// Receives a message into a buffer; waits for one. Its length.
pub fn recv_into(
    py: Python<'_>,
    receiver: &mut Receiver,
    scratch: &mut Scratch,
    room: &Room<'_>,
    timeout: Option<Duration>,
    closing: &AtomicBool,
) -> Outcome<usize> {
    for _ in 0..POLLS_WITH_LOCK {
        if let Some(len) = try_recv_into(receiver, scratch, room)? {
            return Ok(len);
        }
        std::hint::spin_loop();
    }
    let buffer = scratch.room(room.len_bytes);
    let len = wait(py, timeout, closing, |slice| {
        receiver.recv_timeout(buffer, slice)
    })?;
    let len = len.ok_or(Error::Timeout)?;
    room.fill(&scratch.0[..len])?;
    Ok(len)
}

/// Receives at most `max` messages that are there.
pub fn recv_batch<'py>(
    py: Python<'py>,
    receiver: &mut Receiver,
    max: usize,
) -> Outcome<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let mut failed = Ok(());
    receiver.recv_batch(max, |message| {
        let appended = list.append(PyBytes::new(py, message));
        if failed.is_ok() {
            failed = appended;
        }
    })?;
    failed?;
    Ok(list)
}
