//! The pending events against a sorted map, and how much work they are.

use super::*;
use barewire_units::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What the queue should hold: by key, the event and its period.
type Oracle = BTreeMap<(u64, u64), (usize, u64)>;

#[derive(Clone, Debug)]
enum Step {
    Schedule {
        time_ps: u64,
        class: u8,
        node: u16,
        /// None for an event without a name.
        period_ps: Option<u64>,
    },
    Cancel(usize),
    Pop,
    Look,
}

/// Times that lie close together, of all scales, and at the end of time.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..50_u64,
        4 => 0..5_000_u64,
        2 => (0..50_u32).prop_flat_map(|bits| 0..=1_u64 << bits),
        1 => u64::MAX - 50..=u64::MAX,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let period = prop_oneof![
        3 => Just(None),
        3 => Just(Some(0)),
        2 => (1..9_u64).prop_map(Some),
        1 => (1..9_000_u64).prop_map(Some),
    ];
    prop_oneof![
        6 => (time(), 0..3_u8, 0..4_u16, period).prop_map(
            |(time_ps, class, node, period_ps)| Step::Schedule { time_ps, class, node, period_ps }
        ),
        2 => any::<prop::sample::Index>().prop_map(|i| Step::Cancel(i.index(1 << 16))),
        4 => Just(Step::Pop),
        1 => Just(Step::Look),
    ]
}

#[derive(Clone, Copy)]
struct Pending {
    id: Option<EventId>,
    /// As long as it pends.
    key: Option<(u64, u64)>,
}

/// A queue beside its oracle.
struct Pair {
    queue: Queue<usize>,
    oracle: Oracle,
    events: Vec<Pending>,
    sequence: u64,
}

impl Pair {
    fn new(few: usize) -> Self {
        Self {
            queue: Queue::with_few(few),
            oracle: Oracle::new(),
            events: Vec::new(),
            sequence: 0,
        }
    }

    fn insert(&mut self, event: usize, time_ps: u64, order: u64, period_ps: u64) -> (u64, u64) {
        let key = (time_ps, order | self.sequence);
        self.sequence += 1;
        self.oracle.insert(key, (event, period_ps));
        key
    }

    fn schedule(&mut self, time_ps: u64, order: u64, period_ps: Option<u64>) {
        let event = self.events.len();
        let id = match period_ps {
            None => {
                self.queue.schedule(time_ps, order, event);
                None
            }
            Some(period_ps) => Some(self.queue.schedule_named(time_ps, order, period_ps, event)),
        };
        let key = self.insert(event, time_ps, order, period_ps.unwrap_or(0));
        self.events.push(Pending { id, key: Some(key) });
    }

    fn cancel(&mut self, index: usize) {
        let Some(which) = index.checked_rem(self.events.len()) else {
            return;
        };
        let Pending { id: Some(id), key } = self.events[which] else {
            return;
        };
        let was = key.is_some_and(|key| self.oracle.remove(&key).is_some());
        self.events[which].key = None;
        assert_eq!(self.queue.cancel(id), was);
    }

    /// Whether something was there.
    fn pop(&mut self) -> bool {
        let fired = self.queue.pop();
        let fired = fired.map(|fired| (fired.time_ps, fired.order, fired.event));
        let Some(((time_ps, order), (event, period_ps))) = self.oracle.pop_first() else {
            assert_eq!(fired, None);
            return false;
        };
        assert_eq!(fired, Some((time_ps, order, event)));
        let again = time_ps.checked_add(period_ps).filter(|_| period_ps > 0);
        let order = order >> SEQUENCE_BITS << SEQUENCE_BITS;
        self.events[event].key = again.map(|again| self.insert(event, again, order, period_ps));
        true
    }

    fn look(&mut self) {
        let next_ps = self.oracle.keys().next().map(|key| key.0);
        assert_eq!(self.queue.next_ps(), next_ps);
    }
}

proptest! {
    /// With a heap so small that slices come and go, and with one that is enough.
    #[test]
    fn like_a_sorted_map(
        few in prop_oneof![0..9_usize, Just(FEW)],
        steps in prop::collection::vec(step(), 0..500),
    ) {
        let mut pair = Pair::new(few);
        for step in steps {
            match step {
                Step::Schedule { time_ps, class, node, period_ps } => {
                    pair.schedule(time_ps, order(class, node), period_ps);
                }
                Step::Cancel(index) => pair.cancel(index),
                Step::Pop => {
                    pair.pop();
                }
                Step::Look => pair.look(),
            }
            prop_assert_eq!(pair.queue.len(), pair.oracle.len());
        }
        for index in 0..pair.events.len() {
            pair.cancel(index);
        }
        while pair.pop() {}
    }
}

/// As a model of many entities has them: most events soon, a timer for each, which
/// mostly is cancelled.
#[test]
fn like_a_sorted_map_with_thousands() {
    let mut pair = Pair::new(FEW);
    let mut rng = Rng::from_seed(4);
    for _ in 0..3_000 {
        pair.schedule(rng.below(1_000_000), 0, None);
    }
    for step in 0..20_000 {
        let now = pair.oracle.keys().next().map_or(0, |key| key.0);
        assert!(pair.pop());
        pair.schedule(now + rng.below(1_000_000), order(0, 1), None);
        pair.schedule(now + 1_000_000_000, order(0, 2), Some(0));
        if step > 500 {
            pair.cancel(3_000 + 2 * (step - 500) + 1);
        }
    }
    while pair.pop() {}
}

#[test]
fn a_sweep_keeps_the_living() {
    let mut queue = Queue::new();
    let ids: Vec<_> = (0..1000_u64)
        .map(|i| queue.schedule_named(1000 - i, 0, 0, i))
        .collect();
    for (i, &id) in ids.iter().enumerate() {
        assert!(i % 10 == 0 || queue.cancel(id));
    }
    assert!(queue.places() < 500, "dead places stayed");
    let left: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|f| f.event)
        .collect();
    assert_eq!(left, (0..100).rev().map(|i| i * 10).collect::<Vec<_>>());
    assert!(!queue.cancel(ids[0]));
}

/// What is pending must not gather in the heap, whatever the scales of time are and
/// in whatever order they come.
#[test]
fn many_at_once_are_divided() {
    const COUNT: u64 = 20_000;
    let mut rng = Rng::from_seed(1);
    for timers_first in [true, false] {
        let mut queue = Queue::new();
        let mut fill = |timers: bool| {
            for _ in 0..COUNT {
                let within = if timers { 1 << 50 } else { 1 << 20 };
                queue.schedule(rng.below(within), 0, 0_u32);
            }
        };
        fill(timers_first);
        fill(!timers_first);
        let (mut most, mut before) = (0, 0);
        for _ in 0..COUNT / 2 {
            let fired = queue.pop().expect("as many are pending");
            assert!(fired.time_ps >= before);
            before = fired.time_ps;
            most = most.max(queue.heap.len());
        }
        assert!(most < 1_000, "{most} in the heap");
    }
}

/// Where nothing can be divided, the heap does it alone, and is not rebuilt over and over.
#[test]
fn one_moment_for_all() {
    let mut queue = Queue::new();
    for event in 0..50_000_u64 {
        queue.schedule(7, 0, event);
    }
    for event in 0..50_000 {
        assert_eq!(queue.pop().map(|fired| fired.event), Some(event));
    }
    assert!(queue.pop().is_none());
}
