//! A workstation: its processor or processors, the MSDL driver, a program, and the station.
//!
//! Three activities share the processor, the first that has something to do before the others
//! whenever an operation ends:
//! ```text
//! handler  Off --> Entry, on an interrupt --> look
//!          look: the interrupt is set again --> Acknowledge --> look
//!                a cell waits --> (Bus --> Memory) x words or Engine --> Work --> look
//!                else Off; or Spin until the next cell, where it would not interrupt
//! sender   Off --> (Header --> Full, while there is no room --> (Bus --> Memory) x words
//!                   or Engine) x cells --> Off
//! program  Idle --> Before --> Sending, until the sender is done --> After --> Idle
//!          Idle --> Wake, when a block has been received --> Idle
//!          Idle --> Work --> Idle
//! ```
//! A handler spins only where the condition is the start of a block, and a block is under
//! way: no other cell of it would call again. It gives up when the block times out. The
//! processor's busy time leaves spinning out.
//!
//! Since the handler comes first, cells that come faster than it can take them stop the
//! program for as long as they come.
//!
//! With two processors ([`Processors::Two`]) the first has the program and the second,
//! which does nothing else, sender and handler. It is not interrupted but looks, at the price
//! of a word. A send call returns when the block is handed over; one more waits behind the block
//! that is being sent, and the program behind that.
//!
//! Whoever drives a node asks [`Node::poll`] after each call for when to call again.

mod handler;
mod phase;
mod sender;

use std::collections::VecDeque;

use barewire_classic::msdl::{self, Config, Fragments, InterruptOn, Reassembler};
use barewire_formats::cbn::RIDS;
use barewire_units::{Duration, Instant, Rng};

use super::program::Program;
use super::running::{Runs, Step};
use super::{
    Cell, ConfigError, Copier, Costs, Passage, Slots, Stage, Station, StationConfig, TcpStats,
};
use crate::host::Processor;

use phase::{Handling, Sending};

/// What a node is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its station.
    pub station: StationConfig,
    /// What its operations cost.
    pub costs: Costs,
    /// Its receive driver.
    pub stage: Stage,
    /// Its processors.
    pub processors: Processors,
    /// Who copies what it receives.
    pub copier: Copier,
    /// Who copies what it sends. An engine each way, if both are engines.
    pub transmit_copier: Copier,
    /// Looks at each cell whether the transmit FIFO has room, and waits until it has. The
    /// driver that was measured does not: it takes sending to be always possible.
    pub waits_for_room: bool,
    /// The circuit that it sends on.
    pub send_vci: u16,
    /// The channel that the other end receives from.
    pub send_channel: usize,
    /// The circuit that its program receives on, if any.
    pub receive_vci: Option<u16>,
    /// The cells that interrupt.
    pub interrupt_on: InterruptOn,
}

/// The processors of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// One for everything.
    One,
    /// One for the program, one for the protocol.
    Two {
        /// What the program's pays for a block to pass from one to the other, either way.
        hand_over: Duration,
    },
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
        /// It is the block that a [`Program::Ping`] sent last, or a segment of TCP; other
        /// programs know no better.
        intact: bool,
    },
}

/// What to call, when it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// [`Node::handle_processor`] with this processor.
    Processor(usize),
    /// [`Node::handle_engine`].
    Engine,
    /// [`Node::handle_timer`].
    Timer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle,
    Before,
    Sending,
    After,
    Wake,
    Work(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Program,
    Sender,
    Handler,
}

/// Blocks that may be handed over to a second processor and not sent.
const HANDED_OVER_MAX: usize = 2;

/// A workstation.
pub struct Node {
    config: NodeConfig,
    station: Station,
    processors: [Processor; 2],
    /// The operation under way on each.
    running: [Option<Activity>; 2],
    due: VecDeque<(Instant, Due)>,
    /// The deadline that [`Node::poll`] was last told of.
    timer: Option<Instant>,

    program: Box<dyn Runs>,
    started: bool,
    doing: Doing,
    calling: Option<Fragments<Vec<u8>>>,
    next_rid: u8,

    sending: Sending,
    outgoing: VecDeque<Fragments<Vec<u8>>>,
    sending_cell: Option<Cell>,
    sending_words: u64,
    transmit_engine_free_at: Instant,
    /// Cells that the engine is copying to the station.
    in_engine: VecDeque<Cell>,

    handling: Handling,
    receiving_words: u64,
    /// When the engine has copied the cell at the head, if it has begun.
    engine_done: Option<Instant>,
    received_cell: Option<Cell>,
    /// Circuit and RID of the last cell handled.
    last_handled: Option<(u16, u8)>,
    reassembler: Reassembler,
    /// Circuits that the program receives on.
    program_vcis: Vec<u16>,
    /// Blocks that the program has not taken yet.
    delivered: VecDeque<Vec<u8>>,
    program_bytes: u64,

    marks: Vec<(Instant, Mark)>,
}

impl Node {
    /// A node that runs `program`; `rng` fills its blocks.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] where a number of its station is out of range.
    pub fn new(config: NodeConfig, program: Program, rng: Rng) -> Result<Self, ConfigError> {
        let body = config.station.line.body();
        let reassembler = Reassembler::new(Config {
            body,
            block_bytes_max: body.block_bytes_max(),
            ..Config::default()
        });
        let mut node = Self {
            config,
            station: Station::new(config.station)?,
            processors: [Processor::new(), Processor::new()],
            running: [None; 2],
            due: VecDeque::new(),
            timer: None,
            program: program.begin(rng),
            started: false,
            doing: Doing::Idle,
            calling: None,
            next_rid: 0,
            sending: Sending::Off,
            outgoing: VecDeque::new(),
            sending_cell: None,
            sending_words: 0,
            transmit_engine_free_at: Instant::ORIGIN,
            in_engine: VecDeque::new(),
            handling: Handling::Off,
            receiving_words: 0,
            engine_done: None,
            received_cell: None,
            last_handled: None,
            reassembler,
            program_vcis: config.receive_vci.into_iter().collect(),
            delivered: VecDeque::new(),
            program_bytes: 0,
            marks: Vec::new(),
        };
        if let Some(vci) = config.receive_vci {
            node.open(vci);
        }
        Ok(node)
    }

    /// Receives `vci` as well. The driver takes its cells as any other and throws the blocks
    /// away, since no program asks for them.
    pub fn open(&mut self, vci: u16) {
        self.station.listen(vci, self.config.interrupt_on);
        self.reassembler.open(vci);
    }

    /// Receives `vci` for its program, beside the circuit that it was made with.
    pub fn open_for_program(&mut self, vci: u16) {
        self.open(vci);
        self.program_vcis.push(vci);
    }

    /// Whether a [`Program::Outside`] would send a block at once.
    #[must_use]
    pub fn takes_from_outside(&self) -> bool {
        self.started && self.doing == Doing::Idle && self.program.takes_from_outside()
    }

    /// A [`Program::Outside`] sends `block` on the circuit `vci`, to who receives on `channel`.
    /// Call it only where [`takes_from_outside`](Self::takes_from_outside) is true.
    pub fn send_from_outside(
        &mut self,
        now: Instant,
        (vci, channel): (u16, usize),
        block: Vec<u8>,
    ) {
        (self.config.send_vci, self.config.send_channel) = (vci, channel);
        self.program.handle_from_outside(block);
        self.go_on(now);
    }

    /// The next block that a [`Program::Outside`] has received.
    pub fn poll_outside(&mut self) -> Option<Vec<u8>> {
        self.program.poll_outside()
    }

    /// Forgets what has happened, so that a node that runs for long does not fill the memory.
    pub fn forget_marks(&mut self) {
        self.marks.clear();
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

    /// Its processors: the program's, and the protocol's where that is another.
    #[must_use]
    pub fn processors(&self) -> &[Processor] {
        match self.config.processors {
            Processors::One => &self.processors[..1],
            Processors::Two { .. } => &self.processors,
        }
    }

    /// What has happened, in order.
    #[must_use]
    pub fn marks(&self) -> &[(Instant, Mark)] {
        &self.marks
    }

    /// What its driver has put together.
    #[must_use]
    pub const fn msdl_stats(&self) -> msdl::Stats {
        self.reassembler.stats()
    }

    /// Bytes of the blocks put together for its program.
    #[must_use]
    pub const fn program_bytes(&self) -> u64 {
        self.program_bytes
    }

    /// What its program's TCP has counted; zeros if that has none.
    #[must_use]
    pub fn tcp_stats(&self) -> TcpStats {
        self.program.tcp_stats()
    }

    /// Whether the program has sent its blocks, and a [`Program::Ping`] has them back or has
    /// given them up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.started && self.program.is_done()
    }

    /// The next call that the node wants, and when.
    pub fn poll(&mut self) -> Option<(Instant, Due)> {
        self.due.pop_front()
    }

    /// The program begins.
    pub fn start(&mut self, now: Instant) {
        self.started = true;
        self.go_on(now);
    }

    /// A frame begins to pass the station.
    pub fn handle_frame(&mut self, now: Instant, slots: &mut Slots) -> Passage {
        self.station.handle_frame(now, slots)
    }

    /// The last word of a cell is in the receive FIFO.
    pub fn handle_arrival(&mut self, now: Instant) {
        self.station.handle_arrival();
        self.prepare_engine(now);
        if self.handling == Handling::Spin {
            self.look(now);
        }
        self.go_on(now);
    }

    /// The operation under way on `processor` is done.
    pub fn handle_processor(&mut self, now: Instant, processor: usize) {
        match self.running.get_mut(processor).and_then(Option::take) {
            Some(Activity::Program) => self.program_goes_on(now),
            Some(Activity::Sender) => self.sender_goes_on(now),
            Some(Activity::Handler) => self.handler_goes_on(now),
            None => {}
        }
        self.go_on(now);
    }

    /// The engine has copied a cell to a transmit FIFO.
    pub fn handle_engine(&mut self, now: Instant) {
        if let Some(cell) = self.in_engine.pop_front() {
            self.cell_written(now, cell);
        }
    }

    /// A deadline has come.
    pub fn handle_timer(&mut self, now: Instant) {
        self.reassembler.handle_timeout(now);
        self.take_blocks();
        if self.handling == Handling::Spin {
            self.look(now);
        }
        self.go_on(now);
    }

    /// Begins the next operation of each processor that has none.
    fn go_on(&mut self, now: Instant) {
        self.decide(now);
        for processor in 0..self.processors().len() {
            if self.running[processor].is_some() {
                continue;
            }
            if let Some((activity, cost)) = self.next_operation(now, processor) {
                self.running[processor] = Some(activity);
                let done = self.processors[processor].begin(now, cost);
                self.due.push_back((done, Due::Processor(processor)));
            }
        }
        self.set_timer();
    }

    fn next_operation(&mut self, now: Instant, processor: usize) -> Option<(Activity, Duration)> {
        let one = self.config.processors == Processors::One;
        let protocol = one || processor == 1;
        if protocol {
            self.look_for_cells();
            if self.handling != Handling::Off {
                // While it spins nothing else runs.
                return Some((Activity::Handler, self.handler_cost(now)?));
            }
            if let Some(cost) = self.sender_cost(now) {
                return Some((Activity::Sender, cost));
            }
        }
        let program = one || processor == 0;
        let cost = self.program_cost().filter(|_| program)?;
        Some((Activity::Program, cost))
    }

    fn set_timer(&mut self) {
        let spins = self.handling == Handling::Spin;
        let time_out = self.reassembler.next_deadline().filter(|_| spins);
        let deadline = self.program.next_deadline().into_iter().chain(time_out);
        let deadline = deadline.min();
        if deadline != self.timer {
            self.timer = deadline;
            self.due.extend(deadline.map(|at| (at, Due::Timer)));
        }
    }

    /// What a program that has nothing to do does next.
    fn decide(&mut self, now: Instant) {
        if self.doing != Doing::Idle || !self.started {
            return;
        }
        if self.wakes() {
            return;
        }
        match self.program.next(now) {
            Step::Send(block) => self.call(now, block),
            Step::Work(time) => self.doing = Doing::Work(time),
            Step::Wait => {
                // What it has just done may have made room for a block.
                self.wakes();
            }
        }
    }

    /// Lets a receive call return, if there is a block and the program takes it.
    fn wakes(&mut self) -> bool {
        let wakes = !self.delivered.is_empty() && self.program.takes_blocks();
        if wakes {
            self.doing = Doing::Wake;
        }
        wakes
    }

    fn call(&mut self, now: Instant, block: Vec<u8>) {
        let body = self.config.station.line.body();
        let (vci, rid) = (self.config.send_vci, self.next_rid);
        self.next_rid = (rid + 1) % RIDS as u8;
        // A block that is too long has no cells, and is never received.
        self.calling = Fragments::new(body, vci, rid, block).ok();
        self.doing = Doing::Before;
        self.marks.push((now, Mark::Call));
    }

    /// What a block costs to pass to another processor.
    fn hand_over(&self) -> Duration {
        match self.config.processors {
            Processors::One => Duration::ZERO,
            Processors::Two { hand_over } => hand_over,
        }
    }

    fn program_cost(&self) -> Option<Duration> {
        let costs = &self.config.costs;
        Some(match self.doing {
            Doing::Idle | Doing::Sending => return None,
            Doing::Before => costs.driver.send_before + self.hand_over(),
            Doing::After => costs.driver.send_after,
            Doing::Wake => costs.driver.wake + self.hand_over(),
            Doing::Work(time) => time,
        })
    }

    fn program_goes_on(&mut self, now: Instant) {
        match self.doing {
            Doing::Idle | Doing::Sending => {}
            Doing::Before => {
                self.doing = Doing::Sending;
                self.pass_block();
            }
            Doing::After => {
                self.marks.push((now, Mark::Returned));
                self.doing = Doing::Idle;
                self.program.handle_sent();
            }
            Doing::Wake => self.block_received(now),
            Doing::Work(_) => self.doing = Doing::Idle,
        }
    }

    /// Gives the block of the call to the sender, if there is room, and goes on where the sender
    /// has a processor of its own.
    fn pass_block(&mut self) {
        if self.doing != Doing::Sending || self.outgoing.len() >= HANDED_OVER_MAX {
            return;
        }
        let block = self.calling.take();
        if block.is_none() || self.config.processors != Processors::One {
            self.doing = Doing::After;
        }
        self.outgoing.extend(block);
    }

    /// The sender is done with a block.
    fn block_sent(&mut self) {
        if self.config.processors == Processors::One {
            self.doing = Doing::After;
        } else {
            self.pass_block();
        }
    }

    fn block_received(&mut self, now: Instant) {
        self.doing = Doing::Idle;
        if let Some(block) = self.delivered.pop_front() {
            let intact = self.program.handle_block(now, block);
            self.marks.push((now, Mark::Received { intact }));
        }
    }
}
