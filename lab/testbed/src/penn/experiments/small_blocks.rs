//! `small-blocks`: where the time of a small block goes, and what would help.
//!
//! For each machine and driver: the cost of a block by its size; the size at which half of
//! the rate of large blocks is reached, found by runs; and both with one thing changed:
//! a free start, a free call, a bus that needs no flush, records gathered in the program.

use barewire_units::{ByteSize, Duration};

use super::common::{BLOCK_MAX, CHOICES, POINTS_MAX, Policy, WRITES, check_volume, us, us_each};
use super::write;
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table, mix_hashes};
use crate::penn::parameters::{Machine, Parameters};
use crate::penn::program::Program;
use crate::penn::world::{self, observe};
use crate::refuse::{Each, few_points, inputs, up_to, within};
use crate::sweep::sweep;

pub const SMALL_BLOCKS: Experiment = Experiment {
    name: "small-blocks",
    question: "What does the interface give for small blocks, where does the time go, and what \
        would batching or a cheaper start give?",
    inputs: include_str!("../../../plans/penn-small-blocks.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

/// Most records gathered into a block.
const RECORDS_MAX: u64 = 65_536;
/// Gathered blocks of a run, at least.
const BLOCKS_MIN: u64 = 16;

inputs! {
    struct Inputs {
        machines: Vec<Machine> => CHOICES,
        policies: Vec<Policy> => CHOICES,
        blocks: Vec<ByteSize> => up_to(BLOCK_MAX),
        large: ByteSize => up_to(BLOCK_MAX),
        record: ByteSize => up_to(BLOCK_MAX),
        gather: Vec<u64> => Each(2..=RECORDS_MAX),
        writes: u64 => WRITES,
    }
}

/// What is changed of a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    FreeStart,
    FreeCall,
    Coherent,
    All,
    Gather(u64),
}

impl Change {
    fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::FreeStart => "a free start".into(),
            Self::FreeCall => "a free call".into(),
            Self::Coherent => "no flush".into(),
            Self::All => "all three".into(),
            Self::Gather(records) => format!("{records} gathered"),
        }
    }

    fn apply(self, parameters: &Parameters) -> Parameters {
        let mut changed = parameters.clone();
        if matches!(self, Self::FreeStart | Self::All) {
            changed.host.start = Duration::ZERO;
            changed.host.status_read = Duration::ZERO;
            changed.host.translation_word = Duration::ZERO;
        }
        if matches!(self, Self::FreeCall | Self::All) {
            changed.host.system_call = Duration::ZERO;
        }
        changed.host.coherent |= matches!(self, Self::Coherent | Self::All);
        changed
    }

    const fn records(self) -> u64 {
        match self {
            Self::Gather(records) => records,
            _ => 1,
        }
    }
}

/// A machine with a driver and a change.
struct Case {
    machine: Machine,
    policy: Policy,
    change: Change,
    parameters: Parameters,
}

impl Case {
    /// Writes of the inputs' number or more: enough for some gathered blocks.
    fn records(&self, inputs: &Inputs) -> u64 {
        inputs.writes.max(BLOCKS_MIN * self.change.records())
    }

    /// Writes records of `bytes`, gathered as the change has it; until the last has left,
    /// since a block that is still on its way counts for more where there are few.
    fn write(&self, bytes: u64, inputs: &Inputs) -> Written {
        let records = self.records(inputs);
        let program = Program::gathering(bytes, records, self.change.records());
        let run = world::run(&self.parameters, self.policy.path(), program);
        Written {
            each_us: us_each(run.drained, records),
            mbps: (bytes * records) as f64 * 8.0 / us(run.drained),
            hash: run.hash,
        }
    }
}

/// Records that were written.
struct Written {
    each_us: f64,
    mbps: f64,
    hash: u64,
}

/// What was found of a case.
struct Found {
    record: Written,
    large_mbps: f64,
    /// None if not even blocks as large as that reach half of it.
    half: Option<u64>,
    hash: u64,
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let parameters = Parameters::parse(setting.parameters)?;
    let longest = inputs
        .blocks
        .iter()
        .copied()
        .chain([inputs.large, inputs.record]);
    check_volume(longest.max().unwrap_or(BLOCK_MAX), inputs.writes)?;
    if let Some(&most) = inputs.gather.iter().max() {
        // Half-performance is looked for in records up to the large block's size.
        let largest = inputs.large.max(inputs.record).as_bytes();
        let gathered = ByteSize::from_bytes(largest.saturating_mul(most));
        within("gather, blocks of", gathered, up_to(BLOCK_MAX))?;
    }
    few_points(
        &[
            inputs.machines.len(),
            inputs.policies.len(),
            inputs.blocks.len().max(inputs.gather.len() + 5),
        ],
        POINTS_MAX,
    )?;
    Ok((parameters, inputs))
}

fn cases(parameters: &Parameters, inputs: &Inputs) -> Vec<Case> {
    use Change::{All, Coherent, FreeCall, FreeStart, Nothing};
    let gathered = inputs.gather.iter().map(|&records| Change::Gather(records));
    let changes: Vec<_> = [Nothing, FreeStart, FreeCall, Coherent, All]
        .into_iter()
        .chain(gathered)
        .collect();
    let mut cases = Vec::new();
    for &machine in &inputs.machines {
        for &policy in &inputs.policies {
            cases.extend(changes.iter().map(|&change| Case {
                machine,
                policy,
                change,
                parameters: change.apply(&parameters.on(machine)),
            }));
        }
    }
    cases
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let cases = cases(&parameters, &inputs);
    let plain: Vec<_> = cases
        .iter()
        .filter(|case| case.change == Change::Nothing)
        .collect();
    let blocks = &inputs.blocks;
    let mut written: Vec<(&Case, ByteSize)> = Vec::new();
    for &case in &plain {
        written.extend(blocks.iter().map(|&block| (case, block)));
    }
    let sizes = sweep(setting, &written, |&(case, block), packets| {
        let program = Program::new(block.as_bytes(), inputs.writes, None);
        observe(&case.parameters, case.policy.path(), program, packets)
    });
    let found = sweep(setting, &cases, |case, _| find(case, &inputs));
    let mut tables = Vec::new();
    for (case, points) in plain.iter().zip(sizes.chunks(blocks.len())) {
        let mut table = Table::named(format!("{}, {}", case.machine.name(), case.policy.name()));
        for (&block, point) in blocks.iter().zip(points) {
            write::push(&mut table, block, inputs.writes, &point.run);
        }
        tables.push(table);
    }
    let per_case = cases.len() / plain.len();
    for (cases, found) in cases.chunks(per_case).zip(found.chunks(per_case)) {
        tables.push(changes(cases, found));
    }
    let mut outcome = Outcome::default();
    for point in sizes {
        outcome.mix_run(point.run.hash, point.capture);
    }
    for found in found {
        outcome.mix_run(found.hash, []);
    }
    Ok(outcome.with(tables))
}

/// What helps one machine with one driver.
fn changes(cases: &[Case], found: &[Found]) -> Table {
    let name = cases.first().map_or(String::new(), |case| {
        format!(
            "what would help, {}, {}",
            case.machine.name(),
            case.policy.name()
        )
    });
    let mut table = Table::named(name);
    for (case, found) in cases.iter().zip(found) {
        table.row([
            ("changed", "", case.change.name().into()),
            ("each record", "us", found.record.each_us.into()),
            ("rate", "Mbit/s", found.record.mbps.into()),
            ("rate of large blocks", "Mbit/s", found.large_mbps.into()),
            ("half of that at", "B", found.half.into()),
        ]);
    }
    table
}

fn find(case: &Case, inputs: &Inputs) -> Found {
    let mut hashes = Vec::new();
    let records = case.change.records();
    // A program gathers so as to come near the rate of such blocks.
    let plain = Case {
        change: Change::Nothing,
        parameters: case.parameters.clone(),
        ..*case
    };
    let large = plain.write(inputs.large.as_bytes(), inputs);
    hashes.push(large.hash);
    let mut enough = |bytes| {
        let written = case.write(bytes, inputs);
        hashes.push(written.hash);
        written.mbps * 2.0 >= large.mbps
    };
    let most = (inputs.large.as_bytes() / records).max(1);
    let half = enough(most).then(|| {
        // The least size from which half is reached; the rate grows with the size.
        let (mut below, mut reached) = (0, most);
        while reached - below > 1 {
            let middle = below + (reached - below) / 2;
            if enough(middle) {
                reached = middle;
            } else {
                below = middle;
            }
        }
        reached
    });
    let record = case.write(inputs.record.as_bytes(), inputs);
    hashes.push(record.hash);
    Found {
        record,
        large_mbps: large.mbps,
        half,
        hash: mix_hashes(0, hashes),
    }
}
