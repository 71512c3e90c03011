//! Nodes on a ring, driven by the event kernel.

use barewire_des::{Class, Event, Node as Entity, Simulator, World};
use barewire_models::cbn::{Node, Ring, Wake};
use barewire_units::{Duration, Instant};

/// Something that happens at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// The program begins.
    Start,
    /// A frame begins to pass.
    Frame(u16),
    /// The last word of a cell is in the receive FIFO.
    Arrival,
    /// An operation of the processor is done.
    Processor,
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
            Happening::Processor => 2,
            Happening::Frame(frame) => 3 + u64::from(frame),
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
}

impl Backbone {
    /// Puts `nodes` on `ring` at equal distances; their programs begin at `start`.
    pub(super) fn new(
        ring: Ring,
        nodes: Vec<Node>,
        start: Instant,
        sim: &mut Simulator<Occurrence>,
    ) -> Self {
        for number in 0..nodes.len() {
            let node = number as u16;
            let way_ps = ring.rotation().as_ps() / nodes.len() as u64 * number as u64;
            for frame in 0..ring.frames() {
                let first = ring.first_passage(Duration::from_ps(way_ps), frame);
                let what = Happening::Frame(frame as u16);
                sim.every(
                    first,
                    ring.rotation(),
                    Class::NORMAL,
                    Entity(node),
                    Occurrence { node, what },
                );
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
        }
    }

    fn handle_frame(&mut self, node: u16, frame: u16, sim: &mut Simulator<Occurrence>) {
        let now = sim.now();
        let slots = self.ring.slots_mut(usize::from(frame));
        let passage = self.nodes[usize::from(node)].handle_frame(now, slots);
        if let Some(time) = passage.received {
            let what = Happening::Arrival;
            sim.at(time, Class::NORMAL, Entity(node), Occurrence { node, what });
        }
        if node == 0 && passage.transmitted {
            self.first_sent.get_or_insert(now);
        }
        if node == 0 && passage.released > 0 {
            self.first_released.get_or_insert(now);
        }
    }
}

impl World for Backbone {
    type Event = Occurrence;

    fn handle(&mut self, Occurrence { node, what }: Occurrence, sim: &mut Simulator<Occurrence>) {
        let now = sim.now();
        let at = &mut self.nodes[usize::from(node)];
        let wake: Wake = match what {
            Happening::Start => at.start(now),
            Happening::Arrival => at.handle_arrival(now),
            Happening::Processor => at.handle_processor(now),
            Happening::Frame(frame) => {
                self.handle_frame(node, frame, sim);
                return;
            }
        };
        if node == 0 && what == Happening::Processor && at.is_done() {
            sim.stop();
        }
        if let Some(time) = wake {
            let what = Happening::Processor;
            sim.at(time, Class::NORMAL, Entity(node), Occurrence { node, what });
        }
    }
}
