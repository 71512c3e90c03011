//! A builder: events that are open, what of them is there, and who may send.
//!
//! | an event is opened | when it is assigned, or when its first fragment comes before that |
//! |---|---|
//! | built | all sources that were alive when it was assigned have sent |
//! | incomplete | the time is over, or all that are missing are lost or have said that they lack it |
//! | abandoned | the run is aborted, or the manager had given this builder up |
//!
//! A fragment of an event that is not assigned to this builder within the time is dropped with
//! account. Of a closed event it is known for a while who had sent, to tell a late fragment from a
//! copy.
//!
//! Credits: as many fragments as [`BuilderConfig::credits`] may be under way to this builder. Events
//! are served in the order of their numbers, each beginning with another source, so that
//! builders do not all ask the same one. What was granted is free again when the fragment is
//! there, its source lost, or its event closed.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use barewire_units::{Duration, Instant};

use super::events::EventMap;
use super::ledger::BuilderAccount;
use super::manager::Outcome;
use super::run::{BuilderId, SourceId};

/// Deadlines that are kept without asking whether they still count.
const DEADLINES_MIN: usize = 1 << 10;
/// Events opened by fragments before their assignment: beyond this such fragments are dropped.
const EARLY_MAX: usize = 1 << 12;

/// What a builder is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuilderConfig {
    /// Its number.
    pub id: BuilderId,
    /// The run: fragments of another one are foreign.
    pub run: u32,
    /// Sources, numbered from 0.
    pub sources: u16,
    /// How long an event may be open. [`Duration::MAX`] is for ever.
    pub timeout: Duration,
    /// With credits: fragments that may be under way.
    pub credits: Option<u32>,
    /// With events pulled by builders: events that it wants to have.
    pub pull: Option<u32>,
    /// Closed events of which is known who had sent.
    pub remembered_events: usize,
}

/// A fragment that has arrived, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Of which run.
    pub run: u32,
    /// Of which event.
    pub event: u64,
    /// Who sent it.
    pub source: SourceId,
    /// Its number among those from there to here.
    pub sequence: u64,
    /// Its length.
    pub bytes: u64,
    /// Whether its check code is right.
    pub intact: bool,
}

/// What a fragment is accounted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Part of its event.
    Accepted,
    /// It had come before.
    Duplicate,
    /// Its event was given up without it.
    Late,
    /// It is spoilt.
    Corrupt,
    /// Its event was assigned without this source, or too many events are not assigned.
    Unassigned,
    /// Its event was closed so long ago that nothing is known of it.
    Stale,
    /// It is of another run, or its source does not exist.
    Foreign,
}

/// What a builder wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuilderAction {
    /// Hand the event over: all fragments are there.
    Built {
        /// Which.
        event: u64,
        /// All its bytes.
        bytes: u64,
        /// When it was opened.
        opened: Instant,
    },
    /// The event is given up.
    Incomplete {
        /// Which.
        event: u64,
        /// Who has not sent.
        missing: Vec<SourceId>,
        /// How long it was open.
        after: Duration,
    },
    /// Tell the manager that the event is closed.
    Close {
        /// Which.
        event: u64,
        /// How.
        outcome: Outcome,
    },
    /// Tell a source that it may send its fragment.
    Grant {
        /// Whom.
        source: SourceId,
        /// Of which event.
        event: u64,
    },
    /// Tell a source that its fragment is not wanted any more: the event was closed without it.
    Withdraw {
        /// Whom.
        source: SourceId,
        /// Of which event.
        event: u64,
    },
    /// Ask the manager for events.
    Request {
        /// How many.
        events: u32,
    },
}

/// A set of sources. That of a machine with up to 64 of them takes no memory of its own.
#[derive(Clone, Debug, Default)]
struct Set {
    /// Sources 0 to 63.
    first: u64,
    rest: Vec<u64>,
    count: u32,
}

impl Set {
    fn none(sources: u16) -> Self {
        let words = usize::from(sources).div_ceil(64);
        Self {
            first: 0,
            rest: vec![0; words.saturating_sub(1)],
            count: 0,
        }
    }

    fn all(sources: u16) -> Self {
        let mut set = Self::none(sources);
        for source in 0..sources {
            set.insert(SourceId(source));
        }
        set
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        core::iter::once(self.first).chain(self.rest.iter().copied())
    }

    fn word_mut(&mut self, source: SourceId) -> Option<&mut u64> {
        match usize::from(source.0) / 64 {
            0 => Some(&mut self.first),
            at => self.rest.get_mut(at - 1),
        }
    }

    fn contains(&self, source: SourceId) -> bool {
        let word = match usize::from(source.0) / 64 {
            0 => self.first,
            at => self.rest.get(at - 1).copied().unwrap_or(0),
        };
        word >> (source.0 % 64) & 1 == 1
    }

    /// Whether it was not in it.
    fn insert(&mut self, source: SourceId) -> bool {
        if self.contains(source) {
            return false;
        }
        if let Some(word) = self.word_mut(source) {
            *word |= 1 << (source.0 % 64);
            self.count += 1;
        }
        true
    }

    /// Whether it was in it.
    fn remove(&mut self, source: SourceId) -> bool {
        if !self.contains(source) {
            return false;
        }
        if let Some(word) = self.word_mut(source) {
            *word &= !(1 << (source.0 % 64));
            self.count -= 1;
        }
        true
    }

    /// Those that are not in `other`.
    fn without(&self, other: &Self) -> impl Iterator<Item = SourceId> {
        let words = (0_u16..).zip(self.words().zip(other.words()));
        words.flat_map(|(at, (own, others))| {
            let left = own & !others;
            (0..64)
                .filter(move |bit| left >> bit & 1 == 1)
                .map(move |bit| SourceId(at * 64 + bit))
        })
    }

    /// Whether one that is in `alive` is neither in `present` nor in `lacking`.
    fn waits_for(&self, present: &Self, lacking: &Self, alive: &Self) -> bool {
        let own = self.words().zip(alive.words());
        let mut words = own.zip(present.words().zip(lacking.words()));
        words.any(|((own, alive), (present, lacking))| own & alive & !present & !lacking != 0)
    }
}

#[derive(Clone, Debug)]
struct Open {
    /// Who should send; nobody is known before the assignment.
    expected: Option<Set>,
    present: Set,
    /// Who has said that it has no fragment.
    lacking: Set,
    bytes: u64,
    opened: Instant,
    deadline: Instant,
    /// Granted and not there.
    under_way: Set,
    /// How many sources were looked at for grants.
    looked: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Incomplete,
    Abandoned,
}

/// A builder.
#[derive(Clone, Debug)]
pub struct Builder {
    config: BuilderConfig,
    alive: Set,
    open: EventMap<Open>,
    /// Until when events may be open, in this order: they all have the same time. What is not the
    /// deadline of an open event counts for nothing, and is not the first one.
    deadlines: VecDeque<(Instant, u64)>,
    /// The latest time that was told.
    now: Instant,
    /// Who had sent of closed events.
    closed: EventMap<Set>,
    /// Events below this are forgotten, unless they are open.
    forgotten_below: u64,
    /// Open events that are not assigned.
    early: usize,
    /// Next sequence number of each source.
    sequences: Vec<u64>,
    /// Assigned events with sources that were not granted.
    to_grant: EventMap<()>,
    under_way: u32,
    actions: VecDeque<BuilderAction>,
    account: BuilderAccount,
}

impl Builder {
    /// A builder without events; all sources count as alive.
    #[must_use]
    pub fn new(config: BuilderConfig) -> Self {
        let sources = usize::from(config.sources);
        Self {
            config,
            alive: Set::all(config.sources),
            open: EventMap::new(),
            deadlines: VecDeque::new(),
            now: Instant::ORIGIN,
            closed: EventMap::new(),
            forgotten_below: 0,
            early: 0,
            sequences: vec![0; sources],
            to_grant: EventMap::new(),
            under_way: 0,
            actions: VecDeque::new(),
            account: BuilderAccount {
                missing_by_source: vec![0; sources],
                ..BuilderAccount::default()
            },
        }
    }

    /// What it is made of.
    #[must_use]
    pub const fn config(&self) -> BuilderConfig {
        self.config
    }

    /// Its account.
    #[must_use]
    pub const fn account(&self) -> &BuilderAccount {
        &self.account
    }

    /// What is to be done.
    pub fn poll_action(&mut self) -> Option<BuilderAction> {
        self.actions.pop_front()
    }

    /// When to call [`Builder::handle_time`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|&(at, _)| at)
    }

    /// Events that are open.
    #[must_use]
    pub fn open_events(&self) -> usize {
        self.open.len()
    }

    /// The event that is open for longest of those that are assigned, and since when.
    #[must_use]
    pub fn oldest_open(&self) -> Option<(u64, Instant)> {
        self.deadlines.iter().find_map(|&(at, event)| {
            let open = self.open.get(event)?;
            let counts = open.deadline == at && open.expected.is_some();
            counts.then_some((event, open.opened))
        })
    }

    /// Starts the clock of `event`.
    fn start_clock(&mut self, now: Instant, event: u64) -> Instant {
        self.now = self.now.max(now);
        let deadline = self.now.saturating_add(self.config.timeout);
        if deadline != Instant::MAX {
            // Events that are closed behind one that stays open.
            if self.deadlines.len() > DEADLINES_MIN.max(4 * self.open.len()) {
                let open = &self.open;
                let counts = |&(at, event): &(Instant, u64)| {
                    open.get(event).is_some_and(|it| it.deadline == at)
                };
                self.deadlines.retain(counts);
            }
            self.deadlines.push_back((deadline, event));
        }
        deadline
    }

    /// Has an open event stand first among the deadlines.
    fn trim_deadlines(&mut self) {
        while let Some(&(at, event)) = self.deadlines.front() {
            if self.open.get(event).is_some_and(|it| it.deadline == at) {
                return;
            }
            self.deadlines.pop_front();
        }
    }

    /// Opens an event that has no assignment: it counts as early.
    fn open_early(&mut self, now: Instant, event: u64) {
        let sources = self.config.sources;
        let deadline = self.start_clock(now, event);
        let open = Open {
            expected: None,
            present: Set::none(sources),
            lacking: Set::none(sources),
            bytes: 0,
            opened: now,
            deadline,
            under_way: Set::none(sources),
            looked: 0,
        };
        self.open.insert(event, open);
        self.early += 1;
    }

    /// The manager has given `event` to this builder.
    pub fn handle_assign(&mut self, now: Instant, event: u64) {
        match self.open.get(event) {
            Some(open) if open.expected.is_some() => return,
            Some(_) => {
                let deadline = self.start_clock(now, event);
                if let Some(open) = self.open.get_mut(event) {
                    open.deadline = deadline;
                }
                self.trim_deadlines();
            }
            None if self.closed.contains(event) => return,
            None => self.open_early(now, event),
        }
        self.early -= 1;
        let Some(open) = self.open.get_mut(event) else {
            return;
        };
        let expected = self.alive.clone();
        self.account.events_assigned += 1;
        self.account.events_open += 1;
        self.account.expected += u64::from(expected.count);
        // Fragments of sources that the manager does not count on are no part of it.
        for source in open.present.without(&expected).collect::<Vec<_>>() {
            open.present.remove(source);
            self.account.open -= 1;
            self.account.unassigned += 1;
        }
        open.expected = Some(expected);
        if self.config.credits.is_some() {
            self.to_grant.insert(event, ());
        }
        self.settle(now, event);
        self.grant();
    }

    /// A fragment is there, whole. What became of it.
    pub fn handle_fragment(&mut self, now: Instant, fragment: Fragment) -> Fate {
        self.account.copies += 1;
        let fate = self.judge(now, &fragment);
        let account = &mut self.account;
        match fate {
            Fate::Accepted => account.open += 1,
            Fate::Duplicate => account.duplicate += 1,
            Fate::Late => account.late += 1,
            Fate::Corrupt => account.corrupt += 1,
            Fate::Unassigned => account.unassigned += 1,
            Fate::Stale => account.stale += 1,
            Fate::Foreign => account.foreign += 1,
        }
        if matches!(fate, Fate::Accepted | Fate::Late | Fate::Unassigned) {
            self.follow_sequence(&fragment);
        }
        if fate == Fate::Accepted {
            self.settle(now, fragment.event);
            self.grant();
        }
        fate
    }

    fn judge(&mut self, now: Instant, fragment: &Fragment) -> Fate {
        let &Fragment { event, source, .. } = fragment;
        if fragment.run != self.config.run || source.0 >= self.config.sources {
            return Fate::Foreign;
        }
        if !fragment.intact {
            return Fate::Corrupt;
        }
        if !self.open.contains(event) {
            if let Some(seen) = self.closed.get_mut(event) {
                return match seen.insert(source) {
                    true => Fate::Late,
                    false => Fate::Duplicate,
                };
            }
            if event < self.forgotten_below {
                return Fate::Stale;
            }
            if self.early >= EARLY_MAX {
                return Fate::Unassigned;
            }
            self.open_early(now, event);
        }
        let Some(open) = self.open.get_mut(event) else {
            return Fate::Unassigned;
        };
        if open
            .expected
            .as_ref()
            .is_some_and(|it| !it.contains(source))
        {
            return Fate::Unassigned;
        }
        if !open.present.insert(source) {
            return Fate::Duplicate;
        }
        open.bytes = open.bytes.saturating_add(fragment.bytes);
        let was_under_way = open.under_way.remove(source);
        self.under_way -= u32::from(was_under_way);
        Fate::Accepted
    }

    /// `source` has no fragment of `event`, and will not get one.
    pub fn handle_lack(&mut self, now: Instant, event: u64, source: SourceId) {
        let is_over = self.closed.contains(event) || event < self.forgotten_below;
        if source.0 >= self.config.sources || !self.alive.contains(source) {
            return;
        }
        if !self.open.contains(event) {
            // As a fragment does, it may come before the assignment.
            if is_over || self.early >= EARLY_MAX {
                return;
            }
            self.open_early(now, event);
        }
        let Some(open) = self.open.get_mut(event) else {
            return;
        };
        open.lacking.insert(source);
        let was_under_way = open.under_way.remove(source);
        self.under_way -= u32::from(was_under_way);
        self.settle(now, event);
        self.grant();
    }

    fn follow_sequence(&mut self, fragment: &Fragment) {
        let Some(next) = self.sequences.get_mut(usize::from(fragment.source.0)) else {
            return;
        };
        let account = &mut self.account;
        match fragment.sequence.checked_sub(*next) {
            None => account.out_of_sequence += 1,
            Some(left_out) => {
                account.gaps = account.gaps.saturating_add(left_out);
                *next = fragment.sequence.saturating_add(1);
            }
        }
    }

    /// Closes `event` if there is nothing to wait for.
    fn settle(&mut self, now: Instant, event: u64) {
        let Some(open) = self.open.get(event) else {
            return;
        };
        let Some(expected) = &open.expected else {
            return;
        };
        if open.present.count == expected.count {
            self.finish(event);
            return;
        }
        let all_may_come =
            open.lacking.count == 0 && self.alive.count == u32::from(self.config.sources);
        if !all_may_come && !expected.waits_for(&open.present, &open.lacking, &self.alive) {
            self.give_up(now, event, Ending::Incomplete);
        }
    }

    fn take_open(&mut self, event: u64) -> Option<Open> {
        if self.config.credits.is_some() {
            self.withdraw(event);
        }
        let open = self.open.remove(event)?;
        self.trim_deadlines();
        self.to_grant.remove(event);
        self.under_way -= open.under_way.count;
        self.account.open -= u64::from(open.present.count);
        Some(open)
    }

    fn finish(&mut self, event: u64) {
        let Some(open) = self.take_open(event) else {
            return;
        };
        let count = open.present.count;
        self.account.built += u64::from(count);
        self.account.built_bytes = self.account.built_bytes.saturating_add(open.bytes);
        self.account.events_built += 1;
        self.account.events_open -= 1;
        self.actions.push_back(BuilderAction::Built {
            event,
            bytes: open.bytes,
            opened: open.opened,
        });
        let outcome = Outcome {
            expected: count,
            present: count,
        };
        self.close(event, open.present, outcome);
    }

    /// Closes `event` without all fragments.
    fn give_up(&mut self, now: Instant, event: u64, ending: Ending) {
        let Some(open) = self.take_open(event) else {
            return;
        };
        let Some(expected) = open.expected else {
            self.early -= 1;
            self.account.unassigned += u64::from(open.present.count);
            return;
        };
        let missing: Vec<_> = expected.without(&open.present).collect();
        for source in &missing {
            self.account.missing_by_source[usize::from(source.0)] += 1;
        }
        self.account.missing += missing.len() as u64;
        if ending == Ending::Incomplete {
            let due = |it: &&SourceId| self.alive.contains(**it) && !open.lacking.contains(**it);
            self.account.timed_out += missing.iter().filter(due).count() as u64;
        }
        self.account.kept += u64::from(open.present.count);
        self.account.events_open -= 1;
        if ending == Ending::Abandoned {
            self.account.events_abandoned += 1;
            self.remember(event, open.present);
            return;
        }
        self.account.events_incomplete += 1;
        let after = now.saturating_duration_since(open.opened);
        self.actions.push_back(BuilderAction::Incomplete {
            event,
            missing,
            after,
        });
        let outcome = Outcome {
            expected: expected.count,
            present: open.present.count,
        };
        self.close(event, open.present, outcome);
    }

    fn close(&mut self, event: u64, present: Set, outcome: Outcome) {
        self.actions
            .push_back(BuilderAction::Close { event, outcome });
        if self.config.pull.is_some() {
            self.actions.push_back(BuilderAction::Request { events: 1 });
        }
        self.remember(event, present);
    }

    fn remember(&mut self, event: u64, present: Set) {
        self.closed.insert(event, present);
        while self.closed.len() > self.config.remembered_events {
            let Some((oldest, _)) = self.closed.pop_first() else {
                return;
            };
            self.forgotten_below = self.forgotten_below.max(oldest.saturating_add(1));
        }
    }

    /// Grants as much as may be under way.
    fn grant(&mut self) {
        let Some(credits) = self.config.credits else {
            return;
        };
        while self.under_way < credits {
            let Some(event) = self.to_grant.first() else {
                return;
            };
            match self.next_to_grant(event) {
                Some(source) => {
                    self.under_way += 1;
                    self.actions
                        .push_back(BuilderAction::Grant { source, event });
                }
                None => {
                    self.to_grant.remove(event);
                }
            }
        }
    }

    /// The next source of `event` that is alive and was not asked.
    fn next_to_grant(&mut self, event: u64) -> Option<SourceId> {
        let sources = self.config.sources;
        let open = self.open.get_mut(event)?;
        let first = event % u64::from(sources.max(1));
        while open.looked < sources {
            let at = (first + u64::from(open.looked)) % u64::from(sources);
            open.looked += 1;
            let source = SourceId(u16::try_from(at).ok()?);
            let wanted = open.expected.as_ref().is_some_and(|it| it.contains(source));
            let may_come = !open.present.contains(source) && !open.lacking.contains(source);
            if wanted && may_come && self.alive.contains(source) {
                open.under_way.insert(source);
                return Some(source);
            }
        }
        None
    }

    /// Tells those whose fragment of `event` has not come that it is not wanted. Granted fragments
    /// that came too late would make those of the next events late, too.
    fn withdraw(&mut self, event: u64) {
        let Some(open) = self.open.get(event) else {
            return;
        };
        let Some(expected) = &open.expected else {
            return;
        };
        let missing = expected.without(&open.present);
        let may_come = |it: &SourceId| !open.lacking.contains(*it) && self.alive.contains(*it);
        self.actions.extend(
            missing
                .filter(may_come)
                .map(|source| BuilderAction::Withdraw { source, event }),
        );
    }

    /// `source` is lost.
    pub fn handle_lost(&mut self, now: Instant, source: SourceId) {
        if !self.alive.remove(source) {
            return;
        }
        for open in self.open.values_mut() {
            let was_under_way = open.under_way.remove(source);
            self.under_way -= u32::from(was_under_way);
        }
        for event in self.open.events().collect::<Vec<_>>() {
            self.settle(now, event);
        }
        self.grant();
    }

    /// `source` is there again, and begins with sequence number 0. Events that are assigned
    /// from now on wait for it.
    pub fn handle_joined(&mut self, source: SourceId) {
        if source.0 >= self.config.sources {
            return;
        }
        self.alive.insert(source);
        if let Some(next) = self.sequences.get_mut(usize::from(source.0)) {
            *next = 0;
        }
    }

    /// The manager counts on this builder from now on: when the run starts, and when it had given
    /// the builder up and takes it back. What is open is no longer its.
    pub fn handle_entered(&mut self, now: Instant) {
        self.abandon(now);
        self.sequences.fill(0);
        let request = self
            .config
            .pull
            .map(|events| BuilderAction::Request { events });
        self.actions.extend(request);
    }

    /// The run is aborted: what is open is dropped with account.
    pub fn abandon(&mut self, now: Instant) {
        for event in self.open.events().collect::<Vec<_>>() {
            self.give_up(now, event, Ending::Abandoned);
        }
    }

    /// For a while this builder could take no fragments, because it waited for a disk: that time does
    /// not count for the events that were open.
    pub fn handle_pause(&mut self, pause: Duration) {
        for (deadline, _) in &mut self.deadlines {
            *deadline = deadline.saturating_add(pause);
        }
        for open in self.open.values_mut() {
            open.deadline = open.deadline.saturating_add(pause);
        }
    }

    /// Time has passed: gives up what was open for too long.
    pub fn handle_time(&mut self, now: Instant) {
        while let Some(&(_, event)) = self.deadlines.front().filter(|(at, _)| *at <= now) {
            self.give_up(now, event, Ending::Incomplete);
        }
        self.grant();
    }
}
