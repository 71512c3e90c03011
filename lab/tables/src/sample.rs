//! A made-up system for the tests: blocks of cells, one copy each.

use barewire_testbed::{
    Cell, Experiment, Finding, LinkCapture, Outcome, Setting, System, SystemError, Table, replicate,
};
use barewire_units::{Duration, Instant, Rng};
use barewire_wire::capture::LinkType;
use serde::Deserialize;

use crate::expected::Expected;
use crate::join::join;
use crate::plan::{Plan, PlanSource, Wanted};
use crate::report::{Change, Report, Run, reproduce};

pub const PARAMETERS: &str = "\
# A block of cells.
[block]
setup = \"100 us\"  # sample section 1
cell = \"10 us\"    # fitted on table-1, 10 cells
cells = [1, 10, 20]
";

const EXPECTED: &str = "\
[[row]]
table = \"table-1\"
row = \"1 cell\"
quantity = \"time\"
unit = \"us\"
published = 108
tolerance_pct = 3
kind = \"predicted\"
source = \"sample Table 1\"

[[row]]
table = \"table-1\"
row = \"10 cells\"
quantity = \"time\"
unit = \"us\"
published = 200
tolerance_pct = 3
kind = \"calibrated\"
source = \"sample Table 1\"

[[row]]
table = \"table-1\"
row = \"20 cells\"
quantity = \"time\"
unit = \"us\"
published = 240
tolerance_pct = 3
kind = \"misprint\"
source = \"sample Table 1\"
note = \"less, \\\"by far\\\", than <twice> row 10\"

[[row]]
table = \"scalars\"
row = \"-\"
quantity = \"rate\"
unit = \"Mbit/s\"
published = 25.6
tolerance_pct = 3
kind = \"predicted\"
source = \"sample section 2\"
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    block: Block,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    setup: Duration,
    cell: Duration,
    cells: Vec<u32>,
}

/// The system.
pub struct Sample;

impl System for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn parameters(&self) -> &'static str {
        PARAMETERS
    }

    fn experiments(&self) -> &'static [Experiment] {
        &[WAIT, NAMES]
    }

    fn fragments(&self) -> &'static [(&'static str, &'static str)] {
        &[("slow", "# Slow.\n[parameters]\nblock.setup = \"1 ms\"\n")]
    }

    fn run(&self, parameters: &str, _: u64) -> Result<Vec<Finding>, SystemError> {
        let Parameters { block } = toml::from_str(parameters)?;
        let time = |cells: &u32| Finding {
            table: "table-1",
            row: format!("{cells} cell{}", if *cells == 1 { "" } else { "s" }),
            quantity: "time",
            unit: "us",
            value: (block.setup.as_ps() + u64::from(*cells) * block.cell.as_ps()) as f64 / 1e6,
        };
        let mut findings: Vec<Finding> = block.cells.iter().map(time).collect();
        findings.push(Finding {
            table: "scalars",
            row: "-".into(),
            quantity: "rate",
            unit: "Mbit/s",
            value: 256.0 / (block.cell.as_ps() as f64 / 1e6),
        });
        Ok(findings)
    }
}

/// What the plans are of.
pub const PLANS: PlanSource = PlanSource::new(&[&Sample]);

/// Blocks that wait at random: what a plan can ask.
const WAIT: Experiment = Experiment {
    name: "wait",
    question: "how long does a block wait, as a function of its size?",
    inputs: "\
# Cells of each block, a point each; 1 or more.
cells = [1, 10, 100]
# The longest wait for each cell.
wait = \"2 us\"
# Blocks of a point, 1 to 10000.
blocks = 50
",
    check: |setting| Wait::read(setting).map(|_| ()),
    run: |setting| Ok(Wait::read(setting)?.run(setting)),
};

/// The same, and its replications have nothing in common.
const NAMES: Experiment = Experiment {
    name: "names",
    question: "which one?",
    inputs: "",
    check: |_| Ok(()),
    run: |setting| {
        let mut table = Table::new("which", &[("name", ""), ("of", "")]);
        table.push([setting.seed.to_string().into(), 1.0.into()]);
        Ok(Outcome {
            tables: vec![table],
            ..Outcome::default()
        })
    },
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    cells: Vec<u64>,
    wait: Duration,
    blocks: u64,
}

struct Wait {
    block: Block,
    inputs: Inputs,
}

impl Wait {
    fn read(setting: &Setting<'_>) -> Result<Wait, SystemError> {
        let Parameters { block } = toml::from_str(setting.parameters)?;
        let inputs: Inputs = setting.read_inputs()?;
        let wrong = |text: &str| Err(SystemError::Contradiction(text.to_owned()));
        if inputs.cells.is_empty() || inputs.cells.contains(&0) {
            return wrong("cells: expected one size or more, each 1 or more");
        }
        if !(1..=10_000).contains(&inputs.blocks) {
            return wrong("blocks: expected 1 to 10000");
        }
        if inputs.wait > block.setup {
            return wrong("wait: expected no more than the setup of a block");
        }
        Ok(Wait { block, inputs })
    }

    fn run(&self, setting: &Setting<'_>) -> Outcome {
        setting.progress.announce(self.inputs.cells.len() as u64);
        let root = Rng::from_seed(setting.seed);
        let points = replicate(self.inputs.cells.len(), |point| {
            let mut rng = root.fork_nth("point", point as u64);
            let base =
                self.block.setup.as_ps() + self.inputs.cells[point] * self.block.cell.as_ps();
            let longest = self.inputs.wait.as_ps() * self.inputs.cells[point];
            let mut waits: Vec<u64> = (0..self.inputs.blocks)
                .map(|_| base + rng.in_range(0..=longest))
                .collect();
            waits.sort_unstable();
            setting.progress.step();
            (waits, rng.next_u64())
        });
        let columns = [
            ("block", "cells"),
            ("wait, mean", "us"),
            ("wait, greatest", "us"),
            ("blocks", ""),
            ("what", ""),
            ("lost", "%"),
        ];
        let mut table = Table::new("wait against size", &columns);
        let mut capture = LinkCapture::new("to b", LinkType::ETHERNET, setting.packets_per_link);
        for (cells, (waits, _)) in self.inputs.cells.iter().zip(&points) {
            let us = |ps: u64| ps as f64 / 1e6;
            let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 1e6;
            let greatest = waits.last().map(|ps| us(*ps));
            let name = if *cells > 1 { "long" } else { "short" };
            table.push([
                (*cells).into(),
                mean.into(),
                greatest.into(),
                waits.len().into(),
                name.into(),
                Cell::Missing,
            ]);
            for wait in waits {
                capture.record(Instant::ORIGIN + Duration::from_ps(*wait), || vec![0; 60]);
            }
        }
        let recorded = setting.packets_per_link > 0;
        Outcome {
            tables: vec![table],
            links: if recorded { vec![capture] } else { Vec::new() },
            trace_hash: points
                .iter()
                .fold(0, |hash, (_, draw)| hash.rotate_left(1) ^ draw),
        }
    }
}

/// The plan `sample-wait` with changes.
pub fn plan(changes: &[&str]) -> Plan {
    let set = changes.iter().map(|text| ("--set", text.parse().unwrap()));
    let wanted = Wanted {
        set: set.collect(),
        ..Wanted::default()
    };
    let draft = PLANS.open("sample-wait").unwrap();
    PLANS.resolve(&draft, &wanted).unwrap()
}

pub fn expected() -> Expected {
    Expected::parse("A <sample> & more", EXPECTED).unwrap()
}

/// A run of the sample as the parameters are after `changes`.
pub fn run(changes: &[&str]) -> Run {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    reproduce(&Sample, expected(), &changes, 7).unwrap()
}

/// A report with a run that is right, and one with every kind of failure.
pub fn report() -> Report {
    let mut bad = run(&["block.setup=150 us"]);
    let mut rows = expected().rows;
    rows.remove(0);
    rows[0].row = "11 cells".into();
    let findings = Sample.run(&bad.parameters, 7).unwrap();
    bad.lines = join("sample", &rows, &findings);
    Report {
        seed: 7,
        about: vec![("barewire", "0.0.0 <test>".into())],
        runs: vec![run(&[]), bad],
    }
}
