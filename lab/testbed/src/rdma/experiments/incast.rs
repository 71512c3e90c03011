//! Many to one, and who else is in the way.

use barewire_units::{ByteSize, Duration};

use super::common::{LIST, MESSAGE, TIME, read, shape, times};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::rdma::parameters::Parameters;
use crate::rdma::runs::{self, INCAST as MANY, Run, SAME_HOST, SAME_LEAF, Shape, Times};
use crate::refuse::inputs;
use crate::sweep::sweep;

pub(in crate::rdma) const INCAST: Experiment = Experiment {
    name: "incast",
    question: "What do senders and ring size make of many hosts that send to one?",
    inputs: include_str!("../../../plans/rdma-incast.toml"),
    check: |setting| Inputs::of(setting, 1, 1023).map(drop),
    run: incast,
};

pub(in crate::rdma) const BYSTANDER: Experiment = Experiment {
    name: "bystander",
    question: "What does an incast cost those who send to others through the same switches?",
    inputs: include_str!("../../../plans/rdma-bystander.toml"),
    check: |setting| Inputs::of(setting, 0, 1020).map(drop),
    run: bystander,
};

inputs! {
    struct Inputs {
        senders: Vec<u32> => (LIST, 0..=1023),
        rings: Vec<ByteSize> => LIST,
        message: ByteSize => MESSAGE,
        jitter: Duration => super::common::JITTER,
        warm_up: Duration => TIME,
        time: Duration => TIME,
    }
}

type Points = Vec<(u32, Shape)>;

impl Inputs {
    fn of(
        setting: &Setting<'_>,
        least: u32,
        most: u32,
    ) -> Result<(Points, Parameters, Times), SystemError> {
        let (inputs, parameters): (Self, _) = read(setting)?;
        crate::refuse::each_within("senders", &inputs.senders, least..=most)?;
        let mut points = Vec::new();
        for &ring in &inputs.rings {
            for &senders in &inputs.senders {
                points.push((senders, shape(ring, inputs.message)?));
            }
        }
        let times = times(inputs.jitter, inputs.warm_up, inputs.time)?;
        Ok((points, parameters, times))
    }
}

fn runs(
    setting: &Setting<'_>,
    (points, parameters, times): (&Points, &Parameters, Times),
    bystanders: bool,
) -> Vec<Run> {
    sweep(setting, points, |&(senders, shape), _| {
        runs::incast(
            parameters,
            shape,
            (senders, bystanders),
            times,
            setting.seed,
        )
    })
}

fn kib(bytes: usize) -> f64 {
    bytes as f64 / 1024.0
}

fn incast(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (points, parameters, times) = Inputs::of(setting, 1, 1023)?;
    let found = runs(setting, (&points, &parameters, times), false);
    let mut outcome = Outcome::default();
    let mut table = Table::named("incast");
    for (&(senders, shape), run) in points.iter().zip(found) {
        // Ends are made in pairs: sender, receiver.
        let receivers = (0..senders as usize).map(|nth| 2 * nth + 1);
        table.row([
            ("senders", "", u64::from(senders).into()),
            ("ring", "KiB", kib(shape.ring_bytes).into()),
            (
                "credit, all",
                "KiB",
                (kib(shape.ring_bytes) * f64::from(senders)).into(),
            ),
            ("goodput", "Mbit/s", run.mbps(MANY, times).into()),
            ("p50", "us", run.latency_us(MANY, 500).into()),
            ("p99", "us", run.latency_us(MANY, 990).into()),
            ("max", "us", run.latency_us(MANY, 1000).into()),
            (
                "most in a switch",
                "KiB",
                (run.highest_bytes as f64 / 1024.0).into(),
            ),
            ("dropped", "", run.dropped.into()),
            ("sent again", "", run.repeated.into()),
            ("cards paused", "%", run.paused_percent[0].into()),
            ("switches paused", "%", run.paused_percent[1].into()),
            ("fairness", "", run.fairness(receivers).into()),
        ]);
        outcome.add_run(run.hash, []);
    }
    Ok(outcome.with([table]))
}

fn bystander(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (points, parameters, times) = Inputs::of(setting, 0, 1020)?;
    let found = runs(setting, (&points, &parameters, times), true);
    let mut outcome = Outcome::default();
    let mut table = Table::named("beside an incast");
    for ((senders, shape), run) in points.iter().zip(found) {
        table.row([
            ("senders", "", u64::from(*senders).into()),
            ("ring", "KiB", kib(shape.ring_bytes).into()),
            ("incast", "Mbit/s", run.mbps(MANY, times).into()),
            ("same host", "Mbit/s", run.mbps(SAME_HOST, times).into()),
            (
                "same host, p99",
                "us",
                run.latency_us(SAME_HOST, 990).into(),
            ),
            ("other host", "Mbit/s", run.mbps(SAME_LEAF, times).into()),
            (
                "other host, p99",
                "us",
                run.latency_us(SAME_LEAF, 990).into(),
            ),
            ("dropped", "", run.dropped.into()),
            ("cards paused", "%", run.paused_percent[0].into()),
            ("switches paused", "%", run.paused_percent[1].into()),
        ]);
        outcome.add_run(run.hash, []);
    }
    Ok(outcome.with([table]))
}
