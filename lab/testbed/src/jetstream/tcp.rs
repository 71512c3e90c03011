//! Hosts with Afterburner stacks on a network: streams, each from one host to another.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Net` | as in the network | |
//! | `Done` | host | an operation of its processor is over |
//! | `Freed` | end | a segment has left the card, and the block of its headers is free |
//! | `Timer` | end | the deadline of an end of a stream has come |
//!
//! The ends of streams on one host take turns for its processor, operation by operation, and
//! share the receive blocks of its card. Each sending end has its share of the transmit blocks.

use barewire_classic::token::Class;
use barewire_des::{Class as Order, Event, EventId, Node, Simulator, World};
use barewire_models::afterburner::{
    Acknowledgement, Block, Receiver, Segment, Sender, SenderConfig, Stack, Window,
};
use barewire_units::{Duration, Instant, Rng};

use super::net::{Fate, Happening, NetEvent, Network, Spread, Why};
use super::parameters::Parameters;
use super::segment::{HEADER_BYTES, Header};
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// Streams on a network.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    pub hosts: usize,
    /// From and to.
    pub streams: Vec<(usize, usize)>,
    pub stack: Stack,
    pub segment_bytes: u64,
    pub message_bytes: u64,
    pub socket_buffer_bytes: u64,
    /// Programs send for so long.
    pub run_for: Duration,
    /// Time after it for what is on its way.
    pub drain_for: Duration,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    pub written_bytes: u64,
    /// While the programs sent, and in all.
    pub read_in_time_bytes: u64,
    pub read_bytes: u64,
    pub sent_again: u64,
    pub timeouts: u64,
}

/// What became of all of them.
pub struct TcpRecord {
    pub streams: Vec<StreamRecord>,
    pub ran: Duration,
    /// Segments for which the receiving card had no block.
    pub no_block: u64,
    /// From the card's ready queue to the first bit, of segments and of acknowledgements.
    pub access: [Spread; 2],
    /// How busy each processor was, of the time that the programs sent.
    pub busy: Vec<f64>,
    pub network: Network,
    pub links: Vec<LinkCapture>,
    pub hash: u64,
}

impl TcpRecord {
    /// What all programs read, MB/s of 1e6 bytes.
    pub fn mbytes_s(&self) -> f64 {
        self.streams.iter().map(|it| self.rate(it)).sum()
    }

    /// The slowest stream, MB/s.
    pub fn slowest_mbytes_s(&self) -> Option<f64> {
        self.streams
            .iter()
            .map(|it| self.rate(it))
            .min_by(f64::total_cmp)
    }

    fn rate(&self, stream: &StreamRecord) -> f64 {
        let seconds = self.ran.as_ps() as f64 * 1e-12;
        stream.read_in_time_bytes as f64 / seconds / 1e6
    }
}

#[derive(Clone, Copy, Debug)]
enum TcpEvent {
    Net(NetEvent),
    Done(usize),
    Freed(usize, Block),
    Timer(usize),
    Over,
}

impl From<NetEvent> for TcpEvent {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

impl Event for TcpEvent {
    fn digest(&self) -> u64 {
        match self {
            Self::Net(event) => event.digest(),
            Self::Done(host) => 1 << 40 | *host as u64,
            Self::Freed(end, block) => 2 << 40 | (*end as u64) << 16 | u64::from(block.0),
            Self::Timer(end) => 3 << 40 | *end as u64,
            Self::Over => 4 << 40,
        }
    }
}

enum Role {
    Sends(Box<Sender>),
    Receives(Box<Receiver>),
}

/// An end of a stream. Ends 2n and 2n + 1 are those of stream n, the sender first.
struct End {
    host: usize,
    peer: usize,
    role: Role,
    timer: Option<(Instant, EventId)>,
}

#[derive(Default)]
struct Host {
    ends: Vec<usize>,
    /// Whose turn it is, and whose operation is under way.
    turn: usize,
    running: Option<usize>,
    free_blocks: usize,
    busy: Duration,
}

/// What a message is.
#[derive(Clone, Copy)]
enum Carried {
    Segment(usize, Block, Segment),
    Acknowledgement(usize, Acknowledgement),
}

struct Hosts {
    network: Network,
    ends: Vec<End>,
    hosts: Vec<Host>,
    carried: Vec<(Carried, Instant)>,
    shift: u32,
    no_block: u64,
    access: [Spread; 2],
    ends_at: Instant,
    read_in_time: Vec<u64>,
    busy_in_time: Vec<Duration>,
}

impl AsMut<Network> for Hosts {
    fn as_mut(&mut self) -> &mut Network {
        &mut self.network
    }
}

/// Runs streams on a network.
///
/// # Errors
/// The network does not come up.
pub fn run(
    parameters: &Parameters,
    network: Network,
    plan: &TcpPlan,
    rng: &Rng,
) -> Result<TcpRecord, SystemError> {
    let mut hosts = Hosts {
        network,
        ends: Vec::new(),
        hosts: (0..plan.hosts).map(|_| Host::default()).collect(),
        carried: Vec::new(),
        shift: 0,
        no_block: 0,
        access: Default::default(),
        ends_at: Instant::MAX,
        read_in_time: Vec::new(),
        busy_in_time: Vec::new(),
    };
    let mut sim = Simulator::new();
    let up = Network::start(&mut hosts, &mut sim)?;
    hosts.ends_at = up + plan.run_for;
    hosts.open(parameters, plan, rng.fork("ticks"));
    for host in 0..plan.hosts {
        hosts.go_on(host, &mut sim);
    }
    sim.at(hosts.ends_at, Order::LAST, Node(0), TcpEvent::Over);
    sim.run_until(hosts.ends_at + plan.drain_for, &mut hosts);
    Ok(hosts.record(plan, sim.trace_hash()))
}

impl World for Hosts {
    type Event = TcpEvent;

    fn handle(&mut self, event: TcpEvent, sim: &mut Simulator<TcpEvent>) {
        match event {
            TcpEvent::Net(event) => self.network.handle(event, sim),
            TcpEvent::Done(host) => self.done(host, sim),
            TcpEvent::Freed(end, block) => {
                self.freed(end, block);
                self.go_on(self.ends[end].host, sim);
            }
            TcpEvent::Timer(end) => {
                self.ends[end].timer = None;
                match &mut self.ends[end].role {
                    Role::Sends(sender) => sender.handle_timer(sim.now()),
                    Role::Receives(receiver) => receiver.handle_timer(sim.now()),
                }
                self.go_on(self.ends[end].host, sim);
            }
            TcpEvent::Over => self.over(),
        }
        self.listen(sim);
        let over = sim.now() >= self.ends_at && !matches!(event, TcpEvent::Net(_));
        if over && self.is_over() {
            sim.stop();
        }
    }
}

impl Hosts {
    fn open(&mut self, parameters: &Parameters, plan: &TcpPlan, mut rng: Rng) {
        let costs = parameters.host;
        let blocks = parameters.card.blocks;
        let tcp = &parameters.tcp;
        for host in &mut self.hosts {
            host.free_blocks = blocks.into();
        }
        for (from, to) in &plan.streams {
            let senders = plan.streams.iter().filter(|(other, _)| other == from);
            let share = blocks / senders.count().max(1) as u16;
            let window = Window::new(plan.socket_buffer_bytes, plan.segment_bytes, true);
            self.shift = window.shift();
            let phase = Duration::from_ps(rng.below(tcp.tick.as_ps().max(1)));
            let config = SenderConfig {
                stack: plan.stack,
                // A block for data and one for its headers, at the least.
                blocks: share.max(2),
                segment_bytes: plan.segment_bytes,
                buffer_bytes: plan.socket_buffer_bytes,
                message_bytes: plan.message_bytes,
                until: self.ends_at,
                recovery: Some(parameters.recovery(phase)),
            };
            let sender = Sender::new(costs, config, window.initial_bytes());
            let receiver = Receiver::new(costs, plan.stack, blocks, window, plan.message_bytes);
            let receiver = receiver.with_delay(tcp.delayed_acknowledgement);
            self.add(*from, Role::Sends(Box::new(sender)));
            self.add(*to, Role::Receives(Box::new(receiver)));
        }
    }

    fn add(&mut self, host: usize, role: Role) {
        let index = self.ends.len();
        self.hosts[host].ends.push(index);
        self.ends.push(End {
            host,
            peer: index ^ 1,
            role,
            timer: None,
        });
    }

    /// The operation of a host's processor is over.
    fn done(&mut self, host: usize, sim: &mut Simulator<TcpEvent>) {
        let Some(end) = self.hosts[host].running.take() else {
            return;
        };
        match &mut self.ends[end].role {
            Role::Sends(sender) => sender.finish(sim.now()),
            Role::Receives(receiver) => {
                let before = receiver.free_blocks();
                receiver.finish(sim.now());
                let freed = receiver.free_blocks().saturating_sub(before);
                self.hosts[host].free_blocks += freed;
            }
        }
        self.go_on(host, sim);
    }

    /// Lets a host begin whatever it can.
    fn go_on(&mut self, host: usize, sim: &mut Simulator<TcpEvent>) {
        self.run_processor(host, sim);
        for place in 0..self.hosts[host].ends.len() {
            let end = self.hosts[host].ends[place];
            self.transmit(end, sim);
            self.wind(end, sim);
        }
    }

    fn run_processor(&mut self, host: usize, sim: &mut Simulator<TcpEvent>) {
        if self.hosts[host].running.is_some() {
            return;
        }
        let ends = self.hosts[host].ends.len();
        for step in 0..ends {
            let place = (self.hosts[host].turn + step) % ends;
            let end = self.hosts[host].ends[place];
            let time = match &mut self.ends[end].role {
                Role::Sends(sender) => sender.start(sim.now()),
                Role::Receives(receiver) => receiver.start(),
            };
            let Some(time) = time else {
                continue;
            };
            let it = &mut self.hosts[host];
            it.turn = place + 1;
            it.running = Some(end);
            it.busy += time;
            let node = Node(host as u16);
            return sim.after(time, Order::NORMAL, node, TcpEvent::Done(host));
        }
    }

    fn transmit(&mut self, end: usize, sim: &mut Simulator<TcpEvent>) {
        let (from, to) = (self.ends[end].host, self.ends[self.ends[end].peer].host);
        loop {
            let carried = match &mut self.ends[end].role {
                Role::Sends(sender) => sender
                    .poll()
                    .map(|(block, segment)| Carried::Segment(end, block, segment)),
                Role::Receives(receiver) => {
                    receiver.poll().map(|it| Carried::Acknowledgement(end, it))
                }
            };
            let Some(carried) = carried else {
                return;
            };
            let header = self.header(end, carried, sim.now());
            let bytes = HEADER_BYTES + header.data_bytes;
            self.carried.push((carried, sim.now()));
            let head = || header.to_bytes();
            let class = Class::Asynchronous;
            let message = self.network.send(sim, from, to, class, bytes, head);
            let refused = Fate::Lost(Why::Refused);
            if self.network.traffic.messages[message].fate == refused {
                if let Carried::Segment(end, block, _) = carried {
                    self.freed(end, block);
                }
            }
        }
    }

    fn header(&self, end: usize, carried: Carried, now: Instant) -> Header {
        let it = &self.ends[end];
        let common = Header {
            from: it.host,
            to: self.ends[it.peer].host,
            stream: end / 2,
            from_sender: end % 2 == 0,
            sequence: 0,
            acknowledged: 0,
            window: 0,
            data_bytes: 0,
            now,
        };
        match carried {
            Carried::Segment(_, _, segment) => Header {
                sequence: segment.sequence,
                data_bytes: segment.bytes as usize,
                ..common
            },
            Carried::Acknowledgement(_, it) => Header {
                acknowledged: it.sequence,
                window: (it.window_bytes >> self.shift) as u16,
                ..common
            },
        }
    }

    fn freed(&mut self, end: usize, block: Block) {
        if let Role::Sends(sender) = &mut self.ends[end].role {
            sender.handle_sent(block);
        }
    }

    fn wind(&mut self, end: usize, sim: &mut Simulator<TcpEvent>) {
        let it = &mut self.ends[end];
        let deadline = match &it.role {
            Role::Sends(sender) => sender.next_deadline(),
            Role::Receives(receiver) => receiver.next_deadline(),
        };
        if deadline == it.timer.map(|(at, _)| at) {
            return;
        }
        if let Some((_, timer)) = it.timer.take() {
            sim.cancel(timer);
        }
        let (node, event) = (Node(end as u16), TcpEvent::Timer(end));
        it.timer = deadline.map(|at| (at, sim.timer(at, Order::NORMAL, node, event)));
    }

    /// What the network tells the hosts.
    fn listen(&mut self, sim: &mut Simulator<TcpEvent>) {
        while let Some(happening) = self.network.traffic.happenings.pop_front() {
            match happening {
                Happening::Sent {
                    message,
                    began,
                    ends,
                } => self.sent(message, began, ends, sim),
                Happening::Received(message) => self.received(message, sim),
            }
        }
    }

    fn sent(
        &mut self,
        message: usize,
        began: Instant,
        ends: Instant,
        sim: &mut Simulator<TcpEvent>,
    ) {
        let (carried, queued) = self.carried[message];
        let wait = began.saturating_duration_since(queued);
        match carried {
            Carried::Segment(end, block, _) => {
                self.access[0].add(wait);
                let event = TcpEvent::Freed(end, block);
                sim.at(ends, Order::NORMAL, Node(end as u16), event);
            }
            Carried::Acknowledgement(..) => self.access[1].add(wait),
        }
    }

    fn received(&mut self, message: usize, sim: &mut Simulator<TcpEvent>) {
        let from = match self.carried[message].0 {
            Carried::Segment(end, ..) | Carried::Acknowledgement(end, _) => end,
        };
        let end = self.ends[from].peer;
        let host = self.ends[end].host;
        match (self.carried[message].0, &mut self.ends[end].role) {
            (Carried::Segment(_, _, segment), Role::Receives(receiver)) => {
                let blocks = &mut self.hosts[host].free_blocks;
                if *blocks == 0 {
                    self.no_block += 1;
                    return;
                }
                *blocks -= 1;
                receiver.handle_segment(segment);
            }
            (Carried::Acknowledgement(_, it), Role::Sends(sender)) => {
                sender.handle_acknowledgement(it);
            }
            _ => {}
        }
        self.go_on(host, sim);
    }

    fn is_over(&self) -> bool {
        self.ends.chunks(2).all(|ends| match ends {
            [sends, receives] => match (&sends.role, &receives.role) {
                (Role::Sends(sender), Role::Receives(receiver)) => {
                    sender.is_over() && sender.written_bytes() == receiver.read_bytes()
                }
                _ => true,
            },
            _ => true,
        })
    }

    /// The programs' time is over.
    fn over(&mut self) {
        self.read_in_time = self.ends.iter().filter_map(End::read_bytes).collect();
        self.busy_in_time = self.hosts.iter().map(|host| host.busy).collect();
    }

    fn record(mut self, plan: &TcpPlan, hash: u64) -> TcpRecord {
        let stream = |index: usize| {
            let mut record = StreamRecord {
                written_bytes: 0,
                read_in_time_bytes: self.read_in_time[index],
                read_bytes: self.ends[2 * index + 1].read_bytes().unwrap_or_default(),
                sent_again: 0,
                timeouts: 0,
            };
            if let Role::Sends(sender) = &self.ends[2 * index].role {
                record.written_bytes = sender.written_bytes();
                (record.sent_again, record.timeouts) = sender.repairs();
            }
            record
        };
        let ran = plan.run_for.as_ps() as f64;
        let busy = |time: &Duration| time.as_ps() as f64 * 100.0 / ran;
        TcpRecord {
            streams: (0..plan.streams.len()).map(stream).collect(),
            ran: plan.run_for,
            no_block: self.no_block,
            access: std::mem::take(&mut self.access),
            busy: self.busy_in_time.iter().map(busy).collect(),
            links: self.network.take_links(),
            network: self.network,
            hash,
        }
    }
}

impl End {
    /// What its program has read, if it reads.
    fn read_bytes(&self) -> Option<u64> {
        match &self.role {
            Role::Sends(_) => None,
            Role::Receives(receiver) => Some(receiver.read_bytes()),
        }
    }
}
