//! Jetstream and Afterburner: the timed token on the ring of the paper, the waits in a
//! switch, and netperf between two hosts, each run as events.
//!
//! | experiment | what runs | what is measured |
//! |---|---|---|
//! | idle ring | 16 cards, 1 km, nothing to send | the token once round |
//! | overrun | an idle ring, then a host fills its token time and begins the longest frame | rotation beyond TTRT |
//! | T_synch | the same, and all synchronous allotments used; their sum is varied | largest sum with the token back in time |
//! | synchronous access | the same with the allotments that the ring admits, from each host | offer to first bit |
//! | asynchronous access | everybody always has a frame | end of a host's frame to its next |
//! | token loss | tokens are lost on the line | loss to notice, loss to the next token |
//! | switch | large frames and priority frames to one port | whole to first bit out |
//! | stream | netperf over the single-copy stack, by size of message and segment | bytes read in the time |
//!
//! The worst loads are directed ones: found by arithmetic, then run. [`sweep`] gives the rate
//! of a stream against the size of its messages, on either stack. What a plan can ask besides
//! stands in `experiments`. Source: jet93.

mod cells;
mod emulation;
pub(crate) mod experiments;
mod joined;
pub(crate) mod lan;
pub(crate) mod load;
pub(crate) mod net;
pub(crate) mod parameters;
mod ring;
mod rotation;
mod segment;
mod stream;
mod tcp;
pub(crate) mod traffic;
mod wait;

use barewire_models::afterburner::Stack;
use barewire_models::jetstream::Division;
use barewire_units::{ByteSize, Duration, Rate, Rng};

use crate::emulation::{Emulated, Wanted};
use crate::error::SystemError;
use crate::experiment::{Experiment, Setting};
use crate::figures::seconds;
use crate::replicate::replicate;
use crate::reproduction::Reproduction;
use crate::system::Finding;
use parameters::Parameters;
use stream::{Outcome, Stream};

/// Jetstream and Afterburner.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "jetstream"
    }

    fn parameters(&self) -> &'static str {
        parameters::TEXT
    }

    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(reproduce(&Parameters::parse(parameters)?, seed)?.findings)
    }

    fn experiments(&self) -> &'static [Experiment] {
        &experiments::ALL
    }

    fn emulate(
        &self,
        experiment: &str,
        setting: &Setting<'_>,
        wanted: &Wanted,
    ) -> Result<Box<dyn Emulated>, SystemError> {
        let made = match experiment {
            "switch" => experiments::switch::emulated(setting, wanted)?,
            "interworking" => experiments::interworking::emulated(setting, wanted)?,
            _ => experiments::emulated::emulated(setting, wanted)?,
        };
        Ok(Box::new(emulation::Emulation::new(
            made,
            setting.seed,
            wanted,
        )?))
    }
}

fn reproduce(parameters: &Parameters, seed: u64) -> Result<Reproduction, SystemError> {
    let rng = Rng::from_seed(seed);
    let mut found = Reproduction::default();
    rotation::measure(&parameters.ring, &rng, &mut found)?;
    switch(parameters, &rng, &mut found);
    afterburner(parameters, &mut found);
    Ok(found)
}

/// A priority frame behind the largest frame. The bus is as fast as all channels.
fn switch(parameters: &Parameters, rng: &Rng, found: &mut Reproduction) {
    let (fitted, nominal) = (parameters.switch.channel, parameters.switch.nominal);
    let runs: [(&str, Division, Rate); 4] = [
        ("space", Division::Space, fitted),
        ("bus", Division::Bus, fitted),
        ("space, 1 Gbit/s", Division::Space, nominal),
        ("bus, 8 Gbit/s", Division::Bus, nominal),
    ];
    for (row, division, channel) in runs {
        let config = parameters.switch(division, channel);
        let (wait, hash) = wait::longest_wait(config, rng.fork("switch"));
        found.add_us("switch", row, "longest wait", wait);
        found.hashes.push(hash);
    }
}

/// The messages of the paper's mean: multiples of the step.
fn mean_sizes(parameters: &Parameters) -> Vec<u64> {
    let benchmark = &parameters.benchmark;
    let step = benchmark.step.as_bytes();
    let first = benchmark.mean_from.as_bytes().div_ceil(step);
    let last = benchmark.mean_to.as_bytes() / step;
    let sizes = (first..=last).map(|steps| steps * step);
    sizes.step_by(benchmark.mean_stride).collect()
}

fn afterburner(parameters: &Parameters, found: &mut Reproduction) {
    let sizes = mean_sizes(parameters);
    let benchmark = &parameters.benchmark;
    let segments = [benchmark.segment, benchmark.short_segment].map(ByteSize::as_bytes);
    let runs = replicate(2 * sizes.len(), |index| {
        let stream = Stream {
            stack: Stack::SingleCopy,
            segment_bytes: segments[index / sizes.len()],
            message_bytes: sizes[index % sizes.len()],
            scaled: true,
            recovers: false,
        };
        stream::run(parameters, stream)
    });
    let (long, short) = runs.split_at(sizes.len());
    let mean = |runs: &[Outcome]| {
        let sum: f64 = runs.iter().map(Outcome::rate_mbytes_s).sum();
        sum / runs.len() as f64
    };
    let best = long.iter().map(Outcome::rate_mbytes_s).fold(0.0, f64::max);
    let gain = mean(long) / mean(short);
    let row = "messages of 4 KB and more";
    found.add("afterburner", row, "mean rate", "MB/s", mean(long));
    found.add("afterburner", row, "highest rate", "MB/s", best);
    found.add(
        "afterburner",
        "14 KB over 6 KB segments",
        "rate ratio",
        "ratio",
        gain,
    );
    let copy = copy_alone(parameters);
    let rate = copy.rate_mbytes_s();
    found.add(
        "afterburner",
        "card to memory",
        "peak copy rate",
        "MB/s",
        rate,
    );
    found.hashes.push(copy.hash);
    found.hashes.extend(runs.iter().map(|run| run.hash));
}

/// A stream in which nothing but the block mover takes time.
fn copy_alone(parameters: &Parameters) -> Outcome {
    let mut idle = parameters.clone();
    let host = &mut idle.host;
    for cost in [
        &mut host.system_call,
        &mut host.context_switch,
        &mut host.interrupt,
        &mut host.segment_output,
        &mut host.segment_input,
        &mut host.acknowledgement_output,
        &mut host.acknowledgement_input,
        &mut host.store,
        &mut host.purge,
    ] {
        *cost = Duration::ZERO;
    }
    let segment_bytes = parameters.benchmark.segment.as_bytes();
    let stream = Stream {
        stack: Stack::SingleCopy,
        segment_bytes,
        message_bytes: segment_bytes,
        scaled: true,
        recovers: false,
    };
    stream::run(&idle, stream)
}

/// One point of the curve of rate against message size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// The stack.
    pub stack: Stack,
    /// Longest segment.
    pub segment_bytes: u64,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// What the receiving program read, MB/s of 1e6 bytes.
    pub rate_mbytes_s: f64,
    /// How much of the time the sending processor was busy, per cent.
    pub sender_busy_per_cent: f64,
    /// The same of the receiving one.
    pub receiver_busy_per_cent: f64,
}

/// Runs a stream for each stack, each of the two segment sizes and each message size.
///
/// # Errors
///
/// Parameters that cannot be used, or a message of no bytes.
pub fn sweep(parameters: &str, message_bytes: &[u64]) -> Result<Vec<SweepPoint>, SystemError> {
    let parameters = Parameters::parse(parameters)?;
    if message_bytes.contains(&0) {
        return Err(SystemError::Contradiction("a message of no bytes".into()));
    }
    let benchmark = &parameters.benchmark;
    let segments = [benchmark.segment, benchmark.short_segment].map(ByteSize::as_bytes);
    let mut streams = Vec::new();
    for stack in [Stack::SingleCopy, Stack::Conventional] {
        for segment_bytes in segments {
            streams.extend(message_bytes.iter().map(|bytes| Stream {
                stack,
                segment_bytes,
                message_bytes: *bytes,
                scaled: true,
                recovers: false,
            }));
        }
    }
    let point = |index: usize| {
        let stream: Stream = streams[index];
        let run = stream::run(&parameters, stream);
        let busy = |time: Duration| seconds(time) / seconds(run.elapsed) * 100.0;
        SweepPoint {
            stack: stream.stack,
            segment_bytes: stream.segment_bytes,
            message_bytes: stream.message_bytes,
            rate_mbytes_s: run.rate_mbytes_s(),
            sender_busy_per_cent: busy(run.sender_busy),
            receiver_busy_per_cent: busy(run.receiver_busy),
        }
    };
    Ok(replicate(streams.len(), point))
}

#[cfg(test)]
mod tests;
