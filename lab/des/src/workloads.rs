//! Three models whose answers are known: they check the kernel, and `make bench-lab`
//! measures it by them beside other simulators.
//!
//! | model | events | known answer |
//! |---|---|---|
//! | [`QueueMm1`] | arrival, departure | mean sojourn s / (1 − ρ) for mean service s at load ρ |
//! | [`TokenRing`] | arrival, token at a station | mean wait (N λ E\[b²\] + r (N + ρ)) / 2 (1 − ρ − N λ r), for N stations that send one frame a visit, and r to walk from one to the next |
//! | [`Hold`] | each replaces itself | as many pending as at the start |

use std::collections::VecDeque;

use barewire_units::{Duration, Instant, Rng};

use crate::stats::{BatchMeans, TimeAverage};
use crate::{Class, Event, Node, Simulator, World, dist};

/// An event of [`QueueMm1`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mm1Event {
    /// A customer comes.
    Arrival,
    /// The customer at the head has been served.
    Departure,
}

impl Event for Mm1Event {
    fn digest(&self) -> u64 {
        *self as u64
    }
}

/// One server, one queue, everything exponential.
pub struct QueueMm1 {
    between: Duration,
    service: Duration,
    arrivals: Rng,
    services: Rng,
    /// When each customer that is still here came.
    here: VecDeque<Instant>,
    /// Sojourns in picoseconds.
    pub sojourn: BatchMeans,
    /// Customers here.
    pub length: TimeAverage,
}

impl QueueMm1 {
    /// A queue with mean service time `service` and mean time `between` arrivals.
    #[must_use]
    pub fn new(rng: &Rng, between: Duration, service: Duration, sojourn: BatchMeans) -> Self {
        Self {
            between,
            service,
            arrivals: rng.fork("arrivals"),
            services: rng.fork("services"),
            here: VecDeque::new(),
            sojourn,
            length: TimeAverage::new(Instant::ORIGIN, 0),
        }
    }

    /// Lets the first customer come.
    pub fn start(&mut self, sim: &mut Simulator<Mm1Event>) {
        let delay = dist::exponential_time(&mut self.arrivals, self.between);
        sim.after(delay, Class::NORMAL, Node(0), Mm1Event::Arrival);
    }

    fn serve(&mut self, sim: &mut Simulator<Mm1Event>) {
        let delay = dist::exponential_time(&mut self.services, self.service);
        sim.after(delay, Class::NORMAL, Node(0), Mm1Event::Departure);
    }
}

impl World for QueueMm1 {
    type Event = Mm1Event;

    fn handle(&mut self, event: Mm1Event, sim: &mut Simulator<Mm1Event>) {
        match event {
            Mm1Event::Arrival => {
                self.here.push_back(sim.now());
                self.start(sim);
                if self.here.len() == 1 {
                    self.serve(sim);
                }
            }
            Mm1Event::Departure => {
                if let Some(came) = self.here.pop_front() {
                    self.sojourn.add((sim.now() - came).as_ps() as f64);
                }
                if !self.here.is_empty() {
                    self.serve(sim);
                }
            }
        }
        self.length.set(sim.now(), self.here.len() as u64);
    }
}

/// An event of [`TokenRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEvent {
    /// A frame comes to a station's queue.
    Arrival(u16),
    /// The token comes to a station.
    Token(u16),
}

impl Event for RingEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Arrival(station) => u64::from(station),
            Self::Token(station) => 1 << 16 | u64::from(station),
        }
    }
}

/// Stations on a ring that each send one frame when the token comes (limited-1 service).
pub struct TokenRing {
    between: Duration,
    service: Duration,
    walk: Duration,
    stations: Vec<Station>,
    services: Rng,
    /// Waits in picoseconds, from coming to the head of the ring's service.
    pub wait: BatchMeans,
}

struct Station {
    arrivals: Rng,
    queue: VecDeque<Instant>,
}

impl TokenRing {
    /// `stations` of them, each with a frame every `between` on average, frames
    /// exponential of mean `service`, and `walk` from one station to the next.
    #[must_use]
    pub fn new(
        rng: &Rng,
        stations: u16,
        between: Duration,
        service: Duration,
        walk: Duration,
        wait: BatchMeans,
    ) -> Self {
        let station = |index| Station {
            arrivals: rng.fork_nth("station", u64::from(index)),
            queue: VecDeque::new(),
        };
        Self {
            between,
            service,
            walk,
            stations: (0..stations).map(station).collect(),
            services: rng.fork("services"),
            wait,
        }
    }

    /// Lets the first frames come, and the token to station 0.
    pub fn start(&mut self, sim: &mut Simulator<RingEvent>) {
        for station in 0..self.stations.len() as u16 {
            self.next_arrival(station, sim);
        }
        sim.after(self.walk, Class::NORMAL, Node(0), RingEvent::Token(0));
    }

    fn next_arrival(&mut self, station: u16, sim: &mut Simulator<RingEvent>) {
        let rng = &mut self.stations[usize::from(station)].arrivals;
        let delay = dist::exponential_time(rng, self.between);
        sim.after(
            delay,
            Class::NORMAL,
            Node(station),
            RingEvent::Arrival(station),
        );
    }

    fn token(&mut self, at: u16, sim: &mut Simulator<RingEvent>) {
        let mut away = self.walk;
        if let Some(came) = self.stations[usize::from(at)].queue.pop_front() {
            self.wait.add((sim.now() - came).as_ps() as f64);
            away += dist::exponential_time(&mut self.services, self.service);
        }
        let next = if usize::from(at) + 1 == self.stations.len() {
            0
        } else {
            at + 1
        };
        sim.after(away, Class::NORMAL, Node(next), RingEvent::Token(next));
    }
}

impl World for TokenRing {
    type Event = RingEvent;

    fn handle(&mut self, event: RingEvent, sim: &mut Simulator<RingEvent>) {
        match event {
            RingEvent::Arrival(station) => {
                let queue = &mut self.stations[usize::from(station)].queue;
                queue.push_back(sim.now());
                self.next_arrival(station, sim);
            }
            RingEvent::Token(station) => self.token(station, sim),
        }
    }
}

/// An event of [`Hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldEvent(u32);

impl Event for HoldEvent {
    fn digest(&self) -> u64 {
        u64::from(self.0)
    }
}

/// The hold model: every event that fires schedules itself again after an
/// exponential time, so as many are pending as at the start.
pub struct Hold {
    mean: Duration,
    rng: Rng,
    left: u64,
}

impl Hold {
    /// A model that stops after `events`.
    #[must_use]
    pub fn new(rng: &Rng, mean: Duration, events: u64) -> Self {
        Self {
            mean,
            rng: rng.fork("hold"),
            left: events,
        }
    }

    /// Schedules the first `pending` events.
    pub fn start(&mut self, pending: u32, sim: &mut Simulator<HoldEvent>) {
        for index in 0..pending {
            let delay = dist::exponential_time(&mut self.rng, self.mean);
            sim.after(delay, Class::NORMAL, Node(0), HoldEvent(index));
        }
    }
}

impl World for Hold {
    type Event = HoldEvent;

    fn handle(&mut self, event: HoldEvent, sim: &mut Simulator<HoldEvent>) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            sim.stop();
        }
        let delay = dist::exponential_time(&mut self.rng, self.mean);
        sim.after(delay, Class::NORMAL, Node(0), event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Interval, Tally};

    const US: f64 = 1e6;

    fn mm1(seed: u64, load_percent: u64, customers: u64) -> (QueueMm1, u64) {
        let batches = BatchMeans::new(customers / 10, customers / 25);
        let (service, between) = (
            Duration::from_us(90),
            Duration::from_us(9_000 / load_percent),
        );
        let mut queue = QueueMm1::new(&Rng::from_seed(seed), between, service, batches);
        let mut sim = Simulator::new();
        queue.start(&mut sim);
        while sim.fired() < customers * 2 {
            sim.step(&mut queue);
        }
        (queue, sim.trace_hash())
    }

    #[test]
    fn mm1_waits_as_it_should() {
        // Half loaded: sojourn 2 service times, one customer here.
        let (queue, _) = mm1(1, 50, 100_000);
        let sojourn = queue.sojourn.interval().expect("22 batches");
        assert!(sojourn.holds(180.0 * US), "{sojourn}");
        // Independent replications at load 0.9: 10 service times.
        let mut means = Tally::default();
        for run in 0..20 {
            let (queue, _) = mm1(100 + run, 90, 60_000);
            means.add(queue.sojourn.interval().expect("batches").mean);
        }
        let sojourn = Interval::of(&means).expect("20 runs");
        assert!(sojourn.holds(900.0 * US), "{sojourn}");
    }

    #[test]
    fn a_token_ring_waits_as_it_should() {
        let (stations, load, service, walk) = (32_u16, 0.6, 10.0, 2.0);
        let between = service * f64::from(stations) / load;
        let mut ring = TokenRing::new(
            &Rng::from_seed(32),
            stations,
            Duration::from_ps((between * US) as u64),
            Duration::from_ps((service * US) as u64),
            Duration::from_ps((walk * US) as u64),
            BatchMeans::new(10_000, 10_000),
        );
        let mut sim = Simulator::new();
        ring.start(&mut sim);
        sim.run_until(Instant::ORIGIN + Duration::from_s(5), &mut ring);
        // Rates and times of one microsecond.
        let (n, rate) = (f64::from(stations), 1.0 / between);
        let second_moment = 2.0 * service * service;
        let expected =
            (n * rate * second_moment + walk * (n + load)) / (2.0 * (1.0 - load - n * rate * walk));
        let found = ring.wait.interval().expect("batches").mean / US;
        assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
    }

    #[test]
    fn hold_keeps_as_many() {
        let mut sim = Simulator::new();
        let mut hold = Hold::new(&Rng::from_seed(5), Duration::from_us(1), 10_000);
        hold.start(1_000, &mut sim);
        sim.run(&mut hold);
        assert_eq!((sim.fired(), sim.pending()), (10_000, 1_000));
    }

    /// The same plan and seed give the same hash: twice here, and this one on every
    /// machine and at every level of optimisation.
    #[test]
    fn a_run_is_a_function_of_its_seed() {
        let hash = mm1(1, 90, 20_000).1;
        assert_eq!(hash, mm1(1, 90, 20_000).1);
        assert_ne!(hash, mm1(2, 90, 20_000).1);
        assert_eq!(hash, HASH_OF_SEED_1, "{hash:#x}");
    }

    const HASH_OF_SEED_1: u64 = 0xfa50_e098_1eec_023a;
}
