//! The suite of tripwires, at both ends of an aperture.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use barewire_fabric::aperture::{Action, EventSource, Memory, Mode, Rights, Trap, TripwireSet};

use crate::fabric::{ApertureEnd, Apertures};
use crate::firing::{awaited, enqueue, fired, take};
use crate::help::{Over, eventually, good, unless_over};
use crate::suite::cases;

cases! {
    /// Ranges, locations, one-shot and sticky, the three actions, both ends, disarming.
    cases for Apertures:
        a_location_fires_and_its_neighbours_do_not,
        ranges_fire_where_they_overlap,
        random_ranges_match_a_list,
        every_kind_of_transfer_fires,
        loads_and_failed_exchanges_do_not_fire,
        empty_puts_do_not_fire,
        unwatched_puts_fire_nothing,
        the_owners_own_stores_fire_nothing,
        a_one_shot_fires_once,
        a_one_shot_counts_one,
        a_sticky_one_fires_again,
        counting_counts_transfers,
        the_ends_are_independent,
        bad_ranges_are_refused,
        disarmed_means_silent,
        dropped_means_disarmed,
        disarming_while_it_fires_is_safe,
        bytes_are_there_when_it_is_told,
}

const LEN: usize = 20_000;

/// The last 8 bytes: a transfer there follows the others, and its event theirs.
const MARK: usize = LEN - 8;
const MARK_COOKIE: u64 = u64::MAX;

/// What fired by `transfer`, at the end that `queue` belongs to.
#[track_caller]
fn what_fires<F: Apertures>(
    far: &F::Remote,
    queue: &F::Queue,
    transfer: impl FnOnce(),
) -> BTreeSet<u64> {
    transfer();
    good(far.store(MARK, 1));
    let mut cookies = awaited::<F>(queue, MARK_COOKIE);
    // Whatever fired before the mark is in the queue now, though perhaps not in order.
    let mut notices = Vec::new();
    while good(queue.poll_notices(&mut notices, 64)) > 0 {}
    take(&mut notices, &mut cookies);
    cookies.remove(&MARK_COOKIE);
    cookies
}

/// Runs a test at both ends: `set` is where tripwires are set, `queue` what they fire into.
fn at_both_ends<F: Apertures>(test: impl Fn(End<'_, F>)) {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    {
        let mark = good(own.memory.arm(MARK, 8, Mode::Sticky, enqueue(MARK_COOKIE)));
        test(End {
            far: &far.memory,
            queue: &own.queue,
            set: Set::Own(&own.memory),
        });
        drop(mark);
    }
    let mark = good(far.memory.arm(MARK, 8, Mode::Sticky, enqueue(MARK_COOKIE)));
    test(End {
        far: &far.memory,
        queue: &far.queue,
        set: Set::Far(&far.memory),
    });
    drop(mark);
}

enum Set<'a, F: Apertures> {
    Own(&'a F::Owned),
    Far(&'a F::Remote),
}

/// An end under test.
struct End<'a, F: Apertures> {
    far: &'a F::Remote,
    queue: &'a F::Queue,
    set: Set<'a, F>,
}

impl<'a, F: Apertures> End<'a, F> {
    #[track_caller]
    fn try_arm(
        &self,
        at: usize,
        len: usize,
        mode: Mode,
        action: Action,
    ) -> Option<Box<dyn Trap + 'a>> {
        match self.set {
            Set::Own(own) => own
                .arm(at, len, mode, action)
                .ok()
                .map(|t| Box::new(t) as _),
            Set::Far(far) => far
                .arm(at, len, mode, action)
                .ok()
                .map(|t| Box::new(t) as _),
        }
    }

    #[track_caller]
    fn arm(&self, at: usize, len: usize, mode: Mode, action: Action) -> Box<dyn Trap + 'a> {
        let armed = self.try_arm(at, len, mode, action);
        armed.expect("a tripwire that must be possible")
    }

    #[track_caller]
    fn fires(&self, transfer: impl FnOnce()) -> BTreeSet<u64> {
        what_fires::<F>(self.far, self.queue, transfer)
    }

    #[track_caller]
    fn put_fires(&self, offset: usize, len: usize) -> BTreeSet<u64> {
        self.fires(|| good(self.far.put(offset, &vec![7; len])))
    }
}

fn a_location_fires_and_its_neighbours_do_not<F: Apertures>() {
    at_both_ends::<F>(|end| {
        for at in [0, 1, 63, 64, 65, 4095, 4096, 8191] {
            let _trap = end.arm(at, 1, Mode::Sticky, enqueue(5));
            if at > 0 {
                assert!(end.put_fires(at - 1, 1).is_empty(), "before {at}");
            }
            assert!(end.put_fires(at + 1, 1).is_empty(), "after {at}");
            assert_eq!(end.put_fires(at, 1), [5].into(), "at {at}");
        }
    });
}

fn ranges_fire_where_they_overlap<F: Apertures>() {
    at_both_ends::<F>(|end| {
        for (offset, len) in [(100, 8), (60, 10), (4000, 200), (100, 10_000)] {
            let _trap = end.arm(offset, len, Mode::Sticky, enqueue(9));
            let hit: BTreeSet<u64> = [9].into();
            assert_eq!(end.put_fires(offset, len), hit);
            assert_eq!(end.put_fires(offset + len - 1, 1), hit, "last byte");
            assert_eq!(end.put_fires(offset - 1, 2), hit, "first byte");
            assert_eq!(end.put_fires(offset - 50, len + 100), hit, "all around");
            assert!(end.put_fires(offset - 50, 50).is_empty(), "up to it");
            assert!(end.put_fires(offset + len, 50).is_empty(), "from its end");
        }
    });
}

fn random_ranges_match_a_list<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let mut rng = barewire_units::Rng::from_seed(17);
        let mut list: Vec<(usize, usize, u64, Box<dyn Trap>)> = Vec::new();
        let mut range = |longest: u64| {
            let offset = rng.below(MARK as u64) as usize;
            let len = 1 + rng.below(longest) as usize;
            (offset, len.min(MARK - offset), rng.below(4))
        };
        for cookie in 0..1500 {
            let (offset, len, what) = range(if cookie % 2 == 0 { 100 } else { 12_000 });
            if what == 0 && list.len() < 100 {
                let trap = end.arm(offset, len, Mode::Sticky, enqueue(cookie));
                list.push((offset, len, cookie, trap));
            } else if what == 1 && list.len() > 50 {
                list.swap_remove(offset % list.len());
            } else {
                let touched =
                    |(o, l, ..): &&(usize, usize, u64, _)| *o < offset + len && offset < *o + *l;
                let expected = list.iter().filter(touched).map(|t| t.2).collect();
                assert_eq!(end.put_fires(offset, len), expected, "{len} at {offset}");
            }
        }
    });
}

fn every_kind_of_transfer_fires<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let _trap = end.arm(64, 8, Mode::Sticky, enqueue(1));
        let hit: BTreeSet<u64> = [1].into();
        assert_eq!(end.fires(|| good(end.far.put(70, &[1]))), hit, "put");
        assert_eq!(end.fires(|| good(end.far.store(64, 1))), hit, "store");
        assert_eq!(
            end.fires(|| assert_eq!(end.far.add(64, 4), Ok(1))),
            hit,
            "add"
        );
        let exchange = || assert_eq!(good(end.far.compare_exchange(64, 5, 6)), Ok(5));
        assert_eq!(end.fires(exchange), hit, "exchange");
    });
}

fn loads_and_failed_exchanges_do_not_fire<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let _trap = end.arm(0, 4096, Mode::Sticky, enqueue(1));
        let quiet = end.fires(|| {
            good(end.far.get(0, &mut [0; 4096]));
            let found = good(end.far.load(64));
            assert!(good(end.far.compare_exchange(64, found + 1, 0)).is_err());
        });
        assert!(quiet.is_empty());
    });
}

fn empty_puts_do_not_fire<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let _trap = end.arm(0, 64, Mode::Sticky, enqueue(1));
        assert!(end.put_fires(0, 0).is_empty());
        assert!(end.put_fires(8, 0).is_empty());
    });
}

fn unwatched_puts_fire_nothing<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    for offset in (0..LEN - 100).step_by(77) {
        good(far.memory.put(offset, &[1; 100]));
    }
    assert!(fired::<F>(&own.queue).is_empty());
    assert!(fired::<F>(&far.queue).is_empty());
}

fn the_owners_own_stores_fire_nothing<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _near = good(own.memory.arm(0, LEN, Mode::Sticky, enqueue(1)));
    let _far = good(far.memory.arm(0, LEN, Mode::Sticky, enqueue(2)));
    good(own.memory.put(0, &[1; LEN]));
    good(own.memory.store(0, 1));
    good(own.memory.add(0, 1));
    assert!(fired::<F>(&own.queue).is_empty());
    assert!(fired::<F>(&far.queue).is_empty());
}

fn a_one_shot_fires_once<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let trap = end.arm(0, 64, Mode::OneShot, enqueue(1));
        assert!(trap.is_armed());
        assert_eq!(end.put_fires(0, 8), [1].into());
        assert!(!trap.is_armed());
        for _ in 0..10 {
            assert!(end.put_fires(0, 8).is_empty(), "fired again");
        }
        // Several transfers before it is reported are one firing.
        let _again = end.arm(0, 64, Mode::OneShot, enqueue(2));
        let several = end.fires(|| (0..10).for_each(|_| good(end.far.put(0, &[1]))));
        assert_eq!(several, [2].into());
        assert!(end.put_fires(0, 8).is_empty(), "fired again");
    });
}

fn a_one_shot_counts_one<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let trap = end.arm(0, 64, Mode::OneShot, Action::Count);
        assert!(trap.is_armed());
        for _ in 0..5 {
            assert!(end.put_fires(0, 8).is_empty(), "counting reports nothing");
        }
        eventually::<F>("the count", || trap.count() == 1);
        assert!(!trap.is_armed());
    });
}

fn a_sticky_one_fires_again<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let trap = end.arm(8, 8, Mode::Sticky, enqueue(3));
        for _ in 0..100 {
            assert_eq!(end.put_fires(8, 1), [3].into());
            assert!(trap.is_armed());
        }
    });
}

fn counting_counts_transfers<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let first = end.arm(0, 128, Mode::Sticky, Action::Count);
        for _ in 0..10 {
            assert!(end.put_fires(60, 8).is_empty(), "counting reports nothing");
        }
        let second = end.arm(64, 1, Mode::Sticky, Action::Count);
        assert!(end.put_fires(0, 128).is_empty());
        assert!(end.put_fires(200, 128).is_empty());
        eventually::<F>("counts", || (first.count(), second.count()) == (11, 1));
        // A tripwire in the place of an old one begins at nothing.
        drop(second);
        let third = end.arm(64, 1, Mode::Sticky, Action::Count);
        assert_eq!(third.count(), 0);
    });
}

fn the_ends_are_independent<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let near = good(own.memory.arm(0, 64, Mode::OneShot, enqueue(1)));
    let there = good(far.memory.arm(32, 64, Mode::Sticky, enqueue(2)));
    good(far.memory.put(0, &[1]));
    assert_eq!(fired::<F>(&own.queue), [1].into());
    assert!(fired::<F>(&far.queue).is_empty());
    assert!(!near.is_armed() && there.is_armed());
    good(far.memory.put(64, &[1]));
    assert!(fired::<F>(&own.queue).is_empty());
    assert_eq!(fired::<F>(&far.queue), [2].into());
    let near = good(own.memory.arm(0, 64, Mode::Sticky, enqueue(3)));
    good(far.memory.put(40, &[1]));
    assert_eq!(fired::<F>(&own.queue), [3].into());
    assert_eq!(fired::<F>(&far.queue), [2].into());
    near.disarm();
    good(far.memory.put(40, &[1]));
    assert!(fired::<F>(&own.queue).is_empty());
    assert_eq!(fired::<F>(&far.queue), [2].into());
}

fn bad_ranges_are_refused<F: Apertures>() {
    at_both_ends::<F>(|end| {
        for (offset, len) in [
            (0, 0),
            (LEN, 1),
            (LEN - 1, 2),
            (0, LEN + 1),
            (usize::MAX, 2),
        ] {
            let refused = end.try_arm(offset, len, Mode::Sticky, enqueue(1)).is_none();
            assert!(refused, "{len} bytes at {offset}");
        }
        assert!(end.put_fires(0, 100).is_empty());
    });
}

fn disarmed_means_silent<F: Apertures>() {
    at_both_ends::<F>(|end| {
        let trap = end.arm(0, 64, Mode::Sticky, enqueue(1));
        let other = end.arm(0, 64, Mode::Sticky, enqueue(2));
        trap.disarm();
        assert!(!trap.is_armed() && other.is_armed());
        assert_eq!(end.put_fires(0, 8), [2].into());
        trap.disarm();
        other.disarm();
        assert!(end.put_fires(0, 8).is_empty());
        let counter = end.arm(0, 64, Mode::Sticky, Action::Count);
        assert!(end.put_fires(0, 8).is_empty());
        eventually::<F>("the count", || counter.count() == 1);
        counter.disarm();
        assert!(end.put_fires(0, 8).is_empty());
        assert_eq!(counter.count(), 1, "counted after it was disarmed");
    });
}

fn dropped_means_disarmed<F: Apertures>() {
    at_both_ends::<F>(|end| {
        for round in 0..2000 {
            drop(end.arm(round % 200, 8, Mode::Sticky, enqueue(1)));
        }
        assert!(end.put_fires(0, 500).is_empty());
    });
}

fn disarming_while_it_fires_is_safe<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                good(far.memory.put(0, &[1; 200]));
            }
        });
        let _over = Over(&over);
        let mut notices = Vec::new();
        for cookie in 0..2000 {
            let at = cookie as usize % 190;
            let trap = good(own.memory.arm(at, 9, Mode::Sticky, enqueue(cookie)));
            if cookie % 3 == 0 {
                good(own.queue.poll_notices(&mut notices, 16));
            }
            trap.disarm();
            notices.clear();
        }
    });
    fired::<F>(&own.queue);
    good(far.memory.put(0, &[1; 200]));
    assert!(fired::<F>(&own.queue).is_empty());
}

fn bytes_are_there_when_it_is_told<F: Apertures>() {
    const ROUNDS: u64 = 2000;
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    let _trap = good(own.memory.arm(4000, 800, Mode::Sticky, enqueue(1)));
    let ApertureEnd { memory, queue } = own;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                good(far.memory.put(4000, &round.to_ne_bytes().repeat(100)));
                if !unless_over(&over, || good(far.memory.load(0)) == round) {
                    return;
                }
            }
        });
        let _over = Over(&over);
        let mut wrong = 0;
        for round in 1..=ROUNDS {
            // An event may be left over; the next tells of the round.
            let mut got = vec![0; 800];
            eventually::<F>("the bytes of a round", || {
                awaited::<F>(&queue, 1);
                good(memory.get(4000, &mut got));
                let last = u64::from_ne_bytes(got[792..].try_into().unwrap());
                wrong += u32::from(last != round && last != round - 1);
                last == round
            });
            wrong += u32::from(got.chunks(8).any(|c| c != round.to_ne_bytes()));
            good(memory.store(0, round));
        }
        assert_eq!(
            wrong, 0,
            "rounds that were told before their bytes were there"
        );
    });
}
