//! What can be read from a socket now, for waits and for `FIONREAD`.

use core::ffi::c_int;

use barewire_calls::descriptor;
use barewire_fabric::hybrid::{AHEAD_MAX, Ahead, Next, Path};

use crate::process::lock::Held;
use crate::stream::pending_error::keep_error;
use crate::stream::wake_bytes::{TakeResult, take_wake_bytes, take_wake_bytes_ahead};
use crate::system::kernel;
use crate::table::flags::CHECK_KERNEL;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{descriptors, directions};

/// Bytes that can be read now.
pub fn readable_bytes(fd: c_int, socket: &SocketState) -> Option<c_int> {
    let held = socket.recv_lock.hold()?;
    let memory = socket.memory();
    let receiver = socket.receiver(&held);
    let mut epochs = [Ahead::NONE; AHEAD_MAX];
    let mut bytes = 0;
    for _ in 0..LOOKS_MAX {
        let count = receiver.ahead(&memory, &mut epochs);
        bytes = in_one_piece(
            &epochs[..count],
            u64::from(unread_in_kernel(fd).unsigned_abs()),
        );
        if receiver.epochs_ahead(&memory) == count {
            break;
        }
    }
    c_int::try_from(bytes).ok()
}

/// How often the sender may go on to another epoch meanwhile.
const LOOKS_MAX: u32 = 8;

/// How many bytes follow one another without a gap. Bytes in the ring may be there before those that were
/// sent earlier over the kernel connection.
fn in_one_piece(epochs: &[Ahead], mut in_kernel: u64) -> u64 {
    let mut whole = 0;
    for epoch in epochs {
        if epoch.path == Path::Ring {
            whole += epoch.bytes;
        } else {
            whole += epoch.bytes.min(in_kernel);
            if in_kernel < epoch.bytes {
                break;
            }
            in_kernel -= epoch.bytes;
        }
        if in_kernel < epoch.wake_bytes {
            break;
        }
        in_kernel -= epoch.wake_bytes;
    }
    whole
}

/// Whether the next byte to be read is in the byte ring. Takes the wake-up bytes before it.
pub fn is_in_ring(fd: c_int, socket: &SocketState) -> bool {
    let Some(held) = socket.recv_lock.hold() else {
        return false;
    };
    let memory = socket.memory();
    let receiver = socket.receiver(&held);
    // Whoever sends wake-up bytes faster than they are taken says nothing by it.
    for _ in 0..ROUNDS_MAX {
        match receiver.next(&memory) {
            Ok(Next::Ring(_)) => return true,
            Ok(Next::WakeBytes(count)) => match take_wake_bytes(fd, socket, &held, count) {
                TakeResult::Taken => {}
                _ => return false,
            },
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&memory, 0);
                return false;
            }
            Ok(Next::Empty) | Err(_) => return false,
        }
    }
    false
}

const ROUNDS_MAX: u32 = 64;

/// Bytes in the ring that the other end has not read. `None` while a thread is sending.
pub fn unread_by_peer(socket: &SocketState) -> Option<c_int> {
    let held = socket.send_lock.try_hold()?;
    let sender = socket.sender(&held);
    sender.room(&socket.memory()).ok()?;
    c_int::try_from(sender.in_ring()).ok()
}

pub fn unread_in_kernel(fd: c_int) -> c_int {
    descriptor::count(fd, libc::FIONREAD).unwrap_or(0)
}

/// What a waiting program may be told of a socket that the kernel reports as readable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// There are bytes, an end or an error.
    Ready,
    /// There were wake-up bytes only.
    Not,
}

/// Takes wake-up bytes off the kernel connection, and says whether there is anything else.
/// `kernel_says_so`: the kernel reports the socket as readable.
pub fn check_readiness(fd: c_int, socket: &SocketState, kernel_says_so: bool) -> Readiness {
    if kernel_says_so {
        // It may say so of the end, behind what is in the ring, and not again.
        socket.set(CHECK_KERNEL, true);
    }
    let Some(held) = socket.recv_lock.try_hold() else {
        // Someone reads it at this moment: the program bears to find nothing. Or has ended in the
        // middle of that: its next read mends it.
        return if kernel_says_so || socket.recv_lock.is_left_amid() {
            Readiness::Ready
        } else {
            Readiness::Not
        };
    };
    if socket.state() != State::Upgraded {
        return if kernel_says_so {
            Readiness::Ready
        } else {
            Readiness::Not
        };
    }
    let memory = socket.memory();
    let receiver = socket.receiver(&held);
    let mut took_wake_bytes = false;
    for _ in 0..8 {
        match receiver.next(&memory) {
            Ok(Next::Ring(_)) if !kernel_says_so && directions::holds_back(socket) => {
                return Readiness::Not;
            }
            Ok(Next::Ring(_)) => {
                if kernel_says_so {
                    // Unless the descriptor has been closed: then there are none.
                    let used = descriptors::pin(fd, socket);
                    used.inspect(|_| take_wake_bytes_ahead(fd, socket, &held));
                }
                return Readiness::Ready;
            }
            Err(_) => return Readiness::Ready,
            Ok(Next::Kernel(_)) => {
                receiver.read_kernel(&memory, 0);
                return match kernel_says_so {
                    // That may have been for the wake-up bytes: the sender has left the ring, and what
                    // it is about to send is not on the kernel connection yet.
                    true if took_wake_bytes => really_ready(fd, socket),
                    true => Readiness::Ready,
                    // What is in the ring comes behind what the kernel connection has.
                    false => really_ready(fd, socket),
                };
            }
            Ok(Next::WakeBytes(count)) => match take_wake_bytes_pinned(fd, socket, &held, count) {
                TakeResult::Taken => took_wake_bytes = true,
                TakeResult::NotYet => return Readiness::Not,
                TakeResult::End => {
                    socket.set(CHECK_KERNEL, true);
                    return Readiness::Ready;
                }
                TakeResult::Failed(error) => {
                    // The kernel tells it once.
                    keep_error(socket, error);
                    return Readiness::Ready;
                }
            },
            Ok(Next::Empty) if !kernel_says_so => return Readiness::Not,
            Ok(Next::Empty) => return really_ready(fd, socket),
        }
    }
    Readiness::Not
}

/// As [`take_wake_bytes`], unless the descriptor has been closed.
fn take_wake_bytes_pinned(
    fd: c_int,
    socket: &SocketState,
    held: &Held<'_>,
    count: u64,
) -> TakeResult {
    match descriptors::pin(fd, socket) {
        Some(_used) => take_wake_bytes(fd, socket, held, count),
        None => TakeResult::NotYet,
    }
}

fn really_ready(fd: c_int, socket: &SocketState) -> Readiness {
    if kernel::events_now(fd, libc::POLLIN) == 0 {
        return Readiness::Not;
    }
    socket.set(CHECK_KERNEL, true);
    Readiness::Ready
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ahead(path: Path, bytes: u64, wake_bytes: u64) -> Ahead {
        Ahead {
            path,
            bytes,
            wake_bytes,
        }
    }

    #[test]
    fn ring_bytes_count_only_behind_all_that_was_sent_before_them() {
        let kernel_then_ring = [ahead(Path::Kernel, 10, 0), ahead(Path::Ring, 5, 0)];
        assert_eq!(in_one_piece(&kernel_then_ring, 10), 15);
        // The kernel has not delivered all of the first epoch yet.
        assert_eq!(in_one_piece(&kernel_then_ring, 7), 7);
    }

    #[test]
    fn wake_up_bytes_are_not_data() {
        let ring_then_kernel = [ahead(Path::Ring, 5, 2), ahead(Path::Kernel, u64::MAX, 0)];
        assert_eq!(in_one_piece(&ring_then_kernel, 9), 5 + 7);
        // What is there may be wake-up bytes alone.
        assert_eq!(in_one_piece(&ring_then_kernel, 1), 5);
    }
}
