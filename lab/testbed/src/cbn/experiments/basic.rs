//! `ping` and `transmit`: the measurements of the paper, with inputs of one's own.

use barewire_formats::cbn::BODY_BYTES;
use barewire_units::Duration;
use serde::Deserialize;

use super::common::{mean_and_p99, run_all, take};
use super::inputs::{Condition, Length, POINTS_MAX, check_cells, run_on, stage};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::{Observed, Run};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::refuse::{each_within, few_points, list, within};

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PingInputs {
    cells: Vec<usize>,
    stages: Vec<usize>,
    conditions: Vec<Condition>,
    lengths: Vec<Length>,
    stations: u16,
    pings: usize,
}

/// A run, and what its row begins with.
struct Point {
    run: Run,
    names: Vec<Cell>,
}

fn ping_points(setting: &Setting<'_>) -> Result<Vec<Point>, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: PingInputs = setting.read_inputs()?;
    check_cells("cells", &inputs.cells)?;
    each_within(
        "stages",
        inputs.stages.iter().map(|&stage| stage as u64),
        0..=3,
    )?;
    list("conditions", &inputs.conditions, POINTS_MAX)?;
    list("lengths", &inputs.lengths, POINTS_MAX)?;
    within("pings", inputs.pings as u64, 2..=10_000)?;
    let rows = inputs.cells.len() * inputs.stages.len() * inputs.conditions.len();
    few_points(&[rows.saturating_mul(inputs.lengths.len())], POINTS_MAX)?;
    let mut points = Vec::new();
    for length in &inputs.lengths {
        let ring = run_on(&parameters, length, inputs.stations)?;
        for &number in &inputs.stages {
            for condition in &inputs.conditions {
                for &cells in &inputs.cells {
                    let run = ring.clone().cells(cells).stage(stage(number)?);
                    let mut run = run.interrupt_on(condition.interrupt_on());
                    run.blocks = inputs.pings;
                    run.packets_per_link = packets(setting, &points);
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

/// Only the first run is recorded.
fn packets(setting: &Setting<'_>, points: &[Point]) -> usize {
    if points.is_empty() {
        setting.packets_per_link
    } else {
        0
    }
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransmitInputs {
    cells: Vec<usize>,
    lengths: Vec<Length>,
    stations: u16,
    blocks: usize,
}

fn transmit_points(setting: &Setting<'_>) -> Result<Vec<Point>, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: TransmitInputs = setting.read_inputs()?;
    check_cells("cells", &inputs.cells)?;
    list("lengths", &inputs.lengths, POINTS_MAX)?;
    within("blocks", inputs.blocks as u64, 3..=10_000)?;
    few_points(
        &[inputs.cells.len().saturating_mul(inputs.lengths.len())],
        POINTS_MAX,
    )?;
    let mut points = Vec::new();
    for length in &inputs.lengths {
        let ring = run_on(&parameters, length, inputs.stations)?;
        for &cells in &inputs.cells {
            let mut run = ring.clone().cells(cells);
            run.blocks = inputs.blocks;
            run.packets_per_link = packets(setting, &points);
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
    let results = run_all(setting, points, |point| run(&point.run, setting.seed))?;
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
