//! An importer that waits for the owner's stores: no store is missed, and none is told to an
//! importer that the owner does not know of yet.
//!
//! The owner stores a word, then looks whether anybody waits (`may_wait`, in its own page),
//! then at the importer's table, of which one bit is modelled, and rings. The importer sets
//! the bit, says that it waits, fences, and looks at the word before it sleeps. That a ring
//! ends a sleep is proved by the models of the doorbell page.

use std::sync::Arc;

use barewire_fabric::doorbell::{announce_waiting, may_wait, pending, ring};
use barewire_fabric::memory::Fences;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::window::{Barrier, LEAF_0, MID_0, Page, SLEEP, TOP};
use crate::{check, check_caught};

/// The aperture's number, and its word in the owner's page.
const APERTURE: u32 = 3;
const WAITING: usize = 4168 + APERTURE as usize;

/// What may be wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The importer does not fence.
    NoHeavy,
    /// The owner does not fence.
    NoLight,
    /// The importer says that it waits after its fence.
    SaysLate,
    /// The importer says that it waits, and sets the bit after its fence.
    SetsLate,
    /// The owner looks whether anybody waits before it stores.
    LooksFirst,
    /// The owner remembers that nobody waited.
    Remembers,
    /// The importer is told of the aperture before the owner has it on its list.
    GrantsFirst,
}

struct World {
    /// What the owner stores.
    word: AtomicU64,
    /// The importer's table.
    bit: AtomicU64,
    owners_page: Page,
    importers_page: Page,
    /// The owner's list of importers.
    listed: AtomicU64,
    /// The message by which the aperture is granted.
    granted: AtomicU64,
}

impl World {
    fn new() -> World {
        World {
            word: AtomicU64::new(0),
            bit: AtomicU64::new(0),
            owners_page: Page::of(&[WAITING]),
            importers_page: Page::of(&[TOP, SLEEP, MID_0, LEAF_0]),
            listed: AtomicU64::new(0),
            granted: AtomicU64::new(0),
        }
    }
}

/// The owner's stores of 1 to `last`.
fn store(world: &World, last: u64, flaw: Flaw) {
    let barrier = Barrier {
        light: flaw != Flaw::NoLight,
        heavy: true,
    };
    let mut remembered = None;
    for value in 1..=last {
        let before = may_wait(&world.owners_page, APERTURE);
        world.word.store(value, Ordering::Release);
        barrier.light();
        let waits = match flaw {
            Flaw::LooksFirst => before,
            Flaw::Remembers => *remembered.get_or_insert(before),
            // Who is not on the list yet is not looked at.
            _ => {
                world.listed.load(Ordering::Acquire) != 0 && may_wait(&world.owners_page, APERTURE)
            }
        };
        if waits && world.bit.load(Ordering::Acquire) != 0 {
            ring(&world.importers_page, 0);
        }
    }
}

/// Sets the tripwire and looks: what was seen.
fn wait(world: &World, flaw: Flaw) -> u64 {
    let barrier = Barrier {
        light: true,
        heavy: flaw != Flaw::NoHeavy,
    };
    let say = || announce_waiting(&world.owners_page, APERTURE);
    let set = || world.bit.store(1, Ordering::Release);
    match flaw {
        Flaw::SaysLate => {
            set();
            barrier.heavy();
            say();
        }
        Flaw::SetsLate => {
            say();
            barrier.heavy();
            set();
        }
        _ => {
            set();
            say();
            barrier.heavy();
        }
    }
    world.word.load(Ordering::Acquire)
}

/// One store, or several, while an importer begins to wait.
fn one_waits(last: u64, flaw: Flaw) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = Arc::new(World::new());
        world.listed.store(1, Ordering::Release);
        let owner = {
            let world = Arc::clone(&world);
            thread::spawn(move || store(&world, last, flaw))
        };
        let seen = wait(&world, flaw);
        owner.join().unwrap();
        let told = pending(&world.importers_page);
        assert!(
            seen == last || told,
            "asleep while {last} was stored, having seen {seen}"
        );
    }
}

/// A thread of the owner's stores while another grants the aperture, and the importer waits
/// as soon as it has it.
fn granted_meanwhile(flaw: Flaw) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = Arc::new(World::new());
        let storing = {
            let world = Arc::clone(&world);
            thread::spawn(move || store(&world, 1, flaw))
        };
        let granting = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                if flaw == Flaw::GrantsFirst {
                    world.granted.store(1, Ordering::Release);
                }
                world.listed.store(1, Ordering::Release);
                if flaw != Flaw::GrantsFirst {
                    world.granted.store(1, Ordering::Release);
                }
            })
        };
        let has_it = world.granted.load(Ordering::Acquire) != 0;
        let seen = has_it.then(|| wait(&world, flaw));
        storing.join().unwrap();
        granting.join().unwrap();
        let told = pending(&world.importers_page);
        assert!(seen != Some(0) || told, "asleep while it was stored");
    }
}

#[test]
fn who_waits_is_told_or_has_seen() {
    check(one_waits(1, Flaw::None));
    check(one_waits(2, Flaw::None));
}

#[test]
fn who_is_granted_it_meanwhile_is_told_or_has_seen() {
    check(granted_meanwhile(Flaw::None));
}

#[test]
fn flaws_of_waiting_are_caught() {
    for (what, flaw) in [
        ("no heavy fence", Flaw::NoHeavy),
        ("no light fence", Flaw::NoLight),
        ("says late that it waits", Flaw::SaysLate),
        ("sets the bit late", Flaw::SetsLate),
        ("looks before it stores", Flaw::LooksFirst),
    ] {
        check_caught(what, one_waits(1, flaw));
    }
    check_caught("remembers", one_waits(2, Flaw::Remembers));
    check_caught("grants first", granted_meanwhile(Flaw::GrantsFirst));
}
