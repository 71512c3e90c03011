//! A workstation: one processor that runs the program and the MSDL driver, and its station.
//!
//! The processor has two levels. The program's level sends a block and waits for one:
//! ```text
//! Waiting --> Before --> (Header --> (Bus --> Memory) x words) x cells --> After --> Waiting
//! Waiting --> Wake, when a block has been received --> Waiting or Before
//! ```
//! The handler's level comes first whenever an operation ends:
//! ```text
//! Off --> Entry, on an interrupt --> look
//! look: the interrupt is set again --> Acknowledge --> look
//!       a cell waits --> (Bus --> Memory) x words or Engine --> Work --> look
//!       else Off; or Spin until the next cell, where it would not interrupt
//! ```
//! A handler spins only where the condition is the start of a block, and a block is under
//! way: no other cell of it would call again. The processor's busy time leaves that out.
//!
//! Whoever drives a node calls [`Node::handle_processor`] at the time that the last call gave.

use std::collections::VecDeque;

use barewire_proto::msdl::{Config, Event, Fragments, InterruptOn, Reassembler};
use barewire_units::{Duration, Instant, Rng};

use super::{Cell, Copier, Costs, Passage, Slots, Stage, Station, StationConfig};
use crate::host::Processor;

/// What a node is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its station.
    pub station: StationConfig,
    /// What its operations cost.
    pub costs: Costs,
    /// Its receive driver.
    pub stage: Stage,
    /// Who copies what it receives.
    pub copier: Copier,
    /// The circuit that it sends on.
    pub send_vci: u16,
    /// The channel that the other end receives from.
    pub send_channel: usize,
    /// The circuit that it receives on.
    pub receive_vci: u16,
    /// The cells of it that interrupt.
    pub interrupt_on: InterruptOn,
}

/// What runs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Sends blocks, one call after the other.
    Transmit {
        /// Blocks to send.
        blocks: usize,
        /// Their size.
        block_bytes: usize,
    },
    /// Sends a block, waits for it to come back, and begins again.
    Ping {
        /// Blocks to send.
        blocks: usize,
        /// Their size.
        block_bytes: usize,
    },
    /// Sends back what it receives.
    Echo,
}

/// Something worth the time it happened at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The program makes a send call.
    Call,
    /// The copy of a cell to a FIFO begins.
    CopyBegun,
    /// It is done: the cell is in the FIFO.
    CopyDone,
    /// The send call has returned.
    Returned,
    /// The copy of a cell from the receive FIFO begins.
    ReadBegun,
    /// It is done.
    ReadDone,
    /// A cell has been received and reassembled.
    Handled,
    /// The receive call has returned with a block.
    Received {
        /// It is the block that a [`Program::Ping`] sent; no other program knows better.
        intact: bool,
    },
}

/// When to call [`Node::handle_processor`], if at all.
pub type Wake = Option<Instant>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Waiting,
    Before,
    Header,
    Bus,
    Memory,
    After,
    Wake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handling {
    Off,
    Entry,
    Acknowledge,
    Bus,
    Memory,
    Engine,
    Work,
    Spin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Program,
    Handler,
}

/// A workstation.
pub struct Node {
    config: NodeConfig,
    station: Station,
    processor: Processor,
    program: Program,
    rng: Rng,
    /// Level of the operation under way.
    running: Option<Level>,

    sending: Sending,
    blocks_left: usize,
    block: Vec<u8>,
    fragments: Option<Fragments<Vec<u8>>>,
    sending_cell: Option<Cell>,
    sending_words: u64,

    handling: Handling,
    receiving_words: u64,
    /// When the engine has copied the cell at the head, if it has begun.
    engine_done: Option<Instant>,
    received_cell: Option<Cell>,
    reassembler: Reassembler,
    /// Blocks that the program has not taken yet.
    delivered: VecDeque<Vec<u8>>,

    marks: Vec<(Instant, Mark)>,
}

impl Node {
    /// A node that runs `program`; `rng` fills its blocks.
    #[must_use]
    pub fn new(config: NodeConfig, program: Program, rng: Rng) -> Self {
        let mut station = Station::new(config.station);
        station.listen(config.receive_vci, config.interrupt_on);
        let body = config.station.line.body();
        let mut reassembler = Reassembler::new(Config {
            body,
            block_bytes_max: body.block_bytes_max(),
            ..Config::default()
        });
        reassembler.open(config.receive_vci);
        Self {
            config,
            station,
            processor: Processor::new(),
            program,
            rng,
            running: None,
            sending: Sending::Waiting,
            blocks_left: 0,
            block: Vec::new(),
            fragments: None,
            sending_cell: None,
            sending_words: 0,
            handling: Handling::Off,
            receiving_words: 0,
            engine_done: None,
            received_cell: None,
            reassembler,
            delivered: VecDeque::new(),
            marks: Vec::new(),
        }
    }

    /// Its station.
    #[must_use]
    pub const fn station(&self) -> &Station {
        &self.station
    }

    /// Its station, to give it a generator, say.
    pub fn station_mut(&mut self) -> &mut Station {
        &mut self.station
    }

    /// Its processor.
    #[must_use]
    pub const fn processor(&self) -> &Processor {
        &self.processor
    }

    /// What has happened, in order.
    #[must_use]
    pub fn marks(&self) -> &[(Instant, Mark)] {
        &self.marks
    }

    /// Whether the program has sent its blocks, and a [`Program::Ping`] has them back.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.program != Program::Echo && self.blocks_left == 0
    }

    /// The program begins.
    pub fn start(&mut self, now: Instant) -> Wake {
        if let Program::Transmit { blocks, .. } | Program::Ping { blocks, .. } = self.program {
            self.blocks_left = blocks;
            if blocks > 0 {
                self.send_new_block(now);
            }
        }
        self.go_on(now)
    }

    /// A frame begins to pass the station.
    pub fn handle_frame(&mut self, now: Instant, slots: &mut Slots) -> Passage {
        self.station.handle_frame(now, slots)
    }

    /// The last word of a cell is in the receive FIFO.
    pub fn handle_arrival(&mut self, now: Instant) -> Wake {
        self.station.handle_arrival();
        if let (Copier::Engine(time), Handling::Work) = (self.config.copier, self.handling) {
            self.engine_done.get_or_insert(now + time);
        }
        if self.handling == Handling::Spin {
            self.look(now);
        }
        if self.running.is_some() {
            return None;
        }
        self.go_on(now)
    }

    /// The operation under way is done.
    pub fn handle_processor(&mut self, now: Instant) -> Wake {
        match self.running.take() {
            Some(Level::Program) => self.program_goes_on(now),
            Some(Level::Handler) => self.handler_goes_on(now),
            None => {}
        }
        self.go_on(now)
    }

    /// Begins the next operation, the handler's first.
    fn go_on(&mut self, now: Instant) -> Wake {
        if self.handling == Handling::Off && self.station.interrupt() {
            self.station.acknowledge();
            self.handling = Handling::Entry;
        }
        if self.sending == Sending::Waiting && !self.delivered.is_empty() {
            self.sending = Sending::Wake;
        }
        let (level, cost) = if self.handling == Handling::Off {
            (Level::Program, self.program_cost(now)?)
        } else {
            (Level::Handler, self.handler_cost(now)?)
        };
        self.running = Some(level);
        Some(self.processor.begin(now, cost))
    }

    fn program_cost(&mut self, now: Instant) -> Option<Duration> {
        let costs = &self.config.costs;
        Some(match self.sending {
            Sending::Waiting => return None,
            Sending::Before => costs.send_before,
            Sending::Header => costs.transmit_cell,
            Sending::Bus => costs.to_memory(self.config.station.line.word_time()),
            Sending::Memory => self.station.transmit_ram().access(now, 1) - now,
            Sending::After => costs.send_after,
            Sending::Wake => costs.wake,
        })
    }

    fn handler_cost(&mut self, now: Instant) -> Option<Duration> {
        let costs = &self.config.costs;
        Some(match self.handling {
            Handling::Off | Handling::Spin => return None,
            Handling::Entry => costs.interrupt,
            Handling::Acknowledge => costs.word,
            Handling::Bus => costs.to_memory(self.config.station.line.word_time()),
            Handling::Memory => self.station.receive_ram().access(now, 1) - now,
            Handling::Engine => match self.engine_done {
                Some(done) => done.saturating_duration_since(now),
                None => Duration::ZERO,
            },
            Handling::Work => costs.cell(self.config.stage),
        })
    }

    fn program_goes_on(&mut self, now: Instant) {
        match self.sending {
            Sending::Waiting => {}
            Sending::Before => self.sending = Sending::Header,
            Sending::Header => self.begin_cell(now),
            Sending::Bus => self.sending = Sending::Memory,
            Sending::Memory => self.word_written(now),
            Sending::After => self.block_sent(now),
            Sending::Wake => self.block_received(now),
        }
    }

    fn send_new_block(&mut self, now: Instant) {
        let block_bytes = match self.program {
            Program::Transmit { block_bytes, .. } | Program::Ping { block_bytes, .. } => {
                block_bytes
            }
            Program::Echo => 0,
        };
        self.block = vec![0; block_bytes];
        self.rng.fill_bytes(&mut self.block);
        self.send_block(now);
    }

    fn send_block(&mut self, now: Instant) {
        let body = self.config.station.line.body();
        let block = self.block.clone();
        // A block that is too long has no cells, and is never received.
        self.fragments = Fragments::new(body, self.config.send_vci, 0, block).ok();
        self.sending = Sending::Before;
        self.marks.push((now, Mark::Call));
    }

    fn begin_cell(&mut self, now: Instant) {
        let mut body = vec![0; self.config.station.line.body().bytes()];
        let fragments = self.fragments.as_mut();
        let msdl = fragments.and_then(|fragments| fragments.next_into(&mut body));
        self.sending_cell = msdl.map(|msdl| Cell { msdl, body });
        self.sending_words = self.config.station.line.cell_words();
        self.sending = Sending::Bus;
        self.marks.push((now, Mark::CopyBegun));
    }

    fn word_written(&mut self, now: Instant) {
        self.sending = Sending::Bus;
        self.sending_words -= 1;
        if self.sending_words > 0 {
            return;
        }
        self.marks.push((now, Mark::CopyDone));
        if let Some(cell) = self.sending_cell.take() {
            self.station.handle_written(self.config.send_channel, cell);
        }
        let more = self.fragments.as_ref().is_some_and(|f| f.cells_left() > 0);
        self.sending = if more {
            Sending::Header
        } else {
            Sending::After
        };
    }

    fn block_sent(&mut self, now: Instant) {
        self.marks.push((now, Mark::Returned));
        self.sending = Sending::Waiting;
        if let Program::Transmit { .. } = self.program {
            self.blocks_left -= 1;
            if self.blocks_left > 0 {
                self.send_new_block(now);
            }
        }
    }

    fn block_received(&mut self, now: Instant) {
        self.sending = Sending::Waiting;
        let Some(block) = self.delivered.pop_front() else {
            return;
        };
        let intact = block == self.block || !matches!(self.program, Program::Ping { .. });
        self.marks.push((now, Mark::Received { intact }));
        match self.program {
            Program::Transmit { .. } => {}
            Program::Echo => {
                self.block = block;
                self.send_block(now);
            }
            Program::Ping { .. } => {
                self.blocks_left = self.blocks_left.saturating_sub(1);
                if self.blocks_left > 0 {
                    self.send_new_block(now);
                }
            }
        }
    }

    fn handler_goes_on(&mut self, now: Instant) {
        match self.handling {
            Handling::Off | Handling::Spin => {}
            Handling::Entry | Handling::Acknowledge => self.look(now),
            Handling::Bus => self.handling = Handling::Memory,
            Handling::Memory => {
                self.receiving_words -= 1;
                if self.receiving_words > 0 {
                    self.handling = Handling::Bus;
                } else {
                    self.take_cell(now);
                }
            }
            Handling::Engine => {
                self.take_cell(now);
                let next = (self.station.waiting() > 0).then_some(self.config.copier);
                self.engine_done = match next {
                    Some(Copier::Engine(time)) => Some(now + time),
                    _ => None,
                };
            }
            Handling::Work => {
                self.reassemble(now);
                self.look(now);
            }
        }
    }

    /// What the handler does next: see the head of the file.
    fn look(&mut self, now: Instant) {
        let spins = self.config.interrupt_on == InterruptOn::StartOfBlock
            && self.reassembler.next_deadline().is_some();
        if self.station.interrupt() {
            self.station.acknowledge();
            self.handling = Handling::Acknowledge;
            return;
        }
        self.handling = match self.config.copier {
            _ if self.station.waiting() == 0 && spins => Handling::Spin,
            _ if self.station.waiting() == 0 => Handling::Off,
            Copier::Processor => {
                self.receiving_words = self.config.station.line.cell_words();
                self.marks.push((now, Mark::ReadBegun));
                Handling::Bus
            }
            Copier::Engine(time) => {
                self.engine_done.get_or_insert(now + time);
                Handling::Engine
            }
        };
    }

    fn take_cell(&mut self, now: Instant) {
        self.marks.push((now, Mark::ReadDone));
        self.received_cell = self.station.handle_read();
        self.handling = Handling::Work;
    }

    fn reassemble(&mut self, now: Instant) {
        let Some(Cell { msdl, body }) = self.received_cell.take() else {
            return;
        };
        self.reassembler.handle_cell(now, msdl, &body);
        self.marks.push((now, Mark::Handled));
        while let Some(event) = self.reassembler.poll_event() {
            if let Event::Block { bytes, .. } = event {
                self.delivered.push_back(bytes);
            }
        }
    }
}
