//! What memory an endpoint needs for a rate, and what becomes of messages for which VIA has
//! no buffer.

use barewire_fabric::frame::{region_bytes, ring_bytes_valid};
use barewire_units::{ByteSize, Duration, Rate, Rng};
use std::ops::RangeInclusive;

use super::common::{LIST, MIB, read};
use crate::clan::descriptors::{self, Level, Traffic};
use crate::clan::parameters::Parameters;
use crate::clan::runs::Streaming;
use crate::clan::windowed::{self, Stream};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::figures::{bytes, us};
use crate::refuse::{inputs, up_to};
use crate::sweep::sweep;

const KIB: f64 = 1024.0;

// ---- buffers ----

pub const BUFFERS: Experiment = Experiment {
    name: "buffers",
    question: "How much memory does an endpoint need for a rate, against Gigabit sockets and VIA?",
    inputs: include_str!("../../../plans/clan-buffers.toml"),
    check: |setting| read::<BuffersInputs>(setting).map(drop),
    run: buffers,
};

inputs! {
    struct BuffersInputs {
        buffers: Vec<ByteSize> => (LIST, up_to(ByteSize::from_mib(16))),
        transfer: ByteSize => up_to(MIB),
        rates: Vec<Rate> => LIST,
        endpoints: Vec<usize> => (LIST, 1..=1_000_000),
        time: Duration => Duration::from_ms(1)..=Duration::from_s(10),
    }
}

const SYSTEMS: [&str; 3] = ["CLAN's Queue", "Gigabit sockets", "VIA"];
/// A descriptor of VIA.
const DESCRIPTOR_BYTES: u64 = 64;

/// A stream through a buffer.
#[derive(Clone, Copy)]
struct Point {
    mbit_s: f64,
    /// Memory of an endpoint that sends and receives.
    endpoint_bytes: u64,
    /// Most of the receiver's that was in use.
    used_bytes: u64,
    hash: u64,
}

/// CLAN keeps what it receives; what it sends it stores at once where it is to go.
fn clan(parameters: &Parameters, inputs: &BuffersInputs, buffer: ByteSize) -> Option<Point> {
    let ring_bytes = bytes(buffer);
    if !ring_bytes_valid(ring_bytes) {
        return None;
    }
    let transfer_bytes = bytes(inputs.transfer);
    let measured = (8 * transfer_bytes).max(8 * ring_bytes);
    let streaming = Streaming {
        ring_bytes,
        transfer_bytes,
        measured,
        packets: 0,
    };
    let (run, streamed) = streaming.run(parameters);
    Some(Point {
        mbit_s: run.value,
        endpoint_bytes: region_bytes(ring_bytes) as u64,
        used_bytes: streamed.memory_bytes.1,
        hash: run.hash,
    })
}

/// The others keep what they have sent, too, until the peer has it.
fn rival(
    stream: &Stream,
    descriptor_bytes: u64,
    inputs: &BuffersInputs,
    buffer: ByteSize,
) -> Option<Point> {
    let found = windowed::run(stream, buffer, inputs.time)?;
    let frames = buffer.as_bytes() / stream.frame.as_bytes();
    Some(Point {
        mbit_s: found.mbit_s,
        endpoint_bytes: 2 * (buffer.as_bytes() + frames * descriptor_bytes),
        used_bytes: found.most_bytes,
        hash: found.hash,
    })
}

fn buffers(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters): (BuffersInputs, _) = read(setting)?;
    let found = sweep(setting, &inputs.buffers, |&buffer, _| {
        [
            clan(&parameters, &inputs, buffer),
            rival(&parameters.gige_stream, 0, &inputs, buffer),
            rival(&parameters.via_stream, DESCRIPTOR_BYTES, &inputs, buffer),
        ]
    });
    let mut answer = Outcome::default();
    let mut rates = Table::named("rate against buffer");
    for (buffer, points) in inputs.buffers.iter().zip(&found) {
        let [clan, sockets, via] = points.map(|point| point.map(|it| it.mbit_s));
        let buffer = buffer.as_bytes() as f64 / KIB;
        rates.row([
            ("buffer", "KiB", buffer.into()),
            (SYSTEMS[0], "Mbit/s", clan.into()),
            (SYSTEMS[1], "Mbit/s", sockets.into()),
            (SYSTEMS[2], "Mbit/s", via.into()),
        ]);
        for point in points.iter().flatten() {
            answer.add_run(point.hash, []);
        }
    }
    let memory = memory(&inputs, &found);
    Ok(answer.with([rates, memory]))
}

/// The least buffer for each rate, and what it comes to.
fn memory(inputs: &BuffersInputs, found: &[[Option<Point>; 3]]) -> Table {
    let mut table = Table::named("memory for a rate");
    for wanted in &inputs.rates {
        let wanted = wanted.as_bps() as f64 / 1e6;
        for (system, name) in SYSTEMS.iter().enumerate() {
            let points = inputs.buffers.iter().zip(found);
            let enough = points
                .filter_map(|(buffer, row)| row[system].map(|point| (*buffer, point)))
                .filter(|(_, point)| point.mbit_s >= wanted)
                .min_by_key(|(buffer, _)| *buffer);
            for endpoints in &inputs.endpoints {
                let kib = |bytes: u64| bytes as f64 / KIB;
                let all = |it: Point| {
                    *endpoints as f64 * it.endpoint_bytes as f64 / MIB.as_bytes() as f64
                };
                table.row([
                    ("wanted", "Mbit/s", wanted.into()),
                    ("system", "", (*name).into()),
                    ("endpoints", "", (*endpoints).into()),
                    (
                        "buffer",
                        "KiB",
                        enough.map(|(buffer, _)| kib(buffer.as_bytes())).into(),
                    ),
                    (
                        "rate",
                        "Mbit/s",
                        enough.map(|(_, point)| point.mbit_s).into(),
                    ),
                    (
                        "used of it",
                        "KiB",
                        enough.map(|(_, point)| kib(point.used_bytes)).into(),
                    ),
                    (
                        "an endpoint",
                        "KiB",
                        enough.map(|(_, point)| kib(point.endpoint_bytes)).into(),
                    ),
                    (
                        "all endpoints",
                        "MiB",
                        enough.map(|(_, point)| all(point)).into(),
                    ),
                ]);
            }
        }
    }
    table
}

// ---- via ----

pub const VIA: Experiment = Experiment {
    name: "via",
    question: "What becomes of messages for which a VIA connection has no receive descriptor?",
    inputs: include_str!("../../../plans/clan-via.toml"),
    check: |setting| read::<ViaInputs>(setting).map(drop),
    run: via,
};

inputs! {
    struct ViaInputs {
        descriptors: Vec<u32> => (LIST, 1..=100_000),
        messages: u64 => 1..=1_000_000,
        burst: u64 => 1..=100_000,
        between: Duration => TIMES,
        program: Duration => TIMES,
    }
}

/// Between bursts, and of a message in the program.
const TIMES: RangeInclusive<Duration> = Duration::from_ns(1)..=Duration::from_ms(1);

fn via(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters): (ViaInputs, _) = read(setting)?;
    let each = |level| inputs.descriptors.iter().map(move |&count| (level, count));
    let points: Vec<_> = Level::ALL.into_iter().flat_map(each).collect();
    let (host, stream) = (parameters.via, parameters.via_stream);
    let found = sweep(setting, &points, |&((_, level), descriptors), _| {
        let traffic = Traffic {
            level,
            descriptors,
            messages: inputs.messages,
            burst: inputs.burst,
            between: inputs.between,
            spacing: stream.send,
            program: inputs.program,
            one_way: host.one_way,
        };
        // The same bursts for each level.
        let rng = Rng::from_seed(setting.seed).fork("bursts");
        descriptors::run(&traffic, rng)
    });
    let mut answer = Outcome::default();
    let mut table = Table::named("messages against descriptors");
    for (((level, _), descriptors), found) in points.into_iter().zip(found) {
        let buffer = stream.frame.as_bytes() + DESCRIPTOR_BYTES;
        let some = found.delays.count() > 0;
        table.row([
            ("descriptors", "", u64::from(descriptors).into()),
            ("level", "", level.into()),
            ("sent", "", found.made.into()),
            ("received", "", found.received.into()),
            ("dropped", "", found.dropped.into()),
            ("lost with the connection", "", found.lost.into()),
            ("broke after", "us", found.broke.map(us).into()),
            (
                "delay, p99",
                "us",
                some.then(|| found.delays.per_mille(990) as f64 / 1e6)
                    .into(),
            ),
            (
                "buffers",
                "KiB",
                (f64::from(descriptors) * buffer as f64 / KIB).into(),
            ),
        ]);
        answer.add_run(found.hash, []);
    }
    Ok(answer.with([table]))
}
