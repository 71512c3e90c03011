//! The runs: who is connected to whom, and what each does.

use barewire_des::Simulator;
use barewire_des::stats::Tally;
use barewire_fabric::{StreamReceiver, StreamSender};
use barewire_models::clan::Transfer;
use barewire_units::{Duration, Instant};

use super::parameters::Parameters;
use super::program::{Client, Ears, Endpoints, Events, Reader, Role, Server, Word, Writer};
use super::world::{Cabinet, ClanEvent, End};
use crate::error::SystemError;
use crate::experiment::LinkCapture;
use crate::figures::us;

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
            costs: parameters.host,
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
    let bytes = arrived - arrived.min(parameters.link.payload_max.as_bytes() as usize);
    Run {
        value: bytes as f64 * 8.0 / us(time.unwrap_or(Duration::ZERO)),
        hash: sim.trace_hash(),
    }
}

/// Mbit/s through a byte queue with a ring of `ring_bytes`, written and read in transfers
/// of `transfer_bytes`.
pub struct Streaming {
    pub ring_bytes: usize,
    pub transfer_bytes: usize,
    /// Bytes that are measured, after a quarter as many.
    pub measured: usize,
    /// Packets to record of each link.
    pub packets: usize,
}

impl Streaming {
    /// As the parameters say.
    pub fn new(parameters: &Parameters, transfer_bytes: usize, measured: usize) -> Self {
        Streaming {
            ring_bytes: parameters.ring_bytes(),
            transfer_bytes,
            measured,
            packets: 0,
        }
    }

    pub fn run(&self, parameters: &Parameters) -> (Run, Streamed) {
        let (mut cabinet, mut sim) = network(parameters, 2);
        cabinet.record(self.packets);
        let ([(tx, _), (_, rx)], _) = cabinet.connect([0, 1], self.ring_bytes);
        let costs = parameters.host;
        let writer = Writer::new(costs, StreamSender::new(tx), self.transfer_bytes);
        let rx = StreamReceiver::new(rx);
        let window = (self.measured / 4, self.measured);
        let reader = Reader::new(costs, rx, self.transfer_bytes, window);
        cabinet.start(&mut sim, 1, Role::Reader(reader));
        cabinet.start(&mut sim, 0, Role::Writer(writer));
        sim.run(&mut cabinet);
        let found = match cabinet.role(1) {
            Role::Reader(reader) => reader.found,
            _ => None,
        };
        let value = found.map_or(f64::NAN, |(bytes, time)| bytes as f64 * 8.0 / us(time));
        let run = Run {
            value,
            hash: sim.trace_hash(),
        };
        let streamed = Streamed {
            memory_bytes: cabinet.hosts[1].memory.used_bytes(),
            captures: cabinet.take_captures(),
        };
        (run, streamed)
    }
}

/// What a stream used.
pub struct Streamed {
    /// The reader's memory that the writer may store into, and what it has touched of it.
    pub memory_bytes: (u64, u64),
    pub captures: Vec<LinkCapture>,
}

/// Streams at the same time, each between two hosts of its own; the bytes that each reader
/// read in the second of two times.
pub fn streams(
    parameters: &Parameters,
    pairs: &[[u8; 2]],
    transfer_bytes: usize,
    (warm_up, time): (Duration, Duration),
    packets: usize,
) -> (Vec<usize>, u64, Vec<LinkCapture>) {
    let (mut cabinet, mut sim) = network(parameters, parameters.hosts_max());
    cabinet.record(packets);
    let costs = parameters.host;
    for [from, to] in pairs {
        let ([(tx, _), (_, rx)], _) = cabinet.connect([*from, *to], parameters.ring_bytes());
        let writer = Writer::new(costs, StreamSender::new(tx), transfer_bytes);
        let never = (usize::MAX, usize::MAX);
        let reader = Reader::new(costs, StreamReceiver::new(rx), transfer_bytes, never);
        cabinet.start(&mut sim, *to, Role::Reader(reader));
        cabinet.start(&mut sim, *from, Role::Writer(writer));
    }
    let read = |cabinet: &Cabinet| -> Vec<usize> {
        let total = |[_, to]: &[u8; 2]| match cabinet.role(*to) {
            Role::Reader(reader) => reader.total,
            _ => 0,
        };
        pairs.iter().map(total).collect()
    };
    sim.run_until(Instant::ORIGIN + warm_up, &mut cabinet);
    let before = read(&cabinet);
    sim.run_until(Instant::ORIGIN + warm_up + time, &mut cabinet);
    let after = read(&cabinet);
    let found = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    (found, sim.trace_hash(), cabinet.take_captures())
}

/// Requests from one client to one server, one at a time.
pub struct Ping {
    /// The client's and the server's.
    pub hosts: [u8; 2],
    pub message_bytes: usize,
    pub rounds: u64,
    /// Between an answer and the next request.
    pub gap: Duration,
    /// The server waits at its event queue, not at the ring.
    pub events: bool,
    /// Packets to record of each link.
    pub packets: usize,
}

/// What it found.
pub struct Pinged {
    pub mean_us: f64,
    pub p99_us: f64,
    pub sleeps: u64,
    pub hash: u64,
    pub captures: Vec<LinkCapture>,
}

impl Ping {
    pub fn run(&self, parameters: &Parameters) -> Pinged {
        let [client_host, server_host] = self.hosts;
        let hosts = 1 + usize::from(client_host.max(server_host));
        let (mut cabinet, mut sim) = network(parameters, hosts);
        cabinet.record(self.packets);
        let costs = parameters.host;
        let ring_bytes = parameters.ring_bytes();
        let (ends, regions) = cabinet.connect(self.hosts, ring_bytes);
        let [near, far] = ends.map(|end| End::new(end, self.message_bytes));
        let ears = if self.events {
            cabinet.watch(server_host, regions[1], ring_bytes, 0);
            let words = cabinet.hosts[server_host as usize].words.clone();
            let mut events = Events::new(words, &costs);
            events.groups.push(0..1);
            Ears::Events(events)
        } else {
            Ears::Ring
        };
        let far = endpoints(parameters, vec![far]);
        let server = Server::new(costs, self.message_bytes, far, ears);
        let client = Client::new(costs, self.message_bytes, vec![near], self.gap);
        let client = client.until(10, self.rounds);
        cabinet.start(&mut sim, server_host, Role::Server(server));
        cabinet.start(&mut sim, client_host, Role::Client(client));
        sim.run(&mut cabinet);
        let p99_us = match cabinet.role(client_host) {
            Role::Client(client) => client.round_trips.per_mille(990) as f64 / 1e6,
            _ => f64::NAN,
        };
        let sleeps = match cabinet.role(server_host) {
            Role::Server(server) => server.sleeps,
            _ => 0,
        };
        Pinged {
            mean_us: answers(&cabinet, client_host).1.mean(),
            p99_us,
            sleeps,
            hash: sim.trace_hash(),
            captures: cabinet.take_captures(),
        }
    }
}

/// Round trip of a request, us: both poll a single connection.
pub fn ping(parameters: &Parameters, rounds: u64) -> Run {
    let ping = Ping {
        hosts: [0, 1],
        message_bytes: parameters.message_bytes(),
        rounds,
        gap: Duration::ZERO,
        events: false,
        packets: 0,
    };
    let found = ping.run(parameters);
    Run {
        value: found.mean_us,
        hash: found.hash,
    }
}

/// Endpoints of a server whose cache is as the parameters say.
pub fn endpoints(parameters: &Parameters, ends: Vec<End>) -> Endpoints {
    let (cached, state) = parameters.endpoint_state();
    Endpoints::new(ends, cached, state)
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
    /// From an answer to the next request on the same connection.
    pub gap: Duration,
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
pub fn serve(parameters: &Parameters, service: &Service) -> Result<Served, SystemError> {
    let clients = service.clients.clamp(1, parameters.hosts_max() - 1);
    let (mut cabinet, mut sim) = network(parameters, 1 + clients);
    let (costs, message_bytes) = (parameters.host, parameters.message_bytes());
    let mut far_ends = Vec::new();
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
        let mut program = Client::new(costs, message_bytes, near_ends, service.gap);
        if let Until::Answers(answers) = service.end {
            program = program.until(answers / 10, answers);
        }
        cabinet.start(&mut sim, client as u8, Role::Client(program));
    }
    let mut events = Events::new(cabinet.hosts[0].words.clone(), &costs);
    events.groups = (0..far_ends.len()).map(|end| end..end + 1).collect();
    let far_ends = endpoints(parameters, far_ends);
    let server = Server::new(costs, message_bytes, far_ends, Ears::Events(events));
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
