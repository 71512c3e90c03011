//! Sleeping and waking for real.

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_sys::BadDescriptor;
use barewire_sys::memory::{Access, Memfd};
use barewire_sys::process::{Signal, fork_child, pidfd_open, send_signal};
use barewire_sys::socket::Socket;
use barewire_sys::wake::{
    Epoll, EpollEvent, EventFd, Interest, futex_wait, futex_wake, heavy_fence, light_fence,
    register_expedited, wake_cost,
};
use rustix::fs::OFlags;

const SOON: Option<Duration> = Some(Duration::from_millis(5));
const LONG: Option<Duration> = Some(common::LONG);

/// Tests in this file run one after the other: a child that one of them forks
/// would keep the other ends of the sockets of the others open.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dup(fd: impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().unwrap()
}

fn make_blocking(fd: impl AsFd) {
    let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
    rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK).unwrap();
}

#[test]
fn eventfds_count_and_never_block() {
    let _alone = alone();
    let event = EventFd::new().unwrap();
    assert_eq!(event.drain().unwrap(), 0);
    event.signal().unwrap();
    event.try_clone().unwrap().signal().unwrap();
    assert_eq!(event.drain().unwrap(), 2);
    assert_eq!(event.drain().unwrap(), 0);
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    event.signal().unwrap();
    assert_eq!(event.drain().unwrap(), u64::MAX - 1);
}

#[test]
fn a_peer_cannot_make_this_side_block_on_an_eventfd() {
    let _alone = alone();
    let mine = EventFd::new().unwrap();
    let theirs = EventFd::from_peer(dup(&mine)).unwrap();
    make_blocking(&mine);
    assert_eq!(mine.drain().unwrap(), 0);
    assert_eq!(theirs.drain().unwrap(), 0);
    rustix::io::write(&mine, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    theirs.signal().unwrap();
    assert_eq!(mine.drain().unwrap(), u64::MAX - 1);
    theirs.signal().unwrap();
    assert_eq!(mine.drain().unwrap(), 0);
}

#[test]
fn each_signal_of_a_peer_is_told_once() {
    let _alone = alone();
    let mine = EventFd::new_for_peers().unwrap();
    let epoll = Epoll::new().unwrap();
    epoll.add(&mine, 7, Interest::READ_EDGE).unwrap();
    let mut out = Vec::new();
    let mut told = |wait| epoll.wait(&mut out, Some(wait)).unwrap();
    assert_eq!((told(Duration::ZERO), told(Duration::ZERO)), (1, 0));
    let theirs = EventFd::from_peer(dup(&mine)).unwrap();
    // Also when it is full.
    for full in [false, true] {
        if full {
            rustix::io::write(&mine, &(u64::MAX - 2).to_ne_bytes()).unwrap();
            assert_eq!(told(Duration::ZERO), 1);
        }
        theirs.signal().unwrap();
        theirs.signal().unwrap();
        assert_eq!((told(Duration::ZERO), told(Duration::ZERO)), (1, 0));
        // A thread that waits, perhaps.
        std::thread::scope(|scope| {
            scope.spawn(|| theirs.signal().unwrap());
            assert_eq!(told(Duration::from_secs(20)), 1);
        });
    }
}

#[test]
fn only_eventfds_are_accepted_as_eventfds() {
    let _alone = alone();
    let mine = EventFd::new().unwrap();
    make_blocking(&mine);
    let theirs = EventFd::from_peer(dup(&mine)).unwrap();
    assert!(
        rustix::fs::fcntl_getfl(theirs.as_fd())
            .unwrap()
            .contains(OFlags::NONBLOCK)
    );
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let memfd = Memfd::create("[eventfd]", 4096).unwrap();
    for fd in [reader, writer, memfd.into_fd(), dup(Epoll::new().unwrap())] {
        assert_eq!(
            EventFd::from_peer(fd).unwrap_err(),
            BadDescriptor::NotEventFd
        );
    }
}

#[test]
fn epoll_tells_levels_and_edges_and_tokens() {
    let _alone = alone();
    let epoll = Epoll::new().unwrap();
    let (level, edge) = (EventFd::new().unwrap(), EventFd::new().unwrap());
    epoll.add(&level, 1, Interest::READ).unwrap();
    epoll.add(&edge, u64::MAX, Interest::READ_EDGE).unwrap();
    assert!(epoll.add(&edge, 3, Interest::READ).is_err());
    let mut out = vec![EpollEvent {
        token: 9,
        readable: true,
        writable: true,
        hangup: true,
    }];
    assert_eq!(epoll.wait(&mut out, Some(Duration::ZERO)).unwrap(), 0);
    assert!(out.is_empty());

    level.signal().unwrap();
    edge.signal().unwrap();
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 2);
    out.sort_by_key(|event| event.token);
    let seen = |token| EpollEvent {
        token,
        readable: true,
        writable: false,
        hangup: false,
    };
    assert_eq!(out, [seen(1), seen(u64::MAX)]);
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 1);
    assert_eq!(out, [seen(1)]);
    edge.signal().unwrap();
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 2);

    epoll.remove(&level).unwrap();
    assert!(epoll.remove(&level).is_err());
    epoll.modify(&edge, 5, Interest::READ_EDGE).unwrap();
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 1);
    assert_eq!(out, [seen(5)]);
    epoll
        .modify(
            &edge,
            6,
            Interest {
                writable: true,
                ..Interest::READ
            },
        )
        .unwrap();
    epoll.wait(&mut out, None).unwrap();
    assert_eq!(
        out,
        [EpollEvent {
            token: 6,
            readable: true,
            writable: true,
            hangup: false
        }]
    );
}

#[test]
fn epoll_brings_many_events_in_turns() {
    let _alone = alone();
    let epoll = Epoll::new().unwrap();
    let events: Vec<EventFd> = (0..100).map(|_| EventFd::new().unwrap()).collect();
    for (token, event) in (0..).zip(&events) {
        epoll.add(event, token, Interest::READ_EDGE).unwrap();
        event.signal().unwrap();
    }
    let (mut out, mut tokens) = (Vec::new(), Vec::new());
    while epoll.wait(&mut out, Some(Duration::ZERO)).unwrap() > 0 {
        tokens.extend(out.iter().map(|event| event.token));
    }
    tokens.sort_unstable();
    assert_eq!(tokens, (0..100).collect::<Vec<u64>>());
}

#[test]
fn epoll_timeouts_are_kept_to_the_microsecond() {
    let _alone = alone();
    let epoll = Epoll::new().unwrap();
    let mut out = Vec::new();
    let mut least = Duration::MAX;
    for _ in 0..20 {
        let (start, timeout) = (Instant::now(), Duration::from_micros(150));
        assert_eq!(epoll.wait(&mut out, Some(timeout)).unwrap(), 0);
        assert!(start.elapsed() >= timeout);
        least = least.min(start.elapsed());
    }
    // Rounded up to a millisecond, all of them would take longer.
    assert!(least < Duration::from_micros(990), "{least:?}");
    let start = Instant::now();
    epoll.wait(&mut out, SOON).unwrap();
    assert!(start.elapsed() >= SOON.unwrap());
}

extern "C" fn ignore(_signal: i32) {}

#[test]
fn signals_do_not_end_an_epoll_wait() {
    let _alone = alone();
    // SAFETY: the handler does nothing; the zeroed rest means no flags, so
    // that waits are interrupted and not restarted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
    let done = AtomicBool::new(false);
    // SAFETY: takes nothing, and cannot fail.
    let waiter = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                // SAFETY: the waiting thread outlives this scope.
                unsafe { libc::pthread_kill(waiter, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (epoll, mut out) = (Epoll::new().unwrap(), Vec::new());
        let (start, timeout) = (Instant::now(), Duration::from_micros(30_500));
        assert_eq!(epoll.wait(&mut out, Some(timeout)).unwrap(), 0);
        assert!(start.elapsed() >= timeout, "{:?}", start.elapsed());
        done.store(true, SeqCst);
    });
}

#[test]
fn hangups_and_ends_of_processes_are_told() {
    let _alone = alone();
    let epoll = Epoll::new().unwrap();
    let (ours, theirs) = Socket::pair().unwrap();
    epoll.add(&ours, 1, Interest::READ).unwrap();
    let mut out = Vec::new();
    assert_eq!(epoll.wait(&mut out, SOON).unwrap(), 0);
    drop(theirs);
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 1);
    assert!(out[0].hangup && out[0].readable && !out[0].writable);
    epoll.remove(&ours).unwrap();

    let child = common::fork_sleeper();
    let pidfd = pidfd_open(child.pid).unwrap();
    epoll.add(&pidfd, 3, Interest::READ).unwrap();
    assert_eq!(epoll.wait(&mut out, SOON).unwrap(), 0);
    send_signal(child.pid, Signal::Kill).unwrap();
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 1);
    assert_eq!((out[0].token, out[0].readable), (3, true));
}

fn futex_word(region: &barewire_shm::Region) -> &AtomicU32 {
    // SAFETY: the region is mapped, writable and aligned while borrowed, and
    // reached through atomics only.
    unsafe { region.base().cast::<AtomicU32>().as_ref() }
}

#[test]
fn futexes_wake_another_process() {
    let _alone = alone();
    let memfd = Memfd::create_sealed("futex", 4096).unwrap();
    let region = memfd.map(Access::ReadWrite).unwrap();
    let word = futex_word(&region);
    assert!(!futex_wait(word, 0, SOON).unwrap());
    assert!(futex_wait(word, 1, LONG).unwrap());
    let child = fork_child(|| {
        while word.load(SeqCst) == 0 {
            if !futex_wait(word, 0, LONG).unwrap_or(false) {
                return 1;
            }
        }
        0
    })
    .unwrap();
    common::eventually("the child waits", || futex_wake(word, 1).unwrap() > 0);
    word.store(1, SeqCst);
    futex_wake(word, 1).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Lets two threads through together, round after round.
#[derive(Default)]
struct Gate(AtomicU32);

impl Gate {
    fn pass(&self, number: &mut u32) {
        self.0.fetch_add(1, SeqCst);
        *number += 2;
        let mut spins = 0u32;
        while self.0.load(SeqCst) < *number {
            spins += 1;
            if spins % 1000 == 0 {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn one_side_of_asymmetric_fences_always_sees_the_other() {
    let _alone = alone();
    // On a busy machine the two threads seldom run at once, and a round takes as long as a time slice.
    const MOST_ROUNDS: usize = 20_000;
    const ENOUGH: Duration = Duration::from_secs(3);
    let ended = AtomicBool::new(false);
    let by_membarrier = register_expedited();
    let (x, y) = (AtomicU32::new(0), AtomicU32::new(0));
    let (seen_light, seen_heavy) = (AtomicU32::new(0), AtomicU32::new(0));
    let gate = Gate::default();
    let frequent = || {
        let mut number = 0;
        while !ended.load(Relaxed) {
            gate.pass(&mut number);
            x.store(1, Relaxed);
            light_fence(by_membarrier);
            seen_light.store(y.load(Relaxed), Relaxed);
            gate.pass(&mut number);
            gate.pass(&mut number);
        }
    };
    let seldom = || {
        let (mut number, mut missed) = (0, 0);
        let begin = Instant::now();
        for round in 1..=MOST_ROUNDS {
            gate.pass(&mut number);
            y.store(1, Relaxed);
            heavy_fence();
            seen_heavy.store(x.load(Relaxed), Relaxed);
            gate.pass(&mut number);
            missed += usize::from(seen_light.load(Relaxed) + seen_heavy.load(Relaxed) == 0);
            x.store(0, Relaxed);
            y.store(0, Relaxed);
            let last = round == MOST_ROUNDS || begin.elapsed() > ENOUGH;
            ended.store(last, Relaxed);
            gate.pass(&mut number);
            if last {
                break;
            }
        }
        missed
    };
    std::thread::scope(|scope| {
        scope.spawn(frequent);
        assert_eq!(seldom(), 0);
    });
}

/// Run by the next test, in a process of its own.
#[test]
#[ignore = "needs BAREWIRE_NO_MEMBARRIER=1"]
fn membarrier_is_off() {
    let _alone = alone();
    assert!(!register_expedited());
    heavy_fence();
}

#[test]
fn membarrier_can_be_turned_off() {
    let _alone = alone();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "membarrier_is_off", "--ignored"]);
    let output = command.env("BAREWIRE_NO_MEMBARRIER", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn what_a_wake_up_costs_is_measured_once() {
    let _alone = alone();
    let start = Instant::now();
    let cost = wake_cost();
    println!("wake-up: {cost:?}, measured in {:?}", start.elapsed());
    assert!(cost > Duration::from_nanos(100) && cost < Duration::from_millis(100));
    assert_eq!(wake_cost(), cost);
}
