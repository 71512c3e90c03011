//! One server, many endpoints: what it answers, how fast, and what that takes of card,
//! processor and memory.
//!
//! The card's associative memory has fewer entries than there may be endpoints. What happens
//! to those beyond is a choice of the software, and each is modelled:
//!
//! | choice | what happens |
//! |---|---|
//! | refuse | the connection is refused |
//! | share | the rings of several endpoints lie side by side under one tripwire; for an event the server looks at each of them |
//! | poll | they have no tripwire: the server looks at them in turn, and never sleeps |
//!
//! The control words of a ring lie in front of it, so where endpoints share a tripwire it
//! also fires for credit that a client gives back.

use barewire_des::Simulator;
use barewire_des::stats::Histogram;
use barewire_fabric::frame::region_bytes;
use barewire_units::{Duration, Instant, Rng};
use serde::Deserialize;

use super::parameters::Parameters;
use super::program::{Caller, Demand, Ears, Events, Picker, Role, Server};
use super::runs;
use super::world::{Cabinet, ClanEvent, End, Seat};
use crate::experiment::LinkCapture;
use crate::figures::us;
use crate::refuse::names;

names! {
    /// What becomes of endpoints for which the card has no tripwire.
    pub enum WhenFull {
        Refuse = "refuse",
        Share = "share",
        Poll = "poll",
    }
}

/// How often each endpoint is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// All alike.
    Uniform,
    /// The nth as often as the first, divided by n.
    Zipf,
}

impl Activity {
    fn weight(self, rank: usize) -> u64 {
        match self {
            Self::Uniform => 1,
            Self::Zipf => (1 << 32) / (rank as u64 + 1),
        }
    }
}

/// How much is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each client host has so many requests under way.
    Window(usize),
    /// Requests a second from all clients together, at random.
    Rate(f64),
}

impl Load {
    /// What is left out and what is measured: `time`, or as long as some hundred requests
    /// take, so that few requests are measured as well as many.
    pub fn times(self, time: Duration) -> (Duration, Duration) {
        let measured = match self {
            Self::Window(_) => time,
            Self::Rate(rate) => time.max(Duration::from_ps((REQUESTS / rate * 1e12) as u64)),
        };
        (measured / 4, measured)
    }
}

/// Requests that are enough to measure.
const REQUESTS: f64 = 400.0;

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub clients: usize,
    pub endpoints: usize,
    pub cam_entries: usize,
    pub when_full: WhenFull,
    pub activity: Activity,
    pub load: Load,
    /// How long to measure; see [`Load::times`].
    pub time: Duration,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Endpoints that have a connection.
    pub connected: usize,
    /// Entries of the card's memory in use.
    pub tripwires: usize,
    /// Answers a second.
    pub rate: f64,
    pub round_trip_sum: Duration,
    /// In picoseconds.
    pub round_trips: Histogram,
    /// In the whole run.
    pub sent: u64,
    pub answered: u64,
    pub unanswered: u64,
    pub sleeps: u64,
    /// Looks at rings that held nothing, for each answer.
    pub empty_polls: f64,
    /// How often an endpoint's state came from memory, for each answer.
    pub misses: f64,
    /// Of a hundred: the server's processor, its bus, its line to the switch.
    pub busy: [f64; 3],
    /// The server's memory that peers may store into.
    pub pinned_bytes: u64,
    pub hash: u64,
    pub captures: Vec<LinkCapture>,
}

impl Found {
    pub fn mean_us(&self) -> Option<f64> {
        let count = self.round_trips.count();
        (count > 0).then(|| us(self.round_trip_sum) / count as f64)
    }

    pub fn p99_us(&self) -> Option<f64> {
        let some = self.round_trips.count() > 0;
        some.then(|| self.round_trips.per_mille(990) as f64 / 1e6)
    }
}

/// The ends of the connections of one client, and how often each is called.
#[derive(Default)]
struct Party {
    ends: Vec<End>,
    weights: Vec<u64>,
}

/// What is counted of a server.
#[derive(Clone, Copy, Default)]
struct Counts {
    answered: u64,
    empty_polls: u64,
    misses: u64,
    busy: [Duration; 3],
}

/// Runs a server and its clients, and records what each card sends.
pub fn run(parameters: &Parameters, setup: &Setup, seed: u64, packets: usize) -> Found {
    let clients = setup.clients.clamp(1, parameters.hosts_max() - 1);
    let mut parameters = parameters.clone();
    parameters.card.cam_entries = setup.cam_entries;
    let mut cabinet = Cabinet::new(&parameters, 1 + clients);
    if packets > 0 {
        cabinet.record(packets);
    }
    let mut sim = Simulator::new();
    let (ends, parties, tripwires) = connect(&mut cabinet, &parameters, setup, clients);
    let connected = ends.0.len();
    let (costs, message_bytes) = (parameters.host, parameters.message_bytes());
    let all: u64 = parties.iter().flat_map(|party| &party.weights).sum();
    let root = Rng::from_seed(seed);
    let measured_from = Instant::ORIGIN + setup.load.times(setup.time).0;
    for (nth, party) in parties.into_iter().enumerate() {
        if party.ends.is_empty() {
            continue;
        }
        let own: u64 = party.weights.iter().sum();
        let rng = root.fork_nth("client", nth as u64);
        let demand = match setup.load {
            Load::Window(window) => Demand::Window(window),
            Load::Rate(rate) => Demand::Open {
                mean: Duration::from_ps((1e12 / rate * all as f64 / own as f64) as u64),
                next: Instant::ORIGIN,
                rng: rng.fork_nth("calls", 0),
                backlog: std::collections::VecDeque::new(),
            },
        };
        let picker = Picker::new(party.weights.into_iter(), rng.fork_nth("picks", 0));
        let what = (picker, demand);
        let caller = Caller::new(costs, message_bytes, party.ends, what, measured_from);
        cabinet.start(&mut sim, 1 + nth as u8, Role::Caller(caller));
    }
    let mut events = Events::new(cabinet.hosts[0].words.clone(), &costs);
    (events.groups, events.unwatched) = (ends.1, ends.2);
    let endpoints = runs::endpoints(&parameters, ends.0);
    let server = Server::new(costs, message_bytes, endpoints, Ears::Events(events));
    cabinet.start(&mut sim, 0, Role::Server(server));
    let mut found = measure(&mut cabinet, &mut sim, setup.load.times(setup.time));
    (found.connected, found.tripwires) = (connected, tripwires);
    found.captures = cabinet.take_captures();
    found
}

type Groups = Vec<std::ops::Range<usize>>;
type Connected = (
    (Vec<End>, Groups, std::ops::Range<usize>),
    Vec<Party>,
    usize,
);

/// Makes the connections that there can be, and sets the tripwires.
fn connect(
    cabinet: &mut Cabinet,
    parameters: &Parameters,
    setup: &Setup,
    clients: usize,
) -> Connected {
    let (ring_bytes, message_bytes) = (parameters.ring_bytes(), parameters.message_bytes());
    let len_bytes = region_bytes(ring_bytes);
    let tripwires = setup.cam_entries.min(setup.endpoints);
    let (connected, group) = match setup.when_full {
        WhenFull::Refuse => (tripwires, 1),
        WhenFull::Share => (setup.endpoints, setup.endpoints.div_ceil(tripwires)),
        WhenFull::Poll => (setup.endpoints, 1),
    };
    let mut ends = Vec::new();
    let mut groups = Vec::new();
    let mut parties: Vec<Party> = (0..clients).map(|_| Party::default()).collect();
    let mut first = 0;
    while first < connected {
        let members = first..connected.min(first + group);
        let region = cabinet.hosts[0]
            .memory
            .add_region(members.len() * len_bytes);
        if groups.len() < tripwires {
            let range = match members.len() {
                1 => (region_bytes(0), ring_bytes),
                many => (0, many * len_bytes),
            };
            let watched = cabinet.watch_range(0, region, range, groups.len() as u32);
            debug_assert!(watched, "no more than there are");
            groups.push(members.clone());
        }
        for endpoint in members.clone() {
            let nth = endpoint % clients;
            let host = 1 + nth as u8;
            let base = (endpoint - members.start) * len_bytes;
            let far = cabinet.hosts[host as usize].memory.add_region(len_bytes);
            let seats = [(0, region, base), (host, far, 0)].map(|(host, region, base)| Seat {
                host,
                region,
                base,
            });
            let joined = cabinet.join(seats, ring_bytes);
            let [far, near] = joined.map(|end| End::new(end, message_bytes));
            ends.push(far);
            parties[nth].ends.push(near);
            parties[nth].weights.push(setup.activity.weight(endpoint));
        }
        first = members.end;
    }
    let watched = groups.last().map_or(0, |group| group.end);
    let taken = groups.len();
    ((ends, groups, watched..connected), parties, taken)
}

fn counts(cabinet: &Cabinet, now: Instant) -> Counts {
    let [bus, link] = cabinet.hosts[0].interface.busy();
    match cabinet.role(0) {
        Role::Server(server) => Counts {
            answered: server.answered,
            empty_polls: server.empty_polls,
            misses: server.endpoints.misses(),
            busy: [now.since_origin() - server.idle(now), bus, link],
        },
        _ => Counts::default(),
    }
}

fn measure(
    cabinet: &mut Cabinet,
    sim: &mut Simulator<ClanEvent>,
    (warm_up, time): (Duration, Duration),
) -> Found {
    sim.run_until(Instant::ORIGIN + warm_up, cabinet);
    let before = counts(cabinet, sim.now());
    sim.run_until(Instant::ORIGIN + warm_up + time, cabinet);
    let after = counts(cabinet, sim.now());
    let answered = (after.answered - before.answered) as f64;
    let each = |count: u64| count as f64 / answered.max(1.0);
    let mut found = Found {
        rate: answered / (us(time) / 1e6),
        empty_polls: each(after.empty_polls - before.empty_polls),
        misses: each(after.misses - before.misses),
        busy: [0, 1, 2].map(|i| 100.0 * us(after.busy[i] - before.busy[i]) / us(time)),
        pinned_bytes: cabinet.hosts[0].memory.used_bytes().0,
        hash: sim.trace_hash(),
        ..Found::default()
    };
    if let Role::Server(server) = cabinet.role(0) {
        found.sleeps = server.sleeps;
    }
    for host in 1..cabinet.hosts.len() {
        if let Role::Caller(caller) = cabinet.role(host as u8) {
            found.sent += caller.sent;
            found.answered += caller.answers;
            found.unanswered += caller.unanswered();
            found.round_trip_sum += caller.round_trip_sum;
            found.round_trips.merge(&caller.round_trips);
        }
    }
    found
}
