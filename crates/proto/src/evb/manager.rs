//! The event manager: numbers events, gives them to builders, lets them go when there is room
//! for them, and knows who is alive and where the run stands.
//!
//! | input | what changes |
//! |---|---|
//! | `command` | the state, by the table of [`RunState`], or it is refused |
//! | `trigger` | an event waits, or the trigger is refused: not running, or too many wait |
//! | `handle_request` | policy of pulled events: a builder wants some |
//! | `handle_close` | an event is closed; there is room for another |
//! | `handle_alive` | the part is alive until `liveness` from now; joins again if it was lost |
//! | `handle_busy` | the same, from when it will have done what it is about to do |
//! | `handle_lost` | its connection is gone: lost at once |
//! | `handle_time` | parts that were not heard of are lost |
//!
//! An event that waits is assigned when the policy names a builder, a source is alive, and
//! fewer than [`ManagerConfig::window`] are in flight. A source that comes back takes part from the
//! first event that was triggered after that. With [`ManagerConfig::schedule`] its
//! start is the first time at which neither its builder nor any source has another fragment
//! to take or to give: a slot after the last start, and as many slots as there are sources
//! after the last start for the same builder.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use barewire_units::{Duration, Instant};

use super::assign::{Assigner, Policy};
use super::events::EventMap;
use super::ledger::EventAccount;
use super::run::{BuilderId, Command, Part, RunState, SourceId};
use barewire_units::Deadlines;

/// Global traffic control by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Time for a fragment; the same as in [`super::Flow::Scheduled`].
    pub slot: Duration,
    /// Shortest time from assignment to start: what it takes to tell everybody.
    pub lead: Duration,
}

/// What a manager is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Sources, numbered from 0.
    pub sources: u16,
    /// Builders, numbered from 0.
    pub builders: u16,
    /// Which builder gets an event.
    pub policy: Policy,
    /// Most events that are assigned and not closed.
    pub window: Option<u32>,
    /// Most events that wait.
    pub backlog: u32,
    /// Starts set by the manager.
    pub schedule: Option<Schedule>,
    /// A part not heard of for so long is lost. [`Duration::MAX`]: never.
    pub liveness: Duration,
    /// Whether the run goes on without a lost part.
    pub goes_on: bool,
}

/// How an event was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Fragments it should have.
    pub expected: u32,
    /// Fragments that were there.
    pub present: u32,
}

/// What the manager wants said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagerAction {
    /// To all sources, and to `builder`.
    Assign {
        /// Which event.
        event: u64,
        /// Who builds it.
        builder: BuilderId,
        /// When the first source starts, if the manager sets it.
        start: Option<Instant>,
    },
    /// To all: this part is lost.
    Lost(Part),
    /// To all, and to the part: it is there, with nothing of what it had. Events from this
    /// number on are to have its fragment.
    Joined(Part, u64),
    /// To all: the run is in this state. On a change from one that was running to Configured
    /// by [`Command::Abort`], or to Failed, everybody drops what there is.
    Enter {
        /// The state.
        state: RunState,
        /// What brought it about.
        by: Command,
    },
}

/// A command that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{command:?} is not possible in state {state:?}")]
pub struct NotAllowed {
    /// Where the run stands.
    pub state: RunState,
    /// What was asked for.
    pub command: Command,
}

/// Why a trigger was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The run does not take any.
    #[error("no triggers in state {0:?}")]
    NotRunning(RunState),
    /// Too many events wait.
    #[error("{0} events wait already")]
    Backlog(u32),
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    builder: BuilderId,
    expected: u32,
}

/// The manager.
#[derive(Clone, Debug)]
pub struct Manager {
    config: ManagerConfig,
    state: RunState,
    assigner: Assigner,
    next_event: u64,
    waiting: VecDeque<u64>,
    in_flight: EventMap<InFlight>,
    sources_alive: u16,
    /// Sources that are there again, and the first event that they can have a fragment of.
    joining: Vec<(u64, SourceId)>,
    /// Until when each part counts as alive; `None` if it is lost.
    alive_until: BTreeMap<Part, Option<Instant>>,
    deadlines: Deadlines<Part>,
    last_start: Option<Instant>,
    free_from: Vec<Instant>,
    actions: VecDeque<ManagerAction>,
    account: EventAccount,
    given_up: Vec<u64>,
}

impl Manager {
    /// A manager of an idle run. All parts count as alive from `now` on.
    #[must_use]
    pub fn new(config: ManagerConfig, now: Instant) -> Self {
        let mut deadlines = Deadlines::new(config.liveness);
        let sources = (0..config.sources).map(|it| Part::Source(SourceId(it)));
        let builders = (0..config.builders).map(|it| Part::Builder(BuilderId(it)));
        let parts = sources.chain(builders);
        Self {
            config,
            state: RunState::Idle,
            assigner: Assigner::new(config.policy, config.builders),
            next_event: 0,
            waiting: VecDeque::new(),
            in_flight: EventMap::new(),
            sources_alive: config.sources,
            joining: Vec::new(),
            alive_until: parts
                .map(|part| (part, Some(deadlines.start(now, part))))
                .collect(),
            deadlines,
            last_start: None,
            free_from: vec![Instant::ORIGIN; usize::from(config.builders)],
            actions: VecDeque::new(),
            account: EventAccount::default(),
            given_up: Vec::new(),
        }
    }

    /// What it is made of.
    #[must_use]
    pub const fn config(&self) -> ManagerConfig {
        self.config
    }

    /// Where the run stands.
    #[must_use]
    pub const fn state(&self) -> RunState {
        self.state
    }

    /// Its account.
    #[must_use]
    pub fn account(&self) -> EventAccount {
        EventAccount {
            waiting: self.waiting.len() as u64,
            in_flight: self.in_flight.len() as u64,
            ..self.account
        }
    }

    /// Whether a part takes part: it is alive, and was let in. A part that begins must be told of
    /// all others that do not, as if they were lost then.
    #[must_use]
    pub fn counts_on(&self, part: Part) -> bool {
        let outside = |&(_, it): &(u64, SourceId)| Part::Source(it) == part;
        self.alive_until.get(&part).is_some_and(Option::is_some)
            && !self.joining.iter().any(outside)
    }

    /// What is to be said.
    pub fn poll_action(&mut self) -> Option<ManagerAction> {
        self.actions.pop_front()
    }

    /// When to call [`Manager::handle_time`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// A command of the operator.
    ///
    /// # Errors
    ///
    /// The state does not allow it, or it is one that only the manager gives.
    pub fn command(&mut self, now: Instant, command: Command) -> Result<(), NotAllowed> {
        let not_allowed = NotAllowed {
            state: self.state,
            command,
        };
        if matches!(command, Command::Drained | Command::Fail) || !self.step(command) {
            return Err(not_allowed);
        }
        match command {
            Command::Configure => {
                self.next_event = 0;
                self.joining.iter_mut().for_each(|(from, _)| *from = 0);
                self.join_sources(0);
                self.account = EventAccount::default();
            }
            Command::Abort => self.drop_all(),
            _ => self.advance(now),
        }
        Ok(())
    }

    /// Whether there is such a transition; it is made then.
    fn step(&mut self, command: Command) -> bool {
        let Some(state) = self.state.on(command) else {
            return false;
        };
        self.state = state;
        self.actions
            .push_back(ManagerAction::Enter { state, by: command });
        true
    }

    fn drop_all(&mut self) {
        self.account.aborted += (self.waiting.len() + self.in_flight.len()) as u64;
        self.waiting.clear();
        for (_, event) in self.in_flight.iter() {
            self.assigner.finish(event.builder);
        }
        self.given_up.extend(self.in_flight.events());
        self.in_flight.clear();
    }

    /// An event has happened: its number.
    ///
    /// # Errors
    ///
    /// The event is not taken. It is counted as refused.
    pub fn trigger(&mut self, now: Instant) -> Result<u64, Refused> {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let refused = match self.state {
            RunState::Running if waiting < self.config.backlog => None,
            RunState::Running => Some(Refused::Backlog(waiting)),
            state => Some(Refused::NotRunning(state)),
        };
        if let Some(refused) = refused {
            self.account.refused += 1;
            return Err(refused);
        }
        let event = self.next_event;
        self.next_event += 1;
        self.account.triggered += 1;
        self.waiting.push_back(event);
        self.advance(now);
        Ok(event)
    }

    /// A builder wants events.
    pub fn handle_request(&mut self, now: Instant, builder: BuilderId, events: u32) {
        self.assigner.ask(builder, events);
        self.advance(now);
    }

    /// A builder has closed an event. What does not fit the assignment is counted and ignored.
    pub fn handle_close(&mut self, now: Instant, builder: BuilderId, event: u64, outcome: Outcome) {
        let known = self.in_flight.get(event).is_some_and(|it| {
            (it.builder, it.expected) == (builder, outcome.expected)
                && outcome.present <= outcome.expected
        });
        if !known {
            self.account.stale_closes += 1;
            return;
        }
        self.in_flight.remove(event);
        self.assigner.finish(builder);
        let account = &mut self.account;
        account.expected += u64::from(outcome.expected);
        account.present += u64::from(outcome.present);
        account.missing += u64::from(outcome.expected - outcome.present);
        if outcome.present == outcome.expected {
            account.built += 1;
        } else {
            account.incomplete += 1;
        }
        self.advance(now);
    }

    /// Assigns what can be assigned, and ends a run that is drained.
    fn advance(&mut self, now: Instant) {
        loop {
            let next = self.waiting.front().copied();
            self.join_sources(next.unwrap_or(self.next_event));
            let Some(event) = next else {
                break;
            };
            if self.state == RunState::Paused || self.window_is_full() {
                break;
            }
            if self.sources_alive == 0 {
                if self.joining.is_empty() {
                    break;
                }
                // Who joins has no fragment of it, and nobody else is there.
                self.waiting.pop_front();
                self.account.abandoned += 1;
                continue;
            }
            let Some(builder) = self.assigner.assign(event) else {
                break;
            };
            self.waiting.pop_front();
            let expected = u32::from(self.sources_alive);
            self.in_flight.insert(event, InFlight { builder, expected });
            let start = self.start(now, builder);
            self.actions.push_back(ManagerAction::Assign {
                event,
                builder,
                start,
            });
        }
        let empty = self.waiting.is_empty() && self.in_flight.is_empty();
        if empty && self.state == RunState::Draining {
            self.step(Command::Drained);
        }
    }

    fn window_is_full(&self) -> bool {
        let in_flight = u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX);
        self.config.window.is_some_and(|window| in_flight >= window)
    }

    /// Lets in the sources that can have a fragment of `event`.
    fn join_sources(&mut self, event: u64) {
        while let Some(at) = self.joining.iter().position(|&(from, _)| from <= event) {
            let (from, source) = self.joining.remove(at);
            self.sources_alive += 1;
            self.actions
                .push_back(ManagerAction::Joined(Part::Source(source), from));
        }
    }

    fn start(&mut self, now: Instant, builder: BuilderId) -> Option<Instant> {
        let Schedule { slot, lead } = self.config.schedule?;
        let free_from = self.free_from.get_mut(usize::from(builder.0))?;
        let soonest = now.saturating_add(lead);
        let after_last = self.last_start.map(|last| last.saturating_add(slot));
        let start = soonest.max(*free_from).max(after_last.unwrap_or(soonest));
        let whole = slot.checked_mul(u64::from(self.config.sources));
        *free_from = whole.map_or(Instant::MAX, |whole| start.saturating_add(whole));
        self.last_start = Some(start);
        Some(start)
    }

    /// Events that were abandoned or aborted while a builder had them, since this was last asked.
    pub fn take_given_up(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.given_up)
    }

    /// A part lives. One that was lost joins again, with nothing of what it had.
    pub fn handle_alive(&mut self, now: Instant, part: Part) {
        self.handle_busy(now, part, Duration::ZERO);
    }

    /// A part lives, and may not say so again for this `time`.
    pub fn handle_busy(&mut self, now: Instant, part: Part, time: Duration) {
        let Some(until) = self.alive_until.get_mut(&part) else {
            return;
        };
        let was_alive = match *until {
            Some(deadline) => {
                self.deadlines.stop(deadline, part);
                true
            }
            None => false,
        };
        *until = Some(self.deadlines.start(now.saturating_add(time), part));
        if was_alive {
            return;
        }
        match part {
            Part::Source(source) => self.joining.push((self.next_event, source)),
            Part::Builder(builder) => {
                let joined = ManagerAction::Joined(part, self.next_event);
                self.actions.push_back(joined);
                self.assigner.join(builder);
                self.free_from[usize::from(builder.0)] = now;
            }
        }
        self.advance(now);
    }

    /// A part is gone.
    pub fn handle_lost(&mut self, now: Instant, part: Part) {
        let Some(until) = self.alive_until.get_mut(&part) else {
            return;
        };
        let Some(deadline) = until.take() else {
            return;
        };
        self.deadlines.stop(deadline, part);
        self.actions.push_back(ManagerAction::Lost(part));
        match part {
            Part::Source(source) => self.leave(source),
            Part::Builder(builder) => {
                self.assigner.remove(builder);
                let its = self
                    .in_flight
                    .iter()
                    .filter(|(_, it)| it.builder == builder);
                let its: Vec<_> = its.map(|(event, _)| event).collect();
                for &event in &its {
                    self.in_flight.remove(event);
                }
                self.account.abandoned += its.len() as u64;
                self.given_up.extend(its);
            }
        }
        if !self.config.goes_on && self.step(Command::Fail) {
            self.drop_all();
        }
        self.advance(now);
    }

    fn leave(&mut self, source: SourceId) {
        let joining = self.joining.len();
        self.joining.retain(|&(_, it)| it != source);
        // One that was not let in yet is not counted.
        self.sources_alive -= u16::from(joining == self.joining.len());
    }

    /// Time has passed: who was not heard of is lost.
    pub fn handle_time(&mut self, now: Instant) {
        while let Some(part) = self.deadlines.due(now) {
            self.handle_lost(now, part);
        }
    }
}
