//! `write`: the paper's benchmark with sizes, drivers and machine of one's own.

use barewire_units::ByteSize;

use super::common::{
    BLOCK_MAX, CHOICES, POINTS_MAX, Policy, WRITES, check_volume, program_mbps, us_each,
};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::figures::seconds;
use crate::penn::parameters::{Machine, Parameters};
use crate::penn::program::Program;
use crate::penn::world::{Run, observe};
use crate::refuse::{few_points, inputs, up_to, within};
use crate::sweep::sweep;

pub const WRITE: Experiment = Experiment {
    name: "write",
    question: "How fast can a program write blocks of a size, and where does the time go?",
    inputs: include_str!("../../../plans/penn-write.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

inputs! {
    struct Inputs {
        machine: Machine,
        policies: Vec<Policy> => CHOICES,
        blocks: Vec<ByteSize> => (CHOICES, up_to(BLOCK_MAX)),
        volume: ByteSize,
    }
}

impl Inputs {
    fn writes(&self, block: ByteSize) -> u64 {
        self.volume.as_bytes().div_ceil(block.as_bytes().max(1))
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let parameters = Parameters::parse(setting.parameters)?.on(inputs.machine);
    for &block in &inputs.blocks {
        within("the number of writes", inputs.writes(block), WRITES)?;
        check_volume(block, inputs.writes(block))?;
    }
    few_points(&[inputs.policies.len(), inputs.blocks.len()], POINTS_MAX)?;
    Ok((parameters, inputs))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let blocks = &inputs.blocks;
    let each = |policy| blocks.iter().map(move |&block| (policy, block));
    let cases: Vec<(Policy, ByteSize)> = inputs.policies.iter().copied().flat_map(each).collect();
    let points = sweep(setting, &cases, |&(policy, block), packets| {
        let program = Program::new(block.as_bytes(), inputs.writes(block), None);
        observe(&parameters, policy.path(), program, packets)
    });
    let mut tables = Vec::new();
    for (policy, points) in inputs.policies.iter().zip(points.chunks(blocks.len())) {
        let mut table = Table::named(policy.name());
        for (&block, point) in blocks.iter().zip(points) {
            push(&mut table, block, inputs.writes(block), &point.run);
        }
        tables.push(table);
    }
    let mut outcome = Outcome::default();
    for point in points {
        outcome.mix_run(point.run.hash, point.capture);
    }
    Ok(outcome.with(tables))
}

/// A row of a table of writes, by their size.
pub(super) fn push(table: &mut Table, block: ByteSize, writes: u64, run: &Run) {
    let waiting = run.elapsed.saturating_sub(run.work.total());
    table.row([
        ("block", "B", block.as_bytes().into()),
        ("elapsed", "s", seconds(run.elapsed).into()),
        (
            "rate",
            "Mbit/s",
            program_mbps(run, block.as_bytes() * writes).into(),
        ),
        ("each write", "us", us_each(run.elapsed, writes).into()),
        ("call", "us", us_each(run.work.calls, writes).into()),
        ("copy", "us", us_each(run.work.copies, writes).into()),
        ("set-up", "us", us_each(run.work.set_up, writes).into()),
        ("waiting", "us", us_each(waiting, writes).into()),
    ]);
}
