//! The hot path allocates nothing: once a run has found its size, events come and go
//! in memory that is there.

use allocation_counter::measure;
use barewire_des::stats::BatchMeans;
use barewire_des::workloads::{Hold, QueueMm1, TokenRing};
use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_units::{Duration, Instant, Rng};

/// Allocations of `events` more events.
fn allocations<W: World>(world: &mut W, sim: &mut Simulator<W::Event>, events: u64) -> u64
where
    W::Event: Event,
{
    let end = sim.fired() + events;
    let counted = measure(|| while sim.fired() < end && sim.step(world) {});
    assert_eq!(sim.fired(), end);
    counted.count_total
}

/// The same after `events` of warm-up.
fn warm<W: World>(world: &mut W, sim: &mut Simulator<W::Event>, events: u64) -> u64
where
    W::Event: Event,
{
    allocations(world, sim, events);
    allocations(world, sim, events)
}

#[test]
fn a_queue_and_a_ring() {
    let (long, short) = (Duration::from_us(200), Duration::from_us(90));
    let rng = Rng::from_seed(1);
    let mut queue = QueueMm1::new(&rng, long, short, BatchMeans::new(100, 100));
    let mut sim = Simulator::new();
    queue.start(&mut sim);
    assert_eq!(warm(&mut queue, &mut sim, 50_000), 0);

    let between = Duration::from_us(1_000);
    let walk = Duration::from_us(1);
    let mut ring = TokenRing::new(
        &rng,
        32,
        between,
        Duration::from_us(10),
        walk,
        BatchMeans::new(100, 100),
    );
    let mut sim = Simulator::new();
    ring.start(&mut sim);
    // A queue that is once longer than ever before has to grow.
    assert!(warm(&mut ring, &mut sim, 200_000) <= 3);
}

#[test]
fn as_many_as_pend() {
    for pending in [100, 1_000, 20_000] {
        let mut hold = Hold::new(&Rng::from_seed(5), Duration::from_us(1), u64::MAX);
        let mut sim = Simulator::new();
        hold.start(pending, &mut sim);
        let grown = warm(&mut hold, &mut sim, 300_000);
        // The pile, the blocks or the heap may once be fuller than ever before.
        assert!(grown <= 3, "{grown} allocations with {pending} pending");
    }
}

/// Each event starts a timer and cancels the one before.
struct Timers {
    last: Option<barewire_des::EventId>,
}

#[derive(Clone, Copy)]
enum Tick {
    Work,
    TimeOut,
}

impl Event for Tick {
    fn digest(&self) -> u64 {
        *self as u64
    }
}

impl World for Timers {
    type Event = Tick;

    fn handle(&mut self, event: Tick, sim: &mut Simulator<Tick>) {
        assert!(matches!(event, Tick::Work), "a cancelled time-out fired");
        if let Some(last) = self.last.take() {
            assert!(sim.cancel(last));
        }
        let time_out = sim.now() + Duration::from_ms(1);
        self.last = Some(sim.timer(time_out, Class::NORMAL, Node(0), Tick::TimeOut));
        sim.after(Duration::from_us(1), Class::NORMAL, Node(0), Tick::Work);
    }
}

#[test]
fn timers_that_are_cancelled() {
    let mut timers = Timers { last: None };
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Class::NORMAL, Node(0), Tick::Work);
    assert_eq!(warm(&mut timers, &mut sim, 20_000), 0);
}
