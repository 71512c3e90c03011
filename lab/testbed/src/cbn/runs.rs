//! One run: two nodes opposite each other on a ring, others that load it, and what was seen.

use barewire_classic::msdl::{self, InterruptOn};
use barewire_des::Simulator;
use barewire_formats::cbn::{Msdl, SLOTS};
use barewire_models::cbn::{
    Cell, CircuitStats, ConfigError, Copier, Costs, Duplex, Generator, Line, Mark, Node,
    NodeConfig, Processors, Program, Ring, Stage, StationConfig, StationStats, TcpStats,
};
use barewire_units::{Duration, Instant, Rng};

use super::parameters::Parameters;
use super::world::{Backbone, Occurrence};
use crate::emulation::STATIONS_MAX;
use crate::error::SystemError;
use crate::experiment::LinkCapture;
use crate::figures::us;

/// A run that goes on for longer than this has come to a standstill: the longest block
/// takes 11 ms each way.
pub(crate) const END: Duration = Duration::from_ms(500);
/// The circuit of node 0's blocks; those that come back have the next one.
const VCI: u16 = 0x0100;
/// The circuit of false traffic that node 1 takes for its own.
const LOAD_VCI: u16 = 0x0200;
/// The first circuit of those that carry packets from outside.
const CARRYING_VCI: u16 = 0x1000;
/// A circuit that nobody listens to.
pub(crate) const FALSE_VCI: u16 = 0xffff;

/// What a run is made of.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub rotation: Duration,
    pub line: Line,
    pub costs: Costs,
    pub stage: Stage,
    pub copier: Copier,
    pub transmit_copier: Copier,
    pub processors: Processors,
    pub duplex: Duplex,
    pub waits_for_room: bool,
    pub interrupt_on: InterruptOn,
    pub cells: usize,
    pub blocks: usize,
    pub fifo_cells: usize,
    /// Stations on the ring; all but two load it, if there is a load.
    pub stations: u16,
    pub load: Load,
    /// The cell that is lost behind node 0.
    pub lose_cell: Option<u64>,
    pub packets_per_link: usize,
}

/// False traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Cells offered, of those that the ring could carry: 1 fills every slot.
    pub share: f64,
    pub towards: Towards,
}

/// Where false traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    /// Past all stations, on all channels.
    Nobody,
    /// To node 1, on its channel: its driver has to take the cells.
    Node1,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// When node 0 is done, or after this time in any case.
    Done(Duration),
    /// After this time. What is counted is counted in the second half.
    Time(Duration),
}

impl Run {
    /// A run as in the paper: blocks of one cell, stage 3, an interrupt for each cell.
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            rotation: parameters.ring.rotation,
            line: parameters.line(),
            costs: parameters.costs(),
            stage: Stage::TightCode,
            copier: Copier::Processor,
            transmit_copier: Copier::Processor,
            processors: Processors::One,
            duplex: Duplex::Half,
            waits_for_room: false,
            interrupt_on: InterruptOn::EveryCell,
            cells: 1,
            blocks: parameters.runs.blocks,
            fifo_cells: parameters.station.fifo_cells,
            stations: 2,
            load: Load {
                share: 0.0,
                towards: Towards::Nobody,
            },
            lose_cell: None,
            packets_per_link: 0,
        }
    }

    /// The same with so many packets of each link recorded.
    pub(crate) fn recorded(&self, packets_per_link: usize) -> Self {
        Self {
            packets_per_link,
            ..self.clone()
        }
    }

    pub(crate) fn cells(mut self, cells: usize) -> Self {
        self.cells = cells;
        self
    }

    pub(crate) fn stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    pub(crate) fn interrupt_on(mut self, interrupt_on: InterruptOn) -> Self {
        self.interrupt_on = interrupt_on;
        self
    }

    /// What node `number`, 0 or 1, is made of: it receives on the channel of its number.
    pub(crate) fn node(&self, number: u16) -> NodeConfig {
        let other = 1_u16.saturating_sub(number);
        NodeConfig {
            station: StationConfig {
                frames: self.line.frames(self.rotation),
                receive_channel: usize::from(number),
                fifo_cells: self.fifo_cells,
                duplex: self.duplex,
                line: self.line,
            },
            costs: self.costs,
            stage: self.stage,
            processors: self.processors,
            copier: self.copier,
            transmit_copier: self.transmit_copier,
            waits_for_room: self.waits_for_room,
            send_vci: VCI + number,
            send_channel: usize::from(other),
            receive_vci: Some(VCI + other),
            interrupt_on: self.interrupt_on,
        }
    }

    /// A node that does nothing but send false traffic, with cells `interval` apart on each
    /// channel of `channels`. Its program has no circuit: a loader that answered blocks of
    /// others would be a second echo, since a ring carries every cell past every station.
    pub(crate) fn loader(
        &self,
        vci: u16,
        channels: std::ops::Range<usize>,
        generator: impl Fn(Cell, usize) -> Generator,
    ) -> Result<Node, SystemError> {
        let mut config = self.node(0);
        config.receive_vci = None;
        let mut node = node(config, Program::Echo, Rng::from_seed(0))?;
        let msdl = Msdl {
            vci,
            sequence: 1,
            rid: 0,
            part: false,
            start: true,
        };
        for channel in channels {
            let body = vec![0; self.line.body().bytes()];
            let generator = generator(Cell { msdl, body }, channel);
            node.station_mut().set_generator(channel, Some(generator));
        }
        Ok(node)
    }

    /// The nodes of an emulated network: each sends to each, on a circuit of its own.
    pub(super) fn carriers(&self, stations: u16) -> Result<Vec<Node>, SystemError> {
        let make = |number: u16| {
            let mut config = self.node(number % SLOTS as u16);
            config.receive_vci = None;
            let mut node = node(config, Program::Outside, Rng::from_seed(0))?;
            let others = (0..stations).filter(|&from| from != number);
            others.for_each(|from| node.open_for_program(circuit(from, number)));
            Ok(node)
        };
        (0..stations).map(make).collect()
    }

    /// The stations beside the two: they load the ring, or only stand on it.
    fn others(&self, frames: usize, rng: &Rng) -> Result<Vec<Node>, SystemError> {
        let (vci, channels) = match self.load.towards {
            _ if self.load.share <= 0.0 => (FALSE_VCI, 0..0),
            Towards::Nobody => (FALSE_VCI, 0..SLOTS),
            Towards::Node1 => (LOAD_VCI, 1..2),
        };
        let loaders = self.stations.saturating_sub(2);
        let generators = f64::from(loaders) * channels.len() as f64;
        let slots = (frames * SLOTS) as f64;
        let interval_ps = self.rotation.as_ps() as f64 * generators / (self.load.share * slots);
        let interval = Duration::from_ps(interval_ps.max(1.0) as u64);
        let loader = |number: u16| {
            self.loader(vci, channels.clone(), |cell, channel| {
                let index = u64::from(number) << 2 | channel as u64;
                Generator::random(cell, interval, rng.fork_nth("loader", index))
            })
        };
        (2..2 + loaders).map(loader).collect()
    }

    pub(crate) fn ring(&self) -> Result<Ring, SystemError> {
        let frames = self.line.frames(self.rotation);
        Ring::new(self.rotation, frames)
            .ok_or_else(|| SystemError::Contradiction("a ring without a frame".into()))
    }

    /// Node 0 sends its blocks to a station that knows none of its circuits.
    pub(crate) fn transmit(&self, seed: u64) -> Result<Observed, SystemError> {
        let observed = self.transmit_blocks(seed, self.blocks, self.limit())?;
        self.refuse_standstill(observed)
    }

    /// The same for a time instead of some blocks.
    pub(crate) fn transmit_for(&self, seed: u64, time: Duration) -> Result<Observed, SystemError> {
        self.transmit_blocks(seed, usize::MAX, Until::Time(time))
    }

    fn transmit_blocks(
        &self,
        seed: u64,
        blocks: usize,
        until: Until,
    ) -> Result<Observed, SystemError> {
        let program = Program::Transmit {
            blocks,
            block_bytes: self.block_bytes(),
        };
        let mut receiver = self.node(1);
        receiver.receive_vci = None;
        self.observe(seed, [program, Program::Echo], receiver, until)
    }

    /// Node 0 sends its blocks, and has each back before the next.
    pub(crate) fn ping(&self, seed: u64) -> Result<Observed, SystemError> {
        let program = Program::Ping {
            blocks: self.blocks,
            block_bytes: self.block_bytes(),
            patience: None,
        };
        let observed = self.run(seed, [program, Program::Echo], self.limit())?;
        self.refuse_standstill(observed)
    }

    fn limit(&self) -> Until {
        let round = Duration::from_ms(25) + self.rotation * 20;
        Until::Done(END.max(round * self.blocks as u64))
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.cells * self.line.body().bytes()
    }

    fn refuse_standstill(&self, observed: Observed) -> Result<Observed, SystemError> {
        if observed.done {
            return Ok(observed);
        }
        let lost = observed.sides[1].station.receive_overflows;
        let at = observed.sides[0].station.transmit_overflows;
        Err(SystemError::Contradiction(format!(
            "blocks of {} cells do not arrive: the receiver has lost {lost} cells, the sender {at}",
            self.cells
        )))
    }

    /// Runs `programs` on the two nodes.
    pub(crate) fn run(
        &self,
        seed: u64,
        programs: [Program; 2],
        until: Until,
    ) -> Result<Observed, SystemError> {
        self.observe(seed, programs, self.node(1), until)
    }

    fn observe(
        &self,
        seed: u64,
        programs: [Program; 2],
        receiver: NodeConfig,
        until: Until,
    ) -> Result<Observed, SystemError> {
        let rng = Rng::from_seed(seed);
        let start = Instant::from_ps(rng.fork("start").below(self.rotation.as_ps()));
        let ring = self.ring()?;
        let mut nodes = vec![
            node(self.node(0), programs[0], rng.fork("blocks"))?,
            node(receiver, programs[1], rng.fork("none"))?,
        ];
        nodes[1].open(LOAD_VCI);
        nodes.extend(self.others(ring.frames(), &rng)?);
        let mut sim = Simulator::new();
        let mut world = Backbone::new(ring, nodes, start, &mut sim);
        world.lose_cell(self.lose_cell);
        world.record(self.packets_per_link);
        Ok(self.watch(world, sim, start, until))
    }

    fn watch(
        &self,
        mut world: Backbone,
        mut sim: Simulator<Occurrence>,
        start: Instant,
        until: Until,
    ) -> Observed {
        let (time, begin) = match until {
            Until::Done(time) => (time, start),
            Until::Time(time) => (time, start + Duration::from_ps(time.as_ps() / 2)),
        };
        let mut before = Seen::default();
        if begin > start {
            sim.run_until(begin, &mut world);
            before = Seen::of(&world);
        }
        sim.run_until(start + time, &mut world);
        let seen = Seen::of(&world);
        let observed = Observed {
            rotation: world
                .first_released
                .zip(world.first_sent)
                .map(|(released, sent)| released - sent),
            cells: self.cells,
            trace_hash: sim.trace_hash(),
            start,
            begin,
            end: sim.now(),
            done: world.nodes[0].is_done(),
            slots: (self.line.frames(self.rotation) * SLOTS) as u64,
            turn: self.rotation,
            seen: seen.since(&before),
            sides: [0, 1].map(|number| Side::of(&world.nodes[number], VCI + 1 - number as u16)),
            links: world.links,
            lost_on_ring: world.lost_cells,
            receiver: world.nodes[1].marks().to_vec(),
            sender: world.nodes[0].marks().to_vec(),
        };
        debug_assert!(observed.cells_are_conserved(), "{:?}", observed.sides);
        observed
    }
}

/// The circuit from one station of an emulated network to another.
pub(super) const fn circuit(from: u16, to: u16) -> u16 {
    CARRYING_VCI + from * STATIONS_MAX + to
}

/// A node, or what is wrong with its numbers.
fn node(config: NodeConfig, program: Program, rng: Rng) -> Result<Node, SystemError> {
    let wrong = |error: ConfigError| SystemError::Contradiction(error.to_string());
    Node::new(config, program, rng).map_err(wrong)
}

/// What is counted while it is measured, of nodes 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Bytes of blocks received whole by the program's circuit or another.
    block_bytes: [u64; 2],
    /// Cells of false traffic sent, by all.
    false_cells: u64,
}

impl Seen {
    fn of(world: &Backbone) -> Self {
        let two = [0, 1].map(|number| &world.nodes[number]);
        let sent = world.nodes.iter().map(|node| node.station().stats());
        Self {
            block_bytes: two.map(|node| node.program_bytes()),
            false_cells: sent.map(|stats| stats.false_transmitted).sum(),
        }
    }

    fn since(self, before: &Self) -> Self {
        Self {
            block_bytes: [0, 1].map(|side| self.block_bytes[side] - before.block_bytes[side]),
            false_cells: self.false_cells - before.false_cells,
        }
    }
}

/// What a node had counted in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub station: StationStats,
    /// The program's circuit.
    pub circuit: CircuitStats,
    /// Cells in the transmit FIFOs.
    queued: u64,
    /// Of all circuits.
    pub msdl: msdl::Stats,
    pub tcp: TcpStats,
}

impl Side {
    fn of(node: &Node, vci: u16) -> Self {
        Self {
            station: node.station().stats(),
            circuit: node.station().circuit(vci),
            queued: node.station().queued() as u64,
            msdl: node.msdl_stats(),
            tcp: node.tcp_stats(),
        }
    }
}

/// What a run showed.
pub(crate) struct Observed {
    /// From the first slot filled to the first slot back.
    pub rotation: Option<Duration>,
    cells: usize,
    pub trace_hash: u64,
    /// When the programs began, when counting began, and the end.
    pub start: Instant,
    begin: Instant,
    end: Instant,
    /// Node 0 has done what it was to do.
    pub done: bool,
    slots: u64,
    turn: Duration,
    seen: Seen,
    pub sides: [Side; 2],
    lost_on_ring: u64,
    pub links: Vec<LinkCapture>,
    pub sender: Vec<(Instant, Mark)>,
    receiver: Vec<(Instant, Mark)>,
}

impl Observed {
    /// The bytes in blocks that node `side` received whole, by the time that was counted.
    pub(crate) fn received_mbps(&self, side: usize) -> f64 {
        let counted = self.end - self.begin;
        (self.seen.block_bytes[side] * 8) as f64 / us(counted)
    }

    /// Slots filled with false traffic, of all that passed.
    pub(crate) fn false_share(&self) -> f64 {
        let turns = us(self.end - self.begin) / us(self.turn);
        self.seen.false_cells as f64 / (turns * self.slots as f64)
    }

    /// Times from one send call to the return of the next, in the time that was counted. The
    /// first block has none: it fills the pipes.
    pub(crate) fn periods(&self) -> Vec<Duration> {
        let mut returned = times(&self.sender, Mark::Returned);
        returned.retain(|&time| time >= self.begin);
        returned.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Mean of those times.
    pub(crate) fn period_us(&self) -> f64 {
        mean_us(self.periods().into_iter())
    }

    /// Times from a send call until the block has been received back. Blocks that were given
    /// up have none.
    pub(crate) fn round_trips(&self) -> Vec<Duration> {
        let mut called = None;
        let mut trips = Vec::new();
        for &(time, mark) in &self.sender {
            match mark {
                Mark::Call => called = Some(time),
                Mark::Received { intact: true } => {
                    trips.extend(called.take().map(|from| time - from));
                }
                _ => {}
            }
        }
        trips
    }

    /// Mean of those times, without the first.
    pub(crate) fn round_trip_us(&self) -> f64 {
        mean_us(self.round_trips().into_iter().skip(1))
    }

    /// Every cell that was written is in a FIFO, on the ring, received, or lost at a known place.
    fn cells_are_conserved(&self) -> bool {
        let one_way = |marks: &[_], from: &Side, to: &Side, lost: u64| {
            let written = times(marks, Mark::CopyDone).len() as u64;
            let sent = from.station.transmitted;
            let come = to.circuit.received + to.circuit.overflows;
            let on_ring = (sent - lost).checked_sub(come);
            written == sent + from.station.transmit_overflows + from.queued
                // A receiver that does not know the circuit counts none of its cells.
                && on_ring.is_some_and(|cells| cells <= self.slots || come == 0)
        };
        let [zero, one] = &self.sides;
        one_way(&self.sender, zero, one, self.lost_on_ring) && one_way(&self.receiver, one, zero, 0)
    }

    /// Send calls of node 0.
    pub(crate) fn calls(&self) -> usize {
        times(&self.sender, Mark::Call).len()
    }

    /// Mean time of the copy of a cell out of the receive FIFO.
    pub(crate) fn copy_us(&self) -> f64 {
        let begun = times(&self.receiver, Mark::ReadBegun);
        let done = times(&self.receiver, Mark::ReadDone);
        let copies = begun.iter().zip(&done).skip(self.cells);
        mean_us(copies.map(|(&from, &to)| to - from))
    }

    /// Mean time from cell to cell inside a block sent.
    pub(crate) fn cell_sent_us(&self) -> f64 {
        self.in_block_us(&times(&self.sender, Mark::CopyDone))
    }

    /// Mean time from cell to cell inside a block received.
    pub(crate) fn cell_received_us(&self) -> f64 {
        self.in_block_us(&times(&self.receiver, Mark::Handled))
    }

    fn in_block_us(&self, cells: &[Instant]) -> f64 {
        let blocks = cells.chunks_exact(self.cells).skip(1);
        let gaps = blocks.flat_map(|block| block.windows(2));
        mean_us(gaps.map(|pair| pair[1] - pair[0]))
    }
}

fn times(marks: &[(Instant, Mark)], wanted: Mark) -> Vec<Instant> {
    let wanted = marks.iter().filter(|&&(_, mark)| mark == wanted);
    wanted.map(|&(time, _)| time).collect()
}

fn mean_us(times: impl Iterator<Item = Duration>) -> f64 {
    let (sum, count) = times.fold((Duration::ZERO, 0_u32), |(sum, count), time| {
        (sum + time, count + 1)
    });
    us(sum) / f64::from(count.max(1))
}
