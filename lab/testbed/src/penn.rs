//! The Penn ATM host interface: Table I, the clocks, the bus and the line, each run as
//! events and measured where the team measured it.
//!
//! | experiment | what runs | what is measured |
//! |---|---|---|
//! | Table I | the benchmark: 8 MiB in writes of 1 KiB to 64 KiB through the two buffers | the program's clock over all calls |
//! | fast driver | the same in 64 KiB writes from the user's pages, unprotected | the same |
//! | bus | one block, with a line that is faster than the bus | words over the bus |
//! | line | one block, with a bus that is faster than the line | cells on the line |
//! | clocks | one cell on its way | the time in each stage |
//! | list manager | cells as fast as they are taken, enough cell managers | cells stored |
//!
//! What a plan can ask beside that, the questions that the paper left open among it, is in
//! `experiments`. Source: penn91, sections 4.1 and 4.2.

mod capture;
mod emulation;
mod experiments;
mod parameters;
mod program;
mod reception;
mod world;

use barewire_models::penn::Path;
use barewire_units::{ByteSize, Duration, Rate};

use crate::emulation::{Emulated, Wanted};
use crate::error::SystemError;
use crate::experiment::Setting;
use crate::figures::seconds;
use crate::replicate::replicate;
use crate::reproduction::Reproduction;
use crate::system::Finding;
use parameters::Parameters;
use program::Program;
use world::{Flow, Run, flood, run};

/// SONET section, line and path: the whole of OC-3c.
const OC3C_GROSS: Rate = Rate::from_kbps(155_520);
/// What OC-12c has for cells: much more than the bus can bring.
const OC12C: Rate = Rate::from_kbps(599_040);
/// Host bytes in a cell of class 4.
const CLASS4_BYTES: ByteSize = ByteSize::from_bytes(44);
/// Cell managers in parallel that together are faster than the list manager.
const MANAGERS_ENOUGH: usize = 8;
/// Cells to measure the list manager with.
const FLOOD_CELLS: u64 = 1_000;

/// The Penn ATM host interface.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "penn"
    }

    fn parameters(&self) -> &'static str {
        parameters::TEXT
    }

    /// Nothing in the paper's experiments is random, so the seed changes nothing.
    fn run(&self, parameters: &str, _seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(reproduce(&Parameters::parse(parameters)?).findings)
    }

    fn experiments(&self) -> &'static [crate::experiment::Experiment] {
        &experiments::ALL
    }

    fn emulate(
        &self,
        _experiment: &str,
        setting: &Setting<'_>,
        wanted: &Wanted,
    ) -> Result<Box<dyn Emulated>, SystemError> {
        let parameters = Parameters::parse(setting.parameters)?;
        Ok(Box::new(emulation::Emulation::new(
            &parameters,
            setting.seed,
            wanted,
        )?))
    }
}

/// The paper's experiments.
fn reproduce(parameters: &Parameters) -> Reproduction {
    let mut found = Reproduction::default();
    table_one(parameters, &mut found);
    transfers(parameters, &mut found);
    line(parameters, &mut found);
    clocks(parameters, &mut found);
    found
}

/// The paper's benchmark: write(count) until the volume is written.
fn benchmark(parameters: &Parameters, path: Path, count: ByteSize) -> Run {
    let volume = parameters.benchmark.volume.as_bytes();
    let writes = volume.div_ceil(count.as_bytes());
    run(
        parameters,
        path,
        Program::new(count.as_bytes(), writes, None),
    )
}

/// Mbit/s that the program saw.
fn rate_mbps(parameters: &Parameters, run: &Run) -> f64 {
    let bits = parameters.benchmark.volume.as_bytes() as f64 * 8.0;
    bits / seconds(run.elapsed) / 1e6
}

fn table_one(parameters: &Parameters, found: &mut Reproduction) {
    let counts = &parameters.benchmark.counts;
    let runs = replicate(counts.len(), |index| {
        benchmark(parameters, Path::Copied, counts[index])
    });
    let mut rates = Vec::new();
    for (count, run) in counts.iter().zip(&runs) {
        let row = format!("{} B", count.as_bytes());
        let elapsed = seconds(run.elapsed);
        let mbps = rate_mbps(parameters, run);
        found.add("table-1", &row, "elapsed", "s", elapsed);
        found.add("table-1", &row, "rate", "Mbit/s", mbps);
        rates.push((count.as_bytes(), mbps));
        found.hashes.push(run.hash);
    }
    for pair in rates.windows(2) {
        let ((small, before), (large, after)) = (pair[0], pair[1]);
        if (small, large) == (1024, 2048) || (small, large) == (32_768, 65_536) {
            let row = format!("{large} B over {small} B");
            found.add("scalars", &row, "gain", "ratio", after / before);
        }
    }
}

/// The fast driver, and the bus alone.
fn transfers(parameters: &Parameters, found: &mut Reproduction) {
    let fast = benchmark(parameters, Path::Trust, parameters.driver.buffer);
    let mbps = rate_mbps(parameters, &fast);
    found.add("scalars", "fast driver", "rate", "Mbit/s", mbps);
    let mut wide = parameters.clone();
    wide.line.rate = OC12C;
    let bus = one_block(&wide);
    let mbps = bus.bus.bps() / 1e6;
    found.add("scalars", "streaming", "rate", "Mbit/s", mbps);
    found.hashes.extend([fast.hash, bus.hash]);
}

/// The line, which a bus without pauses keeps busy.
fn line(parameters: &Parameters, found: &mut Reproduction) {
    let mut eager = parameters.clone();
    eager.bus.reload = Duration::ZERO;
    let plain = one_block(&eager);
    let mut class4 = eager.clone();
    class4.segmenter.payload = CLASS4_BYTES;
    let class4 = one_block(&class4);
    let mut gross = eager;
    gross.line.rate = OC3C_GROSS;
    let gross = one_block(&gross);
    let mut rate = |row, flow: Flow| {
        found.add("scalars", row, "rate", "Mbit/s", flow.bps() / 1e6);
    };
    rate("OC-3c, cells", plain.cells);
    rate("OC-3c, ATM payload", plain.payload);
    rate("OC-3c, class 4 payload", class4.payload);
    let mut spacing = |row, flow: Flow| {
        found.add("scalars", row, "cell time", "us", flow.spacing_s() * 1e6);
    };
    spacing("OC-3c, cells", plain.cells);
    spacing("OC-3c, with overhead", gross.cells);
    found.hashes.extend([plain.hash, class4.hash, gross.hash]);
}

/// The stages of one cell, and what the list manager can store.
fn clocks(parameters: &Parameters, found: &mut Reproduction) {
    let one = one_block(parameters);
    let mut time = |row, time: Duration| {
        found.add("scalars", row, "time", "us", seconds(time) * 1e6);
    };
    time("header generation", one.header);
    if let Some(passage) = one.passage {
        time("cell manager", passage.looked_up - passage.managed);
        time("longest CAM operation", passage.listed - passage.looked_up);
        time("longest list operation", passage.stored - passage.listed);
        time("reassembler latency", passage.stored - passage.managed);
    }
    let mut parallel = parameters.clone();
    parallel.reassembler.managers = MANAGERS_ENOUGH;
    let (stored, hash) = flood(&parallel, FLOOD_CELLS);
    let mbps = stored.bps() / 1e6;
    found.add("scalars", "list manager", "rate", "Mbit/s", mbps);
    found.hashes.extend([one.hash, hash]);
}

/// One block of a buffer's size.
fn one_block(parameters: &Parameters) -> Run {
    let bytes = parameters.driver.buffer.as_bytes();
    run(parameters, Path::Copied, Program::new(bytes, 1, None))
}

#[cfg(test)]
mod tests;
