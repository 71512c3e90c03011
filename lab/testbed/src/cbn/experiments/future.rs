//! `future`: what the paper forecast, each alone and together, on the sizes of Tables 1 and 3.
//!
//! | change | what it is |
//! |---|---|
//! | engine | copies a cell in 4 µs while the processor works on the next or the last, one each way |
//! | two processors | one for the program, one for the protocol ([`Processors::Two`]) |
//! | 1 GHz | the line of the design, and with it the station's memory; the rotation stays |
//!
//! Drivers wait for room in the transmit FIFO: with both the first two, a host is faster than its
//! share of the ring.

use barewire_formats::cbn::BODY_BYTES;
use barewire_models::cbn::{Copier, Processors};
use barewire_units::Duration;

use super::common::{mean_and_p99, take};
use super::inputs::{CELLS, CHOICES, Condition, PINGS, POINTS_MAX, TIME_MAX};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::Run;
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::refuse::{AboveZero, few_points, inputs};
use crate::sweep::try_sweep;

/// The forecasts.
pub(super) const FUTURE: Experiment = Experiment {
    name: "future",
    question: "What do the cell engine, a second processor and the 1 GHz line give, alone and \
               together?",
    inputs: include_str!("../../../plans/cbn-future.toml"),
    check: |setting| plan(setting).map(drop),
    run,
};

/// Engine, two processors, 1 GHz, for each column.
const CHANGES: [(&str, [bool; 3]); 8] = [
    ("as measured", [false, false, false]),
    ("engine", [true, false, false]),
    ("two processors", [false, true, false]),
    ("1 GHz", [false, false, true]),
    ("engine, two processors", [true, true, false]),
    ("engine, 1 GHz", [true, false, true]),
    ("two processors, 1 GHz", [false, true, true]),
    ("all three", [true, true, true]),
];

inputs! {
    struct Inputs {
        transmit_cells: Vec<usize> => CELLS,
        ping_cells: Vec<usize> => CELLS,
        conditions: Vec<Condition> => CHOICES,
        pings: usize => PINGS,
        time: Duration => AboveZero(TIME_MAX),
    }
}

#[derive(Clone, Copy)]
enum Measured {
    /// The rate in the second half of a time: a FIFO may take half of it to fill.
    Rate(Duration),
    RoundTrip,
}

struct Point {
    run: Run,
    measured: Measured,
}

struct Plan {
    /// Name, unit of the values and sizes of each table.
    tables: Vec<(String, &'static str, Vec<usize>)>,
    /// Size by size and change by change, table by table.
    points: Vec<Point>,
}

fn plan(setting: &Setting<'_>) -> Result<Plan, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    let pings = inputs
        .ping_cells
        .len()
        .saturating_mul(inputs.conditions.len());
    let rows = inputs.transmit_cells.len().saturating_add(pings);
    few_points(&[rows.saturating_mul(CHANGES.len())], POINTS_MAX)?;
    let mut plan = Plan {
        tables: Vec::new(),
        points: Vec::new(),
    };
    let base = Run::new(&parameters);
    let sent = (
        "transmit rate, Mbit/s".to_owned(),
        "Mbit/s",
        inputs.transmit_cells,
    );
    plan.add(&base, &parameters, sent, Measured::Rate(inputs.time));
    for condition in inputs.conditions {
        let mut run = base.clone().interrupt_on(condition.interrupt_on());
        run.blocks = inputs.pings;
        let name = format!("ping round trip, us, interrupt on {}", condition.name());
        let trips = (name, "us", inputs.ping_cells.clone());
        plan.add(&run, &parameters, trips, Measured::RoundTrip);
    }
    Ok(plan)
}

impl Plan {
    fn add(
        &mut self,
        base: &Run,
        parameters: &Parameters,
        table: (String, &'static str, Vec<usize>),
        measured: Measured,
    ) {
        for &cells in &table.2 {
            for (_, change) in CHANGES {
                let run = changed(base, parameters, change).cells(cells);
                self.points.push(Point { run, measured });
            }
        }
        self.tables.push(table);
    }
}

fn changed(base: &Run, parameters: &Parameters, change: [bool; 3]) -> Run {
    let [engine, two, fast] = change;
    let mut run = base.clone();
    run.waits_for_room = true;
    if engine {
        run.copier = Copier::Engine(parameters.future.engine_cell);
        run.transmit_copier = run.copier;
    }
    if two {
        let hand_over = parameters.future.hand_over;
        run.processors = Processors::Two { hand_over };
    }
    if fast {
        run.line = parameters.fast_line();
    }
    run
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let Plan { tables, points } = plan(setting)?;
    let results = try_sweep(setting, &points, |point, packets| match point.measured {
        Measured::Rate(time) => {
            let observed = point
                .run
                .recorded(packets)
                .transmit_for(setting.seed, time)?;
            let bits = (point.run.cells * BODY_BYTES * 8) as f64;
            let period_us = mean_and_p99(&observed.periods()).0;
            Ok((observed, period_us.map(|us| bits / us)))
        }
        Measured::RoundTrip => {
            let observed = point.run.recorded(packets).ping(setting.seed)?;
            let trip_us = mean_and_p99(&observed.round_trips().split_off(1)).0;
            Ok((observed, trip_us))
        }
    })?;
    let mut outcome = Outcome::default();
    let mut results = results.into_iter();
    for (name, unit, sizes) in tables {
        let mut columns = vec![("block", "cells")];
        columns.extend(CHANGES.map(|(change, _)| (change, unit)));
        let mut table = Table::new(name, &columns);
        for cells in sizes {
            let mut row: Vec<Cell> = vec![cells.into()];
            for (mut observed, value) in results.by_ref().take(CHANGES.len()) {
                take(&mut outcome, &mut observed);
                row.push(value.into());
            }
            table.rows.push(row);
        }
        outcome.tables.push(table);
    }
    Ok(outcome)
}
