//! Afterburner stacks on the real ring: what is left of the rate back to back, for messages of
//! any size and for as many pairs of hosts as the ring takes.

use barewire_models::afterburner::Stack;
use barewire_units::{ByteSize, Duration, Rng};

use super::super::parameters::Parameters;
use super::super::stream::{self as ribbon, Stream};
use super::super::tcp::{self, TcpPlan, TcpRecord};
use super::common::{DURATION, ENTRIES, Rings, outcome};
use super::stream::{PROGRAM_MESSAGE, segment, stack};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Row, Setting, Table};
use crate::refuse::inputs;
use crate::sweep::try_sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "afterburner",
    question: "Afterburner stacks on the real ring: what is left of the rate back to back, with one \
        pair of hosts and with more?",
    inputs: include_str!("../../../plans/jetstream-afterburner.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        messages: Vec<ByteSize> => (ENTRIES, PROGRAM_MESSAGE),
        pairs: Vec<usize> => (ENTRIES, 1..=PAIRS_MAX),
        pairs_message: ByteSize => PROGRAM_MESSAGE,
        stack: String,
        segment: ByteSize,
        socket_buffer: ByteSize,
        length_m: u64,
        ttrt: Duration,
        duration: Duration => DURATION,
    }
}

/// Pairs of hosts on a ring of 16 stations.
const PAIRS_MAX: usize = 8;

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs, Stack), SystemError> {
    let mut parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    for &pairs in &inputs.pairs {
        rings(&parameters, &inputs, pairs).check()?;
    }
    let stack = stack("stack", &inputs.stack)?;
    segment(&parameters, "segment", inputs.segment, inputs.socket_buffer)?;
    rings(&parameters, &inputs, 1).check()?;
    parameters.benchmark.socket_buffer = inputs.socket_buffer;
    parameters.benchmark.duration = inputs.duration;
    Ok((parameters, inputs, stack))
}

fn rings<'a>(parameters: &'a Parameters, inputs: &Inputs, pairs: usize) -> Rings<'a> {
    Rings {
        length_m: inputs.length_m,
        ttrt: inputs.ttrt,
        ..Rings::one(parameters, 2 * pairs)
    }
}

/// Each sender's receiver is half the ring away.
fn plan(inputs: &Inputs, stack: Stack, pairs: usize, message: ByteSize) -> TcpPlan {
    TcpPlan {
        hosts: 2 * pairs,
        streams: (0..pairs).map(|pair| (pair, pair + pairs)).collect(),
        stack,
        segment_bytes: inputs.segment.as_bytes(),
        message_bytes: message.as_bytes(),
        socket_buffer_bytes: inputs.socket_buffer.as_bytes(),
        run_for: inputs.duration,
        drain_for: Duration::ZERO,
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs, stack) = read(setting)?;
    let one = inputs.messages.iter().map(|message| (1, *message));
    let more = inputs
        .pairs
        .iter()
        .map(|pairs| (*pairs, inputs.pairs_message));
    let points: Vec<(usize, ByteSize)> = one.chain(more).collect();
    let root = Rng::from_seed(setting.seed);
    let mut runs = try_sweep(setting, &points, |&(pairs, message), packets_per_link| {
        let rings = Rings {
            packets_per_link,
            ..rings(&parameters, &inputs, pairs)
        };
        let network = rings.build(&root)?;
        let plan = plan(&inputs, stack, pairs, message);
        let run = tcp::run(&parameters, network, &plan, &root);
        let stream = Stream {
            stack,
            segment_bytes: inputs.segment.as_bytes(),
            message_bytes: message.as_bytes(),
            scaled: true,
            recovers: true,
        };
        let back_to_back = ribbon::run(&parameters, stream).rate_mbytes_s();
        run.map(|run| (run, back_to_back))
    })?;
    let taken = runs
        .iter_mut()
        .map(|(run, _)| (run.hash, std::mem::take(&mut run.links)));
    let outcome = outcome(taken);
    let (one, more) = runs.split_at(inputs.messages.len());
    Ok(outcome.with([
        messages_table(&inputs, one),
        pairs_table(&parameters, &inputs, more),
    ]))
}

/// One pair of hosts, for each size of messages.
fn messages_table(inputs: &Inputs, runs: &[(TcpRecord, f64)]) -> Table {
    let mut messages = Table::named("one pair of hosts, against the message");
    for (message, (run, back_to_back)) in inputs.messages.iter().zip(runs) {
        messages.row(message_row(*message, run, *back_to_back));
    }
    messages
}

/// Several pairs of hosts, with messages of one size.
fn pairs_table(parameters: &Parameters, inputs: &Inputs, runs: &[(TcpRecord, f64)]) -> Table {
    let mut pairs = Table::named(format!(
        "pairs of hosts, messages of {} B",
        inputs.pairs_message.as_bytes()
    ));
    for (count, (run, back_to_back)) in inputs.pairs.iter().zip(runs) {
        pairs.row(pairs_row(parameters, *count, run, *back_to_back));
    }
    pairs
}

fn message_row(message: ByteSize, run: &TcpRecord, back_to_back: f64) -> Row<'static, 8> {
    let rate = run.mbytes_s();
    [
        ("message", "B", message.as_bytes().into()),
        ("on the ring", "MB/s", rate.into()),
        ("back to back", "MB/s", back_to_back.into()),
        ("left", "%", (rate * 100.0 / back_to_back).into()),
        ("sender busy", "%", run.busy.first().copied().into()),
        ("receiver busy", "%", run.busy.last().copied().into()),
        (
            "segment's wait for the token",
            "us",
            run.access[0].mean_us().into(),
        ),
        ("acknowledgement's", "us", run.access[1].mean_us().into()),
    ]
}

fn pairs_row(
    parameters: &Parameters,
    pairs: usize,
    run: &TcpRecord,
    back_to_back: f64,
) -> Row<'static, 9> {
    let rate = run.mbytes_s();
    let stream = rate / pairs as f64;
    let line = parameters.ring.rate.as_bps() as f64 / 8e6;
    [
        ("pairs", "", pairs.into()),
        ("all together", "MB/s", rate.into()),
        ("a stream", "MB/s", stream.into()),
        ("the slowest", "MB/s", run.slowest_mbytes_s().into()),
        (
            "left of back to back",
            "%",
            (stream * 100.0 / back_to_back).into(),
        ),
        ("of the line", "%", (rate * 100.0 / line).into()),
        (
            "segment's wait for the token",
            "us",
            run.access[0].mean_us().into(),
        ),
        ("acknowledgement's", "us", run.access[1].mean_us().into()),
        (
            "sent again",
            "segments",
            run.streams
                .iter()
                .map(|it| it.sent_again)
                .sum::<u64>()
                .into(),
        ),
    ]
}
