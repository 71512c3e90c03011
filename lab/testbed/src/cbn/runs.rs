//! One run: two nodes opposite each other on a ring, and what node 0 saw.

use barewire_des::Simulator;
use barewire_models::cbn::{
    Copier, Costs, Duplex, Line, Mark, Node, NodeConfig, Program, Ring, Stage, StationConfig,
};
use barewire_proto::msdl::InterruptOn;
use barewire_units::{Duration, Instant, Rng};

use super::parameters::Parameters;
use super::world::Backbone;
use crate::SystemError;

/// A run that goes on for longer than this has come to a standstill: the longest block
/// takes 11 ms each way.
const END: Duration = Duration::from_ms(500);
/// The circuit of node 0's blocks; those that come back have the next one.
const VCI: u16 = 0x0100;

/// What a run is made of.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub rotation: Duration,
    pub line: Line,
    pub costs: Costs,
    pub stage: Stage,
    pub copier: Copier,
    pub interrupt_on: InterruptOn,
    cells: usize,
    blocks: usize,
    fifo_cells: usize,
}

impl Run {
    /// A run as in the paper: blocks of one cell, stage 3, an interrupt for each cell.
    pub(super) fn new(parameters: &Parameters) -> Self {
        Self {
            rotation: parameters.ring.rotation,
            line: parameters.line(),
            costs: parameters.costs(),
            stage: Stage::TightCode,
            copier: Copier::Processor,
            interrupt_on: InterruptOn::EveryCell,
            cells: 1,
            blocks: parameters.runs.blocks,
            fifo_cells: parameters.station.fifo_cells,
        }
    }

    pub(super) fn cells(mut self, cells: usize) -> Self {
        self.cells = cells;
        self
    }

    pub(super) fn stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    pub(super) fn interrupt_on(mut self, interrupt_on: InterruptOn) -> Self {
        self.interrupt_on = interrupt_on;
        self
    }

    /// What node `number`, 0 or 1, is made of: it receives on the channel of its number.
    pub(super) fn node(&self, number: u16) -> NodeConfig {
        let other = 1_u16.saturating_sub(number);
        NodeConfig {
            station: StationConfig {
                number,
                receive_channel: usize::from(number),
                fifo_cells: self.fifo_cells,
                duplex: Duplex::Half,
                line: self.line,
            },
            costs: self.costs,
            stage: self.stage,
            copier: self.copier,
            send_vci: VCI + number,
            send_channel: usize::from(other),
            receive_vci: VCI + other,
            interrupt_on: self.interrupt_on,
        }
    }

    pub(super) fn ring(&self) -> Result<Ring, SystemError> {
        let frames = self.line.frames(self.rotation);
        Ring::new(self.rotation, frames)
            .ok_or_else(|| SystemError::Contradiction("a ring without a frame".into()))
    }

    /// Node 0 sends its blocks to a station that knows none of its circuits.
    pub(super) fn transmit(&self, seed: u64) -> Result<Observed, SystemError> {
        let mut receiver = self.node(1);
        receiver.receive_vci = VCI - 1;
        let (blocks, block_bytes) = (self.blocks, self.block_bytes());
        self.run(
            seed,
            Program::Transmit {
                blocks,
                block_bytes,
            },
            receiver,
        )
    }

    /// Node 0 sends its blocks, and has each back before the next.
    pub(super) fn ping(&self, seed: u64) -> Result<Observed, SystemError> {
        let (blocks, block_bytes) = (self.blocks, self.block_bytes());
        let program = Program::Ping {
            blocks,
            block_bytes,
        };
        self.run(seed, program, self.node(1))
    }

    fn block_bytes(&self) -> usize {
        self.cells * self.line.body().bytes()
    }

    fn run(
        &self,
        seed: u64,
        program: Program,
        receiver: NodeConfig,
    ) -> Result<Observed, SystemError> {
        let rng = Rng::from_seed(seed);
        let start_ps = rng.fork("start").below(self.rotation.as_ps());
        let nodes = vec![
            Node::new(self.node(0), program, rng.fork("blocks")),
            Node::new(receiver, Program::Echo, rng.fork("none")),
        ];
        let mut sim = Simulator::new();
        let mut world = Backbone::new(self.ring()?, nodes, Instant::from_ps(start_ps), &mut sim);
        sim.run_until(Instant::ORIGIN + END, &mut world);
        let observed = Observed {
            rotation: world
                .first_released
                .zip(world.first_sent)
                .map(|(released, sent)| released - sent),
            cells: self.cells,
            trace_hash: sim.trace_hash(),
            receiver: world.nodes[1].marks().to_vec(),
            sender: world.nodes[0].marks().to_vec(),
        };
        let lost = Mark::Received { intact: false };
        if !world.nodes[0].is_done() || observed.sender.iter().any(|&(_, mark)| mark == lost) {
            let stats = world.nodes[1].station().stats();
            return Err(SystemError::Contradiction(format!(
                "blocks of {} cells do not arrive: the receiver has lost {} cells",
                self.cells, stats.receive_overflows
            )));
        }
        Ok(observed)
    }
}

/// What a run showed. The first block is left out of every mean: it fills the pipes.
pub(super) struct Observed {
    /// From the first slot filled to the first slot back.
    pub rotation: Option<Duration>,
    cells: usize,
    pub trace_hash: u64,
    sender: Vec<(Instant, Mark)>,
    receiver: Vec<(Instant, Mark)>,
}

impl Observed {
    /// Mean time from one send call to the return of the next.
    pub(super) fn period_us(&self) -> f64 {
        let returned = times(&self.sender, Mark::Returned);
        mean_us(returned.windows(2).map(|pair| pair[1] - pair[0]))
    }

    /// Mean time from a send call until the block has been received back.
    pub(super) fn round_trip_us(&self) -> f64 {
        let called = times(&self.sender, Mark::Call);
        let received = times(&self.sender, Mark::Received { intact: true });
        mean_us(
            called
                .iter()
                .zip(&received)
                .skip(1)
                .map(|(&from, &to)| to - from),
        )
    }

    /// Mean time of the copy of a cell out of the receive FIFO.
    pub(super) fn copy_us(&self) -> f64 {
        let begun = times(&self.receiver, Mark::ReadBegun);
        let done = times(&self.receiver, Mark::ReadDone);
        let copies = begun.iter().zip(&done).skip(self.cells);
        mean_us(copies.map(|(&from, &to)| to - from))
    }

    /// Mean time from cell to cell inside a block sent.
    pub(super) fn cell_sent_us(&self) -> f64 {
        self.in_block_us(&times(&self.sender, Mark::CopyDone))
    }

    /// Mean time from cell to cell inside a block received.
    pub(super) fn cell_received_us(&self) -> f64 {
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
    sum.as_ps() as f64 / 1e6 / f64::from(count.max(1))
}
