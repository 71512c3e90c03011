//! Rings of cards, alone or joined by the switch.
//!
//! Hosts are numbered ring by ring. On a ring of its own the first host is the master; with a
//! switch the master is the switch's port, station 0 of each ring. A message is one
//! frame on a VC of the station that is to receive it:
//!
//! | leg | VC of node | number on that node |
//! |---|---|---|
//! | on one ring | the receiver | station that sends |
//! | to the switch | 0, the port | 16 · host that receives + station that sends |
//! | from the switch | the receiver | 16 + host that sends |
//! | to the interworking unit | 0, the unit | 16 · host beyond it that receives + station that sends |
//! | from the interworking unit | the receiver | 16 + host beyond it that sends |
//!
//! An interworking unit is the master of its only ring, as a port of the switch is of its ring. The hosts beyond
//! it have the numbers after those of the ring.
//!
//! In the switch a frame waits for the bus or its channel, and then in the queue of the port
//! that it leaves by. With cut-through the port is offered the frame when its head is there,
//! but no sooner than its tail can follow without a gap, and not if it may still be
//! suspended. What has no room in the buffer of its output is lost.

use barewire_classic::token::{Class, ConfigError};
use barewire_des::{Class as Order, Event, EventId, Node, Simulator};
use barewire_formats::atm::Vc;
use barewire_formats::jetstream::{Frame, FrameRepr, Kind, OVERHEAD_BYTES, VCS_PER_NODE, node_vc};
use barewire_models::jetstream::{
    Beginning, Card, CardConfig, Noise, Output, Packet, Signal, Switch, SwitchConfig,
};
use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use barewire_wire::capture::LinkType;
use barewire_wire::capture::exported::JETSTREAM;

use super::traffic::{Happening, Message, NetEvent, Spread, Traffic, Why, exported};
use crate::error::SystemError;
use crate::experiment::LinkCapture;
use rest::Rest;

mod idle;
mod rest;

/// How often a line repeats its fill; any time below that of a rotation will do.
const FILL_PERIOD: Duration = Duration::from_us(5);
/// Numbers of a VC that tell the stations of a ring apart.
const STATION_NUMBERS: u16 = 16;
/// Hosts of all rings that the VCs can tell apart.
pub const HOSTS_MAX: usize = (VCS_PER_NODE / STATION_NUMBERS) as usize;

/// How the network is made.
pub struct LanPlan {
    /// The stations of each ring, the master first. All rings are alike.
    pub cards: Vec<CardConfig>,
    pub rings: usize,
    pub hop: Duration,
    pub rate: Rate,
    /// The switch, and the bytes that an output of it can hold.
    pub switch: Option<(SwitchConfig, u64)>,
    /// The master of the only ring is an interworking unit.
    pub unit: bool,
    pub errors_per_gigabit: u64,
    pub packets_per_link: usize,
}

#[derive(Clone, Copy)]
struct Place {
    ring: usize,
    station: usize,
}

struct Station {
    card: Card,
    timer: Option<(Instant, EventId)>,
    noise: Noise,
    token: Option<Instant>,
}

struct Exchange {
    switch: Switch,
    cut_through: bool,
    timer: Option<(Instant, EventId)>,
    buffer_bytes: u64,
    held_bytes: Vec<u64>,
}

/// The network.
pub struct Lan {
    rings: Vec<Vec<Station>>,
    hop: Duration,
    rate: Rate,
    exchange: Option<Exchange>,
    has_unit: bool,
    /// Times of the token once round.
    pub rotations: Spread,
    /// Before this rotations are not counted.
    pub measure_from: Instant,
    pub tokens_lost: u64,
    pub links: Vec<LinkCapture>,
    has_noise: bool,
    /// Of idle rings, if turns of their tokens may be left out.
    rest: Option<Rest>,
}

impl Lan {
    /// Longest time for the rings to come up.
    pub const START_LIMIT: Duration = Duration::from_ms(10);

    /// # Errors
    /// What the cards' MAC refuses.
    pub fn new(plan: &LanPlan, rng: &Rng) -> Result<Self, SystemError> {
        let refused = |error: ConfigError| SystemError::Contradiction(format!("ring: {error}"));
        let stations = plan.cards.len();
        let station = |index: usize| {
            let rid = (index % stations) as u8;
            let mut card = Card::new(plan.cards[index % stations], Instant::ORIGIN)?;
            let own = (0..VCS_PER_NODE).filter_map(|number| node_vc(rid, number));
            own.for_each(|vc| {
                card.receive(vc);
            });
            Ok(Station {
                card,
                timer: None,
                noise: Noise::new(rng.fork_nth("hop", index as u64), plan.errors_per_gigabit),
                token: None,
            })
        };
        let ring = |ring: usize| {
            let all = ring * stations..(ring + 1) * stations;
            all.map(station).collect::<Result<Vec<_>, _>>()
        };
        let rings: Result<Vec<_>, _> = (0..plan.rings).map(ring).collect();
        let exchange = plan.switch.map(|(config, buffer_bytes)| Exchange {
            switch: Switch::new(config),
            cut_through: config.cut_through,
            timer: None,
            buffer_bytes,
            held_bytes: vec![0; plan.rings],
        });
        let link = |index: usize| {
            let (ring, from) = (index / stations, index % stations);
            let to = (from + 1) % stations;
            let name = format!("ring {ring}, station {from} to {to}");
            LinkCapture::new(name, LinkType::UPPER_PDU, plan.packets_per_link)
        };
        let recorded = if plan.packets_per_link > 0 {
            plan.rings * stations
        } else {
            0
        };
        Ok(Self {
            rings: rings.map_err(refused)?,
            hop: plan.hop,
            rate: plan.rate,
            exchange,
            has_unit: plan.unit,
            rotations: Spread::default(),
            measure_from: Instant::MAX,
            tokens_lost: 0,
            links: (0..recorded).map(link).collect(),
            has_noise: plan.errors_per_gigabit > 0,
            rest: None,
        })
    }

    /// The first event.
    pub fn begin<E: Event + From<NetEvent>>(sim: &mut Simulator<E>) {
        let now = sim.now();
        sim.at(now, Order::NORMAL, Node(0), NetEvent::Repeat.into());
    }

    pub fn is_up(&self) -> bool {
        let mut stations = self.rings.iter().flatten();
        stations.all(|station| station.card.is_up())
    }

    /// The station of the first ring that had the token last, seen at `now`.
    pub fn token_at(&self, now: Instant) -> Option<usize> {
        let stations = self.rings.first()?.iter().enumerate();
        let seen = stations.filter_map(|(number, station)| {
            let last = station.token?;
            Some((last + self.left_out(last, now).0, number))
        });
        seen.max().map(|(_, number)| number)
    }

    /// Frames and tokens that broke between two clocks.
    pub fn slips(&self) -> u64 {
        let stations = self.rings.iter().flatten();
        stations.map(|station| station.card.slips()).sum()
    }

    /// Whether station 0 of each ring is no host.
    fn has_port(&self) -> bool {
        self.exchange.is_some() || self.has_unit
    }

    fn hosts_per_ring(&self) -> usize {
        self.rings[0].len() - usize::from(self.has_port())
    }

    fn place(&self, host: usize) -> Place {
        let hosts = self.hosts_per_ring();
        Place {
            ring: host / hosts,
            station: host % hosts + usize::from(self.has_port()),
        }
    }

    /// A host's message: a frame for its card.
    pub fn send<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        self.go_on(sim);
        let message = &traffic.messages[index];
        let (from, repr) = (self.place(message.from), self.headers(message));
        let class = message.class;
        let card = &mut self.rings[from.ring][from.station].card;
        if card.offer(sim.now(), index as u64, class, repr).is_err() {
            traffic.lose(index, Why::Refused);
        }
        self.drain(from, traffic, sim);
    }

    /// The headers of a host's frame.
    fn headers(&self, message: &Message) -> FrameRepr {
        let (from, to) = (self.place(message.from), self.place(message.to));
        let sender = from.station as u16;
        let beyond = message.to.checked_sub(self.hosts_per_ring());
        let vc = match beyond.filter(|_| self.has_unit) {
            Some(beyond) => vc_of(0, beyond as u16 * STATION_NUMBERS + sender),
            None if from.ring == to.ring => vc_of(to.station, sender),
            None => vc_of(0, message.to as u16 * STATION_NUMBERS + sender),
        };
        FrameRepr::on_vc(from.station as u8, vc, message.pdu_bytes())
    }

    /// A host's frame, as it leaves its card.
    pub fn frame(&self, message: &Message) -> Vec<u8> {
        frame_bytes(self.headers(message), Some(message))
    }

    /// The unit has a frame for a host of the ring.
    pub fn send_from_unit<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        repr: FrameRepr,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        self.go_on(sim);
        let class = traffic.messages[index].class;
        let card = &mut self.rings[0][0].card;
        if card.offer(sim.now(), index as u64, class, repr).is_err() {
            traffic.lose(index, Why::NoRoom);
        }
        let (ring, station) = (0, 0);
        self.drain(Place { ring, station }, traffic, sim);
    }

    pub fn handle<E: Event + From<NetEvent>>(
        &mut self,
        event: NetEvent,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        match event {
            NetEvent::Card(ring, station) => {
                let it = &mut self.rings[ring][station];
                it.timer = None;
                it.card.handle_timer(sim.now());
                self.drain(Place { ring, station }, traffic, sim);
            }
            NetEvent::Repeat => self.repeat(traffic, sim),
            NetEvent::Switch => {
                if let Some(exchange) = &mut self.exchange {
                    exchange.timer = None;
                    exchange.switch.handle_timer(sim.now());
                }
                self.drain_switch(traffic, sim);
            }
            NetEvent::ToPort(message) => self.offer_to_port(message, traffic, sim),
            NetEvent::PortSent(message) => self.release(message, traffic),
            _ => {}
        }
    }

    fn repeat<E: Event + From<NetEvent>>(&mut self, traffic: &mut Traffic, sim: &mut Simulator<E>) {
        if self.is_up() {
            return sim.stop();
        }
        for ring in 0..self.rings.len() {
            for station in 0..self.rings[ring].len() {
                self.rings[ring][station].card.repeat_fill();
                self.drain(Place { ring, station }, traffic, sim);
            }
        }
        sim.after(FILL_PERIOD, Order::NORMAL, Node(0), NetEvent::Repeat.into());
    }

    /// Does what a card wants, and keeps its timer up to date.
    fn drain<E: Event + From<NetEvent>>(
        &mut self,
        place: Place,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let Place { ring, station } = place;
        while let Some(output) = self.rings[ring][station].card.poll() {
            match output {
                Output::Line(signal) => self.line(place, signal, traffic, sim),
                Output::Begins { id, ends } => self.begins(place, id as usize, ends, traffic, sim),
                Output::Received { id, whole, broken } => {
                    self.received(place, id as usize, (whole, broken), traffic, sim);
                }
                Output::Token => self.token(place, sim.now()),
            }
        }
        self.wind(place, sim);
    }

    fn wind<E: Event + From<NetEvent>>(&mut self, place: Place, sim: &mut Simulator<E>) {
        let Place { ring, station } = place;
        let it = &mut self.rings[ring][station];
        let node = Node((ring * usize::from(STATION_NUMBERS) + station) as u16);
        let event = NetEvent::Card(ring, station);
        wind(&mut it.timer, it.card.next_deadline(), node, event, sim);
    }

    fn token(&mut self, place: Place, now: Instant) {
        let seen = &mut self.rings[place.ring][place.station].token;
        let before = seen.replace(now);
        if let Some(before) = before.filter(|_| now >= self.measure_from) {
            self.rotations.add(now - before);
        }
        if let Some(rest) = &mut self.rest {
            rest.count(place.ring, before.map(|before| now - before));
        }
    }

    /// Something leaves a card. It is given to the next at once, with the time at which it will
    /// be there.
    fn line<E: Event + From<NetEvent>>(
        &mut self,
        place: Place,
        mut signal: Signal,
        traffic: &Traffic,
        sim: &mut Simulator<E>,
    ) {
        let Place { ring, station } = place;
        let is_token = signal.is_token();
        if let Signal::Frame(transit) = &mut signal {
            self.record(place, transit.repr, transit.id, traffic, sim.now());
            let bits = transit.repr.buffer_len() as u64 * 8;
            transit.broken |= self.rings[ring][station].noise.hits(bits);
            if transit.broken && is_token {
                self.tokens_lost += 1;
                return;
            }
        }
        let next = (station + 1) % self.rings[ring].len();
        self.rings[ring][next]
            .card
            .handle(sim.now() + self.hop, signal);
        let station = next;
        self.wind(Place { ring, station }, sim);
    }

    fn record(&mut self, place: Place, repr: FrameRepr, id: u64, traffic: &Traffic, now: Instant) {
        let index = place.ring * self.rings[0].len() + place.station;
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        link.record(now, || {
            let message = traffic.messages.get(id as usize);
            exported(JETSTREAM, &frame_bytes(repr, message))
        });
    }

    fn begins<E: Event + From<NetEvent>>(
        &mut self,
        place: Place,
        message: usize,
        ends: Instant,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        if self.has_unit && place.station == 0 {
            return;
        }
        if self.exchange.is_some() && place.station == 0 {
            let node = Node(place.ring as u16);
            sim.at(
                ends,
                Order::NORMAL,
                node,
                NetEvent::PortSent(message).into(),
            );
            return;
        }
        let began = sim.now();
        traffic.happenings.push_back(Happening::Sent {
            message,
            began,
            ends,
        });
    }

    fn received<E: Event + From<NetEvent>>(
        &mut self,
        place: Place,
        message: usize,
        (whole, broken): (Instant, bool),
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        if broken {
            return traffic.lose(message, Why::Damaged);
        }
        if self.exchange.is_some() && place.station == 0 {
            return self.enter_switch(message, whole, traffic, sim);
        }
        let node = Node(place.station as u16);
        let event = match self.has_unit && place.station == 0 {
            true => NetEvent::AtUnit(message),
            false => NetEvent::Whole(message),
        };
        sim.at(whole, Order::NORMAL, node, event.into());
    }

    fn enter_switch<E: Event + From<NetEvent>>(
        &mut self,
        message: usize,
        tail: Instant,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let it = &traffic.messages[message];
        let bytes = (OVERHEAD_BYTES + it.pdu_bytes()) as u64;
        let output = self.place(it.to).ring;
        let priority = it.class == Class::Synchronous;
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        if exchange.held_bytes[output] + bytes > exchange.buffer_bytes {
            return traffic.lose(message, Why::NoRoom);
        }
        exchange.held_bytes[output] += bytes;
        let packet = Packet {
            id: message as u64,
            output,
            bytes,
            priority,
            tail,
        };
        exchange.switch.handle_frame(sim.now(), packet);
        self.drain_switch(traffic, sim);
    }

    fn drain_switch<E: Event + From<NetEvent>>(
        &mut self,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        let (now, rate) = (sim.now(), self.rate);
        let mut to_ports = Vec::new();
        while let Some(beginning) = exchange.switch.poll_begun() {
            if exchange.cut_through && !beginning.suspendable {
                to_ports.push(beginning);
            }
        }
        let mut whole = Vec::new();
        while let Some(departure) = exchange.switch.poll() {
            let message = departure.id as usize;
            let priority = traffic.messages[message].class == Class::Synchronous;
            if !exchange.cut_through || exchange.switch.config().suspend && !priority {
                whole.push(message);
            }
        }
        let deadline = exchange.switch.next_deadline();
        wind(
            &mut exchange.timer,
            deadline,
            Node(0),
            NetEvent::Switch,
            sim,
        );
        for beginning in to_ports {
            let message = beginning.id as usize;
            let at = head_at(now, rate, &traffic.messages[message], beginning);
            sim.at(at, Order::NORMAL, Node(0), NetEvent::ToPort(message).into());
        }
        for message in whole {
            self.offer_to_port(message, traffic, sim);
        }
    }

    /// The port that a frame leaves by has it, or its head.
    fn offer_to_port<E: Event + From<NetEvent>>(
        &mut self,
        message: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        self.go_on(sim);
        let it = &traffic.messages[message];
        let to = self.place(it.to);
        let vc = vc_of(to.station, STATION_NUMBERS + it.from as u16);
        let repr = FrameRepr::on_vc(0, vc, it.pdu_bytes());
        let class = it.class;
        let card = &mut self.rings[to.ring][0].card;
        if card.offer(sim.now(), message as u64, class, repr).is_err() {
            traffic.lose(message, Why::NoRoom);
            self.release(message, traffic);
        }
        let port = Place {
            ring: to.ring,
            station: 0,
        };
        self.drain(port, traffic, sim);
    }

    fn release(&mut self, message: usize, traffic: &Traffic) {
        let it = &traffic.messages[message];
        let output = self.place(it.to).ring;
        if let Some(exchange) = &mut self.exchange {
            let bytes = (OVERHEAD_BYTES + it.pdu_bytes()) as u64;
            exchange.held_bytes[output] = exchange.held_bytes[output].saturating_sub(bytes);
        }
    }
}

/// The node of the VC from a host of a ring to the `beyond`-th host beyond its unit, and its number there.
pub fn to_unit(host: usize, beyond: usize) -> (u8, u16) {
    (0, beyond as u16 * STATION_NUMBERS + host as u16 + 1)
}

/// The same of the VC the other way.
pub fn from_unit(host: usize, beyond: usize) -> (u8, u16) {
    (host as u8 + 1, STATION_NUMBERS + beyond as u16)
}

/// A frame with these headers, and the PDU of its message if it has one.
fn frame_bytes(repr: FrameRepr, message: Option<&Message>) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut Frame::new_unchecked(&mut bytes));
    let is_data = matches!(repr.kind, Kind::Data { .. });
    if let Some(message) = message.filter(|_| is_data) {
        bytes[OVERHEAD_BYTES..].copy_from_slice(&message.pdu());
    }
    bytes
}

/// The `number`-th VC of a station; there are as many as [`HOSTS_MAX`] hosts need.
fn vc_of(station: usize, number: u16) -> Vc {
    let none = Vc { vpi: 0, vci: 0 };
    node_vc(station as u8, number).unwrap_or(none)
}

/// When the port may begin with a frame so that the fabric stays ahead of it.
fn head_at(now: Instant, rate: Rate, message: &Message, it: Beginning) -> Instant {
    let bytes = ByteSize::from(OVERHEAD_BYTES + message.pdu_bytes());
    let time = rate.time_to_send(bytes);
    now + it.ends.saturating_duration_since(now).saturating_sub(time)
}

/// Keeps a timer at its deadline.
fn wind<E: Event + From<NetEvent>>(
    timer: &mut Option<(Instant, EventId)>,
    deadline: Option<Instant>,
    node: Node,
    event: NetEvent,
    sim: &mut Simulator<E>,
) {
    if deadline == timer.map(|(at, _)| at) {
        return;
    }
    if let Some((_, id)) = timer.take() {
        sim.cancel(id);
    }
    *timer = deadline.map(|at| (at, sim.timer(at, Order::NORMAL, node, event.into())));
}
