//! Hosts with their cards, joined by the network, as a world of events.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Begin` | host | a program has something to send |
//! | `Core` | host | an operation of a program is over |
//! | `Doorbell` | host | work requests are at the card |
//! | `Ready` | host | a packet's payload is there to be sent |
//! | `Sent` | output | the tail of a packet has left |
//! | `There` | output | a packet is at the end of a line |
//! | `Reply` | host | the card answers a packet |
//! | `Placed` | host | a write is in memory |
//! | `Pause` | output | a switch pauses it, or lets it go on |
//! | `Timeout` | host | a queue pair was not answered |
//!
//! A program's core looks at what the card tells it, takes one message of a ring, sends one
//! message, in turn. What it has stored by then goes to the card when the operation is over.

use std::collections::{BTreeMap, VecDeque};

use barewire_des::{Class as Order, Event, Node as Owner, Simulator, World};
use barewire_fabric::frame::CONTROL_BYTES;
use barewire_models::clan::Store;
use barewire_models::rdma::{Action, Card, Network, Node, Packet, Pair, Reply, Write};
use barewire_units::{ByteSize, Duration, Instant};

use super::parameters::Parameters;
use super::program::{Class, End, Task};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RdmaEvent {
    Begin { end: u32 },
    Core { host: u32, core: u32 },
    Doorbell { end: u32, writes: u32 },
    Ready { side: u32 },
    Sent { output: u32 },
    There { flight: u32 },
    Reply { flight: u32 },
    Placed { side: u32 },
    Pause { output: u32, pause: bool },
    Timeout { side: u32 },
}

impl Event for RdmaEvent {
    fn digest(&self) -> u64 {
        let (kind, one, two) = match *self {
            Self::Core { host, core } => (0, host, core),
            Self::Doorbell { end, writes } => (1, end, writes),
            Self::Ready { side } => (2, side, 0),
            Self::Sent { output } => (3, output, 0),
            Self::There { flight } => (4, flight, 0),
            Self::Reply { flight } => (5, flight, 0),
            Self::Placed { side } => (6, side, 0),
            Self::Pause { output, pause } => (7, output, u32::from(pause)),
            Self::Timeout { side } => (8, side, 0),
            Self::Begin { end } => (9, end, 0),
        };
        kind << 60 ^ u64::from(one) << 28 ^ u64::from(two)
    }
}

pub(super) type Sim = Simulator<RdmaEvent>;

/// What a packet is, for a side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Data {
        side: u32,
        number: u64,
        last: bool,
        len_bytes: u64,
    },
    Reply {
        side: u32,
        reply: Reply,
    },
}

/// A packet on a line: by which output it left, and where it goes.
#[derive(Clone, Copy, Debug)]
struct Flight {
    packet: Packet<What>,
    output: u32,
    to: Node,
}

/// A side of a link: a queue pair.
struct Side {
    host: u32,
    /// Its number in its host's card.
    number: usize,
    pair: Pair,
    /// Packets whose payload is being fetched, and when the last one's is there.
    coming: VecDeque<(u64, bool)>,
    coming_until: Instant,
    /// Writes that have not been placed, each with the end that it came from.
    writes: VecDeque<(u32, Write)>,
    /// It is in its card's queue of those that have a packet.
    active: bool,
    timed: bool,
}

#[derive(Default)]
struct Core {
    busy: bool,
    /// Ends that the card has told something of.
    ready: VecDeque<u32>,
    /// Ends with a message to send, as far as is known.
    runnable: VecDeque<u32>,
    sends_next: bool,
}

struct Host {
    card: Card,
    cores: Vec<Core>,
    ends: usize,
    pairs: usize,
    /// Sides with a packet to send.
    active: VecDeque<u32>,
}

/// Hosts, cards and the network.
pub(super) struct Rack {
    parameters: Parameters,
    hosts: Vec<Host>,
    pub(super) ends: Vec<End>,
    sides: Vec<Side>,
    links: BTreeMap<(u32, u32), u32>,
    /// Work requests that are not at the card yet, by end; and of how many the card was told.
    posted: Vec<(VecDeque<Write>, u32)>,
    network: Network<What>,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    pub(super) classes: Vec<Class>,
    /// When the last message was received.
    pub(super) last_received: Instant,
    /// A peer's violation; a sound ring has none.
    pub(super) violations: u64,
    buffer: Vec<u8>,
    actions: Vec<Action>,
}

/// How the two ends of a connection are joined.
pub(super) struct Joined {
    pub(super) hosts: [u32; 2],
    pub(super) ring_bytes: usize,
    pub(super) message_bytes: usize,
    /// A link of its own, in place of the one that the two hosts share.
    pub(super) own_link: bool,
}

impl Rack {
    /// Hosts without connections.
    pub(super) fn new(parameters: &Parameters, hosts: u32) -> Self {
        let host = |_| Host {
            card: Card::new(parameters.card, 0),
            cores: (0..parameters.host.cores)
                .map(|_| Core::default())
                .collect(),
            ends: 0,
            pairs: 0,
            active: VecDeque::new(),
        };
        Rack {
            hosts: (0..hosts).map(host).collect(),
            ends: Vec::new(),
            sides: Vec::new(),
            links: BTreeMap::new(),
            posted: Vec::new(),
            network: Network::new(parameters.line, parameters.switch, hosts),
            flights: Vec::new(),
            free: Vec::new(),
            classes: vec![Class::default()],
            last_received: Instant::ORIGIN,
            violations: 0,
            buffer: Vec::new(),
            actions: Vec::new(),
            parameters: parameters.clone(),
        }
    }

    /// Joins two hosts by a connection: its two ends.
    pub(super) fn connect(&mut self, joined: &Joined) -> [u32; 2] {
        let [near, far] = joined.hosts;
        let key = (near.min(far), near.max(far));
        let first = match self.links.get(&key) {
            Some(first) if !joined.own_link => *first,
            _ => self.link(key),
        };
        joined.hosts.map(|host| {
            let it = &mut self.hosts[host as usize];
            let core = it.ends % it.cores.len();
            it.ends += 1;
            let side = first + u32::from(host != key.0);
            let end = End::new((host, core, side), joined.ring_bytes, joined.message_bytes);
            self.ends.push(end);
            self.posted.push((VecDeque::new(), 0));
            self.ends.len() as u32 - 1
        })
    }

    fn link(&mut self, key: (u32, u32)) -> u32 {
        let first = self.sides.len() as u32;
        for host in [key.0, key.1] {
            let it = &mut self.hosts[host as usize];
            let card = &self.parameters.card;
            self.sides.push(Side {
                host,
                number: it.pairs,
                pair: Pair::new(card.recovery, card.window.as_bytes()),
                coming: VecDeque::new(),
                coming_until: Instant::ORIGIN,
                writes: VecDeque::new(),
                active: false,
                timed: false,
            });
            it.pairs += 1;
        }
        self.links.insert(key, first);
        first
    }

    /// Puts the cards in, once all are connected.
    pub(super) fn plug_in(&mut self) {
        for host in &mut self.hosts {
            host.card = Card::new(self.parameters.card, host.pairs);
        }
    }

    /// Gives an end something to do, from a moment on.
    pub(super) fn begin(&mut self, end: u32, task: Task, at: Instant, sim: &mut Sim) {
        let it = &mut self.ends[end as usize];
        it.task = task;
        sim.at(at, Order::NORMAL, owner(it.host), RdmaEvent::Begin { end });
    }

    /// What was received is counted from now on.
    pub(super) fn set_back(&mut self) {
        self.classes.fill_with(Class::default);
        self.ends.iter_mut().for_each(|end| end.received_bytes = 0);
    }

    pub(super) fn network(&self) -> &Network<impl Copy> {
        &self.network
    }

    /// Contexts that cards have fetched.
    pub(super) fn misses(&self) -> u64 {
        self.hosts.iter().map(|host| host.card.misses()).sum()
    }

    /// Packets that were sent again.
    pub(super) fn repeated(&self) -> u64 {
        self.sides.iter().map(|side| side.pair.repeated()).sum()
    }

    /// Most queue pairs of a host.
    pub(super) fn pairs(&self) -> usize {
        self.hosts.iter().map(|host| host.pairs).max().unwrap_or(0)
    }

    /// Nothing is on its way, and no core has anything to do.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.flights.len()
            && self.sides.iter().all(|side| side.writes.is_empty())
            && self
                .hosts
                .iter()
                .flat_map(|host| &host.cores)
                .all(|core| !core.busy)
    }

    // ---- programs ----

    /// An end may have something to send.
    fn run(&mut self, end: u32, sim: &mut Sim) {
        let it = &mut self.ends[end as usize];
        if !std::mem::replace(&mut it.runnable, true) {
            self.hosts[it.host as usize].cores[it.core]
                .runnable
                .push_back(end);
        }
        self.wake(end, sim);
    }

    fn wake(&mut self, end: u32, sim: &mut Sim) {
        let it = &self.ends[end as usize];
        let (host, core) = (it.host, it.core);
        let place = &mut self.hosts[host as usize].cores[core];
        if !std::mem::replace(&mut place.busy, true) {
            let (poll, core) = (self.parameters.host.poll, core as u32);
            sim.after(
                poll,
                Order::NORMAL,
                owner(host),
                RdmaEvent::Core { host, core },
            );
        }
    }

    fn core(&mut self, host: u32, core: u32, sim: &mut Sim) {
        let place = &mut self.hosts[host as usize].cores[core as usize];
        let sends = place.ready.is_empty() || (place.sends_next && !place.runnable.is_empty());
        place.sends_next = !sends;
        let next = match sends {
            true => place.runnable.pop_front(),
            false => place.ready.pop_front(),
        };
        let Some(end) = next else {
            place.busy = false;
            return;
        };
        let done = match sends {
            true => self.send(end, sim),
            false => self.receive(end, sim),
        };
        let at = self.post(end, sim.now() + done, sim);
        sim.at(
            at,
            Order::NORMAL,
            owner(host),
            RdmaEvent::Core { host, core },
        );
    }

    /// Sends a message, or what fits of it. How long that takes.
    fn send(&mut self, end: u32, sim: &mut Sim) -> Duration {
        let (costs, now) = (self.parameters.host, sim.now());
        let it = &mut self.ends[end as usize];
        it.runnable = false;
        if !it.has_message() {
            return costs.poll;
        }
        if it.bare {
            let store = Store {
                to: 0,
                region: 0,
                offset: CONTROL_BYTES,
                bytes: it.send_bare(now),
                ordered: true,
            };
            let write = Write {
                len_bytes: store.bytes.len() as u64,
                stores: vec![store],
                tells: true,
            };
            self.posted[end as usize].0.push_back(write);
            return Duration::ZERO;
        }
        let Ok(sent) = it.send(now, &mut self.buffer) else {
            self.violations += 1;
            return costs.poll;
        };
        if sent.more {
            self.run(end, sim);
        }
        match sent.put_bytes {
            0 => costs.poll,
            put_bytes => costs.send + costs.copy.time_to_send(ByteSize::from_bytes(put_bytes)),
        }
    }

    /// Looks at what the card has told, and takes a message. How long that takes.
    fn receive(&mut self, end: u32, sim: &mut Sim) -> Duration {
        let (costs, now) = (self.parameters.host, sim.now());
        let it = &mut self.ends[end as usize];
        let mut took = costs.completion * std::mem::take(&mut it.notices);
        let found = match it.bare {
            true if took.is_zero() => Ok(None),
            true => Ok(Some(it.receive_bare(CONTROL_BYTES, &mut self.buffer))),
            false => it.receive(&mut self.buffer),
        };
        match found {
            Err(_) => self.violations += 1,
            Ok(None) => took += costs.poll,
            Ok(Some((len_bytes, stamp))) => {
                if !it.bare {
                    let copy = costs.copy.time_to_send(ByteSize::from_bytes(len_bytes));
                    took += costs.receive + copy;
                }
                if let Task::Take(works) = it.task {
                    took += works;
                }
                self.last_received = now + took;
                let class = &mut self.classes[it.class];
                class.messages += 1;
                class.bytes += len_bytes;
                let latency = (now + took).since_origin().as_ps().saturating_sub(stamp);
                class.latency_ps.add(latency);
            }
        }
        it.ready = !it.bare && it.maybe_ready();
        if it.ready {
            self.hosts[it.host as usize].cores[it.core]
                .ready
                .push_back(end);
        }
        let sends = matches!(it.task, Task::Ask(_) | Task::Answer) || it.blocked;
        if sends && it.has_message() {
            self.run(end, sim);
        }
        took
    }

    /// Gives the card what an end has published, at `at`. When the program goes on.
    pub(super) fn post(&mut self, end: u32, at: Instant, sim: &mut Sim) -> Instant {
        let it = &mut self.ends[end as usize];
        let published = it
            .writer
            .published(&it.memory, self.parameters.card.header_apart);
        self.posted[end as usize].0.extend(published);
        self.ring(end, at, sim)
    }

    /// Tells the card of new work requests. When the program goes on.
    fn ring(&mut self, end: u32, at: Instant, sim: &mut Sim) -> Instant {
        let (host, card) = (&self.parameters.host, &self.parameters.card);
        let posted = &mut self.posted[end as usize];
        let (all, told) = (posted.0.len() as u32, &mut posted.1);
        let writes = all - *told;
        if writes == 0 {
            return at;
        }
        *told = all;
        let at = at + host.post * u64::from(writes);
        let of = self.ends[end as usize].host;
        let doorbell = RdmaEvent::Doorbell { end, writes };
        sim.at(at + card.doorbell, Order::NORMAL, owner(of), doorbell);
        at
    }

    /// Gives the card all that an end has stored, published or not. When the program goes on.
    pub(super) fn post_all(&mut self, end: u32, sim: &mut Sim) -> Instant {
        let it = &mut self.ends[end as usize];
        let published = it
            .writer
            .published(&it.memory, self.parameters.card.header_apart);
        let posted = &mut self.posted[end as usize].0;
        posted.extend(published.into_iter().chain(it.writer.rest()));
        self.ring(end, sim.now(), sim)
    }

    // ---- cards ----

    fn doorbell(&mut self, end: u32, count: u32, sim: &mut Sim) {
        let side = self.ends[end as usize].side;
        let it = &mut self.sides[side as usize];
        let posted = &mut self.posted[end as usize];
        posted.1 -= count;
        for write in posted.0.drain(..count as usize) {
            let card = &mut self.hosts[it.host as usize].card;
            let segments =
                card.handle_request(sim.now(), it.number, write.len_bytes, it.coming_until);
            for segment in segments {
                it.coming.push_back((segment.len_bytes, segment.last));
                // The next one is not there before it.
                it.coming_until = segment.ready - self.parameters.card.latency;
                let ready = RdmaEvent::Ready { side };
                sim.at(segment.ready, Order::NORMAL, owner(it.host), ready);
            }
            it.writes.push_back((end, write));
        }
    }

    fn ready(&mut self, side: u32, sim: &mut Sim) {
        let it = &mut self.sides[side as usize];
        if let Some((len_bytes, last)) = it.coming.pop_front() {
            it.pair.push(len_bytes, last);
        }
        self.activate(side, sim);
    }

    fn activate(&mut self, side: u32, sim: &mut Sim) {
        let it = &mut self.sides[side as usize];
        let host = it.host;
        if it.pair.has_packet() && !it.active {
            it.active = true;
            self.hosts[host as usize].active.push_back(side);
        }
        self.poll(host, sim);
    }

    /// Lets an output send if it can; an output of a card takes a packet of the next queue pair.
    fn poll(&mut self, output: u32, sim: &mut Sim) {
        let now = sim.now();
        if let Some(host) = self.hosts.get_mut(output as usize) {
            if self.network.is_free(output) {
                if let Some(side) = host.active.pop_front() {
                    self.take_packet(side, sim);
                }
            }
        }
        let Some((packet, to, there, free)) = self.network.poll(now, output) else {
            return;
        };
        let flight = self.take_off(Flight { packet, output, to });
        sim.at(
            free,
            Order::NORMAL,
            owner(output),
            RdmaEvent::Sent { output },
        );
        sim.at(
            there,
            Order::NORMAL,
            owner(output),
            RdmaEvent::There { flight },
        );
    }

    fn take_packet(&mut self, side: u32, sim: &mut Sim) {
        let card = &self.parameters.card;
        let to = self.sides[(side ^ 1) as usize].host;
        let it = &mut self.sides[side as usize];
        let taken = it.pair.take(sim.now());
        it.active = it.pair.has_packet();
        if it.active {
            self.hosts[it.host as usize].active.push_back(side);
        }
        let Some(packet) = taken else { return };
        if !self.parameters.switch.lossless && !it.timed {
            it.timed = true;
            sim.after(
                card.timeout,
                Order::NORMAL,
                owner(it.host),
                RdmaEvent::Timeout { side },
            );
        }
        let (number, last, len_bytes) = (packet.number, packet.last, packet.len_bytes);
        let what = What::Data {
            side: side ^ 1,
            number,
            last,
            len_bytes,
        };
        let packet = Packet {
            to,
            flow: side / 2,
            len_bytes: len_bytes + card.header.as_bytes(),
            what,
        };
        self.network.send(it.host, packet);
    }

    fn timeout(&mut self, side: u32, sim: &mut Sim) {
        let it = &mut self.sides[side as usize];
        it.timed = false;
        let Some(since) = it.pair.waits_since() else {
            return;
        };
        let timeout = self.parameters.card.timeout;
        if since + timeout <= sim.now() {
            it.pair.handle_timeout(sim.now());
        }
        it.timed = true;
        let next = match since + timeout > sim.now() {
            true => since + timeout,
            false => sim.now() + timeout,
        };
        sim.at(
            next,
            Order::NORMAL,
            owner(it.host),
            RdmaEvent::Timeout { side },
        );
        self.activate(side, sim);
    }

    fn take_off(&mut self, flight: Flight) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.flights[number as usize] = Some(flight);
                number
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() as u32 - 1
            }
        }
    }

    fn land(&mut self, number: u32) -> Option<Flight> {
        let flight = self.flights[number as usize].take()?;
        self.free.push(number);
        Some(flight)
    }

    fn there(&mut self, flight: u32, sim: &mut Sim) {
        let Some(Flight { packet, output, to }) = self.land(flight) else {
            return;
        };
        match to {
            Node::Switch(switch) => {
                let mut actions = std::mem::take(&mut self.actions);
                let act = &mut |action| actions.push(action);
                self.network.handle_packet(switch, output, packet, act);
                self.act(actions, sim);
            }
            Node::Host(host) => self.arrived(host, packet.what, sim),
        }
    }

    fn act(&mut self, mut actions: Vec<Action>, sim: &mut Sim) {
        for action in actions.drain(..) {
            match action {
                Action::Poll(output) => self.poll(output, sim),
                Action::Dropped => {}
                Action::Pause(output, pause) => {
                    let event = RdmaEvent::Pause { output, pause };
                    sim.after(
                        self.network.pause_delay(),
                        Order::NORMAL,
                        owner(output),
                        event,
                    );
                }
            }
        }
        self.actions = actions;
    }

    fn arrived(&mut self, host: u32, what: What, sim: &mut Sim) {
        match what {
            What::Reply { side, reply } => {
                self.sides[side as usize]
                    .pair
                    .handle_reply(sim.now(), reply);
                self.activate(side, sim);
            }
            What::Data {
                side,
                number,
                last,
                len_bytes,
            } => {
                let it = &mut self.sides[side as usize];
                let card = &mut self.hosts[host as usize].card;
                let (seen, placed) = card.handle_packet(sim.now(), it.number, len_bytes);
                let accepted = it.pair.handle_packet(number, last);
                for _ in 0..accepted.writes {
                    sim.at(
                        placed,
                        Order::NORMAL,
                        owner(host),
                        RdmaEvent::Placed { side },
                    );
                }
                let Some(reply) = accepted.reply else { return };
                let card = self.parameters.card;
                let packet = Packet {
                    to: self.sides[(side ^ 1) as usize].host,
                    flow: side / 2,
                    len_bytes: card.ack.as_bytes(),
                    what: What::Reply {
                        side: side ^ 1,
                        reply,
                    },
                };
                let to = Node::Host(host);
                let flight = self.take_off(Flight {
                    packet,
                    output: host,
                    to,
                });
                let at = seen + card.latency;
                sim.at(at, Order::NORMAL, owner(host), RdmaEvent::Reply { flight });
            }
        }
    }

    fn reply(&mut self, flight: u32, sim: &mut Sim) {
        if let Some(Flight { packet, output, .. }) = self.land(flight) {
            self.network.send(output, packet);
            self.poll(output, sim);
        }
    }

    fn placed(&mut self, side: u32, sim: &mut Sim) {
        let Some((from, write)) = self.sides[(side ^ 1) as usize].writes.pop_front() else {
            return;
        };
        let end = from ^ 1;
        let it = &mut self.ends[end as usize];
        for store in &write.stores {
            let delivered = it.memory.deliver(store.region, store.offset, &store.bytes);
            debug_assert!(delivered, "the ends of a connection are alike");
        }
        if !write.tells {
            return;
        }
        it.notices += 1;
        if !std::mem::replace(&mut it.ready, true) {
            self.hosts[it.host as usize].cores[it.core]
                .ready
                .push_back(end);
        }
        self.wake(end, sim);
    }
}

/// Whose an event is, for the order within an instant; more than 65 536 share numbers.
fn owner(of: u32) -> Owner {
    Owner(of as u16)
}

impl World for Rack {
    type Event = RdmaEvent;

    fn handle(&mut self, event: RdmaEvent, sim: &mut Sim) {
        match event {
            RdmaEvent::Begin { end } => self.run(end, sim),
            RdmaEvent::Core { host, core } => self.core(host, core, sim),
            RdmaEvent::Doorbell { end, writes } => self.doorbell(end, writes, sim),
            RdmaEvent::Ready { side } => self.ready(side, sim),
            RdmaEvent::There { flight } => self.there(flight, sim),
            RdmaEvent::Reply { flight } => self.reply(flight, sim),
            RdmaEvent::Placed { side } => self.placed(side, sim),
            RdmaEvent::Timeout { side } => self.timeout(side, sim),
            RdmaEvent::Sent { output } => {
                let mut actions = std::mem::take(&mut self.actions);
                let act = &mut |action| actions.push(action);
                self.network.handle_sent(output, act);
                self.act(actions, sim);
            }
            RdmaEvent::Pause { output, pause } => {
                self.network.handle_pause(sim.now(), output, pause);
                self.poll(output, sim);
            }
        }
    }
}
