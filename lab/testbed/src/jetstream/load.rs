//! Hosts that send messages by a plan, and what becomes of them, on any network.

use std::collections::VecDeque;

use barewire_classic::token::Class;
use barewire_des::dist::exponential_time;
use barewire_des::{Class as Order, Event, Node, Simulator, World};
use barewire_units::{Duration, Instant, Rng};

use super::net::{Fate, Happening, NetEvent, Network, Spread, Why};
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// Part of a run that is not measured, in parts of it.
const WARM_UP: u64 = 10;

/// When a source has the next message.
#[derive(Clone, Copy, Debug)]
pub enum Gap {
    /// At once when the last has begun to leave: there are always so many.
    Always(usize),
    /// At random, this far apart in the mean.
    Random(Duration),
    /// So far apart.
    Period(Duration),
}

/// A flow of messages from a host.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub from: usize,
    /// To this host, or each to any other.
    pub to: Option<usize>,
    pub class: Class,
    pub payload_bytes: usize,
    pub gap: Gap,
    /// Whose record it is counted in.
    pub group: usize,
}

impl Source {
    /// One at each host, to any other.
    pub fn at_each(
        hosts: usize,
        class: Class,
        payload_bytes: usize,
        gap: Gap,
        group: usize,
    ) -> impl Iterator<Item = Self> {
        (0..hosts).map(move |from| Self {
            from,
            to: None,
            class,
            payload_bytes,
            gap,
            group,
        })
    }
}

/// A load.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub hosts: usize,
    pub sources: Vec<Source>,
    pub groups: usize,
    /// Time that is not measured.
    pub warm_up: Duration,
    /// Time for which sources send, the warm-up included.
    pub run_for: Duration,
    /// Time after it for what is on its way.
    pub drain_for: Duration,
    /// A first bit that waits longer is late.
    pub deadline: Duration,
}

impl LoadPlan {
    /// Sources of two groups that send for `time`, of which the first part is not measured.
    pub fn two_groups(hosts: usize, sources: Vec<Source>, time: Duration) -> Self {
        Self {
            hosts,
            sources,
            groups: 2,
            warm_up: time / WARM_UP,
            run_for: time,
            drain_for: time,
            deadline: Duration::MAX,
        }
    }
}

/// What became of the messages of a group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub offered: u64,
    pub received: u64,
    pub refused: u64,
    pub no_room: u64,
    pub damaged: u64,
    pub spoilt: u64,
    /// Payload received while it was measured.
    pub payload_bytes: u64,
    /// Offer to first bit on the line.
    pub access: Spread,
    /// Of these, the late ones.
    pub late: u64,
    /// Offer to the last bit at the receiver.
    pub delay: Spread,
    /// Last bit of a message to the first of the same source's next.
    pub gap: Spread,
}

impl Group {
    pub fn lost(&self) -> u64 {
        self.refused + self.no_room + self.damaged + self.spoilt
    }

    /// Lost messages of all that were offered.
    pub fn lost_per_cent(&self) -> Option<f64> {
        (self.offered > 0).then(|| self.lost() as f64 * 100.0 / self.offered as f64)
    }
}

/// What was seen.
pub struct LoadRecord {
    pub groups: Vec<Group>,
    pub measured: Duration,
    pub on_their_way: u64,
    pub network: Network,
    pub links: Vec<LinkCapture>,
    pub hash: u64,
}

impl LoadRecord {
    /// Payload of a group, Mbit/s.
    pub fn mbps(&self, group: usize) -> f64 {
        let bits = self.groups[group].payload_bytes as f64 * 8.0;
        bits / (self.measured.as_ps() as f64 * 1e-12) / 1e6
    }

    /// The token's times once round; none on other networks.
    pub fn rotations(&self) -> Spread {
        let lan = self.network.medium.lan();
        lan.map_or_else(Spread::default, |lan| lan.rotations.clone())
    }
}

/// What has become of a message that was sent from outside the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Its last bit leaves its station then.
    Sent {
        message: usize,
        ends: Instant,
    },
    Received(usize),
}

/// The source of messages from outside.
const APART: usize = usize::MAX;

#[derive(Clone, Copy, Debug)]
pub enum LoadEvent {
    Net(NetEvent),
    Offer(usize),
    Over,
}

impl From<NetEvent> for LoadEvent {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

impl Event for LoadEvent {
    fn digest(&self) -> u64 {
        match self {
            Self::Net(event) => event.digest(),
            Self::Offer(source) => 1 << 40 | *source as u64,
            Self::Over => 2 << 40,
        }
    }
}

/// A load on a network, which may be sent messages from outside, too.
pub struct Load {
    network: Network,
    plan: LoadPlan,
    rngs: Vec<Rng>,
    /// Source and time of the offer of each message.
    offers: Vec<(usize, Instant)>,
    /// End of the last message that each source sent.
    last: Vec<Option<Instant>>,
    groups: Vec<Group>,
    measure_from: Instant,
    ends: Instant,
    apart: VecDeque<Apart>,
}

impl AsMut<Network> for Load {
    fn as_mut(&mut self) -> &mut Network {
        &mut self.network
    }
}

/// Runs a load on a network.
///
/// # Errors
/// The network does not come up.
pub fn run(network: Network, plan: LoadPlan, rng: &Rng) -> Result<LoadRecord, SystemError> {
    let (mut load, mut sim, _up) = Load::start(network, plan, rng)?;
    sim.run_until(load.ends + load.plan.drain_for, &mut load);
    Ok(load.record(sim.trace_hash()))
}

impl Load {
    /// A load on a network that has come up, with the kernel that runs it and when that was.
    ///
    /// # Errors
    /// The network does not come up.
    pub fn start(
        network: Network,
        plan: LoadPlan,
        rng: &Rng,
    ) -> Result<(Self, Simulator<LoadEvent>, Instant), SystemError> {
        let sources = plan.sources.len();
        let mut load = Load {
            network,
            rngs: (0..sources)
                .map(|source| rng.fork_nth("source", source as u64))
                .collect(),
            offers: Vec::new(),
            last: vec![None; sources],
            groups: vec![Group::default(); plan.groups],
            measure_from: Instant::MAX,
            ends: Instant::MAX,
            apart: VecDeque::new(),
            plan,
        };
        let mut sim = Simulator::new();
        let up = Network::start(&mut load, &mut sim)?;
        load.measure_from = up + load.plan.warm_up;
        load.ends = up + load.plan.run_for;
        if let Some(lan) = load.network.medium.lan_mut() {
            lan.measure_from = load.measure_from;
        }
        for source in 0..sources {
            load.begin(source, up, &mut sim);
        }
        sim.at(load.ends, Order::LAST, Node(0), LoadEvent::Over);
        Ok((load, sim, up))
    }

    /// Sends a message that is no source's: [`Load::poll_apart`] says what becomes of it.
    pub fn send_apart(
        &mut self,
        (from, to): (usize, usize),
        class: Class,
        payload_bytes: usize,
        sim: &mut Simulator<LoadEvent>,
    ) -> usize {
        self.offers.push((APART, sim.now()));
        let message = self
            .network
            .send(sim, from, to, class, payload_bytes, Vec::new);
        self.take_happenings(sim);
        message
    }

    /// What has become of messages from outside.
    pub fn poll_apart(&mut self) -> Option<Apart> {
        self.apart.pop_front()
    }

    /// Whether a message was lost.
    pub fn is_lost(&self, message: usize) -> bool {
        let found = self.network.traffic.messages.get(message);
        found.is_some_and(|message| matches!(message.fate, Fate::Lost(_)))
    }

    /// Whether its sources have sent all, and all of that has ended.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.ends && self.network.traffic.on_their_way == 0
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The token's times once round, as in [`LoadRecord::rotations`].
    pub fn rotations(&self) -> Spread {
        let lan = self.network.medium.lan();
        lan.map_or_else(Spread::default, |lan| lan.rotations.clone())
    }

    /// What the first group of sources has come to: payload in Mbit/s, and the rest.
    pub fn first_group(&self) -> (Option<f64>, Group) {
        let group = self.groups.first().cloned().unwrap_or_default();
        let measured = self.plan.run_for.saturating_sub(self.plan.warm_up);
        let seconds = measured.as_ps() as f64 * 1e-12;
        let bits = group.payload_bytes as f64 * 8.0;
        ((seconds > 0.0).then(|| bits / seconds / 1e6), group)
    }
}

impl World for Load {
    type Event = LoadEvent;

    fn handle(&mut self, event: LoadEvent, sim: &mut Simulator<LoadEvent>) {
        match event {
            LoadEvent::Net(event) => self.network.handle(event, sim),
            LoadEvent::Offer(source) => self.offer(source, sim),
            LoadEvent::Over => {}
        }
        self.take_happenings(sim);
        let over = sim.now() >= self.ends && !matches!(event, LoadEvent::Offer(_));
        let may_end = matches!(
            event,
            LoadEvent::Over | LoadEvent::Net(NetEvent::Whole(_) | NetEvent::CellThere(..))
        );
        if over && may_end && self.network.traffic.on_their_way == 0 {
            sim.stop();
        }
    }
}

impl Load {
    fn take_happenings(&mut self, sim: &mut Simulator<LoadEvent>) {
        while let Some(happening) = self.network.traffic.happenings.pop_front() {
            match happening {
                Happening::Sent {
                    message,
                    began,
                    ends,
                } => self.sent(message, began, ends, sim),
                Happening::Received(message) => self.received(message, sim.now()),
            }
        }
    }

    /// A source's first message: at once if there is always one, else within its first gap.
    fn begin(&mut self, source: usize, up: Instant, sim: &mut Simulator<LoadEvent>) {
        let node = Node(source as u16);
        let rng = &mut self.rngs[source];
        let (times, after) = match self.plan.sources[source].gap {
            Gap::Always(times) => (times, Duration::ZERO),
            Gap::Random(mean) => (1, exponential_time(rng, mean)),
            Gap::Period(period) => (1, Duration::from_ps(rng.below(period.as_ps().max(1)))),
        };
        for _ in 0..times {
            sim.at(up + after, Order::NORMAL, node, LoadEvent::Offer(source));
        }
    }

    fn offer(&mut self, source: usize, sim: &mut Simulator<LoadEvent>) {
        let now = sim.now();
        if now >= self.ends {
            return;
        }
        let Source {
            from,
            to,
            class,
            payload_bytes,
            gap,
            group,
        } = self.plan.sources[source];
        let rng = &mut self.rngs[source];
        let any = || {
            let other = rng.index(self.plan.hosts - 1);
            other + usize::from(other >= from)
        };
        let to = to.unwrap_or_else(any);
        let next = match gap {
            Gap::Always(_) => None,
            Gap::Random(mean) => Some(exponential_time(rng, mean)),
            Gap::Period(period) => Some(period),
        };
        if let Some(next) = next {
            // A gap of no time would never let time go on.
            let next = next.max(Duration::from_ps(1));
            let event = LoadEvent::Offer(source);
            sim.after(next, Order::NORMAL, Node(source as u16), event);
        }
        self.groups[group].offered += 1;
        self.offers.push((source, now));
        self.network
            .send(sim, from, to, class, payload_bytes, Vec::new);
    }

    fn sent(
        &mut self,
        message: usize,
        began: Instant,
        ends: Instant,
        sim: &mut Simulator<LoadEvent>,
    ) {
        let (source, offered) = self.offers[message];
        if source == APART {
            self.apart.push_back(Apart::Sent { message, ends });
            return;
        }
        let Source { gap, group, .. } = self.plan.sources[source];
        let before = self.last[source].replace(ends);
        if offered >= self.measure_from {
            let deadline = self.plan.deadline;
            let group = &mut self.groups[group];
            let wait = began.saturating_duration_since(offered);
            group.access.add(wait);
            group.late += u64::from(wait > deadline);
            if let Some(before) = before {
                group.gap.add(began.saturating_duration_since(before));
            }
        }
        if let Gap::Always(_) = gap {
            let node = Node(source as u16);
            sim.at(sim.now(), Order::NORMAL, node, LoadEvent::Offer(source));
        }
    }

    fn received(&mut self, message: usize, now: Instant) {
        let (source, offered) = self.offers[message];
        if source == APART {
            self.apart.push_back(Apart::Received(message));
            return;
        }
        let Source {
            group,
            payload_bytes,
            ..
        } = self.plan.sources[source];
        let group = &mut self.groups[group];
        if offered >= self.measure_from {
            group.delay.add(now.saturating_duration_since(offered));
        }
        if (self.measure_from..self.ends).contains(&now) {
            group.payload_bytes += payload_bytes as u64;
        }
    }

    fn record(mut self, hash: u64) -> LoadRecord {
        for ((source, _), message) in self.offers.iter().zip(&self.network.traffic.messages) {
            let Some(source) = self.plan.sources.get(*source) else {
                continue;
            };
            let group = &mut self.groups[source.group];
            match message.fate {
                Fate::OnItsWay => {}
                Fate::Received => group.received += 1,
                Fate::Lost(Why::Refused) => group.refused += 1,
                Fate::Lost(Why::NoRoom) => group.no_room += 1,
                Fate::Lost(Why::Damaged) => group.damaged += 1,
                Fate::Lost(Why::Spoilt) => group.spoilt += 1,
            }
        }
        LoadRecord {
            measured: self.plan.run_for.saturating_sub(self.plan.warm_up),
            on_their_way: self.network.traffic.on_their_way,
            links: self.network.take_links(),
            groups: self.groups,
            network: self.network,
            hash,
        }
    }
}
