//! The Cambridge Backbone that carries packets from outside: each IP packet is a block of MSDL, on a
//! circuit of its two stations, as each segment is in the experiment `tcp`.
//!
//! The passages of frames along an idle ring change nothing, and are most of what happens. They are
//! left out two rotations after the last cell, and counted when a cell waits again: frames are then
//! where they would have been.

use barewire_classic::msdl::BodySize;
use barewire_des::{Simulator, World};
use barewire_formats::cbn::SLOTS;
use barewire_models::cbn::{Costs, Slot};
use barewire_units::{Duration, Instant};

use super::runs::{Run, circuit};
use super::world::{Backbone, Happening, Occurrence, pass, way};
use crate::emulation::{self, Carries, HostEra, Stations, View, Wanted};
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// The longest packet, unless another is asked for: as on an Ethernet.
const MTU_BYTES: usize = 1500;
/// Rotations that the ring is idle before its passages are left out. After one nobody remembers a cell.
const IDLE_ROTATIONS: usize = 2;

/// A ring that carries packets.
pub(super) type Emulation = emulation::Emulation<Carrying>;

pub(super) struct Carrying {
    backbone: Backbone,
    stations: Stations,
    body: BodySize,
    era: HostEra,
    /// When each frame passes each node next: in the order of [`Backbone::passages`].
    next_passages: Vec<Instant>,
    /// Passages of empty frames past nodes with nothing to send, since the last other one.
    idle_passages: usize,
    /// Passages are left out.
    is_paused: bool,
}

impl Emulation {
    pub(super) fn new(run: &Run, seed: u64, wanted: &Wanted) -> Result<Self, SystemError> {
        wanted.check()?;
        let mut run = run.clone();
        if wanted.host_era == HostEra::None {
            run.costs = without_hosts(&run.costs);
        }
        let body = run.line.body();
        let mtu = wanted.mtu(MTU_BYTES, body.block_bytes_max())?;
        let nodes = run.carriers(wanted.stations)?;
        let ring = run.ring()?;
        let count = nodes.len();
        let mut next_passages = Vec::new();
        for number in 0..count {
            let frames = 0..ring.frames();
            let first = |frame| ring.first_passage(way(&ring, number, count), frame);
            next_passages.extend(frames.map(first));
        }
        let description = format!(
            "Cambridge Backbone: {count} stations, {} frames of 4 slots in {}, IP over MSDL",
            ring.frames(),
            ring.rotation()
        );
        let mut sim = Simulator::new();
        let mut backbone = Backbone::new(ring, nodes, Instant::ORIGIN, &mut sim);
        backbone.lose_at_random(wanted.losses(seed));
        backbone.record(wanted.packets_per_link);
        let carrying = Carrying {
            backbone,
            stations: Stations::new(wanted, mtu),
            body,
            era: wanted.host_era,
            next_passages,
            idle_passages: 0,
            is_paused: false,
        };
        Ok(Self {
            sim,
            carrying,
            description,
        })
    }
}

/// What is left if a host takes no time: the memory of the station, a word at a time.
fn without_hosts(costs: &Costs) -> Costs {
    use barewire_models::parameters::Parameters as _;
    let mut none = *costs;
    let mut no_time = |cost: &mut Duration| *cost = Duration::ZERO;
    none.driver.times_mut(&mut no_time);
    none.station.times_mut(&mut no_time);
    none.station.access_milli_cycles = 1000;
    none
}

impl Carrying {
    /// Lets a host begin with the packet that waits for it, if it has nothing else to do.
    fn offer(&mut self, number: usize, sim: &mut Simulator<Occurrence>) {
        let node = &mut self.backbone.nodes[number];
        let Some((to, bytes)) = self.stations.waiting(number) else {
            return;
        };
        let channel = usize::from(to) % SLOTS;
        // A host that takes no time would look for room without end.
        let cells = self.body.cells(bytes).map_or(1, usize::from);
        let has_room =
            self.era != HostEra::None || node.station().has_room(channel, cells.saturating_sub(1));
        if !has_room || !node.takes_from_outside() {
            return;
        }
        let Some(packet) = self.stations.begin(number) else {
            return;
        };
        let circuit = circuit(number as u16, to);
        node.send_from_outside(sim.now(), (circuit, channel), packet);
        self.backbone.ask(number as u16, sim);
    }

    /// Whether nothing is to come but passages of empty frames.
    fn count_passage(&mut self, node: u16, frame: u16, sim: &mut Simulator<Occurrence>) {
        let (node, frame) = (usize::from(node), usize::from(frame));
        let frames = self.backbone.ring().frames();
        let rotation = self.backbone.ring().rotation();
        self.next_passages[node * frames + frame] = sim.now() + rotation;
        if !self.backbone.is_idle(node, frame) {
            self.idle_passages = 0;
            return;
        }
        self.idle_passages += 1;
        if self.idle_passages >= self.next_passages.len() * IDLE_ROTATIONS {
            self.is_paused = true;
            self.idle_passages = 0;
            for passage in self.backbone.passages.drain(..) {
                sim.cancel(passage);
            }
        }
    }

    /// Counts the passages that were left out, and lets the frames pass again.
    fn go_on(&mut self, sim: &mut Simulator<Occurrence>) {
        let now = sim.now();
        let frames = self.backbone.ring().frames();
        let rotation = self.backbone.ring().rotation();
        for (index, next) in self.next_passages.iter_mut().enumerate() {
            let (node, frame) = (index / frames, index % frames);
            if *next <= now {
                let passed = (now - *next).as_ps() / rotation.as_ps() + 1;
                *next += rotation * passed;
                let station = self.backbone.nodes[node].station_mut();
                station.handle_empty_frames(passed);
            }
            let passage = pass(self.backbone.ring(), node as u16, frame, *next, sim);
            self.backbone.passages.push(passage);
        }
        self.is_paused = false;
    }

    fn is_queued(&self) -> bool {
        let mut nodes = self.backbone.nodes.iter();
        nodes.any(|node| node.station().queued() > 0)
    }
}

impl World for Carrying {
    type Event = Occurrence;

    fn handle(&mut self, event: Occurrence, sim: &mut Simulator<Occurrence>) {
        let number = usize::from(event.node);
        self.backbone.handle(event, sim);
        if let Happening::Frame(frame) = event.what {
            self.count_passage(event.node, frame, sim);
        }
        let now = sim.now();
        let node = &mut self.backbone.nodes[number];
        node.forget_marks();
        while let Some(packet) = node.poll_outside() {
            self.stations.give(now, number, packet);
        }
        self.offer(number, sim);
        if self.is_paused && self.backbone.nodes[number].station().queued() > 0 {
            self.go_on(sim);
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

    fn begin(&mut self, station: usize, sim: &mut Simulator<Occurrence>) {
        self.offer(station, sim);
        if self.is_paused && self.is_queued() {
            self.go_on(sim);
        }
    }

    fn view(&self, now: Instant) -> View {
        let backbone = &self.backbone;
        let (ring, count) = (backbone.ring(), backbone.nodes.len());
        let rotation_ps = ring.rotation().as_ps();
        let share = |ps: u64| (ps % rotation_ps) as f64 / rotation_ps as f64;
        let place = |number| share(way(ring, number, count).as_ps());
        let now_ps = now.since_origin().as_ps();
        let frame = |frame: usize| {
            let spacing_ps = rotation_ps / ring.frames() as u64 * frame as u64;
            let full = |slot: &Slot| *slot != Slot::Empty;
            let full = ring.slots(frame).0.iter().map(full).collect();
            (share(now_ps + rotation_ps - spacing_ps), full)
        };
        let stats = backbone.nodes.iter().map(|node| node.station().stats());
        let sum =
            |what: fn(barewire_models::cbn::StationStats) -> u64| stats.clone().map(what).sum();
        View {
            what: "frames of four slots",
            stations: (0..count).map(place).collect(),
            carriers: (0..ring.frames()).map(frame).collect(),
            counts: vec![
                ("cells sent", sum(|it| it.transmitted)),
                ("cells received", sum(|it| it.received)),
                ("cells lost on the ring", backbone.lost_cells),
                (
                    "cells lost in full FIFOs",
                    sum(|it| it.receive_overflows + it.transmit_overflows),
                ),
            ],
        }
    }

    fn take_links(&mut self) -> Vec<LinkCapture> {
        std::mem::take(&mut self.backbone.links)
    }

    fn rest(&mut self) {
        self.stations.is_over();
    }
}

#[cfg(test)]
mod tests;
