//! What can be read, for whoever waits or asks.

use core::ffi::c_int;

use barewire_fabric::hybrid::{AHEAD_MAX, Ahead, Next, Path};

use crate::process::lock::Held;
use crate::stream::pending_error::keep_error;
use crate::stream::wake_bytes::{Tokens, take_tokens, take_tokens_ahead};
use crate::system::{kernel, real};
use crate::table::flags::CHECK_LINE;
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::table::{descriptors, directions};

/// Bytes that can be read now.
pub fn readable_bytes(fd: c_int, record: &Record) -> Option<c_int> {
    let held = record.recv_lock.hold()?;
    let carrier = record.carrier();
    let receiver = record.receiver(&held);
    let mut epochs = [Ahead::NONE; AHEAD_MAX];
    let mut bytes = 0;
    for _ in 0..LOOKS_MAX {
        let count = receiver.ahead(&carrier, &mut epochs);
        bytes = in_one_piece(
            &epochs[..count],
            u64::from(unread_on_line(fd).unsigned_abs()),
        );
        if receiver.epochs_ahead(&carrier) == count {
            break;
        }
    }
    c_int::try_from(bytes).ok()
}

/// How often the sender may go on to another epoch while we look.
const LOOKS_MAX: u32 = 8;

/// How many bytes follow one another without a gap: what was put into the ring may be there before
/// what was sent over the line before it.
fn in_one_piece(epochs: &[Ahead], mut on_line: u64) -> u64 {
    let mut whole = 0;
    for epoch in epochs {
        if epoch.path == Path::Ring {
            whole += epoch.bytes;
        } else {
            whole += epoch.bytes.min(on_line);
            if on_line < epoch.bytes {
                break;
            }
            on_line -= epoch.bytes;
        }
        if on_line < epoch.wake_bytes {
            break;
        }
        on_line -= epoch.wake_bytes;
    }
    whole
}

/// Whether the next byte to be read is in the ring. Takes the tokens before one of the line.
pub fn is_in_ring(fd: c_int, record: &Record) -> bool {
    let Some(held) = record.recv_lock.hold() else {
        return false;
    };
    let carrier = record.carrier();
    let receiver = record.receiver(&held);
    // Whoever sends tokens faster than they are taken says nothing by it.
    for _ in 0..ROUNDS_MAX {
        match receiver.next(&carrier) {
            Ok(Next::Ring(_)) => return true,
            Ok(Next::WakeBytes(count)) => match take_tokens(fd, record, &held, count) {
                Tokens::Taken => {}
                _ => return false,
            },
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&carrier, 0);
                return false;
            }
            Ok(Next::Empty) | Err(_) => return false,
        }
    }
    false
}

const ROUNDS_MAX: u32 = 64;

/// Bytes in the ring that the other end has not read. Not while a thread is sending.
pub fn unread_by_peer(record: &Record) -> Option<c_int> {
    let held = record.send_lock.try_hold()?;
    let sender = record.sender(&held);
    sender.room(&record.carrier()).ok()?;
    c_int::try_from(sender.in_ring()).ok()
}

pub fn unread_on_line(fd: c_int) -> c_int {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes a number.
    unsafe { real::ioctl(fd, libc::FIONREAD, &raw mut bytes as usize) };
    bytes
}

/// What a waiting program may be told of a socket that the kernel calls readable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// There are bytes, an end or an error.
    Ready,
    /// There were tokens only.
    Not,
}

/// Takes the tokens off the line, and says whether there is more. `kernel_says_so`: the
/// kernel calls it readable.
pub fn settle(fd: c_int, record: &Record, kernel_says_so: bool) -> Readiness {
    if kernel_says_so {
        // It may say so of the end, behind what is in the ring, and not again.
        record.set(CHECK_LINE, true);
    }
    let Some(held) = record.recv_lock.try_hold() else {
        // Someone reads it at this moment: the program bears to find nothing. Or has ended in the
        // middle of that: its next read mends it.
        return if kernel_says_so || record.recv_lock.is_left_amid() {
            Readiness::Ready
        } else {
            Readiness::Not
        };
    };
    if record.state() != State::Up {
        return if kernel_says_so {
            Readiness::Ready
        } else {
            Readiness::Not
        };
    }
    let carrier = record.carrier();
    let receiver = record.receiver(&held);
    let mut took_wake_bytes = false;
    for _ in 0..8 {
        match receiver.next(&carrier) {
            Ok(Next::Ring(_)) if !kernel_says_so && directions::holds_back(record) => {
                return Readiness::Not;
            }
            Ok(Next::Ring(_)) => {
                if kernel_says_so {
                    // Unless the descriptor has been closed: then there are none.
                    let used = descriptors::pin(fd, record);
                    used.inspect(|_| take_tokens_ahead(fd, record, &held));
                }
                return Readiness::Ready;
            }
            Err(_) => return Readiness::Ready,
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&carrier, 0);
                return match kernel_says_so {
                    // That may have been for the tokens: the sender has left the ring, and what
                    // it is about to send is not on the line yet.
                    true if took_wake_bytes => really_ready(fd, record),
                    true => Readiness::Ready,
                    // What is in the ring comes behind what the line has.
                    false => really_ready(fd, record),
                };
            }
            Ok(Next::WakeBytes(count)) => match take_tokens_beside(fd, record, &held, count) {
                Tokens::Taken => took_wake_bytes = true,
                Tokens::NotYet => return Readiness::Not,
                Tokens::End => {
                    record.set(CHECK_LINE, true);
                    return Readiness::Ready;
                }
                Tokens::Failed(error) => {
                    // The kernel tells it once.
                    keep_error(record, error);
                    return Readiness::Ready;
                }
            },
            Ok(Next::Empty) if !kernel_says_so => return Readiness::Not,
            Ok(Next::Empty) => return really_ready(fd, record),
        }
    }
    Readiness::Not
}

/// As [`take_tokens`], unless the descriptor has been closed: then there are none.
fn take_tokens_beside(fd: c_int, record: &Record, held: &Held<'_>, count: u64) -> Tokens {
    match descriptors::pin(fd, record) {
        Some(_used) => take_tokens(fd, record, held, count),
        None => Tokens::NotYet,
    }
}

fn really_ready(fd: c_int, record: &Record) -> Readiness {
    if kernel::events_now(fd, libc::POLLIN) == 0 {
        return Readiness::Not;
    }
    record.set(CHECK_LINE, true);
    Readiness::Ready
}
