//! `duplex`: both stations send streams at once.
//!
//! The memory of a V1S is single-ported: ring and processor share it, in both directions, and
//! in the time of a frame the station sends or receives. A full-duplex station has a memory for each
//! direction. What that is worth depends on who else is the limit, so the hosts are made
//! faster step by step. Drivers wait for room in the transmit FIFO here: a host that is faster
//! than its station would else lose most of what it writes.

use barewire_models::cbn::{Duplex, Program};
use barewire_units::Duration;

use super::common::take;
use super::inputs::{CELLS, CHOICES, Condition, Length, POINTS_MAX, TIME_MAX, run_on};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::{Observed, Run, Until};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting};
use crate::refuse::{AboveZero, few_points, inputs};
use crate::sweep::try_sweep;

/// Streams both ways.
pub(super) const DUPLEX: Experiment = Experiment {
    name: "duplex",
    question: "What do two streams in opposite directions cost each other, and how much of it is \
               the single-ported memory?",
    inputs: include_str!("../../../plans/cbn-duplex.toml"),
    check: |setting| points(setting).map(drop),
    run,
};

inputs! {
    struct Inputs {
        cells: usize => CELLS,
        times_faster: Vec<u64> => 1..=1000,
        conditions: Vec<Condition> => CHOICES,
        length: Length,
        time: Duration => AboveZero(TIME_MAX),
    }
}

struct Point {
    condition: Condition,
    times_faster: u64,
    run: Run,
    time: Duration,
}

fn points(setting: &Setting<'_>) -> Result<Vec<Point>, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    let lengths = [inputs.times_faster.len(), inputs.conditions.len()];
    few_points(&lengths, POINTS_MAX)?;
    let mut ring = run_on(&parameters, &inputs.length, 2)?.cells(inputs.cells);
    ring.waits_for_room = true;
    let mut points = Vec::new();
    for &condition in &inputs.conditions {
        for &times_faster in &inputs.times_faster {
            let mut run = ring.clone().interrupt_on(condition.interrupt_on());
            run.costs = run.costs.faster(times_faster);
            points.push(Point {
                condition,
                times_faster,
                run,
                time: inputs.time,
            });
        }
    }
    Ok(points)
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let points = points(setting)?;
    let results = try_sweep(setting, &points, |point, packets| {
        let both = streams(
            &point.run.recorded(packets),
            setting.seed,
            point.time,
            usize::MAX,
        )?;
        // Only both ways are recorded.
        let mut run = point.run.clone();
        let one = streams(&run, setting.seed, point.time, 0)?;
        run.duplex = Duplex::Full;
        let full = streams(&run, setting.seed, point.time, usize::MAX)?;
        Ok([both, one, full])
    })?;
    let mut outcome = Outcome::default();
    for (point, mut results) in points.iter().zip(results) {
        let name = format!("two streams, interrupt on {}", point.condition.name());
        let [both, one, full] = &results;
        let (half_mbps, full_mbps) = (each_way(both), each_way(full));
        let cells_lost: u64 = results.iter().map(lost).sum();
        let costs_per_cent = 100.0 * (1.0 - half_mbps / full_mbps);
        outcome.table(&name).row([
            ("host, times faster", "", point.times_faster.into()),
            ("one way alone", "Mbit/s", one.received_mbps(1).into()),
            ("each way, half-duplex", "Mbit/s", half_mbps.into()),
            ("each way, full-duplex", "Mbit/s", full_mbps.into()),
            ("the memory costs", "%", costs_per_cent.into()),
            ("cells lost", "", cells_lost.into()),
        ]);
        for observed in &mut results {
            take(&mut outcome, observed);
        }
    }
    Ok(outcome)
}

/// Node 0 sends all the time, node 1 so many blocks.
fn streams(run: &Run, seed: u64, time: Duration, back: usize) -> Result<Observed, SystemError> {
    let block_bytes = run.block_bytes();
    let programs = [usize::MAX, back].map(|blocks| Program::Transmit {
        blocks,
        block_bytes,
    });
    run.run(seed, programs, Until::Time(time))
}

fn each_way(observed: &Observed) -> f64 {
    (observed.received_mbps(0) + observed.received_mbps(1)) / 2.0
}

fn lost(observed: &Observed) -> u64 {
    let stations = observed.sides.iter().map(|side| side.station);
    stations
        .map(|stats| stats.transmit_overflows + stats.receive_overflows)
        .sum()
}
