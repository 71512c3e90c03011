//! Netperf over two Afterburners back to back, as the paper measured them, with messages,
//! segments and buffers of one's own.

use barewire_models::afterburner::Stack;
use barewire_units::{ByteSize, Duration};
use std::ops::RangeInclusive;

use super::super::parameters::Parameters;
use super::super::stream::{self, Stream};
use super::common::{DURATION, ENTRIES, outcome};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::refuse::{inputs, within, wrong};
use crate::sweep::sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "stream",
    question: "Netperf over two Afterburners back to back: what rate do messages of one's own get, on \
        either stack?",
    inputs: include_str!("../../../plans/jetstream-stream.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        messages: Vec<ByteSize> => (ENTRIES, PROGRAM_MESSAGE),
        segments: Vec<ByteSize> => ENTRIES,
        stacks: Vec<String> => ENTRIES,
        socket_buffer: ByteSize,
        scaled_window: bool,
        duration: Duration => DURATION,
    }
}

pub const SINGLE_COPY: &str = "single-copy";
pub const CONVENTIONAL: &str = "conventional";
/// A message that a program sends in one call.
pub const PROGRAM_MESSAGE: RangeInclusive<ByteSize> =
    ByteSize::from_bytes(1)..=ByteSize::from_mib(16);
const BUFFER_MAX: ByteSize = ByteSize::from_mib(1);
/// Shorter ones make more events than a run of seconds can hold.
const SEGMENT_MIN: ByteSize = ByteSize::from_bytes(64);
/// Longest segment that one PDU holds with its headers.
const SEGMENT_MAX: ByteSize = ByteSize::from_kib(60);

/// The stack of that name.
pub fn stack(key: &str, name: &str) -> Result<Stack, SystemError> {
    match name {
        SINGLE_COPY => Ok(Stack::SingleCopy),
        CONVENTIONAL => Ok(Stack::Conventional),
        other => {
            let expected = format!("\"{SINGLE_COPY}\" or \"{CONVENTIONAL}\"");
            Err(wrong(key, format!("\"{other}\""), expected))
        }
    }
}

/// Whether a segment fits a block of the card, and a socket buffer holds three of them.
pub fn segment(
    parameters: &Parameters,
    key: &str,
    size: ByteSize,
    socket_buffer: ByteSize,
) -> Result<(), SystemError> {
    let longest = parameters.card.block.min(SEGMENT_MAX);
    within(key, size, SEGMENT_MIN..=longest)?;
    let least = ByteSize::from_bytes(3 * size.as_bytes());
    within("socket_buffer", socket_buffer, least..=BUFFER_MAX)
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let mut parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    for &size in &inputs.segments {
        segment(&parameters, "segments", size, inputs.socket_buffer)?;
    }
    for name in &inputs.stacks {
        stack("stacks", name)?;
    }
    parameters.benchmark.socket_buffer = inputs.socket_buffer;
    parameters.benchmark.duration = inputs.duration;
    Ok((parameters, inputs))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let mut streams = Vec::new();
    for name in &inputs.stacks {
        let stack = stack("stacks", name)?;
        for segment in &inputs.segments {
            streams.extend(inputs.messages.iter().map(|message| Stream {
                stack,
                segment_bytes: segment.as_bytes(),
                message_bytes: message.as_bytes(),
                scaled: inputs.scaled_window,
                recovers: true,
            }));
        }
    }
    let mut runs = sweep(setting, &streams, |&stream, packets| {
        stream::record(&parameters, stream, packets)
    });
    let taken = runs
        .iter_mut()
        .map(|(run, links)| (run.hash, std::mem::take(links)));
    let mut outcome = outcome(taken);
    let curves = streams.chunks(inputs.messages.len());
    for (streams, runs) in curves.zip(runs.chunks(inputs.messages.len())) {
        let first = streams[0];
        let name = match first.stack {
            Stack::SingleCopy => SINGLE_COPY,
            Stack::Conventional => CONVENTIONAL,
        };
        let mut table = Table::named(format!(
            "{name} stack, segments of {} B",
            first.segment_bytes
        ));
        for (stream, (run, _)) in streams.iter().zip(runs) {
            let elapsed = run.elapsed.as_ps() as f64;
            let busy = |time: Duration| time.as_ps() as f64 * 100.0 / elapsed;
            table.row([
                ("message", "B", stream.message_bytes.into()),
                ("rate", "MB/s", run.rate_mbytes_s().into()),
                ("sender busy", "%", busy(run.sender_busy).into()),
                ("receiver busy", "%", busy(run.receiver_busy).into()),
                ("written", "B", run.written_bytes.into()),
                ("read", "B", run.read_bytes.into()),
                ("sent again", "segments", run.sent_again.into()),
                ("timeouts", "", run.timeouts.into()),
            ]);
        }
        outcome.tables.push(table);
    }
    Ok(outcome)
}
