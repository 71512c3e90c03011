//! Sources, switch, builders and manager, driven by the event kernel.
//!
//! | event | what happens |
//! |---|---|
//! | `Trigger` | an event has happened; triggers wait while a source has no room |
//! | `Sent` | a source has sent a frame, which is at its output port |
//! | `Look` | the time of a source has come: a slot, a start, a bucket |
//! | `Assigned` | all sources and the builder are told of an assignment |
//! | `Granted`, `Withdrawn` | a source is told by a builder |
//! | `Delivered` | a builder has a whole fragment |
//! | `Segment`, `Ack`, `SenderTick`, `ReceiverTick` | TCP |
//! | `Timeout` | the time of an event at a builder is over |
//! | `Closed`, `Requested` | the manager is told by a builder |

use std::collections::{BTreeSet, VecDeque};

use barewire_des::dist::exponential_time;
use barewire_des::{Class, Node, Simulator};
use barewire_models::kek::Port;
use barewire_models::tcp::Segment;
use barewire_proto::evb::{
    Builder, BuilderAction, BuilderId, Command, Fragment, Ledger, Manager, ManagerAction, Piece,
    RunState, Source, SourceId, Unoffered,
};
use barewire_units::{ByteSize, Duration, Instant, Rng};

use super::inputs::Triggers;
use super::shape::{GAP_BYTES, Shape};
use super::tcp::{Connections, tick_from};
use crate::error::SystemError;
use crate::kek::ethernet::RUN;

mod capture;
mod event;
mod found;
mod links;
mod tcp_events;

use event::BurstEvent;
pub use found::Found;
use links::Captures;

const MANAGER: Node = Node(u16::MAX);
const FIRST_BUILDER: u16 = 1 << 14;
const fn source_node(source: u16) -> Node {
    Node(source)
}

const fn builder_node(builder: u16) -> Node {
    Node(FIRST_BUILDER + builder)
}

/// What is on a source's link.
#[derive(Clone, Copy, Debug)]
enum Sending {
    Piece(Piece),
    Segment(u32, Segment),
}

struct SourceNode {
    core: Source,
    /// How far its clock is ahead.
    ahead: Duration,
    sending: Option<Sending>,
    look: Option<Instant>,
    random: Rng,
    /// Fragments that the source has not taken.
    detector: VecDeque<(u64, u64)>,
    /// Events of which a frame was lost.
    damaged: BTreeSet<u64>,
    /// Connections that may have something to send, in turn.
    active: VecDeque<u32>,
    highest_bytes: u64,
}

struct BuilderNode {
    core: Builder,
    port: Port,
    /// When its own link is free.
    link_free_at: Instant,
    timeout: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Happened {
    at: Instant,
    wire_bytes: u64,
}

struct World<'a> {
    shape: &'a Shape,
    manager: Manager,
    link_free_at: Instant,
    sources: Vec<SourceNode>,
    builders: Vec<BuilderNode>,
    connections: Option<Connections>,
    random: Rng,
    happened: Vec<Happened>,
    /// A trigger waits for room.
    held: bool,
    /// Sources with fragments that they have not taken.
    blocked: usize,
    /// The last trigger, or a later event that was built.
    last: Instant,
    built: u64,
    built_wire_bytes: u64,
    building_ps: Vec<u64>,
    fragments_lost: u64,
    segments_repeated: u64,
    /// Of each source's and each builder's link, to the switch and from it; empty if not asked for.
    captures: Captures,
}

/// Runs `shape`.
pub fn run(shape: &Shape, seed: u64, packets_per_link: usize) -> Result<Found, SystemError> {
    let mut sim = Simulator::new();
    let mut world = World::new(shape, seed, packets_per_link)?;
    for builder in 0..shape.builders {
        world.builders[usize::from(builder)]
            .core
            .handle_entered(Instant::ORIGIN);
        world.follow_builder(builder, &mut sim);
    }
    sim.at(Instant::ORIGIN, Class::NORMAL, MANAGER, BurstEvent::Trigger);
    sim.run(&mut world);
    world.finish(sim.trace_hash())
}

impl<'a> World<'a> {
    fn new(shape: &'a Shape, seed: u64, packets: usize) -> Result<Self, SystemError> {
        let random = Rng::from_seed(seed);
        let now = Instant::ORIGIN;
        let mut manager = Manager::new(shape.manager(), now);
        for command in [Command::Configure, Command::Start] {
            manager
                .command(now, command)
                .map_err(|error| SystemError::Contradiction(error.to_string()))?;
        }
        let mut sources = Vec::with_capacity(usize::from(shape.sources));
        for id in 0..shape.sources {
            let mut clock = random.fork_nth("clock", u64::from(id));
            let no_rate = || SystemError::Contradiction("shaping_share: no rate is left".into());
            let config = shape.source(SourceId(id)).ok_or_else(no_rate)?;
            let core = Source::new(config)
                .map_err(|error| SystemError::Contradiction(error.to_string()))?;
            sources.push(SourceNode {
                core,
                ahead: Duration::from_ps(clock.in_range(0..=shape.clock_error.as_ps())),
                sending: None,
                look: None,
                random: random.fork_nth("sizes", u64::from(id)),
                detector: VecDeque::new(),
                damaged: BTreeSet::new(),
                active: VecDeque::new(),
                highest_bytes: 0,
            });
        }
        let builder = |id| BuilderNode {
            core: Builder::new(shape.builder(BuilderId(id))),
            port: Port::new(shape.builder_link, shape.port_buffer_bytes),
            link_free_at: now,
            timeout: None,
        };
        Ok(Self {
            shape,
            manager,
            link_free_at: now,
            sources,
            builders: (0..shape.builders).map(builder).collect(),
            connections: shape.tcp.map(Connections::new),
            random: random.fork("triggers"),
            happened: Vec::new(),
            held: false,
            blocked: 0,
            last: now,
            built: 0,
            built_wire_bytes: 0,
            building_ps: Vec::new(),
            fragments_lost: 0,
            segments_repeated: 0,
            captures: Captures::new(shape, packets),
        })
    }

    /// Puts the accounts together, and holds them against what the switch has lost.
    fn finish(mut self, hash: u64) -> Result<Found, SystemError> {
        let ledger = Ledger {
            sources: self.sources.iter().map(|it| *it.core.account()).collect(),
            builders: self
                .builders
                .iter()
                .map(|it| it.core.account().clone())
                .collect(),
            events: self.manager.account(),
        };
        let balanced = ledger.balance().map_err(|error| error.to_string());
        let seen = match balanced {
            Ok(()) if ledger.lost_on_the_way() == Some(self.fragments_lost) => Ok(()),
            Ok(()) => Err("fragments lost by the switch and in the ledger differ".to_owned()),
            Err(error) => Err(error),
        };
        if self.manager.state() != RunState::Configured {
            let why = format!("the run did not end: {:?}", ledger.events);
            return Err(SystemError::Contradiction(why));
        }
        seen.map_err(|error| SystemError::Contradiction(format!("ledger: {error}")))?;
        let first = self.happened.first().map_or(self.last, |it| it.at);
        self.building_ps.sort_unstable();
        let ports = || self.builders.iter().map(|it| &it.port);
        let sources = self.sources.iter().map(|it| it.highest_bytes);
        Ok(Found {
            measured: self.last.saturating_duration_since(first),
            built: self.built,
            built_wire_bytes: self.built_wire_bytes,
            bottleneck_bps: self.shape.bottleneck_bps(),
            building_ps: self.building_ps,
            port_lost: ports().map(Port::lost).collect(),
            port_highest_bytes: ports().map(Port::highest_bytes).max().unwrap_or(0),
            source_highest_bytes: sources.max().unwrap_or(0),
            fragments_lost: self.fragments_lost,
            segments_repeated: self.segments_repeated,
            ledger,
            links: self.captures.links(),
            hash,
        })
    }

    // Triggers.

    fn trigger(&mut self, sim: &mut Simulator<BurstEvent>) {
        let now = sim.now();
        let count = self.happened.len() as u64;
        if count == self.shape.events {
            return;
        }
        if self.blocked > 0 {
            self.held = true;
            return;
        }
        let Ok(event) = self.manager.trigger(now) else {
            return;
        };
        self.last = now;
        self.happened.push(Happened {
            at: now,
            wire_bytes: 0,
        });
        for source in 0..self.sources.len() {
            let node = &mut self.sources[source];
            let bytes = self.shape.sizes.draw(&mut node.random);
            self.blocked += usize::from(node.detector.is_empty());
            node.detector.push_back((event, bytes));
            self.offer(source, sim);
        }
        if count + 1 == self.shape.events {
            // It runs, so it can be drained.
            let _ = self.manager.command(now, Command::Drain);
        }
        let wait = match self.shape.triggers {
            Triggers::Clocked => self.shape.interval,
            Triggers::Poisson => exponential_time(&mut self.random, self.shape.interval),
        };
        sim.after(wait, Class::NORMAL, MANAGER, BurstEvent::Trigger);
        self.follow_manager(sim);
    }

    /// Gives a source what its detector has; whether it took anything.
    fn offer(&mut self, source: usize, sim: &mut Simulator<BurstEvent>) -> bool {
        let node = &mut self.sources[source];
        let mut any = false;
        while let Some(&(event, bytes)) = node.detector.front() {
            if let Err(Unoffered::Full { .. }) = node.core.offer(event, bytes) {
                return any;
            }
            any = true;
            node.detector.pop_front();
            node.highest_bytes = node.highest_bytes.max(node.core.queued_bytes());
            if node.detector.is_empty() {
                self.blocked -= 1;
            }
        }
        if any && self.held && self.blocked == 0 {
            self.held = false;
            sim.at(sim.now(), Class::NORMAL, MANAGER, BurstEvent::Trigger);
        }
        any
    }

    // The manager.

    fn follow_manager(&mut self, sim: &mut Simulator<BurstEvent>) {
        let link = self.shape.source_link;
        while let Some(action) = self.manager.poll_action() {
            let ManagerAction::Assign {
                event,
                builder,
                start,
            } = action
            else {
                continue;
            };
            // One frame to all: the switch copies it.
            let left = self.link_free_at.max(sim.now()) + self.shape.message_time(link);
            self.link_free_at = left;
            let at = left + self.shape.message_way(link);
            let assigned = BurstEvent::Assigned {
                event,
                builder,
                start,
            };
            sim.at(at, Class::NORMAL, MANAGER, assigned);
        }
    }

    fn assigned(
        &mut self,
        event: u64,
        builder: BuilderId,
        start: Option<Instant>,
        sim: &mut Simulator<BurstEvent>,
    ) {
        for source in 0..self.shape.sources {
            let node = &mut self.sources[usize::from(source)];
            node.core.handle_assign(event, builder, start);
            self.pump(source, sim);
        }
        let node = &mut self.builders[usize::from(builder.0)];
        node.core.handle_assign(sim.now(), event);
        self.follow_builder(builder.0, sim);
    }

    // Sources.

    /// Begins to send the next frame of a source whose link is free, or looks again later.
    fn pump(&mut self, source: u16, sim: &mut Simulator<BurstEvent>) {
        let at = usize::from(source);
        if self.sources[at].sending.is_some() {
            return;
        }
        loop {
            let next = self.next_frame(source, sim);
            let taken = self.offer(at, sim);
            if let Some((sending, payload_bytes)) = next {
                self.sources[at].sending = Some(sending);
                self.capture_sent(source, sim.now(), &sending);
                let size = ByteSize::from_bytes(self.shape.frame_bytes(payload_bytes));
                let time = self.shape.source_link.time_to_send(size);
                let node = source_node(source);
                sim.after(time, Class::NORMAL, node, BurstEvent::Sent(source));
                return;
            }
            if !taken {
                break;
            }
        }
        let node = &mut self.sources[at];
        let Some(deadline) = node.core.next_deadline() else {
            return;
        };
        let now = sim.now();
        let look = deadline.checked_sub(node.ahead).unwrap_or(now).max(now);
        if node.look.is_none_or(|known| known > look || known < now) {
            node.look = Some(look);
            sim.at(
                look,
                Class::NORMAL,
                source_node(source),
                BurstEvent::Look(source),
            );
        }
    }

    fn next_frame(
        &mut self,
        source: u16,
        sim: &mut Simulator<BurstEvent>,
    ) -> Option<(Sending, u64)> {
        let now = sim.now();
        let clock = now.saturating_add(self.sources[usize::from(source)].ahead);
        if self.connections.is_none() {
            let piece = self.sources[usize::from(source)].core.transmit(clock)?;
            return Some((Sending::Piece(piece), piece.bytes));
        }
        loop {
            if let Some(found) = self.next_segment(source, sim) {
                return Some(found);
            }
            let piece = self.sources[usize::from(source)].core.transmit(clock)?;
            self.write(source, &piece);
        }
    }

    /// The next segment of one of the source's connections, in turn.
    fn next_segment(
        &mut self,
        source: u16,
        sim: &mut Simulator<BurstEvent>,
    ) -> Option<(Sending, u64)> {
        let node = &mut self.sources[usize::from(source)];
        let connections = self.connections.as_mut()?;
        while let Some(number) = node.active.pop_front() {
            let connection = connections.at(number);
            let Some(segment) = connection.sender.poll(sim.now()) else {
                connection.queued = false;
                continue;
            };
            node.active.push_back(number);
            let again = connection.note_sent(segment.seq, segment.len);
            self.segments_repeated += u64::from(again);
            if connection.sender_tick.is_none() {
                let due = connection.sender.deadline().unwrap_or(Instant::MAX);
                let tick = tick_from(due, self.shape.tick);
                connection.sender_tick = Some(tick);
                let event = BurstEvent::SenderTick(number);
                sim.at(tick, Class::NORMAL, source_node(source), event);
            }
            return Some((Sending::Segment(number, segment), segment.len));
        }
        None
    }

    /// The source writes a piece to its connection, which may be full after that.
    fn write(&mut self, source: u16, piece: &Piece) {
        let node = &mut self.sources[usize::from(source)];
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let number = connections.between(source, piece.builder);
        let connection = connections.at(number);
        connection.write(piece);
        if connection.sender.room() < self.shape.payload_bytes {
            connection.full = true;
            node.core.handle_full(piece.builder);
        }
        if !connection.queued {
            connection.queued = true;
            node.active.push_back(number);
        }
    }

    /// The frame of a source has left, and is at its output port.
    fn sent(&mut self, source: u16, sim: &mut Simulator<BurstEvent>) {
        match self.sources[usize::from(source)].sending.take() {
            Some(Sending::Piece(piece)) => self.switch_piece(source, &piece, sim),
            Some(Sending::Segment(number, segment)) => {
                self.switch_segment(number, segment, sim);
            }
            None => {}
        }
        self.pump(source, sim);
    }

    fn switch_piece(&mut self, source: u16, piece: &Piece, sim: &mut Simulator<BurstEvent>) {
        let builder = piece.builder.0;
        let left = self.switch(builder, piece.bytes, sim.now());
        let node = &mut self.sources[usize::from(source)];
        match left {
            Some(left) => self.capture_received(source, builder, left, &Sending::Piece(*piece)),
            None => drop(node.damaged.insert(piece.event)),
        }
        if !piece.ends() {
            return;
        }
        let node = &mut self.sources[usize::from(source)];
        let damaged = node.damaged.remove(&piece.event);
        let Some(left) = left.filter(|_| !damaged) else {
            self.fragments_lost += 1;
            return;
        };
        let fragment = Fragment {
            run: RUN,
            event: piece.event,
            source: SourceId(source),
            sequence: piece.sequence,
            bytes: piece.fragment_bytes,
            intact: true,
        };
        let delivered = BurstEvent::Delivered(builder, fragment);
        sim.at(
            left + self.shape.way,
            Class::NORMAL,
            builder_node(builder),
            delivered,
        );
    }

    fn switch_segment(&mut self, number: u32, segment: Segment, sim: &mut Simulator<BurstEvent>) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let connection = connections.at(number);
        let (source, builder) = (connection.source, connection.builder);
        if let Some(left) = self.switch(builder, segment.len, sim.now()) {
            self.capture_received(source, builder, left, &Sending::Segment(number, segment));
            let arrives = BurstEvent::Segment(number, segment);
            sim.at(
                left + self.shape.way,
                Class::NORMAL,
                builder_node(builder),
                arrives,
            );
        }
    }

    /// When a frame will have left the port of `builder`, or `None` if it is lost there.
    fn switch(&mut self, builder: u16, payload_bytes: u64, now: Instant) -> Option<Instant> {
        let wire_bytes = self.shape.frame_bytes(payload_bytes);
        let port = &mut self.builders[usize::from(builder)].port;
        port.offer(now, wire_bytes - GAP_BYTES, wire_bytes)
    }

    // Builders.

    fn follow_builder(&mut self, builder: u16, sim: &mut Simulator<BurstEvent>) {
        let at = usize::from(builder);
        while let Some(action) = self.builders[at].core.poll_action() {
            match action {
                BuilderAction::Built { event, .. } => self.note_built(event, sim.now()),
                BuilderAction::Incomplete { .. } => {}
                BuilderAction::Close { event, outcome } => {
                    let closed = BurstEvent::Closed(builder, event, outcome);
                    self.say(builder, MANAGER, closed, sim);
                }
                BuilderAction::Grant { source, event } => {
                    let granted = BurstEvent::Granted(source.0, event);
                    self.say(builder, source_node(source.0), granted, sim);
                }
                BuilderAction::Withdraw { source, event } => {
                    let withdrawn = BurstEvent::Withdrawn(source.0, event);
                    self.say(builder, source_node(source.0), withdrawn, sim);
                }
                BuilderAction::Request { events } => {
                    let requested = BurstEvent::Requested(builder, events);
                    self.say(builder, MANAGER, requested, sim);
                }
            }
        }
        let node = &mut self.builders[at];
        let Some(deadline) = node.core.next_deadline() else {
            return;
        };
        if node.timeout.is_none_or(|known| known > deadline) {
            node.timeout = Some(deadline);
            let event = BurstEvent::Timeout(builder);
            sim.at(deadline, Class::NORMAL, builder_node(builder), event);
        }
    }

    /// A message of a builder goes over its link.
    fn say(&mut self, from: u16, to: Node, message: BurstEvent, sim: &mut Simulator<BurstEvent>) {
        let node = &mut self.builders[usize::from(from)];
        let time = self.shape.message_time(self.shape.builder_link);
        node.link_free_at = node.link_free_at.max(sim.now()) + time;
        let at = node.link_free_at + self.shape.message_way(self.shape.source_link);
        sim.at(at, Class::NORMAL, to, message);
    }

    fn note_built(&mut self, event: u64, now: Instant) {
        let happened = self.happened[event as usize];
        self.last = now;
        self.built += 1;
        self.built_wire_bytes += happened.wire_bytes;
        if event >= self.shape.events / 4 {
            let time = now.saturating_duration_since(happened.at).as_ps();
            self.building_ps.push(time);
        }
    }

    fn deliver(&mut self, builder: u16, fragment: Fragment, sim: &mut Simulator<BurstEvent>) {
        let happened = &mut self.happened[fragment.event as usize];
        happened.wire_bytes += self.shape.wire_bytes(fragment.bytes);
        let node = &mut self.builders[usize::from(builder)];
        node.core.handle_fragment(sim.now(), fragment);
        self.follow_builder(builder, sim);
    }
}

impl barewire_des::World for World<'_> {
    type Event = BurstEvent;

    fn handle(&mut self, event: BurstEvent, sim: &mut Simulator<BurstEvent>) {
        match event {
            BurstEvent::Trigger => self.trigger(sim),
            BurstEvent::Sent(source) => self.sent(source, sim),
            BurstEvent::Look(source) => {
                let node = &mut self.sources[usize::from(source)];
                // A look that was overtaken by an earlier one does nothing.
                if node.look == Some(sim.now()) {
                    node.look = None;
                    self.pump(source, sim);
                }
            }
            BurstEvent::Assigned {
                event,
                builder,
                start,
            } => self.assigned(event, builder, start, sim),
            BurstEvent::Granted(source, event) => {
                self.sources[usize::from(source)].core.handle_grant(event);
                self.pump(source, sim);
            }
            BurstEvent::Withdrawn(source, event) => {
                let node = &mut self.sources[usize::from(source)];
                node.core.handle_withdrawn(event);
                self.pump(source, sim);
            }
            BurstEvent::Delivered(builder, fragment) => self.deliver(builder, fragment, sim),
            BurstEvent::Segment(number, segment) => self.segment(number, segment, sim),
            BurstEvent::Ack {
                connection,
                ack,
                edge,
            } => self.acknowledged(connection, (ack, edge), sim),
            BurstEvent::SenderTick(number) => self.sender_tick(number, sim),
            BurstEvent::ReceiverTick(number) => self.receiver_tick(number, sim),
            BurstEvent::Timeout(builder) => {
                let node = &mut self.builders[usize::from(builder)];
                if node.timeout == Some(sim.now()) {
                    node.timeout = None;
                    node.core.handle_time(sim.now());
                    self.follow_builder(builder, sim);
                }
            }
            BurstEvent::Closed(builder, event, outcome) => {
                let builder = BuilderId(builder);
                self.manager
                    .handle_close(sim.now(), builder, event, outcome);
                self.follow_manager(sim);
            }
            BurstEvent::Requested(builder, events) => {
                let builder = BuilderId(builder);
                self.manager.handle_request(sim.now(), builder, events);
                self.follow_manager(sim);
            }
        }
    }
}
