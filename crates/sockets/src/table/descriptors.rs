//! The descriptors of this process, and the sockets that they are.
//!
//! | memory | shared with children | what |
//! |---|---|---|
//! | socket states | yes, as the kernel's sockets are | [`SocketState`], by number |
//! | descriptors | copied | the number of the socket state of each descriptor |
//! | generations | copied | which use of each socket state the descriptors belong to |
//! | places | copied; the memory mapped there is shared | where the hybrid stream of socket state `n` is mapped |
//!
//! All four are reserved at start and take memory only where they are used. A place stays readable after its
//! hybrid stream is unmapped (it then reads as zeros). So a thread that reads a hybrid stream while
//! another thread closes it does no harm.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use crate::process::words::{AtStart, Lone};
use crate::process::{fault, memory};
use crate::system::own_descriptors::{highest, note_highest};
use crate::table::gate::GATE;
use crate::table::limits::{DESCRIPTORS_MAX, SOCKETS_MAX};
use crate::table::references::leave;
use crate::table::slots::{self, OWN, slot};
use crate::table::socket_state::SocketState;
use crate::table::sockets::{self, allocate, by_number, ever_used, own_generation};
use crate::table::state::State;
use crate::table::{
    admission,
    pins::{self, Use, note},
    process_refs,
};

/// How many descriptors of this process each socket state has.
static LOCAL_COUNTS: AtStart<AtomicPtr<Lone<AtomicU32>>> =
    AtStart::new(AtomicPtr::new(core::ptr::null_mut()));

const DESCRIPTORS_BYTES: usize = DESCRIPTORS_MAX as usize * 4;
const COUNTS_BYTES: usize = SOCKETS_MAX as usize * 4;
/// Bytes that [`set_up`] takes, without those of the socket states.
pub const PRIVATE_BYTES: usize =
    memory::private_bytes(DESCRIPTORS_BYTES) + memory::private_bytes(COUNTS_BYTES);

/// Reserves the memory. Without it, all sockets stay with the kernel.
pub fn set_up() -> bool {
    let descriptors = memory::part_private(DESCRIPTORS_BYTES);
    let counts = memory::part_private(COUNTS_BYTES);
    let (Some(descriptors), Some(counts)) = (descriptors, counts) else {
        return false;
    };
    LOCAL_COUNTS.set(counts.cast());
    if !sockets::set_up() {
        return false;
    }
    slots::publish(descriptors.cast());
    true
}

/// Socket states of which this process has a descriptor: those whose count is not 0.
static OWNED: Lone<AtomicU32> = Lone::new(AtomicU32::new(0));

/// Whether this process has no socket here.
pub fn has_none() -> bool {
    OWNED.get() == 0
}

/// This process has a descriptor more of a socket. Returns whether it is the first.
fn count_one_more(number: u32) -> bool {
    let is_first = local_count(number).add(1) == 0;
    if is_first {
        OWNED.add(1);
    }
    is_first
}

/// One less. Returns whether it was the last.
fn count_one_less(number: u32) -> bool {
    let was_last = local_count(number).sub(1) == 1;
    if was_last {
        OWNED.sub(1);
    }
    was_last
}

/// For a process that has no sockets, and gives the tables' memory back.
pub fn forget_all() {
    slots::forget();
    sockets::forget();
}

fn local_count(number: u32) -> &'static Lone<AtomicU32> {
    // SAFETY: as for the socket states.
    unsafe { &*LOCAL_COUNTS.get().add(number as usize) }
}

/// Whether this process has a descriptor of the socket state of this number.
pub fn is_own(number: u32) -> bool {
    local_count(number).get() > 0
}

/// The socket state of a descriptor.
#[inline]
pub fn find(fd: i32) -> Option<&'static SocketState> {
    // Acquire pairs with the Release in `enter`.
    match slot(fd)?.load(Ordering::Acquire) {
        0 | OWN.. => None,
        number => Some(by_number(number - 1)),
    }
}

/// Notes that a descriptor belongs to the library itself, for the upgrade of a socket.
pub fn note_own(fd: i32, socket: &SocketState) {
    if let Some(slot) = slot(fd) {
        HIGHEST_OWN.raise(fd.unsigned_abs());
        // Relaxed: it stands for itself.
        slot.store(OWN | (socket.number() + 1), Ordering::Relaxed);
    }
}

/// The descriptor does not belong to the library any more.
pub fn forget_own(fd: i32) {
    if let Some(slot) = slot(fd) {
        // Relaxed: it stands for itself.
        slot.store(0, Ordering::Relaxed);
    }
}

/// The number of the socket state that a descriptor of the library is for.
pub fn own(fd: i32) -> Option<u32> {
    // Relaxed: it stands for itself.
    let found = slot(fd)?.load(Ordering::Relaxed);
    let number = (found & OWN != 0).then_some(found & !OWN)?;
    number.checked_sub(1)
}

/// Whether a descriptor is this socket's.
#[inline]
pub fn is_of(fd: i32, socket: &SocketState) -> bool {
    find(fd).is_some_and(|found| core::ptr::eq(found, socket))
}

/// Enters a new socket state for a descriptor that has none.
pub fn add(fd: i32, state: State) -> Option<&'static SocketState> {
    slot(fd).filter(|_| admission::may_upgrade())?;
    fault::watch();
    process_refs::check_some();
    let gate = GATE.hold();
    let number = allocate().or_else(|| {
        process_refs::check_all();
        allocate()
    });
    let socket = by_number(number?);
    if is_own(socket.number()) {
        forget(socket);
    }
    socket.reset(state);
    let before = enter(fd, socket);
    drop(gate);
    found_closed(before);
    Some(socket)
}

/// Enters a further descriptor of a socket for which this process is already counted.
pub fn attach(fd: i32, socket: &'static SocketState) {
    let gate = GATE.hold();
    let before = enter(fd, socket);
    drop(gate);
    found_closed(before);
}

/// Runs a call that duplicates a descriptor, and returns the new one. No other thread puts another
/// socket in the place of the old one meanwhile.
pub fn duplicate(old: i32, call: impl FnOnce() -> i32) -> i32 {
    if find(old).is_none() {
        return call();
    }
    let gate = GATE.hold();
    let new = call();
    let socket = find(old).filter(|_| new >= 0 && new != old);
    let before = socket.map_or(0, |socket| enter(new, socket));
    drop(gate);
    note_highest(new.max(0));
    found_closed(before);
    new
}

/// Puts another file in the place of a descriptor of the socket, which then is the socket's no more. Nobody
/// forks meanwhile. Returns the socket state if it was the last descriptor in this process.
pub fn replace(
    fd: i32,
    socket: &'static SocketState,
    put: impl FnOnce(),
) -> Option<&'static SocketState> {
    let _gate = GATE.hold();
    if !is_of(fd, socket) {
        return None;
    }
    put();
    take_out(fd)
}

/// Under the gate. Returns the previous entry of the descriptor, which was then closed unseen.
fn enter(fd: i32, socket: &'static SocketState) -> u32 {
    let Some(slot) = slot(fd) else { return 0 };
    let number = socket.number();
    if count_one_more(number) {
        process_refs::enter_if_first();
        own_generation(number).set(socket.generation());
        process_refs::note(number);
    }
    // AcqRel: the Release pairs with the Acquire in `find`, the Acquire with the Release of the entry before.
    slot.swap(number + 1, Ordering::AcqRel)
}

/// Called for a socket whose last descriptor is found to have been closed unseen.
static OBSERVER: OnceLock<fn(&SocketState)> = OnceLock::new();

/// Has `observe` called for each socket whose last descriptor was closed past this library. For the
/// constructor.
pub fn observe_lost(observe: fn(&SocketState)) {
    let _ = OBSERVER.set(observe);
}

/// A descriptor was closed past this library.
fn found_closed(before: u32) {
    let Some(number) = before.checked_sub(1).filter(|_| before & OWN == 0) else {
        return;
    };
    if count_one_less(number) {
        let socket = by_number(number);
        if let Some(observe) = OBSERVER.get() {
            observe(socket);
        }
        pins::wait_for_all(socket);
        leave(socket);
    }
}

/// The descriptor is about to be closed, or was. `Some` if it was the last one of the socket in this
/// process: then the process lets go of the socket.
pub fn detach(fd: i32) -> Option<&'static SocketState> {
    let _gate = GATE.hold();
    take_out(fd)
}

/// Takes a descriptor out of the table. Under the gate.
fn take_out(fd: i32) -> Option<&'static SocketState> {
    let slot = slot(fd)?;
    let is_theirs = |number: u32| (1..OWN).contains(&number).then_some(0);
    // AcqRel: the Acquire pairs with the Release in `enter`, the Release with the Acquire in `find`. Only one caller
    // gets the number.
    let number = slot.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_theirs);
    let number = number.ok()? - 1;
    count_one_less(number).then(|| by_number(number))
}

/// Takes a socket that is over, and that this process is not counted for, out of the table. Under the gate.
pub fn forget(socket: &SocketState) {
    for_each_descriptor(0, u32::MAX, |fd, found| {
        if core::ptr::eq(found, socket) {
            take_out(fd);
        }
    });
}

/// Forgets all descriptors but one. For a process that has closed the others.
pub fn keep_only(fd: i32, socket: &'static SocketState) {
    for_each_descriptor(0, u32::MAX, |other, _| {
        if let Some(slot) = slot(other) {
            // Relaxed: nobody else is there.
            slot.store(0, Ordering::Relaxed);
        }
    });
    for_each_own(|other| local_count(other.number()).set(0));
    OWNED.set(0);
    attach(fd, socket);
}

/// Calls `visit` for every socket state that this process has a descriptor of.
pub fn for_each_own(mut visit: impl FnMut(&'static SocketState)) {
    if has_none() {
        return;
    }
    for number in 0..ever_used() {
        if local_count(number).get() > 0 {
            visit(by_number(number));
        }
    }
}

/// A descriptor of the socket, if the process has one.
pub fn any_descriptor(socket: &SocketState) -> Option<i32> {
    let mut found = None;
    for_each_descriptor(0, u32::MAX, |fd, other| {
        if core::ptr::eq(socket, other) {
            found = Some(fd);
        }
    });
    found
}

/// Calls `visit` for every descriptor of `first..=last` that has a socket state.
pub fn for_each_descriptor(
    first: u32,
    last: u32,
    mut visit: impl FnMut(i32, &'static SocketState),
) {
    if has_none() {
        return;
    }
    for fd in known_descriptors(first, last) {
        if let Some(socket) = find(fd) {
            visit(fd, socket);
        }
    }
}

/// Those of `first..=last` that may be a known socket or set. However many descriptors a program closes at
/// once, no more are looked at than up to the highest that ever was one.
pub fn known_descriptors(first: u32, last: u32) -> impl Iterator<Item = i32> {
    let highest = highest().max(HIGHEST_OWN.get());
    let highest = highest.min(DESCRIPTORS_MAX - 1);
    (first..=last.min(highest)).map(|fd| fd as i32)
}

/// The highest that ever belonged to the library.
static HIGHEST_OWN: Lone<AtomicU32> = Lone::new(AtomicU32::new(0));

/// Pins a descriptor; `None` if it is not the socket's any more.
pub fn pin(fd: c_int, socket: &SocketState) -> Option<Use> {
    let noted = note(fd, socket);
    is_of(fd, socket).then_some(noted)
}
