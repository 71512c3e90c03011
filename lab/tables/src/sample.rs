//! A made-up system for the tests: blocks of cells, one copy each.

use barewire_testbed::{Finding, System, SystemError};
use barewire_units::Duration;
use serde::Deserialize;

use crate::{Change, Expected, Report, Run, join, reproduce};

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
