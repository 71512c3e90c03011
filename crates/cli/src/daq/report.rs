//! What `--json` prints of a run.

use std::collections::BTreeMap;

use barewire_daq::accounts::named_events;
use barewire_daq::launch::{self, Outcome};
use barewire_daq::monitor::{Seen, lost_on_purpose};
use barewire_daq::part::{Ended, Verdict};
use serde::{Deserialize, Serialize};

/// What came of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Numbers that the manager gave out.
    pub events_triggered: u64,
    /// Events that were built.
    pub events_built: u64,
    /// Of all fragments of built events.
    pub bytes: u64,
    /// From its start to its end.
    pub run_ns: u64,
    /// Of all parts.
    pub processor_ns: u64,
    /// Median, 90 %, 99 %, 99.9 %, largest; so the next two.
    pub building_ns: [u64; 5],
    /// See above.
    pub event_bytes: [u64; 5],
    /// See above.
    pub fragment_bytes: [u64; 5],
    /// The ledger balances, the run ended in its time, and nothing was lost that may not be: the exit
    /// status is 0.
    pub good: bool,
}

/// A run as JSON: figures, how it ended, and the whole ledger.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    figures: Figures,
    run: u32,
    /// `good`, `unbalanced`, `failed` or `lost`.
    verdict: &'static str,
    /// Why, if it is not `good`.
    reason: Option<&'a str>,
    /// What was lost because fragments were faulty on purpose, if any were.
    on_purpose: Option<String>,
    ledger: Ledger,
    /// Events that were abandoned or aborted and stand in recordings all the same.
    recovered: RecoveredReport,
}

#[derive(Serialize)]
struct RecoveredReport {
    built: u64,
    incomplete: u64,
    /// Recordings that could not be read, which may hold more, with the reason.
    unread: Vec<String>,
}

/// Sums by their names.
type Sums = BTreeMap<String, u64>;

#[derive(Serialize)]
struct Ledger {
    events: Sums,
    sources: Vec<Life>,
    builders: Vec<Life>,
}

/// One life of a part: parts that died have several.
#[derive(Serialize)]
struct Life {
    part: usize,
    /// From 1.
    life: usize,
    /// It was there at the end.
    live: bool,
    sums: Sums,
    /// Of a builder: fragments that are missing, by source.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_by_source: Option<Vec<u64>>,
}

fn lives<R>(seen: &[Seen<R>], life: impl Fn(&R) -> (Sums, Option<Vec<u64>>)) -> Vec<Life> {
    let of_part = |(part, seen): (usize, &Seen<R>)| {
        let reports = seen.past.iter().chain(core::iter::once(&seen.report));
        let one = |(nth, report): (usize, &R)| {
            let (sums, missing_by_source) = life(report);
            Life {
                part,
                life: nth + 1,
                live: seen.live && nth == seen.past.len(),
                sums,
                missing_by_source,
            }
        };
        reports.enumerate().map(one).collect::<Vec<_>>()
    };
    seen.iter().enumerate().flat_map(of_part).collect()
}

/// What `--json` prints of a run.
pub fn report(ended: &Ended) -> String {
    let picture = &ended.picture;
    let (verdict, reason) = match &ended.verdict {
        Verdict::Balanced => ("good", None),
        Verdict::Unbalanced(reason) => ("unbalanced", Some(reason.as_str())),
        Verdict::Failed(reason) => ("failed", Some(reason.as_str())),
        Verdict::Lost(what) => ("lost", Some(what.as_str())),
    };
    let report = Report {
        figures: figures(ended),
        run: picture.run,
        verdict,
        reason,
        on_purpose: lost_on_purpose(picture),
        ledger: Ledger {
            events: named_events(&picture.events).into_iter().collect(),
            sources: lives(&picture.sources, |it| {
                (it.named().into_iter().collect(), None)
            }),
            builders: lives(&picture.builders, |it| {
                let missing = it.account.missing_by_source.clone();
                (it.named().into_iter().collect(), Some(missing))
            }),
        },
        recovered: RecoveredReport {
            built: ended.recovered.built,
            incomplete: ended.recovered.incomplete,
            unread: ended.recovered.unread.clone(),
        },
    };
    serde_json::to_string(&report).unwrap_or_default()
}

/// The manager's report as it is after all parts have ended: one that could not end its file after the
/// manager had spoken makes the run end with another status.
pub fn with_status(outcome: &Outcome) -> String {
    let is_later = outcome.code == launch::LOST;
    let report = serde_json::from_str::<serde_json::Value>(&outcome.ledger);
    match report {
        Ok(mut report) if is_later && report["verdict"] == "good" => {
            report["verdict"] = "lost".into();
            report["good"] = false.into();
            report["reason"] = outcome.deaths.join("; ").into();
            format!("{report}\n")
        }
        _ => outcome.ledger.clone(),
    }
}

fn figures(ended: &Ended) -> Figures {
    let picture = &ended.picture;
    let builders = || picture.builders.iter().map(|it| &it.report);
    let parts = picture.sources.iter().map(|it| it.report.processor_ns);
    let processor_ns = parts.chain(builders().map(|it| it.processor_ns));
    let spread = picture.spread();
    Figures {
        events_triggered: picture.events.triggered,
        events_built: picture.events.built,
        bytes: builders().map(|it| it.account.built_bytes).sum(),
        run_ns: picture.age_ns,
        processor_ns: processor_ns.sum::<u64>() + picture.processor_ns,
        building_ns: spread.building_ns.quantiles(),
        event_bytes: spread.event_bytes.quantiles(),
        fragment_bytes: spread.fragment_bytes.quantiles(),
        good: ended.verdict == Verdict::Balanced,
    }
}
