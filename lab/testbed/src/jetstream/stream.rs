//! Two hosts with Afterburners back to back, as a world of events: netperf's stream.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Sender`, `Receiver` | that host | an operation of its processor is over |
//! | `Sent` | link | the last bit of a segment is in the other card |
//! | `Timer` | link | the deadline of either end has come |
//! | `Acknowledged` | link back | an acknowledgement is there |

use barewire_des::{Class, Event, EventId, Node, Simulator, World};
use barewire_models::afterburner::{
    Acknowledgement, Block, Receiver, Segment, Sender, SenderConfig, Stack, Window,
};
use barewire_units::{ByteSize, Duration, Instant, Rate};
use barewire_wire::capture::LinkType;

use super::parameters::Parameters;
use super::segment::Header;
use crate::experiment::LinkCapture;

const SENDER: Node = Node(0);
const RECEIVER: Node = Node(1);
const LINK: Node = Node(2);

/// What a stream is.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub stack: Stack,
    pub segment_bytes: u64,
    pub message_bytes: u64,
    /// Whether both ends know RFC 1323.
    pub scaled: bool,
    /// Both ends recover from loss: short segments take a block each and can fill the receiver's
    /// card before its window is full. The paper's runs lose nothing.
    pub recovers: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub lost: u64,
    pub sent_again: u64,
    pub timeouts: u64,
    /// From the first call to the last byte read.
    pub elapsed: Duration,
    /// Time of the processors.
    pub sender_busy: Duration,
    pub receiver_busy: Duration,
    pub hash: u64,
}

impl Outcome {
    /// MB/s, of 1e6 bytes.
    pub fn rate_mbytes_s(&self) -> f64 {
        self.read_bytes as f64 / (self.elapsed.as_ps() as f64 * 1e-12) / 1e6
    }
}

#[derive(Clone, Copy, Debug)]
enum StreamEvent {
    Sender,
    Receiver,
    Sent(Block, Segment),
    Acknowledged(Acknowledgement),
    Timer,
}

impl Event for StreamEvent {
    fn digest(&self) -> u64 {
        match self {
            Self::Sender => 0,
            Self::Receiver => 1,
            Self::Timer => 1 << 63,
            Self::Sent(block, segment) => 2 | u64::from(block.0) << 2 | segment.sequence << 18,
            Self::Acknowledged(it) => 3 | it.sequence << 2 ^ it.window_bytes << 40,
        }
    }
}

struct Hosts {
    sender: Sender,
    receiver: Receiver,
    link: Rate,
    headers: ByteSize,
    sending: bool,
    link_back_free: Instant,
    last_read: Instant,
    sender_busy: Duration,
    receiver_busy: Duration,
    timer: Option<(Instant, EventId)>,
    shift: u32,
    links: [LinkCapture; 2],
}

/// Runs a stream to its end.
pub fn run(parameters: &Parameters, stream: Stream) -> Outcome {
    record(parameters, stream, 0).0
}

/// The same, with the first packets on the ribbon in each direction: LLC/SNAP, IP and TCP with
/// data of zeros.
pub fn record(
    parameters: &Parameters,
    stream: Stream,
    packets_per_link: usize,
) -> (Outcome, Vec<LinkCapture>) {
    let (benchmark, tcp) = (&parameters.benchmark, &parameters.tcp);
    let buffer_bytes = benchmark.socket_buffer.as_bytes();
    let window = Window::new(buffer_bytes, stream.segment_bytes, stream.scaled);
    let config = SenderConfig {
        stack: stream.stack,
        blocks: parameters.card.blocks,
        segment_bytes: stream.segment_bytes,
        buffer_bytes,
        message_bytes: stream.message_bytes,
        until: Instant::ORIGIN + benchmark.duration,
        recovery: stream.recovers.then(|| parameters.recovery(Duration::ZERO)),
    };
    let costs = parameters.host;
    let receiver = |receiver: Receiver| match stream.recovers {
        true => receiver.with_delay(tcp.delayed_acknowledgement),
        false => receiver,
    };
    let blocks = parameters.card.blocks;
    let mut hosts = Hosts {
        sender: Sender::new(costs, config, window.initial_bytes()),
        receiver: receiver(Receiver::new(
            costs,
            stream.stack,
            blocks,
            window,
            stream.message_bytes,
        )),
        timer: None,
        link: parameters.card.link,
        headers: parameters.card.headers,
        sending: false,
        link_back_free: Instant::ORIGIN,
        last_read: Instant::ORIGIN,
        sender_busy: Duration::ZERO,
        receiver_busy: Duration::ZERO,
        shift: window.shift(),
        links: ["data", "acknowledgements"].map(|name| {
            let name = format!("ribbon, {name}");
            LinkCapture::new(name, LinkType::ATM_RFC1483, packets_per_link)
        }),
    };
    let mut sim = Simulator::new();
    hosts.go_on(&mut sim);
    sim.run(&mut hosts);
    let (sent_again, timeouts) = hosts.sender.repairs();
    let outcome = Outcome {
        written_bytes: hosts.sender.written_bytes(),
        read_bytes: hosts.receiver.read_bytes(),
        lost: hosts.receiver.lost(),
        sent_again,
        timeouts,
        elapsed: hosts.last_read.since_origin(),
        sender_busy: hosts.sender_busy,
        receiver_busy: hosts.receiver_busy,
        hash: sim.trace_hash(),
    };
    let recorded = packets_per_link > 0;
    let links = recorded.then_some(hosts.links.into());
    (outcome, links.unwrap_or_default())
}

impl World for Hosts {
    type Event = StreamEvent;

    fn handle(&mut self, event: StreamEvent, sim: &mut Simulator<StreamEvent>) {
        match event {
            StreamEvent::Sender => self.sender.finish(sim.now()),
            StreamEvent::Receiver => {
                let before = self.receiver.read_bytes();
                self.receiver.finish(sim.now());
                if self.receiver.read_bytes() > before {
                    self.last_read = sim.now();
                }
            }
            StreamEvent::Sent(headers, segment) => {
                self.sending = false;
                self.sender.handle_sent(headers);
                self.receiver.handle_segment(segment);
            }
            StreamEvent::Timer => {
                self.timer = None;
                self.sender.handle_timer(sim.now());
                self.receiver.handle_timer(sim.now());
            }
            StreamEvent::Acknowledged(it) => self.sender.handle_acknowledgement(it),
        }
        self.go_on(sim);
    }
}

impl Hosts {
    /// Lets begin whatever can.
    fn go_on(&mut self, sim: &mut Simulator<StreamEvent>) {
        if let Some(time) = self.sender.start(sim.now()) {
            self.sender_busy += time;
            sim.after(time, Class::NORMAL, SENDER, StreamEvent::Sender);
        }
        if let Some(time) = self.receiver.start() {
            self.receiver_busy += time;
            sim.after(time, Class::NORMAL, RECEIVER, StreamEvent::Receiver);
        }
        if !self.sending {
            if let Some((headers, segment)) = self.sender.poll() {
                self.sending = true;
                let bytes = self.headers.as_bytes() + segment.bytes;
                let time = self.link.time_to_send(ByteSize::from_bytes(bytes));
                let header = Header {
                    sequence: segment.sequence,
                    data_bytes: segment.bytes as usize,
                    ..self.header(true, sim.now())
                };
                self.links[0].record(sim.now(), || header.to_packet());
                let sent = StreamEvent::Sent(headers, segment);
                sim.after(time, Class::NORMAL, LINK, sent);
            }
        }
        while let Some(acknowledgement) = self.receiver.poll() {
            let begins = self.link_back_free.max(sim.now());
            let header = Header {
                acknowledged: acknowledgement.sequence,
                window: (acknowledgement.window_bytes >> self.shift) as u16,
                ..self.header(false, begins)
            };
            self.links[1].record(begins, || header.to_packet());
            self.link_back_free = begins + self.link.time_to_send(self.headers);
            let event = StreamEvent::Acknowledged(acknowledgement);
            sim.at(self.link_back_free, Class::NORMAL, LINK, event);
        }
        self.wind(sim);
    }

    /// Keeps the timer of both ends at its deadline.
    fn wind(&mut self, sim: &mut Simulator<StreamEvent>) {
        let deadlines = [self.sender.next_deadline(), self.receiver.next_deadline()];
        let deadline = deadlines.into_iter().flatten().min();
        if deadline == self.timer.map(|(at, _)| at) {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            sim.cancel(timer);
        }
        self.timer = deadline.map(|at| {
            let timer = sim.timer(at, Class::NORMAL, LINK, StreamEvent::Timer);
            (at, timer)
        });
    }

    fn header(&self, from_sender: bool, now: Instant) -> Header {
        let (from, to) = if from_sender { (0, 1) } else { (1, 0) };
        Header {
            from,
            to,
            stream: 0,
            from_sender,
            sequence: 0,
            acknowledged: 0,
            window: 0,
            data_bytes: 0,
            now,
        }
    }
}
