//! Bytes in the ring that the receiver cannot read any more, because its socket goes to someone
//! who knows nothing of the ring: the sender takes them back and sends them over the line.
//!
//! The receiver asks. The sender answers in whatever call of the program's comes next, and a
//! sender that sleeps until it can read is woken by a token.

use core::ffi::c_int;

use barewire_fabric::hybrid::{Answer, Broken, Path, SharedMemory, TAKE_BACK};

use crate::process::clock;
use crate::process::lock::Held;
use crate::stream::calls::line_ended;
use crate::stream::wake_bytes::{send_token, send_token_soon};
use crate::system::{cancel, real};
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::table::{descriptors, report};

/// How long a socket that is to be given away waits for a call of another thread's.
pub const LET_GO_LOCK_MS: u32 = 200;

/// How long a socket that is to be given away waits for the other end.
#[derive(Clone, Copy)]
pub struct Patience {
    /// For an answer, and for a call of the other end's to return.
    pub until_ns: u64,
    /// For the end of what the other end says it is at: it does not wait itself.
    pub taking_until_ns: u64,
}

impl Patience {
    /// For a lock.
    pub fn for_lock_ms(self) -> u32 {
        let left_ns = self.until_ns.saturating_sub(clock::now_ns());
        (left_ns / 1_000_000).clamp(1, LET_GO_LOCK_MS.into()) as u32
    }

    /// For a step that follows a wait, and takes no time with a sound other end.
    pub fn and_a_little(self) -> Self {
        let least_ns = clock::now_ns() + LITTLE_NS;
        Self {
            until_ns: self.until_ns.max(least_ns),
            ..self
        }
    }
}

/// As above.
const LITTLE_NS: u64 = 10_000_000;

/// Bytes copied from the ring at once.
const CHUNK_BYTES: usize = 16 << 10;
/// Pause between two looks at the answer.
const PAUSE_US: u32 = 50;

/// Whether the other end asks this one to take bytes back.
#[inline]
pub fn is_asked(record: &Record) -> bool {
    // Relaxed: with Up comes the side.
    let side = record.side.load(core::sync::atomic::Ordering::Relaxed) as usize;
    // Odd: an epoch of the ring.
    record.carrier().load(TAKE_BACK + 1 - side) & 1 != 0
}

/// In any call on a socket that is up: takes bytes back, if that is asked. Not if a thread is
/// in the middle of a send: that does it.
pub fn answer(fd: c_int, record: &Record) {
    if record.state() != State::Up || !is_asked(record) {
        return;
    }
    let Some(held) = record.send_lock.try_hold() else {
        return;
    };
    if record.state() == State::Up {
        let saved = real::errno();
        // What is broken, the next send or read finds.
        let _ = held.changing(|| take_back(fd, record, &held));
        real::set_errno(saved);
    }
}

/// As [`answer`], in a wait, in which the descriptor may be closed by another thread.
pub fn answer_beside(fd: c_int, record: &Record) {
    if record.state() == State::Up && is_asked(record) {
        let used = descriptors::pin(fd, record);
        used.iter().for_each(|_| answer(fd, record));
    }
}

/// Takes bytes back, if that is asked. Returns whether the lane is the line since.
pub fn take_back(fd: c_int, record: &Record, held: &Held<'_>) -> Result<bool, Broken> {
    let carrier = record.carrier();
    let sender = record.sender(held);
    if !sender.is_take_back_asked(&carrier) {
        return Ok(false);
    }
    let Some(whole) = sender.begin_to_take_back(&carrier)? else {
        return Ok(false);
    };
    let mut chunk = [0_u8; CHUNK_BYTES];
    let mut sent = 0;
    while sent < whole {
        let len = chunk.len().min((whole - sent) as usize);
        sender.copy_back(&carrier, sent, &mut chunk[..len]);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let from = chunk.as_ptr().cast();
        // SAFETY: `chunk` has `len` bytes.
        let result = cancel::uncancelled(|| unsafe { real::send(fd, from, len, flags) });
        sent += result.max(0).unsigned_abs() as u64;
        if result != len as isize {
            break;
        }
    }
    let all = sender.took_back(&carrier, sent);
    if all {
        report::stepped_back();
    }
    Ok(all)
}

/// Leaves the ring, and takes back what the other end asks to be taken back.
pub fn step_back(fd: c_int, record: &Record, held: &Held<'_>) -> Result<(), Broken> {
    held.changing(|| {
        if !take_back(fd, record, held)? {
            record.sender(held).leave_ring(&record.carrier());
            report::stepped_back();
        }
        Ok(())
    })
}

/// Wakes a thread of the other end's that sleeps until it can read: by a token, if it sleeps
/// in our epoch of the ring. In one of the line a byte would be data.
pub fn wake(fd: c_int, record: &Record, held: &Held<'_>) {
    let carrier = record.carrier();
    let sender = record.sender(held);
    if sender.path() == Path::Kernel {
        return;
    }
    held.moving(|| {
        if !sender.wake(&carrier) {
            return;
        }
        if send_token(fd) || send_token_soon(fd) {
            sender.wake_byte_sent();
        } else {
            sender.wake_byte_failed();
        }
    });
}

/// Waits for the other end to take back what it was asked to. Returns whether it did. Has both
/// locks, so it answers the other end as well.
pub fn wait_for_answer(
    fd: c_int,
    record: &Record,
    send: &Held<'_>,
    recv: &Held<'_>,
    patience: Patience,
) -> bool {
    let carrier = record.carrier();
    let receiver = record.receiver(recv);
    loop {
        match receiver.answer(&carrier) {
            Answer::Taken => return true,
            Answer::Refused => return !receiver.withdraw(&carrier),
            Answer::None | Answer::Taking => {}
        }
        if clock::now_ns() > patience.until_ns || line_ended(fd) {
            return withdraw(record, recv, patience);
        }
        // The other end may be at the same. What is broken, the next step finds.
        let _ = take_back(fd, record, send);
        clock::sleep_us(PAUSE_US);
    }
}

/// Asks no more. Returns whether the other end has taken the bytes back all the same.
pub fn withdraw(record: &Record, held: &Held<'_>, patience: Patience) -> bool {
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    loop {
        match receiver.answer(&carrier) {
            Answer::Taken => return true,
            Answer::None | Answer::Refused if receiver.withdraw(&carrier) => return false,
            _ if clock::now_ns() > patience.taking_until_ns => return false,
            _ => clock::sleep_us(PAUSE_US),
        }
    }
}
