//! Epoll sets: which upgraded sockets are in them, so that a wait can poll their byte rings.
//!
//! The kernel's set stays as the program made it, and every wait still asks it. For each registration of
//! a socket that is upgraded, or may be, the library keeps the descriptor, the events and the
//! program's data. A wait polls the byte rings of *active* registrations only. Before it sleeps, it arms these
//! rings and makes their registrations inactive. From then on the kernel reports them, by a wake-up byte.
//! A registration that the kernel reports becomes active again.
//!
//! All of this belongs to one process. A child has a copy.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32};

use crate::epoll::locked::{self, LOCK, Locked, number_now, shared, tables};
use crate::epoll::tables::{
    ACTIVE_MAX, Claim, Counters, INNER_MAX, Inner, Registration, Threads, are_registered,
    are_registered_now, forget_registrations,
};
use crate::process::open_files;
use crate::process::words::Lone;
use crate::system::{kernel, own_descriptors};
use crate::table::descriptors;
use crate::table::flags::IN_PARENTS_SET;
use crate::table::socket_state::SocketState;
use crate::table::state::State;

/// Whether any was ever to be told of one time.
pub static ONCE: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));

/// Whether there was any set when this process, or one that it is a child of, forked.
static ANY: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));

/// This thread is about to fork: the tables stay as they are until it has.
pub fn begin_fork() {
    if let Some(mut locked) = tables() {
        if locked.sets_used > 0 {
            ANY.set(true);
            locked.make_all_immediate();
        }
        core::mem::forget(locked);
    }
}

/// It has.
pub fn end_fork() {
    LOCK.reset();
}

/// A child has one thread, and nobody else holds the lock.
#[inline]
pub fn after_fork() {
    LOCK.reset();
    if ANY.get() {
        inherit_all();
    }
}

#[cold]
fn inherit_all() {
    let Some(mut locked) = tables() else { return };
    for number in 0..locked.sets_used {
        let counters = locked.counters(number as u32);
        counters.sleeping.forget();
        counters.waiting.forget();
        locked.sets[number].is_inherited = true;
    }
}

/// Whether no set has a socket of ours.
pub fn has_none() -> bool {
    !are_registered()
}

/// For a process that waits in no set of ours, and gives the tables' memory back.
pub fn forget() {
    LOCK.reset();
    forget_registrations();
    locked::forget();
}

/// A set has been made. It is entered, so that it can be in other sets.
pub fn created(set_fd: c_int) {
    if let Some(mut locked) = tables() {
        locked.set_for(set_fd);
    }
}

/// From now on waits poll the ring of a socket. `false` if a set polls as many as it can, a thread sleeps
/// on one, or another process may: then the kernel is to report this socket.
pub fn now_upgraded(socket: &SocketState) -> bool {
    if socket.has(IN_PARENTS_SET) {
        return false;
    }
    if !are_registered() {
        return true;
    }
    let Some(mut locked) = tables() else {
        return false;
    };
    let mut all = true;
    let mut next = locked.of_record[socket.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        all &= locked.look_at(index as usize);
        next = locked.registrations[index as usize].next;
    }
    all
}

/// One of several descriptors of a socket is closed. The kernel still reports the socket, and the tables
/// need another descriptor of it.
pub fn descriptor_closed(socket: &SocketState, fd: c_int) {
    if !are_registered() {
        return;
    }
    let Some(other) = descriptors::any_descriptor(socket) else {
        return;
    };
    let Some(mut locked) = tables() else { return };
    locked.update_kernel_of(socket);
    let mut next = locked.of_record[socket.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        let registration = &mut locked.registrations[index as usize];
        if registration.fd == fd {
            registration.fd = other;
            registration.stray = true;
        }
        next = registration.next;
    }
}

/// The process is about to close its last descriptor of a socket.
pub fn socket_closed(socket: &SocketState) {
    if !are_registered() {
        return;
    }
    let Some(mut locked) = tables() else { return };
    // Others may have the socket: then the kernel does not take it out by itself.
    locked.update_kernel_of(socket);
    while let Some(index) = locked.of_record[socket.number() as usize].checked_sub(1) {
        locked.remove(index as usize);
    }
}

/// An edge-triggered program was told that there is no room, and the kernel connection has some: makes the
/// kernel report it again.
pub fn report_writable_again(socket: &SocketState) {
    if !are_registered() {
        return;
    }
    let Some(locked) = tables() else { return };
    let mut next = locked.of_record[socket.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        locked.ask_again(index as usize);
        next = locked.registrations[index as usize].next;
    }
}

/// Runs `replace`, which puts another socket in the place of `fd`, and moves the registrations of the old
/// one in all sets to it, with the same events and data. The kernel alone would keep the old one, because
/// another process has it. If that may be a process of the program (`is_shared`), inherited sets stay as
/// they are: it has them as well.
pub fn replaced(fd: c_int, socket: &SocketState, is_shared: bool, replace: impl FnOnce()) {
    let locked = match are_registered() {
        false => None,
        true => tables(),
    };
    let Some(mut locked) = locked else {
        return replace();
    };
    locked.update_kernel_of(socket);
    let tables = &*locked;
    let each = |operation: c_int| {
        let mut next = tables.of_record[socket.number() as usize];
        while let Some(index) = next.checked_sub(1) {
            let registration = &tables.registrations[index as usize];
            next = registration.next;
            if registration.fd != fd
                || (is_shared && tables.sets[registration.set as usize].is_inherited)
            {
                continue;
            }
            let set_fd = tables.sets[registration.set as usize].fd;
            kernel::change_set(
                set_fd,
                operation,
                fd,
                registration.events,
                registration.data,
            );
        }
    };
    each(libc::EPOLL_CTL_DEL);
    replace();
    each(libc::EPOLL_CTL_ADD);
}

/// A descriptor is closed; it may be a set.
pub fn set_closed(set_fd: c_int) {
    if !is_set(set_fd) {
        return;
    }
    let Some(mut locked) = tables() else { return };
    let tables = &mut *locked;
    let Some(number) = tables.set_number(set_fd) else {
        return;
    };
    tables.shared.name(set_fd.unsigned_abs() as usize, None);
    tables.sets[number as usize].used -= 1;
    // A duplicate keeps the set.
    if tables.sets[number as usize].used > 0 {
        let mut all = 0..tables.shared.set_of.len();
        let other = all.find(|&fd| tables.set_number(fd as c_int) == Some(number));
        tables.sets[number as usize].fd = other.map_or(-1, |fd| fd as c_int);
        return;
    }
    for index in 0..tables.used {
        let registration = &tables.registrations[index];
        if registration.socket != 0 && registration.set == number {
            tables.remove(index);
        }
    }
}

/// A set has a further descriptor.
pub fn set_duplicated(old: c_int, new: c_int) {
    if !is_set(old) {
        return;
    }
    let Some(mut locked) = tables() else { return };
    let tables = &mut *locked;
    let Some(number) = tables.set_number(old) else {
        return;
    };
    let place = new.unsigned_abs() as usize;
    if place < tables.shared.set_of.len() {
        tables.shared.name(place, Some(number));
        tables.sets[number as usize].used += 1;
        own_descriptors::note_highest(new);
    }
}

/// Whether a descriptor is a set with sockets of this library in it. Needs no lock: a registration at the
/// same time may be missed.
pub fn is_known(set_fd: c_int) -> bool {
    are_registered_now() && number_now(set_fd).is_some()
}

/// Whether a descriptor is a set, be it empty.
pub fn is_set(fd: c_int) -> bool {
    number_now(fd).is_some()
}

/// Whether the process has an epoll set that the library has not seen, so that its waits may be missed too.
#[cold]
pub fn has_unseen_set() -> bool {
    let Some(folder) = open_files::open(libc::AT_FDCWD, c"/proc/self/fd") else {
        return true;
    };
    open_files::any_number(folder.raw(), |number, name| {
        let is_set_of_kernel = open_files::leads_to(folder.raw(), name, b"anon_inode:[eventpoll]");
        is_set_of_kernel == Some(true) && c_int::try_from(number).is_ok_and(|fd| !is_set(fd))
    })
}

/// Counts a thread that waits or sleeps on a set, until it is dropped.
pub struct Counted(Option<&'static Threads>);

/// A thread begins to wait on a set.
pub fn waiting(set_fd: c_int) -> Counted {
    count(set_fd, |counters| &counters.waiting)
}

/// A thread is about to sleep on a set.
pub fn sleeping(set_fd: c_int) -> Counted {
    count(set_fd, |counters| &counters.sleeping)
}

/// What is counted of a set.
fn counters(set_fd: c_int) -> Option<&'static Counters> {
    let shared = shared()?;
    shared.counters.get(shared.set_number(set_fd)? as usize)
}

/// Counts one more.
fn count(set_fd: c_int, which: impl FnOnce(&'static Counters) -> &'static Threads) -> Counted {
    let threads = counters(set_fd).map(which);
    threads.inspect(|threads| threads.add());
    Counted(threads)
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(threads) = self.0 {
            threads.sub();
        }
    }
}

/// What there was to look at in a set when this was made.
#[derive(Clone, Copy)]
pub struct Changes {
    counter: Option<&'static Lone<AtomicU32>>,
    seen: u32,
}

impl Changes {
    /// From now on.
    pub fn of(set_fd: c_int) -> Self {
        let counter = counters(set_fd).map(|counters| &counters.changes);
        let mut changes = Self { counter, seen: 0 };
        changes.seen = changes.now();
        changes
    }

    fn now(self) -> u32 {
        // Counted in `Counters::note_change`. What is to be looked at is copied under the lock.
        self.counter.map_or(0, Lone::get)
    }

    /// Whether there is something new to look at.
    pub fn are_new(self) -> bool {
        self.now() != self.seen
    }
}

/// Copies of the active registrations of a set, up to `N`, and of the sets in it. On the program's
/// stack, which may be small: so where few will do, there is room for few.
pub struct Active<const N: usize> {
    inner: [Inner; INNER_MAX],
    inner_count: usize,
    entries: [MaybeUninit<(u32, Registration)>; N],
    count: usize,
}

/// Fills `into` with the active registrations of a set. `false`, and nothing is done: they are too many,
/// which they are never for [`ACTIVE_MAX`].
#[must_use]
pub fn active<const N: usize>(set_fd: c_int, into: &mut Active<N>) -> bool {
    fill(set_fd, into, false, true)
}

/// As [`active`]; `false`, too, if there are sets in the set, unless there is room for all.
#[must_use]
pub fn active_of_wait<const N: usize>(set_fd: c_int, into: &mut Active<N>) -> bool {
    fill(set_fd, into, false, N == ACTIVE_MAX)
}

/// As [`active`], and the kernel knows all of the set after that: for a thread that is counted as
/// about to sleep on it.
#[must_use]
pub fn active_before_sleep<const N: usize>(set_fd: c_int, into: &mut Active<N>) -> bool {
    fill(set_fd, into, true, N == ACTIVE_MAX)
}

fn fill<const N: usize>(
    set_fd: c_int,
    into: &mut Active<N>,
    sleeps: bool,
    takes_inner: bool,
) -> bool {
    into.count = 0;
    into.inner_count = 0;
    let Some(mut tables) = tables() else {
        return true;
    };
    let Some(number) = tables.set_number(set_fd) else {
        return true;
    };
    if sleeps {
        tables.update_kernel_of_set(number);
    } else {
        tables.update_kernel_before_poll(number);
    }
    let set = &tables.sets[number as usize];
    let active = &set.active[..set.active_count as usize];
    if active.len() > N || (!takes_inner && set.inner_count > 0) {
        return false;
    }
    into.inner = set.inner;
    into.inner_count = set.inner_count as usize;
    for &index in active {
        let registration = tables.registrations[index as usize];
        if !registration.removed {
            into.entries[into.count].write((index, registration));
            into.count += 1;
        }
    }
    true
}

impl<const N: usize> Active<N> {
    /// None.
    pub const fn empty() -> Self {
        Self {
            inner: [Inner {
                fd: -1,
                events: 0,
                data: 0,
            }; INNER_MAX],
            inner_count: 0,
            entries: [const { MaybeUninit::uninit() }; N],
            count: 0,
        }
    }

    /// The sets in it.
    pub fn inner(&self) -> &[Inner] {
        &self.inner[..self.inner_count]
    }

    /// Whether there is anything to look at.
    pub const fn is_empty(&self) -> bool {
        self.count == 0 && self.inner_count == 0
    }

    /// The one at this place, of those there are.
    pub fn nth(&self, nth: usize) -> &(u32, Registration) {
        // SAFETY: the first `count` were written.
        unsafe { self.entries[..self.count][nth].assume_init_ref() }
    }

    /// The registrations, each with its index.
    pub fn iter(&self) -> impl Iterator<Item = &(u32, Registration)> {
        // SAFETY: the first `count` were written.
        self.entries[..self.count]
            .iter()
            .map(|entry| unsafe { entry.assume_init_ref() })
    }
}

/// Holds the tables while a wait reports rings to the program.
pub struct Reporter(Option<Locked>);

/// Begins to report. No other function of this module may be called until that is over.
pub fn reporter() -> Reporter {
    Reporter(tables())
}

impl Reporter {
    /// The program is about to be told of a socket in the ring. `false` if it is not to be any more:
    /// another thread has changed the registration since it was copied, or was told of it.
    pub fn tell(&mut self, index: u32, copy: &Registration, head: u64, now_ns: u64) -> bool {
        let Some(tables) = &mut self.0 else {
            return true;
        };
        let registration = &mut tables.registrations[index as usize];
        if registration.is_another(copy) || registration.silent {
            return false;
        }
        let edge = registration.events & libc::EPOLLET as u32 != 0;
        if edge && registration.reported_head != copy.reported_head {
            return false;
        }
        registration.reported_head = head;
        registration.reported_ns = now_ns;
        if registration.is_once() {
            registration.silent = true;
            // Nor is the kernel to tell of it.
            tables.modify(index as usize, libc::EPOLLONESHOT as u32);
        }
        true
    }

    /// Which registration of a set has these data, if that can be told.
    pub fn registration(&self, set_fd: c_int, data: u64) -> Option<Registration> {
        let tables = self.0.as_ref()?;
        let index = tables.find(tables.set_number(set_fd)?, data)?;
        let registration = tables.registrations[index];
        (!registration.ambiguous).then_some(registration)
    }
}

/// The kernel reports a socket whose ring has had `head` bytes: they are not reported again.
pub fn note_reported(index: u32, copy: &Registration, head: u64) {
    let Some(mut locked) = tables() else { return };
    let registration = &mut locked.registrations[index as usize];
    if !registration.is_another(copy) {
        // Another thread may have seen more.
        registration.reported_head = registration.reported_head.max(head);
    }
}

/// The kernel has used up the one report of a one-shot registration, and the program is not told. So the
/// kernel is to report again, unless the program has changed the registration or was told.
pub fn rearm_one_shot(index: u32, copy: &Registration) {
    let Some(locked) = tables() else { return };
    let registration = &locked.registrations[index as usize];
    if registration.is_once() && !registration.silent && !registration.is_another(copy) {
        locked.modify(index as usize, registration.events);
    }
}

/// The kernel has reported the registration with these data, and the program is about to be told.
pub fn claim(set_fd: c_int, data: u64) -> Claim {
    // A registration that others make meanwhile the kernel has not told of.
    if !ONCE.get() {
        return Claim::Free;
    }
    tables().map_or(Claim::Free, |mut locked| locked.claim(set_fd, data))
}

/// A wait is about to sleep with these rings armed: from now on the kernel reports them.
pub fn deactivate_all<const N: usize>(active: &Active<N>) {
    let Some(mut locked) = tables() else { return };
    for (index, copy) in active.iter() {
        let registration = &locked.registrations[*index as usize];
        if !registration.is_another(copy) && !registration.is_deferred() {
            locked.deactivate(*index as usize);
        }
    }
}

/// The registration that the kernel reports, if that can be known. It is active from now on.
pub fn activate_woken(set_fd: c_int, data: u64) -> Option<(u32, Registration)> {
    let mut locked = tables()?;
    let tables = &mut *locked;
    let set = tables.set_number(set_fd)?;
    let index = tables.find(set, data)?;
    if tables.registrations[index].ambiguous {
        return None;
    }
    let registration = tables.registrations[index];
    if registration.socket()?.state() == State::Upgraded {
        tables.activate(index);
    }
    Some((index as u32, registration))
}
