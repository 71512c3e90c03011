//! The runs: who is connected to whom, and what each does.

use barewire_des::Simulator;
use barewire_des::stats::Tally;
use barewire_fabric::doorbell::Drain;
use barewire_fabric::{StreamReceiver, StreamSender};
use barewire_models::clan::{Cluster, Transfer};
use barewire_units::{Duration, Instant, Rng};

use super::parameters::Parameters;
use super::program::{Client, Ears, Load, Reader, Role, Server, Word, Writer, us};
use super::world::{Cabinet, ClanEvent, End};
use crate::SystemError;

/// What a run found, and the hash of its events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The value.
    pub value: f64,
    /// The hash.
    pub hash: u64,
}

fn network(parameters: &Parameters, hosts: usize) -> (Cabinet, Simulator<ClanEvent>) {
    (Cabinet::new(parameters, hosts), Simulator::new())
}

/// One way of a single word from program to program, us: half a round trip.
pub fn word(parameters: &Parameters, rounds: u64) -> Run {
    let (mut cabinet, mut sim) = network(parameters, 2);
    let regions = [0, 1].map(|host: usize| cabinet.hosts[host].memory.add_region(64));
    for host in [1, 0] {
        let memory = &cabinet.hosts[host].memory;
        let word = Word {
            costs: parameters.costs(),
            out: memory.stores(1 - host as u8, regions[1 - host], 64),
            inn: memory.loads(regions[host]),
            begins: host == 0,
            next: host as u64,
            rounds,
            sent: Instant::ORIGIN,
            round_trip: Tally::default(),
        };
        cabinet.start(&mut sim, host as u8, Role::Word(word));
    }
    sim.run(&mut cabinet);
    let value = match cabinet.role(0) {
        Role::Word(word) => word.round_trip.mean() / 2.0,
        _ => f64::NAN,
    };
    Run {
        value,
        hash: sim.trace_hash(),
    }
}

/// Mbit/s of a transfer by the card, as it arrives in the peer's memory.
pub fn transfer(parameters: &Parameters, len_bytes: usize) -> Run {
    let (mut cabinet, mut sim) = network(parameters, 2);
    let region = cabinet.hosts[1].memory.add_region(len_bytes);
    let transfer = Transfer {
        to: 1,
        region,
        offset: 0,
        bytes: vec![0x33; len_bytes],
    };
    cabinet.start(&mut sim, 0, Role::Transfer(Some(transfer)));
    sim.run(&mut cabinet);
    let time = cabinet.hosts[1].arrived.map(|(first, last)| last - first);
    // The first packet was there when the clock was started.
    let arrived = cabinet.hosts[1].arrived_bytes;
    let bytes = arrived - arrived.min(parameters.interface().payload_bytes_max);
    Run {
        value: bytes as f64 * 8.0 / us(time.unwrap_or(Duration::ZERO)),
        hash: sim.trace_hash(),
    }
}

/// Mbit/s through a byte queue, written and read in transfers of `transfer_bytes`.
pub fn stream(parameters: &Parameters, transfer_bytes: usize, measured: usize) -> Run {
    let (mut cabinet, mut sim) = network(parameters, 2);
    let ([(tx, _), (_, rx)], _) = cabinet.connect([0, 1], parameters.ring_bytes());
    let costs = parameters.costs();
    let writer = Writer::new(costs, StreamSender::new(tx), transfer_bytes);
    let rx = StreamReceiver::new(rx);
    let window = (measured / 4, measured);
    let reader = Reader::new(costs, rx, transfer_bytes, window);
    cabinet.start(&mut sim, 1, Role::Reader(reader));
    cabinet.start(&mut sim, 0, Role::Writer(writer));
    sim.run(&mut cabinet);
    let found = match cabinet.role(1) {
        Role::Reader(reader) => reader.found,
        _ => None,
    };
    let value = found.map_or(f64::NAN, |(bytes, time)| bytes as f64 * 8.0 / us(time));
    Run {
        value,
        hash: sim.trace_hash(),
    }
}

/// Round trip of a request, us: both poll a single connection.
pub fn ping(parameters: &Parameters, rounds: u64) -> Run {
    let (mut cabinet, mut sim) = network(parameters, 2);
    let message_bytes = parameters.message_bytes();
    let costs = parameters.costs();
    let (ends, _) = cabinet.connect([0, 1], parameters.ring_bytes());
    let [near, far] = ends.map(|end| End::new(end, message_bytes));
    let server = Server::new(costs, message_bytes, vec![far], Ears::Ring);
    let load = Load::Closed(Duration::ZERO);
    let client = Client::new(costs, message_bytes, vec![near], load).until(10, rounds);
    cabinet.start(&mut sim, 1, Role::Server(server));
    cabinet.start(&mut sim, 0, Role::Client(client));
    sim.run(&mut cabinet);
    Run {
        value: answers(&cabinet, 0).1.mean(),
        hash: sim.trace_hash(),
    }
}

fn answers(cabinet: &Cabinet, host: u8) -> (u64, Tally) {
    match cabinet.role(host) {
        Role::Client(client) => (client.answers, client.round_trip),
        _ => (0, Tally::default()),
    }
}

/// A server on host 0 that waits at its event queue, and clients on the others.
pub struct Service {
    /// Client hosts.
    pub clients: usize,
    /// Connections of each.
    pub connections: usize,
    /// A load for each client.
    pub load: fn(f64, Rng) -> Load,
    /// What it is told: a rate a second, or a gap in microseconds.
    pub amount: f64,
    /// A single client ends the run after so many answers; else so long.
    pub end: Until,
}

/// When a run of a service ends.
#[derive(Clone, Copy)]
pub enum Until {
    /// After so many answers to the only client.
    Answers(u64),
    /// After a warm-up and a time to measure.
    Times(Duration, Duration),
}

/// Each request so many microseconds after the answer before it.
pub fn closed(gap_us: f64, _: Rng) -> Load {
    Load::Closed(Duration::from_ps((gap_us * 1e6) as u64))
}

/// Requests at random, `rate` a second.
pub fn open(rate: f64, rng: Rng) -> Load {
    Load::Open {
        mean: Duration::from_ps((1e12 / rate) as u64),
        next: Instant::ORIGIN,
        rng,
        backlog: std::collections::VecDeque::new(),
    }
}

/// What a service did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Answers a second.
    pub rate: f64,
    /// Mean round trip, us.
    pub round_trip_us: f64,
    /// How often the server slept.
    pub sleeps: u64,
    /// The hash of all events.
    pub hash: u64,
}

/// Runs a service.
///
/// # Errors
///
/// More connections than the card has tripwires for.
pub fn serve(parameters: &Parameters, service: &Service, seed: u64) -> Result<Served, SystemError> {
    let clients = service.clients.clamp(1, Cluster::HOSTS_MAX - 1);
    let (mut cabinet, mut sim) = network(parameters, 1 + clients);
    let (costs, message_bytes) = (parameters.costs(), parameters.message_bytes());
    let mut far_ends = Vec::new();
    let root = Rng::from_seed(seed);
    for client in 1..=clients {
        let mut near_ends = Vec::new();
        for _ in 0..service.connections {
            let hosts = [0, client as u8];
            let (ends, regions) = cabinet.connect(hosts, parameters.ring_bytes());
            let source = far_ends.len() as u32;
            if !cabinet.watch(0, regions[0], parameters.ring_bytes(), source) {
                return Err(SystemError::Contradiction(format!(
                    "card.cam_entries: {} are too few for connection {}",
                    parameters.card.cam_entries,
                    source + 1
                )));
            }
            let [far, near] = ends.map(|end| End::new(end, message_bytes));
            far_ends.push(far);
            near_ends.push(near);
        }
        let rng = root.fork_nth("client", client as u64);
        let load = (service.load)(service.amount, rng);
        let mut program = Client::new(costs, message_bytes, near_ends, load);
        if let Until::Answers(answers) = service.end {
            program = program.until(answers / 10, answers);
        }
        cabinet.start(&mut sim, client as u8, Role::Client(program));
    }
    let ears = Ears::Events {
        words: cabinet.hosts[0].words.clone(),
        drain: Drain::default(),
        sleep: 0,
    };
    let server = Server::new(costs, message_bytes, far_ends, ears);
    cabinet.start(&mut sim, 0, Role::Server(server));
    let rate = measure(&mut cabinet, &mut sim, service.end);
    let mut round_trip = 0.0;
    let mut weight = 0.0;
    for client in 1..=clients {
        let (_, tally) = answers(&cabinet, client as u8);
        round_trip += tally.mean() * tally.count() as f64;
        weight += tally.count() as f64;
    }
    Ok(Served {
        rate,
        round_trip_us: round_trip / weight,
        sleeps: answered(&cabinet).1,
        hash: sim.trace_hash(),
    })
}

fn answered(cabinet: &Cabinet) -> (u64, u64) {
    match cabinet.role(0) {
        Role::Server(server) => (server.answered, server.sleeps),
        _ => (0, 0),
    }
}

/// Runs to the end, and gives the answers a second of what is measured.
fn measure(cabinet: &mut Cabinet, sim: &mut Simulator<ClanEvent>, end: Until) -> f64 {
    let Until::Times(warm_up, time) = end else {
        sim.run(cabinet);
        return answered(cabinet).0 as f64 / (us(sim.now().since_origin()) / 1e6);
    };
    let from = Instant::ORIGIN + warm_up;
    sim.run_until(from, cabinet);
    let (before, _) = answered(cabinet);
    sim.run_until(from + time, cabinet);
    (answered(cabinet).0 - before) as f64 / (us(time) / 1e6)
}
