//! The suite of event queues: bounded, coalescing, nothing lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::aperture::{
    Action, EventSource, Memory, Mode, Notice, Rights, Trap, TripwireSet,
};

use crate::fabric::Apertures;
use crate::firing::{awaited, enqueue, fired};
use crate::help::{Over, eventually, good, unless_over};
use crate::suite::cases;

cases! {
    /// At most once each, nothing lost, waiting and waking.
    cases for Apertures:
        an_empty_queue_is_empty,
        a_wait_ends_at_its_time,
        however_often_it_fires_it_is_told_once,
        at_most_as_many_as_asked_for,
        no_one_is_forgotten,
        a_sleeper_is_woken_by_an_event,
        a_sleeper_is_woken_without_an_event,
        no_wake_up_is_lost,
        nothing_is_lost_under_fire,
}

const LEN: usize = 64 * 1024;

fn cookies(notices: &[Notice]) -> BTreeMap<u64, u32> {
    let mut cookies = BTreeMap::new();
    for notice in notices {
        if let Notice::Tripwire { cookie } = notice {
            *cookies.entry(*cookie).or_default() += 1;
        }
    }
    cookies
}

fn an_empty_queue_is_empty<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    assert!(fired::<F>(&own.queue).is_empty());
    assert!(fired::<F>(&far.queue).is_empty());
    let mut notices = Vec::new();
    for _ in 0..1000 {
        assert_eq!(good(own.queue.poll_notices(&mut notices, 16)), 0);
    }
    assert!(notices.is_empty());
}

fn a_wait_ends_at_its_time<F: Apertures>() {
    let (own, _far) = F::aperture(LEN, Rights::ReadWrite);
    fired::<F>(&own.queue);
    let started = Instant::now();
    let time = Duration::from_millis(30);
    assert_eq!(good(own.queue.wait_notices(&mut Vec::new(), 16, time)), 0);
    let waited = started.elapsed();
    assert!(waited >= time, "only {waited:?}");
    assert!(waited < time + F::PATIENCE, "{waited:?}");
}

fn however_often_it_fires_it_is_told_once<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _traps: Vec<_> = (0..100)
        .map(|i| good(own.memory.arm(i * 8, 8, Mode::Sticky, enqueue(i as u64))))
        .collect();
    let _mark = good(own.memory.arm(4096, 8, Mode::Sticky, enqueue(1000)));
    for _ in 0..1000 {
        good(far.memory.put(0, &[1; 800]));
    }
    good(far.memory.store(4096, 1));
    // What is on its way fires later, and is told again then: a load behind it all ends that.
    eventually::<F>("the mark's word", || far.memory.load(4096) == Ok(1));
    // Everything has fired before the mark, so what is there now is all there is.
    let mut notices = Vec::new();
    eventually::<F>("the mark", || {
        good(
            own.queue
                .wait_notices(&mut notices, 500, Duration::from_millis(100)),
        );
        cookies(&notices).contains_key(&1000)
    });
    while good(own.queue.poll_notices(&mut notices, 500)) > 0 {}
    let told = cookies(&notices);
    assert_eq!(told.len(), 101, "some were not told");
    // A fabric may report while it still fires, so the bound is on those after the mark.
    assert!(
        fired::<F>(&own.queue).is_empty(),
        "told after everything was told"
    );
    let most = told.values().max();
    assert_eq!(most, Some(&1), "told more than once without firing between");
}

fn at_most_as_many_as_asked_for<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _traps: Vec<_> = (0..50)
        .map(|i| good(own.memory.arm(i * 8, 8, Mode::Sticky, enqueue(i as u64))))
        .collect();
    good(far.memory.put(0, &[1; 400]));
    let mut all = Vec::new();
    eventually::<F>("all of them", || {
        let mut notices = Vec::new();
        let wait = Duration::from_millis(10);
        let found = good(own.queue.wait_notices(&mut notices, 3, wait));
        assert_eq!(found, notices.len());
        assert!(found <= 3, "{found} where 3 were wanted");
        all.extend(notices);
        cookies(&all).len() == 50
    });
    assert!(cookies(&all).values().all(|times| *times == 1));
}

/// Tripwires far apart, one after the other, thousands of them.
fn no_one_is_forgotten<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _traps: Vec<_> = (0..1000)
        .map(|i| good(own.memory.arm(i * 64, 64, Mode::Sticky, enqueue(i as u64))))
        .collect();
    for round in 0..5 {
        for i in 0..1000 {
            good(far.memory.put((i * 371 % 1000) * 64 + round, &[1]));
        }
        let mut notices = Vec::new();
        eventually::<F>("a thousand tripwires", || {
            good(
                own.queue
                    .wait_notices(&mut notices, 64, Duration::from_millis(100)),
            );
            cookies(&notices).len() == 1000
        });
    }
}

fn a_sleeper_is_woken_by_an_event<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _trap = good(own.memory.arm(0, 8, Mode::Sticky, enqueue(1)));
    thread::scope(|scope| {
        let queue = own.queue;
        let sleeper = scope.spawn(move || {
            let mut notices = Vec::new();
            let started = Instant::now();
            while cookies(&notices).is_empty() && started.elapsed() < F::PATIENCE {
                good(queue.wait_notices(&mut notices, 16, F::PATIENCE));
            }
            cookies(&notices)
        });
        // Not to wait for anything: it should be asleep, but need not be.
        thread::sleep(F::RESTRAINT);
        let put = Instant::now();
        good(far.memory.put(0, &[1]));
        assert_eq!(sleeper.join().unwrap(), [(1, 1)].into());
        assert!(put.elapsed() < F::PATIENCE / 2, "woken by the clock alone");
    });
}

fn a_sleeper_is_woken_without_an_event<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let trap = good(own.memory.arm(0, 8, Mode::Sticky, Action::Wake));
    fired::<F>(&own.queue);
    let (awake, asked) = (&AtomicBool::new(false), &AtomicBool::new(false));
    thread::scope(|scope| {
        let queue = own.queue;
        let sleeper = scope.spawn(move || {
            let mut notices = Vec::new();
            asked.store(true, Ordering::SeqCst);
            good(queue.wait_notices(&mut notices, 16, F::PATIENCE));
            awake.store(true, Ordering::SeqCst);
            cookies(&notices)
        });
        eventually::<F>("the sleeper", || asked.load(Ordering::SeqCst));
        thread::sleep(F::RESTRAINT);
        let started = Instant::now();
        while !awake.load(Ordering::SeqCst) && started.elapsed() < F::PATIENCE / 2 {
            good(far.memory.put(0, &[1]));
            thread::sleep(Duration::from_millis(1));
        }
        let woken = awake.load(Ordering::SeqCst);
        assert!(sleeper.join().unwrap().is_empty(), "woken with an event");
        assert!(woken, "slept on");
    });
    assert!(trap.is_armed());
}

/// Two sides take turns, each asleep until the other's put.
fn no_wake_up_is_lost<F: Apertures>() {
    const ROUNDS: u64 = 1000;
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _near = good(own.memory.arm(0, 8, Mode::Sticky, enqueue(1)));
    let turn = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (turn, over, memory) = (&turn, &over, &far.memory);
        scope.spawn(move || {
            for round in 1..=ROUNDS {
                good(memory.store(0, round));
                if !unless_over(over, || turn.load(Ordering::SeqCst) >= round) {
                    return;
                }
            }
        });
        let _over = Over(over);
        for round in 1..=ROUNDS {
            let started = Instant::now();
            while good(own.memory.load(0)) < round {
                // One wait for the whole patience: the event has to end it.
                good(own.queue.wait_notices(&mut Vec::new(), 16, F::PATIENCE));
                assert!(started.elapsed() < F::PATIENCE / 2, "round {round}");
            }
            turn.store(round, Ordering::SeqCst);
        }
    });
}

/// After the last firing of each tripwire there is a report.
fn nothing_is_lost_under_fire<F: Apertures>() {
    const ROUNDS: u64 = 20_000;
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _traps: Vec<_> = (0..16)
        .map(|i| good(own.memory.arm(i * 8, 8, Mode::Sticky, enqueue(i as u64))))
        .collect();
    thread::scope(|scope| {
        let memory = &far.memory;
        scope.spawn(move || {
            for round in 1..=ROUNDS {
                good(memory.store((round % 16) as usize * 8, round));
            }
        });
        let mut seen = [0; 16];
        let mut notices = Vec::new();
        let last = |i: u64| (1..=ROUNDS).rev().find(|round| round % 16 == i);
        let last: Vec<u64> = (0..16).filter_map(last).collect();
        eventually::<F>("the last round of all", || {
            good(own.queue.wait_notices(&mut notices, 16, F::PATIENCE / 4));
            for (cookie, _) in cookies(&notices) {
                seen[cookie as usize] = good(own.memory.load(cookie as usize * 8));
            }
            notices.clear();
            seen[..] == last[..]
        });
    });
    fired::<F>(&own.queue);
    good(far.memory.store(0, 1));
    awaited::<F>(&own.queue, 0);
}
