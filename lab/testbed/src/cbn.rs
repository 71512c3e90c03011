//! The Cambridge Backbone Network, measured as in its paper.
//!
//! | table | what runs | what is measured |
//! |---|---|---|
//! | 1 | a program sends block after block to a station that only counts | bits of the blocks by the time from call to call |
//! | 2 | a program sends a block and has it sent back, each cell interrupts | bits of a block by half the round trip |
//! | 3 | the same, for three interrupt conditions, stage 3 | the round trip |
//!
//! The source does not say how Table 2 was timed. Its stage 3 is, row by row, half the
//! round trip of Table 3 with an interrupt for each cell (281.3 and 281 us, 628.2 and 628,
//! 810.1 and 809.5): so a transfer is one block on its way, not a stream of them, which the
//! receive FIFO could not take either, since nothing holds a sender back.
//!
//! Every run is the whole path: program, driver, word copy, FIFO, ring, FIFO, interrupt,
//! word copy, reassembly, program. Parameters: `parameters/cbn.toml`. What a plan can ask
//! beside the paper's tables is in `experiments`.

mod capture;
mod emulation;
mod experiments;
pub(crate) mod parameters;
pub(crate) mod runs;
mod scalars;
#[cfg(test)]
mod tests;
mod world;

use barewire_classic::msdl::InterruptOn;
use barewire_formats::cbn::BODY_BYTES;
use barewire_models::cbn::Stage;

use parameters::Parameters;
use runs::Run;

use crate::emulation::{Emulated, Wanted};
use crate::error::SystemError;
use crate::experiment::{Experiment, Setting};
use crate::replicate::replicate;
use crate::reproduction::Reproduction;
use crate::system::Finding;

/// Cells of a block in each row of Tables 1 and 2; Table 3 has the first eight.
const CELLS: [usize; 11] = [1, 2, 5, 10, 20, 30, 40, 44, 63, 125, 250];
const TABLE_3_ROWS: usize = 8;
const CONDITIONS: [(&str, InterruptOn); 3] = [
    ("first", InterruptOn::StartOfBlock),
    ("last", InterruptOn::EndOfBlock),
    ("each", InterruptOn::EveryCell),
];

/// The Cambridge Backbone Network.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "cbn"
    }

    fn parameters(&self) -> &'static str {
        include_str!("../parameters/cbn.toml")
    }

    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(reproduce(parameters, seed)?.findings)
    }

    fn experiments(&self) -> &'static [Experiment] {
        &experiments::ALL
    }

    fn emulate(
        &self,
        _experiment: &str,
        setting: &Setting<'_>,
        wanted: &Wanted,
    ) -> Result<Box<dyn Emulated>, SystemError> {
        let run = experiments::emulated(setting, wanted)?;
        Ok(Box::new(emulation::Emulation::new(
            &run,
            setting.seed,
            wanted,
        )?))
    }
}

fn reproduce(parameters: &str, seed: u64) -> Result<Reproduction, SystemError> {
    let parameters = Parameters::parse(parameters)?;
    let rows = rows();
    let results = replicate(rows.len(), |index| rows[index].measure(&parameters, seed));
    let mut all = Reproduction::default();
    for result in results {
        all.extend(result?);
    }
    Ok(all)
}

enum Row {
    /// A row of Table 1.
    Transmit {
        cells: usize,
    },
    /// A row of Table 2.
    Transfer {
        stage: usize,
        cells: usize,
    },
    /// A row of Table 3.
    Ping {
        condition: usize,
        cells: usize,
    },
    Scalars,
}

fn rows() -> Vec<Row> {
    // The longest first, so that no processor is left alone with it at the end.
    let mut all = vec![Row::Scalars];
    all.extend(CELLS.map(|cells| Row::Transmit { cells }));
    for stage in 0..Stage::ALL.len() {
        all.extend(CELLS.map(|cells| Row::Transfer { stage, cells }));
    }
    for condition in 0..CONDITIONS.len() {
        let rows = CELLS.into_iter().take(TABLE_3_ROWS);
        all.extend(rows.map(|cells| Row::Ping { condition, cells }));
    }
    all
}

impl Row {
    fn measure(&self, parameters: &Parameters, seed: u64) -> Result<Reproduction, SystemError> {
        let run = Run::new(parameters);
        let (observed, finding) = match *self {
            Self::Transmit { cells } => {
                let observed = run.cells(cells).transmit(seed)?;
                let finding = Finding {
                    table: "table-1",
                    row: format!("{cells} cells"),
                    quantity: "transmit rate",
                    unit: "Mbit/s",
                    value: rate_mbps(cells, observed.period_us()),
                };
                (observed, finding)
            }
            Self::Transfer { stage, cells } => {
                let observed = run.cells(cells).stage(Stage::ALL[stage]).ping(seed)?;
                let finding = Finding {
                    table: "table-2",
                    row: format!("stage {stage}, {cells} cells"),
                    quantity: "transfer rate",
                    unit: "Mbit/s",
                    value: rate_mbps(cells, observed.round_trip_us() / 2.0),
                };
                (observed, finding)
            }
            Self::Ping { condition, cells } => {
                let (name, interrupt_on) = CONDITIONS[condition];
                let observed = run.cells(cells).interrupt_on(interrupt_on).ping(seed)?;
                let finding = Finding {
                    table: "table-3",
                    row: format!("{name}, {cells} cells"),
                    quantity: "ping round trip",
                    unit: "us",
                    value: observed.round_trip_us(),
                };
                (observed, finding)
            }
            Self::Scalars => return scalars::measure(parameters, seed),
        };
        let mut results = Reproduction::default();
        results.findings.push(finding);
        results.hashes.push(observed.trace_hash);
        Ok(results)
    }
}

fn rate_mbps(cells: usize, us: f64) -> f64 {
    (cells * BODY_BYTES * 8) as f64 / us
}
