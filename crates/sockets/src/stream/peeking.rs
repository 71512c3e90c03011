//! Peeking (`MSG_PEEK`) at bytes of which some are in the byte ring and some in the kernel connection.
//!
//! The kernel shows what it has without removing it. That includes wake-up bytes, and the receiver knows
//! where these are. So one peek at the kernel reads into the program's buffers, with spare room for the
//! wake-up bytes in between. Then bytes of the ring are copied into the gaps.

use core::ffi::c_int;

use barewire_fabric::hybrid::{AHEAD_MAX, Ahead, Path};
use libc::{iovec, ssize_t};

use crate::process::fault;
use crate::process::lock::Held;
use crate::stream::buffers::{Parts, for_each_stretch, kernel_receive_all, slice_mut, total};
use crate::stream::calls::{is_at_mark, is_closed_since};
use crate::stream::leaving::{end_ring, fall_back, stay_with_kernel};
use crate::system::{
    cancel,
    real::{self, errno, fail},
};
use crate::table::descriptors;
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};

/// How many wake-up bytes a peek looks past. A receiver that reads at all takes them away.
const WAKE_BYTES_MAX: usize = 64;
/// Stretches of buffers that one peek at the kernel fills.
const STRETCHES_MAX: usize = 64;
/// How often the sender may go on to another epoch during a peek.
const ROUNDS: u32 = 8;

const NO_PART: iovec = iovec {
    iov_base: core::ptr::null_mut(),
    iov_len: 0,
};

/// Copies what is there into the buffers, without waiting and without taking it. Returns how many bytes.
/// More may have come behind them since.
pub fn peek_now(fd: c_int, socket: &SocketState, parts: Parts<'_>, held: &Held<'_>) -> usize {
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    for _ in 0..ROUNDS {
        let mut look = Look::new();
        look.count = receiver.ahead(&memory, &mut look.epochs);
        look.aim(parts);
        let is_there = receiver.path() == Path::Ring && is_at_mark(fd);
        let seen = if is_there {
            0
        } else {
            look.at_line(fd, libc::MSG_DONTWAIT)
        };
        let known = receiver.epochs_ahead(&memory);
        if known == look.count {
            return look.copy(socket, parts, held, seen.max(0).unsigned_abs());
        }
    }
    0
}

/// Peeks until the kernel says that there is enough: as many bytes as there is room for, or as the
/// low-water mark says. For this the socket falls back to the kernel for good.
pub fn peek_waiting(
    fd: c_int,
    socket: &'static SocketState,
    parts: Parts<'_>,
    flags: c_int,
) -> ssize_t {
    while socket.state() != State::Upgraded {
        stay_with_kernel(socket);
        if socket.state() == State::Kernel {
            return kernel_receive_all(fd, parts, flags, None);
        }
    }
    fall_back(socket, Reason::Usage);
    let mut look = Look::new();
    {
        let Some(held) = socket.recv_lock.hold() else {
            return fail(libc::EAGAIN);
        };
        end_ring(socket, &held);
        look.count = socket
            .receiver(&held)
            .ahead(&socket.memory(), &mut look.epochs);
        look.end_on_line();
        look.aim(parts);
    }
    let generation = socket.generation();
    let seen = look.at_line(fd, flags);
    let error = errno();
    if is_closed_since(fd, socket, generation) {
        return match seen {
            0 => 0,
            1.. => fail(libc::EBADF),
            _ => fail(error),
        };
    }
    if !descriptors::is_of(fd, socket) {
        // A relay has taken its place.
        return kernel_receive_all(fd, parts, flags, None);
    }
    let Some(held) = socket.recv_lock.hold() else {
        return fail(libc::EAGAIN);
    };
    match look.copy(socket, parts, &held, seen.max(0).unsigned_abs()) {
        0 if seen < 0 => fail(error),
        bytes => bytes as ssize_t,
    }
}

/// What lies ahead, and where the bytes of the kernel connection go.
struct Look {
    epochs: [Ahead; AHEAD_MAX],
    count: usize,
    into: [iovec; STRETCHES_MAX],
    into_count: usize,
    wake_bytes: [u8; WAKE_BYTES_MAX],
    /// Epochs, of which there is room for the kernel connection's part.
    aimed: usize,
}

impl Look {
    const fn new() -> Self {
        Self {
            epochs: [Ahead::NONE; AHEAD_MAX],
            count: 0,
            into: [NO_PART; STRETCHES_MAX],
            into_count: 0,
            wake_bytes: [0; WAKE_BYTES_MAX],
            aimed: 0,
        }
    }

    /// The sender is to put nothing more into the ring: behind what is there comes the kernel connection.
    fn end_on_line(&mut self) {
        if let (Some(Path::Ring), true) = (self.last_path(), self.count < AHEAD_MAX) {
            self.epochs[self.count] = Ahead {
                bytes: u64::MAX,
                ..Ahead::NONE
            };
            self.count += 1;
        }
    }

    fn last_path(&self) -> Option<Path> {
        Some(self.epochs[..self.count].last()?.path)
    }

    /// Sets out where the kernel connection's bytes go: the program's buffers, but for the places of what is
    /// in the ring, and room for wake-up bytes.
    fn aim(&mut self, parts: Parts<'_>) {
        let whole = total(parts);
        let mut at = 0;
        for nth in 0..self.count {
            let epoch = self.epochs[nth];
            let len = clamp(epoch.bytes).min(whole - at);
            let mut fits = true;
            if epoch.path == Path::Kernel {
                for_each_stretch(parts, at, len, |part, skip, len| {
                    // SAFETY: within the program's buffer.
                    let base = unsafe { part.iov_base.cast::<u8>().add(skip) };
                    fits &= self.add(base, len);
                });
            }
            at += len;
            let room = &raw mut self.wake_bytes;
            let wake_bytes = clamp(epoch.wake_bytes);
            if !fits
                || wake_bytes > WAKE_BYTES_MAX
                || (wake_bytes > 0 && !self.add(room.cast(), wake_bytes))
            {
                return;
            }
            self.aimed = nth + 1;
            if at == whole {
                return;
            }
        }
    }

    fn add(&mut self, base: *mut u8, len: usize) -> bool {
        let Some(place) = self.into.get_mut(self.into_count) else {
            return false;
        };
        *place = iovec {
            iov_base: base.cast(),
            iov_len: len,
        };
        self.into_count += 1;
        true
    }

    /// Looks at the kernel connection.
    fn at_line(&mut self, fd: c_int, flags: c_int) -> ssize_t {
        if self.into_count == 0 {
            return 0;
        }
        // SAFETY: zeros are a message without address and control; the stretches are the
        // program's, or room of our own.
        unsafe {
            let mut message: libc::msghdr = core::mem::zeroed();
            message.msg_iov = self.into.as_mut_ptr();
            message.msg_iovlen = self.into_count as _;
            cancel::counted(flags, || {
                real::recvmsg(fd, &raw mut message, flags | libc::MSG_PEEK)
            })
        }
    }

    /// Copies what is in the ring into the places that the kernel connection's bytes have left; returns how
    /// many bytes there are without a gap, if the kernel connection had `seen`.
    fn copy(&self, socket: &SocketState, parts: Parts<'_>, held: &Held<'_>, seen: usize) -> usize {
        let memory = socket.memory();
        let receiver = socket.receiver(held);
        let whole = total(parts);
        let (mut at, mut from_ring, mut left) = (0, 0, seen);
        for epoch in &self.epochs[..self.aimed] {
            let len = clamp(epoch.bytes).min(whole - at);
            if epoch.path == Path::Kernel {
                at += len.min(left);
                if left < len {
                    break;
                }
                left -= len;
            } else {
                if !room_is_there(parts, at, len) {
                    break;
                }
                for_each_stretch(parts, at, len, |part, skip, len| {
                    // SAFETY: the program's buffer.
                    receiver.copy(&memory, from_ring, unsafe { slice_mut(part, skip, len) });
                    from_ring += len as u64;
                });
                at += len;
            }
            left = left.saturating_sub(clamp(epoch.wake_bytes));
        }
        at
    }
}

fn clamp(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Whether the program's buffers can be written to.
pub fn room_is_there(parts: Parts<'_>, skip: usize, limit: usize) -> bool {
    let mut there = true;
    for_each_stretch(parts, skip, limit, |part, skip, len| {
        let at = part.iov_base.wrapping_byte_add(skip);
        there = there && fault::can_overwrite(at, len);
    });
    there
}
