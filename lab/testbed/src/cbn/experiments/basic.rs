//! `ping` and `transmit`: the measurements of the paper, with inputs of one's own.

use barewire_formats::cbn::BODY_BYTES;
use barewire_units::Duration;

use super::common::{mean_and_p99, take};
use super::inputs::{CELLS, CHOICES, Condition, Length, PINGS, POINTS_MAX, run_on, stage};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::{Observed, Run};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::refuse::{few_points, inputs};
use crate::sweep::try_sweep;

/// Round trips.
pub(super) const PING: Experiment = Experiment {
    name: "ping",
    question: "How long does a block take to another station and back, from process to process?",
    inputs: include_str!("../../../plans/cbn-ping.toml"),
    check: |setting| ping_points(setting).map(drop),
    run: ping,
};

/// Rates of a sender.
pub(super) const TRANSMIT: Experiment = Experiment {
    name: "transmit",
    question: "How fast can a program send blocks that nobody has to receive?",
    inputs: include_str!("../../../plans/cbn-transmit.toml"),
    check: |setting| transmit_points(setting).map(drop),
    run: transmit,
};

inputs! {
    struct PingInputs {
        cells: Vec<usize> => CELLS,
        stages: Vec<usize> => 0..=3,
        conditions: Vec<Condition> => CHOICES,
        lengths: Vec<Length> => CHOICES,
        stations: u16,
        pings: usize => PINGS,
    }
}

/// A run, and what its row begins with.
struct Point {
    run: Run,
    names: Vec<Cell>,
}

fn ping_points(setting: &Setting<'_>) -> Result<Vec<Point>, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: PingInputs = setting.checked_inputs()?;
    let choices = [inputs.conditions.len(), inputs.lengths.len()];
    let rows = [inputs.cells.len(), inputs.stages.len()];
    few_points(&[rows, choices].concat(), POINTS_MAX)?;
    let mut points = Vec::new();
    for length in &inputs.lengths {
        let ring = run_on(&parameters, length, inputs.stations)?;
        for &number in &inputs.stages {
            for condition in &inputs.conditions {
                for &cells in &inputs.cells {
                    let run = ring.clone().cells(cells).stage(stage(number)?);
                    let mut run = run.interrupt_on(condition.interrupt_on());
                    run.blocks = inputs.pings;
                    let names = vec![
                        cells.into(),
                        condition.name().into(),
                        number.into(),
                        length.name().into(),
                    ];
                    points.push(Point { run, names });
                }
            }
        }
    }
    Ok(points)
}

fn ping(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let columns = [
        ("block", "cells"),
        ("interrupt on", ""),
        ("stage", ""),
        ("ring", ""),
        ("frames", ""),
        ("round trip", "us"),
        ("round trip, p99", "us"),
        ("transfer rate", "Mbit/s"),
    ];
    let points = ping_points(setting)?;
    measure(
        setting,
        &points,
        Table::new("ping", &columns),
        |run, seed| {
            let observed = run.ping(seed)?;
            let times = observed.round_trips().split_off(1);
            Ok((observed, times, 2.0))
        },
    )
}

inputs! {
    struct TransmitInputs {
        cells: Vec<usize> => CELLS,
        lengths: Vec<Length> => CHOICES,
        stations: u16,
        blocks: usize => 3..=10_000,
    }
}

fn transmit_points(setting: &Setting<'_>) -> Result<Vec<Point>, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: TransmitInputs = setting.checked_inputs()?;
    few_points(&[inputs.cells.len(), inputs.lengths.len()], POINTS_MAX)?;
    let mut points = Vec::new();
    for length in &inputs.lengths {
        let ring = run_on(&parameters, length, inputs.stations)?;
        for &cells in &inputs.cells {
            let mut run = ring.clone().cells(cells);
            run.blocks = inputs.blocks;
            let names = vec![cells.into(), length.name().into()];
            points.push(Point { run, names });
        }
    }
    Ok(points)
}

fn transmit(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let columns = [
        ("block", "cells"),
        ("ring", ""),
        ("frames", ""),
        ("time of a block", "us"),
        ("time of a block, p99", "us"),
        ("transmit rate", "Mbit/s"),
    ];
    let points = transmit_points(setting)?;
    let table = Table::new("transmit", &columns);
    measure(setting, &points, table, |run, seed| {
        let observed = run.transmit(seed)?;
        let times = observed.periods();
        Ok((observed, times, 1.0))
    })
}

/// A row for each point: its names, frames, times, and the rate of a block in one of `ways`.
fn measure(
    setting: &Setting<'_>,
    points: &[Point],
    mut table: Table,
    run: impl Fn(&Run, u64) -> Result<(Observed, Vec<Duration>, f64), SystemError> + Sync,
) -> Result<Outcome, SystemError> {
    let results = try_sweep(setting, points, |point, packets| {
        run(&point.run.recorded(packets), setting.seed)
    })?;
    let mut outcome = Outcome::default();
    for (point, (mut observed, times, ways)) in points.iter().zip(results) {
        let (mean, p99) = mean_and_p99(&times);
        let bits = (point.run.cells * BODY_BYTES * 8) as f64;
        let rate = mean.map(|mean| ways * bits / mean);
        let mut row = point.names.clone();
        row.push(point.run.line.frames(point.run.rotation).into());
        row.extend([mean.into(), p99.into(), rate.into()]);
        table.rows.push(row);
        take(&mut outcome, &mut observed);
    }
    outcome.tables.push(table);
    Ok(outcome)
}
