//! How a blocking read sleeps: in the kernel, on the kernel connection, where a wake-up byte wakes it.

use core::ffi::c_int;

use crate::process::clock;
use crate::stream::buffers::{Control, Parts, kernel_receive, total};
use crate::stream::receive_side::{publish_read, recover};
use crate::system::{
    kernel,
    real::{self, errno},
};
use crate::table::socket_state::SocketState;

/// Counts a thread that sleeps on a socket, until this is dropped: the thread may be cancelled.
pub struct Sleeper {
    socket: &'static SocketState,
    generation: u32,
}

impl Sleeper {
    /// Under the receive lock.
    pub fn new(socket: &'static SocketState) -> Sleeper {
        socket.sleepers.add(1);
        let generation = socket.generation();
        Sleeper { socket, generation }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // Closed meanwhile, it may be another socket's.
        if self.socket.generation() == self.generation {
            self.socket.sleepers.sub(1);
        }
    }
}

/// Before a sleep of a read that is not its first: the kernel would count the time limit anew, so waits for
/// what is left of it here. Returns the error of the read, if the time is over.
pub fn wait_out_time_limit(fd: c_int, since_ns: &mut Option<u64>) -> Option<c_int> {
    let now_ns = clock::now_ns();
    let slept_ns = now_ns - *since_ns.get_or_insert(now_ns);
    if slept_ns == 0 {
        return None;
    }
    let left_ns = kernel::time_limit_ns(fd, libc::SO_RCVTIMEO)?.saturating_sub(slept_ns);
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let left_ms = left_ns.div_ceil(1_000_000);
    // SAFETY: one descriptor.
    match unsafe {
        real::poll(
            &raw mut poll,
            1,
            c_int::try_from(left_ms).unwrap_or(c_int::MAX),
        )
    } {
        0 => Some(libc::EAGAIN),
        1.. => None,
        _ => Some(errno()),
    }
}

/// What ended a sleep in the kernel.
pub struct Woken {
    /// So many bytes were read.
    pub bytes: usize,
    /// The end of the kernel connection.
    pub ended: bool,
}

impl Woken {
    /// There is something, and nothing was taken.
    pub const fn has_not_read(&self) -> bool {
        self.bytes == 0 && !self.ended
    }
}

/// Reads from the kernel connection, blocking, as the kernel does. The receiver is armed in an epoch of the
/// kernel connection that was open then. So the connection carries nothing but data until the receiver is
/// awake again.
pub fn read_kernel_blocking(
    fd: c_int,
    socket: &SocketState,
    parts: Parts<'_>,
    got: usize,
    flags: c_int,
    control: &mut Option<Control>,
) -> Result<Woken, c_int> {
    let limit = total(parts) - got;
    let generation = socket.generation();
    let uncounted = Uncounted {
        fd,
        socket,
        generation,
    };
    // Who counts anew does so under the lock, which is taken below.
    let recounts = socket.recounts.get();
    let result = kernel_receive(
        fd,
        parts,
        got,
        limit,
        flags & !libc::MSG_WAITALL,
        control.as_mut(),
    );
    core::mem::forget(uncounted);
    if result < 0 {
        return Err(errno());
    }
    let bytes = result.unsigned_abs();
    let read = if flags & libc::MSG_PEEK == 0 {
        bytes
    } else {
        0
    };
    let held = socket.recv_lock.hold();
    if let Some(held) = held.filter(|_| socket.generation() == generation) {
        let receiver = socket.receiver(&held);
        // Another thread may have counted what this one read.
        if socket.recounts.get() == recounts {
            held.moving(|| receiver.read_kernel(&socket.memory(), read as u64));
        } else {
            recover(fd, socket, &held);
        }
        publish_read(socket, &held);
    }
    Ok(Woken {
        bytes,
        ended: bytes == 0,
    })
}

/// A blocking read of the kernel connection. If this is dropped, its thread was cancelled, perhaps with
/// bytes that nobody has counted: then the kernel is asked.
struct Uncounted<'a> {
    fd: c_int,
    socket: &'a SocketState,
    generation: u32,
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        let Some(held) = self.socket.recv_lock.hold() else {
            return;
        };
        if self.socket.generation() == self.generation {
            recover(self.fd, self.socket, &held);
        }
    }
}

/// Sleeps until the kernel connection has something, a wake-up byte or more, as a blocking `recv` does.
pub fn sleep_in_kernel(fd: c_int, flags: c_int) -> Result<Woken, c_int> {
    let mut byte = 0_u8;
    let keep = flags & (libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC);
    // SAFETY: one byte of ours.
    let result = unsafe { real::recv(fd, (&raw mut byte).cast(), 1, keep | libc::MSG_PEEK) };
    let ended = result == 0;
    if result < 0 {
        Err(errno())
    } else {
        Ok(Woken { bytes: 0, ended })
    }
}
