//! The free places of the handles of C programs (`crates/capi/src/free_places.rs`): no place is taken twice, and who takes
//! one sees what its last owner left there. The model lives here because loom is here.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread;

use crate::free_places::FreePlaces;
use crate::{check, check_caught};

const PLACES: usize = 3;

/// The list, and the places that it is about.
struct Table {
    free: FreePlaces,
    next: [AtomicU32; PLACES],
    in_use: [AtomicBool; PLACES],
    /// How often each place had an owner.
    owners: [AtomicU32; PLACES],
    /// What is done to the list after each change: nothing, or what makes it wrong.
    flaw: fn(&FreePlaces),
}

fn right(_: &FreePlaces) {}

/// Changes are not counted: a place that was taken and given back looks as if nothing had happened.
fn uncounted(free: &FreePlaces) {
    // Relaxed: no order is part of the flaw.
    let mut head = free.head.load(Ordering::Relaxed);
    // Relaxed: as above.
    while let Err(other) = free.head.compare_exchange(
        head,
        u64::from(head as u32),
        Ordering::AcqRel,
        Ordering::Relaxed,
    ) {
        head = other;
    }
}

impl Table {
    /// All are free, the first in front.
    fn new(flaw: fn(&FreePlaces)) -> Table {
        let table = Table {
            free: FreePlaces {
                head: AtomicU64::new(0),
            },
            next: std::array::from_fn(|_| AtomicU32::new(0)),
            in_use: std::array::from_fn(|_| AtomicBool::new(false)),
            owners: std::array::from_fn(|_| AtomicU32::new(0)),
            flaw,
        };
        for at in (0..PLACES).rev() {
            table.free.give(at as u32, &table.next[at]);
            flaw(&table.free);
        }
        table
    }

    fn take(&self) -> Option<usize> {
        let at = self.free.take(|at| &self.next[at as usize])? as usize;
        (self.flaw)(&self.free);
        // Relaxed: an exchange sees the last value, whatever its order.
        let was_in_use = self.in_use[at].swap(true, Ordering::Relaxed);
        assert_eq!(was_in_use, false, "place {at} is taken twice");
        Some(at)
    }

    fn give(&self, at: usize) {
        // Relaxed: that the list orders it is what the model shows.
        let owners = self.owners[at].load(Ordering::Relaxed);
        self.owners[at].store(owners + 1, Ordering::Relaxed); // Relaxed: as above.
        // Relaxed: as in `take`.
        self.in_use[at].swap(false, Ordering::Relaxed);
        self.free.give(at as u32, &self.next[at]);
        (self.flaw)(&self.free);
    }
}

/// One thread takes two places while the other takes two and gives the first of them back.
fn two_threads(flaw: fn(&FreePlaces)) {
    let table = Arc::new(Table::new(flaw));
    let other = Arc::clone(&table);
    let thread = thread::spawn(move || {
        other.take();
        other.take();
    });
    let mine = table.take();
    table.take();
    if let Some(at) = mine {
        table.give(at);
    }
    thread.join().expect("no panic");
}

/// A place that was given back is seen with what its last owner left there.
fn handed_on() {
    let table = Arc::new(Table::new(right));
    let (Some(one), Some(two), Some(three)) = (table.take(), table.take(), table.take()) else {
        unreachable!("three are free");
    };
    let other = Arc::clone(&table);
    let thread = thread::spawn(move || {
        if let Some(at) = other.take() {
            assert!(at != one);
            // Relaxed: the list orders it.
            assert_eq!(other.owners[at].load(Ordering::Relaxed), 1);
        }
    });
    table.give(two);
    table.give(three);
    thread.join().expect("no panic");
}

#[test]
fn no_free_place_is_taken_twice() {
    check(|| two_threads(right));
    check(handed_on);
}

#[test]
fn a_list_that_does_not_count_its_changes_is_caught() {
    check_caught("changes that are not counted", || two_threads(uncounted));
}
