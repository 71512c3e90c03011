//! `epoll_wait` and its variants, with byte rings among what is waited for. See `wait`.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;

use barewire_cpu::probes::sockets as probes;

use libc::{epoll_event, sigset_t, timespec};

use crate::epoll::tables::{ACTIVE_MAX, Claim, Registration};
use crate::epoll::{
    deferred_ctl::{self, OF_RING},
    sets::{self, Active, Changes},
};
use crate::process::spin::{self, Spin};
use crate::stream::ready::{Readiness, check_readiness};
use crate::stream::{empty_reads, lost_bytes, order, pending_error};
use crate::system::{kernel, real};
use crate::table::directions::{incoming, peer_is_near};
use crate::table::flags::CHECK_KERNEL;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::wait::deadline::Deadline;
use crate::wait::events::{EPOLL_ENDS, EPOLL_IN};
use crate::wait::sleepers::{SLEEPERS_MAX, Sleepers};
use crate::wait::{
    ring_events,
    ring_ready::{self, FEW, inner_sets_are_ready, ring_ready},
};

// ------------------------------------------------------------------------------------ epoll

/// As `epoll_pwait2`. `events` is the program's room for them.
pub fn wait(
    set: c_int,
    events: &mut [epoll_event],
    deadline: Deadline,
    mask: *const sigset_t,
) -> c_int {
    let of_few = epoll_of::<FEW, FEW>(set, events, deadline, mask);
    let of_all = || epoll_of::<ACTIVE_MAX, SLEEPERS_MAX>(set, events, deadline, mask);
    let told = of_few.or_else(of_all).unwrap_or(0);
    spin::got_on(told.max(0).unsigned_abs().into(), 0);
    told
}

/// What a wait polls: a copy of the active registrations of a set, renewed when another thread has changed
/// them.
struct View<const N: usize> {
    set: c_int,
    active: RefCell<Active<N>>,
    changes: Cell<Changes>,
}

impl<const N: usize> View<N> {
    /// Empty, until it is renewed.
    fn of(set: c_int) -> Self {
        Self {
            set,
            active: RefCell::new(Active::empty()),
            changes: Cell::new(Changes::of(set)),
        }
    }

    /// `false` if they are more than `N`, or there are sets in the set while there is room for few.
    fn renew(&self) -> bool {
        // First: what changes after the copy is new.
        self.changes.set(Changes::of(self.set));
        sets::active_of_wait(self.set, &mut self.active.borrow_mut())
    }

    /// Whether a ring has something; or there is more to look at than there is room for, after which
    /// the copy is empty.
    fn is_ready(&self) -> bool {
        (self.changes.get().are_new() && !self.renew()) || self.rings_have_news()
    }

    /// Whether a ring of the copy has something.
    fn rings_have_news(&self) -> bool {
        let active = self.active.borrow();
        let ready = |(_, it): &(u32, Registration)| ring_ready(it).is_some();
        active.iter().any(ready) || inner_sets_are_ready(&active, 0)
    }

    /// Whether the other end of the first last ran on this processor.
    fn is_near(&self) -> bool {
        let active = self.active.borrow();
        let first = active.iter().next();
        first.is_some_and(|(_, it)| it.socket().is_some_and(peer_is_near))
    }
}

/// `None` if more than `N` are to be looked at, or sets in the set while there is room for few.
#[inline(never)]
fn epoll_of<const N: usize, const SLEEPERS: usize>(
    set: c_int,
    events: &mut [epoll_event],
    deadline: Deadline,
    mask: *const sigset_t,
) -> Option<c_int> {
    let mut spin = Spin::begin();
    let mut looks = 0;
    // Programs look at the first event without a look at the count: where there is none, it stays.
    let before = events.first().copied();
    let _waiting = sets::waiting(set);
    let view = View::<N>::of(set);
    loop {
        if !view.renew() {
            return None;
        }
        let is_over = deadline.is_over();
        // Not with a new copy: a wait that is over must not end with an empty one.
        let in_rings = view.rings_have_news();
        let mut look = || {
            let (news, near) = (|| view.is_ready(), || view.is_near());
            !view.active.borrow().is_empty()
                && spin.until_or(news, || deadline.is_over() || set_is_ready(set), near)
        };
        if is_over || in_rings || look() {
            let active = &view.active.borrow();
            if let Some(until_ns) = ring_events::left_over_until(set).filter(|_| mask.is_null()) {
                let ready = ring_events::add_rings(set, events, 0, active, until_ns);
                if ready > 0 {
                    return Some(ready as c_int);
                }
            }
            // First: see `told`.
            let until_ns = ring_ready::until_ns(&mut looks);
            // Who asks without waiting wants to know of all.
            if !is_over && mask.is_null() {
                let ready = ring_events::add_rings_unasked(set, events, active, until_ns);
                if ready > 0 {
                    return Some(ready as c_int);
                }
            }
            let Some(told) = ask_kernel(set, events, mask) else {
                return Some(-1);
            };
            // What it had no room for may be older than what rings have by the next wait.
            ring_events::note_asked(set, if told < events.len() { until_ns } else { 0 });
            let told = filter_wake_ups(set, &mut events[..told]);
            let ready = ring_events::add_rings(set, events, told, active, until_ns);
            if ready > 0 {
                return Some(ready as c_int);
            }
            restore_first(events, before);
            if is_over {
                return Some(0);
            }
        }
        // Counted before the look at what is to be armed: whoever registers or reads a socket after
        // that leaves it to the kernel.
        let sleeping = sets::sleeping(set);
        // Again: those that the kernel has just told of for a wake-up byte are active since.
        let active = &mut *view.active.borrow_mut();
        if !sets::active_before_sleep(set, active) {
            return None;
        }
        let Some(slept) = sleep_in_epoll::<N, SLEEPERS>(set, events, deadline, mask, active) else {
            continue;
        };
        drop(sleeping);
        if slept < 0 {
            return Some(slept);
        }
        spin.woke();
        let told = filter_all(set, &mut events[..slept.unsigned_abs() as usize]);
        if told > 0 {
            return Some(told as c_int);
        }
        restore_first(events, before);
        if slept == 0 && deadline.is_over() {
            return Some(0);
        }
    }
}

/// Where nothing is reported, the program finds its first event as it was.
fn restore_first(events: &mut [epoll_event], before: Option<epoll_event>) {
    if let Some((first, before)) = events.first_mut().zip(before) {
        *first = before;
    }
}

/// What the kernel reports of a set now, without what the program does not want any more. `None`: an error.
fn ask_kernel(set: c_int, events: &mut [epoll_event], mask: *const sigset_t) -> Option<usize> {
    loop {
        let told = usize::try_from(kernel_epoll(set, events, 0, mask)).ok()?;
        let left = deferred_ctl::filter_events(set, &mut events[..told]);
        // Full of what nobody wants: there may be more. The kernel knows by now.
        if left > 0 || told < events.len() {
            return Some(left);
        }
    }
}

fn room_of(events: &[epoll_event]) -> c_int {
    c_int::try_from(events.len()).unwrap_or(c_int::MAX)
}

/// Not `epoll_pwait2`, which not all kernels and filters know.
fn kernel_epoll(
    set: c_int,
    events: &mut [epoll_event],
    wait_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let count = room_of(events);
    // SAFETY: `events` has `count` places; the mask lives.
    unsafe { real::epoll_pwait(set, events.as_mut_ptr(), count, wait_ms, mask) }
}

/// As above, until a time that the program has given to `epoll_pwait2`.
fn kernel_epoll_exactly(
    set: c_int,
    events: &mut [epoll_event],
    wait: &timespec,
    mask: *const sigset_t,
) -> c_int {
    let count = room_of(events);
    // SAFETY: `events` has `count` places; time and mask live.
    unsafe { real::epoll_pwait2(set, events.as_mut_ptr(), count, wait, mask) }
}

/// A set of epoll can be polled itself: whether the kernel has anything to tell of it.
fn set_is_ready(set: c_int) -> bool {
    kernel::events_now(set, libc::POLLIN) != 0
}

/// Removes what the kernel has reported and the program is not to be told. Returns how many events are left.
pub fn filter_all(set: c_int, events: &mut [epoll_event]) -> usize {
    let left = deferred_ctl::filter_events(set, events);
    filter_wake_ups(set, &mut events[..left])
}

/// Removes what the kernel reports for mere wake-up bytes. Returns how many events are left.
fn filter_wake_ups(set: c_int, events: &mut [epoll_event]) -> usize {
    let mut left = 0;
    for at in 0..events.len() {
        let mut event = events[at];
        if event.events & EPOLL_IN != 0 && readiness_of(set, event) == Readiness::Not {
            event.events &= !EPOLL_IN;
        }
        event.events &= !OF_RING;
        if event.events & EPOLL_ENDS != 0 {
            event.events |= end_events(set, event);
        }
        if event.events != 0 {
            event.events = claim_events(set, event);
        }
        if event.events != 0 {
            events[left] = event;
            left += 1;
        }
    }
    if left > 0 {
        order::has_used_kernel();
    }
    left
}

/// The events that the program is told: all, with what is in the ring if the registration is one-shot, or
/// none if another thread has reported it.
fn claim_events(set: c_int, event: epoll_event) -> u32 {
    match sets::claim(set, event.u64) {
        Claim::Free => event.events,
        Claim::Theirs => 0,
        Claim::Ours(registration) => {
            let ready = ring_ready(&registration);
            event.events | ready.map_or(0, |ready| ready.settled(&registration))
        }
    }
}

/// Further events of a socket whose end is reported. The next read polls the kernel connection.
fn end_events(set: c_int, event: epoll_event) -> u32 {
    let woken = sets::activate_woken(set, event.u64);
    let Some(socket) = woken.and_then(|(_, registration)| registration.socket()) else {
        return 0;
    };
    socket.set(CHECK_KERNEL, true);
    let error = if pending_error::has_error(socket) {
        libc::POLLERR
    } else {
        0
    };
    // They have the same numbers.
    (error | lost_bytes::events_of(socket, event.events as i16)) as u32
}

fn readiness_of(set: c_int, event: epoll_event) -> Readiness {
    let kernel_says_so = event.events & OF_RING == 0;
    let Some((index, registration)) = sets::activate_woken(set, event.u64) else {
        return Readiness::Ready;
    };
    let Some(socket) = registration
        .socket()
        .filter(|socket| socket.state() == State::Upgraded)
    else {
        return Readiness::Ready;
    };
    empty_reads::note_intercepted_wait(socket);
    let head = incoming(socket).head(&socket.memory());
    let mut readiness = check_readiness(registration.fd, socket, kernel_says_so);
    let is_read_only = event.events & !(EPOLL_IN | OF_RING) == 0;
    if readiness == Readiness::Ready && is_read_only && is_told_edge(socket, &registration, head) {
        readiness = Readiness::Not;
    }
    if readiness == Readiness::Ready {
        sets::note_reported(index, &registration, head);
    } else if event.events & EPOLL_ENDS != 0 {
        return Readiness::Ready;
    } else if is_read_only {
        sets::rearm_one_shot(index, &registration);
    }
    readiness
}

/// Whether an edge that the kernel reports is a wake-up byte for ring bytes that the program has already
/// been told of. The end of the stream is not, even if the program wants to hear of bytes only.
fn is_told_edge(socket: &SocketState, registration: &Registration, head: u64) -> bool {
    registration.events & libc::EPOLLET as u32 != 0
        && registration.reported_head == head
        && incoming(socket).has_wake_bytes_only(&socket.memory())
        && kernel::events_now(registration.fd, libc::POLLRDHUP) == 0
}

/// `None` if something has come before it slept.
fn sleep_in_epoll<const N: usize, const SLEEPERS: usize>(
    set: c_int,
    events: &mut [epoll_event],
    deadline: Deadline,
    mask: *const sigset_t,
    active: &Active<N>,
) -> Option<c_int> {
    let mut sleepers = Sleepers::<SLEEPERS>::none();
    if !sleepers.add_active(active, 0) {
        return None;
    }
    sets::deactivate_all(active);
    probes::sleeps(set);
    let count = match deadline.left().filter(|_| deadline.is_exact) {
        Some(left) => kernel_epoll_exactly(set, events, &left, mask),
        None => kernel_epoll(set, events, deadline.left_ms(), mask),
    };
    probes::woken(set);
    Some(count)
}
