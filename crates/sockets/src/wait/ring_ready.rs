//! What the ring of one socket, or the rings of a set, have for a wait.

use core::ffi::c_int;

use crate::epoll::sets::{self, Active};
use crate::epoll::tables::{ACTIVE_MAX, Registration};
use crate::process::clock;
use crate::stream::empty_reads;
use crate::stream::ready::{Readiness, settle};
use crate::table::directions::{goes_through_ring, incoming, is_ready};
use crate::table::flags::LOW_WATER;
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::wait::events::EPOLL_IN;

/// So many looks of one wait leave what came meanwhile to the next one. Who lies about the time has us
/// look again no oftener.
const LOOKS_MAX: u32 = 8;

/// Until when bytes must have come that are told.
pub fn until_ns(looks: &mut u32) -> u64 {
    *looks += 1;
    match *looks > LOOKS_MAX {
        true => u64::MAX,
        false => clock::now_ns(),
    }
}

/// When the bytes in a ring came. `None`: after `until_ns`.
pub fn came_ns(record: &Record, until_ns: u64) -> Option<u64> {
    let since_ns = incoming(record).since(&record.carrier());
    match since_ns <= until_ns {
        true => Some(since_ns),
        // Not yet, it says: that is no time of the clock that we have.
        false => (since_ns > clock::now_ns()).then_some(until_ns),
    }
}

/// What we tell of a socket on board.
pub struct RingReady {
    pub record: &'static Record,
    /// The head of its ring.
    pub head: u64,
    bits: u32,
}

impl RingReady {
    /// Whether there are bytes in the ring, nothing is to be read before them, and nobody reads at this
    /// moment.
    fn is_plain(&self) -> bool {
        let (carrier, incoming) = (self.record.carrier(), incoming(self.record));
        incoming.in_ring(&carrier) > 0
            && incoming.has_wake_bytes_only(&carrier)
            && self.record.recv_lock.is_idle()
            && !self.record.has(LOW_WATER)
    }

    /// The events, if they still hold when tokens are off the line.
    pub fn settled(&self, registration: &Registration) -> u32 {
        let reads = self.bits & EPOLL_IN != 0;
        if reads
            && !self.is_plain()
            && settle(registration.fd, self.record, false) == Readiness::Not
        {
            return self.bits & !EPOLL_IN;
        }
        self.bits
    }
}

/// What the program is to be told of a socket that the kernel does not tell.
pub fn ring_ready(registration: &Registration) -> Option<RingReady> {
    let record = registration
        .socket()
        .filter(|record| record.state() == State::Up)?;
    empty_reads::wait_is_seen(record);
    let late_out = match registration.late_out() {
        0 => 0,
        bits if goes_through_ring(record) => bits,
        _ => 0,
    };
    let ready = |head, bits| RingReady { record, head, bits };
    let reads = registration.events & EPOLL_IN;
    if reads == 0 || registration.silent || !is_ready(record) {
        return (late_out != 0).then(|| ready(0, late_out));
    }
    let head = incoming(record).head(&record.carrier());
    let edge = registration.events & libc::EPOLLET as u32 != 0;
    (!edge || head != registration.head_told).then(|| ready(head, reads | late_out))
}

/// Whether the ring has something that came until then.
pub fn has_come(record: &Record, until_ns: u64) -> bool {
    is_ready(record) && came_ns(record, until_ns).is_some()
}

/// For so many sockets a wait takes little of the stack.
pub const FEW: usize = 16;

/// Sets in sets are followed so far.
pub const DEPTH_MAX: u32 = 4;

/// Whether a set has something to tell of a ring, or a set in it does.
pub fn rings(set: c_int, depth: u32) -> bool {
    if depth > DEPTH_MAX || !sets::is_known(set) {
        return false;
    }
    rings_of::<FEW>(set, depth).unwrap_or_else(|| rings_of::<ACTIVE_MAX>(set, depth) == Some(true))
}

/// `None` if more than `N` are to be looked at.
#[inline(never)]
fn rings_of<const N: usize>(set: c_int, depth: u32) -> Option<bool> {
    let mut active = Active::<N>::empty();
    let ready =
        |(_, it): &(u32, Registration)| ring_ready(it).is_some_and(|ready| ready.settled(it) != 0);
    sets::active(set, &mut active).then(|| active.iter().any(ready) || inner_rings(&active, depth))
}

pub fn inner_rings<const N: usize>(active: &Active<N>, depth: u32) -> bool {
    let mut inner = active.inner().iter();
    inner.any(|inner| inner.events & EPOLL_IN != 0 && rings(inner.fd, depth + 1))
}
