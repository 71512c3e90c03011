//! `zero-copy`: the three policies for streaming from the user's pages, and the two buffers
//! beside them, for a program that fills each block before it writes it.
//!
//! The program has two blocks. After each write it fills one of them: the one that may
//! still stream, with the frequency that is varied, or the other. Under *block* it cannot
//! meet a block that streams; under *trust* it spoils it; under *fault-on-write* it waits.

use barewire_units::{ByteSize, Rng};

use super::common::{BLOCK_MAX, CHOICES, POINTS_MAX, Policy, WRITES, check_volume, program_mbps};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::penn::parameters::{Machine, Parameters};
use crate::penn::program::{Fills, Program};
use crate::penn::world::{Run, observe};
use crate::refuse::{few_points, inputs, up_to};
use crate::sweep::sweep;

pub const ZERO_COPY: Experiment = Experiment {
    name: "zero-copy",
    question: "Streaming from the user's pages: what do the three policies give, as a function of \
        how often the program writes to a block that may still stream?",
    inputs: include_str!("../../../plans/penn-zero-copy.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

inputs! {
    struct Inputs {
        machine: Machine,
        policies: Vec<Policy> => CHOICES,
        frequencies_per_cent: Vec<u64> => 0..=100,
        block: ByteSize => up_to(BLOCK_MAX),
        writes: u64 => WRITES,
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let parameters = Parameters::parse(setting.parameters)?.on(inputs.machine);
    check_volume(inputs.block, inputs.writes)?;
    let lengths = [inputs.policies.len(), inputs.frequencies_per_cent.len()];
    few_points(&lengths, POINTS_MAX)?;
    Ok((parameters, inputs))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let root = Rng::from_seed(setting.seed);
    let frequencies = &inputs.frequencies_per_cent;
    let each = |policy| (0..frequencies.len()).map(move |at| (policy, at));
    let cases: Vec<(Policy, usize)> = inputs.policies.iter().copied().flat_map(each).collect();
    let points = sweep(setting, &cases, |&(policy, at), packets| {
        let fills = Fills {
            // The same draws for each policy.
            rng: root.fork_nth("fills", at as u64),
            same_per_cent: frequencies[at],
        };
        let program = Program::new(inputs.block.as_bytes(), inputs.writes, Some(fills));
        observe(&parameters, policy.path(), program, packets)
    });
    let mut tables = Vec::new();
    for (policy, points) in inputs.policies.iter().zip(points.chunks(frequencies.len())) {
        let mut table = Table::named(policy.name());
        for (&frequency, point) in frequencies.iter().zip(points) {
            let per_cent = |count: u64| count as f64 * 100.0 / inputs.writes as f64;
            table.row([
                ("fills of the block just written", "%", frequency.into()),
                ("rate", "Mbit/s", rate_mbps(&inputs, &point.run).into()),
                (
                    "waits",
                    "of 100 writes",
                    per_cent(point.run.driver.faults).into(),
                ),
                (
                    "spoilt blocks",
                    "of 100 writes",
                    per_cent(point.run.driver.torn).into(),
                ),
            ]);
        }
        tables.push(table);
    }
    let mut outcome = Outcome::default();
    for point in points {
        outcome.mix_run(point.run.hash, point.capture);
    }
    Ok(outcome.with(tables))
}

fn rate_mbps(inputs: &Inputs, run: &Run) -> f64 {
    program_mbps(run, inputs.block.as_bytes() * inputs.writes)
}
