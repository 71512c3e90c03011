//! What is between the cards: links, devices and rings, driven by the kernel of the hosts.
//!
//! A line leads from each card, and from each port of a device, to another one's end: a link's,
//! or a station of a ring. Events of a line are ordered, within an instant, by the number of the
//! host at one of its ends, or else by a number behind those of the hosts. That is the
//! order of the workbench, so equal networks give equal times.

use std::collections::BTreeMap;

use barewire_models::workbench::{Frame, Framing};
use barewire_units::{Duration, Instant, Rng};

use super::capture;
use super::device::{Desk, Device, PortState, Wish};
use super::places::{End, Line};
use super::rings::{Out, Ring};
use crate::experiment::LinkCapture;
use crate::workbench::bench::{At, Bench, Handed, Place, Sim};
use crate::workbench::path::{Part, StepId};

/// A link between two ends.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub ends: [End; 2],
    pub framing: Framing,
    pub way: Duration,
    /// The number of its events within an instant.
    pub node: u16,
    /// Its number among all places where time is spent.
    pub place: u16,
    /// By the end that sends: frames, and the time that they took.
    pub frames: [u64; 2],
    pub busy: [Duration; 2],
    pub chance: Chance,
    pub capture: Option<LinkCapture>,
}

/// Frames that a link loses by chance.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    /// How many of 2^53 are lost.
    of_2_53: u64,
    rng: Rng,
    /// By the end that sends.
    pub lost: [u64; 2],
}

impl Chance {
    /// `loss` is the chance of each frame, 0 to 1.
    pub(super) fn new(loss: f64, rng: Rng) -> Self {
        Self {
            of_2_53: (loss.clamp(0.0, 1.0) * WHOLE as f64) as u64,
            rng,
            lost: [0; 2],
        }
    }

    /// Whether the next frame of `end` is lost. A link that loses nothing draws no number.
    fn loses(&mut self, end: usize) -> bool {
        let loses = self.of_2_53 > 0 && self.rng.ratio(self.of_2_53, WHOLE);
        self.lost[end] += u64::from(loses);
        loses
    }
}

/// Every chance is a number of these: what an `f64` holds exactly.
const WHOLE: u64 = 1 << 53;

/// A device with its lines.
pub(super) struct Standing {
    pub device: Box<dyn Device>,
    pub lines: Vec<Line>,
    /// For each host, the port towards it.
    pub ways: Vec<Option<u16>>,
    pub part: Part,
    pub place: u16,
    pub node: u16,
    pub rng: Rng,
    pub(super) ports: Vec<PortState>,
}

/// What will happen.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A frame has come to a device.
    Comes(usize, usize, Frame),
    /// A frame has left a device.
    Left(usize, usize, Frame),
    /// A device has asked for it.
    Wake(usize, u32),
    /// A ring has.
    Ring(usize, u64),
}

/// Everything between the cards.
pub(super) struct Wiring {
    /// The line of each card, by host.
    pub hosts: Vec<Vec<Line>>,
    pub links: Vec<Link>,
    pub devices: Vec<Standing>,
    pub rings: Vec<Ring>,
    /// IP packets under way, by their messages.
    pub packets: BTreeMap<u32, Vec<u8>>,
    happenings: Vec<Option<Happening>>,
    free: Vec<u32>,
    wishes: Vec<Wish>,
}

impl Wiring {
    pub(super) fn new(
        hosts: Vec<Vec<Line>>,
        links: Vec<Link>,
        devices: Vec<Standing>,
        rings: Vec<Ring>,
    ) -> Self {
        Self {
            hosts,
            links,
            devices,
            rings,
            packets: BTreeMap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            wishes: Vec::new(),
        }
    }

    /// Lets the rings begin to turn.
    pub(super) fn start(&mut self, bench: &mut Bench, sim: &mut Sim) {
        for ring in 0..self.rings.len() {
            self.ring_outs(ring, bench, sim);
        }
    }

    fn later(
        &mut self,
        happening: Happening,
        (at, node, step): (Instant, u16, StepId),
        bench: &Bench,
        sim: &mut Sim,
    ) {
        let number = match self.free.pop() {
            Some(number) => {
                self.happenings[number as usize] = Some(happening);
                number
            }
            None => {
                self.happenings.push(Some(happening));
                (self.happenings.len() - 1) as u32
            }
        };
        bench.beyond(at, node, number, step, sim);
    }

    /// Takes what the cards hand over.
    pub(super) fn take_handed(&mut self, bench: &mut Bench, sim: &mut Sim) {
        while let Some(handed) = bench.poll_handed() {
            match handed {
                Handed::Begins { at, frame, step } => {
                    bench.cause = step;
                    let line = self.line(at);
                    self.begin(End::Card(at), line, frame, bench, sim);
                }
                Handed::Ends { at, frame, step } => {
                    bench.cause = step;
                    if let Line::Link { link, end } = self.line(at) {
                        if !self.is_early(link, 1 - end) {
                            self.travel(link, end, frame, bench, sim);
                        }
                    }
                }
                Handed::Passed { message } => {
                    if let Some(packet) = self.packets.get_mut(&message) {
                        capture::one_hop(packet);
                    }
                }
            }
        }
    }

    fn line(&self, at: At) -> Line {
        self.hosts[usize::from(at.host)][usize::from(at.card)]
    }

    /// Whether what is at this end looks at frames when their head is there.
    fn is_early(&self, link: usize, end: usize) -> bool {
        match self.links[link].ends[end] {
            End::Card(_) => false,
            End::Port { device, .. } => self.devices[device].device.cut_through(),
        }
    }

    /// A frame begins to leave on a line that is free.
    fn begin(&mut self, from: End, line: Line, frame: Frame, bench: &mut Bench, sim: &mut Sim) {
        match line {
            Line::Link { link, end } => {
                let early = self.is_early(link, 1 - end);
                let cause = bench.cause;
                let it = &mut self.links[link];
                let time = it.framing.frame_time(frame.body_bytes);
                it.frames[end] += 1;
                it.busy[end] = it.busy[end].saturating_add(time);
                let (place, node) = (it.place, it.node);
                if let Some(capture) = &mut it.capture {
                    let packet = self.packets.get(&frame.piece.message).map(Vec::as_slice);
                    let (framing, now) = (it.framing, sim.now());
                    capture.record(now, || capture::bytes(&framing, &frame, packet, now));
                }
                let at = sim.now().saturating_add(time);
                if early {
                    self.travel(link, end, frame, bench, sim);
                }
                let step = bench.paths.begin(Part::Wire, place, sim.now(), cause);
                match from {
                    End::Card(card) => bench.occupy(card, at, step, sim),
                    End::Port { device, port } => {
                        let left = Happening::Left(device, port, frame);
                        self.later(left, (at, node, step), bench, sim);
                    }
                }
            }
            Line::Station { ring, station } => {
                let place = self.rings[ring].place;
                let step = bench.paths.begin(Part::Ring, place, sim.now(), bench.cause);
                self.rings[ring].offer(station, frame, step, sim.now());
                self.ring_outs(ring, bench, sim);
            }
        }
    }

    /// From one end of a link to the other, and into what is there.
    fn travel(&mut self, link: usize, end: usize, frame: Frame, bench: &mut Bench, sim: &mut Sim) {
        if self.links[link].chance.loses(end) {
            bench.lose(&frame, Place::Switch);
            return;
        }
        let it = &self.links[link];
        let (node, place, way) = (it.node, it.place, it.way);
        let (from, to) = (it.ends[end], it.ends[1 - end]);
        let mut at = sim.now();
        let mut step = bench.cause;
        if let End::Card(card) = from {
            step = bench.paths.begin(Part::Card, card.host, at, step);
            at = at.saturating_add(bench.of(card).card.latency);
        }
        step = bench.paths.begin(Part::Way, place, at, step);
        at = at.saturating_add(way);
        self.come(to, node, frame, (at, step), bench, sim);
    }

    /// A frame will have come to an end of a line.
    fn come(
        &mut self,
        to: End,
        node: u16,
        frame: Frame,
        (mut at, mut step): (Instant, StepId),
        bench: &mut Bench,
        sim: &mut Sim,
    ) {
        match to {
            End::Card(card) => {
                step = bench.paths.begin(Part::Card, card.host, at, step);
                at = at.saturating_add(bench.of(card).card.latency);
                bench.bring((card, frame), at, step, sim);
            }
            End::Port { device, port } => {
                let it = &self.devices[device];
                step = bench.paths.begin(it.part, it.place, at, step);
                at = at.saturating_add(it.device.latency());
                self.later(
                    Happening::Comes(device, port, frame),
                    (at, node, step),
                    bench,
                    sim,
                );
            }
        }
    }

    /// What was to happen happens.
    pub(super) fn happen(&mut self, number: u32, step: StepId, bench: &mut Bench, sim: &mut Sim) {
        let place = self.happenings.get_mut(number as usize);
        let Some(happening) = place.and_then(Option::take) else {
            return;
        };
        self.free.push(number);
        bench.cause = step;
        match happening {
            Happening::Comes(device, port, frame) => {
                self.tell(device, bench, sim, |it, desk| it.frame(port, frame, desk));
            }
            Happening::Left(device, port, frame) => {
                if let Line::Link { link, end } = self.devices[device].lines[port] {
                    if !self.is_early(link, 1 - end) {
                        self.travel(link, end, frame, bench, sim);
                    }
                }
                self.left(device, port, bench, sim);
            }
            Happening::Wake(device, number) => {
                self.tell(device, bench, sim, |it, desk| it.woken(number, desk));
            }
            Happening::Ring(ring, code) => {
                self.rings[ring].happen(code, sim.now());
                self.ring_outs(ring, bench, sim);
            }
        }
    }

    fn left(&mut self, device: usize, port: usize, bench: &mut Bench, sim: &mut Sim) {
        self.devices[device].ports[port].free = true;
        self.tell(device, bench, sim, |it, desk| it.sent(port, desk));
    }

    /// Tells a device something, and does what it wants.
    fn tell(
        &mut self,
        device: usize,
        bench: &mut Bench,
        sim: &mut Sim,
        say: impl FnOnce(&mut dyn Device, &mut Desk<'_>),
    ) {
        let it = &mut self.devices[device];
        let mut wishes = std::mem::take(&mut self.wishes);
        let mut desk = Desk {
            now: sim.now(),
            ports: &mut it.ports,
            ways: &it.ways,
            wishes: &mut wishes,
            rng: &mut it.rng,
        };
        say(it.device.as_mut(), &mut desk);
        let (part, place, node) = (it.part, it.place, it.node);
        let cause = bench.cause;
        for wish in wishes.drain(..) {
            bench.cause = cause;
            match wish {
                Wish::Send(port, frame) => {
                    let line = self.devices[device].lines[port];
                    self.begin(End::Port { device, port }, line, frame, bench, sim);
                }
                Wish::Lose(frame) => bench.lose(&frame, Place::Switch),
                Wish::Wake(at, number) => {
                    let step = bench.paths.begin(part, place, sim.now(), cause);
                    let wake = Happening::Wake(device, number);
                    self.later(wake, (at, node, step), bench, sim);
                }
            }
        }
        self.wishes = wishes;
    }

    /// Does what a ring wants.
    fn ring_outs(&mut self, ring: usize, bench: &mut Bench, sim: &mut Sim) {
        while let Some(out) = self.rings[ring].poll() {
            let it = &self.rings[ring];
            let node = it.node;
            match out {
                Out::At { at, code, order } => {
                    let happening = Happening::Ring(ring, code);
                    let node = node.saturating_add(order);
                    self.later(happening, (at, node, StepId::NONE), bench, sim);
                }
                Out::Left { station, step } => match it.ends[station] {
                    Some(End::Card(card)) => bench.depart(card, step, sim),
                    Some(End::Port { device, port }) => {
                        bench.cause = step;
                        self.left(device, port, bench, sim);
                    }
                    None => {}
                },
                Out::Came {
                    station,
                    frame,
                    step,
                } => {
                    if let Some(to) = it.ends[station] {
                        self.come(to, node, frame, (sim.now(), step), bench, sim);
                    }
                }
                Out::Lost { frame } => bench.lose(&frame, Place::Switch),
            }
        }
    }
}
