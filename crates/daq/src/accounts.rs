//! What parts report: their accounts in the ledger, and figures beside them. On the wire a
//! report is a list of numbers in the order of the tables here.

use barewire_proto::evb::{BuilderAccount, Drops, SourceAccount};

/// What a source reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Its account.
    pub account: SourceAccount,
    /// Events that were triggered and of which it was still to take the fragment.
    pub not_offered: u64,
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// Processor time it has used, in ns.
    pub processor_ns: u64,
}

/// Quantiles of a histogram: median, 99 %, 99.9 %, largest.
pub type Quantiles = [u64; 4];

/// What a builder reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderReport {
    /// Its account.
    pub account: BuilderAccount,
    /// Fragments with the right check code and the wrong content.
    pub mismatched: u64,
    /// Fragments of which only a part came: their source or its link had died.
    pub cut: u64,
    /// Processor time it has used, in ns.
    pub processor_ns: u64,
    /// From the first word of an event until it was built, in ns.
    pub building_ns: Quantiles,
    /// Bytes of events.
    pub event_bytes: Quantiles,
    /// Events written to a file.
    pub recorded: u64,
}

struct Numbers<'a>(&'a [u64]);

impl Numbers<'_> {
    /// The next number; 0 after the end.
    fn next(&mut self) -> u64 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }
}

macro_rules! table {
    ($name:ident: $report:ident, $($field:ident).+ $(, $($more:ident).+)* $(,)?) => {
        fn $name(report: &mut $report, mut with: impl FnMut(&mut u64)) {
            with(&mut report.$($field).+);
            $(with(&mut report.$($more).+);)*
        }
    };
}

table! {
    each_of_source: SourceReport,
    account.offered, account.sent, account.sent_bytes, account.queued,
    account.dropped.full, account.dropped.too_large, account.dropped.builder_lost,
    account.dropped.withdrawn, account.dropped.left_out, account.dropped.aborted,
    not_offered, queued_bytes, processor_ns,
}

table! {
    each_of_builder: BuilderReport,
    account.copies, account.built, account.built_bytes, account.kept, account.open,
    account.duplicate, account.late, account.corrupt, account.unassigned, account.stale,
    account.foreign, account.out_of_sequence, account.gaps, account.expected, account.missing,
    account.events_assigned, account.events_built, account.events_incomplete,
    account.events_abandoned, account.events_open,
    mismatched, cut, processor_ns, recorded,
}

impl SourceReport {
    /// As numbers.
    #[must_use]
    pub fn to_numbers(mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        each_of_source(&mut self, |it| numbers.push(*it));
        numbers
    }

    /// From numbers; those that are not there are 0.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Self {
        let (mut report, mut numbers) = (Self::default(), Numbers(numbers));
        each_of_source(&mut report, |it| *it = numbers.next());
        report
    }
}

impl BuilderReport {
    /// As numbers; what is missing from each source comes last.
    #[must_use]
    pub fn to_numbers(mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        each_of_builder(&mut self, |it| numbers.push(*it));
        numbers.extend(self.building_ns);
        numbers.extend(self.event_bytes);
        numbers.extend(&self.account.missing_by_source);
        numbers
    }

    /// From numbers; those that are not there are 0.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Self {
        let (mut report, mut numbers) = (Self::default(), Numbers(numbers));
        each_of_builder(&mut report, |it| *it = numbers.next());
        report.building_ns.fill_with(|| numbers.next());
        report.event_bytes.fill_with(|| numbers.next());
        report.account.missing_by_source = numbers.0.to_vec();
        report
    }
}

/// The reasons of drops, with their names.
#[must_use]
pub const fn drops(drops: &Drops) -> [(&'static str, u64); 6] {
    [
        ("full", drops.full),
        ("too_large", drops.too_large),
        ("builder_lost", drops.builder_lost),
        ("withdrawn", drops.withdrawn),
        ("left_out", drops.left_out),
        ("aborted", drops.aborted),
    ]
}

/// What may become of a fragment at a builder, with names.
#[must_use]
pub const fn fates(account: &BuilderAccount) -> [(&'static str, u64); 9] {
    [
        ("built", account.built),
        ("kept", account.kept),
        ("open", account.open),
        ("duplicate", account.duplicate),
        ("late", account.late),
        ("corrupt", account.corrupt),
        ("unassigned", account.unassigned),
        ("stale", account.stale),
        ("foreign", account.foreign),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back() {
        let numbers: Vec<u64> = (1..=13).collect();
        assert_eq!(SourceReport::from_numbers(&numbers).to_numbers(), numbers);
        let numbers: Vec<u64> = (1..=35).collect();
        let report = BuilderReport::from_numbers(&numbers);
        assert_eq!(report.account.missing_by_source, [33, 34, 35]);
        assert_eq!(report.clone().to_numbers(), numbers);
        assert_eq!(BuilderReport::from_numbers(&[]), BuilderReport::default());
    }
}
