//! What a relay does: copies both directions.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::Ordering;

use libc::{iovec, pollfd};

use crate::process::open_files::is_held_elsewhere;
use crate::process::{clock, memory};
use crate::stream::{lost_bytes, receiving, sending};
use crate::system::{kernel, real};
use crate::table::process_refs;
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::wait::deadline::Deadline;
use crate::wait::poll;

/// Bytes on their way, of each direction.
const BUFFER_BYTES: usize = 64 << 10;
/// How often a relay looks whether the other processes have closed the old socket.
const SHARED_MS: c_int = 20;
/// So often, until it looks whether they are alive.
const SHARED_ROUNDS: u32 = 25;
/// And, when the successor has shut its half, whether it has closed.
const CLOSED_MS: c_int = 1000;
/// How long after its last bytes a socket that was closed may still seem to be somebody's.
const CLOSE_NS: u64 = 50_000_000;
/// How long a socket that was given away may be on its way: whoever reads meanwhile takes another's
/// bytes.
const ON_ITS_WAY_NS: u64 = 10_000_000_000;
/// How long a reset waits for what was sent before it to be taken.
const FLUSH_MS: u32 = 5000;

/// Copies between the old socket and the inner one until both directions have ended. `was_shared`:
/// others had it as well when the relay was begun.
pub fn relay(old: c_int, inner: c_int, record: &'static Record, was_shared: bool) {
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
        record,
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

    /// The source gave so many bytes; 0 at its end. Whether it is sound.
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
    record: &'static Record,
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

/// Why a relay is at its end before both directions are.
enum Over {
    /// The old connection was reset.
    OldReset,
    /// That to the successor was reset.
    InnerReset,
    /// The successor has closed a socket that others have yet.
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
        let is_counted = self.record.processes.load(Ordering::Acquire) > 1;
        if !self.may_be_shared.get() && (!is_counted || self.is_miscounted.get()) {
            return false;
        }
        let rounds = self.shared_rounds.get();
        self.shared_rounds.set(rounds + 1);
        if is_counted && rounds % SHARED_ROUNDS == SHARED_ROUNDS - 1 {
            process_refs::check(self.record);
            self.is_miscounted
                .set(!process_refs::others_are_noted(self.record));
        }
        if is_counted && !self.is_miscounted.get() {
            return true;
        }
        if rounds >= self.asks_at.get() {
            self.ask(rounds);
        }
        self.may_be_shared.get()
    }

    /// Asks the kernel for others that have the socket. Whoever became another program with it, when
    /// it was the kernel's, is not counted; and if it was given away then, it may be on its way in a
    /// message, where nobody has it, until whoever gets it comes to run.
    fn ask(&self, rounds: u32) {
        let was_given = self.record.state() == State::Plain;
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
            let result = receiving::receive(self.old, self.record, &parts, libc::MSG_DONTWAIT);
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
            let result = sending::send(self.old, self.record, &parts, SEND);
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
                    lost_bytes::say_half_is_over(self.record);
                }
                // SAFETY: no pointers.
                unsafe { real::shutdown(to, libc::SHUT_WR) };
            }
        }
        Ok(on)
    }

    /// The successor has ended its stream, of a socket that others share: it has shut its half,
    /// which holds for all of them, or has closed it, which does not. `false`: to be seen.
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

    /// Waits until something can be moved; 0 if the time was over before.
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

    /// Whether the successor has not only shut its half: no process has the outer socket.
    fn successor_closed(&self) -> bool {
        self.outwards.shut && self.is_abandoned().unwrap_or(false)
    }

    /// Whether no process has the outer socket, which has shut its half; if that can be told.
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
            let mut unsent: c_int = 0;
            // SAFETY: the kernel writes a number.
            unsafe { real::ioctl(self.inner, libc::TIOCOUTQ, &raw mut unsent as usize) };
            if self.inwards.is_empty() && unsent == 0 {
                return;
            }
            clock::sleep_us(1000);
        }
    }
}

/// Whether the other end of a Unix socket has shut both halves, or is closed.
fn has_hung_up(fd: c_int) -> bool {
    kernel::events_now(fd, 0) & libc::POLLHUP != 0
}
