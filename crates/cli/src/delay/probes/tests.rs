//! Probes before a clock and counters that the test moves.

use std::cell::Cell;

use super::*;
use crate::delay::upto_us;

/// Counters and a clock. Each reading of the clock takes a little.
#[derive(Default)]
struct Fake {
    now_ns: Cell<u64>,
    sent: Cell<u64>,
    taken: Cell<u64>,
    has_ended: Cell<bool>,
    looks: Cell<u64>,
}

impl Ends for &Fake {
    fn sent(&self) -> Option<u64> {
        (!self.has_ended.get()).then_some(self.sent.get())
    }

    fn taken(&self) -> Option<u64> {
        self.looks.set(self.looks.get() + 1);
        (!self.has_ended.get()).then_some(self.taken.get())
    }
}

impl Fake {
    fn clock(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + 30);
        self.now_ns.get()
    }

    /// Goes on to a time, with a look whenever one is due.
    fn go_on(&self, direction: &mut Direction<&Fake>, to_ns: u64) {
        while direction.due_ns() <= to_ns {
            self.now_ns.set(direction.due_ns().max(self.now_ns.get()));
            direction.look(|| self.clock());
        }
        self.now_ns.set(to_ns.max(self.now_ns.get()));
    }

    /// One that has seen what both counters are now.
    fn direction(&self) -> Direction<&Fake> {
        let mut direction = Direction::new(self);
        direction.probe(|| self.clock());
        direction
    }

    fn send(&self, bytes: u64) {
        self.sent.set(self.sent.get().wrapping_add(bytes));
    }

    fn take_all(&self) {
        self.taken.set(self.sent.get());
    }
}

/// The buckets that have something, and how much.
fn filled(direction: &mut Direction<&Fake>) -> Vec<(Option<u64>, u64)> {
    let (_, total) = direction.recorded(0);
    let counts = total.counts().iter().enumerate();
    let filled = counts.filter(|(_, count)| **count > 0);
    filled.map(|(at, count)| (upto_us(at), *count)).collect()
}

#[test]
fn a_delay_is_found_in_its_bucket() {
    for delay_us in [
        1, 3, 7, 20, 50, 100, 700, 5_000, 20_000, 90_000, 600_000, 1_000_000,
    ] {
        let fake = Fake::default();
        let mut direction = fake.direction();
        fake.send(100);
        direction.probe(|| fake.clock());
        let begun = fake.now_ns.get();
        fake.go_on(&mut direction, begun + delay_us * 1000 - 1);
        fake.take_all();
        fake.go_on(&mut direction, u64::MAX / 2);
        let expected = delay_us.next_power_of_two();
        let [(Some(upto), 1)] = filled(&mut direction)[..] else {
            panic!("{delay_us}: {:?}", filled(&mut direction));
        };
        // The middle of two looks may lie below a border.
        assert!(
            (expected / 2..=expected).contains(&upto),
            "{delay_us}: {upto}"
        );
    }
}

#[test]
fn silence_does_not_count() {
    let fake = Fake::default();
    fake.sent.set(1000);
    fake.taken.set(1000);
    let mut direction = fake.direction();
    for _ in 0..100 {
        direction.probe(|| fake.clock());
    }
    assert_eq!(filled(&mut direction), []);
    fake.send(1);
    fake.take_all();
    for _ in 0..100 {
        direction.probe(|| fake.clock());
    }
    assert_eq!(filled(&mut direction), [(Some(0), 1)]);
    assert_eq!(direction.due_ns(), u64::MAX);
}

#[test]
fn counters_may_wrap_around() {
    let fake = Fake::default();
    fake.sent.set(u64::MAX - 10);
    fake.taken.set(u64::MAX - 10);
    let mut direction = fake.direction();
    fake.send(100);
    direction.probe(|| fake.clock());
    assert_ne!(direction.due_ns(), u64::MAX);
    fake.go_on(&mut direction, 3_000);
    fake.take_all();
    fake.go_on(&mut direction, 10_000);
    assert_eq!(filled(&mut direction), [(Some(4), 1)]);
}

#[test]
fn a_receiver_that_never_takes_is_said_to_take_longer_and_costs_little() {
    let fake = Fake::default();
    let mut direction = fake.direction();
    fake.send(100);
    for nth in 0..1000 {
        fake.go_on(&mut direction, nth * 10_000_000);
        direction.probe(|| fake.clock());
        assert!(direction.pending.len() <= PENDING_MAX);
    }
    let begun = fake.looks.get();
    fake.go_on(&mut direction, 100_000_000_000);
    assert_eq!(direction.due_ns(), u64::MAX);
    assert!(fake.looks.get() - begun < 5000, "{}", fake.looks.get());
    assert_eq!(filled(&mut direction), [(None, 1000)]);
}

#[test]
fn what_is_stuck_shows_before_its_probe_ends() {
    let fake = Fake::default();
    let mut direction = fake.direction();
    fake.send(100);
    direction.probe(|| fake.clock());
    let begun = fake.now_ns.get();
    assert!(direction.latest_ns() == direction.due_ns());
    fake.go_on(&mut direction, begun + 400_000_000);
    let slack = direction.latest_ns() - direction.due_ns();
    assert!((30_000_000..80_000_000).contains(&slack), "{slack}");
    let (recent, total) = direction.recorded(begun + 400_000_000);
    assert_eq!(recent.percentile(50).map(upto_us), Some(Some(524_288)));
    assert_eq!((recent.count(), total.count()), (1, 0));
}

#[test]
fn a_connection_that_ends_and_one_that_is_another_leave_nothing() {
    let fake = Fake::default();
    let mut direction = fake.direction();
    fake.send(100);
    direction.probe(|| fake.clock());
    fake.has_ended.set(true);
    fake.go_on(&mut direction, 1_000_000);
    direction.probe(|| fake.clock());
    assert_eq!(
        (filled(&mut direction), direction.due_ns()),
        (vec![], u64::MAX)
    );
    // Its counters begin anew.
    fake.has_ended.set(false);
    direction.probe(|| fake.clock());
    direction.probe(|| fake.clock());
    fake.taken.set(50);
    fake.go_on(&mut direction, 2_000_000);
    fake.taken.set(10);
    fake.go_on(&mut direction, 10_000_000_000);
    assert_eq!(
        (filled(&mut direction), direction.due_ns()),
        (vec![], u64::MAX)
    );
    fake.sent.set(3);
    fake.taken.set(3);
    direction.probe(|| fake.clock());
    assert_eq!(filled(&mut direction), []);
}

#[test]
fn looks_that_are_too_far_apart_say_nothing() {
    let fake = Fake::default();
    let mut direction = fake.direction();
    fake.send(100);
    direction.probe(|| fake.clock());
    // The prober got no processor for ten milliseconds.
    fake.take_all();
    fake.now_ns.set(10_000_000);
    direction.look(|| fake.clock());
    assert_eq!(
        (filled(&mut direction), direction.due_ns()),
        (vec![], u64::MAX)
    );
}

#[test]
fn counters_that_are_anything_do_no_harm() {
    let mut chance = barewire_units::Rng::from_seed(7);
    let fake = Fake::default();
    let mut direction = fake.direction();
    let words = [0, 1, u64::MAX, u64::MAX / 2, 1 << 63];
    let word = |chance: &mut barewire_units::Rng| match chance.below(3) {
        0 => chance.next_u64(),
        1 => words[chance.index(words.len())],
        _ => chance.below(100),
    };
    for _ in 0..100_000 {
        fake.sent.set(word(&mut chance));
        fake.taken.set(word(&mut chance));
        fake.has_ended.set(chance.ratio(1, 20));
        match chance.below(3) {
            0 => direction.probe(|| fake.clock()),
            1 => direction.look(|| fake.clock()),
            _ => fake
                .now_ns
                .set(fake.now_ns.get().wrapping_add(chance.next_u64() >> 34)),
        }
        assert!(direction.pending.len() <= PENDING_MAX);
    }
    // Each probe ends, whatever it waits for.
    fake.has_ended.set(false);
    let before = fake.looks.get();
    let to = fake.now_ns.get() + 2 * LONGEST_NS;
    fake.go_on(&mut direction, to);
    assert_eq!(direction.due_ns(), u64::MAX);
    assert!(fake.looks.get() - before < 10_000);
}
