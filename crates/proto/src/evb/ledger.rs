//! The loss ledger: what became of every fragment, as sums that must balance.
//!
//! ```text
//! source    offered  = sent + dropped + queued
//! builder   copies   = built + kept + open + duplicate + late + corrupt + unassigned + stale + foreign
//!           expected = built + kept + open + missing        (fragments of the events it was given)
//!           assigned = events built + incomplete + abandoned + open
//! manager   triggered = built + incomplete + abandoned + aborted + waiting + in flight
//! ```
//!
//! *Kept* are fragments that came, of an event that was given up. *Out of sequence* and
//! *gaps* are said beside these: such a fragment is one of the above as well.

use alloc::vec::Vec;

/// Fragments that a source has dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The buffer was full, and the source was told to drop then.
    pub full: u64,
    /// Larger than the whole buffer.
    pub too_large: u64,
    /// Their builder was lost.
    pub builder_lost: u64,
    /// Their event was closed before they were granted.
    pub withdrawn: u64,
    /// The manager did not count on this source when their event was assigned.
    pub left_out: u64,
    /// The run was aborted.
    pub aborted: u64,
}

impl Drops {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.full
            + self.too_large
            + self.builder_lost
            + self.withdrawn
            + self.left_out
            + self.aborted
    }
}

/// The account of a source, in fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceAccount {
    /// Taken from the detector.
    pub offered: u64,
    /// Given to the transport, whole.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Not sent, and why.
    pub dropped: Drops,
    /// Still here.
    pub queued: u64,
}

/// The account of a builder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderAccount {
    /// Fragments that arrived, copies among them.
    pub copies: u64,
    /// Of them: in events that were built.
    pub built: u64,
    /// Bytes of those.
    pub built_bytes: u64,
    /// Of them: in events that were given up.
    pub kept: u64,
    /// Of them: in events that are open.
    pub open: u64,
    /// Of them: had come before.
    pub duplicate: u64,
    /// Of them: came after their event was given up, for the first time.
    pub late: u64,
    /// Of them: spoilt.
    pub corrupt: u64,
    /// Of them: of an event that this builder was not given in time.
    pub unassigned: u64,
    /// Of them: of an event closed so long ago that nothing is known of it.
    pub stale: u64,
    /// Of them: of another run, or of a source that does not exist.
    pub foreign: u64,
    /// Arrived with a sequence number below an earlier one of the same source.
    pub out_of_sequence: u64,
    /// Sequence numbers left out when a fragment arrived.
    pub gaps: u64,
    /// Fragments that the events it was given should have.
    pub expected: u64,
    /// Of them: not there when their event was given up.
    pub missing: u64,
    /// Of those that were missing: the time was over, although their source lived and did not lack them.
    pub timed_out: u64,
    /// Of all that were missing, by source.
    pub missing_by_source: Vec<u64>,
    /// Events that it was given.
    pub events_assigned: u64,
    /// Of them: all fragments came.
    pub events_built: u64,
    /// Of them: given up without all.
    pub events_incomplete: u64,
    /// Of them: given up because the manager had given the builder up, or the run.
    pub events_abandoned: u64,
    /// Of them: open.
    pub events_open: u64,
}

/// The account of the manager, in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventAccount {
    /// Numbers given out.
    pub triggered: u64,
    /// Triggers refused.
    pub refused: u64,
    /// Built, as their builders said.
    pub built: u64,
    /// Incomplete, as their builders said.
    pub incomplete: u64,
    /// Lost with their builder, or without any source.
    pub abandoned: u64,
    /// Dropped when the run was aborted or failed.
    pub aborted: u64,
    /// Not assigned.
    pub waiting: u64,
    /// Assigned and not closed.
    pub in_flight: u64,
    /// Fragments of the closed events: expected, and of them present and missing.
    pub expected: u64,
    /// Fragments that were there.
    pub present: u64,
    /// Fragments that were not.
    pub missing: u64,
    /// Builders' words about events that are no longer theirs, or that contradict the assignment.
    pub stale_closes: u64,
}

/// A sum that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {left} on one side, {right} on the other")]
pub struct Imbalance {
    /// Which sum.
    pub what: &'static str,
    /// What came in.
    pub left: u64,
    /// What it was accounted as.
    pub right: u64,
}

fn equal(what: &'static str, left: u64, parts: &[u64]) -> Result<(), Imbalance> {
    let right = parts.iter().sum();
    if left == right {
        return Ok(());
    }
    Err(Imbalance { what, left, right })
}

impl SourceAccount {
    /// Whether it balances.
    ///
    /// # Errors
    ///
    /// The sum that does not.
    pub fn balance(&self) -> Result<(), Imbalance> {
        let parts = [self.sent, self.dropped.total(), self.queued];
        equal("fragments offered to a source", self.offered, &parts)
    }
}

impl BuilderAccount {
    /// Whether it balances.
    ///
    /// # Errors
    ///
    /// The first sum that does not.
    pub fn balance(&self) -> Result<(), Imbalance> {
        let copies = [
            self.built,
            self.kept,
            self.open,
            self.duplicate,
            self.late,
            self.corrupt,
            self.unassigned,
            self.stale,
            self.foreign,
        ];
        equal("fragments that came to a builder", self.copies, &copies)?;
        let missing = &self.missing_by_source;
        equal("missing fragments by source", self.missing, missing)?;
        let events = [
            self.events_built,
            self.events_incomplete,
            self.events_abandoned,
            self.events_open,
        ];
        equal("events given to a builder", self.events_assigned, &events)
    }

    /// Whether it balances, with nothing open: at the end of a run.
    ///
    /// # Errors
    ///
    /// The first sum that does not.
    pub fn balance_closed(&self) -> Result<(), Imbalance> {
        self.balance()?;
        equal("fragments that are still open", 0, &[self.open])?;
        let parts = [self.built, self.kept, self.missing];
        equal("fragments expected by a builder", self.expected, &parts)
    }
}

impl EventAccount {
    /// Whether it balances.
    ///
    /// # Errors
    ///
    /// The first sum that does not.
    pub fn balance(&self) -> Result<(), Imbalance> {
        let events = [
            self.built,
            self.incomplete,
            self.abandoned,
            self.aborted,
            self.waiting,
            self.in_flight,
        ];
        equal("events triggered", self.triggered, &events)?;
        let parts = [self.present, self.missing];
        equal("fragments of closed events", self.expected, &parts)
    }
}

/// The accounts of a run, put together at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Of each source.
    pub sources: Vec<SourceAccount>,
    /// Of each builder.
    pub builders: Vec<BuilderAccount>,
    /// Of the manager.
    pub events: EventAccount,
}

impl Ledger {
    /// Whether every account balances with nothing open, and builders and manager say the
    /// same. That last sum holds for a run in which no builder was lost and none was aborted:
    /// else the manager closes events that a builder may close differently, or is not there to
    /// close, and only the accounts by themselves can be asked for.
    ///
    /// # Errors
    ///
    /// The first sum that does not.
    pub fn balance(&self) -> Result<(), Imbalance> {
        self.sources.iter().try_for_each(SourceAccount::balance)?;
        self.builders
            .iter()
            .try_for_each(BuilderAccount::balance_closed)?;
        self.events.balance()?;
        if self.events.abandoned > 0 || self.events.aborted > 0 {
            return Ok(());
        }
        let of = |what: fn(&BuilderAccount) -> u64| self.builders.iter().map(what).sum::<u64>();
        let events = &self.events;
        equal("events built", events.built, &[of(|it| it.events_built)])?;
        let incomplete = of(|it| it.events_incomplete);
        equal("events incomplete", events.incomplete, &[incomplete])?;
        equal("fragments missing", events.missing, &[of(|it| it.missing)])
    }

    /// Fragments that sources have sent and no builder has seen: what the transport lost.
    /// `None` if more was seen than sent, as when a source that was lost took its account along.
    #[must_use]
    pub fn lost_on_the_way(&self) -> Option<u64> {
        let sent: u64 = self.sources.iter().map(|it| it.sent).sum();
        let seen = self
            .builders
            .iter()
            .map(|it| it.copies.saturating_sub(it.duplicate));
        sent.checked_sub(seen.sum())
    }
}
