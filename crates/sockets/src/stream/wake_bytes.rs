//! Wake-up bytes (tokens) on the kernel's connection: taking them off it. See `fabric::hybrid`.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::Sender;

use crate::process::lock::Held;
use crate::process::{clock, ids};
use crate::stream::order;
use crate::stream::pending_error::keep_error;
use crate::system::{
    cancel,
    real::{self, errno},
};
use crate::table::flags::CHECK_LINE;
use crate::table::socket_state::Record;
use crate::table::stream_memory::Carrier;

/// Tokens read from the line at once.
const TOKENS_AT_ONCE: usize = 64;

/// Whether no other thread sleeps on the socket, and no other process has it.
pub fn is_alone(record: &Record) -> bool {
    // Relaxed, both: a sleeper that comes now arms the receiver, and sees what the ring has. Of another
    // process we do not know which of its sets leave the socket to the kernel.
    record.sleepers.load(Ordering::Relaxed) == 0 && record.processes.load(Ordering::Relaxed) == 1
}

/// What became of an attempt to take tokens off the line.
pub enum Tokens {
    /// Some, or all.
    Taken,
    NotYet,
    End,
    Failed(c_int),
}

/// Reads at most `count` tokens, and throws them away.
pub fn take_tokens(fd: c_int, record: &Record, held: &Held<'_>, count: u64) -> Tokens {
    held.moving(|| {
        let taken = read_tokens(fd, count);
        taken.map_or_else(core::convert::identity, |tokens| {
            record.receiver(held).took_wake_bytes(tokens);
            Tokens::Taken
        })
    })
}

/// Takes the tokens that lie before what the ring has. Left there, the kernel would call the socket readable in
/// each wait, and reset the connection if this process was killed. Not while another thread or process may
/// sleep until the kernel tells it of them.
pub fn take_tokens_ahead(fd: c_int, record: &Record, held: &Held<'_>) {
    let receiver = record.receiver(held);
    if receiver.is_armed() || !is_alone(record) {
        return;
    }
    let count = receiver.wake_bytes_ahead(&record.carrier());
    if count == 0 {
        return;
    }
    match take_tokens(fd, record, held, count) {
        Tokens::Taken | Tokens::NotYet => {}
        Tokens::End => record.set(CHECK_LINE, true),
        Tokens::Failed(error) => keep_error(record, error),
    }
}

fn read_tokens(fd: c_int, count: u64) -> Result<u64, Tokens> {
    let mut bytes = [0_u8; TOKENS_AT_ONCE];
    let len = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    // SAFETY: `bytes` has `len` bytes.
    let result = cancel::uncancelled(|| unsafe {
        real::recv(fd, bytes.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT)
    });
    match result {
        1.. => Ok(result.unsigned_abs() as u64),
        0 => Err(Tokens::End),
        _ if errno() == libc::EAGAIN || errno() == libc::EINTR => Err(Tokens::NotYet),
        _ => Err(Tokens::Failed(errno())),
    }
}

/// Shows the other end what was put into the ring, and wakes it if it sleeps.
#[inline]
pub fn publish(fd: c_int, sender: &mut Sender, carrier: &Carrier) {
    let is_first = sender.date(carrier, order::dates);
    if sender.publish(carrier, ids::processor()) {
        wake(fd, sender, carrier);
    } else if is_first {
        order::note(fd);
    }
}

#[cold]
pub fn wake(fd: c_int, sender: &mut Sender, carrier: &Carrier) {
    if send_token(fd) || send_token_soon(fd) {
        sender.wake_byte_sent();
    } else {
        sender.wake_byte_failed();
        sender.leave_ring(carrier);
    }
}

/// How long the line may be full although all on it was read: as long as the kernel may put off to
/// acknowledge that, and more.
const FULL_NS: u64 = 1_000_000_000;

/// Sends the token when the line has room. It is full of what the receiver, who sleeps behind it, has
/// read. Nobody else would send the token if the program sent nothing more.
#[cold]
pub fn send_token_soon(fd: c_int) -> bool {
    let until_ns = clock::now_ns() + FULL_NS;
    while clock::now_ns() < until_ns {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one descriptor.
        cancel::uncancelled(|| unsafe { real::poll(&raw mut poll, 1, 10) });
        if send_token(fd) {
            return true;
        }
        clock::sleep_us(100);
    }
    false
}

pub fn send_token(fd: c_int) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let saved = errno();
    // Not cancelled: then nobody would know that it is on the line.
    // SAFETY: one byte, which lives.
    let result =
        cancel::uncancelled(|| unsafe { real::send(fd, c"".as_ptr().cast::<c_void>(), 1, flags) });
    let gone = result < 0 && errno() != libc::EAGAIN && errno() != libc::ENOBUFS;
    real::set_errno(saved);
    // If the line is gone, the receiver hears of that instead.
    result == 1 || gone
}
