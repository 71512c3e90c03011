//! What this library knows of each socket: the records, which a process shares with its
//! children as the kernel shares the sockets, and the table of descriptors, which it does not.
//!
//! | memory | shared with children | what |
//! |---|---|---|
//! | records | yes, as the kernel's sockets are | [`Record`], by number |
//! | descriptors | copied | number of the record of each descriptor |
//! | generations | copied | which use of each record the descriptors are of |
//! | places | copied; what is mapped there is shared | where the carrier of record `n` is mapped |
//!
//! All four are reserved at start and take memory only where they are used. A place stays
//! readable when its carrier is gone (there are zeros then), so whoever looks at a carrier
//! while another thread closes it sees nothing bad.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use barewire_fabric::carrier::{Direction, Receiver, Sender};

use crate::lock::{Held, Lock};
use crate::memory::{self, Carrier, Mapping};
use crate::stream::probe::Probe;
use crate::stream::room::Looks;
use crate::{confinement, epoll, fault, members, seeker, uses};

pub use self::counts::{
    count_again, count_child, killed, leave, leave_to_others, others_have, take_up_again,
};
pub use self::flags::*;
pub use self::state::{State, Why};

mod counts;
mod flags;
mod state;

/// Sockets that one family of processes can have on board at a time.
pub const RECORDS_MAX: u32 = 1 << 16;
/// Descriptors above this are not looked at.
pub const DESCRIPTORS_MAX: u32 = 1 << 20;

/// A socket.
#[repr(C, align(128))]
pub struct Record {
    state: AtomicU32,
    why: AtomicU32,
    flags: AtomicU32,
    /// Processes that have it. See `members`.
    pub processes: AtomicU32,
    /// Counts the uses of this record that are over.
    generation: AtomicU32,
    /// Calls that moved bytes, before it was up.
    pub calls: AtomicU32,
    /// Turns of direction before it was up, where only streams are upgraded. See `worth`.
    pub turns: AtomicU32,
    /// Looks for the other end so far.
    pub looks: AtomicU32,
    /// Which side of its carrier it is: 0 or 1.
    pub side: AtomicU32,
    /// Threads that sleep until the kernel calls it readable.
    pub sleepers: AtomicU32,
    /// Bytes moved, before it was up.
    pub bytes: AtomicU64,
    /// When the kernel was last asked whether the line has ended, by [`crate::process::tick_ns`].
    pub line_checked_ns: AtomicU64,
    /// The same, by who sends.
    pub send_checked_ns: AtomicU64,
    /// What `ring_bytes_in` was at the last send.
    pub heard_bytes: AtomicU64,
    /// What `stream::probe` remembers.
    pub probe: Probe,
    /// Bytes ever put into the ring when the other end was last known to be there.
    pub put_when_there: AtomicU64,
    /// An error of the line that the program has not been told of yet.
    pub line_error: AtomicI32,
    /// Bytes put into and taken from the ring.
    pub ring_bytes_out: AtomicU64,
    /// As above.
    pub ring_bytes_in: AtomicU64,
    /// Guards `sender`.
    pub send_lock: Lock,
    /// Guards `receiver`.
    pub recv_lock: Lock,
    sender: UnsafeCell<Sender>,
    receiver: UnsafeCell<Receiver>,
    next_free: AtomicU32,
    /// The last capture that was told which connection this is.
    pub captured_by: AtomicU32,
    /// Bytes sent and received while somebody captured.
    pub captured_bytes: [AtomicU64; 2],
    /// Of a Unix socket, as all that follows: bytes sent before it was up, under the send lock.
    pub line_out: AtomicU64,
    /// Bytes read before it was up. See `local` for what else is counted there.
    pub line_in: AtomicU64,
    /// Inode of the other end; 0 if it is not known.
    pub other_inode: AtomicU32,
    /// What its receive buffer was before the mark.
    pub receive_buffer: AtomicU32,
    /// Number of the record of the other end of a pair, plus 1, and its generation.
    pub pair: AtomicU32,
    /// As above.
    pub pair_generation: AtomicU32,
    /// Reads in progress that the kernel does as if this library were not there.
    pub direct_reads: AtomicU32,
    /// The program's low-water mark, with [`LOW_WATER`].
    pub low_water: AtomicU32,
    /// Of `stream::in_vain`, as the four that follow, under the receive lock: reads in a row that
    /// found nothing.
    pub in_vain: AtomicU32,
    /// The thread that did.
    pub in_vain_by: AtomicU32,
    /// How often that thread had slept after some of them.
    pub in_vain_sleeps: AtomicU64,
    /// And how long it had been busy.
    pub in_vain_busy_ns: AtomicU64,
    /// Position of the stream at the last of them.
    pub in_vain_at: AtomicU64,
    /// Of `stream::room`.
    pub looks_for_room: Looks,
    /// The kernel's name for the socket, from when it goes up.
    pub cookie: AtomicU64,
    /// Counts how often what was read of the line was asked of the kernel, under the receive lock.
    pub recounts: AtomicU32,
    /// 1 while it is among the free ones.
    is_free: AtomicU32,
    /// What of `ring_bytes_out` and `ring_bytes_in` is in the sums of `report`.
    pub bytes_reported: [AtomicU64; 2],
    /// The spawn actions of this process that duplicate it for another program; 0 for none.
    pub named_by: AtomicU64,
}

/// Where outsiders find what they may read. See `status`.
pub const STATE_AT: usize = core::mem::offset_of!(Record, state);
/// As above.
pub const WHY_AT: usize = core::mem::offset_of!(Record, why);
/// As above.
pub const FLAGS_AT: usize = core::mem::offset_of!(Record, flags);

/// Where the records are, the table of descriptors, and the highest of these.
pub fn addresses() -> (usize, usize, usize) {
    // Relaxed: set up before, by this thread.
    let records = RECORDS.load(Ordering::Relaxed) as usize;
    let descriptors = TABLE.descriptors.load(Ordering::Relaxed) as usize;
    (records, descriptors, (&raw const HIGHEST) as usize)
}

// SAFETY: sender and receiver are reached under their locks only; all else is atomic.
unsafe impl Sync for Record {}

impl Record {
    /// What it is at.
    pub fn state(&self) -> State {
        // Acquire: partner: the release in set_state; with Up come sender and receiver.
        State::from_u32(self.state.load(Ordering::Acquire))
    }

    /// Changes what it is at, if it is at `from`. Returns whether it was.
    pub fn change(&self, from: State, to: State) -> bool {
        let (old, new) = (from as u32, to as u32);
        // AcqRel: as in state and set_state.
        let changed = self
            .state
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Changes what it is at from `from` to [`State::Stepping`], for one thread only.
    pub fn claim(&self, from: State) -> bool {
        self.change(from, State::Stepping)
    }

    /// Gives a claim back. `false` if the socket was made the kernel's meanwhile.
    #[must_use]
    pub fn unclaim(&self, to: State) -> bool {
        self.change(State::Stepping, to)
    }

    /// Why it is the kernel's, if it is.
    pub fn why(&self) -> Why {
        // Relaxed: for display only.
        Why::from_u32(self.why.load(Ordering::Relaxed))
    }

    /// Changes what it is at.
    pub fn set_state(&self, state: State) {
        // Release: partner: the acquire in state.
        self.state.store(state as u32, Ordering::Release);
    }

    /// It is the kernel's alone from now on.
    pub fn make_plain(&self, why: Why) {
        // Relaxed: for display only.
        self.why.store(why as u32, Ordering::Relaxed);
        self.set_state(State::Plain);
    }

    /// Notes why it is not accelerated, without a change of state.
    pub fn note_why(&self, why: Why) {
        // Relaxed: for display only.
        self.why.store(why as u32, Ordering::Relaxed);
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        // Relaxed: the flags stand for themselves.
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// As [`Record::has`], in one order with all that is SeqCst.
    pub fn has_now(&self, flag: u32) -> bool {
        // SeqCst: partner: whoever calls this names it.
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    /// Sets or clears a flag.
    pub fn set(&self, flag: u32, on: bool) {
        // Relaxed: as above.
        if on {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// The sending end. The lock proves that it is ours.
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock that is held makes it exclusive"
    )]
    pub fn sender<'a>(&'a self, _held: &'a Held<'_>) -> &'a mut Sender {
        // SAFETY: whoever holds the send lock is alone; see Lock.
        unsafe { &mut *self.sender.get() }
    }

    /// The receiving end. The lock proves that it is ours.
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock that is held makes it exclusive"
    )]
    pub fn receiver<'a>(&'a self, _held: &'a Held<'_>) -> &'a mut Receiver {
        // SAFETY: whoever holds the receive lock is alone; see Lock.
        unsafe { &mut *self.receiver.get() }
    }

    /// Which socket it is, of those that it was.
    pub fn generation(&self) -> u32 {
        // Relaxed: it does not change while somebody has it; else it is compared only.
        self.generation.load(Ordering::Relaxed)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        let first = RECORDS.load(Ordering::Relaxed);
        // SAFETY: all records lie in one array.
        let offset = unsafe { core::ptr::from_ref(self).offset_from(first) };
        offset.unsigned_abs() as u32
    }

    /// Where its carrier is mapped, or would be.
    pub fn carrier(&self) -> Carrier {
        memory::carrier(self.number())
    }

    fn reset(&self, state: State) {
        // Relaxed, all but the count: nobody else has this record yet; the descriptor's entry
        // publishes it.
        for word in [
            &self.why,
            &self.flags,
            &self.calls,
            &self.turns,
            &self.looks,
            &self.sleepers,
            &self.captured_by,
            &self.other_inode,
            &self.receive_buffer,
            &self.pair,
            &self.direct_reads,
            &self.low_water,
            &self.in_vain,
            &self.in_vain_by,
            &self.recounts,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.bytes,
            &self.line_checked_ns,
            &self.send_checked_ns,
            &self.heard_bytes,
            &self.put_when_there,
            &self.named_by,
            &self.ring_bytes_out,
            &self.ring_bytes_in,
            &self.bytes_reported[0],
            &self.bytes_reported[1],
            &self.captured_bytes[0],
            &self.captured_bytes[1],
            &self.line_out,
            &self.line_in,
            &self.in_vain_sleeps,
            &self.in_vain_busy_ns,
            &self.in_vain_at,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.line_error.store(0, Ordering::Relaxed);
        self.probe.forget();
        self.looks_for_room.forget();
        self.send_lock.begin_anew();
        self.recv_lock.begin_anew();
        self.set_state(state);
        // Release: partner: count_again; whoever sees that somebody has it sees which use it is.
        self.processes.store(1, Ordering::Release);
    }
}

/// The records; null if they could not be reserved: then nothing is on board.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(core::ptr::null_mut());
/// The table of descriptors; and whether somebody captures, which every call looks at, too.
static TABLE: Table = Table {
    descriptors: AtomicPtr::new(core::ptr::null_mut()),
    captured: AtomicU32::new(0),
};
/// Descriptors of this process for each record.
static LOCAL_COUNTS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Generation of each record when this process came to have it.
static GENERATIONS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// In the shared memory behind the records: how many were ever used, and the free ones.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());

/// In one cache line.
#[repr(C, align(16))]
struct Table {
    /// Number of the record of each descriptor, plus 1; 0 for none.
    descriptors: AtomicPtr<AtomicU32>,
    captured: AtomicU32,
}

/// The word that turns capturing on. See `capture`.
#[inline]
pub fn captured() -> &'static AtomicU32 {
    &TABLE.captured
}

#[repr(C)]
struct Shared {
    used: AtomicU32,
    lock: Lock,
    free: AtomicU32,
}

/// Reserves the memory. Without it, all goes to the kernel.
pub fn set_up() -> bool {
    let records = memory::reserve_shared(RECORDS_MAX as usize * size_of::<Record>() + 4096);
    let descriptors = memory::reserve_private(DESCRIPTORS_MAX as usize * 4);
    let (Some(records), Some(descriptors)) = (records, descriptors) else {
        return false;
    };
    let words = || memory::reserve_private(RECORDS_MAX as usize * 4);
    let (Some(counts), Some(generations)) = (words(), words()) else {
        return false;
    };
    let first = records.cast::<Record>();
    // SAFETY: the mapping has 4096 bytes behind the records.
    let shared = unsafe { first.add(RECORDS_MAX as usize) }.cast::<Shared>();
    LOCAL_COUNTS.store(counts.cast(), Ordering::Relaxed);
    GENERATIONS.store(generations.cast(), Ordering::Relaxed);
    SHARED.store(shared, Ordering::Relaxed);
    RECORDS.store(first, Ordering::Relaxed);
    // Release: partner: the acquire in find; whoever sees it sees the four above.
    TABLE
        .descriptors
        .store(descriptors.cast(), Ordering::Release);
    true
}

/// Where the table of descriptors is while it is hidden.
static HIDDEN: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// From now on no descriptor has a record, and none gets one.
pub fn hide() {
    // Relaxed: by one thread, which shows it again.
    let table = TABLE
        .descriptors
        .swap(core::ptr::null_mut(), Ordering::Relaxed);
    HIDDEN.store(table, Ordering::Relaxed);
}

/// No longer.
pub fn show() {
    let table = HIDDEN.load(Ordering::Relaxed);
    // Release: as in set_up.
    TABLE.descriptors.store(table, Ordering::Release);
}

/// Whether nothing can have a record: the table is hidden, or there is none.
pub fn is_hidden() -> bool {
    TABLE.descriptors.load(Ordering::Relaxed).is_null()
}

/// Whether this process has no socket here.
pub fn has_none() -> bool {
    let mut none = true;
    for_each_own(|_| none = false);
    none
}

/// For a process that has none, and gives the tables' memory back.
pub fn forget_all() {
    // Relaxed, both: nobody else is there.
    TABLE
        .descriptors
        .store(core::ptr::null_mut(), Ordering::Relaxed);
    SHARED.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Gives the places of carriers back that were never used.
pub fn give_places_back() {
    let _gate = GATE.hold();
    memory::give_places_back();
}

/// A descriptor of our own, for the record of that number.
const OWN: u32 = 1 << 31;

fn slot(fd: i32) -> Option<&'static AtomicU32> {
    // Acquire: partner: the release in set_up.
    let table = TABLE.descriptors.load(Ordering::Acquire);
    if table.is_null() || fd.unsigned_abs() >= DESCRIPTORS_MAX || fd < 0 {
        return None;
    }
    // SAFETY: the table has DESCRIPTORS_MAX words, and is never unmapped.
    Some(unsafe { &*table.add(fd.unsigned_abs() as usize) })
}

/// The record of this number.
pub fn by_number(number: u32) -> &'static Record {
    debug_assert!(number < RECORDS_MAX);
    // SAFETY: there are RECORDS_MAX records, never unmapped; zeros are a valid record.
    unsafe { &*RECORDS.load(Ordering::Relaxed).add(number as usize) }
}

fn local_count(number: u32) -> &'static AtomicU32 {
    // SAFETY: as for the records.
    unsafe { &*LOCAL_COUNTS.load(Ordering::Relaxed).add(number as usize) }
}

fn own_generation(number: u32) -> &'static AtomicU32 {
    // SAFETY: as for the records.
    unsafe { &*GENERATIONS.load(Ordering::Relaxed).add(number as usize) }
}

/// Whether this process has a descriptor of the record of this number.
pub fn is_own(number: u32) -> bool {
    // Relaxed: as of now.
    local_count(number).load(Ordering::Relaxed) > 0
}

/// The record of a descriptor.
#[inline]
pub fn find(fd: i32) -> Option<&'static Record> {
    // Acquire: partner: the release in attach.
    match slot(fd)?.load(Ordering::Acquire) {
        0 | OWN.. => None,
        number => Some(by_number(number - 1)),
    }
}

/// Notes that a descriptor is our own, for a record.
pub fn note_own(fd: i32, record: &Record) {
    if let Some(slot) = slot(fd) {
        // Relaxed, here and below: it stands for itself.
        HIGHEST_OWN.fetch_max(fd.unsigned_abs(), Ordering::Relaxed);
        slot.store(OWN | (record.number() + 1), Ordering::Relaxed);
    }
}

/// It is no longer.
pub fn forget_own(fd: i32) {
    if let Some(slot) = slot(fd) {
        slot.store(0, Ordering::Relaxed);
    }
}

/// The number of the record that a descriptor of our own is for.
pub fn own(fd: i32) -> Option<u32> {
    let found = slot(fd)?.load(Ordering::Relaxed);
    (found & OWN != 0).then(|| (found & !OWN) - 1)
}

/// Held while a descriptor comes to have a record, or ceases to, while a carrier is mapped, and during
/// a fork: a child's table has what is counted for it. Of one process; nothing is waited for while it is held.
static GATE: Lock = Lock::new();

/// This thread is about to fork.
pub fn begin_fork() {
    core::mem::forget(GATE.hold());
}

/// It has.
pub fn end_fork() {
    GATE.reset();
}

/// Whether a descriptor is this socket's.
#[inline]
pub fn is_of(fd: i32, record: &Record) -> bool {
    find(fd).is_some_and(|found| core::ptr::eq(found, record))
}

/// A new record for a descriptor that has none.
pub fn add(fd: i32, state: State) -> Option<&'static Record> {
    slot(fd).filter(|_| confinement::may_come())?;
    fault::watch();
    members::look_around();
    let gate = GATE.hold();
    let number = allocate().or_else(|| {
        members::look_at_all();
        allocate()
    });
    let record = by_number(number?);
    if is_own(record.number()) {
        forget(record);
    }
    record.reset(state);
    let before = enter(fd, record);
    drop(gate);
    lost(before);
    Some(record)
}

/// A further descriptor of the same socket, of which the process is counted.
pub fn attach(fd: i32, record: &'static Record) {
    let gate = GATE.hold();
    let before = enter(fd, record);
    drop(gate);
    lost(before);
}

/// Runs a call that duplicates a descriptor, and returns the new one. No other thread puts another
/// socket in the place of the old one meanwhile.
pub fn duplicate(old: i32, call: impl FnOnce() -> i32) -> i32 {
    if find(old).is_none() {
        return call();
    }
    let gate = GATE.hold();
    let new = call();
    let record = find(old).filter(|_| new >= 0 && new != old);
    let before = record.map_or(0, |record| enter(new, record));
    drop(gate);
    note_highest(new.max(0));
    lost(before);
    new
}

/// Puts another file in the place of a descriptor of the socket's, which is the socket's no more;
/// nobody forks meanwhile. Returns the record if it was the process's last.
pub fn replace(fd: i32, record: &'static Record, put: impl FnOnce()) -> Option<&'static Record> {
    let _gate = GATE.hold();
    if !is_of(fd, record) {
        return None;
    }
    put();
    take_out(fd)
}

/// Under the gate. Returns the number of the record that the descriptor had, plus 1: it was closed
/// where we did not see it.
fn enter(fd: i32, record: &'static Record) -> u32 {
    let Some(slot) = slot(fd) else { return 0 };
    let number = record.number();
    if local_count(number).fetch_add(1, Ordering::Relaxed) == 0 {
        // Relaxed: of this process, under the gate.
        own_generation(number).store(record.generation(), Ordering::Relaxed);
        members::note(number);
    }
    // AcqRel: partner: the acquire in find.
    slot.swap(number + 1, Ordering::AcqRel)
}

/// A descriptor was closed past this library.
fn lost(before: u32) {
    let Some(number) = before.checked_sub(1).filter(|_| before & OWN == 0) else {
        return;
    };
    if local_count(number).fetch_sub(1, Ordering::Relaxed) == 1 {
        let record = by_number(number);
        epoll::socket_closed(record);
        // The sign that it holds the place went with its socket.
        seeker::close(record);
        uses::wait_for_all(record);
        leave(record);
    }
}

/// What this process has mapped for a socket.
pub fn mapping(record: &Record) -> Mapping {
    memory::mapping(record.number())
}

/// Maps the memory of a socket's carrier, if that can be.
pub fn map(record: &Record, fd: i32) -> Option<Mapping> {
    let _gate = GATE.hold();
    memory::map_carrier(record.number(), fd).then(|| mapping(record))
}

/// Gives it back, if it is still there: the record may be another socket's by now.
pub fn unmap(record: &Record, mapping: Mapping) {
    let _gate = GATE.hold();
    memory::unmap_carrier(record.number(), mapping);
}

/// The descriptor is about to be closed, or was. `Some` if it was the process's last of the
/// socket: then the process is no longer counted.
pub fn detach(fd: i32) -> Option<&'static Record> {
    let _gate = GATE.hold();
    take_out(fd)
}

/// Under the gate.
fn take_out(fd: i32) -> Option<&'static Record> {
    let slot = slot(fd)?;
    // AcqRel: as in find and attach; only one caller gets the number.
    let is_theirs = |number: u32| (1..OWN).contains(&number).then_some(0);
    let number = slot.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_theirs);
    let number = number.ok()? - 1;
    let last = local_count(number).fetch_sub(1, Ordering::Relaxed) == 1;
    last.then(|| by_number(number))
}

/// Under the gate. Takes a socket that this process was not counted for, and that is over, out of the
/// table.
fn forget(record: &Record) {
    for_each_descriptor(0, u32::MAX, |fd, found| {
        if core::ptr::eq(found, record) {
            take_out(fd);
        }
    });
}

/// Forgets all descriptors but one. For a process that has closed the others.
pub fn keep_only(fd: i32, record: &'static Record) {
    for_each_descriptor(0, u32::MAX, |other, _| {
        if let Some(slot) = slot(other) {
            // Relaxed, both: nobody else is there.
            slot.store(0, Ordering::Relaxed);
        }
    });
    for_each_own(|other| local_count(other.number()).store(0, Ordering::Relaxed));
    attach(fd, record);
}

fn shared() -> Option<&'static Shared> {
    let shared = SHARED.load(Ordering::Relaxed);
    // SAFETY: behind the records, never unmapped; zeros are valid.
    (!shared.is_null()).then(|| unsafe { &*shared })
}

/// Free records that are looked at for one that no thread holds.
const FREE_LOOKS: u32 = 64;

fn allocate() -> Option<u32> {
    let shared = shared()?;
    let _held = shared.lock.hold()?;
    // Relaxed, all: under the lock.
    let mut from = &shared.free;
    for _ in 0..FREE_LOOKS {
        // Children share this memory, also those that have gone over to somebody else.
        let free = from.load(Ordering::Relaxed).checked_sub(1);
        let Some(number) = free.filter(|number| *number < RECORDS_MAX) else {
            break;
        };
        let record = by_number(number);
        // A thread may be in the middle of a call on the socket that it was.
        if record.send_lock.is_idle() && record.recv_lock.is_idle() {
            from.store(record.next_free.load(Ordering::Relaxed), Ordering::Relaxed);
            record.is_free.store(0, Ordering::Relaxed);
            return Some(number);
        }
        from = &record.next_free;
    }
    let number = shared.used.load(Ordering::Relaxed);
    if number >= RECORDS_MAX {
        return None;
    }
    shared.used.store(number + 1, Ordering::Relaxed);
    Some(number)
}

/// Calls `visit` for every record that this process has a descriptor of.
pub fn for_each_own(mut visit: impl FnMut(&'static Record)) {
    let Some(shared) = shared() else { return };
    let used = shared.used.load(Ordering::Relaxed).min(RECORDS_MAX);
    for number in 0..used {
        if local_count(number).load(Ordering::Relaxed) > 0 {
            visit(by_number(number));
        }
    }
}

/// A descriptor of the socket, if the process has one.
pub fn any_descriptor(record: &Record) -> Option<i32> {
    let mut found = None;
    for_each_descriptor(0, u32::MAX, |fd, other| {
        if core::ptr::eq(record, other) {
            found = Some(fd);
        }
    });
    found
}

/// Calls `visit` for every descriptor of `first..=last` that has a record.
pub fn for_each_descriptor(first: u32, last: u32, mut visit: impl FnMut(i32, &'static Record)) {
    for fd in known_descriptors(first, last) {
        if let Some(record) = find(fd) {
            visit(fd, record);
        }
    }
}

/// Those of `first..=last` that may be a socket or a set that we know: however many a program
/// closes at once, no more are looked at than up to the highest that ever was one.
pub fn known_descriptors(first: u32, last: u32) -> impl Iterator<Item = i32> {
    let highest = highest().max(HIGHEST_OWN.load(Ordering::Relaxed));
    let highest = highest.min(DESCRIPTORS_MAX - 1);
    (first..=last.min(highest)).map(|fd| fd as i32)
}

/// The highest descriptor that ever had a record, or was a set with one in it.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// The highest that was ever our own.
static HIGHEST_OWN: AtomicU32 = AtomicU32::new(0);

/// The highest of the program's that is known.
pub fn highest() -> u32 {
    HIGHEST.load(Ordering::Relaxed)
}

/// Notes that a descriptor has a record, or is a set.
pub fn note_highest(fd: i32) {
    HIGHEST.fetch_max(fd.unsigned_abs(), Ordering::Relaxed);
}

/// Makes the two ends of a record that is about to be [`State::Up`].
pub fn set_ends(
    record: &Record,
    send: &Held<'_>,
    recv: &Held<'_>,
    sender: Sender,
    receiver: Receiver,
) {
    *record.sender(send) = sender;
    *record.receiver(recv) = receiver;
}

const _: () = assert!(size_of::<Direction>() == 8 && size_of::<Record>() <= 384);
