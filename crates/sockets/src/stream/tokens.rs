//! Wake-up bytes (tokens) on the kernel's connection: taking them off it. See `fabric::carrier`.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use super::errors::keep_error;
use crate::lock::Held;
use crate::process;
use crate::real::{self, errno};
use crate::record::{CHECK_LINE, Record};

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
            record.receiver(held).took_tokens(tokens);
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
    let count = receiver.tokens_ahead(&record.carrier());
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
    let result = process::uncancelled(|| unsafe {
        real::recv(fd, bytes.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT)
    });
    match result {
        1.. => Ok(result.unsigned_abs() as u64),
        0 => Err(Tokens::End),
        _ if errno() == libc::EAGAIN || errno() == libc::EINTR => Err(Tokens::NotYet),
        _ => Err(Tokens::Failed(errno())),
    }
}
