//! The suite of memory in which several sides set bits: doorbell pages.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use barewire_fabric::doorbell::{
    Drain, PAGE_WORDS, SOURCES_MAX, announce_awake, announce_sleep, ring,
};
use barewire_fabric::memory::SharedWords;

use crate::fabric::Doorbells;
use crate::help::eventually;
use crate::suite::cases;

cases! {
    /// Words, and the doorbell over them.
    cases for Doorbells:
        words_are_words,
        every_word_is_there,
        bits_set_at_once_all_stay,
        what_is_taken_is_taken_once,
        every_ring_is_found_once,
        after_each_ring_there_is_a_drain,
        a_ringer_sees_the_sleep_or_the_sleeper_the_ring,
}

fn words_are_words<F: Doorbells>() {
    let [owner, a, b] = F::page();
    owner.store(1, 5);
    assert_eq!(a.load(1), 5);
    assert_eq!(a.or(2, 0b0110), 0);
    assert_eq!(b.or(2, 0b1100), 0b0110);
    assert_eq!(owner.take(2), 0b1110);
    assert_eq!((owner.take(2), a.load(2)), (0, 0));
}

fn every_word_is_there<F: Doorbells>() {
    let [owner, a, _] = F::page();
    for index in 0..PAGE_WORDS {
        assert_eq!(a.or(index, index as u64 + 1), 0);
    }
    for index in 0..PAGE_WORDS {
        assert_eq!(owner.take(index), index as u64 + 1);
    }
}

fn bits_set_at_once_all_stay<F: Doorbells>() {
    let [owner, a, b] = F::page();
    let start = Barrier::new(2);
    thread::scope(|scope| {
        for (words, shift) in [(a, 0), (b, 1)] {
            let start = &start;
            scope.spawn(move || {
                for round in 0..500 {
                    start.wait();
                    for bit in 0..32 {
                        words.or(100 + round, 1 << (2 * bit + shift));
                    }
                }
            });
        }
    });
    for round in 0..500 {
        assert_eq!(owner.take(100 + round), u64::MAX, "word {round}");
    }
}

fn what_is_taken_is_taken_once<F: Doorbells>() {
    const BITS: u64 = 100_000;
    let [owner, a, _] = F::page();
    let done = AtomicBool::new(false);
    let (mut taken, mut set) = (0, 0);
    thread::scope(|scope| {
        let done = &done;
        let setter = scope.spawn(move || {
            // A bit that was set already is not set again: then nothing is added.
            let set = (0..BITS).filter(|i| a.or(7, 1 << (i % 64)) & 1 << (i % 64) == 0);
            let set = set.count() as u64;
            done.store(true, Ordering::SeqCst);
            set
        });
        let mut last = false;
        while !last {
            last = done.load(Ordering::SeqCst);
            taken += u64::from(owner.take(7).count_ones());
        }
        set = setter.join().unwrap();
    });
    assert_eq!(taken, set, "bits taken and bits set");
}

fn every_ring_is_found_once<F: Doorbells>() {
    let [owner, a, b] = F::page();
    let mut rng = barewire_units::Rng::from_seed(5);
    let mut drain = Drain::default();
    for round in 0..50 {
        let mut rung = BTreeSet::from([0, SOURCES_MAX - 1]);
        rung.extend((0..round * 8).map(|_| rng.below(u64::from(SOURCES_MAX)) as u32));
        for source in &rung {
            ring(&a, *source);
            ring(&b, *source);
        }
        let mut found = BTreeSet::new();
        while let Some(source) = drain.next_source(&owner) {
            assert!(found.insert(source), "source {source} twice");
        }
        assert_eq!(found, rung);
    }
}

/// Two ringers against a draining owner: after a ring there is always a drain.
fn after_each_ring_there_is_a_drain<F: Doorbells>() {
    const ROUNDS: u64 = 50_000;
    let [owner, a, b] = F::page();
    let rung: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    let sources = [0, 1, 63, 64, 319, 320, 5000, SOURCES_MAX - 1];
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for (words, from) in [(a, 0), (b, 4)] {
            let (rung, done) = (&rung, &done);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let at = from + (round % 4) as usize;
                    rung[at].fetch_add(1, Ordering::SeqCst);
                    ring(&words, sources[at]);
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut seen = [0; 8];
        let mut drain = Drain::default();
        eventually::<F>("every ring", || {
            let last = done.load(Ordering::SeqCst) == 2;
            while let Some(source) = drain.next_source(&owner) {
                let at = sources
                    .iter()
                    .position(|s| *s == source)
                    .expect("rung by nobody");
                seen[at] = rung[at].load(Ordering::SeqCst);
            }
            last
        });
        let rung: Vec<u64> = rung.iter().map(|r| r.load(Ordering::SeqCst)).collect();
        assert_eq!(seen[..], rung[..], "rings seen and rings made");
    });
}

fn a_ringer_sees_the_sleep_or_the_sleeper_the_ring<F: Doorbells>() {
    const ROUNDS: u64 = 3000;
    let [owner, a, _] = F::page();
    let step = Barrier::new(2);
    let (slept, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut missed = 0;
    thread::scope(|scope| {
        let (step, told) = (&step, &told);
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                step.wait();
                told.store(ring(&a, 9), Ordering::SeqCst);
                step.wait();
                step.wait();
            }
        });
        let mut drain = Drain::default();
        for round in 0..ROUNDS {
            let sequence = 2 * round + 1;
            step.wait();
            slept.store(announce_sleep(&owner, sequence), Ordering::SeqCst);
            step.wait();
            let woken = told.load(Ordering::SeqCst) == sequence;
            missed += u32::from(slept.load(Ordering::SeqCst) && !woken);
            announce_awake(&owner, sequence + 1);
            while drain.next_source(&owner).is_some() {}
            step.wait();
        }
    });
    assert_eq!(missed, 0, "sleeps that nobody would have ended");
}
