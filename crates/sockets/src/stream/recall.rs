//! Recall: the sender takes unread bytes back from its byte ring, and sends them over the kernel connection.
//! The receiver asks for it when its socket goes to a program that cannot use the ring.
//!
//! The sender answers in whatever call the program makes next. If it sleeps until it can read, a wake-up byte
//! wakes it.

use core::ffi::c_int;

use barewire_calls::message;
use barewire_fabric::hybrid::{Answer, Broken, Path, SharedMemory, TAKE_BACK};

use crate::process::clock;
use crate::process::lock::Held;
use crate::stream::calls::has_kernel_ended;
use crate::stream::wake_bytes::{send_wake_byte, send_wake_byte_soon};
use crate::system::real;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{descriptors, report};

/// How long a socket that is handed off waits for a call of another thread.
pub const LET_GO_LOCK_MS: u32 = 200;

/// How long a socket that is handed off waits for the other end.
#[derive(Clone, Copy)]
pub struct Patience {
    /// For an answer, and for a call of the other end's to return.
    pub until_ns: u64,
    /// For the end of what the other end says it is at: it does not wait itself.
    pub taking_until_ns: u64,
}

impl Patience {
    /// How long to wait for a lock.
    pub fn for_lock_ms(self) -> u32 {
        let left_ns = self.until_ns.saturating_sub(clock::now_ns());
        (left_ns / 1_000_000).clamp(1, LET_GO_LOCK_MS.into()) as u32
    }

    /// For a step that follows a wait, and takes no time if the other end works.
    pub fn and_a_little(self) -> Self {
        let least_ns = clock::now_ns() + LITTLE_NS;
        Self {
            until_ns: self.until_ns.max(least_ns),
            ..self
        }
    }
}

/// The least time for such a step.
const LITTLE_NS: u64 = 10_000_000;

/// Bytes copied from the ring at once.
const CHUNK_BYTES: usize = 16 << 10;
/// Pause between two looks at the answer.
const PAUSE_US: u32 = 50;

/// Whether the other end asks this one to take bytes back.
#[inline]
pub fn is_recall_asked(socket: &SocketState) -> bool {
    let side = socket.side() as usize;
    // Odd: an epoch of the ring.
    socket.memory().load(TAKE_BACK + 1 - side) & 1 != 0
}

/// In any call on an upgraded socket: takes bytes back, if the other end asks for that. A thread that is in
/// the middle of a send does it itself.
pub fn answer_recall(fd: c_int, socket: &SocketState) {
    if socket.state() != State::Upgraded || !is_recall_asked(socket) {
        return;
    }
    let Some(held) = socket.send_lock.try_hold() else {
        return;
    };
    if socket.state() == State::Upgraded {
        let saved = real::errno();
        // What is broken, the next send or read finds.
        let _ = held.changing(|| take_back(fd, socket, &held));
        real::set_errno(saved);
    }
}

/// As [`answer_recall`], in a wait, in which the descriptor may be closed by another thread.
pub fn answer_recall_pinned(fd: c_int, socket: &SocketState) {
    if socket.state() == State::Upgraded && is_recall_asked(socket) {
        let used = descriptors::pin(fd, socket);
        used.iter().for_each(|_| answer_recall(fd, socket));
    }
}

/// Takes bytes back, if that is asked. Returns whether the path is the kernel connection since.
pub fn take_back(fd: c_int, socket: &SocketState, held: &Held<'_>) -> Result<bool, Broken> {
    let memory = socket.memory();
    let sender = socket.sender(held);
    if !sender.is_take_back_asked(&memory) {
        return Ok(false);
    }
    let Some(whole) = sender.begin_to_take_back(&memory)? else {
        return Ok(false);
    };
    let mut chunk = [0_u8; CHUNK_BYTES];
    let mut sent = 0;
    while sent < whole {
        let len = chunk.len().min((whole - sent) as usize);
        sender.copy_back(&memory, sent, &mut chunk[..len]);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let now = message::send_bytes(fd, &chunk[..len], flags).unwrap_or(0);
        sent += now as u64;
        if now != len {
            break;
        }
    }
    let all = sender.took_back(&memory, sent);
    if all {
        report::stepped_back(socket);
    }
    Ok(all)
}

/// Leaves the byte ring for the kernel connection, and takes back what the other end asks to be taken back.
pub fn leave_ring(fd: c_int, socket: &SocketState, held: &Held<'_>) -> Result<(), Broken> {
    held.changing(|| {
        if !take_back(fd, socket, held)? {
            socket.sender(held).leave_ring(&socket.memory());
            report::stepped_back(socket);
        }
        Ok(())
    })
}

/// Wakes a thread of the other end that sleeps until it can read: by a wake-up byte, if it sleeps in this
/// end's ring epoch. In an epoch of the kernel connection such a byte would be data.
pub fn wake(fd: c_int, socket: &SocketState, held: &Held<'_>) {
    let memory = socket.memory();
    let sender = socket.sender(held);
    if sender.path() == Path::Kernel {
        return;
    }
    held.moving(|| {
        if !sender.wake(&memory) {
            return;
        }
        if send_wake_byte(fd) || send_wake_byte_soon(fd) {
            sender.wake_byte_sent();
        } else {
            sender.wake_byte_failed();
        }
    });
}

/// Waits for the other end to take back what it was asked to. Returns whether it did. Holds both locks, so
/// it answers the other end's request as well.
pub fn wait_for_recall(
    fd: c_int,
    socket: &SocketState,
    send: &Held<'_>,
    recv: &Held<'_>,
    patience: Patience,
) -> bool {
    let memory = socket.memory();
    let receiver = socket.receiver(recv);
    loop {
        match receiver.answer(&memory) {
            Answer::Taken => return true,
            Answer::Refused => return !receiver.withdraw(&memory),
            Answer::None | Answer::Taking => {}
        }
        if clock::now_ns() > patience.until_ns || has_kernel_ended(fd) {
            return withdraw_recall(socket, recv, patience);
        }
        // The other end may be at the same. What is broken, the next step finds.
        let _ = take_back(fd, socket, send);
        clock::sleep_us(PAUSE_US);
    }
}

/// Withdraws the request. Returns whether the other end has taken the bytes back all the same.
pub fn withdraw_recall(socket: &SocketState, held: &Held<'_>, patience: Patience) -> bool {
    let memory = socket.memory();
    let receiver = socket.receiver(held);
    loop {
        match receiver.answer(&memory) {
            Answer::Taken => return true,
            Answer::None | Answer::Refused if receiver.withdraw(&memory) => return false,
            _ if clock::now_ns() > patience.taking_until_ns => return false,
            _ => clock::sleep_us(PAUSE_US),
        }
    }
}
