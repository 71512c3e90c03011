//! Wake-up bytes: sending them on the kernel connection, and taking them off it. See `fabric::hybrid`.

use core::ffi::c_int;

use barewire_calls::message;
use barewire_cpu::probes::sockets as probes;
use barewire_fabric::hybrid::Sender;

use crate::process::lock::Held;
use crate::process::{clock, ids};
use crate::stream::order;
use crate::stream::pending_error::keep_error;
use crate::system::{cancel, real};
use crate::table::flags::CHECK_KERNEL;
use crate::table::socket_state::SocketState;
use crate::table::stream_memory::StreamMemory;

/// Wake-up bytes read at once.
const WAKE_BYTES_AT_ONCE: usize = 64;

/// Whether no other thread sleeps on the socket, and no other process has it.
pub fn is_alone(socket: &SocketState) -> bool {
    // A sleeper that comes now arms the receiver, and sees what the ring has. Of another process we do not know which
    // of its sets leave the socket to the kernel.
    socket.sleepers.get() == 0 && socket.process_count_alone() == 1
}

/// The result of taking wake-up bytes off the kernel connection.
pub enum TakeResult {
    /// Some, or all.
    Taken,
    NotYet,
    End,
    Failed(c_int),
}

/// Reads at most `count` wake-up bytes, and throws them away.
pub fn take_wake_bytes(fd: c_int, socket: &SocketState, held: &Held<'_>, count: u64) -> TakeResult {
    held.moving(|| {
        let taken = read_wake_bytes(fd, count);
        taken.map_or_else(core::convert::identity, |wake_bytes| {
            socket.receiver(held).took_wake_bytes(wake_bytes);
            TakeResult::Taken
        })
    })
}

/// Takes the wake-up bytes that lie before what the ring has. If they stayed, the kernel would report the
/// socket as readable in each wait, and reset the connection if this process was killed. Not while another
/// thread or process may sleep until the kernel reports them.
pub fn take_wake_bytes_ahead(fd: c_int, socket: &SocketState, held: &Held<'_>) {
    let receiver = socket.receiver(held);
    if receiver.is_armed() || !is_alone(socket) {
        return;
    }
    let count = receiver.wake_bytes_ahead(&socket.memory());
    if count == 0 {
        return;
    }
    match take_wake_bytes(fd, socket, held, count) {
        TakeResult::Taken | TakeResult::NotYet => {}
        TakeResult::End => socket.set(CHECK_KERNEL, true),
        TakeResult::Failed(error) => keep_error(socket, error),
    }
}

fn read_wake_bytes(fd: c_int, count: u64) -> Result<u64, TakeResult> {
    let mut bytes = [0_u8; WAKE_BYTES_AT_ONCE];
    let len = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    match message::receive_bytes(fd, &mut bytes[..len], libc::MSG_DONTWAIT) {
        Ok([]) => Err(TakeResult::End),
        Ok(taken) => Ok(taken.len() as u64),
        Err(libc::EAGAIN | libc::EINTR) => Err(TakeResult::NotYet),
        Err(errno) => Err(TakeResult::Failed(errno)),
    }
}

/// Shows the other end what was put into the ring, and wakes it if it sleeps. `last`: see [`Sender::publish`].
#[inline]
pub fn publish(fd: c_int, sender: &mut Sender, memory: &StreamMemory, last: &[u8]) {
    let is_first = sender.date(memory, order::dates);
    if sender.publish(memory, ids::processor(), last) {
        wake(fd, sender, memory);
    } else if is_first {
        order::note(fd);
    }
}

#[cold]
pub fn wake(fd: c_int, sender: &mut Sender, memory: &StreamMemory) {
    if send_wake_byte(fd) || send_wake_byte_soon(fd) {
        sender.wake_byte_sent();
    } else {
        sender.wake_byte_failed();
        sender.leave_ring(memory);
    }
}

/// How long the kernel connection may be full although all of it was read: longer than the kernel may delay
/// an acknowledgement.
const FULL_NS: u64 = 1_000_000_000;

/// Sends the wake-up byte as soon as the kernel connection has room. It is full of what the sleeping
/// receiver has read. Nobody else would send the wake-up byte if the program sent nothing more.
#[cold]
pub fn send_wake_byte_soon(fd: c_int) -> bool {
    let attempt = || {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one descriptor.
        cancel::uncancelled(|| unsafe { real::poll(&raw mut poll, 1, 10) });
        send_wake_byte(fd)
    };
    try_while_full(clock::now_ns, attempt, || clock::sleep_us(100))
}

/// Tries until an attempt succeeds. The last attempt begins when [`FULL_NS`] are over: on a busy machine
/// a pause may take longer than that, and the acknowledgement has come meanwhile.
fn try_while_full(
    now_ns: impl Fn() -> u64,
    mut attempt: impl FnMut() -> bool,
    pause: impl Fn(),
) -> bool {
    let until_ns = now_ns() + FULL_NS;
    loop {
        let is_last = now_ns() >= until_ns;
        if attempt() {
            return true;
        }
        if is_last {
            return false;
        }
        pause();
    }
}

pub fn send_wake_byte(fd: c_int) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    probes::wakes_peer(fd);
    // Not cancelled: then nobody would know that it is on the kernel connection. If that is gone, the receiver hears
    // of that instead.
    match message::send_bytes(fd, &[0], flags) {
        Ok(sent) => sent == 1,
        Err(errno) => errno != libc::EAGAIN && errno != libc::ENOBUFS,
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// Tries with a clock that each pause moves by `pause_ns`. Returns whether an attempt succeeded, and how
    /// many there were. The acknowledgement comes at `room_ns`.
    fn tried(pause_ns: u64, room_ns: u64) -> (bool, u32) {
        let (clock_ns, attempts) = (Cell::new(0), Cell::new(0));
        let attempt = || {
            attempts.set(attempts.get() + 1);
            clock_ns.get() >= room_ns
        };
        let pause = || clock_ns.set(clock_ns.get() + pause_ns);
        let is_sent = try_while_full(|| clock_ns.get(), attempt, pause);
        (is_sent, attempts.get())
    }

    #[test]
    fn a_thread_that_did_not_run_for_too_long_tries_again() {
        assert_eq!(tried(2 * FULL_NS, FULL_NS / 5), (true, 2));
        assert_eq!(tried(FULL_NS / 100, FULL_NS / 5), (true, 21));
    }

    #[test]
    fn attempts_end_where_there_is_no_room() {
        assert_eq!(tried(FULL_NS / 10, u64::MAX), (false, 11));
    }
}
