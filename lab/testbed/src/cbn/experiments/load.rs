//! `load`: pings and streams on a ring that is loaded with false traffic.
//!
//! Two stations opposite each other are measured; all others send false traffic, at random
//! and with as much as they offer, queueing what does not find a slot. It passes by all
//! stations, on every channel, or it goes to the station that answers, whose driver takes it
//! like any cell and throws it away.
//!
//! A point is two runs of the same time: pings, each given up when patience is over, and a
//! stream of blocks in one direction, which nothing holds back. Cells of the stream are lost
//! before the ring, in the sender's transmit FIFO, or behind it, at the receive FIFO.

use barewire_models::cbn::{Copier, Duplex, Processors, Program};
use barewire_units::Duration;

use super::common::{mean_and_p99, take};
use super::inputs::{
    CELLS, Condition, FullFifo, LOADED_STATIONS, Length, POINTS_MAX, SHARE, SHARES, TIME_MAX,
    run_on, stage,
};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::{Load, Observed, Run, Towards, Until};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::refuse::{AboveZero, few_points, inputs};
use crate::sweep::try_sweep;

/// The ring under load.
pub(super) const LOAD: Experiment = Experiment {
    name: "load",
    question: "What do round trip and throughput become on a ring loaded with false traffic?",
    inputs: include_str!("../../../plans/cbn-load.toml"),
    check: |setting| plan(setting).map(drop),
    run,
};

inputs! {
    struct Inputs {
        cells: usize => CELLS,
        stage: usize,
        condition: Condition,
        length: Length,
        stations: Vec<u16> => LOADED_STATIONS,
        passing: Vec<f64> => SHARES,
        addressed: Vec<f64> => SHARES,
        changes_at: f64 => SHARE,
        full_fifo: FullFifo,
        patience: Duration => AboveZero(TIME_MAX),
        time: Duration => AboveZero(TIME_MAX),
    }
}

struct Point {
    table: usize,
    name: Cell,
    run: Run,
}

struct Plan {
    tables: Vec<Table>,
    points: Vec<Point>,
    patience: Duration,
    time: Duration,
}

const MEASURED: [(&str, &str); 10] = [
    ("load carried", "of the ring"),
    ("ping", "us"),
    ("ping, p99", "us"),
    ("pings sent", ""),
    ("pings not back", ""),
    ("stream", "Mbit/s"),
    ("stream cells sent", ""),
    ("lost before the ring", ""),
    ("lost behind it", ""),
    ("blocks spoilt", ""),
];

fn table(name: String, varied: (&str, &str)) -> Table {
    let mut columns = vec![varied];
    columns.extend(MEASURED);
    Table::new(name, &columns)
}

fn of_loaders(count: u16) -> String {
    match count {
        1 => "1 station".to_owned(),
        count => format!("{count} stations"),
    }
}

fn plan(setting: &Setting<'_>) -> Result<Plan, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    let each = inputs.passing.len() + inputs.addressed.len();
    few_points(
        &[each.saturating_mul(inputs.stations.len()).saturating_add(6)],
        POINTS_MAX,
    )?;

    let mut plan = Plan {
        tables: Vec::new(),
        points: Vec::new(),
        patience: inputs.patience,
        time: inputs.time,
    };
    let kinds = [
        (Towards::Nobody, "passing by", &inputs.passing),
        (
            Towards::Node1,
            "to the station that answers",
            &inputs.addressed,
        ),
    ];
    for (towards, name, shares) in kinds {
        for &stations in &inputs.stations {
            let mut run = run_on(&parameters, &inputs.length, stations)?;
            run = run.cells(inputs.cells).stage(stage(inputs.stage)?);
            run = run.interrupt_on(inputs.condition.interrupt_on());
            run.waits_for_room = inputs.full_fifo == FullFifo::Wait;
            let title = format!("{name}, from {}", of_loaders(stations - 2));
            plan.tables
                .push(table(title, ("load offered", "of the ring")));
            for &share in shares {
                let mut run = run.clone();
                run.load = Load { share, towards };
                plan.push(share.into(), run);
            }
        }
    }
    plan.push_changes(&parameters, &inputs)?;
    Ok(plan)
}

impl Plan {
    fn push(&mut self, name: Cell, run: Run) {
        let table = self.tables.len() - 1;
        self.points.push(Point { table, name, run });
    }

    /// The addressed load once more, with one part of the station changed at a time.
    fn push_changes(
        &mut self,
        parameters: &Parameters,
        inputs: &Inputs,
    ) -> Result<(), SystemError> {
        let stations = inputs.stations.iter().copied().max().unwrap_or(3);
        let mut run = run_on(parameters, &inputs.length, stations)?;
        run = run.cells(inputs.cells).stage(stage(inputs.stage)?);
        run = run.interrupt_on(inputs.condition.interrupt_on());
        run.waits_for_room = inputs.full_fifo == FullFifo::Wait;
        run.load = Load {
            share: inputs.changes_at,
            towards: Towards::Node1,
        };
        let title = format!(
            "{} of the ring to the station that answers, from {}",
            inputs.changes_at,
            of_loaders(stations - 2)
        );
        self.tables.push(table(title, ("changed", "")));
        self.push("nothing".into(), run.clone());
        let mut full = run.clone();
        full.duplex = Duplex::Full;
        self.push("a memory each way".into(), full);
        let mut engine = run.clone();
        engine.copier = Copier::Engine(parameters.future.engine_cell);
        self.push("engine copies what comes".into(), engine);
        let hand_over = parameters.future.hand_over;
        run.processors = Processors::Two { hand_over };
        self.push("a processor for the protocol".into(), run);
        Ok(())
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let Plan {
        mut tables,
        points,
        patience,
        time,
    } = plan(setting)?;
    let results = try_sweep(setting, &points, |point, packets| {
        let block_bytes = point.run.block_bytes();
        let blocks = usize::MAX;
        let ping = Program::Ping {
            blocks,
            block_bytes,
            patience: Some(patience),
        };
        let stream = Program::Transmit {
            blocks,
            block_bytes,
        };
        let until = Until::Time(time);
        // Only the pings are recorded.
        let recorded = point.run.recorded(packets);
        let pings = recorded.run(setting.seed, [ping, Program::Echo], until)?;
        // A receiver that answers nothing: it is the other end of a transmission.
        let sink = Program::Transmit {
            blocks: 0,
            block_bytes,
        };
        let stream = point.run.run(setting.seed, [stream, sink], until)?;
        Ok([pings, stream])
    })?;
    let mut outcome = Outcome::default();
    for (point, [mut pings, mut stream]) in points.iter().zip(results) {
        let mut row = vec![point.name.clone()];
        row.extend(measured(&pings, &stream));
        tables[point.table].rows.push(row);
        take(&mut outcome, &mut pings);
        take(&mut outcome, &mut stream);
    }
    outcome.tables = tables;
    Ok(outcome)
}

/// The columns of [`MEASURED`].
fn measured(pings: &Observed, stream: &Observed) -> [Cell; MEASURED.len()] {
    let trips = pings.round_trips();
    let (mean, p99) = mean_and_p99(&trips);
    // The last one may still be under way.
    let not_back = pings.calls().saturating_sub(trips.len() + 1);
    let [sender, receiver] = &stream.sides;
    [
        pings.false_share().into(),
        mean.into(),
        p99.into(),
        pings.calls().into(),
        not_back.into(),
        stream.received_mbps(1).into(),
        sender.station.transmitted.into(),
        sender.station.transmit_overflows.into(),
        receiver.circuit.overflows.into(),
        receiver.msdl.blocks_failed.into(),
    ]
}
