//! `write`: the paper's benchmark with sizes, drivers and machine of one's own.

use barewire_units::ByteSize;
use serde::Deserialize;

use super::common::{POINTS_MAX, Policy, check_writes, combine, measure, program_mbps, us_each};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::penn::parameters::{Machine, Parameters};
use crate::penn::program::Program;
use crate::penn::world::{Run, observe, seconds};
use crate::refuse::{few_points, list};

pub const WRITE: Experiment = Experiment {
    name: "write",
    question: "How fast can a program write blocks of a size, and where does the time go?",
    inputs: include_str!("../../../plans/penn-write.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    machine: Machine,
    policies: Vec<Policy>,
    blocks: Vec<ByteSize>,
    volume: ByteSize,
}

impl Inputs {
    fn writes(&self, block: ByteSize) -> u64 {
        self.volume.as_bytes().div_ceil(block.as_bytes().max(1))
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.read_inputs()?;
    let parameters = Parameters::parse(setting.parameters)?.on(inputs.machine);
    list("policies", &inputs.policies, POINTS_MAX)?;
    list("blocks", &inputs.blocks, POINTS_MAX)?;
    for &block in &inputs.blocks {
        check_writes("blocks", &[block], inputs.writes(block))?;
    }
    few_points(&[inputs.policies.len(), inputs.blocks.len()], POINTS_MAX)?;
    Ok((parameters, inputs))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let blocks = &inputs.blocks;
    let points = measure(setting, blocks.len() * inputs.policies.len(), |index| {
        let block = blocks[index % blocks.len()];
        let policy = inputs.policies[index / blocks.len()];
        let packets = if index == 0 {
            setting.packets_per_link
        } else {
            0
        };
        let program = Program::new(block.as_bytes(), inputs.writes(block), None);
        observe(&parameters, policy.path(), program, packets)
    });
    let mut tables = Vec::new();
    for (policy, points) in inputs.policies.iter().zip(points.chunks(blocks.len())) {
        let mut table = table(policy.name());
        for (&block, point) in blocks.iter().zip(points) {
            push(&mut table, block, inputs.writes(block), &point.run);
        }
        tables.push(table);
    }
    let trace_hash = combine(points.iter().map(|point| point.run.hash));
    let links = points
        .into_iter()
        .filter_map(|point| point.capture)
        .collect();
    Ok(Outcome {
        tables,
        links,
        trace_hash,
    })
}

/// A table of writes, by their size.
pub(super) fn table(name: impl Into<String>) -> Table {
    let columns = [
        ("block", "B"),
        ("elapsed", "s"),
        ("rate", "Mbit/s"),
        ("each write", "us"),
        ("call", "us"),
        ("copy", "us"),
        ("set-up", "us"),
        ("waiting", "us"),
    ];
    Table::new(name, &columns)
}

/// A row of it.
pub(super) fn push(table: &mut Table, block: ByteSize, writes: u64, run: &Run) {
    let waiting = run.elapsed.saturating_sub(run.work.total());
    table.push([
        block.as_bytes().into(),
        seconds(run.elapsed).into(),
        program_mbps(run, block.as_bytes() * writes).into(),
        us_each(run.elapsed, writes).into(),
        us_each(run.work.calls, writes).into(),
        us_each(run.work.copies, writes).into(),
        us_each(run.work.set_up, writes).into(),
        us_each(waiting, writes).into(),
    ]);
}
