//! PCs and a switch, or two PCs and a link, driven by the event kernel.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Start` | PC | its programs begin |
//! | `Pc` | PC | an operation, a tick, a step of the card |
//! | `Arrive` | PC | a whole frame has come in |
//! | `Enter` | switch | a whole frame has come in |
//! | `Cross` | switch | a frame has crossed the backplane |
//! | `Leave` | switch | a frame has left on the link of a port |

use std::collections::{BTreeMap, VecDeque};

use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_models::kek::{Body, Frame, Happening, Passing, Pc, PcConfig, PcStats, Switch};
use barewire_models::tcp::{Receiver, Sender, SenderStats};
use barewire_proto::shaping::{Timer, Tree};
use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use barewire_wire::capture::LinkType;
use core::num::NonZeroU32;

use super::ethernet::{self, Ends};
use super::parameters::Parameters;
use super::plan::Plan;
use crate::emulation::Losses;
use crate::error::SystemError;
use crate::experiment::LinkCapture;

const SWITCH: Node = Node(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KekEvent {
    Start(u8),
    Pc(u8, Happening),
    Arrive(Frame),
    Enter(Frame),
    Cross,
    Leave(u8),
}

impl Event for KekEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Start(pc) => u64::from(pc),
            Self::Pc(pc, what) => 1 << 8 | (what as u64) << 16 | u64::from(pc),
            Self::Arrive(frame) => 2 << 8 | digest(&frame) << 16,
            Self::Enter(frame) => 3 << 8 | digest(&frame) << 16,
            Self::Cross => 4 << 8,
            Self::Leave(port) => 5 << 8 | u64::from(port),
        }
    }
}

fn digest(frame: &Frame) -> u64 {
    let number = match frame.body {
        Body::Data { seq, .. } => seq << 1,
        Body::Ack { ack, .. } => ack << 1 | 1,
        Body::Packet { id, .. } => id,
    };
    number << 4 | u64::from(frame.flow)
}

/// What a run has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Mbit/s that the program of each stream has read.
    pub mbps: Vec<f64>,
    /// What each PC has counted while it was measured, processor time among it.
    pub pcs: Vec<PcStats>,
    /// What each stream's sender has counted.
    pub senders: Vec<SenderStats>,
    /// Frames that the switch has lost.
    pub switch_lost: u64,
    /// The most that an output of the switch has held.
    pub switch_highest_bytes: u64,
    /// Time of the measurement.
    pub time: Duration,
    /// The hash of all events.
    pub hash: u64,
    /// What each PC has sent and received, if it was asked for.
    pub links: Vec<LinkCapture>,
}

impl Run {
    /// Percent of a PC's time in which its processor worked.
    pub fn busy_per_cent(&self, pc: usize) -> f64 {
        self.per_cent(self.pcs[pc].busy)
    }

    /// Percent of a PC's time that its processor spent in the queueing discipline.
    pub fn shaping_per_cent(&self, pc: usize) -> f64 {
        self.per_cent(self.pcs[pc].shaping)
    }

    fn per_cent(&self, part: Duration) -> f64 {
        part.as_ps() as f64 * 100.0 / self.time.as_ps() as f64
    }

    pub fn least_mbps(&self) -> f64 {
        self.mbps.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn most_mbps(&self) -> f64 {
        self.mbps.iter().copied().fold(0.0, f64::max)
    }
}

pub struct Builder {
    pub pcs: Vec<Pc>,
    pub switch: Option<Switch>,
    rate: Rate,
    delay: Duration,
    /// Of each PC in turn: what it sends, what it receives; empty if not asked for.
    pub captures: Vec<LinkCapture>,
    /// Packets from outside, by number.
    pub packets: BTreeMap<u64, Vec<u8>>,
    /// Frames that a PC has sent are lost at random: so many of a million.
    pub lose: Option<Losses>,
    /// Frames with packets from outside that were lost between two PCs.
    pub lost: VecDeque<Frame>,
}

/// Runs `plan`.
pub fn run(parameters: &Parameters, plan: &Plan, seed: u64) -> Result<Run, SystemError> {
    let mut sim = Simulator::new();
    let mut world = Builder::new(parameters, plan, seed, &mut sim)?;
    world.add_streams(parameters, plan);
    let runs = &parameters.runs;
    let (warm_up, time) = if plan.switched {
        (runs.switched_warm_up, runs.switched_time)
    } else {
        (runs.warm_up, runs.time)
    };
    sim.run_until(Instant::ORIGIN + warm_up, &mut world);
    let read_before = world.read_bytes(plan);
    let before: Vec<_> = world.pcs.iter().map(Pc::stats).collect();
    sim.run_until(Instant::ORIGIN + warm_up + time, &mut world);
    let read = world.read_bytes(plan);
    let seconds = time.as_ps() as f64 * 1e-12;
    let rates = read.iter().zip(&read_before);
    Ok(Run {
        mbps: rates
            .map(|(after, before)| (after - before) as f64 * 8e-6 / seconds)
            .collect(),
        pcs: world
            .pcs
            .iter()
            .zip(&before)
            .map(|(pc, before)| since(pc.stats(), *before))
            .collect(),
        senders: world.sender_stats(plan),
        switch_lost: world.switch.as_ref().map_or(0, Switch::lost),
        switch_highest_bytes: world.switch.as_ref().map_or(0, Switch::highest_bytes),
        time,
        hash: sim.trace_hash(),
        links: world.captures,
    })
}

fn since(after: PcStats, before: PcStats) -> PcStats {
    PcStats {
        busy: after.busy - before.busy,
        shaping: after.shaping - before.shaping,
        interrupts: after.interrupts - before.interrupts,
        looks: after.looks - before.looks,
        refused: after.refused - before.refused,
        dropped: after.dropped - before.dropped,
        overruns: after.overruns - before.overruns,
    }
}

fn captures(plan: &Plan) -> Vec<LinkCapture> {
    if plan.packets_per_link == 0 {
        return Vec::new();
    }
    let link = |name: String| LinkCapture::new(name, LinkType::ETHERNET, plan.packets_per_link);
    let both = |pc| [format!("PC {pc}, transmit"), format!("PC {pc}, receive")].map(link);
    (0..plan.hosts.len()).flat_map(both).collect()
}

/// The frame as it is on the link: true headers, and a payload of zeros; or a packet from outside.
fn bytes_of(frame: &Frame, packets: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
    // The port of netperf's data, and one for each stream.
    let port = |from_source: bool| match from_source {
        true => 40_000 + u16::from(frame.flow),
        false => 12_865,
    };
    let is_data = matches!(frame.body, Body::Data { .. });
    let ends = Ends {
        from: (0, frame.from.into()),
        to: (0, frame.to.into()),
        from_port: port(is_data),
        to_port: port(!is_data),
    };
    match frame.body {
        Body::Data { seq, len } => ethernet::tcp(&ends, seq, 0, u64::from(u16::MAX), len),
        Body::Ack { ack, edge } => ethernet::tcp(&ends, 0, ack, edge - ack, 0),
        Body::Packet { id, .. } => {
            let packet = packets.get(&id).map_or(&[][..], Vec::as_slice);
            ethernet::packet(&ends, packet)
        }
    }
}

impl Builder {
    /// PCs that do nothing.
    pub fn new(
        parameters: &Parameters,
        plan: &Plan,
        seed: u64,
        sim: &mut Simulator<KekEvent>,
    ) -> Result<Self, SystemError> {
        let random = Rng::from_seed(seed);
        let tick = parameters.tick();
        let timer = NonZeroU32::new(parameters.kernel.tick_hz).map_or(Timer::EXACT, Timer::hz);
        let mut pcs = Vec::new();
        for (number, &(host, width)) in (0..).zip(&plan.hosts) {
            let phase = random
                .fork_nth("phase", u64::from(number))
                .below(tick.as_ps());
            let phase = Duration::from_ps(phase);
            let config = PcConfig {
                number,
                costs: parameters.costs(host),
                pci: parameters.pci,
                pci_bytes: width.bytes(),
                nic: parameters.nic(plan.mtu, plan.tuning),
                phase,
                message_bytes: parameters.tcp.message.as_bytes(),
                segment_bytes: parameters.sender(plan.mtu, plan.buffer).segment_bytes,
                packet_buffer_bytes: plan.buffer.as_bytes(),
            };
            let commands = plan.commands(parameters, number);
            let tree = commands.map(|text| Tree::parse(&text, timer)).transpose();
            let tree = tree.map_err(|error| SystemError::Contradiction(error.to_string()))?;
            pcs.push(Pc::new(config, tree));
            let node = Node(u16::from(number));
            let first = Instant::ORIGIN + (tick - phase);
            let event = KekEvent::Pc(number, Happening::Tick);
            sim.every(first, tick, Class::NORMAL, node, event);
            sim.at(
                Instant::ORIGIN,
                Class::NORMAL,
                node,
                KekEvent::Start(number),
            );
        }
        Ok(Self {
            pcs,
            switch: plan.switched.then(|| Switch::new(parameters.switch)),
            rate: parameters.card.rate,
            delay: parameters.link.delay,
            captures: captures(plan),
            packets: BTreeMap::new(),
            lose: None,
            lost: VecDeque::new(),
        })
    }

    /// The streams of the plan.
    fn add_streams(&mut self, parameters: &Parameters, plan: &Plan) {
        let pcs = &mut self.pcs;
        for (flow, &(from, to)) in (0..).zip(&plan.streams) {
            let sender = parameters.sender(plan.mtu, plan.buffer);
            let receiver = parameters.receiver(plan.buffer);
            let edge = receiver.buffer_bytes;
            pcs[usize::from(from)].add_sender(flow, to, Sender::new(sender, edge));
            pcs[usize::from(to)].add_receiver(flow, from, Receiver::new(receiver));
        }
    }

    /// A frame is gone.
    fn lose(&mut self, frame: Frame) {
        if matches!(frame.body, Body::Packet { .. }) {
            self.lost.push_back(frame);
        }
    }

    fn read_bytes(&self, plan: &Plan) -> Vec<u64> {
        let at = |(flow, &(_, to)): (u8, &(u8, u8))| {
            let receiver = self.pcs[usize::from(to)].receiver(flow);
            receiver.map_or(0, Receiver::read_bytes)
        };
        (0..).zip(&plan.streams).map(at).collect()
    }

    fn sender_stats(&self, plan: &Plan) -> Vec<SenderStats> {
        let at = |(flow, &(from, _)): (u8, &(u8, u8))| {
            let sender = self.pcs[usize::from(from)].sender(flow);
            sender.map(Sender::stats).unwrap_or_default()
        };
        (0..).zip(&plan.streams).map(at).collect()
    }

    pub fn handle_pc(&mut self, number: u8, event: KekEvent, sim: &mut Simulator<KekEvent>) {
        let now = sim.now();
        if let KekEvent::Arrive(frame) = event {
            self.capture(usize::from(number) * 2 + 1, now, &frame);
        }
        let pc = &mut self.pcs[usize::from(number)];
        let mut left = None;
        match event {
            KekEvent::Pc(_, what) => left = pc.handle(now, what),
            KekEvent::Arrive(frame) => pc.handle_frame(now, frame),
            _ => pc.start(now),
        }
        while let Some((at, what)) = pc.poll() {
            let node = Node(u16::from(number));
            sim.at(at, Class::NORMAL, node, KekEvent::Pc(number, what));
        }
        let Some(frame) = left else {
            return;
        };
        self.capture(usize::from(number) * 2, now, &frame);
        if self.lose.as_mut().is_some_and(Losses::hit) {
            self.lose(frame);
        } else if self.switch.is_some() {
            sim.after(self.delay, Class::NORMAL, SWITCH, KekEvent::Enter(frame));
        } else {
            self.deliver(frame, sim);
        }
    }

    /// Records a frame that has passed whole, at the time when it began.
    fn capture(&mut self, link: usize, now: Instant, frame: &Frame) {
        let Some(capture) = self.captures.get_mut(link) else {
            return;
        };
        let size = ByteSize::from_bytes(frame.wire_bytes());
        let began = now.checked_sub(self.rate.time_to_send(size));
        let packets = &self.packets;
        capture.record(began.unwrap_or(now), || bytes_of(frame, packets));
    }

    fn deliver(&self, frame: Frame, sim: &mut Simulator<KekEvent>) {
        let node = Node(u16::from(frame.to));
        sim.after(self.delay, Class::NORMAL, node, KekEvent::Arrive(frame));
    }

    fn handle_switch(&mut self, event: KekEvent, sim: &mut Simulator<KekEvent>) {
        let Some(switch) = &mut self.switch else {
            return;
        };
        let (mut left, mut lost) = (None, None);
        match event {
            KekEvent::Enter(frame) => switch.handle_frame(frame),
            KekEvent::Leave(port) => left = switch.handle_output(port),
            _ => lost = switch.handle_backplane(),
        }
        while let Some(passing) = switch.poll() {
            let (time, event) = match passing {
                Passing::Backplane(time) => (time, KekEvent::Cross),
                Passing::Output(port, frame) => {
                    let size = ByteSize::from_bytes(frame.wire_bytes());
                    (self.rate.time_to_send(size), KekEvent::Leave(port))
                }
            };
            sim.after(time, Class::NORMAL, SWITCH, event);
        }
        if let Some(frame) = left {
            self.deliver(frame, sim);
        }
        if let Some(frame) = lost {
            self.lose(frame);
        }
    }
}

impl World for Builder {
    type Event = KekEvent;

    fn handle(&mut self, event: KekEvent, sim: &mut Simulator<KekEvent>) {
        match event {
            KekEvent::Start(number) | KekEvent::Pc(number, _) => {
                self.handle_pc(number, event, sim);
            }
            KekEvent::Arrive(frame) => self.handle_pc(frame.to, event, sim),
            KekEvent::Enter(_) | KekEvent::Cross | KekEvent::Leave(_) => {
                self.handle_switch(event, sim);
            }
        }
    }
}
