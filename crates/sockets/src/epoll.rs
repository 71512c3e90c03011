//! Epoll sets: which sockets of ours are in them, so that a wait can look at the rings.
//!
//! The kernel's set stays as the program made it, and is always asked as well. Of each
//! registration of a socket that is, or may come, on board we keep the descriptor, the
//! events and the program's data. A registration is *active* while its socket is awake: a
//! wait looks at the rings of the active ones only. Before the wait sleeps it arms them, and
//! then the kernel tells of them, by a token.
//!
//! All of it is the process's own; a child has a copy.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::epoll_event;

use crate::lock::{Held, Lock};
use crate::real;
use crate::record::{self, DESCRIPTORS_MAX, RECORDS_MAX, Record, State};
use crate::{memory, stream};

/// Sets of one process.
const SETS_MAX: usize = 4096;
/// Registrations of one process.
const REGISTRATIONS_MAX: usize = 1 << 17;
/// A power of two, twice as many.
const BUCKETS: usize = REGISTRATIONS_MAX * 2;
/// Registrations of a set that are looked at in each wait; others are told of by the kernel.
pub const ACTIVE_MAX: usize = 512;

/// A bucket whose registration is gone; the search goes on behind it.
const GONE: u32 = u32::MAX;

/// A socket in a set.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Registration {
    /// The program's data.
    pub data: u64,
    /// Bytes ever in the ring when the program was last told of it: for edges.
    pub head_told: u64,
    /// The descriptor it was registered with.
    pub fd: c_int,
    /// The events, as the program asked for them.
    pub events: u32,
    /// Number of the record plus 1; 0 if this place is free.
    record: u32,
    generation: u32,
    set: u32,
    /// The next registration of the same record, plus 1.
    next: u32,
    active: bool,
    /// Another registration of the set has the same data: whose event it is cannot be told.
    ambiguous: bool,
    /// One-shot, and told: nothing until the program asks again.
    pub silent: bool,
}

impl Registration {
    /// The socket, if it is still the one that was registered.
    pub fn socket(&self) -> Option<&'static Record> {
        let record = record::by_number(self.record.checked_sub(1)?);
        let same = record.generation.load(Ordering::Relaxed) == self.generation;
        same.then_some(record)
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
pub const INNER_MAX: usize = 4;

/// A set.
#[repr(C)]
pub struct Set {
    used: AtomicU32,
    inner: [Inner; INNER_MAX],
    inner_count: u32,
    active: [u32; ACTIVE_MAX],
    active_count: u32,
    /// Registrations of this set.
    count: u32,
    /// Threads that sleep in the kernel until it has something to tell of this set.
    sleeping: AtomicU32,
}

/// All tables. Reached under [`LOCK`] only.
struct Tables {
    /// Number of the set of each descriptor, plus 1.
    set_of: &'static mut [u32],
    sets: &'static mut [Set],
    /// One more than the highest set that ever was.
    sets_used: usize,
    registrations: &'static mut [Registration],
    used: usize,
    free: u32,
    /// First registration of each record, plus 1.
    of_record: &'static mut [u32],
    /// By set and data: number of the registration, plus 1.
    buckets: &'static mut [u32],
    gone: usize,
}

static LOCK: Lock = Lock::new();
static TABLES: AtomicPtr<Tables> = AtomicPtr::new(core::ptr::null_mut());
/// Registrations there are, of all sets: without any, a wait is the kernel's alone.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

fn reserve<T>(count: usize) -> Option<&'static mut [T]> {
    let at = memory::reserve_private(count * size_of::<T>())?;
    // SAFETY: fresh zeroed memory for `count` of them, never unmapped; zeros are valid for
    // every type that it is called with below.
    Some(unsafe { core::slice::from_raw_parts_mut(at.cast::<T>(), count) })
}

/// Reserves the tables.
pub fn set_up() -> bool {
    let Some(tables) = make() else { return false };
    let Some(place) = memory::reserve_private(size_of::<Tables>()) else {
        return false;
    };
    let place = place.cast::<Tables>();
    // SAFETY: fresh memory, large enough and aligned to a page.
    unsafe { place.write(tables) };
    // Release: partner: the acquire in tables.
    TABLES.store(place, Ordering::Release);
    true
}

fn make() -> Option<Tables> {
    Some(Tables {
        set_of: reserve(DESCRIPTORS_MAX as usize)?,
        sets: reserve(SETS_MAX)?,
        sets_used: 0,
        registrations: reserve(REGISTRATIONS_MAX)?,
        used: 0,
        free: 0,
        of_record: reserve(RECORDS_MAX as usize)?,
        buckets: reserve(BUCKETS)?,
        gone: 0,
    })
}

/// The tables, with their lock.
struct Locked {
    tables: &'static mut Tables,
    _held: Held<'static>,
}

fn tables() -> Option<Locked> {
    // Acquire: partner: the release in set_up.
    let tables = TABLES.load(Ordering::Acquire);
    if tables.is_null() {
        return None;
    }
    let held = LOCK.hold()?;
    // SAFETY: the lock makes it exclusive.
    let tables = unsafe { &mut *tables };
    Some(Locked {
        tables,
        _held: held,
    })
}

/// This thread is about to fork: the tables stay as they are until it has.
pub fn begin_fork() {
    core::mem::forget(LOCK.hold());
}

/// It has.
pub fn end_fork() {
    LOCK.reset();
}

/// A child has one thread, and nobody else holds the lock.
pub fn after_fork() {
    LOCK.reset();
    let Some(locked) = tables() else { return };
    for set in &locked.tables.sets[..locked.tables.sets_used] {
        // Relaxed: nobody else is there, and nobody of us sleeps.
        set.sleeping.store(0, Ordering::Relaxed);
    }
}

/// For a process that waits in no set, and gives the tables' memory back.
pub fn forget() {
    LOCK.reset();
    // Relaxed, both: nobody else is there.
    REGISTERED.store(0, Ordering::Relaxed);
    TABLES.store(core::ptr::null_mut(), Ordering::Relaxed);
}

fn bucket(set: u32, data: u64) -> usize {
    let mixed = (data ^ (u64::from(set) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (BUCKETS - 1)
}

impl Tables {
    fn set_number(&self, set_fd: c_int) -> Option<u32> {
        let number = *self.set_of.get(usize::try_from(set_fd).ok()?)?;
        number.checked_sub(1)
    }

    /// The number of the set, which is new if nobody has registered anything in it.
    fn set_for(&mut self, set_fd: c_int) -> Option<u32> {
        if let Some(number) = self.set_number(set_fd) {
            return Some(number);
        }
        let place = usize::try_from(set_fd).ok()?;
        // Relaxed: under the lock.
        let free = |set: &Set| set.used.load(Ordering::Relaxed) == 0;
        let number = self.sets.iter().position(free)?;
        self.sets[number].used.store(1, Ordering::Relaxed);
        self.sets[number].active_count = 0;
        self.sets[number].inner_count = 0;
        self.sets[number].count = 0;
        self.sets_used = self.sets_used.max(number + 1);
        *self.set_of.get_mut(place)? = number as u32 + 1;
        record::note_highest(set_fd);
        Some(number as u32)
    }

    fn find(&self, set: u32, data: u64) -> Option<usize> {
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

    fn enter(&mut self, index: usize) {
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

    fn leave(&mut self, index: usize) {
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

    fn enter_all_again(&mut self, but: usize) {
        self.buckets.fill(0);
        self.gone = 0;
        for index in 0..self.used {
            if index != but && self.registrations[index].record != 0 {
                self.enter(index);
            }
        }
    }

    fn registration_of(&self, set: u32, record: &Record, fd: c_int) -> Option<usize> {
        let mut next = self.of_record[record.number() as usize];
        while let Some(index) = next.checked_sub(1) {
            let registration = &self.registrations[index as usize];
            if registration.set == set && registration.fd == fd {
                return Some(index as usize);
            }
            next = registration.next;
        }
        None
    }

    /// Returns whether waits look at it from now on, if it is up.
    fn add(&mut self, set: u32, fd: c_int, record: &Record, event: epoll_event) -> bool {
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
        let first = &mut self.of_record[record.number() as usize];
        self.registrations[index] = Registration {
            data: event.u64,
            head_told: 0,
            fd,
            events: event.events,
            record: record.number() + 1,
            generation: record.generation.load(Ordering::Relaxed),
            set,
            next: *first,
            active: false,
            ambiguous: false,
            silent: false,
        };
        *first = index as u32 + 1;
        self.enter(index);
        self.sets[set as usize].count += 1;
        // SeqCst: partner: the load in is_known.
        REGISTERED.fetch_add(1, Ordering::SeqCst);
        record.state() != State::Up || self.look_at(index)
    }

    fn remove(&mut self, index: usize) {
        let registration = self.registrations[index];
        self.leave(index);
        self.deactivate(index);
        let mut link = &mut self.of_record[registration.record as usize - 1];
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
        place.record = 0;
        place.next = self.free;
        self.free = index as u32 + 1;
        REGISTERED.fetch_sub(1, Ordering::Relaxed);
    }

    /// As [`Tables::activate`]. `false` also if a thread sleeps on the set: the kernel is to wake
    /// it, whatever other threads do.
    fn look_at(&mut self, index: usize) -> bool {
        let set = self.registrations[index].set as usize;
        // SeqCst: partner: `sleeping`. Whoever is about to sleep is counted, or finds it registered.
        self.activate(index) && self.sets[set].sleeping.load(Ordering::SeqCst) == 0
    }

    /// Returns `false` if the set looks at as many as it can.
    fn activate(&mut self, index: usize) -> bool {
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
        true
    }

    fn deactivate(&mut self, index: usize) {
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

impl Set {
    fn change_inner(&mut self, operation: c_int, fd: c_int, event: Option<epoll_event>) {
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

/// A set is made: it is known from now on, so that it can be in others.
pub fn created(set_fd: c_int) {
    if let Some(locked) = tables() {
        locked.tables.set_for(set_fd);
    }
}

/// After the kernel has done what `epoll_ctl` was asked for.
pub fn changed(set_fd: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
    let Some(record) = record::find(fd) else {
        return inner_changed(set_fd, operation, fd, event);
    };
    if matches!(record.state(), State::Plain | State::Listening) {
        return;
    }
    let is_looked_at = change(set_fd, operation, fd, record, event);
    // Another thread may have put it up since.
    if !is_looked_at.unwrap_or(false) && record.state() == State::Up && !now_up(record) {
        stream::leave_to_kernel(record);
    }
}

fn inner_changed(set_fd: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
    let Some(locked) = tables() else { return };
    let inner = locked.tables.set_number(fd);
    let outer = locked.tables.set_number(set_fd);
    if let (Some(_), Some(outer)) = (inner, outer) {
        locked.tables.sets[outer as usize].change_inner(operation, fd, event);
    }
}

/// Returns whether waits look at the socket from now on, if it is up; `None` if not known.
fn change(
    set_fd: c_int,
    operation: c_int,
    fd: c_int,
    record: &Record,
    event: Option<epoll_event>,
) -> Option<bool> {
    let mut locked = tables()?;
    let tables = &mut locked.tables;
    match (operation, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => {
            let set = tables.set_for(set_fd)?;
            Some(tables.add(set, fd, record, event))
        }
        (libc::EPOLL_CTL_MOD, Some(event)) => {
            let set = tables.set_number(set_fd)?;
            let index = tables.registration_of(set, record, fd)?;
            tables.leave(index);
            let registration = &mut tables.registrations[index];
            registration.events = event.events;
            registration.data = event.u64;
            registration.head_told = 0;
            registration.silent = false;
            tables.enter(index);
            Some(record.state() != State::Up || tables.look_at(index))
        }
        (libc::EPOLL_CTL_DEL, _) => {
            let set = tables.set_number(set_fd)?;
            let index = tables.registration_of(set, record, fd)?;
            tables.remove(index);
            Some(true)
        }
        _ => None,
    }
}

/// Waits look at the ring of a socket from now on. `false` if a set looks at as many as it can, or
/// a thread sleeps on one: then the kernel is to tell of this one.
pub fn now_up(record: &Record) -> bool {
    if REGISTERED.load(Ordering::Relaxed) == 0 {
        return true;
    }
    let Some(locked) = tables() else { return false };
    let mut all = true;
    let mut next = locked.tables.of_record[record.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        all &= locked.tables.look_at(index as usize);
        next = locked.tables.registrations[index as usize].next;
    }
    all
}

/// One of the descriptors of a socket is closed, and another is not: the kernel still tells of
/// the socket, and we need a descriptor to look at it.
pub fn descriptor_closed(record: &Record, fd: c_int) {
    if REGISTERED.load(Ordering::Relaxed) == 0 {
        return;
    }
    let Some(other) = record::any_descriptor(record) else {
        return;
    };
    let Some(locked) = tables() else { return };
    let mut next = locked.tables.of_record[record.number() as usize];
    while let Some(index) = next.checked_sub(1) {
        let registration = &mut locked.tables.registrations[index as usize];
        if registration.fd == fd {
            registration.fd = other;
        }
        next = registration.next;
    }
}

/// The process has closed its last descriptor of a socket.
pub fn socket_closed(record: &Record) {
    if REGISTERED.load(Ordering::Relaxed) == 0 {
        return;
    }
    let Some(locked) = tables() else { return };
    while let Some(index) = locked.tables.of_record[record.number() as usize].checked_sub(1) {
        locked.tables.remove(index as usize);
    }
}

/// Runs `replace`, which puts another socket in the place of `fd`, and has it in the place of
/// the old one in all sets, too, with the same events and data. The kernel by itself would keep
/// the old one there, because another process has it.
pub fn replaced(fd: c_int, record: &Record, replace: impl FnOnce()) {
    let locked = match REGISTERED.load(Ordering::Relaxed) {
        0 => None,
        _ => tables(),
    };
    let Some(locked) = locked else {
        return replace();
    };
    let tables = &*locked.tables;
    let each = |operation: c_int| {
        let mut next = tables.of_record[record.number() as usize];
        while let Some(index) = next.checked_sub(1) {
            let registration = &tables.registrations[index as usize];
            next = registration.next;
            let number = registration.set + 1;
            let set_fd = tables.set_of.iter().position(|&set| set == number);
            let Some(set_fd) = set_fd.filter(|_| registration.fd == fd) else {
                continue;
            };
            let mut event = epoll_event {
                events: registration.events,
                u64: registration.data,
            };
            // SAFETY: the event lives.
            unsafe { real::epoll_ctl(set_fd as c_int, operation, fd, &raw mut event) };
        }
    };
    each(libc::EPOLL_CTL_DEL);
    replace();
    each(libc::EPOLL_CTL_ADD);
}

/// A descriptor is closed; it may be a set.
pub fn set_closed(set_fd: c_int) {
    if !is_known(set_fd) {
        return;
    }
    let Some(mut locked) = tables() else { return };
    let tables = &mut locked.tables;
    let Some(number) = tables.set_number(set_fd) else {
        return;
    };
    tables.set_of[set_fd.unsigned_abs() as usize] = 0;
    // A duplicate keeps the set.
    if tables.sets[number as usize]
        .used
        .fetch_sub(1, Ordering::Relaxed)
        > 1
    {
        return;
    }
    for index in 0..tables.used {
        let registration = &tables.registrations[index];
        if registration.record != 0 && registration.set == number {
            tables.remove(index);
        }
    }
}

/// A set has a further descriptor.
pub fn set_duplicated(old: c_int, new: c_int) {
    if !is_known(old) {
        return;
    }
    let Some(mut locked) = tables() else { return };
    let tables = &mut locked.tables;
    let Some(number) = tables.set_number(old) else {
        return;
    };
    if let Some(place) = tables.set_of.get_mut(new.unsigned_abs() as usize) {
        *place = number + 1;
        record::note_highest(new);
        tables.sets[number as usize]
            .used
            .fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a descriptor is a set with sockets of ours in it. Looks without the lock: whoever
/// registers at the same time is not known to have done so before.
pub fn is_known(set_fd: c_int) -> bool {
    // SeqCst: partner: the count in Tables::add.
    REGISTERED.load(Ordering::SeqCst) != 0 && number_now(set_fd).is_some()
}

/// The number of a set, looked up without the lock.
fn number_now(set_fd: c_int) -> Option<u32> {
    // Acquire: partner: the release in set_up.
    let tables = TABLES.load(Ordering::Acquire);
    if tables.is_null() || set_fd < 0 || set_fd.unsigned_abs() >= DESCRIPTORS_MAX {
        return None;
    }
    // SAFETY: the table of sets is never unmapped; a word is read whole.
    let number = unsafe {
        let table = (&raw const (*tables).set_of).read();
        let word = table.as_ptr().add(set_fd.unsigned_abs() as usize);
        core::ptr::read_volatile(word)
    };
    number.checked_sub(1)
}

/// Counts a thread that sleeps on a set, until it is dropped.
pub struct Sleeping(Option<&'static AtomicU32>);

/// A thread is about to sleep on a set.
pub fn sleeping(set_fd: c_int) -> Sleeping {
    let count = number_now(set_fd).map(|number| {
        let tables = TABLES.load(Ordering::Acquire);
        // SAFETY: there are as many sets as numbers, never unmapped; the count is atomic.
        unsafe {
            let sets = (&raw const (*tables).sets).read();
            let set = sets.as_ptr().add(number as usize);
            &(*set).sleeping
        }
    });
    if let Some(count) = count {
        // SeqCst: partner: the load in Tables::look_at.
        count.fetch_add(1, Ordering::SeqCst);
    }
    Sleeping(count)
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Copies of the active registrations of a set, and of the sets in it.
pub struct Active {
    inner: [Inner; INNER_MAX],
    inner_count: usize,
    entries: [MaybeUninit<(u32, Registration)>; ACTIVE_MAX],
    count: usize,
}

/// Fills `into` with the active registrations of a set.
pub fn active(set_fd: c_int, into: &mut Active) {
    into.count = 0;
    into.inner_count = 0;
    let Some(locked) = tables() else { return };
    let Some(number) = locked.tables.set_number(set_fd) else {
        return;
    };
    let set = &locked.tables.sets[number as usize];
    into.inner = set.inner;
    into.inner_count = set.inner_count as usize;
    for &index in &set.active[..set.active_count as usize] {
        let registration = locked.tables.registrations[index as usize];
        into.entries[into.count].write((index, registration));
        into.count += 1;
    }
}

impl Active {
    /// None.
    pub const fn empty() -> Self {
        Self {
            inner: [Inner {
                fd: -1,
                events: 0,
                data: 0,
            }; INNER_MAX],
            inner_count: 0,
            entries: [const { MaybeUninit::uninit() }; ACTIVE_MAX],
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

    /// The registrations, each with its index.
    pub fn iter(&self) -> impl Iterator<Item = &(u32, Registration)> {
        // SAFETY: the first `count` were written.
        self.entries[..self.count]
            .iter()
            .map(|entry| unsafe { entry.assume_init_ref() })
    }
}

/// The program is told of a socket in the ring.
pub fn told(index: u32, registration: &Registration, head: u64) {
    // Of others it is told as long as there is something.
    if registration.events & (libc::EPOLLONESHOT | libc::EPOLLET) as u32 == 0 {
        return;
    }
    let Some(locked) = tables() else { return };
    let registration = &mut locked.tables.registrations[index as usize];
    registration.head_told = head;
    if registration.events & libc::EPOLLONESHOT as u32 != 0 {
        registration.silent = true;
    }
}

/// A wait is about to sleep with these armed: from now on the kernel tells of them.
pub fn rest(active: &Active) {
    let Some(locked) = tables() else { return };
    for &(index, _) in active.iter() {
        locked.tables.deactivate(index as usize);
    }
}

/// Which registration the kernel tells of, if that can be told; it is active from now on.
pub fn woken(set_fd: c_int, data: u64) -> Option<(u32, Registration)> {
    let mut locked = tables()?;
    let tables = &mut locked.tables;
    let set = tables.set_number(set_fd)?;
    let index = tables.find(set, data)?;
    if tables.registrations[index].ambiguous {
        return None;
    }
    let registration = tables.registrations[index];
    if registration.socket()?.state() == State::Up {
        tables.activate(index);
    }
    Some((index as u32, registration))
}
