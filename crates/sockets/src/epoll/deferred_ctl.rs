//! Changes of a set that the kernel hears of late, or never.
//!
//! Many programs wait for a socket to be writable only while they have something to write: with
//! each request they change its registration several times. While the socket is on board the waits
//! of this process tell by themselves when it is readable or writable, so the kernel needs to
//! know only when somebody is about to sleep on the set, and then often nothing has changed.
//!
//! A registration is *late* while the kernel has another form of it than the program wants, or
//! has it although the program has taken it out. Late are only registrations that are active,
//! told by level, and alone with their data, in sets that nobody waits on and that only waits
//! of this process look at. What the kernel tells of a late one is held against what the
//! program wants. The kernel is told before a wait sleeps, and before anybody else may look:
//! at a fork, when another program begins, when a descriptor is closed or given away.
//!
//! The same the other way: a thread that sleeps on a set is woken by having the kernel tell it
//! that a socket is writable, which nobody has asked for.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use libc::epoll_event;

use crate::epoll::locked::{number_now, tables};
use crate::epoll::tables::{LATE, REGISTERED, Registration, Tables};
use crate::process::{fault, ids};
use crate::system::real;
use crate::table::directions;
use crate::table::socket_state::Record;
use crate::table::state::State;

const EVENT_BYTES: usize = size_of::<epoll_event>();

/// What our waits tell of a socket on board by themselves.
const OURS: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
/// What the kernel tells in any case.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Told by level, and no more to it.
const PLAIN: u32 = OURS | ALWAYS | libc::EPOLLRDHUP as u32;

/// Beside "readable" in an event: the kernel has not said so, but the ring may have something. No
/// event of the kernel's has this bit.
pub const OF_RING: u32 = 1 << 26;

impl Registration {
    /// Writable: what our waits tell because the kernel does not know that it is asked for.
    pub const fn late_out(&self) -> u32 {
        self.events & !self.told_kernel & (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32
    }

    /// Readable: the kernel does not know that it is asked for, and cannot tell of the line.
    const fn late_in(&self) -> u32 {
        self.events & !self.told_kernel & (libc::EPOLLIN | libc::EPOLLRDNORM) as u32
    }

    /// Whether the kernel tells that it is writable, to wake a thread.
    const fn is_loud(&self) -> bool {
        !self.removed && self.told_kernel & !self.events & libc::EPOLLOUT as u32 != 0
    }

    /// Of one that is loud: readable, if it may be. That is what the kernel tells for. What the line
    /// has, it tells as well.
    fn news(&self, told: u32) -> u32 {
        let reads = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
        let up = self.socket().filter(|record| record.state() == State::Up);
        let asks = self.is_loud() && self.events & reads != 0 && told & reads == 0;
        if asks && up.is_some_and(directions::is_ready) {
            self.events & reads | OF_RING
        } else {
            0
        }
    }

    /// Whether `events` differ from what the kernel has only in what we tell by ourselves.
    const fn may_want(&self, events: u32) -> bool {
        let differ = (events ^ self.told_kernel) & !ALWAYS;
        (events | self.told_kernel) & !PLAIN == 0 && differ & !OURS == 0
    }
}

/// Whether any registration is late.
pub fn has_any() -> bool {
    LATE.load(Ordering::Relaxed) != 0
}

impl Tables {
    /// `epoll_ctl` on a socket, if the kernel need not hear of it now. With the error, if the
    /// kernel would give one. `None`: it is the kernel's; it is told before what it does not know of
    /// the registration.
    ///
    /// # Safety
    /// `event` is null or the program's.
    pub unsafe fn change_late(
        &mut self,
        set_fd: c_int,
        operation: c_int,
        fd: c_int,
        record: &Record,
        event: *const epoll_event,
    ) -> Option<Result<(), c_int>> {
        let set = self.set_number(set_fd)?;
        let index = self.registration_of(set, record, fd)?;
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
        if !self.may_be_late(index, record, wanted) {
            self.tell_kernel(index);
            return None;
        }
        self.set_late(index, wanted);
        Some(Ok(()))
    }

    fn may_be_late(&mut self, index: usize, record: &Record, wanted: Option<epoll_event>) -> bool {
        let registration = self.registrations[index];
        let set = &self.sets[registration.set as usize];
        let count = self.counters(registration.set);
        // SeqCst: partner: the counts in Counted. Who waits has copied what it looks at.
        let is_watched =
            count.waiting.load(Ordering::SeqCst) | count.sleeping.load(Ordering::SeqCst);
        if set.eager || is_watched != 0 || record.state() != State::Up {
            return false;
        }
        if registration.ambiguous || registration.stray || !self.activate(index) {
            return false;
        }
        wanted.is_none_or(|event| {
            let (events, data) = (event.events, event.u64);
            let writes = events & !registration.told_kernel & !libc::EPOLLIN as u32 & OURS != 0;
            data == registration.data
                && registration.may_want(events)
                && (!writes || directions::goes_through_ring(record))
        })
    }

    fn set_late(&mut self, index: usize, wanted: Option<epoll_event>) {
        let registration = &mut self.registrations[index];
        let before = registration.is_late();
        registration.removed = wanted.is_none();
        registration.events = wanted.map_or(0, |event| event.events);
        match (before, registration.is_late()) {
            (false, true) => LATE.fetch_add(1, Ordering::Relaxed),
            (true, false) => LATE.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Wakes a thread that sleeps on a set of this registration's: the kernel tells that the socket
    /// is writable. If the program wants to know that, it has been told.
    fn shout(&mut self, index: usize) {
        let registration = self.registrations[index];
        let sleeps = self
            .counters(registration.set)
            .sleeping
            .load(Ordering::SeqCst)
            > 0;
        let reads = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
        let hears = registration.events & reads != 0 && !registration.silent;
        if !sleeps || !hears || registration.removed || registration.is_loud() {
            return;
        }
        let loud = registration.events | libc::EPOLLOUT as u32;
        if loud == registration.events {
            return;
        }
        // First: the thread that is woken looks whether there are late ones.
        self.registrations[index].told_kernel = loud;
        if !registration.is_late() {
            LATE.fetch_add(1, Ordering::SeqCst);
        }
        if !self.modify(index, loud) {
            self.kernel_knows(index);
        }
    }

    /// Tells the kernel what to wait for.
    pub fn modify(&self, index: usize, events: u32) -> bool {
        let registration = &self.registrations[index];
        let mut event = epoll_event {
            events,
            u64: registration.data,
        };
        let set_fd = self.sets[registration.set as usize].fd;
        // SAFETY: the event lives.
        let mut tell = |operation| unsafe {
            real::epoll_ctl(set_fd, operation, registration.fd, &raw mut event) == 0
        };
        if events & libc::EPOLLEXCLUSIVE as u32 == 0 {
            return tell(libc::EPOLL_CTL_MOD);
        }
        // That the kernel does not change in place.
        tell(libc::EPOLL_CTL_DEL) && tell(libc::EPOLL_CTL_ADD)
    }

    /// Has the kernel tell again what holds now, if it tells by edge. Who is told once asks by itself.
    pub fn ask_again(&self, index: usize) {
        let events = self.registrations[index].told_kernel;
        let edge = (libc::EPOLLET | libc::EPOLLOUT) as u32;
        if events & (edge | libc::EPOLLONESHOT as u32) == edge {
            self.modify(index, events);
        }
    }

    /// Tells the kernel what it does not know of a registration. One that the program has taken
    /// out is gone after that.
    pub fn tell_kernel(&mut self, index: usize) {
        let registration = self.registrations[index];
        if !registration.is_late() {
            return;
        }
        // If it fails, the program has closed one of them past us: the kernel has let go of it.
        let saved = real::errno();
        if registration.removed {
            let set_fd = self.sets[registration.set as usize].fd;
            let (operation, none) = (libc::EPOLL_CTL_DEL, core::ptr::null_mut());
            // SAFETY: no event is read.
            unsafe { real::epoll_ctl(set_fd, operation, registration.fd, none) };
            self.remove(index);
        } else {
            self.modify(index, registration.events);
            self.kernel_knows(index);
        }
        real::set_errno(saved);
    }

    fn kernel_knows(&mut self, index: usize) {
        self.forget_late(index);
        let registration = &mut self.registrations[index];
        registration.told_kernel = registration.events;
    }

    /// Holds what the kernel tells of the registration with these data against what the program wants.
    fn sift_any(&mut self, set: u32, data: u64, told: u32) -> u32 {
        match self.find(set, data) {
            Some(index) if self.registrations[index].ambiguous => {
                self.sift_ambiguous(set, data, told)
            }
            Some(index) if self.registrations[index].is_late() => self.sift(index, told),
            _ => told,
        }
    }

    /// As above, of several with the same data. What makes them late is that some are loud.
    fn sift_ambiguous(&self, set: u32, data: u64, told: u32) -> u32 {
        let set = &self.sets[set as usize];
        let active = set.active[..set.active_count as usize].iter();
        let (mut is_any_loud, mut also) = (false, 0);
        for registration in active.map(|&index| &self.registrations[index as usize]) {
            if registration.data == data {
                is_any_loud |= registration.is_loud();
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
    fn sift(&mut self, index: usize, told: u32) -> u32 {
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
    pub fn tell_kernel_of_set(&mut self, set: u32) {
        // From the end: what is taken out has the last one put in its place.
        for at in (0..self.sets[set as usize].active_count as usize).rev() {
            self.tell_kernel(self.sets[set as usize].active[at] as usize);
        }
    }

    /// As above, of those in a set that a wait is about to ask the kernel of: those that were taken
    /// out, of which it might tell while another thread frees what they stand for; those that
    /// are to be read, since bytes may come over the line; and those whose socket has left the
    /// ring, of which our waits cannot tell that it is writable.
    pub fn tell_kernel_of_those_that_it_serves(&mut self, set: u32) {
        if LATE.load(Ordering::Relaxed) == 0 {
            return;
        }
        for at in (0..self.sets[set as usize].active_count as usize).rev() {
            let index = self.sets[set as usize].active[at] as usize;
            let registration = &self.registrations[index];
            let up = registration.socket().filter(|it| it.state() == State::Up);
            let tells =
                |record| registration.late_out() == 0 || directions::goes_through_ring(record);
            let waits_for_line = registration.late_in() != 0;
            let is_ours = !registration.removed && !waits_for_line && up.is_some_and(tells);
            if registration.is_late() && !is_ours {
                self.tell_kernel(index);
            }
        }
    }

    /// As above, of all of a socket.
    pub fn tell_kernel_of(&mut self, record: &Record) {
        let mut next = self.of_record[record.number() as usize];
        while let Some(index) = next.checked_sub(1) {
            next = self.registrations[index as usize].next;
            self.tell_kernel(index as usize);
        }
    }

    /// From now on the kernel is told of each change of a set at once.
    pub fn make_eager(&mut self, set: u32) {
        self.tell_kernel_of_set(set);
        self.sets[set as usize].eager = true;
    }

    /// Another process is about to have all sets, too.
    pub fn make_all_eager(&mut self) {
        for set in 0..self.sets_used as u32 {
            self.make_eager(set);
        }
    }
}

/// Somebody else than a wait on this very set may look at it: from now on the kernel is told of
/// each change at once. Returns whether it is a set that we know.
pub fn is_looked_at(set_fd: c_int) -> bool {
    if REGISTERED.load(Ordering::SeqCst) == 0 {
        return false;
    }
    let Some(number) = number_now(set_fd) else {
        return false;
    };
    if let Some(mut locked) = tables() {
        if !locked.sets[number as usize].eager {
            locked.make_eager(number);
        }
    }
    true
}

/// There are bytes in the ring of a socket, and threads may sleep on sets that it is in.
pub fn shout(record: &Record) {
    let Some(mut locked) = tables() else { return };
    let mut next = locked.of_record[record.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        locked.shout(index as usize);
        next = locked.registrations[index as usize].next;
    }
}

/// Another program is about to begin. It has the sets that do not close by themselves from now
/// on, and any that are duplicated for it.
pub fn before_another_program() {
    // A child made by vfork has its parent's tables, and descriptors that may be others since.
    if REGISTERED.load(Ordering::Relaxed) == 0 || ids::is_borrower() {
        return;
    }
    let Some(mut locked) = tables() else { return };
    for set in 0..locked.sets_used as u32 {
        // SAFETY: no pointers.
        let flags = unsafe { real::fcntl(locked.sets[set as usize].fd, libc::F_GETFD, 0) };
        locked.tell_kernel_of_set(set);
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            locked.make_eager(set);
        }
    }
}

/// Takes away from what the kernel has told of a set what the program does not want any more.
/// Returns how many events are left. The kernel is told, if it told what nobody wants.
pub fn sift(set_fd: c_int, events: &mut [epoll_event]) -> usize {
    // SeqCst: partner: the count in shout. What else is made late meanwhile, the kernel may have
    // told before.
    if events.is_empty() || LATE.load(Ordering::SeqCst) == 0 {
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
        event.events = tables.sift_any(set, event.u64, event.events);
        if event.events != 0 {
            events[left] = event;
            left += 1;
        }
    }
    if left < events.len() {
        tables.tell_kernel_of_set(set);
    }
    left
}
