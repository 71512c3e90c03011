//! Two workstations with Penn's interface, and a line each way, that carry packets from outside: each IP packet
//! is a PDU of AAL5 behind LLC/SNAP (RFC 2684), cell by cell.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Host` | processor | a step of the sending driver is over |
//! | `Burst` | bus | its words are in the segmenter's FIFO |
//! | `Cell` | line | a cell begins to leave, and to come in at the other end |
//! | `Idle` | line | the last cell of a block has left |
//! | `Stored` | interface | the pipeline is through with a cell: the core takes it |
//! | `Read` | bus | the host has begun to read, or has the body of a cell |
//! | `Copied` | processor | the packet is the program's |
//!
//! The sending half of a station is that of the experiment `write`, with the driver's two buffers, the receiving half
//! that of `receive`. As there, the halves do not take processor or bus away from each other.

use std::collections::VecDeque;

use barewire_classic::sar::penn::{ListRef, Penn, PennConfig};
use barewire_classic::sar::segment::{Aal5Segmenter, aal5_cells};
use barewire_classic::sar::{Aal, Reassembler as _};
use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_formats::aal5;
use barewire_formats::atm::{CELL_BYTES, HeaderRepr, Interface, PayloadType};
use barewire_models::penn::{
    Action, Driver, Path, Processor, Reassembler, Segmenter, State, Streaming,
};
use barewire_units::Instant;

use super::capture::{self, BENCHMARK};
use super::parameters::Parameters;
use super::reception::checked;
use crate::emulation::{self, Carries, HostEra, Losses, SNAP, Stations, View, Wanted};
use crate::error::SystemError;
use crate::experiment::LinkCapture;
use crate::refuse::within;

/// The longest packet, unless another is asked for: that of RFC 1626.
const MTU_BYTES: usize = 9180;
/// The longest that fits a PDU behind its LLC/SNAP.
const MTU_BYTES_MAX: usize = aal5::PAYLOAD_BYTES_MAX - SNAP.len();
/// Where a sending driver has its buffers, and a program its packet.
const BUFFERS: u64 = 1 << 30;
const PROGRAM: u64 = 1 << 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Host,
    Burst,
    Cell,
    Idle,
    Stored,
    Read,
    Copied,
}

/// What happens at a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Happens(u16, What);

impl Event for Happens {
    fn digest(&self) -> u64 {
        u64::from(self.0) << 8 | self.1 as u64
    }
}

/// The sending half of a station.
struct Sending {
    driver: Driver,
    bus: Streaming,
    burst_pending: bool,
    segmenter: Segmenter,
    cell_pending: bool,
    /// The line is sending a block, where hosts take no time.
    is_busy: bool,
    cells: VecDeque<[u8; CELL_BYTES]>,
}

/// The receiving half.
struct Receiving {
    pipeline: Reassembler,
    stored: VecDeque<[u8; CELL_BYTES]>,
    core: Penn,
    processor: Processor,
    bus: Streaming,
    reading: Option<(ListRef, Vec<u8>)>,
}

pub(super) struct Carrying {
    stations: Stations,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
    era: HostEra,
    /// Bytes of the host in a cell.
    cell_bytes: u64,
    losses: Losses,
    /// Cells: sent, lost at random, without a cell manager.
    cells: [u64; 3],
    lines: Vec<LinkCapture>,
}

/// A line that carries packets.
pub(super) type Emulation = emulation::Emulation<Carrying>;

impl Emulation {
    pub(super) fn new(
        parameters: &Parameters,
        seed: u64,
        wanted: &Wanted,
    ) -> Result<Self, SystemError> {
        wanted.check()?;
        within("stations", wanted.stations, 2..=2)?;
        let mtu = wanted.mtu(MTU_BYTES, MTU_BYTES_MAX)?;
        let line = |from: u16| {
            let mut line = capture::line(wanted.packets_per_link);
            line.link = format!("line from station {from}");
            line
        };
        let recorded = if wanted.packets_per_link > 0 { 2 } else { 0 };
        let receiving = |_| Receiving::new(parameters);
        Ok(Self {
            sim: Simulator::new(),
            carrying: Carrying {
                stations: Stations::new(wanted, mtu),
                sending: (0..2).map(|_| Sending::new(parameters)).collect(),
                receiving: (0..2).map(receiving).collect::<Result<_, _>>()?,
                era: wanted.host_era,
                cell_bytes: parameters.segmenter.payload.as_bytes(),
                losses: wanted.losses(seed),
                cells: [0; 3],
                lines: (0..recorded).map(line).collect(),
            },
            description: format!(
                "Penn ATM interface: two workstations, a line of {} each way, IP behind LLC/SNAP in AAL5",
                parameters.line.rate
            ),
        })
    }
}

impl Sending {
    fn new(parameters: &Parameters) -> Self {
        let buffer_bytes = parameters.driver.buffer.as_bytes();
        Self {
            driver: Driver::new(Path::Copied, parameters.processor(), BUFFERS, buffer_bytes),
            bus: Streaming::new(parameters.bus),
            burst_pending: false,
            segmenter: parameters.segmenter(),
            cell_pending: false,
            is_busy: false,
            cells: VecDeque::new(),
        }
    }

    fn start(&mut self, now: Instant, bytes: u64) {
        self.segmenter.start(now, bytes);
        self.bus.start(bytes);
    }
}

impl Receiving {
    fn new(parameters: &Parameters) -> Result<Self, SystemError> {
        let mut core = Penn::new(PennConfig {
            interface: Interface::Uni,
            circuits: parameters.reassembler.circuits,
            datagrams: parameters.reassembler.datagrams,
            buffer_cells: parameters.reassembler.buffer_cells,
            pdu_bytes: aal5::PDU_BYTES_MAX,
            check_sequence: false,
            timeout: parameters.reassembler.timeout,
        });
        let no_place = |_| SystemError::Contradiction("reassembler.circuits: none".into());
        core.open(BENCHMARK, Aal::Aal5).map_err(no_place)?;
        Ok(Self {
            pipeline: parameters.reassembler(),
            stored: VecDeque::new(),
            core,
            processor: parameters.processor(),
            bus: Streaming::new(parameters.bus),
            reading: None,
        })
    }
}

impl World for Carrying {
    type Event = Happens;

    fn handle(&mut self, Happens(station, what): Happens, sim: &mut Simulator<Happens>) {
        let at = usize::from(station);
        match what {
            What::Host => self.sending[at].driver.handle_done(),
            What::Burst => self.burst(at, sim.now()),
            What::Cell => self.cell(at, sim),
            What::Idle => {
                self.sending[at].is_busy = false;
                self.sending[at].driver.handle_idle();
            }
            What::Stored => self.store(at, sim.now()),
            What::Read => self.read(at, sim),
            What::Copied => self.copied(at, sim.now()),
        }
        self.go_on(at, sim);
    }
}

impl Carrying {
    /// Both halves begin what they can.
    fn go_on(&mut self, at: usize, sim: &mut Simulator<Happens>) {
        self.write(at, sim.now());
        self.drive(at, sim);
        self.keep_streaming(at, sim);
        self.serve(at, sim);
    }

    /// The host begins to write the next packet, if it is not writing.
    fn write(&mut self, at: usize, now: Instant) {
        let sending = &mut self.sending[at];
        let is_free = match self.era {
            HostEra::Plan => sending.driver.state() == State::Outside,
            HostEra::None => !sending.is_busy,
        };
        if !is_free {
            return;
        }
        let Some(packet) = self.stations.begin(at) else {
            return;
        };
        let payload = [&SNAP[..], &packet].concat();
        let mut cells = vec![0; aal5_cells(payload.len()) * CELL_BYTES];
        let header = HeaderRepr::user(BENCHMARK, PayloadType::USER);
        let segmenter = Aal5Segmenter::new(header, Interface::Uni);
        // The packet is no longer than the network carries, so its payload fits a PDU.
        if segmenter.segment(&payload, 0, &mut cells).is_err() {
            return;
        }
        let cells = cells.chunks_exact(CELL_BYTES);
        sending
            .cells
            .extend(cells.filter_map(|cell| cell.first_chunk::<CELL_BYTES>()));
        let bytes = aal5_cells(payload.len()) as u64 * self.cell_bytes;
        match self.era {
            HostEra::Plan => sending.driver.write(PROGRAM, bytes),
            HostEra::None => {
                sending.is_busy = true;
                sending.start(now, bytes);
            }
        }
    }

    /// Does what the driver wants.
    fn drive(&mut self, at: usize, sim: &mut Simulator<Happens>) {
        while let Some(action) = self.sending[at].driver.poll() {
            match action {
                Action::Run(time) => after(sim, at, time, What::Host),
                Action::Start(bytes) => self.sending[at].start(sim.now(), bytes),
                Action::Return => self.write(at, sim.now()),
            }
        }
    }

    fn burst(&mut self, at: usize, now: Instant) {
        let sending = &mut self.sending[at];
        sending.burst_pending = false;
        if let Some(bytes) = sending.bus.poll(now) {
            sending.segmenter.handle_words(now, bytes);
        }
    }

    fn cell(&mut self, at: usize, sim: &mut Simulator<Happens>) {
        let now = sim.now();
        let sending = &mut self.sending[at];
        sending.cell_pending = false;
        let Some(segment) = sending.segmenter.poll(now) else {
            return;
        };
        if segment.last {
            let free = sending.segmenter.line_free();
            at_time(sim, at, free, What::Idle);
        }
        if let Some(cell) = sending.cells.pop_front() {
            self.leave(at, cell, sim);
        }
    }

    /// A cell on the line, which is at the other end at once.
    fn leave(&mut self, from: usize, cell: [u8; CELL_BYTES], sim: &mut Simulator<Happens>) {
        let now = sim.now();
        self.cells[0] += 1;
        if let Some(line) = self.lines.get_mut(from) {
            line.record(now, || capture::record(now, &cell));
        }
        if self.losses.hit() {
            self.cells[1] += 1;
            return;
        }
        let to = 1 - from;
        let receiving = &mut self.receiving[to];
        match receiving.pipeline.handle_cell(now) {
            Some(passage) => {
                receiving.stored.push_back(cell);
                at_time(sim, to, passage.stored, What::Stored);
            }
            None => self.cells[2] += 1,
        }
    }

    /// Lets the next burst and the next cell come.
    fn keep_streaming(&mut self, at: usize, sim: &mut Simulator<Happens>) {
        let sending = &mut self.sending[at];
        let room = sending.segmenter.room_bytes();
        sending.bus.offer_room(sim.now(), room);
        if let (false, Some(end)) = (sending.burst_pending, sending.bus.next_deadline()) {
            sending.burst_pending = true;
            at_time(sim, at, end, What::Burst);
        }
        if let (false, Some(slot)) = (sending.cell_pending, sending.segmenter.next_deadline()) {
            sending.cell_pending = true;
            at_time(sim, at, slot, What::Cell);
        }
    }

    fn store(&mut self, at: usize, now: Instant) {
        let receiving = &mut self.receiving[at];
        if let Some(cell) = receiving.stored.pop_front() {
            receiving.core.handle_timeout(now);
            receiving.core.handle_cell(now, &cell);
        }
    }

    /// Lets the host begin with the next PDU.
    fn serve(&mut self, at: usize, sim: &mut Simulator<Happens>) {
        while self.receiving[at].reading.is_none() {
            let receiving = &mut self.receiving[at];
            let Some(completion) = receiving.core.poll_completion() else {
                return;
            };
            // What was lost costs the host nothing here.
            let Ok(list) = completion.result else {
                continue;
            };
            receiving.reading = Some((list, Vec::new()));
            if self.era == HostEra::Plan {
                let bytes = self.stations.mtu_bytes() as u64;
                let call = receiving.processor.costs().system_call;
                let time = call + receiving.processor.map(BUFFERS, bytes);
                after(sim, at, time, What::Read);
            } else {
                if let Some((list, bytes)) = &mut receiving.reading {
                    while let Some(body) = receiving.core.read(*list) {
                        bytes.extend_from_slice(body.bytes());
                    }
                }
                self.copied(at, sim.now());
            }
        }
    }

    /// The body of the next cell over the bus; after the last one the copy.
    fn read(&mut self, at: usize, sim: &mut Simulator<Happens>) {
        let now = sim.now();
        let receiving = &mut self.receiving[at];
        receiving.bus.poll(now);
        let Some((list, bytes)) = &mut receiving.reading else {
            return;
        };
        if let Some(body) = receiving.core.read(*list) {
            let more = body.bytes().len() as u64;
            bytes.extend_from_slice(body.bytes());
            receiving.bus.start(more);
            receiving.bus.offer_room(now, more);
            let end = receiving.bus.next_deadline().unwrap_or(now);
            at_time(sim, at, end, What::Read);
        } else {
            let time = receiving
                .processor
                .copy(BUFFERS, PROGRAM, bytes.len() as u64);
            after(sim, at, time, What::Copied);
        }
    }

    /// The PDU is the program's, which checks it.
    fn copied(&mut self, at: usize, now: Instant) {
        let Some((_, bytes)) = self.receiving[at].reading.take() else {
            return;
        };
        let packet = checked(Aal::Aal5, &bytes).and_then(|it| it.strip_prefix(&SNAP));
        if let Some(packet) = packet {
            self.stations.give(now, at, packet.to_vec());
        }
    }
}

fn at_time(sim: &mut Simulator<Happens>, station: usize, time: Instant, what: What) {
    let station = station as u16;
    sim.at(time, Class::NORMAL, Node(station), Happens(station, what));
}

fn after(sim: &mut Simulator<Happens>, station: usize, time: barewire_units::Duration, what: What) {
    let at = sim.now() + time;
    at_time(sim, station, at, what);
}

impl Carries for Carrying {
    fn stations(&self) -> &Stations {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations {
        &mut self.stations
    }

    fn begin(&mut self, station: usize, sim: &mut Simulator<Happens>) {
        self.go_on(station, sim);
    }

    fn view(&self, _now: Instant) -> View {
        let carrying = self;
        let waiting = |sending: &Sending| !sending.cells.is_empty();
        let [sent, lost, unmanaged] = carrying.cells;
        View {
            what: "interfaces that have cells to send",
            stations: vec![0.0, 0.5],
            carriers: vec![
                (0.0, vec![waiting(&carrying.sending[0])]),
                (0.5, vec![waiting(&carrying.sending[1])]),
            ],
            counts: vec![
                ("cells sent", sent),
                ("cells lost on the line", lost),
                ("cells without a cell manager", unmanaged),
            ],
        }
    }

    fn take_links(&mut self) -> Vec<LinkCapture> {
        std::mem::take(&mut self.lines)
    }

    fn rest(&mut self) {
        self.stations.is_over();
    }
}

#[cfg(test)]
mod tests;
