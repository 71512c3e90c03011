//! The Penn ATM host interface: all work per cell in hardware, everything above in the
//! host. Here are its segmenter ([`Segmenter`]) and its reassembler ([`Penn`]).
//!
//! | stage of the reassembler | work | here |
//! |---|---|---|
//! | cell manager | HEC; with class 4 CRC-10; VCI, MID, length | [`Penn::handle_cell`] |
//! | CAM look-up controller | two CAMs: circuits; datagrams by VCI and MID | `Cam` |
//! | linked-list manager | a list per circuit or datagram, appended at its tail for the network, removed at its head for the host | `Lists` |
//! | dual-port reassembly buffer | the bodies of the cells | `Lists` |
//!
//! The 4-bit sequence number is ignored on purpose: a circuit keeps the order, and a lost
//! cell shows in the length. [`PennConfig::check_sequence`] is a parameter to see what
//! that costs. The host opens circuits, gets a [`Completion`] with a list reference for
//! each whole datagram, and reads the list; the checks of the CPCS are the host's, done
//! in [`Reassembler::poll`]. The states are those of the parent's header. Where a full CAM
//! or an empty free list meets a new datagram, the datagram is given up and reported; what
//! is open already goes on.
//!
//! [`Operations`] counts what the hardware would do: the laboratory costs them in clocks.
//! Source: penn91, reassembler and segmenter. Size of the buffer, behaviour when full and
//! time-outs are OPEN there, and ours.

mod cam;
mod lists;
mod segmenter;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use barewire_formats::aal5;
use barewire_formats::aal34::{SEQUENCE_MODULUS, SarPdu, SarRepr, SegmentType};
use barewire_formats::atm::{CELL_BYTES, Cell, HeaderRepr, Interface, PAYLOAD_BYTES, Vc};
use barewire_units::{Duration, Instant};

use cam::Cam;
use lists::Lists;
pub use lists::{Body, ListRef};
pub use segmenter::{
    Generator, Segmenter, SegmenterError, SegmenterEvent, SegmenterState, SegmenterStats,
};

use barewire_units::Deadlines;

use super::{Aal, Loss, OpenError, Phase, Reassembler, Report, Stats, Step, Stream, unwrap_pdu};

/// Circuits that the CAM of the prototype holds.
pub const CIRCUITS: usize = 256;
/// Datagrams that the CAM of the prototype holds.
pub const DATAGRAMS: usize = 256;
/// Cells of the reassembly buffer: OPEN, enough for three of the longest messages.
pub const BUFFER_CELLS: usize = 4096;

/// Sizes and switches of a [`Penn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PennConfig {
    /// Which headers the cells have.
    pub interface: Interface,
    /// Places of the circuit CAM.
    pub circuits: usize,
    /// Places of the datagram CAM.
    pub datagrams: usize,
    /// Cells of the shared buffer.
    pub buffer_cells: usize,
    /// Bytes of one PDU, with all that surrounds the payload.
    pub pdu_bytes: usize,
    /// Whether class 4 sequence numbers are checked; the prototype does not.
    pub check_sequence: bool,
    /// From the first cell of a message to its last; [`Duration::MAX`] for ever.
    pub timeout: Duration,
}

impl Default for PennConfig {
    /// The prototype.
    fn default() -> Self {
        Self {
            interface: Interface::Uni,
            circuits: CIRCUITS,
            datagrams: DATAGRAMS,
            buffer_cells: BUFFER_CELLS,
            pdu_bytes: aal5::PDU_BYTES_MAX,
            check_sequence: false,
            timeout: Duration::from_s(1),
        }
    }
}

/// Operations of the hardware so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Cells through the cell manager.
    pub cells: u64,
    /// Look-ups, insertions and removals in the circuit CAM.
    pub circuit_cam: u64,
    /// The same in the datagram CAM.
    pub datagram_cam: u64,
    /// Appends, removals and releases of the linked-list manager.
    pub lists: u64,
}

/// What the interface tells its host about a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Where it came.
    pub stream: Stream,
    /// The list that holds it, or how it was lost.
    pub result: Result<ListRef, Loss>,
}

/// A datagram that is not complete.
#[derive(Clone, Copy)]
struct Assembly {
    list: ListRef,
    bytes: usize,
    next_sequence: u8,
    deadline: Instant,
}

/// An open circuit. With class 4 the datagram CAM holds what is open on it.
struct Circuit {
    aal: Aal,
    phase: Phase,
    assembly: Option<Assembly>,
}

/// The reassembler of the Penn interface, and what its host does with it.
pub struct Penn {
    config: PennConfig,
    circuits: Cam<Vc, Circuit>,
    datagrams: Cam<(Vc, u16), Assembly>,
    lists: Lists,
    deadlines: Deadlines<Stream>,
    completions: VecDeque<Completion>,
    stats: Stats,
}

impl Penn {
    /// An interface after reset.
    #[must_use]
    pub fn new(config: PennConfig) -> Self {
        Self {
            config,
            circuits: Cam::new(config.circuits),
            datagrams: Cam::new(config.datagrams),
            lists: Lists::new(config.buffer_cells),
            deadlines: Deadlines::new(config.timeout),
            completions: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Operations of the hardware so far.
    #[must_use]
    pub const fn operations(&self) -> Operations {
        Operations {
            cells: self.stats.cells,
            circuit_cam: self.circuits.operations(),
            datagram_cam: self.datagrams.operations(),
            lists: self.lists.operations(),
        }
    }

    /// Cells of the buffer that hold nothing.
    #[must_use]
    pub const fn free_cells(&self) -> usize {
        self.lists.free_cells()
    }

    /// The next datagram that is whole or lost. Its list is the host's, who must read or
    /// release it.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The cell at the head of a list, which is removed. The reference ends with the last.
    pub fn read(&mut self, list: ListRef) -> Option<Body> {
        self.lists.remove(list)
    }

    /// Drops what is left of a list.
    pub fn release(&mut self, list: ListRef) {
        self.lists.release(list);
    }

    fn aal5_cell(&mut self, now: Instant, vc: Vc, last: bool, chunk: &[u8; PAYLOAD_BYTES]) {
        let Some(circuit) = self.circuits.found(vc) else {
            return;
        };
        let (skipping, open) = (circuit.phase == Phase::Skipping, circuit.assembly.take());
        circuit
            .phase
            .step(if last { Step::LastCell } else { Step::Cell });
        if skipping {
            self.stats.cells_orphaned += 1;
            return;
        }
        let stream = Stream { vc, mid: None };
        let joined = match open {
            Some(assembly) => self.join(stream, assembly, chunk),
            None => self.begin(now, stream, 0, chunk),
        };
        match (joined, self.circuits.found(vc)) {
            (Some(assembly), _) if last => self.complete(stream, assembly),
            (Some(assembly), Some(circuit)) => circuit.assembly = Some(assembly),
            (None, Some(circuit)) if !last => circuit.phase.step(Step::Loss),
            _ => {}
        }
    }

    fn class4_cell(&mut self, now: Instant, vc: Vc, chunk: &[u8; PAYLOAD_BYTES]) {
        let pdu = SarPdu::new_unchecked(&chunk[..]);
        let Ok(repr) = SarRepr::parse(&pdu) else {
            self.stats.cells_bad_segment += 1;
            return;
        };
        let segment = &pdu.segment()[..usize::from(repr.payload_bytes)];
        let stream = Stream {
            vc,
            mid: Some(repr.mid),
        };
        let open = self.datagrams.lookup((vc, repr.mid)).copied();
        match (open, repr.segment_type) {
            (None, SegmentType::Com | SegmentType::Eom) => self.stats.cells_orphaned += 1,
            (Some(assembly), SegmentType::Com | SegmentType::Eom) => {
                self.go_on(stream, assembly, repr, segment);
            }
            (open, SegmentType::Bom | SegmentType::Ssm) => {
                if let Some(assembly) = open {
                    self.give_up(stream, assembly, Loss::Interrupted);
                }
                self.start(now, stream, repr, segment);
            }
        }
    }

    /// A segment that begins a datagram. One that is the whole takes no place in the CAM.
    fn start(&mut self, now: Instant, stream: Stream, repr: SarRepr, segment: &[u8]) {
        let key = (stream.vc, repr.mid);
        if repr.segment_type == SegmentType::Bom && self.datagrams.is_full() {
            self.stats.pdus_begun += 1;
            self.stats.cells_refused += 1;
            let places = self.config.datagrams;
            return self.lost(stream, Loss::TableFull { places });
        }
        let next_sequence = (repr.sequence + 1) % SEQUENCE_MODULUS;
        match self.begin(now, stream, next_sequence, segment) {
            Some(assembly) if repr.segment_type.ends() => self.complete(stream, assembly),
            Some(assembly) => self.datagrams.insert(key, assembly),
            None => {}
        }
    }

    /// A segment of an open datagram.
    fn go_on(&mut self, stream: Stream, assembly: Assembly, repr: SarRepr, segment: &[u8]) {
        let (expected, found) = (assembly.next_sequence, repr.sequence);
        if self.config.check_sequence && expected != found {
            self.stats.cells_refused += 1;
            return self.give_up(stream, assembly, Loss::Sequence { expected, found });
        }
        if repr.is_abort() {
            self.stats.cells_taken += 1;
            return self.give_up(stream, assembly, Loss::Aborted);
        }
        let key = (stream.vc, repr.mid);
        match self.join(stream, assembly, segment) {
            Some(joined) if repr.segment_type.ends() => {
                self.datagrams.remove(key);
                self.complete(stream, joined);
            }
            Some(joined) => {
                if let Some(open) = self.datagrams.found(key) {
                    *open = Assembly {
                        next_sequence: (found + 1) % SEQUENCE_MODULUS,
                        ..joined
                    };
                }
            }
            None => {
                self.datagrams.remove(key);
            }
        }
    }

    /// The first cell of a datagram: a new list. None where the datagram is lost at once.
    fn begin(
        &mut self,
        now: Instant,
        stream: Stream,
        next_sequence: u8,
        bytes: &[u8],
    ) -> Option<Assembly> {
        self.stats.pdus_begun += 1;
        let Some(list) = self.lists.create() else {
            self.stats.cells_refused += 1;
            self.lost(stream, Loss::NoBuffer);
            return None;
        };
        let assembly = Assembly {
            list,
            bytes: 0,
            next_sequence,
            deadline: self.deadlines.start(now, stream),
        };
        self.join(stream, assembly, bytes)
    }

    /// One more cell of a datagram. None where that ended it.
    fn join(&mut self, stream: Stream, assembly: Assembly, bytes: &[u8]) -> Option<Assembly> {
        let limit_bytes = self.config.pdu_bytes;
        let loss = if bytes.len() > limit_bytes.saturating_sub(assembly.bytes) {
            Loss::TooLong { limit_bytes }
        } else if self.lists.append(assembly.list, bytes) {
            self.stats.cells_taken += 1;
            let bytes = assembly.bytes + bytes.len();
            return Some(Assembly { bytes, ..assembly });
        } else {
            Loss::NoBuffer
        };
        self.stats.cells_refused += 1;
        self.drop_assembly(stream, assembly);
        self.lost(stream, loss);
        None
    }

    fn complete(&mut self, stream: Stream, assembly: Assembly) {
        self.deadlines.stop(assembly.deadline, stream);
        let result = Ok(assembly.list);
        self.completions.push_back(Completion { stream, result });
    }

    /// Gives up a datagram that is open in the datagram CAM.
    fn give_up(&mut self, stream: Stream, assembly: Assembly, loss: Loss) {
        if let Some(mid) = stream.mid {
            self.datagrams.remove((stream.vc, mid));
        }
        self.drop_assembly(stream, assembly);
        self.lost(stream, loss);
    }

    fn drop_assembly(&mut self, stream: Stream, assembly: Assembly) {
        self.deadlines.stop(assembly.deadline, stream);
        self.lists.release(assembly.list);
    }

    fn lost(&mut self, stream: Stream, loss: Loss) {
        self.stats.pdus_lost.count(loss);
        let result = Err(loss);
        self.completions.push_back(Completion { stream, result });
    }

    /// Takes what is open on a stream out of the tables, for a reason of the host.
    fn withdraw(&mut self, stream: Stream, step: Step, loss: Loss) -> bool {
        let open = match stream.mid {
            Some(mid) => self.datagrams.lookup((stream.vc, mid)).copied(),
            None => self.circuits.lookup(stream.vc).and_then(|circuit| {
                circuit.phase.step(step);
                circuit.assembly.take()
            }),
        };
        let Some(assembly) = open else {
            return false;
        };
        self.give_up(stream, assembly, loss);
        true
    }

    /// The host's part: reads a list and checks the PDU.
    fn read_pdu(&mut self, stream: Stream, list: ListRef, pdu: &mut Vec<u8>) -> Report {
        while let Some(body) = self.read(list) {
            pdu.extend_from_slice(body.bytes());
        }
        let result = unwrap_pdu(stream.aal(), pdu);
        match result {
            Ok(_) => self.stats.pdus_delivered += 1,
            Err(loss) => {
                self.stats.pdus_lost.count(loss);
                pdu.clear();
            }
        }
        Report { stream, result }
    }
}

impl Reassembler for Penn {
    fn open(&mut self, vc: Vc, aal: Aal) -> Result<(), OpenError> {
        if self.circuits.lookup(vc).is_some() {
            return Err(OpenError::AlreadyOpen(vc));
        }
        if self.circuits.is_full() {
            let places = self.config.circuits;
            return Err(OpenError::TableFull { places });
        }
        let circuit = Circuit {
            aal,
            phase: Phase::Idle,
            assembly: None,
        };
        self.circuits.insert(vc, circuit);
        Ok(())
    }

    fn flush_vc(&mut self, vc: Vc) -> bool {
        let Some(circuit) = self.circuits.remove(vc) else {
            return false;
        };
        if let Some(assembly) = circuit.assembly {
            self.give_up(Stream { vc, mid: None }, assembly, Loss::Flushed);
        }
        let all = (vc, 0)..=(vc, u16::MAX);
        let open: Vec<_> = self.datagrams.range(all).collect();
        for ((vc, mid), assembly) in open {
            let mid = Some(mid);
            self.give_up(Stream { vc, mid }, assembly, Loss::Flushed);
        }
        true
    }

    fn flush_datagram(&mut self, stream: Stream) -> bool {
        self.withdraw(stream, Step::Flush, Loss::Flushed)
    }

    fn handle_cell(&mut self, now: Instant, cell: &[u8; CELL_BYTES]) {
        self.stats.cells += 1;
        let cell = Cell::new_unchecked(&cell[..]);
        let Ok(header) = HeaderRepr::from_bytes(&cell.header_bytes(), self.config.interface) else {
            self.stats.cells_bad_header += 1;
            return;
        };
        // The class of a circuit stands in the CAM. The hardware has the CRC-10 of every
        // cell by then; here it is only computed where it counts.
        let Some(aal) = self.circuits.lookup(header.vc).map(|circuit| circuit.aal) else {
            self.stats.cells_unknown_vc += 1;
            return;
        };
        if !header.payload_type.is_user() {
            self.stats.cells_not_user += 1;
            return;
        }
        let last = header.payload_type.auu();
        match aal {
            Aal::Aal5 => self.aal5_cell(now, header.vc, last, cell.payload()),
            Aal::Aal34 => self.class4_cell(now, header.vc, cell.payload()),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let after = self.deadlines.timeout();
        while let Some(stream) = self.deadlines.due(now) {
            self.withdraw(stream, Step::Timeout, Loss::TimedOut { after });
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    fn poll(&mut self, payload: &mut Vec<u8>) -> Option<Report> {
        payload.clear();
        let Completion { stream, result } = self.poll_completion()?;
        Some(match result {
            Ok(list) => self.read_pdu(stream, list, payload),
            Err(loss) => Report {
                stream,
                result: Err(loss),
            },
        })
    }

    fn open_pdus(&self) -> usize {
        let whole_circuits = self.circuits.values();
        let aal5 = whole_circuits.filter(|circuit| circuit.assembly.is_some());
        aal5.count() + self.datagrams.len()
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}
