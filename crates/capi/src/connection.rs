//! Connections.

use std::ffi::c_void;

use crate::border::{buffer, bytes, call_on, close, make, put, status, status_on};
use crate::handles::{enter, take};
use crate::kinds::{
    BwAperture, BwConnection, BwReceiver, BwRemoteAperture, BwSender, BwStream, Sending,
};
use crate::messages::{self, BwBytes, HasReceiver, length};
use crate::peers::{BwCredentials, BwRemotePeer};

/// Sends a message, whole; waits while the receiver's memory is full.
/// timeout_ns: BW_FOREVER, or BW_NO_WAIT to send only if there is room for all of it now.
/// Returns 0, or BW_E_WOULD_BLOCK, BW_E_TIMEOUT, BW_E_TOO_LONG, BW_E_PEER_DEAF, BW_E_CLOSED, or why the
/// connection is down. BW_NO_WAIT has a limit on the length of its own
/// (bw_connection_try_send_bytes_max): BW_E_OUT_OF_LIMITS.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_send(
    connection: BwConnection,
    data: *const c_void,
    data_bytes: usize,
    timeout_ns: i64,
) -> i32 {
    status_on(connection, |c| {
        // SAFETY: the caller promises it.
        let message = unsafe { bytes(data, data_bytes)? };
        messages::send::<BwConnection>(c.sender.sender(), message, timeout_ns)
    })
}

/// Sends as many of the messages as there is room for now, and wakes the receiver once.
/// Returns how many were sent, which may be 0.
///
/// # Safety
/// `batch` leads to so many messages, and each to its bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_send_batch(
    connection: BwConnection,
    batch: *const BwBytes,
    count: usize,
) -> i64 {
    call_on(connection, |c| {
        // SAFETY: the caller promises it.
        let batch = unsafe { messages::checked(batch, count)? };
        Ok(length(c.sender.sender().send_batch(batch)?))
    })
}

/// Receives a message into a buffer, and returns its length, which may be 0.
/// timeout_ns: BW_FOREVER, or BW_NO_WAIT.
/// Fails with BW_E_WOULD_BLOCK, BW_E_TIMEOUT, BW_E_BUFFER_TOO_SMALL (the message stays, and needed_bytes of
/// bw_last_error() says its length), BW_E_FINISHED when the peer has finished and everything was received, or why
/// the connection is down, again only when everything was received.
///
/// # Safety
/// `buffer` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_recv(
    connection: BwConnection,
    buffer: *mut c_void,
    buffer_bytes: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(connection, |c| {
        // SAFETY: the caller promises it.
        let into = unsafe { crate::border::buffer(buffer, buffer_bytes)? };
        messages::receive::<BwConnection>(c.receiver(), into, timeout_ns)
    })
}

/// Receives as many messages as are there and fit, one behind the other in the buffer, at most count_max of them.
/// The length of each goes into lengths. Returns how many; never waits: BW_E_WOULD_BLOCK if there is none.
///
/// # Safety
/// `buffer` leads to room for so many bytes, `lengths` to room for so many numbers. One thread at a time uses the
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_recv_batch(
    connection: BwConnection,
    buffer: *mut c_void,
    buffer_bytes: usize,
    lengths: *mut usize,
    count_max: usize,
) -> i64 {
    call_on(connection, |c| {
        // SAFETY: the caller promises it.
        unsafe {
            let into = crate::border::buffer(buffer, buffer_bytes)?;
            messages::receive_batch(c.receiver(), into, lengths, count_max)
        }
    })
}

/// Reserves room for a message of at most this length in the receiver's memory, to be filled with
/// bw_connection_reserved_write and sent with bw_connection_commit. Until then, or bw_connection_abandon, every
/// other call with this handle fails with BW_E_WRONG_ORDER, except to close it.
/// timeout_ns: BW_FOREVER, or BW_NO_WAIT. The limit is bw_connection_reserve_bytes_max.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_reserve(
    connection: BwConnection,
    len_bytes: usize,
    timeout_ns: i64,
) -> i32 {
    status_on(connection, |c| messages::reserve(c, len_bytes, timeout_ns))
}

/// Stores bytes in the reserved room, at an offset.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_reserved_write(
    connection: BwConnection,
    at: usize,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status(|| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        messages::reserved_write(connection, at, data)
    })
}

/// Sends the first len_bytes of the reserved room as a message.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_commit(connection: BwConnection, len_bytes: usize) -> i32 {
    status(|| messages::commit(connection, len_bytes))
}

/// Gives the reserved room up; nothing is sent.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_abandon(connection: BwConnection) -> i32 {
    status(|| messages::abandon(connection))
}

/// Waits for a message and leaves it where it is; returns its length. Read it with bw_connection_peeked_read,
/// then take it away with bw_connection_release. Until then it is the next message of every call.
/// timeout_ns: BW_FOREVER, or BW_NO_WAIT.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_peek(connection: BwConnection, timeout_ns: i64) -> i64 {
    call_on(connection, |c| messages::peek(c.receiver(), timeout_ns))
}

/// Copies bytes of the message that bw_connection_peek has found, from an offset. A hostile sender may change the
/// message while it lies there: copy once, then check.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_peeked_read(
    connection: BwConnection,
    at: usize,
    into: *mut c_void,
    into_bytes: usize,
) -> i32 {
    status_on(connection, |c| {
        // SAFETY: the caller promises it.
        messages::peeked_read(c.receiver(), at, unsafe { buffer(into, into_bytes)? })
    })
}

/// Takes away the message that bw_connection_peek has found: it has been received.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_release(connection: BwConnection) -> i32 {
    status_on(connection, |c| messages::release(c.receiver()))
}

/// The longest message that the receiver takes.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_message_bytes_max(connection: BwConnection) -> i64 {
    call_on(connection, |c| {
        Ok(c.sender.sender().message_bytes_max() as i64)
    })
}

/// The longest message that bw_connection_send takes with BW_NO_WAIT.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_try_send_bytes_max(connection: BwConnection) -> i64 {
    call_on(connection, |c| {
        Ok(length(c.sender.sender().try_send_bytes_max()))
    })
}

/// The most that bw_connection_reserve takes.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_reserve_bytes_max(connection: BwConnection) -> i64 {
    call_on(connection, |c| {
        Ok(length(c.sender.sender().reserve_bytes_max()))
    })
}

/// Says that nothing more will be sent. The peer receives what was sent, and then BW_E_FINISHED. Receiving goes on.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_finish(connection: BwConnection) -> i32 {
    status_on(connection, |c| {
        c.sender.finish();
        Ok(0)
    })
}

/// Sends a short message (at most BW_OUT_OF_BAND_BYTES_MAX) past the queue. It arrives as
/// BW_EVENT_KIND_OUT_OF_BAND. BW_E_WOULD_BLOCK if the peer has too many unread: try again later.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_send_out_of_band(
    connection: BwConnection,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status_on(connection, |c| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        match c.sender.send_out_of_band(data)? {
            true => Ok(0),
            false => Err(crate::failure::Failure::WouldBlock),
        }
    })
}

/// Grants the peer an aperture of the same node. The peer gets it with bw_connection_import or as
/// BW_EVENT_KIND_GRANTED, with the cookie.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_grant(
    connection: BwConnection,
    aperture: BwAperture,
    cookie: u64,
) -> i32 {
    status_on(connection, |c| {
        c.sender.grant(&enter(aperture)?.0, cookie)?;
        Ok(0)
    })
}

/// Waits for an aperture that the peer grants on this connection. cookie may be null.
///
/// # Safety
/// `cookie` is null or leads to room for a number, `out` to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_import(
    connection: BwConnection,
    timeout_ns: i64,
    cookie: *mut u64,
    out: *mut BwRemoteAperture,
) -> i32 {
    status_on(connection, |c| {
        // SAFETY: the caller promises it.
        unsafe {
            make(out, || {
                let timeout = crate::border::timeout(timeout_ns);
                let (number, aperture) = c.sender.import(timeout)?;
                if !cookie.is_null() {
                    put(cookie, number)?;
                }
                Ok(aperture)
            })
        }
    })
}

/// Its number on its node, as events name it: small, and used again after the connection was closed.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_number(connection: BwConnection) -> i64 {
    call_on(connection, |c| Ok(length(c.sender.id().index())))
}

/// The name that was connected to. Returns its length, without the zero byte at its end.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_name(
    connection: BwConnection,
    into: *mut std::ffi::c_char,
    into_bytes: usize,
) -> i64 {
    // SAFETY: the caller promises it.
    call_on(connection, |c| unsafe {
        crate::border::copy_text(c.sender.name(), into, into_bytes)
    })
}

/// Who is at the other end, as the kernel says. For a peer on another host: this process itself.
///
/// # Safety
/// `out` leads to room for the structure. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_peer(
    connection: BwConnection,
    out: *mut BwCredentials,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(connection, |c| unsafe { put(out, c.sender.peer().into()) })
}

/// What is known of the node at the other end, if it is on another host: 1; 0 if it is on this host.
///
/// # Safety
/// `out` leads to room for the structure. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_remote(
    connection: BwConnection,
    out: *mut BwRemotePeer,
) -> i32 {
    status_on(connection, |c| match c.sender.remote() {
        None => Ok(0),
        Some(remote) => {
            // SAFETY: the caller promises it.
            unsafe { put(out, remote.into())? };
            Ok(1)
        }
    })
}

/// Closes the connection for two halves, for two threads. Its handle is closed. A connection that is not split is faster.
///
/// # Safety
/// Both lead to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_split(
    connection: BwConnection,
    sender: *mut BwSender,
    receiver: *mut BwReceiver,
) -> i32 {
    status(|| {
        // SAFETY: the caller promises it.
        unsafe {
            put(sender, BwSender { id: 0 })?;
            put(receiver, BwReceiver { id: 0 })?;
            let (sending, receiving) = take(connection)?.sender.split();
            make(sender, || Ok(Sending::new(sending)))?;
            make(receiver, || Ok(receiving))
        }
    })
}

/// Turns the connection into a byte stream. To be done on both sides, before the first message. Its handle is closed.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connection_into_stream(
    connection: BwConnection,
    out: *mut BwStream,
) -> i32 {
    status(|| {
        // SAFETY: the caller promises it.
        unsafe { make(out, || Ok(take(connection)?.sender.into_stream())) }
    })
}

/// Closes the connection. What was sent before stays receivable.
#[unsafe(no_mangle)]
pub extern "C" fn bw_connection_close(connection: BwConnection) -> i32 {
    close(connection)
}
