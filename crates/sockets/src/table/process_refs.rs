//! Process references: which processes have which sockets.
//!
//! A socket state counts the processes that have its socket. A process that is killed cannot remove its own
//! references. Others find that it is gone, and remove them.
//!
//! Each process of a family has a *place* in a table that children share:
//!
//! | of each place | what |
//! |---|---|
//! | held | id of the process, or of the one that has claimed the place; 0: free. Above these bits, how often it was claimed |
//! | namespace | the process namespace that the id belongs to, by its inode |
//! | near, far | a bit for each socket state that counts this process: `near` for the first ones, `far` for the others |
//!
//! Three things lie in one window of memory: the first places, what all places have in common, and the first
//! socket states. A child that touches one of them has them all (see `memory`). Most processes use no others.
//!
//! A process gets its place with its first socket ([`enter_if_first`]). If it has sockets when it forks, a
//! place is reserved for the child before the child is made, since it may be killed before it runs. A process
//! that reaps such a child knows that it is gone ([`reaped`]). Where nobody reaps it, some places are checked
//! when a process is about to fork or gets a socket ([`check_some`]), and all places that have a certain socket
//! when something depends on it ([`check`]). The check makes system calls that a sandboxed child may not make,
//! so such a child does not check when bytes move.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use barewire_calls::descriptor;

use crate::process::at_fork::AT_FORK;
use crate::process::words::{Guarded, Lone};
use crate::process::{clock, family, ids, memory, sandbox};
use crate::system::real;
use crate::table::limits::SOCKETS_MAX;
use crate::table::socket_state::SocketState;
use crate::table::sockets;

/// Processes of one family that can be entered at a time. What others have is counted all the same.
const PLACES_MAX: usize = 4096;
const WORDS: usize = SOCKETS_MAX as usize / 64;
/// With an id: that process makes the place ready, or clears it. Above all ids.
const CLAIMED: u32 = 1 << 31;
/// With it: that process was found gone, at the second in the bits behind. Its child may be about
/// to say that it is there.
const SUSPECT: u32 = 1 << 30;
const SECOND_AT: u32 = 22;
const SECOND_BITS: u32 = 0xff;
const ID_BITS: u32 = (1 << SECOND_AT) - 1;
/// So long a child may need for that.
const SUSPECT_S: u32 = 5;
/// Places that are looked at when a process comes to have a socket, or a child.
const FEW: u32 = 8;
/// How often that is, at most.
const PAUSE_NS: u64 = 500_000_000;

/// Words of bits that a place has at hand: it then takes one cache line.
const NEAR_WORDS: usize = 6;
const FAR_WORDS: usize = WORDS - NEAR_WORDS;

#[repr(C, align(64))]
struct Place {
    held: AtomicU64,
    namespace: AtomicU32,
    near: [Lone<AtomicU64>; NEAR_WORDS],
}

#[repr(C)]
struct ProcessRefs {
    far: [[Lone<AtomicU64>; FAR_WORDS]; PLACES_MAX],
    /// The first place is the last here, beside what follows.
    places: [Place; PLACES_MAX],
    common: Common,
}

#[repr(C, align(64))]
struct Common {
    /// Places that were ever used.
    used: Lone<AtomicU32>,
    /// Where the next look begins, and when the last was.
    next: Lone<AtomicU32>,
    looked_ns: Lone<AtomicU64>,
}

const _: () = assert!(size_of::<Place>() == 64);

impl Place {
    /// The process namespace of this process is that of the place.
    fn set_namespace(&self) {
        // Relaxed: the next Release store to `held` publishes it, in `take`, `child_made` or
        // `VforkReference::enter`. It pairs with the Acquire in `held_at`.
        self.namespace.store(own_namespace(), Ordering::Relaxed);
    }
}

impl ProcessRefs {
    fn place(&self, place: usize) -> &Place {
        &self.places[PLACES_MAX - 1 - place]
    }

    /// The bits of the socket states from `nth * 64` on. A bit stands for itself. Another process acts on it only
    /// when the process of the place is gone, and all that this one stored is in memory.
    fn word(&self, place: usize, nth: usize) -> &Lone<AtomicU64> {
        match nth.checked_sub(NEAR_WORDS) {
            None => &self.place(place).near[nth],
            Some(nth) => &self.far[place][nth],
        }
    }
}

static PROCESS_REFS: AtomicPtr<ProcessRefs> = AtomicPtr::new(core::ptr::null_mut());
/// This process's place, plus 1; 0 for none. It changes under the gate, or while there is one thread, and before the
/// first socket is entered.
static OWN: &Lone<AtomicU32> = &AT_FORK.process_refs.0.own[0];
/// The process namespace that this process is in, for good; 0: nobody has asked yet, or it cannot be known.
/// All threads find the same.
static NAMESPACE: &Lone<AtomicU32> = &AT_FORK.process_refs.0.own[1];
/// What is known of this process, a bit each. It changes under the gate, or while there is one thread.
static KNOWN: &Lone<AtomicU32> = &AT_FORK.process_refs.0.own[2];
/// It was made by fork.
const IS_CHILD: u32 = 1;
/// It has had a socket, and so a place, if there was one.
const HAD_SOCKET: u32 = 2;

/// What a place holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held(u64);

impl Held {
    /// Id, and claim.
    const fn who(self) -> u32 {
        self.0 as u32
    }

    /// By another, since it was claimed as often.
    const fn by(self, who: u32) -> Self {
        Self(self.0 >> 32 << 32 | who as u64)
    }

    const fn claimed_again(self) -> Self {
        Self(self.0.wrapping_add(1 << 32))
    }
}

/// A place that is made ready for a child.
#[derive(Clone, Copy)]
struct ReservedPlace {
    place: usize,
    claim: Held,
}

/// The place that is ready for the child, plus 1, and its claim: under the gate, until the child is there. A
/// variable of the thread's would be one page more for the child to touch.
static FOR_CHILD: &[Guarded<AtomicU64>; 2] = &AT_FORK.process_refs.0.for_child;

thread_local! {
    /// For the child that this thread makes: what it is told of when the gate is open again.
    static RESERVED_PLACE: Cell<Option<ReservedPlace>> = const { Cell::new(None) };
}

/// Bytes that [`set_up`] takes.
pub const SHARED_BYTES: usize = memory::shared_bytes(size_of::<ProcessRefs>());
/// Where in them those parts meet that are touched most. What follows is touched as well.
pub const MEETING: usize = core::mem::offset_of!(ProcessRefs, common);

/// Reserves the tables.
pub fn set_up() -> bool {
    let Some(refs) = memory::part_shared(size_of::<ProcessRefs>()) else {
        return false;
    };
    // Release pairs with the Acquire in `refs`.
    PROCESS_REFS.store(refs.cast(), Ordering::Release);
    true
}

fn refs() -> Option<&'static ProcessRefs> {
    // Acquire pairs with the Release in `set_up`.
    let refs = PROCESS_REFS.load(Ordering::Acquire);
    // SAFETY: never unmapped; zeros are valid.
    (!refs.is_null()).then(|| unsafe { &*refs })
}

/// Gives this process a place, without sockets. In a child: its parent's is not its own.
pub fn enter() {
    KNOWN.set_bits(HAD_SOCKET);
    take(expect());
}

/// Gives this process a place, if it is about to have its first socket. Under the gate: one thread does it, for
/// the process that the tables belong to.
pub fn enter_if_first() {
    // A signal handler that interrupts this very function has no place for this once.
    if KNOWN.get() & HAD_SOCKET == 0 {
        let saved = real::errno();
        enter();
        real::set_errno(saved);
    }
}

/// For a process that has no sockets, and gives the tables' memory back. Whoever reaps it frees its place.
pub fn forget_all() {
    // Relaxed: nobody else is there.
    PROCESS_REFS.store(core::ptr::null_mut(), Ordering::Relaxed);
    OWN.set(0);
}

/// In a child: takes the place that its parent has made ready. `false`: it came so late that others
/// took it for gone, and no socket counts it any more.
#[must_use]
pub fn become_child() -> bool {
    KNOWN.set(IS_CHILD | HAD_SOCKET);
    // Its parent may have put it into a namespace of its own.
    NAMESPACE.set(0);
    let [place, claim] = FOR_CHILD.each_ref().map(Guarded::get);
    let reserved = (place as usize).checked_sub(1).map(|place| ReservedPlace {
        place,
        claim: Held(claim),
    });
    take(reserved)
}

/// As above, of a parent without sockets, which has made no place ready.
pub fn become_child_without_sockets() {
    KNOWN.set(IS_CHILD);
    NAMESPACE.set(0);
    OWN.set(0);
}

fn take(expected: Option<ReservedPlace>) -> bool {
    OWN.set(0);
    let (Some(refs), Some(expected)) = (refs(), expected) else {
        return true;
    };
    // One that had this id is gone. A child made by vfork takes its parent's place for its parent.
    let own = ids::owner();
    for place in (0..used(refs)).filter(|&place| place != expected.place) {
        if let Some(held) = held_at(refs, place).filter(|held| held.who() == own) {
            remove(refs, place, held);
        }
    }
    refs.place(expected.place).set_namespace();
    let at = &refs.place(expected.place).held;
    let is_ready = |held: u64| {
        let held = Held(held);
        // Not if somebody is clearing it.
        let is_claimers = |who: u32| who & (CLAIMED | ID_BITS) == expected.claim.who();
        let is_its = held.who() == own || is_claimers(held.who());
        let same = held.by(0) == expected.claim.by(0);
        (same && is_its).then(|| held.by(own).0)
    };
    // Release pairs with the Acquire in `held_at` and `claim`.
    let taken = at.fetch_update(Ordering::Release, Ordering::Relaxed, is_ready);
    if taken.is_ok() {
        OWN.set(expected.place as u32 + 1);
    } else {
        enter();
    }
    taken.is_ok()
}

/// A child made by vfork, which has a socket as well as its parent until this is dropped. Were its
/// parent counted alone and killed, the child would go on, in its parent's memory, with a socket state
/// that is another socket's.
pub struct VforkReference {
    socket: &'static SocketState,
    place: Option<ReservedPlace>,
}

impl VforkReference {
    /// Counts the calling process; `None` if the socket is over.
    pub fn enter(socket: &'static SocketState) -> Option<Self> {
        if !sockets::count_again(socket) {
            return None;
        }
        let place = expect();
        if let (Some(refs), Some(ReservedPlace { place, claim })) = (refs(), place) {
            note_at(place as u32 + 1, socket.number());
            // Release pairs with the Acquire in `held_at` and `claim`.
            refs.place(place)
                .held
                .store(claim.by(ids::id()).0, Ordering::Release);
        }
        Some(Self { socket, place })
    }
}

impl Drop for VforkReference {
    fn drop(&mut self) {
        match (refs(), self.place) {
            (Some(refs), Some(ReservedPlace { place, claim })) => {
                remove(refs, place, claim.by(ids::id()));
            }
            _ => sockets::killed(self.socket),
        }
    }
}

/// For a child of this thread's that will have no sockets: no place is ready.
pub fn reserve_none() {
    // For when it is reaped: this process may be confined by then, or see no `/proc` any more.
    own_namespace();
    // One that was reserved for a child of whom we were not told is that child's.
    if RESERVED_PLACE.get().is_some() {
        RESERVED_PLACE.set(None);
    }
}

/// Whether a place is ready for a child.
pub fn has_reserved() -> bool {
    RESERVED_PLACE.get().is_some()
}

/// Makes a place ready for a child of this thread's. See [`note_reserved_socket`].
pub fn reserve_for_child() {
    let reserved = expect();
    RESERVED_PLACE.set(reserved);
    let words = reserved.map_or([0, 0], |it| [it.place as u64 + 1, it.claim.0]);
    FOR_CHILD[0].set(words[0]);
    FOR_CHILD[1].set(words[1]);
}

/// The child that is expected will be counted by this socket state.
pub fn note_reserved_socket(number: u32) {
    let place = RESERVED_PLACE
        .get()
        .map(|expected| expected.place as u32 + 1);
    note_at(place.unwrap_or(0), number);
}

fn note_at(place: u32, number: u32) {
    if let Some((word, bit)) = bit_of(place, number) {
        word.set_bits(bit);
    }
}

/// The child that was expected is there, or (a negative number) could not be made.
pub fn child_made(child: i32) {
    let (Some(refs), Some(ReservedPlace { place, claim })) = (refs(), RESERVED_PLACE.take()) else {
        return;
    };
    if child < 0 {
        return clear(refs, place);
    }
    // Not if it has said so itself: it may have another number, as it knows it.
    let made = claim.by(child.unsigned_abs());
    let at = &refs.place(place).held;
    // Release pairs with the Acquire in `held_at` and `claim`.
    let _ = at.compare_exchange(claim.0, made.0, Ordering::Release, Ordering::Relaxed);
}

/// Claims a free place, if there is one.
fn expect() -> Option<ReservedPlace> {
    let refs = refs()?;
    let find = || {
        (0..PLACES_MAX).find_map(|place| {
            let at = &refs.place(place).held;
            // Relaxed: `claim` puts another in its place only if it is still this.
            let held = Held(at.load(Ordering::Relaxed));
            let is_free = held.who() == 0;
            let claim = is_free.then(|| claim(at, held, held.claimed_again()))??;
            Some(ReservedPlace { place, claim })
        })
    };
    let expected = find().or_else(|| {
        check_all();
        find()
    })?;
    refs.place(expected.place).set_namespace();
    refs.common.used.raise(expected.place as u32 + 1);
    Some(expected)
}

fn claim(at: &AtomicU64, before: Held, after: Held) -> Option<Held> {
    let claim = after.by(CLAIMED | ids::id());
    // Acquire pairs with the Release in `clear`, `take`, `child_made` and `VforkReference::enter`.
    at.compare_exchange(before.0, claim.0, Ordering::Acquire, Ordering::Relaxed)
        .ok()?;
    Some(claim)
}

/// The process namespace of this process; 0 if it cannot be known.
fn own_namespace() -> u32 {
    let noted = NAMESPACE.get();
    if noted != 0 {
        return noted;
    }
    let found = ask_for_namespace();
    NAMESPACE.set(found);
    found
}

fn ask_for_namespace() -> u32 {
    let status = descriptor::status_in(libc::AT_FDCWD, c"/proc/self/ns/pid");
    status.map_or(0, |status| status.st_ino as u32)
}

fn own_bit(number: u32) -> Option<(&'static Lone<AtomicU64>, u64)> {
    bit_of(OWN.get(), number)
}

fn bit_of(place: u32, number: u32) -> Option<(&'static Lone<AtomicU64>, u64)> {
    let place = place.checked_sub(1)?;
    let word = refs()?.word(place as usize, number as usize / 64);
    Some((word, 1 << (number % 64)))
}

/// Whether it is known which socket states count this process.
pub fn has_place() -> bool {
    OWN.get() != 0
}

/// This process is counted by a socket state.
pub fn note(number: u32) {
    note_at(OWN.get(), number);
}

/// It is no longer. Returns whether it was; a process without a place: always.
pub fn forget(number: u32) -> bool {
    own_bit(number).is_none_or(|(word, bit)| word.clear_bits(bit) & bit != 0)
}

/// Whether it is.
pub fn is_noted(number: u32) -> bool {
    own_bit(number).is_some_and(|(word, bit)| word.get() & bit != 0)
}

/// Who is at a place, if that means anything to this process.
fn held_at(refs: &ProcessRefs, place: usize) -> Option<Held> {
    // Acquire pairs with the Release in `take`, `child_made` and `VforkReference::enter`.
    let held = Held(refs.place(place).held.load(Ordering::Acquire));
    if held.who() == 0 {
        return None;
    }
    let namespace = own_namespace();
    // Relaxed: behind the Acquire above.
    let is_ours = refs.place(place).namespace.load(Ordering::Relaxed) == namespace;
    (namespace != 0 && is_ours).then_some(held)
}

fn used(refs: &ProcessRefs) -> usize {
    (refs.common.used.get() as usize).min(PLACES_MAX)
}

/// A process that is no more, as its parent was told. Its number may be another's by now.
pub fn reaped(id: u32) {
    let Some(refs) = refs() else { return };
    for place in 0..used(refs) {
        // Relaxed: looked at again. Who has no sockets need not know its namespace before there is reason.
        if Held(refs.place(place).held.load(Ordering::Relaxed)).who() != id {
            continue;
        }
        let held = held_at(refs, place).filter(|held| held.who() == id);
        // Who may not ask believes what it was told.
        if let Some(held) = held.filter(|_| !sandbox::is_open() || is_gone(id)) {
            remove(refs, place, held);
        }
    }
}

/// Takes those off that are gone, of all that are counted by this socket state.
pub fn check(socket: &SocketState) {
    let Some(refs) = refs() else { return };
    let (word, bit) = (socket.number() as usize / 64, 1 << (socket.number() % 64));
    for place in 0..used(refs) {
        if refs.word(place, word).get() & bit != 0 {
            look_at(refs, place);
        }
    }
}

/// Whether another process is known to be counted by it, after [`check`].
pub fn others_are_noted(socket: &SocketState) -> bool {
    let (word, bit) = (socket.number() as usize / 64, 1 << (socket.number() % 64));
    let own = OWN.get() as usize;
    refs().is_some_and(|refs| {
        let mut others = (0..used(refs)).filter(|place| place + 1 != own);
        others.any(|place| refs.word(place, word).get() & bit != 0)
    })
}

/// As [`check_at_times`], when bytes move: what such a look takes, a child may have forbidden itself.
pub fn check_in_parent(socket: &SocketState) {
    // Relaxed: written at the fork.
    if KNOWN.get() & IS_CHILD == 0 {
        check_at_times(socket);
    }
}

/// As [`check`], now and then.
pub fn check_at_times(socket: &SocketState) {
    if refs().is_some_and(is_time) {
        check(socket);
    }
}

fn is_time(refs: &ProcessRefs) -> bool {
    let now_ns = clock::now_ns();
    let last_ns = refs.common.looked_ns.get();
    let is_time = now_ns.saturating_sub(last_ns) >= PAUSE_NS;
    if is_time {
        refs.common.looked_ns.set(now_ns);
    }
    is_time
}

/// Looks now and then whether some are gone.
pub fn check_some() {
    let Some(refs) = refs() else { return };
    let used = used(refs) as u32;
    if used <= 1 || !is_time(refs) {
        return;
    }
    let first = refs.common.next.add(FEW);
    for nth in 0..FEW.min(used) {
        look_at(refs, (first.wrapping_add(nth) % used) as usize);
    }
}

/// Looks at all of them: something is full.
pub fn check_all() {
    let Some(refs) = refs() else { return };
    for place in 0..used(refs) {
        look_at(refs, place);
    }
}

fn look_at(refs: &ProcessRefs, place: usize) {
    let is_own = OWN.get() == place as u32 + 1;
    let Some(held) = held_at(refs, place).filter(|_| !is_own) else {
        return;
    };
    if is_gone(held.who() & ID_BITS) {
        found_gone(refs, place, held);
    }
}

/// Whether there is no process of this number that has the socket states: one that became another program
/// does not, nor does a stranger.
fn is_gone(id: u32) -> bool {
    !ids::process_exists(id) || (!family::has_member(id) && !family::is_headless(id))
}

fn found_gone(refs: &ProcessRefs, place: usize, held: Held) {
    let who = held.who();
    let second = (clock::now_ns() / 1_000_000_000) as u32 & SECOND_BITS;
    if who & CLAIMED != 0 && who & SUSPECT == 0 {
        let suspect = held.by(who | SUSPECT | (second << SECOND_AT));
        // Relaxed: it stands for itself. What the claimer released stays released, since this is an exchange.
        let _ = refs.place(place).held.compare_exchange(
            held.0,
            suspect.0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        return;
    }
    let suspected_s = second.wrapping_sub(who >> SECOND_AT) & SECOND_BITS;
    if who & CLAIMED == 0 || suspected_s > SUSPECT_S {
        remove(refs, place, held);
    }
}

/// Takes a process that is no more off all socket states that count it.
fn remove(refs: &ProcessRefs, place: usize, held: Held) {
    if claim(&refs.place(place).held, held, held).is_some() {
        clear(refs, place);
    }
}

/// Takes whoever has had this place, which is claimed, off all socket states that count it, and frees it.
fn clear(refs: &ProcessRefs, place: usize) {
    // No bit of a socket state that never was is set.
    for nth in 0..(sockets::ever_used() as usize).div_ceil(64) {
        let mut bits = refs.word(place, nth).swap(0);
        while bits != 0 {
            let number = nth as u32 * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            sockets::killed(sockets::by_number(number));
        }
    }
    let at = &refs.place(place).held;
    // Relaxed: only who claimed it changes it from here.
    let free = Held(at.load(Ordering::Relaxed)).by(0);
    // Release pairs with the Acquire in `claim`.
    at.store(free.0, Ordering::Release);
}

#[cfg(test)]
mod tests;
