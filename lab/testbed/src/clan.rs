//! The Collapsed LAN, measured as on its pages.
//!
//! | experiment | what runs | what is measured |
//! |---|---|---|
//! | latency | one word, stored and polled for, back and forth | half a round trip |
//! | bandwidth | one transfer by the card | its arrival in the peer's memory |
//! | round trip | a message each way over the live network's queue; both poll | the client's clock |
//! | Queue | transfers into and out of the live network's byte stream | what the reader reads |
//! | server | requests over many queues; tripwires, event queue, poll, sleep | the clients' clocks, the server's answers; what they tend to as load grows (`plateau`) |
//! | rivals | the same requests at the cost per message of a socket or a VIA card | the same |
//!
//! The rings, the message queue and the stream are `barewire-fabric`'s, over the windows of
//! the modelled card; the server's event queue is `barewire-fabric`'s doorbell page, which
//! the card's tripwires ring. Parameters: `parameters/clan.toml`.

pub mod bench;
mod descriptors;
mod emulation;
mod end;
mod experiments;
mod many;
mod parameters;
mod plateau;
mod program;
mod rivals;
mod runs;
mod step;
#[cfg(test)]
mod tests;
mod windowed;
mod world;

use barewire_models::clan::RivalConfig;
use barewire_units::{Duration, Rng};

use crate::emulation::{Emulated, Wanted};
use crate::error::SystemError;
use crate::experiment::Setting;
use crate::replicate::replicate;
use crate::reproduction::Reproduction;
use crate::system::Finding;
use parameters::Parameters;
use runs::{Run, Service, Streaming, Until};

/// Between requests, longer than the server polls; not a multiple of a poll.
const GAP: Duration = Duration::from_us(40);
/// Messages that a round trip is measured over.
const ROUNDS: u64 = 200;
/// Requests a second offered over UDP: its peak is somewhere between.
const UDP_OFFERED: [f64; 8] = [
    20_000.0, 28_000.0, 31_000.0, 32_500.0, 34_000.0, 36_000.0, 40_000.0, 50_000.0,
];
const UDP_TIME: Duration = Duration::from_ms(250);

/// The Collapsed LAN.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "clan"
    }

    fn parameters(&self) -> &'static str {
        parameters::TEXT
    }

    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(reproduce(parameters, seed)?.findings)
    }

    fn experiments(&self) -> &'static [crate::experiment::Experiment] {
        &experiments::ALL
    }

    fn emulate(
        &self,
        _experiment: &str,
        setting: &Setting<'_>,
        wanted: &Wanted,
    ) -> Result<Box<dyn Emulated>, SystemError> {
        let parameters = Parameters::parse(setting.parameters)?;
        let network = emulation::Emulation::new(parameters, setting.seed, wanted)?;
        Ok(Box::new(network))
    }
}

/// Row, quantity, unit and run of each experiment; the table is named beside them.
type Experiment = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    fn(&Parameters, u64) -> Result<Run, SystemError>,
);

const EXPERIMENTS: [Experiment; 16] = [
    ("prototype", "one word", "latency", "us", |p, _| {
        Ok(runs::word(p, ROUNDS))
    }),
    ("prototype", "card's transfer", "rate", "Mbit/s", |p, _| {
        Ok(runs::transfer(p, 1 << 18))
    }),
    ("round-trip", "CLAN", "round trip of 40 B", "us", |p, _| {
        Ok(runs::ping(p, ROUNDS))
    }),
    (
        "round-trip",
        "Gigabit Ethernet",
        "round trip of 40 B",
        "us",
        |p, _| Ok(rival_round_trip(p.gige_tcp)),
    ),
    ("round-trip", "VIA", "round trip of 40 B", "us", |p, _| {
        Ok(rival_round_trip(p.via))
    }),
    ("queue", "32 KB transfers", "rate", "Mbit/s", |p, _| {
        Ok(stream(p, 32 * 1024, 256 * 1024))
    }),
    ("queue", "128 B transfers", "rate", "Mbit/s", |p, _| {
        Ok(stream(p, 128, 32 * 1024))
    }),
    ("queue", "any transfer", "highest rate", "Mbit/s", |p, _| {
        Ok(plateau::queue_highest(p))
    }),
    (
        "queue",
        "half of the highest rate",
        "transfer",
        "B",
        |p, _| Ok(plateau::queue_half_size(p)),
    ),
    (
        "server",
        "requests far apart",
        "round trip",
        "us",
        |p, _| one_client(p, GAP),
    ),
    ("server", "back to back", "round trip", "us", |p, _| {
        one_client(p, Duration::ZERO)
    }),
    (
        "server",
        "CLAN, many connections",
        "requests",
        "1/s",
        |p, _| plateau::many_connections(p),
    ),
    ("server", "CLAN, overload", "requests", "1/s", |p, seed| {
        Ok(plateau::overload(p, seed))
    }),
    ("server", "VIA", "requests", "1/s", |p, _| {
        Ok(plateau::rival(p.via))
    }),
    ("server", "UDP, peak", "requests", "1/s", udp_peak),
    ("server", "TCP", "requests", "1/s", |p, _| {
        Ok(plateau::rival(p.gige_tcp))
    }),
];

/// The experiments of the pages.
fn reproduce(parameters: &str, seed: u64) -> Result<Reproduction, SystemError> {
    let parameters = Parameters::parse(parameters)?;
    plateau::check(&parameters)?;
    let runs = replicate(EXPERIMENTS.len(), |index| {
        EXPERIMENTS[index].4(&parameters, seed)
    });
    let mut found = Reproduction::default();
    for ((table, row, quantity, unit, _), run) in EXPERIMENTS.into_iter().zip(runs) {
        let run = run?;
        found.add(table, row, quantity, unit, run.value);
        found.hashes.push(run.hash);
    }
    Ok(found)
}

fn stream(parameters: &Parameters, transfer_bytes: usize, measured: usize) -> Run {
    Streaming::new(parameters, transfer_bytes, measured)
        .run(parameters)
        .0
}

fn rival_round_trip(host: RivalConfig) -> Run {
    let run = rivals::ping(host, ROUNDS);
    Run {
        value: run.round_trip_us,
        hash: run.hash,
    }
}

/// What UDP answers of each number of requests that is offered.
fn udp_curve(parameters: &Parameters, seed: u64) -> Vec<Run> {
    let run = |(nth, rate)| {
        let rng = Rng::from_seed(seed).fork_nth("udp", nth as u64);
        let run = rivals::offered(parameters.gige_udp, (rate, u64::MAX), UDP_TIME, rng);
        Run {
            value: run.rate,
            hash: run.hash,
        }
    };
    UDP_OFFERED.into_iter().enumerate().map(run).collect()
}

/// The most that UDP answers, whatever is offered.
fn udp_peak(parameters: &Parameters, seed: u64) -> Result<Run, SystemError> {
    let curve = udp_curve(parameters, seed);
    Ok(Run {
        value: curve.iter().map(|run| run.value).fold(0.0, f64::max),
        hash: plateau::hash_of(&curve),
    })
}

fn one_client(parameters: &Parameters, gap: Duration) -> Result<Run, SystemError> {
    let service = Service {
        clients: 1,
        connections: 1,
        gap,
        end: Until::Answers(ROUNDS),
    };
    let served = runs::serve(parameters, &service)?;
    Ok(Run {
        value: served.round_trip_us,
        hash: served.hash,
    })
}
