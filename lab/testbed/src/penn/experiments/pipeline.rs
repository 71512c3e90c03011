//! `pipeline`: segmenter and reassembler as clocked pipelines, with a host that is not in
//! their way: one block, as long as one likes, streams from the user's pages.

use barewire_models::penn::Path;
use barewire_units::{ByteSize, Duration, Rate};

use super::common::{BLOCK_MAX, POINTS_MAX};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::penn::parameters::Parameters;
use crate::penn::program::Program;
use crate::penn::world::{Flow, Observed, observe};
use crate::refuse::{few_points, inputs, up_to, up_to_time};
use crate::sweep::sweep;

pub const PIPELINE: Experiment = Experiment {
    name: "pipeline",
    question: "What do segmenter and reassembler carry, by line, bus, clock and cell managers?",
    inputs: include_str!("../../../plans/penn-pipeline.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

/// Slowest and fastest line.
const RATES: std::ops::RangeInclusive<Rate> = Rate::from_mbps(1)..=Rate::from_gbps(1_000);
/// Longest time of a cycle or a pause.
const TIME_MAX: Duration = Duration::from_ms(1);
/// Most cell managers.
const MANAGERS_MAX: usize = 64;

inputs! {
    struct Inputs {
        lines: Vec<Rate> => RATES,
        reloads: Vec<Duration> => up_to_time(TIME_MAX),
        clocks: Vec<Duration> => Duration::from_ps(1)..=TIME_MAX,
        managers: Vec<usize> => 1..=MANAGERS_MAX,
        block: ByteSize => up_to(BLOCK_MAX),
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let mut parameters = Parameters::parse(setting.parameters)?;
    few_points(
        &[
            inputs.lines.len(),
            inputs.reloads.len(),
            inputs.clocks.len(),
            inputs.managers.len(),
        ],
        POINTS_MAX,
    )?;
    // One transfer, so that the host has nothing to do while it goes on.
    parameters.driver.buffer = inputs.block;
    Ok((parameters, inputs))
}

/// The combinations, in the order of rows.
fn combinations(parameters: &Parameters, inputs: &Inputs) -> Vec<Parameters> {
    let mut all = Vec::new();
    for &line in &inputs.lines {
        for &reload in &inputs.reloads {
            for &clock in &inputs.clocks {
                for &managers in &inputs.managers {
                    let mut changed = parameters.clone();
                    changed.line.rate = line;
                    changed.bus.reload = reload;
                    changed.clock.cycle = clock;
                    changed.reassembler.managers = managers;
                    all.push(changed);
                }
            }
        }
    }
    all
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let all = combinations(&parameters, &inputs);
    let points = sweep(setting, &all, |changed, packets| {
        let program = Program::new(inputs.block.as_bytes(), 1, None);
        observe(changed, Path::Trust, program, packets)
    });
    let mut table = Table::named("pipeline");
    for (changed, point) in all.iter().zip(&points) {
        let [bus, sent, stored] = [point.run.bus, point.run.cells, point.run.stored].map(mbps);
        table.row([
            ("cell managers", "", changed.reassembler.managers.into()),
            (
                "clock",
                "ns",
                (changed.clock.cycle.as_ps() as f64 * 1e-3).into(),
            ),
            ("reload", "us", super::common::us(changed.bus.reload).into()),
            (
                "line",
                "Mbit/s",
                (changed.line.rate.as_bps() as f64 * 1e-6).into(),
            ),
            ("bus", "Mbit/s", bus),
            ("cells sent", "Mbit/s", sent),
            ("cells stored", "Mbit/s", stored),
            ("cells", "", point.run.cells.number().into()),
            ("lost", "%", lost_per_cent(point).into()),
            ("line to buffer", "us", point.latency.mean_us().into()),
            ("line to buffer, p99", "us", point.latency.p99_us().into()),
        ]);
    }
    let mut outcome = Outcome::default();
    for point in points {
        outcome.mix_run(point.run.hash, point.capture);
    }
    Ok(outcome.with([table]))
}

/// Nothing of fewer than two.
pub(super) fn mbps(flow: Flow) -> Cell {
    (flow.bps() / 1e6).into()
}

pub(super) fn lost_per_cent(point: &Observed) -> f64 {
    point.run.lost_cells as f64 * 100.0 / point.run.cells.number() as f64
}
