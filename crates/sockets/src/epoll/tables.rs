//! The tables of sets and registrations, and what keeps them consistent. Used only under the lock of
//! `locked`.

use core::ffi::c_int;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use libc::epoll_event;

use crate::process::memory;
use crate::process::words::Lone;
use crate::system::own_descriptors;
use crate::table::limits::{DESCRIPTORS_MAX, SOCKETS_MAX};
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{directions, sockets};

/// Registrations there are, of all sets: without any, a wait is the kernel's alone. It changes under the lock.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

/// Whether there are registrations, for who looks for those of a socket. Who registers it meanwhile looks at its state
/// afterwards.
#[inline]
pub fn are_registered() -> bool {
    // Relaxed: a hint. The registrations are looked for under the lock.
    REGISTERED.load(Ordering::Relaxed) != 0
}

/// Whether there are registrations, for who is about to wait.
#[inline]
pub fn are_registered_now() -> bool {
    // SeqCst pairs with the count in `Tables::add`.
    REGISTERED.load(Ordering::SeqCst) != 0
}

/// Nobody else is there, and there are none any more.
pub fn forget_registrations() {
    // Relaxed: nobody else is there.
    REGISTERED.store(0, Ordering::Relaxed);
}

/// Whether a thread may tell the program of what is told one time.
pub enum Claim {
    /// It is no such thing, as far as is known.
    Free,
    /// It may, and no other.
    Ours(Registration),
    /// Another has, since the kernel told this one.
    Theirs,
}

/// Sets of one process.
const SETS_MAX: usize = 4096;
/// Registrations of one process.
const REGISTRATIONS_MAX: usize = 1 << 17;
/// A power of two, twice as many.
const BUCKETS: usize = REGISTRATIONS_MAX * 2;
/// Registrations of a set that are looked at in each wait; others are told of by the kernel.
pub const ACTIVE_MAX: usize = 512;

/// Late registrations, of all sets. It changes under the lock.
static DEFERRED: AtomicU32 = AtomicU32::new(0);

/// Whether any registration is deferred.
#[inline]
pub fn are_deferred() -> bool {
    // Relaxed: for who has the lock, or who has synchronized with the thread that deferred it.
    DEFERRED.load(Ordering::Relaxed) != 0
}

/// As [`are_deferred`], for who was woken.
#[inline]
pub fn are_deferred_now() -> bool {
    // SeqCst pairs with the count in `count_deferred_to_wake`, which comes before the kernel is told to wake.
    DEFERRED.load(Ordering::SeqCst) != 0
}

/// One registration is deferred from now on.
#[inline]
pub fn count_deferred() {
    // Relaxed: no thread waits on its set. Whoever does later has the lock first.
    DEFERRED.fetch_add(1, Ordering::Relaxed);
}

/// As [`count_deferred`], to wake threads that sleep on its set.
pub fn count_deferred_to_wake() {
    // SeqCst pairs with the load in `are_deferred_now`.
    DEFERRED.fetch_add(1, Ordering::SeqCst);
}

/// One is no longer.
#[inline]
pub fn uncount_deferred() {
    // Relaxed: who still finds it counted looks under the lock, and finds it gone.
    DEFERRED.fetch_sub(1, Ordering::Relaxed);
}

/// A bucket whose registration is gone; the search goes on behind it.
const GONE: u32 = u32::MAX;

/// A socket in a set.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Registration {
    /// The program's data.
    pub data: u64,
    /// Bytes ever in the ring when the program was last told of it: for edges.
    pub reported_head: u64,
    /// When that was.
    pub reported_ns: u64,
    /// The descriptor it was registered with.
    pub fd: c_int,
    /// The events, as the program asked for them.
    pub events: u32,
    /// The events, as the kernel has them: others while it has not been told yet, see `deferred_ctl`.
    pub kernel_events: u32,
    /// Number of the socket state plus 1; 0 if this place is free.
    pub socket: u32,
    pub generation: u32,
    pub set: u32,
    /// The next registration of the same socket state, plus 1.
    pub next: u32,
    pub active: bool,
    /// Another registration of the set has the same data: whose event it is cannot be told.
    pub ambiguous: bool,
    /// One-shot, and told: nothing until the program asks again.
    pub silent: bool,
    /// The program has taken it out of the set; the kernel has not been told yet.
    pub removed: bool,
    /// The descriptor that the kernel has it under is closed: it cannot be changed any more.
    pub stray: bool,
}

impl Registration {
    /// The socket, if it is still the one that was registered.
    pub fn socket(&self) -> Option<&'static SocketState> {
        let socket = sockets::by_number(self.socket.checked_sub(1)?);
        let same = socket.generation() == self.generation;
        same.then_some(socket)
    }
}

impl Registration {
    /// Whether the kernel has it otherwise than the program wants it.
    pub const fn is_deferred(&self) -> bool {
        self.removed || self.events != self.kernel_events
    }

    /// Whether it is told of one time, until the program asks again.
    pub const fn is_once(&self) -> bool {
        self.events & libc::EPOLLONESHOT as u32 != 0
    }

    /// Whether it is not what it was when `copy` was made.
    pub fn is_another(&self, copy: &Self) -> bool {
        let same =
            (self.socket, self.generation, self.set) == (copy.socket, copy.generation, copy.set);
        !same || self.data != copy.data || self.events != copy.events || self.removed
    }
}

/// A set in a set.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Inner {
    /// Its descriptor.
    pub fd: c_int,
    /// The events, as the program asked for them.
    pub events: u32,
    /// The program's data.
    pub data: u64,
}

/// Sets in one set that are looked at. Of more, the kernel tells alone.
pub const INNER_MAX: usize = 32;

/// A set.
#[repr(C)]
pub struct Set {
    /// Its descriptors; 0 if this place is free.
    pub used: u32,
    pub inner: [Inner; INNER_MAX],
    pub inner_count: u32,
    pub active: [u32; ACTIVE_MAX],
    pub active_count: u32,
    /// Registrations of this set.
    pub count: u32,
    /// One of its descriptors.
    pub fd: c_int,
    /// The kernel is told of each change at once: others than waits of this process may look at it.
    pub eager: bool,
    /// The process that this one is a child of has it as well.
    pub is_inherited: bool,
}

/// What is known of a set without the lock.
#[repr(C)]
pub struct Counters {
    /// How often there was something new to look at: whoever looks has a copy of the active ones.
    pub changes: Lone<AtomicU32>,
    /// Threads that wait on this set, whether they look or sleep.
    pub waiting: Threads,
    /// Threads that sleep in the kernel until it has something to tell of this set.
    pub sleeping: Threads,
}

/// How many threads do something.
#[repr(transparent)]
pub struct Threads(AtomicU32);

impl Threads {
    /// One more.
    #[inline]
    pub fn add(&self) {
        // SeqCst pairs with the load in `are_any`: who changes the tables finds the thread counted, or the thread
        // finds the tables changed.
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// One less.
    #[inline]
    pub fn sub(&self) {
        // Relaxed: while it is still counted, the kernel is told more than it need be.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are any.
    #[inline]
    pub fn are_any(&self) -> bool {
        // SeqCst pairs with the count in `add`.
        self.0.load(Ordering::SeqCst) != 0
    }

    /// A child has none of its parent's.
    pub fn forget(&self) {
        // Relaxed: nobody else is there.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// An array in memory of its own, which is never given back.
pub struct Array<T> {
    at: *mut T,
    count: usize,
}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: made in `reserve` for so many, and no other array lies there.
        unsafe { core::slice::from_raw_parts(self.at, self.count) }
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.at, self.count) }
    }
}

/// What is read without the lock, and written under it unless it counts: atomics only.
pub struct Shared {
    /// Number of the set of each descriptor, plus 1.
    pub set_of: Array<AtomicU32>,
    /// Of each set, by its number.
    pub counters: Array<Counters>,
}

/// All tables. They are reached only under the lock of `locked`, except what is shared.
pub struct Tables {
    pub shared: &'static Shared,
    pub sets: Array<Set>,
    /// One more than the highest set that ever was.
    pub sets_used: usize,
    pub registrations: Array<Registration>,
    pub used: usize,
    pub free: u32,
    /// First registration of each socket state, plus 1.
    pub of_record: Array<u32>,
    /// By set and data: number of the registration, plus 1.
    pub buckets: Array<u32>,
    pub gone: usize,
}

fn reserve<T>(count: usize) -> Option<Array<T>> {
    // Zeros, which are valid for every type that it is called with below.
    let at = memory::part_private(count * size_of::<T>())?.cast::<T>();
    Some(Array { at, count })
}

const fn bytes_of<T>(count: usize) -> usize {
    memory::private_bytes(count * size_of::<T>())
}

/// Bytes that [`make_shared`] and [`make`] take.
pub const PRIVATE_BYTES: usize = bytes_of::<AtomicU32>(DESCRIPTORS_MAX as usize)
    + bytes_of::<Counters>(SETS_MAX)
    + bytes_of::<Set>(SETS_MAX)
    + bytes_of::<Registration>(REGISTRATIONS_MAX)
    + bytes_of::<u32>(SOCKETS_MAX as usize)
    + bytes_of::<u32>(BUCKETS);

pub fn make_shared() -> Option<Shared> {
    Some(Shared {
        set_of: reserve(DESCRIPTORS_MAX as usize)?,
        counters: reserve(SETS_MAX)?,
    })
}

pub fn make(shared: &'static Shared) -> Option<Tables> {
    Some(Tables {
        shared,
        sets: reserve(SETS_MAX)?,
        sets_used: 0,
        registrations: reserve(REGISTRATIONS_MAX)?,
        used: 0,
        free: 0,
        of_record: reserve(SOCKETS_MAX as usize)?,
        buckets: reserve(BUCKETS)?,
        gone: 0,
    })
}

fn bucket(set: u32, data: u64) -> usize {
    let mixed = (data ^ (u64::from(set) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (BUCKETS - 1)
}

impl Shared {
    /// The number of the set that a descriptor is.
    pub fn set_number(&self, set_fd: c_int) -> Option<u32> {
        let place = self.set_of.get(usize::try_from(set_fd).ok()?)?;
        // Acquire pairs with the Release in `name`. What is counted of the set is its own.
        place.load(Ordering::Acquire).checked_sub(1)
    }

    /// From now on the descriptor is the set with this number, or none.
    pub fn name(&self, place: usize, number: Option<u32>) {
        let plus_one = number.map_or(0, |number| number + 1);
        // Release pairs with the Acquire in `set_number`.
        self.set_of[place].store(plus_one, Ordering::Release);
    }
}

impl Tables {
    pub fn set_number(&self, set_fd: c_int) -> Option<u32> {
        self.shared.set_number(set_fd)
    }

    pub fn counters(&self, set: u32) -> &'static Counters {
        &self.shared.counters[set as usize]
    }

    /// The number of the set, which is new if nobody has registered anything in it.
    pub fn set_for(&mut self, set_fd: c_int) -> Option<u32> {
        if let Some(number) = self.set_number(set_fd) {
            return Some(number);
        }
        let place = usize::try_from(set_fd).ok()?;
        if place >= self.shared.set_of.len() {
            return None;
        }
        let number = self.sets.iter().position(|set| set.used == 0)?;
        self.sets[number].used = 1;
        self.sets[number].active_count = 0;
        self.sets[number].inner_count = 0;
        self.sets[number].count = 0;
        self.sets[number].fd = set_fd;
        self.sets[number].is_inherited = false;
        self.sets[number].eager = false;
        self.sets_used = self.sets_used.max(number + 1);
        self.shared.name(place, Some(number as u32));
        own_descriptors::note_highest(set_fd);
        Some(number as u32)
    }

    pub fn find(&self, set: u32, data: u64) -> Option<usize> {
        let mut at = bucket(set, data);
        loop {
            match self.buckets[at] {
                0 => return None,
                GONE => {}
                number => {
                    let found = number as usize - 1;
                    let registration = &self.registrations[found];
                    if registration.set == set && registration.data == data {
                        return Some(found);
                    }
                }
            }
            at = (at + 1) & (BUCKETS - 1);
        }
    }

    pub fn enter(&mut self, index: usize) {
        let (set, data) = (
            self.registrations[index].set,
            self.registrations[index].data,
        );
        if let Some(other) = self.find(set, data) {
            self.registrations[other].ambiguous = true;
            self.registrations[index].ambiguous = true;
        }
        let mut at = bucket(set, data);
        while self.buckets[at] != 0 && self.buckets[at] != GONE {
            at = (at + 1) & (BUCKETS - 1);
        }
        if self.buckets[at] == GONE {
            self.gone -= 1;
        }
        self.buckets[at] = index as u32 + 1;
    }

    pub fn leave(&mut self, index: usize) {
        let (set, data) = (
            self.registrations[index].set,
            self.registrations[index].data,
        );
        let mut at = bucket(set, data);
        while self.buckets[at] != 0 {
            if self.buckets[at] == index as u32 + 1 {
                self.buckets[at] = GONE;
                self.gone += 1;
                break;
            }
            at = (at + 1) & (BUCKETS - 1);
        }
        if self.gone > BUCKETS / 4 {
            self.enter_all_again(index);
        }
    }

    pub fn enter_all_again(&mut self, but: usize) {
        self.buckets.fill(0);
        self.gone = 0;
        for index in 0..self.used {
            if index != but && self.registrations[index].socket != 0 {
                self.enter(index);
            }
        }
    }

    pub fn registration_of(&self, set: u32, socket: &SocketState, fd: c_int) -> Option<usize> {
        let mut next = self.of_record[socket.number() as usize];
        while let Some(index) = next.checked_sub(1) {
            let registration = &self.registrations[index as usize];
            if registration.set == set && registration.fd == fd {
                return Some(index as usize);
            }
            next = registration.next;
        }
        None
    }

    /// See `sets::claim`.
    pub fn claim(&mut self, set_fd: c_int, data: u64) -> Claim {
        let set = self.set_number(set_fd);
        let found = set.and_then(|set| self.find(set, data));
        let Some(registration) = found.map(|index| &mut self.registrations[index]) else {
            return Claim::Free;
        };
        // Of one that is the kernel's alone we do not hear when the program asks again.
        let is_ours =
            |socket: &&SocketState| !matches!(socket.state(), State::Kernel | State::Listening);
        let socket = registration.socket().filter(is_ours);
        if registration.ambiguous || !registration.is_once() || socket.is_none() {
            return Claim::Free;
        }
        let before = *registration;
        registration.silent = true;
        let set = &self.sets[before.set as usize];
        match before.silent {
            false => Claim::Ours(before),
            // Another process may have asked again, unseen.
            true if set.eager => Claim::Free,
            true => Claim::Theirs,
        }
    }

    /// Returns whether waits look at it from now on, if it is upgraded.
    pub fn add(&mut self, set: u32, fd: c_int, socket: &SocketState, event: epoll_event) -> bool {
        let index = match self.free.checked_sub(1) {
            Some(index) => {
                self.free = self.registrations[index as usize].next;
                index as usize
            }
            None if self.used < REGISTRATIONS_MAX => {
                self.used += 1;
                self.used - 1
            }
            None => return false,
        };
        let first = &mut self.of_record[socket.number() as usize];
        self.registrations[index] = Registration {
            data: event.u64,
            reported_head: 0,
            reported_ns: 0,
            fd,
            events: event.events,
            kernel_events: event.events,
            socket: socket.number() + 1,
            generation: socket.generation(),
            set,
            next: *first,
            active: false,
            ambiguous: false,
            silent: false,
            removed: false,
            stray: false,
        };
        *first = index as u32 + 1;
        self.enter(index);
        self.sets[set as usize].count += 1;
        // SeqCst pairs with the load in `are_registered_now`.
        REGISTERED.fetch_add(1, Ordering::SeqCst);
        socket.state() != State::Upgraded || self.look_at(index)
    }

    pub fn remove(&mut self, index: usize) {
        let registration = self.registrations[index];
        self.forget_deferred(index);
        self.leave(index);
        self.deactivate(index);
        let mut link = &mut self.of_record[registration.socket as usize - 1];
        while let Some(at) = link.checked_sub(1) {
            if at as usize == index {
                *link = registration.next;
                break;
            }
            link = &mut self.registrations[at as usize].next;
        }
        let set = &mut self.sets[registration.set as usize];
        set.count = set.count.saturating_sub(1);
        let place = &mut self.registrations[index];
        place.socket = 0;
        place.next = self.free;
        self.free = index as u32 + 1;
        // Relaxed: who still finds it counted looks under the lock, and finds it gone.
        REGISTERED.fetch_sub(1, Ordering::Relaxed);
    }

    /// As [`Tables::activate`]. `false` also if a thread sleeps on the set: the kernel is to wake
    /// it, whatever other threads do.
    pub fn look_at(&mut self, index: usize) -> bool {
        let set = self.registrations[index].set;
        // Whoever is about to sleep is counted, or finds it registered.
        self.activate(index) && !self.counters(set).sleeping.are_any()
    }

    /// A registration that may be late is gone.
    pub fn forget_deferred(&self, index: usize) {
        if self.registrations[index].is_deferred() {
            uncount_deferred();
        }
    }

    /// Returns `false` if the set looks at as many as it can.
    pub fn activate(&mut self, index: usize) -> bool {
        let registration = &mut self.registrations[index];
        if registration.active {
            return true;
        }
        let set = &mut self.sets[registration.set as usize];
        let Some(place) = set.active.get_mut(set.active_count as usize) else {
            return false;
        };
        *place = index as u32;
        set.active_count += 1;
        registration.active = true;
        if let Some(socket) = registration.socket() {
            directions::want_order(socket);
        }
        let number = registration.set;
        self.counters(number).note_change();
        true
    }

    pub fn deactivate(&mut self, index: usize) {
        let registration = &mut self.registrations[index];
        if !registration.active {
            return;
        }
        registration.active = false;
        let set = &mut self.sets[registration.set as usize];
        let count = set.active_count as usize;
        if let Some(at) = set.active[..count]
            .iter()
            .position(|&it| it as usize == index)
        {
            set.active[at] = set.active[count - 1];
            set.active_count -= 1;
        }
    }
}

impl Counters {
    /// Who looks is to look at something else, too.
    pub fn note_change(&self) {
        // Seen by `Changes::are_new`: it only ends a look.
        self.changes.add(1);
    }
}

impl Set {
    pub fn change_inner(&mut self, operation: c_int, fd: c_int, event: Option<epoll_event>) {
        let known = &mut self.inner[..self.inner_count as usize];
        let at = known.iter().position(|inner| inner.fd == fd);
        match (operation, event, at) {
            (libc::EPOLL_CTL_ADD, Some(event), None) if self.inner_count < INNER_MAX as u32 => {
                self.inner[self.inner_count as usize] = Inner {
                    fd,
                    events: event.events,
                    data: event.u64,
                };
                self.inner_count += 1;
            }
            (libc::EPOLL_CTL_MOD, Some(event), Some(at)) => {
                known[at].events = event.events;
                known[at].data = event.u64;
            }
            (libc::EPOLL_CTL_DEL, _, Some(at)) => {
                known[at] = known[known.len() - 1];
                self.inner_count -= 1;
            }
            _ => {}
        }
    }
}
