//! The halves of a split connection, for two threads, and senders that many threads share.

use std::ffi::c_void;

use crate::border::{
    BW_FOREVER, BW_NO_WAIT, buffer, bytes, call_on, close, make, status, status_on,
};
use crate::failure::Failure;
use crate::handles::{enter, take};
use crate::kinds::{BwReceiver, BwSender, BwSharedSender};
use crate::messages::{self, BwBytes, length};

/// As bw_connection_send, which this is for one half.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_sender_send(
    sender: BwSender,
    data: *const c_void,
    data_bytes: usize,
    timeout_ns: i64,
) -> i32 {
    status_on(sender, |s| {
        // SAFETY: the caller promises it.
        let message = unsafe { bytes(data, data_bytes)? };
        messages::send::<BwSender>(&mut s.sender, message, timeout_ns)
    })
}

/// As bw_connection_send_batch, which this is for one half.
///
/// # Safety
/// `batch` leads to so many messages, and each to its bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_sender_send_batch(
    sender: BwSender,
    batch: *const BwBytes,
    count: usize,
) -> i64 {
    call_on(sender, |s| {
        // SAFETY: the caller promises it.
        let batch = unsafe { messages::checked(batch, count)? };
        Ok(length(s.sender.send_batch(batch)?))
    })
}

/// As bw_connection_reserve, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_reserve(sender: BwSender, len_bytes: usize, timeout_ns: i64) -> i32 {
    status_on(sender, |s| messages::reserve(s, len_bytes, timeout_ns))
}

/// As bw_connection_reserved_write, which this is for one half.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_sender_reserved_write(
    sender: BwSender,
    at: usize,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status(|| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        messages::reserved_write(sender, at, data)
    })
}

/// As bw_connection_commit, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_commit(sender: BwSender, len_bytes: usize) -> i32 {
    status(|| messages::commit(sender, len_bytes))
}

/// As bw_connection_abandon, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_abandon(sender: BwSender) -> i32 {
    status(|| messages::abandon(sender))
}

/// As bw_connection_message_bytes_max, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_message_bytes_max(sender: BwSender) -> i64 {
    call_on(sender, |s| Ok(s.sender.message_bytes_max() as i64))
}

/// As bw_connection_try_send_bytes_max, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_try_send_bytes_max(sender: BwSender) -> i64 {
    call_on(sender, |s| Ok(length(s.sender.try_send_bytes_max())))
}

/// As bw_connection_reserve_bytes_max, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_reserve_bytes_max(sender: BwSender) -> i64 {
    call_on(sender, |s| Ok(length(s.sender.reserve_bytes_max())))
}

/// As bw_connection_finish, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_finish(sender: BwSender) -> i32 {
    status_on(sender, |s| {
        s.sender.finish();
        Ok(0)
    })
}

/// Closes the sender for one that many threads can use: each message is sent whole, in some order. Its handle is
/// closed.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_sender_share(sender: BwSender, out: *mut BwSharedSender) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe { make(out, || Ok(take(sender)?.sender.share())) })
}

/// Closes this direction. What was sent before stays receivable.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sender_close(sender: BwSender) -> i32 {
    close(sender)
}

/// As bw_connection_recv, which this is for one half.
///
/// # Safety
/// `buffer` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_receiver_recv(
    receiver: BwReceiver,
    buffer: *mut c_void,
    buffer_bytes: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(receiver, |r| {
        // SAFETY: the caller promises it.
        let into = unsafe { crate::border::buffer(buffer, buffer_bytes)? };
        messages::receive::<BwReceiver>(r, into, timeout_ns)
    })
}

/// As bw_connection_recv_batch, which this is for one half.
///
/// # Safety
/// `buffer` leads to room for so many bytes, `lengths` to room for so many numbers. One thread at a time uses the
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_receiver_recv_batch(
    receiver: BwReceiver,
    buffer: *mut c_void,
    buffer_bytes: usize,
    lengths: *mut usize,
    count_max: usize,
) -> i64 {
    call_on(receiver, |r| {
        // SAFETY: the caller promises it.
        unsafe {
            let into = crate::border::buffer(buffer, buffer_bytes)?;
            messages::receive_batch(r, into, lengths, count_max)
        }
    })
}

/// As bw_connection_peek, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_receiver_peek(receiver: BwReceiver, timeout_ns: i64) -> i64 {
    call_on(receiver, |r| messages::peek(r, timeout_ns))
}

/// As bw_connection_peeked_read, which this is for one half.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_receiver_peeked_read(
    receiver: BwReceiver,
    at: usize,
    into: *mut c_void,
    into_bytes: usize,
) -> i32 {
    status_on(receiver, |r| {
        // SAFETY: the caller promises it.
        messages::peeked_read(r, at, unsafe { buffer(into, into_bytes)? })
    })
}

/// As bw_connection_release, which this is for one half.
#[unsafe(no_mangle)]
pub extern "C" fn bw_receiver_release(receiver: BwReceiver) -> i32 {
    status_on(receiver, |r| messages::release(r))
}

/// Closes this direction: the peer can send nothing more.
#[unsafe(no_mangle)]
pub extern "C" fn bw_receiver_close(receiver: BwReceiver) -> i32 {
    close(receiver)
}

/// Another handle of the same sender, for another thread.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_shared_sender_clone(
    sender: BwSharedSender,
    out: *mut BwSharedSender,
) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe { make(out, || Ok(enter(sender)?.clone())) })
}

/// Sends a message; other threads wait behind it. timeout_ns: BW_FOREVER or BW_NO_WAIT, nothing else.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_shared_sender_send(
    sender: BwSharedSender,
    data: *const c_void,
    data_bytes: usize,
    timeout_ns: i64,
) -> i32 {
    status_on(sender, |s| {
        // SAFETY: the caller promises it.
        let message = unsafe { bytes(data, data_bytes)? };
        match timeout_ns {
            BW_NO_WAIT => s.try_send(message)?.then_some(0).ok_or(Failure::WouldBlock),
            ..=BW_FOREVER => {
                s.send(message)?;
                Ok(0)
            }
            _ => Err(Failure::caller(
                crate::failure::BwE::Argument,
                "a shared sender waits for ever (BW_FOREVER) or not at all (BW_NO_WAIT)",
            )),
        }
    })
}

/// As bw_connection_send_batch, with no message of another thread between these.
///
/// # Safety
/// `batch` leads to so many messages, and each to its bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_shared_sender_send_batch(
    sender: BwSharedSender,
    batch: *const BwBytes,
    count: usize,
) -> i64 {
    call_on(sender, |s| {
        // SAFETY: the caller promises it.
        let batch = unsafe { messages::checked(batch, count)? };
        Ok(length(s.send_batch(batch)?))
    })
}

/// Closes this handle. With the last one, the direction is closed.
#[unsafe(no_mangle)]
pub extern "C" fn bw_shared_sender_close(sender: BwSharedSender) -> i32 {
    close(sender)
}
