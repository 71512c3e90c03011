//! Two workstations with the interface between them, as a world of events.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Host` | processor | a step of driver or program is over |
//! | `Burst` | bus | its words are in the segmenter's FIFO |
//! | `Cell` | line | a cell begins to leave, and to come in at the other end |
//! | `Idle` | line | the last cell of a block has left |

use barewire_des::stats::{Histogram, Tally};
use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_formats::atm::CELL_BYTES;
use barewire_models::penn::{
    Action, Driver, Passage, Path, Reassembler, Segment, Segmenter, State, Stats, Streaming,
};
use barewire_units::{Duration, Instant};

use super::capture;
use super::parameters::Parameters;
use super::program::{Next, Program};
use crate::experiment::LinkCapture;
use crate::figures::seconds;

const PROCESSOR: Node = Node(0);
const BUS: Node = Node(1);
const LINE: Node = Node(2);
/// Where the driver's buffers lie.
const BUFFERS: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PennEvent {
    Host,
    Burst,
    Cell,
    Idle,
}

impl Event for PennEvent {
    fn digest(&self) -> u64 {
        *self as u64
    }
}

/// Bytes that passed a point, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// After the first passed.
    bytes: u64,
    count: u64,
    first: Option<Instant>,
    last: Instant,
}

impl Flow {
    pub fn pass(&mut self, now: Instant, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            self.bytes += bytes;
            self.count += 1;
        }
        self.last = now;
    }

    /// All that passed, the first one too.
    pub fn number(&self) -> u64 {
        self.count + u64::from(self.first.is_some())
    }

    /// From the first to the last.
    pub fn time(&self) -> Duration {
        let first = self.first.unwrap_or(self.last);
        self.last.saturating_duration_since(first)
    }

    /// Bit/s between the first and the last.
    pub fn bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / seconds(self.time())
    }

    /// Seconds between one and the next, on average.
    pub fn spacing_s(&self) -> f64 {
        seconds(self.time()) / self.count as f64
    }
}

/// What the processor did for the program's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The program's own: it filled blocks, or gathered records.
    pub program: Duration,
    /// System calls, with what a fault costs.
    pub calls: Duration,
    /// Copies into the driver's buffers.
    pub copies: Duration,
    /// Transfers set up: status, flush, translation words, start.
    pub set_up: Duration,
}

impl Work {
    fn add(&mut self, state: State, time: Duration) {
        let part = match state {
            State::Copying => &mut self.copies,
            State::Mapping => &mut self.set_up,
            _ => &mut self.calls,
        };
        *part += time;
    }

    /// All of it.
    pub fn total(&self) -> Duration {
        self.program + self.calls + self.copies + self.set_up
    }
}

/// What a run has found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// From the first call to the return of the last, as the program's clock shows it.
    pub elapsed: Duration,
    /// When the last cell had left.
    pub drained: Duration,
    /// From the start of the first transfer to its first header.
    pub header: Duration,
    /// Bytes over the bus, burst by burst.
    pub bus: Flow,
    /// Whole cells that left.
    pub cells: Flow,
    /// What of them is the host's.
    pub payload: Flow,
    /// The first cell in the reassembler.
    pub passage: Option<Passage>,
    /// Bytes of the blocks that are in the other end's buffer.
    pub stored_bytes: u64,
    /// Whole cells that came into the other end's buffer.
    pub stored: Flow,
    /// Cells for which the other end had no cell manager.
    pub lost_cells: u64,
    /// What the processor did.
    pub work: Work,
    /// What the driver has counted.
    pub driver: Stats,
    /// The hash of all events.
    pub hash: u64,
}

/// The two workstations.
struct Stations {
    program: Program,
    /// Whether the processor works for the program, not for the driver.
    in_program: bool,
    driver: Driver,
    bus: Streaming,
    burst_pending: bool,
    segmenter: Segmenter,
    cell_pending: bool,
    reassembler: Reassembler,
    latency: Times,
    /// The line, if it is recorded.
    capture: Option<LinkCapture>,
    found: Run,
}

/// How long something took, each time.
#[derive(Default)]
pub struct Times {
    us: Tally,
    ps: Histogram,
}

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.us.add(seconds(time) * 1e6);
        self.ps.add(time.as_ps());
    }

    /// Of all; none of nothing.
    pub fn mean_us(&self) -> Option<f64> {
        (self.us.count() > 0).then(|| self.us.mean())
    }

    /// What 99 of 100 do not exceed.
    pub fn p99_us(&self) -> Option<f64> {
        (self.us.count() > 0).then(|| self.ps.per_mille(990) as f64 * 1e-6)
    }
}

/// A run, with what takes room.
pub struct Observed {
    pub run: Run,
    /// Of cells from the line to the other end's buffer.
    pub latency: Times,
    /// What went over the line, if it was asked for.
    pub capture: Option<LinkCapture>,
}

/// Runs `program` to its end and until the last cell is through.
pub fn run(parameters: &Parameters, path: Path, program: Program) -> Run {
    observe(parameters, path, program, 0).run
}

/// The same, with the first `packets` cells on the line.
pub fn observe(parameters: &Parameters, path: Path, program: Program, packets: usize) -> Observed {
    let buffer_bytes = parameters.driver.buffer.as_bytes();
    let mut stations = Stations {
        program,
        in_program: true,
        driver: Driver::new(path, parameters.processor(), BUFFERS, buffer_bytes),
        bus: Streaming::new(parameters.bus),
        burst_pending: false,
        segmenter: parameters.segmenter(),
        cell_pending: false,
        reassembler: parameters.reassembler(),
        latency: Times::default(),
        capture: (packets > 0).then(|| capture::line(packets)),
        found: Run::default(),
    };
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Class::NORMAL, PROCESSOR, PennEvent::Host);
    sim.run(&mut stations);
    Observed {
        run: Run {
            driver: stations.driver.stats(),
            lost_cells: stations.reassembler.lost(),
            hash: sim.trace_hash(),
            ..stations.found
        },
        latency: stations.latency,
        capture: stations.capture,
    }
}

impl World for Stations {
    type Event = PennEvent;

    fn handle(&mut self, event: PennEvent, sim: &mut Simulator<PennEvent>) {
        match event {
            PennEvent::Host if self.in_program => self.go_on(sim),
            PennEvent::Host => self.driver.handle_done(),
            PennEvent::Burst => self.burst(sim),
            PennEvent::Cell => self.cell(sim),
            PennEvent::Idle => {
                self.found.drained = sim.now().since_origin();
                self.driver.handle_idle();
            }
        }
        self.drive(sim);
        self.keep_streaming(sim);
    }
}

impl Stations {
    /// The program's next step.
    fn go_on(&mut self, sim: &mut Simulator<PennEvent>) {
        self.in_program = false;
        match self.program.next(&mut self.driver) {
            Next::InDriver => {}
            Next::Run(time) => {
                self.in_program = true;
                self.found.work.program += time;
                sim.after(time, Class::NORMAL, PROCESSOR, PennEvent::Host);
            }
            Next::Ended => self.found.elapsed = sim.now().since_origin(),
        }
    }

    /// Does what the driver wants.
    fn drive(&mut self, sim: &mut Simulator<PennEvent>) {
        while let Some(action) = self.driver.poll() {
            match action {
                Action::Run(time) => {
                    self.found.work.add(self.driver.state(), time);
                    sim.after(time, Class::NORMAL, PROCESSOR, PennEvent::Host);
                }
                Action::Start(bytes) => self.start(bytes, sim),
                Action::Return => self.go_on(sim),
            }
        }
    }

    fn start(&mut self, bytes: u64, sim: &mut Simulator<PennEvent>) {
        let ready = self.segmenter.start(sim.now(), bytes);
        if self.found.header.is_zero() {
            self.found.header = ready - sim.now();
        }
        self.bus.start(bytes);
    }

    fn burst(&mut self, sim: &mut Simulator<PennEvent>) {
        self.burst_pending = false;
        if let Some(bytes) = self.bus.poll(sim.now()) {
            self.segmenter.handle_words(sim.now(), bytes);
            self.found.bus.pass(sim.now(), bytes);
        }
    }

    fn cell(&mut self, sim: &mut Simulator<PennEvent>) {
        self.cell_pending = false;
        let Some(segment) = self.segmenter.poll(sim.now()) else {
            return;
        };
        self.leave(segment, sim.now());
        if segment.last {
            let free = self.segmenter.line_free();
            sim.at(free, Class::NORMAL, LINE, PennEvent::Idle);
        }
    }

    /// A cell on the line, which is at the other end at once.
    fn leave(&mut self, segment: Segment, now: Instant) {
        self.found.cells.pass(now, CELL_BYTES as u64);
        self.found.payload.pass(now, segment.bytes);
        if let Some(capture) = &mut self.capture {
            capture.record(now, || capture::model_cell(now));
        }
        if let Some(passage) = self.reassembler.handle_cell(now) {
            self.found.passage.get_or_insert(passage);
            self.found.stored_bytes += segment.bytes;
            self.found.stored.pass(passage.stored, CELL_BYTES as u64);
            self.latency
                .add(passage.stored.saturating_duration_since(now));
        }
    }

    /// Lets the next burst and the next cell come.
    fn keep_streaming(&mut self, sim: &mut Simulator<PennEvent>) {
        self.bus.offer_room(sim.now(), self.segmenter.room_bytes());
        if let (false, Some(end)) = (self.burst_pending, self.bus.next_deadline()) {
            self.burst_pending = true;
            sim.at(end, Class::NORMAL, BUS, PennEvent::Burst);
        }
        if let (false, Some(slot)) = (self.cell_pending, self.segmenter.next_deadline()) {
            self.cell_pending = true;
            sim.at(slot, Class::NORMAL, LINE, PennEvent::Cell);
        }
    }
}

/// Cells offered to a reassembler as fast as it takes them.
struct Flood {
    reassembler: Reassembler,
    cells_left: u64,
    stored: Flow,
}

impl World for Flood {
    type Event = PennEvent;

    fn handle(&mut self, _: PennEvent, sim: &mut Simulator<PennEvent>) {
        if let Some(passage) = self.reassembler.handle_cell(sim.now()) {
            self.stored.pass(passage.stored, CELL_BYTES as u64);
        }
        self.cells_left -= 1;
        if self.cells_left > 0 {
            let next = self.reassembler.next_free();
            sim.at(next, Class::NORMAL, LINE, PennEvent::Cell);
        }
    }
}

/// What a reassembler stores of `cells` cells that come as fast as it takes them, and
/// the hash of the events.
pub fn flood(parameters: &Parameters, cells: u64) -> (Flow, u64) {
    let mut flood = Flood {
        reassembler: parameters.reassembler(),
        cells_left: cells.max(1),
        stored: Flow::default(),
    };
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Class::NORMAL, LINE, PennEvent::Cell);
    sim.run(&mut flood);
    (flood.stored, sim.trace_hash())
}
