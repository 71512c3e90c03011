//! The V1S station: four transmit FIFOs, one receive FIFO, and the interrupt conditions.
//!
//! What happens when a frame passes, in this order:
//!
//! | step | rule |
//! |---|---|
//! | release | own slots are emptied; they leave empty, for the next station that waits (OPEN) |
//! | receive | a cell on the receive channel whose VCI is known goes into the receive FIFO; where that is full it is lost, and counted |
//! | transmit | of the FIFOs that have a cell and find an empty slot, the one next in turn fills it; a half-duplex station does not while it receives (OPEN: receiving first) |
//! | false traffic | each generator whose cell is due fills an empty slot of its channel, without the memory |
//!
//! A cell received is in the FIFO when its last word is: [`Passage::received`] says when, and
//! [`Station::handle_arrival`] is to be called then. A cell that meets the interrupt
//! condition of its VCI sets the interrupt, which stays until [`Station::acknowledge`].
//!
//! The response bits are left out: MSDL does not look at them, and nothing is sent again.
//!
//! Source: cbn91, section on the station interface.

use std::collections::{BTreeMap, VecDeque};

use barewire_proto::msdl::InterruptOn;
use barewire_units::{Duration, Instant, Rng};
use barewire_wire::cbn::SLOTS;

use super::{Cell, Line, Ram, Slot, Slots};

/// Whether the buffer memory serves both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// One memory: the station receives or transmits in a frame, not both. The V1S.
    Half,
    /// A memory for each direction.
    Full,
}

/// What a station is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationConfig {
    /// Its number, which its slots bear.
    pub number: u16,
    /// The channel that it receives from, 0 to 3.
    pub receive_channel: usize,
    /// Cells that each FIFO holds.
    pub fifo_cells: usize,
    /// Its memory.
    pub duplex: Duplex,
    /// The line that it is attached to.
    pub line: Line,
}

/// A source of false traffic, which loads one channel of the ring and nothing else. Cells
/// that find no slot in time are sent as soon as they do: what is offered stays offered.
/// OPEN in the source: how the generators time their cells.
#[derive(Clone, Debug)]
pub struct Generator {
    /// What it sends.
    pub cell: Cell,
    /// Mean time from one cell to the next; zero fills every slot.
    pub interval: Duration,
    /// Draws the times, exponentially distributed; without it they are all equal.
    random: Option<Rng>,
    next_at: Instant,
}

impl Generator {
    /// A generator that begins at once and sends at equal intervals.
    #[must_use]
    pub const fn new(cell: Cell, interval: Duration) -> Self {
        Self {
            cell,
            interval,
            random: None,
            next_at: Instant::ORIGIN,
        }
    }

    /// A generator that sends at random, `interval` apart on average.
    #[must_use]
    pub fn random(cell: Cell, interval: Duration, mut rng: Rng) -> Self {
        Self {
            cell,
            interval,
            next_at: Instant::ORIGIN.saturating_add(exponential(&mut rng, interval)),
            random: Some(rng),
        }
    }

    fn sent(&mut self) {
        let gap = match &mut self.random {
            Some(rng) => exponential(rng, self.interval),
            None => self.interval,
        };
        self.next_at = self.next_at.saturating_add(gap);
    }
}

/// An exponentially distributed time, from comparisons alone and so the same everywhere: of
/// falling runs of random numbers, those of odd length begin with one that is so
/// distributed below 1; each run before it adds 1 (von Neumann, 1951).
fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    let mut whole = 0;
    loop {
        let first = rng.next_u64();
        let (mut least, mut length) = (first, 1);
        loop {
            let next = rng.next_u64();
            if next >= least {
                break;
            }
            least = next;
            length += 1;
        }
        if length % 2 == 1 {
            let part_ps = (u128::from(mean.as_ps()) * u128::from(first)) >> 64;
            let whole_ps = mean.as_ps().saturating_mul(whole);
            return Duration::from_ps(whole_ps.saturating_add(part_ps as u64));
        }
        whole += 1;
    }
}

/// What a station did to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// When the last word of a cell received will be in the FIFO.
    pub received: Option<Instant>,
    /// Slots emptied.
    pub released: usize,
    /// It sent a cell, a true one.
    pub transmitted: bool,
}

/// What a station has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationStats {
    /// Cells sent from the FIFOs.
    pub transmitted: u64,
    /// Cells of the generators sent.
    pub false_transmitted: u64,
    /// Cells received.
    pub received: u64,
    /// Cells lost because the receive FIFO was full.
    pub receive_overflows: u64,
    /// Cells lost because a transmit FIFO was full.
    pub transmit_overflows: u64,
}

/// What a station has counted of a circuit that it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitStats {
    /// Cells received, the last words of which may still be coming.
    pub received: u64,
    /// Cells lost because the receive FIFO was full.
    pub overflows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Circuit {
    condition: InterruptOn,
    stats: CircuitStats,
}

/// A station.
#[derive(Clone, Debug)]
pub struct Station {
    config: StationConfig,
    circuits: BTreeMap<u16, Circuit>,
    transmit: [VecDeque<Cell>; SLOTS],
    /// The FIFO whose turn it is.
    turn: usize,
    receive: VecDeque<Cell>,
    /// Cells received whose last word is not in the FIFO yet.
    arriving: VecDeque<Cell>,
    transmit_ram: Ram,
    /// The same memory as `transmit_ram`, if `None`.
    receive_ram: Option<Ram>,
    interrupt: bool,
    generators: [Option<Generator>; SLOTS],
    stats: StationStats,
}

impl Station {
    /// A station that knows no VCI. Channels above 3 are taken modulo 4.
    #[must_use]
    pub fn new(config: StationConfig) -> Self {
        let ram = Ram::new(config.line.word_time());
        Self {
            circuits: BTreeMap::new(),
            transmit: Default::default(),
            turn: 0,
            receive: VecDeque::new(),
            arriving: VecDeque::new(),
            receive_ram: (config.duplex == Duplex::Full).then(|| ram.clone()),
            transmit_ram: ram,
            interrupt: false,
            generators: [const { None }; SLOTS],
            stats: StationStats::default(),
            config,
        }
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> StationStats {
        self.stats
    }

    /// What it has counted of the circuit `vci`; nothing of one that it does not know.
    #[must_use]
    pub fn circuit(&self, vci: u16) -> CircuitStats {
        let circuit = self.circuits.get(&vci);
        circuit.map_or_else(CircuitStats::default, |circuit| circuit.stats)
    }

    /// Cells in the transmit FIFOs.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.transmit.iter().map(VecDeque::len).sum()
    }

    /// Whether the transmit FIFO of `channel` takes a cell, with `coming` on their way to it.
    #[must_use]
    pub fn has_room(&self, channel: usize, coming: usize) -> bool {
        self.transmit[channel % SLOTS].len() + coming < self.config.fifo_cells
    }

    /// Receives cells of `vci` from now on, and interrupts where `condition` says.
    pub fn listen(&mut self, vci: u16, condition: InterruptOn) {
        let stats = CircuitStats::default();
        self.circuits.insert(vci, Circuit { condition, stats });
    }

    /// Sends false traffic on `channel` from now on, or none.
    pub fn set_generator(&mut self, channel: usize, generator: Option<Generator>) {
        self.generators[channel % SLOTS] = generator;
    }

    /// The memory, as the processor meets it on its way to a transmit FIFO.
    pub fn transmit_ram(&mut self) -> &mut Ram {
        &mut self.transmit_ram
    }

    /// The memory, as the processor meets it on its way to the receive FIFO.
    pub fn receive_ram(&mut self) -> &mut Ram {
        self.receive_ram.as_mut().unwrap_or(&mut self.transmit_ram)
    }

    /// The last word of `cell` has been written into the FIFO of `channel`. A full FIFO loses
    /// it: nobody asks before writing, since the source takes sending to be always possible.
    pub fn handle_written(&mut self, channel: usize, cell: Cell) {
        let fifo = &mut self.transmit[channel % SLOTS];
        if fifo.len() < self.config.fifo_cells {
            fifo.push_back(cell);
        } else {
            self.stats.transmit_overflows += 1;
        }
    }

    /// A frame begins to pass.
    pub fn handle_frame(&mut self, now: Instant, slots: &mut Slots) -> Passage {
        let own = self.release(slots);
        let may_fill = |slots: &Slots, slot: usize| !own[slot] && slots[slot] == Slot::Empty;
        let received = self.receive(now, slots);
        let busy = received.is_some() && self.config.duplex == Duplex::Half;
        let channel = (self.turn..self.turn + SLOTS)
            .map(|channel| channel % SLOTS)
            .find(|&slot| !busy && !self.transmit[slot].is_empty() && may_fill(slots, slot));
        if let Some(channel) = channel {
            self.transmit(now, channel, slots);
        }
        self.generate(now, slots, may_fill);
        Passage {
            received,
            released: own.into_iter().filter(|&own| own).count(),
            transmitted: channel.is_some(),
        }
    }

    fn release(&self, slots: &mut Slots) -> [bool; SLOTS] {
        let number = self.config.number;
        let mut own = [false; SLOTS];
        for (slot, own) in slots.iter_mut().zip(&mut own) {
            *own = matches!(slot, Slot::Full { sender, .. } if *sender == number);
            if *own {
                *slot = Slot::Empty;
            }
        }
        own
    }

    fn receive(&mut self, now: Instant, slots: &Slots) -> Option<Instant> {
        let Slot::Full { cell, .. } = &slots[self.config.receive_channel % SLOTS] else {
            return None;
        };
        let circuit = self.circuits.get_mut(&cell.msdl.vci)?;
        if self.receive.len() + self.arriving.len() >= self.config.fifo_cells {
            self.stats.receive_overflows += 1;
            circuit.stats.overflows += 1;
            return None;
        }
        circuit.stats.received += 1;
        self.arriving.push_back(cell.clone());
        let words = self.config.line.cell_words();
        Some(self.receive_ram().access(now, words))
    }

    fn transmit(&mut self, now: Instant, channel: usize, slots: &mut Slots) {
        let Some(cell) = self.transmit[channel].pop_front() else {
            return;
        };
        self.transmit_ram.access(now, self.config.line.cell_words());
        self.turn = (channel + 1) % SLOTS;
        self.stats.transmitted += 1;
        slots[channel] = Slot::Full {
            sender: self.config.number,
            cell,
        };
    }

    fn generate(
        &mut self,
        now: Instant,
        slots: &mut Slots,
        may_fill: impl Fn(&Slots, usize) -> bool,
    ) {
        for channel in 0..SLOTS {
            let Some(generator) = &mut self.generators[channel] else {
                continue;
            };
            if generator.next_at > now || !may_fill(slots, channel) {
                continue;
            }
            generator.sent();
            self.stats.false_transmitted += 1;
            slots[channel] = Slot::Full {
                sender: self.config.number,
                cell: generator.cell.clone(),
            };
        }
    }

    /// The last word of a cell is in the receive FIFO.
    pub fn handle_arrival(&mut self) {
        let Some(cell) = self.arriving.pop_front() else {
            return;
        };
        self.stats.received += 1;
        let circuit = self.circuits.get(&cell.msdl.vci);
        self.interrupt |= circuit.is_some_and(|circuit| circuit.condition.matches(cell.msdl));
        self.receive.push_back(cell);
    }

    /// Whether the interrupt is set.
    #[must_use]
    pub const fn interrupt(&self) -> bool {
        self.interrupt
    }

    /// Takes the interrupt back.
    pub fn acknowledge(&mut self) {
        self.interrupt = false;
    }

    /// Cells in the receive FIFO.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.receive.len()
    }

    /// The last word of the cell at the head of the receive FIFO has been read: it is gone.
    pub fn handle_read(&mut self) -> Option<Cell> {
        self.receive.pop_front()
    }
}
