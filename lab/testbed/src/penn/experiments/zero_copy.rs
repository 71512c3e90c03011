//! `zero-copy`: the three policies for streaming from the user's pages, and the two buffers
//! beside them, for a program that fills each block before it writes it.
//!
//! The program has two blocks. After each write it fills one of them: the one that may
//! still stream, with the frequency that is varied, or the other. Under *block* it cannot
//! meet a block that streams; under *trust* it spoils it; under *fault-on-write* it waits.

use barewire_units::{ByteSize, Rng};
use serde::Deserialize;

use super::common::{POINTS_MAX, Policy, check_writes, combine, measure, program_mbps};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::penn::parameters::{Machine, Parameters};
use crate::penn::program::{Fills, Program};
use crate::penn::world::{Observed, Run, observe};
use crate::refuse::{each_within, few_points, list};

pub const ZERO_COPY: Experiment = Experiment {
    name: "zero-copy",
    question: "Streaming from the user's pages: what do the three policies give, as a function of \
        how often the program writes to a block that may still stream?",
    inputs: include_str!("../../../plans/penn-zero-copy.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    machine: Machine,
    policies: Vec<Policy>,
    frequencies_per_cent: Vec<u64>,
    block: ByteSize,
    writes: u64,
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.read_inputs()?;
    let parameters = Parameters::parse(setting.parameters)?.on(inputs.machine);
    list("policies", &inputs.policies, POINTS_MAX)?;
    each_within(
        "frequencies_per_cent",
        inputs.frequencies_per_cent.iter().copied(),
        0..=100,
    )?;
    check_writes("block", &[inputs.block], inputs.writes)?;
    few_points(
        &[inputs.policies.len(), inputs.frequencies_per_cent.len()],
        POINTS_MAX,
    )?;
    Ok((parameters, inputs))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let root = Rng::from_seed(setting.seed);
    let frequencies = &inputs.frequencies_per_cent;
    let count = frequencies.len() * inputs.policies.len();
    let points = measure(setting, count, |index| {
        let at = index % frequencies.len();
        let policy = inputs.policies[index / frequencies.len()];
        let packets = if index == 0 {
            setting.packets_per_link
        } else {
            0
        };
        // The same draws for each policy.
        let rng = root.fork_nth("fills", at as u64);
        point(
            &parameters,
            policy,
            &inputs,
            Fills {
                rng,
                same_per_cent: frequencies[at],
            },
            packets,
        )
    });
    let columns = [
        ("fills of the block just written", "%"),
        ("rate", "Mbit/s"),
        ("waits", "of 100 writes"),
        ("spoilt blocks", "of 100 writes"),
    ];
    let mut tables = Vec::new();
    for (policy, points) in inputs.policies.iter().zip(points.chunks(frequencies.len())) {
        let mut table = Table::new(policy.name(), &columns);
        for (&frequency, point) in frequencies.iter().zip(points) {
            let per_cent = |count: u64| count as f64 * 100.0 / inputs.writes as f64;
            table.push([
                frequency.into(),
                rate_mbps(&inputs, &point.run).into(),
                per_cent(point.run.driver.faults).into(),
                per_cent(point.run.driver.torn).into(),
            ]);
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

fn rate_mbps(inputs: &Inputs, run: &Run) -> f64 {
    program_mbps(run, inputs.block.as_bytes() * inputs.writes)
}

fn point(
    parameters: &Parameters,
    policy: Policy,
    inputs: &Inputs,
    fills: Fills,
    packets: usize,
) -> Observed {
    let program = Program::new(inputs.block.as_bytes(), inputs.writes, Some(fills));
    observe(parameters, policy.path(), program, packets)
}
