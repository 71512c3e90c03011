//! What a wait has to report of the byte ring of one socket, or of the rings of a set.

use core::ffi::c_int;

use crate::epoll::sets::{self, Active};
use crate::epoll::tables::{ACTIVE_MAX, Registration};
use crate::process::clock;
use crate::stream::empty_reads;
use crate::stream::ready::{Readiness, check_readiness};
use crate::table::directions::{goes_through_ring, incoming, is_ready};
use crate::table::flags::LOW_WATER;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::wait::events::EPOLL_IN;

/// So many polls of one wait leave newer bytes to the next wait. A sender that lies about the time cannot
/// cause more polls.
const LOOKS_MAX: u32 = 8;

/// Bytes that came until this time are reported.
pub fn until_ns(looks: &mut u32) -> u64 {
    *looks += 1;
    match *looks > LOOKS_MAX {
        true => u64::MAX,
        false => clock::now_ns(),
    }
}

/// When the bytes in a ring came. `None`: after `until_ns`.
pub fn came_ns(socket: &SocketState, until_ns: u64) -> Option<u64> {
    let since_ns = incoming(socket).since(&socket.memory());
    match since_ns <= until_ns {
        true => Some(since_ns),
        // Not yet, it says: that is no time of the clock that we have.
        false => (since_ns > clock::now_ns()).then_some(until_ns),
    }
}

/// What a wait reports of an upgraded socket.
pub struct RingReady {
    pub socket: &'static SocketState,
    /// The head of its ring.
    pub head: u64,
    bits: u32,
}

impl RingReady {
    /// Whether there are bytes in the ring, nothing is to be read before them, and nobody reads at this
    /// moment.
    fn is_plain(&self) -> bool {
        let (memory, incoming) = (self.socket.memory(), incoming(self.socket));
        incoming.in_ring(&memory) > 0
            && incoming.has_wake_bytes_only(&memory)
            && self.socket.recv_lock.is_idle()
            && !self.socket.has(LOW_WATER)
    }

    /// The events, if they still hold when wake-up bytes are off the kernel connection.
    #[inline]
    pub fn settled(&self, registration: &Registration) -> u32 {
        let reads = self.bits & EPOLL_IN != 0;
        if reads
            && !self.is_plain()
            && check_readiness(registration.fd, self.socket, false) == Readiness::Not
        {
            return self.bits & !EPOLL_IN;
        }
        self.bits
    }
}

/// What the program is told of a socket that the kernel does not report.
pub fn ring_ready(registration: &Registration) -> Option<RingReady> {
    let socket = registration
        .socket()
        .filter(|socket| socket.state() == State::Upgraded)?;
    empty_reads::note_intercepted_wait(socket);
    let deferred_out = match registration.deferred_out() {
        0 => 0,
        bits if goes_through_ring(socket) => bits,
        _ => 0,
    };
    let ready = |head, bits| RingReady { socket, head, bits };
    let reads = registration.events & EPOLL_IN;
    if reads == 0 || registration.silent || !is_ready(socket) {
        return (deferred_out != 0).then(|| ready(0, deferred_out));
    }
    let head = incoming(socket).head(&socket.memory());
    let edge = registration.events & libc::EPOLLET as u32 != 0;
    (!edge || head != registration.reported_head).then(|| ready(head, reads | deferred_out))
}

/// Whether the ring has something that came until then.
pub fn has_come(socket: &SocketState, until_ns: u64) -> bool {
    is_ready(socket) && came_ns(socket, until_ns).is_some()
}

/// For so many sockets a wait takes little of the stack.
pub const FEW: usize = 16;

/// Sets in sets are followed so far.
pub const DEPTH_MAX: u32 = 4;

/// Whether a set has a ring to report, or a set in it does.
pub fn set_is_ready(set: c_int, depth: u32) -> bool {
    if depth > DEPTH_MAX || !sets::is_known(set) {
        return false;
    }
    active_are_ready::<FEW>(set, depth)
        .unwrap_or_else(|| active_are_ready::<ACTIVE_MAX>(set, depth) == Some(true))
}

/// `None` if more than `N` are to be looked at.
#[inline(never)]
fn active_are_ready<const N: usize>(set: c_int, depth: u32) -> Option<bool> {
    let mut active = Active::<N>::empty();
    let ready =
        |(_, it): &(u32, Registration)| ring_ready(it).is_some_and(|ready| ready.settled(it) != 0);
    sets::active(set, &mut active)
        .then(|| active.iter().any(ready) || inner_sets_are_ready(&active, depth))
}

pub fn inner_sets_are_ready<const N: usize>(active: &Active<N>, depth: u32) -> bool {
    let mut inner = active.inner().iter();
    inner.any(|inner| inner.events & EPOLL_IN != 0 && set_is_ready(inner.fd, depth + 1))
}
