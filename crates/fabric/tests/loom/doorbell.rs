//! The doorbell page: no bit and no wake-up is lost.

use std::cell::Cell;
use std::sync::Arc;

use barewire_fabric::doorbell::{Drain, announce_awake, announce_sleep, pending, ring, sweep};
use barewire_fabric::memory::SharedWords;
use loom::thread;

use crate::window::{MID_0, Page, SLEEP, Stopping, TOP};
use crate::{check, check_caught, check_within, fails};

/// How a ringer rings: the real thing or a wrong version of it.
type Ringing = fn(&Stopping, u32) -> u64;
/// How the owner announces its sleep.
type Sleeping = fn(&Page, u64) -> bool;

fn right(words: &Stopping, source: u32) -> u64 {
    ring(words, source)
}

fn right_sleep(page: &Page, sequence: u64) -> bool {
    announce_sleep(page, sequence)
}

/// The words of a source of `mid[0]`, leaf 5 or 6, or of `mid[1]`, leaf 64.
fn path(source: u32) -> (usize, u64, usize, u64, u64) {
    let leaf = (source >> 6) as usize;
    let leaf_word = 66 + leaf;
    let mid_word = if leaf < 64 { MID_0 } else { 8 };
    let leaf_bit = 1 << (source & 63);
    (
        leaf_word,
        leaf_bit,
        mid_word,
        1 << (leaf & 63),
        1 << (leaf >> 6),
    )
}

/// A ringer that sets the levels from the top down.
fn top_first(words: &Stopping, source: u32) -> u64 {
    let (leaf, leaf_bit, mid, mid_bit, top_bit) = path(source);
    words.or(TOP, top_bit);
    words.or(mid, mid_bit);
    words.or(leaf, leaf_bit);
    words.settle();
    words.load(SLEEP)
}

/// A ringer that leaves the climb to whoever set a bit of its leaf before.
fn trusting(words: &Stopping, source: u32) -> u64 {
    let (leaf, leaf_bit, mid, mid_bit, top_bit) = path(source);
    if words.or(leaf, leaf_bit) == 0 {
        words.or(mid, mid_bit);
        words.or(TOP, top_bit);
    }
    words.settle();
    words.load(SLEEP)
}

/// A ringer that leaves the upper part of the climb to whoever set the mid bit before.
fn trusting_mid(words: &Stopping, source: u32) -> u64 {
    let (leaf, leaf_bit, mid, mid_bit, top_bit) = path(source);
    words.or(leaf, leaf_bit);
    if words.load(mid) & mid_bit == 0 {
        words.or(mid, mid_bit);
        words.or(TOP, top_bit);
    }
    words.settle();
    words.load(SLEEP)
}

/// A ringer that settles after its own bits only, not after looking at another's: that
/// other may have stopped before it came to look at the sleep word.
fn trusting_wake_up(words: &Stopping, source: u32) -> u64 {
    let (leaf, leaf_bit, mid, mid_bit, top_bit) = path(source);
    for (word, bit) in [(leaf, leaf_bit), (mid, mid_bit), (TOP, top_bit)] {
        if word == leaf || words.load(word) & bit == 0 {
            words.or(word, bit);
            words.settle();
        }
    }
    words.load(SLEEP)
}

/// A ringer that looks at the sleep word before it rings.
fn sleep_word_first(words: &Stopping, source: u32) -> u64 {
    let asleep = words.load(SLEEP);
    ring(words, source);
    asleep
}

/// An owner that looks, then says that it sleeps.
fn look_then_announce(page: &Page, sequence: u64) -> bool {
    let quiet = !pending(page);
    page.store(SLEEP, sequence);
    page.fence();
    quiet
}

/// Preemptions in the models with three threads; without a bound they take minutes each.
const BOUND: Option<usize> = Some(3);
/// A ringer that never stops.
const ALL: u32 = u32::MAX;
/// More accesses than a ringer makes: or, look, or, look, or, look at the sleep word.
const ACCESSES_MAX: u32 = 6;

/// What a model of a page does.
#[derive(Clone, Copy)]
struct Script {
    ringing: Ringing,
    sleeping: Sleeping,
    settles: bool,
    fences: bool,
    /// Each ringer's source and the accesses after which it stops.
    ringers: &'static [(u32, u32)],
    /// Accesses of the last ringer, if it stops.
    last: u32,
    /// How often the owner drains and then tries to sleep.
    rounds: u64,
}

impl Script {
    const RIGHT: Script = Script {
        ringing: right,
        sleeping: right_sleep,
        settles: true,
        fences: true,
        ringers: &[(325, ALL)],
        last: ALL,
        rounds: 2,
    };

    fn ringers(ringers: &'static [(u32, u32)]) -> Script {
        Script {
            ringers,
            ..Script::RIGHT
        }
    }

    /// Ringers ring; the owner drains and goes to sleep. Every bit of a ringer that did
    /// not stop is handed out after its ring: by an owner that is awake, or asleep and
    /// woken by a ringer that did not stop either.
    fn run(self) {
        let page = Arc::new(Page::with(self.settles, self.fences));
        let threads = self.ringers.iter().enumerate().map(|(number, ringer)| {
            let page = page.clone();
            let (source, mut accesses) = *ringer;
            if number + 1 == self.ringers.len() {
                accesses = accesses.min(self.last);
            }
            thread::spawn(move || {
                let words = Stopping {
                    page: &page,
                    left: Cell::new(accesses),
                };
                let sleep = (self.ringing)(&words, source);
                words.alive().then_some((source, sleep))
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut drain = Drain::default();
        let mut drained = Vec::new();
        let mut asleep = None;
        for round in 0..self.rounds {
            while let Some(source) = drain.next_source(&*page) {
                drained.push(source);
            }
            assert!(drain.is_idle());
            if (self.sleeping)(&page, 2 * round + 1) {
                asleep = Some(2 * round + 1);
                break;
            }
            announce_awake(&*page, 2 * round + 2);
        }
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        let completed: Vec<(u32, u64)> = results.flatten().collect();
        let woken = completed.iter().any(|(_, word)| Some(*word) == asleep);
        if asleep.is_none() || woken {
            while let Some(source) = drain.next_source(&*page) {
                drained.push(source);
            }
        }
        for (source, _) in &completed {
            assert!(drained.contains(source), "{source} rang for nobody");
        }
        for source in &drained {
            assert!(self.ringers.iter().any(|(known, _)| known == source));
        }
    }
}

#[test]
fn one_ringer_is_heard() {
    check(|| Script::ringers(&[(325, ALL)]).run());
}

#[test]
fn two_ringers_of_one_leaf_are_heard() {
    check_within(BOUND, || Script::ringers(&[(325, ALL), (326, ALL)]).run());
}

#[test]
fn two_ringers_of_one_bit_are_heard() {
    check_within(BOUND, || Script::ringers(&[(325, ALL), (325, ALL)]).run());
}

/// Source 5 lies in a leaf that the owner looks at directly.
#[test]
fn direct_sources_are_heard() {
    check(|| Script::ringers(&[(5, ALL)]).run());
    check_within(BOUND, || Script::ringers(&[(5, ALL), (6, ALL)]).run());
    check_within(BOUND, || Script::ringers(&[(5, ALL), (325, ALL)]).run());
    check_within(BOUND, || Script::ringers(&[(325, ALL), (5, ALL)]).run());
}

#[test]
fn a_stopped_direct_ringer_hides_nobody() {
    beside_a_stopped_one(&[(5, ALL), (6, ALL)]);
    beside_a_stopped_one(&[(325, ALL), (5, ALL)]);
}

#[test]
fn two_ringers_of_two_leaves_are_heard() {
    check_within(BOUND, || Script::ringers(&[(325, ALL), (384, ALL)]).run());
}

#[test]
fn two_ringers_of_two_mids_are_heard() {
    check_within(BOUND, || Script::ringers(&[(325, ALL), (4096, ALL)]).run());
}

/// A ringer that stops at any access, next to one that does not.
fn beside_a_stopped_one(other: &'static [(u32, u32)]) {
    for last in 0..ACCESSES_MAX {
        check_within(BOUND, move || {
            Script {
                last,
                ..Script::ringers(other)
            }
            .run();
        });
    }
}

#[test]
fn a_stopped_ringer_of_the_same_leaf_hides_nobody() {
    beside_a_stopped_one(&[(325, ALL), (326, ALL)]);
}

#[test]
fn a_stopped_ringer_of_another_leaf_hides_nobody() {
    beside_a_stopped_one(&[(325, ALL), (384, ALL)]);
}

#[test]
fn a_stopped_ringer_of_another_mid_hides_nobody() {
    beside_a_stopped_one(&[(325, ALL), (4096, ALL)]);
}

/// A ringer that stops anywhere, while the owner drains: when it is known to be dead and
/// the page was swept, its bit is there if it was set at all.
#[test]
fn a_dead_ringers_bit_is_swept_up() {
    for accesses in 0..=ACCESSES_MAX {
        check_within(BOUND, move || {
            let page = Arc::new(Page::new());
            let shared = page.clone();
            let dying = thread::spawn(move || {
                let words = Stopping {
                    page: &shared,
                    left: Cell::new(accesses),
                };
                ring(&words, 325);
            });
            let shared = page.clone();
            let other = thread::spawn(move || ring(&*shared, 326));
            let mut drain = Drain::default();
            let mut drained = Vec::new();
            while let Some(source) = drain.next_source(&*page) {
                drained.push(source);
            }
            dying.join().unwrap();
            // The other one may still be ringing.
            sweep(&*page);
            while let Some(source) = drain.next_source(&*page) {
                drained.push(source);
            }
            assert_eq!(accesses > 0, drained.contains(&325));
            other.join().unwrap();
            while let Some(source) = drain.next_source(&*page) {
                drained.push(source);
            }
            assert!(drained.contains(&326));
        });
    }
}

#[test]
fn top_before_leaf_is_caught() {
    check_caught("leaf set after top", || {
        Script {
            ringing: top_first,
            ..Script::RIGHT
        }
        .run();
    });
}

#[test]
fn trusting_anothers_climb_is_caught() {
    for ringing in [trusting as Ringing, trusting_mid, trusting_wake_up] {
        let caught = (0..ACCESSES_MAX).filter(|last| {
            let script = Script {
                ringing,
                last: *last,
                ..Script::ringers(&[(325, ALL), (326, ALL)])
            };
            fails(move || script.run())
        });
        assert_ne!(
            caught.count(),
            0,
            "climb or wake-up left to a ringer that stopped"
        );
    }
}

#[test]
fn announcing_after_the_look_is_caught() {
    check_caught("sleep word stored after the check", || {
        Script {
            sleeping: look_then_announce,
            ..Script::RIGHT
        }
        .run();
    });
}

#[test]
fn reading_the_sleep_word_first_is_caught() {
    check_caught("sleep word read before ringing", || {
        Script {
            ringing: sleep_word_first,
            ..Script::RIGHT
        }
        .run();
    });
}

#[test]
fn a_missing_settle_is_caught() {
    check_caught("settle", || {
        Script {
            settles: false,
            ..Script::RIGHT
        }
        .run();
    });
}

#[test]
fn a_missing_fence_is_caught() {
    check_caught("fence", || {
        Script {
            fences: false,
            ..Script::RIGHT
        }
        .run();
    });
}
