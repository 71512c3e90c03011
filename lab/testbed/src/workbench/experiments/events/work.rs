//! What each process does, a piece at a time: its messages first, then its own work.
//!
//! Process 0 is the manager; builders follow, then sources. What a process says is there for
//! the others when the time of the piece is over: [`Work::deliver`].

use std::collections::{BTreeMap, VecDeque};

use barewire_des::dist::exponential_time;
use barewire_proto::evb::{
    Builder, BuilderAction, BuilderId, Command, Fragment, Manager, ManagerAction, Outcome, Piece,
    RunState, Source, SourceId, Unoffered,
};
use barewire_units::{Duration, Instant, Rng};

use super::inputs::Triggers;
use super::shape::{GATHERED_BYTES, HEADER_BYTES, RUN, SMALL_BYTES, Shape};
use crate::error::SystemError;

/// Triggers before the manager looks at its messages again.
const TRIGGERS_AT_ONCE: u64 = 512;
/// Messages of each source before a builder says what it has done.
const MESSAGES_AT_ONCE: usize = 8;

/// An event with its builder and its start.
type Assigned = (u64, BuilderId, Option<Instant>);

#[derive(Clone, Debug)]
enum Message {
    /// Events have happened; events have builders.
    Events {
        first: u64,
        count: u64,
        assigned: Vec<Assigned>,
    },
    Grant(Vec<u64>),
    Withdraw(u64),
    Close(BuilderId, Vec<(u64, Outcome)>),
    Request(BuilderId, u32),
    Pieces {
        source: u16,
        pieces: Vec<Piece>,
        bytes: u64,
    },
    /// The receiver has taken so many bytes: not a message, but the state of the way.
    Room {
        builder: u16,
        bytes: u64,
    },
}

struct ManagerSide {
    core: Manager,
    inbox: VecDeque<Message>,
    random: Rng,
    next_trigger: Instant,
}

#[derive(Default)]
struct Said {
    closed: Vec<(u64, Outcome)>,
    grants: BTreeMap<u16, Vec<u64>>,
    withdrawn: Vec<(u16, u64)>,
    requested: u32,
}

struct BuilderSide {
    core: Builder,
    inbox: VecDeque<Message>,
    data: VecDeque<Message>,
    said: Said,
    /// Messages of sources since it has said anything.
    taken: usize,
    /// By source: bytes taken that do not count as room yet.
    returned: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Way {
    used_bytes: u64,
    full: bool,
}

struct SourceSide {
    core: Source,
    inbox: VecDeque<Message>,
    random: Rng,
    to_offer: VecDeque<(u64, u64)>,
    ways: Vec<Way>,
}

/// Sums at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub built: u64,
    pub bytes: u64,
    /// When the manager knew of the last event.
    pub ended: Instant,
}

/// All processes' work.
pub(super) struct Work<'a> {
    shape: &'a Shape,
    manager: ManagerSide,
    builders: Vec<BuilderSide>,
    sources: Vec<SourceSide>,
    /// What each process has said in the piece that it does.
    out: Vec<Vec<(u16, Message)>>,
    sums: Sums,
    building_ps: Vec<u64>,
}

fn contradiction(error: impl ToString) -> SystemError {
    SystemError::Contradiction(error.to_string())
}

impl<'a> Work<'a> {
    pub fn new(shape: &'a Shape, seed: u64) -> Result<Self, SystemError> {
        let (inputs, random) = (&shape.inputs, Rng::from_seed(seed));
        let now = Instant::ORIGIN;
        let mut core = Manager::new(shape.manager(), now);
        for command in [Command::Configure, Command::Start] {
            core.command(now, command).map_err(contradiction)?;
        }
        let source = |id| {
            Ok(SourceSide {
                core: Source::new(shape.source(SourceId(id))).map_err(contradiction)?,
                inbox: VecDeque::new(),
                random: random.fork_nth("sizes", id.into()),
                to_offer: VecDeque::new(),
                ways: vec![Way::default(); inputs.builders.into()],
            })
        };
        let builder = |id| {
            let mut core = Builder::new(shape.builder(BuilderId(id)));
            core.handle_entered(now);
            BuilderSide {
                core,
                inbox: VecDeque::new(),
                data: VecDeque::new(),
                said: Said::default(),
                taken: 0,
                returned: vec![0; inputs.sources.into()],
            }
        };
        let mut work = Self {
            shape,
            manager: ManagerSide {
                core,
                inbox: VecDeque::new(),
                random: random.fork("triggers"),
                next_trigger: now,
            },
            builders: (0..inputs.builders).map(builder).collect(),
            sources: (0..inputs.sources)
                .map(source)
                .collect::<Result<_, SystemError>>()?,
            out: Vec::new(),
            sums: Sums::default(),
            building_ps: Vec::new(),
        };
        work.out.resize_with(work.processes().into(), Vec::new);
        (0..inputs.builders).for_each(|id| work.follow_builder(id, now));
        Ok(work)
    }

    pub fn processes(&self) -> u16 {
        1 + self.shape.inputs.builders + self.shape.inputs.sources
    }

    const fn process_of_builder(id: u16) -> u16 {
        1 + id
    }

    fn process_of_source(&self, id: u16) -> u16 {
        1 + self.shape.inputs.builders + id
    }

    /// Sums and building times; an error if the run has not come to its end.
    pub fn finish(self) -> Result<(Sums, Vec<u64>), SystemError> {
        let account = self.manager.core.account();
        account.balance().map_err(contradiction)?;
        match self.manager.core.state() {
            RunState::Configured => Ok((self.sums, self.building_ps)),
            _ => Err(contradiction(format!("the run did not end: {account:?}"))),
        }
    }

    /// What a process has said is there; whom it concerns.
    pub fn deliver(&mut self, from: u16) -> Vec<u16> {
        let said = core::mem::take(&mut self.out[usize::from(from)]);
        let mut concerned = Vec::with_capacity(said.len());
        for (to, message) in said {
            let builders = self.shape.inputs.builders;
            let is_of_use = match to.checked_sub(1) {
                None => {
                    self.manager.inbox.push_back(message);
                    true
                }
                Some(id) if id < builders => {
                    let side = &mut self.builders[usize::from(id)];
                    match message {
                        Message::Pieces { .. } => side.data.push_back(message),
                        _ => side.inbox.push_back(message),
                    }
                    true
                }
                Some(id) => self.tell_source(id - builders, message),
            };
            if is_of_use {
                concerned.push(to);
            }
        }
        concerned
    }

    /// Whether the source has something to do then: it may not have waited for room.
    fn tell_source(&mut self, id: u16, message: Message) -> bool {
        let side = &mut self.sources[usize::from(id)];
        let Message::Room { builder, bytes } = message else {
            side.inbox.push_back(message);
            return true;
        };
        let way = &mut side.ways[usize::from(builder)];
        way.used_bytes -= bytes;
        let waited = way.full && has_room(self.shape, way);
        if waited {
            way.full = false;
            side.core.handle_room(BuilderId(builder));
        }
        waited
    }

    /// What a process does next, and how long it takes; `None` if it has nothing to do.
    pub fn unit(&mut self, process: u16, now: Instant) -> Option<Duration> {
        let builders = self.shape.inputs.builders;
        match process.checked_sub(1) {
            None => self.manage(now),
            Some(id) if id < builders => self.build(id, now),
            Some(id) => self.send(id - builders, now),
        }
    }

    /// When a process that sleeps looks by itself.
    pub fn deadline(&self, process: u16) -> Option<Instant> {
        let builders = self.shape.inputs.builders;
        match process.checked_sub(1) {
            None => self
                .triggers_by_clock()
                .then_some(self.manager.next_trigger),
            Some(id) if id < builders => self.builders[usize::from(id)].core.next_deadline(),
            Some(id) => self.sources[usize::from(id - builders)]
                .core
                .next_deadline(),
        }
    }

    // The manager.

    fn triggers_by_clock(&self) -> bool {
        let inputs = &self.shape.inputs;
        let paced = inputs.triggers != Triggers::Full;
        paced && self.manager.core.state() == RunState::Running
    }

    fn manage(&mut self, now: Instant) -> Option<Duration> {
        let core = &mut self.manager.core;
        let mut cost = Duration::ZERO;
        let mut any = false;
        match self.manager.inbox.pop_front() {
            Some(Message::Close(builder, closed)) => {
                any = true;
                cost += self.shape.hear(closed.len());
                for (event, outcome) in closed {
                    core.handle_close(now, builder, event, outcome);
                }
                if core.state() == RunState::Configured {
                    self.sums.ended = now;
                }
            }
            Some(Message::Request(builder, events)) => {
                any = true;
                cost += self.shape.hear(1);
                core.handle_request(now, builder, events);
            }
            _ => {}
        }
        let (first, count) = match self.manager.inbox.is_empty() {
            true => self.trigger(now),
            false => (0, 0),
        };
        let mut assigned = Vec::new();
        while let Some(action) = self.manager.core.poll_action() {
            if let ManagerAction::Assign {
                event,
                builder,
                start,
            } = action
            {
                assigned.push((event, builder, start));
            }
        }
        if count == 0 && assigned.is_empty() {
            return any.then_some(cost);
        }
        let message = Message::Events {
            first,
            count,
            assigned,
        };
        let each = self.shape.say(events_in(&message));
        for to in 1..self.processes() {
            self.out[0].push((to, message.clone()));
            cost += each;
        }
        Some(cost + self.shape.inputs.event * count)
    }

    /// Triggers what is due; the first event and how many.
    fn trigger(&mut self, now: Instant) -> (u64, u64) {
        let inputs = &self.shape.inputs;
        let side = &mut self.manager;
        if side.core.state() != RunState::Running {
            return (0, 0);
        }
        let account = side.core.account();
        let (first, mut count) = (account.triggered, 0);
        let left = inputs.events - first;
        let window = u64::from(inputs.window);
        let most = match inputs.triggers {
            Triggers::Full => window.saturating_sub(account.in_flight + account.waiting),
            Triggers::Clocked | Triggers::Poisson => u64::MAX,
        };
        while count < left.min(most).min(TRIGGERS_AT_ONCE) {
            if inputs.triggers != Triggers::Full && side.next_trigger > now {
                break;
            }
            // Refused only where a run does not run.
            let _ = side.core.trigger(now);
            count += 1;
            side.next_trigger = side.next_trigger.saturating_add(match inputs.triggers {
                Triggers::Full => Duration::ZERO,
                Triggers::Clocked => inputs.period,
                Triggers::Poisson => exponential_time(&mut side.random, inputs.period),
            });
        }
        if count == left {
            let _ = side.core.command(now, Command::Drain);
        }
        (first, count)
    }

    // Builders.

    fn build(&mut self, id: u16, now: Instant) -> Option<Duration> {
        let side = &mut self.builders[usize::from(id)];
        side.core.handle_time(now);
        if let Some(message) = side.inbox.pop_front() {
            let cost = self.shape.hear(events_in(&message));
            if let Message::Events { assigned, .. } = message {
                let own = assigned.iter().filter(|it| it.1 == BuilderId(id));
                own.for_each(|it| side.core.handle_assign(now, it.0));
            }
            self.follow_builder(id, now);
            return Some(cost);
        }
        let most = MESSAGES_AT_ONCE * side.returned.len();
        if side.taken < most && !side.data.is_empty() {
            return self.take(id, now);
        }
        side.taken = 0;
        self.follow_builder(id, now);
        self.say(id).or_else(|| self.take(id, now))
    }

    /// Takes a message of a source.
    fn take(&mut self, id: u16, now: Instant) -> Option<Duration> {
        let side = &mut self.builders[usize::from(id)];
        let Some(Message::Pieces {
            source,
            pieces,
            bytes,
        }) = side.data.pop_front()
        else {
            return None;
        };
        side.taken += 1;
        for piece in pieces.iter().filter(|it| it.ends()) {
            side.core.handle_fragment(
                now,
                Fragment {
                    run: RUN,
                    event: piece.event,
                    source: SourceId(source),
                    sequence: piece.sequence,
                    bytes: piece.fragment_bytes,
                    intact: true,
                },
            );
        }
        let returned = &mut side.returned[usize::from(source)];
        *returned += bytes;
        if *returned >= self.shape.room_comes_by() {
            let bytes = core::mem::take(returned);
            let room = Message::Room { builder: id, bytes };
            let to = self.process_of_source(source);
            self.out[usize::from(Self::process_of_builder(id))].push((to, room));
        }
        self.follow_builder(id, now);
        Some(self.shape.take(pieces.len() as u64, bytes))
    }

    fn follow_builder(&mut self, id: u16, now: Instant) {
        let side = &mut self.builders[usize::from(id)];
        while let Some(action) = side.core.poll_action() {
            match action {
                BuilderAction::Built { bytes, opened, .. } => {
                    let took = now.saturating_duration_since(opened);
                    self.building_ps.push(took.as_ps());
                    self.sums.built += 1;
                    self.sums.bytes += bytes;
                }
                BuilderAction::Incomplete { .. } => {}
                BuilderAction::Close { event, outcome } => side.said.closed.push((event, outcome)),
                BuilderAction::Grant { source, event } => {
                    side.said.grants.entry(source.0).or_default().push(event);
                }
                BuilderAction::Withdraw { source, event } => {
                    side.said.withdrawn.push((source.0, event));
                }
                BuilderAction::Request { events } => side.said.requested += events,
            }
        }
    }

    /// Says what has become of events; `None` if there is nothing to say.
    fn say(&mut self, id: u16) -> Option<Duration> {
        let said = core::mem::take(&mut self.builders[usize::from(id)].said);
        let mut messages = Vec::new();
        if !said.closed.is_empty() {
            messages.push((0, Message::Close(BuilderId(id), said.closed)));
        }
        if said.requested > 0 {
            messages.push((0, Message::Request(BuilderId(id), said.requested)));
        }
        for (source, events) in said.grants {
            messages.push((self.process_of_source(source), Message::Grant(events)));
        }
        for (source, event) in said.withdrawn {
            messages.push((self.process_of_source(source), Message::Withdraw(event)));
        }
        let costs = messages.iter().map(|it| self.shape.say(events_in(&it.1)));
        let cost = costs.reduce(|sum, cost| sum + cost);
        self.out[usize::from(Self::process_of_builder(id))].extend(messages);
        cost
    }

    // Sources.

    fn send(&mut self, id: u16, now: Instant) -> Option<Duration> {
        let side = &mut self.sources[usize::from(id)];
        if let Some(message) = side.inbox.pop_front() {
            let cost = self.shape.hear(events_in(&message));
            match message {
                Message::Events {
                    first,
                    count,
                    assigned,
                } => {
                    side.to_offer.push_back((first, first + count));
                    side.offer(self.shape);
                    for (event, builder, start) in assigned {
                        side.core.handle_assign(event, builder, start);
                    }
                }
                Message::Grant(events) => events.iter().for_each(|it| side.core.handle_grant(*it)),
                Message::Withdraw(event) => side.core.handle_withdrawn(event),
                _ => {}
            }
            return Some(cost);
        }
        side.offer(self.shape);
        let gathered = side.gather(self.shape, now);
        let mut cost = None;
        let out = &mut self.out[usize::from(1 + self.shape.inputs.builders + id)];
        for (builder, (pieces, bytes)) in gathered {
            let time = self.shape.make(pieces.len() as u64, bytes);
            cost = Some(cost.unwrap_or(Duration::ZERO) + time);
            let message = Message::Pieces {
                source: id,
                pieces,
                bytes,
            };
            out.push((Self::process_of_builder(builder), message));
        }
        cost
    }
}

/// Of how many events a control message speaks.
fn events_in(message: &Message) -> usize {
    match message {
        Message::Events { assigned, .. } => assigned.len(),
        Message::Grant(events) => events.len(),
        Message::Close(_, closed) => closed.len(),
        _ => 1,
    }
}

/// Whether the longest message has room.
fn has_room(shape: &Shape, way: &Way) -> bool {
    let piece = shape.inputs.piece.as_bytes().max(SMALL_BYTES) + HEADER_BYTES;
    way.used_bytes + piece <= shape.inputs.room.as_bytes()
}

impl SourceSide {
    /// Takes fragments from the detector while there is room.
    fn offer(&mut self, shape: &Shape) {
        while let Some((event, end)) = self.to_offer.front_mut() {
            if event == end {
                self.to_offer.pop_front();
                continue;
            }
            // The same size each time that it is offered.
            let before = self.random.clone();
            let bytes = shape.sizes.draw(&mut self.random);
            if let Err(Unoffered::Full { .. }) = self.core.offer(*event, bytes) {
                self.random = before;
                return;
            }
            *event += 1;
        }
    }

    /// Pieces that go now, by builder: until a message is long enough, or nothing may go.
    fn gather(&mut self, shape: &Shape, now: Instant) -> BTreeMap<u16, (Vec<Piece>, u64)> {
        let mut gathered: BTreeMap<u16, (Vec<Piece>, u64)> = BTreeMap::new();
        while let Some(piece) = self.core.transmit(now) {
            let (pieces, bytes) = gathered.entry(piece.builder.0).or_default();
            pieces.push(piece);
            *bytes += piece.bytes + HEADER_BYTES;
            let is_long = piece.bytes > SMALL_BYTES || *bytes >= GATHERED_BYTES;
            let way = &mut self.ways[usize::from(piece.builder.0)];
            way.used_bytes += piece.bytes + HEADER_BYTES;
            if !has_room(shape, way) {
                way.full = true;
                self.core.handle_full(piece.builder);
            }
            if is_long {
                break;
            }
        }
        gathered
    }
}
