//! Whole runs, drawn from a seed: sources, builders and a manager over a network that loses,
//! doubles, spoils, reorders and delays, with parts that die, hang and come back.
//!
//! Checked at the end: everything ends; every account balances; what the sources sent is what
//! the builders saw and what the network says it lost; no event is built twice or without a
//! fragment that was sent; without deaths, builders and manager say the same.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use proptest::prelude::*;

use crate::evb::*;

mod net;

use net::Net;

const RATE: Rate = Rate::from_mbps(100);
const LIVENESS: Duration = Duration::from_ms(20);
const BEAT: Duration = Duration::from_ms(5);
/// After this, what waits for a dead builder or source is over.
const END: Instant = Instant::from_ps(3_000_000_000_000);

#[derive(Clone, Debug)]
enum Message {
    /// Its next event, or the one that was refused.
    Trigger,
    /// To a source of this life.
    Assigned(u16, u32, u64, BuilderId, Option<Instant>),
    Granted(u16, u32, u64),
    Withdrawn(u16, u32, u64),
    /// The link of a source, in which of its lives.
    Link(u16, u32),
    /// To a builder of this life.
    BuilderAssigned(u16, u32, u64),
    Arrived(u16, Fragment),
    Look(u16, u32),
    Closed(u16, u32, u64, Outcome),
    Requested(u16, u32, u32),
    Told(Part, u32, ManagerAction),
    Beat(Part, u32),
    Kill(Part, bool),
    Revive(Part, bool),
    ManagerLook,
    Command(Command),
}

struct Life<T> {
    core: T,
    life: u32,
    dead: bool,
    /// Does not say that it lives.
    silent: bool,
}

struct Swarm {
    net: Net,
    manager: Manager,
    sources: Vec<Life<Source>>,
    builders: Vec<Life<Builder>>,
    source_config: SourceConfig,
    builder_config: BuilderConfig,
    /// Accounts of those that died.
    source_accounts: Vec<SourceAccount>,
    builder_accounts: Vec<BuilderAccount>,
    detectors: Vec<Vec<(u64, u64)>>,
    events_left: u32,
    built: BTreeSet<u64>,
    sent: BTreeSet<(u64, u16)>,
    deaths: bool,
}

fn key(part: Part) -> u32 {
    match part {
        Part::Source(SourceId(id)) => 1 + u32::from(id),
        Part::Builder(BuilderId(id)) => 1_000 + u32::from(id),
    }
}

impl Swarm {
    fn new(seed: u64) -> Self {
        let mut random = Rng::from_seed(seed);
        let sources = random.in_range(1..=5) as u16;
        let builders = random.in_range(1..=4) as u16;
        let slot = Duration::from_us(400);
        let (flow, schedule) = match random.below(5) {
            0 => (Flow::Free, None),
            1 => {
                let burst = ByteSize::from_bytes(2_000);
                let rate = Rate::from_mbps(20);
                (Flow::Shaped { rate, burst }, None)
            }
            2 => {
                let barrel = Barrel {
                    builders,
                    period: Barrel::period_for(sources, builders),
                    epoch: Instant::from_ps(random.below(1_000_000)),
                    slot,
                    rate: RATE,
                };
                (Flow::Barrel(barrel), None)
            }
            3 => (Flow::Credits, None),
            _ => {
                let lead = Duration::from_us(350);
                (Flow::Scheduled { slot }, Some(Schedule { slot, lead }))
            }
        };
        let policies = [
            Policy::RoundRobin,
            Policy::LeastLoaded,
            Policy::Pulled,
            Policy::Hash,
        ];
        let policy = *random.choose(&policies).expect("there are four");
        let window = random.ratio(1, 2).then(|| random.in_range(1..=8) as u32);
        let deaths = random.ratio(1, 2);
        let config = ManagerConfig {
            sources,
            builders,
            policy,
            window,
            backlog: random.in_range(1..=20) as u32,
            schedule,
            liveness: LIVENESS,
            goes_on: !random.ratio(1, 10),
        };
        let source_config = SourceConfig {
            id: SourceId(0),
            buffer_bytes: random.in_range(2_000..=30_000),
            full: if random.ratio(1, 2) {
                WhenFull::Block
            } else {
                WhenFull::Drop
            },
            piece_bytes: 1_000,
            overhead_bytes: 38,
            flow,
        };
        let builder_config = BuilderConfig {
            id: BuilderId(0),
            run: 7,
            sources,
            timeout: Duration::from_ms(random.in_range(2..=60)),
            credits: (flow == Flow::Credits).then(|| random.in_range(1..=6) as u32),
            pull: (policy == Policy::Pulled).then(|| random.in_range(1..=4) as u32),
            remembered_events: random.below(40) as usize,
        };
        let lossy = random.ratio(2, 3);
        let mut rate = |most: u64| if lossy { random.below(most) } else { 0 };
        let (loss, double, spoil) = (rate(20), rate(10), rate(5));
        let net = Net {
            random: random.fork("net"),
            queue: BTreeMap::new(),
            sequence: 0,
            loss,
            double,
            spoil,
            lost: 0,
            doubled: 0,
            unheard: 0,
            control: BTreeMap::new(),
        };
        let mut swarm = Self {
            net,
            manager: Manager::new(config, Instant::ORIGIN),
            sources: Vec::new(),
            builders: Vec::new(),
            source_config,
            builder_config,
            source_accounts: Vec::new(),
            builder_accounts: Vec::new(),
            detectors: vec![Vec::new(); usize::from(sources)],
            events_left: random.in_range(10..=80) as u32,
            built: BTreeSet::new(),
            sent: BTreeSet::new(),
            deaths,
        };
        swarm.begin(&mut random, sources, builders);
        swarm
    }

    fn begin(&mut self, random: &mut Rng, sources: u16, builders: u16) {
        let now = Instant::ORIGIN;
        for id in 0..sources {
            let core = self.new_source(id);
            self.sources.push(alive(core));
        }
        for id in 0..builders {
            let mut core = self.new_builder(id);
            core.handle_entered(now);
            self.builders.push(alive(core));
        }
        let source_parts = (0..sources).map(|id| Part::Source(SourceId(id)));
        let builder_parts = (0..builders).map(|id| Part::Builder(BuilderId(id)));
        let parts: Vec<_> = source_parts.chain(builder_parts).collect();
        for &part in &parts {
            self.net.at(now, Message::Beat(part, 0));
        }
        for command in [Command::Configure, Command::Start] {
            self.manager.command(now, command).expect("in this order");
        }
        self.net.at(now, Message::ManagerLook);
        self.net.at(now, Message::Trigger);
        let mut any_time = |most_ms: u64| now + Duration::from_us(random.below(most_ms * 1_000));
        let (pause, resume) = (any_time(50), any_time(80));
        self.net.at(pause, Message::Command(Command::Pause));
        self.net.at(resume, Message::Command(Command::Resume));
        self.net
            .at(pause.max(resume), Message::Command(Command::Resume));
        let stop = now + Duration::from_ms(400);
        self.net.at(stop, Message::Command(Command::Resume));
        self.net.at(stop, Message::Command(Command::Drain));
        if random.ratio(1, 10) {
            let at = now + Duration::from_us(random.below(450_000));
            self.net.at(at, Message::Command(Command::Abort));
        }
        if !self.deaths {
            return;
        }
        for _ in 0..random.in_range(1..=6) {
            let part = *random.choose(&parts).expect("at least two");
            let at = now + Duration::from_us(random.below(300_000));
            let hangs = random.ratio(1, 2);
            self.net.at(at, Message::Kill(part, hangs));
            let back = at + Duration::from_us(random.below(100_000));
            self.net.at(back, Message::Revive(part, hangs));
        }
        // In the end everybody is there, so that what waits can go.
        for &part in &parts {
            for hangs in [true, false] {
                let at = now + Duration::from_ms(440);
                self.net.at(at, Message::Revive(part, hangs));
            }
        }
    }

    fn new_source(&self, id: u16) -> Source {
        let mut config = self.source_config;
        config.id = SourceId(id);
        Source::new(config).expect("a good configuration")
    }

    fn new_builder(&self, id: u16) -> Builder {
        let mut config = self.builder_config;
        config.id = BuilderId(id);
        Builder::new(config)
    }

    fn run(&mut self) {
        while let Some(((now, _), message)) = self.net.queue.pop_first() {
            let running = self.manager.state() != RunState::Configured;
            let beats = matches!(message, Message::Beat(..) | Message::ManagerLook);
            if now > END || (beats && !running && now > Instant::ORIGIN + BEAT * 200) {
                continue;
            }
            self.handle(now, message);
            self.follow_manager(now);
        }
    }

    fn handle(&mut self, now: Instant, message: Message) {
        match message {
            Message::Trigger => self.trigger(now),
            Message::Assigned(id, life, event, builder, start) => {
                let Some(source) = living(&mut self.sources, id, life) else {
                    return;
                };
                source.core.handle_assign(event, builder, start);
                self.net.at(now, Message::Link(id, life));
            }
            Message::Granted(id, life, event) => {
                let Some(source) = living(&mut self.sources, id, life) else {
                    return;
                };
                source.core.handle_grant(event);
                self.net.at(now, Message::Link(id, life));
            }
            Message::Withdrawn(id, life, event) => {
                if let Some(source) = living(&mut self.sources, id, life) {
                    source.core.handle_withdrawn(event);
                }
            }
            Message::Link(id, life) => self.transmit(now, id, life),
            Message::BuilderAssigned(id, life, event) => {
                if let Some(builder) = living(&mut self.builders, id, life) {
                    builder.core.handle_assign(now, event);
                }
                self.follow_builder(now, id);
            }
            Message::Arrived(id, fragment) => {
                let builder = &mut self.builders[usize::from(id)];
                if builder.dead {
                    self.net.unheard += 1;
                } else {
                    builder.core.handle_fragment(now, fragment);
                }
                self.follow_builder(now, id);
            }
            Message::Look(id, life) => {
                if let Some(builder) = living(&mut self.builders, id, life) {
                    builder.core.handle_time(now);
                }
                self.follow_builder(now, id);
            }
            Message::Closed(id, life, event, outcome) => {
                let _ = life;
                self.manager
                    .handle_close(now, BuilderId(id), event, outcome);
            }
            Message::Requested(id, life, events) => {
                if self.builders[usize::from(id)].life == life {
                    self.manager.handle_request(now, BuilderId(id), events);
                }
            }
            Message::Told(part, life, action) => self.tell(now, part, life, action),
            Message::Beat(part, life) => self.beat(now, part, life),
            Message::Kill(part, hangs) => self.kill(now, part, hangs),
            Message::Revive(part, hangs) => self.revive(now, part, hangs),
            Message::ManagerLook => {
                self.manager.handle_time(now);
                if let Some(at) = self.manager.next_deadline() {
                    self.net.at(at.max(now + BEAT), Message::ManagerLook);
                }
            }
            Message::Command(command) => {
                let _ = self.manager.command(now, command);
            }
        }
    }

    fn trigger(&mut self, now: Instant) {
        if self.events_left == 0 {
            return;
        }
        let soon = Duration::from_us(self.net.random.below(4_000));
        self.net.at(now + soon, Message::Trigger);
        let blocked = self.detectors.iter().any(|waiting| !waiting.is_empty());
        if blocked {
            self.push_detectors(now);
            return;
        }
        let Ok(event) = self.manager.trigger(now) else {
            if matches!(
                self.manager.state(),
                RunState::Failed | RunState::Configured
            ) {
                self.events_left = 0;
            }
            return;
        };
        self.events_left -= 1;
        for detector in &mut self.detectors {
            let bytes = match self.net.random.below(20) {
                0 => 0,
                1 => 3_500,
                _ => self.net.random.below(1_500),
            };
            detector.push((event, bytes));
        }
        self.push_detectors(now);
    }

    fn push_detectors(&mut self, now: Instant) {
        for (id, detector) in (0..).zip(&mut self.detectors) {
            let source = &mut self.sources[usize::from(id)];
            if source.dead {
                // Nobody takes it: this source has no fragment of that event.
                detector.clear();
            }
            detector.retain(|&(event, bytes)| {
                matches!(source.core.offer(event, bytes), Err(Unoffered::Full { .. }))
            });
            self.net.at(now, Message::Link(id, source.life));
        }
    }

    /// The link is looked at too often: it takes what it is given.
    fn transmit(&mut self, now: Instant, id: u16, life: u32) {
        let Some(source) = living(&mut self.sources, id, life) else {
            return;
        };
        let before = source.core.account().sent;
        while let Some(piece) = source.core.transmit(now) {
            assert!(piece.offset + piece.bytes <= piece.fragment_bytes);
            if !piece.ends() {
                continue;
            }
            self.sent.insert((piece.event, id));
            let fragment = Fragment {
                run: 7,
                event: piece.event,
                source: SourceId(id),
                sequence: piece.sequence,
                bytes: piece.fragment_bytes,
                intact: true,
            };
            self.net.send(now, piece.builder.0, fragment);
        }
        assert!(source.core.account().balance().is_ok());
        if let Some(at) = source.core.next_deadline() {
            assert!(
                at > now,
                "it gave nothing at {now} and wants to be asked at {at}"
            );
            // Only the first of the looks that fall on one instant does anything.
            if source.core.account().sent != before || self.net.random.ratio(1, 2) {
                self.net.at(at, Message::Link(id, life));
            } else {
                self.net
                    .at(at + Duration::from_us(1), Message::Link(id, life));
            }
        }
    }

    fn follow_builder(&mut self, now: Instant, id: u16) {
        let life = self.builders[usize::from(id)].life;
        let own = key(Part::Builder(BuilderId(id)));
        while let Some(action) = self.builders[usize::from(id)].core.poll_action() {
            match action {
                BuilderAction::Built { event, .. } => {
                    assert!(self.built.insert(event), "event {event} was built twice");
                    let all = (0..).zip(&self.sources);
                    let sent = all.filter(|(source, _)| self.sent.contains(&(event, *source)));
                    assert!(self.deaths || sent.count() == self.sources.len());
                }
                BuilderAction::Incomplete { missing, .. } => assert!(!missing.is_empty()),
                BuilderAction::Close { event, outcome } => {
                    let message = Message::Closed(id, life, event, outcome);
                    self.net.say(now, (own, 0), message);
                }
                BuilderAction::Grant { source, event } => {
                    let to = self.sources[usize::from(source.0)].life;
                    let channel = (own, key(Part::Source(source)));
                    let message = Message::Granted(source.0, to, event);
                    self.net.say(now, channel, message);
                }
                BuilderAction::Withdraw { source, event } => {
                    let to = self.sources[usize::from(source.0)].life;
                    let channel = (own, key(Part::Source(source)));
                    let message = Message::Withdrawn(source.0, to, event);
                    self.net.say(now, channel, message);
                }
                BuilderAction::Request { events } => {
                    self.net
                        .say(now, (own, 0), Message::Requested(id, life, events));
                }
            }
        }
        let builder = &self.builders[usize::from(id)];
        assert!(builder.core.account().balance().is_ok());
        if let Some(at) = builder.core.next_deadline() {
            self.net
                .at(at.max(now + BEAT / 10), Message::Look(id, life));
        }
    }

    fn parts(&self) -> Vec<(Part, u32)> {
        let sources = (0..).zip(&self.sources);
        let sources = sources.map(|(id, it)| (Part::Source(SourceId(id)), it.life));
        let builders = (0..).zip(&self.builders);
        let builders = builders.map(|(id, it)| (Part::Builder(BuilderId(id)), it.life));
        sources.chain(builders).collect()
    }

    fn follow_manager(&mut self, now: Instant) {
        while let Some(action) = self.manager.poll_action() {
            for (part, life) in self.parts() {
                let channel = (0, key(part));
                let message = match (action, part) {
                    (
                        ManagerAction::Assign {
                            event,
                            builder,
                            start,
                        },
                        Part::Source(source),
                    ) => Message::Assigned(source.0, life, event, builder, start),
                    (ManagerAction::Assign { event, builder, .. }, Part::Builder(id)) => {
                        if builder != id {
                            continue;
                        }
                        Message::BuilderAssigned(id.0, life, event)
                    }
                    _ => Message::Told(part, life, action),
                };
                self.net.say(now, channel, message);
            }
        }
        assert!(self.manager.account().balance().is_ok());
    }

    fn tell(&mut self, now: Instant, part: Part, life: u32, action: ManagerAction) {
        match part {
            Part::Source(SourceId(id)) => {
                let Some(source) = living(&mut self.sources, id, life) else {
                    return;
                };
                match action {
                    ManagerAction::Lost(Part::Builder(builder)) => source.core.handle_lost(builder),
                    ManagerAction::Joined(it, event) if it == part => {
                        source.core.handle_entered(event);
                    }
                    ManagerAction::Enter { by, .. } if drops(by) => source.core.abort(),
                    _ => {}
                }
                self.net.at(now, Message::Link(id, life));
            }
            Part::Builder(BuilderId(id)) => {
                let Some(builder) = living(&mut self.builders, id, life) else {
                    return;
                };
                match action {
                    ManagerAction::Lost(Part::Source(source)) => {
                        builder.core.handle_lost(now, source);
                    }
                    ManagerAction::Joined(Part::Source(source), _) => {
                        builder.core.handle_joined(source);
                    }
                    ManagerAction::Joined(it, _) if it == part => builder.core.handle_entered(now),
                    ManagerAction::Enter { by, .. } if drops(by) => builder.core.abandon(now),
                    _ => {}
                }
                self.follow_builder(now, id);
            }
        }
    }

    fn beat(&mut self, now: Instant, part: Part, life: u32) {
        let (same, dead, silent) = match part {
            Part::Source(SourceId(id)) => state(&self.sources, id, life),
            Part::Builder(BuilderId(id)) => state(&self.builders, id, life),
        };
        if !same || dead {
            return;
        }
        if !silent {
            self.manager.handle_alive(now, part);
        }
        self.net.at(now + BEAT, Message::Beat(part, life));
    }

    /// A part dies, or hangs: it works on, but is not heard of.
    fn kill(&mut self, now: Instant, part: Part, hangs: bool) {
        match part {
            Part::Source(SourceId(id)) => {
                let source = &mut self.sources[usize::from(id)];
                source.silent |= hangs;
                source.dead |= !hangs;
            }
            Part::Builder(BuilderId(id)) => {
                let builder = &mut self.builders[usize::from(id)];
                builder.silent |= hangs;
                builder.dead |= !hangs;
            }
        }
        // A dead part is noticed at once, or only by its silence.
        if !hangs && self.net.random.ratio(1, 2) {
            self.manager.handle_lost(now, part);
        }
    }

    fn revive(&mut self, now: Instant, part: Part, hangs: bool) {
        let life = match part {
            Part::Source(SourceId(id)) => {
                self.sources[usize::from(id)].silent &= !hangs;
                if hangs || !self.sources[usize::from(id)].dead {
                    return;
                }
                let fresh = self.new_source(id);
                let source = &mut self.sources[usize::from(id)];
                let old = core::mem::replace(&mut source.core, fresh);
                self.source_accounts.push(*old.account());
                (source.dead, source.silent) = (false, false);
                source.life += 1;
                source.life
            }
            Part::Builder(BuilderId(id)) => {
                self.builders[usize::from(id)].silent &= !hangs;
                if hangs || !self.builders[usize::from(id)].dead {
                    return;
                }
                let fresh = self.new_builder(id);
                let builder = &mut self.builders[usize::from(id)];
                let old = core::mem::replace(&mut builder.core, fresh);
                self.builder_accounts.push(old.account().clone());
                (builder.dead, builder.silent) = (false, false);
                builder.life += 1;
                builder.life
            }
        };
        // A new connection ends the old one.
        self.manager.handle_lost(now, part);
        self.follow_manager(now);
        self.sync(now, part, life);
        self.net.at(now, Message::Beat(part, life));
    }

    /// A part that begins is told who is not there.
    fn sync(&mut self, now: Instant, part: Part, life: u32) {
        for (other, _) in self.parts() {
            if other != part && !self.manager.counts_on(other) {
                let message = Message::Told(part, life, ManagerAction::Lost(other));
                self.net.say(now, (0, key(part)), message);
            }
        }
    }

    fn kinds(&self) -> [u64; 20] {
        let events = self.manager.account();
        let of_events = [
            events.built,
            events.incomplete,
            events.abandoned,
            events.aborted,
            events.refused,
            events.stale_closes,
        ];
        let mut kinds = [0; 20];
        kinds[..6].copy_from_slice(&of_events);
        for builder in &self.builders {
            let it = builder.core.account();
            let of_fragments = [
                it.kept,
                it.duplicate,
                it.late,
                it.corrupt,
                it.unassigned,
                it.stale,
                it.out_of_sequence,
                it.gaps,
            ];
            kinds[6..14]
                .iter_mut()
                .zip(of_fragments)
                .for_each(|(sum, it)| *sum += it);
        }
        for source in &self.sources {
            let it = source.core.account().dropped;
            let drops = [
                it.full,
                it.too_large,
                it.builder_lost,
                it.withdrawn,
                it.left_out,
                it.aborted,
            ];
            kinds[14..]
                .iter_mut()
                .zip(drops)
                .for_each(|(sum, it)| *sum += it);
        }
        kinds
    }

    fn check(mut self, seed: u64) {
        for source in &mut self.sources {
            self.source_accounts.push(*source.core.account());
        }
        let alive = self.builders.len();
        for builder in &self.builders {
            self.builder_accounts.push(builder.core.account().clone());
        }
        let events = self.manager.account();
        let ended = matches!(
            self.manager.state(),
            RunState::Configured | RunState::Failed
        );
        assert!(
            ended,
            "seed {seed}: {:?} with {events:?}",
            self.manager.state()
        );
        assert_eq!((events.waiting, events.in_flight), (0, 0), "seed {seed}");
        let (dead, living) = self
            .builder_accounts
            .split_at(self.builder_accounts.len() - alive);
        for account in dead {
            assert_eq!(account.balance(), Ok(()), "seed {seed}");
        }
        for account in living {
            assert_eq!(account.balance_closed(), Ok(()), "seed {seed}");
        }
        let sent: u64 = self.source_accounts.iter().map(|it| it.sent).sum();
        let seen: u64 = self.builder_accounts.iter().map(|it| it.copies).sum();
        let net = &self.net;
        assert_eq!(
            sent + net.doubled,
            seen + net.lost + net.unheard,
            "seed {seed}"
        );
        if self.deaths {
            return;
        }
        let ledger = Ledger {
            sources: self.source_accounts,
            builders: self.builder_accounts,
            events,
        };
        assert_eq!(ledger.balance(), Ok(()), "seed {seed}");
        let queued: u64 = ledger.sources.iter().map(|it| it.queued).sum();
        assert_eq!(queued, 0, "seed {seed}");
        let on_the_way = events.aborted > 0;
        assert!(on_the_way || events.stale_closes == 0, "seed {seed}");
    }
}

fn alive<T>(core: T) -> Life<T> {
    Life {
        core,
        life: 0,
        dead: false,
        silent: false,
    }
}

fn living<T>(all: &mut [Life<T>], id: u16, life: u32) -> Option<&mut Life<T>> {
    let it = all.get_mut(usize::from(id))?;
    (it.life == life && !it.dead).then_some(it)
}

fn state<T>(all: &[Life<T>], id: u16, life: u32) -> (bool, bool, bool) {
    let it = &all[usize::from(id)];
    (it.life == life, it.dead, it.silent)
}

fn drops(by: Command) -> bool {
    matches!(by, Command::Abort | Command::Fail)
}

/// How often each thing happened that can become of a fragment or an event.
fn swarm(seed: u64) -> [u64; 20] {
    let mut swarm = Swarm::new(seed);
    swarm.run();
    let kinds = swarm.kinds();
    swarm.check(seed);
    kinds
}

#[test]
fn the_ledger_balances_whatever_happens() {
    let seeds: u64 = std::env::var("EVB_SEEDS").map_or(300, |it| it.parse().expect("a number"));
    let mut seen = [0; 20];
    for seed in 0..seeds {
        let kinds = swarm(seed);
        seen.iter_mut().zip(kinds).for_each(|(sum, it)| *sum += it);
    }
    // Whatever can become of a fragment or an event did in some run.
    let never: Vec<_> = (0..seen.len()).filter(|&kind| seen[kind] == 0).collect();
    assert!(never.is_empty(), "never seen: kinds {never:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_seed_balances(seed: u64) {
        swarm(seed);
    }
}
