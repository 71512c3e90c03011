//! The suite of tripwires that an importer sets on what the owner stores.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use barewire_fabric::aperture::{
    Action, EventSource, Memory, Mode, Notice, OwnerTripwires, Rights, Trap, TripwireSet,
};

use crate::fabric::{ApertureEnd, WatchedOwners};
use crate::firing::{awaited, enqueue, fired};
use crate::help::{Over, eventually, good, unless_over};
use crate::suite::cases;

cases! {
    /// Ranges, kinds of stores, modes and actions, who is told, disarming, waiting.
    cases for WatchedOwners:
        every_kind_of_store_fires,
        loads_and_failed_exchanges_do_not_fire,
        ranges_fire_where_they_overlap,
        only_the_owners_stores_fire,
        one_shot_and_sticky,
        counting_counts_stores,
        readers_of_a_read_only_aperture_are_told,
        bad_ranges_are_refused,
        disarmed_means_silent,
        setting_while_the_owner_stores_is_safe,
        a_reader_who_waits_misses_nothing,
}

const LEN: usize = 20_000;
/// The last 8 bytes: a store there follows the others, and its event theirs.
const MARK: usize = LEN - 8;
const MARK_COOKIE: u64 = u64::MAX;

/// An aperture and the mark set at its importer's end.
struct Ends<F: WatchedOwners> {
    own: ApertureEnd<F::Owned, F::Queue>,
    far: ApertureEnd<F::Remote, F::Queue>,
    mark: Option<<F::Remote as TripwireSet>::Trap>,
}

impl<F: WatchedOwners> Ends<F> {
    fn new(rights: Rights) -> Ends<F> {
        let (own, far) = F::aperture(LEN, rights);
        let mark = far
            .memory
            .arm_on_owner(MARK, 8, Mode::Sticky, enqueue(MARK_COOKIE));
        let mark = Some(good(mark));
        Ends { own, far, mark }
    }

    #[track_caller]
    fn arm(
        &self,
        at: usize,
        len: usize,
        mode: Mode,
        action: Action,
    ) -> <F::Remote as TripwireSet>::Trap {
        good(self.far.memory.arm_on_owner(at, len, mode, action))
    }

    /// What fires at the importer's end by what `store` does.
    #[track_caller]
    fn fires(&self, store: impl FnOnce(&F::Owned)) -> BTreeSet<u64> {
        store(&self.own.memory);
        good(self.own.memory.store(MARK, 1));
        let mut cookies = awaited::<F>(&self.far.queue, MARK_COOKIE);
        // Whatever fired before the mark is in the queue now, though perhaps not in order.
        let mut notices = Vec::new();
        while good(self.far.queue.poll_notices(&mut notices, 64)) > 0 {}
        for notice in notices {
            if let Notice::Tripwire { cookie } = notice {
                cookies.insert(cookie);
            }
        }
        cookies.remove(&MARK_COOKIE);
        cookies
    }

    #[track_caller]
    fn put_fires(&self, offset: usize, len: usize) -> BTreeSet<u64> {
        self.fires(|own| good(own.put(offset, &vec![7; len])))
    }
}

fn every_kind_of_store_fires<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let _trap = ends.arm(64, 8, Mode::Sticky, enqueue(1));
    let hit: BTreeSet<u64> = [1].into();
    assert_eq!(ends.fires(|own| good(own.put(70, &[1]))), hit, "put");
    assert_eq!(ends.fires(|own| good(own.store(64, 1))), hit, "store");
    let add = ends.fires(|own| assert_eq!(own.add(64, 4), Ok(1)));
    assert_eq!(add, hit, "add");
    let exchange = |own: &F::Owned| assert_eq!(good(own.compare_exchange(64, 5, 6)), Ok(5));
    assert_eq!(ends.fires(exchange), hit, "exchange");
}

fn loads_and_failed_exchanges_do_not_fire<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let _trap = ends.arm(0, 4096, Mode::Sticky, enqueue(1));
    let quiet = ends.fires(|own| {
        good(own.get(0, &mut [0; 4096]));
        let found = good(own.load(64));
        assert!(good(own.compare_exchange(64, found + 1, 0)).is_err());
        good(own.put(8, &[]));
    });
    assert!(quiet.is_empty());
}

fn ranges_fire_where_they_overlap<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    for (offset, len) in [(100, 8), (60, 10), (4000, 200), (100, 10_000), (4095, 1)] {
        let _trap = ends.arm(offset, len, Mode::Sticky, enqueue(9));
        let hit: BTreeSet<u64> = [9].into();
        assert_eq!(ends.put_fires(offset, len), hit);
        assert_eq!(ends.put_fires(offset + len - 1, 1), hit, "last byte");
        assert_eq!(ends.put_fires(offset - 1, 2), hit, "first byte");
        assert_eq!(ends.put_fires(offset - 50, len + 100), hit, "all around");
        assert!(ends.put_fires(offset - 50, 50).is_empty(), "up to it");
        assert!(ends.put_fires(offset + len, 50).is_empty(), "from its end");
    }
}

fn only_the_owners_stores_fire<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let _trap = ends.arm(0, 64, Mode::Sticky, enqueue(1));
    let _own = good(ends.own.memory.arm(0, 64, Mode::Sticky, enqueue(2)));
    let _far = good(ends.far.memory.arm(0, 64, Mode::Sticky, enqueue(3)));
    // The owner's stores fire this one alone.
    assert_eq!(ends.put_fires(0, 8), [1].into());
    assert!(fired::<F>(&ends.own.queue).is_empty());
    // The importer's fire the others.
    good(ends.far.memory.put(0, &[1]));
    good(ends.far.memory.store(8, 1));
    good(ends.far.memory.add(16, 1));
    assert_eq!(fired::<F>(&ends.far.queue), [3].into());
    assert_eq!(fired::<F>(&ends.own.queue), [2].into());
}

fn one_shot_and_sticky<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let once = ends.arm(0, 64, Mode::OneShot, enqueue(1));
    let again = ends.arm(0, 64, Mode::Sticky, enqueue(2));
    assert_eq!(ends.put_fires(0, 8), [1, 2].into());
    assert!(!once.is_armed() && again.is_armed());
    for _ in 0..100 {
        assert_eq!(ends.put_fires(0, 8), [2].into());
    }
}

fn counting_counts_stores<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let all = ends.arm(0, 128, Mode::Sticky, Action::Count);
    let one = ends.arm(0, 128, Mode::OneShot, Action::Count);
    for _ in 0..10 {
        assert!(ends.put_fires(60, 8).is_empty(), "counting reports nothing");
    }
    eventually::<F>("counts", || (all.count(), one.count()) == (10, 1));
    assert!(all.is_armed() && !one.is_armed());
    drop(all);
    let next = ends.arm(0, 128, Mode::Sticky, Action::Count);
    assert_eq!(next.count(), 0, "in the place of an old one");
}

fn readers_of_a_read_only_aperture_are_told<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::Read);
    let _trap = ends.arm(500, 8, Mode::Sticky, enqueue(1));
    assert_eq!(ends.put_fires(500, 8), [1].into());
    let mut got = [0; 8];
    good(ends.far.memory.get(500, &mut got));
    assert_eq!(got, [7; 8]);
}

fn bad_ranges_are_refused<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let far = &ends.far.memory;
    let bad = [
        (0, 0),
        (LEN, 1),
        (LEN - 1, 2),
        (0, LEN + 1),
        (usize::MAX, 2),
    ];
    for (offset, len) in bad {
        let armed = far.arm_on_owner(offset, len, Mode::Sticky, enqueue(1));
        assert!(armed.is_err(), "{len} bytes at {offset}");
    }
    assert!(ends.put_fires(0, 100).is_empty());
}

fn disarmed_means_silent<F: WatchedOwners>() {
    let mut ends = Ends::<F>::new(Rights::ReadWrite);
    let trap = ends.arm(0, 64, Mode::Sticky, enqueue(1));
    let other = ends.arm(0, 64, Mode::Sticky, enqueue(2));
    trap.disarm();
    assert!(!trap.is_armed() && other.is_armed());
    assert_eq!(ends.put_fires(0, 8), [2].into());
    drop(other);
    for round in 0..500 {
        drop(ends.arm(round % 200, 8, Mode::Sticky, enqueue(3)));
    }
    assert!(ends.put_fires(0, 500).is_empty());
    ends.mark = None;
    good(ends.own.memory.put(0, &[1; LEN]));
    assert!(fired::<F>(&ends.far.queue).is_empty());
}

fn setting_while_the_owner_stores_is_safe<F: WatchedOwners>() {
    let ends = Ends::<F>::new(Rights::ReadWrite);
    let over = AtomicBool::new(false);
    let (own, far) = (&ends.own.memory, &ends.far);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                good(own.put(0, &[1; 200]));
            }
        });
        let _over = Over(&over);
        let mut notices = Vec::new();
        for cookie in 0..1000 {
            let at = cookie as usize % 190;
            let trap = far
                .memory
                .arm_on_owner(at, 9, Mode::Sticky, enqueue(cookie));
            let trap = good(trap);
            if cookie % 3 == 0 {
                good(far.queue.poll_notices(&mut notices, 16));
            }
            trap.disarm();
            notices.clear();
        }
    });
    fired::<F>(&far.queue);
    assert!(ends.put_fires(0, 200).is_empty());
}

/// The reader sets a one-shot, looks, and waits only if nothing has changed. The owner stores
/// the next value when the reader has seen the last: a wake-up lost is a value never seen.
fn a_reader_who_waits_misses_nothing<F: WatchedOwners>() {
    const ROUNDS: u64 = 1000;
    for action in [Action::Wake, enqueue(1)] {
        let ends = Ends::<F>::new(Rights::ReadWrite);
        let (own, far) = (&ends.own.memory, &ends.far);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    good(own.put(1000, &round.to_ne_bytes()));
                    good(own.store(64, round));
                    if !unless_over(&over, || good(own.load(8)) == round) {
                        return;
                    }
                }
            });
            let _over = Over(&over);
            for round in 1..=ROUNDS {
                eventually::<F>("the owner's store", || {
                    let armed = far.memory.arm_on_owner(64, 8, Mode::OneShot, action);
                    let _trap = good(armed);
                    if good(far.memory.load(64)) != round {
                        // Long enough that a wake-up which does not come is a failure.
                        let began = std::time::Instant::now();
                        good(far.queue.wait_notices(&mut Vec::new(), 16, F::PATIENCE));
                        let lost = began.elapsed() >= F::PATIENCE - Duration::from_millis(1);
                        assert!(!lost, "round {round}: nobody was woken");
                    }
                    good(far.memory.load(64)) == round
                });
                let mut got = [0; 8];
                good(far.memory.get(1000, &mut got));
                assert_eq!(u64::from_ne_bytes(got), round, "what was stored before");
                good(far.memory.store(8, round));
            }
        });
    }
}
