//! What a wait on a set tells of rings, and in which order.
//!
//! A program hears of bytes in the order in which they were sent, as far as who sends can tell. Bytes in
//! rings have the time at which they came (`fabric::carrier`, SINCE). A wait first reads the clock, then
//! asks the kernel, then looks at all rings. It tells of those whose bytes came before it had read the
//! clock: whatever was sent before these it has found, in a ring or by the kernel. Of others it tells
//! the next time. What the kernel tells is in the kernel's order, and before what rings tell: of bytes in a ring
//! that were sent before, the kernel tells as well (`crate::order`). Where the kernel tells of a token, bytes
//! in other rings that came before those that the token is for are told before it.
//!
//! Who is told and does not read is behind others then, as in the kernel's list: the time of the telling
//! counts in place of an earlier one. With it, a program that takes one event at a time hears of all.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::MaybeUninit;

use libc::epoll_event;

use super::{EPOLL_IN, goes_through_ring, has_news, incoming, rings};
use crate::epoll::{self, Active, Registration};
use crate::record::{ORDERED, Record, State};
use crate::stream::{self, Readiness, settle};
use crate::{fault, process};

/// The other end is to say when its bytes come.
pub fn want_order(record: &Record) {
    if !record.has(ORDERED) {
        record.set(ORDERED, true);
        incoming(record).want_order(&record.carrier());
    }
}

/// So many looks of one wait leave what came meanwhile to the next one. Who lies about the time has us
/// look again no oftener.
const LOOKS_MAX: u32 = 8;

/// Until when bytes must have come that are told.
pub fn until_ns(looks: &mut u32) -> u64 {
    *looks += 1;
    match *looks > LOOKS_MAX {
        true => u64::MAX,
        false => process::now_ns(),
    }
}

/// When the bytes in a ring came. `None`: after `until_ns`.
pub fn came_ns(record: &Record, until_ns: u64) -> Option<u64> {
    let since_ns = incoming(record).since(&record.carrier());
    match since_ns <= until_ns {
        true => Some(since_ns),
        // Not yet, it says: that is no time of the clock that we have.
        false => (since_ns > process::now_ns()).then_some(until_ns),
    }
}

/// When what the kernel tells of came, if it is in a ring.
fn told_by_kernel_ns(set: c_int, event: &epoll_event) -> Option<u64> {
    let registration = epoll::registration(set, event.u64)?;
    let record = registration.socket().filter(|it| it.state() == State::Up)?;
    let is_in_ring = event.events & EPOLL_IN != 0 && has_news(record);
    is_in_ring.then(|| came_ns(record, u64::MAX))?
}

/// What we tell of a socket on board.
pub struct RingReady {
    record: &'static Record,
    /// The head of its ring.
    head: u64,
    bits: u32,
}

impl RingReady {
    /// The events, if they still hold when tokens are off the line.
    pub fn settled(&self, registration: &Registration) -> u32 {
        let reads = self.bits & EPOLL_IN != 0;
        if reads && settle(registration.fd, self.record, false) == Readiness::Not {
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
    stream::in_vain::wait_is_seen(record);
    let late_out = match registration.late_out() {
        0 => 0,
        bits if goes_through_ring(record) => bits,
        _ => 0,
    };
    let ready = |head, bits| RingReady { record, head, bits };
    let reads = registration.events & EPOLL_IN;
    if reads == 0 || registration.silent || !has_news(record) {
        return (late_out != 0).then(|| ready(0, late_out));
    }
    let head = incoming(record).head(&record.carrier());
    let edge = registration.events & libc::EPOLLET as u32 != 0;
    (!edge || head != registration.head_told).then(|| ready(head, reads | late_out))
}

/// A ring that has something, of those that a wait looks at.
#[derive(Clone, Copy)]
struct Found {
    came_ns: u64,
    head: u64,
    bits: u32,
    /// Which one it is.
    nth: u32,
}

impl Found {
    /// What is to be told of a registration; not, if that came later.
    fn of(nth: usize, registration: &Registration, until_ns: u64) -> Option<Self> {
        let ready = ring_ready(registration)?;
        let mut bits = ready.settled(registration);
        let mut came = Some(0);
        if bits & EPOLL_IN != 0 {
            came = came_ns(ready.record, until_ns);
            bits &= if came.is_none() { !EPOLL_IN } else { u32::MAX };
        }
        if bits == 0 {
            return None;
        }
        if registration.events & libc::EPOLLET as u32 != 0 && goes_through_ring(ready.record) {
            // At an edge the kernel tells all that is so.
            bits |= registration.events & libc::EPOLLOUT as u32;
        }
        Some(Self {
            came_ns: came.unwrap_or(0).max(registration.told_ns),
            head: ready.head,
            bits,
            nth: nth as u32,
        })
    }
}

thread_local! {
    /// A set on which this thread has waited with too little room for all, and when it did.
    static LEFT: Cell<(c_int, u64)> = const { Cell::new((-1, 0)) };
}

/// Until when bytes must have come that the last wait of this thread had no room for: they are told before
/// the kernel is asked, which always may have more.
pub fn left_by_last(set: c_int) -> Option<u64> {
    LEFT.with(|left| {
        let (of, until_ns) = left.replace((-1, 0));
        (of == set).then_some(until_ns)
    })
}

/// Adds the sockets whose rings have something to the `told` events of the kernel's; returns how many there
/// are. Of bytes that came after `until_ns` nothing is said.
#[inline(never)]
pub fn add_rings<const N: usize>(
    set: c_int,
    events: &mut [epoll_event],
    told: usize,
    active: &Active<N>,
    until_ns: u64,
) -> usize {
    let mut count = told;
    let of_sets = active.inner().iter();
    for inner in of_sets.filter(|inner| inner.events & EPOLL_IN != 0 && rings(inner.fd, 1)) {
        if let Some(at) = place_of(events, count, inner.data) {
            count = put_event(events, count, at, inner.events & EPOLL_IN, inner.data);
        }
    }
    // What the kernel told of came while it was asked: so did what came before that.
    let by_kernel = events[..told].iter();
    let last_ns = by_kernel.filter_map(|event| told_by_kernel_ns(set, event));
    let found_until_ns = last_ns.fold(until_ns, u64::max);
    let mut found = [const { MaybeUninit::<Found>::uninit() }; N];
    let mut found_count = 0;
    for (nth, (_, registration)) in active.iter().enumerate() {
        if let Some(one) = Found::of(nth, registration, found_until_ns) {
            found[found_count].write(one);
            found_count += 1;
        }
    }
    // SAFETY: so many were written.
    let found: &mut [Found] =
        unsafe { core::slice::from_raw_parts_mut(found.as_mut_ptr().cast(), found_count) };
    found.sort_unstable_by_key(|one| one.came_ns);
    let told_ns = match until_ns {
        u64::MAX => process::now_ns(),
        at_ns => at_ns,
    };
    let mut behind = 0;
    for one in found {
        let (index, registration) = active.nth(one.nth as usize);
        let Some(mut at) = place_of(events, count, registration.data) else {
            LEFT.with(|left| left.set((set, until_ns)));
            break;
        };
        if !epoll::tell(*index, registration, one.head, told_ns) {
            continue;
        }
        if at == count && told > 0 {
            let is_later = |event| told_by_kernel_ns(set, event).is_some_and(|it| it > one.came_ns);
            let later = events[behind..count].iter().position(is_later);
            behind = later.map_or(count, |later| behind + later);
            events.copy_within(behind..count, behind + 1);
            count += 1;
            at = behind;
            events[at] = epoll_event {
                events: 0,
                u64: registration.data,
            };
            behind += 1;
        }
        count = put_event(events, count, at, one.bits, registration.data);
    }
    count
}

/// Where the event with this data is, or goes. `None` if there is no room.
fn place_of(events: &[epoll_event], count: usize, data: u64) -> Option<usize> {
    let same = events[..count].iter().position(|event| event.u64 == data);
    let has_room = || count < events.len() && fault::goes_on(&raw const events[count]);
    same.or_else(|| has_room().then_some(count))
}

/// Adds bits to an event, or an event; returns how many there are.
fn put_event(events: &mut [epoll_event], count: usize, at: usize, bits: u32, data: u64) -> usize {
    if at < count {
        events[at].events |= bits;
        return count;
    }
    events[at] = epoll_event {
        events: bits,
        u64: data,
    };
    count + 1
}
