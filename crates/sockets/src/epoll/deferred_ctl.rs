//! Deferred `epoll_ctl`: the library tells the kernel of a change to an epoll set only before a thread sleeps
//! on the set, or never.
//!
//! Many programs wait for a socket to be writable only while they have something to write, so they
//! change its registration several times with each request. While the socket is upgraded, the waits
//! of this process find out by themselves whether it is readable or writable. The kernel needs the
//! change only when a thread is about to sleep on the set, and by then it has often been undone.
//!
//! A registration is *deferred* while the kernel's form of it differs from what the program wants, or
//! while the kernel still has it although the program has taken it out. All of this must hold for a
//! registration to be deferred:
//!
//! - it is active and level-triggered, and no other registration in its set has the same `data`;
//! - no thread waits on the set at this moment;
//! - only waits of this process watch the set.
//!
//! Events that the kernel reports for a deferred registration are filtered by what the program wants.
//! The kernel is brought up to date before a wait sleeps, and before anybody else may watch the set: at a
//! fork, before another program begins, when a descriptor is closed or handed off.
//!
//! The same mechanism wakes a thread that sleeps on a set: the kernel is told to report that the
//! socket is writable, which the program has not asked for.

use core::ffi::c_int;

use barewire_calls::descriptor;
use libc::epoll_event;

use crate::epoll::locked::{number_now, tables};
use crate::epoll::tables::{
    Registration, Tables, are_deferred, are_deferred_now, are_registered, are_registered_now,
    count_deferred, count_deferred_to_wake, uncount_deferred,
};
use crate::process::{fault, ids};
use crate::system::kernel;
use crate::table::directions;
use crate::table::socket_state::SocketState;
use crate::table::state::State;

const EVENT_BYTES: usize = size_of::<epoll_event>();

/// Events that the waits of this process find out by themselves for an upgraded socket.
const OURS: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
/// Events that the kernel always reports.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Level-triggered events, and nothing else.
const PLAIN: u32 = OURS | ALWAYS | libc::EPOLLRDHUP as u32;

/// Set beside "readable" in an event: the kernel has not reported it, but the ring may have something. No
/// event of the kernel has this bit.
pub const OF_RING: u32 = 1 << 26;

impl Registration {
    /// Writable: waits report it, because the kernel does not know that it is wanted.
    pub const fn deferred_out(&self) -> u32 {
        self.events & !self.kernel_events & (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32
    }

    /// Readable: the kernel does not know that it is wanted, and so cannot report the kernel connection.
    const fn deferred_in(&self) -> u32 {
        self.events & !self.kernel_events & (libc::EPOLLIN | libc::EPOLLRDNORM) as u32
    }

    /// Whether the kernel is told to report that it is writable, to wake a thread.
    const fn is_forced_writable(&self) -> bool {
        !self.removed && self.kernel_events & !self.events & libc::EPOLLOUT as u32 != 0
    }

    /// Of one that is loud: readable, if it may be. That is what the kernel tells for. What the kernel
    /// connection has, it tells as well.
    fn news(&self, told: u32) -> u32 {
        let reads = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
        let up = self
            .socket()
            .filter(|socket| socket.state() == State::Upgraded);
        let asks = self.is_forced_writable() && self.events & reads != 0 && told & reads == 0;
        if asks && up.is_some_and(directions::is_ready) {
            self.events & reads | OF_RING
        } else {
            0
        }
    }

    /// Whether `events` differ from the kernel's only in what waits find out by themselves.
    const fn may_want(&self, events: u32) -> bool {
        let differ = (events ^ self.kernel_events) & !ALWAYS;
        (events | self.kernel_events) & !PLAIN == 0 && differ & !OURS == 0
    }
}

impl Tables {
    /// `epoll_ctl` on a socket, if the kernel need not hear of it now. With the error, if the
    /// kernel would give one. `None`: it is the kernel's; it is told before what it does not know of
    /// the registration.
    ///
    /// # Safety
    /// `event` is null or the program's.
    pub unsafe fn defer_change(
        &mut self,
        set_fd: c_int,
        operation: c_int,
        fd: c_int,
        socket: &SocketState,
        event: *const epoll_event,
    ) -> Option<Result<(), c_int>> {
        let set = self.set_number(set_fd)?;
        let index = self.registration_of(set, socket, fd)?;
        let removed = self.registrations[index].removed;
        let is_read = operation != libc::EPOLL_CTL_DEL && fault::can_read(event, EVENT_BYTES);
        // SAFETY: it is there. If it is not, the kernel tells.
        let event = is_read.then(|| unsafe { event.read_unaligned() });
        let wanted = match (operation, event) {
            (libc::EPOLL_CTL_DEL, _) if !removed => None,
            (libc::EPOLL_CTL_MOD, Some(event)) if !removed => Some(event),
            (libc::EPOLL_CTL_ADD, Some(event)) if removed => Some(event),
            (libc::EPOLL_CTL_DEL, _) | (libc::EPOLL_CTL_MOD, Some(_)) => {
                return Some(Err(libc::ENOENT));
            }
            // An error, which the kernel gives.
            _ => return None,
        };
        if !self.may_defer(index, socket, wanted) {
            self.update_kernel(index);
            return None;
        }
        self.defer(index, wanted);
        Some(Ok(()))
    }

    fn may_defer(
        &mut self,
        index: usize,
        socket: &SocketState,
        wanted: Option<epoll_event>,
    ) -> bool {
        let registration = self.registrations[index];
        let set = &self.sets[registration.set as usize];
        let count = self.counters(registration.set);
        // Who waits has copied what it looks at.
        let is_watched = count.waiting.are_any() || count.sleeping.are_any();
        if set.eager || is_watched || socket.state() != State::Upgraded {
            return false;
        }
        if registration.ambiguous || registration.stray || !self.activate(index) {
            return false;
        }
        wanted.is_none_or(|event| {
            let (events, data) = (event.events, event.u64);
            let writes = events & !registration.kernel_events & !libc::EPOLLIN as u32 & OURS != 0;
            data == registration.data
                && registration.may_want(events)
                && (!writes || directions::goes_through_ring(socket))
        })
    }

    fn defer(&mut self, index: usize, wanted: Option<epoll_event>) {
        let registration = &mut self.registrations[index];
        let before = registration.is_deferred();
        registration.removed = wanted.is_none();
        registration.events = wanted.map_or(0, |event| event.events);
        match (before, registration.is_deferred()) {
            (false, true) => count_deferred(),
            (true, false) => uncount_deferred(),
            _ => {}
        }
    }

    /// There are bytes in the ring of a socket, and threads may sleep on sets that it is in: wakes them.
    fn wake_sleepers(&mut self, index: usize) {
        let registration = self.registrations[index];
        let sleeps = self.counters(registration.set).sleeping.are_any();
        let reads = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
        let hears = registration.events & reads != 0 && !registration.silent;
        if !sleeps || !hears || registration.removed || registration.is_forced_writable() {
            return;
        }
        let loud = registration.events | libc::EPOLLOUT as u32;
        if loud == registration.events {
            return;
        }
        // First: the thread that is woken looks whether there are late ones.
        self.registrations[index].kernel_events = loud;
        if !registration.is_deferred() {
            count_deferred_to_wake();
        }
        if !self.modify(index, loud) {
            self.kernel_knows(index);
        }
    }

    /// Changes what the kernel waits for.
    pub fn modify(&self, index: usize, events: u32) -> bool {
        let registration = &self.registrations[index];
        let set_fd = self.sets[registration.set as usize].fd;
        let (fd, data) = (registration.fd, registration.data);
        let tell = |operation| kernel::change_set(set_fd, operation, fd, events, data);
        if events & libc::EPOLLEXCLUSIVE as u32 == 0 {
            return tell(libc::EPOLL_CTL_MOD);
        }
        // That the kernel does not change in place.
        tell(libc::EPOLL_CTL_DEL) && tell(libc::EPOLL_CTL_ADD)
    }

    /// Makes the kernel report again what holds now, if the registration is edge-triggered. A one-shot
    /// program asks by itself.
    pub fn ask_again(&self, index: usize) {
        let events = self.registrations[index].kernel_events;
        let edge = (libc::EPOLLET | libc::EPOLLOUT) as u32;
        if events & (edge | libc::EPOLLONESHOT as u32) == edge {
            self.modify(index, events);
        }
    }

    /// Tells the kernel what it does not know of a registration. One that the program has taken out is gone
    /// after that.
    pub fn update_kernel(&mut self, index: usize) {
        let registration = self.registrations[index];
        if !registration.is_deferred() {
            return;
        }
        // If it fails, the program has closed one of them past us: the kernel has let go of it.
        if registration.removed {
            let set_fd = self.sets[registration.set as usize].fd;
            kernel::change_set(set_fd, libc::EPOLL_CTL_DEL, registration.fd, 0, 0);
            self.remove(index);
        } else {
            self.modify(index, registration.events);
            self.kernel_knows(index);
        }
    }

    fn kernel_knows(&mut self, index: usize) {
        self.forget_deferred(index);
        let registration = &mut self.registrations[index];
        registration.kernel_events = registration.events;
    }

    /// Holds what the kernel tells of the registration with these data against what the program wants.
    fn filter_any(&mut self, set: u32, data: u64, told: u32) -> u32 {
        match self.find(set, data) {
            Some(index) if self.registrations[index].ambiguous => {
                self.filter_ambiguous(set, data, told)
            }
            Some(index) if self.registrations[index].is_deferred() => {
                self.filter_deferred(index, told)
            }
            _ => told,
        }
    }

    /// As above, of several with the same data. What makes them late is that some are loud.
    fn filter_ambiguous(&self, set: u32, data: u64, told: u32) -> u32 {
        let set = &self.sets[set as usize];
        let active = set.active[..set.active_count as usize].iter();
        let (mut is_any_loud, mut also) = (false, 0);
        for registration in active.map(|&index| &self.registrations[index as usize]) {
            if registration.data == data {
                is_any_loud |= registration.is_forced_writable();
                also |= registration.events & libc::EPOLLOUT as u32 & told;
                also |= registration.news(told);
            }
        }
        match is_any_loud {
            true => told & !(libc::EPOLLOUT as u32) | also,
            false => told,
        }
    }

    /// Holds what the kernel tells of a late registration against what the program wants.
    fn filter_deferred(&mut self, index: usize, told: u32) -> u32 {
        let registration = self.registrations[index];
        if registration.removed {
            return 0;
        }
        let wanted = told & (registration.events | ALWAYS) | registration.news(told);
        if registration.is_once() && wanted != 0 {
            // The kernel tells no more: to tell it now would be to ask again.
            self.kernel_knows(index);
        }
        wanted
    }

    /// As above, of all in a set.
    pub fn update_kernel_of_set(&mut self, set: u32) {
        // From the end: what is taken out has the last one put in its place.
        for at in (0..self.sets[set as usize].active_count as usize).rev() {
            self.update_kernel(self.sets[set as usize].active[at] as usize);
        }
    }

    /// As above, of those in a set that a wait is about to ask the kernel for: those that were taken out,
    /// which it might report while another thread frees what they stand for; those that are to be read,
    /// since bytes may come over the kernel connection; and those whose socket has left the ring, for which
    /// waits cannot tell that it is writable.
    pub fn update_kernel_before_poll(&mut self, set: u32) {
        if !are_deferred() {
            return;
        }
        for at in (0..self.sets[set as usize].active_count as usize).rev() {
            let index = self.sets[set as usize].active[at] as usize;
            let registration = &self.registrations[index];
            let up = registration
                .socket()
                .filter(|it| it.state() == State::Upgraded);
            let tells =
                |socket| registration.deferred_out() == 0 || directions::goes_through_ring(socket);
            let waits_for_line = registration.deferred_in() != 0;
            let is_ours = !registration.removed && !waits_for_line && up.is_some_and(tells);
            if registration.is_deferred() && !is_ours {
                self.update_kernel(index);
            }
        }
    }

    /// As above, of all of a socket.
    pub fn update_kernel_of(&mut self, socket: &SocketState) {
        let mut next = self.of_record[socket.number() as usize];
        while let Some(index) = next.checked_sub(1) {
            next = self.registrations[index as usize].next;
            self.update_kernel(index as usize);
        }
    }

    /// From now on the kernel is told of each change of a set at once.
    pub fn make_immediate(&mut self, set: u32) {
        self.update_kernel_of_set(set);
        self.sets[set as usize].eager = true;
    }

    /// Another process is about to have all sets, too.
    pub fn make_all_immediate(&mut self) {
        for set in 0..self.sets_used as u32 {
            self.make_immediate(set);
        }
    }
}

/// Somebody other than a wait on this very set may watch it: from now on the kernel is told of each change
/// at once. Returns whether it is a known set.
pub fn note_other_watcher(set_fd: c_int) -> bool {
    if !are_registered_now() {
        return false;
    }
    let Some(number) = number_now(set_fd) else {
        return false;
    };
    if let Some(mut locked) = tables() {
        if !locked.sets[number as usize].eager {
            locked.make_immediate(number);
        }
    }
    true
}

/// There are bytes in the ring of a socket, and threads may sleep on sets that it is in.
pub fn wake_sleepers(socket: &SocketState) {
    let Some(mut locked) = tables() else { return };
    let mut next = locked.of_record[socket.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        locked.wake_sleepers(index as usize);
        next = locked.registrations[index as usize].next;
    }
}

/// Another program is about to begin. It has the sets that do not close by themselves from now
/// on, and any that are duplicated for it.
pub fn before_another_program() {
    // A child made by vfork has its parent's tables, and descriptors that may be others since.
    if !are_registered() || ids::is_vfork_child() {
        return;
    }
    let Some(mut locked) = tables() else { return };
    for set in 0..locked.sets_used as u32 {
        let is_inherited = descriptor::is_inherited(locked.sets[set as usize].fd);
        locked.update_kernel_of_set(set);
        if is_inherited == Ok(true) {
            locked.make_immediate(set);
        }
    }
}

/// Takes away from what the kernel has told of a set what the program does not want any more.
/// Returns how many events are left. The kernel is told, if it told what nobody wants.
pub fn filter_events(set_fd: c_int, events: &mut [epoll_event]) -> usize {
    // What is made late meanwhile, but not to wake this thread, the kernel may have told before.
    if events.is_empty() || !are_deferred_now() {
        return events.len();
    }
    let Some(mut locked) = tables() else {
        return events.len();
    };
    let tables = &mut *locked;
    let Some(set) = tables.set_number(set_fd) else {
        return events.len();
    };
    let mut left = 0;
    for at in 0..events.len() {
        let mut event = events[at];
        event.events = tables.filter_any(set, event.u64, event.events);
        if event.events != 0 {
            events[left] = event;
            left += 1;
        }
    }
    if left < events.len() {
        tables.update_kernel_of_set(set);
    }
    left
}
