//! What the manager knows of a run.

use barewire_proto::evb::{EventAccount, RunState};

use crate::accounts::{BuilderReport, SourceReport};
use crate::spread::Spreads;

/// What is known of a part.
#[derive(Clone, Debug, Default)]
pub struct Seen<R> {
    /// Whether it takes part.
    pub live: bool,
    /// How often it began.
    pub lives: u32,
    /// Its last report.
    pub report: R,
    /// The last reports of those before it that died; all 0 of one that died before its first.
    pub past: Vec<R>,
}

/// What is known of a run.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The run.
    pub run: u32,
    /// Where it stands.
    pub state: RunState,
    /// The manager's account.
    pub events: EventAccount,
    /// Sources by number.
    pub sources: Vec<Seen<SourceReport>>,
    /// Builders by number.
    pub builders: Vec<Seen<BuilderReport>>,
    /// How times and sizes are spread, by builder, those that died included.
    pub spreads: Vec<Spreads>,
    /// Since the run was configured, in ns.
    pub age_ns: u64,
    /// Processor time of the manager, in ns.
    pub processor_ns: u64,
}

impl Picture {
    /// How times and sizes of all builders are spread.
    #[must_use]
    pub fn spread(&self) -> Spreads {
        let mut all = Spreads::default();
        self.spreads.iter().for_each(|it| all.add(it));
        all
    }
}

pub(super) fn all<R: Clone>(seen: &[Seen<R>]) -> impl Iterator<Item = &R> {
    seen.iter()
        .flat_map(|it| it.past.iter().chain(core::iter::once(&it.report)))
}
