//! Two or three hosts: round trips, a stream, and a receiver that is slow.

use barewire_units::{ByteSize, Duration};

use super::common::{LIST, MESSAGE, TIME, read, shape, times};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::figures::us;
use crate::rdma::parameters::Parameters;
use crate::rdma::runs::{self, Shape, Times};
use crate::refuse::{inputs, up_to_time};
use crate::sweep::sweep;

pub(in crate::rdma) const PING: Experiment = Experiment {
    name: "ping",
    question: "How long is a one-way trip by size of message, of the card alone and with the ring?",
    inputs: include_str!("../../../plans/rdma-ping.toml"),
    check: |setting| Pings::of(setting).map(drop),
    run: ping,
};

inputs! {
    struct Pings {
        sizes: Vec<ByteSize> => (LIST, MESSAGE),
        ring: ByteSize,
        rounds: u64 => 1..=100_000,
    }
}

impl Pings {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        // A bare write lies where the ring would be.
        for &size in &inputs.sizes {
            shape(inputs.ring, size)?;
            crate::refuse::within("sizes", size, *MESSAGE.start()..=inputs.ring)?;
        }
        Ok((inputs, parameters))
    }
}

fn ping(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = Pings::of(setting)?;
    let shapes: Vec<Shape> = (inputs.sizes.iter())
        .map(|&size| shape(inputs.ring, size))
        .collect::<Result<_, _>>()?;
    let found = sweep(setting, &shapes, |&shape, _| {
        [true, false].map(|bare| runs::ping(&parameters, shape, inputs.rounds, bare))
    });
    let mut outcome = Outcome::default();
    let mut table = Table::named("half a round trip against size");
    for (size, [(bare_us, bare), (ring_us, ring)]) in inputs.sizes.iter().zip(found) {
        table.row([
            ("message", "B", size.as_bytes().into()),
            ("card's write", "us", bare_us.into()),
            ("message of the ring", "us", ring_us.into()),
        ]);
        outcome.add_run(bare, []);
        outcome.add_run(ring, []);
    }
    Ok(outcome.with([table]))
}

pub(in crate::rdma) const STREAM: Experiment = Experiment {
    name: "stream",
    question: "What does a stream of messages carry between two hosts, by size and number of connections?",
    inputs: include_str!("../../../plans/rdma-stream.toml"),
    check: |setting| Streams::of(setting).map(drop),
    run: stream,
};

inputs! {
    struct Streams {
        sizes: Vec<ByteSize> => (LIST, MESSAGE),
        connections: Vec<u32> => (LIST, 1..=1000),
        ring: ByteSize,
        warm_up: Duration => TIME,
        time: Duration => TIME,
    }
}

impl Streams {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters, Times), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        shape(inputs.ring, *MESSAGE.start())?;
        let times = times(Duration::ZERO, inputs.warm_up, inputs.time)?;
        Ok((inputs, parameters, times))
    }
}

fn stream(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters, times) = Streams::of(setting)?;
    let mut points = Vec::new();
    for &connections in &inputs.connections {
        for &size in &inputs.sizes {
            points.push((size, connections, shape(inputs.ring, size)?));
        }
    }
    let found = sweep(setting, &points, |&(_, connections, shape), _| {
        runs::stream(&parameters, shape, connections, times)
    });
    let mut outcome = Outcome::default();
    let mut table = Table::named("stream against size");
    for ((size, connections, _), run) in points.iter().zip(found) {
        table.row([
            ("message", "B", size.as_bytes().into()),
            ("connections", "", u64::from(*connections).into()),
            ("rate", "Mbit/s", run.mbps(0, times).into()),
            (
                "messages",
                "1/us",
                (run.classes[0].messages as f64 / us(times.time)).into(),
            ),
            ("one-way, p50", "us", run.latency_us(0, 500).into()),
        ]);
        outcome.add_run(run.hash, []);
    }
    Ok(outcome.with([table]))
}

pub(in crate::rdma) const SLOW_RECEIVER: Experiment = Experiment {
    name: "slow-receiver",
    question: "What does a slow receiver cost another receiver of the same sending core?",
    inputs: include_str!("../../../plans/rdma-slow-receiver.toml"),
    check: |setting| Slow::of(setting).map(drop),
    run: slow_receiver,
};

inputs! {
    struct Slow {
        works: Vec<Duration> => (LIST, up_to_time(Duration::from_ms(100))),
        rings: Vec<ByteSize> => LIST,
        message: ByteSize => MESSAGE,
        warm_up: Duration => TIME,
        time: Duration => TIME,
    }
}

impl Slow {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters, Times), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        for &ring in &inputs.rings {
            shape(ring, inputs.message)?;
        }
        let times = times(Duration::ZERO, inputs.warm_up, inputs.time)?;
        Ok((inputs, parameters, times))
    }
}

fn slow_receiver(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters, times) = Slow::of(setting)?;
    let mut points = Vec::new();
    for &ring in &inputs.rings {
        for &works in &inputs.works {
            points.push((works, shape(ring, inputs.message)?));
        }
    }
    let found = sweep(setting, &points, |&(works, shape), _| {
        runs::slow_receiver(&parameters, shape, works, times)
    });
    let mut outcome = Outcome::default();
    let mut table = Table::named("beside a slow receiver");
    for ((works, shape), run) in points.iter().zip(found) {
        table.row([
            ("slow one works", "us", us(*works).into()),
            ("ring", "KiB", (shape.ring_bytes as f64 / 1024.0).into()),
            ("slow one gets", "Mbit/s", run.mbps(0, times).into()),
            ("other one gets", "Mbit/s", run.mbps(1, times).into()),
            ("other one, p50", "us", run.latency_us(1, 500).into()),
            ("other one, p99", "us", run.latency_us(1, 990).into()),
        ]);
        outcome.add_run(run.hash, []);
    }
    Ok(outcome.with([table]))
}
