//! What a system finds when the experiments of its paper are run, and the hashes of the runs.

use barewire_units::Duration;

use crate::figures::seconds;
use crate::system::Finding;

/// Findings, and the hash of every run that gave them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reproduction {
    pub(crate) findings: Vec<Finding>,
    pub(crate) hashes: Vec<u64>,
}

impl Reproduction {
    pub(crate) fn add(
        &mut self,
        table: &'static str,
        row: impl Into<String>,
        quantity: &'static str,
        unit: &'static str,
        value: f64,
    ) {
        self.findings.push(Finding {
            table,
            row: row.into(),
            quantity,
            unit,
            value,
        });
    }

    pub(crate) fn add_us(
        &mut self,
        table: &'static str,
        row: &str,
        quantity: &'static str,
        time: Duration,
    ) {
        self.add(table, row, quantity, "us", seconds(time) * 1e6);
    }

    pub(crate) fn add_ms(
        &mut self,
        table: &'static str,
        row: &str,
        quantity: &'static str,
        time: Duration,
    ) {
        self.add(table, row, quantity, "ms", seconds(time) * 1e3);
    }

    /// Takes in what other runs found.
    pub(crate) fn extend(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.hashes.extend(other.hashes);
    }
}
