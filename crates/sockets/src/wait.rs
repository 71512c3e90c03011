//! `poll`, `select` and `epoll_wait` with rings among what is waited for.
//!
//! Each wait first looks at the rings and asks the kernel, without waiting. With nothing
//! ready it looks at the rings for a while; then it arms them and sleeps in the kernel,
//! which wakes it for a token as for anything else. A socket that was called readable for
//! nothing but a token is not reported.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::Direction;
use libc::{epoll_event, pollfd, sigset_t, timespec};

use crate::epoll::late::OF_RING;
use crate::epoll::{self, ACTIVE_MAX, Active, Changes, Claim, Registration};
use crate::memory::RING_BYTES;
use crate::record::{self, CHECK_LINE, Record, State};
use crate::spin::Spin;
use crate::stream::{self, Readiness, settle};
use crate::{kernel, lost, order, process, real};

pub mod told;
use told::ring_ready;

const POLL_IN: i16 = libc::POLLIN | libc::POLLRDNORM;
const EPOLL_IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const EPOLL_OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
/// With one of these the kernel means more than a token.
const POLL_ENDS: i16 = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP | libc::POLLNVAL;
const EPOLL_ENDS: u32 = (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32;

/// When a wait is over.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// On the monotonic clock; `None`: never.
    at_ns: Option<u64>,
    /// Whether the program counts in nanoseconds, or in milliseconds only.
    is_exact: bool,
}

impl Deadline {
    /// In so many milliseconds; never if negative.
    pub fn in_ms(ms: c_int) -> Self {
        Self {
            at_ns: u64::try_from(ms)
                .ok()
                .map(|ms| process::now_ns().saturating_add(ms * 1_000_000)),
            is_exact: false,
        }
    }

    /// After `time`; never if there is none. `None` for a time that is not one.
    pub fn after(time: Option<timespec>) -> Option<Self> {
        let Some(time) = time else {
            return Some(Self {
                at_ns: None,
                is_exact: true,
            });
        };
        let s = u64::try_from(time.tv_sec).ok()?;
        let ns = u64::try_from(time.tv_nsec)
            .ok()
            .filter(|ns| *ns < 1_000_000_000)?;
        let after_ns = s.saturating_mul(1_000_000_000).saturating_add(ns);
        Some(Self {
            at_ns: Some(process::now_ns().saturating_add(after_ns)),
            is_exact: true,
        })
    }

    /// What is left of it.
    pub fn left(self) -> Option<timespec> {
        let left_ns = self.at_ns?.saturating_sub(process::now_ns());
        Some(timespec {
            tv_sec: i64::try_from(left_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        })
    }

    /// The same in whole milliseconds: not less, but for more than the kernel can count. -1 if it
    /// never comes.
    fn left_ms(self) -> c_int {
        let Some(at_ns) = self.at_ns else {
            return -1;
        };
        let left_ms = at_ns.saturating_sub(process::now_ns()).div_ceil(1_000_000);
        c_int::try_from(left_ms).unwrap_or(c_int::MAX)
    }

    /// Whether it has come.
    pub fn is_over(self) -> bool {
        self.at_ns.is_some_and(|at_ns| process::now_ns() >= at_ns)
    }
}

/// The socket of a descriptor, if it is up.
pub fn up(fd: c_int) -> Option<&'static Record> {
    record::find(fd).filter(|record| record.state() == State::Up)
}

/// Whether the ring has something to read.
pub fn has_news(record: &Record) -> bool {
    incoming(record).has_news(&record.carrier()) && !stream::low_water::holds_back(record)
}

/// Whether the ring has something that came until then.
fn has_come(record: &Record, until_ns: u64) -> bool {
    has_news(record) && told::came_ns(record, until_ns).is_some()
}

/// Whether the other end last ran on this processor: then looking keeps it from answering.
pub fn peer_is_near(record: &Record) -> bool {
    let own = process::processor();
    own != 0 && record.state() == State::Up && incoming(record).processor(&record.carrier()) == own
}

/// Whether what is sent goes through the ring: then there is always room on the line.
pub fn goes_through_ring(record: &Record) -> bool {
    outgoing(record).is_in_ring(&record.carrier())
}

/// The direction that we send in.
pub fn outgoing(record: &Record) -> Direction {
    incoming(record).reversed()
}

/// The direction that we receive in.
pub fn incoming(record: &Record) -> Direction {
    let side = record.side.load(Ordering::Relaxed);
    Direction::from_side(1 - side, RING_BYTES)
}

/// Sockets that this thread sleeps on. On the program's stack: see [`Active`].
struct Sleepers<const N: usize> {
    /// With the generation in which it is counted.
    records: [MaybeUninit<(&'static Record, u32)>; N],
    count: usize,
}

/// For so many sockets a wait takes little of the stack.
const FEW: usize = 16;

/// Sockets that one thread can sleep on as one that is counted. On those beyond, it is
/// woken as well, unless another thread reads them at the same time.
const SLEEPERS_MAX: usize = 1024;

impl<const N: usize> Sleepers<N> {
    const fn none() -> Self {
        Self {
            records: [const { MaybeUninit::uninit() }; N],
            count: 0,
        }
    }

    /// Says that this thread is about to sleep on a socket; not, if something has come.
    /// Bytes that were ever in the ring up to `told` do not count, if that is given.
    fn add(&mut self, fd: c_int, record: &'static Record, told: Option<u64>) -> bool {
        stream::in_vain::wait_is_seen(record);
        let held = record.recv_lock.hold();
        if let Some(place) = self.records.get_mut(self.count) {
            place.write((record, record.generation()));
            self.count += 1;
            record.sleepers.fetch_add(1, Ordering::Relaxed);
        }
        let sleeps = held.is_none_or(|held| {
            record.state() != State::Up
                || stream::low_water::holds_back(record)
                || match told {
                    None => stream::arm(record, &held),
                    Some(head) => record.receiver(&held).arm_past(&record.carrier(), head),
                }
        });
        // After arming: who asks us for something sends a token to whoever is armed.
        stream::answer_beside(fd, record);
        sleeps
    }
}

impl<const N: usize> Sleepers<N> {
    /// As [`Sleepers::add`], for all of a set.
    fn add_set(&mut self, set: c_int, depth: u32) -> bool {
        if depth > DEPTH_MAX || !epoll::is_known(set) {
            return true;
        }
        let of_few = self.add_set_of::<FEW>(set, depth);
        of_few.unwrap_or_else(|| self.add_set_of::<ACTIVE_MAX>(set, depth) == Some(true))
    }

    /// `None` if there are more than `M` of them.
    #[inline(never)]
    fn add_set_of<const M: usize>(&mut self, set: c_int, depth: u32) -> Option<bool> {
        let mut active = Active::<M>::empty();
        epoll::active(set, &mut active).then(|| self.add_active(&active, depth))
    }

    fn add_active<const M: usize>(&mut self, active: &Active<M>, depth: u32) -> bool {
        // Not those that the program is not to be told of: what they have must not keep it
        // awake.
        let heard = active
            .iter()
            .filter(|(_, it)| it.events & EPOLL_IN != 0 && !it.silent);
        for (_, registration) in heard {
            let edge = registration.events & libc::EPOLLET as u32 != 0;
            let told = edge.then_some(registration.head_told);
            let up = |record: &&'static Record| record.state() == State::Up;
            let record = registration.socket().filter(up);
            if record.is_some_and(|record| !self.add(registration.fd, record, told)) {
                return false;
            }
        }
        let mut inner = active.inner().iter();
        inner.all(|inner| self.add_set(inner.fd, depth + 1))
    }
}

impl<const N: usize> Drop for Sleepers<N> {
    fn drop(&mut self) {
        for record in &self.records[..self.count] {
            // SAFETY: the first `count` were written.
            let (record, generation) = unsafe { record.assume_init() };
            // Relaxed: closed meanwhile, it may be another socket's.
            if record.generation() == generation {
                record.sleepers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

// ------------------------------------------------------------------------------------- poll

fn wants_in(poll: &pollfd) -> Option<&'static Record> {
    if poll.fd < 0 || poll.events & POLL_IN == 0 {
        return None;
    }
    up(poll.fd)
}

/// Whether one of ours is among them, or a set that may have one.
pub fn has_ours(fds: &[pollfd]) -> bool {
    // All of them: a set hears that it is waited for.
    let sets = fds.iter().filter(|poll| wants_set(poll)).count();
    sets > 0 || fds.iter().any(|poll| wants_in(poll).is_some())
}

fn wants_set(poll: &pollfd) -> bool {
    poll.events & POLL_IN != 0 && epoll::late::is_looked_at(poll.fd)
}

/// Sets in sets are followed so far.
const DEPTH_MAX: u32 = 4;

/// Whether a set has something to tell of a ring, or a set in it does.
fn rings(set: c_int, depth: u32) -> bool {
    if depth > DEPTH_MAX || !epoll::is_known(set) {
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
    epoll::active(set, &mut active).then(|| active.iter().any(ready) || inner_rings(&active, depth))
}

fn inner_rings<const N: usize>(active: &Active<N>, depth: u32) -> bool {
    let mut inner = active.inner().iter();
    inner.any(|inner| inner.events & EPOLL_IN != 0 && rings(inner.fd, depth + 1))
}

/// As `ppoll`.
pub fn poll(fds: &mut [pollfd], deadline: Deadline, mask: *const sigset_t) -> c_int {
    let mut spin = Spin::begin();
    let mut looks = 0;
    if fds.len() > 1 {
        fds.iter().filter_map(wants_in).for_each(told::want_order);
    }
    loop {
        let looked = &*fds;
        let news = || {
            let mut sets = looked.iter().filter(|poll| wants_set(poll));
            looked.iter().filter_map(wants_in).any(has_news) || sets.any(|set| rings(set.fd, 0))
        };
        let is_over = deadline.is_over();
        let near = || looked.iter().find_map(wants_in).is_some_and(peer_is_near);
        let mut look =
            || spin.until_or(news, || deadline.is_over() || kernel_has_any(looked), near);
        if is_over || news() || look() {
            let ready = poll_now(fds, told::until_ns(&mut looks), mask);
            if ready != 0 || is_over {
                return ready;
            }
        }
        let is_small = fds.len() <= FEW && !fds.iter().any(wants_set);
        let slept = if is_small {
            sleep_in_poll::<FEW>(fds, deadline, mask)
        } else {
            sleep_in_poll::<SLEEPERS_MAX>(fds, deadline, mask)
        };
        let Some(slept) = slept else {
            continue;
        };
        if slept <= 0 {
            return slept;
        }
        spin.woke();
        // Of what it has slept for, the kernel tells. Of others the next wait does.
        let ready = sift(fds, 0);
        if ready != 0 {
            return ready;
        }
    }
}

/// Asks the kernel and looks at the rings, for what came until then. If there is nothing, a signal that only
/// `mask` lets through ends it.
fn poll_now(fds: &mut [pollfd], until_ns: u64, mask: *const sigset_t) -> c_int {
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice has its length.
    let result = unsafe { real::poll(fds.as_mut_ptr(), count, 0) };
    if result < 0 {
        return result;
    }
    let ready = sift(fds, until_ns);
    if ready > 0 || mask.is_null() {
        return ready;
    }
    let at_once = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as above; time and mask live.
    let result = unsafe { real::ppoll(fds.as_mut_ptr(), count, &raw const at_once, mask) };
    if result < 0 {
        return result;
    }
    sift(fds, until_ns)
}

/// Adds what came into the rings until then to what the kernel said, and takes mere tokens away.
fn sift(fds: &mut [pollfd], until_ns: u64) -> c_int {
    if fds.iter().any(|poll| poll.revents != 0) {
        order::has_used_kernel();
    }
    let mut ready = 0;
    for poll in fds {
        if let Some(record) = wants_in(poll) {
            stream::in_vain::wait_is_seen(record);
            let said = poll.revents & POLL_IN != 0;
            let is_ready = (said || has_come(record, until_ns))
                && settle(poll.fd, record, said) == Readiness::Ready;
            if is_ready {
                poll.revents |= poll.events & POLL_IN;
            } else if poll.revents & POLL_ENDS == 0 {
                poll.revents &= !POLL_IN;
            }
        }
        note_end(poll);
        if wants_set(poll) && rings(poll.fd, 0) {
            poll.revents |= poll.events & POLL_IN;
        }
        ready += c_int::from(poll.revents != 0);
    }
    ready
}

/// A program that was told of the end finds it: the next read looks at the line.
pub fn note_end(poll: &mut pollfd) {
    if poll.revents & POLL_ENDS == 0 || poll.fd < 0 {
        return;
    }
    if let Some(record) = record::find(poll.fd) {
        record.set(CHECK_LINE, true);
        if stream::has_error(record) {
            poll.revents |= libc::POLLERR;
        }
        poll.revents |= lost::events_of(record, poll.revents);
    }
}

/// Whether the kernel calls anything ready; asks without a change of the program's answers.
fn kernel_has_any(fds: &[pollfd]) -> bool {
    const FEW: usize = 64;
    if fds.len() > FEW {
        return false;
    }
    let mut copy = [pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; FEW];
    copy[..fds.len()].copy_from_slice(fds);
    // SAFETY: the copies are ours.
    unsafe { real::poll(copy.as_mut_ptr(), fds.len() as libc::nfds_t, 0) > 0 }
}

/// `None` if something has come before it slept.
#[inline(never)]
fn sleep_in_poll<const N: usize>(
    fds: &mut [pollfd],
    deadline: Deadline,
    mask: *const sigset_t,
) -> Option<c_int> {
    let mut sleepers = Sleepers::<N>::none();
    let mut sets = fds.iter().filter(|poll| wants_set(poll));
    if !sets.all(|set| sleepers.add_set(set.fd, 0)) {
        return None;
    }
    if !fds
        .iter()
        .filter_map(|poll| Some((poll.fd, wants_in(poll)?)))
        .all(|(fd, record)| sleepers.add(fd, record, None))
    {
        return None;
    }
    let left = deadline.left();
    let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the slice has its length; time and mask live.
    Some(unsafe { real::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, left, mask) })
}

// ------------------------------------------------------------------------------------ epoll

/// As `epoll_pwait2`. `events` is the program's room for them.
pub fn epoll(
    set: c_int,
    events: &mut [epoll_event],
    deadline: Deadline,
    mask: *const sigset_t,
) -> c_int {
    let of_few = epoll_of::<FEW, FEW>(set, events, deadline, mask);
    let of_all = || epoll_of::<ACTIVE_MAX, SLEEPERS_MAX>(set, events, deadline, mask);
    of_few.or_else(of_all).unwrap_or(0)
}

/// What a wait looks at: a copy of the active ones of a set, made anew when another thread has changed
/// what there is to look at.
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
        epoll::active_of_wait(self.set, &mut self.active.borrow_mut())
    }

    /// Whether a ring has something; or there is more to look at than there is room for, after which
    /// the copy is empty.
    fn has_news(&self) -> bool {
        (self.changes.get().are_new() && !self.renew()) || self.rings_have_news()
    }

    /// Whether a ring of the copy has something.
    fn rings_have_news(&self) -> bool {
        let active = self.active.borrow();
        let ready = |(_, it): &(u32, Registration)| ring_ready(it).is_some();
        active.iter().any(ready) || inner_rings(&active, 0)
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
    let _waiting = epoll::waiting(set);
    let view = View::<N>::of(set);
    loop {
        if !view.renew() {
            return None;
        }
        let is_over = deadline.is_over();
        // Not with a new copy: a wait that is over must not end with an empty one.
        let in_rings = view.rings_have_news();
        let mut look = || {
            let (news, near) = (|| view.has_news(), || view.is_near());
            !view.active.borrow().is_empty()
                && spin.until_or(news, || deadline.is_over() || set_is_ready(set), near)
        };
        if is_over || in_rings || look() {
            let active = &view.active.borrow();
            if let Some(until_ns) = told::left_by_last(set).filter(|_| mask.is_null()) {
                let ready = told::add_rings(set, events, 0, active, until_ns);
                if ready > 0 {
                    return Some(ready as c_int);
                }
            }
            // First: see `told`.
            let until_ns = told::until_ns(&mut looks);
            // Who asks without waiting wants to know of all.
            if !is_over && mask.is_null() {
                let ready = told::add_rings_unasked(set, events, active, until_ns);
                if ready > 0 {
                    return Some(ready as c_int);
                }
            }
            let Some(told) = ask_kernel(set, events, mask) else {
                return Some(-1);
            };
            // What it had no room for may be older than what rings have by the next wait.
            told::note_asked(set, if told < events.len() { until_ns } else { 0 });
            let told = sift_epoll(set, &mut events[..told]);
            let ready = told::add_rings(set, events, told, active, until_ns);
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
        let sleeping = epoll::sleeping(set);
        // Again: those that the kernel has just told of for a token are active since.
        let active = &mut *view.active.borrow_mut();
        if !epoll::active_before_sleep(set, active) {
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
        let told = sift_all(set, &mut events[..slept.unsigned_abs() as usize]);
        if told > 0 {
            return Some(told as c_int);
        }
        restore_first(events, before);
        if slept == 0 && deadline.is_over() {
            return Some(0);
        }
    }
}

/// Where nothing is told, the program finds its first event as it was.
fn restore_first(events: &mut [epoll_event], before: Option<epoll_event>) {
    if let Some((first, before)) = events.first_mut().zip(before) {
        *first = before;
    }
}

/// What the kernel tells of a set without waiting, but for what the program does not want any
/// more. `None`: an error.
fn ask_kernel(set: c_int, events: &mut [epoll_event], mask: *const sigset_t) -> Option<usize> {
    loop {
        let told = usize::try_from(kernel_epoll(set, events, 0, mask)).ok()?;
        let left = epoll::late::sift(set, &mut events[..told]);
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

/// Takes away what the kernel has told and the program is not to be told; returns how many events
/// are left.
pub fn sift_all(set: c_int, events: &mut [epoll_event]) -> usize {
    let left = epoll::late::sift(set, events);
    sift_epoll(set, &mut events[..left])
}

/// Takes away what the kernel tells for mere tokens; returns how many events are left.
fn sift_epoll(set: c_int, events: &mut [epoll_event]) -> usize {
    let mut left = 0;
    for at in 0..events.len() {
        let mut event = events[at];
        if event.events & EPOLL_IN != 0 && let_through(set, event) == Readiness::Not {
            event.events &= !EPOLL_IN;
        }
        event.events &= !OF_RING;
        if event.events & EPOLL_ENDS != 0 {
            event.events |= of_end(set, event);
        }
        if event.events != 0 {
            event.events = claimed(set, event);
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

/// What of an event is told to the program: all, with what is in the ring besides if it is told one
/// time, or nothing if another thread has told it.
fn claimed(set: c_int, event: epoll_event) -> u32 {
    match epoll::claim(set, event.u64) {
        Claim::Free => event.events,
        Claim::Theirs => 0,
        Claim::Ours(registration) => {
            let ready = ring_ready(&registration);
            event.events | ready.map_or(0, |ready| ready.settled(&registration))
        }
    }
}

/// What is told besides of a socket whose end is told. The next read looks at the line.
fn of_end(set: c_int, event: epoll_event) -> u32 {
    let woken = epoll::woken(set, event.u64);
    let Some(record) = woken.and_then(|(_, registration)| registration.socket()) else {
        return 0;
    };
    record.set(CHECK_LINE, true);
    let error = if stream::has_error(record) {
        libc::POLLERR
    } else {
        0
    };
    // They have the same numbers.
    (error | lost::events_of(record, event.events as i16)) as u32
}

fn let_through(set: c_int, event: epoll_event) -> Readiness {
    let kernel_says_so = event.events & OF_RING == 0;
    let Some((index, registration)) = epoll::woken(set, event.u64) else {
        return Readiness::Ready;
    };
    let Some(record) = registration
        .socket()
        .filter(|record| record.state() == State::Up)
    else {
        return Readiness::Ready;
    };
    stream::in_vain::wait_is_seen(record);
    let head = incoming(record).head(&record.carrier());
    let mut readiness = settle(registration.fd, record, kernel_says_so);
    let is_read_only = event.events & !(EPOLL_IN | OF_RING) == 0;
    if readiness == Readiness::Ready && is_read_only && is_told_edge(record, &registration, head) {
        readiness = Readiness::Not;
    }
    if readiness == Readiness::Ready {
        epoll::saw(index, &registration, head);
    } else if event.events & EPOLL_ENDS != 0 {
        return Readiness::Ready;
    } else if is_read_only {
        epoll::listen_again(index, &registration);
    }
    readiness
}

/// Whether what the kernel tells at an edge is a wake-up byte for bytes of the ring that the program was told of
/// before it came. The end of the stream is no such thing, also where the program wants to hear of bytes only.
fn is_told_edge(record: &Record, registration: &Registration, head: u64) -> bool {
    registration.events & libc::EPOLLET as u32 != 0
        && registration.head_told == head
        && incoming(record).has_tokens_only(&record.carrier())
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
    epoll::rest(active);
    Some(match deadline.left().filter(|_| deadline.is_exact) {
        Some(left) => kernel_epoll_exactly(set, events, &left, mask),
        None => kernel_epoll(set, events, deadline.left_ms(), mask),
    })
}
