//! Hosts with their cards, joined by the two switches, as a world of events.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Cpu` | host | an operation of the host's program is over |
//! | `Bus` | host | a burst is over |
//! | `Link` | host | the tail of a packet has left the card |
//! | `Head` | switch | the head of a packet is there |
//! | `Arrived` | host | the whole of a packet is in the card |
//!
//! Programs are [`Role`]s. What a program stores through its windows leaves the processor
//! before its next operation begins, so a full write buffer and a barrier cost it time.

use barewire_des::{Class, Event, EventId, Node, Simulator, World};
use barewire_fabric::aperture::{Action, Mode};
use barewire_fabric::doorbell;
use barewire_fabric::frame::region_bytes;
use barewire_models::clan::{Answer, Cluster, Hop, Interface, Memory, Packet, Place, Words};
use barewire_units::{Duration, Instant};
use barewire_wire::capture::LinkType;
use barewire_wire::capture::exported::{self, TagsRepr};

pub use super::end::{End, Receiver, Sender};
use super::parameters::Parameters;
use super::program::Role;
use super::step::Step;
use crate::experiment::LinkCapture;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClanEvent {
    Cpu(u8),
    Bus(u8),
    Link(u8),
    Head { packet: u32, switch: u8 },
    Arrived { packet: u32 },
}

impl Event for ClanEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Cpu(host) => u64::from(host),
            Self::Bus(host) => 1 << 8 | u64::from(host),
            Self::Link(host) => 2 << 8 | u64::from(host),
            Self::Head { packet, switch } => u64::from(packet) << 16 | 3 << 8 | u64::from(switch),
            Self::Arrived { packet } => u64::from(packet) << 16 | 4 << 8,
        }
    }
}

/// A host.
pub struct Host {
    pub memory: Memory,
    pub words: Words,
    pub interface: Interface,
    role: Role,
    /// The processor waits for the write buffer before an operation that takes so long.
    held: Option<Step>,
    sleeping: bool,
    /// The program looks at its memory, and nothing has arrived yet.
    watch: Option<Watch>,
    /// Something has arrived since the program's last step.
    is_touched: bool,
    /// A tripwire has fired that only wakes.
    pub woken: bool,
    /// Answers of peers' cards that the program has not taken.
    pub answers: Vec<Answer>,
    /// Bytes that arrived, the first and the last time they did.
    pub arrived_bytes: usize,
    pub arrived: Option<(Instant, Instant)>,
}

/// Looks that are left out.
struct Watch {
    since: Instant,
    poll: Duration,
    /// The look at which they end anyway.
    end: Option<EventId>,
}

impl Watch {
    /// The first look at `time` or after it.
    fn look_at(&self, time: Instant) -> Instant {
        let waited = time.saturating_duration_since(self.since).as_ps();
        let looks = waited.div_ceil(self.poll.as_ps().max(1)).max(1);
        self.since + self.poll * looks
    }
}

/// Where an end of a connection has its ring.
#[derive(Clone, Copy)]
pub struct Seat {
    pub host: u8,
    pub region: usize,
    /// Where in the region.
    pub base: usize,
}

/// A packet between two cards.
struct Flight {
    packet: Packet,
    /// On a line.
    time: Duration,
}

/// The network.
pub struct Cabinet {
    pub hosts: Vec<Host>,
    cluster: Cluster,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    card_latency: Duration,
    wake: Duration,
    /// What each host's card has sent.
    captures: Vec<LinkCapture>,
}

/// A packet in the form of [`Packet::encode`], as Wireshark takes bytes without structure.
fn exported(packet: &[u8]) -> Vec<u8> {
    let tags = TagsRepr {
        protocol: "CLAN",
        ..TagsRepr::new(exported::DATA)
    };
    let mut bytes = vec![0; tags.buffer_len()];
    let emitted = tags.emit(&mut bytes);
    debug_assert!(emitted.is_ok(), "it is as long as it says");
    bytes.extend_from_slice(packet);
    bytes
}

impl Cabinet {
    /// Idle hosts, at most as many as the switches have ports for. More are not asked for: every
    /// experiment checks its hosts against [`Parameters::hosts_max`].
    pub fn new(parameters: &Parameters, hosts: usize) -> Self {
        let host = |_| {
            let memory = Memory::default();
            Host {
                interface: Interface::new(parameters.interface(), memory.clone()),
                memory,
                words: Words::default(),
                role: Role::Idle,
                held: None,
                sleeping: false,
                watch: None,
                is_touched: false,
                woken: false,
                answers: Vec::new(),
                arrived_bytes: 0,
                arrived: None,
            }
        };
        Cabinet {
            hosts: (0..hosts.min(parameters.hosts_max())).map(host).collect(),
            cluster: Cluster::new(parameters.switch.latency, parameters.switch.ports),
            flights: Vec::new(),
            free: Vec::new(),
            card_latency: parameters.card.latency,
            wake: parameters.host.wake,
            captures: Vec::new(),
        }
    }

    /// Records what each card sends, at most so many packets of each.
    pub fn record(&mut self, packets: usize) {
        let link = |host| format!("host {host}, to its switch");
        self.captures = (0..self.hosts.len())
            .map(|host| LinkCapture::new(link(host), LinkType::UPPER_PDU, packets))
            .collect();
    }

    /// What was recorded. An idle host's line is not worth an interface.
    pub fn take_captures(&mut self) -> Vec<LinkCapture> {
        let mut captures = std::mem::take(&mut self.captures);
        captures.retain(|link| !link.packets.is_empty());
        captures
    }

    /// A connection between two hosts, with a ring of `ring_bytes` at each; and the
    /// regions that it has at each.
    pub fn connect(
        &mut self,
        hosts: [u8; 2],
        ring_bytes: usize,
    ) -> ([(Sender, Receiver); 2], [usize; 2]) {
        let len_bytes = region_bytes(ring_bytes);
        let seats = hosts.map(|host| Seat {
            host,
            region: self.hosts[host as usize].memory.add_region(len_bytes),
            base: 0,
        });
        let ends = self.join(seats, ring_bytes);
        (ends, seats.map(|seat| seat.region))
    }

    /// A connection with rings of `ring_bytes` at these places.
    pub fn join(&self, seats: [Seat; 2], ring_bytes: usize) -> [(Sender, Receiver); 2] {
        let len_bytes = region_bytes(ring_bytes);
        let end = |own: Seat, peer: Seat| {
            let memory = &self.hosts[own.host as usize].memory;
            let out = memory.stores_at(peer.host, peer.region, peer.base, len_bytes);
            let inn = memory.loads_at(own.region, own.base, len_bytes);
            (
                Sender::new(out.clone(), inn.clone(), ring_bytes),
                Receiver::new(inn, out, ring_bytes),
            )
        };
        [end(seats[0], seats[1]), end(seats[1], seats[0])]
    }

    /// Sets a tripwire on the ring in a region: what arrives there puts `source` into the
    /// host's event queue. `false` if the card has no entry left.
    pub fn watch(&mut self, host: u8, region: usize, ring_bytes: usize, source: u32) -> bool {
        self.watch_range(host, region, (region_bytes(0), ring_bytes), source)
    }

    /// As [`Cabinet::watch`], on any range of a region.
    pub fn watch_range(
        &mut self,
        host: u8,
        region: usize,
        range: (usize, usize),
        source: u32,
    ) -> bool {
        let action = Action::Enqueue {
            cookie: u64::from(source),
        };
        let cam = self.hosts[host as usize].interface.cam();
        cam.arm(Place::Own(region), range, Mode::Sticky, action)
            .is_ok()
    }

    /// Gives a host its program, which begins at once.
    pub fn start(&mut self, sim: &mut Simulator<ClanEvent>, host: u8, role: Role) {
        self.hosts[host as usize].role = role;
        cpu_after(sim, host, Duration::ZERO);
    }

    /// The program of a host.
    pub fn role(&self, host: u8) -> &Role {
        &self.hosts[host as usize].role
    }

    /// Sets a tripwire on a range of a region that only wakes. `false` if the card has no entry left.
    pub fn wake_on(&mut self, host: u8, region: usize, range: (usize, usize)) -> bool {
        let cam = self.hosts[host as usize].interface.cam();
        cam.arm(Place::Own(region), range, Mode::Sticky, Action::Wake)
            .is_ok()
    }

    /// The program of a host, to be given something.
    pub fn role_mut(&mut self, host: u8) -> &mut Role {
        &mut self.hosts[host as usize].role
    }

    /// Lets a program go on that sleeps, without an interrupt; whether it slept.
    pub fn rouse(&mut self, sim: &mut Simulator<ClanEvent>, host: u8) -> bool {
        let it = &mut self.hosts[host as usize];
        if let Some(Step::Sleep) = it.held {
            // It is not asleep yet.
            it.woken = true;
        }
        it.is_touched = true;
        self.look_again(host, sim);
        let it = &mut self.hosts[host as usize];
        let slept = std::mem::take(&mut it.sleeping);
        if slept {
            cpu_after(sim, host, Duration::ZERO);
        }
        slept
    }

    /// Packets between cards.
    pub fn on_their_way(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Posts what was stored outside of an event, and lets it go its way.
    pub fn flush(&mut self, sim: &mut Simulator<ClanEvent>) {
        for host in 0..self.hosts.len() {
            self.hosts[host].interface.post();
            self.keep_going(host as u8, sim);
        }
    }

    /// Whether a host's processor waits for its write buffer.
    pub fn processor_waits(&self, host: u8) -> bool {
        self.hosts[host as usize].interface.processor_waits()
    }

    /// Nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.flights.len()
            && self.hosts.iter().all(|host| host.interface.is_idle())
    }

    fn cpu(&mut self, host: u8, sim: &mut Simulator<ClanEvent>) {
        let it = &mut self.hosts[host as usize];
        it.sleeping = false;
        it.watch = None;
        // What has fired and arrived by now is seen by this step.
        (it.woken, it.is_touched) = (false, false);
        let step = it.role.step(sim.now());
        let waits = it.interface.post();
        if waits {
            it.held = Some(step);
        } else {
            self.go_on(host, step, sim);
        }
    }

    fn go_on(&mut self, host: u8, step: Step, sim: &mut Simulator<ClanEvent>) {
        let it = &mut self.hosts[host as usize];
        match step {
            Step::Run(time) => cpu_after(sim, host, time),
            // While it waited for the write buffer, a tripwire has fired.
            Step::Sleep if it.woken => cpu_after(sim, host, self.wake),
            Step::Sleep => it.sleeping = true,
            Step::Watch { poll, .. } if it.is_touched => cpu_after(sim, host, poll),
            Step::Watch { poll, until } => {
                let since = sim.now();
                let mut watch = Watch {
                    since,
                    poll,
                    end: None,
                };
                let node = Node(u16::from(host));
                watch.end = until.map(|until| {
                    let look = watch.look_at(until);
                    sim.timer(look, Class::NORMAL, node, ClanEvent::Cpu(host))
                });
                it.watch = Some(watch);
            }
            Step::Transfer(transfer) => it.interface.start_transfer(transfer),
            Step::Rest => {}
            Step::End => sim.stop(),
        }
    }

    fn bus(&mut self, host: u8, sim: &mut Simulator<ClanEvent>) {
        let it = &mut self.hosts[host as usize];
        let done = it.interface.handle_burst_end();
        if done.delivered_bytes > 0 {
            it.arrived_bytes += done.delivered_bytes;
            let first = it.arrived.map_or(sim.now(), |(first, _)| first);
            it.arrived = Some((first, sim.now()));
            it.is_touched = true;
        }
        it.answers.extend(done.answer);
        self.fire(host, done.fired, sim);
        if self.hosts[host as usize].is_touched {
            self.look_again(host, sim);
        }
        let it = &mut self.hosts[host as usize];
        if !it.interface.processor_waits() {
            if let Some(step) = it.held.take() {
                self.go_on(host, step, sim);
            }
        }
    }

    /// A program that has left out its looks makes the next one.
    fn look_again(&mut self, host: u8, sim: &mut Simulator<ClanEvent>) {
        let Some(watch) = self.hosts[host as usize].watch.take() else {
            return;
        };
        if let Some(end) = watch.end {
            sim.cancel(end);
        }
        let look = watch.look_at(sim.now());
        let node = Node(u16::from(host));
        sim.at(look, Class::NORMAL, node, ClanEvent::Cpu(host));
    }

    /// Does what a host's tripwires say.
    pub fn fire(&mut self, host: u8, actions: Vec<Action>, sim: &mut Simulator<ClanEvent>) {
        let it = &mut self.hosts[host as usize];
        for action in actions {
            let wakes = match action {
                // The card rings as a peer of the live network would.
                Action::Enqueue { cookie } => doorbell::ring(&it.words, cookie as u32) % 2 == 1,
                Action::Wake => {
                    it.woken = true;
                    true
                }
                Action::Count => false,
            };
            if wakes && it.sleeping {
                it.sleeping = false;
                cpu_after(sim, host, self.wake);
            }
        }
    }

    fn keep_going(&mut self, host: u8, sim: &mut Simulator<ClanEvent>) {
        let node = Node(u16::from(host));
        let it = &mut self.hosts[host as usize];
        if let Some(time) = it.interface.poll_bus() {
            sim.after(time, Class::NORMAL, node, ClanEvent::Bus(host));
        }
        if let Some((packet, time)) = it.interface.poll_link() {
            sim.after(time, Class::NORMAL, node, ClanEvent::Link(host));
            if let Some(capture) = self.captures.get_mut(usize::from(host)) {
                capture.record(sim.now(), || exported(&packet.encode(host)));
            }
            let packet = self.take_off(Flight { packet, time });
            let switch = self.cluster.switch_of(host);
            let head = ClanEvent::Head { packet, switch };
            sim.after(self.card_latency, Class::NORMAL, node, head);
        }
    }

    fn take_off(&mut self, flight: Flight) -> u32 {
        match self.free.pop() {
            Some(packet) => {
                self.flights[packet as usize] = Some(flight);
                packet
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() as u32 - 1
            }
        }
    }

    fn head(&mut self, packet: u32, switch: u8, sim: &mut Simulator<ClanEvent>) {
        let Some(flight) = &self.flights[packet as usize] else {
            return;
        };
        let (to, time) = (flight.packet.to, flight.time);
        let (hop, leaves) = self.cluster.handle_head(sim.now(), switch, to, time);
        let (at, event) = match hop {
            Hop::Switch(switch) => (leaves, ClanEvent::Head { packet, switch }),
            Hop::Host(_) => {
                let whole = leaves + time + self.card_latency;
                (whole, ClanEvent::Arrived { packet })
            }
        };
        sim.at(at, Class::NORMAL, Node(u16::from(to)), event);
    }

    fn arrived(&mut self, packet: u32, sim: &mut Simulator<ClanEvent>) {
        if let Some(flight) = self.flights[packet as usize].take() {
            self.free.push(packet);
            let to = flight.packet.to;
            self.hosts[to as usize]
                .interface
                .handle_packet(flight.packet);
            self.keep_going(to, sim);
        }
    }
}

fn cpu_after(sim: &mut Simulator<ClanEvent>, host: u8, time: Duration) {
    sim.after(
        time,
        Class::NORMAL,
        Node(u16::from(host)),
        ClanEvent::Cpu(host),
    );
}

impl World for Cabinet {
    type Event = ClanEvent;

    fn handle(&mut self, event: ClanEvent, sim: &mut Simulator<ClanEvent>) {
        match event {
            ClanEvent::Cpu(host) => self.cpu(host, sim),
            ClanEvent::Bus(host) => self.bus(host, sim),
            ClanEvent::Link(host) => self.hosts[host as usize].interface.handle_link_free(),
            ClanEvent::Head { packet, switch } => self.head(packet, switch, sim),
            ClanEvent::Arrived { packet } => self.arrived(packet, sim),
        }
        if let ClanEvent::Cpu(host) | ClanEvent::Bus(host) | ClanEvent::Link(host) = event {
            self.keep_going(host, sim);
        }
    }
}
