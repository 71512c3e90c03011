//! Round trips, the Queue's curve, the server's curve, and the two switches.

use barewire_fabric::ring::frame_bytes_max;
use barewire_models::clan::{PORTS_MAX, PORTS_MIN, RivalConfig};
use barewire_units::{ByteSize, Duration, Rng};
use serde::Deserialize;

use super::common::{LIST, MIB, OFFERED, SERVED, read};
use crate::clan::many::{self, Activity, Setup, WhenFull};
use crate::clan::parameters::Parameters;
use crate::clan::rivals;
use crate::clan::runs::{self, Ping, Streaming};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::figures::{bytes, us};
use crate::refuse::{each_within, inputs, up_to, up_to_time, within};
use crate::sweep::sweep;

// ---- ping ----

pub const PING: Experiment = Experiment {
    name: "ping",
    question: "How long is a round trip, by size of message, to a server that polls or sleeps?",
    inputs: include_str!("../../../plans/clan-ping.toml"),
    check: |setting| PingInputs::read(setting).map(drop),
    run: ping,
};

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ears {
    Ring,
    Events,
}

inputs! {
    struct PingInputs {
        sizes: Vec<ByteSize> => LIST,
        gap: Duration => up_to_time(Duration::from_ms(1)),
        server: Ears,
        rounds: u64 => 1..=100_000,
    }
}

impl PingInputs {
    fn read(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        let frame = ByteSize::from(frame_bytes_max(parameters.ring_bytes()));
        each_within("sizes", &inputs.sizes, up_to(frame))?;
        Ok((inputs, parameters))
    }
}

fn ping(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = PingInputs::read(setting)?;
    let found = sweep(setting, &inputs.sizes, |&size, packets| {
        let ping = Ping {
            hosts: [0, 1],
            message_bytes: bytes(size),
            rounds: inputs.rounds,
            gap: inputs.gap,
            events: matches!(inputs.server, Ears::Events),
            packets,
        };
        ping.run(&parameters)
    });
    let mut answer = Outcome::default();
    let mut table = Table::named("round trip against size");
    for (size, found) in inputs.sizes.iter().zip(found) {
        let size = size.as_bytes();
        table.row([
            ("message", "B", size.into()),
            ("round trip, mean", "us", found.mean_us.into()),
            ("round trip, p99", "us", found.p99_us.into()),
            ("sleeps", "", found.sleeps.into()),
        ]);
        answer.add_run(found.hash, found.captures);
    }
    Ok(answer.with([table]))
}

// ---- queue ----

pub const QUEUE: Experiment = Experiment {
    name: "queue",
    question: "What does the byte queue carry, by size of transfer?",
    inputs: include_str!("../../../plans/clan-queue.toml"),
    check: |setting| read::<QueueInputs>(setting).map(drop),
    run: queue,
};

inputs! {
    struct QueueInputs {
        sizes: Vec<ByteSize> => (LIST, up_to(MIB)),
        transfers: usize => 1..=10_000,
    }
}

fn queue(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters): (QueueInputs, _) = read(setting)?;
    let found = sweep(setting, &inputs.sizes, |&size, packets| {
        let size = bytes(size);
        let measured = (size * inputs.transfers).max(32 * 1024);
        let mut streaming = Streaming::new(&parameters, size, measured);
        streaming.packets = packets;
        streaming.run(&parameters)
    });
    let mut answer = Outcome::default();
    let mut table = Table::named("rate against transfer");
    for (size, (run, streamed)) in inputs.sizes.iter().zip(found) {
        table.row([
            ("transfer", "B", size.as_bytes().into()),
            ("rate", "Mbit/s", run.value.into()),
        ]);
        answer.add_run(run.hash, streamed.captures);
    }
    Ok(answer.with([table]))
}

// ---- server ----

pub const SERVER: Experiment = Experiment {
    name: "server",
    question: "What does a server answer, and how fast, up to overload and beyond, over CLAN, VIA, TCP and UDP?",
    inputs: include_str!("../../../plans/clan-server.toml"),
    check: |setting| ServerInputs::read(setting).map(drop),
    run: server,
};

inputs! {
    struct ServerInputs {
        clients: usize,
        connections: usize => 1..=1000,
        offered: Vec<f64> => (LIST, OFFERED),
        in_flight: Vec<usize> => LIST,
        time: Duration => SERVED,
    }
}

impl ServerInputs {
    fn read(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        within("clients", inputs.clients, 1..=parameters.hosts_max() - 1)?;
        let endpoints = inputs.clients * inputs.connections;
        if endpoints > parameters.card.cam_entries {
            return Err(SystemError::Contradiction(format!(
                "clients, connections: {endpoints} together, and card.cam_entries is {}",
                parameters.card.cam_entries
            )));
        }
        each_within("in_flight", &inputs.in_flight, 1..=1000 * inputs.clients)?;
        Ok((inputs, parameters))
    }

    fn setup(&self, parameters: &Parameters, load: many::Load) -> Setup {
        let endpoints = self.clients * self.connections;
        Setup {
            clients: self.clients,
            endpoints,
            cam_entries: parameters.card.cam_entries,
            when_full: WhenFull::Refuse,
            activity: Activity::Uniform,
            load,
            time: self.time,
        }
    }
}

/// The rivals answer less: measured for longer, so that there is something to count.
const RIVAL_TIMES: u64 = 8;

fn server(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = ServerInputs::read(setting)?;
    let mut answer = Outcome::default();
    let curve = offered(setting, &inputs, &parameters, &mut answer);
    let at_a_time = in_flight(setting, &inputs, &parameters, &mut answer);
    Ok(answer.with([curve, at_a_time]))
}

/// What is answered of so many requests a second.
fn offered(
    setting: &Setting<'_>,
    inputs: &ServerInputs,
    parameters: &Parameters,
    answer: &mut Outcome,
) -> Table {
    let rates: Vec<(usize, f64)> = inputs.offered.iter().copied().enumerate().collect();
    let found = sweep(setting, &rates, |&(index, rate), packets| {
        let rng = Rng::from_seed(setting.seed).fork_nth("offered", index as u64);
        at_rate((inputs, parameters), rate, (setting.seed, rng), packets)
    });
    let mut curve = Table::named("answers against load");
    for (rate, (clan, [via, tcp, udp])) in inputs.offered.iter().zip(found) {
        let some = |run: &rivals::RivalRun, value: f64| (run.rate > 0.0).then_some(value);
        curve.row([
            ("offered", "1/s", (*rate).into()),
            ("CLAN", "1/s", clan.rate.into()),
            ("CLAN, round trip", "us", clan.mean_us().into()),
            ("CLAN, p99", "us", clan.p99_us().into()),
            ("CLAN, sleeps", "", clan.sleeps.into()),
            ("VIA", "1/s", via.rate.into()),
            (
                "VIA, round trip",
                "us",
                some(&via, via.round_trip_us).into(),
            ),
            ("VIA, p99", "us", some(&via, via.round_trip_99_us).into()),
            ("TCP", "1/s", tcp.rate.into()),
            (
                "TCP, round trip",
                "us",
                some(&tcp, tcp.round_trip_us).into(),
            ),
            ("TCP, p99", "us", some(&tcp, tcp.round_trip_99_us).into()),
            ("UDP", "1/s", udp.rate.into()),
            ("UDP, unanswered", "%", udp.unanswered_per_cent().into()),
        ]);
        answer.add_run(clan.hash, clan.captures);
        for run in [via, tcp, udp] {
            answer.add_run(run.hash, []);
        }
    }
    curve
}

/// CLAN and its rivals (VIA, TCP, UDP) at one of the rates.
fn at_rate(
    (inputs, parameters): (&ServerInputs, &Parameters),
    rate: f64,
    (seed, rng): (u64, Rng),
    packets: usize,
) -> (many::Found, [rivals::RivalRun; 3]) {
    let setup = inputs.setup(parameters, many::Load::Rate(rate));
    let clan = many::run(parameters, &setup, seed, packets);
    let limit = (inputs.clients * inputs.connections) as u64;
    let rivals = [
        (parameters.via, limit),
        (parameters.gige_tcp, limit),
        // Nothing holds its clients back.
        (parameters.gige_udp, u64::MAX),
    ];
    let rivals = rivals.map(|(host, limit)| {
        let (_, time) = many::Load::Rate(rate).times(inputs.time * RIVAL_TIMES);
        rivals::offered(host, (rate, limit), time, rng.clone())
    });
    (clan, rivals)
}

/// What is answered with so many requests under way.
fn in_flight(
    setting: &Setting<'_>,
    inputs: &ServerInputs,
    parameters: &Parameters,
    answer: &mut Outcome,
) -> Table {
    let found = sweep(setting, &inputs.in_flight, |&in_flight, _| {
        // As evenly as they can be spread: with fewer than clients, some have none.
        let clients = inputs.clients.min(in_flight);
        let setup = Setup {
            clients,
            ..inputs.setup(parameters, many::Load::Window(in_flight / clients))
        };
        let clan = many::run(parameters, &setup, setting.seed, 0);
        let rival_of = |host: RivalConfig| rivals::in_flight(host, in_flight as u64, 2000);
        let rivals = [parameters.via, parameters.gige_tcp].map(rival_of);
        (clan, rivals)
    });
    let mut table = Table::named("answers against requests under way");
    for (in_flight, (clan, [via, tcp])) in inputs.in_flight.iter().zip(found) {
        table.row([
            ("under way", "", (*in_flight).into()),
            ("CLAN", "1/s", clan.rate.into()),
            ("CLAN, round trip", "us", clan.mean_us().into()),
            ("VIA", "1/s", via.rate.into()),
            ("TCP", "1/s", tcp.rate.into()),
        ]);
        for hash in [clan.hash, via.hash, tcp.hash] {
            answer.add_run(hash, []);
        }
    }
    table
}

// ---- cluster ----

pub const CLUSTER: Experiment = Experiment {
    name: "cluster",
    question: "What do twelve cards on two joined switches carry, within each and from one to the other?",
    inputs: include_str!("../../../plans/clan-cluster.toml"),
    check: |setting| ClusterInputs::read(setting).map(drop),
    run: cluster,
};

inputs! {
    struct ClusterInputs {
        cards: usize,
        ports: usize => PORTS_MIN..=PORTS_MAX,
        streams: Vec<usize> => LIST,
        transfer: ByteSize => up_to(MIB),
        time: Duration => Duration::from_us(100)..=Duration::from_ms(1000),
    }
}

/// Streams within each switch, and from the one to the other.
const PATTERNS: [&str; 2] = ["within a switch", "across"];

/// Pairs of hosts of a pattern, as many as `cards` make: half of the cards at each switch, which
/// has `ports`.
fn pairs(pattern: usize, cards: usize, ports: usize) -> Vec<[u8; 2]> {
    let other = ports - 1;
    let host = |number: usize| number as u8;
    let each = 0..cards / 2;
    match pattern {
        // In turn at the one switch and at the other.
        0 => each
            .map(|nth| {
                let first = 2 * (nth / 2) + if nth % 2 == 0 { 0 } else { other };
                [host(first), host(first + 1)]
            })
            .collect(),
        _ => each.map(|nth| [host(nth), host(other + nth)]).collect(),
    }
}

impl ClusterInputs {
    fn read(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, mut parameters): (Self, Parameters) = read(setting)?;
        parameters.switch.ports = inputs.ports;
        within("cards", inputs.cards, 4..=parameters.hosts_max())?;
        if inputs.cards % 4 != 0 {
            return Err(SystemError::Contradiction(format!(
                "cards: {}; expected a multiple of 4, so that each switch has pairs of them",
                inputs.cards
            )));
        }
        each_within("streams", &inputs.streams, 1..=inputs.cards / 2)?;
        Ok((inputs, parameters))
    }
}

fn cluster(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = ClusterInputs::read(setting)?;
    let each = |pattern| {
        inputs
            .streams
            .iter()
            .map(move |&streams| (pattern, streams))
    };
    let points: Vec<(usize, usize)> = (0..PATTERNS.len()).flat_map(each).collect();
    let mut answer = Outcome::default();
    let found = sweep(setting, &points, |&(pattern, streams), packets| {
        let pairs = &pairs(pattern, inputs.cards, inputs.ports)[..streams];
        let times = (inputs.time / 4, inputs.time);
        runs::streams(&parameters, pairs, bytes(inputs.transfer), times, packets)
    });
    let mut rates = Table::named("rate against streams");
    for ((pattern, streams), (read, hash, captures)) in points.into_iter().zip(found) {
        let rate = |bytes: usize| bytes as f64 * 8.0 / us(inputs.time);
        let slowest = read.iter().copied().min().unwrap_or(0);
        rates.row([
            ("streams", "", streams.into()),
            ("where", "", PATTERNS[pattern].into()),
            ("all together", "Mbit/s", rate(read.iter().sum()).into()),
            ("slowest", "Mbit/s", rate(slowest).into()),
        ]);
        answer.add_run(hash, captures);
    }
    let mut trips = Table::named("round trip through the switches");
    let patterns = [0, 1];
    let found = sweep(setting, &patterns, |&pattern, _| {
        let ping = Ping {
            hosts: pairs(pattern, inputs.cards, inputs.ports)[0],
            message_bytes: parameters.message_bytes(),
            rounds: 200,
            gap: Duration::ZERO,
            events: false,
            packets: 0,
        };
        ping.run(&parameters)
    });
    for (name, found) in PATTERNS.into_iter().zip(found) {
        trips.row([
            ("where", "", name.into()),
            ("round trip, mean", "us", found.mean_us.into()),
        ]);
        answer.add_run(found.hash, []);
    }
    Ok(answer.with([rates, trips]))
}
