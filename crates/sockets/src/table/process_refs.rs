//! Process references: which processes have which sockets.
//!
//! A socket state counts the processes that have its socket. A process that is killed cannot remove its own
//! references. Others find that it is gone, and remove them.
//!
//! | table, shared with children | what |
//! |---|---|
//! | places | the process of each place; 0: free; or who has claimed it. Above that, how often it was claimed |
//! | namespaces | the process namespace that the id belongs to, by its inode |
//! | bits | for each place: the numbers of the socket states that count it |
//!
//! A place is reserved for a child before the child is made, since it may be killed before it runs. A
//! process that reaps such a child knows that it is gone ([`reaped`]). Where nobody reaps it, some places
//! are checked when a process is about to fork or gets a socket ([`check_some`]), and all places that have
//! a certain socket when something depends on it ([`check`]). The check makes system calls that a sandboxed
//! child may not make, so such a child does not check when bytes move.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

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

#[repr(C)]
struct ProcessRefs {
    /// Places that were ever used.
    used: AtomicU32,
    /// Where the next look begins, and when the last was.
    next: AtomicU32,
    looked_ns: AtomicU64,
    places: [AtomicU64; PLACES_MAX],
    namespaces: [AtomicU32; PLACES_MAX],
    bits: [[AtomicU64; WORDS]; PLACES_MAX],
}

static PROCESS_REFS: AtomicPtr<ProcessRefs> = AtomicPtr::new(core::ptr::null_mut());
/// This process's place, plus 1; 0 for none.
static OWN: AtomicU32 = AtomicU32::new(0);
static NAMESPACE: AtomicU32 = AtomicU32::new(0);
/// Whether this process was made by fork.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

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

thread_local! {
    /// For the child that this thread makes.
    static RESERVED_PLACE: Cell<Option<ReservedPlace>> = const { Cell::new(None) };
}

/// Reserves the tables, and enters this process.
pub fn set_up() -> bool {
    let Some(refs) = memory::reserve_shared(size_of::<ProcessRefs>()) else {
        return false;
    };
    // Release: partner: the acquire in refs.
    PROCESS_REFS.store(refs.cast(), Ordering::Release);
    enter();
    true
}

fn refs() -> Option<&'static ProcessRefs> {
    // Acquire: partner: the release in set_up.
    let refs = PROCESS_REFS.load(Ordering::Acquire);
    // SAFETY: never unmapped; zeros are valid.
    (!refs.is_null()).then(|| unsafe { &*refs })
}

/// Gives this process a place, without sockets. In a child: its parent's is not its own.
pub fn enter() {
    RESERVED_PLACE.set(expect());
    take_reserved();
}

/// For a process that has no sockets, and gives the tables' memory back. Whoever reaps it frees its place.
pub fn forget_all() {
    PROCESS_REFS.store(core::ptr::null_mut(), Ordering::Relaxed);
    OWN.store(0, Ordering::Relaxed);
}

/// In a child: takes the place that its parent has made ready. `false`: it came so late that others
/// took it for gone, and no socket counts it any more.
#[must_use]
pub fn become_child() -> bool {
    IS_CHILD.store(true, Ordering::Relaxed);
    take_reserved()
}

fn take_reserved() -> bool {
    // Relaxed, here and below: of this process, and changed while it has one thread.
    NAMESPACE.store(namespace(), Ordering::Relaxed);
    OWN.store(0, Ordering::Relaxed);
    let (Some(refs), Some(expected)) = (refs(), RESERVED_PLACE.take()) else {
        return true;
    };
    // One that had this id is gone.
    let own = ids::id();
    for place in (0..used(refs)).filter(|&place| place != expected.place) {
        if let Some(held) = held_at(refs, place).filter(|held| held.who() == own) {
            remove(refs, place, held);
        }
    }
    refs.namespaces[expected.place].store(NAMESPACE.load(Ordering::Relaxed), Ordering::Relaxed);
    let at = &refs.places[expected.place];
    let is_ready = |held: u64| {
        let held = Held(held);
        // Not if somebody is clearing it.
        let is_claimers = |who: u32| who & (CLAIMED | ID_BITS) == expected.claim.who();
        let is_its = held.who() == own || is_claimers(held.who());
        let same = held.by(0) == expected.claim.by(0);
        (same && is_its).then(|| held.by(own).0)
    };
    // Release: partner: the acquire in held_at.
    let taken = at.fetch_update(Ordering::Release, Ordering::Relaxed, is_ready);
    if taken.is_ok() {
        OWN.store(expected.place as u32 + 1, Ordering::Relaxed);
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
            // Release: partner: the acquire in held_at.
            refs.places[place].store(claim.by(ids::id()).0, Ordering::Release);
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

/// Makes a place ready for a child of this thread's. See [`note_reserved_socket`].
pub fn reserve_for_child() {
    RESERVED_PLACE.set(expect());
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
        // Relaxed, here and below: it stands for itself; the count goes with it.
        word.fetch_or(bit, Ordering::Relaxed);
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
    // Release: partner: the acquire in held_at.
    let _ =
        refs.places[place].compare_exchange(claim.0, made.0, Ordering::Release, Ordering::Relaxed);
}

/// Claims a free place, if there is one.
fn expect() -> Option<ReservedPlace> {
    let refs = refs()?;
    let find = || {
        let mut places = refs.places.iter().enumerate();
        places.find_map(|(place, at)| {
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
    let namespace = NAMESPACE.load(Ordering::Relaxed);
    refs.namespaces[expected.place].store(namespace, Ordering::Relaxed);
    let used = expected.place as u32 + 1;
    refs.used.fetch_max(used, Ordering::Relaxed);
    Some(expected)
}

fn claim(at: &AtomicU64, before: Held, after: Held) -> Option<Held> {
    let claim = after.by(CLAIMED | ids::id());
    // Acquire: partner: the releases in clear, take_expected and child_made.
    at.compare_exchange(before.0, claim.0, Ordering::Acquire, Ordering::Relaxed)
        .ok()?;
    Some(claim)
}

/// 0 if it is not known.
fn namespace() -> u32 {
    // SAFETY: the path ends with a zero; the status is ours to write.
    unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        let result = libc::stat(c"/proc/self/ns/pid".as_ptr(), &raw mut status);
        if result == 0 { status.st_ino as u32 } else { 0 }
    }
}

fn own_bit(number: u32) -> Option<(&'static AtomicU64, u64)> {
    bit_of(OWN.load(Ordering::Relaxed), number)
}

fn bit_of(place: u32, number: u32) -> Option<(&'static AtomicU64, u64)> {
    let place = place.checked_sub(1)?;
    let word = &refs()?.bits[place as usize][number as usize / 64];
    Some((word, 1 << (number % 64)))
}

/// Whether it is known which socket states count this process.
pub fn has_place() -> bool {
    OWN.load(Ordering::Relaxed) != 0
}

/// This process is counted by a socket state.
pub fn note(number: u32) {
    note_at(OWN.load(Ordering::Relaxed), number);
}

/// It is no longer. Returns whether it was; a process without a place: always.
pub fn forget(number: u32) -> bool {
    own_bit(number).is_none_or(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
}

/// Whether it is.
pub fn is_noted(number: u32) -> bool {
    own_bit(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Who is at a place, if that means anything to this process.
fn held_at(refs: &ProcessRefs, place: usize) -> Option<Held> {
    // Acquire: partner: the releases in take_expected and child_made.
    let held = Held(refs.places[place].load(Ordering::Acquire));
    let namespace = NAMESPACE.load(Ordering::Relaxed);
    let is_ours = refs.namespaces[place].load(Ordering::Relaxed) == namespace;
    (held.who() != 0 && namespace != 0 && is_ours).then_some(held)
}

fn used(refs: &ProcessRefs) -> usize {
    (refs.used.load(Ordering::Relaxed) as usize).min(PLACES_MAX)
}

/// A process that is no more, as its parent was told. Its number may be another's by now.
pub fn reaped(id: u32) {
    let Some(refs) = refs() else { return };
    for place in 0..used(refs) {
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
        if refs.bits[place][word].load(Ordering::Relaxed) & bit != 0 {
            look_at(refs, place);
        }
    }
}

/// Whether another process is known to be counted by it, after [`check`].
pub fn others_are_noted(socket: &SocketState) -> bool {
    let (word, bit) = (socket.number() as usize / 64, 1 << (socket.number() % 64));
    let own = OWN.load(Ordering::Relaxed) as usize;
    refs().is_some_and(|refs| {
        let mut others = (0..used(refs)).filter(|place| place + 1 != own);
        others.any(|place| refs.bits[place][word].load(Ordering::Relaxed) & bit != 0)
    })
}

/// As [`check_at_times`], when bytes move: what such a look takes, a child may have forbidden itself.
pub fn check_in_parent(socket: &SocketState) {
    if !IS_CHILD.load(Ordering::Relaxed) {
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
    let last_ns = refs.looked_ns.load(Ordering::Relaxed);
    let is_time = now_ns.saturating_sub(last_ns) >= PAUSE_NS;
    if is_time {
        refs.looked_ns.store(now_ns, Ordering::Relaxed);
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
    let first = refs.next.fetch_add(FEW, Ordering::Relaxed);
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
    let is_own = OWN.load(Ordering::Relaxed) == place as u32 + 1;
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
    let saved = real::errno();
    let lives = ids::process_exists(id) && (family::has_member(id) || family::is_headless(id));
    real::set_errno(saved);
    !lives
}

fn found_gone(refs: &ProcessRefs, place: usize, held: Held) {
    let who = held.who();
    let second = (clock::now_ns() / 1_000_000_000) as u32 & SECOND_BITS;
    if who & CLAIMED != 0 && who & SUSPECT == 0 {
        let suspect = held.by(who | SUSPECT | (second << SECOND_AT));
        // Relaxed, both: it stands for itself.
        let _ = refs.places[place].compare_exchange(
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
    if claim(&refs.places[place], held, held).is_some() {
        clear(refs, place);
    }
}

/// Takes whoever has had this place, which is claimed, off all socket states that count it, and frees it.
fn clear(refs: &ProcessRefs, place: usize) {
    // No bit of a socket state that never was is set.
    let words = (sockets::ever_used() as usize).div_ceil(64);
    for (nth, word) in refs.bits[place].iter().enumerate().take(words) {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let number = nth as u32 * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            sockets::killed(sockets::by_number(number));
        }
    }
    let at = &refs.places[place];
    let free = Held(at.load(Ordering::Relaxed)).by(0);
    // Release: partner: the acquire in claim.
    at.store(free.0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use crate::system::own_descriptors;
    use crate::table::state::State;
    use crate::table::{descriptors, gate, inheritance, references};

    /// A fork counts all socket states that there are. The library is at work in its own tests.
    fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(socket: &SocketState) -> u32 {
        socket.processes.load(Ordering::Relaxed)
    }

    fn child() -> i32 {
        child_that(|| {})
    }

    /// A child that sleeps until it is killed, with the test's thread at the latest.
    fn child_that(works: impl FnOnce()) -> i32 {
        // SAFETY: the child makes calls to the system only.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                works();
                loop {
                    libc::pause();
                }
            }
            assert!(child > 0);
            child
        }
    }

    fn kill(child: i32) {
        // SAFETY: a child of ours.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    }

    fn reap(child: i32) {
        // SAFETY: as above; this is our function of that name.
        let reaped = unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
        assert_eq!(reaped, child);
    }

    /// It stays to be reaped.
    fn kill_and_leave(child: i32) {
        kill(child);
        // SAFETY: a child of ours; the call writes to what is ours.
        unsafe {
            let mut info: libc::siginfo_t = core::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            let id = child.unsigned_abs();
            assert_eq!(real::waitid(libc::P_PID, id, &raw mut info, flags), 0);
        }
    }

    fn close(fd: i32) {
        references::leave(descriptors::detach(fd).unwrap());
    }

    #[test]
    fn a_child_that_is_killed_is_taken_off_when_it_is_reaped() {
        let _alone = alone();
        let socket = descriptors::add(9_000, State::Candidate).unwrap();
        // Some have not run by then.
        for _ in 0..50 {
            let child = child();
            assert_eq!(count(socket), 2);
            kill(child);
            reap(child);
            assert_eq!(count(socket), 1);
        }
        let last = child();
        close(9_000);
        assert_eq!(count(socket), 1);
        kill(last);
        reap(last);
        assert_eq!(count(socket), 0);
    }

    #[test]
    fn one_whose_number_is_that_of_a_process_that_ended_stays() {
        let _alone = alone();
        let socket = descriptors::add(9_009, State::Candidate).unwrap();
        let child = child();
        reaped(child.unsigned_abs());
        assert_eq!(count(socket), 2);
        kill(child);
        reap(child);
        assert_eq!(count(socket), 1);
        close(9_009);
    }

    #[test]
    fn one_that_nobody_reaps_is_found() {
        let _alone = alone();
        let socket = descriptors::add(9_001, State::Candidate).unwrap();
        let child = child();
        check(socket);
        assert_eq!(count(socket), 2);
        kill_and_leave(child);
        check(socket);
        assert_eq!(count(socket), 1);
        reap(child);
        assert_eq!(count(socket), 1);
        close(9_001);
    }

    /// In the middle of a call: neither the next holder nor the next socket is to wait for it.
    fn in_a_call(socket: &SocketState) -> i32 {
        let child = child_that(|| {
            let held = socket.send_lock.hold().unwrap();
            held.changing(|| core::mem::forget(socket.recv_lock.hold()));
            held.changing(|| {
                loop {
                    clock::sleep_us(1000);
                }
            });
        });
        while socket.recv_lock.try_hold().is_some() {
            clock::sleep_us(100);
        }
        child
    }

    fn killed_in_a_call(fd: i32) -> &'static SocketState {
        let socket = descriptors::add(fd, State::Candidate).unwrap();
        let child = in_a_call(socket);
        kill(child);
        reap(child);
        assert_eq!(count(socket), 1);
        socket
    }

    #[test]
    fn what_it_held_is_taken_over() {
        let _alone = alone();
        let socket = killed_in_a_call(9_002);
        assert!(socket.send_lock.hold().unwrap().is_taken_over());
        assert!(!socket.recv_lock.hold().unwrap().is_taken_over());
        close(9_002);
    }

    #[test]
    fn what_it_held_is_free_for_the_next_socket() {
        let _alone = alone();
        let socket = killed_in_a_call(9_002);
        close(9_002);
        assert_eq!(count(socket), 0);
        let again = descriptors::add(9_003, State::Candidate).unwrap();
        assert!(core::ptr::eq(socket, again));
        assert!(!again.send_lock.hold().unwrap().is_taken_over());
        assert!(again.recv_lock.try_hold().is_some());
        close(9_003);
    }

    /// It is found before it is reaped, and its socket nobody else's.
    #[test]
    fn what_the_dead_held_is_free_for_the_next_socket() {
        let _alone = alone();
        let socket = descriptors::add(9_015, State::Candidate).unwrap();
        let child = in_a_call(socket);
        close(9_015);
        kill_and_leave(child);
        check(socket);
        assert_eq!(count(socket), 0);
        let again = descriptors::add(9_016, State::Candidate).unwrap();
        assert!(core::ptr::eq(socket, again));
        assert!(!again.send_lock.try_hold().unwrap().is_taken_over());
        assert!(again.recv_lock.try_hold().is_some());
        reap(child);
        close(9_016);
    }

    #[test]
    fn a_child_that_could_not_be_made_is_not_counted() {
        let _alone = alone();
        let socket = descriptors::add(9_004, State::Candidate).unwrap();
        // As fork does, but for the child.
        gate::begin_fork();
        inheritance::count_child();
        gate::end_fork();
        assert_eq!(count(socket), 2);
        child_made(-1);
        assert_eq!(count(socket), 1);
        close(9_004);
    }

    extern "C" fn sleep_on(_: *mut core::ffi::c_void) -> *mut core::ffi::c_void {
        loop {
            // SAFETY: no arguments.
            unsafe { libc::pause() };
        }
    }

    /// As [`child`], with a second thread that sleeps, while the first has ended.
    fn headless() -> i32 {
        // SAFETY: a thread of the child's; the call ends the calling thread alone.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let mut thread = 0;
                let nothing = core::ptr::null_mut();
                libc::pthread_create(&raw mut thread, core::ptr::null(), sleep_on, nothing);
                real::syscall(libc::SYS_exit, 0, 0, 0, 0, 0, 0);
            }
            assert!(child > 0);
            child
        }
    }

    #[test]
    fn one_whose_first_thread_has_ended_is_not_gone() {
        let _alone = alone();
        let socket = descriptors::add(9_008, State::Candidate).unwrap();
        let child = headless();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let id = child.unsigned_abs();
        while family::has_member(id) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!family::has_member(id));
        check(socket);
        assert_eq!(count(socket), 2);
        kill(child);
        reap(child);
        assert_eq!(count(socket), 1);
        close(9_008);
    }

    /// It was found and taken off before its parent came to say that it was made.
    #[test]
    fn a_place_that_is_claimed_again_is_not_taken_for_the_child_before() {
        let _alone = alone();
        let socket = descriptors::add(9_007, State::Candidate).unwrap();
        let refs = refs().unwrap();
        let expect = || {
            gate::begin_fork();
            inheritance::count_child();
            gate::end_fork();
            RESERVED_PLACE.take().unwrap()
        };
        let first = expect();
        // No process has this number.
        let child = first.claim.by(ID_BITS);
        refs.places[first.place].store(child.0, Ordering::Relaxed);
        remove(refs, first.place, child);
        assert_eq!(count(socket), 1);
        let second = expect();
        assert_eq!(first.place, second.place);
        RESERVED_PLACE.set(Some(first));
        child_made(ID_BITS as i32);
        check(socket);
        assert_eq!(count(socket), 2);
        RESERVED_PLACE.set(Some(second));
        child_made(-1);
        assert_eq!(count(socket), 1);
        close(9_007);
    }

    #[test]
    fn a_guest_has_the_socket_when_its_parent_is_gone() {
        let _alone = alone();
        let socket = descriptors::add(9_012, State::Candidate).unwrap();
        let guest = VforkReference::enter(socket).unwrap();
        assert_eq!(count(socket), 2);
        // As when its parent was killed.
        sockets::killed(socket);
        let other = descriptors::add(9_013, State::Candidate).unwrap();
        assert!(!core::ptr::eq(socket, other));
        drop(guest);
        assert_eq!(count(socket), 0);
        assert!(VforkReference::enter(socket).is_none());
        close(9_013);
        descriptors::detach(9_012);
    }

    #[test]
    fn a_socket_that_all_others_have_left_is_not_taken_up_again() {
        let _alone = alone();
        let socket = descriptors::add(9_010, State::Candidate).unwrap();
        let stays = descriptors::add(9_014, State::Candidate).unwrap();
        own_descriptors::note_highest(9_014);
        let child = child_that(|| close(9_014));
        while count(stays) != 1 {
            clock::sleep_us(100);
        }
        inheritance::leave_to_others();
        assert_eq!((count(socket), count(stays)), (1, 1));
        kill(child);
        reap(child);
        // Its socket state is this one's now.
        let next = descriptors::add(9_011, State::Candidate).unwrap();
        assert!(core::ptr::eq(socket, next));
        inheritance::take_up_again();
        assert!(descriptors::find(9_010).is_none());
        assert_eq!((count(socket), count(stays)), (1, 1));
        close(9_014);
    }

    #[test]
    fn a_descriptor_that_was_closed_past_us_gives_its_record_back() {
        let _alone = alone();
        let before = descriptors::add(9_005, State::Candidate).unwrap();
        let after = descriptors::add(9_005, State::Candidate).unwrap();
        assert_eq!((count(before), count(after)), (0, 1));
        let other = descriptors::add(9_006, State::Candidate).unwrap();
        descriptors::attach(9_005, other);
        assert_eq!((count(after), count(other)), (0, 1));
        assert!(descriptors::detach(9_006).is_none());
        close(9_005);
        assert_eq!(count(other), 0);
    }
}
