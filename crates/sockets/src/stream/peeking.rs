//! Peeking (`MSG_PEEK`) at bytes that are partly in the ring and partly on the line.
//!
//! The kernel can be asked what the line has without taking it; among that are tokens, of which
//! the receiver knows where they are. So one look at the line, into the program's buffers and
//! some room for tokens in between, and copies from the ring in the places that are left.

use core::ffi::c_int;

use barewire_fabric::hybrid::{AHEAD_MAX, Ahead, Path};
use libc::{iovec, ssize_t};

use crate::process::fault;
use crate::process::lock::Held;
use crate::stream::buffers::{Parts, for_each_stretch, kernel_receive_all, slice_mut, total};
use crate::stream::calls::{is_at_mark, is_over};
use crate::stream::leaving::{end_ring, line_only, stay_with_kernel};
use crate::system::{
    cancel,
    real::{self, errno, fail},
};
use crate::table::descriptors;
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};

/// Tokens on the line that are looked past; a receiver that reads at all takes them away.
const TOKENS_MAX: usize = 64;
/// Stretches of buffers that one look at the line goes into.
const STRETCHES_MAX: usize = 64;
/// How often the sender may go on to another epoch while we look.
const ROUNDS: u32 = 8;

const NO_PART: iovec = iovec {
    iov_base: core::ptr::null_mut(),
    iov_len: 0,
};

/// Copies what is there into the buffers, without waiting or taking it; returns how many bytes. Some
/// more may have come to lie behind them.
pub fn peek_now(fd: c_int, record: &Record, parts: Parts<'_>, held: &Held<'_>) -> usize {
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    for _ in 0..ROUNDS {
        let mut look = Look::new();
        look.count = receiver.ahead(&carrier, &mut look.epochs);
        look.aim(parts);
        let is_there = receiver.path() == Path::Ring && is_at_mark(fd);
        let seen = if is_there {
            0
        } else {
            look.at_line(fd, libc::MSG_DONTWAIT)
        };
        let known = receiver.epochs_ahead(&carrier);
        if known == look.count {
            return look.copy(record, parts, held, seen.max(0).unsigned_abs());
        }
    }
    0
}

/// Peeks until the kernel says that it is enough: as many bytes as there is room for, or as the
/// low-water mark says. For this the socket goes to the line for good.
pub fn peek_waiting(fd: c_int, record: &'static Record, parts: Parts<'_>, flags: c_int) -> ssize_t {
    while record.state() != State::Up {
        stay_with_kernel(record);
        if record.state() == State::Plain {
            return kernel_receive_all(fd, parts, flags, None);
        }
    }
    line_only(record, Why::Usage);
    let mut look = Look::new();
    {
        let Some(held) = record.recv_lock.hold() else {
            return fail(libc::EAGAIN);
        };
        end_ring(record, &held);
        look.count = record
            .receiver(&held)
            .ahead(&record.carrier(), &mut look.epochs);
        look.end_on_line();
        look.aim(parts);
    }
    let generation = record.generation();
    let seen = look.at_line(fd, flags);
    let error = errno();
    if is_over(fd, record, generation) {
        return match seen {
            0 => 0,
            1.. => fail(libc::EBADF),
            _ => fail(error),
        };
    }
    if !descriptors::is_of(fd, record) {
        // A relay has taken its place.
        return kernel_receive_all(fd, parts, flags, None);
    }
    let Some(held) = record.recv_lock.hold() else {
        return fail(libc::EAGAIN);
    };
    match look.copy(record, parts, &held, seen.max(0).unsigned_abs()) {
        0 if seen < 0 => fail(error),
        bytes => bytes as ssize_t,
    }
}

/// What lies ahead, and where the line's part of it goes.
struct Look {
    epochs: [Ahead; AHEAD_MAX],
    count: usize,
    into: [iovec; STRETCHES_MAX],
    into_count: usize,
    tokens: [u8; TOKENS_MAX],
    /// Epochs, of which there is room for the line's part.
    aimed: usize,
}

impl Look {
    const fn new() -> Self {
        Self {
            epochs: [Ahead::NONE; AHEAD_MAX],
            count: 0,
            into: [NO_PART; STRETCHES_MAX],
            into_count: 0,
            tokens: [0; TOKENS_MAX],
            aimed: 0,
        }
    }

    /// The sender is to put nothing more into the ring: behind what is there comes the line.
    fn end_on_line(&mut self) {
        if let (Some(Path::Ring), true) = (self.last_lane(), self.count < AHEAD_MAX) {
            self.epochs[self.count] = Ahead {
                bytes: u64::MAX,
                ..Ahead::NONE
            };
            self.count += 1;
        }
    }

    fn last_lane(&self) -> Option<Path> {
        Some(self.epochs[..self.count].last()?.path)
    }

    /// Sets out where the line's bytes go: the program's buffers, but for the places of what is
    /// in the ring, and room for tokens.
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
            let room = &raw mut self.tokens;
            let tokens = clamp(epoch.wake_bytes);
            if !fits || tokens > TOKENS_MAX || (tokens > 0 && !self.add(room.cast(), tokens)) {
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

    /// Looks at the line.
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

    /// Copies what is in the ring into the places that the line's bytes have left; returns how
    /// many bytes there are without a gap, if the line had `seen`.
    fn copy(&self, record: &Record, parts: Parts<'_>, held: &Held<'_>, seen: usize) -> usize {
        let carrier = record.carrier();
        let receiver = record.receiver(held);
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
                    receiver.copy(&carrier, from_ring, unsafe { slice_mut(part, skip, len) });
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
