//! The Collapsed LAN, measured as on its pages.
//!
//! | experiment | what runs | what is measured |
//! |---|---|---|
//! | latency | one word, stored and polled for, back and forth | half a round trip |
//! | bandwidth | one transfer by the card | its arrival in the peer's memory |
//! | round trip | a message each way over the live network's queue; both poll | the client's clock |
//! | Queue | transfers into and out of the live network's byte stream | what the reader reads |
//! | server | requests over many queues; tripwires, event queue, poll, sleep | the clients' clocks, the server's answers |
//! | rivals | the same requests at the cost per message of a socket or a VIA card | the same |
//!
//! The rings, the message queue and the stream are `barewire-fabric`'s, over the windows of
//! the modelled card; the server's event queue is `barewire-fabric`'s doorbell page, which
//! the card's tripwires ring. Parameters: `parameters/clan.toml`.

pub mod bench;
mod parameters;
mod program;
mod rivals;
mod runs;
#[cfg(test)]
mod tests;
mod world;

use barewire_units::{Duration, Rng};

use crate::{Finding, SystemError, replicate};
use parameters::Parameters;
use runs::{Run, Served, Service, Until};

/// Client hosts that saturate the server.
const CLIENTS: usize = 7;
/// Connections of each of them.
const CONNECTIONS: usize = 4;
/// How long a saturated server is measured, and before that not.
const SATURATED: Until = Until::Times(Duration::from_us(300), Duration::from_ms(2));
/// Between requests, longer than the server polls; not a multiple of a poll.
const GAP_US: f64 = 40.0;
/// Messages that a round trip is measured over.
const ROUNDS: u64 = 200;
/// Requests a second offered over UDP: around its peak.
const UDP_OFFERED: [f64; 5] = [31_000.0, 32_500.0, 34_000.0, 36_000.0, 40_000.0];
const UDP_TIME: Duration = Duration::from_ms(250);

/// The Collapsed LAN.
pub struct System;

impl super::System for System {
    fn name(&self) -> &'static str {
        "clan"
    }

    fn parameters(&self) -> &'static str {
        parameters::TEXT
    }

    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(measure_all(parameters, seed)?.0)
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

const EXPERIMENTS: [Experiment; 13] = [
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
        Ok(runs::stream(p, 32 * 1024, 256 * 1024))
    }),
    ("queue", "128 B transfers", "rate", "Mbit/s", |p, _| {
        Ok(runs::stream(p, 128, 32 * 1024))
    }),
    (
        "server",
        "requests far apart",
        "round trip",
        "us",
        |p, seed| one_client(p, GAP_US, seed),
    ),
    ("server", "back to back", "round trip", "us", |p, seed| {
        one_client(p, 0.0, seed)
    }),
    ("server", "CLAN", "requests", "1/s", |p, seed| {
        saturated(p, seed).map(|served| Run {
            value: served.rate,
            hash: served.hash,
        })
    }),
    ("server", "VIA", "requests", "1/s", |p, _| {
        Ok(rival_rate(p.via))
    }),
    ("server", "UDP, peak", "requests", "1/s", udp_peak),
    ("server", "TCP", "requests", "1/s", |p, _| {
        Ok(rival_rate(p.gige_tcp))
    }),
];

/// Every finding, and the hashes of all runs in one.
fn measure_all(parameters: &str, seed: u64) -> Result<(Vec<Finding>, u64), SystemError> {
    let parameters = Parameters::parse(parameters)?;
    let runs = replicate(EXPERIMENTS.len(), |index| {
        EXPERIMENTS[index].4(&parameters, seed)
    });
    let mut findings = Vec::new();
    let mut hash = 0_u64;
    for ((table, row, quantity, unit, _), run) in EXPERIMENTS.into_iter().zip(runs) {
        let run = run?;
        findings.push(Finding {
            table,
            row: row.to_owned(),
            quantity,
            unit,
            value: run.value,
        });
        hash = hash.rotate_left(7) ^ run.hash;
    }
    Ok((findings, hash))
}

fn rival_round_trip(host: parameters::RivalHost) -> Run {
    let run = rivals::ping(host, ROUNDS);
    Run {
        value: run.round_trip_us,
        hash: run.hash,
    }
}

fn rival_rate(host: parameters::RivalHost) -> Run {
    let run = rivals::crowd(host, (CLIENTS * CONNECTIONS) as u64, 10 * ROUNDS);
    Run {
        value: run.rate,
        hash: run.hash,
    }
}

/// The most that UDP answers, whatever is offered.
fn udp_peak(parameters: &Parameters, seed: u64) -> Result<Run, SystemError> {
    let mut peak = Run {
        value: 0.0,
        hash: 0,
    };
    for (nth, rate) in UDP_OFFERED.into_iter().enumerate() {
        let rng = Rng::from_seed(seed).fork_nth("udp", nth as u64);
        let run = rivals::offered(parameters.gige_udp, rate, UDP_TIME, rng);
        peak.value = peak.value.max(run.rate);
        peak.hash = peak.hash.rotate_left(7) ^ run.hash;
    }
    Ok(peak)
}

fn one_client(parameters: &Parameters, gap_us: f64, seed: u64) -> Result<Run, SystemError> {
    let service = Service {
        clients: 1,
        connections: 1,
        load: runs::closed,
        amount: gap_us,
        end: Until::Answers(ROUNDS),
    };
    let served = runs::serve(parameters, &service, seed)?;
    Ok(Run {
        value: served.round_trip_us,
        hash: served.hash,
    })
}

/// As many requests as the server answers.
fn saturated(parameters: &Parameters, seed: u64) -> Result<Served, SystemError> {
    let service = Service {
        clients: CLIENTS,
        connections: CONNECTIONS,
        load: runs::closed,
        amount: 0.0,
        end: SATURATED,
    };
    runs::serve(parameters, &service, seed)
}

/// Requests at random, `rate` a second from all clients together.
fn offer(parameters: &Parameters, rate: f64, seed: u64) -> Result<Served, SystemError> {
    let service = Service {
        clients: CLIENTS,
        connections: CONNECTIONS,
        load: runs::open,
        amount: rate / CLIENTS as f64,
        end: SATURATED,
    };
    runs::serve(parameters, &service, seed)
}

/// A point of the curve of answers against offered requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerPoint {
    /// Requests offered a second.
    pub offered: f64,
    /// CLAN: answers a second.
    pub clan: f64,
    /// CLAN: mean round trip, us, of those answered in time.
    pub clan_round_trip_us: f64,
    /// CLAN: how often the server slept.
    pub sleeps: u64,
    /// UDP: answers a second.
    pub udp: f64,
    /// UDP: requests without an answer, of a hundred that are offered.
    pub udp_unanswered_per_cent: f64,
}

/// The servers against the load that is offered, at random, up to and beyond what they
/// can do. The source shows this curve and does not print its points.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn sweep(
    parameters: &str,
    seed: u64,
    offered: &[f64],
) -> Result<Vec<ServerPoint>, SystemError> {
    let parameters = Parameters::parse(parameters)?;
    let points = replicate(offered.len(), |index| {
        let rate = offered[index];
        let clan = offer(&parameters, rate, seed)?;
        let rng = Rng::from_seed(seed).fork_nth("sweep", index as u64);
        let udp = rivals::offered(parameters.gige_udp, rate, UDP_TIME / 8, rng);
        Ok(ServerPoint {
            offered: rate,
            clan: clan.rate,
            clan_round_trip_us: clan.round_trip_us,
            sleeps: clan.sleeps,
            udp: udp.rate,
            udp_unanswered_per_cent: (100.0 * (1.0 - udp.rate / rate)).max(0.0),
        })
    });
    points.into_iter().collect()
}

/// Mbit/s through the Queue for each size of transfer: the curve whose two published
/// points are in the expected file.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn queue_curve(parameters: &str, sizes_bytes: &[usize]) -> Result<Vec<f64>, SystemError> {
    let parameters = Parameters::parse(parameters)?;
    Ok(replicate(sizes_bytes.len(), |index| {
        let size = sizes_bytes[index].max(1);
        runs::stream(&parameters, size, (size * 8).max(32 * 1024)).value
    }))
}
