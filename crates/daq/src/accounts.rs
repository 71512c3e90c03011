//! What parts report: their accounts in the ledger, and figures beside them. On the wire a
//! report is a list of numbers in the order of the tables here.

use barewire_proto::evb::{BuilderAccount, Drops, EventAccount, SourceAccount};

use crate::faults::FaultCounts;

/// What a source had from its detector: 0 for a generator, which makes what it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Fragments that the detector gave: those that were offered, and the following.
    pub given: u64,
    /// They wait for their trigger.
    pub waiting: u64,
    /// Dropped: the buffer was full.
    pub overflowed: u64,
    /// Dropped: their number was not higher than that of the one before.
    pub unordered: u64,
    /// Dropped: no event with their number was triggered while the source took part.
    pub unwanted: u64,
}

impl Intake {
    /// Whether everything that was given is accounted for.
    #[must_use]
    pub const fn balances(&self, offered: u64) -> bool {
        let dropped = self.overflowed + self.unordered + self.unwanted;
        self.given == 0 || self.given == offered + self.waiting + dropped
    }
}

/// What a source reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Its account.
    pub account: SourceAccount,
    /// What it had from its detector.
    pub intake: Intake,
    /// Events that were triggered and of which it was still to take the fragment.
    pub not_offered: u64,
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// Processor time it has used, in ns.
    pub processor_ns: u64,
    /// Back-pressure: for how long it had fragments to send and waited, for room, credits or its turn, in ns.
    pub held_up_ns: u64,
    /// What it has sent faulty on purpose.
    pub faults: FaultCounts,
}

/// What a builder reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderReport {
    /// Its account.
    pub account: BuilderAccount,
    /// Pieces with the right check code and the wrong content.
    pub mismatched: u64,
    /// Fragments with another size than the generator gives them; they count as corrupt.
    pub wrong_size: u64,
    /// Fragments of which only a part came: their source or its link had died.
    pub cut: u64,
    /// Processor time it has used, in ns.
    pub processor_ns: u64,
    /// Events written to a file, or taken by a consumer.
    pub recorded: u64,
    /// Events dropped because no consumer took them.
    pub untaken: u64,
    /// Events that wait for a consumer.
    pub to_be_taken: u64,
    /// The event that is open for longest, if `account.events_open` is not 0.
    pub oldest_event: u64,
    /// For how long, in ns.
    pub oldest_age_ns: u64,
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
    ($name:ident, $names:ident: $report:ident, $($field:ident).+ $(, $($more:ident).+)* $(,)?) => {
        fn $name(report: &mut $report, mut with: impl FnMut(&mut u64)) {
            with(&mut report.$($field).+);
            $(with(&mut report.$($more).+);)*
        }

        const $names: &[&[&str]] = &[&[$(stringify!($field)),+] $(, &[$(stringify!($more)),+])*];
    };
}

/// Numbers with the names of their fields; `dropped_full` is the field `full` of `dropped`.
fn with_names(names: &[&[&str]], numbers: &[u64]) -> Vec<(String, u64)> {
    let name = |path: &[&str]| match path {
        ["account", rest @ ..] => rest.join("_"),
        path => path.join("_"),
    };
    let names = names.iter().map(|path| name(path));
    names.zip(numbers.iter().copied()).collect()
}

table! {
    each_of_source, SOURCE_NAMES: SourceReport,
    account.offered, account.sent, account.sent_bytes, account.queued,
    account.dropped.full, account.dropped.too_large, account.dropped.builder_lost,
    account.dropped.withdrawn, account.dropped.left_out, account.dropped.aborted,
    not_offered, queued_bytes, processor_ns,
    intake.given, intake.waiting, intake.overflowed, intake.unordered, intake.unwanted,
    held_up_ns,
    faults.late, faults.twice, faults.number, faults.size, faults.check,
}

table! {
    each_of_builder, BUILDER_NAMES: BuilderReport,
    account.copies, account.built, account.built_bytes, account.kept, account.open,
    account.duplicate, account.late, account.corrupt, account.unassigned, account.stale,
    account.foreign, account.out_of_sequence, account.gaps, account.expected, account.missing,
    account.timed_out, account.events_assigned, account.events_built, account.events_incomplete,
    account.events_abandoned, account.events_open,
    mismatched, cut, processor_ns, recorded, untaken, to_be_taken,
    oldest_event, oldest_age_ns, wrong_size,
}

table! {
    each_of_events, EVENT_NAMES: EventAccount,
    triggered, refused, built, incomplete, abandoned, aborted, waiting, in_flight, expected,
    present, missing, stale_closes,
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

impl SourceReport {
    /// All sums with their names.
    #[must_use]
    pub fn named(self) -> Vec<(String, u64)> {
        with_names(SOURCE_NAMES, &self.to_numbers())
    }
}

impl BuilderReport {
    /// All sums with their names, but for what is missing from each source.
    #[must_use]
    pub fn named(&self) -> Vec<(String, u64)> {
        with_names(BUILDER_NAMES, &self.clone().to_numbers())
    }

    /// Whether all events that were built or given up went where they should; of what is
    /// verified and dropped there is no account.
    #[must_use]
    pub const fn sink_balances(&self) -> bool {
        let counts = self.recorded + self.untaken + self.to_be_taken;
        counts == 0 || counts == self.account.events_built + self.account.events_incomplete
    }

    /// As numbers; what is missing from each source comes last.
    #[must_use]
    pub fn to_numbers(mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        each_of_builder(&mut self, |it| numbers.push(*it));
        numbers.extend(&self.account.missing_by_source);
        numbers
    }

    /// From numbers; those that are not there are 0.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Self {
        let (mut report, mut numbers) = (Self::default(), Numbers(numbers));
        each_of_builder(&mut report, |it| *it = numbers.next());
        report.account.missing_by_source = numbers.0.to_vec();
        report
    }
}

/// The manager's account as numbers.
#[must_use]
pub fn event_numbers(events: &EventAccount) -> Vec<u64> {
    let (mut events, mut numbers) = (*events, Vec::new());
    each_of_events(&mut events, |it| numbers.push(*it));
    numbers
}

/// The manager's account with its names.
#[must_use]
pub fn named_events(events: &EventAccount) -> Vec<(String, u64)> {
    with_names(EVENT_NAMES, &event_numbers(events))
}

/// From such numbers; those that are not there are 0.
#[must_use]
pub fn events_from(numbers: &[u64]) -> EventAccount {
    let (mut events, mut numbers) = (EventAccount::default(), Numbers(numbers));
    each_of_events(&mut events, |it| *it = numbers.next());
    events
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
    fn sums_have_the_names_of_their_fields() {
        let report = SourceReport {
            queued_bytes: 7,
            ..SourceReport::default()
        };
        let named = report.named();
        let names: Vec<_> = named.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(
            names[..5],
            ["offered", "sent", "sent_bytes", "queued", "dropped_full"]
        );
        assert!(names.contains(&"intake_waiting"));
        assert!(named.contains(&("queued_bytes".to_owned(), 7)));
        assert_eq!(named.len(), report.to_numbers().len());
        let mut all = names;
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), named.len(), "no name stands twice");
    }

    #[test]
    fn reports_come_back() {
        let numbers: Vec<u64> = (1..=24).collect();
        assert_eq!(SourceReport::from_numbers(&numbers).to_numbers(), numbers);
        let numbers: Vec<u64> = (1..=12).collect();
        assert_eq!(event_numbers(&events_from(&numbers)), numbers);
        let numbers: Vec<u64> = (1..=33).collect();
        let report = BuilderReport::from_numbers(&numbers);
        assert_eq!(report.account.missing_by_source, [31, 32, 33]);
        assert_eq!(report.clone().to_numbers(), numbers);
        assert_eq!(BuilderReport::from_numbers(&[]), BuilderReport::default());
    }
}
