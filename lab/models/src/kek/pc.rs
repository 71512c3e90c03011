//! A PC: processor, kernel, programs, and the card.
//!
//! The processor does one operation at a time and takes the first of these that there is:
//!
//! | operation | what it does when it is over |
//! |---|---|
//! | interrupt | sent frames free their descriptors, received ones go to the bottom half, and the card gets new buffers |
//! | tick | time-outs, delayed acknowledgements; a throttled queue looks at its buckets if its time has come |
//! | packet | one received segment through IP and TCP; a throttled queue looks at its buckets |
//! | acknowledge | one acknowledgement to the card |
//! | segment | one segment to the card, or to the queueing discipline, which then looks at its buckets |
//! | dequeue | the discipline gives one packet to the card, or none |
//! | program | one segment copied between program and socket |
//! | read, write | the same with a packet of a program outside the model: those that have come first |
//!
//! So a throttled queue sleeps until a tick, unless traffic of this host wakes it: the 2.2
//! kernel runs its queues on each transmission and in each bottom half.
//! The kernel's ticks are multiples of the period of *its* clock, which is off the
//! others' by the PC's phase.

use std::collections::{BTreeMap, VecDeque};

use barewire_proto::shaping::{Qdisc, Tree};
use barewire_units::{Duration, Instant};

use crate::host::Processor;

use super::costs::Costs;
use super::{Body, Frame, Pci, PciConfig};
use crate::tcp::{Receiver, Sender};

mod card;
mod happening;
mod packets;
mod socket;

use card::Card;
pub use card::{Nic, NicConfig};
pub use happening::Happening;
use packets::Packets;
use socket::Socket;

/// What a PC is made of.
#[derive(Clone, Copy, Debug)]
pub struct PcConfig {
    /// The number of the host, and of its port.
    pub number: u8,
    /// Its processor.
    pub costs: Costs,
    /// Its bus, and the bytes of a data phase there: 4 or 8.
    pub pci: PciConfig,
    /// See `pci`.
    pub pci_bytes: u64,
    /// Its card.
    pub nic: NicConfig,
    /// How far its clock is ahead.
    pub phase: Duration,
    /// Bytes that a program writes or reads in one call.
    pub message_bytes: u64,
    /// Bytes of a whole segment.
    pub segment_bytes: u64,
    /// Bytes of packets from outside that wait for their program.
    pub packet_buffer_bytes: u64,
}

/// What a PC has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcStats {
    /// Time of the processor for all operations.
    pub busy: Duration,
    /// Time of it in the queueing discipline.
    pub shaping: Duration,
    /// Interrupts.
    pub interrupts: u64,
    /// Looks at the discipline.
    pub looks: u64,
    /// Of them, those that gave nothing.
    pub refused: u64,
    /// Packets that the discipline did not take.
    pub dropped: u64,
    /// Received frames for which the card had no memory.
    pub overruns: u64,
}

/// What the processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Interrupt,
    Tick,
    Packet,
    Acknowledge,
    Segment(Frame),
    Dequeue,
    /// Bytes of one socket's program.
    Program(usize, u64),
    /// A packet from outside, read by its program, or written.
    Read,
    Write,
}

/// A PC.
pub struct Pc {
    config: PcConfig,
    processor: Processor,
    operation: Option<Operation>,
    interrupt_pending: bool,
    tick_pending: bool,
    bottom_half: VecDeque<Frame>,
    acknowledgements: VecDeque<Frame>,
    tree: Option<Tree>,
    in_tree: BTreeMap<u64, Frame>,
    next_id: u64,
    look: bool,
    sockets: Vec<Socket>,
    /// The socket whose program runs, or ran last.
    current: usize,
    /// Where the search for a segment to send begins.
    turn: usize,
    card: Card,
    packets: Packets,
    outbox: VecDeque<(Instant, Happening)>,
    stats: PcStats,
}

impl Pc {
    /// An idle PC; with `tree`, frames to send go through it.
    #[must_use]
    pub fn new(config: PcConfig, tree: Option<Tree>) -> Self {
        Self {
            config,
            processor: Processor::new(),
            operation: None,
            interrupt_pending: false,
            tick_pending: false,
            bottom_half: VecDeque::new(),
            acknowledgements: VecDeque::new(),
            tree,
            in_tree: BTreeMap::new(),
            next_id: 0,
            look: false,
            sockets: Vec::new(),
            current: usize::MAX,
            turn: 0,
            card: Card::new(config.nic, Pci::new(config.pci, config.pci_bytes)),
            packets: Packets::default(),
            outbox: VecDeque::new(),
            stats: PcStats::default(),
        }
    }

    /// Whether a packet from outside can be given to [`Pc::offer_packet`].
    #[must_use]
    pub fn takes_packet(&self) -> bool {
        self.packets.takes()
    }

    /// A program outside the model sends a packet, which is a [`Body::Packet`]. The queueing discipline sees its
    /// `headers`, from the IP header on. Then [`Pc::start`].
    pub fn offer_packet(&mut self, frame: Frame, headers: Vec<u8>) {
        self.packets.offer(frame, headers);
    }

    /// The next packet that a program outside the model has received.
    pub fn take_packet(&mut self) -> Option<Frame> {
        self.packets.take_read()
    }

    /// The next packet from outside that was lost here: the discipline, the card or the socket had no room.
    pub fn take_lost_packet(&mut self) -> Option<Frame> {
        self.packets.take_lost()
    }

    /// Whether the processor works.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.operation.is_some()
    }

    /// A program that writes to connection `flow` without end.
    pub fn add_sender(&mut self, flow: u8, to: u8, sender: Sender) {
        let message = self.config.message_bytes;
        self.sockets
            .push(Socket::sending(flow, to, message, sender));
    }

    /// A program that reads from connection `flow` without end.
    pub fn add_receiver(&mut self, flow: u8, to: u8, receiver: Receiver) {
        let message = self.config.message_bytes;
        self.sockets
            .push(Socket::receiving(flow, to, message, receiver));
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> PcStats {
        PcStats {
            busy: self.processor.busy_time(),
            overruns: self.card.overruns(),
            ..self.stats
        }
    }

    /// The sender of connection `flow`, if it is here.
    #[must_use]
    pub fn sender(&self, flow: u8) -> Option<&Sender> {
        self.socket(flow).and_then(Socket::sender)
    }

    /// The receiver of connection `flow`, if it is here.
    #[must_use]
    pub fn receiver(&self, flow: u8) -> Option<&Receiver> {
        self.socket(flow).and_then(Socket::receiver)
    }

    fn socket(&self, flow: u8) -> Option<&Socket> {
        self.sockets.iter().find(|socket| socket.flow == flow)
    }

    /// What this PC waits for: to be given back at that time.
    pub fn poll(&mut self) -> Option<(Instant, Happening)> {
        self.outbox.pop_front()
    }

    /// The programs begin, or may go on.
    pub fn start(&mut self, now: Instant) {
        self.dispatch(now);
    }

    /// A whole frame has come in from the wire.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame) {
        if !self.card.receive(now, frame, &mut self.outbox) {
            self.packets.lose(frame);
        }
    }

    /// Something happened; the frame that has left the PC, if one has.
    pub fn handle(&mut self, now: Instant, what: Happening) -> Option<Frame> {
        let mut left = None;
        match what {
            Happening::Processor => self.finish(now),
            Happening::Tick => self.tick_pending = true,
            Happening::Interrupt => self.interrupt_pending = true,
            what => left = self.card.handle(now, what, &mut self.outbox),
        }
        self.dispatch(now);
        left
    }

    /// Begins the next operation if the processor is idle.
    fn dispatch(&mut self, now: Instant) {
        if self.operation.is_some() {
            return;
        }
        let Some((operation, cost)) = self.choose(now) else {
            return;
        };
        self.operation = Some(operation);
        let done = self.processor.begin(now, cost);
        self.outbox.push_back((done, Happening::Processor));
    }

    fn choose(&mut self, now: Instant) -> Option<(Operation, Duration)> {
        let costs = self.config.costs;
        let kernel = costs.kernel;
        if self.interrupt_pending {
            return Some((Operation::Interrupt, costs.interrupt()));
        }
        if self.tick_pending {
            return Some((Operation::Tick, costs.time(kernel.tick)));
        }
        if let Some(frame) = self.bottom_half.front() {
            let cost = match frame.body {
                Body::Data { .. } => costs.time(kernel.receive),
                Body::Ack { .. } => costs.time(kernel.receive_ack),
                Body::Packet { is_ack: true, .. } => costs.time(kernel.receive_ack),
                Body::Packet { .. } => costs.time(kernel.receive),
            };
            return Some((Operation::Packet, cost));
        }
        if self.card.has_room() && !self.acknowledgements.is_empty() {
            return Some((Operation::Acknowledge, costs.time(kernel.send_ack)));
        }
        if self.look && self.card.has_room() {
            let cost = costs.time(kernel.shaping_dequeue);
            self.stats.shaping += cost;
            return Some((Operation::Dequeue, cost));
        }
        if let Some(frame) = self.next_segment(now) {
            let queueing = match self.tree {
                Some(_) => costs.time(kernel.shaping_enqueue),
                None => Duration::ZERO,
            };
            self.stats.shaping += queueing;
            let send = match frame.body {
                Body::Packet { is_ack: true, .. } => costs.time(kernel.send_ack),
                _ => costs.time(kernel.send),
            };
            return Some((Operation::Segment(frame), send + queueing));
        }
        self.next_packet().or_else(|| self.next_program())
    }

    /// The next packet that a program outside the model reads or writes.
    fn next_packet(&mut self) -> Option<(Operation, Duration)> {
        let costs = &self.config.costs;
        let call = costs.time(costs.kernel.call);
        if let Some(bytes) = self.packets.to_read_bytes() {
            let switch = match self.packets.wake() {
                true => costs.time(costs.kernel.switch),
                false => Duration::ZERO,
            };
            return Some((Operation::Read, call + switch + costs.copy(bytes)));
        }
        let bytes = self.packets.to_write_bytes()?;
        Some((Operation::Write, call + costs.copy(bytes)))
    }

    /// The next segment of any connection, each in turn.
    fn next_segment(&mut self, now: Instant) -> Option<Frame> {
        if self.tree.is_none() && !self.card.has_room() {
            return None;
        }
        if let Some(frame) = self.packets.to_send() {
            return Some(frame);
        }
        let count = self.sockets.len();
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let from = self.config.number;
            if let Some(frame) = self.sockets[index].next_segment(now, from) {
                self.turn = index + 1;
                return Some(frame);
            }
        }
        None
    }

    /// The next piece of work of a program: the one that ran last goes on while it can, to
    /// the end of its message.
    fn next_program(&mut self) -> Option<(Operation, Duration)> {
        let segment = self.config.segment_bytes;
        let count = self.sockets.len();
        let last = self.current;
        let stays = self.sockets.get(last).is_some_and(Socket::in_message);
        let first = if stays { last } else { last.wrapping_add(1) };
        let order = (0..count).map(|offset| first.wrapping_add(offset) % count);
        let (index, bytes) = order
            .map(|index| (index, self.sockets[index].work(segment)))
            .find(|&(_, bytes)| bytes > 0)?;
        let costs = &self.config.costs;
        let socket = &mut self.sockets[index];
        let mut cost = costs.copy(bytes);
        if !socket.in_message() {
            cost += costs.time(costs.kernel.call);
        }
        if socket.wake() || index != last {
            cost += costs.time(costs.kernel.switch);
        }
        self.current = index;
        Some((Operation::Program(index, bytes), cost))
    }

    /// The operation is over: what it does.
    fn finish(&mut self, now: Instant) {
        match self.operation.take() {
            Some(Operation::Interrupt) => {
                self.stats.interrupts += 1;
                self.interrupt_pending = false;
                self.card.reap(now, &mut self.bottom_half, &mut self.outbox);
            }
            Some(Operation::Tick) => self.finish_tick(now),
            Some(Operation::Packet) => self.finish_packet(now),
            Some(Operation::Acknowledge) => {
                if let Some(frame) = self.acknowledgements.pop_front() {
                    self.card.post(now, frame, &mut self.outbox);
                }
            }
            Some(Operation::Segment(frame)) => self.finish_segment(now, frame),
            Some(Operation::Dequeue) => self.finish_dequeue(now),
            Some(Operation::Program(index, bytes)) => self.finish_program(index, bytes),
            Some(Operation::Read) => self.packets.finish_read(),
            Some(Operation::Write) => self.packets.written(),
            None => {}
        }
    }

    fn finish_tick(&mut self, now: Instant) {
        self.tick_pending = false;
        for socket in &mut self.sockets {
            let frame = socket.handle_tick(now, self.config.number);
            self.acknowledgements.extend(frame);
        }
        let due = self.tree.as_ref().and_then(Qdisc::next_deadline);
        self.look |= due.is_some_and(|due| due <= now.saturating_add(self.config.phase));
    }

    fn finish_packet(&mut self, now: Instant) {
        let Some(frame) = self.bottom_half.pop_front() else {
            return;
        };
        let buffer_bytes = self.config.packet_buffer_bytes;
        self.packets.received(frame, buffer_bytes);
        let mut sockets = self.sockets.iter_mut();
        if let Some(socket) = sockets.find(|socket| socket.flow == frame.flow) {
            let answer = socket.handle_frame(now, frame, self.config.number);
            self.acknowledgements.extend(answer);
        }
        self.wake_tree();
    }

    fn finish_segment(&mut self, now: Instant, frame: Frame) {
        let local = now.saturating_add(self.config.phase);
        let headers = match frame.body {
            Body::Packet { .. } => Some(self.packets.sent()),
            _ => None,
        };
        let Some(tree) = &mut self.tree else {
            self.card.post(now, frame, &mut self.outbox);
            return;
        };
        let id = self.next_id;
        self.next_id += 1;
        let mut packet = frame.packet(id);
        packet.bytes = headers.unwrap_or(packet.bytes);
        match tree.enqueue(local, packet) {
            Ok(()) => {
                self.in_tree.insert(id, frame);
            }
            Err(_) => {
                self.stats.dropped += 1;
                self.packets.lose(frame);
            }
        }
        self.wake_tree();
    }

    /// Traffic: a throttled queue looks again.
    fn wake_tree(&mut self) {
        let Some(tree) = &mut self.tree else {
            return;
        };
        if self.config.costs.kernel.woken_by_traffic {
            tree.wake();
        }
        self.look |= !self.in_tree.is_empty();
    }

    fn finish_dequeue(&mut self, now: Instant) {
        let local = now.saturating_add(self.config.phase);
        let packet = self.tree.as_mut().and_then(|tree| tree.dequeue(local));
        let frame = packet.and_then(|packet| self.in_tree.remove(&packet.id));
        self.stats.looks += 1;
        match frame {
            Some(frame) => {
                self.look = !self.in_tree.is_empty();
                self.card.post(now, frame, &mut self.outbox);
            }
            None => {
                self.stats.refused += 1;
                self.look = false;
            }
        }
    }

    fn finish_program(&mut self, index: usize, bytes: u64) {
        let number = self.config.number;
        let update = self.sockets[index].finish_work(bytes, number);
        self.acknowledgements.extend(update);
    }
}
