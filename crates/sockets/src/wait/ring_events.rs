//! Which events of byte rings a wait on a set reports, and in which order.
//!
//! A program hears of bytes in the order in which they were sent, as far as the senders can tell. Bytes in
//! rings carry the time at which they came (`fabric::hybrid`, SINCE). A wait first reads the clock, then
//! asks the kernel, then polls all rings. It reports those rings whose bytes came before it read the clock:
//! it has found everything that was sent earlier, in a ring or by the kernel. Other rings are reported by
//! the next wait. The kernel's events keep the kernel's order, and come before those of rings: if bytes in
//! a ring were sent earlier, the kernel reports them too (`stream::order`). Where the kernel reports a
//! wake-up byte, rings whose bytes came before those that the wake-up byte is for are reported before it.
//!
//! Asking the kernel costs as much as the rest of a wait. So a wait reports rings without asking if this
//! thread has asked lately, and no sender of these bytes has used the kernel since (`fabric::hybrid`,
//! KERNEL). What such a sender had sent by the kernel before, the earlier question has found.
//!
//! A socket that was reported and not read moves behind the others, as in the kernel's list: the time of
//! the report replaces an earlier time of arrival. So a program that takes one event at a time hears of all
//! sockets.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::MaybeUninit;

use libc::epoll_event;

use crate::epoll::sets::{self, Active, Reporter};
use crate::epoll::tables::Registration;
use crate::process::{clock, fault};
use crate::stream::order;
use crate::table::directions::{goes_through_ring, incoming, is_ready};
use crate::table::state::State;
use crate::wait::events::{EPOLL_IN, EPOLL_OUT};
use crate::wait::ring_ready::{came_ns, ring_ready, set_is_ready};

/// When what the kernel tells of came, if it is in a ring.
fn told_by_kernel_ns(reporter: &Reporter, set: c_int, event: &epoll_event) -> Option<u64> {
    let registration = reporter.registration(set, event.u64)?;
    let socket = registration
        .socket()
        .filter(|it| it.state() == State::Upgraded)?;
    let is_in_ring = event.events & EPOLL_IN != 0 && is_ready(socket);
    is_in_ring.then(|| came_ns(socket, u64::MAX))?
}

/// A ring that has something, of those that a wait looks at.
#[derive(Clone, Copy)]
struct Found {
    came_ns: u64,
    head: u64,
    bits: u32,
    /// Which one it is.
    nth: u32,
    /// When its sender last used the kernel; 0 if it is not bytes that are told.
    kernel_ns: u64,
}

impl Found {
    /// What is to be told of a registration; not, if that came later.
    fn of(nth: usize, registration: &Registration, until_ns: u64) -> Option<Self> {
        let ready = ring_ready(registration)?;
        let mut bits = ready.settled(registration);
        let mut came = Some(0);
        if bits & EPOLL_IN != 0 {
            came = came_ns(ready.socket, until_ns);
            bits &= if came.is_none() { !EPOLL_IN } else { u32::MAX };
        }
        if bits == 0 {
            return None;
        }
        if registration.events & libc::EPOLLET as u32 != 0 && goes_through_ring(ready.socket) {
            // At an edge the kernel tells all that is so.
            bits |= registration.events & libc::EPOLLOUT as u32;
        }
        let is_read = bits & EPOLL_IN != 0;
        let kernel_used = || incoming(ready.socket).kernel_used(&ready.socket.memory());
        Some(Self {
            came_ns: came.unwrap_or(0).max(registration.reported_ns),
            head: ready.head,
            bits,
            nth: nth as u32,
            kernel_ns: if is_read { kernel_used() } else { 0 },
        })
    }
}

thread_local! {
    /// A set on which this thread has waited with too little room for all, and when it did.
    static LEFT: Cell<(c_int, u64)> = const { Cell::new((-1, 0)) };
}

/// Bytes that came until this time were left over by this thread's last wait, for lack of room. They are
/// reported before the kernel is asked, which may always have more.
pub fn left_over_until(set: c_int) -> Option<u64> {
    LEFT.with(|left| {
        let (of, until_ns) = left.replace((-1, 0));
        (of == set).then_some(until_ns)
    })
}

/// How long rings may be reported without asking the kernel. The kernel's events are delayed by no more
/// than that.
const UNASKED_NS: u64 = 50_000;

thread_local! {
    /// The set of which this thread last asked the kernel, and what the clock said before it did.
    static ASKED: Cell<(c_int, u64)> = const { Cell::new((-1, 0)) };
}

/// The kernel was asked of a set, after `until_ns` was read; 0: it may know of more.
pub fn note_asked(set: c_int, until_ns: u64) {
    // Of a wait that looks too often the time is not known.
    let at_ns = if until_ns == u64::MAX { 0 } else { until_ns };
    ASKED.with(|asked| asked.set((set, at_ns)));
}

/// As [`add_rings`], if the kernel need not be asked before; else nothing is told.
pub fn add_rings_unasked<const N: usize>(
    set: c_int,
    events: &mut [epoll_event],
    active: &Active<N>,
    until_ns: u64,
) -> usize {
    let (of, asked_ns) = ASKED.with(Cell::get);
    let is_deferred = until_ns.saturating_sub(asked_ns) >= UNASKED_NS;
    if of != set || is_deferred || !active.inner().is_empty() {
        return 0;
    }
    let mut found = [const { MaybeUninit::uninit() }; N];
    let found = find(active, until_ns, &mut found);
    let asks = |one: &Found| {
        // The kernel knows whether it can be written to.
        let wants_out = active.nth(one.nth as usize).1.events & EPOLL_OUT & !one.bits != 0;
        wants_out || one.kernel_ns >= asked_ns
    };
    if found.iter().any(asks) {
        return 0;
    }
    report(set, events, (0, 0), active, until_ns, found)
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
    for inner in of_sets.filter(|inner| inner.events & EPOLL_IN != 0 && set_is_ready(inner.fd, 1)) {
        if let Some(at) = place_of(events, count, count, inner.data) {
            count = put_event(events, count, at, inner.events & EPOLL_IN, inner.data);
        }
    }
    // What the kernel told of came while it was asked: so did what came before that.
    let found_until_ns = until_ns.max(last_told_by_kernel_ns(set, &events[..told]));
    let mut found = [const { MaybeUninit::uninit() }; N];
    let found = find(active, found_until_ns, &mut found);
    report(set, events, (told, count), active, until_ns, found)
}

/// When the last of what the kernel tells of came, of what is in rings; 0 if nothing is.
fn last_told_by_kernel_ns(set: c_int, events: &[epoll_event]) -> u64 {
    if events.is_empty() {
        return 0;
    }
    let reporter = sets::reporter();
    let times_ns = events
        .iter()
        .filter_map(|event| told_by_kernel_ns(&reporter, set, event));
    times_ns.max().unwrap_or(0)
}

/// The rings that have something that came until then, in the order in which it came.
fn find<'a, const N: usize>(
    active: &Active<N>,
    until_ns: u64,
    found: &'a mut [MaybeUninit<Found>; N],
) -> &'a [Found] {
    let mut count = 0;
    for (nth, (_, registration)) in active.iter().enumerate() {
        if let Some(one) = Found::of(nth, registration, until_ns) {
            found[count].write(one);
            count += 1;
        }
    }
    // SAFETY: so many were written.
    let found = unsafe { core::slice::from_raw_parts_mut(found.as_mut_ptr().cast(), count) };
    found.sort_unstable_by_key(|one: &Found| one.came_ns);
    found
}

/// Adds what was found to the events. `told`: how many of them are the kernel's, and how many there are in
/// all.
fn report<const N: usize>(
    set: c_int,
    events: &mut [epoll_event],
    (told, mut count): (usize, usize),
    active: &Active<N>,
    until_ns: u64,
    found: &[Found],
) -> usize {
    let reported_ns = match until_ns {
        u64::MAX => clock::now_ns(),
        at_ns => at_ns,
    };
    if found.is_empty() {
        return count;
    }
    let is_first = count == 0;
    let mut behind = 0;
    let mut reporter = sets::reporter();
    for one in found {
        let (index, registration) = active.nth(one.nth as usize);
        // Rings differ from one another: only the kernel may tell of one as well.
        let known = if is_first { 0 } else { count };
        let Some(mut at) = place_of(events, known, count, registration.data) else {
            LEFT.with(|left| left.set((set, until_ns)));
            break;
        };
        if !reporter.tell(*index, registration, one.head, reported_ns) {
            continue;
        }
        order::heard_of(one.kernel_ns);
        if at == count && told > 0 {
            let came_ns = |event| told_by_kernel_ns(&reporter, set, event);
            let is_later = |event| came_ns(event).is_some_and(|it| it > one.came_ns);
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

/// Where the event with this data is, if it is one of the first `known`, or goes: behind all others. `None`
/// if there is no room.
fn place_of(events: &[epoll_event], known: usize, count: usize, data: u64) -> Option<usize> {
    let same = events[..known].iter().position(|event| event.u64 == data);
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
