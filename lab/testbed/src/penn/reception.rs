//! The receiving side as a world: a line full of cells of many circuits, the pipeline, the
//! reassembler's core, and a host that reads.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Slot` | line | a cell of some circuit comes in, or is lost on the way, or the slot is empty |
//! | `Stored` | interface | the pipeline is through with a cell: the core takes it |
//! | `Read` | bus | the host has begun to read, or has the body of a cell |
//! | `Copied` | processor | the message is the program's |

use std::collections::VecDeque;

use barewire_classic::sar::penn::{ListRef, Penn, PennConfig};
use barewire_classic::sar::segment::{Aal5Segmenter, Aal34Segmenter, aal5_cells, aal34_cells};
use barewire_classic::sar::{Aal, Reassembler as _};
use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_formats::aal5::{self, Pdu, PduRepr};
use barewire_formats::aal34::{CPCS_HEADER_BYTES, CpcsPdu, CpcsRepr};
use barewire_formats::atm::{CELL_BYTES, HeaderRepr, Interface, PayloadType, Vc};
use barewire_models::penn::{Processor, Reassembler, Streaming};
use barewire_units::{ByteSize, Duration, Instant, Rng};

use super::capture;
use super::parameters::Parameters;
use super::world::Times;
use crate::experiment::LinkCapture;
use crate::figures::seconds;

const LINE: Node = Node(0);
const INTERFACE: Node = Node(1);
const BUS: Node = Node(2);
const PROCESSOR: Node = Node(3);
/// The first circuit; those below are reserved.
const FIRST_VCI: u16 = 32;
/// Where the driver has the message, and where the program wants it.
const BUFFER: u64 = 1 << 30;
const PROGRAM: u64 = 1 << 28;
/// Bytes of a message that say which one it is.
const NUMBER_BYTES: usize = 8;

/// What comes in.
pub struct Load {
    pub circuits: usize,
    pub aal: Aal,
    pub message_bytes: usize,
    pub messages: usize,
    /// Slots with a cell.
    pub load_per_cent: u64,
    pub losses_per_million: u64,
    /// Whether the host needs time.
    pub host_counts: bool,
    /// Cells of the line to record.
    pub packets: usize,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delivered,
    /// The CAM had no place for its circuit.
    NoCircuit,
    /// A cell of it was lost on the way.
    CellLost,
    /// A cell of it found no cell manager.
    NoManager,
    /// A cell of it was refused, for want of a buffer or a place in the datagram CAM.
    NoBuffer,
    /// All its cells came, but it went under with the message before it.
    Spoilt,
}

/// What a run has found.
pub struct Reception {
    /// Of each message.
    pub fates: Vec<Fate>,
    /// Messages that were handed to the program and were none that was sent.
    pub damaged: u64,
    /// From the first cell of a message to the program.
    pub times: Times,
    /// Cells on the line, and what happened to them.
    pub cells: Cells,
    message_bytes: usize,
    last_cell: Instant,
    last_message: Instant,
    pub capture: Option<LinkCapture>,
    pub hash: u64,
}

/// Cells on the line: each is in one of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    pub sent: u64,
    pub lost: u64,
    pub no_manager: u64,
    /// Joined to a message.
    pub taken: u64,
    /// Of a circuit that is not open.
    pub no_circuit: u64,
    /// The cell at which a message was given up.
    pub refused: u64,
    /// Of a message that had been given up, or whose first cell had not come.
    pub orphaned: u64,
}

impl Reception {
    /// Message bytes on the line.
    pub fn offered_mbps(&self) -> f64 {
        self.mbps(self.fates.len(), self.last_cell)
    }

    /// Message bytes that the program had, until it had the last.
    pub fn delivered_mbps(&self) -> f64 {
        let delivered = self.fates.iter().filter(|&&fate| fate == Fate::Delivered);
        self.mbps(delivered.count(), self.last_message.max(self.last_cell))
    }

    fn mbps(&self, messages: usize, until: Instant) -> f64 {
        (messages * self.message_bytes * 8) as f64 / seconds(until.since_origin()) / 1e6
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveEvent {
    Slot,
    Stored,
    Read,
    Copied,
}

impl Event for ReceiveEvent {
    fn digest(&self) -> u64 {
        *self as u64
    }
}

/// A circuit on which a message is being sent.
struct Sending {
    circuit: usize,
    message: usize,
    cells: Vec<u8>,
    /// Bytes of them that are sent.
    sent: usize,
}

/// A message as the sender knows it.
#[derive(Clone, Copy)]
struct Message {
    begun: Instant,
    circuit: usize,
    lost: bool,
    unmanaged: bool,
    refused: bool,
    delivered: bool,
}

/// What the host is reading.
struct Reading {
    list: ListRef,
    aal: Aal,
    bytes: Vec<u8>,
}

struct Station<'a> {
    load: &'a Load,
    rng: Rng,
    slot: Duration,
    segmenters: Vec<Aal34Segmenter>,
    sending: Vec<Sending>,
    messages: Vec<Message>,
    pipeline: Reassembler,
    /// In the pipeline: the message that a cell is of, and the cell.
    stored: VecDeque<(usize, [u8; CELL_BYTES])>,
    core: Penn,
    open: usize,
    processor: Processor,
    bus: Streaming,
    reading: Option<Reading>,
    found: Reception,
}

/// Runs `load` until its last message has been read.
pub fn receive(parameters: &Parameters, load: &Load, rng: Rng) -> Reception {
    let mut core = Penn::new(PennConfig {
        interface: Interface::Uni,
        circuits: parameters.reassembler.circuits,
        datagrams: parameters.reassembler.datagrams,
        buffer_cells: parameters.reassembler.buffer_cells,
        pdu_bytes: aal5::PDU_BYTES_MAX,
        check_sequence: false,
        timeout: parameters.reassembler.timeout,
    });
    let open = (0..load.circuits).take_while(|&circuit| core.open(vc(circuit), load.aal).is_ok());
    let open = open.count();
    let mut station = Station {
        load,
        rng,
        slot: parameters
            .line
            .rate
            .time_to_send(ByteSize::from(CELL_BYTES)),
        segmenters: (0..load.circuits).map(class4_segmenter).collect(),
        sending: Vec::new(),
        messages: Vec::with_capacity(load.messages),
        pipeline: parameters.reassembler(),
        stored: VecDeque::new(),
        core,
        open,
        processor: parameters.processor(),
        bus: Streaming::new(parameters.bus),
        reading: None,
        found: Reception {
            fates: Vec::new(),
            damaged: 0,
            times: Times::default(),
            cells: Cells::default(),
            message_bytes: load.message_bytes,
            last_cell: Instant::ORIGIN,
            last_message: Instant::ORIGIN,
            capture: (load.packets > 0).then(|| capture::line(load.packets)),
            hash: 0,
        },
    };
    for circuit in 0..load.circuits.min(load.messages) {
        station.next_message(circuit);
    }
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Class::NORMAL, LINE, ReceiveEvent::Slot);
    sim.run(&mut station);
    station.end(sim.trace_hash())
}

fn vc(circuit: usize) -> Vc {
    Vc {
        vpi: 0,
        vci: FIRST_VCI + circuit as u16,
    }
}

fn header(circuit: usize) -> HeaderRepr {
    HeaderRepr::user(vc(circuit), PayloadType::USER)
}

fn class4_segmenter(circuit: usize) -> Aal34Segmenter {
    Aal34Segmenter::new(header(circuit), Interface::Uni, 0)
}

/// The message with this number: the number, and then bytes that depend on it.
fn payload(number: usize, bytes: usize) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..bytes).map(|at| (at ^ number) as u8).collect();
    payload[..NUMBER_BYTES].copy_from_slice(&(number as u64).to_be_bytes());
    payload
}

impl World for Station<'_> {
    type Event = ReceiveEvent;

    fn handle(&mut self, event: ReceiveEvent, sim: &mut Simulator<ReceiveEvent>) {
        match event {
            ReceiveEvent::Slot => self.slot(sim),
            ReceiveEvent::Stored => self.store(sim.now()),
            ReceiveEvent::Read => self.read(sim),
            ReceiveEvent::Copied => self.copied(sim.now()),
        }
        self.serve(sim);
    }
}

impl Station<'_> {
    /// Begins a message on `circuit`, if there are any left.
    fn next_message(&mut self, circuit: usize) {
        let number = self.messages.len();
        if number == self.load.messages {
            return;
        }
        self.messages.push(Message {
            begun: Instant::ORIGIN,
            circuit,
            lost: false,
            unmanaged: false,
            refused: false,
            delivered: false,
        });
        let payload = payload(number, self.load.message_bytes);
        let mut cells = Vec::new();
        // Neither can fail: the sizes are checked with the inputs.
        let segmented = match self.load.aal {
            Aal::Aal5 => {
                cells.resize(aal5_cells(payload.len()) * CELL_BYTES, 0);
                let segmenter = Aal5Segmenter::new(header(circuit), Interface::Uni);
                segmenter.segment(&payload, 0, &mut cells)
            }
            Aal::Aal34 => {
                cells.resize(aal34_cells(payload.len()) * CELL_BYTES, 0);
                self.segmenters[circuit].segment(&payload, &mut cells)
            }
        };
        debug_assert!(segmented.is_ok());
        self.sending.push(Sending {
            circuit,
            message: number,
            cells,
            sent: 0,
        });
    }

    fn slot(&mut self, sim: &mut Simulator<ReceiveEvent>) {
        if self.rng.below(100) < self.load.load_per_cent {
            self.send(sim);
        }
        if !self.sending.is_empty() {
            sim.after(self.slot, Class::NORMAL, LINE, ReceiveEvent::Slot);
        }
    }

    /// A cell of a circuit that is drawn.
    fn send(&mut self, sim: &mut Simulator<ReceiveEvent>) {
        let now = sim.now();
        let at = self.rng.index(self.sending.len());
        let sending = &mut self.sending[at];
        let mut cell = [0; CELL_BYTES];
        cell.copy_from_slice(&sending.cells[sending.sent..][..CELL_BYTES]);
        let message = sending.message;
        if sending.sent == 0 {
            self.messages[message].begun = now;
        }
        sending.sent += CELL_BYTES;
        if sending.sent == sending.cells.len() {
            let circuit = self.sending.swap_remove(at).circuit;
            self.next_message(circuit);
        }
        self.found.cells.sent += 1;
        self.found.last_cell = now + self.slot;
        self.arrive(message, cell, sim);
    }

    fn arrive(
        &mut self,
        message: usize,
        cell: [u8; CELL_BYTES],
        sim: &mut Simulator<ReceiveEvent>,
    ) {
        let now = sim.now();
        if self.rng.ratio(self.load.losses_per_million, 1_000_000) {
            self.found.cells.lost += 1;
            self.messages[message].lost = true;
            return;
        }
        if let Some(capture) = &mut self.found.capture {
            capture.record(now, || capture::record(now, &cell));
        }
        match self.pipeline.handle_cell(now) {
            Some(passage) => {
                self.stored.push_back((message, cell));
                sim.at(
                    passage.stored,
                    Class::NORMAL,
                    INTERFACE,
                    ReceiveEvent::Stored,
                );
            }
            None => {
                self.found.cells.no_manager += 1;
                self.messages[message].unmanaged = true;
            }
        }
    }

    fn store(&mut self, now: Instant) {
        let Some((message, cell)) = self.stored.pop_front() else {
            return;
        };
        let refused = self.core.stats().cells_refused;
        self.core.handle_timeout(now);
        self.core.handle_cell(now, &cell);
        self.messages[message].refused |= self.core.stats().cells_refused > refused;
    }

    /// Lets the host begin with the next message.
    fn serve(&mut self, sim: &mut Simulator<ReceiveEvent>) {
        while self.reading.is_none() {
            let Some(completion) = self.core.poll_completion() else {
                return;
            };
            // What was lost costs the host nothing here.
            let Ok(list) = completion.result else {
                continue;
            };
            self.reading = Some(Reading {
                list,
                aal: completion.stream.aal(),
                bytes: Vec::new(),
            });
            if self.load.host_counts {
                let call = self.processor.costs().system_call;
                let time = call + self.processor.map(BUFFER, self.load.message_bytes as u64);
                sim.after(time, Class::NORMAL, BUS, ReceiveEvent::Read);
            } else {
                self.take_all(sim.now());
            }
        }
    }

    /// The body of the next cell over the bus; after the last one the copy.
    fn read(&mut self, sim: &mut Simulator<ReceiveEvent>) {
        let now = sim.now();
        self.bus.poll(now);
        let Some(reading) = &mut self.reading else {
            return;
        };
        if let Some(body) = self.core.read(reading.list) {
            let bytes = body.bytes().len() as u64;
            reading.bytes.extend_from_slice(body.bytes());
            self.bus.start(bytes);
            self.bus.offer_room(now, bytes);
            let end = self.bus.next_deadline().unwrap_or(now);
            sim.at(end, Class::NORMAL, BUS, ReceiveEvent::Read);
        } else {
            let bytes = reading.bytes.len() as u64;
            let time = self.processor.copy(BUFFER, PROGRAM, bytes);
            sim.after(time, Class::NORMAL, PROCESSOR, ReceiveEvent::Copied);
        }
    }

    fn take_all(&mut self, now: Instant) {
        if let Some(reading) = &mut self.reading {
            while let Some(body) = self.core.read(reading.list) {
                reading.bytes.extend_from_slice(body.bytes());
            }
        }
        self.copied(now);
    }

    /// The message is the program's, who checks it.
    fn copied(&mut self, now: Instant) {
        let Some(reading) = self.reading.take() else {
            return;
        };
        let Some(payload_found) = checked(reading.aal, &reading.bytes) else {
            return;
        };
        let number = payload_found
            .first_chunk()
            .map(|&bytes| u64::from_be_bytes(bytes));
        let sent = number
            .and_then(|number| usize::try_from(number).ok())
            .filter(|&number| number < self.messages.len())
            .filter(|&number| payload(number, self.load.message_bytes) == payload_found);
        match sent {
            Some(number) if !self.messages[number].delivered => {
                let message = &mut self.messages[number];
                message.delivered = true;
                self.found
                    .times
                    .add(now.saturating_duration_since(message.begun));
                self.found.last_message = now;
            }
            _ => self.found.damaged += 1,
        }
    }

    fn end(mut self, hash: u64) -> Reception {
        let stats = self.core.stats();
        let cells = &mut self.found.cells;
        cells.taken = stats.cells_taken;
        cells.no_circuit = stats.cells_unknown_vc;
        cells.refused = stats.cells_refused;
        cells.orphaned = stats.cells_orphaned;
        let fate = |message: &Message| match message {
            message if message.delivered => Fate::Delivered,
            message if message.circuit >= self.open => Fate::NoCircuit,
            message if message.lost => Fate::CellLost,
            message if message.unmanaged => Fate::NoManager,
            message if message.refused => Fate::NoBuffer,
            _ => Fate::Spoilt,
        };
        self.found.fates = self.messages.iter().map(fate).collect();
        self.found.hash = hash;
        self.found
    }
}

/// The payload of a PDU that its own checks pass.
pub fn checked(aal: Aal, pdu: &[u8]) -> Option<&[u8]> {
    match aal {
        Aal::Aal5 => {
            let repr = PduRepr::parse(&Pdu::new_checked(pdu).ok()?).ok()?;
            pdu.get(..repr.payload_bytes.into())
        }
        Aal::Aal34 => {
            let repr = CpcsRepr::parse(&CpcsPdu::new_checked(pdu).ok()?).ok()?;
            pdu.get(CPCS_HEADER_BYTES..)?
                .get(..repr.payload_bytes.into())
        }
    }
}
