//! All to all.

use barewire_fabric::frame::region_bytes;
use barewire_units::{ByteSize, Duration};

use super::common::{JITTER, LIST, MESSAGE, TIME, read, shape, times};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::rdma::parameters::Parameters;
use crate::rdma::runs::{self, Shape, Times};
use crate::refuse::{inputs, within};
use crate::sweep::sweep;

pub(in crate::rdma) const ALL_TO_ALL: Experiment = Experiment {
    name: "all-to-all",
    question: "What does all to all carry, and what does it take of memory and of the card's contexts?",
    inputs: include_str!("../../../plans/rdma-all-to-all.toml"),
    check: |setting| Inputs::of(setting).map(drop),
    run,
};

/// So many ends fit the memory of an ordinary machine.
const CONNECTIONS_MAX: u64 = 600_000;

inputs! {
    struct Inputs {
        hosts: Vec<u32> => (LIST, 2..=1024),
        connections: u32 => 1..=1000,
        own_links: bool,
        ring: ByteSize,
        message: ByteSize => MESSAGE,
        jitter: Duration => JITTER,
        warm_up: Duration => TIME,
        time: Duration => TIME,
    }
}

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters, Shape, Times), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        for &hosts in &inputs.hosts {
            let hosts = u64::from(hosts);
            let connections = hosts * (hosts - 1) / 2 * u64::from(inputs.connections);
            within("connections of all hosts", connections, 1..=CONNECTIONS_MAX)?;
        }
        let shape = shape(inputs.ring, inputs.message)?;
        let times = times(inputs.jitter, inputs.warm_up, inputs.time)?;
        Ok((inputs, parameters, shape, times))
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters, shape, times) = Inputs::of(setting)?;
    let found = sweep(setting, &inputs.hosts, |&hosts, _| {
        let who = (hosts, inputs.connections, inputs.own_links);
        runs::all_to_all(&parameters, shape, who, times, setting.seed)
    });
    let mut outcome = Outcome::default();
    let mut table = Table::named("all to all");
    for (&hosts, run) in inputs.hosts.iter().zip(found) {
        let ends = u64::from(hosts - 1) * u64::from(inputs.connections);
        let memory_bytes = ends * region_bytes(shape.ring_bytes) as u64;
        let each = |all: f64| all / f64::from(hosts);
        let messages = run.classes[0].messages;
        table.row([
            ("hosts", "", u64::from(hosts).into()),
            ("queue pairs", "", run.pairs.into()),
            (
                "rings, each host",
                "MiB",
                (memory_bytes as f64 / f64::from(1 << 20)).into(),
            ),
            (
                "each host gets",
                "Mbit/s",
                run.mbps(0, times).map(each).into(),
            ),
            (
                "messages of each",
                "1/us",
                (each(messages as f64) / crate::figures::us(times.time)).into(),
            ),
            ("p50", "us", run.latency_us(0, 500).into()),
            ("p99", "us", run.latency_us(0, 990).into()),
            (
                "contexts fetched, each message",
                "",
                (run.misses as f64 / messages as f64).into(),
            ),
            (
                "most in a switch",
                "KiB",
                (run.highest_bytes as f64 / 1024.0).into(),
            ),
            ("dropped", "", run.dropped.into()),
            ("cards paused", "%", run.paused_percent[0].into()),
        ]);
        outcome.add_run(run.hash, []);
    }
    Ok(outcome.with([table]))
}
