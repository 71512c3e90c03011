//! Sending and receiving, as connections and halves do it alike.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::time::Duration;

use barewire::{Connection, Receiver, Sender};

use crate::border::{BW_NO_WAIT, bytes, nothing, timeout};
use crate::failure::{BwE, Failure, Result};
use crate::handles::{Handle, InUse, Object, enter_held};
use crate::kinds::Sending;

/// Bytes of a message: where they are, and how many.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwBytes {
    /// The first byte; may be null if there are none.
    pub data: *const c_void,
    /// How many.
    pub bytes: usize,
}

/// What sends.
pub(crate) trait HasSender {
    fn sender(&mut self) -> &mut Sender;
}

impl HasSender for Sender {
    #[inline(always)]
    fn sender(&mut self) -> &mut Sender {
        self
    }
}

impl HasSender for Connection {
    #[inline(always)]
    fn sender(&mut self) -> &mut Sender {
        Connection::sender(self)
    }
}

/// What receives.
pub(crate) trait HasReceiver {
    fn receiver(&mut self) -> &mut Receiver;
}

impl HasReceiver for Receiver {
    #[inline(always)]
    fn receiver(&mut self) -> &mut Receiver {
        self
    }
}

impl HasReceiver for Sending<Connection> {
    #[inline(always)]
    fn receiver(&mut self) -> &mut Receiver {
        self.sender.receiver()
    }
}

/// Sends. As [`receive`], this is the path of every message: it goes into the function that C calls.
#[inline(always)]
pub(crate) fn send<P>(sender: &mut Sender, message: &[u8], timeout_ns: i64) -> Result<i32> {
    if timeout_ns == BW_NO_WAIT {
        return send_now(sender, message);
    }
    sender.send_timeout(message, Timeout::<P>::of(timeout_ns))?;
    Ok(0)
}

#[inline(never)]
fn send_now(sender: &mut Sender, message: &[u8]) -> Result<i32> {
    match sender.try_send(message)? {
        true => Ok(0),
        false => Err(Failure::WouldBlock),
    }
}

/// A time-out that is not 0, as `P` passes it on.
struct Timeout<P>(i64, PhantomData<P>);

impl<P> Timeout<P> {
    #[inline(always)]
    fn of(timeout_ns: i64) -> Timeout<P> {
        Timeout(timeout_ns, PhantomData)
    }
}

impl<P> From<Timeout<P>> for Option<Duration> {
    #[inline(always)]
    fn from(given: Timeout<P>) -> Option<Duration> {
        timeout(given.0)
    }
}

/// A message of a batch, which was checked.
#[repr(transparent)]
struct Checked(BwBytes);

impl AsRef<[u8]> for Checked {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `checked` has had it accepted, and its caller promised that it stays.
        unsafe { bytes(self.0.data, self.0.bytes) }.unwrap_or_default()
    }
}

/// The messages of a batch.
///
/// # Safety
/// `messages` is null, or leads to so many of them, and each of those to its bytes. All stay until the call ends.
pub(crate) unsafe fn checked<'a>(
    messages: *const BwBytes,
    count: usize,
) -> Result<&'a [impl AsRef<[u8]>]> {
    // SAFETY: the caller promises it. `Checked` is the same, by its representation.
    let checked = unsafe {
        crate::border::array(messages.cast::<Checked>(), count, "the array of messages")?
    };
    for message in checked {
        // SAFETY: the caller promises it.
        unsafe { bytes(message.0.data, message.0.bytes)? };
    }
    Ok(checked)
}

/// Reserves room for a message, and holds it until [`commit`] or [`abandon`].
pub(crate) fn reserve<S: HasSender>(
    sending: &mut InUse<Sending<S>>,
    len_bytes: usize,
    timeout_ns: i64,
) -> Result<i32>
where
    Sending<S>: Object,
{
    let this = sending.as_ptr();
    // SAFETY: it is ours until `sending` is dropped, and from then on held: nobody touches the sender, and it is not
    // moved, until the room that borrows it has gone ([`Sending::room`]).
    let sender = unsafe { (*this).sender.sender() };
    let room = match timeout_ns {
        BW_NO_WAIT => sender.reserve(len_bytes)?,
        _ => sender.reserve_timeout(len_bytes, timeout(timeout_ns))?,
    };
    let Some(room) = room else {
        return Err(nothing(timeout_ns));
    };
    // SAFETY: as above.
    unsafe { *Sending::room(this) = Some(room) };
    sending.hold();
    Ok(0)
}

/// Stores bytes in reserved room.
pub(crate) fn reserved_write<H, S>(handle: H, at: usize, data: &[u8]) -> Result<i32>
where
    H: Handle<Object = Sending<S>>,
    Sending<S>: Object,
{
    let sending = enter_held(handle)?;
    // SAFETY: it is ours until `sending` is dropped.
    let room = unsafe { Sending::room(sending.as_ptr()) };
    let room = room.as_mut().ok_or_else(nothing_reserved)?;
    inside(at, data.len(), room.len_bytes(), "the reserved room")?;
    room.write_at(at, data);
    Ok(0)
}

/// Sends the first bytes of reserved room.
pub(crate) fn commit<H, S>(handle: H, len_bytes: usize) -> Result<i32>
where
    H: Handle<Object = Sending<S>>,
    Sending<S>: Object,
{
    let mut sending = enter_held(handle)?;
    // SAFETY: as in `reserved_write`.
    let room = unsafe { Sending::room(sending.as_ptr()) };
    let most = room.as_ref().ok_or_else(nothing_reserved)?.len_bytes();
    inside(0, len_bytes, most, "the reserved room")?;
    if let Some(room) = room.take() {
        room.commit(len_bytes);
    }
    sending.let_go();
    Ok(0)
}

/// Gives reserved room up.
pub(crate) fn abandon<H, S>(handle: H) -> Result<i32>
where
    H: Handle<Object = Sending<S>>,
    Sending<S>: Object,
{
    let mut sending = enter_held(handle)?;
    // SAFETY: as in `reserved_write`.
    unsafe { Sending::room(sending.as_ptr()).take() };
    sending.let_go();
    Ok(0)
}

#[cold]
fn nothing_reserved() -> Failure {
    Failure::caller(BwE::WrongOrder, "nothing is reserved: call reserve first")
}

#[inline(always)]
pub(crate) fn receive<P>(receiver: &mut Receiver, into: &mut [u8], timeout_ns: i64) -> Result<i64> {
    if timeout_ns == BW_NO_WAIT {
        return receive_now(receiver, into);
    }
    match receiver.recv_timeout(into, Timeout::<P>::of(timeout_ns))? {
        Some(len) => Ok(len as i64),
        None => Err(Failure::TimedOut),
    }
}

#[inline(never)]
fn receive_now(receiver: &mut Receiver, into: &mut [u8]) -> Result<i64> {
    match receiver.try_recv(into)? {
        Some(len) => Ok(len as i64),
        None => Err(Failure::WouldBlock),
    }
}

/// Receives what is there, message behind message; how many.
///
/// # Safety
/// `lengths` is null, or leads to room for so many.
pub(crate) unsafe fn receive_batch(
    receiver: &mut Receiver,
    into: &mut [u8],
    lengths: *mut usize,
    count_max: usize,
) -> Result<i64> {
    if lengths.is_null() && count_max > 0 {
        return Err(crate::border::null("the array of lengths"));
    }
    let (mut count, mut filled) = (0, 0);
    while count < count_max {
        match receiver.try_recv(&mut into[filled..]) {
            Ok(Some(len)) => {
                // SAFETY: the caller promises room for so many.
                unsafe { lengths.add(count).write_unaligned(len) };
                filled += len;
                count += 1;
            }
            Ok(None) if count == 0 => return Err(Failure::WouldBlock),
            // What stands in the way is told by the next call.
            Ok(None) => break,
            Err(_) if count > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count as i64)
}

/// Waits for a message, and leaves it where it is; its length.
pub(crate) fn peek(receiver: &mut Receiver, timeout_ns: i64) -> Result<i64> {
    let message = match timeout_ns {
        BW_NO_WAIT => receiver.try_recv_message()?,
        _ => receiver.recv_message_timeout(timeout(timeout_ns))?,
    };
    let message = message.ok_or_else(|| nothing(timeout_ns))?;
    Ok(message.len_bytes() as i64)
}

/// Copies bytes out of the next message.
pub(crate) fn peeked_read(receiver: &mut Receiver, at: usize, into: &mut [u8]) -> Result<i32> {
    let message = receiver.try_recv_message()?.ok_or_else(nothing_peeked)?;
    inside(at, into.len(), message.len_bytes(), "the message")?;
    message.read_at(at, into);
    Ok(0)
}

/// Takes the next message away.
pub(crate) fn release(receiver: &mut Receiver) -> Result<i32> {
    receiver
        .try_recv_message()?
        .ok_or_else(nothing_peeked)?
        .release();
    Ok(0)
}

#[cold]
fn nothing_peeked() -> Failure {
    Failure::caller(BwE::WrongOrder, "no message is there: call peek first")
}

/// That so many bytes at an offset lie inside of something.
fn inside(at: usize, len: usize, of: usize, what: &str) -> Result<()> {
    if at <= of && len <= of - at {
        return Ok(());
    }
    Err(Failure::caller(
        BwE::OutOfLimits,
        format!("{len} bytes at {at} do not lie inside {what} of {of} bytes"),
    ))
}

/// A length that C takes: 64 bits, whatever it stands for.
pub(crate) fn length(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
