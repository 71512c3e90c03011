//! Nodes on a ring, driven by the event kernel.
//!
//! Node 0 is at the ring's origin, node 1 opposite, and the others take the places between.

use barewire_des::{Class, Event, EventId, Node as Entity, Simulator, World};
use barewire_models::cbn::{Due, Node, Ring, Slot};
use barewire_units::{Duration, Instant};
use barewire_wire::capture::LinkType;

use super::capture;
use crate::emulation::Losses;
use crate::experiment::LinkCapture;

/// Something that happens at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// The program begins.
    Start,
    /// A frame begins to pass.
    Frame(u16),
    /// The last word of a cell is in the receive FIFO.
    Arrival,
    /// What the node asked for.
    Due(Due),
}

/// A happening and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub node: u16,
    pub what: Happening,
}

impl Event for Occurrence {
    fn digest(&self) -> u64 {
        let what = match self.what {
            Happening::Start => 0,
            Happening::Arrival => 1,
            Happening::Due(Due::Engine) => 2,
            Happening::Due(Due::Timer) => 3,
            Happening::Due(Due::Processor(processor)) => 4 + processor as u64 % 2,
            Happening::Frame(frame) => 6 + u64::from(frame),
        };
        what << 16 | u64::from(self.node)
    }
}

/// The nodes and their ring.
pub(super) struct Backbone {
    ring: Ring,
    pub nodes: Vec<Node>,
    /// When node 0 filled its first slot, and when it had a slot back for the first time.
    pub first_sent: Option<Instant>,
    pub first_released: Option<Instant>,
    /// The cell of node 0 that is lost on the ring, by number.
    lose_cell: Option<u64>,
    /// Cells that were.
    pub lost_cells: u64,
    /// Cells that are lost at random behind any station: of a million, so many.
    losses: Option<Losses>,
    /// The passages of frames, in the order of stations and frames.
    pub passages: Vec<EventId>,
    /// What leaves each station; empty if nothing is to be recorded.
    pub links: Vec<LinkCapture>,
}

/// Where a node is on the ring, of `places` at equal distances.
fn place(number: usize, places: usize) -> usize {
    let opposite = places / 2;
    match number {
        0 => 0,
        1 => opposite,
        other if other - 1 < opposite => other - 1,
        other => other,
    }
}

/// The way to a node from the ring's origin.
pub(super) fn way(ring: &Ring, number: usize, nodes: usize) -> Duration {
    let way_ps = ring.rotation().as_ps() / nodes as u64 * place(number, nodes) as u64;
    Duration::from_ps(way_ps)
}

/// Lets `frame` pass a node at `first` and once a rotation from then on.
pub(super) fn pass(
    ring: &Ring,
    node: u16,
    frame: usize,
    first: Instant,
    sim: &mut Simulator<Occurrence>,
) -> EventId {
    let what = Happening::Frame(frame as u16);
    let occurrence = Occurrence { node, what };
    sim.every(
        first,
        ring.rotation(),
        Class::NORMAL,
        Entity(node),
        occurrence,
    )
}

impl Backbone {
    /// Puts `nodes` on `ring`; their programs begin at `start`.
    pub(super) fn new(
        ring: Ring,
        nodes: Vec<Node>,
        start: Instant,
        sim: &mut Simulator<Occurrence>,
    ) -> Self {
        let mut passages = Vec::new();
        for number in 0..nodes.len() {
            let node = number as u16;
            for frame in 0..ring.frames() {
                let first = ring.first_passage(way(&ring, number, nodes.len()), frame);
                passages.push(pass(&ring, node, frame, first, sim));
            }
            let what = Happening::Start;
            sim.at(
                start,
                Class::NORMAL,
                Entity(node),
                Occurrence { node, what },
            );
        }
        Self {
            ring,
            nodes,
            first_sent: None,
            first_released: None,
            lose_cell: None,
            lost_cells: 0,
            losses: None,
            passages,
            links: Vec::new(),
        }
    }

    /// Loses the cell `number`, from 0, of those that node 0 sends, right behind it.
    pub(super) fn lose_cell(&mut self, number: Option<u64>) {
        self.lose_cell = number;
    }

    /// Loses cells at random behind any station: of a million, so many.
    pub(super) fn lose_at_random(&mut self, losses: Losses) {
        self.losses = Some(losses);
    }

    /// The ring.
    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether a frame is empty, and a node has nothing to send.
    pub(super) fn is_idle(&self, node: usize, frame: usize) -> bool {
        let slots = self.ring.slots(frame);
        slots.0.iter().all(|slot| *slot == Slot::Empty) && self.nodes[node].station().queued() == 0
    }

    /// Records the first `packets` frames that leave each station with a cell in them.
    pub(super) fn record(&mut self, packets: usize) {
        let link = |number| {
            LinkCapture::new(
                format!("ring, behind station {number}"),
                LinkType::UPPER_PDU,
                packets,
            )
        };
        if packets > 0 {
            self.links = (0..self.nodes.len()).map(link).collect();
        }
    }

    /// Asks a node what it wants to be called for.
    pub(super) fn ask(&mut self, node: u16, sim: &mut Simulator<Occurrence>) {
        while let Some((time, due)) = self.nodes[usize::from(node)].poll() {
            let what = Happening::Due(due);
            sim.at(time, Class::NORMAL, Entity(node), Occurrence { node, what });
        }
    }

    fn handle_frame(&mut self, node: u16, frame: u16, sim: &mut Simulator<Occurrence>) {
        let now = sim.now();
        let slots = self.ring.slots_mut(usize::from(frame));
        let at = &mut self.nodes[usize::from(node)];
        let passage = at.handle_frame(now, slots);
        if let Some(link) = self.links.get_mut(usize::from(node)) {
            if slots.0.iter().any(|slot| *slot != Slot::Empty) {
                link.record(now, || capture::frame(slots));
            }
        }
        if let Some(time) = passage.received {
            let what = Happening::Arrival;
            sim.at(time, Class::NORMAL, Entity(node), Occurrence { node, what });
        }
        if let (Some(channel), Some(losses)) = (passage.filled, &mut self.losses) {
            if losses.hit() {
                slots.0[channel] = Slot::Empty;
                self.lost_cells += 1;
            }
        }
        if node != 0 {
            return;
        }
        if let Some(channel) = passage.filled {
            self.first_sent.get_or_insert(now);
            let number = at.station().stats().transmitted - 1;
            if self.lose_cell == Some(number) {
                slots.0[channel] = Slot::Empty;
                self.lost_cells += 1;
            }
        }
        if passage.released > 0 {
            self.first_released.get_or_insert(now);
        }
    }
}

impl World for Backbone {
    type Event = Occurrence;

    fn handle(&mut self, Occurrence { node, what }: Occurrence, sim: &mut Simulator<Occurrence>) {
        let now = sim.now();
        let at = &mut self.nodes[usize::from(node)];
        match what {
            Happening::Frame(frame) => {
                self.handle_frame(node, frame, sim);
                return;
            }
            Happening::Start => at.start(now),
            Happening::Arrival => at.handle_arrival(now),
            Happening::Due(Due::Processor(processor)) => at.handle_processor(now, processor),
            Happening::Due(Due::Engine) => at.handle_engine(now),
            Happening::Due(Due::Timer) => at.handle_timer(now),
        }
        self.ask(node, sim);
        if node == 0 && self.nodes[0].is_done() {
            sim.stop();
        }
    }
}
