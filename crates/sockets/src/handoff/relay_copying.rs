//! What a relay does: it copies both directions until they end.

use core::cell::Cell;
use core::ffi::c_int;

use barewire_calls::descriptor;
use libc::{iovec, pollfd};

use crate::process::open_files::is_held_elsewhere;
use crate::process::{clock, memory};
use crate::stream::{lost_bytes, receiving, sending};
use crate::system::{kernel, real};
use crate::table::process_refs;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::wait::deadline::Deadline;
use crate::wait::poll;

/// Size of the buffer of each direction.
const BUFFER_BYTES: usize = 64 << 10;
/// How often a relay checks whether the other processes have closed the old socket.
const SHARED_MS: c_int = 20;
/// After so many of these checks it also checks whether the processes are alive.
const SHARED_ROUNDS: u32 = 25;
/// How often it checks whether a successor that has shut down its half has closed the socket.
const CLOSED_MS: c_int = 1000;
/// How long after its last bytes a closed socket may still seem to be open.
const CLOSE_NS: u64 = 50_000_000;
/// How long a passed socket may be on its way. A relay that reads meanwhile would take another process's
/// bytes.
const ON_ITS_WAY_NS: u64 = 10_000_000_000;
/// How long a reset waits for bytes that were sent before it.
const FLUSH_MS: u32 = 5000;

/// Copies between the old socket and the inner one until both directions have ended. `was_shared`: other
/// processes had the old socket too when the relay began.
pub fn relay(old: c_int, inner: c_int, socket: &'static SocketState, was_shared: bool) {
    let Some(buffers) = memory::reserve_private(2 * BUFFER_BYTES) else {
        return kernel::reset_at_close(inner);
    };
    let way = |nth: usize| Way {
        // SAFETY: the second begins where the first ends.
        bytes: unsafe { buffers.cast::<u8>().add(nth * BUFFER_BYTES) },
        from: 0,
        to: 0,
        ended: false,
        shut: false,
    };
    let relay = Relay {
        old,
        inner,
        socket,
        inwards: way(0),
        outwards: way(1),
        end_seen_ns: 0,
        may_be_shared: Cell::new(was_shared),
        alone_since_ns: Cell::new(0),
        asks_at: Cell::new(0),
        shared_rounds: Cell::new(0),
        is_miscounted: Cell::new(false),
    };
    relay.run();
}

/// One direction. Bytes `from..to` of the buffer are on their way.
struct Way {
    bytes: *mut u8,
    from: usize,
    to: usize,
    /// The source has ended.
    ended: bool,
    /// The sink was told.
    shut: bool,
}

impl Way {
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn whole(&self) -> iovec {
        iovec {
            iov_base: self.bytes.cast(),
            iov_len: BUFFER_BYTES,
        }
    }

    fn rest(&self) -> iovec {
        iovec {
            // SAFETY: within the buffer.
            iov_base: unsafe { self.bytes.add(self.from) }.cast(),
            iov_len: self.to - self.from,
        }
    }

    /// The source gave so many bytes; 0 at its end.
    fn got(&mut self, result: isize) -> Went {
        match result {
            0 => self.ended = true,
            1.. => (self.from, self.to) = (0, result.unsigned_abs()),
            _ if real::errno() == libc::EAGAIN || real::errno() == libc::EINTR => {
                return Went::Nowhere;
            }
            _ => return Went::Broken,
        }
        Went::On
    }

    fn gave(&mut self, result: isize) -> Went {
        match result {
            0.. => self.from += result.unsigned_abs(),
            _ if real::errno() == libc::EAGAIN || real::errno() == libc::EINTR => {
                return Went::Nowhere;
            }
            _ => return Went::Broken,
        }
        Went::On
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Went {
    On,
    Nowhere,
    /// The connection that was read or written is gone.
    Broken,
}

struct Relay {
    old: c_int,
    inner: c_int,
    socket: &'static SocketState,
    /// From the old socket to the successor.
    inwards: Way,
    /// Back.
    outwards: Way,
    /// When the successor's end was first seen, while the old socket is shared.
    end_seen_ns: u64,
    /// Others had it, and it is not known yet that they have not.
    may_be_shared: Cell<bool>,
    /// Nobody is known to be counted but this process, though more are: one was killed as it was about
    /// to leave. The kernel knows who has it.
    is_miscounted: Cell<bool>,
    /// Since when the kernel, each time that it was asked, knew of no others; 0 if it did the last time.
    alone_since_ns: Cell<u64>,
    /// When it is asked next, in looks.
    asks_at: Cell<u32>,
    /// Looks that found others.
    shared_rounds: Cell<u32>,
}

/// Why a relay ends before both directions have ended.
enum Over {
    /// The old connection was reset.
    OldReset,
    /// The connection to the successor was reset.
    InnerReset,
    /// The successor has closed a socket that other processes still have.
    Closed,
}

const SEND: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

impl Relay {
    fn run(mut self) {
        loop {
            match self.step() {
                Err(Over::OldReset) => {
                    // As with a reset, what came before it can still be read.
                    self.flush();
                    kernel::reset_at_close(self.inner);
                    return;
                }
                // The others go on with it.
                Err(Over::InnerReset) if self.is_shared() => return,
                Err(Over::InnerReset) => return kernel::reset_at_close(self.old),
                Err(Over::Closed) => return,
                Ok(true) => {}
                Ok(false) if self.inwards.shut && self.outwards.shut => return,
                Ok(false) => {
                    if self.wait() == 0 && self.successor_closed() {
                        return;
                    }
                }
            }
        }
    }

    fn is_shared(&self) -> bool {
        let is_counted = self.socket.process_count() > 1;
        if !self.may_be_shared.get() && (!is_counted || self.is_miscounted.get()) {
            return false;
        }
        let rounds = self.shared_rounds.get();
        self.shared_rounds.set(rounds + 1);
        if is_counted && rounds % SHARED_ROUNDS == SHARED_ROUNDS - 1 {
            process_refs::check(self.socket);
            self.is_miscounted
                .set(!process_refs::others_are_noted(self.socket));
        }
        if is_counted && !self.is_miscounted.get() {
            return true;
        }
        if rounds >= self.asks_at.get() {
            self.ask(rounds);
        }
        self.may_be_shared.get()
    }

    /// Asks the kernel whether other processes have the socket. A process that became another program while
    /// the socket was the kernel's is not counted. If the socket was passed then, it may be on its way in a
    /// message, where no process has it.
    fn ask(&self, rounds: u32) {
        let was_given = self.socket.state() == State::Kernel;
        let least = if was_given { SHARED_ROUNDS } else { 1 };
        let pause = (rounds + 1).clamp(least, SHARED_ROUNDS);
        self.asks_at.set(rounds + pause);
        if is_held_elsewhere(self.old) {
            return self.alone_since_ns.set(0);
        }
        let now_ns = clock::now_ns();
        if self.alone_since_ns.get() == 0 {
            self.alone_since_ns.set(now_ns);
        }
        if !was_given || now_ns - self.alone_since_ns.get() > ON_ITS_WAY_NS {
            self.may_be_shared.set(false);
        }
    }

    /// Moves what can be moved without waiting. Returns whether anything did.
    fn step(&mut self) -> Result<bool, Over> {
        let mut on = false;
        let mut went = |went: Went, whose: Over| match went {
            Went::On => {
                on = true;
                Ok(())
            }
            Went::Nowhere => Ok(()),
            Went::Broken => Err(whose),
        };
        if self.inwards.is_empty() && !self.inwards.ended && !self.is_shared() {
            let parts = [self.inwards.whole()];
            let result = receiving::receive(self.old, self.socket, &parts, libc::MSG_DONTWAIT);
            went(self.inwards.got(result), Over::OldReset)?;
        }
        if !self.inwards.is_empty() {
            let part = self.inwards.rest();
            // SAFETY: the part is within the buffer.
            let result = unsafe { real::send(self.inner, part.iov_base, part.iov_len, SEND) };
            went(self.inwards.gave(result), Over::InnerReset)?;
        }
        if self.outwards.is_empty() && !self.outwards.ended {
            let part = self.outwards.whole();
            // SAFETY: as above.
            let result =
                unsafe { real::recv(self.inner, part.iov_base, part.iov_len, libc::MSG_DONTWAIT) };
            went(self.outwards.got(result), Over::InnerReset)?;
        }
        if !self.outwards.is_empty() {
            let parts = [self.outwards.rest()];
            let result = sending::send(self.old, self.socket, &parts, SEND);
            went(self.outwards.gave(result), Over::OldReset)?;
        }
        if self.outwards.ended && !self.outwards.shut && self.is_shared() && !self.end_is_told()? {
            return Ok(on);
        }
        for (way, to) in [
            (&mut self.inwards, self.inner),
            (&mut self.outwards, self.old),
        ] {
            if way.ended && way.is_empty() && !way.shut {
                way.shut = true;
                on = true;
                if to == self.old {
                    lost_bytes::announce_half_close(self.socket);
                }
                descriptor::shut(to, libc::SHUT_WR);
            }
        }
        Ok(on)
    }

    /// The successor has ended its stream on a shared socket. Either it has shut down its half, which holds
    /// for all processes, or it has closed the socket, which does not. `false`: that is not known yet.
    fn end_is_told(&mut self) -> Result<bool, Over> {
        if self.is_abandoned().unwrap_or(true) {
            return Err(Over::Closed);
        }
        let now_ns = clock::now_ns();
        if self.end_seen_ns == 0 {
            self.end_seen_ns = now_ns;
        }
        Ok(now_ns - self.end_seen_ns > CLOSE_NS)
    }

    /// Waits until something can be moved. Returns 0 if the time was over first.
    fn wait(&self) -> c_int {
        let shared = self.is_shared();
        let entry = |fd: c_int, source: &Way, sink: &Way, reads: bool| {
            let mut events = 0;
            if reads && source.is_empty() && !source.ended {
                events |= libc::POLLIN;
            }
            if !sink.is_empty() {
                events |= libc::POLLOUT;
            }
            pollfd {
                // An error is told of even if nothing is asked for: to be looked at when it matters.
                fd: if events == 0 { -1 } else { fd },
                events,
                revents: 0,
            }
        };
        let mut fds = [
            entry(self.old, &self.inwards, &self.outwards, !shared),
            entry(self.inner, &self.outwards, &self.inwards, true),
        ];
        let limit_ms = match (shared, self.outwards.shut) {
            // At first there is the process that began this one.
            (true, _) => SHARED_MS.min(self.shared_rounds.get() as c_int),
            (_, true) => CLOSED_MS,
            _ => -1,
        };
        poll::poll(&mut fds, Deadline::in_ms(limit_ms), core::ptr::null())
    }

    /// Whether the successor has closed the outer socket, and not only shut down its half.
    fn successor_closed(&self) -> bool {
        self.outwards.shut && self.is_abandoned().unwrap_or(false)
    }

    /// Whether no process has the outer socket, whose half is shut down, if that can be known.
    fn is_abandoned(&self) -> Option<bool> {
        let family = kernel::option(self.inner, libc::SOL_SOCKET, libc::SO_DOMAIN);
        if family == Some(libc::AF_UNIX) {
            return Some(has_hung_up(self.inner));
        }
        kernel::tuple(self.inner).map(|tuple| kernel::is_abandoned(&tuple))
    }

    /// Waits until the successor's kernel has all that was read from the old socket.
    fn flush(&mut self) {
        for _ in 0..FLUSH_MS {
            if !self.inwards.is_empty() {
                let part = self.inwards.rest();
                // SAFETY: the part is within the buffer.
                let result = unsafe { real::send(self.inner, part.iov_base, part.iov_len, SEND) };
                if self.inwards.gave(result) == Went::Broken {
                    return;
                }
            }
            let unsent = descriptor::count(self.inner, libc::TIOCOUTQ).unwrap_or(0);
            if self.inwards.is_empty() && unsent == 0 {
                return;
            }
            clock::sleep_us(1000);
        }
    }
}

/// Whether the other end of a Unix socket is closed, or has shut down both halves.
fn has_hung_up(fd: c_int) -> bool {
    kernel::events_now(fd, 0) & libc::POLLHUP != 0
}
