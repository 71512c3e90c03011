//! A Jetstream ring, several at a switch, or one with an ATM switch beyond an interworking unit, that carry packets from outside: each IP packet is a PDU of AAL5 behind LLC/SNAP, in one
//! frame, as each segment is in the experiment `afterburner`. On ATM it is cells.
//!
//! The hosts have the costs of the Afterburner and its single-copy stack, for one operation at a time:
//! ```text
//! send     data: system call, copy to the card, TCP, IP and driver.   No data: an acknowledgement's output
//! receive  interrupt, then data: driver, IP and TCP, the program wakes, system call, copy.   No data: an
//!          acknowledgement's input
//! ```
//! If packets have come and others are to be sent, the host does one of each in turn, as its programs share the processor.
//! What has come lies in blocks of the card until the host has copied it. A frame that finds too few free ones is lost.
//!
//! A packet without data is one of TCP with headers only. Turns of the token round an idle ring are left out while no packet
//! is inside, and made up for when the next is taken (`lan/idle.rs`).

use std::collections::{BTreeMap, VecDeque};

use barewire_classic::token::Class;
use barewire_des::{Class as Order, Event, Node, Simulator, World};
use barewire_formats::aal5;
use barewire_models::afterburner::{Costs, Stack};
use barewire_units::{Duration, Instant};

use super::net::{Happening, Medium, NetEvent, Network};
use super::parameters::Parameters;
use crate::emulation::{
    self, Carries, HostEra, Losses, SNAP, Stations, View, Wanted, is_acknowledgement,
};
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// Data of a segment in the paper, and the headers that are before them here.
const MTU_BYTES: usize = 14 * 1024 + 52;
/// The longest packet that fits a PDU, and the header of an IP packet.
const MTU_BYTES_MAX: usize = 65_535 - SNAP.len();
/// Messages that are over are forgotten when there are so many.
const MESSAGES_KEPT: usize = 1 << 16;
/// The bytes of messages that are over are forgotten when so many have come after them.
const BYTES_KEPT: usize = 1 << 10;
/// Nothing of them is on the ring after this time without another.
const QUIET: Duration = Duration::from_ms(50);

/// A ring, and how it is to be used.
pub(super) struct Made {
    pub network: Network,
    pub stations: usize,
    /// Frames that a card queues.
    pub queue_frames: usize,
    pub card: CardBlocks,
    pub costs: Costs,
    /// Not several at a switch.
    pub has_one_ring: bool,
    pub description: String,
}

/// The memory of a card for what comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardBlocks {
    blocks: usize,
    block_bytes: usize,
}

impl CardBlocks {
    pub(super) fn of(parameters: &Parameters) -> Self {
        let card = &parameters.card;
        Self {
            blocks: usize::from(card.blocks),
            // Cannot fail: blocks are as large as segments.
            block_bytes: card.block.as_usize().unwrap_or(usize::MAX).max(1),
        }
    }

    /// Blocks that a packet takes.
    fn of_packet(self, packet: &[u8]) -> usize {
        (SNAP.len() + packet.len()).div_ceil(self.block_bytes)
    }
}

/// A ring that carries packets.
pub(super) type Emulation = emulation::Emulation<Carrying>;

#[derive(Clone, Copy, Debug)]
pub(super) enum Happens {
    Net(NetEvent),
    /// The operation of a host is over.
    Host(u16),
}

impl From<NetEvent> for Happens {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

impl Event for Happens {
    fn digest(&self) -> u64 {
        match self {
            Self::Net(event) => event.digest(),
            Self::Host(host) => 1 << 40 | u64::from(*host),
        }
    }
}

/// What a host does.
enum Doing {
    Send { to: u16, packet: Vec<u8> },
    Receive(Vec<u8>),
}

#[derive(Default)]
struct Host {
    doing: Option<Doing>,
    arrived: VecDeque<Vec<u8>>,
    /// Blocks of its card that hold what has arrived and what it receives.
    blocks: usize,
    /// What it did last: received, not sent.
    received: bool,
    /// Frames in the queue of its card.
    queued: usize,
}

pub(super) struct Carrying {
    network: Network,
    stations: Stations,
    hosts: Vec<Host>,
    /// Packets on the ring, by message.
    packets: BTreeMap<usize, Vec<u8>>,
    queue_frames: usize,
    card: CardBlocks,
    without_block: u64,
    /// `None` if they take no time.
    costs: Option<Costs>,
    /// `None` if the network itself loses what is lost at random.
    losses: Option<Losses>,
    lost_frames: u64,
    last_sent: Instant,
    has_one_ring: bool,
    /// When the ring was up: time zero, for the outside.
    up: Instant,
}

/// What a host takes to send a packet, and to receive it.
fn costs_of(costs: &Costs, packet: &[u8]) -> [Duration; 2] {
    let bytes = packet.len() as u64;
    let stack = Stack::SingleCopy;
    if is_acknowledgement(packet) {
        let receive = costs.interrupt + costs.acknowledgement_input;
        return [costs.acknowledgement_output, receive];
    }
    let copy_out = costs.copy_from_program(stack, bytes);
    let copy_in = costs.copy_to_program(stack, bytes);
    let wakes = costs.interrupt + costs.input(stack, bytes) + costs.context_switch;
    [
        costs.system_call + copy_out + costs.output(stack, bytes),
        wakes + costs.system_call + copy_in,
    ]
}

impl Emulation {
    pub(super) fn new(made: Made, seed: u64, wanted: &Wanted) -> Result<Self, SystemError> {
        wanted.check()?;
        let mtu = wanted.mtu(MTU_BYTES, MTU_BYTES_MAX)?;
        let mut network = made.network;
        let mut losses = Some(wanted.losses(seed));
        network.traffic.tells_losses = true;
        if let Medium::Joined(joined) = &mut network.medium {
            // It loses cells and frames where they come, and carries bytes.
            joined.lose_at_random(losses.take());
            network.traffic.recording = true;
        }
        let mut carrying = Carrying {
            network,
            stations: Stations::new(wanted, mtu),
            hosts: (0..made.stations).map(|_| Host::default()).collect(),
            packets: BTreeMap::new(),
            queue_frames: made.queue_frames,
            card: made.card,
            without_block: 0,
            costs: (wanted.host_era == HostEra::Plan).then_some(made.costs),
            losses,
            lost_frames: 0,
            last_sent: Instant::ORIGIN,
            has_one_ring: made.has_one_ring,
            up: Instant::ORIGIN,
        };
        let mut sim = Simulator::new();
        carrying.up = Network::start(&mut carrying, &mut sim)?;
        if let Some(lan) = carrying.network.medium.lan_mut() {
            lan.let_rest();
        }
        Ok(Self {
            sim,
            carrying,
            description: made.description,
        })
    }
}

impl AsMut<Network> for Carrying {
    fn as_mut(&mut self) -> &mut Network {
        &mut self.network
    }
}

impl World for Carrying {
    type Event = Happens;

    fn handle(&mut self, event: Happens, sim: &mut Simulator<Happens>) {
        match event {
            Happens::Net(event) => self.network.handle(event, sim),
            Happens::Host(host) => self.done(usize::from(host), sim),
        }
        self.look(sim);
        let is_token = matches!(event, Happens::Net(NetEvent::Card(..)));
        if is_token && self.hosts.iter().all(Host::rests) {
            self.network.rest(sim);
        }
    }
}

impl Host {
    /// Whether it does nothing, and nothing waits for it.
    fn rests(&self) -> bool {
        self.doing.is_none() && self.arrived.is_empty()
    }
}

impl Carrying {
    /// What hosts notice of the network.
    fn look(&mut self, sim: &mut Simulator<Happens>) {
        while let Some(happening) = self.network.traffic.happenings.pop_front() {
            match happening {
                Happening::Sent { message, .. } => {
                    let from = self.network.traffic.messages[message].from;
                    self.hosts[from].queued -= 1;
                    self.operate(from, sim);
                }
                Happening::Received(message) => self.arrived(message, sim),
            }
        }
        let mut has_lost = false;
        while let Some(message) = self.network.traffic.lost.pop_front() {
            self.packets.remove(&message);
            has_lost = true;
        }
        if has_lost {
            self.is_over();
        }
    }

    fn arrived(&mut self, message: usize, sim: &mut Simulator<Happens>) {
        let to = self.network.traffic.messages[message].to;
        let packet = self.packets.remove(&message);
        if self.losses.as_mut().is_some_and(Losses::hit) {
            self.lost_frames += 1;
            return self.is_over();
        }
        let Some(packet) = packet else {
            return;
        };
        let blocks = self.card.of_packet(&packet);
        let host = &mut self.hosts[to];
        if host.blocks + blocks > self.card.blocks {
            self.without_block += 1;
            return self.is_over();
        }
        host.blocks += blocks;
        host.arrived.push_back(packet);
        self.operate(to, sim);
    }

    /// Nothing is inside but what was lost.
    fn is_over(&mut self) {
        if self.network.traffic.on_their_way == 0 && self.hosts.iter().all(Host::rests) {
            self.stations.is_over();
            // Those that were lost.
            self.packets.clear();
        }
    }

    /// The next operation of a host that does nothing.
    fn operate(&mut self, number: usize, sim: &mut Simulator<Happens>) {
        let host = &mut self.hosts[number];
        if host.doing.is_some() {
            return;
        }
        let has_room = host.queued < self.queue_frames;
        let waiting = self.stations.waiting(number).filter(|_| has_room);
        let to = waiting.map(|(to, _)| to);
        // In turns, if there is something of both.
        let may_send = host.received || host.arrived.is_empty();
        let begun = match to.filter(|_| may_send) {
            Some(to) => self.stations.begin(number).map(|packet| (to, packet)),
            None => None,
        };
        let (doing, which) = if let Some((to, packet)) = begun {
            (Doing::Send { to, packet }, 0)
        } else if let Some(packet) = host.arrived.pop_front() {
            (Doing::Receive(packet), 1)
        } else {
            return;
        };
        host.received = matches!(doing, Doing::Receive(_));
        let (Doing::Send { packet, .. } | Doing::Receive(packet)) = &doing;
        let costs = self.costs.as_ref();
        let time = costs.map_or(Duration::ZERO, |costs| costs_of(costs, packet)[which]);
        host.doing = Some(doing);
        let node = Node(number as u16);
        sim.after(time, Order::NORMAL, node, Happens::Host(number as u16));
    }

    fn done(&mut self, number: usize, sim: &mut Simulator<Happens>) {
        match self.hosts[number].doing.take() {
            None => {}
            Some(Doing::Receive(packet)) => {
                self.hosts[number].blocks -= self.card.of_packet(&packet);
                // In the time of the outside.
                let now = Instant::ORIGIN + sim.now().saturating_duration_since(self.up);
                self.stations.give(now, number, packet);
                self.is_over();
            }
            Some(Doing::Send { to, packet }) => self.send(number, to, packet, sim),
        }
        self.operate(number, sim);
    }

    fn send(&mut self, from: usize, to: u16, packet: Vec<u8>, sim: &mut Simulator<Happens>) {
        let traffic = &self.network.traffic;
        let quiet = sim.now().saturating_duration_since(self.last_sent) > QUIET;
        let is_long = traffic.messages.len() > MESSAGES_KEPT;
        if quiet && is_long && self.network.is_idle() {
            self.network.traffic.clear();
        }
        self.last_sent = sim.now();
        let payload = || [&SNAP[..], &packet].concat();
        let bytes = SNAP.len() + packet.len();
        let (to, class) = (usize::from(to), Class::Asynchronous);
        self.hosts[from].queued += 1;
        let message = self.network.send(sim, from, to, class, bytes, payload);
        self.packets.insert(message, packet);
        let traffic = &mut self.network.traffic;
        traffic.forget_bytes(message.saturating_sub(BYTES_KEPT));
    }

    /// Where the token was last, of all stations.
    fn token(&self, now: Instant) -> Option<usize> {
        match &self.network.medium {
            Medium::Rings(lan) if self.has_one_ring => lan.token_at(now),
            // The unit, which is before the first, is no station here.
            Medium::Joined(joined) => joined.lan.token_at(now)?.checked_sub(1),
            Medium::Rings(_) | Medium::Atm(_) => None,
        }
    }
}

impl Carries for Carrying {
    fn stations(&self) -> &Stations {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations {
        &mut self.stations
    }

    fn begin(&mut self, station: usize, sim: &mut Simulator<Happens>) {
        self.network.go_on(sim);
        self.operate(station, sim);
    }

    fn view(&self, now: Instant) -> View {
        let count = self.hosts.len();
        let place = |station: usize| station as f64 / count as f64;
        let traffic = &self.network.traffic;
        let token = self.token(now);
        View {
            what: match &self.network.medium {
                Medium::Joined(_) => "the station of the ring that had the token last",
                _ if self.has_one_ring => "the station that had the token last",
                _ => "stations of rings at a switch",
            },
            stations: (0..count).map(place).collect(),
            carriers: token
                .map(|station| (place(station), vec![true]))
                .into_iter()
                .collect(),
            counts: match &self.network.medium {
                Medium::Joined(joined) => joined.counts(),
                _ => vec![
                    ("frames on their way", traffic.on_their_way),
                    ("frames lost", self.lost_frames),
                ],
            }
            .into_iter()
            .chain([("frames that found no block in a card", self.without_block)])
            .collect(),
        }
    }

    fn take_links(&mut self) -> Vec<LinkCapture> {
        self.network.take_links()
    }

    fn up(&self) -> Instant {
        self.up
    }
}

/// Bytes of the longest payload, which a PDU holds.
const _: () = assert!(aal5::pdu_bytes(MTU_BYTES_MAX + SNAP.len()) <= 65_568);

#[cfg(test)]
mod interworking_tests;
#[cfg(test)]
mod rest_tests;
#[cfg(test)]
mod tests;
