//! The straightforward reassembler: each open message grows in one contiguous buffer.
//!
//! Circuits are found by VC; with AAL3/4 the MID indexes a table of the circuit. Buffers
//! are handed to the host whole and come back when it polls again, so that in a steady
//! state nothing is allocated. The states are those of the parent's header.
//! Source: itu-i363-3 and itu-i363-5, receiver procedures.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use barewire_formats::aal5;
use barewire_formats::aal34::{MID_MAX, SEQUENCE_MODULUS, SarPdu, SarRepr};
use barewire_formats::atm::{
    CELL_BYTES, Cell, HEADER_BYTES, HeaderRepr, Interface, PAYLOAD_BYTES, Vc,
};
use barewire_units::{Duration, Instant};

use barewire_units::Deadlines;

use super::slab::Slab;
use super::{
    Aal, Delivered, Loss, OpenError, Phase, Reassembler, Report, Stats, Step, Stream, unwrap_pdu,
};

/// How much a [`Pool`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Which headers the cells have.
    pub interface: Interface,
    /// Circuits open at once.
    pub vcs: usize,
    /// Messages open at once, over all circuits and MIDs.
    pub open_pdus: usize,
    /// Bytes of one PDU, with all that surrounds the payload.
    pub pdu_bytes: usize,
    /// Bytes of all messages, open or not yet polled.
    pub buffer_bytes: usize,
    /// From the first cell of a message to its last; [`Duration::MAX`] for ever.
    pub timeout: Duration,
}

impl Default for PoolConfig {
    /// Room for a thousand circuits and 16 MiB; ours to choose, no standard says.
    fn default() -> Self {
        Self {
            interface: Interface::Uni,
            vcs: 1024,
            open_pdus: 1024,
            pdu_bytes: aal5::PDU_BYTES_MAX,
            buffer_bytes: 16 << 20,
            timeout: Duration::from_s(1),
        }
    }
}

/// A circuit: what is open on it, by MID, or in the one place of AAL5.
struct Circuit {
    aal: Aal,
    open: Vec<Option<u32>>,
    phase: Phase,
}

impl Circuit {
    /// The place of a MID, or of AAL5. None where such a stream can not be here.
    fn place(&mut self, mid: Option<u16>) -> Option<&mut Option<u32>> {
        match (self.aal, mid) {
            (Aal::Aal34, Some(mid)) => self.open.get_mut(usize::from(mid)),
            (Aal::Aal5, None) => self.open.first_mut(),
            _ => None,
        }
    }
}

/// A message that is not complete.
struct Partial {
    circuit: u32,
    stream: Stream,
    pdu: Vec<u8>,
    next_sequence: u8,
    deadline: Instant,
}

/// Where the cells with one header go.
#[derive(Clone, Copy)]
struct Route {
    header: [u8; HEADER_BYTES],
    circuit: u32,
    vc: Vc,
    aal: Aal,
    last: bool,
}

/// The message of AAL5 to which the last cell was added, and which is still open. Of the next
/// cell, if it has the same header, only the bytes are new: its HEC is good, its circuit open,
/// it is not the last of the message, and in phase Open such a cell leads to Open.
struct Run {
    /// See [`header_number`].
    header: u64,
    partial: u32,
    /// That of the message, which has none meanwhile.
    pdu: Vec<u8>,
    /// How long `pdu` was when the run began. What came since is not counted yet.
    counted_bytes: usize,
    /// How long `pdu` may become.
    pdu_bytes_max: usize,
}

impl Run {
    fn uncounted_bytes(&self) -> usize {
        self.pdu.len() - self.counted_bytes
    }

    fn uncounted_cells(&self) -> u64 {
        (self.uncounted_bytes() / PAYLOAD_BYTES) as u64
    }
}

/// The header of a cell as a number, in one load.
#[inline]
const fn header_number(cell: &[u8; CELL_BYTES]) -> u64 {
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = *cell;
    // The bytes of the payload are shifted out.
    u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]) << 24
}

/// The straightforward reassembler.
pub struct Pool {
    config: PoolConfig,
    places: BTreeMap<Vc, u32>,
    circuits: Slab<Circuit>,
    partials: Slab<Partial>,
    deadlines: Deadlines<u32>,
    /// Cells come in runs with one header, which need only be understood once.
    route: Option<Route>,
    /// It ends with any cell that does not continue it, and when any message is closed.
    run: Option<Run>,
    ready: VecDeque<(Report, Vec<u8>)>,
    held_bytes: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    stats: Stats,
}

impl Pool {
    /// One that holds nothing.
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        Self {
            config,
            places: BTreeMap::new(),
            circuits: Slab::new(config.vcs),
            partials: Slab::new(config.open_pdus),
            deadlines: Deadlines::new(config.timeout),
            route: None,
            run: None,
            ready: VecDeque::new(),
            held_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            stats: Stats::default(),
        }
    }

    /// Bytes of all messages, open or not yet polled.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let of_run = self.run.as_ref().map_or(0, Run::uncounted_bytes);
        self.held_bytes + of_run
    }

    /// Where a cell with this header goes. A header equal to the last good one needs no
    /// second look.
    #[inline]
    fn route(&mut self, header: [u8; HEADER_BYTES]) -> Option<Route> {
        match self.route {
            Some(route) if route.header == header => Some(route),
            _ => self.find_route(header),
        }
    }

    fn find_route(&mut self, header: [u8; HEADER_BYTES]) -> Option<Route> {
        let Ok(repr) = HeaderRepr::from_bytes(&header, self.config.interface) else {
            self.stats.cells_bad_header += 1;
            return None;
        };
        let Some(&number) = self.places.get(&repr.vc) else {
            self.stats.cells_unknown_vc += 1;
            return None;
        };
        if !repr.payload_type.is_user() {
            self.stats.cells_not_user += 1;
            return None;
        }
        self.route = Some(Route {
            header,
            circuit: number,
            vc: repr.vc,
            aal: self.circuits.get(number)?.aal,
            last: repr.payload_type.auu(),
        });
        self.route
    }

    /// Adds a cell to the run. False, and nothing done, where it does not continue the run.
    #[inline]
    fn continue_run(&mut self, cell: &[u8; CELL_BYTES]) -> bool {
        let Some(run) = &mut self.run else {
            return false;
        };
        let fits = run.pdu.len() + PAYLOAD_BYTES <= run.pdu_bytes_max;
        if !fits || run.header != header_number(cell) {
            return false;
        }
        let cell = Cell::new_unchecked(&cell[..]);
        run.pdu.extend_from_slice(cell.payload());
        true
    }

    /// The cells that follow may be of the same message.
    fn begin_run(&mut self, number: u32, header: u64) {
        let Some(partial) = self.partials.get_mut(number) else {
            return;
        };
        let pdu = mem::take(&mut partial.pdu);
        // Until the run ends, only a poll changes `held_bytes`, and makes it less.
        let room = self.config.buffer_bytes - self.held_bytes;
        self.run = Some(Run {
            header,
            partial: number,
            counted_bytes: pdu.len(),
            pdu_bytes_max: self.config.pdu_bytes.min(pdu.len() + room),
            pdu,
        });
    }

    /// Counts the cells of the run, and gives the message its buffer again.
    fn end_run(&mut self) {
        let Some(run) = self.run.take() else {
            return;
        };
        self.stats.cells += run.uncounted_cells();
        self.stats.cells_taken += run.uncounted_cells();
        self.held_bytes += run.uncounted_bytes();
        if let Some(partial) = self.partials.get_mut(run.partial) {
            partial.pdu = run.pdu;
        }
    }

    /// A cell that continues no run.
    fn handle_other_cell(&mut self, now: Instant, cell: &[u8; CELL_BYTES]) {
        self.end_run();
        self.stats.cells += 1;
        let header = header_number(cell);
        let cell = Cell::new_unchecked(&cell[..]);
        let Some(route) = self.route(cell.header_bytes()) else {
            return;
        };
        match route.aal {
            Aal::Aal5 => {
                if let Some(number) = self.aal5_cell(now, route, cell.payload()) {
                    self.begin_run(number, header);
                }
            }
            Aal::Aal34 => self.aal34_cell(now, route, cell.payload()),
        }
    }

    /// Adds a cell to its message. The number of the message, if it is open afterwards.
    fn aal5_cell(
        &mut self,
        now: Instant,
        route: Route,
        chunk: &[u8; PAYLOAD_BYTES],
    ) -> Option<u32> {
        let circuit = self.circuits.get_mut(route.circuit)?;
        let skipping = circuit.phase == Phase::Skipping;
        let open = circuit.open.first().copied().flatten();
        circuit.phase.step(if route.last {
            Step::LastCell
        } else {
            Step::Cell
        });
        if skipping {
            self.stats.cells_orphaned += 1;
            return None;
        }
        let stream = Stream {
            vc: route.vc,
            mid: None,
        };
        let number = open.or_else(|| self.begin(now, route, stream, 0));
        let Some(number) = number.filter(|number| self.append(*number, chunk)) else {
            self.lost_within(route);
            return None;
        };
        if route.last {
            self.finish(number);
            return None;
        }
        Some(number)
    }

    /// A message of AAL5 was given up at this cell: the rest of it goes too.
    fn lost_within(&mut self, route: Route) {
        if let (false, Some(circuit)) = (route.last, self.circuits.get_mut(route.circuit)) {
            circuit.phase.step(Step::Loss);
        }
    }

    fn aal34_cell(&mut self, now: Instant, route: Route, chunk: &[u8; PAYLOAD_BYTES]) {
        let pdu = SarPdu::new_unchecked(&chunk[..]);
        let Ok(repr) = SarRepr::parse(&pdu) else {
            self.stats.cells_bad_segment += 1;
            return;
        };
        let Some(number) = self.segment_goes_to(now, route, &repr) else {
            return;
        };
        if repr.is_abort() {
            self.stats.cells_taken += 1;
            return self.give_up(number, Loss::Aborted);
        }
        let taken = match repr.payload_bytes {
            // The usual length, known when compiled.
            44 => self.append(number, pdu.segment()),
            count => self.append(number, &pdu.segment()[..usize::from(count)]),
        };
        if taken && repr.segment_type.ends() {
            self.finish(number);
        }
    }

    /// The message that a segment belongs to, begun here where it begins one.
    fn segment_goes_to(&mut self, now: Instant, route: Route, repr: &SarRepr) -> Option<u32> {
        let circuit = self.circuits.get_mut(route.circuit)?;
        let open = *circuit.place(Some(repr.mid))?;
        if repr.segment_type.begins() {
            if let Some(number) = open {
                self.give_up(number, Loss::Interrupted);
            }
            let stream = Stream {
                vc: route.vc,
                mid: Some(repr.mid),
            };
            return self.begin(now, route, stream, (repr.sequence + 1) % SEQUENCE_MODULUS);
        }
        let Some(number) = open else {
            self.stats.cells_orphaned += 1;
            return None;
        };
        let partial = self.partials.get_mut(number)?;
        let (expected, found) = (partial.next_sequence, repr.sequence);
        if expected != found {
            self.stats.cells_refused += 1;
            self.give_up(number, Loss::Sequence { expected, found });
            return None;
        }
        partial.next_sequence = (found + 1) % SEQUENCE_MODULUS;
        Some(number)
    }

    fn begin(
        &mut self,
        now: Instant,
        route: Route,
        stream: Stream,
        next_sequence: u8,
    ) -> Option<u32> {
        self.stats.pdus_begun += 1;
        let pdu = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= pdu.capacity();
        let partial = Partial {
            circuit: route.circuit,
            stream,
            pdu,
            next_sequence,
            deadline: now,
        };
        match self.partials.insert(partial) {
            Ok(number) => {
                let deadline = self.deadlines.start(now, number);
                self.partials.get_mut(number)?.deadline = deadline;
                *self.circuits.get_mut(route.circuit)?.place(stream.mid)? = Some(number);
                Some(number)
            }
            Err(partial) => {
                self.recycle(partial.pdu);
                self.stats.cells_refused += 1;
                let places = self.config.open_pdus;
                self.report_loss(stream, Loss::TableFull { places });
                None
            }
        }
    }

    /// Adds a piece to a message. False where that ended it.
    #[inline]
    fn append(&mut self, number: u32, bytes: &[u8]) -> bool {
        let Some(partial) = self.partials.get_mut(number) else {
            return false;
        };
        let limit_bytes = self.config.pdu_bytes;
        let too_long = bytes.len() > limit_bytes.saturating_sub(partial.pdu.len());
        if too_long || bytes.len() > self.config.buffer_bytes - self.held_bytes {
            self.stats.cells_refused += 1;
            let loss = if too_long {
                Loss::TooLong { limit_bytes }
            } else {
                Loss::NoBuffer
            };
            self.give_up(number, loss);
            return false;
        }
        partial.pdu.extend_from_slice(bytes);
        self.held_bytes += bytes.len();
        self.stats.cells_taken += 1;
        true
    }

    /// Takes a message out of the tables.
    fn close(&mut self, number: u32) -> Option<Partial> {
        self.end_run();
        let partial = self.partials.remove(number)?;
        self.deadlines.stop(partial.deadline, number);
        self.held_bytes -= partial.pdu.len();
        let circuit = self.circuits.get_mut(partial.circuit);
        if let Some(place) = circuit.and_then(|circuit| circuit.place(partial.stream.mid)) {
            *place = None;
        }
        Some(partial)
    }

    fn give_up(&mut self, number: u32, loss: Loss) {
        if let Some(partial) = self.close(number) {
            self.recycle(partial.pdu);
            self.report_loss(partial.stream, loss);
        }
    }

    fn finish(&mut self, number: u32) {
        let Some(mut partial) = self.close(number) else {
            return;
        };
        match unwrap_pdu(partial.stream.aal(), &mut partial.pdu) {
            Ok(delivered) => {
                self.stats.pdus_delivered += 1;
                self.held_bytes += partial.pdu.len();
                self.report(partial.stream, Ok(delivered), partial.pdu);
            }
            Err(loss) => {
                self.recycle(partial.pdu);
                self.report_loss(partial.stream, loss);
            }
        }
    }

    fn report_loss(&mut self, stream: Stream, loss: Loss) {
        self.stats.pdus_lost.count(loss);
        self.report(stream, Err(loss), Vec::new());
    }

    fn report(&mut self, stream: Stream, result: Result<Delivered, Loss>, pdu: Vec<u8>) {
        self.ready.push_back((Report { stream, result }, pdu));
    }

    /// Keeps a buffer for the next message, as long as all of these are within bounds.
    fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare_bytes.saturating_add(buffer.capacity()) <= self.config.buffer_bytes {
            self.spare_bytes += buffer.capacity();
            self.spare.push(buffer);
        }
    }
}

impl Reassembler for Pool {
    fn open(&mut self, vc: Vc, aal: Aal) -> Result<(), OpenError> {
        if self.places.contains_key(&vc) {
            return Err(OpenError::AlreadyOpen(vc));
        }
        let places = match aal {
            Aal::Aal34 => usize::from(MID_MAX) + 1,
            Aal::Aal5 => 1,
        };
        let circuit = Circuit {
            aal,
            open: vec![None; places],
            phase: Phase::Idle,
        };
        let number = self
            .circuits
            .insert(circuit)
            .map_err(|_| OpenError::TableFull {
                places: self.config.vcs,
            })?;
        self.places.insert(vc, number);
        Ok(())
    }

    fn flush_vc(&mut self, vc: Vc) -> bool {
        let Some(number) = self.places.remove(&vc) else {
            return false;
        };
        self.route = None;
        if let Some(circuit) = self.circuits.remove(number) {
            for number in circuit.open.into_iter().flatten() {
                self.give_up(number, Loss::Flushed);
            }
        }
        true
    }

    fn flush_datagram(&mut self, stream: Stream) -> bool {
        let circuit = self.places.get(&stream.vc);
        let Some(circuit) = circuit.and_then(|number| self.circuits.get_mut(*number)) else {
            return false;
        };
        let Some(number) = circuit.place(stream.mid).and_then(|place| *place) else {
            return false;
        };
        circuit.phase.step(Step::Flush);
        self.give_up(number, Loss::Flushed);
        true
    }

    #[inline]
    fn handle_cell(&mut self, now: Instant, cell: &[u8; CELL_BYTES]) {
        if !self.continue_run(cell) {
            self.handle_other_cell(now, cell);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let after = self.deadlines.timeout();
        while let Some(number) = self.deadlines.due(now) {
            let circuit = self.partials.get(number).map(|partial| partial.circuit);
            if let Some(circuit) = circuit.and_then(|number| self.circuits.get_mut(number)) {
                circuit.phase.step(Step::Timeout);
            }
            self.give_up(number, Loss::TimedOut { after });
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    fn poll(&mut self, payload: &mut Vec<u8>) -> Option<Report> {
        payload.clear();
        let (report, pdu) = self.ready.pop_front()?;
        if report.result.is_ok() {
            self.held_bytes -= pdu.len();
            self.recycle(mem::replace(payload, pdu));
        }
        Some(report)
    }

    fn open_pdus(&self) -> usize {
        self.partials.len()
    }

    fn stats(&self) -> Stats {
        let of_run = self.run.as_ref().map_or(0, Run::uncounted_cells);
        Stats {
            cells: self.stats.cells + of_run,
            cells_taken: self.stats.cells_taken + of_run,
            ..self.stats
        }
    }
}
