//! Why 1x3 does not follow its settings at full rate: the same runs with one thing changed,
//! and 1x1 beside them.
//!
//! What the model says: at full rate the three settings together are more than a PC500 can
//! send. Its processor is busy all the time, with copies and with the traffic control
//! itself; the buckets fill faster than they are emptied, so they shape nothing, and the
//! destinations share what the source gives. Take the traffic control's cost away, and the
//! 32-bit PCI is the limit. Neither the ticks nor the wake-ups change anything; a source
//! with a faster memory and a 64-bit PCI follows the settings. A bucket too shallow for
//! the ticks would fail too, but with one destination as well, and that was seen to work.

use barewire_models::parameters::Cycles;
use barewire_units::{ByteSize, Rate};

use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting};
use crate::kek::host::{Host, Width};
use crate::kek::parameters::Parameters;
use crate::kek::plan::{self, JUMBO, ONE_TO_THREE, Plan};
use crate::kek::world::{Run, run};
use crate::refuse::{AtMost, inputs, names, wrong};
use crate::sweep::try_sweep;

/// The experiment as a plan names it.
pub const FULL_RATE: Experiment = Experiment {
    name: "full-rate",
    question: "why did one source with three destinations not follow its settings at full rate?",
    inputs: include_str!("../../../plans/kek-full-rate.toml"),
    check: |setting| prepare(setting).map(drop),
    run: answer,
};

names! {
    /// What is different from the paper's experiment.
    enum Change {
        Nothing = "nothing",
        Shallow = "shallow buckets",
        ShallowTicks = "shallow buckets, woken by ticks alone",
        FastTicks = "ticks at 1000 Hz",
        Ticks = "woken by ticks alone",
        FreeControl = "traffic control for nothing",
        FreeCopies = "copies for nothing",
        FastSource = "PC733 with 64-bit PCI as the source",
    }
}

inputs! {
    struct Inputs {
        settings: Vec<Rate> => (LIST, Rate::from_mbps(1)..=Rate::from_gbps(1)),
        destinations: Vec<usize> => (LIST, 1..=3),
        changes: Vec<Change> => LIST,
        shallow_bucket: ByteSize => ByteSize::from_bytes(FRAME_BYTES)..=ByteSize::from_mib(100),
    }
}

/// Values of a list.
const LIST: AtMost = AtMost(100);
/// A jumbo frame, which a bucket has to hold.
const FRAME_BYTES: u64 = 9_014;

/// A run.
#[derive(Clone, Copy, Debug)]
struct Point {
    change: Change,
    destinations: usize,
    setting: Rate,
}

fn prepare(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    Ok((parameters, inputs))
}

/// 1x1 and 1x3 with each setting, as in the paper and with one thing changed at a time.
fn answer(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = prepare(setting)?;
    let mut points = Vec::new();
    for &change in &inputs.changes {
        for &destinations in &inputs.destinations {
            points.extend(inputs.settings.iter().map(|&setting| Point {
                change,
                destinations,
                setting,
            }));
        }
    }
    let runs = try_sweep(setting, &points, |point, packets| {
        changed(&parameters, &inputs, point, setting.seed, packets)
    })?;
    let mut outcome = Outcome::default();
    for (point, run) in points.iter().zip(runs) {
        let name = point.change.name();
        let farthest = worst_over_set(&run, point.setting);
        let together: f64 = run.mbps.iter().sum();
        let streams = format!("1x{}, {} each", point.destinations, point.setting);
        outcome.table(name).row([
            ("streams", "", streams.into()),
            ("rate of the farthest", "of the setting", farthest.into()),
            ("all together", "Mbit/s", together.into()),
            ("source busy", "%", run.busy_per_cent(0).into()),
        ]);
        outcome.add_run(run.hash, run.links);
    }
    Ok(outcome)
}

fn changed(
    parameters: &Parameters,
    inputs: &Inputs,
    point: &Point,
    seed: u64,
    packets_per_link: usize,
) -> Result<Run, SystemError> {
    let (parameters, plan) = with_change(parameters, inputs, point);
    run(&parameters, &plan.recorded(packets_per_link), seed)
}

/// The first run.
pub fn first(setting: &Setting<'_>) -> Result<(Parameters, Plan), SystemError> {
    let (parameters, inputs) = prepare(setting)?;
    let none = || {
        wrong(
            "changes, destinations, settings",
            "none",
            "one each at least",
        )
    };
    let point = Point {
        change: *inputs.changes.first().ok_or_else(none)?,
        destinations: *inputs.destinations.first().ok_or_else(none)?,
        setting: *inputs.settings.first().ok_or_else(none)?,
    };
    Ok(with_change(&parameters, &inputs, &point))
}

fn with_change(parameters: &Parameters, inputs: &Inputs, point: &Point) -> (Parameters, Plan) {
    let mut parameters = parameters.clone();
    let streams = &ONE_TO_THREE[..point.destinations];
    let mut plan = Plan::builder(&parameters, streams, Some(point.setting));
    let kernel = &mut parameters.kernel;
    match point.change {
        Change::Nothing => {}
        Change::Shallow => plan.bucket = Some(inputs.shallow_bucket),
        Change::ShallowTicks => {
            plan.bucket = Some(inputs.shallow_bucket);
            kernel.woken_by_traffic = false;
        }
        Change::FastTicks => kernel.tick_hz = 1_000,
        Change::Ticks => kernel.woken_by_traffic = false,
        Change::FreeControl => {
            kernel.shaping_enqueue = Cycles(0);
            kernel.shaping_dequeue = Cycles(0);
        }
        Change::FreeCopies => {
            for host in parameters.hosts.values_mut() {
                host.copy = Rate::from_gbps(1_000);
            }
        }
        Change::FastSource => plan.hosts[0] = (Host::Pc733, Width::Bits64),
    }
    (parameters, plan)
}

/// The rate of the stream that is farthest from its setting, over that setting. The bucket
/// counts Ethernet, IP and TCP headers, the program does not.
pub fn worst_over_set(run: &Run, set: Rate) -> f64 {
    let expected = plan::payload_mbps(set, JUMBO);
    let ratios = run.mbps.iter().map(|mbps| mbps / expected);
    ratios.fold(1.0, |worst: f64, ratio| {
        if (ratio - 1.0).abs() > (worst - 1.0).abs() {
            ratio
        } else {
            worst
        }
    })
}
