//! The simulator: the clock, the pending events, and the hash over what fired.

use barewire_units::{Duration, Instant};

use crate::event::{Class, Event, Node};
use crate::queue::{EventId, Queue, class_and_node_of, class_of, node_of, order};
use crate::trace::{Record, Trace};

/// A model: everything that reacts to events.
pub trait World {
    /// What can happen in it.
    type Event: Event;
    /// Reacts to `event` at [`Simulator::now`].
    fn handle(&mut self, event: Self::Event, sim: &mut Simulator<Self::Event>);
}

/// The clock and the pending events of one run.
pub struct Simulator<E> {
    now: Instant,
    queue: Queue<E>,
    fired: u64,
    hash: u64,
    trace: Option<Trace<E>>,
    stopped: bool,
}

impl<E: Event> Default for Simulator<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Event> Simulator<E> {
    /// A simulator at [`Instant::ORIGIN`] with nothing to come.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: Instant::ORIGIN,
            queue: Queue::new(),
            fired: 0,
            hash: 0,
            trace: None,
            stopped: false,
        }
    }

    /// The time of the event being handled, or of the last one.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Events fired so far.
    #[must_use]
    pub const fn fired(&self) -> u64 {
        self.fired
    }

    /// Events still to come.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// When the next event is to come, if there is one.
    #[must_use]
    pub fn next_time(&mut self) -> Option<Instant> {
        let next_ps = self.queue.next_ps()?;
        Some(Instant::ORIGIN + Duration::from_ps(next_ps))
    }

    /// The hash over every event so far: when, of what class and node, and what.
    #[must_use]
    pub const fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Keeps the events that pass the trace's filter from now on.
    pub fn set_trace(&mut self, trace: Trace<E>) {
        self.trace = Some(trace);
    }

    /// The trace, if one was set.
    #[must_use]
    pub const fn trace(&self) -> Option<&Trace<E>> {
        self.trace.as_ref()
    }

    /// When the next event happens; `None` if nothing is to come.
    #[must_use]
    pub fn next_at(&mut self) -> Option<Instant> {
        let next_ps = self.queue.next_ps()?;
        Some(Instant::ORIGIN + Duration::from_ps(next_ps))
    }

    /// Lets `event` happen at `time`. A time that has passed means now: after
    /// what is already pending for this instant, class and node.
    pub fn at(&mut self, time: Instant, class: Class, node: Node, event: E) {
        let time_ps = time.max(self.now).since_origin().as_ps();
        self.queue.schedule(time_ps, order(class.0, node.0), event);
    }

    /// Lets `event` happen in `delay`; the end of time if that comes first.
    pub fn after(&mut self, delay: Duration, class: Class, node: Node, event: E) {
        let time = self.now.checked_add(delay).unwrap_or(Instant::MAX);
        self.at(time, class, node, event);
    }

    /// Like [`Simulator::at`], for an event that may be cancelled: a time-out, say.
    pub fn timer(&mut self, time: Instant, class: Class, node: Node, event: E) -> EventId {
        self.every(time, Duration::ZERO, class, node, event)
    }

    /// Lets `event` happen at `first` and then every `period` until cancelled.
    /// A period of zero would never let time go on: it fires once.
    pub fn every(
        &mut self,
        first: Instant,
        period: Duration,
        class: Class,
        node: Node,
        event: E,
    ) -> EventId {
        let time_ps = first.max(self.now).since_origin().as_ps();
        let order = order(class.0, node.0);
        self.queue
            .schedule_named(time_ps, order, period.as_ps(), event)
    }

    /// Takes an event back; whether it was still to come.
    pub fn cancel(&mut self, id: EventId) -> bool {
        self.queue.cancel(id)
    }

    /// Ends the run after the event being handled.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Runs until nothing is pending or [`Simulator::stop`] is called.
    pub fn run(&mut self, world: &mut impl World<Event = E>) {
        self.stopped = false;
        while !self.stopped && self.step(world) {}
    }

    /// Runs what happens up to and at `end`, and sets the clock there unless the
    /// run was stopped before.
    pub fn run_until(&mut self, end: Instant, world: &mut impl World<Event = E>) {
        self.stopped = false;
        let end_ps = end.since_origin().as_ps();
        while !self.stopped && self.queue.next_ps().is_some_and(|next| next <= end_ps) {
            self.step(world);
        }
        if !self.stopped {
            self.now = self.now.max(end);
        }
    }

    /// Lets the next event happen; `false` if there is none.
    pub fn step(&mut self, world: &mut impl World<Event = E>) -> bool {
        let Some(fired) = self.queue.pop() else {
            return false;
        };
        self.now = Instant::ORIGIN + Duration::from_ps(fired.time_ps);
        self.fired += 1;
        self.hash = mix(
            self.hash,
            fired.time_ps,
            class_and_node_of(fired.order),
            &fired.event,
        );
        if let Some(trace) = &mut self.trace {
            trace.offer(Record {
                time: self.now,
                class: Class(class_of(fired.order)),
                node: Node(node_of(fired.order)),
                event: fired.event,
            });
        }
        world.handle(fired.event, self);
        true
    }
}

/// One step of the trace hash: two multiplications, so that it costs next to nothing.
fn mix(hash: u64, time_ps: u64, class_and_node: u64, event: &impl Event) -> u64 {
    const ODD_1: u64 = 0x9e37_79b9_7f4a_7c15;
    const ODD_2: u64 = 0xd6e8_feb8_6659_fd93;
    let hash = (hash ^ time_ps).wrapping_mul(ODD_1).rotate_left(29);
    (hash ^ class_and_node.rotate_left(40) ^ event.digest())
        .wrapping_mul(ODD_2)
        .rotate_left(31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Filter;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Mark(u64);

    impl Event for Mark {
        fn digest(&self) -> u64 {
            self.0
        }
    }

    #[derive(Default)]
    struct Log(Vec<(u64, u64)>);

    impl World for Log {
        type Event = Mark;
        fn handle(&mut self, event: Mark, sim: &mut Simulator<Mark>) {
            self.0.push((sim.now().since_origin().as_ps(), event.0));
            if event.0 == 99 {
                sim.stop();
            }
        }
    }

    fn ps(ps: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ps(ps)
    }

    #[test]
    fn one_instant_is_ordered_by_class_node_and_sequence() {
        let mut sim = Simulator::new();
        sim.at(ps(5), Class::LAST, Node(0), Mark(6));
        sim.at(ps(5), Class::NORMAL, Node(2), Mark(4));
        sim.at(ps(5), Class::NORMAL, Node(1), Mark(2));
        sim.at(ps(5), Class::NORMAL, Node(1), Mark(3));
        sim.at(ps(5), Class::NORMAL, Node(300), Mark(5));
        sim.at(ps(5), Class::FIRST, Node(9), Mark(1));
        sim.at(ps(4), Class::LAST, Node(9), Mark(0));
        let mut log = Log::default();
        sim.run(&mut log);
        let order: Vec<_> = log.0.iter().map(|&(_, mark)| mark).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((sim.fired(), sim.pending()), (7, 0));
    }

    #[test]
    fn a_period_repeats_until_cancelled_and_until_ends_at_its_end() {
        let mut sim = Simulator::new();
        let id = sim.every(
            ps(10),
            Duration::from_ps(7),
            Class::NORMAL,
            Node(0),
            Mark(1),
        );
        let mut log = Log::default();
        sim.run_until(ps(24), &mut log);
        assert_eq!(log.0, [(10, 1), (17, 1), (24, 1)]);
        sim.run_until(ps(30), &mut log);
        assert_eq!((log.0.len(), sim.now()), (3, ps(30)));
        assert!(sim.cancel(id) && !sim.cancel(id));
        sim.run(&mut log);
        assert_eq!((log.0.len(), sim.pending()), (3, 0));
    }

    #[test]
    fn the_past_is_now_and_stop_stops() {
        let mut sim = Simulator::new();
        sim.at(ps(50), Class::NORMAL, Node(0), Mark(99));
        sim.at(ps(60), Class::NORMAL, Node(0), Mark(7));
        let mut log = Log::default();
        sim.run(&mut log);
        assert_eq!(log.0, [(50, 99)]);
        sim.at(ps(1), Class::NORMAL, Node(0), Mark(8));
        sim.run(&mut log);
        assert_eq!(log.0, [(50, 99), (50, 8), (60, 7)]);
    }

    #[test]
    fn the_hash_sees_time_class_node_event_and_order() {
        let hash = |events: &[(u64, u8, u16, u64)]| {
            let mut sim = Simulator::new();
            for &(at, class, node, mark) in events {
                sim.at(ps(at), Class(class), Node(node), Mark(mark));
            }
            sim.run(&mut Log::default());
            sim.trace_hash()
        };
        let base = hash(&[(1, 1, 1, 1), (2, 1, 1, 2)]);
        assert_eq!(base, hash(&[(2, 1, 1, 2), (1, 1, 1, 1)]));
        for other in [
            [(1, 1, 1, 1), (3, 1, 1, 2)],
            [(1, 2, 1, 1), (2, 1, 1, 2)],
            [(1, 1, 2, 1), (2, 1, 1, 2)],
            [(1, 1, 1, 3), (2, 1, 1, 2)],
            [(1, 1, 1, 2), (2, 1, 1, 1)],
        ] {
            assert_ne!(base, hash(&other), "{other:?}");
        }
    }

    #[test]
    fn the_trace_keeps_the_last_that_pass() {
        let mut sim = Simulator::new();
        let filter = Filter {
            nodes: Some((Node(1), Node(2))),
            ..Filter::default()
        };
        sim.set_trace(Trace::new(filter, 2));
        for node in 0..5 {
            sim.at(ps(u64::from(node)), Class::NORMAL, Node(node), Mark(7));
            sim.at(ps(u64::from(node)), Class::NORMAL, Node(2), Mark(8));
        }
        sim.run(&mut Log::default());
        let trace = sim.trace().expect("set above");
        let kept: Vec<_> = trace.records().map(|r| (r.time, r.node, r.event)).collect();
        assert_eq!(kept, [(ps(3), Node(2), Mark(8)), (ps(4), Node(2), Mark(8))]);
        assert_eq!(trace.passed(), 7);
    }
}
