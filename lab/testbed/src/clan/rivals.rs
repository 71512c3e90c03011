//! The rivals' hosts, loaded with requests as events.

use std::collections::VecDeque;

use barewire_des::dist::exponential_time;
use barewire_des::stats::{Histogram, Tally};
use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_models::clan::{Rival, RivalConfig, Task};
use barewire_units::{Duration, Instant, Rng};

use crate::figures::us;

#[derive(Clone, Copy, Debug)]
pub enum RivalEvent {
    /// A message is at a host: 0 the client, 1 the server.
    Frame { host: u8, tag: u64 },
    /// A host has something to do.
    Host(u8),
    /// A request is made.
    Ask(u64),
}

impl Event for RivalEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Frame { host, tag } => tag << 8 | u64::from(host),
            Self::Host(host) => 1 << 4 | u64::from(host),
            Self::Ask(tag) => tag << 8 | 2 << 4,
        }
    }
}

/// Who asks.
enum Asker {
    /// A client that is such a host itself: the next request when the answer is there.
    Client(Rival),
    /// So many clients, of whom each asks again when it is answered and who cost nothing.
    Clients,
    /// Requests at random, from clients who cost nothing; of which at most `limit` are under
    /// way, the others wait.
    Random {
        mean: Duration,
        rng: Rng,
        limit: u64,
        waiting: VecDeque<u64>,
        /// When each was made.
        made: Vec<Instant>,
    },
}

struct Pair {
    host: RivalConfig,
    server: Rival,
    asker: Asker,
    /// When each host was last told to look.
    looked: [Option<Instant>; 2],
    asked: Instant,
    warm_up: u64,
    answers_max: u64,
    answers: u64,
    from: Option<Instant>,
    /// Requests made, and sent.
    made: u64,
    sent: u64,
    round_trip: Tally,
    /// In picoseconds.
    round_trips: Histogram,
}

/// What a run of a rival found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RivalRun {
    /// Mean round trip, us; not of many clients.
    pub round_trip_us: f64,
    /// What 99 of 100 do not exceed, us.
    pub round_trip_99_us: f64,
    /// Requests that were made and have no answer.
    pub unanswered: u64,
    /// Requests that were made.
    pub made: u64,
    /// Answers a second.
    pub rate: f64,
    /// The hash of all events.
    pub hash: u64,
}

impl RivalRun {
    /// Of a hundred requests.
    pub fn unanswered_per_cent(&self) -> f64 {
        100.0 * self.unanswered as f64 / self.made as f64
    }
}

/// One client, one request at a time.
pub fn ping(host: RivalConfig, rounds: u64) -> RivalRun {
    let asker = Asker::Client(Rival::new(host));
    run(host, asker, 1, End::Answers(rounds))
}

/// So many requests at a time, each client asking again when it is answered.
pub fn in_flight(host: RivalConfig, clients: u64, answers: u64) -> RivalRun {
    run(host, Asker::Clients, clients, End::Answers(answers))
}

/// Requests at random, `rate` a second, for so long, of which at most `limit` are under way;
/// the first tenth is left out.
pub fn offered(host: RivalConfig, (rate, limit): (f64, u64), time: Duration, rng: Rng) -> RivalRun {
    let asker = Asker::Random {
        mean: Duration::from_ps((1e12 / rate) as u64),
        rng,
        limit,
        waiting: VecDeque::new(),
        made: Vec::new(),
    };
    run(host, asker, 1, End::Time(time))
}

/// When a run ends.
#[derive(Clone, Copy)]
enum End {
    Answers(u64),
    /// Under overload there may be none.
    Time(Duration),
}

fn run(host: RivalConfig, asker: Asker, clients: u64, end: End) -> RivalRun {
    let (warm_up, answers) = match end {
        End::Answers(answers) => (answers / 10, answers),
        End::Time(_) => (0, u64::MAX),
    };
    let mut pair = Pair {
        host,
        server: Rival::new(host),
        asker,
        looked: [None; 2],
        asked: Instant::ORIGIN,
        warm_up,
        answers_max: answers.saturating_add(warm_up),
        answers: 0,
        from: None,
        made: 0,
        sent: 0,
        round_trip: Tally::default(),
        round_trips: Histogram::default(),
    };
    let mut sim = Simulator::new();
    for tag in 0..clients {
        sim.at(
            Instant::ORIGIN,
            Class::NORMAL,
            Node(0),
            RivalEvent::Ask(tag),
        );
    }
    let mut from = Instant::ORIGIN;
    let mut before = warm_up;
    match end {
        End::Answers(_) => {
            sim.run(&mut pair);
            from = pair.from.unwrap_or(from);
        }
        End::Time(time) => {
            from += time / 10;
            sim.run_until(from, &mut pair);
            before = pair.answers;
            sim.run_until(Instant::ORIGIN + time, &mut pair);
        }
    }
    let counted = pair.answers.saturating_sub(before) as f64;
    RivalRun {
        round_trip_us: pair.round_trip.mean(),
        round_trip_99_us: pair.round_trips.per_mille(990) as f64 / 1e6,
        unanswered: pair.made - pair.answers,
        made: pair.made,
        rate: counted / (us(sim.now() - from) / 1e6),
        hash: sim.trace_hash(),
    }
}

impl World for Pair {
    type Event = RivalEvent;

    fn handle(&mut self, event: RivalEvent, sim: &mut Simulator<RivalEvent>) {
        let now = sim.now();
        match event {
            RivalEvent::Ask(tag) => self.ask(tag, sim),
            RivalEvent::Frame { host: 1, tag } => self.server.handle_frame(now, tag),
            RivalEvent::Frame { tag, .. } => self.answered(tag, sim),
            RivalEvent::Host(1) => self.serve(sim),
            RivalEvent::Host(_) => self.client(sim),
        }
        self.look_again(sim);
    }
}

impl Pair {
    fn ask(&mut self, tag: u64, sim: &mut Simulator<RivalEvent>) {
        self.asked = sim.now();
        self.made += 1;
        let under_way = self.sent - self.answers;
        if let Asker::Random {
            mean,
            rng,
            limit,
            waiting,
            made,
        } = &mut self.asker
        {
            made.push(sim.now());
            let gap = exponential_time(rng, *mean);
            sim.after(gap, Class::NORMAL, Node(0), RivalEvent::Ask(tag + 1));
            if under_way >= *limit {
                waiting.push_back(tag);
                return;
            }
        }
        self.send(tag, sim);
    }

    fn send(&mut self, tag: u64, sim: &mut Simulator<RivalEvent>) {
        self.sent += 1;
        let frame = RivalEvent::Frame { host: 1, tag };
        sim.after(self.host.one_way, Class::NORMAL, Node(1), frame);
    }

    fn serve(&mut self, sim: &mut Simulator<RivalEvent>) {
        self.looked[1] = None;
        if let Some(Task::Answer(tag)) = self.server.poll(sim.now()) {
            let frame = RivalEvent::Frame { host: 0, tag };
            sim.after(self.host.one_way, Class::NORMAL, Node(0), frame);
        }
    }

    /// An answer is at the client.
    fn answered(&mut self, tag: u64, sim: &mut Simulator<RivalEvent>) {
        match &mut self.asker {
            Asker::Client(client) => client.handle_frame(sim.now(), tag),
            Asker::Clients => {
                self.count(sim);
                sim.after(Duration::ZERO, Class::NORMAL, Node(0), RivalEvent::Ask(tag));
            }
            Asker::Random { waiting, made, .. } => {
                let time = sim.now() - made[tag as usize];
                let next = waiting.pop_front();
                self.round_trip.add(us(time));
                self.round_trips.add(time.as_ps());
                self.count(sim);
                if let Some(next) = next {
                    self.send(next, sim);
                }
            }
        }
    }

    fn client(&mut self, sim: &mut Simulator<RivalEvent>) {
        self.looked[0] = None;
        let Asker::Client(client) = &mut self.asker else {
            return;
        };
        if let Some(Task::Answer(tag)) = client.poll(sim.now()) {
            let time = sim.now() - self.asked;
            self.round_trip.add(us(time));
            self.round_trips.add(time.as_ps());
            self.count(sim);
            sim.after(Duration::ZERO, Class::NORMAL, Node(0), RivalEvent::Ask(tag));
        }
    }

    fn count(&mut self, sim: &mut Simulator<RivalEvent>) {
        self.answers += 1;
        if self.answers == self.warm_up {
            self.from = Some(sim.now());
        }
        if self.answers >= self.answers_max {
            sim.stop();
        }
    }

    fn look_again(&mut self, sim: &mut Simulator<RivalEvent>) {
        let client = match &self.asker {
            Asker::Client(client) => client.next_deadline(),
            _ => None,
        };
        for (host, deadline) in [client, self.server.next_deadline()]
            .into_iter()
            .enumerate()
        {
            let Some(deadline) = deadline else {
                continue;
            };
            if self.looked[host].is_none_or(|at| deadline < at) {
                self.looked[host] = Some(deadline);
                let event = RivalEvent::Host(host as u8);
                sim.at(deadline, Class::NORMAL, Node(host as u16), event);
            }
        }
    }
}
