//! Tests of process references: children that are killed, found, and taken off.

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
    socket.process_count()
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
fn each_socket_state_has_a_bit_of_its_own_at_each_place() {
    let refs = refs().unwrap();
    let mut words = std::collections::HashSet::new();
    for place in [0, 1, PLACES_MAX - 1] {
        for nth in 0..WORDS {
            assert!(words.insert(core::ptr::from_ref(refs.word(place, nth))));
        }
    }
    assert_eq!(words.len(), 3 * WORDS);
}

#[test]
fn what_every_child_touches_is_in_one_window() {
    let refs = refs().unwrap();
    let window = |at: usize| at / memory::WINDOW_BYTES;
    let common = window(core::ptr::from_ref(&refs.common) as usize);
    for number in [0, 100] {
        assert_eq!(
            window(core::ptr::from_ref(refs.place(number)) as usize),
            common
        );
        let socket = core::ptr::from_ref(sockets::by_number(number as u32));
        assert_eq!(window(socket as usize), common);
    }
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

#[test]
fn a_child_without_sockets_gets_a_place_with_its_first() {
    let _alone = alone();
    let socket = descriptors::add(9_017, State::Candidate).unwrap();
    let child = child_that(|| {
        become_child_without_sockets();
        assert!(!has_place());
        assert!(descriptors::add(9_018, State::Candidate).is_some() && has_place());
    });
    let refs = refs().unwrap();
    // What its parent made ready for it is taken off, since it has another place.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while count(socket) != 1 && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    let is_childs = |place: &usize| {
        let held = held_at(refs, *place);
        held.is_some_and(|held| held.who() == child.unsigned_abs())
    };
    let has_one = |place| (0..WORDS).any(|nth| refs.word(place, nth).get() != 0);
    let mut found = None;
    while !found.is_some_and(has_one) && std::time::Instant::now() < until {
        found = (0..used(refs)).find(is_childs);
    }
    let place = found.unwrap();
    assert!(has_one(place) && count(socket) == 1);
    kill(child);
    reap(child);
    assert!(!has_one(place) && held_at(refs, place).is_none());
    close(9_017);
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
    refs.place(first.place)
        .held
        .store(child.0, Ordering::Relaxed);
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
